//! Dynamic libraries: loaded by the loader of the C library, for the life of the process.

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A library that is never unloaded.
#[derive(Clone, Copy, Debug)]
pub struct DynamicLibrary {
    /// What dlopen gave: not a pointer, so that it may be any thread's.
    handle: usize,
}

impl DynamicLibrary {
    /// Loads a library of the system's, or one that the user chose: its initialisers run.
    ///
    /// # Errors
    /// What the loader says.
    pub fn open(name: &CStr) -> Result<Self, String> {
        // SAFETY: the name is a C string. dlerror gives NULL, or a C string that is valid until the next
        // call here.
        unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if !handle.is_null() {
                return Ok(Self { handle: handle as usize });
            }
            let reason = libc::dlerror();
            Err(match reason.is_null() {
                true => "cannot be loaded".to_owned(),
                false => CStr::from_ptr(reason).to_string_lossy().into_owned(),
            })
        }
    }

    /// The address of a function or variable of it, or of one that it needs.
    pub fn symbol(self, name: &CStr) -> Option<*const c_void> {
        // SAFETY: the library is loaded, and the name is a C string.
        let address = unsafe { libc::dlsym(self.handle(), name.as_ptr()) };
        (!address.is_null()).then_some(address.cast_const())
    }

    /// What dlopen gave.
    pub(crate) fn handle(self) -> *mut c_void {
        self.handle as *mut c_void
    }
}

/// The program or library in whose file an address lies, by the name by which the loader found it.
pub fn file_of_address(address: usize) -> Option<PathBuf> {
    // SAFETY: zeros are a value of the structure. dladdr compares the address with those of loaded files, reads
    // nothing there, and gives a C string that lives as long as the file is loaded, which it is: the caller
    // has an address in it.
    let name = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as *const c_void, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(info.dli_fname)
    };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}
