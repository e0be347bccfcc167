//! The shared region: one sealed memory file a client, mapped by client and server.
//!
//! The client makes it with [`Region::create`] and sends its file; the server checks and maps it
//! with [`Region::open`]. A [`Region`] is a handle: clones are the same mapping, which is unmapped
//! with the last of them. All access is by the typed accessors here, by [`ring`](crate::ring) and
//! by [`reply`](crate::reply).

mod layout;
mod state;

pub use layout::*;
pub use state::{ServerState, SessionEnd, Waiting};

use crate::memfd::{FileError, Mapping, Seals, create_sealed};
use crate::shared::{self, SharedU32, SharedU64};
use crate::{PROTOCOL_VERSION, PROTOCOL_VERSION_MIN, build};
use core::fmt;
use core::ptr::NonNull;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Why a region from a client is not used.
#[derive(Debug)]
pub enum RegionError {
    /// Its file is not acceptable.
    File(FileError),
    /// It does not begin as a region does.
    Magic,
    /// It was made by another version.
    Version {
        /// The region's version.
        theirs: u64,
    },
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(f, "the shared region's file is refused: {error}"),
            Self::Magic => f.write_str("the shared region does not begin with its mark"),
            Self::Version { theirs } => write!(
                f,
                "the shared region has protocol version {theirs}, this build ({}) speaks \
                 {PROTOCOL_VERSION_MIN} to {PROTOCOL_VERSION}",
                build()
            ),
        }
    }
}

impl core::error::Error for RegionError {}

/// A range that is not inside the part of the region it was meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("range outside of the shared region's part")
    }
}

impl core::error::Error for OutOfRange {}

/// What a copy leaves in the caches of the processor that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// The copied bytes, as far as they fit: for bytes that are read next.
    Keep,
    /// Nothing: for many bytes.
    Bypass,
}

/// A shared region, mapped.
#[derive(Clone, Debug)]
pub struct Region {
    mapping: Arc<Mapping>,
}

impl Region {
    /// Makes a region, all zeros but for its mark, and the file to send to the server.
    pub fn create() -> io::Result<(Self, OwnedFd)> {
        let fd = create_sealed(c"openmps-region", REGION_BYTES, Seals::SIZE)?;
        let mapping = Mapping::shared(&fd, REGION_BYTES).map_err(|error| match error {
            FileError::Io(error) => error,
            other => io::Error::other(other),
        })?;
        let region = Self { mapping: Arc::new(mapping) };
        region.set_version(PROTOCOL_VERSION);
        region.u64_at(MAGIC).store(REGION_MAGIC);
        Ok((region, fd))
    }

    /// Maps a region from a client after checking seals, size, mark and version. The file need not
    /// stay open.
    ///
    /// # Errors
    /// What is wrong with it, see [`RegionError`].
    pub fn open(fd: impl AsFd) -> Result<Self, RegionError> {
        let mapping = Mapping::shared(fd, REGION_BYTES).map_err(RegionError::File)?;
        let region = Self { mapping: Arc::new(mapping) };
        if region.u64_at(MAGIC).load() != REGION_MAGIC {
            return Err(RegionError::Magic);
        }
        match region.u64_at(VERSION).load() {
            v if (PROTOCOL_VERSION_MIN.into()..=PROTOCOL_VERSION.into()).contains(&v) => Ok(region),
            theirs => Err(RegionError::Version { theirs }),
        }
    }

    /// Says in which version the client speaks on its ring: before the server sees the region.
    pub fn set_version(&self, version: u16) {
        self.u64_at(VERSION).store(version.into());
    }

    /// The version in which the client speaks on its ring.
    pub fn version(&self) -> u16 {
        u16::try_from(self.u64_at(VERSION).load()).unwrap_or_default()
    }

    /// The region's first byte, for registering all of it ([`REGION_BYTES`]) with a provider.
    pub fn base(&self) -> *mut u8 {
        self.mapping.base().as_ptr()
    }

