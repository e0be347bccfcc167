//! Spec files: written whole or not at all, removed, listed.

use crate::{Spec, name};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Bytes of the longest spec file that is read.
const BYTES_MAX: u64 = 1 << 20;

/// The file of a kind's device, or of all devices of a kind that are written together:
/// `openmps.example-share_training-batch.json`.
///
/// # Errors
/// [`crate::Invalid`] if the names are none.
pub fn file_name(kind: &str, device: Option<&str>) -> Result<String, crate::Invalid> {
    name::check_kind(kind)?;
    let kind = kind.replace('/', "-");
    match device {
        Some(device) => {
            name::check_device(device)?;
            Ok(format!("{kind}_{device}.json"))
        }
        None => Ok(format!("{kind}.json")),
    }
}

/// Writes a spec into a directory, which is made if it is not there, and returns the file's path. Container
/// runtimes see the file as it was before or the whole new one.
///
/// # Errors
/// What the file system says.
pub fn write(spec: &Spec, directory: &Path, file: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let path = directory.join(file);
    // Runtimes read what ends in .json or .yaml.
    let draft = directory.join(format!(".{file}.{}.new", std::process::id()));
    let written = (|| {
        let mut out = File::create(&draft)?;
        out.write_all(spec.to_json().as_bytes())?;
        out.set_permissions(fs::Permissions::from_mode(0o644))?;
        out.sync_all()?;
        fs::rename(&draft, &path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written.map(|()| path)
}

/// Removes a spec file; false if there was none.
///
/// # Errors
/// What the file system says.
pub fn remove(directory: &Path, file: &str) -> io::Result<bool> {
    match fs::remove_file(directory.join(file)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A spec file that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The file.
    pub path: PathBuf,
    /// What it says.
    pub spec: Spec,
}

/// The spec files of a directory that this crate reads and that are of one of its forms, sorted by their paths; none
/// if the directory is not there. Others' files are left out.
///
/// # Errors
/// The directory cannot be read.
pub fn list(directory: &Path) -> io::Result<Vec<Stored>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let small = fs::metadata(&path).is_ok_and(|of| of.is_file() && of.len() <= BYTES_MAX);
        let spec = small.then(|| fs::read_to_string(&path).ok()).flatten();
        let spec = spec.and_then(|text| serde_json::from_str::<Spec>(&text).ok());
        found.extend(spec.filter(is_of_shares).map(|spec| Stored { path, spec }));
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Whether every device of a spec is a directory of a daemon.
fn is_of_shares(spec: &Spec) -> bool {
    let has_pipe = |variable: &String| variable.starts_with("CUDA_MPS_PIPE_DIRECTORY=");
    let mut devices = spec.devices.iter();
    !spec.devices.is_empty()
        && spec.container_edits.env.iter().any(|of| of.starts_with("OPENMPS_LIB_DIR="))
        && devices.all(|device| device.container_edits.env.iter().any(has_pipe))
}
