//! nvidia-cuda-mps-control, nvidia-cuda-mps-server, ptxas and nvidia-smi: this binary under their names.
//!
//! The name is that of `argv[0]`, or what follows `--as`: starters of a package without links say so.

use crate::libraries::Libraries;
use control::daemon::Programs;
use cuda_api::environment::OPENMPS_LIB_DIR;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Name of the control daemon and its shell.
pub(crate) const CONTROL: &str = "nvidia-cuda-mps-control";
/// Name of a server.
pub(crate) const SERVER: &str = "nvidia-cuda-mps-server";

/// Runs the program whose name this one was started by, if it is another's.
pub(crate) fn run() -> Option<ExitCode> {
    let (name, arguments) = name_and_arguments(std::env::args_os())?;
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
        crate::nvidia_smi::NAME => crate::nvidia_smi::run,
        _ => return None,
    };
    let arguments = arguments.into_iter().map(|argument| argument.to_string_lossy().into_owned());
    Some(program(arguments.collect()))
}

/// The name that the program is to go by, and its arguments; `None` without any words.
fn name_and_arguments(
    mut words: impl Iterator<Item = OsString>,
) -> Option<(OsString, Vec<OsString>)> {
    let name = words.next()?;
    let mut arguments: Vec<OsString> = words.collect();
    if arguments.first().is_some_and(|word| word == "--as") && arguments.len() > 1 {
        arguments.remove(0);
        return Some((arguments.remove(0), arguments));
    }
    Some((name, arguments))
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
                // As a system call: the C library has a function for it only from 2.34.
                libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
                Ok(())
            });
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starter_names_the_program() {
        let of = |words: &[&str]| {
            let (name, arguments) =
                name_and_arguments(words.iter().map(OsString::from)).expect("a name");
            let arguments: Vec<_> =
                arguments.into_iter().map(|a| a.into_string().unwrap()).collect();
            (name.into_string().unwrap(), arguments.join(" "))
        };
        assert_eq!(
            of(&["/bin/openmps", "--as", "ptxas", "-v", "x"]),
            ("ptxas".into(), "-v x".into())
        );
        assert_eq!(of(&["/bin/openmps", "ps", "--as"]), ("/bin/openmps".into(), "ps --as".into()));
        assert_eq!(of(&["/bin/openmps", "--as"]), ("/bin/openmps".into(), "--as".into()));
    }
}
