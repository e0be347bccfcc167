//! Container device interface: specs that give containers a share of a GPU without any device node.
//!
//! A share is a directory of the control daemon's, in which one socket is. What a container gets is that directory,
//! the project's libraries and two variables. This crate makes the text and keeps the files; it knows no daemon.
//!
//! ```
//! let share = cdi::Share {
//!     kind: "openmps.example/share".into(),
//!     device: "training-batch".into(),
//!     pipe_on_host: "/run/nvidia-mps/training/batch".into(),
//!     pipe_in_container: cdi::PIPE_IN_CONTAINER.into(),
//!     libraries: "/opt/openmps/lib/openmps".into(),
//!     environment: vec![],
//! };
//! let spec = cdi::spec(&[share])?;
//! assert!(spec.to_json().contains("CUDA_MPS_PIPE_DIRECTORY=/run/openmps"));
//! # Ok::<(), cdi::Invalid>(())
//! ```
#![forbid(unsafe_code)]

mod files;
mod name;

pub use files::{Stored, file_name, list, remove, write};
pub use name::{Invalid, check_device, check_kind, qualified};

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of the form: the oldest that has what is written here, so that old runtimes read it.
pub const VERSION: &str = "0.5.0";
/// Vendor and class where nothing else is said.
pub const KIND: &str = "openmps.example/share";
/// Where container runtimes look for specs: those of a site, and those that programs make and remove.
pub const DIRECTORIES: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];
/// Where a share's directory is in the container.
pub const PIPE_IN_CONTAINER: &str = "/run/openmps";
/// Where the project's libraries are in the container.
pub const LIBRARIES_IN_CONTAINER: &str = "/usr/lib/openmps";

/// Libraries that programs find by their names alone: what the directory of libraries has at least.
pub const LIBRARIES: [&str; 2] = ["libcuda.so.1", "libnvidia-ml.so.1"];

/// Directories in which the loaders of Debian and of Red Hat look without being told, also before any `ldconfig`.
#[cfg(target_arch = "aarch64")]
const LOADER_DIRECTORIES: [&str; 2] = ["/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
#[cfg(not(target_arch = "aarch64"))]
const LOADER_DIRECTORIES: [&str; 2] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64"];

/// A share of a GPU, as a container is to have it. Paths are absolute, those of the host as the container runtime
/// sees them, which need not be as this process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Vendor and class, `openmps.example/share`.
    pub kind: String,
    /// The device's name within its kind, `training-batch`.
    pub device: String,
    /// The directory of the share's namespace on the host, in which the socket `control` is.
    pub pipe_on_host: PathBuf,
    /// Where the container has that directory: [`PIPE_IN_CONTAINER`].
    pub pipe_in_container: PathBuf,
    /// The directory with `libcuda.so.1` and `libnvidia-ml.so.1` on the host.
    pub libraries: PathBuf,
    /// More variables of the container. Those that the share needs cannot be among them.
    pub environment: Vec<(String, String)>,
}

/// What a spec file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Version of the form.
    pub cdi_version: String,
    /// Vendor and class.
    pub kind: String,
    /// The devices.
    pub devices: Vec<Device>,
    /// What every container with one of the devices gets.
    #[serde(default, skip_serializing_if = "Edits::is_empty")]
    pub container_edits: Edits,
}

/// A device of a spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Its name within the kind.
    pub name: String,
    /// What a container with it gets.
    pub container_edits: Edits,
}

/// What is changed about a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Edits {
    /// Variables, `NAME=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Mounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
}

impl Edits {
    fn is_empty(&self) -> bool {
        self.env.is_empty() && self.mounts.is_empty()
    }
}

/// A bind mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// On the host.
    pub host_path: PathBuf,
    /// In the container.
    pub container_path: PathBuf,
    /// Options of mount(8).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// A spec of shares. All have one kind and one directory of libraries, and each a name of its own.
