//! Page exchange: other pages with the same contents take the place of some of the program's, while
//! other threads may be using them.
//!
//! Between the copy of a page and the exchange no thread may write to it, or the write is lost. No
//! other thread can if the process has only one; else the kernel is asked to hold writers up
//! (userfaultfd write protection). Where it does not, nothing is exchanged: the caller does
//! without.
//!
//! Signals wait meanwhile: a handler of the program's that writes to the pages would run on the
//! thread that alone can let it go on, or between the copy and the exchange.

use channel::memfd::{Mapping, PAGE_BYTES};
use channel::signals::Blocked;
use channel::system::open_descriptor;
use channel::userfaultfd::{self, Protects, Userfaultfd};
use std::fs;
use std::os::fd::{BorrowedFd, RawFd};

/// Name of the files that pages are exchanged for.
pub(crate) const FILE_NAME: &core::ffi::CStr = c"openmps-registered";

/// A range of whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl Pages {
    /// The pages that a range of bytes touches; `None` if it wraps.
    pub(crate) fn around(address: u64, bytes: u64) -> Option<Self> {
        let start = address & !(PAGE_BYTES - 1);
        let end = address.checked_add(bytes)?.checked_next_multiple_of(PAGE_BYTES)?;
        Some(Self { start, bytes: end - start })
    }

    /// All of a mapping, which stays.
    #[cfg(test)]
    pub(crate) fn of(mapping: Mapping) -> Self {
        let mapping = core::mem::ManuallyDrop::new(mapping);
        Self { start: mapping.address(), bytes: mapping.bytes() }
    }

    /// True if all of these others are among them.
    pub(crate) fn contains(self, others: Self) -> bool {
        self.start <= others.start && others.end() <= self.end()
    }

    fn end(self) -> u64 {
        self.start + self.bytes
    }
}

/// What is known of the memory at some pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Mapped, readable and writable, and private to the process: backed by nothing, or a file's
    /// pages that writes do not go back to, such as a program's variables.
    Plain,
    /// What [`exchange`] has put there, all of it.
    Exchanged,
    /// Mapped and readable, but shared, backed by a file, read only, or the main thread's stack.
    Readable,
    /// Not readable, or not mapped, in part.
    Nothing,
}

/// A line of `/proc/self/maps`.
struct Mapped<'a> {
    from: u64,
    to: u64,
    rights: &'a str,
    inode: &'a str,
    name: &'a str,
}

/// The mappings of `/proc/self/maps`' text, in the order of their addresses.
fn mappings(maps: &str) -> impl Iterator<Item = Mapped<'_>> {
    maps.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Mapped {
            from: number(from)?,
            to: number(to)?,
            rights: fields.next().unwrap_or(""),
            inode: fields.nth(2).unwrap_or(""),
            name: fields.next().unwrap_or(""),
        })
    })
}

/// What is at some pages, by `/proc/self/maps`' text.
pub(crate) fn nature(maps: &str, pages: Pages) -> Nature {
    let mut at = pages.start;
    let mut nature = None;
    for Mapped { from, to, rights, inode, name } in mappings(maps) {
        if to <= at {
            continue;
        }
        if from > at || !rights.starts_with('r') {
            return Nature::Nothing;
        }
        let nameless = name.is_empty() || name == "[heap]" || name.starts_with("[anon:");
        let ours = name
            .strip_prefix("/memfd:")
            .is_some_and(|name| name.as_bytes() == FILE_NAME.to_bytes());
        let here = match (rights, inode) {
            ("rw-p", "0") if nameless => Nature::Plain,
            ("rw-p", file) if file != "0" => Nature::Plain,
            ("rw-s", _) if ours => Nature::Exchanged,
            _ => Nature::Readable,
        };
        nature = match nature {
            Some(before) if before != here => Some(Nature::Readable),
            _ => Some(here),
        };
        at = to;
        if at >= pages.end() {
            return nature.unwrap_or(Nature::Nothing);
        }
    }
    Nature::Nothing
}

/// What is at some pages now. The calling thread's stack is not plain: the exchange would run on it, and after a
/// fork both processes would for a while.
pub(crate) fn nature_now(pages: Pages) -> Nature {
    let now = fs::read_to_string("/proc/self/maps");
    match now.map_or(Nature::Nothing, |maps| nature(&maps, pages)) {
        Nature::Plain if is_in_own_stack(pages) => Nature::Readable,
        nature => nature,
    }
}

/// True if some of the pages are the calling thread's stack.
fn is_in_own_stack(pages: Pages) -> bool {
    let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: zeros are a value of the structure, which is written before it is read, and destroyed; the locals
    // are written.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return false;
        }
        libc::pthread_attr_getstack(&attributes, &mut start, &mut bytes);
        libc::pthread_attr_destroy(&mut attributes);
    }
    let start = start as u64;
    pages.start < start + bytes as u64 && start < pages.end()
}

/// `/proc/self/maps`' text now; empty if it cannot be read.
pub(crate) fn maps_now() -> String {
    fs::read_to_string("/proc/self/maps").unwrap_or_default()
}

