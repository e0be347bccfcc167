//! nvidia-cuda-mps-server: a server, started by the control daemon and by nobody else.

use std::process::ExitCode;

/// Runs the program. `arguments` are those after its name.
pub(crate) fn run(_arguments: Vec<String>) -> ExitCode {
    eprintln!("nvidia-cuda-mps-server: this build has no server yet");
    ExitCode::FAILURE
}
