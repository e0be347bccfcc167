//! Fat binaries: what nvcc puts into a program, several images of one module.
//!
//! A fatbin is a header of 16 bytes and entries back to back, each an image (PTX text or a cubin)
//! for one architecture, perhaps compressed. The wrapper that a program registers is a struct of
//! its memory with a pointer to the header; following pointers is the caller's business, this
//! reads byte slices. Which entry suits a device is answered here; running it is not.

use crate::ast::runs_on;
use crate::bytes::{bytes_at, u16_at, u32_at, u64_at};
use crate::limits::{ENTRIES_MAX, SOURCE_BYTES_MAX};
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::borrow::Cow;
use std::fmt;
use std::sync::Mutex;

/// First word of a wrapper.
pub const WRAPPER_MAGIC: u32 = 0x466243B1;
/// First word of a fatbin.
pub const FATBIN_MAGIC: u32 = 0xBA55ED50;
/// First word of a fatbin as toolkits before CUDA 4 wrote it: not read.
pub const OLD_FATBIN_MAGIC: u32 = 0x1EE55A01;
/// Size of a wrapper.
pub const WRAPPER_BYTES: usize = 24;
/// Size of a fatbin's header, at least.
pub const HEADER_BYTES: usize = 16;

const ENTRY_HEADER_BYTES: usize = 64;

/// What a registered wrapper says. The pointers are of the program that registered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// 1, or 2 for relocatable device code.
    pub version: u32,
    /// Address of the fatbin.
    pub data: u64,
    /// Version 1: address of a file name, or 0. Version 2: address of an array of addresses of
    /// further fatbins, ended by 0.
    pub second: u64,
}

impl Wrapper {
    /// Reads a wrapper from its 24 bytes.
    ///
    /// # Errors
    /// Too few bytes, another magic or version.
    pub fn read(bytes: &[u8]) -> Result<Wrapper, FatbinError> {
        let short = || FatbinError::Truncated { what: "the wrapper", offset: 0 };
        let magic = u32_at(bytes, 0).ok_or_else(short)?;
        if magic != WRAPPER_MAGIC {
            return Err(FatbinError::Magic(magic));
        }
        let version = u32_at(bytes, 4).ok_or_else(short)?;
        if version != 1 && version != 2 {
            return Err(FatbinError::Version { what: "wrapper", version });
        }
        let data = u64_at(bytes, 8).ok_or_else(short)?;
        let second = u64_at(bytes, 16).ok_or_else(short)?;
        Ok(Wrapper { version, data, second })
    }
}

/// Why a fatbin cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FatbinError {
    /// Neither wrapper nor fatbin.
    #[error("not a fatbin: it starts with 0x{0:08x}, expected 0x{FATBIN_MAGIC:08x}")]
    Magic(u32),
    /// A version that is not known.
    #[error("{what} has version {version}, which is not known")]
    Version {
        /// Of what.
        what: &'static str,
        /// As read.
        version: u32,
    },
    /// It ends too early.
    #[error("fatbin ends inside {what} at byte {offset}")]
    Truncated {
        /// In what.
        what: &'static str,
        /// Where that starts.
        offset: usize,
    },
    /// More entries than [`ENTRIES_MAX`].
    #[error("fatbin has more than {ENTRIES_MAX} entries")]
    TooManyEntries,
    /// A payload is larger than PTX may be.
    #[error("payload of {bytes} bytes, expected at most {SOURCE_BYTES_MAX}")]
    TooLarge {
        /// As the entry says.
        bytes: u64,
    },
    /// The compressed data is damaged.
    #[error("payload cannot be decompressed ({method}): {why}")]
    Decompress {
        /// `LZ4` or `zstd`.
        method: &'static str,
        /// The decoder's words.
        why: String,
    },
}

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// PTX text.
    Ptx,
    /// A cubin: machine code of one architecture.
    Elf,
    /// Intermediate code for link-time optimisation.
    Lto,
    /// Something else.
    Other(u16),
}

/// How a payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As it is.
    None,
    /// One raw LZ4 block.
    Lz4,
    /// One zstd frame.
    Zstd,
}

/// One image of a fatbin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it holds.
    pub kind: EntryKind,
    /// Compute capability times ten.
    pub sm: u32,
    /// For this architecture only (`sm_90a`).
    pub arch_specific: bool,
    /// For the architecture's family (`sm_100f`).
    pub family: bool,
    /// Major and minor of the ISA (PTX) or of the code's format (cubin).
    pub version: (u16, u16),
    /// All flags as read.
    pub flags: u64,
    /// Source file name of debug builds.
    pub name: Option<&'a str>,
    /// How the payload is stored.
    pub compression: Compression,
    /// The payload as stored, without padding if its exact size is known.
    pub stored: &'a [u8],
    /// Size after decompression, as the entry says; 0 for payloads stored as they are.
    pub unpacked_bytes: u64,
}

