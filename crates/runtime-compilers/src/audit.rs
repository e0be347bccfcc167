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
use crate::caller::{In, Out, Text};
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
#[derive(Clone, Copy)]
struct LinkMap {
    address: usize,
    name: Text,
}

/// Stands in an object's cookie: it is one of our libraries.
const OURS: usize = usize::MAX;

/// rtld-audit(7): an object was loaded. No binding of its symbols is of interest.
#[unsafe(no_mangle)]
extern "C" fn la_objopen(map: In<LinkMap>, _namespace: isize, cookie: Out<usize>) -> c_uint {
    let map = map.array(1, 1).and_then(<[_]>::first);
    let name = map.and_then(|map| map.name.get()).unwrap_or_default();
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    if path.parent().is_some_and(|parent| Some(parent) == directory()) {
        cookie.set(&[OURS]);
    }
    0
}

/// rtld-audit(7): a file is about to be tried. Answers with what is to be tried in its place.
#[unsafe(no_mangle)]
extern "C" fn la_objsearch(name: Text, cookie: Out<usize>, _flag: c_uint) -> *const c_char {
    // The cookie is that of the object that asks.
    let asked = || answer(name.get()?, cookie.get() == Some(OURS));
    match std::panic::catch_unwind(asked) {
        // Read by the loader at any time from now on; a few in the life of a process.
        Ok(Some(other)) => other.into_raw(),
        _ => name.pointer(),
    }
}
