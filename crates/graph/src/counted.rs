//! Counted work, for tests: edges that are compared and bytes that are allocated, by thread. What grows faster
//! than a graph is seen without a clock.

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

thread_local! {
    static COMPARED: Cell<u64> = const { Cell::new(0) };
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

/// Two edges are compared.
pub(crate) fn compare() {
    COMPARED.set(COMPARED.get() + 1);
}

/// Edges that this thread has compared.
pub(crate) fn compared() -> u64 {
    COMPARED.get()
}

/// Bytes that this thread has allocated.
pub(crate) fn allocated() -> u64 {
    ALLOCATED.get()
}

struct Counting;

// SAFETY: all is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|bytes| bytes.set(bytes.get() + layout.size() as u64));
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
