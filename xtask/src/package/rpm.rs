//! Packages of Red Hat, SUSE and their relatives, without rpmbuild.
//!
//! NVIDIA's package nvidia-driver-cuda has the two names as plain files; rpm itself refuses to install both.

use super::Parts;
use super::layout::Entry;
use super::system::{self, SystemPackage};
use anyhow::{Context, Result};
use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileMode, FileOptions, PackageBuilder};
use std::path::{Path, PathBuf};

const LICENCE: &str = "MIT OR Apache-2.0";
const RELEASE: &str = "1";

/// systemd reads its units again, if it runs.
const RELOAD: &str = "if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi";
/// An upgrade leaves the daemon and its programs alone: `openmps upgrade` moves them.
const STOP: &str = "if [ $1 -eq 0 ] && [ -d /run/systemd/system ]; then\n\
                    systemctl disable --now openmps.service || :\nfi";

/// The packages, each with the files that are installed.
pub(super) fn files(parts: &Parts) -> Vec<SystemPackage> {
    let mut packages = Vec::from(system::packages(parts));
    let mut licences = parts.layout.clone();
    let licences = licences.split_off(|path| path.starts_with("share/doc/openmps/LICENSE-"));
    for package in &mut packages {
        for (path, entry) in &licences.0 {
            let name = path.rsplit('/').next().unwrap_or(path);
            let path = format!("usr/share/licenses/{}/{name}", package.name);
            package.layout.put(path, entry.clone());
        }
        package.layout.split_off(|path| path.starts_with("usr/share/doc/openmps/LICENSE-"));
    }
    packages
}

/// Packs them; returns the paths.
pub(super) fn pack(parts: &Parts, output: &Path) -> Result<Vec<PathBuf>> {
    files(parts).iter().map(|package| pack_one(parts, package, output)).collect()
}

fn pack_one(parts: &Parts, package: &SystemPackage, output: &Path) -> Result<PathBuf> {
    let version = &parts.release.version;
    let path = output.join(format!("{}-{version}-{RELEASE}.x86_64.rpm", package.name));
    let built = build(parts, package).with_context(|| format!("packing {}", package.name))?;
    built.write_file(&path).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

fn build(parts: &Parts, package: &SystemPackage) -> Result<rpm::Package> {
    let version = &parts.release.version;
    let epoch = u32::try_from(parts.release.epoch).context("the release's time")?;
    let config = BuildConfig::v4().source_date(epoch).compression(CompressionWithLevel::Gzip(9));
    let mut builder =
        PackageBuilder::new(package.name, version, LICENCE, "x86_64", package.summary);
    let lines: Vec<String> = package.description.lines().flat_map(system::wrapped).collect();
    builder.using_config(config).release(RELEASE).description(lines.join("\n"));
    builder.group("Applications/System").packager(system::MAINTAINER);
    let entry = format!("{} {version}-{RELEASE}", system::MAINTAINER);
    builder.add_changelog_entry(entry, format!("- Release {version}"), epoch);
    builder.build_host("localhost").cookie(format!("{}-{version}", package.name));
    for (path, entry) in &package.layout.0 {
        let to = format!("/{path}");
        match entry {
            Entry::Link(target) => drop(builder.with_symlink(FileOptions::symlink(to, target))?),
            Entry::File { bytes, .. } => {
                let mode = FileMode::regular(u16::try_from(entry.mode())?);
                let mut options = FileOptions::new(to).mode(mode);
                if path.starts_with("usr/share/licenses/") {
                    options = options.license();
                } else if path.starts_with("usr/share/doc/") || path.starts_with("usr/share/man/") {
                    options = options.doc();
                }
                builder.with_file_contents(bytes.clone(), options)?;
            }
        }
    }
    let symbols = format!("libc.so.6(GLIBC_{})(64bit)", parts.floor);
    builder.requires(Dependency::any(symbols));
    if package.needs_openmps {
        builder.requires(Dependency::eq("openmps", format!("{version}-{RELEASE}")));
    } else {
        builder
            .post_install_script(RELOAD)
            .pre_uninstall_script(STOP)
            .post_uninstall_script(RELOAD);
    }
    // Directories of its own go with it.
    let own = package.layout.directories().into_iter().filter(|path| {
        ["usr/lib/openmps", "usr/share/doc/openmps", "usr/share/licenses/openmps"]
            .iter()
            .any(|own| path.starts_with(own))
    });
    for path in own {
        let mode = FileMode::dir(0o755);
        builder.with_dir_entry(FileOptions::dir(format!("/{path}")).mode(mode))?;
    }
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::layout::tests::small;
    use crate::package::{Release, floor};

    #[test]
    fn two_packs_are_the_same_bytes() {
        let release = Release { version: "1.2.3".into(), epoch: 1_000 };
        let parts = Parts { release, layout: small(), floor: floor::OF_THE_REST };
        let bytes = |package: &SystemPackage| {
            let mut bytes = Vec::new();
            build(&parts, package).expect("a package").write(&mut bytes).expect("to memory");
            bytes
        };
        for package in files(&parts) {
            assert_eq!(bytes(&package), bytes(&package), "{}", package.name);
        }
    }
}