const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
const FLAG_ARCH_SPECIFIC: u64 = 0x10_0000;
const FLAG_FAMILY: u64 = 0x20_0000;

impl<'a> Entry<'a> {
    /// The payload, decompressed.
    ///
    /// # Errors
    /// Damaged data, or more than [`SOURCE_BYTES_MAX`] bytes.
    pub fn payload(&self) -> Result<Cow<'a, [u8]>, FatbinError> {
        let bytes = self.unpacked_bytes;
        if bytes > SOURCE_BYTES_MAX as u64 {
            return Err(FatbinError::TooLarge { bytes });
        }
        match self.compression {
            Compression::None => Ok(Cow::Borrowed(self.stored)),
            Compression::Lz4 => lz4_flex::block::decompress(self.stored, bytes as usize)
                .map(Cow::Owned)
                .map_err(|error| FatbinError::Decompress { method: "LZ4", why: error.to_string() }),
            Compression::Zstd => unpack_zstd(self.stored, bytes).map(Cow::Owned),
        }
    }

    /// As in [`crate::ast::Target`].
    pub fn suffix(&self) -> Option<char> {
        match (self.arch_specific, self.family) {
            (true, _) => Some('a'),
            (false, true) => Some('f'),
            _ => None,
        }
    }

    /// `sm_90a` for a cubin, `compute_90a` for PTX.
    pub fn architecture(&self) -> String {
        let prefix = if self.kind == EntryKind::Elf { "sm" } else { "compute" };
        let suffix = self.suffix().map(String::from).unwrap_or_default();
        format!("{prefix}_{}{suffix}", self.sm)
    }
}

/// Bytes of output after which the decoder of a zstd frame passes on what it has.
const ZSTD_STEP_BYTES: usize = 1 << 20;
/// A decoder whose last payload was larger is not kept: it has a buffer of about that size.
const KEPT_DECODER_BYTES_MAX: usize = 32 << 20;
/// Most bytes that are reserved for a byte of the stored payload; what the entry says may be wrong.
const ZSTD_RATIO_MAX: usize = 64;

/// Unpacks a frame of zstd. `said_bytes` is the size that the entry says; it is not trusted.
fn unpack_zstd(mut stored: &[u8], said_bytes: u64) -> Result<Vec<u8>, FatbinError> {
    // The buffers of the last decoder serve again: new memory costs as much as the decoding. Nothing waits for
    // this lock, since a child process may have been forked while it was held.
    static KEPT: Mutex<Option<FrameDecoder>> = Mutex::new(None);
    let failed = |error: FrameDecoderError| FatbinError::Decompress {
        method: "zstd",
        why: error.to_string(),
    };
    let mut decoder = KEPT.try_lock().ok().and_then(|mut kept| kept.take()).unwrap_or_default();
    decoder.reset(&mut stored).map_err(failed)?;
    let likely = usize::try_from(said_bytes).unwrap_or(0);
    let mut out = Vec::with_capacity(likely.min(stored.len().saturating_mul(ZSTD_RATIO_MAX)));
    while !decoder.is_finished() {
        decoder
            .decode_blocks(&mut stored, BlockDecodingStrategy::UptoBytes(ZSTD_STEP_BYTES))
            .map_err(failed)?;
        if out.len() + decoder.can_collect() > SOURCE_BYTES_MAX {
            return Err(FatbinError::TooLarge {
                bytes: (out.len() + decoder.can_collect()) as u64,
            });
        }
        // Writing to a vector does not fail.
        let _ = decoder.collect_to_writer(&mut out);
    }
    if out.len() <= KEPT_DECODER_BYTES_MAX
        && let Ok(mut kept) = KEPT.try_lock()
    {
        *kept = Some(decoder);
    }
    Ok(out)
}

/// A fatbin's entries, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fatbin<'a> {
    /// The entries.
    pub entries: Vec<Entry<'a>>,
}

/// Which PTX a device accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtxChoice {
    /// As the driver: written for the device's compute capability or an earlier one.
    UpToDevice,
    /// That if there is any, else the one for the earliest later capability.
    Any,
}

/// Length of a fatbin from its first 16 bytes, header included: at least those.
///
/// # Errors
/// Another magic, or fewer bytes than a header.
pub fn length(header: &[u8]) -> Result<u64, FatbinError> {
    let short = || FatbinError::Truncated { what: "the header", offset: 0 };
    let magic = u32_at(header, 0).ok_or_else(short)?;
    if magic != FATBIN_MAGIC {
        return Err(FatbinError::Magic(magic));
    }
    let header_bytes = usize::from(u16_at(header, 6).ok_or_else(short)?).max(HEADER_BYTES);
    let content_bytes = u64_at(header, 8).ok_or_else(short)?;
    Ok(content_bytes.saturating_add(header_bytes as u64))
}

