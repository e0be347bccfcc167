//! Layout of a driver root: which file lies where, and where it comes from.

use crate::libraries::Libraries;
use crate::personality::{CONTROL, SERVER};
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where the loader's default directory is; the toolkit finds libcuda there without an ldconfig cache.
#[cfg(target_arch = "aarch64")]
const LIBRARIES: &str = "usr/lib/aarch64-linux-gnu";
#[cfg(not(target_arch = "aarch64"))]
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Where openmps's programs find its libraries: [`provider::INSTALLED_LIBRARIES`] from their directory.
const OWN: &str = "usr/lib/openmps";
const PROGRAMS: &str = "usr/bin";
/// NVIDIA's libraries whose names ours have, for our servers.
const NVIDIA: &str = "usr/lib/openmps/nvidia";
/// Ours that a container is to have, and the links to each that NVIDIA's driver has.
const VERSIONED: &[(&str, &[&str])] = &[
    ("libcuda.so.1", &["libcuda.so.1", "libcuda.so"]),
    ("libnvidia-ml.so.1", &["libnvidia-ml.so.1", "libnvidia-ml.so"]),
];
/// Where the toolkit expects NVIDIA's program.
const NVIDIA_SMI: &str = "/usr/bin/nvidia-smi";

/// Whether openmps's nvidia-smi is laid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Smi {
    /// On the software GPU, where NVIDIA's is not there.
    Auto,
    /// In any case.
    Always,
    /// Never.
    Never,
}

/// What lies at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A copy of a file.
    Copy(PathBuf),
    /// The same file as that at another place, which comes before.
    Same(String),
    /// A symbolic link.
    Link(String),
}

/// A place below the root, and what lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) to: String,
    pub(super) what: What,
}

fn entry(to: impl Into<String>, what: What) -> Entry {
    Entry { to: to.into(), what }
}

/// Where files come from.
pub(super) struct Sources {
    /// This program.
    pub(super) program: PathBuf,
    /// openmps's libraries.
    pub(super) libraries: PathBuf,
    /// NVIDIA's, on its driver.
    pub(super) vendor: Option<PathBuf>,
    /// NVIDIA's nvidia-smi, where it is to be laid.
    pub(super) vendor_smi: Option<PathBuf>,
    /// Ours is to be laid.
    pub(super) own_smi: bool,
}

impl Sources {
    pub(super) fn find(libraries: &Libraries, is_vendor: bool, smi: Smi) -> Result<Sources> {
        let program = std::env::current_exe().context("finding the program's own path")?;
        let program = program.canonicalize().unwrap_or(program);
        let vendor = match is_vendor {
            true => {
                let found = provider::find_vendor()?;
                found.parent().map(Path::to_path_buf)
            }
            false => None,
        };
        let there = Path::new(NVIDIA_SMI);
        let is_ours = there.canonicalize().is_ok_and(|path| path == program);
        let real = (is_vendor && there.is_file() && !is_ours).then(|| there.to_path_buf());
        let own_smi = match smi {
            Smi::Always => true,
            Smi::Auto => !is_vendor,
            Smi::Never => false,
        };
        let vendor_smi = real.filter(|_| !own_smi);
        let libraries = libraries.directory().to_path_buf();
        Ok(Sources { program, libraries, vendor, vendor_smi, own_smi })
    }
}

