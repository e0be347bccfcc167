//! Destination: the file that a command is to write at its end, checked before it begins.
//!
//! The bytes go to a file beside it that then takes its name. So a full disk neither cuts off what
//! was there nor leaves a part of what was to come. What is no regular file (`/dev/null`, a pipe) has
//! no content to keep, and is written as it is.

use anyhow::{Context, Result};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Rights of a file that was not there, of which the umask takes some away.
const NEW_MODE: u32 = 0o666;

/// Where a command's file goes.
#[derive(Debug)]
pub(crate) struct Destination {
    path: PathBuf,
    /// The directory of the file that takes its name; `None`: it is written as it is.
    beside: Option<PathBuf>,
}

impl Destination {
    /// Checks that a file of that name can be written. Nothing is left there, and what is there stays.
    ///
    /// # Errors
    /// It cannot: the directory is not there, or may not be written; the path is a directory's.
    pub(crate) fn check(path: &Path) -> Result<Self> {
        Self::checked(path).with_context(|| format!("{} cannot be written", path.display()))
    }

    fn checked(path: &Path) -> io::Result<Self> {
        // Behind a link is the file that is meant; the link stays.
        let path = match fs::canonicalize(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
            found => found?,
        };
        let is_there = match fs::metadata(&path) {
            Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => return Ok(Self { path, beside: None }),
            Ok(_) => {
                // One that may not be written is not to be replaced either.
                OpenOptions::new().write(true).open(&path)?;
                true
            }
            Err(_) => false,
        };
        let (Some(_), Some(directory)) = (path.file_name(), path.parent()) else {
            return Err(ErrorKind::NotFound.into());
        };
        let here = directory.as_os_str().is_empty();
        let directory = if here { Path::new(".") } else { directory }.to_owned();
        match part(&directory) {
            // Made anew at the end: a command that is killed leaves nothing.
            Ok(_) => Ok(Self { path, beside: Some(directory) }),
            // A file that may be written in a directory that may not.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && is_there => {
                Ok(Self { path, beside: None })
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The system's. Then what was there is there still.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<()> {
        let written = match &self.beside {
            None => fs::write(&self.path, bytes),
            Some(directory) => self.replace(directory, bytes),
        };
        written.with_context(|| format!("writing {}", self.path.display()))
    }

    fn replace(&self, directory: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut part = part(directory)?;
        if let Ok(found) = fs::metadata(&self.path) {
            // Another owner's file may be meant to be read by others.
            part.as_file().set_permissions(found.permissions())?;
        }
        part.write_all(bytes)?;
        // Some file systems tell of a full disk only then.
        part.as_file().sync_all()?;
        part.persist(&self.path)?;
        Ok(())
    }
}

/// A file that is gone with its value, unless it takes another name.
fn part(directory: &Path) -> io::Result<NamedTempFile> {
    let rights = fs::Permissions::from_mode(NEW_MODE);
    tempfile::Builder::new().prefix(".openmps-").permissions(rights).tempfile_in(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::symlink;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_behind_a_link() {
        let place = Scratch::new("destination").unwrap();
        let (path, link) = (place.path().join("real"), place.path().join("link"));
        fs::write(&path, "before, and longer").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real", &link).unwrap();
        let destination = Destination::check(&link).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before, and longer");
        destination.write(b"after").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");
        assert!(link.is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(place.path()).len(), 2);
    }

    #[test]
    fn no_part_is_left_of_what_cannot_be_written() {
        let place = Scratch::new("destination").unwrap();
        let path = place.path().join("file");
        fs::write(&path, "before").unwrap();
        let destination = Destination::check(&path).unwrap();
        // The part cannot take the name.
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(destination.write(b"after").is_err());
        assert_eq!(names(place.path()), ["file"], "no part is left");
        // The directory is gone.
        let lost = Destination::check(&place.path().join("other")).unwrap();
        fs::remove_dir_all(place.path()).unwrap();
        assert!(lost.write(b"bytes").is_err());
    }

    #[test]
    fn what_cannot_be_written_is_known_at_once_and_devices_stay_devices() {
        let place = Scratch::new("destination").unwrap();
        for wrong in [place.path().to_owned(), place.path().join("no/file"), PathBuf::from("/")] {
            let error = format!("{:#}", Destination::check(&wrong).unwrap_err());
            assert!(error.contains("cannot be written: "), "{error}");
        }
        assert!(names(place.path()).is_empty());
        let null = Destination::check(Path::new("/dev/null")).unwrap();
        assert!(null.beside.is_none() && null.write(b"bytes").is_ok());
    }
}
