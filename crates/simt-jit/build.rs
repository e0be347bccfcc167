//! Names the sources that native code depends on, so that code kept on disk by another build is
//! never taken for this one's.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Crates whose sources decide what native code looks like and what it finds at run time; and the
/// versions of everything else.
const SOURCES: &[&str] = &["src", "../simt-interpreter/src", "../simt/src", "../../Cargo.lock"];

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        collect(&root.join(source), &mut files);
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        let text = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        (file.strip_prefix(&root).unwrap_or(&file), text).hash(&mut hasher);
    }
    println!("cargo::rustc-env=OPENMPS_CODE_SOURCES={:016x}", hasher.finish());
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().for_each(|entry| collect(&entry.path(), files)),
        Err(_) if path.is_file() => files.push(path.to_owned()),
        Err(_) => {}
    }
}
