//! Cache keys: hashes of everything that native code depends on.

use sha2::{Digest, Sha256};
use simt::ir::vector::VectorFunction;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A digest of all that decides what the code is. Programs choose the content, so it is one that
/// no two contents can be found for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 32]);

impl Key {
    /// The key of a function's code: `isa` names the generator and what of the processor it
    /// makes use of.
    pub(crate) fn of(function: &VectorFunction, isa: &str) -> Self {
        let mut content = Content::default();
        env!("OPENMPS_CODE_SOURCES").hash(&mut content);
        isa.hash(&mut content);
        function.hash(&mut content);
        Self::of_bytes(&content.0)
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Everything that is hashed, one after the other.
#[derive(Default)]
struct Content(Vec<u8>);

impl Hasher for Content {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Unused: the content is what counts.
    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simt::ir::vector::Mode;

    fn function(name: &str) -> VectorFunction {
        VectorFunction {
            name: name.to_owned(),
            mode: Mode::Lockstep,
            classes: Vec::new(),
            storage: Vec::new(),
            companions: Vec::new(),
            prologue: Vec::new(),
            blocks: Vec::new(),
            calls: Vec::new(),
            texts: Vec::new(),
            params: Vec::new(),
            results: Vec::new(),
            frame_bytes: 0,
        }
    }

    #[test]
    fn a_key_depends_on_the_function_and_the_flavour() {
        let key = Key::of(&function("a"), "avx512");
        assert!(key == Key::of(&function("a"), "avx512"));
        assert!(key != Key::of(&function("b"), "avx512"));
        assert!(key != Key::of(&function("a"), "avx2"));
        let mut framed = function("a");
        framed.frame_bytes = 16;
        assert!(key != Key::of(&framed, "avx512"));
    }
}
