//! `openmps ps`: who uses the device through this user's daemon, and how much.

use crate::daemon::{self, Client, Report};
use crate::output;
use anyhow::Result;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

/// List the programs that share the device
///
/// Of the system's daemon you see your own programs; root sees all.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps ps
  openmps ps --watch
  openmps ps --json | jq '.servers[].clients[] | {pid, memory_bytes}'")]
pub(crate) struct Arguments {
    /// Print JSON: all that the daemon reports
    #[arg(long)]
    json: bool,
    /// Show it again every so many seconds, until Ctrl-C
    #[arg(long, short, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    watch: Option<u16>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    loop {
        let directory = daemon::pipe_directory();
        let Some((json, report)) = daemon::ask_for_text(&directory)? else {
            return Err(daemon::none_in(&directory));
        };
        let terminal = io::stdout().is_terminal();
        let text = match arguments.json {
            true => json,
            false => table(&report, terminal && std::env::var_os("NO_COLOR").is_none()),
        };
        let clear = match terminal && arguments.watch.is_some() {
            true => "\x1b[H\x1b[2J",
            false => "",
        };
        output::print(&format!("{clear}{text}"))?;
        match arguments.watch {
            Some(seconds) => std::thread::sleep(Duration::from_secs(seconds.into())),
            None => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn table(report: &Report, colours: bool) -> String {
    let mut text = String::new();
    let mut any = false;
    for server in &report.servers {
        for client in &server.clients {
            if !any {
                let (bold, plain) = if colours { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
                let _ = writeln!(
                    text,
                    "{bold}{:>8}  {:10} {:>8} {:>10} {:>12} {:>9} {:>5}  COMMAND{plain}",
                    "PID", "USER", "SERVER", "MEMORY", "KERNELS", "BUSY", "LANES"
                );
                any = true;
            }
            let _ = writeln!(
                text,
                "{:>8}  {:10} {:>8} {:>10} {:>12} {:>9} {:>5}  {}",
                client.pid,
                client.user,
                server.pid,
                memory(client.memory_bytes),
                client.kernels,
                busy(client),
                lanes(client),
                control::log::printable(&client.command)
            );
        }
        if let Some(error) = &server.error {
            let _ = writeln!(text, "server {} ({}): {error}", server.pid, server.state);
        }
    }
    if report.clients_waiting > 0 {
        let _ = writeln!(text, "{} waiting for a server", report.clients_waiting);
    }
    if text.is_empty() {
        let _ = writeln!(text, "nobody uses the daemon in {}", report.pipe_directory.display());
    }
    text
}

/// For how long its kernels ran; a dash where the device does not count.
fn busy(client: &Client) -> String {
    let seconds = client.work.as_ref().map(|work| work.busy_ns as f64 / 1e9);
    seconds.map_or_else(|| "-".into(), |seconds| format!("{seconds:.1} s"))
}

/// The share of lanes that took part in its warps' instructions.
fn lanes(client: &Client) -> String {
    let share = client.work.as_ref().and_then(|work| work.lanes_active);
    share.map_or_else(|| "-".into(), |share| format!("{:.0} %", 100.0 * share))
}

/// Bytes in the largest unit that leaves at least 1.
fn memory(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::{Server, Work};

    fn report(servers: Vec<Server>) -> Report {
        Report {
            version: "0".into(),
            pid: 1,
            uid: 0,
            pipe_directory: "/tmp/x".into(),
            log_directory: None,
            clients_waiting: 0,
            servers,
        }
    }

    #[test]
    fn a_row_a_client() {
        let client = Client {
            pid: 524,
            user: "ann".into(),
            memory_bytes: 3 << 29,
            kernels: 12,
            work: Some(Work { busy_ns: 1_260_000_000, lanes_active: Some(0.856) }),
            command: "./nbody\x1b[2J".into(),
        };
        let state = "ACTIVE".to_owned();
        let server = Server { pid: 529, state, clients: vec![client], error: None };
        assert_eq!(
            table(&report(vec![server]), false),
            "     PID  USER         SERVER     MEMORY      KERNELS      BUSY LANES  COMMAND\n     \
             524  ann             529    1.5 GiB           12     1.3 s  86 %  ./nbody?[2J\n"
        );
        assert_eq!(table(&report(vec![]), false), "nobody uses the daemon in /tmp/x\n");
    }

    #[test]
    fn memory_is_readable() {
        assert_eq!([memory(0), memory(1023), memory(1 << 20)], ["0 B", "1023 B", "1.0 MiB"]);
    }
}
