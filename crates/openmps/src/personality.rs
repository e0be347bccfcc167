//! nvidia-cuda-mps-control, nvidia-cuda-mps-server and ptxas: this binary under their names.

use crate::libraries::Libraries;
use control::daemon::Programs;
use cuda_api::environment::OPENMPS_LIB_DIR;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Name of the control daemon and its shell.
pub(crate) const CONTROL: &str = "nvidia-cuda-mps-control";
/// Name of a server.
const SERVER: &str = "nvidia-cuda-mps-server";

/// Runs the program whose name this one was started by, if it is another's.
pub(crate) fn run() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let name = arguments.next()?;
    let program: fn(Vec<String>) -> ExitCode = match Path::new(&name).file_name()?.to_str()? {
        CONTROL => {
            // Linux cuts the name after 15 bytes, so it is the same for both, as for NVIDIA's.
            let _ = rustix::thread::set_name(c"nvidia-cuda-mps");
            crate::crash::report("Control", || "none");
            |arguments| control::program::run(arguments, Box::new(OwnPrograms)).into()
        }
        SERVER => {
            let _ = rustix::thread::set_name(c"nvidia-cuda-mps");
            crate::crash::report("Server", server::last_request::name);
            crate::server_program::run
        }
        crate::ptxas::NAME => crate::ptxas::run,
        _ => return None,
    };
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    Some(program(arguments.collect()))
}

/// This program under one of its names. By the running file rather than its path: it is there and
/// may be executed regardless of what happened to the path, and by whichever user.
pub(crate) fn own(name: &str) -> Command {
    let running = PathBuf::from("/proc/self/exe");
    let program = if running.exists() { Some(running) } else { std::env::current_exe().ok() };
    let mut command = Command::new(program.unwrap_or_else(|| PathBuf::from(name)));
    command.arg0(name);
    command
}

/// What the control daemon starts.
struct OwnPrograms;

impl Programs for OwnPrograms {
    fn server(&self) -> Command {
        let mut command = own(SERVER);
        if let Ok(libraries) = Libraries::find() {
            command.env(OPENMPS_LIB_DIR, libraries.directory());
        }
        command
    }

    fn server_at(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg0(SERVER);
        // An installation has its libraries beside its program.
        let libraries =
            program.parent().and_then(Path::parent).map(|root| root.join("lib/openmps"));
        match (libraries.filter(|libraries| libraries.is_dir()), Libraries::find()) {
            (Some(libraries), _) => drop(command.env(OPENMPS_LIB_DIR, libraries)),
            (None, Ok(libraries)) => drop(command.env(OPENMPS_LIB_DIR, libraries.directory())),
            (None, Err(_)) => {}
        }
        command
    }

    fn successor(&self, program: Option<&Path>) -> Command {
        match program {
            None => own(CONTROL),
            Some(program) => {
                let mut command = Command::new(program);
                command.arg0(CONTROL);
                command
            }
        }
    }

    fn daemon(&self) -> Command {
        let mut command = own(CONTROL);
        // SAFETY: the closure runs between fork and exec and makes one system call, which is safe
        // there; it touches no memory. It marks descriptors and closes none.
        unsafe {
            command.pre_exec(|| {
                // What the shell that starts a daemon has open (pipes, locks) is not the daemon's.
                libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32);
                Ok(())
            });
        }
        command
    }
}
