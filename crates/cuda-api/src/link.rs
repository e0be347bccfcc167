//! What a program's cuLink* calls put together.
//!
//! Not a linker: one input is handed back as it came, several are packed into a fat binary of a
//! kind of entry of our own, and the device that loads the image links and compiles it. That needs
//! PTX: text, or what has some in it (fat binaries, object files, libraries). A cubin among several
//! inputs is CUDA_ERROR_NOT_SUPPORTED. The software GPU links; a server on NVIDIA's driver has that
//! one link before it loads the image, which only other programs than the server cannot use. The most registers that a program allows
//! (CU_JIT_MAX_REGISTERS) are written into PTX text as `.maxnreg`, which any device heeds.
//!
//! Invariant: a finished image ends with a NUL or says its length, so that it can be loaded by its
//! address.

use crate::CudaError;
use alloc::vec::Vec;

/// Largest input, bytes: as for images that are loaded.
pub const LINK_INPUT_BYTES_MAX: usize = 1 << 30;
/// Most inputs of one image: programs have one a source file.
pub const LINK_INPUTS_MAX: usize = 4096;

/// Kind of a fat binary's entry that is an input for linking. NVIDIA's kinds are small numbers and
/// powers of two.
pub const LINK_INPUT_ENTRY: u16 = 0x6d6c;

/// CUjitInputType: a cubin.
const CUBIN: u32 = 0;
/// CUjitInputType: PTX text.
const PTX: u32 = 1;
/// CUjitInputType: a fat binary.
const FATBINARY: u32 = 2;
/// CUjitInputType: an object file.
const OBJECT: u32 = 3;
/// CUjitInputType: an archive of object files.
const LIBRARY: u32 = 4;
/// CUjitInputType: the largest that cuda.h knows (NVVM IR).
const LAST: u32 = 5;

/// One CUlinkState.
#[derive(Debug, Default)]
pub struct Link {
    inputs: Vec<(u32, Vec<u8>)>,
    registers_max: Option<u32>,
    image: Option<Vec<u8>>,
}

impl Link {
    /// A link whose kernels may have so many registers a thread.
    pub fn new(registers_max: Option<u32>) -> Self {
        Self { registers_max, ..Self::default() }
    }

    /// Adds an input of that CUjitInputType. CUDA_ERROR_INVALID_VALUE for an empty or too long
    /// input, one too many, an unknown type, or after [`Link::complete`];
    /// CUDA_ERROR_NOT_SUPPORTED for types that cannot be linked.
    pub fn add(&mut self, kind: u32, bytes: &[u8]) -> Result<(), CudaError> {
        let full = self.image.is_some() || self.inputs.len() >= LINK_INPUTS_MAX;
        if full || kind > LAST || bytes.is_empty() || bytes.len() > LINK_INPUT_BYTES_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        let alone = self.inputs.is_empty();
        let all_may_have_ptx =
            may_have_ptx(kind) && self.inputs.iter().all(|(kind, _)| may_have_ptx(*kind));
        if !(all_may_have_ptx || alone && kind == CUBIN) {
            return Err(CudaError::NOT_SUPPORTED);
        }
        let bytes = match self.registers_max {
            Some(registers) if kind == PTX => with_registers_max(bytes, registers),
            _ => bytes.to_vec(),
        };
        self.inputs.push((kind, bytes));
        Ok(())
    }

    /// The image: at the same address until the state is dropped. CUDA_ERROR_INVALID_VALUE if
    /// nothing was added.
    pub fn complete(&mut self) -> Result<&[u8], CudaError> {
        if self.image.is_none() {
            self.image = Some(match self.inputs.as_mut_slice() {
                [] => return Err(CudaError::INVALID_VALUE),
                [(CUBIN | PTX | FATBINARY, only)] => {
                    let mut image = core::mem::take(only);
                    if image.last() != Some(&0) {
                        image.push(0);
                    }
                    image
                }
                several => pack(several.iter().map(|(_, bytes)| bytes.as_slice())),
            });
            self.inputs.clear();
        }
        self.image.as_deref().ok_or(CudaError::INVALID_VALUE)
    }
}

