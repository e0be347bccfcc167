//! Pool file: the file that a program hands to another process to share a pool of memory.
//!
//! It holds nothing but the pool's number, which no process can guess: a process that has the file
//! was given the pool. The pool's blocks, which are handed over one by one, carry the same number.

use crate::system;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::rand::GetRandomFlags;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

/// The beginning of a pool's file.
const MAGIC: [u8; 8] = *b"OMPSPOOL";

/// A random number, which no process can guess.
pub fn new_number() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // So few bytes come whole.
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A new file for the pool of that number.
pub fn create(number: u64) -> io::Result<OwnedFd> {
    system::may_reach((MAGIC.len() + size_of_val(&number)) as u64)?;
    let mut file = File::from(memfd_create(c"openmps-pool", MemfdFlags::CLOEXEC)?);
    file.write_all(&MAGIC)?;
    file.write_all(&number.to_le_bytes())?;
    Ok(file.into())
}

/// The number in a pool's file; `None` for any other file, or a descriptor that is not open.
pub fn number_in(fd: RawFd) -> Option<u64> {
    if fd < 0 {
        return None;
    }
    // SAFETY: the borrow ends with this call; descriptors that are not open answer an error.
    let copy = fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(fd) }, 0).ok()?;
    let file = File::from(copy);
    let mut bytes = [0u8; 16];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let (magic, number) = bytes.split_at(8);
    (magic == MAGIC).then(|| u64::from_le_bytes(number.try_into().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_pools_file_says_which_one_it_is_and_no_other_file_does() {
        let number = new_number().unwrap();
        assert_ne!(number, new_number().unwrap());
        let file = create(number).unwrap();
        assert_eq!(number_in(file.as_raw_fd()), Some(number));
        let other = File::open("/proc/self/exe").unwrap();
        assert_eq!(number_in(other.as_raw_fd()), None);
        assert_eq!(number_in(-1), None);
    }
}
