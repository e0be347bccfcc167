//! Pointers that a program passes, as types that need no further trust.
//!
//! A pointer that a program passes is good for what CUDA's manual says about that parameter; the
//! program's word for it is all there is, as with any driver library. It is taken at that word
//! once, where entry points turn arguments into [`In`] and [`Out`] ([`FromProgram`]); everything
//! behind them is checked code. NULL is always checked for.

use crate::CudaError;
use crate::types::*;
use core::ffi::{CStr, c_char, c_int, c_uint};

/// A pointer that the program passed to be read, of one or more `T`.
pub struct In<T>(*const T);

/// A pointer that the program passed to be written (some functions also read there).
pub struct Out<T>(*mut T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}
impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}

impl<T> In<T> {
    /// NULL.
    pub const fn null() -> Self {
        Self(core::ptr::null())
    }

    /// True for NULL.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The pointer itself.
    pub fn pointer(self) -> *const T {
        self.0
    }

    /// The address.
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// From element `index` on; callers stay within the count that the program gave.
    pub fn offset(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// The same address with a type that another parameter gave.
    pub fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }
}

impl<T: Copy> In<T> {
    /// What is there; CUDA_ERROR_INVALID_VALUE for NULL.
    pub fn get(self) -> Result<T, CudaError> {
        self.at(0)
    }

    /// Element `index` of the array there; CUDA_ERROR_INVALID_VALUE for NULL.
    pub fn at(self, index: usize) -> Result<T, CudaError> {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: whoever called `believe` vouches for the pointer; callers index within the count that
        // the program gave with it.
        Ok(unsafe { self.0.wrapping_add(index).read_unaligned() })
    }
}

impl In<u8> {
    /// The `bytes` bytes there, for the time of the call; CUDA_ERROR_INVALID_VALUE for NULL unless
    /// there are none, or for more than `limit`.
    pub fn slice<'call>(self, bytes: usize, limit: usize) -> Result<&'call [u8], CudaError> {
        if bytes == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() || bytes > limit {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: whoever called `believe` vouches for a buffer of the length given with it, unchanged
        // during the call.
        Ok(unsafe { core::slice::from_raw_parts(self.0, bytes) })
    }
}

/// Longest name or path taken from a program, bytes: PTX identifiers of mangled C++ names run to
/// a few KiB.
pub const TEXT_BYTES_MAX: usize = 32 << 10;

impl In<c_char> {
    /// The C string there, for the time of the call; CUDA_ERROR_INVALID_VALUE for NULL or an
    /// endless one.
    pub fn text<'call>(self) -> Result<&'call CStr, CudaError> {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: whoever called `believe` vouches for a NUL-terminated string, unchanged during the call.
        let text = unsafe { CStr::from_ptr(self.0) };
        match text.count_bytes() <= TEXT_BYTES_MAX {
            true => Ok(text),
            false => Err(CudaError::INVALID_VALUE),
        }
    }
}

impl<T> Out<T> {
    /// NULL.
    pub const fn null() -> Self {
        Self(core::ptr::null_mut())
    }

    /// The pointer itself.
    pub fn pointer(self) -> *mut T {
        self.0
    }

    /// True for NULL.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address.
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// The same pointer as one to read from.
    pub fn as_in(self) -> In<T> {
        In(self.0)
    }

    /// From element `index` on; callers stay within the count that the program gave.
    pub fn offset(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// The same address with a type that another parameter gave.
    pub fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// CUDA_ERROR_INVALID_VALUE for NULL: for functions that must not do anything then.
    pub fn required(self) -> CUresult {
        if self.0.is_null() { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
    }

    /// Stores a result; CUDA_ERROR_INVALID_VALUE for NULL.
    pub fn set(self, value: T) -> CUresult {
        self.set_at(0, value)
    }

    /// Stores a result at `index` of an array; CUDA_ERROR_INVALID_VALUE for NULL.
    pub fn set_at(self, index: usize, value: T) -> CUresult {
        self.required()?;
        // SAFETY: whoever called `believe` vouches for the pointer; callers index within the count that
        // the program gave with it.
        unsafe { self.0.wrapping_add(index).write_unaligned(value) };
        Ok(())
    }

    /// Stores a result if the program wants it.
    pub fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: whoever called `believe` vouches for a pointer that is not NULL.
            unsafe { self.0.write_unaligned(value) };
        }
    }
}

impl<T: Copy> Out<T> {
    /// What is there now; CUDA_ERROR_INVALID_VALUE for NULL.
    pub fn get(self) -> Result<T, CudaError> {
        self.as_in().get()
    }

