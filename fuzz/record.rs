//! Records what programs and a daemon say to each other, as corpora of the fuzz targets: the records
//! that the ring of a program has in the end, and the first words that a client and a shell exchange
//! with the daemon.
//!
//! `record CORPUS PIPE -- PROGRAM...`: the daemon listens in the directory PIPE.

use anyhow::{Context, Result, bail};
use channel::message::{Command as Line, Hello, Message};
use channel::region::{RING_BYTES, RING_OFFSET, Region};
use channel::socket::SeqPacket;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Bytes of a ring that are kept: what the target takes.
const KEPT_BYTES: usize = 1 << 16;
/// How often the program is looked at.
const LOOK: Duration = Duration::from_millis(1);
/// How long daemon and server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps an input of a target under the name of its content.
fn keep(corpus: &Path, target: &str, bytes: &[u8]) -> Result<()> {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let folder = corpus.join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("{:016x}", hasher.finish())), bytes)?;
    Ok(())
}

/// Opens the shared regions of a process, which stay what they are when it ends.
fn find_regions(pid: u32, regions: &mut HashMap<u64, File>) {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return };
    for path in descriptors.flatten().map(|entry| entry.path()) {
        let is_region = fs::read_link(&path)
            .is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:openmps-region"));
        if is_region && let Ok(file) = File::options().read(true).write(true).open(&path) {
            let Ok(metadata) = file.metadata() else { continue };
            regions.entry(metadata.ino()).or_insert(file);
        }
    }
}

/// Keeps what a ring has, whole records from its beginning.
fn keep_ring(corpus: &Path, file: &File) -> Result<usize> {
    let mut bytes = vec![0; RING_BYTES as usize];
    file.read_exact_at(&mut bytes, RING_OFFSET)?;
    let words = channel::oracle::words_of(&bytes);
    let (mut end, mut records) = (0, 0);
    while let Some(header) = words.get(end) {
        let length = (header & 0xffff_ffff) as usize;
        let next = end + length / 8;
        if length < 8 || !length.is_multiple_of(8) || 8 * next > KEPT_BYTES {
            break;
        }
        if let Some(payload) = words.get(end + 1..next) {
            keep(corpus, "channel_request", &bytes_of(payload))?;
        }
        (end, records) = (next, records + 1);
    }
    keep(corpus, "channel_records", &bytes_of(&words[..end]))?;
    keep(corpus, "channel_ring", &bytes_of(&words[..end.min(256)]))?;
    Ok(records)
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Connects, sends a message and keeps it and its answers, to the last one that is promised.
fn converse(corpus: &Path, socket: &Path, message: &Message) -> Result<()> {
    let connection = SeqPacket::connect(socket, PATIENCE)
        .with_context(|| format!("connecting to {}", socket.display()))?;
    connection.set_receive_timeout(Some(PATIENCE))?;
    let bytes = message.encode()?;
    keep(corpus, "channel_message", &bytes)?;
    // A packet to either socket.
    for kind in [2, 3] {
        keep(corpus, "control_daemon", &[&[kind], &bytes[..]].concat())?;
    }
    let region = match message.fds() {
        0 => None,
        _ => Some(Region::create()?.1),
    };
    let fds: Vec<_> = region.iter().map(AsFd::as_fd).collect();
    connection.send(message, &fds)?;
    loop {
        let (bytes, _) = connection.receive_bytes()?;
        keep(corpus, "channel_message", &bytes)?;
        match Message::decode(&bytes)? {
            Message::Reply(reply) if reply.more => {}
            _ => return Ok(()),
        }
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [corpus, pipe, dashes, program, arguments @ ..] = &words[..] else {
        bail!("record CORPUS PIPE -- PROGRAM...");
    };
    if dashes != "--" {
        bail!("-- comes before the program, not {dashes:?}");
    }
    let (corpus, pipe) = (Path::new(corpus), PathBuf::from(pipe));
    let hello = Message::Hello(Hello {
        pid: std::process::id(),
        command_line: words.join(" "),
        library_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Hello::default()
    });
    converse(corpus, &pipe.join("control"), &hello)?;
    for text in ["get_server_list", "report", "help", "nothing"] {
        let line = Message::Command(Line { text: text.to_owned() });
        converse(corpus, &pipe.join("control_privileged"), &line)?;
    }
    let mut child =
        Command::new(program).args(arguments).env("CUDA_MPS_PIPE_DIRECTORY", &pipe).spawn()?;
    let mut regions = HashMap::new();
    let status = loop {
        find_regions(child.id(), &mut regions);
        match child.try_wait()? {
            Some(status) => break status,
            None => std::thread::sleep(LOOK),
        }
    };
    if !status.success() {
        bail!("{program} ended with {status}");
    }
    let mut records = 0;
    for file in regions.values() {
        records += keep_ring(corpus, file)?;
    }
    println!("{program}: {} regions, {records} records", regions.len());
    Ok(())
}
