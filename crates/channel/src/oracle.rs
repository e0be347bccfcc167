//! What must hold for anything that a peer sends or scribbles, in one place for tests and fuzzers:
//! nothing panics, nothing runs on for ever, and what is read back was there.

use crate::codec::GROWS;
use crate::message::{Message, MessageError};
use crate::payload::{Payload, Reader};
use crate::region::{HEADER_BYTES, REPLY_OFFSET, REPLY_SEQUENCE, RING_BYTES, RING_OFFSET, Region};
use crate::reply::ReplyReader;
use crate::request::{for_each_request, *};
use crate::ring::{Consumer, Flag, LocalRing, Position, Record, RingMemory};
use crate::wait::SpinPolicy;

/// Reads `bytes` as a message. Of version 2, what is read must be written as the same bytes; of a later
/// one, as bytes that are read as the same message.
///
/// # Panics
/// If a promise is broken; that is what it is for.
pub fn message(bytes: &[u8]) {
    match Message::decode_with_version(bytes) {
        Ok((message, version)) => match message.encode_for(version) {
            Ok(written) if version < GROWS => assert_eq!(written, bytes, "{message:?}"),
            Ok(written) => assert_eq!(Message::decode(&written), Ok(message)),
            // Fields that were not there take room.
            Err(error) => assert!(matches!(error, MessageError::TooLong { .. }), "{error}"),
        },
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Reads `words` as every request and every reply. What is read must be written as the same words
/// but for the padding of byte strings, and take as many as it says.
///
/// # Panics
/// If a promise is broken; that is what it is for.
pub fn payload(words: &[u64]) {
    fn one<'a, P: Payload<'a>>(words: &'a [u64]) {
        let mut reader = Reader::new(words);
        let Ok(payload) = P::read(&mut reader) else { return };
        let taken = words.len() - reader.rest().len();
        assert_eq!(payload.words(), taken);
        let written = payload.to_words();
        assert_eq!(written.len(), taken);
        let padded = |(wrote, read): (&u64, &u64)| (wrote ^ read) & wrote == 0;
        assert!(written.iter().zip(words).all(padded), "{written:x?} of {words:x?}");
    }
    fn every<'a>(words: &'a [u64]) {
        macro_rules! each {
            ($($name:ident $(<$life:lifetime>)? = $opcode:expr, $kind:ident -> $reply:ty;)*) => {
                $(one::<$name $(<$life>)?>(words);)*
                $(one::<$reply>(words);)*
            };
        }
        for_each_request!(each);
        // What generic rows consist of.
        one::<&'a [u64]>(words);
    }
    every(words);
}

/// A client that does to a ring what `words` say, and a server that pops after each step.
///
/// A step is two words: what to do (its low bits) and a value. Values that make sense are as likely
/// as others, so that much gets past the first check.
///
/// # Panics
/// If a promise is broken; that is what it is for.
pub fn ring(words: &[u64]) {
    type Small = LocalRing<1024>;
    let memory = Small::default();
    let Ok(mut consumer) = Consumer::new(memory.clone(), SpinPolicy::NONE) else {
        panic!("an empty ring is a good one");
    };
    let mut record = Record::new();
    let mut head = 0u64;
    for step in words.chunks_exact(2) {
        let (what, value) = (step[0], step[1]);
        match what % 8 {
            0 => memory.publish(Position::Head, value),
            1 | 2 => {
                head = head.wrapping_add(value % 1100 / 8 * 8);
                memory.publish(Position::Head, head);
            }
            3 => memory.publish(Position::Tail, value),
            4 => {
                memory.swap_flag(Flag::ConsumerAsleep, value as u32);
                memory.swap_flag(Flag::ProducerWaits, (value >> 32) as u32);
            }
            5 => memory.set_word(what >> 3, value),
            // A header that can be: up to 19 words long, with one of four opcodes.
            _ => memory.set_word(what >> 3, (value % 20 * 8) | (value >> 8 & 3) << 32),
        }
        // A record has 8 bytes at least, so 128 of them are all that can be there.
        let mut popped = 0;
        while let Ok(true) = consumer.pop(&mut record) {
            popped += 1;
            assert!(popped <= Small::RING_BYTES / 8);
            assert!((record.words().len() as u64) < Small::RECORD_BYTES_MAX / 8);
            assert_ne!(record.opcode(), 0);
            payload(record.words());
        }
    }
}

/// A ring that holds `words` from its beginning on, as one that was recorded from a program does,
/// and a server that pops all of it.
///
/// # Panics
/// If a promise is broken; that is what it is for.
pub fn records(words: &[u64]) {
    type Recorded = LocalRing<{ 1 << 16 }>;
    let memory = Recorded::default();
    let words = &words[..words.len().min(Recorded::RING_BYTES as usize / 8)];
    for (index, word) in (0..).zip(words) {
        memory.set_word(index, *word);
    }
    memory.publish(Position::Head, 8 * words.len() as u64);
    let Ok(mut consumer) = Consumer::new(memory, SpinPolicy::NONE) else { return };
    let mut record = Record::new();
    while let Ok(true) = consumer.pop(&mut record) {
        let _ = RequestName::of(record.opcode()).map(RequestName::kind);
        payload(record.words());
    }
}

/// A region whose header and reply `words` are, and both sides that look at it: no word of it makes
/// one of them panic or wait for good.
///
/// # Panics
/// If a promise is broken; that is what it is for.
pub fn region(words: &[u64]) {
    let Ok((region, file)) = Region::create() else { return };
    let mut replies = ReplyReader::new(region.clone(), SpinPolicy::NONE);
    let offsets = (0..HEADER_BYTES).chain(REPLY_OFFSET..RING_OFFSET + RING_BYTES).step_by(8);
    for (offset, word) in offsets.zip(words) {
        region.u64_at(offset).store(*word);
    }
    let _ = (region.sticky_error(), region.take_async_error(), region.server_state());
    let _ = (region.session_end(), region.waiting());
    // One that has not come is waited for, which others than these look at.
    if region.u32_at(REPLY_SEQUENCE).load() != 0
        && let Ok(reply) = replies.wait(&|| false)
    {
        payload(reply.words());
    }
    let Ok(opened) = Region::open(file) else { return };
    let Ok(mut consumer) = Consumer::new(opened, SpinPolicy::NONE) else { return };
    let mut record = Record::new();
    // A record has 8 bytes at least.
    for _ in 0..=RING_BYTES / 8 {
        match consumer.pop(&mut record) {
            Ok(true) => payload(record.words()),
            _ => return,
        }
    }
    panic!("a ring has no more records than it has words");
}

/// Words of a fuzzer's bytes; the last few that are no word are left out.
pub fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .map(|chunk| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracles_take_anything_and_what_is_right_gets_through() {
        let mut some = vec![0u64; 600];
        for (index, word) in (0u64..).zip(&mut some) {
            *word = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        for words in [&[][..], &some, &[0; 4096], &[u64::MAX; 4096]] {
            records(words);
            region(words);
        }
        // A region's own mark and version, and a ring with one record.
        region(&[crate::region::REGION_MAGIC, 1]);
        records(&[24 | u64::from(Fence::OPCODE) << 32, 7, 9]);
    }
}
