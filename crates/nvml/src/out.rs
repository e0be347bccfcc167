//! Writing to where a caller said, and reading what it gave: pointers of C, each checked for NULL.
//!
//! That a pointer that is not NULL is good for its type is the caller's promise, made once, where
//! the function was entered ([`Argument::accept`]).

use crate::status::{Answer, Failure};
use std::ffi::{CStr, c_char};

/// A parameter of a function of the API.
pub(crate) trait Argument {
    /// As the function's body gets it.
    type Inside;

    /// Takes it over from C.
    ///
    /// # Safety
    /// A pointer is NULL or good for what its type says until the function returns.
    unsafe fn accept(self) -> Self::Inside;
}

/// Where one value, or the first of several, goes.
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);

impl<T> Argument for *mut T {
    type Inside = Out<T>;
    unsafe fn accept(self) -> Out<T> {
        Out(self)
    }
}

impl<T: Copy> Out<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes the value; INVALID_ARGUMENT if there is nowhere to write.
    pub(crate) fn set(self, value: T) -> Answer {
        self.set_at(0, value)
    }

    /// Writes the value of that index, which the caller said there is room for.
    pub(crate) fn set_at(self, index: usize, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Failure::INVALID_ARGUMENT);
        }
        // SAFETY: not NULL, so good by `accept`'s promise for as many values as the caller said.
        unsafe { self.0.add(index).write_unaligned(value) };
        Ok(())
    }

    /// Where the value of that index is, which the caller said there is room for.
    pub(crate) fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// What is there: for parameters that are read and written.
    pub(crate) fn get(self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Failure::INVALID_ARGUMENT);
        }
        // SAFETY: not NULL, so good by `accept`'s promise, and of a type that any bytes are.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

impl Out<c_char> {
    /// Writes a NUL-terminated text; INSUFFICIENT_SIZE if it does not fit into `length` bytes.
    pub(crate) fn set_text(self, text: &str, length: u32) -> Answer {
        if self.0.is_null() {
            return Err(Failure::INVALID_ARGUMENT);
        }
        if text.len() >= length as usize {
            return Err(Failure::INSUFFICIENT_SIZE);
        }
        for (index, byte) in text.bytes().chain([0]).enumerate() {
            self.set_at(index, byte as c_char)?;
        }
        Ok(())
    }
}

/// A NUL-terminated text that the caller gave.
pub(crate) struct Text(*const c_char);

impl Argument for *const c_char {
    type Inside = Text;
    unsafe fn accept(self) -> Text {
        Text(self)
    }
}

impl Text {
    pub(crate) fn get(&self) -> Answer<&str> {
        if self.0.is_null() {
            return Err(Failure::INVALID_ARGUMENT);
        }
        // SAFETY: not NULL, so a C string by `accept`'s promise.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|_| Failure::INVALID_ARGUMENT)
    }
}

macro_rules! by_value {
    ($($ty:ty),*) => {$(
        impl Argument for $ty {
            type Inside = Self;
            unsafe fn accept(self) -> Self {
                self
            }
        }
    )*};
}
by_value!(u32, i32, u64);
