//! Turns: processes on the software GPU use it one at a time, in slices of about 2 ms, as
//! contexts of different processes do on a GPU.
//!
//! Two bytes of one file are locked: the *turnstile*, which a process holds while it waits, and
//! the *device*. A process that wants the device takes the turnstile, then the device, and lets the
//! turnstile go. At the end of a slice the holder looks whether another process holds the
//! turnstile: if so, it stops its blocks, lets the device go and queues up itself. The locks belong
//! to an open file, so the kernel takes them back when a process dies, however it dies.
//!
//! A process that has met no other lately keeps the device for a few milliseconds after its last
//! kernel, so that it pays no system call a launch; one that has lets go at once.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::Thread;

use crate::device::clock::now_ns;
use crate::device::execution::activity_file::ActivityFile;
use crate::device::execution::core::Core;
use crate::device::limits;

/// File in a directory that all users of the machine's software GPU share.
const FILE_NAME: &str = "openmps-soft-turn";
/// Bytes of the file that stand for the two locks.
const TURNSTILE: i64 = 0;
const DEVICE: i64 = 1;
/// After meeting another process the device is let go without delay for this long.
const CONTENDED_NS: u64 = 1_000_000_000;
/// Tries to open the file while another process has made it but not yet given it its mode.
const OPEN_TRIES_MAX: u32 = 20;

/// Where this process stands.
pub(in crate::device) struct TurnState {
    /// `None`: no turns, the device is always ours.
    pub(in crate::device) file: Option<TurnFile>,
    /// Where activity is counted for others to read.
    counts: Option<ActivityFile>,
    /// The device is ours.
    pub(in crate::device) held: bool,
    /// The turn thread waits for it.
    pub(in crate::device) queued: bool,
    /// Blocks were asked to stop so that another process gets its turn.
    pub(in crate::device) giving_up: bool,
    /// Start of the slice, ns.
    since_ns: u64,
    /// When another process was last seen to want it, ns.
    contended_ns: u64,
    /// The turn thread, while it has nothing to wait for.
    pub(in crate::device) thread: Option<Thread>,
}

impl TurnState {
    pub(in crate::device) fn new(file: Option<TurnFile>) -> Self {
        let held = file.is_none();
        let counts = file.as_ref().and_then(|file| ActivityFile::open(&file.dir).ok());
        Self {
            file,
            counts,
            held,
            queued: false,
            giving_up: false,
            since_ns: 0,
            contended_ns: 0,
            thread: None,
        }
    }
}

impl Core {
    /// There are blocks to run: gets the device, at once if it is free.
    pub(in crate::device) fn want_turn(&mut self) {
        if self.turn.held || self.turn.queued {
            return;
        }
        let Some(file) = &self.turn.file else { return };
        if file.try_take() {
            self.turn_taken();
        } else {
            self.turn.contended_ns = now_ns();
            self.queue_for_turn();
        }
    }

    fn queue_for_turn(&mut self) {
        self.turn.queued = true;
        if let Some(thread) = self.turn.thread.take() {
            self.after.unpark_thread(thread);
        }
    }

    /// The device has become ours.
    pub(in crate::device) fn turn_taken(&mut self) {
        let now = now_ns();
        self.turn.queued = false;
        self.turn.held = true;
        self.turn.giving_up = false;
        self.turn.since_ns = now;
        self.activity.set_held(true, now);
        self.wake_ticker();
    }

    fn let_go(&mut self) {
        let Some(file) = &self.turn.file else { return };
        // Before the release: a process that waits may run in our place as soon as we let go, and
        // only the process whose turn it is may count.
        let now = now_ns();
        if let Some(counts) = &mut self.turn.counts {
            counts.add(&self.activity.totals(now), now);
        }
        file.release();
        self.turn.held = false;
        self.turn.giving_up = false;
        self.activity.set_held(false, now);
    }

