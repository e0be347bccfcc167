//! Images: what a pointer without a length leads to, as cuModuleLoadData and its kin take one.
//!
//! An image is one of: a fatbin wrapper (as nvcc puts into programs), a fatbin, an ELF cubin, or PTX text
//! that ends with a NUL. All reading is through the program's pointer, at the program's word, no further
//! than the lengths in the headers say ([`ptx::image`]).

use channel::memfd::IMAGE_BYTES_MAX;
use cuda_api::CudaError;
use cuda_api::link::LINK_INPUTS_MAX;
use cuda_api::pointer::{FromProgram, In};
use ptx::image::{self, Image, ImageKind, Memory};
use std::borrow::Cow;
use std::marker::PhantomData;

/// The program's memory from an image's start on.
pub struct ProgramMemory<'a>(In<u8>, PhantomData<&'a [u8]>);

impl<'a> ProgramMemory<'a> {
    /// The image at an address.
    ///
    /// # Safety
    /// If not NULL, an image of one of the kinds above is there, unchanged for `'a`, as is what it leads to.
    pub unsafe fn new(at: In<u8>) -> Self {
        Self(at, PhantomData)
    }

    /// As many of the image's bytes as [`image::measure`] found.
    pub fn bytes(&self, bytes: usize) -> Result<&'a [u8], CudaError> {
        // SAFETY: the image says how long it is, and by `new` it is there.
        unsafe { self.0.slice(bytes) }
    }

    /// What is at an address that the image has.
    fn leads_to<T>(address: u64) -> In<T> {
        // SAFETY: by `new`.
        unsafe { (address as *const T).believe() }
    }

    /// The fatbin at an address that a wrapper gave. CUDA_ERROR_INVALID_IMAGE if none is there.
    pub fn fatbin_at(&self, address: u64) -> Result<&'a [u8], CudaError> {
        let mut fatbin = Self(Self::leads_to(address), PhantomData);
        match image::measure(&mut fatbin) {
            Ok(Image::Whole { kind: ImageKind::Fatbin, bytes }) => fatbin.bytes(bytes),
            _ => Err(CudaError::INVALID_IMAGE),
        }
    }

    /// The fatbins of a list of addresses that 0 ends: those that were linked to make a wrapper's own.
    /// CUDA_ERROR_INVALID_IMAGE for more than can be linked.
    pub fn linked_fatbins(&self, list: u64) -> Result<Vec<&'a [u8]>, CudaError> {
        let mut fatbins = Vec::new();
        let addresses = Self::leads_to::<u64>(list).array(LINK_INPUTS_MAX + 1);
        loop {
            match addresses.at(fatbins.len()).map_err(|_| CudaError::INVALID_IMAGE)? {
                0 => return Ok(fatbins),
                _ if fatbins.len() >= LINK_INPUTS_MAX => return Err(CudaError::INVALID_IMAGE),
                address => fatbins.push(self.fatbin_at(address)?),
            }
        }
    }
}

impl Memory for ProgramMemory<'_> {
    fn read(&mut self, offset: u64, out: &mut [u8]) -> bool {
        let (Ok(offset), false) = (usize::try_from(offset), self.0.is_null()) else { return false };
        if offset > 0 || out.len() > 4 {
            // By what the image says, the bytes are there.
            let Some(end) = offset.checked_add(out.len()) else { return false };
            let copy = |image: &[u8]| out.copy_from_slice(&image[offset..]);
            return self.0.with_bytes(end, usize::MAX, copy).is_ok();
        }
        // The first bytes tell the kind; text may be shorter, and is read no further than its NUL.
        out.fill(0);
        let first = self.0.array(out.len()).iter().map_while(Result::ok);
        for (to, byte) in out.iter_mut().zip(first) {
            *to = byte;
            if byte == 0 {
                break;
            }
        }
        true
    }

    fn text_length(&mut self, limit: usize) -> Option<usize> {
        // SAFETY: text ends with a NUL (by the manual), beyond which strnlen does not look.
        let length = unsafe { libc::strnlen(self.0.pointer().cast(), limit + 1) };
        (length <= limit).then_some(length)
    }
}