    /// The address of an offset that is known to lie inside.
    #[inline(always)]
    fn at(&self, offset: u64) -> NonNull<u8> {
        debug_assert!(offset < REGION_BYTES);
        // SAFETY: callers in this crate pass offsets below REGION_BYTES, which are mapped.
        unsafe { self.mapping.base().add(offset as usize) }
    }

    #[inline(always)]
    pub(crate) fn u32_at(&self, offset: u64) -> SharedU32<'_> {
        debug_assert!(offset.is_multiple_of(4) && offset < REGION_BYTES);
        // SAFETY: offsets in this crate are aligned constants or bounded indices into an aligned
        // part, the region stays mapped while it is borrowed, and words of the region are only
        // accessed through SharedU32 and SharedU64.
        unsafe { SharedU32::new(self.at(offset).cast()) }
    }

    #[inline(always)]
    pub(crate) fn u64_at(&self, offset: u64) -> SharedU64<'_> {
        debug_assert!(offset.is_multiple_of(8) && offset < REGION_BYTES);
        // SAFETY: as in `u32_at`.
        unsafe { SharedU64::new(self.at(offset).cast()) }
    }

    /// The completion word of a stream's slot: a counter that the device writes. `None` from
    /// [`STREAM_SLOTS`] on.
    #[inline]
    pub fn completion_word(&self, slot: u32) -> Option<SharedU32<'_>> {
        (slot < STREAM_SLOTS)
            .then(|| self.u32_at(COMPLETION_OFFSET + u64::from(slot) * COMPLETION_WORD_STRIDE))
    }

    /// The word of a host-call slot. `None` from [`HOST_CALL_SLOTS`] on.
    #[inline]
    pub fn host_call_slot(&self, slot: u32) -> Option<SharedU32<'_>> {
        (slot < HOST_CALL_SLOTS).then(|| self.u32_at(HOST_CALL_OFFSET + u64::from(slot) * 4))
    }

    /// The address, in this process, of a range of staging: for handing it to a provider. The
    /// memory must not be accessed by other means than a device or [`Region::write_staging`].
    pub fn staging_address(&self, offset: u64, bytes: u64) -> Result<*mut u8, OutOfRange> {
        match offset.checked_add(bytes) {
            // An empty range at the very end has an address too.
            Some(end) if end <= STAGING_BYTES => {
                Ok(self.base().wrapping_add((STAGING_OFFSET + offset) as usize))
            }
            _ => Err(OutOfRange),
        }
    }

    /// Copies bytes into staging.
    pub fn write_staging(&self, offset: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        // SAFETY: the slice is readable for its length.
        unsafe { self.write_staging_from(offset, bytes.as_ptr(), bytes.len()) }
    }

    /// Copies bytes out of staging.
    pub fn read_staging(&self, offset: u64, bytes: &mut [u8]) -> Result<(), OutOfRange> {
        // SAFETY: the slice is writable for its length and private.
        unsafe { self.read_staging_to(offset, bytes.as_mut_ptr(), bytes.len(), Caching::Keep) }
    }

    /// Copies a program's memory into staging. The program's other threads may write that memory
    /// at the same time: then what arrives is arbitrary, as in CUDA.
    ///
    /// # Safety
    /// `source` is readable for `bytes` bytes and not inside the region.
    pub unsafe fn write_staging_from(
        &self,
        offset: u64,
        source: *const u8,
        bytes: usize,
    ) -> Result<(), OutOfRange> {
        let target = self.staging_address(offset, bytes as u64)?;
        // SAFETY: the source by the caller; the target was checked to lie inside staging.
        unsafe { shared::copy(source, target, bytes) };
        Ok(())
    }

    /// Copies staging into a program's memory.
    ///
    /// # Safety
    /// `destination` is writable for `bytes` bytes and not inside the region.
    pub unsafe fn read_staging_to(
        &self,
        offset: u64,
        destination: *mut u8,
        bytes: usize,
        caching: Caching,
    ) -> Result<(), OutOfRange> {
        let source = self.staging_address(offset, bytes as u64)?;
        // SAFETY: the destination by the caller; the source was checked to lie inside staging.
        unsafe {
            match caching {
                Caching::Keep => shared::copy(source, destination, bytes),
                Caching::Bypass => shared::copy_past_caches(source, destination, bytes),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memfd::create;

    #[test]
    fn client_and_server_see_one_region() {
        let (client, file) = Region::create().unwrap();
        let server = Region::open(&file).unwrap();
        assert_ne!(client.base(), server.base());
        client.completion_word(17).unwrap().store(5);
        assert_eq!(server.completion_word(17).unwrap().load(), 5);
        server.host_call_slot(HOST_CALL_SLOTS - 1).unwrap().store(HOST_CALL_DONE);
        assert_eq!(client.host_call_slot(HOST_CALL_SLOTS - 1).unwrap().load(), HOST_CALL_DONE);
        assert!(client.host_call_slot(HOST_CALL_SLOTS).is_none());
        server.write_staging(0, b"bytes").unwrap();
        let mut bytes = [0; 5];
        client.read_staging(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"bytes");
        assert_eq!(client.staging_address(STAGING_BYTES, 1), Err(OutOfRange));
        assert_eq!(client.staging_address(u64::MAX, 2), Err(OutOfRange));
        assert!(client.staging_address(STAGING_BYTES, 0).is_ok());
    }

    #[test]
    fn the_first_reason_of_an_end_stays_and_brings_its_error() {
        for (reason, error) in [
            (SessionEnd::Terminated, 810),
            (SessionEnd::ServerShutDown, 810),
            (SessionEnd::DaemonGone, 806),
            (SessionEnd::ClientBroken, 806),
            (SessionEnd::SessionFailed, 806),
        ] {
            let (region, _file) = Region::create().unwrap();
            assert_eq!(region.session_end(), None);
            region.end_session(reason);
            region.end_session(SessionEnd::ClientBroken);
            assert_eq!(region.session_end(), Some(reason));
            assert_eq!(region.server_state(), ServerState::Ended);
            assert_eq!(region.sticky_error().unwrap_err().code(), error);
        }
        // A client that is to attach again gets no error.
        let (region, _file) = Region::create().unwrap();
        region.end_session(SessionEnd::Moved);
        assert_eq!(region.session_end(), Some(SessionEnd::Moved));
        assert_eq!((region.server_state(), region.sticky_error()), (ServerState::Ended, Ok(())));
        // A fault came first: that is what calls answer, and the reason is known all the same.
        let (region, _file) = Region::create().unwrap();
        region.set_sticky_error(cuda_api::CudaError::ILLEGAL_ADDRESS);
        region.end_session(SessionEnd::ServerShutDown);
        assert_eq!(region.sticky_error(), Err(cuda_api::CudaError::ILLEGAL_ADDRESS));
        assert_eq!(region.session_end(), Some(SessionEnd::ServerShutDown));
    }

    #[test]
    fn a_handle_keeps_the_region_mapped() {
        let (region, file) = Region::create().unwrap();
        let copy = region.clone();
        drop((region, file));
        copy.completion_word(0).unwrap().store(1);
        assert_eq!(copy.completion_word(0).unwrap().load(), 1);
    }

    #[test]
    fn what_is_no_region_is_refused() {
        let unsealed = create(c"test", REGION_BYTES).unwrap();
        let error = Region::open(&unsealed).unwrap_err();
        assert!(matches!(error, RegionError::File(FileError::Unsealed { .. })), "{error}");
        let short = create_sealed(c"test", REGION_BYTES - 1, Seals::SIZE).unwrap();
        let error = Region::open(&short).unwrap_err();
        assert!(matches!(error, RegionError::File(FileError::Size { .. })), "{error}");
        let empty = create_sealed(c"test", REGION_BYTES, Seals::SIZE).unwrap();
        assert!(matches!(Region::open(&empty), Err(RegionError::Magic)));
        let (region, file) = Region::create().unwrap();
        region.u64_at(VERSION).store(99);
        assert!(matches!(Region::open(&file), Err(RegionError::Version { theirs: 99 })));
    }
}
