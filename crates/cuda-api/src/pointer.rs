//! Pointers: those that a program passes, as types that say what of them is the program's word.
//!
//! A pointer that a program passes is good for what CUDA's manual says about that parameter; the
//! program's word for it is all there is, as with any driver library. It is taken at that word in
//! three places: where entry points turn arguments into [`In`] and [`Out`] ([`FromProgram`]), for one
//! value each; where the count that came with one makes it an array ([`In::array`],
//! [`Out::array`]); and where a `void *` becomes what another parameter says ([`In::cast`],
//! [`Out::cast`]). Behind them NULL and indices are checked, and nothing that is borrowed from the
//! program outlives the closure that it is given to, but for [`In::slice`], which is unsafe.

use crate::CudaError;
use crate::types::*;
use alloc::borrow::ToOwned;
use alloc::ffi::CString;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Most attributes of a launch that are read.
const LAUNCH_ATTRIBUTES_MAX: usize = 64;

/// A pointer that the program passed to be read, of one or more `T`. An entry point may take it as it is: in
/// the C boundary's signature only a program makes one.
#[repr(transparent)]
pub struct In<T>(*const T);

/// A pointer that the program passed to be written (some functions also read there). An
/// entry point may take it as it is, as with [`In`].
#[repr(transparent)]
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

    /// The array there, of the count that the program gave with it.
    pub fn array(self, count: usize) -> InArray<T> {
        InArray { first: self, count }
    }
}

impl In<c_void> {
    /// The same address with a type that another parameter gave.
    pub fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }
}

impl<T: Copy> In<T> {
    /// What is there; CUDA_ERROR_INVALID_VALUE for NULL.
    pub fn get(self) -> Result<T, CudaError> {
        self.array(1).at(0)
    }
}

impl<T> In<*mut T> {
    /// What the pointer there points to, which the program vouches for with the pointer to it.
    pub fn follow(self) -> Result<Out<T>, CudaError> {
        self.array(1).follow(0)
    }
}

impl<T> InArray<*mut T> {
    /// What the pointer that an element is points to; CUDA_ERROR_INVALID_VALUE as for [`Self::at`].
    pub fn follow(self, index: usize) -> Result<Out<T>, CudaError> {
        self.at(index).map(Out)
    }
}

