//! Signals that would end a command which has work to do afterwards: noted, or sent on to the program for
//! which it waits.
//!
//! Ctrl-C reaches the command and the program alike: the command stays, and does not send the
//! program a second one. What is sent to the command alone, it sends on.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals, and whether a terminal sends them to all of its foreground.
const SIGNALS: [(Signal, bool); 4] =
    [(Signal::INT, true), (Signal::QUIT, true), (Signal::TERM, false), (Signal::HUP, false)];

/// Sets a flag at Ctrl-C and SIGTERM, which from now on do not end this process.
pub(crate) fn note(interrupted: &Arc<AtomicBool>) -> Result<()> {
    for signal in [Signal::INT, Signal::TERM] {
        register(signal, interrupted)?;
    }
    Ok(())
}

fn register(signal: Signal, flag: &Arc<AtomicBool>) -> Result<()> {
    signal_hook::flag::register(signal.as_raw(), flag.clone()).context("watching for Ctrl-C")?;
    Ok(())
}

/// From now on this process does not end by them.
pub(crate) struct Watch(Vec<(Signal, bool, Arc<AtomicBool>)>);

impl Watch {
    /// Begins. A signal that is ignored (`nohup`, or `&` in a script) stays so, for the program too.
    pub(crate) fn begin() -> Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mut watched = Vec::new();
        for (signal, of_terminal) in SIGNALS {
            if !is_ignored(&status, signal) {
                let flag = Arc::<AtomicBool>::default();
                register(signal, &flag)?;
                watched.push((signal, of_terminal, flag));
            }
        }
        Ok(Self(watched))
    }

    /// Sends the program what has come since, unless it got it too.
    pub(crate) fn pass_on(&self, program: u32) {
        for (signal, of_terminal, flag) in &self.0 {
            if flag.swap(false, Ordering::Relaxed)
                && !(*of_terminal && is_in_foreground())
                && let Some(pid) = Pid::from_raw(program.cast_signed())
            {
                // It may have ended already.
                let _ = kill_process(pid, *signal);
            }
        }
    }
}

/// Whether `/proc/PID/status` says that the process ignores a signal.
fn is_ignored(status: &str, signal: Signal) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// Whether this process is among those whom a terminal sends what its keys say.
fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| {
        rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_told_from_the_status() {
        let status = "Name:\tx\nSigIgn:\t0000000000000003\nSigCgt:\t0000000000004000\n";
        let ignored = |signal| is_ignored(status, signal);
        assert!(ignored(Signal::HUP) && ignored(Signal::INT));
        assert!(!ignored(Signal::QUIT) && !ignored(Signal::TERM));
        assert!(!is_ignored("", Signal::INT));
    }
}