///
/// # Errors
/// What of a share cannot stand in a spec: a name, a path that is not absolute, a variable.
pub fn spec(shares: &[Share]) -> Result<Spec, Invalid> {
    let first = shares.first().ok_or(Invalid::Empty)?;
    check_kind(&first.kind)?;
    let mut devices: Vec<Device> = Vec::with_capacity(shares.len());
    for share in shares {
        if share.kind != first.kind {
            return Err(Invalid::Kinds(first.kind.clone(), share.kind.clone()));
        }
        if share.libraries != first.libraries {
            return Err(Invalid::Libraries(first.libraries.clone(), share.libraries.clone()));
        }
        if devices.iter().any(|device| device.name == share.device) {
            return Err(Invalid::Twice(share.device.clone()));
        }
        devices.push(device(share)?);
    }
    Ok(Spec {
        cdi_version: VERSION.to_owned(),
        kind: first.kind.clone(),
        devices,
        container_edits: Edits {
            // NVIDIA's runtime, where it is a node's default one, is to give nothing of its own.
            env: vec![
                "NVIDIA_VISIBLE_DEVICES=void".to_owned(),
                format!("OPENMPS_LIB_DIR={LIBRARIES_IN_CONTAINER}"),
            ],
            mounts: library_mounts(&first.libraries)?,
        },
    })
}

/// The libraries' directory, and the two that programs load by their names where loaders look for them.
fn library_mounts(libraries: &Path) -> Result<Vec<Mount>, Invalid> {
    let mut mounts = vec![mount(libraries, Path::new(LIBRARIES_IN_CONTAINER), &[])?];
    for directory in LOADER_DIRECTORIES {
        for name in LIBRARIES {
            mounts.push(mount(&libraries.join(name), &Path::new(directory).join(name), &[])?);
        }
    }
    Ok(mounts)
}

fn device(share: &Share) -> Result<Device, Invalid> {
    check_device(&share.device)?;
    let pipe = text(&share.pipe_in_container)?;
    let mut env = vec![format!("CUDA_MPS_PIPE_DIRECTORY={pipe}")];
    for (name, value) in &share.environment {
        let taken = ["CUDA_MPS_PIPE_DIRECTORY", "NVIDIA_VISIBLE_DEVICES", "OPENMPS_LIB_DIR"];
        if taken.contains(&name.as_str()) || name.is_empty() || name.contains(['=', '\0']) {
            return Err(Invalid::Variable(name.clone()));
        }
        if value.contains('\0') {
            return Err(Invalid::Variable(name.clone()));
        }
        env.push(format!("{name}={value}"));
    }
    // Read-only: who is root in the container cannot put another socket there, and connects all the same.
    let mounts = vec![mount(&share.pipe_on_host, &share.pipe_in_container, &["noexec"])?];
    Ok(Device { name: share.device.clone(), container_edits: Edits { env, mounts } })
}

fn mount(host: &Path, container: &Path, more: &[&str]) -> Result<Mount, Invalid> {
    text(host)?;
    text(container)?;
    let options = ["ro", "nosuid", "nodev", "rbind", "rprivate"].iter().chain(more);
    Ok(Mount {
        host_path: host.to_owned(),
        container_path: container.to_owned(),
        options: options.map(|option| (*option).to_owned()).collect(),
    })
}

/// An absolute path as text.
fn text(path: &Path) -> Result<&str, Invalid> {
    let text = path.to_str().filter(|text| !text.contains(['\0', '\n']));
    text.filter(|_| path.is_absolute()).ok_or_else(|| Invalid::Path(path.to_owned()))
}

impl Spec {
    /// The text of its file, JSON with an end of line.
    pub fn to_json(&self) -> String {
        // Texts, lists and nothing else: it cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// What containers name its devices by, `openmps.example/share=training-batch`.
    pub fn devices(&self) -> impl Iterator<Item = String> {
        self.devices.iter().map(|device| qualified(&self.kind, &device.name))
    }
}
