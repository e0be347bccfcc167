//! Limits that both sides of a ring keep to: the client refuses what the server would refuse later,
//! so that a program learns of it from the call that asks for too much.

use crate::message;
use crate::region::{RECORD_BYTES_MAX, STREAM_SLOTS};
use cuda_api::handle::Handle;

/// Launches of kernels and graphs that a program has in flight in a stream that gets on. A thread that launches more
/// waits for the stream, and keeps no other one waiting. A hardware queue of a GPU has 1024 entries, for launches and
/// what stands between them.
pub const LAUNCHES_IN_STREAM_MAX: u32 = 768;
/// The same of a stream that does not get on: it may wait for what the same thread does later. A driver takes about
/// 1000 there.
pub const LAUNCHES_IN_STALLED_STREAM_MAX: u32 = 3 * LAUNCHES_IN_STREAM_MAX;
/// Events of a client at a time: PyTorch has thousands; one is some hundred bytes at the provider.
pub const EVENTS_MAX: u32 = 262_144;
/// Modules and libraries at a time: programs load hundreds.
pub const MODULES_MAX: u32 = 65_536;
/// Functions at a time that a program has asked for: libraries have thousands of kernels.
pub const FUNCTIONS_MAX: u32 = 262_144;
/// Graphs at a time that the server has: programs keep one for each shape of their data.
pub const GRAPHS_MAX: u32 = 65_536;
/// Arrays and mipmapped arrays at a time.
pub const ARRAYS_MAX: u32 = 65_536;
/// Pieces of physical memory (cuMemCreate) at a time: an open file each.
pub const MEMORIES_MAX: u32 = 16_384;
/// Chunks of device memory, reservations and mappings are whole multiples of this: CUDA's
/// granularity of virtual memory on all devices, and a large page.
pub const CHUNK_GRANULARITY_BYTES: u64 = 2 << 20;
/// Pairs of windows of addresses (device and host) of a user, one for each of the clients of all of
/// the user's servers. The first [`LARGE_WINDOWS`] are large, as long as few clients share a device; all
/// of them take 40 TiB of the 128 TiB that a process has.
pub const WINDOWS_MAX: u32 = 1024;
/// Windows of the larger kind.
pub const LARGE_WINDOWS: u32 = 64;
/// In place of a window's number: any that is free.
pub const WINDOW_ANY: u32 = u32::MAX;
/// Devices of a client: each has a share of its window and a primary context.
pub const DEVICES_MAX: u32 = 64;

const _: () = {
    // A handle of each kind has an index that a handle can have.
    assert!(STREAM_SLOTS - 1 <= Handle::INDEX_MAX);
    assert!(EVENTS_MAX - 1 <= Handle::INDEX_MAX);
    assert!(MODULES_MAX - 1 <= Handle::INDEX_MAX);
    assert!(FUNCTIONS_MAX - 1 <= Handle::INDEX_MAX);
    assert!(GRAPHS_MAX - 1 <= Handle::INDEX_MAX);
    assert!(ARRAYS_MAX - 1 <= Handle::INDEX_MAX);
    assert!(MEMORIES_MAX - 1 <= Handle::INDEX_MAX);
    // All devices that a server can show find a place at the client, and in what it remembers of
    // advice about managed memory.
    assert!(message::DEVICES_MAX <= DEVICES_MAX as usize);
    assert!(message::DEVICES_MAX <= cuda_api::advice::DEVICES_MAX as usize);
    assert!(CHUNK_GRANULARITY_BYTES.is_power_of_two());
    assert!((cuda_api::constants::PARAMETER_BYTES_MAX as u64) < RECORD_BYTES_MAX);
};
