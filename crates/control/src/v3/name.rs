//! Names of servers, namespaces and partitions, and why something about them is refused.

use thiserror::Error;

/// Characters of the longest name.
pub(crate) const NAME_CHARS_MAX: usize = 64;
/// Namespace of clients that choose none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";
/// What the daemon has in its directory itself.
pub(super) const TAKEN: &[&str] = &["control", "control_lock", "control_privileged", "log", "new"];
/// Why servers and namespaces are as they were.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NamedError {
    #[error("{0:?} is no name: a name has a to z, 0 to 9 and _, at most {NAME_CHARS_MAX} of them")]
    Name(String),
    #[error("{0:?} is the name of a file of the daemon's own")]
    Taken(String),
    #[error("Server '{0}' exists already")]
    ServerExists(String),
    #[error("Server '{0}' not found; `server list` lists them")]
    NoServer(String),
    #[error("Namespace '{namespace}' exists already on server '{server}'")]
    NamespaceExists { server: String, namespace: String },
    #[error("Namespace '{namespace}' not found on server '{server}'; `namespace list` lists them")]
    NoNamespace { server: String, namespace: String },
    #[error(
        "the namespace '{DEFAULT_NAMESPACE}' is every server's own: `server set` sets its limits"
    )]
    Default,
    #[error("there are {0} of them already, which is the most")]
    Many(usize),
    #[error("{0}")]
    Refused(String),
}

/// Checks a name of a server, a namespace or a partition.
pub(crate) fn check_name(name: &str) -> Result<(), NamedError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(allowed) {
        true => Ok(()),
        false => Err(NamedError::Name(name.to_owned())),
    }
}
