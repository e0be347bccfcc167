//! nvidia-cuda-mps-server: a server, started by the control daemon alone.

use anyhow::Context;
use channel::socket::SeqPacket;
use channel::{PROTOCOL_VERSION, PROTOCOL_VERSION_MIN};
use control::daemon::{CONTROL_FD, DAEMON_PROTOCOL, DESCRIBE, DEVICE};
use control::directory::DEFAULT_PIPE_DIRECTORY;
use cuda_api::CUuuid;
use cuda_api::environment::{
    CUDA_MPS_LOG_DIRECTORY, CUDA_MPS_PIPE_DIRECTORY, OPENMPS_LAUNCH_BATCHING,
};
use cuda_api::settings::LaunchBatching;
use server::log::Log;
use server::{Exit, Options};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
nvidia-cuda-mps-server: the process of openmps that has a device's context and runs in it the work of
programs that share the device.

The control daemon, nvidia-cuda-mps-control -d or `openmps up`, starts servers and ends them; by hand
only these are of use:
  -v, --version  the version
  -h, --help     this text";

/// Runs the program. `arguments` are those after its name.
pub(crate) fn run(arguments: Vec<String>) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["-v" | "--version"] => {
            println!("openmps server {}", *crate::version::LONG);
            ExitCode::SUCCESS
        }
        ["-h" | "--help"] => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        [CONTROL_FD, number, DESCRIBE] => finish(describe(number)),
        [CONTROL_FD, number] => finish(serve(number, None)),
        [CONTROL_FD, number, DEVICE, uuid] => finish(serve(number, Some(uuid))),
        _ => {
            eprintln!(
                "nvidia-cuda-mps-server: servers are started by the control daemon, \
                 nvidia-cuda-mps-control -d; here only -v is of use"
            );
            ExitCode::FAILURE
        }
    }
}

fn finish(result: anyhow::Result<Exit>) -> ExitCode {
    match result {
        Ok(exit) => ExitCode::from(exit.status()),
        Err(error) => {
            eprintln!("nvidia-cuda-mps-server: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The connection to the daemon.
fn control_socket(number: &str) -> anyhow::Result<SeqPacket> {
    let fd: RawFd = number.parse().with_context(|| format!("{CONTROL_FD} {number}"))?;
    let socket = SeqPacket::inherit(fd).with_context(|| format!("{CONTROL_FD} {number}"))?;
    socket.speak(protocol_of_daemon(std::env::var(DAEMON_PROTOCOL).ok().as_deref()));
    Ok(socket)
}

/// The version of the protocol to begin in with a daemon that says it speaks this one; one that does not
/// say is of the release before that could.
fn protocol_of_daemon(said: Option<&str>) -> u16 {
    let theirs = said.and_then(|text| text.parse().ok()).unwrap_or(PROTOCOL_VERSION_MIN);
    theirs.clamp(PROTOCOL_VERSION_MIN, PROTOCOL_VERSION)
}

/// Tells the daemon the provider's devices.
fn describe(number: &str) -> anyhow::Result<Exit> {
    let control = control_socket(number)?;
    crate::driver_locks::be_patient();
    Ok(server::describe(&control, &Log::new(std::io::stderr())))
}

/// Serves a device, by its UUID.
fn serve(number: &str, device: Option<&str>) -> anyhow::Result<Exit> {
    let control = control_socket(number)?;
    let device = device.map(|text| {
        CUuuid::parse(text).with_context(|| format!("{DEVICE} {text}: not the UUID of a device"))
    });
    control::daemon::raise_descriptor_limit();
    crate::driver_locks::be_patient();
    let options = Options {
        // The daemon has made standard error the way to server.log; a line is one write.
        log: Log::new(std::io::stderr()).at(&log_path()),
        pipe_directory: std::env::var_os(CUDA_MPS_PIPE_DIRECTORY)
            .map_or_else(|| PathBuf::from(DEFAULT_PIPE_DIRECTORY), PathBuf::from),
        stop: Some(stop_signals().context("watching for signals")?),
        device: device.transpose()?,
        warm: server::warm::PreloadOptions::from_environment(),
        launch_batching: LaunchBatching::of_text(
            &std::env::var(OPENMPS_LAUNCH_BATCHING).unwrap_or_default(),
        ),
        oversubscription: server::oversubscription::OversubscriptionOptions {
            cores: None,
            notify: crate::driver_locks::set_oversubscribed,
        },
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