impl CUlaunchConfig {
    /// The attributes there: as many as the program's structure says. CUDA_ERROR_INVALID_VALUE for more than any
    /// launch can have, or for an array that is NULL.
    pub fn attributes(
        &self,
    ) -> Result<impl Iterator<Item = Result<CUlaunchAttribute, CudaError>>, CudaError> {
        match self.numAttrs as usize {
            count @ ..=LAUNCH_ATTRIBUTES_MAX => Ok(In(self.attrs).array(count).iter()),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }
}

impl CUctxCreateParams {
    /// The affinities there: as many as the program's structure says.
    pub fn affinities(&self) -> Out<CUexecAffinityParam> {
        Out(self.execAffinityParams)
    }
}

/// An array that the program passed to be read.
pub struct InArray<T> {
    first: In<T>,
    count: usize,
}

impl<T> Clone for InArray<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for InArray<T> {}

impl<T: Copy> InArray<T> {
    /// An element; CUDA_ERROR_INVALID_VALUE beyond the end, or if the array is NULL.
    pub fn at(self, index: usize) -> Result<T, CudaError> {
        if self.first.0.is_null() || index >= self.count {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the caller of `believe` vouches for the pointer, and the program for the count.
        Ok(unsafe { self.first.0.wrapping_add(index).read_unaligned() })
    }

    /// All elements, or CUDA_ERROR_INVALID_VALUE for each of an array that is NULL.
    pub fn iter(self) -> impl Iterator<Item = Result<T, CudaError>> {
        (0..self.count).map(move |index| self.at(index))
    }
}

impl In<u8> {
    /// Shows `read` the `bytes` bytes there, as many as the program said; CUDA_ERROR_INVALID_VALUE for
    /// NULL unless there are none, or for more than `limit`.
    pub fn with_bytes<R>(
        self,
        bytes: usize,
        limit: usize,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, CudaError> {
        if bytes > limit {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the caller of `believe` vouches for a buffer of the length given with it,
        // unchanged during the call, which the closure does not outlive.
        Ok(read(unsafe { self.slice(bytes) }?))
    }

    /// The `bytes` bytes there; CUDA_ERROR_INVALID_VALUE for NULL unless there are none.
    ///
    /// # Safety
    /// There are as many, and nothing changes them as long as the slice is used.
    pub unsafe fn slice<'a>(self, bytes: usize) -> Result<&'a [u8], CudaError> {
        match (bytes, self.0.is_null()) {
            (0, _) => Ok(&[]),
            (_, true) => Err(CudaError::INVALID_VALUE),
            // SAFETY: by contract.
            (_, false) => Ok(unsafe { core::slice::from_raw_parts(self.0, bytes) }),
        }
    }
}

/// Longest name or path taken from a program, bytes: PTX identifiers of mangled C++ names run to
/// a few KiB.
pub const TEXT_BYTES_MAX: usize = 32 << 10;

impl In<c_char> {
    /// A copy of the C string there; CUDA_ERROR_INVALID_VALUE for NULL or an endless one.
    pub fn text(self) -> Result<CString, CudaError> {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the caller of `believe` vouches for a NUL-terminated string, unchanged during the
        // call.
        let text = unsafe { CStr::from_ptr(self.0) };
        match text.count_bytes() <= TEXT_BYTES_MAX {
            true => Ok(text.to_owned()),
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

    /// The same address as one of anything.
    pub fn untyped(self) -> Out<c_void> {
        Out(self.0.cast())
    }

    /// The same pointer as one to read from.
    pub fn as_in(self) -> In<T> {
        In(self.0)
    }

    /// The array there, of the count that the program gave with it.
    pub fn array(self, count: usize) -> OutArray<T> {
        OutArray { first: self, count }
    }

    /// CUDA_ERROR_INVALID_VALUE for NULL: for functions that must not do anything then.
    pub fn required(self) -> CUresult {
        if self.0.is_null() { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
    }

    /// Stores a result; CUDA_ERROR_INVALID_VALUE for NULL.
    pub fn set(self, value: T) -> CUresult {
        self.required()?;
        self.set_if_wanted(value);
        Ok(())
    }

    /// Stores a result if the program wants it.
    pub fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the caller of `believe` vouches for a pointer that is not NULL.
            unsafe { self.0.write_unaligned(value) };
        }
    }
}

impl<T: Copy> Out<T> {
    /// What is there now; CUDA_ERROR_INVALID_VALUE for NULL.
    pub fn get(self) -> Result<T, CudaError> {
        self.as_in().get()
    }
}

impl Out<c_void> {
    /// The same address with a type that another parameter gave.
    pub fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }
}

/// An array that the program passed to be written (some functions also read there).
pub struct OutArray<T> {
    first: Out<T>,
    count: usize,
}

impl<T> Clone for OutArray<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for OutArray<T> {}

impl<T> OutArray<T> {
    /// The same array as one to read from.
    pub fn as_in(self) -> InArray<T> {
        self.first.as_in().array(self.count)
    }

    /// Where an element is; NULL beyond the end, or if the array is NULL.
    pub fn place(self, index: usize) -> Out<T> {
        match self.first.0.is_null() || index >= self.count {
            true => Out::null(),
            false => Out(self.first.0.wrapping_add(index)),
        }
    }

    /// Stores an element; CUDA_ERROR_INVALID_VALUE beyond the end, or if the array is NULL.
    pub fn set(self, index: usize, value: T) -> CUresult {
        self.place(index).set(value)
    }
}

impl<T: Copy> OutArray<T> {
    /// What is there now; CUDA_ERROR_INVALID_VALUE beyond the end, or if the array is NULL.
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
        // SAFETY: the caller of `believe` vouches for a buffer of the length given with it, and the
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
    f32,
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
    use alloc::vec;
    use alloc::vec::Vec;

    fn passed<P: FromProgram>(pointer: P) -> P::Argument {
        // SAFETY: tests pass NULL, and pointers to what is as long as they say.
        unsafe { pointer.believe() }
    }

    #[test]
    fn null_is_an_invalid_value() {
        let read = passed(core::ptr::null::<u32>());
        let write = passed(core::ptr::null_mut::<u32>());
        assert_eq!(read.get(), Err(CudaError::INVALID_VALUE));
        assert_eq!(write.set(1), Err(CudaError::INVALID_VALUE));
        write.set_if_wanted(1);
    }

    #[test]
    fn an_array_ends_where_the_program_says() {
        let mut numbers = [1u32, 2, 3];
        let array = passed(numbers.as_mut_ptr()).array(2);
        assert_eq!((array.at(1), array.at(2)), (Ok(2), Err(CudaError::INVALID_VALUE)));
        assert_eq!(array.set(2, 9), Err(CudaError::INVALID_VALUE));
        assert!(array.place(2).is_null());
        array.set(0, 7).unwrap();
        assert_eq!(array.as_in().iter().collect::<Result<Vec<_>, _>>(), Ok(vec![7, 2]));
        assert_eq!(numbers, [7, 2, 3]);
        let nothing = Out::<u32>::null().array(1);
        assert_eq!(nothing.at(0), Err(CudaError::INVALID_VALUE));
        assert_eq!(nothing.set(0, 1), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn bytes_are_shown_within_the_limit() {
        let bytes = [5u8; 4];
        let from = passed(bytes.as_ptr());
        assert_eq!(from.with_bytes(3, 3, <[u8]>::to_vec), Ok(vec![5; 3]));
        assert_eq!(from.with_bytes(4, 3, <[u8]>::len), Err(CudaError::INVALID_VALUE));
        assert_eq!(In::<u8>::null().with_bytes(0, 3, <[u8]>::len), Ok(0));
        assert_eq!(In::<u8>::null().with_bytes(1, 3, <[u8]>::len), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn text_is_cut_to_the_buffer_and_always_ended() {
        let mut buffer = [0x55 as c_char; 4];
        let out = passed(buffer.as_mut_ptr());
        out.set_text(4, b"abcdef").unwrap();
        assert_eq!(buffer, [b'a' as c_char, b'b' as c_char, b'c' as c_char, 0]);
        assert_eq!(out.set_text(0, b"x"), Err(CudaError::INVALID_VALUE));
    }
}
