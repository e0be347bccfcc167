//! Pointers that programs pass: each may be NULL, and is otherwise as the manual says.
//!
//! The one promise that is taken on trust, that a pointer which is not NULL is good for what the
//! manual says of it, is made where a C function's arguments are taken over
//! ([`CArgument::accept`]); all else is safe code.

use std::ffi::{CStr, c_char, c_void};

use cuda_api::*;

use crate::error::{Error, Result};

/// Where a result goes.
pub(crate) struct Out<T>(*mut T);

/// Where an argument comes from.
pub(crate) struct In<T>(*const T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}
impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}

impl<T> Out<T> {
    /// The address as a number.
    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// INVALID_VALUE if there is nowhere to write the result; asked before work is done for it.
    pub(crate) fn required(self) -> Result<Self> {
        if self.0.is_null() { Err(Error::INVALID_VALUE) } else { Ok(self) }
    }

    /// The `index`-th element.
    pub(crate) fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// The same place, to be read only.
    pub(crate) fn as_in(self) -> In<T> {
        In(self.0.cast_const())
    }

    /// The same place as of another type; the caller knows from the call's other arguments what
    /// the program has there.
    pub(crate) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }
}

impl<T: Copy> Out<T> {
    /// Writes the result; INVALID_VALUE if there is nowhere to write it.
    pub(crate) fn set(self, value: T) -> Result {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: not NULL, hence good for writing a T (see `CArgument`).
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the result if the program wants it.
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `set`.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// What is there now.
    pub(crate) fn read(self) -> Result<T> {
        In(self.0.cast_const()).read()
    }
}

impl Out<u8> {
    /// Writes as much of `text` as fits with its final NUL into `bytes` bytes.
    pub(crate) fn set_text(self, text: &[u8], bytes: usize) -> Result {
        if self.0.is_null() || bytes == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let length = text.len().min(bytes - 1);
        // SAFETY: the program says that there are `bytes` bytes, and `length < bytes`.
        unsafe {
            self.0.copy_from(text.as_ptr(), length);
            self.0.add(length).write(0);
        }
        Ok(())
    }
}

impl<T> In<T> {
    /// The address as a number.
    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    /// The `index`-th element.
    pub(crate) fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// The same place as of another type, as [`Out::cast`].
    pub(crate) fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }
}

impl In<u8> {
    /// The place that an address in an image leads to.
    pub(crate) fn from_address(address: u64) -> Self {
        Self(address as *const u8)
    }
}

impl<T: Copy> In<T> {
    /// What is there; INVALID_VALUE for NULL.
    pub(crate) fn read(self) -> Result<T> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: not NULL, hence good for reading a T (see `CArgument`).
        Ok(unsafe { self.0.read_unaligned() })
    }
}

impl In<c_char> {
    /// The text there; INVALID_VALUE for NULL.
    pub(crate) fn text<'a>(self) -> Result<&'a CStr> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: not NULL, hence NUL-terminated text that outlives the call (see `CArgument`).
        Ok(unsafe { CStr::from_ptr(self.0) })
    }
}

impl In<u8> {
    /// `bytes` bytes there.
    pub(crate) fn bytes<'a>(self, bytes: usize) -> Result<&'a [u8]> {
        if bytes == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the program says that there are so many bytes, and they outlive the call.
        Ok(unsafe { std::slice::from_raw_parts(self.0, bytes) })
    }
}

// The pointers of functions that crate graph has written; each promise was made already.
impl<T> From<Out<T>> for cuda_api::pointer::Out<T> {
    fn from(pointer: Out<T>) -> Self {
        // SAFETY: good for what the manual says, as `accept` was promised.
        unsafe { cuda_api::pointer::FromProgram::believe(pointer.0) }
    }
}
impl<T> From<cuda_api::pointer::Out<T>> for Out<T> {
    fn from(pointer: cuda_api::pointer::Out<T>) -> Self {
        Self(pointer.pointer())
    }
}

/// How an argument of a C function is used.
pub(crate) trait CArgument {
    /// What it becomes.
    type Argument;
    /// Takes it over.
    ///
    /// # Safety
    /// A pointer must be NULL or good for what the manual says of the argument.
    unsafe fn accept(self) -> Self::Argument;
}

impl<T> CArgument for *mut T {
    type Argument = Out<T>;
    unsafe fn accept(self) -> Out<T> {
        Out(self)
    }
}

impl<T> CArgument for *const T {
    type Argument = In<T>;
    unsafe fn accept(self) -> In<T> {
        In(self)
    }
}

macro_rules! plain {
    ($($ty:ty),*) => {$(
        impl CArgument for $ty {
            type Argument = $ty;
            #[inline(always)]
            unsafe fn accept(self) -> $ty {
                self
            }
        }
    )*};
}

plain!(
    u8,
    u16,
    u32,
    u64,
    usize,
    i32,
    CUcontext,
    CUmodule,
    CUfunction,
    CUlibrary,
    CUkernel,
    CUlinkState,
    CUstream,
    CUevent,
    CUmemoryPool,
    CUdeviceptr,
    CUarray,
    CUmemLocation,
    CUhostFn,
    CUstreamCallback,
    CUoccupancyB2DSize
);

/// A pointer of the program's that is only handed back to it.
#[derive(Clone, Copy)]
pub(crate) struct UserData(pub(crate) *mut c_void);

// SAFETY: the pointer is never dereferenced here; it goes back to the program's own function.
unsafe impl Send for UserData {}

impl Out<c_void> {
    pub(crate) fn user_data(self) -> UserData {
        UserData(self.0)
    }
}
