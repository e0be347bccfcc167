//! Server process: of this daemon or one before it, killed and waited for; and by what a client's end is known.

use channel::message::pid_of_process;
use channel::socket::{Interest, poll};
use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// A server's process.
pub(in crate::daemon) enum ServerProcess {
    /// This daemon has started it.
    Started(Child),
    /// The daemon before has started it, in the same process.
    Inherited(u32),
    /// A daemon before, which was killed, has started it: no child of this process.
    Found(u32),
}

impl ServerProcess {
    pub fn kill(&mut self) -> io::Result<()> {
        match self {
            Self::Started(child) => child.kill(),
            Self::Inherited(pid) | Self::Found(pid) => {
                Ok(rustix::process::kill_process(process_id(*pid)?, rustix::process::Signal::KILL)?)
            }
        }
    }

    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let pid = match self {
            Self::Started(child) => return child.wait(),
            Self::Inherited(pid) => process_id(*pid)?,
            Self::Found(_) => {
                return Err(io::Error::other("a daemon before this one had started it"));
            }
        };
        let options = rustix::process::WaitOptions::empty();
        let (_, status) = rustix::process::waitpid(Some(pid), options)?
            .ok_or_else(|| io::Error::other("it has no status"))?;
        Ok(ExitStatus::from_raw(status.as_raw()))
    }
}

fn process_id(pid: u32) -> io::Result<rustix::process::Pid> {
    rustix::process::Pid::from_raw(pid.cast_signed())
        .ok_or_else(|| io::Error::other("process id 0"))
}

/// A descriptor that becomes readable when a process ends.
pub(in crate::daemon) fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(process_id(pid)?, rustix::process::PidfdFlags::empty())?)
}

/// How long a process whose end cannot be known counts as alive, from when that is asked first. That is
/// when its server is gone; if it lives it goes to another one by then.
const UNKNOWN_END_MAX: Duration = Duration::from_secs(300);

/// By what it is known that a client's process has ended.
#[derive(Debug)]
pub(in crate::daemon) enum ClientEnd {
    /// Readable then.
    Known(OwnedFd),
    /// It cannot be known: the process has no PID here, or there are no descriptors. Since when it was asked.
    Unknown(Cell<Option<Instant>>),
    /// It had ended when this was asked for.
    Ended,
}

impl ClientEnd {
    /// Of a process with that number.
    pub fn of(process: u32) -> Self {
        let pid = pid_of_process(process);
        match pidfd(pid) {
            Ok(exit) => Self::Known(exit),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                Self::Ended
            }
            Err(_) => Self::Unknown(Cell::new(None)),
        }
    }

    pub fn has_come(&self) -> bool {
        self.has_come_by(Instant::now())
    }

    fn has_come_by(&self, now: Instant) -> bool {
        let exit = match self {
            Self::Known(exit) => exit,
            Self::Ended => return true,
            Self::Unknown(since) => {
                let asked = since.get().unwrap_or(now);
                since.set(Some(asked));
                return now.saturating_duration_since(asked) >= UNKNOWN_END_MAX;
            }
        };
        let ready = poll(&[Interest::readable(exit)], Some(Duration::ZERO));
        ready.is_ok_and(|ready| ready.first().is_some_and(|ready| ready.readable))
    }
}

/// `exited with status 1`, `was killed by signal 9`.
pub(in crate::daemon) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// True if a process has begun to end: it runs nothing of its program any more, and the kernel takes down
/// what it had, which for a device's context takes long.
pub(in crate::daemon) fn is_ending(pid: u32) -> bool {
    /// PF_EXITING of the kernel's `linux/sched.h`.
    const EXITING: u64 = 4;
    // proc_pid_stat(5): behind the name, which may have any characters, and 6 more fields come the flags.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let flags = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(6)?.parse().ok());
    flags.is_some_and(|flags: u64| flags & EXITING != 0)
}

/// When a process began, in the kernel's ticks since its start; 0 if there is no such process.
pub(in crate::daemon) fn began(pid: u32) -> u64 {
    // proc_pid_stat(5): starttime is the 20th field behind the name.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let began = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(19)?.parse().ok());
    began.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_without_a_pid_here_lives_until_it_should_have_come() {
        let end = ClientEnd::of(channel::message::process_number(0, 7));
        let now = Instant::now();
        let at = |seconds| end.has_come_by(now + Duration::from_secs(seconds));
        assert_eq!([at(10), at(11), at(309), at(310)], [false, false, false, true]);
        assert!(!ClientEnd::of(std::process::id()).has_come());
        let mut child = Command::new("true").spawn().expect("true");
        child.wait().expect("its end");
        assert!(ClientEnd::of(child.id()).has_come(), "it has ended");
    }

    #[test]
    fn a_process_that_was_killed_ends_before_it_is_waited_for() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        assert!(began(child.id()) >= began(std::process::id()) && began(0) == 0);
        assert!(!is_ending(child.id()) && !is_ending(std::process::id()) && !is_ending(0));
        let exit = pidfd(child.id()).expect("a pidfd");
        child.kill().expect("a kill");
        let ended = channel::socket::poll(&[channel::socket::Interest::readable(&exit)], None);
        assert!(ended.expect("poll")[0].readable && is_ending(child.id()));
        child.wait().expect("its status");
    }
}
