//! A directory of one's own that is gone when its owner is.

use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A fresh directory, mode 0700, removed with all that is in it on drop.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes it in the directory for temporary files.
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("openmps-{purpose}-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                // Left by a process that was killed, whose number this one has.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| {
                        let place = path.display();
                        format!("making {place} (TMPDIR says where such directories go)")
                    });
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_in_nobodys_way() {
        let purpose = "left-over";
        let first = Scratch::new(purpose).unwrap();
        let name = first.path().file_name().unwrap().to_str().unwrap();
        let (name, number) = name.rsplit_once('-').unwrap();
        // Other tests take numbers too.
        let next = number.parse::<u32>().unwrap() + 1..;
        let left: Vec<PathBuf> =
            next.take(20).map(|n| first.path().with_file_name(format!("{name}-{n}"))).collect();
        left.iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let second = Scratch::new(purpose).unwrap();
        assert!(!left.contains(&second.0));
        left.iter().for_each(|path| std::fs::remove_dir(path).unwrap());
    }
}
