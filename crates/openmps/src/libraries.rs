//! Where the project's shared libraries are: the client's libcuda.so.1 and libnvidia-ml.so.1, which
//! go in front of NVIDIA's, and the software GPU.
//!
//! An installation has them in `lib/openmps` beside `bin`. A cargo target directory has them under
//! cargo's names, so a directory of links is made there.

use anyhow::{Context, Result, bail};
use cuda_api::environment::OPENMPS_LIB_DIR;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const CLIENT: &str = "libcuda.so.1";
/// Names in an installation, and what cargo calls them.
const LINKS: &[(&str, &str)] = &[
    (CLIENT, "libcuda.so"),
    ("libcuda.so", "libcuda.so"),
    ("libnvidia-ml.so.1", "libnvidia_ml.so"),
    (provider::SOFT_FILE_NAME, "libopenmps_soft.so"),
];
/// Directory of links in a cargo target directory.
const LINK_DIRECTORY: &str = "openmps-lib";

/// The directory of the libraries, absolute.
#[derive(Clone, Debug)]
pub(crate) struct Libraries {
    directory: PathBuf,
    /// Where the running program lies.
    program_directory: PathBuf,
}

impl Libraries {
    /// Finds them by `OPENMPS_LIB_DIR`, else beside this program.
    pub(crate) fn find() -> Result<Libraries> {
        let program = std::env::current_exe().context("finding the program's own path")?;
        // A link in a user's ~/bin leads to the installation.
        let program = program.canonicalize().unwrap_or(program);
        let program_directory = program.parent().unwrap_or(Path::new("/")).to_path_buf();
        let directory = match std::env::var_os(OPENMPS_LIB_DIR).filter(|value| !value.is_empty()) {
            Some(named) => {
                let named = std::path::absolute(PathBuf::from(named))?;
                if !named.join(CLIENT).is_file() {
                    bail!("{OPENMPS_LIB_DIR} is {}, but {CLIENT} is not there", named.display());
                }
                named
            }
            None => find_beside(&program_directory)?,
        };
        if directory.as_os_str().as_encoded_bytes().contains(&b':') {
            bail!(
                "the libraries are in {}, but LD_LIBRARY_PATH cannot name a directory with a colon",
                directory.display()
            );
        }
        for (name, _) in LINKS {
            let file = directory.join(name);
            // One that is missing is named where it is needed.
            if let Some((found, wanted)) = missing_bytes(&file) {
                bail!(
                    "{} is incomplete: it has {found} of {wanted} bytes; install openmps again",
                    file.display()
                );
            }
        }
        Ok(Libraries { directory, program_directory })
    }

    /// The library that writes the ranges that programs mark by NVTX, if it is there.
    pub(crate) fn nvtx(&self) -> Option<PathBuf> {
        let names = ["libopenmps-nvtx.so", "libopenmps_nvtx.so"];
        names.iter().map(|name| self.directory.join(name)).find(|file| file.is_file())
    }

    /// The directory with libcuda.so.1 and libopenmps-soft.so.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The auditor of the loader that puts our run-time compilers in the place of NVIDIA's; `None` in
    /// a cargo target directory, where they are not linked, and where the loader is too old for it.
    pub(crate) fn compilers(&self) -> Option<PathBuf> {
        let auditor = Some(self.directory.join("libopenmps-audit.so"));
        auditor.filter(|file| has_loader_for_auditors() && file.is_file())
    }

    /// Has a command's NVRTC and nvJitLink make PTX in the place of machine code.
    pub(crate) fn put_compilers_in_front(&self, command: &mut Command) {
        let Some(auditor) = self.compilers() else { return };
        let mut auditors = OsString::from(auditor);
        if let Some(others) = std::env::var_os("LD_AUDIT").filter(|value| !value.is_empty()) {
            auditors.push(":");
            auditors.push(others);
        }
        command.env("LD_AUDIT", auditors);
    }

    /// A program that stands in for one that makes machine code, if it is there.
    fn stand_in(&self, name: &str) -> Option<PathBuf> {
        Some(self.directory.join("compilers/bin").join(name)).filter(|file| file.is_file())
    }

