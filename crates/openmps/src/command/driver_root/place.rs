//! Placing files of a driver root: each as a whole, with a manifest of what was laid.

use super::layout::{Entry, What, mode};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// What was laid.
const MANIFEST: &str = provider::DRIVER_ROOT_MANIFEST;

/// What is in a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) driver_version: String,
    pub(super) software_gpu: bool,
    pub(super) openmps: String,
    pub(super) files: Vec<String>,
}

/// The manifest of a root; `None` of a folder that is not there or empty.
fn manifest(root: &Path) -> Result<Option<Manifest>> {
    let path = root.join(MANIFEST);
    match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .with_context(|| format!("{} is not understood", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let has_any = fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_some());
            match has_any {
                true => bail!(
                    "{} is not empty and was not laid by `openmps driver-root`: name another folder",
                    root.display()
                ),
                false => Ok(None),
            }
        }
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Lays the entries, removes what a root laid before had beyond them, and returns what was changed.
pub(super) fn lay(root: &Path, entries: &[Entry], new: &Manifest) -> Result<Vec<String>> {
    let before = manifest(root)?;
    let mut changed = Vec::new();
    // What is about to be laid is known before the first file is: a lay that was cut short can be repeated or
    // removed.
    let old: BTreeSet<&String> = before.iter().flat_map(|of| &of.files).collect();
    let mut all: Vec<String> = new.files.clone();
    all.extend(old.iter().filter(|file| !new.files.contains(file)).map(|file| (*file).clone()));
    write_manifest(root, &Manifest { files: all, ..new.clone() })?;
    for entry in entries {
        let to = root.join(&entry.to);
        let placed = place(root, &to, &entry.what);
        if placed.with_context(|| format!("laying {}", to.display()))? {
            changed.push(entry.to.clone());
        }
    }
    for gone in old.into_iter().filter(|file| !new.files.contains(file)) {
        let path = root.join(gone);
        remove_if_there(&path).with_context(|| format!("removing {}", path.display()))?;
        changed.push(gone.clone());
    }
    write_manifest(root, new)?;
    Ok(changed)
}

fn write_manifest(root: &Path, manifest: &Manifest) -> Result<()> {
    let path = root.join(MANIFEST);
    let written = (|| {
        fs::create_dir_all(root.join("etc"))?;
        let draft = draft(&path);
        fs::write(&draft, serde_json::to_string_pretty(manifest)? + "\n")?;
        fs::rename(&draft, &path)
    })();
    written.with_context(|| format!("writing {}", path.display()))
}

/// The file under which another one is made, before it gets that one's name.
fn draft(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.new-{}", std::process::id()))
}

/// Puts a file or a link there; false if it is there already.
fn place(root: &Path, to: &Path, what: &What) -> io::Result<bool> {
    match what {
        What::Link(target) => {
            if fs::read_link(to).is_ok_and(|there| there == Path::new(target)) {
                return Ok(false);
            }
        }
        What::Same(other) => {
            let id = |path: &Path| fs::symlink_metadata(path).map(|of| (of.dev(), of.ino()));
            if id(&root.join(other)).ok() == id(to).ok() {
                return Ok(false);
            }
        }
        What::Copy(from) => {
            let is_file = fs::symlink_metadata(to).is_ok_and(|of| of.is_file());
            if is_file && is_same(from, to)? {
                return Ok(false);
            }
        }
    }
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    let draft = draft(to);
    remove_if_there(&draft)?;
    let made = match what {
        What::Link(target) => symlink(target, &draft),
        // A file system without hard links has a copy.
        What::Same(other) => fs::hard_link(root.join(other), &draft)
            .or_else(|_| fs::copy(root.join(other), &draft).map(drop)),
        What::Copy(from) => {
            fs::copy(from, &draft).and_then(|_| fs::set_permissions(&draft, mode()))
        }
    };
    let placed = made.and_then(|()| fs::rename(&draft, to));
    if placed.is_err() {
        let _ = fs::remove_file(&draft);
    }
    placed.map(|()| true)
}

/// Whether two files have the same content.
fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (fs::File::open(one)?, fs::File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let read = one.read(&mut a)?;
        if read == 0 {
            return Ok(true);
        }
        other.read_exact(&mut b[..read])?;
        if a[..read] != b[..read] {
            return Ok(false);
        }
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes what was laid, these directories with all that is in them, and folders that are empty then.
pub(super) fn remove(root: &Path, directories: &[&str]) -> Result<Vec<String>> {
    let Some(of) = manifest(root)? else {
        bail!("{} is not there or empty: nothing was laid", root.display());
    };
    for file in &of.files {
        let path = root.join(file);
        remove_if_there(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    for directory in directories {
        match fs::remove_dir_all(root.join(directory)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error)
                    .with_context(|| format!("removing {}", root.join(directory).display()));
            }
            _ => {}
        }
    }
    remove_if_there(&root.join(MANIFEST))?;
    let laid =
        of.files.iter().map(String::as_str).chain(directories.iter().copied()).chain([MANIFEST]);
    let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
    for file in laid {
        folders.extend(Path::new(file).ancestors().skip(1).map(Path::to_path_buf));
    }
    // The deepest first; one that has something else in it stays.
    for folder in folders.iter().rev() {
        let _ = fs::remove_dir(root.join(folder));
    }
    Ok(of.files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(to: &str, what: What) -> Entry {
        Entry { to: to.into(), what }
    }

    fn lay_all(root: &Path, entries: &[Entry]) -> Result<Vec<String>> {
        let files = entries.iter().map(|entry| entry.to.clone()).collect();
        let (driver_version, openmps) = ("1.2".into(), "0".into());
        lay(root, entries, &Manifest { driver_version, software_gpu: true, openmps, files })
    }

    #[test]
    fn it_is_laid_again_changed_and_removed_and_others_folders_are_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let (root, source) = (scratch.path().join("root"), scratch.path().join("source"));
        fs::write(&source, "one").unwrap();
        let entries = [
            entry("usr/lib/a", What::Copy(source.clone())),
            entry("usr/bin/b", What::Same("usr/lib/a".into())),
            entry("usr/lib/c", What::Link("a".into())),
        ];
        assert_eq!(lay_all(&root, &entries).unwrap().len(), 3);
        assert_eq!(fs::read_to_string(root.join("usr/lib/c")).unwrap(), "one");
        assert_eq!(fs::metadata(root.join("usr/bin/b")).unwrap().nlink(), 2);
        assert_eq!(lay_all(&root, &entries).unwrap(), Vec::<String>::new(), "nothing is new");

        // Who has the old file open or mounted keeps it.
        let mut open = fs::File::open(root.join("usr/bin/b")).unwrap();
        fs::write(&source, "two").unwrap();
        let changed = lay_all(&root, &entries[..2]).unwrap();
        assert_eq!(changed, ["usr/lib/a", "usr/bin/b", "usr/lib/c"]);
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), root.join("usr/lib/c").exists()), ("one", false));
        assert_eq!(fs::read_to_string(root.join("usr/bin/b")).unwrap(), "two");
        let names: Vec<_> = fs::read_dir(root.join("usr/lib")).unwrap().collect();
        assert_eq!(names.len(), 1, "no draft is left: {names:?}");

        fs::create_dir_all(root.join("tmp/pipe/below")).unwrap();
        fs::write(root.join("usr/own"), "").unwrap();
        assert_eq!(remove(&root, &["tmp/pipe"]).unwrap(), ["usr/lib/a", "usr/bin/b"]);
        let left: Vec<_> = fs::read_dir(&root).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["usr"], "what is not ours stays");
        let error = lay_all(&root, &entries).unwrap_err().to_string();
        assert!(error.contains("is not empty"), "{error}");
        assert!(remove(&scratch.path().join("none"), &[]).is_err());
    }
}
