//! Scale: as many programs as a server takes compute at once, and one more is refused.
//! `cargo xtask scale --help`.

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;
use tests::Scene;

/// Starts many programs that share one server, lets all of them launch, copy and verify at once until each has
/// done so several times beside all others, and has one more refused where the server is full.
///
/// Prints how long it took until all were ready, until each had computed and until all had ended.
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
    let scene = Scene::with_daemon();
    let group = tests::compute_at_once(&scene, arguments.clients, arguments.group);
    let line = format!(
        "{} programs were ready after {:.1} s, had each verified {} results or more beside all others after {:.1} s \
         ({} kernels) and had ended after {:.1} s",
        arguments.clients,
        group.ready.as_secs_f64(),
        group.kernels_least,
        group.computed.as_secs_f64(),
        group.kernels,
        group.ended.as_secs_f64()
    );
    match writeln!(std::io::stdout(), "{line}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
