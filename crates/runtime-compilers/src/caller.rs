//! Pointers that a caller from C passes, as types that say what each is good for. Only such a caller makes one, and
//! promises by its call what the type says, until the function returns.

use std::ffi::{CStr, c_char};

/// A place that is read, of one or more `T`, or NULL.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct In<T>(*const T);

/// A place that is written, of one or more `T`, or NULL.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);

/// A C string, or NULL.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl<T: Copy> In<T> {
    /// The array there, as long as its caller says; `None` for NULL, and for one longer than `limit`.
    pub(crate) fn array(&self, count: usize, limit: usize) -> Option<&[T]> {
        let is_there = !self.0.is_null() && count <= limit;
        // SAFETY: not NULL, so as long as the caller says, and there until the function returns, as this is.
        is_there.then(|| unsafe { std::slice::from_raw_parts(self.0, count) })
    }
}

impl<T> In<T> {
    /// The pointer itself.
    pub(crate) fn pointer(self) -> *const T {
        self.0
    }
}

impl In<Text> {
    /// The strings of an array of them; none of one that is NULL or longer than `limit`.
    pub(crate) fn texts(&self, count: usize, limit: usize) -> Vec<&CStr> {
        self.array(count, limit)
            .unwrap_or_default()
            .iter()
            .map(|text| text.get().unwrap_or(c""))
            .collect()
    }
}

impl<T: Copy> Out<T> {
    /// What is there now; `None` for NULL.
    pub(crate) fn get(self) -> Option<T> {
        // SAFETY: not NULL, so a `T` is there.
        (!self.0.is_null()).then(|| unsafe { self.0.read() })
    }

    /// Writes the first elements; false for NULL.
    pub(crate) fn set(self, values: &[T]) -> bool {
        if self.0.is_null() {
            return false;
        }
        // SAFETY: not NULL, so as long as the caller has asked that the values are.
        unsafe { self.0.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        true
    }
}

impl Text {
    /// The string; `None` for NULL.
    pub(crate) fn get(&self) -> Option<&CStr> {
        // SAFETY: not NULL, so a string that is there until the function returns, as this is.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }

    /// The pointer itself.
    pub(crate) fn pointer(self) -> *const c_char {
        self.0
    }
}
