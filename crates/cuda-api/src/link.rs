//! What a program's cuLink* calls put together: one image that is PTX, a fat binary or a cubin.
//!
//! Not a linker: one input is handed back as it came, and the device that loads it compiles it.
//! Programs that compile at run time (Numba, cuda.core) link a single PTX text, which needs no
//! more. Several inputs, object files and libraries are CUDA_ERROR_NOT_SUPPORTED.
//!
//! Invariant: a finished image ends with a NUL, so that text in it can be loaded by its address.

use crate::CudaError;
use alloc::vec::Vec;

/// Largest input, bytes: as for images that are loaded.
pub const LINK_INPUT_BYTES_MAX: usize = 1 << 30;

/// CUjitInputType: a cubin.
const CUBIN: u32 = 0;
/// CUjitInputType: PTX text.
const PTX: u32 = 1;
/// CUjitInputType: a fat binary.
const FATBINARY: u32 = 2;
/// CUjitInputType: the largest that cuda.h knows (NVVM IR).
const LAST: u32 = 5;

/// One CUlinkState.
#[derive(Debug, Default)]
pub struct Link {
    image: Option<Vec<u8>>,
    complete: bool,
}

impl Link {
    /// Adds an input of that CUjitInputType. CUDA_ERROR_INVALID_VALUE for an empty or too long
    /// input, an unknown type, or after [`Link::complete`]; CUDA_ERROR_NOT_SUPPORTED for a second
    /// input and for types that would have to be linked.
    pub fn add(&mut self, kind: u32, bytes: &[u8]) -> Result<(), CudaError> {
        if self.complete || kind > LAST || bytes.is_empty() || bytes.len() > LINK_INPUT_BYTES_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        if !matches!(kind, CUBIN | PTX | FATBINARY) || self.image.is_some() {
            return Err(CudaError::NOT_SUPPORTED);
        }
        let mut image = Vec::with_capacity(bytes.len() + 1);
        image.extend_from_slice(bytes);
        if image.last() != Some(&0) {
            image.push(0);
        }
        self.image = Some(image);
        Ok(())
    }

    /// The image: at the same address until the state is dropped. CUDA_ERROR_INVALID_VALUE if
    /// nothing was added.
    pub fn complete(&mut self) -> Result<&[u8], CudaError> {
        let image = self.image.as_deref().ok_or(CudaError::INVALID_VALUE)?;
        self.complete = true;
        Ok(image)
    }
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
    fn what_would_have_to_be_linked_is_refused() {
        let mut link = Link::default();
        assert_eq!(link.add(PTX, b""), Err(CudaError::INVALID_VALUE));
        assert_eq!(link.add(LAST + 1, b"x"), Err(CudaError::INVALID_VALUE));
        assert_eq!(link.add(3, b"object"), Err(CudaError::NOT_SUPPORTED));
        link.add(FATBINARY, b"first").unwrap();
        assert_eq!(link.add(PTX, b"second"), Err(CudaError::NOT_SUPPORTED));
        assert_eq!(link.complete().unwrap(), b"first\0");
    }
}
