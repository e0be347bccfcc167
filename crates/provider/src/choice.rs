//! `OPENMPS_PROVIDER`: which provider is wanted.

use crate::ProviderError;
use crate::library::{Kind, Provider};
use crate::search::{find_software, find_vendor};
use cuda_api::environment::OPENMPS_PROVIDER;
use std::path::{Path, PathBuf};

/// Which provider is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// NVIDIA's driver if this machine has one and a device for it, else the software GPU.
    Automatic,
    /// NVIDIA's driver.
    Vendor,
    /// The software GPU.
    Soft,
    /// The library at this absolute path.
    Path(PathBuf),
}

/// A provider's library that was found and not loaded.
#[derive(Clone, Debug)]
pub struct Found {
    kind: Kind,
    path: PathBuf,
}

impl Found {
    /// True if it is NVIDIA's driver where it is installed.
    pub fn is_vendor(&self) -> bool {
        self.kind == Kind::Vendor
    }

    /// True if it is the software GPU that belongs to the project.
    pub fn is_software(&self) -> bool {
        self.kind == Kind::Soft
    }

    /// Loads it.
    pub fn load(&self) -> Result<Provider, ProviderError> {
        Provider::open(self.kind, &self.path)
    }
}

impl Choice {
    /// What the environment asks for.
    pub fn from_environment() -> Result<Self, ProviderError> {
        match std::env::var_os(OPENMPS_PROVIDER) {
            None => Ok(Self::Automatic),
            Some(value) => Self::parse(Path::new(&value)),
        }
    }

    fn parse(value: &Path) -> Result<Self, ProviderError> {
        match value.to_str() {
            Some("") => Ok(Self::Automatic),
            Some("vendor") => Ok(Self::Vendor),
            Some("soft") => Ok(Self::Soft),
            _ if value.is_absolute() => Ok(Self::Path(value.to_path_buf())),
            _ => Err(ProviderError::BadChoice { value: value.to_path_buf() }),
        }
    }

    /// Finds and loads it.
    pub fn load(self) -> Result<Provider, ProviderError> {
        self.resolve()?.load()
    }

    /// Finds the library and loads nothing.
    pub fn resolve(self) -> Result<Found, ProviderError> {
        let (kind, path) = match self {
            Self::Automatic => match find_vendor() {
                Ok(path) if vendor_device_present() => (Kind::Vendor, path),
                _ => (Kind::Soft, find_software()?),
            },
            Self::Vendor => (Kind::Vendor, find_vendor()?),
            Self::Soft => (Kind::Soft, find_software()?),
            Self::Path(path) => (Kind::Other, path),
        };
        Ok(Found { kind, path })
    }
}

/// True if the kernel offers a device of NVIDIA's (natively, or through WSL).
fn vendor_device_present() -> bool {
    ["/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl-gpu"].iter().any(|p| Path::new(p).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_words_or_absolute_paths() {
        let parse = |s: &str| Choice::parse(Path::new(s));
        assert_eq!(parse("vendor").unwrap(), Choice::Vendor);
        assert_eq!(parse("soft").unwrap(), Choice::Soft);
        assert_eq!(parse("").unwrap(), Choice::Automatic);
        assert_eq!(parse("/x/libcuda.so.1").unwrap(), Choice::Path("/x/libcuda.so.1".into()));
        assert!(matches!(parse("libcuda.so.1"), Err(ProviderError::BadChoice { .. })));
    }
}
