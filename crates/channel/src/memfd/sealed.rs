//! Files whose content cannot change any more: the one kind of shared memory that is plain bytes.

use super::{FileError, Mapping, Seals, check, create, seal};
use crate::system;
use core::ops::Deref;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

/// Largest image that travels, bytes: the largest fat binaries of libraries are a few hundred MiB.
pub const IMAGE_BYTES_MAX: u64 = 1 << 30;

/// Makes a file with those bytes and all seals, to be sent to a process that parses it.
///
/// # Errors
/// `InvalidInput` if there are more than [`IMAGE_BYTES_MAX`].
pub fn sealed_image(bytes: &[u8]) -> io::Result<OwnedFd> {
    if bytes.len() as u64 > IMAGE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("an image of {} bytes is above the maximum {IMAGE_BYTES_MAX}", bytes.len()),
        ));
    }
    let mut file = File::from(create(c"openmps-image", 0)?);
    system::may_reach(bytes.len() as u64)?;
    file.write_all(bytes)?;
    seal(&file, Seals::ALL)?;
    Ok(file.into())
}

/// The bytes of a file that no process can write, mapped.
#[derive(Debug)]
pub struct SealedBytes {
    mapping: Option<Mapping>,
}

impl SealedBytes {
    /// Opens a file from a peer: at most `bytes_max` bytes, sealed against writing and changes of
    /// size.
    pub fn open(fd: impl AsFd, bytes_max: u64) -> Result<Self, FileError> {
        let bytes = check(&fd, Seals::CONSTANT, 0, bytes_max)?;
        // Nothing can be mapped of an empty file.
        let mapping = match bytes {
            0 => None,
            _ => Some(Mapping::anywhere(fd.as_fd(), bytes, libc::PROT_READ)?),
        };
        Ok(Self { mapping })
    }
}

impl Deref for SealedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.mapping {
            // SAFETY: `open` checked that the file has these bytes, that its size and content are
            // sealed for good, and mapped it readable; the mapping lives as long as `self`.
            Some(mapping) => unsafe {
                core::slice::from_raw_parts(mapping.base().as_ptr(), mapping.bytes() as usize)
            },
            None => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::create_sealed;
    use super::*;

    #[test]
    fn an_image_is_read_as_it_was_written() {
        for length in [0, 1, 4096, 100_001] {
            let bytes: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let fd = sealed_image(&bytes).unwrap();
            assert_eq!(SealedBytes::open(&fd, 1 << 20).unwrap()[..], bytes[..]);
            assert!(File::from(fd).write_all(&[1]).is_err());
        }
    }

    #[test]
    fn what_can_still_change_is_refused() {
        let fd = create_sealed(c"test", 4096, Seals::SIZE).unwrap();
        assert!(matches!(SealedBytes::open(&fd, 4096), Err(FileError::Unsealed { .. })));
        let fd = sealed_image(&[1; 100]).unwrap();
        assert!(matches!(SealedBytes::open(&fd, 99), Err(FileError::Size { .. })));
    }
}
