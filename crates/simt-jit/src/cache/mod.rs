//! Code cache: native code that was made before, found by its content.
//!
//! Many clients load the same kernels, and the same programs start again and again. A function's
//! code is a pure function of its vector IR, of the processor and of the sources of this project,
//! so it is made once: within the process it is shared while a module uses it, and a [`Store`]
//! keeps it for the next process.
//!
//! Deliberately absent: the front half's work. It takes less time than making code does, and what
//! it makes holds addresses of the module's variables.

mod key;
mod store;

pub(crate) use key::Key;
pub use store::{Store, Usage};

use crate::asm::code_memory::CodeMemory;
use locks::Mutex;
use simt_interpreter::tier1_abi::Abilities;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// A function's code as bytes that run anywhere: position-independent, tables first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// Tables and code.
    pub(crate) bytes: Vec<u8>,
    /// Where the code is entered.
    pub(crate) entry: u32,
    pub(crate) abilities: Abilities,
}

/// Code ready to run.
pub(crate) struct Code {
    pub(crate) memory: CodeMemory,
    pub(crate) entry: u32,
    pub(crate) abilities: Abilities,
}

impl Code {
    fn new(image: &Image) -> Option<Self> {
        let Image { entry, abilities, .. } = *image;
        Some(Self { memory: CodeMemory::new(&image.bytes)?, entry, abilities })
    }
}

/// The code of this process, and where it is kept for others.
#[derive(Default)]
pub struct Cache {
    in_use: Mutex<HashMap<Key, Weak<Code>>>,
    store: Option<Store>,
}

impl Cache {
    /// Shares code within the process, and through `store` with later ones.
    pub fn new(store: Option<Store>) -> Self {
        Self { in_use: Mutex::default(), store }
    }

    /// The code of that key, made now if it is not there. `None` if it cannot be made.
    ///
    /// Two threads that ask at the same time may both make it; the first one's is used.
    pub(crate) fn code(&self, key: Key, make: impl FnOnce() -> Option<Image>) -> Option<Arc<Code>> {
        if let Some(code) = self.lock().get(&key).and_then(Weak::upgrade) {
            return Some(code);
        }
        let image = match self.store.as_ref().and_then(|store| store.load(&key)) {
            Some(image) => image,
            None => {
                let image = make()?;
                if let Some(store) = &self.store {
                    store.save(&key, &image);
                }
                image
            }
        };
        let code = Arc::new(Code::new(&image)?);
        let mut in_use = self.lock();
        in_use.retain(|_, code| code.strong_count() > 0);
        if let Some(first) = in_use.get(&key).and_then(Weak::upgrade) {
            return Some(first);
        }
        in_use.insert(key, Arc::downgrade(&code));
        Some(code)
    }

    fn lock(&self) -> locks::MutexGuard<'_, HashMap<Key, Weak<Code>>> {
        self.in_use.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        Image { bytes: vec![0xc3; 16], entry: 0, abilities: Abilities::default() }
    }

    #[test]
    fn code_in_use_is_made_once() {
        let cache = Cache::default();
        let first = cache.code(Key::of_bytes(b"a"), || Some(image())).expect("made");
        let second = cache.code(Key::of_bytes(b"a"), || unreachable!("made before"));
        assert!(Arc::ptr_eq(&first, &second.expect("there")));
        assert!(cache.code(Key::of_bytes(b"b"), || None).is_none());
    }

    #[test]
    fn code_without_users_is_given_back() {
        let cache = Cache::default();
        drop(cache.code(Key::of_bytes(b"a"), || Some(image())));
        let mut made = false;
        let again = cache.code(Key::of_bytes(b"a"), || {
            made = true;
            Some(image())
        });
        assert!(again.is_some() && made);
        assert_eq!(cache.lock().len(), 1);
    }
}