fn may_have_ptx(kind: u32) -> bool {
    matches!(kind, PTX | FATBINARY | OBJECT | LIBRARY)
}

/// PTX text with `.maxnreg` before each kernel's body that does not say anything about registers.
fn with_registers_max(text: &[u8], registers: u32) -> Vec<u8> {
    const ENTRY: &[u8] = b".entry";
    const SAYS: [&[u8]; 2] = [b".maxnreg", b".minnctapersm"];
    let mut new = Vec::with_capacity(text.len());
    // Where a kernel's head begins whose end was not reached.
    let mut head = None;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let skipped = match rest {
            [b'/', b'/', ..] => length_until(rest, 2, b"\n"),
            [b'/', b'*', ..] => length_until(rest, 2, b"*/"),
            [b'"', ..] => length_until(rest, 1, b"\""),
            _ => 1,
        };
        if rest.starts_with(ENTRY) && rest.get(ENTRY.len()).is_some_and(u8::is_ascii_whitespace) {
            head = Some(at);
        }
        if let Some(start) = head
            && matches!(rest[0], b'{' | b';')
        {
            let directives = &text[start..at];
            let says = |word: &[u8]| directives.windows(word.len()).any(|part| part == word);
            if rest[0] == b'{' && !SAYS.into_iter().any(says) {
                new.extend_from_slice(alloc::format!(".maxnreg {registers}\n").as_bytes());
            }
            head = None;
        }
        new.extend_from_slice(&rest[..skipped]);
        at += skipped;
    }
    new
}

/// Length of a text up to and with an end that is looked for from an offset on; all of it if there
/// is none.
fn length_until(text: &[u8], offset: usize, end: &[u8]) -> usize {
    let found = text[offset..].windows(end.len()).position(|part| part == end);
    found.map_or(text.len(), |position| offset + position + end.len())
}

const MAGIC: u32 = 0xba55_ed50;
const HEADER_BYTES: usize = 16;
const ENTRY_HEADER_BYTES: usize = 64;

