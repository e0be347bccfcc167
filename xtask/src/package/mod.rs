//! Packages: what is installed without Rust. A build for old systems, packed as an archive, a wheel, deb, rpm or OCI image.
//!
//! Each format has a module with `files`, what it has where, and `pack`. Packs of one layout are the same bytes.

mod build;
mod deb;
mod floor;
#[cfg(test)]
mod golden;
mod layout;
mod oci;
mod rpm;
mod system;
mod tar;
mod third_party;
mod wheel;

use crate::dist::{self, PERSONALITIES};
use anyhow::{Context, Result, ensure};
use floor::Glibc;
use layout::{Entry, Layout};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The format
    kind: Kind,
    /// Where to [default: target/package]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Pack this installation of `cargo xtask dist`, which loads only where its build does, and build none
    #[arg(long, value_name = "DIR")]
    installation: Option<PathBuf>,
    /// Base of the image: a root file system with glibc 2.28 or later [default: glibc of Debian's package libc6]
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Fail unless the packages of another build, in this directory, are the same bytes
    #[arg(long, value_name = "DIR")]
    compare: Option<PathBuf>,
}

/// A format of packages.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// An archive with install.sh
    Tar,
    /// A Python package
    Wheel,
    /// Packages of Debian and Ubuntu
    Deb,
    /// Packages of Red Hat, SUSE and their relatives
    Rpm,
    /// An image of containers, as an archive that podman, containerd and skopeo load
    Oci,
}

/// What packages say of themselves.
pub(crate) struct Release {
    /// The version, as Cargo.toml has it.
    pub(crate) version: String,
    /// The time of all files: `SOURCE_DATE_EPOCH`, else the commit's; in seconds since 1970.
    pub(crate) epoch: u64,
}

impl Release {
    fn of(root: &Path) -> Result<Self> {
        let given = std::env::var("SOURCE_DATE_EPOCH").ok();
        let text = match given {
            Some(text) => text,
            None => {
                let mut log = Command::new("git");
                let said = log.current_dir(root).args(["log", "-1", "--format=%ct"]).output()?;
                ensure!(said.status.success(), "no commit's time: set SOURCE_DATE_EPOCH");
                String::from_utf8(said.stdout)?
            }
        };
        let epoch = text.trim().parse();
        let epoch = epoch.with_context(|| format!("{} is no time in seconds", text.trim()))?;
        Ok(Self { version: env!("CARGO_PKG_VERSION").to_owned(), epoch })
    }
}

/// What is packed.
pub(crate) struct Parts {
    pub(crate) release: Release,
    /// `bin`, `lib` and `share`, without units.
    pub(crate) layout: Layout,
    /// The highest version of glibc that one of its files needs.
    pub(crate) floor: Glibc,
}

/// Files of the repository that every package has, below share/doc/openmps.
const DOCUMENTS: &[&str] = &["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"];
/// Where those are.
pub(crate) const DOCUMENTATION: &str = "share/doc/openmps";

impl Parts {
    /// Takes in an installation, with licences and the bill of materials of the crates in it.
    fn read(root: &Path, release: Release, installation: &Path, crates: &[&str]) -> Result<Self> {
        let mut layout = Layout::read(installation)?;
        // Their programs are where the package puts them.
        layout.split_off(|path| path.starts_with("lib/systemd/"));
        for name in DOCUMENTS {
            let text = std::fs::read(root.join(name)).with_context(|| format!("reading {name}"))?;
            layout.put(format!("{DOCUMENTATION}/{name}"), Entry::text(text));
        }
        let components = third_party::components(root, crates)?;
        for (name, text) in third_party::documents(&components, &release.version)? {
            layout.put(format!("{DOCUMENTATION}/{name}"), Entry::text(text));
        }
        let floors = floor::of_layout(&layout)?;
        let floor = floors.iter().map(|(_, version)| *version).max().unwrap_or(floor::OF_PROGRAMS);
        Ok(Self { release, layout, floor })
    }

    /// The layout with units that start the daemon in a directory.
    pub(crate) fn with_units(&self, bin: &str) -> Layout {
        let mut layout = self.layout.clone();
        for (name, text) in dist::unit_texts(&Path::new(bin).join(PERSONALITIES[0])) {
            layout.put(format!("lib/systemd/{name}"), Entry::text(text));
        }
        layout
    }
}

