//! `openmps driver-root`: the folder that NVIDIA's container toolkit, device plugin, DRA driver and GPU operator take
//! for the driver's.
//!
//! They look for libraries under the driver's version and for programs in `usr/bin`, and mount what they find into
//! containers. A manifest in the folder says what is openmps's, so that it can be laid again, changed and removed.

mod layout;
mod place;

use crate::libraries::Libraries;
use crate::nvidia_smi::nvml::Nvml;
use crate::{daemon, output};
use anyhow::{Context, Result, bail};
use layout::{Smi, Sources};
use place::Manifest;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where a daemon's directories are in the folder: where NVIDIA's components look.
const PIPE: &str = provider::DRIVER_ROOT_PIPE;
const LOG: &str = "var/log/nvidia-mps";

/// Lay the folder that NVIDIA's container toolkit and plugins take for the driver's
///
/// In it are the libraries under the driver's version, the programs, and the daemon's directory tmp/nvidia-mps. A daemon
/// that containers shall find is started there. On NVIDIA's driver its other libraries lie beside openmps's.
/// Laying it again brings it up to date, also while programs use it: each file is replaced as a whole.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps driver-root /opt/openmps-driver
  CUDA_MPS_PIPE_DIRECTORY=/opt/openmps-driver/tmp/nvidia-mps nvidia-cuda-mps-control -d -m
  nvidia-ctk cdi generate --driver-root /opt/openmps-driver --output /var/run/cdi/nvidia.json
  openmps driver-root /opt/openmps-driver --remove")]
pub(crate) struct Arguments {
    /// The folder; it is made if it is not there
    directory: PathBuf,
    /// Remove what was laid
    #[arg(long)]
    remove: bool,
    /// Lay openmps's nvidia-smi, which answers what clusters ask: auto lays it on the software GPU, and NVIDIA's
    /// own where there is one
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    nvidia_smi: Smi,
    /// The version in the names of the libraries [default: what NVML says]
    #[arg(long, value_name = "VERSION", value_parser = version)]
    driver_version: Option<String>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

fn version(text: &str) -> Result<String, String> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match text.contains('.') && text.split('.').all(digits) {
        true => Ok(text.to_owned()),
        false => Err("numbers with dots between them, as 580.0.1".to_owned()),
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let root = std::path::absolute(&arguments.directory)?;
    if root == Path::new("/") {
        bail!("/ is this machine's own root: name a folder of its own, as /opt/openmps-driver");
    }
    if arguments.remove {
        return remove(&root, arguments.json);
    }
    let libraries = Libraries::find()?;
    let choice = provider::Choice::from_environment().and_then(provider::Choice::resolve);
    let is_vendor = choice.is_ok_and(|found| found.is_vendor());
    let driver_version = match &arguments.driver_version {
        Some(version) => version.clone(),
        None => Nvml::load().and_then(|nvml| nvml.driver_version()).context(
            "asking for the driver's version; --driver-version says it where no device is there",
        )?,
    };
    let sources = Sources::find(&libraries, is_vendor, arguments.nvidia_smi)?;
    let entries = layout::entries(&sources, &driver_version)?;
    let manifest = Manifest {
        driver_version: driver_version.clone(),
        software_gpu: !is_vendor,
        openmps: env!("CARGO_PKG_VERSION").to_owned(),
        files: entries.iter().map(|entry| entry.to.clone()).collect(),
    };
    let changed = place::lay(&root, &entries, &manifest)?;
    for directory in [PIPE, LOG] {
        let path = root.join(directory);
        std::fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
    }
    if arguments.json {
        output::print_json(&json!({
            "directory": root,
            "driver_version": driver_version,
            "software_gpu": manifest.software_gpu,
            "changed": changed,
            "files": manifest.files,
            "pipe_directory": root.join(PIPE),
            "log_directory": root.join(LOG),
        }))?;
    } else {
        output::print(&format!(
            "{}: driver {driver_version}, {} files, {} of them new\n\
             start its daemon with CUDA_MPS_PIPE_DIRECTORY={}\n",
            root.display(),
            manifest.files.len(),
            changed.len(),
            root.join(PIPE).display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(root: &Path, as_json: bool) -> Result<ExitCode> {
    if let Ok(Some(report)) = daemon::ask(&root.join(PIPE)) {
        bail!(
            "a daemon (PID {}) runs in {}: end it first, by `CUDA_MPS_PIPE_DIRECTORY={} openmps down`",
            report.pid,
            root.join(PIPE).display(),
            root.join(PIPE).display()
        );
    }
    let removed = place::remove(root, &[PIPE, LOG])?;
    if as_json {
        output::print_json(&json!({ "directory": root, "removed": removed }))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_numbers() {
        assert!(version("580.0.1").is_ok() && version("580.95.05").is_ok());
        for wrong in ["", "580", "580.x", "580..1", "580.0.1/../x"] {
            assert!(version(wrong).is_err(), "{wrong}");
        }
    }
}
