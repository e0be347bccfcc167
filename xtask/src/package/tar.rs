//! Tar archive: an installation with a manifest, `install.sh`, and an uninstaller that goes by the manifest.

use super::layout::{Entry, Layout};
use super::{Parts, Release};
use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use std::io::Write;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

const INSTALL: &str = include_str!("../../data/package/install.sh");
const UNINSTALL: &str = include_str!("../../data/package/uninstall.sh");
/// Where the units name the prefix, which install.sh replaces.
const PREFIX: &str = "@PREFIX@";

/// What is in the archive, below its one directory.
pub(super) fn files(parts: &Parts) -> Layout {
    let mut layout = parts.with_units(&format!("{PREFIX}/bin"));
    layout.put("lib/openmps/uninstall.sh", Entry::script(UNINSTALL));
    let manifest = layout.manifest();
    layout.put("MANIFEST", Entry::text(manifest));
    layout.put("install.sh", Entry::script(INSTALL));
    layout
}

/// Packs it; returns the archive's path.
pub(super) fn pack(parts: &Parts, output: &Path) -> Result<PathBuf> {
    let name = format!("openmps-{}-x86_64-linux", parts.release.version);
    let layout = files(parts).renamed(|path| Some(format!("{name}/{path}")));
    let path = output.join(format!("{name}.tar.gz"));
    let bytes = compressed(&uncompressed(&layout, &parts.release)?)?;
    std::fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// Compressed without a time and without a name of a system in its head.
pub(super) fn compressed(archive: &[u8]) -> Result<Vec<u8>> {
    let mut compressed = GzBuilder::new().write(Vec::new(), Compression::best());
    compressed.write_all(archive)?;
    Ok(compressed.finish()?)
}

/// The archive: root's files, at the time of the release.
pub(super) fn uncompressed(layout: &Layout, release: &Release) -> Result<Vec<u8>> {
    let header = |kind: EntryType, mode: u32| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(release.epoch);
        header.set_uid(0);
        header.set_gid(0);
        header
    };
    let mut archive = Builder::new(Vec::new());
    for directory in layout.directories() {
        let mut header = header(EntryType::Directory, 0o755);
        header.set_size(0);
        archive.append_data(&mut header, format!("{directory}/"), std::io::empty())?;
    }
    for (path, entry) in &layout.0 {
        match entry {
            Entry::File { bytes, .. } => {
                let mut header = header(EntryType::Regular, entry.mode());
                header.set_size(bytes.len() as u64);
                archive.append_data(&mut header, path, bytes.as_slice())?;
            }
            Entry::Link(target) => {
                let mut header = header(EntryType::Symlink, entry.mode());
                header.set_size(0);
                archive.append_link(&mut header, path, target)?;
            }
        }
    }
    Ok(archive.into_inner()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::layout::tests::small;
    use std::process::Command;

    fn release(epoch: u64) -> Release {
        Release { version: "1.2.3".into(), epoch }
    }

    #[test]
    fn two_packs_are_the_same_bytes_and_another_time_makes_others() {
        let archive = |epoch| {
            let archive = uncompressed(&small(), &release(epoch)).expect("an archive");
            compressed(&archive).expect("a compressed archive")
        };
        let first = archive(1_000);
        assert_eq!(first, archive(1_000));
        assert_ne!(first, archive(1_001));
    }

    /// Paths of files and links below a directory.
    fn paths(directory: &Path) -> Vec<String> {
        Layout::read(directory).map(|layout| layout.0.into_keys().collect()).unwrap_or_default()
    }

    #[test]
    fn install_and_uninstall_go_by_the_manifest() {
        let scratch = std::env::temp_dir().join(format!("openmps-tar-{}", std::process::id()));
        let prefix = scratch.join("prefix");
        std::fs::create_dir_all(prefix.join("bin")).expect("a directory");
        std::fs::write(prefix.join("bin/other"), "not ours").expect("a file");
        let parts = Parts {
            release: release(1_000),
            layout: small(),
            floor: crate::package::floor::OF_PROGRAMS,
        };
        let archive = pack(&parts, &scratch).expect("an archive");
        let tar = |arguments: &[&str]| {
            let mut tar = Command::new("tar");
            tar.arg("-C").arg(&scratch).arg("-xzf").arg(&archive).args(arguments);
            assert!(tar.status().expect("tar").success());
        };
        tar(&[]);
        let unpacked = scratch.join("openmps-1.2.3-x86_64-linux");
        let install = || {
            let mut install = Command::new("sh");
            install.arg(unpacked.join("install.sh")).arg("--prefix").arg(&prefix);
            install.output().expect("sh")
        };
        let said = install();
        assert!(said.status.success(), "{said:?}");
        let link = std::fs::read_link(prefix.join("lib/openmps/libcuda.so")).expect("a link");
        assert_eq!(link, Path::new("libcuda.so.1"));
        let unit = prefix.join("lib/systemd/system/openmps.service");
        let unit = std::fs::read_to_string(unit).expect("a unit");
        let start = format!("ExecStart={}/bin/nvidia-cuda-mps-control -f", prefix.display());
        assert!(unit.lines().any(|line| line == start), "{unit}");

        // What an earlier version had, and this one has not, goes with an installation over it.
        let manifest = prefix.join("lib/openmps/MANIFEST");
        let mut text = std::fs::read_to_string(&manifest).expect("a manifest");
        text.push_str("file - 0 644 share/old\n");
        std::fs::write(&manifest, text).expect("a manifest");
        std::fs::write(prefix.join("share/old"), "").expect("a file");
        assert!(install().status.success());
        assert!(!prefix.join("share/old").exists());

        let mut uninstall = Command::new("sh");
        uninstall.arg(prefix.join("lib/openmps/uninstall.sh"));
        let said = uninstall.output().expect("sh");
        assert!(said.status.success(), "{said:?}");
        assert_eq!(paths(&prefix), ["bin/other"]);
        assert!(!prefix.join("lib").exists(), "empty directories go");

        // A file that was cut while it was unpacked: nothing is installed.
        std::fs::write(unpacked.join("bin/openmps"), "#!/bin/sh\n").expect("a file");
        let said = install();
        assert!(!said.status.success());
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(text.contains("bin/openmps"), "{text}");
        assert_eq!(paths(&prefix), ["bin/other"]);
        std::fs::remove_dir_all(&scratch).expect("to remove it");
    }
}
