//! What must hold for anything that a peer sends or scribbles, in one place for tests and fuzzers:
//! nothing panics, nothing runs on for ever, and what is read back was there.

use crate::message::Message;
use crate::payload::{Payload, Reader};
use crate::request::*;
use crate::ring::{Consumer, Flag, LocalRing, Position, Record, RingMemory};
use crate::wait::SpinPolicy;

/// Reads `bytes` as a message. What is read must be written as the same bytes.
///
/// # Panics
/// If a promise is broken; that is what it is for.
pub fn message(bytes: &[u8]) {
    match Message::decode(bytes) {
        Ok(message) => assert_eq!(message.encode().as_deref(), Ok(bytes), "{message:?}"),
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
    macro_rules! each {
        ($($name:ty),* $(,)?) => { $(one::<$name>(words);)* };
    }
    each!(
        ChunkCreate,
        ChunkRelease,
        ClusterCount,
        CopyBox,
        CountClusters,
        CreateArray,
        CreateEvent,
        CreateGreenStream,
        CreateStream,
        CreateSurface,
        CreateTexture,
        DeviceToHost,
        ElapsedTime,
        ElapsedTimeReply,
        EncodeIm2col,
        EncodeTiled,
        Fence,
        FunctionInfo,
        FunctionNames,
        GetFunction<'_>,
        GetGlobal<'_>,
        GlobalInfo,
        GraphCondition,
        GraphConditional<'_>,
        GraphConditions,
        GraphCopy,
        HostFunc,
        HostMap,
        HostToDevice,
        LargestCluster,
        LaunchKernel<'_>,
        ListFunctions,
        LoadModule,
        MemoryInfoReply,
        MemoryRequirements,
        ModuleLoaded,
        PrintfText,
        RecordEvent,
        ReplaceMapAddress,
        UnloadModule,
        WaitEvent,
        (),
        [u64; 3],
        &[u64],
    );
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

/// Words of a fuzzer's bytes; the last few that are no word are left out.
pub fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .map(|chunk| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
        .collect()
}
