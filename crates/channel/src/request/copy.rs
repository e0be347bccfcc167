//! Requests that copy bytes between host and device.

use super::payloads;
use cuda_api::{CUdeviceptr, CUstream, Word};

/// The host side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostReference {
    /// An offset into staging. The bytes after it must be inside staging too.
    Staging(u32),
    /// An address in memory that was mapped with [`HostMap`](super::HostMap): 2^32 or above.
    Mapped(u64),
}

impl Word for HostReference {
    #[inline(always)]
    fn to_word(self) -> u64 {
        match self {
            Self::Staging(offset) => offset.into(),
            Self::Mapped(address) => address,
        }
    }
    #[inline(always)]
    fn from_word(word: u64) -> Option<Self> {
        Some(match u32::try_from(word) {
            Ok(offset) => Self::Staging(offset),
            Err(_) => Self::Mapped(word),
        })
    }
}

payloads! {
    /// cuMemcpyHtoDAsync.
    HostToDevice {
        /// Where to.
        destination: CUdeviceptr,
        /// Where from.
        source: HostReference,
        /// How much.
        bytes: u64,
        /// In which stream.
        stream: CUstream,
    }

    /// cuMemcpyDtoHAsync.
    DeviceToHost {
        /// Where to.
        destination: HostReference,
        /// Where from.
        source: CUdeviceptr,
        /// How much.
        bytes: u64,
        /// In which stream.
        stream: CUstream,
    }
}
