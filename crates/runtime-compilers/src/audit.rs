//! The auditor of the dynamic loader: where one of the compilers is about to be loaded, ours is.
//!
//! Frameworks load them by absolute paths, or by search paths of their own, so that no order of
//! directories in LD_LIBRARY_PATH would do. The loader asks an auditor (LD_AUDIT) about each file that
//! it is about to try. This one answers with our library of the same name, if there is one for that
//! version, and keeps the file's path for our library, which asks for it by a name of its own
//! ([`REAL`]). It asks for no calls to be audited, so that calls cost what they cost
//! without it.
//!
//! The loader runs an auditor in a namespace with a C library of its own.

use crate::REAL;
use crate::real::own_path;
use locks::Mutex;
use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr, c_char, c_uint};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What the names of the compilers' files begin with.
const COMPILERS: [&str; 2] = ["libnvrtc.so", "libnvJitLink.so"];
/// Directory of our libraries, beside this one.
const DIRECTORY: &str = "compilers";

/// Paths of real libraries by the names of ours. What is here is never dropped: the loader keeps
/// pointers to it.
static REAL_PATHS: Mutex<Option<HashMap<Vec<u8>, CString>>> = Mutex::new(None);

/// Where our libraries are.
fn directory() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || Some(own_path()?.canonicalize().ok()?.parent()?.join(DIRECTORY));
    FOUND.get_or_init(find).as_deref()
}

/// Our library in the place of a file, if the file is a compiler and we have one of its version.
fn ours(file: &Path) -> Option<PathBuf> {
    let name = file.file_name()?.to_str()?;
    COMPILERS.iter().find(|compiler| name.starts_with(**compiler))?;
    // A link leads to a file whose name says more of the version.
    let file = file.canonicalize().ok()?;
    let mut name = file.file_name()?.to_str()?;
    let directory = directory()?;
    if file.parent() == Some(directory) {
        return None;
    }
    loop {
        let own = directory.join(name);
        if own.is_file() {
            return Some(own);
        }
        name = name.rsplit_once('.').map(|(shorter, _)| shorter)?;
    }
}

/// What the loader shall try in the place of `name`, which `by_ours` one of our libraries asks for.
fn answer(name: &CStr, by_ours: bool) -> Option<CString> {
    let mut paths = REAL_PATHS.lock();
    let paths = paths.get_or_insert_default();
    if let Some(real) = name.to_bytes().strip_prefix(REAL.as_bytes()) {
        return paths.get(real).cloned();
    }
    if by_ours || !name.to_bytes().contains(&b'/') {
        return None;
    }
    let own = ours(Path::new(OsStr::from_bytes(name.to_bytes())))?;
    paths.insert(own.file_name()?.as_bytes().to_vec(), name.to_owned());
    CString::new(own.into_os_string().into_vec()).ok()
}

/// rtld-audit(7): any version will do, since they differ in what is said of calls.
#[unsafe(no_mangle)]
pub extern "C" fn la_version(version: c_uint) -> c_uint {
    version
}

/// The head of the loader's `struct link_map`.
#[repr(C)]
pub struct LinkMap {
    address: usize,
    name: *const c_char,
}

/// Stands in an object's cookie: it is one of our libraries.
const OURS: usize = usize::MAX;

/// rtld-audit(7): an object was loaded. No binding of its symbols is of interest.
///
/// # Safety
/// As the loader calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objopen(
    map: *const LinkMap,
    _namespace: isize,
    cookie: *mut usize,
) -> c_uint {
    // SAFETY: the loader passes an object, whose name is a C string or NULL.
    let name = unsafe {
        match map.as_ref() {
            Some(map) if !map.name.is_null() => CStr::from_ptr(map.name),
            _ => c"",
        }
    };
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    if path.parent().is_some_and(|parent| Some(parent) == directory()) && !cookie.is_null() {
        // SAFETY: the loader passes a place for the auditor's own number.
        unsafe { cookie.write(OURS) };
    }
    0
}

/// rtld-audit(7): a file is about to be tried. Answers with what is to be tried in its place.
///
/// # Safety
/// As the loader calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objsearch(
    name: *const c_char,
    cookie: *mut usize,
    _flag: c_uint,
) -> *const c_char {
    if name.is_null() {
        return name;
    }
    // SAFETY: the loader passes a C string, and the number of the object that asks, or NULL.
    let (text, by_ours) =
        unsafe { (CStr::from_ptr(name), cookie.as_ref().is_some_and(|cookie| *cookie == OURS)) };
    let asked = || answer(text, by_ours);
    match std::panic::catch_unwind(asked) {
        // Read by the loader at any time from now on; a few in the life of a process.
        Ok(Some(other)) => other.into_raw(),
        _ => name,
    }
}