    /// The last grid has ended.
    pub(in crate::device) fn turn_idle(&mut self, now: u64) {
        let recent = now.saturating_sub(self.turn.contended_ns) < CONTENDED_NS;
        if self.turn.file.is_some() && self.turn.held && recent && self.running_blocks() == 0 {
            self.let_go();
        }
    }

    /// A block came back while the device is being given up.
    pub(in crate::device) fn give_turn_up(&mut self) {
        if !self.turn.giving_up || self.running_blocks() > 0 {
            return;
        }
        self.let_go();
        if !self.grids.is_empty() {
            self.queue_for_turn();
        }
    }

    /// Looks at the end of a slice whether another process waits.
    pub(in crate::device) fn turn_tick(&mut self, now: u64) {
        let Some(file) = &self.turn.file else { return };
        if !self.turn.held || self.turn.giving_up {
            return;
        }
        if let Some(counts) = self.turn.counts.as_mut().filter(|counts| counts.is_due(now)) {
            counts.add(&self.activity.totals(now), now);
        }
        let idle = self.grids.is_empty();
        if !idle && now.saturating_sub(self.turn.since_ns) < limits::TURN_NS {
            return;
        }
        self.turn.since_ns = now;
        if !file.others_wait() {
            return;
        }
        self.turn.contended_ns = now;
        self.turn.giving_up = true;
        for slot in &self.slots {
            if slot.running.as_ref().is_some_and(|r| r.grid.is_some()) {
                slot.control.request_yield();
            }
        }
        self.give_turn_up();
    }

    /// Lets the device go if it was only kept for the next kernel to come.
    pub(in crate::device) fn let_idle_turn_go(&mut self) {
        if self.turn.file.is_some() && self.turn.held && self.grids.is_empty() {
            self.let_go();
        }
    }
}

/// The file of the two locks.
pub struct TurnFile {
    file: File,
    /// The directory it is in.
    dir: PathBuf,
}

