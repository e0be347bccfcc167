//! Checks of an image's structure before a provider reads it.
//!
//! A provider is given an address and no length: it follows what the image says of itself. So
//! what it says must stay within the image's bytes, and no kind of image passes that holds a
//! pointer. What is inside (code, symbols) is the provider's to judge.

use cuda_api::CudaError;
use ptx::bytes::{u16_at, u32_at, u64_at};

/// Most sections of an ELF image.
const SECTIONS_MAX: usize = 1 << 16;

const ELF_MAGIC: [u8; 4] = *b"\x7fELF";
const FATBIN_MAGIC: [u8; 4] = 0xBA55_ED50u32.to_le_bytes();
const FATBIN_HEADER_BYTES: u64 = 16;
const ENTRY_HEADER_BYTES: u64 = 64;
const ENTRY_KIND_ELF: u16 = 2;
/// Flags of an entry: LZ4, zstd.
const ENTRY_COMPRESSED: u64 = 0x2000 | 0x8000;
const SECTION_TYPE_NOBITS: u32 = 8;

/// What kind of image it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// PTX text.
    Text,
    /// A cubin.
    Elf,
    /// A fat binary.
    Fatbin {
        /// Some entry is compressed, so that a search in the bytes finds nothing in it.
        compressed: bool,
    },
}

impl Image {
    /// Finds out what the bytes are; INVALID_IMAGE if they are nothing that is known, or reach
    /// beyond their end.
    pub fn check(bytes: &[u8]) -> Result<Self, CudaError> {
        let checked = if bytes.starts_with(&ELF_MAGIC) {
            check_elf(bytes).map(|()| Self::Elf)
        } else if bytes.starts_with(&FATBIN_MAGIC) {
            check_fatbin(bytes)
        } else {
            is_text(bytes).then_some(Self::Text)
        };
        checked.ok_or(CudaError::INVALID_IMAGE)
    }

    /// True if kernels of the image may call device printf.
    pub fn may_print(self, bytes: &[u8]) -> bool {
        matches!(self, Self::Fatbin { compressed: true })
            || memchr::memmem::find(bytes, b"vprintf").is_some()
    }
}