/// All of it, in the order in which it is laid.
pub(super) fn entries(sources: &Sources, driver_version: &str) -> Result<Vec<Entry>> {
    let mut all = Vec::new();
    own_libraries(&sources.libraries, "", &mut all)?;
    let has = |name: &str| sources.libraries.join(name).is_file();
    for (file, links) in VERSIONED {
        if !has(file) {
            bail!(
                "{file} is not in {}: it belongs to an installation",
                sources.libraries.display()
            );
        }
        let stem = file.trim_end_matches(".1");
        let versioned = format!("{stem}.{driver_version}");
        all.push(entry(format!("{LIBRARIES}/{versioned}"), What::Same(format!("{OWN}/{file}"))));
        for link in *links {
            all.push(entry(format!("{LIBRARIES}/{link}"), What::Link(versioned.clone())));
        }
    }
    let soft = provider::SOFT_FILE_NAME;
    if sources.vendor.is_none() {
        if !has(soft) {
            bail!("{soft} is not in {}: the software GPU needs it", sources.libraries.display());
        }
        // The toolkit mounts only what is named by the driver's version.
        let versioned = format!("{soft}.{driver_version}");
        all.push(entry(format!("{LIBRARIES}/{versioned}"), What::Same(format!("{OWN}/{soft}"))));
        all.push(entry(format!("{LIBRARIES}/{soft}"), What::Link(versioned)));
    }
    let first = format!("{PROGRAMS}/openmps");
    all.push(entry(first.clone(), What::Copy(sources.program.clone())));
    // No links: each is mounted by its own name.
    let smi = sources.own_smi.then_some(crate::nvidia_smi::NAME);
    for name in [CONTROL, SERVER].into_iter().chain(smi) {
        all.push(entry(format!("{PROGRAMS}/{name}"), What::Same(first.clone())));
    }
    if let Some(smi) = &sources.vendor_smi {
        let to = format!("{PROGRAMS}/{}", crate::nvidia_smi::NAME);
        all.push(entry(to, What::Copy(smi.clone())));
    }
    if let Some(vendor) = &sources.vendor {
        vendor_libraries(vendor, driver_version, &mut all)?;
    }
    Ok(all)
}

/// The installation's libraries and what lies beside them, but for samples.
fn own_libraries(root: &Path, below: &str, all: &mut Vec<Entry>) -> Result<()> {
    let directory = root.join(below);
    let mut names = Vec::new();
    let read = fs::read_dir(&directory);
    for found in read.with_context(|| format!("reading {}", directory.display()))? {
        names.extend(found?.file_name().into_string());
    }
    names.sort();
    for name in names {
        let from = directory.join(&name);
        let at = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let to = format!("{OWN}/{at}");
        let target = fs::read_link(&from).ok().and_then(|link| link.to_str().map(str::to_owned));
        match target {
            // ptxas: this program by another name, in the same relation to the libraries.
            Some(link) if link.ends_with("bin/openmps") => all.push(entry(to, What::Link(link))),
            _ if from.is_file() => all.push(entry(to, What::Copy(from))),
            _ if from.is_dir() && at != "samples" => own_libraries(root, &at, all)?,
            _ => {}
        }
    }
    Ok(())
}

/// NVIDIA's libraries: those of other names beside ours, those of the same names where our servers look.
fn vendor_libraries(vendor: &Path, version: &str, all: &mut Vec<Entry>) -> Result<()> {
    let clash = |name: &str| {
        VERSIONED.iter().any(|(file, _)| name.starts_with(file.trim_end_matches(".1")))
    };
    let ending = format!(".so.{version}");
    let mut names = Vec::new();
    for found in fs::read_dir(vendor).with_context(|| format!("reading {}", vendor.display()))? {
        names.extend(found?.file_name().into_string().ok().filter(|name| name.ends_with(&ending)));
    }
    names.sort();
    if !names.iter().any(|name| name.starts_with("libcuda.so.")) {
        bail!(
            "{} has no libcuda.so.{version}: is the driver of this machine another one? --driver-version says its \
             version",
            vendor.display()
        );
    }
    for name in names {
        let from = vendor.join(&name);
        if clash(&name) {
            let link = name.replace(&ending, ".so.1");
            all.push(entry(format!("{NVIDIA}/{name}"), What::Copy(from)));
            all.push(entry(format!("{NVIDIA}/{link}"), What::Link(name)));
        } else {
            let link = name.replace(&ending, ".so.1");
            all.push(entry(format!("{LIBRARIES}/{name}"), What::Copy(from)));
            if vendor.join(&link).exists() {
                all.push(entry(format!("{LIBRARIES}/{link}"), What::Link(name)));
            }
        }
    }
    Ok(())
}

