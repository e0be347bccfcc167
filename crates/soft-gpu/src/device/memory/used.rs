//! How much device memory this process has, kept so that others can read it: a row of the file in
//! which all processes on the software GPU count (see [`cuda_api::extension::ProcessRow`]).
//!
//! The row is taken with the first memory and given back by the kernel when the process ends,
//! however it ends. A process that finds no row, or no file, is just not listed.

use std::fs::File;
use std::ops::{AddAssign, SubAssign};
use std::path::{Path, PathBuf};

use cuda_api::extension::{ACTIVITY_FILE_NAME, PROCESS_ROWS_MAX, ProcessRow};

use crate::device::turn::{lock_range, open_shared, write_within_limits};

/// A number of bytes that is written down for others whenever it changes.
#[derive(Default)]
pub(in crate::device) struct UsedBytes {
    bytes: u64,
    place: Place,
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
    pub(super) fn new(shared_dir: Option<PathBuf>) -> Self {
        Self { bytes: 0, place: shared_dir.map_or(Place::None, Place::In) }
    }

    pub(super) fn get(&self) -> u64 {
        self.bytes
    }

    fn write(&mut self) {
        if let Place::In(dir) = &self.place {
            self.place = take_row(dir).unwrap_or_default();
        }
        if let Place::Row(file, row) = &self.place {
            let row_bytes = ProcessRow { pid: std::process::id(), memory_bytes: self.bytes };
            // A full file system loses the number and nothing else.
            let _ = write_within_limits(file, &row_bytes.to_bytes(), ProcessRow::position(*row));
        }
    }
}

impl AddAssign<u64> for UsedBytes {
    fn add_assign(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.write();
    }
}

impl SubAssign<u64> for UsedBytes {
    fn sub_assign(&mut self, bytes: u64) {
        self.bytes -= bytes;
        self.write();
    }
}

/// Takes the first row that nobody has.
fn take_row(dir: &Path) -> Option<Place> {
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
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_row_a_process_for_as_long_as_it_lives() {
        let dir = std::env::temp_dir().join(format!("soft-rows-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let read = |row: u64| {
            let mut bytes = [0; ProcessRow::BYTES];
            let file = File::open(dir.join(ACTIVITY_FILE_NAME)).unwrap();
            file.read_exact_at(&mut bytes, ProcessRow::position(row)).unwrap();
            ProcessRow::from_bytes(&bytes)
        };
        let pid = std::process::id();
        let mut one = UsedBytes::new(Some(dir.clone()));
        let mut other = UsedBytes::new(Some(dir.clone()));
        one += 5 << 32;
        other += 7;
        one -= 1 << 32;
        assert_eq!(read(0), ProcessRow { pid, memory_bytes: 4 << 32 });
        assert_eq!(read(1), ProcessRow { pid, memory_bytes: 7 });
        // What the dead leave is taken over.
        drop(one);
        let mut third = UsedBytes::new(Some(dir.clone()));
        third += 9;
        assert_eq!(read(0), ProcessRow { pid, memory_bytes: 9 });
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
