//! The file of ranges: lines that are written whole, so that a program that ends at any time leaves
//! what it has marked until then.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

/// What names this library to NVTX; the file lies beside it.
const PATH_VARIABLE: &str = "NVTX_INJECTION64_PATH";

static FILE: OnceLock<Option<File>> = OnceLock::new();

/// Opens the file; false if it cannot be written.
pub(crate) fn open() -> bool {
    FILE.get_or_init(|| {
        let library = std::env::var_os(PATH_VARIABLE)?;
        let directory = Path::new(&library).parent()?;
        let path = directory.join(format!("{}.nvtx", std::process::id()));
        OpenOptions::new().append(true).create(true).open(path).ok()
    })
    .is_some()
}

/// Time of CLOCK_MONOTONIC, ns.
pub(crate) fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// This thread's number.
pub(crate) fn thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Writes a range that ends now, of the thread that began it. `domain` is one word.
pub(crate) fn range(thread: i32, domain: &str, since_ns: u64, name: &str) {
    let Some(Some(file)) = FILE.get() else { return };
    let name = name.replace(['\n', '\r'], " ");
    let line = format!("{} {thread} {domain} {since_ns} {} {name}\n", std::process::id(), now_ns());
    let _ = (&mut &*file).write_all(line.as_bytes());
}
