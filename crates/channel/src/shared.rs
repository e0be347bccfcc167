//! Words and bytes in memory that another process writes too.
//!
//! [`SharedU32`] and [`SharedU64`] are the only ways to a single word there, and
//! `copy` the only way to bulk. They make no promise about *what* is read, only that reading
//! it is defined behaviour.

use crate::processor;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

macro_rules! shared_word {
    ($(#[$doc:meta])* $name:ident, $int:ty, $atomic:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'a> {
            word: NonNull<$int>,
            memory: PhantomData<&'a $atomic>,
        }

        // SAFETY: every access is atomic, and the memory outlives 'a in every thread.
        unsafe impl Send for $name<'_> {}
        // SAFETY: as above.
        unsafe impl Sync for $name<'_> {}

        impl<'a> $name<'a> {
            /// The word at that address.
            ///
            /// # Safety
            /// The address is aligned to the word's size, stays mapped readable and writable for
            /// `'a`, and every access to it in this process is atomic.
            pub(crate) const unsafe fn new(word: NonNull<$int>) -> Self {
                Self { word, memory: PhantomData }
            }

            /// A word of this process: for tests, and for waits that share code with the region's.
            pub const fn of(word: &'a $atomic) -> Self {
                // An atomic's pointer is never null.
                let word = NonNull::new(word.as_ptr()).expect("a reference is not null");
                Self { word, memory: PhantomData }
            }

            #[inline(always)]
            pub(crate) const fn atomic(self) -> &'a $atomic {
                // SAFETY: by `new` and `of` the word is aligned, mapped for 'a and only ever
                // accessed atomically here. The peer's writes come from outside of the program.
                unsafe { <$atomic>::from_ptr(self.word.as_ptr()) }
            }

            /// Reads with acquire ordering: what its writer wrote before is seen after.
            #[inline(always)]
            pub fn load(self) -> $int {
                self.atomic().load(Ordering::Acquire)
            }

            /// Writes with release ordering.
            #[inline(always)]
            pub fn store(self, value: $int) {
                self.atomic().store(value, Ordering::Release)
            }

            /// Writes and returns what was there.
            #[inline(always)]
            pub fn swap(self, value: $int) -> $int {
                self.atomic().swap(value, Ordering::AcqRel)
            }

            /// Adds, wrapping, and returns what was there.
            #[inline(always)]
            pub fn fetch_add(self, value: $int) -> $int {
                self.atomic().fetch_add(value, Ordering::AcqRel)
            }

            /// Writes `new` if `current` is there; the error is what was there instead.
            #[inline(always)]
            pub fn compare_exchange(self, current: $int, new: $int) -> Result<$int, $int> {
                self.atomic().compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
            }

            /// The word's address in this process.
            pub const fn address(self) -> *mut $int {
                self.word.as_ptr()
            }
        }
    };
}

shared_word! {
    /// A 32-bit word of shared memory; also what a futex sleeps on (see [`wait`](crate::wait)).
    SharedU32, u32, AtomicU32
}
shared_word! {
    /// A 64-bit word of shared memory.
    SharedU64, u64, AtomicU64
}

/// Copies `bytes` bytes between shared and private memory, either way.
///
/// The copy is made by machine instructions that the compiler cannot look into: a peer that writes
/// at the same time makes the copied bytes arbitrary and nothing else.
///
/// # Safety
/// `source` is readable and `destination` writable for `bytes` bytes, and they do not overlap.
#[inline]
pub(crate) unsafe fn copy(source: *const u8, destination: *mut u8, bytes: usize) {
    let mut done = 0;
    // SAFETY: by the caller; each move starts at `done`, behind which there are as many bytes as it moves
    // in both ranges. None needs an alignment.
    unsafe {
        if bytes >= processor::STRING_BYTES_MIN {
            return processor::copy_string(source, destination, bytes);
        }
        while bytes - done >= LINE_BYTES {
            processor::move_64(source.add(done), destination.add(done));
            done += LINE_BYTES;
        }
        while bytes - done >= 8 {
            processor::move_8(source.add(done), destination.add(done));
            done += 8;
        }
        while done < bytes {
            destination.add(done).write_volatile(source.add(done).read_volatile());
            done += 1;
        }
    }
}

/// As [`copy`], past the caches: for more bytes than this processor will read again soon.
///
/// # Safety
/// As for [`copy`].
pub(crate) unsafe fn copy_past_caches(source: *const u8, destination: *mut u8, bytes: usize) {
    let head = destination.align_offset(LINE_BYTES).min(bytes);
    let mut done = head;
    // SAFETY: head <= bytes, and each move starts at `done`, behind which there are as many bytes as it
    // moves in both ranges; the destination is at a multiple of 64 from the head on.
    unsafe {
        copy(source, destination, head);
        while bytes - done >= LINE_BYTES {
            processor::move_64_past_caches(source.add(done), destination.add(done));
            done += LINE_BYTES;
        }
        // Such writes are ordered with no others: what is announced after this must come after them.
        processor::order_past_caches();
        copy(source.add(done), destination.add(done), bytes - done);
    }
}

/// A cache line, bytes.
const LINE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_every_length_and_alignment_and_nothing_beside() {
        let source: Vec<u8> = (0..9000u32).map(|i| (i * 7 + 1) as u8).collect();
        for bytes in (0..200).chain([4095, 4096, 5001]) {
            for (from, to) in [(0, 0), (1, 0), (0, 3), (5, 7)] {
                for function in [copy, copy_past_caches] {
                    let mut target = vec![0xEE; bytes + 100];
                    // SAFETY: from + bytes < 9000 and to < 100, in different vectors.
                    unsafe { function(source[from..].as_ptr(), target[to..].as_mut_ptr(), bytes) };
                    assert_eq!(target[to..to + bytes], source[from..from + bytes]);
                    assert!(target[..to].iter().chain(&target[to + bytes..]).all(|b| *b == 0xEE));
                }
            }
        }
    }

    #[test]
    fn a_word_is_read_as_it_was_written() {
        let place = AtomicU32::new(5);
        let word = SharedU32::of(&place);
        assert_eq!(word.load(), 5);
        assert_eq!(word.swap(6), 5);
        assert_eq!(word.fetch_add(u32::MAX), 6);
        assert_eq!(word.compare_exchange(4, 9), Err(5));
        assert_eq!(word.compare_exchange(5, 9), Ok(5));
        word.store(1);
        assert_eq!(place.load(Ordering::Relaxed), 1);
    }
}
