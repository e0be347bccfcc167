//! Device memory in use: that of this process, and that of all processes on the software GPU, which
//! together have no more than there is.
//!
//! Each process keeps a row of the file in which all of them count (see
//! [`cuda_api::extension::ProcessRow`]). The row is taken with the first memory and given back by the
//! kernel when the process ends, however it ends. A process that finds no row, or no file, counts for
//! itself alone and is not listed. Rows are what processes say of themselves: one that lies keeps
//! memory from others, as one does that takes it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cuda_api::extension::{
    ACTIVITY_FILE_NAME, MEMORY_LOCK_AT, PROCESS_ROWS_AT, PROCESS_ROWS_MAX, ProcessRow,
};

use crate::device::execution::turn::{
    Descriptor, is_locked, lock_range, open_shared, write_within_limits,
};

/// How often the lock on memory is asked for, a millisecond apart: it is held for some microseconds,
/// and a process that was stopped meanwhile shall not hold up all others.
const LOCK_TRIES: u32 = 100;

/// A number of bytes that is written down for others whenever it changes.
#[derive(Default)]
pub(in crate::device) struct UsedBytes {
    bytes: u64,
    place: Place,
    /// The row's descriptor, for the child of a fork to close.
    descriptor: Descriptor,
}

/// Where it is written.
#[derive(Default)]
enum Place {
    /// Nowhere.
    #[default]
    None,
    /// In this directory, once there is something to write.
    In(PathBuf),
    /// In the row of this number.
    Row(File, u64),
}

impl UsedBytes {
    /// Of the device of that number on this machine.
    pub(super) fn new(shared_dir: Option<&Path>, number: u32) -> Self {
        let place = shared_dir.map(|dir| device_directory(dir, number));
        let place = place.map_or(Place::None, Place::In);
        Self { place, ..Self::default() }
    }

    /// The descriptor of the row, now or later.
    pub(super) fn descriptor(&self) -> Descriptor {
        self.descriptor.clone()
    }

    /// Memory of all processes, this one's included, bytes.
    pub(super) fn of_all(&mut self) -> u64 {
        self.bytes.saturating_add(self.of_others())
    }

    fn of_others(&mut self) -> u64 {
        self.find_place();
        let Place::Row(file, own) = &self.place else { return 0 };
        let mut bytes = vec![0; PROCESS_ROWS_MAX as usize * ProcessRow::BYTES];
        let read = file.read_at(&mut bytes, PROCESS_ROWS_AT).unwrap_or(0);
        let rows = bytes[..read].chunks_exact(ProcessRow::BYTES);
        let rows = rows.filter_map(|row| row.first_chunk().map(ProcessRow::from_bytes));
        let others = (0..).zip(rows).filter(|(number, row)| number != own && row.memory_bytes > 0);
        let living = others.filter(|(row, _)| is_locked(file, ProcessRow::position(*row)));
        living.fold(0, |sum, (_, row)| sum.saturating_add(row.memory_bytes))
    }

    /// Takes so many bytes more, if all processes together have no more than `total` then.
    #[must_use]
    pub(super) fn take(&mut self, bytes: u64, total: u64) -> bool {
        self.find_place();
        let locked = self.lock();
        let used = self.of_all().checked_add(bytes);
        let fits = used.is_some_and(|used| used <= total);
        if fits {
            self.bytes += bytes;
            self.write();
        }
        if locked && let Place::Row(file, _) = &self.place {
            // Unlocking can fail only for lack of memory to split a lock record; others then go
            // without.
            let at = MEMORY_LOCK_AT as i64;
            let _ = lock_range(file, libc::F_OFD_SETLK, libc::F_UNLCK, at, 1);
        }
        fits
    }

    /// Gives so many bytes back.
    pub(super) fn give(&mut self, bytes: u64) {
        self.bytes -= bytes;
        self.write();
    }

