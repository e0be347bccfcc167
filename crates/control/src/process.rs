//! What the system says of a process: whether it is stopped, whether it has ended.

use std::io::ErrorKind;
use std::path::Path;

/// `: it is stopped, kill -CONT 7 lets it go on`; nothing if it is not.
pub fn stopped_hint(pid: u32) -> String {
    match is_stopped(pid) {
        true => format!(": it is stopped, kill -CONT {pid} lets it go on"),
        false => String::new(),
    }
}

/// Whether a process has ended, also if its parent has not asked for its status. A process of which the daemon
/// sees no PID (0) counts as one that runs.
pub fn has_ended(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => is_in_state(&stat, ['Z', 'X']),
        Err(error) => {
            pid != 0 && error.kind() == ErrorKind::NotFound && Path::new("/proc/self").exists()
        }
    }
}

/// Whether a signal (SIGSTOP) or a debugger has stopped the process.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    is_in_state(&stat, ['T', 't'])
}

/// Whether `/proc/PID/stat` has one of these states, which stands behind the name. That is in parentheses and may
/// have any characters.
fn is_in_state(stat: &str, states: [char; 2]) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(states))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_ended_also_before_its_parent_has_asked() {
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let pid = child.id();
        assert!(!has_ended(std::process::id()) && !has_ended(0));
        while !has_ended(pid) {
            std::thread::yield_now();
        }
        child.wait().expect("its status");
        assert!(has_ended(pid));
    }
}
