//! Descriptors of memory that a forked child must let go of: only the parent's count for the server. What the
//! program itself reads and writes through them (pinned, managed and registered memory) becomes the child's own
//! where it is: it is mapped again, private.
//!
//! The child of a fork has one thread, and any lock may be held by one that is not there. So the
//! numbers are in a list that takes none: an entry is a number or [`FREE`], segments are made when
//! they are needed and never given back.

use super::page_exchange::{Pages, is_file_at, maps_now};
use core::ops::Deref;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Entries of a segment.
const SEGMENT: usize = 1024;
/// Segments: more entries than a client has files of all kinds (see `channel::limits`).
const SEGMENTS: usize = 64;
/// An entry that stands for no descriptor.
const FREE: RawFd = -1;

/// A number, and where all of the file is mapped for the program, if it is.
#[derive(Debug)]
struct Entry {
    fd: AtomicI32,
    start: AtomicU64,
    bytes: AtomicU64,
}

impl Entry {
    const fn unused() -> Self {
        Self { fd: AtomicI32::new(FREE), start: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    fn pages(&self) -> Option<Pages> {
        let (start, bytes) =
            (self.start.load(Ordering::Acquire), self.bytes.load(Ordering::Acquire));
        (start != 0).then_some(Pages { start, bytes })
    }
}

type Segment = [Entry; SEGMENT];

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
        // SAFETY: the pointer is null or came from `Box::into_raw` below and is never freed.
        unsafe { self.segments[number].load(Ordering::Acquire).as_ref() }
    }

    fn make_segment(&self, number: usize) -> Option<&'static Segment> {
        let new = Box::into_raw(Box::new([const { Entry::unused() }; SEGMENT]));
        let null = core::ptr::null_mut();
        let order = Ordering::AcqRel;
        if self.segments[number].compare_exchange(null, new, order, Ordering::Acquire).is_err() {
            // SAFETY: just made by `Box`, and no other code has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
        self.segment(number)
    }

    /// Enters a number; `None` if all entries are taken.
    fn enter(&self, fd: RawFd) -> Option<&'static Entry> {
        let start = self.next.load(Ordering::Relaxed);
        (0..SEGMENTS * SEGMENT).find_map(|step| {
            let place = (start + step) % (SEGMENTS * SEGMENT);
            let number = place / SEGMENT;
            let segment = self.segment(number).or_else(|| self.make_segment(number))?;
            let entry = &segment[place % SEGMENT];
            let exchanged =
                entry.fd.compare_exchange(FREE, fd, Ordering::AcqRel, Ordering::Relaxed);
            exchanged.ok()?;
            self.next.store(place + 1, Ordering::Relaxed);
            Some(entry)
        })
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
            entry.fd.store(FREE, Ordering::Release);
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
    for number in 0..SEGMENTS {
        for entry in KEPT.segment(number).into_iter().flatten() {
            let (fd, pages) = (entry.fd.load(Ordering::Acquire), entry.pages());
            let Some(pages) = pages.filter(|_| fd != FREE) else { continue };
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
}

/// Closes the child's copies of all of them. Only in a forked child that uses none any more; their
/// owners there are never dropped.
pub(crate) fn close_all_in_child() {
    for number in 0..SEGMENTS {
        for entry in KEPT.segment(number).into_iter().flatten() {
            let fd = entry.fd.swap(FREE, Ordering::AcqRel);
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
    use crate::memory::page_exchange::map_anywhere;
    use crate::tests::wait_for_child;

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
        assert_eq!(wait_for_child(child), 0);
        assert!(numbers.iter().all(|fd| is_open(*fd)), "the parent's stay");
    }

    #[test]
    fn a_child_has_pages_of_its_own_where_the_program_has_a_file() {
        let bytes = 8 * channel::memfd::PAGE_BYTES;
        let files: Vec<KeptFile> = (0..2)
            .map(|_| {
                let file = channel::memfd::create_sealed(
                    c"kept-file-test",
                    bytes,
                    channel::memfd::Seals::SIZE,
                );
                KeptFile::from(file.unwrap())
            })
            .collect();
        let map = |file: &KeptFile| map_anywhere(bytes, Some(file.as_fd())).unwrap();
        let words = [map(&files[0]), map(&files[1])];
        let [kept, gone] = words;
        for (file, start) in files.iter().zip(words) {
            file.mapped_for_program(Pages { start, bytes });
        }
        // Something else takes the place of the second one, which the child must leave alone.
        let other = std::fs::File::options().read(true).write(true).open("/dev/zero").unwrap();
        let place = gone as *mut libc::c_void;
        // SAFETY: the pages are this test's.
        unsafe {
            (kept as *mut u32).write_volatile(7);
            let (rights, how) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_FIXED | libc::MAP_SHARED);
            let at = libc::mmap(place, bytes as usize, rights, how, other.as_raw_fd(), 0);
            assert_eq!(at, place);
            (gone as *mut u32).write_volatile(9);
        }
        // SAFETY: the child reads and maps, and ends without anything of the parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            make_private_in_child();
            close_all_in_child();
            // SAFETY: as above.
            let is_right = unsafe {
                let seen = ((kept as *mut u32).read_volatile(), (gone as *mut u32).read_volatile());
                (kept as *mut u32).write_volatile(8);
                seen == (7, 9)
            };
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let status = wait_for_child(child);
        // SAFETY: as above.
        assert_eq!((status, unsafe { (kept as *mut u32).read_volatile() }), (0, 7));
    }

    #[test]
    fn entries_are_used_again() {
        let list = List {
            segments: [const { AtomicPtr::new(core::ptr::null_mut()) }; SEGMENTS],
            next: AtomicUsize::new(SEGMENTS * SEGMENT - 1),
        };
        let last = list.enter(7).unwrap();
        let first = list.enter(8).unwrap();
        assert_eq!((last.fd.load(Ordering::Relaxed), first.fd.load(Ordering::Relaxed)), (7, 8));
        assert_eq!((0..SEGMENTS).filter(|number| list.segment(*number).is_some()).count(), 2);
        first.fd.store(FREE, Ordering::Relaxed);
        list.next.store(0, Ordering::Relaxed);
        assert!(std::ptr::eq(list.enter(9).unwrap(), first));
    }
}
