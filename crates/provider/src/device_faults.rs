//! Device faults of the software GPU: its kernel log of Xid errors, in a file where processes meet.
//!
//! A hardware GPU's are the driver's to report. Of the software GPU none happen by themselves: an operator writes one to
//! try what watches the device.

use crate::compute_mode::make_meeting_place;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Of the file; a line an error: the device's number and the Xid.
const FILE_NAME: &str = "openmps-soft-xid";
/// Bytes that are read at a time.
const READ_BYTES_MAX: u64 = 64 << 10;

/// An error of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFault {
    /// The device's number.
    pub device: u32,
    /// NVIDIA's number for the kind of error: 48 for memory, 79 for a device that is gone.
    pub xid: u32,
}

/// Where the next error of a meeting place will be, bytes from the file's beginning.
pub fn end(place: &Path) -> u64 {
    std::fs::metadata(place.join(FILE_NAME)).map_or(0, |of| of.len())
}

/// The errors from a place in the file on, and where the next one will be.
pub fn since(place: &Path, from: u64) -> (Vec<DeviceFault>, u64) {
    let mut text = String::new();
    let read = open(place).and_then(|mut file| {
        file.seek(SeekFrom::Start(from))?;
        file.take(READ_BYTES_MAX).read_to_string(&mut text)
    });
    if read.is_err() {
        return (Vec::new(), from);
    }
    // A line that is being written counts when it is whole.
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let faults = text[..whole].lines().filter_map(|line| {
        let (device, xid) = line.split_once(' ')?;
        Some(DeviceFault { device: device.parse().ok()?, xid: xid.parse().ok()? })
    });
    (faults.collect(), from + whole as u64)
}

/// The file, if root or this user has written it: all users may make files there.
fn open(place: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = options.read(true).custom_flags(libc::O_NOFOLLOW).open(place.join(FILE_NAME))?;
    let owner = file.metadata()?.uid();
    if owner == 0 || owner == rustix::process::geteuid().as_raw() {
        Ok(file)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Writes an error down.
///
/// # Errors
/// What the file system says: only the file's owner may.
pub fn write(place: &Path, fault: DeviceFault) -> io::Result<()> {
    make_meeting_place(place);
    let mut options = File::options();
    options.custom_flags(libc::O_NOFOLLOW);
    let mut file = options.append(true).create(true).mode(0o644).open(place.join(FILE_NAME))?;
    file.write_all(format!("{} {}\n", fault.device, fault.xid).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_read_once_and_whole() {
        let place = std::env::temp_dir().join(format!("openmps-xid-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a folder");
        assert_eq!((end(&place), since(&place, 0)), (0, (vec![], 0)));
        let fault = |device, xid| DeviceFault { device, xid };
        write(&place, fault(0, 79)).expect("to write");
        let from = end(&place);
        assert_eq!(since(&place, from), (vec![], from));
        write(&place, fault(1, 48)).expect("to write");
        let (found, next) = since(&place, from);
        assert_eq!(found, [fault(1, 48)]);
        assert_eq!((since(&place, next), since(&place, 0).0.len()), ((vec![], next), 2));
        std::fs::write(place.join(FILE_NAME), "0 79\nnonsense\n1 4").expect("to write");
        assert_eq!(since(&place, 0), (vec![fault(0, 79)], 14), "what is torn comes later");
        std::fs::remove_dir_all(&place).expect("it goes");
    }
}
