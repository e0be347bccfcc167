//! Embedded PTX: what is found of it in any file, text, a fatbin, or a program or library with
//! fatbins or text in it.
//!
//! Programs that load an image point at it; this is for files, where it must be found. Wrappers
//! are not followed, their pointers mean something only in the running program: nvcc puts the
//! fatbins themselves into sections of known names.

use crate::cubin::{self, Cubin, CubinError};
use crate::fatbin::{EntryKind, Fatbin, FatbinError, HEADER_BYTES};
use crate::image::{ImageKind, kind_of};
use crate::limits::ENTRIES_MAX;
use crate::text_in_binary;

/// Sections in which nvcc puts fatbins: of whole programs, and of relocatable device code.
const SECTIONS: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];
/// Starts of the names of sections in which programs have their data, and perhaps text, or fatbins
/// that they load by themselves, as cuFFT does.
const DATA_SECTIONS: [&str; 4] = [".rodata", ".data", ".lrodata", ".ldata"];
/// Fatbins in a section of theirs start at multiples of this.
const FATBIN_ALIGN: usize = 8;
/// Among other data they do so in the program's memory, where sections begin at any word: cuFFT's.
const DATA_ALIGN: usize = 4;

/// One PTX text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// `compute_80` as the fatbin calls it; `None` for what is text itself.
    pub architecture: Option<String>,
    /// The text.
    pub bytes: Vec<u8>,
}