    /// Has packages that start a ptxas start ours, which keeps PTX. What the user has set stays.
    pub(crate) fn put_ptxas_in_front(&self, command: &mut Command) {
        let Some(ptxas) = self.stand_in(crate::ptxas::NAME) else { return };
        let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let mut set = |name: &str, value: &Path| {
            if given(name).is_none() {
                command.env(name, value);
            }
        };
        for name in TRITON_VARIABLES {
            set(name, &ptxas);
        }
        // JAX and XLA look for bin/ptxas there.
        let directory = ptxas.parent().and_then(Path::parent).unwrap_or(&self.directory);
        set(JAX_VARIABLE, directory);
        let flags = with_xla_flags(given(XLA_FLAGS).unwrap_or_default(), directory);
        command.env(XLA_FLAGS, flags);
    }

    /// Path of a sample program of the project.
    pub(crate) fn sample(&self, name: &str) -> PathBuf {
        let installed = self.directory.join("samples").join(name);
        if installed.is_file() { installed } else { self.program_directory.join(name) }
    }

    /// Has a command load these libraries before any others of the same names.
    pub(crate) fn put_in_front(&self, command: &mut Command) {
        let mut path = OsString::from(&self.directory);
        if let Some(others) = std::env::var_os("LD_LIBRARY_PATH").filter(|p| !p.is_empty()) {
            path.push(":");
            path.push(others);
        }
        command.env("LD_LIBRARY_PATH", path).env(OPENMPS_LIB_DIR, &self.directory);
    }
}

/// The oldest glibc with whose loader the auditor was tried. In that of 2.31 it ends the program: an
/// auditor has a second, empty loader there, which its C library asks.
const GLIBC_OF_AUDITOR: (u32, u32) = (2, 34);

/// Whether this system's loader runs the auditor.
pub(crate) fn has_loader_for_auditors() -> bool {
    // SAFETY: it returns a constant C string.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    glibc_version(&version.to_string_lossy()).is_some_and(|own| own >= GLIBC_OF_AUDITOR)
}

/// The numbers of a version such as `2.31`.
fn glibc_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Where Triton finds an assembler for devices before and since Blackwell.
const TRITON_VARIABLES: [&str; 2] = ["TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"];
/// Where JAX finds an installation of CUDA, rather than in its own packages.
const JAX_VARIABLE: &str = "CUDA_ROOT";
/// Where XLA (JAX, TensorFlow) reads its options.
const XLA_FLAGS: &str = "XLA_FLAGS";

/// XLA's options with those by which it starts the ptxas in a directory; an option that the user gives
/// stays as it is.
fn with_xla_flags(mut flags: OsString, directory: &Path) -> OsString {
    let ours = [
        ("--xla_gpu_cuda_data_dir", directory.as_os_str()),
        ("--xla_gpu_enable_libnvptxcompiler", OsStr::new("false")),
        ("--xla_gpu_enable_libnvjitlink", OsStr::new("false")),
    ];
    let given = flags.to_string_lossy().into_owned();
    let is_given =
        |name: &str| given.split_whitespace().any(|word| word.split('=').next() == Some(name));
    for (name, value) in ours {
        // XLA takes a blank for the end of an option.
        let has_blank = value.as_encoded_bytes().iter().any(u8::is_ascii_whitespace);
        if is_given(name) || has_blank {
            continue;
        }
        if !flags.is_empty() {
            flags.push(" ");
        }
        flags.push(name);
        flags.push("=");
        flags.push(value);
    }
    flags
}

fn find_beside(program_directory: &Path) -> Result<PathBuf> {
    let installed = program_directory.join(provider::INSTALLED_LIBRARIES);
    if installed.join(CLIENT).is_file() {
        return installed.canonicalize().context("following links to the libraries");
    }
    if LINKS.iter().all(|(_, built)| program_directory.join(built).is_file()) {
        return link(program_directory);
    }
    bail!(
        "{CLIENT} of openmps is neither in {} nor built in {}: install it (cargo xtask dist), \
         build it (cargo build --workspace), or say where it is in {OPENMPS_LIB_DIR}",
        installed.display(),
        program_directory.display()
    )
}

/// The bytes of an ELF file and those that its header speaks of, if these are more: what a copy that was
/// interrupted leaves. A program that loads it gets SIGBUS.
fn missing_bytes(file: &Path) -> Option<(u64, u64)> {
    const HEADER_BYTES: usize = 64;
    let mut header = [0; HEADER_BYTES];
    let mut opened = File::open(file).ok()?;
    let found = opened.metadata().ok()?.len();
    if opened.read_exact(&mut header).is_err() {
        return Some((found, HEADER_BYTES as u64));
    }
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    // The table of sections is the last thing that a linker writes.
    let half = |at: usize| u64::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let table = u64::from_le_bytes(header[0x28..0x30].try_into().ok()?);
    let wanted = table.checked_add(half(0x3a) * half(0x3c))?;
    (found < wanted).then_some((found, wanted))
}

