//! Requests about virtual memory: addresses, physical memory, and the one mapped at the other.
//!
//! Physical memory is named by a handle that the client made. All addresses and lengths are
//! multiples of 2 MiB.

use super::payloads;
use cuda_api::{CUdevice, CUdeviceptr};

payloads! {
    /// Reserves addresses that belong to no other client.
    ReserveAddresses {
        /// Where, if that is free; 0 for anywhere.
        wanted: CUdeviceptr,
        /// How much.
        bytes: u64,
        /// What the address is to be a multiple of: a power of two.
        alignment: u64,
    }

    /// Reply to [`ReserveAddresses`].
    AddressesReserved {
        /// Where.
        address: CUdeviceptr,
    }

    /// Gives a reservation back, which has no mapping left.
    FreeAddresses {
        /// Where it begins.
        address: CUdeviceptr,
        /// Its length.
        bytes: u64,
    }

    /// Makes physical memory, zeroed. Before the reply comes the descriptor that stands for it.
    CreateMemory {
        /// The handle.
        memory: u64,
        /// The device it is on.
        device: CUdevice,
        /// How much.
        bytes: u64,
    }

    /// Makes a handle for physical memory whose descriptor was sent before.
    ImportMemory {
        /// The handle.
        memory: u64,
    }

    /// Gives physical memory back when no mapping of it is left.
    ReleaseMemory {
        /// The handle.
        memory: u64,
    }

    /// Maps physical memory at reserved addresses, without access.
    MapMemory {
        /// Where.
        address: CUdeviceptr,
        /// How much.
        bytes: u64,
        /// From where in the memory.
        offset: u64,
        /// The handle.
        memory: u64,
    }

    /// Takes mappings away that fill a range.
    UnmapMemory {
        /// Where the range begins.
        address: CUdeviceptr,
        /// Its length.
        bytes: u64,
    }

    /// Sets what the device may do with mappings that fill a range.
    SetAccess {
        /// Where the range begins.
        address: CUdeviceptr,
        /// Its length.
        bytes: u64,
        /// CUmemAccess_flags.
        access: u32,
    }
}
