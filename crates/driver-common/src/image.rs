//! How long an image is: cuModuleLoadData and its kin take a pointer without a length.
//!
//! Only lengths are read here, from headers; what is inside is the server's business. An image is
//! one of: a fatbin wrapper (as nvcc puts into programs), a fatbin, an ELF cubin, or PTX text that
//! ends with a NUL. All reading is through the program's pointer, at the program's word, no
//! further than the lengths in the headers say.

use channel::memfd::IMAGE_BYTES_MAX;
use cuda_api::CudaError;

const WRAPPER_MAGIC: u32 = 0x4662_43b1;
const FATBIN_MAGIC: u32 = 0xba55_ed50;
const FATBIN_MAGIC_OLD: u32 = 0x1ee5_5a01;
const FATBIN_HEADER_BYTES: u64 = 16;
const ELF_MAGIC: u32 = u32::from_le_bytes(*b"\x7fELF");

/// Most fatbins of a program that is linked when it is loaded: as many as can be linked.
const FATBINS_MAX: usize = cuda_api::link::LINK_INPUTS_MAX;

/// An image that a program passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    /// In the program's memory, so many bytes.
    InPlace { address: *const u8, bytes: usize },
    /// Several fatbins, packed to be linked by the device.
    Packed(Vec<u8>),
}

/// Reads a `T` at an offset from the start of an image.
///
/// # Safety
/// The image is at least `offset + size_of::<T>()` bytes long.
unsafe fn read<T: Copy>(image: *const u8, offset: usize) -> T {
    // SAFETY: by this function's contract the bytes are there; T is a plain integer here.
    unsafe { image.add(offset).cast::<T>().read_unaligned() }
}

impl Image {
    /// The image at the address that a program passed. CUDA_ERROR_INVALID_VALUE for NULL,
    /// CUDA_ERROR_INVALID_IMAGE for headers that make no sense, CUDA_ERROR_NO_BINARY_FOR_GPU for
    /// those of a fatbin.
    ///
    /// # Safety
    /// If not NULL, `address` is that of an image of one of the kinds above, unchanged for as
    /// long as the result is used.
    pub(crate) unsafe fn at(address: *const u8) -> Result<Self, CudaError> {
        if address.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // Shorter than 4 bytes only text can be; it is read byte by byte.
        // SAFETY: by contract there is an image, and text is read no further than its NUL.
        let magic = unsafe { leading_word(address) };
        let bytes = match magic {
            WRAPPER_MAGIC => {
                // SAFETY: a wrapper is 24 bytes long, with the fatbin's address at 8.
                let data = unsafe { read::<*const u8>(address, 8) };
                if data.is_null() {
                    return Err(CudaError::INVALID_IMAGE);
                }
                // SAFETY: what a wrapper leads to is an image by the program's word.
                let magic = unsafe { leading_word(data) };
                // A wrapper leads to a fatbin, never to another wrapper: one step only.
                if !matches!(magic, FATBIN_MAGIC | FATBIN_MAGIC_OLD) {
                    return Err(CudaError::INVALID_IMAGE);
                }
                // SAFETY: a fatbin starts there.
                let bytes = unsafe { fatbin_bytes(data) };
                // SAFETY: the version is at 4 of the wrapper's 24 bytes, another address at 16.
                let (version, parts) =
                    unsafe { (read::<u32>(address, 4), read::<*const *const u8>(address, 16)) };
                // Of version 2 it leads to the fatbins that were linked to make this one.
                let parts = if version == 2 { parts } else { core::ptr::null() };
                if bytes == Some(FATBIN_HEADER_BYTES) && !parts.is_null() {
                    // SAFETY: the program vouches for the array.
                    return unsafe { Self::pack(parts) };
                }
                return Self::checked(data, bytes);
            }
            FATBIN_MAGIC | FATBIN_MAGIC_OLD => {
                // SAFETY: a fatbin starts there.
                let bytes = unsafe { fatbin_bytes(address) };
                // With lengths that make no sense nothing in it is for the device.
                return Self::checked(address, bytes).map_err(|_| CudaError::NO_BINARY_FOR_GPU);
            }
            // SAFETY: an ELF file starts there.
            ELF_MAGIC => unsafe { elf_bytes(address) },
            // SAFETY: anything else is text that ends with a NUL.
            _ => unsafe { text_bytes(address) },
        };
        Self::checked(address, bytes)
    }

