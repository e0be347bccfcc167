//! Notification of the service manager (sd_notify): the daemon is ready, or ends.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable in which systemd names its socket.
pub(super) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Tells the service manager, if one started this process, how it is: lines of `NAME=value`. A failure
/// changes nothing here; the manager will say that it has heard nothing.
pub(super) fn notify(state: &str) {
    if let Some(name) = std::env::var_os(NOTIFY_SOCKET).filter(|name| !name.is_empty()) {
        let _ = send(name.as_bytes(), state);
    }
}

fn send(name: &[u8], state: &str) -> io::Result<()> {
    let address = match name {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not hold the daemon up.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_sockets_are_told() {
        let path = std::env::temp_dir().join(format!("openmps-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let by_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("openmps-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let abstract_one = UnixDatagram::bind_addr(&address).unwrap();
        let mut text = [0; 32];
        send(path.as_os_str().as_bytes(), "READY=1").unwrap();
        assert_eq!(by_path.recv(&mut text).map(|n| text[..n].to_vec()).unwrap(), b"READY=1");
        send(format!("@{name}").as_bytes(), "STOPPING=1").unwrap();
        assert_eq!(
            abstract_one.recv(&mut text).map(|n| text[..n].to_vec()).unwrap(),
            b"STOPPING=1"
        );
        std::fs::remove_file(&path).unwrap();
        assert!(send(path.as_os_str().as_bytes(), "READY=1").is_err());
    }
}
