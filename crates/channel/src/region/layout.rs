//! Where everything in the shared region is. All offsets are from its first byte.
//!
//! Words that one side writes often stand on cache lines of their own, so that a write by one side
//! does not take away a line that the other one polls.

use crate::memfd::PAGE_BYTES;

/// First word of a region: "OMPSREGN".
pub const REGION_MAGIC: u64 = u64::from_le_bytes(*b"OMPSREGN");

/// Streams of a client that can exist at a time, the default streams among them: one completion
/// word each. CUDA programs have tens; tests of some make 10000.
pub const STREAM_SLOTS: u32 = 16_384;
/// Distance of completion words, bytes: a cache line each, because device and client write and
/// poll them independently.
pub const COMPLETION_WORD_STRIDE: u64 = 64;
/// Host functions of a client that can be queued at a time; who queues more waits. 3000 behind a slow one were
/// seen to be taken by a GPU's driver.
pub const HOST_CALL_SLOTS: u32 = 16_384;
/// Set in a host-call slot when the client has run the function.
pub const HOST_CALL_DONE: u32 = 1 << 31;
/// The reply area, bytes: a module's error log and info log fit.
pub const REPLY_BYTES_MAX: u64 = 64 << 10;
/// The ring, bytes: 10000 launches of 100 bytes.
pub const RING_BYTES: u64 = 1 << 20;
/// Largest record of the ring, bytes: a launch with CUDA's largest parameter buffer (32764 bytes)
/// and a symbol name of [`SYMBOL_BYTES_MAX`](crate::request::SYMBOL_BYTES_MAX) both fit.
pub const RECORD_BYTES_MAX: u64 = 40 << 10;
/// Staging for copies of pageable memory, bytes.
pub const STAGING_BYTES: u64 = 8 << 20;

// The header's fields.
pub(crate) const MAGIC: u64 = 0;
pub(crate) const VERSION: u64 = 8;
/// Bytes that the client pushed into the ring so far. Written by the client.
pub(crate) const RING_HEAD: u64 = 64;
/// Bytes that the server popped so far. Written by the server.
pub(crate) const RING_TAIL: u64 = 128;
/// 1 while the server sleeps or is about to: the ring's doorbell. Its own line, because the client
/// reads it at every push.
pub(crate) const SERVER_ASLEEP: u64 = 192;
/// 1 while the client waits for room in the ring.
pub(crate) const CLIENT_WAITS_FOR_ROOM: u64 = 256;
/// Replies so far. Written by the server, with the two below.
pub(crate) const REPLY_SEQUENCE: u64 = 320;
pub(crate) const REPLY_RESULT: u64 = 324;
pub(crate) const REPLY_BYTES: u64 = 328;
/// 1 while the client sleeps for a reply.
pub(crate) const CLIENT_WAITS_FOR_REPLY: u64 = 384;
/// Errors and the server's state: written rarely, read at every synchronisation.
pub(crate) const STICKY_ERROR: u64 = 448;
pub(crate) const ASYNC_ERROR: u64 = 452;
pub(crate) const SERVER_STATE: u64 = 456;
/// How the client should wait ([`Waiting`](super::Waiting)).
pub(crate) const WAITING: u64 = 460;
/// Why the session ended, once it has.
pub(crate) const SESSION_END: u64 = 464;
/// How many times the usual period pass between two looks whether the server lives; 0 is 1.
pub(crate) const LIVENESS_FACTOR: u64 = 468;
/// The error of a fault that this client is likely to have caused, if the session ends for one.
pub(crate) const LIKELY_FAULT: u64 = 472;
/// Bumped with each host function that the client shall run.
pub(crate) const HOST_CALL_SIGNAL: u64 = 512;
/// How often the client woke the server by a system call.
pub(crate) const WAKEUPS: u64 = 576;

/// The header, bytes.
pub const HEADER_BYTES: u64 = 4096;
/// Completion words.
pub const COMPLETION_OFFSET: u64 = HEADER_BYTES;
/// Host-call slots.
pub const HOST_CALL_OFFSET: u64 = COMPLETION_OFFSET + STREAM_SLOTS as u64 * COMPLETION_WORD_STRIDE;
/// The reply area.
pub const REPLY_OFFSET: u64 = HOST_CALL_OFFSET + HOST_CALL_SLOTS as u64 * 4;
/// The ring.
pub const RING_OFFSET: u64 = REPLY_OFFSET + REPLY_BYTES_MAX;
/// Staging.
pub const STAGING_OFFSET: u64 = RING_OFFSET + RING_BYTES;
/// The whole region, bytes.
pub const REGION_BYTES: u64 = STAGING_OFFSET + STAGING_BYTES;

const _: () = {
    assert!(WAKEUPS + 64 <= HEADER_BYTES);
    assert!(COMPLETION_OFFSET.is_multiple_of(PAGE_BYTES));
    assert!(HOST_CALL_OFFSET.is_multiple_of(PAGE_BYTES));
    assert!(REPLY_OFFSET.is_multiple_of(PAGE_BYTES));
    assert!(RING_OFFSET.is_multiple_of(PAGE_BYTES));
    assert!(STAGING_OFFSET.is_multiple_of(PAGE_BYTES));
    assert!(REGION_BYTES.is_multiple_of(PAGE_BYTES));
    assert!(RING_BYTES.is_power_of_two());
    // A producer that waits for half of the ring gets room for any record and the pad before it.
    assert!(2 * RECORD_BYTES_MAX <= RING_BYTES / 2);
    // An offset into staging is distinguished from an address by being below 2^32.
    assert!(STAGING_BYTES < 1 << 32);
    assert!(REPLY_BYTES_MAX <= u32::MAX as u64);
};
