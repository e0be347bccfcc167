//! Scratch directory: a directory of a process' own that is gone when its owner is.
//!
//! The owner holds a lock on it, which the kernel takes back however the owner ends. So a command
//! that can lock a directory has found what a killed command left, and removes it. Invariant: a
//! directory is used only by the process that locked it while it was still to be found under its
//! name.

use anyhow::Context;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How names of these directories begin, and those of no other program.
const PREFIX: &str = "openmps-scratch-";

/// A fresh directory, mode 0700, removed with all that is in it on drop.
pub(crate) struct Scratch {
    path: PathBuf,
    _lock: Lock,
}

impl Scratch {
    /// Makes it in the directory for temporary files. The first one of a process removes what
    /// killed ones of this user left there.
    pub(crate) fn new(purpose: &str) -> anyhow::Result<Self> {
        static TIDIED: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let place = std::env::temp_dir();
        TIDIED.call_once(|| remove_abandoned(&place));
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{PREFIX}{purpose}-{}-{number}", std::process::id());
            let path = place.join(name);
            let failed =
                || format!("making {} (TMPDIR says where such directories go)", path.display());
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    if let Some(lock) = lock_own(&path).with_context(failed)? {
                        return Ok(Self { path, _lock: lock });
                    }
                }
                // Left by a process that was killed, whose number this one has.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(failed),
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and it must not hide the command's own result.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// What keeps other commands from removing a directory; nothing where the file system knows no such
/// locks, and so gives others none either.
type Lock = Option<OwnedFd>;

/// Locks a directory that was just made; `None` if another command has removed it meanwhile, or is
/// about to, taking it for an abandoned one.
fn lock_own(path: &Path) -> std::io::Result<Option<Lock>> {
    let directory = match open_directory(path) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(_) => return Ok(Some(None)),
    }
    let held = fstat(&directory)?;
    let there = std::fs::symlink_metadata(path);
    let is_there =
        there.is_ok_and(|there| (there.dev(), there.ino()) == (held.st_dev, held.st_ino));
    Ok(is_there.then_some(Some(directory)))
}

/// Removes the directories in `place` that are this user's and that no process holds.
fn remove_abandoned(place: &Path) {
    let me = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries {
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let Ok(directory) = open_directory(&entry.path()) else { continue };
        if fstat(&directory).is_ok_and(|found| found.st_uid == me)
            && flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            // What cannot be removed is in no command's way.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_hinders_no_process() {
        let purpose = "left-over";
        let first = Scratch::new(purpose).unwrap();
        let name = first.path().file_name().unwrap().to_str().unwrap();
        let (name, number) = name.rsplit_once('-').unwrap();
        // Other tests take numbers too.
        let next = number.parse::<u32>().unwrap() + 1..;
        let left: Vec<PathBuf> =
            next.take(20).map(|n| first.path().with_file_name(format!("{name}-{n}"))).collect();
        left.iter().for_each(|path| std::fs::create_dir(path).unwrap());
        // Or another process clears them away meanwhile.
        let _locks: Vec<_> = left.iter().map(|path| lock_own(path).unwrap()).collect();
        let second = Scratch::new(purpose).unwrap();
        assert!(!left.iter().any(|path| path == second.path()));
        left.iter().for_each(|path| drop(std::fs::remove_dir(path)));
    }

    #[test]
    fn only_what_is_not_held_is_removed() {
        let place = Scratch::new("place").unwrap();
        let make = |name: &str| {
            let path = place.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("file"), "").unwrap();
            path
        };
        let held = make("openmps-scratch-group-1-0");
        let lock = lock_own(&held).unwrap().expect("no other command has it");
        assert!(lock.is_some(), "the file system knows locks");
        assert!(lock_own(&held).unwrap().is_none());
        let abandoned = make("openmps-scratch-group-2-0");
        let others = make("openmps-1000");
        let link = place.path().join("openmps-scratch-group-3-0");
        std::os::unix::fs::symlink(&others, &link).unwrap();
        remove_abandoned(place.path());
        assert!(!abandoned.exists());
        assert!(held.join("file").exists() && others.join("file").exists());
        assert!(link.is_symlink());
        drop(lock);
        remove_abandoned(place.path());
        assert!(!held.exists());
    }
}
