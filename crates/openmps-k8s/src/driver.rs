//! The DRA driver's name: it stands here and in the chart's values, and cannot change once claims exist.

use std::path::{Path, PathBuf};

/// The name by which slices, classes and claims know the driver, unless `--driver-name` says another.
pub const DRIVER_NAME: &str = "gpu.openmps.io";

/// The version of the opaque parameters `ShareConfig`, which [`crate::parameters`] reads.
pub const PARAMETERS_VERSION: &str = "v1alpha1";

/// Longest path of a Unix socket, its closing zero included.
const SOCKET_PATH_BYTES_MAX: usize = 108;

/// A driver's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver(String);

impl Driver {
    /// # Errors
    /// What a name may be, if it is none: a DNS subdomain with a dot, of at most 63 characters.
    pub fn new(name: &str) -> Result<Driver, String> {
        let label = |label: &str| {
            let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            !label.is_empty()
                && label.bytes().all(allowed)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        match name.len() <= 63 && name.contains('.') && name.split('.').all(label) {
            true => Ok(Driver(name.to_owned())),
            false => Err(format!(
                "{name:?} is no driver's name: a DNS subdomain of at most 63 characters as {DRIVER_NAME}"
            )),
        }
    }

    /// The name itself.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// What stands in `apiVersion` of opaque parameters.
    pub fn parameters_version(&self) -> String {
        format!("{}/{PARAMETERS_VERSION}", self.0)
    }

    /// The kind of CDI devices of shares.
    pub fn cdi_kind(&self) -> String {
        format!("{}/share", self.0)
    }

    /// A key of a taint or an annotation.
    pub fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }

    /// The registration socket in the kubelet's folder of plugins: with `pod_uid`, two agents may have theirs
    /// side by side.
    ///
    /// # Errors
    /// The path, if it is longer than a socket's may be.
    pub fn registration_socket(&self, folder: &Path, pod_uid: &str) -> Result<PathBuf, String> {
        // The kubelet sends the socket's path as the request's authority, with %2F for its slashes. Servers in Rust
        // (crate h2) refuse that in a host's name and allow it before an @.
        let uid = if pod_uid.is_empty() { String::new() } else { format!("{pod_uid}-") };
        check(folder.join(format!("{}@{uid}reg.sock", self.0)))
    }

    /// The socket that the kubelet prepares claims by.
    ///
    /// # Errors
    /// The path, if it is longer than a socket's may be.
    pub fn plugin_socket(&self, folder: &Path, pod_uid: &str) -> Result<PathBuf, String> {
        let uid = if pod_uid.is_empty() { String::new() } else { format!("-{pod_uid}") };
        check(folder.join(format!("dra{uid}.sock")))
    }
}

fn check(path: PathBuf) -> Result<PathBuf, String> {
    match path.as_os_str().len() < SOCKET_PATH_BYTES_MAX {
        true => Ok(path),
        false => Err(format!(
            "{} is longer than a socket's path may be ({} bytes): give a shorter --kubelet-directory",
            path.display(),
            SOCKET_PATH_BYTES_MAX - 1
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_dns_subdomain() {
        assert!(Driver::new(DRIVER_NAME).is_ok());
        for name in ["", "gpu", "Gpu.openmps.io", "gpu..io", "-a.io", "gpu.openmps.io/x"] {
            assert!(Driver::new(name).unwrap_err().contains("DNS subdomain"), "{name}");
        }
    }

    #[test]
    fn sockets_of_two_agents_are_two() {
        let driver = Driver::new(DRIVER_NAME).unwrap();
        let folder = Path::new("/var/lib/kubelet/plugins_registry");
        let uid = "0123abcd-0000-1111-2222-333344445555";
        let one = driver.registration_socket(folder, "").unwrap();
        let other = driver.registration_socket(folder, uid).unwrap();
        assert_eq!(one, folder.join("gpu.openmps.io@reg.sock"));
        assert_eq!(other, folder.join(format!("gpu.openmps.io@{uid}-reg.sock")));
        let long = PathBuf::from("/x".repeat(40));
        assert!(driver.plugin_socket(&long, uid).unwrap_err().contains("107 bytes"));
    }
}
