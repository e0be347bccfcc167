//! Notification of the service manager (sd_notify): the daemon is ready, or ends.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The variable in which systemd names its socket.
pub(super) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Notifies the service manager, if one started this process, how it is: lines of `NAME=value`. A failure
/// changes nothing here; the manager will say that it has heard nothing.
pub(super) fn notify(state: &str) {
    if let Some(name) = std::env::var_os(NOTIFY_SOCKET).filter(|name| !name.is_empty()) {
        let _ = send(name.as_bytes(), state);
    }
}

/// How often the service manager wants to hear that this process lives, and when it hears it next.
#[derive(Debug)]
pub(super) struct Watchdog {
    every: Option<Duration>,
    next: Instant,
}

impl Watchdog {
    /// As the manager asks for it (sd_watchdog_enabled(3)): twice as often.
    pub fn of_environment(now: Instant) -> Self {
        Self { every: period(std::process::id(), |name| std::env::var(name).ok()), next: now }
    }

    /// When the manager is to be notified, if it wants to be.
    pub fn due(&self) -> Option<Instant> {
        self.every.map(|_| self.next)
    }

    /// Notifies it, if it is time to.
    pub fn look(&mut self, now: Instant) {
        if let Some(every) = self.every.filter(|_| now >= self.next) {
            self.next = now + every;
            notify("WATCHDOG=1");
        }
    }
}

/// Half of what the manager waits for, if it means this process.
fn period(process: u32, variable: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let number = |name| variable(name)?.trim().parse::<u64>().ok();
    let meant = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(process));
    let wanted = number("WATCHDOG_USEC").filter(|usec| meant && *usec > 0)?;
    Some(Duration::from_micros(wanted / 2))
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
    fn the_manager_hears_twice_as_often_as_it_waits() {
        let of = |usec: &'static str, pid: Option<&'static str>| {
            period(7, |name| match name {
                "WATCHDOG_USEC" => Some(usec.to_owned()),
                _ => pid.map(ToOwned::to_owned),
            })
        };
        let half = Some(Duration::from_secs(30));
        assert_eq!((of("60000000", None), of("60000000", Some("7"))), (half, half));
        assert_eq!([of("60000000", Some("8")), of("0", None), of("x", None)], [None; 3]);
        let now = Instant::now();
        let mut watchdog = Watchdog { every: half, next: now };
        watchdog.look(now);
        assert_eq!(watchdog.due(), Some(now + Duration::from_secs(30)));
        watchdog.look(now + Duration::from_secs(29));
        assert_eq!(watchdog.due(), Some(now + Duration::from_secs(30)));
    }

    #[test]
    fn both_kinds_of_sockets_are_notified() {
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
