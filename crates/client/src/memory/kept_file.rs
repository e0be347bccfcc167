//! Descriptors of memory that a forked child must let go of: only the parent's count for the server. What the
//! program itself reads and writes through them (pinned, managed and registered memory) becomes the child's own
//! where it is: it is mapped again, private.
//!
//! The child of a fork has one thread, and any lock may be held by one that is not there. So the
//! numbers are in a list that takes none and has all its entries from the start.

use super::page_exchange::{Pages, is_file_at, maps_now};
use crate::connection::close_copy;
use core::ops::Deref;
use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Entries: more than a client has files of all kinds (see `channel::limits`).
const ENTRIES: usize = 1 << 16;

/// A descriptor, and where all of the file is mapped for the program, if it is.
#[derive(Debug)]
struct Entry {
    /// One more than its number; 0 in an entry that is free.
    fd_and_1: AtomicI32,
    start: AtomicU64,
    bytes: AtomicU64,
}

impl Entry {
    const fn free() -> Self {
        Self { fd_and_1: AtomicI32::new(0), start: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    fn pages(&self) -> Option<Pages> {
        let (start, bytes) =
            (self.start.load(Ordering::Acquire), self.bytes.load(Ordering::Acquire));
        (start != 0).then_some(Pages { start, bytes })
    }
}

/// All numbers. It is zeros, so what is not used takes no memory.
static KEPT: List = List::new();

struct List {
    entries: [Entry; ENTRIES],
    /// Where to look for a free entry first.
    next: AtomicUsize,
    /// None from here on was ever used.
    end: AtomicUsize,
}

impl List {
    const fn new() -> Self {
        let (next, end) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { entries: [const { Entry::free() }; ENTRIES], next, end }
    }

    /// Enters a number; `None` if all entries are taken.
    fn enter(&self, fd: RawFd) -> Option<&Entry> {
        let start = self.next.load(Ordering::Relaxed);
        (0..ENTRIES).map(|step| (start + step) % ENTRIES).find_map(|place| {
            let entry = &self.entries[place];
            self.end.fetch_max(place + 1, Ordering::AcqRel);
            entry.fd_and_1.compare_exchange(0, fd + 1, Ordering::AcqRel, Ordering::Relaxed).ok()?;
            self.next.store(place + 1, Ordering::Relaxed);
            Some(entry)
        })
    }

    /// Those that were ever used.
    fn used(&self) -> &[Entry] {
        &self.entries[..self.end.load(Ordering::Acquire)]
    }
}

/// A memory file of this process' session.
#[derive(Debug)]
pub(crate) struct KeptFile {
    file: OwnedFd,
    entry: Option<&'static Entry>,
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
            entry.start.store(0, Ordering::Release);
            entry.fd_and_1.store(0, Ordering::Release);
        }
    }
}

impl KeptFile {
    /// Says that all of the file is mapped at some pages, for the program.
    pub(crate) fn mapped_for_program(&self, pages: Pages) {
        if let Some(entry) = self.entry {
            entry.bytes.store(pages.bytes, Ordering::Release);
            entry.start.store(pages.start, Ordering::Release);
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

/// Gives the child pages of its own with the same contents where the program has files mapped: what it writes is
/// not its parent's. Only in a forked child, before [`close_all_in_child`].
pub(crate) fn make_private_in_child() {
    let mut maps = None;
    for entry in KEPT.used() {
        let fd = entry.fd_and_1.load(Ordering::Acquire) - 1;
        let Some(pages) = entry.pages().filter(|_| fd >= 0) else { continue };
        // The program may have unmapped it, and something else may be there.
        if is_file_at(maps.get_or_insert_with(maps_now), pages, fd) {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let how = libc::MAP_PRIVATE | libc::MAP_FIXED;
            let (place, length) = (pages.start as *mut libc::c_void, pages.bytes as usize);
            // SAFETY: that file is mapped there, all of it, and is again afterwards.
            unsafe { libc::mmap(place, length, rights, how, fd, 0) };
        }
    }
}

/// Closes the child's copies of all of them. Only in a forked child that uses none any more; their
/// owners there are never dropped.
pub(crate) fn close_all_in_child() {
    for entry in KEPT.used() {
        close_copy(entry.fd_and_1.swap(0, Ordering::AcqRel) - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{in_child, words_at};
    use channel::memfd::{PAGE_BYTES, Reservation, Seals, create_sealed};

    fn is_open(fd: RawFd) -> bool {
        std::fs::metadata(format!("/proc/self/fd/{fd}")).is_ok()
    }

    #[test]
    fn a_child_closes_what_is_kept_whatever_locks_are_held() {
        let null = || KeptFile::from(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let kept: Vec<KeptFile> = (0..20).map(|_| null()).collect();
        let numbers: Vec<RawFd> = kept.iter().map(|file| file.as_raw_fd()).collect();
        let others = std::fs::File::open("/dev/null").unwrap();
        let status = in_child(|| {
            close_all_in_child();
            numbers.iter().all(|fd| !is_open(*fd)) && is_open(others.as_raw_fd())
        });
        assert_eq!(status, 0);
        assert!(numbers.iter().all(|fd| is_open(*fd)), "the parent's stay");
    }

    #[test]
    fn a_child_has_pages_of_its_own_where_the_program_has_a_file() {
        let bytes = 8 * PAGE_BYTES;
        let window = Reservation::anywhere(2 * bytes).unwrap();
        let places = [window.address(), window.address() + bytes];
        let file = || create_sealed(c"kept-file-test", bytes, Seals::SIZE).unwrap();
        let files = [file(), file()].map(KeptFile::from);
        for (file, start) in files.iter().zip(places) {
            file.mapped_for_program(Pages { start, bytes });
        }
        // Something else is at the place of the second one, which the child must leave alone.
        let _kept = window.map(&files[0], places[0], bytes).unwrap();
        let _other = window.map(file(), places[1], bytes).unwrap();
        let [kept, gone] = places.map(|place| &words_at(place, 1)[0]);
        kept.store(7, Ordering::Relaxed);
        gone.store(9, Ordering::Relaxed);
        let status = in_child(|| {
            make_private_in_child();
            close_all_in_child();
            let seen = (kept.load(Ordering::Relaxed), gone.load(Ordering::Relaxed));
            kept.store(8, Ordering::Relaxed);
            seen == (7, 9)
        });
        assert_eq!((status, kept.load(Ordering::Relaxed)), (0, 7));
    }

    #[test]
    fn entries_are_used_again() {
        static LIST: List = List::new();
        LIST.next.store(ENTRIES - 1, Ordering::Relaxed);
        let (last, first) = (LIST.enter(7).unwrap(), LIST.enter(8).unwrap());
        assert_eq!([last, first].map(|entry| entry.fd_and_1.load(Ordering::Relaxed)), [8, 9]);
        first.fd_and_1.store(0, Ordering::Relaxed);
        LIST.next.store(0, Ordering::Relaxed);
        assert!(std::ptr::eq(LIST.enter(9).unwrap(), first));
    }
}
