//! Descriptors of memory, above the numbers that the program uses.
//!
//! Each chunk of memory is an open file of this process, and usually a process may have 1024. So
//! the client takes low numbers only while there are many; then it takes high ones, and if need be
//! raises the limit, as far as the system lets any process. A program that needs none of that finds
//! its limit as it was.

use super::kept_file::KeptFile;
use core::sync::atomic::{AtomicBool, Ordering};
use cuda_api::CudaError;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Numbers from here on are left to the program.
const LOW_MAX: RawFd = 512;
/// select() knows no number from here on: a program that uses it cannot use these.
const HIGH_MIN: RawFd = 1024;
/// By how much the limit is raised: a client has at most so many chunks.
const STEP: u64 = 16_384;

/// The same file, under a number that the program does not miss if there is one.
pub(crate) fn out_of_the_way(file: OwnedFd) -> KeptFile {
    KeptFile::from(with_high_number(file))
}

fn with_high_number(file: OwnedFd) -> OwnedFd {
    let limit = getrlimit(Resource::Nofile);
    let low_max = limit.current.map_or(LOW_MAX as u64, |current| (current / 2).min(LOW_MAX as u64));
    if (file.as_raw_fd() as u64) < low_max {
        return file;
    }
    high(&file).or_else(|| raise(limit).then(|| high(&file)).flatten()).unwrap_or(file)
}

/// Another descriptor of the file, with a high number.
fn high(file: &OwnedFd) -> Option<OwnedFd> {
    fcntl_dupfd_cloexec(file, HIGH_MIN).ok()
}

/// Lets this process have more descriptors; false if it may not.
fn raise(limit: Rlimit) -> bool {
    let Some(current) = limit.current else { return false };
    let wanted = current.max(HIGH_MIN as u64).saturating_add(STEP);
    let raised = wanted.min(limit.maximum.unwrap_or(u64::MAX));
    let limit = Rlimit { current: Some(raised), ..limit };
    raised > current && setrlimit(Resource::Nofile, limit).is_ok()
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
        let limit = getrlimit(Resource::Nofile).maximum;
        if limit.is_some_and(|maximum| maximum <= HIGH_MIN as u64) {
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
