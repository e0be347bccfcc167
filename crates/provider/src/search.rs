//! Where provider libraries are.

use crate::ProviderError;
use crate::dynamic_library::file_of_address;
use cuda_api::environment::OPENMPS_LIB_DIR;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// File name of the software GPU in an installation.
pub const SOFT_FILE_NAME: &str = "libopenmps-soft.so";

/// Where distributions, containers and WSL put NVIDIA's driver libraries.
const VENDOR_DIRECTORIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/usr/lib",
    "/run/opengl-driver/lib",
    "/usr/local/cuda/compat",
    // Of a driver root in which ours have the driver's names.
    "/usr/lib/openmps/nvidia",
];

/// What a driver root that `openmps driver-root` has laid is known by.
pub const DRIVER_ROOT_MANIFEST: &str = "etc/openmps-driver-root.json";

/// Where a driver root has the daemon's directory: NVIDIA's container toolkit mounts it into containers.
pub const DRIVER_ROOT_PIPE: &str = "tmp/nvidia-mps";

/// Where an installation has the project's libraries, from the directory of its programs.
pub const INSTALLED_LIBRARIES: &str = "../lib/openmps";

/// Largest number of bytes read of one loader configuration file: they are short lists.
const CONFIGURATION_BYTES_MAX: u64 = 64 << 10;

/// The absolute path of NVIDIA's driver library.
pub fn find_vendor() -> Result<PathBuf, ProviderError> {
    find_vendor_library("libcuda.so.1")
}

/// The absolute path of NVIDIA's management library.
pub fn find_vendor_nvml() -> Result<PathBuf, ProviderError> {
    find_vendor_library("libnvidia-ml.so.1")
}

fn find_vendor_library(name: &'static str) -> Result<PathBuf, ProviderError> {
    let mut searched: Vec<PathBuf> = VENDOR_DIRECTORIES.iter().map(PathBuf::from).collect();
    for directory in loader_directories() {
        if !searched.contains(&directory) {
            searched.push(directory);
        }
    }
    let found = searched.iter().map(|d| d.join(name)).find(|path| {
        // Our own library may have been installed under the driver's name.
        path.is_file() && !crate::library::is_own_client(path)
    });
    found.ok_or(ProviderError::NoVendorLibrary { name, searched })
}

/// The absolute path of the software GPU's library.
pub fn find_software() -> Result<PathBuf, ProviderError> {
    let mut searched = Vec::new();
    let own_file = own_file();
    let own = own_file.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    // A library of the project lies beside the others; a program may be an installation's.
    let installed = own.as_ref().and_then(|own| own.join(INSTALLED_LIBRARIES).canonicalize().ok());
    for directory in [library_directory(), own, installed].into_iter().flatten() {
        // The second name is what a build tree has.
        for name in [SOFT_FILE_NAME, "libopenmps_soft.so"] {
            searched.push(directory.join(name));
        }
    }
    // NVIDIA's container toolkit mounts files of a driver root by their versions, and no others.
    if let Some(file) = own_file.as_deref().and_then(of_same_version) {
        searched.push(file);
    }
    match searched.iter().find(|p| p.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(ProviderError::NoSoftwareGpu { searched }),
    }
}

/// The directory that the environment names for the project's libraries.
pub fn library_directory() -> Option<PathBuf> {
    std::env::var_os(OPENMPS_LIB_DIR).map(PathBuf::from).filter(|d| d.is_absolute())
}

/// The software GPU beside a library, with the version that the library has behind `.so.`.
fn of_same_version(own: &Path) -> Option<PathBuf> {
    let (_, version) = own.file_name()?.to_str()?.split_once(".so.")?;
    Some(own.with_file_name(format!("{SOFT_FILE_NAME}.{version}")))
}

/// The driver root of which the library is part that this code is in: `<root>/usr/lib/<folder>/<library>`.
pub fn driver_root() -> Option<PathBuf> {
    driver_root_of(&own_file()?)
}

fn driver_root_of(library: &Path) -> Option<PathBuf> {
    let root = library.ancestors().nth(4)?;
    root.join(DRIVER_ROOT_MANIFEST).is_file().then(|| root.to_path_buf())
}

/// The library or program that this code is part of, links followed.
fn own_file() -> Option<PathBuf> {
    let address = own_file as *const () as usize;
    let path = file_of_address(address)?;
    // A library's name is its path as it was found, which LD_LIBRARY_PATH may have made relative to a
    // directory that is not the current one any more. The program's own is what it was called, perhaps no path.
    let path = match path.is_absolute() {
        true => path,
        false => mapped_file(address as u64)?,
    };
    path.canonicalize().ok()
}

/// The file that an address of this process is mapped from, as the kernel names it.
fn mapped_file(address: u64) -> Option<PathBuf> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    maps.split(|byte| *byte == b'\n').find_map(|line| {
        let range = line.split(|byte| *byte == b' ').next()?;
        let (start, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let within = (number(start)?..number(end)?).contains(&address);
        let name = line.iter().position(|byte| *byte == b'/').filter(|_| within)?;
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(&line[name..])))
    })
}

/// Directories that the dynamic loader is configured with.
fn loader_directories() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/ld.so.conf")];
    if let Ok(entries) = std::fs::read_dir("/etc/ld.so.conf.d") {
        let mut more: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        more.sort();
        files.extend(more);
    }
    let lines = files.iter().filter_map(|f| read_short(f)).collect::<Vec<_>>();
    lines
        .iter()
        .flat_map(|text| text.lines())
        .map(str::trim)
        .filter(|line| line.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

fn read_short(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(CONFIGURATION_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_mapped_from_the_program_that_it_is_part_of() {
        let program = std::env::current_exe().expect("a program's own path");
        assert_eq!(mapped_file(own_file as *const () as u64), Some(program));
        assert_eq!(mapped_file(0), None);
    }

    #[test]
    fn a_driver_root_and_versions_are_seen_by_the_library_s_own_path() {
        let soft = of_same_version(Path::new("/usr/lib/x/libcuda.so.580.0.1"));
        assert_eq!(soft, Some(PathBuf::from("/usr/lib/x/libopenmps-soft.so.580.0.1")));
        assert_eq!(of_same_version(Path::new("/opt/bin/openmps")), None);
        let root = std::env::temp_dir().join(format!("openmps-driver-root-{}", std::process::id()));
        let library = root.join("usr/lib/x/libnvidia-ml.so.580.0.1");
        assert_eq!(driver_root_of(&library), None);
        std::fs::create_dir_all(root.join("etc")).expect("a folder");
        std::fs::write(root.join(DRIVER_ROOT_MANIFEST), "{}").expect("a file");
        assert_eq!(driver_root_of(&library), Some(root.clone()));
        std::fs::remove_dir_all(&root).expect("it goes");
    }
}
