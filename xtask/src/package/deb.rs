//! Packages of Debian and Ubuntu, by dpkg-deb.
//!
//! NVIDIA's packages have the two names as plain files, and in Ubuntu other tools beside them. So
//! openmps-nvidia-mps diverts those files, and neither package excludes the other.

use super::Parts;
use super::layout::{Entry, Layout};
use super::system::{self, MAINTAINER, SystemPackage};
use crate::dist::{self, run};
use anyhow::{Context, Result, ensure};
use flate2::{Compression, GzBuilder};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const COPYRIGHT: &str = include_str!("../../data/package/copyright");
const CHANGELOG: &str = "CHANGELOG.md";

/// Scripts of dpkg by package and name.
const SCRIPTS: &[(&str, &str, &str)] = &[
    ("openmps", "postinst", include_str!("../../data/package/deb/openmps.postinst")),
    ("openmps", "prerm", include_str!("../../data/package/deb/openmps.prerm")),
    ("openmps", "postrm", include_str!("../../data/package/deb/openmps.postrm")),
    ("openmps-nvidia-mps", "preinst", include_str!("../../data/package/deb/divert.preinst")),
    ("openmps-nvidia-mps", "postrm", include_str!("../../data/package/deb/divert.postrm")),
];
/// What lintian is told, and why.
const OVERRIDES: &[(&str, &str)] = &[
    ("openmps", include_str!("../../data/package/deb/openmps.lintian")),
    ("openmps-samples", include_str!("../../data/package/deb/openmps-samples.lintian")),
    ("openmps-nvidia-mps", include_str!("../../data/package/deb/openmps-nvidia-mps.lintian")),
];

/// The packages, each with the files that are installed.
pub(super) fn files(parts: &Parts) -> Result<Vec<SystemPackage>> {
    let dated = changelog(parts)?;
    let mut packages = Vec::from(system::packages(parts));
    for package in &mut packages {
        let layout = std::mem::take(&mut package.layout);
        package.layout = in_debians_places(layout)?;
        let documents = format!("usr/share/doc/{}", package.name);
        package.layout.put(format!("{documents}/copyright"), Entry::text(COPYRIGHT));
        package.layout.put(format!("{documents}/changelog.Debian.gz"), gzip(dated.as_bytes())?);
        if let Some((_, text)) = OVERRIDES.iter().find(|(name, _)| *name == package.name) {
            let path = format!("usr/share/lintian/overrides/{}", package.name);
            package.layout.put(path, Entry::text(*text));
        }
    }
    Ok(packages)
}

/// Debian's own places: compressed manual pages and change log, zsh's folder, licences in `copyright`.
fn in_debians_places(layout: Layout) -> Result<Layout> {
    let mut placed = Layout::default();
    for (path, entry) in layout.0 {
        let (folder, name) = path.rsplit_once('/').context("every file is in a folder")?;
        match (folder, &entry) {
            ("usr/share/doc/openmps", _) if name.starts_with("LICENSE-") => {}
            ("usr/share/doc/openmps", Entry::File { bytes, .. }) if name == CHANGELOG => {
                placed.put(format!("{folder}/changelog.gz"), gzip(bytes)?);
            }
            ("usr/share/man/man1", Entry::File { bytes, .. }) => {
                placed.put(format!("{path}.gz"), gzip(bytes)?);
            }
            ("usr/share/zsh/site-functions", _) => {
                placed.put(format!("usr/share/zsh/vendor-completions/{name}"), entry);
            }
            (_, Entry::File { bytes, executable }) => {
                // A library is loaded, not started.
                let executable = *executable && !name.contains(".so");
                placed.put(path, Entry::File { bytes: bytes.clone(), executable });
            }
            _ => placed.put(path, entry),
        }
    }
    Ok(placed)
}

/// Compressed as `gzip -n9` does it: without name and time.
fn gzip(bytes: &[u8]) -> Result<Entry> {
    let mut compressed = GzBuilder::new().write(Vec::new(), Compression::best());
    compressed.write_all(bytes)?;
    Ok(Entry::text(compressed.finish()?))
}

/// Version of the packages: the release's, packed the first time.
fn version(parts: &Parts) -> String {
    format!("{}-1", parts.release.version)
}

