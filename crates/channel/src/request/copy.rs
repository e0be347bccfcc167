//! Requests that copy between host and device, or in two dimensions.

use super::{payloads, requests};
use cuda_api::{CUdeviceptr, CUstream, Word, number};

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

/// Which sides of a copy are host references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// The source is a host reference, the destination a device address.
    HostToDevice = 0,
    /// The source is a device address, the destination a host reference.
    DeviceToHost = 1,
    /// Both are device addresses.
    DeviceToDevice = 2,
}

impl Word for CopyDirection {
    fn to_word(self) -> u64 {
        self as u64
    }
    fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => Some(Self::HostToDevice),
            1 => Some(Self::DeviceToHost),
            2 => Some(Self::DeviceToDevice),
            _ => None,
        }
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

    /// cuMemcpy2DAsync. Offsets in x and y are folded into the addresses. Each side is a device
    /// address or the word of a [`HostReference`], as the direction says.
    Copy2d {
        /// In which stream.
        stream: CUstream,
        /// What the sides are.
        direction: CopyDirection,
        /// Where from.
        source: u64,
        /// Distance of the source's rows, bytes.
        source_pitch: u64,
        /// Where to.
        destination: u64,
        /// Distance of the destination's rows, bytes.
        destination_pitch: u64,
        /// Length of a row, bytes.
        width_bytes: u64,
        /// Number of rows.
        height: u64,
    }
}

requests! {
    HostToDevice = number::cuMemcpyHtoDAsync_v2, Post;
    DeviceToHost = number::cuMemcpyDtoHAsync_v2, Post;
    Copy2d = number::cuMemcpy2DAsync_v2, Post;
}