/// Why a file gives no PTX.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddedError {
    /// Of no kind that can hold PTX.
    #[error("neither PTX text, fatbin nor ELF file")]
    Unknown,
    /// Read, and no PTX in it.
    #[error("no PTX in it{}", machine_code(.0))]
    NoPtx(Vec<String>),
    /// A damaged fatbin.
    #[error(transparent)]
    Fatbin(#[from] FatbinError),
    /// A damaged ELF file.
    #[error(transparent)]
    Elf(#[from] CubinError),
}

fn machine_code(architectures: &[String]) -> String {
    match architectures {
        [] => ", neither in fatbins nor as text".to_owned(),
        list => format!(", only machine code for {}", list.join(", ")),
    }
}

/// Every PTX text in `bytes`, in the order of the file, those of a program's fatbins first; at least
/// one.
///
/// # Errors
/// None in it, not a file that could hold any, or damaged.
pub fn texts(bytes: &[u8]) -> Result<Vec<Text>, EmbeddedError> {
    let mut found = Found::default();
    match kind_of(bytes) {
        Some(ImageKind::Ptx) => {
            let text = bytes.split(|&byte| byte == 0).next().unwrap_or(bytes);
            found.texts.push(Text { architecture: None, bytes: text.to_vec() });
        }
        Some(ImageKind::Fatbin) => found.fatbin(&Fatbin::read(bytes)?)?,
        Some(ImageKind::Elf) => match Cubin::read(bytes) {
            Ok(cubin) => found.machine_code.push(format!("sm_{}", cubin.sm)),
            Err(CubinError::NotCuda { class: 2, .. }) => {
                let sections = cubin::sections(bytes)?;
                for section in sections.iter().filter(|it| SECTIONS.contains(&it.name)) {
                    found.section(section.content)?;
                }
                let data = |name: &str| DATA_SECTIONS.iter().any(|start| name.starts_with(start));
                for section in sections.iter().filter(|section| data(section.name)) {
                    found.data(section.content);
                    for bytes in text_in_binary::texts(section.content) {
                        found.texts.push(Text { architecture: None, bytes: bytes.to_vec() });
                    }
                }
            }
            Err(error) => return Err(error.into()),
        },
        Some(ImageKind::Wrapper) | None => return Err(EmbeddedError::Unknown),
    }
    if found.texts.is_empty() {
        return Err(EmbeddedError::NoPtx(found.machine_code));
    }
    Ok(found.texts)
}

/// First bytes of an archive of object files (`libcudadevrt.a`).
pub const ARCHIVE_MAGIC: &[u8; 8] = b"!<arch>\n";

/// The contents of an archive's members that are ELF files, in order. What is damaged ends it.
pub fn archive_members(bytes: &[u8]) -> Vec<&[u8]> {
    const HEADER_BYTES: usize = 60;
    /// Where a header has its member's size, in decimal digits and blanks.
    const SIZE: std::ops::Range<usize> = 48..58;
    let mut members = Vec::new();
    let mut at = ARCHIVE_MAGIC.len();
    while let Some(header) = bytes.get(at..at.saturating_add(HEADER_BYTES))
        && members.len() < ENTRIES_MAX
    {
        let size = std::str::from_utf8(&header[SIZE]).ok().and_then(|s| s.trim().parse().ok());
        let start = at + HEADER_BYTES;
        let Some(content) = size.and_then(|size: usize| bytes.get(start..start.checked_add(size)?))
        else {
            break;
        };
        if kind_of(content) == Some(ImageKind::Elf) {
            members.push(content);
        }
        at = (start + content.len()).next_multiple_of(2);
    }
    members
}

#[derive(Default)]
struct Found {
    texts: Vec<Text>,
    machine_code: Vec<String>,
}

impl Found {
    fn fatbin(&mut self, fatbin: &Fatbin<'_>) -> Result<(), FatbinError> {
        for entry in &fatbin.entries {
            let architecture = entry.architecture();
            match entry.kind {
                EntryKind::Ptx if self.texts.len() < ENTRIES_MAX => {
                    let mut bytes = entry.payload()?.into_owned();
                    bytes.truncate(bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len()));
                    self.texts.push(Text { architecture: Some(architecture), bytes });
                }
                EntryKind::Elf if !self.machine_code.contains(&architecture) => {
                    self.machine_code.push(architecture);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Fatbins among other data. What only looks like one is data.
    fn data(&mut self, content: &[u8]) {
        let mut at = 0;
        while let Some(rest) = content.get(at..).filter(|rest| rest.len() >= HEADER_BYTES) {
            let length = match kind_of(rest) {
                Some(ImageKind::Fatbin) => self.fatbin_at(rest).unwrap_or(0),
                _ => 0,
            };
            at = (at + length.max(1)).next_multiple_of(DATA_ALIGN);
        }
    }

    /// The fatbin that `bytes` begin with; how long it is.
    fn fatbin_at(&mut self, bytes: &[u8]) -> Result<usize, FatbinError> {
        self.fatbin(&Fatbin::read(bytes)?)?;
        // Just read, so its length lies in the section.
        Ok(crate::fatbin::length(bytes)? as usize)
    }

    /// Fatbins one behind the other.
    fn section(&mut self, content: &[u8]) -> Result<(), FatbinError> {
        let mut at = 0;
        while let Some(rest) = content.get(at..).filter(|rest| rest.len() >= HEADER_BYTES) {
            if kind_of(rest) != Some(ImageKind::Fatbin) {
                // Padding.
                at += FATBIN_ALIGN;
                continue;
            }
            at = (at + self.fatbin_at(rest)?).next_multiple_of(FATBIN_ALIGN);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(content: &[u8]) -> Vec<u8> {
        let mut bytes = format!("{:<48}{:<10}`\n", "name.o/", content.len()).into_bytes();
        bytes.extend_from_slice(content);
        if content.len() % 2 == 1 {
            bytes.push(b'\n');
        }
        bytes
    }

    #[test]
    fn an_archives_object_files_are_found_and_damage_ends_it() {
        let (first, second) = (b"\x7fELFodd.".as_slice(), b"\x7fELFsecond".as_slice());
        let archive =
            [ARCHIVE_MAGIC, &member(b"symbols")[..], &member(first), &member(second)].concat();
        assert_eq!(archive_members(&archive), [first, second]);
        assert_eq!(archive_members(&archive[..archive.len() - 1]), [first]);
        assert!(archive_members(ARCHIVE_MAGIC).is_empty());
        assert!(archive_members(b"").is_empty());
    }
}