/// Debian's change log, of the one entry that refers to the release's own.
fn changelog(parts: &Parts) -> Result<String> {
    let mut date = Command::new("date");
    let said =
        date.env("LC_ALL", "C").args(["-u", "-R", "-d"]).arg(format!("@{}", parts.release.epoch));
    let said = said.output().context("starting date")?;
    ensure!(said.status.success(), "date: {}", said.status);
    let date = String::from_utf8(said.stdout)?;
    Ok(format!(
        "openmps ({}) unstable; urgency=medium\n\n  * Release {}; changelog.gz of package openmps has what is new.\n\n \
         -- {MAINTAINER}  {}\n",
        version(parts),
        parts.release.version,
        date.trim()
    ))
}

fn control(parts: &Parts, package: &SystemPackage) -> String {
    let size = package.layout.0.values().map(|entry| match entry {
        Entry::File { bytes, .. } => bytes.len().div_ceil(1024),
        Entry::Link(_) => 1,
    });
    let version = version(parts);
    let mut text = format!(
        "Package: {}\nSource: openmps\nVersion: {version}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {}\nSection: utils\nPriority: optional\n",
        package.name,
        size.sum::<usize>()
    );
    let library = format!("libc6 (>= {})", parts.floor);
    let needs = match package.needs_openmps {
        true => format!("{library}, openmps (= {version})"),
        false => library,
    };
    writeln!(text, "Depends: {needs}").expect("a string takes it");
    writeln!(text, "Description: {}", package.summary).expect("a string takes it");
    for (index, paragraph) in package.description.lines().enumerate() {
        if index > 0 {
            text.push_str(" .\n");
        }
        for line in system::wrapped(paragraph) {
            writeln!(text, " {line}").expect("a string takes it");
        }
    }
    text
}

/// Packs them; returns the paths.
pub(super) fn pack(parts: &Parts, output: &Path) -> Result<Vec<PathBuf>> {
    files(parts)?.iter().map(|package| pack_one(parts, package, output)).collect()
}

fn pack_one(parts: &Parts, package: &SystemPackage, output: &Path) -> Result<PathBuf> {
    let stage = dist::target_directory(&crate::root()).join("package-deb").join(package.name);
    if stage.exists() {
        std::fs::remove_dir_all(&stage)?;
    }
    write_out(&package.layout, &stage)?;
    let mut about = Layout::default();
    about.put("control", Entry::text(control(parts, package)));
    about.put("md5sums", Entry::text(md5sums(&package.layout, &stage)?));
    for (_, name, text) in SCRIPTS.iter().filter(|(of, ..)| *of == package.name) {
        about.put(*name, Entry::script(*text));
    }
    write_out(&about, &stage.join("DEBIAN"))?;
    let path = output.join(format!("{}_{}_amd64.deb", package.name, version(parts)));
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", parts.release.epoch.to_string());
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&stage).arg(&path);
    run(&mut build).context("packing by dpkg-deb (Debian's package dpkg)")?;
    std::fs::remove_dir_all(&stage)?;
    Ok(path)
}

/// Writes a layout into a directory, with the modes that it has installed.
fn write_out(layout: &Layout, directory: &Path) -> Result<()> {
    let chmod = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode));
    std::fs::create_dir_all(directory)?;
    chmod(directory, 0o755)?;
    for below in layout.directories() {
        std::fs::create_dir_all(directory.join(&below))?;
        chmod(&directory.join(&below), 0o755)?;
    }
    for (path, entry) in &layout.0 {
        let to = directory.join(path);
        match entry {
            Entry::File { bytes, .. } => {
                std::fs::write(&to, bytes).with_context(|| format!("writing {}", to.display()))?;
                chmod(&to, entry.mode())?;
            }
            Entry::Link(target) => symlink(target, &to)?,
        }
    }
    Ok(())
}

/// What `debsums` compares the files with.
fn md5sums(layout: &Layout, stage: &Path) -> Result<String> {
    let is_file = |entry: &Entry| matches!(entry, Entry::File { .. });
    let paths = layout.0.iter().filter(|(_, entry)| is_file(entry)).map(|(path, _)| path);
    let said = Command::new("md5sum").current_dir(stage).args(paths).output();
    let said = said.context("starting md5sum")?;
    ensure!(said.status.success(), "md5sum: {}", said.status);
    Ok(String::from_utf8(said.stdout)?)
}
