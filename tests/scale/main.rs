//! Scale: as many programs as a server takes compute at once, and one more is refused.
//! `cargo xtask scale --help`.

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;
use tests::Scene;

/// Starts many programs that share one server, lets all of them compute at once, verifies every result, and
/// has one more refused where the server is full.
///
/// Prints how long it took until all were ready and until all had ended.
///
/// The installation is $OPENMPS_DIST, else the one whose tests/ this program lies in, else one that cargo
/// builds.
#[derive(Parser)]
#[command(name = "scale")]
struct Arguments {
    /// Programs
    #[arg(long, default_value_t = tests::CLIENTS_MAX)]
    clients: usize,
    /// Programs that start at a time
    #[arg(long, default_value_t = 32)]
    group: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (ready, ended) =
        tests::compute_at_once(&Scene::with_daemon(), arguments.clients, arguments.group);
    let line = format!(
        "{} programs were ready after {:.1} s and had verified their results after {:.1} s",
        arguments.clients,
        ready.as_secs_f64(),
        ended.as_secs_f64()
    );
    match writeln!(std::io::stdout(), "{line}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