impl TurnFile {
    /// Opens it in the first directory where that is possible.
    pub fn open(dirs: &[PathBuf]) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for dir in dirs {
            match open_shared(&dir.join(FILE_NAME)) {
                Ok(file) => return Ok(Self { file, dir: dir.clone() }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// A second handle on the same open file, whose locks are the same locks.
    pub(in crate::device) fn share(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, dir: self.dir.clone() })
    }

    /// The directory in which processes meet.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The descriptor.
    pub(in crate::device) fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Takes the device if no process has it and none waits for it.
    fn try_take(&self) -> bool {
        // Both bytes in one call: all or nothing.
        self.lock(libc::F_OFD_SETLK, libc::F_WRLCK, TURNSTILE, 2).is_ok()
            && self.lock(libc::F_OFD_SETLK, libc::F_UNLCK, TURNSTILE, 1).is_ok()
    }

    /// Waits in the queue, then for the device.
    pub(in crate::device) fn take(&self) -> io::Result<()> {
        self.lock(libc::F_OFD_SETLKW, libc::F_WRLCK, TURNSTILE, 1)?;
        let taken = self.lock(libc::F_OFD_SETLKW, libc::F_WRLCK, DEVICE, 1);
        self.lock(libc::F_OFD_SETLK, libc::F_UNLCK, TURNSTILE, 1)?;
        taken
    }

    pub(in crate::device) fn release(&self) {
        // Unlocking can fail only for lack of memory to split a lock record; then the device
        // stays ours until the next release.
        let _ = self.lock(libc::F_OFD_SETLK, libc::F_UNLCK, DEVICE, 1);
    }

    fn others_wait(&self) -> bool {
        is_locked(&self.file, TURNSTILE as u64)
    }

    fn lock(&self, command: i32, kind: i32, start: i64, bytes: i64) -> io::Result<()> {
        lock_range(&self.file, command, kind, start, bytes)
    }
}

/// Locks or unlocks bytes of a file. The lock belongs to the open file, and goes with it.
pub(in crate::device) fn lock_range(
    file: &File,
    command: i32,
    kind: i32,
    start: i64,
    bytes: i64,
) -> io::Result<()> {
    loop {
        match fcntl(file, command, &mut flock(kind, start, bytes)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// True if another open file has a lock on this byte of a file.
pub(in crate::device) fn is_locked(file: &File, byte: u64) -> bool {
    let mut lock = flock(libc::F_WRLCK, byte as i64, 1);
    let asked = fcntl(file, libc::F_OFD_GETLK, &mut lock);
    asked.is_ok() && lock.l_type != libc::F_UNLCK as libc::c_short
}

/// A command for locks.
fn fcntl(file: &File, command: i32, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the commands take a flock, which lives across the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn flock(kind: i32, start: i64, bytes: i64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: bytes,
        l_pid: 0,
    }
}

/// A descriptor of a locked file that can be read without a lock; -1 for none.
#[derive(Clone)]
pub(in crate::device) struct Descriptor(Arc<AtomicI32>);

impl Default for Descriptor {
    fn default() -> Self {
        Self(Arc::new(AtomicI32::new(-1)))
    }
}

impl Descriptor {
    pub(in crate::device) fn set(&self, fd: i32) {
        self.0.store(fd, Ordering::Relaxed);
    }

    /// In the child of a fork: closes its copy, which would keep the file's locks for the parent
    /// beyond the parent's end.
    pub(in crate::device) fn close_after_fork(&self) {
        // SAFETY: the descriptor is the child's copy, or -1; nothing in the child uses it any more.
        unsafe { libc::close(self.0.load(Ordering::Relaxed)) };
    }
}

/// Opens or makes a file that every user may lock. Making it and opening it are separate, since
/// opening another user's file with O_CREAT is refused in directories such as /tmp.
pub(in crate::device) fn open_shared(path: &Path) -> io::Result<File> {
    let open = |new: bool| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(new)
            .mode(0o666)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)
    };
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match open(false) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => match open(true) {
                Ok(file) => {
                    file.set_permissions(std::fs::Permissions::from_mode(0o666))?;
                    return Ok(file);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => error,
                Err(error) => return Err(error),
            },
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
            Err(error) => return Err(error),
        };
        if tries >= OPEN_TRIES_MAX {
            return Err(error);
        }
        std::thread::sleep(std::time::Duration::from_micros(500));
    }
}

/// Writes to a file at a place, if this process may make files that long.
pub(in crate::device) fn write_within_limits(
    file: &File,
    bytes: &[u8],
    position: u64,
) -> io::Result<()> {
    channel::system::may_reach(position + bytes.len() as u64)?;
    file.write_all_at(bytes, position)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("soft-gpu-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn one_holds_the_device_and_sees_the_other_wait() {
        let _alive = crate::testing::Watchdog::new();
        let dir = scratch("turn");
        let one = TurnFile::open(std::slice::from_ref(&dir)).unwrap();
        let two = TurnFile::open(std::slice::from_ref(&dir)).unwrap();
        assert!(one.try_take());
        assert!(!one.others_wait());
        assert!(!two.try_take());
        let waiter = std::thread::spawn(move || {
            two.take().unwrap();
            two.release();
        });
        while !one.others_wait() {
            std::thread::yield_now();
        }
        // The one that waits comes first, also before a holder that wants it back at once.
        one.release();
        one.take().unwrap();
        waiter.join().unwrap();
        assert!(!one.others_wait());
        drop(one);
        // Closing the file lets its locks go; a process that another test starts has it until its program begins.
        let three = TurnFile::open(std::slice::from_ref(&dir)).unwrap();
        while !three.try_take() {
            std::thread::yield_now();
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_directory_that_does_not_exist_is_an_error() {
        assert!(TurnFile::open(&["/nonexistent/dir".into()]).is_err());
        assert!(TurnFile::open(&[]).is_err());
    }
}
