//! File mapping: a piece of a file in this process' address space, unmapped when dropped.
//!
//! It gives out addresses, not references: the memory may be shared with a peer or a device.

use super::{FileError, PAGE_BYTES, Reservation, Seals, check};
use core::ptr::NonNull;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

/// Mapped memory. It is unmapped when dropped; what was mapped into a [`Reservation`] goes back to
/// it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// The window it was mapped into, which takes the addresses back.
    window: Option<Arc<Reservation>>,
}

// SAFETY: a mapping belongs to the process, not to a thread, and gives out raw addresses only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a whole file readable and writable, shared, anywhere. The file must be sealed against
    /// changes of size.
    pub fn shared(fd: impl AsFd, bytes: u64) -> Result<Self, FileError> {
        check(&fd, Seals::MAPPABLE, bytes, bytes)?;
        Ok(Self::anywhere(fd.as_fd(), bytes, libc::PROT_READ | libc::PROT_WRITE)?)
    }

    /// Maps the first `bytes` bytes of a file, whose seals and size were checked, anywhere.
    pub(super) fn anywhere(fd: BorrowedFd<'_>, bytes: u64, protection: i32) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let base = super::map_unused(0, bytes, protection, libc::MAP_SHARED, fd.as_raw_fd())?;
        Ok(Self { base, bytes, window: None })
    }

    /// Its first byte.
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its address as a number.
    pub fn address(&self) -> u64 {
        self.base.as_ptr().addr() as u64
    }

    /// Its length in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

impl Reservation {
    /// Maps a file of `bytes` bytes readable and writable, shared, at `address` in the window.
    /// Dropping the mapping gives the addresses back to the window.
    ///
    /// # Errors
    /// `InvalidInput` if the range is not whole pages inside the window, `AlreadyExists` if a part
    /// of it is in use, and what is wrong with the file.
    pub fn map(
        self: &Arc<Self>,
        fd: impl AsFd,
        address: u64,
        bytes: u64,
    ) -> Result<Mapping, FileError> {
        check(&fd, Seals::MAPPABLE, bytes, bytes)?;
        let (base, bytes) = self.place(fd.as_fd(), address, bytes)?;
        Ok(Mapping { base, bytes, window: Some(Arc::clone(self)) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        match &self.window {
            Some(window) => window.take_back(self.base, self.bytes),
            None => {
                // SAFETY: the range was mapped by `anywhere` for this value only.
                unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
            }
        }
    }
}

const _: () = assert!(PAGE_BYTES.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::super::create_sealed;
    use super::*;

    #[test]
    fn two_mappings_show_one_file() {
        let fd = create_sealed(c"test", 8192, Seals::SIZE).unwrap();
        let one = Mapping::shared(&fd, 8192).unwrap();
        let two = Mapping::shared(&fd, 8192).unwrap();
        // SAFETY: both addresses are mapped for 8192 bytes by the mappings above.
        unsafe {
            one.base().add(5000).write_volatile(42);
            assert_eq!(two.base().add(5000).read_volatile(), 42);
        }
        assert!(matches!(Mapping::shared(&fd, 4096), Err(FileError::Size { .. })));
    }
}
