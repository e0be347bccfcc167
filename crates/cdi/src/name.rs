//! Names of the container device interface: what a vendor, a class and a device may be called.

use std::path::PathBuf;
use thiserror::Error;

/// Why there is no spec.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Invalid {
    /// No share.
    #[error("a spec has at least one share")]
    Empty,
    /// Vendor and class.
    #[error(
        "{0:?} is no kind: that is vendor/class, as openmps.example/share, of letters, digits, _ and -, in the \
         vendor also dots; each begins with a letter and ends with a letter or a digit"
    )]
    Kind(String),
    /// A device's name.
    #[error(
        "{0:?} is no device's name: it has letters, digits, _ - . and :, and begins and ends with a letter or a digit"
    )]
    Device(String),
    /// Two of a name.
    #[error("two devices are called {0:?}: give one of them another name")]
    Twice(String),
    /// Shares of two kinds.
    #[error("a spec has one kind, but there are shares of {0} and {1}: write a spec for each")]
    Kinds(String, String),
    /// Shares with two directories of libraries.
    #[error("a spec has one directory of libraries, but there are {} and {}: write a spec for each", .0.display(), .1.display())]
    Libraries(PathBuf, PathBuf),
    /// A path.
    #[error("{} is not an absolute path in UTF-8 on one line", .0.display())]
    Path(PathBuf),
    /// A variable.
    #[error(
        "{0:?} cannot be set: it is no variable's name, its value has a zero byte, or the share sets it itself"
    )]
    Variable(String),
}

/// Checks vendor and class.
///
/// # Errors
/// [`Invalid::Kind`].
pub fn check_kind(kind: &str) -> Result<(), Invalid> {
    let of = |word: &str, more: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.ends_with(|c: char| c.is_ascii_alphanumeric())
            && word.chars().all(inner)
    };
    match kind.split_once('/') {
        Some((vendor, class)) if of(vendor, "_-.") && of(class, "_-") => Ok(()),
        _ => Err(Invalid::Kind(kind.to_owned())),
    }
}

/// Checks a device's name.
///
/// # Errors
/// [`Invalid::Device`].
pub fn check_device(name: &str) -> Result<(), Invalid> {
    let edge = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| edge(c) || "_-.:".contains(c);
    match name.starts_with(edge) && name.ends_with(edge) && name.chars().all(inner) {
        true => Ok(()),
        false => Err(Invalid::Device(name.to_owned())),
    }
}

/// What a container names a device by: `podman run --device KIND=DEVICE`.
pub fn qualified(kind: &str, device: &str) -> String {
    format!("{kind}={device}")
}
