//! Requests about what clients of one server share by intent: memory and events that one of them
//! exports and another one opens (the manual's "Interprocess Communication").

use super::payloads;
use cuda_api::{CUdeviceptr, CUevent};

payloads! {
    /// What an exported object is known by: random, so that only who was given it has it.
    Token {
        /// Its lower half.
        low: u64,
        /// Its upper half.
        high: u64,
    }

    /// Exports the chunk of device memory that begins at an address.
    ShareMemory {
        /// Where the chunk begins.
        address: CUdeviceptr,
    }

    /// Reply to [`ShareMemory`].
    SharedMemory {
        /// The lower half of the chunk's token.
        low: u64,
        /// The upper half.
        high: u64,
        /// The chunk's length.
        bytes: u64,
    }

    /// Maps a chunk that another client exported at reserved addresses.
    OpenMemory {
        /// Where.
        address: CUdeviceptr,
        /// The chunk's length.
        bytes: u64,
        /// The lower half of its token.
        low: u64,
        /// The upper half.
        high: u64,
    }

    /// Asks for a descriptor of a chunk that a client exported: for the server of another device, where
    /// the opener maps it too. Before the reply comes the descriptor.
    SharedFile {
        /// The chunk's length.
        bytes: u64,
        /// The lower half of its token.
        low: u64,
        /// The upper half.
        high: u64,
    }

    /// Exports an event.
    ShareEvent {
        /// The event.
        event: CUevent,
    }

    /// Makes a handle for an event that another client exported.
    OpenEvent {
        /// The handle.
        event: CUevent,
        /// The lower half of its token.
        low: u64,
        /// The upper half.
        high: u64,
    }

    /// Asks whether what was recorded last in an event is done, by whomever it was recorded.
    QueryEvent {
        /// The event.
        event: CUevent,
    }

    /// Reply to [`QueryEvent`].
    EventState {
        /// 1 if it is done or nothing was recorded, else 0.
        done: u32,
    }
}