/// An error that names each file with one of these paths in it: a build elsewhere would have other bytes.
fn without_paths(layout: &Layout, paths: &[String]) -> Result<()> {
    let has = |bytes: &[u8], path: &str| {
        bytes.windows(path.len()).any(|window| window == path.as_bytes())
    };
    let mut with = Vec::new();
    for (file, entry) in &layout.0 {
        let Entry::File { bytes, .. } = entry else { continue };
        let found = paths.iter().filter(|path| has(bytes, path));
        with.extend(found.map(|path| format!("{file} has the path {path} of this machine")));
    }
    ensure!(with.is_empty(), "{}", with.join("\n"));
    Ok(())
}

/// Builds for old systems, and packs that.
pub(crate) fn package(arguments: &Arguments) -> Result<()> {
    let is_image = matches!(arguments.kind, Kind::Oci);
    ensure!(arguments.base.is_none() || is_image, "--base is for an image: package oci --base DIR");
    let root = crate::root();
    let release = Release::of(&root)?;
    let installation = match &arguments.installation {
        Some(directory) => directory.clone(),
        None => build::installation(&root, release.epoch, Path::new("/"), is_image)?,
    };
    let parts = Parts::read(&root, release, &installation, &build::shipped(is_image))?;
    for (path, version) in floor::of_layout(&parts.layout)? {
        println!("{path}: glibc {version}");
    }
    if arguments.installation.is_none() {
        floor::check(&floor::of_layout(&parts.layout)?)?;
        without_paths(&parts.layout, &build::private_paths(&root)?)?;
    }
    let output = arguments.output.clone();
    let output = output.unwrap_or_else(|| dist::target_directory(&root).join("package"));
    std::fs::create_dir_all(&output).with_context(|| format!("making {}", output.display()))?;
    let packages = match arguments.kind {
        Kind::Tar => vec![tar::pack(&parts, &output)?],
        Kind::Wheel => vec![wheel::pack(&parts, &output)?],
        Kind::Deb => deb::pack(&parts, &output)?,
        Kind::Rpm => rpm::pack(&parts, &output)?,
        Kind::Oci => vec![oci::pack(&parts, arguments.base.as_deref(), &output)?],
    };
    for path in &packages {
        println!("{} ({} bytes)", path.display(), std::fs::metadata(path)?.len());
    }
    match &arguments.compare {
        Some(other) => same_bytes(&packages, other),
        None => Ok(()),
    }
}

/// An error that names each package whose bytes differ from those of the file of its name in `other`.
fn same_bytes(packages: &[PathBuf], other: &Path) -> Result<()> {
    let mut different = Vec::new();
    for path in packages {
        let theirs = other.join(path.file_name().context("a package has a name")?);
        let read = |path: &Path| {
            std::fs::read(path).with_context(|| format!("reading {}", path.display()))
        };
        let (these, those) = (read(path)?, read(&theirs)?);
        match these.iter().zip(&those).position(|(a, b)| a != b) {
            None if these.len() == those.len() => {
                println!("{}: the same bytes as {}", path.display(), theirs.display());
            }
            at => {
                let at = at.unwrap_or(these.len().min(those.len()));
                let name = path.display();
                different.push(format!("{name} differs from {} at byte {at}", theirs.display()));
            }
        }
    }
    ensure!(different.is_empty(), "{}", different.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_two_builds_are_compared_by_their_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        for (directory, text) in [(&one, "same"), (&two, "same")] {
            std::fs::create_dir(directory).expect("a folder");
            std::fs::write(directory.join("a.tar"), text).expect("a file");
        }
        let packages = [one.join("a.tar")];
        same_bytes(&packages, &two).expect("they are the same");
        for (text, at) in [("some", "byte 1"), ("same and more", "byte 4"), ("sam", "byte 3")] {
            std::fs::write(two.join("a.tar"), text).expect("a file");
            let error = same_bytes(&packages, &two).expect_err("they differ").to_string();
            assert!(error.contains(at), "{error}");
        }
        std::fs::remove_file(two.join("a.tar")).expect("it is there");
        assert!(same_bytes(&packages, &two).is_err(), "nothing to compare with");
    }

    #[test]
    fn a_path_of_the_build_is_found() {
        let layout = layout::tests::small();
        without_paths(&layout, &["/home/builder".into()]).expect("it has none");
        let error = without_paths(&layout, &["/home/builder".into(), "brary".into()]);
        let error = error.expect_err("the library has it").to_string();
        assert_eq!(error, "lib/openmps/libcuda.so.1 has the path brary of this machine");
    }
}