/// The inputs of an image that [`pack`] made; `None` for any other.
pub fn unpack(image: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = image.strip_prefix(&MAGIC.to_le_bytes())?.get(HEADER_BYTES - 4..)?;
    let mut inputs = Vec::new();
    while let Some((header, content)) = rest.split_at_checked(ENTRY_HEADER_BYTES) {
        let number = |at: usize, bytes: usize| {
            header[at..at + bytes]
                .iter()
                .rev()
                .fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        if number(0, 2) != u64::from(LINK_INPUT_ENTRY) || inputs.len() == LINK_INPUTS_MAX {
            break;
        }
        let (padded, length) = (usize::try_from(number(8, 8)).ok()?, number(16, 4) as usize);
        let (content, behind) = content.split_at_checked(padded)?;
        inputs.push(content.get(..length)?);
        rest = behind;
    }
    (!inputs.is_empty()).then_some(inputs)
}

/// A fat binary of inputs for linking, each an entry of the kind [`LINK_INPUT_ENTRY`].
pub fn pack<'a>(inputs: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut image = Vec::from(MAGIC.to_le_bytes());
    image.extend_from_slice(&1u16.to_le_bytes());
    image.extend_from_slice(&(HEADER_BYTES as u16).to_le_bytes());
    image.extend_from_slice(&[0; 8]);
    for input in inputs {
        let padded = input.len().next_multiple_of(8);
        let mut header = [0u8; ENTRY_HEADER_BYTES];
        header[..2].copy_from_slice(&LINK_INPUT_ENTRY.to_le_bytes());
        header[2..4].copy_from_slice(&0x0101u16.to_le_bytes());
        header[4..8].copy_from_slice(&(ENTRY_HEADER_BYTES as u32).to_le_bytes());
        header[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        // What follows is padding. Inputs are below 4 GiB.
        header[16..20].copy_from_slice(&(input.len() as u32).to_le_bytes());
        image.extend_from_slice(&header);
        image.extend_from_slice(input);
        image.resize(image.len() + padded - input.len(), 0);
    }
    let content = (image.len() - HEADER_BYTES) as u64;
    image[8..HEADER_BYTES].copy_from_slice(&content.to_le_bytes());
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_input_comes_back_with_a_nul() {
        let mut link = Link::default();
        assert_eq!(link.complete().err(), Some(CudaError::INVALID_VALUE));
        link.add(PTX, b".version 9.0").unwrap();
        assert_eq!(link.complete().unwrap(), b".version 9.0\0");
        assert_eq!(link.complete().unwrap(), b".version 9.0\0");
        assert_eq!(link.add(PTX, b"more"), Err(CudaError::INVALID_VALUE));
        let mut ended = Link::default();
        ended.add(PTX, b"text\0").unwrap();
        assert_eq!(ended.complete().unwrap(), b"text\0");
    }

    #[test]
    fn registers_are_limited_in_each_kernel_that_does_not_say_more() {
        let text = ".version 7.0\n// .entry no {\n.visible .entry a(.param .u64 x)\n.maxntid 64\n{ ret; }\n\
                    .entry b() .maxnreg 20 { ret; }\n/* .entry { */ .extern .entry c();\n\
                    .func f() { ret; } .entry d { ret; }\0";
        let mut link = Link::new(Some(38));
        link.add(PTX, text.as_bytes()).unwrap();
        let expected = text
            .replace(".maxntid 64\n{", ".maxntid 64\n.maxnreg 38\n{")
            .replace(".entry d {", ".entry d .maxnreg 38\n{");
        assert_eq!(link.complete().unwrap(), expected.as_bytes());
        for broken in [".entry", "/* .entry x", "\"", "//", ".entry x("] {
            assert_eq!(with_registers_max(broken.as_bytes(), 1), broken.as_bytes());
        }
    }

    #[test]
    fn several_inputs_are_packed_one_behind_the_other() {
        let mut link = Link::default();
        link.add(PTX, b"first").unwrap();
        link.add(FATBINARY, b"second one").unwrap();
        let image = link.complete().unwrap().to_vec();
        assert_eq!(image.len(), 16 + 64 + 8 + 64 + 16);
        assert_eq!(image[8..16], (image.len() as u64 - 16).to_le_bytes());
        assert_eq!(image[16..18], LINK_INPUT_ENTRY.to_le_bytes());
        assert_eq!(&image[80..88], b"first\0\0\0");
        assert_eq!(&image[152..162], b"second one");
        assert_eq!(unpack(&image).unwrap(), [b"first".as_slice(), b"second one"]);
        for cut in 0..image.len() {
            // What is cut off is not made up.
            let parts = unpack(&image[..cut]).unwrap_or_default();
            assert!(parts.iter().all(|part| [b"first".as_slice(), b"second one"].contains(part)));
        }
        assert_eq!(unpack(b".version 9.0"), None);
        assert_eq!(link.complete().unwrap(), image);
    }

    #[test]
    fn what_is_no_ptx_is_not_linked() {
        let mut link = Link::default();
        assert_eq!(link.add(PTX, b""), Err(CudaError::INVALID_VALUE));
        assert_eq!(link.add(LAST + 1, b"x"), Err(CudaError::INVALID_VALUE));
        assert_eq!(link.add(LAST, b"NVVM"), Err(CudaError::NOT_SUPPORTED));
        link.add(CUBIN, b"first").unwrap();
        assert_eq!(link.add(PTX, b"second"), Err(CudaError::NOT_SUPPORTED));
        assert_eq!(link.complete().unwrap(), b"first\0");
        // An object file is no image by itself.
        let mut object = Link::default();
        object.add(OBJECT, b"object").unwrap();
        assert_eq!(object.complete().unwrap()[16..18], LINK_INPUT_ENTRY.to_le_bytes());
    }
}
