//! Writing to where a caller said, and reading what it gave: pointers of C, each checked for NULL.
//!
//! That a pointer that is not NULL is good for its type is the caller's promise, made once, where
//! the function was entered ([`FromProgram`]).

use crate::status::{Answer, Failure};
use cuda_api::pointer::{self, FromProgram, In};
use std::ffi::c_char;

/// A parameter of a function of the API.
pub(crate) trait Argument: FromProgram {
    /// As the function's body gets it.
    type Inside: From<<Self as FromProgram>::Argument>;
}

/// Where one value, or the first of several, goes.
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(pointer::Out<T>);

impl<T> From<pointer::Out<T>> for Out<T> {
    fn from(place: pointer::Out<T>) -> Self {
        Self(place)
    }
}

impl<T> Argument for *mut T {
    type Inside = Out<T>;
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
        Ok(self.at(index).0.set(value)?)
    }

    /// Where the value of that index is, which the caller said there is room for.
    pub(crate) fn at(self, index: usize) -> Self {
        Self(self.0.array(index + 1).place(index))
    }

    /// What is there: for parameters that are read and written.
    pub(crate) fn get(self) -> Answer<T> {
        Ok(self.0.get()?)
    }
}

impl Out<c_char> {
    /// Writes a NUL-terminated text; INSUFFICIENT_SIZE if it does not fit into `length` bytes.
    pub(crate) fn set_text(self, text: &str, length: u32) -> Answer {
        self.0.required()?;
        if text.len() >= length as usize {
            return Err(Failure::INSUFFICIENT_SIZE);
        }
        Ok(self.0.set_text(length as usize, text.as_bytes())?)
    }
}

/// A NUL-terminated text that the caller gave.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(In<c_char>);

impl From<In<c_char>> for Text {
    fn from(text: In<c_char>) -> Self {
        Self(text)
    }
}

impl Argument for *const c_char {
    type Inside = Text;
}

impl Text {
    pub(crate) fn get(&self) -> Answer<String> {
        self.0.text()?.into_string().map_err(|_| Failure::INVALID_ARGUMENT)
    }
}

impl Argument for u32 {
    type Inside = Self;
}
impl Argument for i32 {
    type Inside = Self;
}
impl Argument for u64 {
    type Inside = Self;
}