/// True if a file of this library's is mapped at all of some pages, by `/proc/self/maps`' text.
pub(crate) fn is_file_at(maps: &str, pages: Pages, fd: RawFd) -> bool {
    let status = open_descriptor(fd).and_then(|fd| Ok(rustix::fs::fstat(fd)?));
    let Ok(status) = status else { return false };
    let file = status.st_ino.to_string();
    let mut at = pages.start;
    for Mapped { from, to, inode, name, .. } in mappings(maps) {
        if to <= at {
            continue;
        }
        let is_its = inode == file && name.starts_with("/memfd:");
        if from > at || !is_its {
            return false;
        }
        at = to;
        if at >= pages.end() {
            return true;
        }
    }
    false
}

/// Holds up the threads that write to some pages, until it is dropped.
struct Quiet {
    /// Closed when this is dropped, which lets all writers go on.
    _holder: Option<Userfaultfd>,
}

/// True if no other thread can be running: there is no other writer.
fn is_only_thread() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

impl Quiet {
    /// No other thread writes to the pages from now on; `None` if that cannot be had.
    fn over(pages: Pages, protects: Protects) -> Option<Self> {
        match is_only_thread() {
            true => Some(Self { _holder: None }),
            false => {
                Self::by_protection(pages, protects).map(|holder| Self { _holder: Some(holder) })
            }
        }
    }

    fn by_protection(pages: Pages, protects: Protects) -> Option<Userfaultfd> {
        let holder = userfaultfd::open(protects)?;
        if !holder.register(pages.start, pages.bytes) {
            return None;
        }
        // Only pages that are there can be protected; reading makes them be there.
        for page in (pages.start..pages.end()).step_by(PAGE_BYTES as usize) {
            // SAFETY: the pages are mapped and readable, as the caller has seen.
            unsafe { (page as *const u8).read_volatile() };
        }
        holder.write_protect(pages.start, pages.bytes).then_some(holder)
    }
}

