//! The FIFO that device-side printf writes to, emptied to stdout when the program synchronises.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use simt::kernel::PrintfSink;

/// Size CUDA starts with (CU_LIMIT_PRINTF_FIFO_SIZE), bytes.
pub const FIFO_BYTES_DEFAULT: usize = 1 << 20;

unsafe extern "C" {
    /// C's standard output: kernels' lines must come in order with the program's own.
    static stdout: *mut libc::FILE;
}

/// Text of kernels that has not been written yet.
pub struct PrintfFifo {
    text: Mutex<Vec<u8>>,
    limit_bytes: AtomicUsize,
}

impl Default for PrintfFifo {
    fn default() -> Self {
        Self { text: Mutex::default(), limit_bytes: AtomicUsize::new(FIFO_BYTES_DEFAULT) }
    }
}

impl PrintfSink for PrintfFifo {
    fn print(&self, text: &[u8]) {
        let mut fifo = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        if fifo.len() + text.len() <= self.limit_bytes.load(Ordering::Relaxed) {
            fifo.extend_from_slice(text);
        }
    }
}

impl PrintfFifo {
    /// Bytes it holds before further output is dropped.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Sets what [`PrintfFifo::limit_bytes`] says.
    pub fn set_limit_bytes(&self, bytes: usize) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Takes all text out.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.text.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes at most `bytes` of the text out; the rest stays.
    pub fn take_up_to(&self, bytes: usize) -> Vec<u8> {
        let mut fifo = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = bytes.min(fifo.len());
        let rest = fifo.split_off(taken);
        std::mem::replace(&mut *fifo, rest)
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
    fn a_full_fifo_drops_whole_calls() {
        let fifo = PrintfFifo::default();
        fifo.set_limit_bytes(10);
        fifo.print(b"12345678");
        fifo.print(b"abc");
        fifo.print(b"9");
        assert_eq!(fifo.take(), b"123456789");
        assert_eq!(fifo.take(), b"");
    }
}
