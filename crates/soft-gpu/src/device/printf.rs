//! The FIFO that device-side printf writes to, emptied to stdout when the program synchronises.

use locks::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use simt::kernel::PrintfSink;

/// Size CUDA starts with (CU_LIMIT_PRINTF_FIFO_SIZE), bytes.
pub const FIFO_BYTES_DEFAULT: usize = 1 << 20;

unsafe extern "C" {
    /// C's standard output: kernels' lines must come in order with the program's own.
    static stdout: *mut libc::FILE;
}

/// Text of kernels that has not been written yet.
pub struct PrintfFifo {
    kept: Mutex<Kept>,
    limit_bytes: AtomicUsize,
}

/// The calls whose text is kept, the oldest first.
#[derive(Default)]
struct Kept {
    text: VecDeque<u8>,
    /// Bytes of each call.
    calls: VecDeque<usize>,
}

impl Kept {
    /// Removes the oldest call.
    fn forget_oldest(&mut self) {
        let bytes = self.calls.pop_front().unwrap_or(0);
        self.text.drain(..bytes.min(self.text.len()));
    }
}

impl Default for PrintfFifo {
    fn default() -> Self {
        Self { kept: Mutex::default(), limit_bytes: AtomicUsize::new(FIFO_BYTES_DEFAULT) }
    }
}

impl PrintfSink for PrintfFifo {
    fn print(&self, text: &[u8]) {
        let limit = self.limit_bytes.load(Ordering::Relaxed);
        let mut kept = self.lock();
        // As CUDA's, it is a ring: what is new replaces what is oldest.
        while !kept.calls.is_empty() && kept.text.len() + text.len() > limit {
            kept.forget_oldest();
        }
        if text.len() <= limit {
            kept.text.extend(text);
            kept.calls.push_back(text.len());
        }
    }
}

impl PrintfFifo {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    /// Bytes it holds before the oldest output is dropped.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Sets what [`PrintfFifo::limit_bytes`] says.
    pub fn set_limit_bytes(&self, bytes: usize) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Takes all text out.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.lock()).text.into()
    }

    /// Takes at most `bytes` of the text out; the rest stays.
    pub fn take_up_to(&self, bytes: usize) -> Vec<u8> {
        let mut kept = self.lock();
        let mut left = bytes.min(kept.text.len());
        let taken = kept.text.drain(..left).collect();
        // Of the last one a part may stay.
        while let Some(first) = kept.calls.front_mut() {
            let part = left.min(*first);
            left -= part;
            *first -= part;
            if *first > 0 {
                break;
            }
            kept.calls.pop_front();
        }
        taken
    }

    /// Writes all text to C's stdout.
    pub fn flush(&self) {
        let text = self.take();
        if !text.is_empty() {
            // SAFETY: `text` is valid for its length, and libc keeps `stdout` valid for the life
            // of the process.
            unsafe {
                libc::fwrite(text.as_ptr().cast::<c_void>(), 1, text.len(), stdout);
                libc::fflush(stdout);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_fifo_drops_the_oldest_calls() {
        let fifo = PrintfFifo::default();
        fifo.set_limit_bytes(10);
        fifo.print(b"1234");
        fifo.print(b"5678");
        fifo.print(b"abc");
        assert_eq!(fifo.take(), b"5678abc");
        assert_eq!(fifo.take(), b"");
        fifo.print(b"longer than that");
        assert_eq!(fifo.take(), b"");
    }

    #[test]
    fn what_is_taken_in_parts_is_whole() {
        let fifo = PrintfFifo::default();
        fifo.set_limit_bytes(10);
        fifo.print(b"12345");
        fifo.print(b"67");
        assert_eq!(fifo.take_up_to(3), b"123");
        // The rest of the first call gives way to this.
        fifo.print(b"abcdefg");
        assert_eq!(fifo.take_up_to(4), b"67ab");
        assert_eq!(fifo.take_up_to(100), b"cdefg");
        assert_eq!(fifo.take_up_to(1), b"");
    }
}
