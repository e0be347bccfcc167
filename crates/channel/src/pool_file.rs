//! Pool file: the file that a program hands to another process to share a pool of memory.
//!
//! It holds nothing but the pool's number, which no process can guess: a process that has the file
//! was given the pool. The pool's blocks, which are handed over one by one, carry the same number.

use crate::system;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::rand::GetRandomFlags;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};

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

/// The number in a pool's file; `None` for any other file.
pub fn number_in(fd: BorrowedFd<'_>) -> Option<u64> {
    let mut bytes = [0u8; 16];
    let read = rustix::io::pread(fd, &mut bytes, 0);
    let (magic, number) = bytes.split_at(8);
    (read == Ok(bytes.len()) && magic == MAGIC)
        .then(|| u64::from_le_bytes(number.try_into().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_pools_file_says_which_one_it_is_and_no_other_file_does() {
        let number = new_number().unwrap();
        assert_ne!(number, new_number().unwrap());
        let file = create(number).unwrap();
        assert_eq!(number_in(file.as_fd()), Some(number));
        let other = File::open("/proc/self/exe").unwrap();
        assert_eq!(number_in(other.as_fd()), None);
    }
}
