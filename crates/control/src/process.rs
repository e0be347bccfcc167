//! What the system says of a process: whether it is stopped.

/// `: it is stopped, kill -CONT 7 lets it go on`; nothing if it is not.
pub fn stopped_hint(pid: u32) -> String {
    match is_stopped(pid) {
        true => format!(": it is stopped, kill -CONT {pid} lets it go on"),
        false => String::new(),
    }
}

/// Whether a signal (SIGSTOP) or a debugger has stopped the process.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state comes behind the name, which stands in parentheses and may hold any.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}
