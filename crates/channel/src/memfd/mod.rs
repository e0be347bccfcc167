//! Memory files: made, sealed, checked, mapped.
//!
//! A file from a peer is used only after its seals and size were checked: a file that can shrink
//! is a way to kill its reader with SIGBUS, and one that can be written is a way to change what
//! was already checked.

mod mapping;
mod reservation;
mod sealed;

pub use mapping::Mapping;
pub use reservation::Reservation;
pub use sealed::{IMAGE_BYTES_MAX, SealedBytes, sealed_image};

use crate::system;
use core::fmt;
use core::ptr::NonNull;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate,
    memfd_create,
};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};

/// Mapped addresses that have one owner. They are unmapped when it is dropped.
#[derive(Debug)]
struct OwnedPages {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and gives out raw addresses only.
unsafe impl Send for OwnedPages {}
// SAFETY: as above.
unsafe impl Sync for OwnedPages {}

impl OwnedPages {
    /// Maps where nothing is mapped: at `wanted`, which is a hint but with MAP_FIXED_NOREPLACE, or anywhere.
    fn map(wanted: u64, bytes: u64, protection: i32, flags: i32, fd: RawFd) -> io::Result<Self> {
        assert_eq!(flags & libc::MAP_FIXED, 0, "what is mapped stays");
        let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let bytes = usize::try_from(bytes).map_err(too_long)?;
        let wanted = usize::try_from(wanted).map_err(too_long)?;
        let wanted = core::ptr::without_provenance_mut(wanted);
        // SAFETY: without MAP_FIXED nothing that is mapped is replaced.
        let base = unsafe { libc::mmap(wanted, bytes, protection, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { base, bytes })
    }
}

impl Drop for OwnedPages {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` for this value alone.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Seals of a file: the changes to it that no process can make any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seals(SealFlags);

impl Seals {
    /// Its size is what it is, and no seal is added any more. For memory that both sides write.
    pub const SIZE: Self = Self(Self::MAPPABLE.0.union(SealFlags::SEAL));
    /// Its size and its content are what they are. For images.
    pub const ALL: Self = Self(Self::SIZE.0.union(SealFlags::WRITE));
    /// The least that a file needs to be mapped safely.
    pub const MAPPABLE: Self = Self(SealFlags::SHRINK.union(SealFlags::GROW));
    /// The least that a file needs to be looked at as plain bytes.
    pub const CONSTANT: Self = Self(Self::MAPPABLE.0.union(SealFlags::WRITE));

    /// True if all of `others` are among them.
    pub const fn contain(self, others: Self) -> bool {
        self.0.contains(others.0)
    }
}

/// Why a file from a peer is not used.
#[derive(Debug)]
pub enum FileError {
    /// It is not a file that can be sealed.
    NotSealable,
    /// It is not in ordinary memory: pages of another kind (hugetlbfs) can be taken from a process
    /// that maps them, sealed or not.
    Kind {
        /// The number of its file system's kind, as statfs gives it.
        found: i64,
    },
    /// Seals are missing.
    Unsealed {
        /// Seals it needs, F_SEAL_* bits.
        wanted: u32,
        /// Seals it has.
        found: u32,
    },
    /// Its size is not what it must be.
    Size {
        /// Smallest size, bytes.
        min: u64,
        /// Largest size, bytes.
        max: u64,
        /// Its size, bytes.
        found: u64,
    },
    /// The system said no.
    Io(io::Error),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSealable => f.write_str("not a memory file that can be sealed"),
            Self::Kind { found } => {
                write!(f, "not a file in ordinary memory: its file system is of kind {found:#x}")
            }
            Self::Unsealed { wanted, found } => {
                write!(f, "seals {wanted:#x} are needed, {found:#x} are there")
            }
            Self::Size { min, max, found } if min == max => {
                write!(f, "{found} bytes long, must be {min}")
            }
            Self::Size { min, max, found } => {
                write!(f, "{found} bytes long, must be {min} to {max}")
            }
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for FileError {}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Makes a memory file of `bytes` zero bytes without seals. Memory is taken when it is touched.
pub fn create(name: &CStr, bytes: u64) -> io::Result<OwnedFd> {
    system::may_reach(bytes)?;
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, bytes)?;
    Ok(fd)
}

/// Adds seals. For [`Seals::ALL`] the file must not be mapped writable.
pub fn seal(fd: impl AsFd, seals: Seals) -> io::Result<()> {
    Ok(fcntl_add_seals(fd, seals.0)?)
}

/// Makes a memory file of `bytes` zero bytes with seals: one step for memory that is shared.
pub fn create_sealed(name: &CStr, bytes: u64, seals: Seals) -> io::Result<OwnedFd> {
    let fd = create(name, bytes)?;
    seal(&fd, seals)?;
    Ok(fd)
}

/// Checks a file from a peer: it is one of memfd_create's in ordinary memory, has `wanted` seals and
/// `min..=max` bytes. Returns its size.
///
/// # Errors
/// What is wrong with the file, see [`FileError`].
pub fn check(fd: impl AsFd, wanted: Seals, min: u64, max: u64) -> Result<u64, FileError> {
    let found = fcntl_get_seals(&fd).map_err(|_| FileError::NotSealable)?;
    if !Seals(found).contain(wanted) {
        let [wanted, found] = [wanted.0, found].map(|seals| seals.bits());
        return Err(FileError::Unsealed { wanted, found });
    }
    let system = fstatfs(&fd).map_err(io::Error::from)?;
    // A hole punched into hugetlbfs, and an empty pool of large pages: SIGBUS for the next to look.
    if system.f_type != libc::TMPFS_MAGIC {
        return Err(FileError::Kind { found: system.f_type });
    }
    let stat = fstat(&fd).map_err(io::Error::from)?;
    let found = u64::try_from(stat.st_size).unwrap_or(0);
    if found < min || found > max { Err(FileError::Size { min, max, found }) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_a_sealed_file_of_the_right_size_passes() {
        let fd = create(c"test", 8192).unwrap();
        assert!(matches!(
            check(&fd, Seals::MAPPABLE, 0, 9000),
            Err(FileError::Unsealed { found: 0, .. })
        ));
        seal(&fd, Seals::SIZE).unwrap();
        assert_eq!(check(&fd, Seals::MAPPABLE, 8192, 8192).unwrap(), 8192);
        assert!(matches!(check(&fd, Seals::MAPPABLE, 1, 4096), Err(FileError::Size { .. })));
        assert!(matches!(check(&fd, Seals::CONSTANT, 0, 9000), Err(FileError::Unsealed { .. })));
        // No seal can be added once that is sealed.
        assert!(seal(&fd, Seals::ALL).is_err());
    }

    #[test]
    fn a_file_of_large_pages_is_refused_whatever_its_seals() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        let Ok(fd) = memfd_create(c"test", flags) else {
            let _ =
                writeln!(io::stderr(), "SKIPPED a_file_of_large_pages_is_refused: no hugetlbfs");
            return;
        };
        // No page is taken for that.
        ftruncate(&fd, 2 << 20).unwrap();
        seal(&fd, Seals::SIZE).unwrap();
        let refused = check(&fd, Seals::MAPPABLE, 2 << 20, 2 << 20);
        assert!(matches!(refused, Err(FileError::Kind { .. })), "{refused:?}");
    }

    #[test]
    fn what_is_no_memory_file_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(check(&file, Seals::MAPPABLE, 0, 1), Err(FileError::NotSealable)));
    }
}
