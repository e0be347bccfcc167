//! Writes down what was run and what came out, so that a GPU can be asked the same.
//!
//! With `SIMT_RECORD=FILE` in the environment each launch of the tests becomes a line of JSON in
//! the file: the module, the launch, and every buffer before and after. `bench/h200/filetests.py`
//! runs them through the driver of a machine that has a GPU, and compares.

use super::harness::Shape;
use super::tiers::{ALL_SETS, Set};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::sync::{LazyLock, Mutex};

static FILE: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    let path = std::env::var_os("SIMT_RECORD")?;
    Some(Mutex::new(File::create(path).expect("SIMT_RECORD names a file")))
});

/// True if launches are written down; those of one way to run them are enough.
pub(crate) fn wanted(set: Set) -> bool {
    set == ALL_SETS[0] && FILE.is_some()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Writes a launch down.
pub(crate) fn write(
    text: &str,
    kernel: &str,
    shape: Shape,
    params: &[u8],
    before: &[(u64, Vec<u8>)],
    after: &[(u64, Vec<u8>)],
) {
    let Some(file) = &*FILE else { return };
    let text =
        text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', " ");
    let (g, b) = (shape.grid, shape.block);
    let buffers: Vec<String> = before
        .iter()
        .zip(after)
        .map(|((at, before), (_, after))| {
            format!("[{at}, \"{}\", \"{}\"]", hex(before), hex(after))
        })
        .collect();
    let line = format!(
        "{{\"ptx\": \"{text}\", \"kernel\": \"{kernel}\", \"grid\": [{}, {}, {}], \
         \"block\": [{}, {}, {}], \"shared\": {}, \"params\": \"{}\", \"buffers\": [{}]}}\n",
        g.x,
        g.y,
        g.z,
        b.x,
        b.y,
        b.z,
        shape.shared,
        hex(params),
        buffers.join(", ")
    );
    file.lock().unwrap().write_all(line.as_bytes()).expect("room for a record");
}
