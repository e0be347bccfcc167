//! The real library behind one of ours.
//!
//! The auditor knows where the loader had found it. Without the auditor it is the next file of the
//! same name on the loader's search path.

use crate::REAL;
use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where libraries are that no variable names.
const DIRECTORIES: [&str; 5] = [
    "/usr/local/cuda/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];

/// What was loaded: its handle, for dlsym. `None` if there is no such library.
fn handle() -> Option<usize> {
    static HANDLE: OnceLock<Option<usize>> = OnceLock::new();
    *HANDLE.get_or_init(|| {
        let own = own_path()?;
        let name = own.file_name()?;
        let asked: Vec<u8> = [REAL.as_bytes(), name.as_bytes()].concat();
        open(&CString::new(asked).ok()?).or_else(|| {
            let next = next_on_path(&own, name)?;
            open(&CString::new(next.into_os_string().into_vec()).ok()?)
        })
    })
}

fn open(path: &CStr) -> Option<usize> {
    // SAFETY: the name is a C string. The library is a compiler that programs load themselves.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!handle.is_null()).then_some(handle as usize)
}

/// The file that this code was loaded from.
pub(crate) fn own_path() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the address is one of this library, and the structure is written.
    let found = unsafe { libc::dladdr(own_path as *const c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gives a C string that lives as long as the library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())).to_path_buf())
}

/// The next file of that name, which is another one.
fn next_on_path(own: &Path, name: &OsStr) -> Option<PathBuf> {
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&named).collect();
    let own = own.canonicalize().ok();
    let directories = named.into_iter().chain(DIRECTORIES.iter().map(PathBuf::from));
    directories
        .map(|directory| directory.join(name))
        .find(|file| file.is_file() && file.canonicalize().ok() != own)
}

/// The address of a function of the real library; `None` if it has none of that name, or is not there.
pub(crate) fn symbol(name: &CStr) -> Option<*const c_void> {
    let handle = handle()? as *mut c_void;
    // SAFETY: a handle of dlopen that is never closed, and a C string.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const())
}

/// Calls a function of the real library; `missing` is the answer if there is none.
macro_rules! call_real {
    ($name:literal, ($($ty:ty),*) -> $result:ty, ($($argument:expr),*), $missing:expr) => {
        match $crate::real::symbol($name) {
            None => $missing,
            Some(address) => {
                // SAFETY: the function of that name has this signature in every version, and the
                // arguments are those that the program passed, or as good.
                unsafe {
                    let function = core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn($($ty),*) -> $result,
                    >(address);
                    function($($argument),*)
                }
            }
        }
    };
}
pub(crate) use call_real;
