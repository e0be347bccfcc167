//! Runs a case's C source, compiled for this machine by its C compiler.

use crate::case::{Argument, Case, Run};
use crate::clock::Clock;
use crate::image::Home;
use anyhow::{Context, Result, bail, ensure};
use std::ffi::{CString, c_void};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// What a C programmer who wants speed asks for, without giving up the rules of arithmetic, beside the
/// processor to compile for.
const FLAGS: [&str; 4] = ["-std=gnu11", "-O3", "-shared", "-fPIC"];

type Function = unsafe extern "C" fn(*mut *mut c_void);

/// Compiles for a processor, as `-march=` names it, into `folder`, and runs; `None` if the machine has
/// no C compiler (`$CC`, else `cc`).
pub(crate) fn run(case: &Case, clock: Clock, march: &str, folder: &Path) -> Result<Option<Run>> {
    let source = folder.join(case.name).with_extension("c");
    let library = folder.join(case.name).with_extension("so");
    std::fs::write(&source, case.c).with_context(|| format!("writing {}", source.display()))?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let compiled = Command::new(&compiler)
        .args(FLAGS)
        .arg(format!("-march={march}"))
        .arg(&source)
        .arg("-o")
        .arg(&library)
        .arg("-lm")
        .output();
    let compiled = match compiled {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("running {}", compiler.display()))?,
    };
    if !compiled.status.success() {
        bail!("{}: {}", compiler.display(), String::from_utf8_lossy(&compiled.stderr));
    }
    let path = CString::new(library.as_os_str().as_bytes())?;
    // SAFETY: `path` is a C string; the library was made of our own source just now. It stays
    // loaded for good, so the function stays callable. Every case's `run` has this signature.
    let function = unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        ensure!(!handle.is_null(), "the compiled C code cannot be loaded");
        let symbol = libc::dlsym(handle, c"run".as_ptr());
        ensure!(!symbol.is_null(), "{}.c has no function `run`", case.name);
        std::mem::transmute::<*mut c_void, Function>(symbol)
    };
    clock
        .measure(
            || {
                let mut buffers = Buffers::new(case);
                buffers.runs(function, 1);
                Ok(buffers)
            },
            |buffers, count| {
                buffers.runs(function, count);
                Ok(())
            },
            |buffers| Ok(buffers.outputs()),
        )
        .map(Some)
}

/// Arguments in memory that is aligned as `malloc`'s is.
struct Buffers {
    /// Contents in 16-byte words, their length in bytes, whether they are an output.
    contents: Vec<(Vec<u128>, usize, bool)>,
}

impl Buffers {
    fn new(case: &Case) -> Self {
        let contents = case.arguments.iter().map(|argument| {
            let (bytes, output) = match argument {
                Argument::Input(bytes) => (bytes.clone(), false),
                Argument::Output(element, count) => (vec![0; count * element.bytes()], true),
                Argument::Value(bytes) => (bytes.to_vec(), false),
                Argument::Image(image) => (image.texels.clone(), image.home == Home::Written),
            };
            let words = bytes.chunks(16).map(|chunk| {
                let mut word = [0; 16];
                word[..chunk.len()].copy_from_slice(chunk);
                u128::from_ne_bytes(word)
            });
            (words.collect(), bytes.len(), output)
        });
        Self { contents: contents.collect() }
    }

    fn runs(&mut self, function: Function, count: u32) {
        let mut arguments: Vec<*mut c_void> =
            self.contents.iter_mut().map(|(words, ..)| words.as_mut_ptr().cast()).collect();
        for _ in 0..count {
            // SAFETY: the function reads and writes its case's buffers only, and is given them.
            unsafe { function(arguments.as_mut_ptr()) }
        }
    }

    fn outputs(&self) -> Vec<Vec<u8>> {
        let outputs = self.contents.iter().filter(|(_, _, output)| *output);
        outputs
            .map(|(words, bytes, _)| {
                words.iter().flat_map(|word| word.to_ne_bytes()).take(*bytes).collect()
            })
            .collect()
    }
}
