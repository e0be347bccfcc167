//! Client libraries on the host: from an image to the directory that containers get.
//!
//! A file is renamed into its place, so that containers that have the one before keep it.

use std::fs;
use std::io;
use std::path::Path;

/// Makes a directory have the files of another one, links and folders included; what is the same stays, and nothing
/// is removed. How many files are new.
///
/// # Errors
/// A file cannot be read or written.
pub fn place(from: &Path, to: &Path) -> io::Result<usize> {
    fs::create_dir_all(to)?;
    let mut placed = 0;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            placed += place(&source, &target)?;
            continue;
        }
        let beside = to.join(format!(".{}.new", entry.file_name().display()));
        let _ = fs::remove_file(&beside);
        if kind.is_symlink() {
            let leads = fs::read_link(&source)?;
            if fs::read_link(&target).is_ok_and(|there| there == leads) {
                continue;
            }
            std::os::unix::fs::symlink(leads, &beside)?;
        } else {
            if fs::read(&target).is_ok_and(|there| fs::read(&source).is_ok_and(|new| new == there))
            {
                continue;
            }
            fs::copy(&source, &beside)?;
            fs::File::open(&beside)?.sync_all()?;
        }
        fs::rename(&beside, &target)?;
        placed += 1;
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn files_that_are_the_same_stay_and_others_are_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("compilers")).unwrap();
        fs::write(from.join("libcuda.so.1"), "one").unwrap();
        fs::write(from.join("compilers/x"), "x").unwrap();
        symlink("libcuda.so.1", from.join("libcuda.so")).unwrap();
        assert_eq!(place(&from, &to).unwrap(), 3);
        assert_eq!(fs::read_to_string(to.join("libcuda.so")).unwrap(), "one");
        let before = fs::metadata(to.join("libcuda.so.1")).unwrap().ino();
        assert_eq!(place(&from, &to).unwrap(), 0);
        assert_eq!(fs::metadata(to.join("libcuda.so.1")).unwrap().ino(), before);
        // A container has the file itself, not its name.
        let held = fs::File::open(to.join("libcuda.so.1")).unwrap();
        fs::write(from.join("libcuda.so.1"), "two").unwrap();
        assert_eq!(place(&from, &to).unwrap(), 1);
        assert_eq!(io::read_to_string(held).unwrap(), "one");
        assert_eq!(fs::read_to_string(to.join("libcuda.so.1")).unwrap(), "two");
    }
}
