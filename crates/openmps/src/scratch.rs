//! A directory of one's own that is gone when its owner is.

use anyhow::{Context, Result};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A fresh directory, mode 0700, removed with all that is in it on drop.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes it in the directory for temporary files.
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("openmps-{purpose}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path).with_context(|| {
            format!("making {} (TMPDIR says where such directories go)", path.display())
        })?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and it must not hide the command's own result.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
