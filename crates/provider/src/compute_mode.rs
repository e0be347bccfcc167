//! Compute mode of the software GPU: which processes may have contexts on it.
//!
//! A hardware GPU's is the driver's to keep. The software GPU lives in each process that uses it, so its
//! mode stands in a file where these processes meet: root's for the machine, else the user's own. There is
//! no file while no mode was set.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Of the file in which root sets the mode; a user's own ends in the user's number.
const FILE_NAME: &str = "openmps-soft-compute-mode";

/// Who may have a context on a device; the values are CUDA's (CUcomputemode).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ComputeMode {
    /// Any number of processes.
    #[default]
    Default = 0,
    /// No process.
    Prohibited = 2,
    /// One process at a time: with a daemon that is its server.
    ExclusiveProcess = 3,
}

impl ComputeMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Default, Self::ExclusiveProcess, Self::Prohibited];

    /// Its number in CUDA; NVML has other ones for some.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// As nvidia-smi spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "DEFAULT",
            Self::Prohibited => "PROHIBITED",
            Self::ExclusiveProcess => "EXCLUSIVE_PROCESS",
        }
    }

    /// A mode by its name, in any case and with any dashes, or by nvidia-smi's number.
    ///
    /// # Errors
    /// What is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let name = text.trim().to_ascii_uppercase().replace('-', "_");
        let by_number = match name.as_str() {
            "0" => Some(Self::Default),
            "2" => Some(Self::Prohibited),
            "3" => Some(Self::ExclusiveProcess),
            _ => None,
        };
        let by_name = || Self::ALL.into_iter().find(|mode| mode.name() == name);
        by_number.or_else(by_name).ok_or_else(|| {
            format!(
                "{text:?} is no compute mode: DEFAULT, EXCLUSIVE_PROCESS or PROHIBITED is allowed"
            )
        })
    }
}

/// The file that root sets a device's mode in, which holds for all users, and a user's own.
fn names(uid: u32) -> Vec<String> {
    let own = (uid != 0).then(|| format!("{FILE_NAME}-{uid}"));
    std::iter::once(FILE_NAME.to_owned()).chain(own).collect()
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The file that holds: the first that there is, and that root or this user has written.
fn file_in(directory: &Path) -> Option<File> {
    let uid = own_uid();
    let is_trusted = |file: &File| {
        file.metadata().is_ok_and(|m| m.is_file() && (m.uid() == 0 || m.uid() == uid))
    };
    let open = |name| {
        let options = &mut File::options();
        options.read(true).custom_flags(libc::O_NOFOLLOW).open(directory.join(name)).ok()
    };
    names(uid).into_iter().filter_map(open).find(is_trusted)
}

fn mode_of(file: &File) -> ComputeMode {
    let mut text = [0; 64];
    let length = file.read_at(&mut text, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    text.lines().next().and_then(|line| ComputeMode::parse(line).ok()).unwrap_or_default()
}

/// The compute mode of a device of the software GPU, by the directory in which its processes meet.
pub fn get(directory: &Path) -> ComputeMode {
    file_in(directory).as_ref().map_or(ComputeMode::Default, mode_of)
}

/// Sets it, for all processes that make a context from now on: root for all users, others for their own.
///
/// # Errors
/// The directory cannot be written; `PermissionDenied` if root has set a mode.
pub fn set(directory: &Path, mode: ComputeMode) -> io::Result<()> {
    let uid = own_uid();
    let by_root = file_in(directory).and_then(|file| file.metadata().ok());
    if uid != 0 && by_root.is_some_and(|metadata| metadata.uid() == 0) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    make_meeting_place(directory);
    let name = names(uid).pop().unwrap_or_default();
    // Written in place: processes have locked this very file.
    let options = &mut File::options();
    options.create(true).truncate(false).write(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(directory.join(name))?;
    let text = format!("{}\n", mode.name());
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// Makes the directory of a device that no process has used yet, as the software GPU makes it: all users' processes
/// meet there, and none removes another's file.
pub(crate) fn make_meeting_place(directory: &Path) {
    if std::fs::create_dir(directory).is_ok() {
        let all_users = std::fs::Permissions::from_mode(0o1777);
        let _ = std::fs::set_permissions(directory, all_users);
    }
}

/// A process's use of a device, for as long as it may have contexts there.
#[derive(Debug)]
pub struct Use {
    _lock: Option<File>,
}

/// Asks for a device. `None` if its mode has no room for this process: then making a context answers
/// CUDA_ERROR_DEVICE_UNAVAILABLE.
pub fn enter(directory: &Path) -> Option<Use> {
    let Some(file) = file_in(directory) else { return Some(Use { _lock: None }) };
    // The lock is the open file's, and goes with it. Beside one that is alone no other is let in, even if the
    // mode has changed meanwhile.
    let locked = match mode_of(&file) {
        ComputeMode::Prohibited => return None,
        ComputeMode::ExclusiveProcess => file.try_lock(),
        ComputeMode::Default => file.try_lock_shared(),
    };
    locked.is_ok().then_some(Use { _lock: Some(file) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_by_name_and_number() {
        for (text, mode) in [
            ("default", ComputeMode::Default),
            ("EXCLUSIVE_PROCESS", ComputeMode::ExclusiveProcess),
            ("exclusive-process", ComputeMode::ExclusiveProcess),
            ("3", ComputeMode::ExclusiveProcess),
            (" 2 ", ComputeMode::Prohibited),
        ] {
            assert_eq!(ComputeMode::parse(text), Ok(mode), "{text}");
        }
        for text in ["", "1", "EXCLUSIVE_THREAD", "4"] {
            let error = ComputeMode::parse(text).unwrap_err();
            assert!(error.contains("EXCLUSIVE_PROCESS or PROHIBITED"), "{error}");
        }
    }

    #[test]
    fn a_mode_lets_in_whom_it_says() {
        let directory =
            std::env::temp_dir().join(format!("openmps-compute-mode-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let set = |mode: ComputeMode| {
            super::set(&directory, mode).unwrap();
            assert_eq!(get(&directory), mode);
        };
        let enter = || enter(&directory);
        let may_enter = |held: &Option<Use>| (held.is_some(), enter().is_some());
        assert_eq!(get(&directory), ComputeMode::Default);
        assert_eq!(may_enter(&enter()), (true, true), "no mode was set");
        set(ComputeMode::Default);
        let first = enter();
        assert_eq!(may_enter(&first), (true, true));
        set(ComputeMode::ExclusiveProcess);
        assert_eq!(may_enter(&first), (true, false), "it is not alone");
        drop(first);
        let alone = enter();
        assert_eq!(may_enter(&alone), (true, false));
        drop(alone);
        set(ComputeMode::Prohibited);
        assert!(enter().is_none());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
