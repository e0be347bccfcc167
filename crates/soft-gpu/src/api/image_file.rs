//! Files of the program's with images.

use std::path::PathBuf;

use cuda_api::pointer::In;

use crate::error::{Error, Result};

/// A file with an image.
pub(crate) struct ImageFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl ImageFile {
    /// Reads the file that the program named.
    pub(crate) fn read(name: In<std::ffi::c_char>) -> Result<Self> {
        use std::os::unix::ffi::OsStrExt;
        let name = name.text()?;
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::FILE_NOT_FOUND,
            _ => Error::OPERATING_SYSTEM,
        })?;
        Ok(Self { path, bytes })
    }
}
