//! Userfaultfd: descriptors by which the kernel holds up threads that write to protected pages.
//!
//! A client needs one to exchange pages of a program with several threads. What the kernel offers depends
//! on its version, and whether it is offered at all on the system's settings.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Pages that are to be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protects {
    /// Those that are a process's own and backed by nothing: Linux 5.7 or later.
    Private,
    /// Those of files in memory too: Linux 5.19 or later.
    Shared,
}

/// linux/userfaultfd.h: what is needed of it.
const API: u64 = 0xaa;
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1;
const FEATURE_WP_SHMEM: u64 = 1 << 12;
const USER_MODE_ONLY: libc::c_int = 1;
const MODE_WP: u64 = 2;
const WRITEPROTECT_MODE_WP: u64 = 1;
const IOCTL_API: libc::c_ulong = 0xc018_aa3f;
const IOCTL_REGISTER: libc::c_ulong = 0xc020_aa00;
const IOCTL_WRITEPROTECT: libc::c_ulong = 0xc018_aa06;

impl Protects {
    /// The features to ask for. A kernel that lacks one of them refuses all.
    const fn features(self) -> u64 {
        match self {
            Self::Private => FEATURE_PAGEFAULT_FLAG_WP,
            Self::Shared => FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_SHMEM,
        }
    }
}

/// A descriptor that protects pages.
#[derive(Debug)]
pub struct Userfaultfd(OwnedFd);

impl Userfaultfd {
    /// Asks for faults of writes to some pages.
    #[must_use]
    pub fn register(&self, start: u64, bytes: u64) -> bool {
        self.request(IOCTL_REGISTER, [start, bytes, MODE_WP, 0])
    }

    /// Holds up the threads that write to pages that are there, until this is dropped.
    #[must_use]
    pub fn write_protect(&self, start: u64, bytes: u64) -> bool {
        self.request(IOCTL_WRITEPROTECT, [start, bytes, WRITEPROTECT_MODE_WP, 0])
    }

    /// Makes a request of which the structure is three or four of these words.
    fn request(&self, number: libc::c_ulong, mut words: [u64; 4]) -> bool {
        // SAFETY: the requests' numbers say that the structures are at most that long.
        unsafe { libc::ioctl(self.0.as_raw_fd(), number, &raw mut words) == 0 }
    }
}

/// One for such pages; `None` if the kernel offers this process none.
pub fn open(protects: Protects) -> Option<Userfaultfd> {
    let open = |flags: libc::c_int| {
        // SAFETY: a plain system call, and a descriptor that it has just made for us.
        unsafe {
            let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | flags);
            (fd >= 0).then(|| OwnedFd::from_raw_fd(fd as i32))
        }
    };
    // Without privileges the kernel holds up the program's own writes only; its own on the program's
    // behalf (a read into the pages by another thread) fail meanwhile.
    let holder = Userfaultfd(open(0).or_else(|| open(USER_MODE_ONLY))?);
    holder.request(IOCTL_API, [API, protects.features(), 0, 0]).then_some(holder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_later_kernels_have_is_asked_for_shared_pages_alone() {
        assert_eq!(Protects::Private.features() & FEATURE_WP_SHMEM, 0);
        assert_ne!(Protects::Shared.features() & FEATURE_WP_SHMEM, 0);
        // Who has the second has the first.
        assert!(open(Protects::Shared).is_none() || open(Protects::Private).is_some());
    }
}
