//! The way back of a call: result and payload in the region's reply area.
//!
//! One call is in flight at a time (the client's call lock), so replies need no matching: each
//! bumps a counter by one. The client copies a reply out before it looks at it.

use crate::payload::{Malformed, Payload, Reader, Sink, words_of};
use crate::region::{
    CLIENT_WAITS_FOR_REPLY, REPLY_BYTES, REPLY_BYTES_MAX, REPLY_OFFSET, REPLY_RESULT,
    REPLY_SEQUENCE, Region,
};
use crate::ring::{Flag, RingMemory};
use crate::wait::{Liveness, SpinPolicy, ring_doorbell, sleep_unless};
use core::fmt;
use core::sync::atomic::Ordering;
use cuda_api::{CUresult, result_code, result_from_code};

/// Why there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// The server is gone.
    PeerGone,
    /// The server wrote nonsense. The text says what.
    Broken(&'static str),
    /// The reply is not what belongs to the request.
    Malformed(Malformed),
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerGone => f.write_str("the server is gone"),
            Self::Broken(what) => write!(f, "the server's reply is broken: {what}"),
            Self::Malformed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ReplyError {}

/// A reply is longer than [`REPLY_BYTES_MAX`]. Nothing was sent: answer with an error instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTooLong {
    /// Its length, bytes.
    pub bytes: u64,
}

impl fmt::Display for ReplyTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a reply of {} bytes is above the maximum {REPLY_BYTES_MAX}", self.bytes)
    }
}

impl core::error::Error for ReplyTooLong {}

/// A reply, copied out of the region.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The function's result. A reply with an error can have a payload too (logs).
    pub result: CUresult,
    words: &'a [u64],
}

impl<'a> Reply<'a> {
    /// The payload.
    pub const fn words(&self) -> &'a [u64] {
        self.words
    }

    /// A reader of the payload.
    pub const fn reader(&self) -> Reader<'a> {
        Reader::new(self.words)
    }

    /// The payload as that type; all of it must belong to it.
    pub fn decode<P: Payload<'a>>(&self) -> Result<P, ReplyError> {
        P::from_words(self.words).map_err(ReplyError::Malformed)
    }
}

/// The client's side: waits for replies, in the order of its calls. A region has one.
#[derive(Debug)]
pub struct ReplyReader {
    region: Region,
    sequence: u32,
    words: Vec<u64>,
    policy: SpinPolicy,
}

impl ReplyReader {
    /// The reader of a region in which no call is in flight.
    pub fn new(region: Region, policy: SpinPolicy) -> Self {
        let sequence = region.u32_at(REPLY_SEQUENCE).load();
        Self { region, sequence, words: Vec::new(), policy }
    }

    /// Waits for the reply to the call that was just pushed: spins, then sleeps, and asks `alive`
    /// once a [`Region::liveness_period`] whether the server still lives.
    ///
    /// # Errors
    /// See [`ReplyError`]. After any of them the region is of no use for calls.
    pub fn wait(&mut self, alive: &dyn Fn() -> bool) -> Result<Reply<'_>, ReplyError> {
        // A server in a poll sleep does not look at once; for a call it shall.
        self.region.rouse(Flag::ConsumerAsleep);
        let sequence = self.region.u32_at(REPLY_SEQUENCE);
        let arrived = || sequence.load() != self.sequence;
        if !self.policy.spin_until(arrived) {
            let flag = self.region.u32_at(CLIENT_WAITS_FOR_REPLY);
            let period = self.region.liveness_period();
            let mut liveness = Liveness::new(period);
            while !arrived() {
                let woken = sleep_unless(flag, sequence, self.sequence, period, arrived);
                if liveness.is_due(woken) && !alive() && !arrived() {
                    return Err(ReplyError::PeerGone);
                }
            }
        }
        if sequence.load() != self.sequence.wrapping_add(1) {
            return Err(ReplyError::Broken("its sequence number is not the next one"));
        }
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = u64::from(self.region.u32_at(REPLY_BYTES).load());
        if bytes > REPLY_BYTES_MAX || !bytes.is_multiple_of(8) {
            return Err(ReplyError::Broken("its length cannot be"));
        }
        let result = result_from_code(self.region.u32_at(REPLY_RESULT).load());
        let region = &self.region;
        self.words.clear();
        self.words.extend(
            (0..bytes / 8).map(|index| {
                region.u64_at(REPLY_OFFSET + 8 * index).atomic().load(Ordering::Relaxed)
            }),
        );
        Ok(Reply { result, words: &self.words })
    }
}

/// The server's side: answers calls, in their order. A region has one.
#[derive(Debug)]
pub struct ReplyWriter {
    region: Region,
    sequence: u32,
}

impl ReplyWriter {
    /// The writer of a region, which goes on with the shared count of replies.
    pub fn new(region: Region) -> Self {
        let sequence = region.u32_at(REPLY_SEQUENCE).load();
        Self { region, sequence }
    }

    /// Answers a call with its result and a payload: `()`, words (`&[u64]`, `[u64; N]`) or the
    /// request's [`Reply`](crate::request::Request::Reply).
    ///
    /// # Errors
    /// If the payload is too long; then nothing was sent and the call still waits.
    pub fn send<'a>(
        &mut self,
        result: CUresult,
        payload: &impl Payload<'a>,
    ) -> Result<(), ReplyTooLong> {
        let words = payload.words() as u64;
        if words > REPLY_BYTES_MAX / 8 {
            return Err(ReplyTooLong { bytes: words.saturating_mul(8) });
        }
        let mut sink = AreaSink { region: &self.region, index: 0, end: words };
        payload.write(&mut sink);
        while sink.index < sink.end {
            sink.word(0);
        }
        self.publish(result, words * 8);
        Ok(())
    }

    /// Answers a call with a result only: what an error needs, and what cannot fail.
    pub fn send_result(&mut self, result: CUresult) {
        self.publish(result, 0);
    }

    fn publish(&mut self, result: CUresult, bytes: u64) {
        let region = &self.region;
        region.u32_at(REPLY_RESULT).store(result_code(result));
        region.u32_at(REPLY_BYTES).store(bytes as u32);
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = region.u32_at(REPLY_SEQUENCE);
        sequence.store(self.sequence);
        ring_doorbell(region.u32_at(CLIENT_WAITS_FOR_REPLY), sequence);
    }
}

/// Writes a payload to the reply area and never beyond.
struct AreaSink<'r> {
    region: &'r Region,
    index: u64,
    end: u64,
}

impl Sink for AreaSink<'_> {
    fn word(&mut self, word: u64) {
        debug_assert!(self.index < self.end, "a payload is longer than it said");
        if self.index < self.end {
            let at = self.region.u64_at(REPLY_OFFSET + 8 * self.index);
            at.atomic().store(word, Ordering::Relaxed);
            self.index += 1;
        }
    }
}

const _: () = assert!(words_of(REPLY_BYTES_MAX as usize) as u64 * 8 == REPLY_BYTES_MAX);
