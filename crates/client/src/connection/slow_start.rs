//! What is reported to a program at cuInit when daemon or server keep it waiting: one line on standard
//! error that says for whom it waits, and what can be done.

use crate::stderr::say;
use channel::socket::SeqPacket;
use core::fmt;
use core::time::Duration;
use std::fs;
use std::path::Path;

/// So long nothing is said: a server that starts on a GPU without persistence mode takes seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Says that the daemon takes no connection: its queue has been full for that long.
pub(crate) fn say_queue_is_full(path: &Path) {
    say(format_args!(
        "waiting for the control daemon at {}: its queue of new connections is full; is it stopped? \
         (`kill -CONT` its PID; control.log says what it did last)",
        path.display()
    ));
}

/// Says which process has not answered so far, as far as can be seen from here.
pub(crate) fn say_no_answer(path: &Path, socket: &SeqPacket) {
    let daemon = socket.peer_credentials().map_or(0, |peer| peer.pid);
    say(format_args!("waiting for the control daemon at {}{}", path.display(), Held::by(daemon)));
}

/// What keeps a daemon or its server from answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// The daemon is stopped (SIGSTOP, a debugger).
    DaemonStopped(u32),
    /// A server of the daemon's is stopped.
    ServerStopped { daemon: u32, server: u32 },
    /// Nothing that can be seen.
    Unknown(u32),
}

impl Held {
    fn by(daemon: u32) -> Self {
        if is_stopped(daemon) {
            return Self::DaemonStopped(daemon);
        }
        match children(daemon).into_iter().find(|pid| is_stopped(*pid)) {
            Some(server) => Self::ServerStopped { daemon, server },
            None => Self::Unknown(daemon),
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::DaemonStopped(pid) => write!(
                f,
                " (PID {pid}), which is stopped: `kill -CONT {pid}` lets it go on, \
                 programs that run go on without it"
            ),
            Self::ServerStopped { daemon, server } => write!(
                f,
                " (PID {daemon}): its server (PID {server}) is stopped: `kill -CONT {server}` lets it \
                 go on, `kill -9 {server}` has its programs go on at another one"
            ),
            Self::Unknown(pid) => {
                if pid != 0 {
                    write!(f, " (PID {pid})")?;
                }
                f.write_str(
                    ", which has not answered yet: control.log and server.log say how far the start \
                     of the server is",
                )
            }
        }
    }
}

/// True if a process can be seen and is stopped.
fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it, in parentheses, may have any characters.
    matches!(stat.rsplit(") ").next().and_then(|rest| rest.chars().next()), Some('T' | 't'))
}

/// The processes that the threads of a process have started.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| numbers(&list)).collect()
}

fn numbers(text: &str) -> Vec<u32> {
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
    use std::process::Command;

    fn signal(pid: u32, signal: Signal) {
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
    }

    /// Waits for the child to be stopped, or to go on.
    fn wait(child: u32, options: WaitOptions) {
        waitpid(Pid::from_raw(child.cast_signed()), options).unwrap();
    }

    #[test]
    fn who_is_stopped_is_named() {
        // `daemon` is a shell here, whose child is the `server`.
        let mut daemon = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let pid = daemon.id();
        let server = loop {
            match children(pid)[..] {
                [server] => break server,
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(Held::by(pid), Held::Unknown(pid));
        signal(pid, Signal::STOP);
        wait(pid, WaitOptions::UNTRACED);
        assert_eq!(Held::by(pid), Held::DaemonStopped(pid));
        signal(pid, Signal::CONT);
        wait(pid, WaitOptions::CONTINUED);
        signal(server, Signal::STOP);
        while !is_stopped(server) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let held = Held::by(pid);
        assert_eq!(held, Held::ServerStopped { daemon: pid, server });
        assert!(held.to_string().contains(&format!("kill -CONT {server}")), "{held}");
        signal(server, Signal::KILL);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        assert_eq!(Held::by(0), Held::Unknown(0), "a daemon in another PID namespace");
    }
}
