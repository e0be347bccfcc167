//! What the operating system refuses a process: the error that a call answers then, descriptors that are
//! not open, and the limit on the length of files, which the system enforces with a signal that ends most
//! programs.

use cuda_api::CudaError;
use rustix::io::{Errno, fcntl_getfd};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

/// What a call answers that failed for this error of the system's:
/// CUDA_ERROR_OUT_OF_MEMORY without memory or descriptors, else CUDA_ERROR_OPERATING_SYSTEM.
pub fn result_of(error: &io::Error) -> CudaError {
    const NO_MORE: [i32; 5] = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOSPC, libc::EFBIG];
    match error.raw_os_error() {
        Some(code) if NO_MORE.contains(&code) => CudaError::OUT_OF_MEMORY,
        _ => CudaError::OPERATING_SYSTEM,
    }
}

/// Why there is no memory, for a person: with the limit that is to be raised, if it is one.
pub fn why_no_memory(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EFBIG) => format!(
            "{error}: memory that is shared with a server counts as a file; raise the limit of files' sizes \
             (ulimit -f, RLIMIT_FSIZE)"
        ),
        _ => error.to_string(),
    }
}

/// Asks whether a file may become `bytes` long. To be called before any file is made longer in a
/// program that is not ours: RLIMIT_FSIZE holds for files in memory too, and a process that exceeds
/// it gets SIGXFSZ.
///
/// # Errors
/// EFBIG above the limit.
pub fn may_reach(bytes: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(most) if bytes > most => Err(Errno::FBIG.into()),
        _ => Ok(()),
    }
}

/// The descriptor of a number that its owner keeps open while it is used.
///
/// # Errors
/// EBADF if it is not open.
pub fn open_descriptor(fd: RawFd) -> io::Result<BorrowedFd<'static>> {
    if fd < 0 {
        return Err(Errno::BADF.into());
    }
    // SAFETY: the borrow is used by calls that fail if the number is no open descriptor; its owner does
    // not close it meanwhile.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    fcntl_getfd(fd)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memfd::create;
    use crate::pool_file;
    use rustix::process::{Rlimit, setrlimit};

    #[test]
    fn a_process_that_may_write_no_files_is_not_ended() {
        // The limit is the whole process's, so a process of its own has it.
        // SAFETY: the child makes system calls and takes memory, of which the parent's other
        // threads hold no lock that is taken here for long: the allocator's own handlers see to it.
        // It ends without anything of the parent's.
        let child = unsafe {
            match libc::fork() {
                0 => libc::_exit(i32::from(!refuses_files())),
                child => child,
            }
        };
        let child = rustix::process::Pid::from_raw(child);
        let ended = rustix::process::waitpid(child, rustix::process::WaitOptions::empty()).unwrap();
        let status = ended.unwrap().1.as_raw();
        assert_eq!(status, 0, "ended by a signal, or files were made");
    }

    /// Lets this process write no files; true if each is refused.
    fn refuses_files() -> bool {
        setrlimit(Resource::Fsize, Rlimit { current: Some(0), maximum: Some(0) }).is_ok()
            && create(c"test", 4096).is_err_and(|e| e.kind() == too_large())
            && pool_file::create(1).is_err_and(|e| e.kind() == too_large())
            && create(c"test", 0).is_ok()
    }

    fn too_large() -> io::ErrorKind {
        io::Error::from_raw_os_error(libc::EFBIG).kind()
    }

    #[test]
    fn want_of_descriptors_is_want_of_memory() {
        let of = |code| result_of(&io::Error::from_raw_os_error(code));
        assert_eq!(of(libc::EMFILE), CudaError::OUT_OF_MEMORY);
        assert_eq!(of(libc::EACCES), CudaError::OPERATING_SYSTEM);
        assert_eq!(result_of(&io::Error::other("x")), CudaError::OPERATING_SYSTEM);
    }
}
