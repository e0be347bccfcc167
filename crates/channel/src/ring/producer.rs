//! Ring producer: the client's side of the ring.

use super::record::header;
use super::{
    ASLEEP, AWAKE, Flag, PAD, POLLING, Position, RECORD_HEADER_BYTES, RingBroken, RingMemory,
    is_urgent,
};
use crate::payload::{Payload, Sink, words_of};
use crate::region::Region;
use crate::request::Request;
use crate::wait::{LIVENESS_PERIOD, SpinPolicy};
use core::fmt;

/// Why a record was not pushed. Nothing of it is in the ring then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// It is longer than a record may be.
    TooLong {
        /// Its length with header, bytes.
        bytes: u64,
    },
    /// Opcode 0 stands for no request.
    Opcode,
    /// The ring is full and the server is gone.
    PeerGone,
    /// The server wrote nonsense.
    Broken(RingBroken),
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => {
                write!(f, "a request of {bytes} bytes is above the maximum of a record")
            }
            Self::Opcode => f.write_str("opcode 0 stands for no request"),
            Self::PeerGone => f.write_str("the server is gone"),
            Self::Broken(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PushError {}

/// Pushes records. A ring has one; threads share it behind a lock.
#[derive(Debug)]
pub struct Producer<M = Region> {
    memory: M,
    /// Bytes pushed: the truth, of which the shared `head` is a copy.
    head: u64,
    /// The last tail seen: reading the shared one takes its line away from the server.
    tail_seen: u64,
    policy: SpinPolicy,
    /// Where the last record begins.
    last: u64,
}

impl<M: RingMemory> Producer<M> {
    /// The producer of a new ring.
    pub fn new(memory: M, policy: SpinPolicy) -> Self {
        const {
            assert!(M::RING_BYTES.is_power_of_two());
            assert!(2 * M::RECORD_BYTES_MAX <= M::RING_BYTES / 2);
        }
        Self { memory, head: 0, tail_seen: 0, policy, last: 0 }
    }

    /// The memory.
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    /// Bytes pushed so far.
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// Where the record that was pushed last begins: see [`stored_record`](super::stored_record).
    pub const fn last_position(&self) -> u64 {
        self.last
    }

    /// Pushes a request. It makes no system call unless the server sleeps or the ring is full;
    /// while it waits for room, `alive` is asked every [`LIVENESS_PERIOD`] whether the server
    /// still lives.
    ///
    /// # Errors
    /// See [`PushError`].
    #[inline]
    pub fn push_request<'a, R: Request<'a>>(
        &mut self,
        request: &R,
        alive: &dyn Fn() -> bool,
    ) -> Result<(), PushError> {
        self.push_payload(R::OPCODE, request, alive)
    }

    /// Pushes a record of words and bytes; see [`Producer::push_request`]. The bytes are padded to
    /// whole words: their length, if the reader needs it, belongs into a word.
    #[inline]
    pub fn push(
        &mut self,
        opcode: u16,
        words: &[u64],
        bytes: &[u8],
        alive: &dyn Fn() -> bool,
    ) -> Result<(), PushError> {
        self.push_payload(opcode, &Parts { words, bytes }, alive)
    }

    /// Pushes a record with any payload; see [`Producer::push_request`].
    #[inline]
    pub fn push_payload<'a, P: Payload<'a>>(
        &mut self,
        opcode: u16,
        payload: &P,
        alive: &dyn Fn() -> bool,
    ) -> Result<(), PushError> {
        if opcode == PAD {
            return Err(PushError::Opcode);
        }
        let bytes = RECORD_HEADER_BYTES + 8 * payload.words() as u64;
        self.reserve(bytes, alive)?;
        self.last = self.head;
        let index = self.head / 8;
        self.memory.set_word(index, header(bytes, opcode));
        let mut sink = RingSink { memory: &self.memory, index: index + 1, end: index + bytes / 8 };
        payload.write(&mut sink);
        // A payload that is shorter than it said must not show what was here before.
        while sink.index < sink.end {
            sink.word(0);
        }
        self.head += bytes;
        self.memory.publish(Position::Head, self.head);
        self.memory.fence();
        if self.memory.flag(Flag::ConsumerAsleep) != AWAKE {
            self.wake_consumer(opcode);
        }
        Ok(())
    }

    /// True if records of so many bytes fit, headers included, one of them perhaps behind a pad. Nothing waits.
    ///
    /// # Errors
    /// [`PushError::Broken`].
    #[inline]
    pub fn has_room(&mut self, bytes: u64) -> Result<bool, PushError> {
        let bytes = bytes + M::RECORD_BYTES_MAX;
        if self.free() < bytes {
            self.look()?;
        }
        Ok(self.free() >= bytes)
    }

    /// What a thread waits with for half of the ring, while others push.
    pub fn room(&self) -> Room<M>
    where
        M: Clone,
    {
        Room { memory: self.memory.clone(), head: self.head, policy: self.policy }
    }

    /// Ends the consumer's poll sleep if there are records that it has not taken: a thread waits for one of them that was
    /// not urgent when it was pushed.
    pub fn end_poll_sleep(&self) {
        if self.memory.position(Position::Tail) != self.head {
            self.memory.rouse(Flag::ConsumerAsleep);
        }
    }

    /// Makes room for a record of `bytes` bytes in one piece at `self.head`.
    #[inline]
    fn reserve(&mut self, bytes: u64, alive: &dyn Fn() -> bool) -> Result<(), PushError> {
        if bytes > M::RECORD_BYTES_MAX {
            return Err(PushError::TooLong { bytes });
        }
        let to_end = M::RING_BYTES - (self.head & (M::RING_BYTES - 1));
        let pad = if to_end < bytes { to_end } else { 0 };
        if self.free() < pad + bytes {
            self.wait_for_room(pad + bytes, alive)?;
        }
        if pad > 0 {
            // It is published together with the record after it.
            self.memory.set_word(self.head / 8, header(pad, PAD));
            self.head += pad;
        }
        Ok(())
    }

    /// Bytes free as far as is known.
    #[inline(always)]
    const fn free(&self) -> u64 {
        M::RING_BYTES - (self.head - self.tail_seen)
    }

    /// Looks at the shared tail.
    fn look(&mut self) -> Result<(), PushError> {
        let tail = self.memory.position(Position::Tail);
        if tail < self.tail_seen || tail > self.head {
            return Err(PushError::Broken(RingBroken("its tail is where it cannot be")));
        }
        self.tail_seen = tail;
        Ok(())
    }

    #[cold]
    fn wait_for_room(&mut self, bytes: u64, alive: &dyn Fn() -> bool) -> Result<(), PushError> {
        self.look()?;
        if self.free() >= bytes {
            return Ok(());
        }
        let mut failure = Ok(());
        let policy = self.policy;
        if policy != SpinPolicy::NONE {
            policy.spin_until(|| {
                failure = self.look();
                failure.is_err() || self.free() >= bytes
            });
            failure?;
        }
        // Half of the ring at a time: a full ring must not become a system call a record.
        while self.free() < bytes.max(M::RING_BYTES / 2) {
            self.memory.swap_flag(Flag::ProducerWaits, ASLEEP);
            self.memory.fence();
            self.look()?;
            if self.free() >= M::RING_BYTES / 2 {
                self.memory.swap_flag(Flag::ProducerWaits, AWAKE);
                break;
            }
            self.memory.sleep(Flag::ProducerWaits, ASLEEP, LIVENESS_PERIOD);
            self.look()?;
            // Regardless of how much room there is: a server that is gone never makes more.
            if !alive() {
                return Err(PushError::PeerGone);
            }
        }
        Ok(())
    }

    #[cold]
    fn wake_consumer(&self, opcode: u16) {
        if self.memory.flag(Flag::ConsumerAsleep) != POLLING || is_urgent(opcode) {
            self.memory.rouse(Flag::ConsumerAsleep);
        }
    }
}

/// A wait for half of the ring to be free, by a thread that keeps no other one from pushing.
#[derive(Debug)]
pub struct Room<M = Region> {
    memory: M,
    /// Bytes pushed when the wait began.
    head: u64,
    policy: SpinPolicy,
}

impl<M: RingMemory> Room<M> {
    /// Waits until half of the ring is free of what was pushed when this was made; others may have pushed
    /// more meanwhile. `alive` is asked every [`LIVENESS_PERIOD`] whether the server still lives.
    ///
    /// # Errors
    /// [`PushError::PeerGone`] or [`PushError::Broken`].
    pub fn wait(&self, alive: &dyn Fn() -> bool) -> Result<(), PushError> {
        let mut room = Ok(false);
        if self.policy != SpinPolicy::NONE {
            self.policy.spin_until(|| {
                room = self.look();
                room != Ok(false)
            });
        }
        while !room? {
            self.memory.swap_flag(Flag::ProducerWaits, ASLEEP);
            self.memory.fence();
            room = self.look();
            // The flag stays up: other threads may sleep on it.
            if room != Ok(false) {
                break;
            }
            self.memory.sleep(Flag::ProducerWaits, ASLEEP, LIVENESS_PERIOD);
            room = self.look();
            if room == Ok(false) && !alive() {
                return Err(PushError::PeerGone);
            }
        }
        room.map(|_| ())
    }

    /// Looks at the shared tail.
    fn look(&self) -> Result<bool, PushError> {
        let tail = self.memory.position(Position::Tail);
        // It may be beyond `head`: others have pushed since.
        Ok(tail >= self.head || self.head - tail <= M::RING_BYTES / 2)
    }
}

/// Writes a payload to its place in the ring and never beyond.
struct RingSink<'m, M> {
    memory: &'m M,
    index: u64,
    end: u64,
}

impl<M: RingMemory> Sink for RingSink<'_, M> {
    #[inline(always)]
    fn word(&mut self, word: u64) {
        debug_assert!(self.index < self.end, "a payload is longer than it said");
        if self.index < self.end {
            self.memory.set_word(self.index, word);
            self.index += 1;
        }
    }
}

/// Words, then bytes.
struct Parts<'a> {
    words: &'a [u64],
    bytes: &'a [u8],
}

impl<'a> Payload<'a> for Parts<'a> {
    #[inline(always)]
    fn words(&self) -> usize {
        self.words.len() + words_of(self.bytes.len())
    }
    #[inline(always)]
    fn write(&self, sink: &mut impl Sink) {
        for word in self.words {
            sink.word(*word);
        }
        sink.bytes(self.bytes);
    }
    fn read(reader: &mut crate::payload::Reader<'a>) -> Result<Self, crate::payload::Malformed> {
        Ok(Self { words: <&[u64]>::read(reader)?, bytes: &[] })
    }
}
