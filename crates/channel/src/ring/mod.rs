//! The ring: how a client's requests reach its server without a system call.
//!
//! A record is a header word {length in bytes incl. header: u32, opcode: u16, flags: u16 = 0} and
//! words of payload. It never wraps: where it would, a pad record (opcode 0) fills the rest of the
//! ring. `head` counts the bytes that the producer pushed, `tail` those that the consumer popped;
//! both only grow.
//!
//! The algorithm is generic over [`RingMemory`], so that the code that runs on a
//! [`Region`] is the code that loom explores (`tests/loom.rs`) and that a
//! fuzzer feeds. What holds between the two sides:
//!
//! * A record's words are written before `head` is published (release) and read after it was seen
//!   (acquire); the same for `tail` and reuse of the space.
//! * Doorbells: a side raises its flag, fences, and looks once more before it sleeps; the other
//!   side writes, fences, and looks at the flag. One of them sees the other.
//! * Neither side believes the other: a position that cannot be is [`RingBroken`], and each keeps
//!   its own position in private memory.

mod consumer;
mod local;
mod poll_interval;
mod producer;
mod record;

pub use consumer::{Arrival, Consumer, Doorbell};
pub use local::LocalRing;
pub use producer::{Producer, PushError, Room};
pub use record::Record;

use crate::region::{
    CLIENT_WAITS_FOR_ROOM, RECORD_BYTES_MAX, RING_BYTES, RING_HEAD, RING_OFFSET, RING_TAIL, Region,
    SERVER_ASLEEP,
};
use crate::request::{Fence, Notify, Request};
use crate::wait;
use core::fmt;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;

/// Opcode of a record that only fills the end of the ring.
pub(crate) const PAD: u16 = 0;

/// Bytes of a record's header.
pub const RECORD_HEADER_BYTES: u64 = 8;

/// The peer wrote what it never may: the session is over. The text says what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingBroken(pub &'static str);

impl fmt::Display for RingBroken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the ring is broken: {}", self.0)
    }
}

impl core::error::Error for RingBroken {}

/// Counters of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Bytes pushed; written by the producer.
    Head,
    /// Bytes popped; written by the consumer.
    Tail,
}

/// Value of a flag that is down: no thread sleeps.
pub const AWAKE: u32 = 0;
/// Value of a flag that is up: the side that has something for the sleeper wakes it.
pub const ASLEEP: u32 = 1;
/// Value of [`Flag::ConsumerAsleep`] during a poll sleep: the sleeper looks by itself soon, so only
/// something urgent is worth a system call.
pub const POLLING: u32 = 2;

/// True for requests that end a poll sleep: what a thread of the client is about to wait for. A call's
/// [`ReplyReader`](crate::reply::ReplyReader) ends it too, and [`Producer::end_poll_sleep`] for what was not urgent before.
const fn is_urgent(opcode: u16) -> bool {
    matches!(opcode, Fence::OPCODE | Notify::OPCODE)
}

/// Flags of a ring, each of them a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// The consumer sleeps or is about to.
    ConsumerAsleep,
    /// The producer waits for room.
    ProducerWaits,
}

/// What a ring is made of. The names say the least ordering that each operation has.
pub trait RingMemory {
    /// Size of the ring: a power of two.
    const RING_BYTES: u64;
    /// Largest record, header included: at most a quarter of the ring.
    const RECORD_BYTES_MAX: u64;

    /// Reads a counter, acquire.
    fn position(&self, which: Position) -> u64;
    /// Writes a counter, release.
    fn publish(&self, which: Position, value: u64);
    /// Reads a word of the ring, relaxed. The index wraps.
    fn word(&self, index: u64) -> u64;
    /// Writes a word of the ring, relaxed. The index wraps.
    fn set_word(&self, index: u64, word: u64);
    /// Reads a flag, relaxed.
    fn flag(&self, which: Flag) -> u32;
    /// Writes a flag and returns what it was, acquire and release. Both sides write flags: with a
    /// read in each write their writes have one order that both know.
    fn swap_flag(&self, which: Flag, value: u32) -> u32;
    /// A sequentially consistent fence.
    fn fence(&self);
    /// Sleeps while the flag is `value`, at most `timeout`; may end early.
    fn sleep(&self, which: Flag, value: u32, timeout: Duration);
    /// Wakes the threads that sleep on the flag.
    fn wake(&self, which: Flag);

