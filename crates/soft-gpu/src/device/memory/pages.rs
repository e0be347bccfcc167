//! Pages: address space and memory from the operating system.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::device::limits::CHUNK_BYTES;
use simt::runtime::init_tracking::{PATTERN_BYTES, pattern};

const PRIVATE: i32 = libc::MAP_PRIVATE;

/// What may be done with pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nothing.
    None,
    /// Reading and writing.
    ReadWrite,
}

impl Protection {
    fn bits(self) -> i32 {
        match self {
            Self::None => libc::PROT_NONE,
            Self::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// Reserves `bytes` of address space without memory at a multiple of `align` (a power of two, at
/// least a page): at `wanted` if it is not 0 and free there, else anywhere.
pub fn reserve(wanted: u64, bytes: u64, align: u64) -> io::Result<u64> {
    map_aligned(wanted, bytes, align, Protection::None)
}

fn map_aligned(wanted: u64, bytes: u64, align: u64, protection: Protection) -> io::Result<u64> {
    if wanted != 0
        && wanted.is_multiple_of(align)
        && let Ok(address) = map_new(wanted, bytes, PRIVATE | libc::MAP_FIXED_NOREPLACE, protection)
    {
        if address == wanted {
            return Ok(address);
        }
        // A kernel that does not know the flag takes the address as a hint.
        release(address, bytes);
    }
    let room = bytes.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
    let start = map_new(0, room, PRIVATE, protection)?;
    let address = start.next_multiple_of(align);
    release(start, address - start);
    release(address + bytes, start + room - address - bytes);
    Ok(address)
}

/// Fills memory with what shows whether the host has written it: see [`simt::runtime::init_tracking::pattern`].
///
/// # Safety
/// All whole words of the range, and the word that its end is in, are writable memory that is not
/// in use.
pub unsafe fn fill_with_pattern(start: u64, bytes: u64) {
    for word in (start..start + bytes).step_by(PATTERN_BYTES as usize) {
        // SAFETY: by contract.
        unsafe { (word as *mut u64).write_unaligned(pattern(word)) };
    }
}

/// Maps zeroed memory of this process alone, in whole chunks at a multiple of a chunk.
pub fn map_private(bytes: u64, inherit: bool) -> io::Result<u64> {
    let address = map_aligned(0, bytes, CHUNK_BYTES, Protection::ReadWrite)?;
    // Huge pages make kernels' accesses cheaper, and a child of fork must not pay for device memory that it
    // cannot use.
    advise(address, bytes, libc::MADV_HUGEPAGE);
    if !inherit {
        keep_from_children(address, bytes);
    }
    Ok(address)
}

/// Lets children of fork have nothing there.
pub fn keep_from_children(address: u64, bytes: u64) {
    advise(address, bytes, libc::MADV_DONTFORK);
}

fn advise(address: u64, bytes: u64, advice: i32) {
    // SAFETY: both kinds of advice leave this process' memory as it is.
    unsafe { libc::madvise(address as *mut _, bytes as usize, advice) };
}

/// Maps zeroed host memory that children of fork share.
pub fn map_shared(bytes: u64) -> io::Result<u64> {
    map_new(0, bytes, libc::MAP_SHARED, Protection::ReadWrite)
}

fn map_new(wanted: u64, bytes: u64, flags: i32, protection: Protection) -> io::Result<u64> {
    // SAFETY: a new mapping that replaces none: MAP_FIXED is not among the flags.
    let at = unsafe {
        libc::mmap(
            wanted as *mut _,
            bytes as usize,
            protection.bits(),
            libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at as u64) }
}

/// Maps a file from an offset over a part of a reservation, or turns what is mapped there back into a mere
/// reservation.
///
/// # Safety
/// The range must be reserved and what is there now must not be in use.
pub unsafe fn remap(
    address: u64,
    bytes: u64,
    file: Option<(BorrowedFd<'_>, u64)>,
) -> io::Result<()> {
    let (protection, flags, fd, offset) = match file {
        Some((file, offset)) => (Protection::ReadWrite, libc::MAP_SHARED, file.as_raw_fd(), offset),
        None => (Protection::None, PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
    };
    // SAFETY: the caller vouches for the range.
    let at = unsafe {
        libc::mmap(
            address as *mut _,
            bytes as usize,
            protection.bits(),
            libc::MAP_FIXED | libc::MAP_NORESERVE | flags,
            fd,
            offset as libc::off_t,
        )
    };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives address space back that only the caller knows of.
pub fn release(address: u64, bytes: u64) {
    if bytes > 0 {
        // SAFETY: the range was mapped by this module and its owner lets it go; unmapping can
        // fail only for lack of kernel memory, and then the range stays unused.
        unsafe { libc::munmap(address as *mut _, bytes as usize) };
    }
}

/// Rights that the process has on `address..address + bytes`: readable, writable; `None` if part
/// of it is not mapped.
pub fn rights(address: u64, bytes: u64) -> Option<(bool, bool)> {
    let end = address.checked_add(bytes)?;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let (mut at, mut readable, mut writable) = (address, true, true);
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
        if to <= at {
            continue;
        }
        if from > at {
            return None;
        }
        readable &= rest.starts_with('r');
        writable &= rest.get(1..2) == Some("w");
        at = to;
        if at >= end {
            return Some((readable, writable));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_where_it_was_wanted_or_elsewhere() {
        let first = reserve(0, 4 * CHUNK_BYTES, CHUNK_BYTES).unwrap();
        assert!(first.is_multiple_of(CHUNK_BYTES));
        let second = reserve(first, CHUNK_BYTES, CHUNK_BYTES).unwrap();
        assert_ne!(first, second);
        release(first, 4 * CHUNK_BYTES);
        let third = reserve(first, 4 * CHUNK_BYTES, CHUNK_BYTES).unwrap();
        release(third, 4 * CHUNK_BYTES);
        release(second, CHUNK_BYTES);
        assert_eq!(third, first);
    }

    #[test]
    fn rights_are_those_of_all_pages() {
        static CONSTANT: [u8; 8] = [1; 8];
        let memory = map_shared(8192).unwrap();
        assert_eq!(rights(memory + 100, 8000), Some((true, true)));
        assert_eq!(rights(CONSTANT.as_ptr() as u64, 8), Some((true, false)));
        release(memory + 4096, 4096);
        assert_eq!(rights(memory + 100, 3000), Some((true, true)));
        release(memory, 4096);
        assert_eq!(rights(0x1000, 16), None);
        assert_eq!(rights(u64::MAX, 16), None);
    }
}
