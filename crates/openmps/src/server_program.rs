//! nvidia-cuda-mps-server: a server, started by the control daemon and by nobody else.

use channel::socket::SeqPacket;
use control::directory::DEFAULT_PIPE_DIRECTORY;
use cuda_api::environment::{CUDA_MPS_LOG_DIRECTORY, CUDA_MPS_PIPE_DIRECTORY};
use server::log::Log;
use server::{Exit, Options};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

/// The option by which the daemon says which descriptor leads to it.
const CONTROL_FD: &str = "--control-fd";

/// Runs the program. `arguments` are those after its name.
pub(crate) fn run(arguments: Vec<String>) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["-v" | "--version"] => {
            println!("openmps server {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        [option, number] if option == CONTROL_FD => match serve(number) {
            Ok(exit) => ExitCode::from(exit.status()),
            Err(error) => {
                eprintln!("nvidia-cuda-mps-server: {error:#}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!(
                "nvidia-cuda-mps-server: servers are started by the control daemon, \
                 nvidia-cuda-mps-control -d; here only -v is of use"
            );
            ExitCode::FAILURE
        }
    }
}

fn serve(number: &str) -> anyhow::Result<Exit> {
    use anyhow::Context;
    let fd: RawFd = number.parse().with_context(|| format!("{CONTROL_FD} {number}"))?;
    let control = SeqPacket::inherit(fd).with_context(|| format!("{CONTROL_FD} {number}"))?;
    control::daemon::raise_descriptor_limit();
    crate::driver_locks::be_patient();
    let options = Options {
        // The daemon has made standard error the way to server.log; a line is one write.
        log: Log::new(std::io::stderr()).at(&log_path()),
        pipe_directory: std::env::var_os(CUDA_MPS_PIPE_DIRECTORY)
            .map_or_else(|| PathBuf::from(DEFAULT_PIPE_DIRECTORY), PathBuf::from),
        stop: Some(stop_signals().context("watching for signals")?),
    };
    Ok(server::run(control, options))
}

/// Where server.log is, as the daemon says; empty if there is none.
fn log_path() -> String {
    let directory = std::env::var_os(CUDA_MPS_LOG_DIRECTORY).filter(|name| !name.is_empty());
    directory.map_or_else(String::new, |directory| {
        PathBuf::from(directory).join("server.log").display().to_string()
    })
}

/// Becomes readable when the process is asked to end.
fn stop_signals() -> std::io::Result<OwnedFd> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    // The daemon's business: its logs are opened again, or it ends its servers.
    let ignored = std::sync::Arc::<std::sync::atomic::AtomicBool>::default();
    signal_hook::flag::register(signal_hook::consts::SIGHUP, ignored)?;
    Ok(reader.into())
}
