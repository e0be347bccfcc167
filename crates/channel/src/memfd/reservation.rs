//! Address reservation: a window of addresses that nothing else in the process can get, for memory
//! that must be at the same address in two processes.

use super::{OwnedPages, PAGE_BYTES};
use core::ptr::NonNull;
use locks::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

/// How addresses without memory are mapped.
const NOTHING: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

/// A reserved window of addresses: mapped without access, taking no memory. Pieces of it are
/// replaced by files with [`Reservation::map`]; it is released when the last piece and the last
/// handle are gone.
#[derive(Debug)]
pub struct Reservation {
    pages: OwnedPages,
    /// Pieces in use: offset to length, bytes.
    used: Mutex<BTreeMap<usize, usize>>,
}

impl Reservation {
    /// Reserves `bytes` bytes at `address`, both multiples of a page.
    ///
    /// # Errors
    /// `AlreadyExists` if the process uses a part of it.
    pub fn at(address: u64, bytes: u64) -> io::Result<Arc<Self>> {
        if address == 0 || !address.is_multiple_of(PAGE_BYTES) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{address:#x} is no address of a page"),
            ));
        }
        Self::reserve(address, bytes, libc::MAP_FIXED_NOREPLACE)
    }

    /// Reserves `bytes` bytes, a multiple of a page, wherever there is room.
    pub fn anywhere(bytes: u64) -> io::Result<Arc<Self>> {
        Self::reserve(0, bytes, 0)
    }

    fn reserve(address: u64, bytes: u64, flag: i32) -> io::Result<Arc<Self>> {
        if bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{bytes} bytes are not a number of pages"),
            ));
        }
        let pages = OwnedPages::map(address, bytes, libc::PROT_NONE, NOTHING | flag, -1)?;
        let window = Arc::new(Self { pages, used: Mutex::default() });
        if flag != 0 && window.address() != address {
            // A kernel older than 4.17 takes the address for a hint; `window` is unmapped here.
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(window)
    }

    /// Its first address.
    pub fn address(&self) -> u64 {
        self.pages.base.as_ptr().addr() as u64
    }

    /// Its length in bytes.
    pub const fn bytes(&self) -> u64 {
        self.pages.bytes as u64
    }

    /// True if the whole range lies in the window.
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        self.offset(address, bytes).is_some()
    }

    fn offset(&self, address: u64, bytes: u64) -> Option<usize> {
        let offset = address.checked_sub(self.address())?;
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes()).then_some(offset as usize)
    }

    /// Puts the first `bytes` bytes of a file, whose seals and size were checked, at `address` in the
    /// window, readable and writable, shared. They go back to it by [`Self::take_back`].
    pub(super) fn place(
        &self,
        fd: BorrowedFd<'_>,
        address: u64,
        bytes: u64,
    ) -> io::Result<(NonNull<u8>, usize)> {
        let invalid = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{bytes} bytes at {address:#x} are not pages of the window"),
            )
        };
        let whole = address.is_multiple_of(PAGE_BYTES) && bytes.is_multiple_of(PAGE_BYTES);
        let offset = self.offset(address, bytes).filter(|_| whole && bytes > 0);
        let offset = offset.ok_or_else(invalid)?;
        // Inside the window, so it fits.
        let length = bytes as usize;

        let mut used = self.used.lock();
        let before = used.range(..offset + length).next_back();
        if before.is_some_and(|(start, bytes)| start + bytes > offset) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let base = self.pages.base.map_addr(|address| address.saturating_add(offset));
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        Self::replace(base, length, rights, libc::MAP_SHARED, fd.as_raw_fd())?;
        used.insert(offset, length);
        Ok((base, length))
    }

    /// Makes a mapping's addresses inaccessible again and free for others.
    pub(super) fn take_back(&self, base: NonNull<u8>, bytes: usize) {
        let mut used = self.used.lock();
        // If even that fails (no more mappings allowed), the range stays in use: it can still be
        // read, and no other memory is mapped there.
        if Self::replace(base, bytes, libc::PROT_NONE, NOTHING, -1).is_ok() {
            used.remove(&(base.as_ptr().addr() - self.pages.base.as_ptr().addr()));
        }
    }

    /// Maps something else at a range of the window.
    fn replace(
        base: NonNull<u8>,
        bytes: usize,
        protection: i32,
        flags: i32,
        fd: RawFd,
    ) -> io::Result<()> {
        let base = base.as_ptr().cast();
        // SAFETY: no mapping uses a part of the range, or the one that has it ends.
        let result = unsafe { libc::mmap(base, bytes, protection, flags | libc::MAP_FIXED, fd, 0) };
        if result == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::create_sealed;
    use super::*;
    use crate::memfd::{FileError, Mapping, Seals};
    use core::sync::atomic::Ordering::Relaxed;

    fn kind(result: Result<Mapping, FileError>) -> io::ErrorKind {
        match result {
            Err(FileError::Io(error)) => error.kind(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pieces_are_mapped_where_they_were_asked_for_and_given_back() {
        let window = Reservation::anywhere(64 * PAGE_BYTES).unwrap();
        let fd = create_sealed(c"test", 4 * PAGE_BYTES, Seals::SIZE).unwrap();
        let at = window.address() + 8 * PAGE_BYTES;
        let piece = window.map(&fd, at, 4 * PAGE_BYTES).unwrap();
        assert_eq!((piece.address(), piece.bytes()), (at, 4 * PAGE_BYTES));
        piece.byte(0).store(9, Relaxed);
        for overlap in [at, at - PAGE_BYTES, at + 3 * PAGE_BYTES] {
            let result = window.map(&fd, overlap, 4 * PAGE_BYTES);
            assert_eq!(kind(result), io::ErrorKind::AlreadyExists);
        }
        let beside = window.map(&fd, at + 4 * PAGE_BYTES, 4 * PAGE_BYTES).unwrap();
        assert_eq!(beside.byte(0).load(Relaxed), 9, "it is the same file");
        drop(piece);
        window.map(&fd, at - PAGE_BYTES, 4 * PAGE_BYTES).unwrap();
    }

    #[test]
    fn nothing_is_mapped_outside_of_a_window() {
        let window = Reservation::anywhere(4 * PAGE_BYTES).unwrap();
        let fd = create_sealed(c"test", 4 * PAGE_BYTES, Seals::SIZE).unwrap();
        let bytes = 4 * PAGE_BYTES;
        for address in [0, 1, window.address() + 1, window.address() + PAGE_BYTES, u64::MAX] {
            assert_eq!(kind(window.map(&fd, address, bytes)), io::ErrorKind::InvalidInput);
        }
        assert!(matches!(
            window.map(&fd, window.address(), PAGE_BYTES),
            Err(FileError::Size { .. })
        ));
    }

    #[test]
    fn addresses_in_use_are_not_reserved_again() {
        let window = Reservation::anywhere(16 * PAGE_BYTES).unwrap();
        let error = Reservation::at(window.address() + PAGE_BYTES, PAGE_BYTES).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(Reservation::at(12345, PAGE_BYTES).is_err());
        assert!(Reservation::anywhere(5).is_err());
    }
}