    /// The fatbins of an array of addresses that NULL ends. Only their PTX can be linked, so this
    /// is for programs whose compiler left no machine code.
    ///
    /// # Safety
    /// The array ends with NULL, and before that leads to fatbins.
    unsafe fn pack(parts: *const *const u8) -> Result<Self, CudaError> {
        let mut fatbins = Vec::new();
        loop {
            // SAFETY: within the array, whose end was not met yet.
            let part = unsafe { parts.add(fatbins.len()).read_unaligned() };
            if part.is_null() {
                break;
            }
            // SAFETY: a fatbin starts there.
            let (magic, bytes) = unsafe { (leading_word(part), fatbin_bytes(part)) };
            if magic != FATBIN_MAGIC || fatbins.len() >= FATBINS_MAX {
                return Err(CudaError::INVALID_IMAGE);
            }
            fatbins.push(Self::checked(part, bytes)?);
        }
        // SAFETY: the fatbins are where they were a moment ago.
        let parts = fatbins.iter().map(|fatbin| unsafe { fatbin.bytes() });
        let packed = cuda_api::link::pack(parts);
        match packed.len() as u64 <= IMAGE_BYTES_MAX {
            true => Ok(Self::Packed(packed)),
            false => Err(CudaError::INVALID_IMAGE),
        }
    }

    fn checked(address: *const u8, bytes: Option<u64>) -> Result<Self, CudaError> {
        match bytes {
            Some(bytes) if bytes > 0 && bytes <= IMAGE_BYTES_MAX => {
                Ok(Self::InPlace { address, bytes: bytes as usize })
            }
            _ => Err(CudaError::INVALID_IMAGE),
        }
    }

    /// Its bytes.
    ///
    /// # Safety
    /// The image is still where it was when this value was made, and unchanged.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: address and length come from the headers of an image that the program
            // vouches for.
            Self::InPlace { address, bytes } => unsafe {
                core::slice::from_raw_parts(*address, *bytes)
            },
            Self::Packed(bytes) => bytes,
        }
    }
}

/// The first four bytes, or fewer if a NUL ends a text before.
///
/// # Safety
/// An image starts at `address`.
unsafe fn leading_word(address: *const u8) -> u32 {
    let mut bytes = [0u8; 4];
    for (i, byte) in bytes.iter_mut().enumerate() {
        // SAFETY: binary images are longer than 4 bytes; text is not read past its NUL.
        *byte = unsafe { address.add(i).read() };
        if *byte == 0 {
            break;
        }
    }
    u32::from_le_bytes(bytes)
}

/// # Safety
/// A fatbin header (16 bytes) is at `address`.
unsafe fn fatbin_bytes(address: *const u8) -> Option<u64> {
    // SAFETY: by contract 16 bytes are there.
    let (header, data) = unsafe { (read::<u16>(address, 6), read::<u64>(address, 8)) };
    u64::from(header.max(16)).checked_add(data)
}

/// The end of the part that reaches furthest: a header, a segment or a section.
///
/// # Safety
/// An ELF file starts at `address`, with its tables where its header says.
unsafe fn elf_bytes(address: *const u8) -> Option<u64> {
    const CLASS_64: u8 = 2;
    const SECTION_WITHOUT_BYTES: u32 = 8;
    // SAFETY: an ELF identification is 16 bytes, a 64-bit ELF header 64.
    unsafe {
        if read::<u8>(address, 4) != CLASS_64 {
            return None;
        }
        let (segments, sections) = (read::<u64>(address, 0x20), read::<u64>(address, 0x28));
        let (segment_size, segment_count) =
            (read::<u16>(address, 0x36), read::<u16>(address, 0x38));
        let (section_size, section_count) =
            (read::<u16>(address, 0x3a), read::<u16>(address, 0x3c));
        if (segment_count > 0 && segment_size < 56) || (section_count > 0 && section_size < 64) {
            return None;
        }
        let table = |at: u64, size: u16, count: u16| {
            at.checked_add(u64::from(size) * u64::from(count)).filter(|end| *end <= IMAGE_BYTES_MAX)
        };
        let mut end = 64;
        if segment_count > 0 {
            end = end.max(table(segments, segment_size, segment_count)?);
        }
        if section_count > 0 {
            end = end.max(table(sections, section_size, section_count)?);
        }
        for i in 0..u64::from(segment_count) {
            let at = (segments + i * u64::from(segment_size)) as usize;
            end = end.max(read::<u64>(address, at + 8).checked_add(read::<u64>(address, at + 32))?);
        }
        for i in 0..u64::from(section_count) {
            let at = (sections + i * u64::from(section_size)) as usize;
            if read::<u32>(address, at + 4) != SECTION_WITHOUT_BYTES {
                let (offset, bytes) =
                    (read::<u64>(address, at + 24), read::<u64>(address, at + 32));
                end = end.max(offset.checked_add(bytes)?);
            }
        }
        Some(end)
    }
}

