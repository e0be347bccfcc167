//! Library: a shared library that is loaded when it is asked for, and its functions by their names.

use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;

/// A loaded library. It is closed when this is dropped.
pub(super) struct Library {
    path: CString,
    handle: NonNull<c_void>,
}

impl Library {
    /// Loads it.
    ///
    /// # Errors
    /// What the loader says.
    ///
    /// # Safety
    /// The library's initialisers run: it must be one that may be loaded.
    pub(super) unsafe fn load(path: CString) -> Result<Self, String> {
        // SAFETY: a C string; the rest is the caller's promise. dlerror gives NULL or a C string that is good
        // until the next call here.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if let Some(handle) = NonNull::new(handle) {
                return Ok(Self { path, handle });
            }
            match NonNull::new(libc::dlerror()) {
                None => Err("cannot be loaded".into()),
                Some(reason) => Err(CStr::from_ptr(reason.as_ptr()).to_string_lossy().into_owned()),
            }
        }
    }

    /// The address of a function.
    ///
    /// # Errors
    /// That the library has none of that name.
    pub(super) fn find(&self, name: &CStr) -> Result<*mut c_void, String> {
        // SAFETY: the handle is open, and the name a C string.
        let address = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) };
        match address.is_null() {
            false => Ok(address),
            true => {
                let path = self.path.to_string_lossy();
                Err(format!("{path} has no {}", name.to_string_lossy()))
            }
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: it was opened by `load`; nothing of it is used any more.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
    }
}
