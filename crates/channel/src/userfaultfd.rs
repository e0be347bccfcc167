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
const IOCTL_API: libc::c_ulong = 0xc018_aa3f;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

impl Protects {
    /// The features to ask for. A kernel that lacks one of them refuses all.
    const fn features(self) -> u64 {
        match self {
            Self::Private => FEATURE_PAGEFAULT_FLAG_WP,
            Self::Shared => FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_SHMEM,
        }
    }
}

/// A descriptor that protects such pages; `None` if the kernel offers this process none.
pub fn open(protects: Protects) -> Option<OwnedFd> {
    let open = |flags: libc::c_int| {
        // SAFETY: a plain system call, and a descriptor that it has just made for us.
        unsafe {
            let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | flags);
            (fd >= 0).then(|| OwnedFd::from_raw_fd(fd as i32))
        }
    };
    // Without privileges the kernel holds up the program's own writes only; its own on the program's
    // behalf (a read into the pages by another thread) fail meanwhile.
    let holder = open(0).or_else(|| open(USER_MODE_ONLY))?;
    let mut api = Api { api: API, features: protects.features(), ioctls: 0 };
    // SAFETY: the structure is the request's own and lives across the call.
    let agreed = unsafe { libc::ioctl(holder.as_raw_fd(), IOCTL_API, &raw mut api) };
    (agreed == 0).then_some(holder)
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
