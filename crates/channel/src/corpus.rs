//! Recorded corpus: datagrams and ring records of each protocol version, which every later build must read
//! with the same meaning.
//!
//! A file `corpus/N.txt` holds what the build of protocol N wrote. `cargo xtask corpus` records the
//! version of this build; files of versions before are never written again. A line has a kind, a name,
//! bytes in hexadecimal and what they meant, as the derived `Debug` writes it. A later build may know
//! further fields, so the recorded words must stand in its own text in the same order.

use crate::PROTOCOL_VERSION;
use crate::message::Message;
use crate::payload::{Payload, Reader};
use crate::region;
use crate::request::{for_each_request, *};
use crate::ring::{LocalRing, Producer, stored_record};
use crate::wait::SpinPolicy;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Set by `cargo xtask corpus`: the file of this build's version is written anew.
const RECORD: &str = "OPENMPS_RECORD_CORPUS";
/// Datagrams of one kind that are recorded: a question has seven forms.
const OF_A_KIND_MAX: usize = 8;
/// Longest datagram that is recorded, bytes: one device with its attributes fits, and the file stays small.
const RECORDED_BYTES_MAX: usize = 1400;

fn is_recording() -> bool {
    std::env::var_os(RECORD).is_some()
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// One recorded thing.
struct Line {
    kind: String,
    name: String,
    bytes: Vec<u8>,
    meaning: String,
}

impl Line {
    fn new(kind: &str, name: &str, bytes: Vec<u8>, meaning: String) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned(), bytes, meaning }
    }

    fn of_words(kind: &str, name: &str, words: &[u64], meaning: String) -> Self {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Self::new(kind, name, bytes, meaning)
    }

    fn words(&self) -> Vec<u64> {
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        self.bytes.chunks(8).map(word).collect()
    }

    fn read(line: &str) -> Self {
        let parts: Vec<&str> = line.splitn(4, '\t').collect();
        let [kind, name, hex, meaning] = parts[..] else { panic!("not four columns: {line}") };
        let byte = |pair: &[u8]| {
            let text = core::str::from_utf8(pair).ok();
            text.and_then(|text| u8::from_str_radix(text, 16).ok()).expect("hexadecimal")
        };
        let bytes = hex.as_bytes().chunks(2).map(byte).collect();
        Self::new(kind, name, bytes, meaning.to_owned())
    }

    fn text(&self) -> String {
        let mut hex = String::new();
        self.bytes.iter().for_each(|byte| write!(hex, "{byte:02x}").expect("memory"));
        format!("{}\t{}\t{hex}\t{}\n", self.kind, self.name, self.meaning)
    }
}

/// A payload of ascending words, or of the first of some others that it can be.
fn sample<'a, P: Payload<'a> + core::fmt::Debug>(streams: &'a [Vec<u64>]) -> Option<P> {
    streams.iter().find_map(|words| P::read(&mut Reader::new(words)).ok())
}

/// What samples are read from: fields differ where all can; else truth values and small numbers.
fn streams() -> Vec<Vec<u64>> {
    let few = |max: u64| (0..4096u64).map(|at| at % max + 1).collect();
    vec![(1..4097).collect(), few(7), few(3), few(1), vec![0; 4096]]
}

fn requests() -> Vec<Line> {
    let streams = streams();
    let mut lines = Vec::new();
    macro_rules! each {
        ($($name:ident $(<$life:lifetime>)? = $opcode:expr, $kind:ident -> $reply:ty;)*) => {$({
            let name = stringify!($name);
            let request = sample::<$name>(&streams).expect(name);
            let (words, opcode) = (request.to_words(), $opcode);
            lines.push(Line::of_words("request", name, &words, format!("{opcode} {request:?}")));
            let reply = sample::<$reply>(&streams).expect(name);
            lines.push(Line::of_words("reply", name, &reply.to_words(), format!("{reply:?}")));
        })*};
    }
    for_each_request!(each);
    lines
}

/// A record as it lies in the ring, with its header.
fn ring() -> Line {
    let memory = LocalRing::<1024>::default();
    let mut producer = Producer::new(memory.clone(), SpinPolicy::NONE);
    let streams = streams();
    let fence = sample::<Fence>(&streams).expect("a fence");
    assert!(producer.push_request(&fence, &|| true).is_ok(), "room in an empty ring");
    let words: Vec<u64> = (0..4).map(|at| crate::ring::RingMemory::word(&memory, at)).collect();
    Line::of_words("ring", "Fence", &words, format!("{fence:?}"))
}

/// The region: where everything in it is.
fn layout() -> Line {
    let offsets = [
        region::REGION_MAGIC,
        region::MAGIC,
        region::VERSION,
        region::RING_HEAD,
        region::RING_TAIL,
        region::SERVER_ASLEEP,
        region::CLIENT_WAITS_FOR_ROOM,
        region::REPLY_SEQUENCE,
        region::REPLY_RESULT,
        region::REPLY_BYTES,
        region::CLIENT_WAITS_FOR_REPLY,
        region::STICKY_ERROR,
        region::ASYNC_ERROR,
        region::SERVER_STATE,
        region::WAITING,
        region::SESSION_END,
        region::LIVENESS_FACTOR,
        region::LIKELY_FAULT,
        region::HOST_CALL_SIGNAL,
        region::WAKEUPS,
        region::COMPLETION_OFFSET,
        region::HOST_CALL_OFFSET,
        region::REPLY_OFFSET,
        region::RING_OFFSET,
        region::STAGING_OFFSET,
        region::REGION_BYTES,
        region::COMPLETION_WORD_STRIDE,
        region::STREAM_SLOTS.into(),
        region::HOST_CALL_SLOTS.into(),
        region::HOST_CALL_DONE.into(),
        region::REPLY_BYTES_MAX,
        region::RING_BYTES,
        region::RECORD_BYTES_MAX,
        region::STAGING_BYTES,
    ];
    Line::of_words("region", "layout", &offsets, format!("{offsets:?}"))
}

