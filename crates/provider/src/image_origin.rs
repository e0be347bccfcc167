//! Where an image of device code came from: the program or library in whose file it lies.
//!
//! For messages. Programs carry their images in their own file; frameworks in those of their
//! libraries, which the person who reads the message may not have built.

use crate::dynamic_library::file_of_address;
use locks::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where an image came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageOrigin {
    /// A program, a library, or a file that the program named.
    File(PathBuf),
    /// Memory that belongs to no file: code that was made or read at run time.
    Memory,
}

impl ImageOrigin {
    /// That of an image at an address of this process.
    pub fn of_address(address: usize) -> Self {
        file_of_address(address).map_or(Self::Memory, Self::File)
    }

    /// That of a file that the program named.
    pub fn of_file(path: &Path) -> Self {
        Self::File(path.to_owned())
    }

    /// True once in this process for each origin: what is said of an image is said of all in its file.
    pub fn is_new(&self) -> bool {
        static SEEN: Mutex<BTreeSet<ImageOrigin>> = Mutex::new(BTreeSet::new());
        let mut seen = SEEN.lock();
        seen.len() < ORIGINS_MAX && seen.insert(self.clone())
    }
}

/// Most origins of which something is said.
const ORIGINS_MAX: usize = 64;

impl fmt::Display for ImageOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Memory => f.write_str("code made at run time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_lies_in_its_program_and_the_heap_in_no_file() {
        static HERE: [u8; 4] = *b"here";
        let ImageOrigin::File(path) = ImageOrigin::of_address(HERE.as_ptr() as usize) else {
            panic!("a constant of this program is in no file");
        };
        let own = std::env::current_exe().unwrap();
        assert_eq!(path.file_name(), own.file_name());
        let heap = Box::new([0u8; 100]);
        assert_eq!(ImageOrigin::of_address(heap.as_ptr() as usize), ImageOrigin::Memory);
    }

    #[test]
    fn an_origin_is_new_once() {
        let (one, other) = (Path::new("/x/one"), Path::new("/x/other"));
        let new = |path: &Path| ImageOrigin::of_file(path).is_new();
        assert!(new(one) && !new(one) && new(other));
    }
}
