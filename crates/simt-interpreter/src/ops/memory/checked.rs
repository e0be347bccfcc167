//! Memory that was checked: what an access may touch, and copies from and to it.

use crate::ops::memory::Element;
use std::ops::Range;

/// Memory that an access was checked for, to be read and, if that was asked, to be written.
///
/// What was checked stays until the instruction ends: a worker keeps its device's memory from changing
/// while a block runs. Others may write it meanwhile, so it is copied and never borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Checked {
    at: *mut u8,
    bytes: usize,
    /// How many of them may be written: all or none. Whole words are copied faster than they are written in parts
    /// and read back.
    writable_bytes: usize,
}

impl Checked {
    /// No memory.
    pub(crate) const NONE: Self =
        Self { at: std::ptr::dangling_mut(), bytes: 0, writable_bytes: 0 };

    /// # Safety
    /// The memory can be read and, if `writable`, be written until the instruction ends.
    pub(super) unsafe fn new(at: *mut u8, bytes: u64, writable: bool) -> Self {
        let bytes = bytes as usize;
        Self { at, bytes, writable_bytes: if writable { bytes } else { 0 } }
    }

    /// Where it is.
    pub(crate) fn pointer(self) -> *mut u8 {
        self.at
    }

    /// A part of it.
    #[inline(always)]
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.bytes, "of {} bytes", self.bytes);
        let writable_bytes = self.writable_bytes.min(range.len());
        Self { at: self.at.wrapping_add(range.start), bytes: range.len(), writable_bytes }
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
        let to = &mut to[..self.bytes];
        let to = Self { at: to.as_mut_ptr(), bytes: to.len(), writable_bytes: to.len() };
        to.copy(self);
    }

    /// The `i`-th word of 8 bytes. It takes a reference as what is copied is stored and read back first, which a
    /// read of an object for each warp would wait for.
    #[inline(always)]
    pub(crate) fn word(&self, i: usize) -> u64 {
        self.fetch::<u64, u64>(i)
    }

    /// Its `i`-th element.
    #[inline(always)]
    pub(crate) fn fetch<R, M: Element<R>>(&self, i: usize) -> M {
        assert!((i + 1) * size_of::<M>() <= self.bytes);
        // SAFETY: the memory was checked.
        unsafe { M::FETCH(self.at.cast::<M>().add(i)) }
    }

    /// Writes its `i`-th element.
    #[inline(always)]
    pub(crate) fn put<R, M: Element<R>>(self, i: usize, element: M) {
        assert!((i + 1) * size_of::<M>() <= self.writable_bytes);
        // SAFETY: the memory was checked for writing.
        unsafe { M::PUT(self.at.cast::<M>().add(i), element) }
    }

    /// True if these bytes are there, whole words, without a call and without a copy.
    #[inline(always)]
    pub(crate) fn holds_words(&self, bytes: &[u8]) -> bool {
        let words = bytes.as_chunks::<8>().0;
        assert!(8 * words.len() <= self.bytes);
        let mut apart = 0;
        for (i, word) in words.iter().enumerate() {
            apart |= u64::from_ne_bytes(*word) ^ self.word(i);
        }
        apart == 0
    }

    /// Writes all of it, from the start of `from`.
    #[inline(always)]
    pub(crate) fn copy_from(self, from: &[u8]) {
        let at = from.as_ptr().cast_mut();
        self.copy(Self { at, bytes: from.len(), writable_bytes: 0 });
    }

    /// Writes all of it from other memory, which may overlap.
    #[inline(always)]
    pub(crate) fn copy(self, from: Self) {
        assert!(
            self.bytes == self.writable_bytes && self.bytes <= from.bytes,
            "{} of {}",
            from.bytes,
            self.bytes
        );
        // SAFETY: both were checked or are borrowed, and `from` has as much.
        unsafe { std::ptr::copy(from.at, self.at, self.bytes) }
    }

    /// True if a `T` of a value's own size can be updated in place: as large, aligned and writable.
    #[inline(always)]
    pub(crate) fn holds<T>(self) -> bool {
        self.bytes == size_of::<T>()
            && self.writable_bytes == self.bytes
            && self.at as usize & (size_of::<T>() - 1) == 0
    }

    /// Its size, bytes.
    #[inline(always)]
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }
}