impl<'a> Fatbin<'a> {
    /// Reads a fatbin. `bytes` may go on after its end.
    ///
    /// # Errors
    /// Not a fatbin, or one that ends too early.
    pub fn read(bytes: &'a [u8]) -> Result<Fatbin<'a>, FatbinError> {
        let total = length(bytes)?;
        let version = u16_at(bytes, 4).unwrap_or(0);
        if version != 1 {
            return Err(FatbinError::Version { what: "fatbin", version: u32::from(version) });
        }
        let total = usize::try_from(total).ok().filter(|&total| total <= bytes.len());
        let truncated = FatbinError::Truncated { what: "its content", offset: 0 };
        let bytes = &bytes[..total.ok_or(truncated)?];
        let mut offset = usize::from(u16_at(bytes, 6).unwrap_or(0)).max(HEADER_BYTES);
        let mut entries = Vec::new();
        while offset < bytes.len() {
            if entries.len() >= ENTRIES_MAX {
                return Err(FatbinError::TooManyEntries);
            }
            let (entry, length) = read_entry(&bytes[offset..])
                .ok_or(FatbinError::Truncated { what: "an entry", offset })?;
            entries.push(entry);
            offset += length;
        }
        Ok(Fatbin { entries })
    }

    /// The PTX entry that suits a device of compute capability `sm` (times ten) best: the latest
    /// that runs there.
    pub fn ptx_for(&self, sm: u32, choice: PtxChoice) -> Option<&Entry<'a>> {
        let ptx = || self.entries.iter().filter(|entry| entry.kind == EntryKind::Ptx);
        let best = ptx()
            .filter(|entry| runs_on(entry.sm, entry.suffix(), sm))
            .max_by_key(|entry| (entry.sm, entry.arch_specific));
        match choice {
            PtxChoice::UpToDevice => best,
            PtxChoice::Any => best.or_else(|| {
                ptx().min_by_key(|entry| (entry.arch_specific || entry.family, entry.sm))
            }),
        }
    }

    /// The cubin for a device: same major capability, the latest minor that is not later.
    pub fn cubin_for(&self, sm: u32) -> Option<&Entry<'a>> {
        self.entries
            .iter()
            .filter(|entry| entry.kind == EntryKind::Elf && entry.sm / 10 == sm / 10)
            .filter(|entry| if entry.arch_specific { entry.sm == sm } else { entry.sm <= sm })
            .max_by_key(|entry| (entry.sm, entry.arch_specific))
    }

    /// What is in it, for a message: `sm_80, sm_90, compute_90`; `nothing` if it is empty.
    pub fn architectures(&self) -> String {
        let mut names: Vec<String> = Vec::new();
        for entry in &self.entries {
            let name = entry.architecture();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    }
}

/// The entry at the start of `bytes`, and its whole length.
fn read_entry(bytes: &[u8]) -> Option<(Entry<'_>, usize)> {
    let header_bytes = usize::try_from(u32_at(bytes, 4)?).ok()?;
    let payload_bytes = usize::try_from(u64_at(bytes, 8)?).ok()?;
    if header_bytes < ENTRY_HEADER_BYTES {
        return None;
    }
    let payload = bytes_at(bytes, header_bytes, payload_bytes)?;
    let compressed_bytes = u32_at(bytes, 16)? as usize;
    let flags = u64_at(bytes, 40)?;
    let compression = match flags {
        _ if flags & FLAG_ZSTD != 0 => Compression::Zstd,
        _ if flags & FLAG_LZ4 != 0 => Compression::Lz4,
        _ => Compression::None,
    };
    let stored = match compressed_bytes {
        0 => payload,
        _ => payload.get(..compressed_bytes)?,
    };
    let (name_at, name_bytes) = (u32_at(bytes, 32)? as usize, u32_at(bytes, 36)? as usize);
    let name = match name_bytes {
        0 => None,
        _ => bytes_at(&bytes[..header_bytes], name_at, name_bytes)
            .and_then(|name| std::str::from_utf8(name).ok())
            .map(|name| name.trim_end_matches('\0')),
    };
    let entry = Entry {
        kind: match u16_at(bytes, 0)? {
            1 => EntryKind::Ptx,
            2 => EntryKind::Elf,
            8 => EntryKind::Lto,
            other => EntryKind::Other(other),
        },
        sm: u32_at(bytes, 28)?,
        arch_specific: flags & FLAG_ARCH_SPECIFIC != 0,
        family: flags & FLAG_FAMILY != 0,
        version: (u16_at(bytes, 26)?, u16_at(bytes, 24)?),
        flags,
        name,
        compression,
        stored,
        unpacked_bytes: if compression == Compression::None { 0 } else { u64_at(bytes, 56)? },
    };
    Some((entry, header_bytes + payload_bytes))
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EntryKind::Ptx => f.write_str("PTX"),
            EntryKind::Elf => f.write_str("cubin"),
            EntryKind::Lto => f.write_str("LTO"),
            EntryKind::Other(kind) => write!(f, "kind {kind}"),
        }
    }
}
