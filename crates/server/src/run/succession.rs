//! The next daemon: a server whose daemon was killed looks for one that follows it in its directory.
//!
//! Its clients notice nothing meanwhile. Of what it would have notified the daemon before the next one
//! gets no message: it gets the present state.

use super::Server;
use super::outbox::Outbox;
use channel::message::{Message, Release, Serving};
use channel::socket::SeqPacket;
use cuda_api::CUuuid;
use recovery::Ending;
use std::io;
use std::time::{Duration, Instant};

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(100);
/// How long a daemon's queue of connections may be full.
const CONNECT_MAX: Duration = Duration::from_millis(50);

impl Server {
    /// The daemon's socket is closed.
    pub(super) fn lose_daemon(&mut self) {
        self.daemon_gone = true;
        // If it was to end already, the next daemon does not change that.
        self.ends_for_want_of_daemon |= self.ending == Ending::No;
        self.ending.when_idle();
        let (path, at) = &mut self.next_daemon;
        *at = path.is_absolute().then(|| Instant::now() + PERIOD);
    }

    /// Goes to the next daemon if it is time to look, and there is one.
    pub(super) fn look_for_daemon(&mut self) {
        let now = Instant::now();
        if self.next_daemon.1.is_none_or(|at| now < at) {
            return;
        }
        self.next_daemon.1 = match self.go_to_daemon() {
            Ok(()) => None,
            Err(_) => Some(now + PERIOD),
        };
    }

    fn go_to_daemon(&mut self) -> io::Result<()> {
        let socket = SeqPacket::connect(&self.next_daemon.0, CONNECT_MAX)?;
        let uid = socket.peer_credentials()?.uid;
        if !may_follow(self.daemon_uid, uid) {
            if !std::mem::replace(&mut self.refused_daemon, true) {
                let path = self.next_daemon.0.display();
                self.common.log.line(format!(
                    "User {uid} listens at {path}, whose daemon did not start this server: it is refused"
                ));
            }
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        socket.set_nonblocking(true)?;
        socket.speak(self.next_daemon_speaks);
        self.spare.clear();
        self.control = socket;
        self.outbox = Outbox::default();
        self.daemon_gone = false;
        self.common.log.line("Another control daemon is there");
        self.notify(&Message::Serving(Serving {
            device: CUuuid { bytes: self.common.device.info().uuid },
            ends: !self.ends_for_want_of_daemon,
            fault: self.common.fault().is_some(),
            clients: self.clients.windows(),
            release: Release::of_this_build(),
        }));
        Ok(())
    }

    /// The next daemon refuses. If it has answered in an older version, that is the one to speak with it.
    pub(super) fn is_refused(&mut self, reason: &str) {
        self.daemon_gone = true;
        let version = self.control.speaks();
        if version < self.next_daemon_speaks {
            self.next_daemon_speaks = version;
            self.next_daemon.1 = Some(Instant::now());
            return;
        }
        self.common.log.line(format!("The next daemon does not take over: {reason}"));
    }

    /// A daemon says what clients are given: it is this server's.
    pub(super) fn is_taken_over(&mut self) {
        if std::mem::take(&mut self.ends_for_want_of_daemon) {
            self.ending.serve_on();
            // What the daemon before knew, this one has to hear.
            self.asked_for_replacement = false;
        }
    }
}

/// True if the daemon of user `next` may take over a server that a daemon of user `first` started: the same user
/// or root. Another user who can write the directory could listen there.
fn may_follow(first: Option<u32>, next: u32) -> bool {
    next == 0 || first == Some(next)
}

#[cfg(test)]
mod tests {
    use super::may_follow;

    #[test]
    fn a_daemon_of_the_same_user_or_of_root_follows() {
        for (first, next, expected) in [
            (Some(1000), 1000, true),
            (Some(1000), 0, true),
            (Some(0), 0, true),
            (Some(1000), 1001, false),
            (Some(0), 1000, false),
            (None, 1000, false),
        ] {
            assert_eq!(may_follow(first, next), expected, "{first:?} {next}");
        }
    }
}
