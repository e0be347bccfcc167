//! Descriptors of memory that a forked child must let go of: only the parent's count for the server.
//!
//! The child of a fork has one thread, and any lock may be held by one that is not there. So the
//! numbers are in a list that takes none: an entry is a number or [`FREE`], segments are made when
//! they are needed and never given back.

use core::ops::Deref;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Entries of a segment.
const SEGMENT: usize = 1024;
/// Segments: more entries than a client has files of all kinds (see `channel::limits`).
const SEGMENTS: usize = 64;
/// An entry that stands for no descriptor.
const FREE: RawFd = -1;

type Segment = [AtomicI32; SEGMENT];

/// All numbers.
static KEPT: List = List {
    segments: [const { AtomicPtr::new(core::ptr::null_mut()) }; SEGMENTS],
    next: AtomicUsize::new(0),
};

struct List {
    segments: [AtomicPtr<Segment>; SEGMENTS],
    /// Where to look for a free entry first.
    next: AtomicUsize,
}

impl List {
    /// The segment of that number, if it has been made.
    fn segment(&self, number: usize) -> Option<&'static Segment> {
        // SAFETY: the pointer is null or came from Box::into_raw below and is never freed.
        unsafe { self.segments[number].load(Ordering::Acquire).as_ref() }
    }

    fn make_segment(&self, number: usize) -> Option<&'static Segment> {
        let new = Box::into_raw(Box::new([const { AtomicI32::new(FREE) }; SEGMENT]));
        let null = core::ptr::null_mut();
        let order = Ordering::AcqRel;
        if self.segments[number].compare_exchange(null, new, order, Ordering::Acquire).is_err() {
            // SAFETY: just made by Box, and no other code has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
        self.segment(number)
    }

    /// Enters a number; `None` if all entries are taken.
    fn enter(&self, fd: RawFd) -> Option<&'static AtomicI32> {
        let start = self.next.load(Ordering::Relaxed);
        (0..SEGMENTS * SEGMENT).find_map(|step| {
            let place = (start + step) % (SEGMENTS * SEGMENT);
            let number = place / SEGMENT;
            let segment = self.segment(number).or_else(|| self.make_segment(number))?;
            let entry = &segment[place % SEGMENT];
            entry.compare_exchange(FREE, fd, Ordering::AcqRel, Ordering::Relaxed).ok()?;
            self.next.store(place + 1, Ordering::Relaxed);
            Some(entry)
        })
    }
}

/// A memory file of this process' session.
#[derive(Debug)]
pub(crate) struct KeptFile {
    file: OwnedFd,
    entry: Option<&'static AtomicI32>,
}

impl From<OwnedFd> for KeptFile {
    fn from(file: OwnedFd) -> Self {
        let entry = KEPT.enter(file.as_raw_fd());
        Self { file, entry }
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        // Before the number can be another file's.
        if let Some(entry) = self.entry {
            entry.store(FREE, Ordering::Release);
        }
    }
}

impl Deref for KeptFile {
    type Target = OwnedFd;
    fn deref(&self) -> &OwnedFd {
        &self.file
    }
}

impl AsFd for KeptFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Closes the child's copies of all of them. Only in a forked child that uses none any more; their
/// owners there are never dropped.
pub(crate) fn close_all_in_child() {
    for number in 0..SEGMENTS {
        for entry in KEPT.segment(number).into_iter().flatten() {
            let fd = entry.swap(FREE, Ordering::AcqRel);
            if fd != FREE {
                // SAFETY: the descriptor is the child's copy of one of the parent's session.
                unsafe { libc::close(fd) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(fd: RawFd) -> bool {
        // SAFETY: asks about a number.
        unsafe { libc::fcntl(fd, libc::F_GETFD) != -1 }
    }

    #[test]
    fn a_child_closes_what_is_kept_whatever_locks_are_held() {
        let null = || KeptFile::from(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let kept: Vec<KeptFile> = (0..20).map(|_| null()).collect();
        let numbers: Vec<RawFd> = kept.iter().map(|file| file.as_raw_fd()).collect();
        let others = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the child makes system calls only and ends without anything of the parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            close_all_in_child();
            let closed = numbers.iter().all(|fd| !is_open(*fd)) && is_open(others.as_raw_fd());
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(!closed)) };
        }
        let mut status = -1;
        // SAFETY: the local is written.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(numbers.iter().all(|fd| is_open(*fd)), "the parent's stay");
    }

    #[test]
    fn entries_are_used_again() {
        let list = List {
            segments: [const { AtomicPtr::new(core::ptr::null_mut()) }; SEGMENTS],
            next: AtomicUsize::new(SEGMENTS * SEGMENT - 1),
        };
        let last = list.enter(7).unwrap();
        let first = list.enter(8).unwrap();
        assert_eq!((last.load(Ordering::Relaxed), first.load(Ordering::Relaxed)), (7, 8));
        assert_eq!((0..SEGMENTS).filter(|number| list.segment(*number).is_some()).count(), 2);
        first.store(FREE, Ordering::Relaxed);
        list.next.store(0, Ordering::Relaxed);
        assert!(std::ptr::eq(list.enter(9).unwrap(), first));
    }
}
