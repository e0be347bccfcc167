//! Memory that was checked: what an access may touch, and copies from and to it.

use std::ops::Range;

/// Memory that an access was checked for, to be read and, if that was asked, to be written.
///
/// What was checked stays until the instruction ends: a worker keeps its device's memory from changing
/// while a block runs. Others may write it meanwhile, so it is copied and never borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Checked {
    at: *mut u8,
    bytes: usize,
    writable: bool,
}

impl Checked {
    /// No memory.
    pub(crate) const NONE: Self = Self { at: std::ptr::dangling_mut(), bytes: 0, writable: true };

    /// # Safety
    /// The memory can be read and, if `writable`, be written until the instruction ends.
    pub(super) unsafe fn new(at: *mut u8, bytes: u64, writable: bool) -> Self {
        Self { at, bytes: bytes as usize, writable }
    }

    /// Where it is.
    pub(crate) fn pointer(self) -> *mut u8 {
        self.at
    }

    /// A part of it.
    #[inline(always)]
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.bytes, "of {} bytes", self.bytes);
        Self { at: self.at.wrapping_add(range.start), bytes: range.len(), ..self }
    }

    /// Its first bytes.
    #[inline(always)]
    pub(crate) fn read<const N: usize>(self) -> [u8; N] {
        let mut bytes = [0; N];
        self.part(0..N).copy_to(&mut bytes);
        bytes
    }

    /// Reads all of it into the start of `to`.
    #[inline(always)]
    pub(crate) fn copy_to(self, to: &mut [u8]) {
        assert!(self.bytes <= to.len(), "{} bytes for {}", to.len(), self.bytes);
        // SAFETY: the memory was checked, and `to` has room.
        unsafe { std::ptr::copy_nonoverlapping(self.at, to.as_mut_ptr(), self.bytes) }
    }

    /// True if these bytes are there, whole words, without a call and without a copy.
    #[inline(always)]
    pub(crate) fn holds_words(self, bytes: &[u8]) -> bool {
        let words = bytes.as_chunks::<8>().0;
        assert!(8 * words.len() <= self.bytes);
        let mut apart = 0;
        for (i, word) in words.iter().enumerate() {
            // SAFETY: the memory was checked.
            let there = unsafe { self.at.cast::<u64>().add(i).read_unaligned() };
            apart |= u64::from_ne_bytes(*word) ^ there;
        }
        apart == 0
    }

    /// Writes all of it, from the start of `from`.
    #[inline(always)]
    pub(crate) fn copy_from(self, from: &[u8]) {
        assert!(self.writable && self.bytes <= from.len(), "{} of {}", from.len(), self.bytes);
        // SAFETY: the memory was checked for writing, and `from` has as much.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at, self.bytes) }
    }

    /// Writes all of it from other memory, which may overlap.
    #[inline(always)]
    pub(crate) fn copy(self, from: Self) {
        assert!(self.writable && self.bytes <= from.bytes, "{} of {}", from.bytes, self.bytes);
        // SAFETY: both were checked, and `from` has as much.
        unsafe { std::ptr::copy(from.at, self.at, self.bytes) }
    }

    /// True if a `T` of a value's own size can be updated in place: as large, aligned and writable.
    #[inline(always)]
    pub(crate) fn holds<T>(self) -> bool {
        self.writable
            && self.bytes == size_of::<T>()
            && self.at as usize & (size_of::<T>() - 1) == 0
    }

    /// Its size, bytes.
    #[inline(always)]
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }
}
