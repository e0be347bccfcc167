//! What kind of image a pointer leads to, and how long it is.
//!
//! `cuModuleLoadData` gets a pointer and no length. The first bytes tell the kind, and each kind
//! says how long it is: a fatbin and an ELF file in their headers, text by its NUL. Reading goes
//! through [`Memory`], so that the caller decides what may be touched; a byte slice is one.

use crate::bytes::u32_at;
use crate::cubin::{self, CubinError, ELF_MAGIC};
use crate::fatbin::{
    self, FATBIN_MAGIC, FatbinError, HEADER_BYTES, OLD_FATBIN_MAGIC, WRAPPER_BYTES, WRAPPER_MAGIC,
    Wrapper,
};
use crate::limits::{IMAGE_BYTES_MAX, SOURCE_BYTES_MAX};

/// Memory that an image is read from; offset 0 is where the image starts.
pub trait Memory {
    /// Fills `out` from `offset`; false if those bytes are not there.
    fn read(&mut self, offset: u64, out: &mut [u8]) -> bool;

    /// Bytes before the first NUL, looking at no more than `limit` + 1 of them and at none after
    /// the NUL; `None` if there is no NUL among them.
    fn text_length(&mut self, limit: usize) -> Option<usize>;
}

impl Memory for &[u8] {
    fn read(&mut self, offset: u64, out: &mut [u8]) -> bool {
        let source = usize::try_from(offset)
            .ok()
            .and_then(|offset| crate::bytes::bytes_at(self, offset, out.len()));
        match source {
            Some(source) => out.copy_from_slice(source),
            None => return false,
        }
        true
    }

    /// In a slice the end ends text as a NUL does.
    fn text_length(&mut self, limit: usize) -> Option<usize> {
        let length = self.iter().position(|&byte| byte == 0).unwrap_or(self.len());
        (length <= limit).then_some(length)
    }
}

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// PTX text.
    Ptx,
    /// A fatbin, at its header.
    Fatbin,
    /// A wrapper with the address of a fatbin.
    Wrapper,
    /// A cubin.
    Elf,
}

/// An image's kind and extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// The image is these many bytes from the start (text: without its NUL).
    Whole {
        /// PTX, fatbin or ELF.
        kind: ImageKind,
        /// How many bytes to take.
        bytes: usize,
    },
    /// The image is elsewhere: follow [`Wrapper::data`] and ask again.
    Indirect(Wrapper),
}

/// Why an image cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The bytes that were needed are not there.
    #[error("image ends or cannot be read at byte {0}")]
    Unreadable(u64),
    /// None of the kinds.
    #[error("not an image: it starts with bytes 0x{0:08x}, expected PTX text, a fatbin or a cubin")]
    Unknown(u32),
    /// A fatbin of toolkits before CUDA 4.
    #[error("fatbin of an old format (0x{OLD_FATBIN_MAGIC:08x}), expected one of CUDA 4 or later")]
    OldFatbin,
    /// Larger than any image.
    #[error("image of {0} bytes, expected at most {IMAGE_BYTES_MAX}")]
    TooLarge(u64),
    /// Text without a NUL.
    #[error("PTX text has no end within {SOURCE_BYTES_MAX} bytes")]
    EndlessText,
    /// A damaged wrapper.
    #[error("wrapper of version {0}, expected 1 or 2")]
    WrapperVersion(u32),
    /// A damaged ELF file.
    #[error(transparent)]
    Elf(#[from] CubinError),
}

/// The kind that an image's first bytes (four, or all of a shorter one) tell; `None` for what no
/// image starts with.
pub fn kind_of(bytes: &[u8]) -> Option<ImageKind> {
    match u32_at(bytes, 0) {
        Some(FATBIN_MAGIC) => return Some(ImageKind::Fatbin),
        Some(WRAPPER_MAGIC) => return Some(ImageKind::Wrapper),
        Some(ELF_MAGIC) => return Some(ImageKind::Elf),
        _ => {}
    }
    // Text: blanks, a comment, or the dot of `.version`. What is not ASCII in it is an error of the text.
    let first = *bytes.first()?;
    let is_text = |b: &u8| b.is_ascii_graphic() || b.is_ascii_whitespace() || !b.is_ascii();
    let text = bytes.iter().take(4).all(is_text);
    (text && (b"./#".contains(&first) || first.is_ascii_whitespace())).then_some(ImageKind::Ptx)
}

/// Kind and extent of the image at the start of `memory`. At most [`IMAGE_BYTES_MAX`] bytes.
///
/// # Errors
/// Not an image, one that cannot be read as far as needed, or one too large.
pub fn measure(memory: &mut impl Memory) -> Result<Image, ImageError> {
    let mut first = [0u8; 4];
    if !memory.read(0, &mut first) {
        return Err(ImageError::Unreadable(0));
    }
    let word = u32::from_le_bytes(first);
    if word == OLD_FATBIN_MAGIC {
        return Err(ImageError::OldFatbin);
    }
    let kind = kind_of(&first).ok_or(ImageError::Unknown(word))?;
    let bytes = match kind {
        ImageKind::Ptx => {
            memory.text_length(SOURCE_BYTES_MAX).ok_or(ImageError::EndlessText)? as u64
        }
        ImageKind::Wrapper => {
            let mut bytes = [0u8; WRAPPER_BYTES];
            if !memory.read(0, &mut bytes) {
                return Err(ImageError::Unreadable(0));
            }
            return match Wrapper::read(&bytes) {
                Ok(wrapper) => Ok(Image::Indirect(wrapper)),
                Err(FatbinError::Version { version, .. }) => {
                    Err(ImageError::WrapperVersion(version))
                }
                Err(_) => Err(ImageError::Unknown(word)),
            };
        }
        ImageKind::Fatbin => {
            let mut header = [0u8; HEADER_BYTES];
            if !memory.read(0, &mut header) {
                return Err(ImageError::Unreadable(0));
            }
            fatbin::length(&header).map_err(|_| ImageError::Unknown(word))?
        }
        ImageKind::Elf => cubin::length(|offset, length| {
            // `length` is at most 65535 section headers, 4 MiB.
            let end = offset.checked_add(length as u64)?;
            if end > IMAGE_BYTES_MAX {
                return None;
            }
            let mut bytes = vec![0u8; length];
            memory.read(offset, &mut bytes).then_some(bytes)
        })?,
    };
    if bytes > IMAGE_BYTES_MAX {
        return Err(ImageError::TooLarge(bytes));
    }
    Ok(Image::Whole { kind, bytes: bytes as usize })
}
