//! Descriptors of memory, out of the program's way.
//!
//! Each chunk of memory is an open file of this process, and usually a process may have 1024. So
//! the client takes low numbers only while there are many; then it takes high ones, and if need be
//! raises the limit, as far as the system lets any process. A program that needs none of that finds
//! its limit as it was.

use super::kept_file::KeptFile;
use core::sync::atomic::{AtomicBool, Ordering};
use cuda_api::CudaError;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Numbers from here on are left to the program.
const LOW_MAX: RawFd = 512;
/// select() knows no number from here on: a program that uses it cannot use these.
const HIGH_MIN: RawFd = 1024;
/// By how much the limit is raised: a client has at most so many chunks.
const STEP: libc::rlim_t = 16_384;

/// The same file, under a number that the program does not miss if there is one.
pub(crate) fn out_of_the_way(file: OwnedFd) -> KeptFile {
    KeptFile::from(with_high_number(file))
}

fn with_high_number(file: OwnedFd) -> OwnedFd {
    let limit = limit();
    let low_max = (limit.rlim_cur / 2).min(LOW_MAX as libc::rlim_t);
    if (file.as_raw_fd() as libc::rlim_t) < low_max {
        return file;
    }
    high(&file).or_else(|| raise(limit).then(|| high(&file)).flatten()).unwrap_or(file)
}

/// Another descriptor of the file, with a high number.
fn high(file: &OwnedFd) -> Option<OwnedFd> {
    // SAFETY: the call takes numbers, and the descriptor is open.
    let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH_MIN) };
    // SAFETY: the descriptor was just made and has no other owner.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}

fn limit() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is written to a local.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit
}

/// Lets this process have more descriptors; false if it may not.
fn raise(limit: libc::rlimit) -> bool {
    let wanted = limit.rlim_cur.max(HIGH_MIN as libc::rlim_t).saturating_add(STEP);
    let raised = libc::rlimit { rlim_cur: wanted.min(limit.rlim_max), ..limit };
    // SAFETY: the limit is read from a local.
    raised.rlim_cur > limit.rlim_cur
        && unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0
}

/// Memory that is shared with a server could not be made: CUDA_ERROR_OUT_OF_MEMORY. Says so once where a limit
/// that has nothing to do with memory is the reason.
#[cold]
pub(crate) fn no_shared_memory(error: io::Error) -> CudaError {
    static SAID: AtomicBool = AtomicBool::new(false);
    if error.raw_os_error() == Some(libc::EFBIG) && !SAID.swap(true, Ordering::Relaxed) {
        let why = channel::system::why_no_memory(&error);
        crate::stderr::say(format_args!("no host memory: {why}"));
    }
    CudaError::OUT_OF_MEMORY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_numbers_are_left_to_the_program() {
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        assert!(out_of_the_way(null()).as_raw_fd() < LOW_MAX);
        if limit().rlim_max <= HIGH_MIN as libc::rlim_t {
            return;
        }
        let mut kept = Vec::new();
        while kept.last().is_none_or(|file: &KeptFile| file.as_raw_fd() < HIGH_MIN) {
            assert!(kept.len() <= LOW_MAX as usize, "{:?}", kept.last());
            kept.push(out_of_the_way(null()));
        }
        assert!(kept.iter().all(|file| !(LOW_MAX..HIGH_MIN).contains(&file.as_raw_fd())));
    }
}
