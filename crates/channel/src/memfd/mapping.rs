//! File mapping: a piece of a file in this process' address space, unmapped when dropped.
//!
//! It gives out addresses, not references: the memory may be shared with a peer or a device.

use super::{FileError, OwnedPages, PAGE_BYTES, Reservation, Seals, check};
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
    owner: Owner,
}

/// The owner of a mapping's addresses.
#[derive(Debug)]
enum Owner {
    Mapping {
        _pages: OwnedPages,
    },
    /// The window it was mapped into, which takes them back.
    Window(Arc<Reservation>),
}

// SAFETY: as for `OwnedPages`.
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
        OwnedPages::map(0, bytes, protection, libc::MAP_SHARED, fd.as_raw_fd()).map(Self::of)
    }

    /// Maps zeros, readable and writable, private, anywhere.
    pub fn anonymous(bytes: u64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        OwnedPages::map(0, bytes, protection, flags, -1).map(Self::of)
    }

    fn of(pages: OwnedPages) -> Self {
        let OwnedPages { base, bytes } = pages;
        Self { base, bytes, owner: Owner::Mapping { _pages: pages } }
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
        Ok(Mapping { base, bytes, owner: Owner::Window(Arc::clone(self)) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Owner::Window(window) = &self.owner {
            window.take_back(self.base, self.bytes);
        }
    }
}

const _: () = assert!(PAGE_BYTES.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::super::create_sealed;
    use super::*;
    use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

    impl Mapping {
        /// A byte of one that is readable and writable.
        pub(crate) fn byte(&self, offset: usize) -> &AtomicU8 {
            assert!(offset < self.bytes);
            // SAFETY: mapped for as long as it is borrowed, and tests use it by this alone.
            unsafe { AtomicU8::from_ptr(self.base.as_ptr().add(offset)) }
        }
    }

    #[test]
    fn two_mappings_show_one_file() {
        let fd = create_sealed(c"test", 8192, Seals::SIZE).unwrap();
        let one = Mapping::shared(&fd, 8192).unwrap();
        let two = Mapping::shared(&fd, 8192).unwrap();
        one.byte(5000).store(42, Relaxed);
        assert_eq!(two.byte(5000).load(Relaxed), 42);
        assert!(matches!(Mapping::shared(&fd, 4096), Err(FileError::Size { .. })));
    }
}
