//! Executable memory (W^X): written once, then executable and never writable again.

use std::ptr::NonNull;
use std::sync::OnceLock;

/// Pages that hold one function's code.
pub(crate) struct CodeMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is read-only from the moment it can be shared.
unsafe impl Send for CodeMemory {}
// SAFETY: as above.
unsafe impl Sync for CodeMemory {}

impl CodeMemory {
    /// Copies code into memory of its own; `None` if the system gives none or forbids execution.
    pub(crate) fn new(code: &[u8]) -> Option<Self> {
        let (read, write) = (libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping, placed by the kernel, touches nothing that exists; it is as long
        // as the code, and writable until its protection changes.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), code.len(), write, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return None;
            }
            let memory = Self { start: NonNull::new(start.cast())?, bytes: code.len() };
            memory.start.as_ptr().copy_from_nonoverlapping(code.as_ptr(), code.len());
            let changed = libc::mprotect(start, code.len(), read | libc::PROT_EXEC);
            (changed == 0).then_some(memory)
        }
    }

    /// True if the system grants such memory: hardened ones do not.
    pub(crate) fn is_granted() -> bool {
        /// `ret`, which is never called.
        const CODE: [u8; 1] = [0xc3];
        static GRANTED: OnceLock<bool> = OnceLock::new();
        *GRANTED.get_or_init(|| Self::new(&CODE).is_some())
    }

    /// The first byte.
    pub(crate) fn start(&self) -> *const u8 {
        self.start.as_ptr()
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no thread can run code in it any more: code is
        // only reached through what keeps this value alive.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