/// The mode of a file that is laid: programs and libraries may be read and run by all.
pub(super) fn mode() -> fs::Permissions {
    fs::Permissions::from_mode(0o755)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, path.to_str().unwrap()).unwrap();
    }

    fn sources(scratch: &Path, vendor: bool) -> Sources {
        let libraries = scratch.join("lib/openmps");
        for name in
            ["libcuda.so.1", "libnvidia-ml.so.1", "libopenmps-soft.so", "samples/vector_add"]
        {
            touch(&libraries.join(name));
        }
        fs::create_dir_all(libraries.join("compilers/bin")).unwrap();
        let ptxas = libraries.join("compilers/bin/ptxas");
        std::os::unix::fs::symlink("../../../../bin/openmps", ptxas).unwrap();
        touch(&scratch.join("bin/openmps"));
        let nvidia = scratch.join("nvidia");
        for name in [
            "libcuda.so.1.2",
            "libnvidia-ml.so.1.2",
            "libnvidia-ptxjitcompiler.so.1.2",
            "libc.so.6",
        ] {
            touch(&nvidia.join(name));
        }
        touch(&nvidia.join("libnvidia-ptxjitcompiler.so.1"));
        Sources {
            program: scratch.join("bin/openmps"),
            libraries,
            vendor: vendor.then_some(nvidia),
            vendor_smi: vendor.then(|| scratch.join("nvidia-smi")),
            own_smi: !vendor,
        }
    }

    fn places(entries: &[Entry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.to.as_str()).collect()
    }

    #[test]
    fn the_software_gpu_has_libraries_by_version_and_programs() {
        let scratch = tempfile::tempdir().unwrap();
        let all = entries(&sources(scratch.path(), false), "580.0.1").unwrap();
        let places = places(&all);
        for name in ["libcuda.so", "libnvidia-ml.so", "libopenmps-soft.so"] {
            let place = format!("{LIBRARIES}/{name}.580.0.1");
            assert!(places.contains(&place.as_str()), "{place}: {places:?}");
        }
        for name in ["openmps", CONTROL, SERVER, "nvidia-smi"] {
            assert!(places.contains(&format!("usr/bin/{name}").as_str()), "{name}");
        }
        assert!(places.contains(&"usr/lib/openmps/compilers/bin/ptxas"));
        assert!(!places.iter().any(|place| place.contains("samples") || place.contains("nvidia/")));
        let mut once = places.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), places.len());
    }

    #[test]
    fn nvidia_s_libraries_lie_beside_and_clashing_names_apart() {
        let scratch = tempfile::tempdir().unwrap();
        let of = sources(scratch.path(), true);
        let all = entries(&of, "1.2").unwrap();
        let what =
            |to: &str| all.iter().find(|entry| entry.to == to).map(|entry| entry.what.clone());
        let nvidia = |name: &str| Some(What::Copy(scratch.path().join("nvidia").join(name)));
        assert_eq!(
            what(&format!("{LIBRARIES}/libcuda.so.1.2")),
            Some(What::Same("usr/lib/openmps/libcuda.so.1".into()))
        );
        assert_eq!(what("usr/lib/openmps/nvidia/libcuda.so.1.2"), nvidia("libcuda.so.1.2"));
        assert_eq!(
            what("usr/lib/openmps/nvidia/libcuda.so.1"),
            Some(What::Link("libcuda.so.1.2".into()))
        );
        let compiler = "libnvidia-ptxjitcompiler.so.1.2";
        assert_eq!(what(&format!("{LIBRARIES}/{compiler}")), nvidia(compiler));
        assert_eq!(what(&format!("{LIBRARIES}/libc.so.6")), None, "only the driver's own");
        assert_eq!(what("usr/bin/nvidia-smi"), Some(What::Copy(scratch.path().join("nvidia-smi"))));
        let places = places(&all);
        assert!(!places.iter().any(|place| place.ends_with("libopenmps-soft.so.1.2")));
        assert!(entries(&of, "9.9").unwrap_err().to_string().contains("libcuda.so.9.9"));
    }
}