/// Exchanges pages, which are mapped, readable and writable, for others with the same contents:
/// those of a file that is as long, shared, or private ones. False if nothing was exchanged.
pub(crate) fn exchange(pages: Pages, file: Option<BorrowedFd<'_>>) -> bool {
    let new = match file {
        Some(file) => Mapping::shared(file, pages.bytes).ok(),
        None => Mapping::anonymous(pages.bytes).ok(),
    };
    let Some(new) = new else { return false };
    let (place, copy) = (pages.start as *mut libc::c_void, new.base().as_ptr().cast());
    let length = pages.bytes as usize;
    // Before the threads are counted: a handler can start one.
    let _signals = Blocked::all();
    // What is there are the program's own pages, or a file's, which older kernels do not protect.
    let quiet =
        Quiet::over(pages, if file.is_some() { Protects::Private } else { Protects::Shared });
    let exchanged = quiet.is_some()
        // SAFETY: both are mapped for their length, the old pages as the caller has seen. No other
        // thread writes to them between the copy and the exchange. What the exchange takes away is
        // what it puts there; `copy` is ours.
        && unsafe {
            libc::memcpy(copy, place, length);
            let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            libc::mremap(copy, length, length, how, place) == place
        };
    if exchanged {
        // It is mapped there no more.
        core::mem::forget(new);
    }
    exchanged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{in_child, words_at};
    use channel::memfd::{Seals, create_sealed};
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
    use std::time::Duration;

    const MAPS: &str = "\
1000-3000 rw-p 00000000 00:00 0                  [heap]
3000-5000 rw-p 00000000 00:00 0
5000-6000 r--p 00000000 00:00 0
6000-7000 rw-s 00000000 00:01 77                 /memfd:openmps-registered (deleted)
7000-7800 rw-s 00000000 00:01 78                 /memfd:x (deleted)
8000-9000 ---p 00000000 00:00 0
a000-b000 rw-p 00000000 00:00 0                  [stack]
c000-d000 rw-p 00002000 00:01 79                 /usr/bin/program
d000-e000 rw-p 00000000 00:00 0
";

    #[test]
    fn only_plain_pages_are_plain() {
        let at = |start, bytes| nature(MAPS, Pages { start, bytes });
        assert_eq!(at(0x1000, 0x4000), Nature::Plain, "two mappings side by side");
        assert_eq!(at(0x2000, 0x1000), Nature::Plain);
        assert_eq!(at(0x4000, 0x2000), Nature::Readable, "read only in part");
        assert_eq!(at(0x6000, 0x1000), Nature::Exchanged);
        assert_eq!(at(0x7000, 0x800), Nature::Readable, "shared");
        assert_eq!(at(0x6000, 0x1800), Nature::Readable, "exchanged in part");
        assert_eq!(at(0xa000, 0x1000), Nature::Readable, "a stack");
        assert_eq!(at(0xc000, 0x2000), Nature::Plain, "a program's variables");
        for nothing in [(0x6000, 0x2800), (0x8000, 0x1000), (0x9000, 0x1000), (0, 0x2000)] {
            assert_eq!(at(nothing.0, nothing.1), Nature::Nothing, "{nothing:x?}");
        }
    }

    #[test]
    fn a_thread_s_own_stack_is_not_plain() {
        let thread = std::thread::spawn(|| {
            let local = 7u32;
            let around = Pages::around(&raw const local as u64, 4).expect("an address");
            let heap = vec![0u8; 3 * PAGE_BYTES as usize];
            let inside = Pages::around(heap.as_ptr() as u64 + PAGE_BYTES, 1).expect("an address");
            (nature_now(around), nature_now(inside))
        });
        assert_eq!(thread.join().expect("it ends"), (Nature::Readable, Nature::Plain));
    }

    #[test]
    fn pages_reach_around_a_range() {
        let around = |address, bytes| Pages::around(address, bytes).map(|p| (p.start, p.bytes));
        assert_eq!(around(0x1001, 1), Some((0x1000, 0x1000)));
        assert_eq!(around(0x1fff, 2), Some((0x1000, 0x2000)));
        assert_eq!(around(u64::MAX - 5, 10), None);
    }

    /// Says, past the harness, which holds back what tests that succeed print, that this system
    /// holds up no writers.
    fn skipped(test: &str) {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: no userfaultfd for this user here");
    }

    /// Where the handler below writes, and how often it did.
    static WORD: AtomicU64 = AtomicU64::new(0);
    static SIGNALS: AtomicU32 = AtomicU32::new(0);

    fn word() -> &'static AtomicU32 {
        &words_at(WORD.load(Ordering::Relaxed), 1)[0]
    }

    extern "C" fn write_a_word(_: libc::c_int) {
        word().fetch_add(1, Ordering::Relaxed);
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }

    /// In a child of fork, whose one thread this is: exchanges pages to which a handler writes
    /// again and again. True if no write was lost.
    fn exchange_under_a_handler(threads: usize, pages: Pages, file: BorrowedFd<'_>) -> bool {
        {
            let _blocked = Blocked::all();
            for _ in 1..threads {
                std::thread::spawn(|| std::thread::sleep(Duration::from_secs(60)));
            }
        }
        WORD.store(pages.start + PAGE_BYTES, Ordering::Relaxed);
        let every = libc::timeval { tv_sec: 0, tv_usec: 50 };
        // SAFETY: the handler does what a handler may; the structures are locals, and zeros are a
        // value of both. The alarm ends the process if it hangs.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = write_a_word as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGVTALRM, &action, std::ptr::null_mut());
            let timer = libc::itimerval { it_interval: every, it_value: every };
            libc::setitimer(libc::ITIMER_VIRTUAL, &timer, std::ptr::null_mut());
            libc::alarm(60);
        }
        let mut exchanged = true;
        while exchanged && SIGNALS.load(Ordering::Relaxed) < 300 {
            exchanged = exchange(pages, Some(file)) && exchange(pages, None);
        }
        let _blocked = Blocked::all();
        exchanged && word().load(Ordering::Relaxed) == SIGNALS.load(Ordering::Relaxed)
    }

    #[test]
    fn pages_are_exchanged_under_a_signal_handler_that_writes() {
        let pages = Pages::of(Mapping::anonymous(64 * PAGE_BYTES).unwrap());
        let file = create_sealed(FILE_NAME, pages.bytes, Seals::SIZE).unwrap();
        let held_up = Quiet::by_protection(pages, Protects::Shared).is_some();
        for threads in [1, 3] {
            if threads > 1 && !held_up {
                skipped("pages_are_exchanged_under_a_signal_handler_that_writes, several threads");
                continue;
            }
            // The handler and the number of threads are a process', so it is one of its own.
            let status = in_child(|| exchange_under_a_handler(threads, pages, file.as_fd()));
            assert_eq!(status, 0, "{threads} threads: 256 is a lost write, 14 a process that hung");
        }
    }

    #[test]
    fn pages_are_exchanged_under_a_writer_without_a_lost_write() {
        let pages = Pages::of(Mapping::anonymous(8 * PAGE_BYTES).unwrap());
        let words = words_at(pages.start, pages.bytes as usize / 4);
        let file = create_sealed(FILE_NAME, pages.bytes, Seals::SIZE).unwrap();
        if Quiet::by_protection(pages, Protects::Shared).is_none() {
            return skipped("pages_are_exchanged_under_a_writer_without_a_lost_write");
        }
        let stop = AtomicBool::new(false);
        let rounds = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    words.iter().for_each(|word| {
                        let before = word.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(before + 1, round, "a write was lost");
                    });
                }
                round
            });
            for _ in 0..20 {
                assert_eq!(nature_now(pages), Nature::Plain);
                assert!(exchange(pages, Some(file.as_fd())));
                assert_eq!(nature_now(pages), Nature::Exchanged);
                assert!(exchange(pages, None));
            }
            stop.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == rounds));
    }
}
