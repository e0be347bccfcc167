//! Requests about memory and about a client as a whole.

use super::payloads;
use crate::payload::{Malformed, Payload, Reader, Sink, words_of};
use crate::region::REPLY_BYTES_MAX;
use cuda_api::{CUdevice, CUdeviceptr};

payloads! {
    /// Makes device memory at an address that the client chose in its window, zeroed. Before the
    /// reply the server sends the chunk's file
    /// ([`Message::ChunkFd`](crate::message::Message::ChunkFd)).
    ChunkCreate {
        /// The device it is on.
        device: CUdevice,
        /// Where: a multiple of 2 MiB.
        address: CUdeviceptr,
        /// How much: a multiple of 2 MiB.
        bytes: u64,
    }

    /// Takes in a chunk that an earlier server made for this client, at the address that it had
    /// there. Its file was sent before ([`Message::HostFd`](crate::message::Message::HostFd)).
    /// Nothing is cleared.
    AdoptChunk {
        /// The device it is on.
        device: CUdevice,
        /// Where: a multiple of 2 MiB.
        address: CUdeviceptr,
        /// How much: a multiple of 2 MiB.
        bytes: u64,
    }

    /// Takes a chunk away when all of this client's work is done.
    ChunkRelease {
        /// Where the chunk begins.
        address: CUdeviceptr,
    }

    /// Makes pinned host memory of a file that was sent before
    /// ([`Message::HostFd`](crate::message::Message::HostFd)): the server maps it at the same
    /// address and registers it.
    HostMap {
        /// Where in the client's host window.
        address: u64,
        /// How much, whole pages.
        bytes: u64,
        /// CU_MEMHOSTALLOC flags.
        flags: u32,
    }

    /// Takes pinned host memory away when all of this client's work is done.
    HostUnmap {
        /// Where it begins.
        address: u64,
    }

    /// cuMemGetInfo.
    MemoryInfo {
        /// The device.
        device: CUdevice,
    }

    /// Reply to [`MemoryInfo`].
    MemoryInfoReply {
        /// Memory that the client can still get, bytes.
        free_bytes: u64,
        /// Memory that the client can have, bytes.
        total_bytes: u64,
    }

    /// What became of a part of the client's memory, for a provider that looks for mistakes.
    MemoryNote {
        /// Where it begins.
        address: CUdeviceptr,
        /// Its length.
        bytes: u64,
        /// One of [`memory_note`](cuda_api::extension::memory_note).
        note: u32,
    }

    /// Fetches what kernels printed since the last time, in pieces: until the reply is empty. Is
    /// answered after a fault too.
    PrintfDrain {
        /// One of [`standard`](cuda_api::extension::standard): what is printed, or what failed
        /// assertions say.
        standard: u32,
    }

    /// Destroys everything that this client has (cuDevicePrimaryCtxReset).
    Reset {}

    /// Is answered when all of the client's work is done.
    WaitIdle {}

    /// The client tries again what was refused last for want of memory.
    AllocationRetry {}
}

/// Reply to [`PrintfDrain`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrintfText {
    /// What was printed, at most [`PrintfText::BYTES_MAX`]; not always UTF-8.
    pub bytes: Vec<u8>,
}

impl PrintfText {
    /// What fits into the reply area beside the length.
    pub const BYTES_MAX: usize = REPLY_BYTES_MAX as usize - 8;
}

impl Payload<'_> for PrintfText {
    fn words(&self) -> usize {
        1 + words_of(self.bytes.len())
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.word(self.bytes.len() as u64);
        sink.bytes(&self.bytes);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = reader.length(Self::BYTES_MAX)?;
        Ok(Self { bytes: reader.bytes(length)?.to_vec() })
    }
}