fn messages() -> Vec<Line> {
    let mut kinds: BTreeMap<u16, BTreeMap<String, Line>> = BTreeMap::new();
    for message in crate::message::samples() {
        let meaning = format!("{message:?}");
        // Variants are distinguished by the names in them, outside of texts.
        let without_quotes = meaning.replace("\\\"", "");
        let shape: Vec<&str> = without_quotes
            .split('"')
            .step_by(2)
            .flat_map(|piece| piece.split(|c: char| !c.is_alphanumeric()))
            .filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))
            .collect();
        let bytes = message.encode().expect("a sample can be sent");
        let of_kind = kinds.entry(message.kind()).or_default();
        if of_kind.len() < OF_A_KIND_MAX && bytes.len() <= RECORDED_BYTES_MAX {
            let line = Line::new("message", message.name(), bytes, meaning.clone());
            of_kind.entry(shape.join(" ")).or_insert(line);
        }
    }
    kinds.into_values().flat_map(BTreeMap::into_values).collect()
}

/// Words of a meaning that a later build has to know too: fields with their values.
fn stands_in(recorded: &str, now: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let apart = |c: char| c.is_whitespace() || "(){}[],".contains(c);
        text.split(apart).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let mut theirs = words(now).into_iter();
    words(recorded).iter().all(|word| theirs.any(|their| their == *word))
}

/// What this build takes a recorded line for.
fn meaning_now(line: &Line) -> String {
    let words = line.words();
    match line.kind.as_str() {
        "message" => match Message::decode(&line.bytes) {
            Ok(message) => format!("{message:?}"),
            Err(error) => error.to_string(),
        },
        "region" => layout().meaning,
        "ring" => {
            let memory = LocalRing::<1024>::default();
            for (at, word) in words.iter().enumerate() {
                crate::ring::RingMemory::set_word(&memory, at as u64, *word);
            }
            let (opcode, words) = stored_record(&memory, 0).expect("a record");
            assert_eq!(opcode, Fence::OPCODE);
            format!("{:?}", Fence::from_words(&words).expect("a fence"))
        }
        _ => {
            macro_rules! each {
                ($($name:ident $(<$life:lifetime>)? = $opcode:expr, $kind:ident -> $reply:ty;)*) => {
                    match (line.kind.as_str(), line.name.as_str()) {
                        $(("request", stringify!($name)) => {
                            let request = <$name>::from_words(&words);
                            let opcode = $opcode;
                            request.map(|of| format!("{opcode} {of:?}"))
                        })*
                        $(("reply", stringify!($name)) => {
                            <$reply>::from_words(&words).map(|of| format!("{of:?}"))
                        })*
                        _ => panic!("no {} {} any more", line.kind, line.name),
                    }
                };
            }
            for_each_request!(each).unwrap_or_else(|error| error.to_string())
        }
    }
}

#[test]
fn the_corpus_of_each_version_is_read_with_the_same_meaning() {
    if is_recording() {
        let lines = messages().into_iter().chain(requests()).chain([ring(), layout()]);
        let text: String = lines.map(|line| line.text()).collect();
        std::fs::create_dir_all(directory()).expect("a folder");
        let path = directory().join(format!("{PROTOCOL_VERSION}.txt"));
        std::fs::write(path, text).expect("the corpus is written");
    }
    for version in crate::PROTOCOL_VERSION_MIN..=PROTOCOL_VERSION {
        let path = directory().join(format!("{version}.txt"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; `cargo xtask corpus` records it", path.display())
        });
        for line in text.lines().map(Line::read) {
            let now = meaning_now(&line);
            let what = (version, &line.kind, &line.name);
            assert!(stands_in(&line.meaning, &now), "{what:?}: {} is {now}", line.meaning);
        }
    }
}

/// A message or a request without a recorded example could change unseen.
#[test]
fn each_kind_of_message_and_each_request_is_recorded() {
    if is_recording() {
        // The other test writes the file at this moment.
        return;
    }
    let path = directory().join(format!("{PROTOCOL_VERSION}.txt"));
    let text = std::fs::read_to_string(path).expect("recorded by `cargo xtask corpus`");
    let recorded: Vec<Line> = text.lines().map(Line::read).collect();
    let has = |kind: &str, name: &str| {
        recorded.iter().any(|line| (line.kind.as_str(), line.name.as_str()) == (kind, name))
    };
    for (_, name) in Message::KINDS {
        assert!(has("message", name), "no {name}; `cargo xtask corpus` records it");
    }
    for name in RequestName::ALL {
        let name = format!("{name:?}");
        assert!(has("request", &name) && has("reply", &name), "no {name}");
    }
}

/// The comparison itself: growth is none of its business, a changed value or order is.
#[test]
fn a_meaning_may_grow_and_not_change() {
    let recorded = "Hello(Hello { pid: 1, name: \"a\" })";
    assert!(stands_in(recorded, "Hello(Hello { pid: 1, name: \"a\", build: \"\" })"));
    assert!(stands_in(recorded, "Hello(Hello { pid: 1, new: [2], name: \"a\" })"));
    assert!(!stands_in(recorded, "Hello(Hello { pid: 2, name: \"a\" })"));
    assert!(!stands_in(recorded, "Hello(Hello { name: \"a\", pid: 1 })"));
    assert!(!stands_in(recorded, "a message of kind 1 is wrong"));
}
