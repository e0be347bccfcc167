//! Server key: where a server serves; and a process that is to be served.

use cuda_api::CUuuid;

/// Where a server serves: whom, and on which device. At most one takes new clients at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerKey {
    /// The user that its servers run as.
    pub uid: u32,
    /// Number of the named server whose process it is; 0: the user's own.
    pub named: u32,
    /// The device.
    pub device: CUuuid,
}

/// A process as a client on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientProcess {
    /// The user that its server runs as.
    pub uid: u32,
    /// Number of the named server that it chose; 0: the user's own.
    pub named: u32,
    /// The process.
    pub pid: u32,
    /// The device.
    pub device: CUuuid,
}

impl ClientProcess {
    /// Where its server serves.
    pub fn server_key(self) -> ServerKey {
        ServerKey { uid: self.uid, named: self.named, device: self.device }
    }
}
