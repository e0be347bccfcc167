//! The real library behind one of ours.
//!
//! The auditor knows where the loader had found it. Without the auditor it is the next file of the
//! same name on the loader's search path.

use crate::REAL;
use provider::{DynamicLibrary, file_of_address};
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

/// What was loaded. `None` if there is no such library.
fn library() -> Option<DynamicLibrary> {
    static LIBRARY: OnceLock<Option<DynamicLibrary>> = OnceLock::new();
    *LIBRARY.get_or_init(|| {
        let own = own_path()?;
        let name = own.file_name()?;
        let asked: Vec<u8> = [REAL.as_bytes(), name.as_bytes()].concat();
        let open = |name: Vec<u8>| DynamicLibrary::open(&CString::new(name).ok()?).ok();
        open(asked).or_else(|| open(next_on_path(&own, name)?.into_os_string().into_vec()))
    })
}

/// The file that this code was loaded from.
pub(crate) fn own_path() -> Option<PathBuf> {
    file_of_address(own_path as *const () as usize)
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
    library()?.symbol(name)
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