/// The image at the address that a program passed, whole: a wrapper's fatbin, or, if that has nothing,
/// the fatbins that were linked to make it, packed to be linked by the device. CUDA_ERROR_INVALID_VALUE
/// for NULL, CUDA_ERROR_INVALID_IMAGE for headers that make no sense, CUDA_ERROR_NO_BINARY_FOR_GPU for
/// those of a fatbin: nothing in it is for the device. Anything else is text, which the device judges.
///
/// # Safety
/// As for [`ProgramMemory::new`].
pub unsafe fn image_at<'a>(at: In<u8>) -> Result<Cow<'a, [u8]>, CudaError> {
    if at.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: by contract.
    let mut memory = unsafe { ProgramMemory::<'a>::new(at) };
    let mut first = [0; 4];
    memory.read(0, &mut first);
    let measured = match image::kind_of(&first) {
        Some(ImageKind::Fatbin) => {
            image::measure(&mut memory).map_err(|_| CudaError::NO_BINARY_FOR_GPU)
        }
        Some(ImageKind::Elf | ImageKind::Wrapper) => {
            image::measure(&mut memory).map_err(|_| CudaError::INVALID_IMAGE)
        }
        Some(ImageKind::Ptx) | None => {
            let text = memory.text_length(IMAGE_BYTES_MAX as usize - 1);
            let whole = |bytes| Image::Whole { kind: ImageKind::Ptx, bytes: bytes + 1 };
            text.map(whole).ok_or(CudaError::INVALID_IMAGE)
        }
    };
    let wrapper = match measured? {
        Image::Whole { kind: ImageKind::Fatbin, bytes } if bytes as u64 > IMAGE_BYTES_MAX => {
            return Err(CudaError::NO_BINARY_FOR_GPU);
        }
        Image::Whole { bytes, .. } if bytes as u64 > IMAGE_BYTES_MAX => {
            return Err(CudaError::INVALID_IMAGE);
        }
        Image::Whole { bytes, .. } => return memory.bytes(bytes).map(Cow::Borrowed),
        Image::Indirect(wrapper) => wrapper,
    };
    let whole = memory.fatbin_at(wrapper.data)?;
    // Of version 2 it leads to the fatbins that were linked to make this one.
    if whole.len() > ptx::fatbin::HEADER_BYTES || wrapper.version != 2 || wrapper.second == 0 {
        return Ok(Cow::Borrowed(whole));
    }
    let packed = cuda_api::link::pack(memory.linked_fatbins(wrapper.second)?.into_iter());
    match packed.len() as u64 <= IMAGE_BYTES_MAX {
        true => Ok(Cow::Owned(packed)),
        false => Err(CudaError::INVALID_IMAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx::fatbin::{FATBIN_MAGIC, WRAPPER_MAGIC};

    fn image_of(bytes: &[u8]) -> Result<Cow<'_, [u8]>, CudaError> {
        // SAFETY: each test image is as long as its headers say, and leads to what is alive.
        unsafe { image_at(bytes.as_ptr().believe()) }
    }

    fn length(bytes: &[u8]) -> Result<usize, CudaError> {
        image_of(bytes).map(|image| image.len())
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
        assert_eq!(length(b"ab\0"), Ok(3), "shorter than the word that tells the kind");
        assert_eq!(length(b"\0"), Ok(1));
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { image_at(In::null()) }, Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn a_fatbin_says_how_long_it_is_also_through_its_wrapper() {
        let bytes = fatbin(100);
        assert_eq!(length(&bytes), Ok(116));
        let mut wrapper = WRAPPER_MAGIC.to_le_bytes().to_vec();
        wrapper.extend(1u32.to_le_bytes());
        wrapper.extend((bytes.as_ptr() as u64).to_le_bytes());
        wrapper.extend(0u64.to_le_bytes());
        let image = image_of(&wrapper).unwrap();
        assert!(matches!(image, Cow::Borrowed(_)));
        assert_eq!((image.as_ptr(), image.len()), (bytes.as_ptr(), 116));
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
        assert_eq!(image_of(&wrapper), Ok(Cow::Owned(packed)));
        // One that has code of its own is taken as it is.
        let full = fatbin(100);
        wrapper[8..16].copy_from_slice(&(full.as_ptr() as u64).to_le_bytes());
        assert_eq!(length(&wrapper), Ok(116));
    }

    #[test]
    fn an_elf_file_ends_where_its_furthest_part_ends() {
        let mut elf = vec![0u8; 64 + 2 * 64];
        elf[..4].copy_from_slice(b"\x7fELF");
        // Of 64 bits, little-endian, for CUDA.
        (elf[4], elf[5], elf[18]) = (2, 1, 190);
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
        // A segment counts as well.
        elf.resize(192 + 56, 0);
        elf[0x20..0x28].copy_from_slice(&192u64.to_le_bytes());
        (elf[0x36], elf[0x38]) = (56, 1);
        elf[192 + 8..192 + 16].copy_from_slice(&4096u64.to_le_bytes());
        elf[192 + 32..192 + 40].copy_from_slice(&4u64.to_le_bytes());
        assert_eq!(length(&elf), Ok(4100));
        elf[4] = 1;
        assert_eq!(length(&elf), Err(CudaError::INVALID_IMAGE));
    }
}
