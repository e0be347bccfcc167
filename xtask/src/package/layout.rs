//! Layout: the files of a package by their path below the prefix, before a format packs them.
//!
//! Owners and times are no part of it: every format has root and `Release::epoch` for all files.

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    File { bytes: Vec<u8>, executable: bool },
    Link(String),
}

impl Entry {
    /// A file that is read.
    pub(crate) fn text(text: impl Into<Vec<u8>>) -> Self {
        Self::File { bytes: text.into(), executable: false }
    }

    /// A file that is started.
    pub(crate) fn script(text: impl Into<Vec<u8>>) -> Self {
        Self::File { bytes: text.into(), executable: true }
    }

    /// Its permissions as `chmod` takes them.
    pub(crate) fn mode(&self) -> u32 {
        match self {
            Self::File { executable: false, .. } => 0o644,
            Self::File { executable: true, .. } => 0o755,
            Self::Link(_) => 0o777,
        }
    }
}

/// Files by their path, sorted: two packs of one layout have the same bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout(pub(crate) BTreeMap<String, Entry>);

impl Layout {
    /// Reads a directory. The permissions become those of [`Entry::mode`].
    pub(crate) fn read(directory: &Path) -> Result<Self> {
        let mut layout = Self::default();
        layout.read_below(directory, "")?;
        Ok(layout)
    }

    fn read_below(&mut self, directory: &Path, prefix: &str) -> Result<()> {
        let entries = std::fs::read_dir(directory)
            .with_context(|| format!("reading {}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                bail!("{}: the name is not UTF-8", entry.path().display());
            };
            if name.contains(char::is_whitespace) {
                bail!("{}: the manifest cannot name a path with a space", entry.path().display());
            }
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.read_below(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_symlink() {
                let target = std::fs::read_link(entry.path())?;
                self.put(path, Entry::Link(target.display().to_string()));
            } else {
                let bytes = std::fs::read(entry.path())
                    .with_context(|| format!("reading {}", entry.path().display()))?;
                let executable = entry.metadata()?.permissions().mode() & 0o100 != 0;
                self.put(path, Entry::File { bytes, executable });
            }
        }
        Ok(())
    }

    /// Adds a file, or puts it in the place of the one that is there.
    pub(crate) fn put(&mut self, path: impl Into<String>, entry: Entry) {
        self.0.insert(path.into(), entry);
    }

    /// Takes out what a predicate holds for, as another layout.
    pub(crate) fn split_off(&mut self, is_other: impl Fn(&str) -> bool) -> Self {
        let all = std::mem::take(&mut self.0);
        let (other, rest) = all.into_iter().partition(|(path, _)| is_other(path));
        self.0 = rest;
        Self(other)
    }

    /// The same with another path for each file; `None` leaves it out.
    pub(crate) fn renamed(self, name: impl Fn(&str) -> Option<String>) -> Self {
        let named = self.0.into_iter().filter_map(|(path, entry)| Some((name(&path)?, entry)));
        Self(named.collect())
    }

    /// Every directory that has something in it, parents first.
    pub(crate) fn directories(&self) -> Vec<String> {
        let mut all = std::collections::BTreeSet::new();
        for path in self.0.keys() {
            all.extend(path.match_indices('/').map(|(at, _)| path[..at].to_owned()));
        }
        all.into_iter().collect()
    }

    /// A line for each file, `file SHA256 BYTES MODE PATH`, and for each link, `link TARGET PATH`.
    pub(crate) fn manifest(&self) -> String {
        let mut text = String::new();
        for (path, entry) in &self.0 {
            let line = match entry {
                Entry::File { bytes, .. } => {
                    writeln!(
                        text,
                        "file {} {} {:o} {path}",
                        hex(&Sha256::digest(bytes)),
                        bytes.len(),
                        entry.mode()
                    )
                }
                Entry::Link(target) => writeln!(text, "link {target} {path}"),
            };
            line.expect("a string takes what is written");
        }
        text
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes what is written");
        text
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A layout with one entry of each kind.
    pub(crate) fn small() -> Layout {
        let mut layout = Layout::default();
        layout.put("share/doc/openmps/LICENSE-MIT", Entry::text("a licence\n"));
        layout.put("bin/openmps", Entry::script("#!/bin/sh\necho openmps\n"));
        layout.put("lib/openmps/libcuda.so.1", Entry::script("library"));
        layout.put("lib/openmps/libcuda.so", Entry::Link("libcuda.so.1".into()));
        layout
    }

    #[test]
    fn the_manifest_has_each_path_with_its_hash() {
        let text = small().manifest();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        let library = "file b718f1354f7247312eca086d9a024afe5fa717ddea5adeddd6f12bcf945b2e8c 7 755 \
                       lib/openmps/libcuda.so.1";
        assert!(lines.contains(&library), "{text}");
        assert!(lines.contains(&"link libcuda.so.1 lib/openmps/libcuda.so"), "{text}");
    }

    #[test]
    fn directories_come_before_what_is_in_them() {
        let wanted = ["bin", "lib", "lib/openmps", "share", "share/doc", "share/doc/openmps"];
        assert_eq!(small().directories(), wanted);
    }
}