/// Makes the directory of links in a cargo target directory, or completes it.
fn link(built: &Path) -> Result<PathBuf> {
    let directory = built.join(LINK_DIRECTORY);
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("making {}", directory.display()))?;
    for (name, target) in LINKS {
        let name = directory.join(name);
        let target = Path::new("..").join(target);
        if std::fs::read_link(&name).is_ok_and(|there| there == target) {
            continue;
        }
        // Several commands may do this at once; each makes its own and moves it into place.
        let own = name.with_extension(format!("new-{}", std::process::id()));
        symlink(&target, &own)
            .or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            })
            .and_then(|()| std::fs::rename(&own, &name))
            .with_context(|| format!("linking {}", name.display()))?;
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_glibc_are_compared_by_number() {
        assert!(glibc_version("2.4").expect("numbers") < GLIBC_OF_AUDITOR);
        assert!(glibc_version("2.31").expect("numbers") < GLIBC_OF_AUDITOR);
        assert!(glibc_version("2.100").expect("numbers") > GLIBC_OF_AUDITOR);
        assert_eq!(glibc_version("stable"), None);
    }

    #[test]
    fn a_file_that_was_copied_in_part_is_found() {
        let whole = std::env::current_exe().expect("this program");
        assert_eq!(missing_bytes(&whole), None);
        let bytes = std::fs::read(&whole).expect("a file");
        let directory = tempfile::tempdir().expect("a directory");
        let part = directory.path().join("part");
        for length in [0, 10, 64, bytes.len() - 1] {
            std::fs::write(&part, &bytes[..length]).expect("a file");
            let (found, wanted) = missing_bytes(&part).expect("it is not whole");
            assert!(found == length as u64 && wanted > found, "{found} of {wanted}");
        }
        std::fs::write(&part, "INPUT(libother.so)".repeat(9)).expect("a file");
        assert_eq!(missing_bytes(&part), None, "no ELF file");
        assert_eq!(missing_bytes(&directory.path().join("none")), None);
    }

    #[test]
    fn a_target_directory_gets_links_once() {
        let built = std::env::temp_dir().join(format!("openmps-links-{}", std::process::id()));
        std::fs::create_dir_all(&built).unwrap();
        assert!(find_beside(&built).unwrap_err().to_string().contains("cargo build"));
        for (_, name) in LINKS {
            std::fs::write(built.join(name), name).unwrap();
        }
        for _ in 0..2 {
            let directory = find_beside(&built).unwrap();
            assert_eq!(std::fs::read_to_string(directory.join(CLIENT)).unwrap(), "libcuda.so");
        }
        std::fs::remove_dir_all(&built).unwrap();
    }

    #[test]
    fn xla_starts_our_ptxas_unless_the_user_says_otherwise() {
        let with = |given: &str| {
            with_xla_flags(given.into(), Path::new("/opt/c")).into_string().expect("UTF-8")
        };
        assert_eq!(
            with(""),
            "--xla_gpu_cuda_data_dir=/opt/c --xla_gpu_enable_libnvptxcompiler=false \
             --xla_gpu_enable_libnvjitlink=false"
        );
        let kept = with("--xla_dump_to=/x --xla_gpu_cuda_data_dir=/usr/local/cuda");
        assert!(kept.starts_with("--xla_dump_to=/x --xla_gpu_cuda_data_dir=/usr/local/cuda --xla"));
        assert_eq!(kept.matches("cuda_data_dir").count(), 1);
        let blank = with_xla_flags(OsString::new(), Path::new("/opt/my own"));
        assert!(blank.to_string_lossy().starts_with("--xla_gpu_enable_libnvptxcompiler=false"));
    }

    #[test]
    fn others_directories_stay_behind() {
        let directory = PathBuf::from("/opt/openmps");
        let libraries = Libraries { directory, program_directory: PathBuf::from("/opt/bin") };
        let mut command = Command::new("true");
        libraries.put_in_front(&mut command);
        let value = command.get_envs().find(|(name, _)| *name == "LD_LIBRARY_PATH").unwrap().1;
        assert!(value.unwrap().to_str().unwrap().starts_with("/opt/openmps"));
        assert_eq!(libraries.sample("spin"), Path::new("/opt/bin/spin"));
    }
}