/// Length of a text with its NUL.
///
/// # Safety
/// A NUL-terminated text starts at `address`.
unsafe fn text_bytes(address: *const u8) -> Option<u64> {
    // SAFETY: by contract there is a NUL.
    Some(unsafe { core::ffi::CStr::from_ptr(address.cast()) }.count_bytes() as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(bytes: &[u8]) -> Result<usize, CudaError> {
        // SAFETY: each test image is as long as its headers say.
        unsafe { Image::at(bytes.as_ptr()).map(|image| image.bytes().len()) }
    }

    fn fatbin(payload: usize) -> Vec<u8> {
        let mut bytes = FATBIN_MAGIC.to_le_bytes().to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((payload as u64).to_le_bytes());
        bytes.resize(16 + payload, 7);
        bytes
    }

    #[test]
    fn text_ends_with_its_nul() {
        assert_eq!(length(b".version 8.0\n\0ignored"), Ok(14));
        assert_eq!(length(b"ab\0"), Ok(3));
        assert_eq!(length(b"\0"), Ok(1));
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { Image::at(core::ptr::null()) }, Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn a_fatbin_says_how_long_it_is_also_through_its_wrapper() {
        let bytes = fatbin(100);
        assert_eq!(length(&bytes), Ok(116));
        let mut wrapper = WRAPPER_MAGIC.to_le_bytes().to_vec();
        wrapper.extend(1u32.to_le_bytes());
        wrapper.extend((bytes.as_ptr() as u64).to_le_bytes());
        wrapper.extend(0u64.to_le_bytes());
        // SAFETY: the wrapper leads to `bytes`, which is alive.
        let image = unsafe { Image::at(wrapper.as_ptr()) }.unwrap();
        assert_eq!(image, Image::InPlace { address: bytes.as_ptr(), bytes: 116 });
        // A wrapper that leads to a wrapper is nonsense.
        let outer = [&wrapper[..8], &(wrapper.as_ptr() as u64).to_le_bytes(), &[0; 8]].concat();
        assert_eq!(length(&outer), Err(CudaError::INVALID_IMAGE));
        let mut huge = fatbin(0);
        huge[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(length(&huge), Err(CudaError::NO_BINARY_FOR_GPU));
    }

    #[test]
    fn what_was_linked_of_several_fatbins_and_is_empty_stands_for_them() {
        let (empty, one, two) = (fatbin(0), fatbin(24), fatbin(8));
        let parts = [one.as_ptr(), two.as_ptr(), core::ptr::null()];
        let mut wrapper = WRAPPER_MAGIC.to_le_bytes().to_vec();
        wrapper.extend(2u32.to_le_bytes());
        wrapper.extend((empty.as_ptr() as u64).to_le_bytes());
        wrapper.extend((parts.as_ptr() as u64).to_le_bytes());
        let packed = cuda_api::link::pack([one.as_slice(), &two].into_iter());
        // SAFETY: the wrapper leads to fatbins that are alive.
        assert_eq!(unsafe { Image::at(wrapper.as_ptr()) }, Ok(Image::Packed(packed)));
        // One that has code of its own is taken as it is.
        let full = fatbin(100);
        wrapper[8..16].copy_from_slice(&(full.as_ptr() as u64).to_le_bytes());
        assert_eq!(length(&wrapper), Ok(116));
    }

    #[test]
    fn an_elf_file_ends_where_its_furthest_part_ends() {
        let mut elf = vec![0u8; 64 + 2 * 64];
        elf[..4].copy_from_slice(b"\x7fELF");
        elf[4] = 2;
        elf[0x28..0x30].copy_from_slice(&64u64.to_le_bytes());
        elf[0x3a..0x3c].copy_from_slice(&64u16.to_le_bytes());
        elf[0x3c..0x3e].copy_from_slice(&2u16.to_le_bytes());
        assert_eq!(length(&elf), Ok(192));
        // The second section lies behind the section table.
        elf[128 + 4] = 1;
        elf[128 + 24..128 + 32].copy_from_slice(&192u64.to_le_bytes());
        elf[128 + 32..128 + 40].copy_from_slice(&1000u64.to_le_bytes());
        assert_eq!(length(&elf), Ok(1192));
        // A section without bytes in the file does not count.
        elf[128 + 4] = 8;
        assert_eq!(length(&elf), Ok(192));
        elf[4] = 1;
        assert_eq!(length(&elf), Err(CudaError::INVALID_IMAGE));
    }
}