    fn lock(&self) -> bool {
        let Place::Row(file, _) = &self.place else { return false };
        let at = MEMORY_LOCK_AT as i64;
        for _ in 0..LOCK_TRIES {
            if lock_range(file, libc::F_OFD_SETLK, libc::F_WRLCK, at, 1).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    fn find_place(&mut self) {
        if let Place::In(dir) = &self.place {
            self.place = take_row(dir).unwrap_or_default();
            if let Place::Row(file, _) = &self.place {
                self.descriptor.set(file.as_raw_fd());
                // What the row's last process left.
                self.write();
            }
        }
    }

    fn write(&self) {
        if let Place::Row(file, row) = &self.place {
            let row_bytes = ProcessRow { pid: std::process::id(), memory_bytes: self.bytes };
            // A full file system loses the number and nothing else.
            let _ = write_within_limits(file, &row_bytes.to_bytes(), ProcessRow::position(*row));
        }
    }
}

/// Where processes count what they have of the device of that number: the first device's is the
/// directory itself.
pub(crate) fn device_directory(dir: &Path, number: u32) -> PathBuf {
    match number {
        0 => dir.to_path_buf(),
        _ => dir.join(format!("openmps-soft-device-{number}")),
    }
}

/// Takes the first row that no process has.
fn take_row(dir: &Path) -> Option<Place> {
    if std::fs::create_dir(dir).is_ok() {
        // As /tmp: all users' processes count here, and none removes another's file.
        let all_users = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
        let _ = std::fs::set_permissions(dir, all_users);
    }
    let file = open_shared(&dir.join(ACTIVITY_FILE_NAME)).ok()?;
    let free = |row: &u64| {
        let start = ProcessRow::position(*row) as i64;
        lock_range(&file, libc::F_OFD_SETLK, libc::F_WRLCK, start, 1).is_ok()
    };
    let row = (0..PROCESS_ROWS_MAX).find(free)?;
    Some(Place::Row(file, row))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = 10 << 32;

    #[test]
    fn a_row_a_process_for_as_long_as_it_lives() {
        let _alive = crate::testing::Watchdog::new();
        let dir = std::env::temp_dir().join(format!("soft-rows-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let read = |row: u64| {
            let mut bytes = [0; ProcessRow::BYTES];
            let file = File::open(dir.join(ACTIVITY_FILE_NAME)).unwrap();
            file.read_exact_at(&mut bytes, ProcessRow::position(row)).unwrap();
            ProcessRow::from_bytes(&bytes)
        };
        let pid = std::process::id();
        let mut one = UsedBytes::new(Some(&dir), 0);
        let mut other = UsedBytes::new(Some(&dir), 0);
        assert!(one.take(5 << 32, ALL));
        assert!(other.take(7, ALL));
        one.give(1 << 32);
        assert_eq!(read(0), ProcessRow { pid, memory_bytes: 4 << 32 });
        assert_eq!(read(1), ProcessRow { pid, memory_bytes: 7 });
        // All together have no more than there is.
        assert!(!other.take(6 << 32, ALL));
        assert_eq!((one.of_all(), other.of_all()), ((4 << 32) + 7, (4 << 32) + 7));
        assert!(other.take((6 << 32) - 7, ALL));
        assert!(!one.take(1, ALL));
        // What the dead leave is taken over, and no process has it until then.
        drop(other);
        // A process that another test starts has its file too, until its program begins.
        while one.of_all() != 4 << 32 {
            std::thread::yield_now();
        }
        let mut third = UsedBytes::new(Some(&dir), 0);
        assert_eq!(third.of_all(), 4 << 32);
        assert!(third.take(9, ALL));
        assert_eq!(read(1), ProcessRow { pid, memory_bytes: 9 });
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn without_a_place_to_meet_a_process_counts_for_itself() {
        let mut alone = UsedBytes::new(None, 0);
        assert!(alone.take(6, 10));
        assert!(!alone.take(5, 10));
        assert!(!alone.take(u64::MAX, 10));
        alone.give(2);
        assert_eq!(alone.of_all(), 4);
    }
}