    /// Wakes the sleeper of a flag, if there is one. Who lowers the flag wakes: of many that find
    /// it up, one makes the system call, and gets true.
    fn rouse(&self, which: Flag) -> bool {
        let sleeps = self.flag(which) != AWAKE && self.swap_flag(which, AWAKE) != AWAKE;
        if sleeps {
            self.wake(which);
        }
        sleeps
    }
}

/// The record that was pushed at a position of the ring, read back by the side that pushed it:
/// opcode and payload. `None` if there is none, which its own writer only sees if the place was
/// written again, or the peer wrote to it.
pub fn stored_record<M: RingMemory>(memory: &M, position: u64) -> Option<(u16, Vec<u64>)> {
    let word = memory.word(position / 8);
    let (bytes, opcode) = (u64::from(word as u32), (word >> 32) as u16);
    let fits = (RECORD_HEADER_BYTES..=M::RECORD_BYTES_MAX).contains(&bytes)
        && bytes.is_multiple_of(8)
        && bytes <= M::RING_BYTES - (position & (M::RING_BYTES - 1));
    if !fits || opcode == PAD {
        return None;
    }
    let first = position / 8 + 1;
    Some((opcode, (first..first + bytes / 8 - 1).map(|index| memory.word(index)).collect()))
}

impl Region {
    #[inline(always)]
    const fn position_offset(which: Position) -> u64 {
        match which {
            Position::Head => RING_HEAD,
            Position::Tail => RING_TAIL,
        }
    }

    #[inline(always)]
    const fn flag_offset(which: Flag) -> u64 {
        match which {
            Flag::ConsumerAsleep => SERVER_ASLEEP,
            Flag::ProducerWaits => CLIENT_WAITS_FOR_ROOM,
        }
    }

    #[inline(always)]
    const fn word_offset(index: u64) -> u64 {
        RING_OFFSET + 8 * (index & (RING_BYTES / 8 - 1))
    }
}

impl RingMemory for Region {
    const RING_BYTES: u64 = RING_BYTES;
    const RECORD_BYTES_MAX: u64 = RECORD_BYTES_MAX;

    #[inline(always)]
    fn position(&self, which: Position) -> u64 {
        self.u64_at(Self::position_offset(which)).load()
    }
    #[inline(always)]
    fn publish(&self, which: Position, value: u64) {
        self.u64_at(Self::position_offset(which)).store(value);
    }
    #[inline(always)]
    fn word(&self, index: u64) -> u64 {
        self.u64_at(Self::word_offset(index)).atomic().load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn set_word(&self, index: u64, word: u64) {
        self.u64_at(Self::word_offset(index)).atomic().store(word, Ordering::Relaxed);
    }
    #[inline(always)]
    fn flag(&self, which: Flag) -> u32 {
        self.u32_at(Self::flag_offset(which)).atomic().load(Ordering::Relaxed)
    }
    fn swap_flag(&self, which: Flag, value: u32) -> u32 {
        self.u32_at(Self::flag_offset(which)).swap(value)
    }
    #[inline(always)]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
    fn sleep(&self, which: Flag, value: u32, timeout: Duration) {
        wait::sleep(self.u32_at(Self::flag_offset(which)), value, Some(timeout));
    }
    fn wake(&self, which: Flag) {
        if which == Flag::ConsumerAsleep {
            self.wakeups().fetch_add(1);
        }
        wait::wake(self.u32_at(Self::flag_offset(which)));
    }
}
