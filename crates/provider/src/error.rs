//! Why there is no provider, and what to do about it.

use cuda_api::environment::{OPENMPS_LIB_DIR, OPENMPS_PROVIDER};
use std::fmt;
use std::path::PathBuf;

/// Why a provider could not be had.
#[derive(Debug)]
pub enum ProviderError {
    /// The environment names something that is neither a word we know nor an absolute path.
    BadChoice {
        /// What it names.
        value: PathBuf,
    },
    /// No such library of NVIDIA's driver in the places where it is installed.
    NoVendorLibrary {
        /// Its name.
        name: &'static str,
        /// Directories looked into.
        searched: Vec<PathBuf>,
    },
    /// The software GPU's library is not where it should be.
    NoSoftwareGpu {
        /// Files looked for.
        searched: Vec<PathBuf>,
    },
    /// The library found is our own client library.
    OwnClient {
        /// Its path.
        path: PathBuf,
    },
    /// The dynamic loader refused it.
    Open {
        /// Its path.
        path: PathBuf,
        /// The loader's words.
        reason: String,
    },
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, paths: &[PathBuf]| {
            paths.iter().try_for_each(|p| write!(f, " {}", p.display()))
        };
        match self {
            Self::BadChoice { value } => write!(
                f,
                "{OPENMPS_PROVIDER}={}: expected 'vendor', 'soft' or the absolute path of a \
                 libcuda.so.1",
                value.display()
            ),
            Self::NoVendorLibrary { name, searched } => {
                write!(f, "no {name} of NVIDIA's driver; looked in")?;
                list(f, searched)?;
                write!(f, "; set {OPENMPS_PROVIDER} to its absolute path, or to 'soft'")
            }
            Self::NoSoftwareGpu { searched } => {
                f.write_str("the software GPU's library is missing; ")?;
                match searched.is_empty() {
                    true => f.write_str("this program's own file is gone, beside which it lies")?,
                    false => f.write_str("looked for")?,
                }
                list(f, searched)?;
                write!(f, "; set {OPENMPS_LIB_DIR} to the directory it is in")
            }
            Self::OwnClient { path } => write!(
                f,
                "{} is openmps' client library, which drives no device; set {OPENMPS_PROVIDER} \
                 to the driver's own library",
                path.display()
            ),
            Self::Open { path, reason } => {
                // The loader's words often begin with the path.
                let path = path.display().to_string();
                let reason = reason.strip_prefix(&format!("{path}: ")).unwrap_or(reason);
                write!(f, "{path}: {reason}")
            }
        }
    }
}

impl std::error::Error for ProviderError {}