    /// What is there now, element `index`; CUDA_ERROR_INVALID_VALUE for NULL.
    pub fn at(self, index: usize) -> Result<T, CudaError> {
        self.as_in().at(index)
    }
}

impl Out<c_char> {
    /// Stores text with its NUL in a buffer of `bytes`, cut to fit.
    pub fn set_text(self, bytes: usize, text: &[u8]) -> CUresult {
        self.required()?;
        let Some(room) = bytes.checked_sub(1) else { return Err(CudaError::INVALID_VALUE) };
        let text = &text[..text.len().min(room)];
        // SAFETY: whoever called `believe` vouches for a buffer of the length given with it, and the
        // text with its NUL was cut to that length.
        unsafe {
            self.0.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
            self.0.add(text.len()).write(0);
        }
        Ok(())
    }
}

/// An argument on its way in.
pub trait FromProgram {
    /// What our functions take.
    type Argument;

    /// Takes the argument at the program's word.
    ///
    /// # Safety
    /// A pointer is NULL or good for what CUDA's manual says of the parameter, until the call
    /// returns.
    unsafe fn believe(self) -> Self::Argument;
}

impl<T> FromProgram for *const T {
    type Argument = In<T>;
    #[inline(always)]
    unsafe fn believe(self) -> In<T> {
        In(self)
    }
}

impl<T> FromProgram for *mut T {
    type Argument = Out<T>;
    #[inline(always)]
    unsafe fn believe(self) -> Out<T> {
        Out(self)
    }
}

macro_rules! plain {
    ($($ty:ty),* $(,)?) => {$(
        impl FromProgram for $ty {
            type Argument = Self;
            #[inline(always)]
            unsafe fn believe(self) -> Self {
                self
            }
        }
    )*};
}

plain!(
    u8,
    u16,
    c_int,
    c_uint,
    u64,
    usize,
    CUcontext,
    CUmodule,
    CUfunction,
    CUlibrary,
    CUkernel,
    CUlinkState,
    CUgreenCtx,
    CUdevResourceDesc,
    CUstream,
    CUevent,
    CUmemoryPool,
    CUgraph,
    CUgraphNode,
    CUgraphExec,
    CUuserObject,
    CUarray,
    CUmipmappedArray,
    CUdeviceptr,
    CUmemLocation,
    CUipcMemHandle,
    CUipcEventHandle,
    CUhostFn,
    CUstreamCallback,
    CUoccupancyB2DSize,
    Option<crate::extension::PlaceManaged>,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_an_invalid_value() {
        // SAFETY: NULL is allowed.
        let (read, write) =
            unsafe { (core::ptr::null::<u32>().believe(), core::ptr::null_mut::<u32>().believe()) };
        assert_eq!(read.get(), Err(CudaError::INVALID_VALUE));
        assert_eq!(write.set(1), Err(CudaError::INVALID_VALUE));
        write.set_if_wanted(1);
    }

    #[test]
    fn text_is_cut_to_the_buffer_and_always_ended() {
        let mut buffer = [0x55 as c_char; 4];
        // SAFETY: the buffer is good for its length.
        let out = unsafe { buffer.as_mut_ptr().believe() };
        out.set_text(4, b"abcdef").unwrap();
        assert_eq!(buffer, [b'a' as c_char, b'b' as c_char, b'c' as c_char, 0]);
        assert_eq!(out.set_text(0, b"x"), Err(CudaError::INVALID_VALUE));
    }
}