/// True if there is something before the first NUL, and it is text.
fn is_text(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let is_white = |b: &u8| matches!(b, b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    // The wrapper of a fat binary, which holds a pointer, begins with bytes above 0x7f, as do
    // other binary formats; PTX begins with a comment, a directive or white space.
    end > 0
        && bytes[0].is_ascii()
        && bytes[..end].iter().all(|b| *b >= 0x20 && *b != 0x7f || is_white(b))
}

/// The range, if it lies in the bytes.
fn part(bytes: &[u8], offset: u64, length: u64) -> Option<&[u8]> {
    let offset = usize::try_from(offset).ok()?;
    bytes.get(offset..offset.checked_add(usize::try_from(length).ok()?)?)
}

/// Headers of sections and segments, and what they point to, lie in the bytes.
fn check_elf(bytes: &[u8]) -> Option<()> {
    const CLASS_64: u8 = 2;
    const HEADER_BYTES: usize = 64;
    if bytes.len() < HEADER_BYTES || bytes[4] != CLASS_64 {
        return None;
    }
    let table = |offset: usize, size: usize, count: usize, smallest: usize| {
        let (offset, size) = (u64_at(bytes, offset)?, u16_at(bytes, size)?);
        let count = u16_at(bytes, count)?;
        if count > 0 && usize::from(size) < smallest {
            return None;
        }
        let all = part(bytes, offset, u64::from(size) * u64::from(count))?;
        (usize::from(count) <= SECTIONS_MAX).then_some((all, usize::from(size).max(1)))
    };
    let (segments, size) = table(32, 54, 56, 56)?;
    for segment in segments.chunks_exact(size) {
        part(bytes, u64_at(segment, 8)?, u64_at(segment, 32)?)?;
    }
    let (sections, size) = table(40, 58, 60, 64)?;
    for section in sections.chunks_exact(size) {
        if u32_at(section, 4)? != SECTION_TYPE_NOBITS {
            part(bytes, u64_at(section, 24)?, u64_at(section, 32)?)?;
        }
    }
    Some(())
}

/// The entries fill the length that the header says, one behind the other.
fn check_fatbin(bytes: &[u8]) -> Option<Image> {
    let header = u64::from(u16_at(bytes, 6)?);
    if header < FATBIN_HEADER_BYTES {
        return None;
    }
    let mut rest = part(bytes, header, u64_at(bytes, 8)?)?;
    let mut compressed = false;
    while !rest.is_empty() {
        let (kind, header) = (u16_at(rest, 0)?, u64::from(u32_at(rest, 4)?));
        let (payload_bytes, used) = (u64_at(rest, 8)?, u64::from(u32_at(rest, 16)?));
        let flags = u64_at(rest, 40)?;
        if header < ENTRY_HEADER_BYTES || used > payload_bytes {
            return None;
        }
        let payload = part(rest, header, payload_bytes)?;
        if flags & ENTRY_COMPRESSED != 0 {
            compressed = true;
        } else if kind == ENTRY_KIND_ELF {
            check_elf(payload)?;
        }
        let taken = usize::try_from(header.checked_add(payload_bytes)?).ok()?;
        rest = rest.get(taken..)?;
    }
    Some(Image::Fatbin { compressed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fatbin(entries: &[(u16, u64, &[u8])]) -> Vec<u8> {
        let mut body = Vec::new();
        for (kind, flags, payload) in entries {
            let mut header = [0u8; 64];
            header[0..2].copy_from_slice(&kind.to_le_bytes());
            header[4..8].copy_from_slice(&64u32.to_le_bytes());
            header[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
            header[40..48].copy_from_slice(&flags.to_le_bytes());
            body.extend_from_slice(&header);
            body.extend_from_slice(payload);
        }
        let mut image = FATBIN_MAGIC.to_vec();
        image.extend_from_slice(&[1, 0, 16, 0]);
        image.extend_from_slice(&(body.len() as u64).to_le_bytes());
        image.extend(body);
        image
    }

    #[test]
    fn kinds_are_distinguished() {
        assert_eq!(Image::check(b".version 8.0\n.target sm_80\n\0\0"), Ok(Image::Text));
        assert_eq!(Image::check(b"// made by hand\n.version 8.0"), Ok(Image::Text));
        let image = fatbin(&[(1, 0, b".version 8.0\0")]);
        assert_eq!(Image::check(&image), Ok(Image::Fatbin { compressed: false }));
        let image = fatbin(&[(1, 0x8000, b"\x28\xb5\x2f\xfd")]);
        assert_eq!(Image::check(&image), Ok(Image::Fatbin { compressed: true }));
    }

    #[test]
    fn what_holds_a_pointer_or_reaches_out_is_refused() {
        let wrapper = 0x4662_43B1u32.to_le_bytes();
        let mut long = fatbin(&[(1, 0, b"text")]);
        long[8] += 1;
        let mut entry = fatbin(&[(1, 0, b"text")]);
        entry[16 + 8] = 200;
        let elf = [ELF_MAGIC.as_slice(), &[2; 60]].concat();
        for bad in [&b""[..], b"\0", &wrapper, &long, &entry, &elf, b"\x7fELF", b"BC\xc0\xde\x01"] {
            assert_eq!(Image::check(bad), Err(CudaError::INVALID_IMAGE), "{bad:?}");
        }
    }

    #[test]
    fn images_that_may_print_say_so() {
        let text = b".extern .func vprintf";
        assert!(Image::Text.may_print(text));
        assert!(!Image::Text.may_print(b".version 8.0"));
        assert!(Image::Fatbin { compressed: true }.may_print(b""));
    }

    /// An ELF file of two headers, of a section or of a segment, whose table begins at 64.
    fn elf(of_segments: bool, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let each: u16 = if of_segments { 56 } else { 64 };
        let mut file = ELF_MAGIC.to_vec();
        file.resize(64 + 2 * usize::from(each), 0);
        file[4] = 2;
        let (table, size) = if of_segments { (32, 54) } else { (40, 58) };
        file[table..table + 8].copy_from_slice(&64u64.to_le_bytes());
        file[size..size + 2].copy_from_slice(&each.to_le_bytes());
        file[size + 2] = 2;
        change(&mut file);
        file
    }

    #[test]
    fn sections_and_segments_lie_in_the_file() {
        // Where the second header has its content's offset and length.
        for (of_segments, offset, bytes) in [(true, 128, 152), (false, 152, 160)] {
            let length = elf(of_segments, |_| ()).len() as u64;
            let with = |at: u64, count: u64| {
                let image = elf(of_segments, |file| {
                    file[offset..offset + 8].copy_from_slice(&at.to_le_bytes());
                    file[bytes..bytes + 8].copy_from_slice(&count.to_le_bytes());
                });
                let inside = fatbin(&[(ENTRY_KIND_ELF, 0, &image)]);
                assert_eq!(Image::check(&inside).is_ok(), Image::check(&image).is_ok());
                Image::check(&image)
            };
            let bad = Err(CudaError::INVALID_IMAGE);
            assert_eq!((with(0, length), with(length, 0)), (Ok(Image::Elf), Ok(Image::Elf)));
            assert_eq!((with(0, length + 1), with(length, 1)), (bad, bad));
            assert_eq!(with(u64::MAX, 2), bad);
            // Headers that are too short, and a table that reaches out.
            let size = if of_segments { 54 } else { 58 };
            for (at, value) in [(size, 40), (size + 2, 3)] {
                assert_eq!(Image::check(&elf(of_segments, |file| file[at] = value)), bad);
            }
        }
        // A section without bytes in the file may be of any size.
        let zeros = elf(false, |file| {
            file[132] = SECTION_TYPE_NOBITS as u8;
            file[160..168].fill(0xff);
        });
        assert_eq!(Image::check(&zeros), Ok(Image::Elf));
    }

    #[test]
    fn entries_have_whole_headers_and_use_what_they_have() {
        let text = || fatbin(&[(1, 0, b"text"), (1, 0, b"more")]);
        for (at, value) in [(16 + 4, 60), (16 + 4, 0), (16 + 16, 5)] {
            let mut image = text();
            image[at] = value;
            assert_eq!(Image::check(&image), Err(CudaError::INVALID_IMAGE), "{at} {value}");
        }
        let mut image = text();
        image[16 + 16] = 4;
        assert_eq!(Image::check(&image), Ok(Image::Fatbin { compressed: false }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            magic in prop::sample::select(vec![&ELF_MAGIC[..], &FATBIN_MAGIC[..], b""]),
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let _ = Image::check(&[magic, &bytes].concat());
        }

        #[test]
        fn no_change_of_a_header_makes_it_panic(at in 0usize..96, byte: u8) {
            let elf = [ELF_MAGIC.as_slice(), &[2], &[0; 100]].concat();
            let mut image = fatbin(&[(2, 0, &elf), (1, 0, b"text")]);
            image[at] = byte;
            let _ = Image::check(&image);
        }
    }
}
