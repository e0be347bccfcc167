//! Filetests of single passes: `passes/*.ir`.
//!
//! A file says which pass (`# pass: NAME`, and `# shape: line` for blocks that are a line of threads), then
//! the function; behind `====` what becomes of it. `OPENMPS_BLESS=1 cargo test -p simt --test passes` writes
//! what it becomes.

use simt::inspect::{Stage, dump, inspect};
use simt::ir::text::{read_simt, read_vector, write_simt, write_vector};
use simt::launch_shape::LaunchShape;
use std::fs;
use std::path::{Path, PathBuf};

const MARK: &str = "====\n";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes")
}

/// What a head line says behind its word.
fn said<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(word)).map(str::trim)
}

#[test]
fn passes_do_what_their_files_say() {
    let bless = std::env::var_os("OPENMPS_BLESS").is_some();
    let mut files: Vec<PathBuf> = fs::read_dir(folder())
        .expect("the folder")
        .map(|entry| entry.expect("it").path())
        .collect();
    files.sort();
    let mut passes = std::collections::BTreeSet::new();
    let mut wrong = String::new();
    for path in &files {
        let text = fs::read_to_string(path).expect("a file");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (input, expected) = text.split_once(MARK).unwrap_or((&text, ""));
        let pass = said(input, "pass:").unwrap_or_else(|| panic!("{name} names no pass"));
        let shape = match said(input, "shape:") {
            None => LaunchShape::Any,
            Some("line") => LaunchShape::Line,
            Some(other) => panic!("{name}: no shape is called {other}"),
        };
        passes.insert(pass.to_owned());
        let made = simt::pass::run(pass, input, shape).unwrap_or_else(|e| panic!("{name}: {e}"));
        if bless {
            fs::write(path, format!("{input}{MARK}{made}")).expect("the file");
        } else if made != expected {
            wrong.push_str(&format!("{name}: expected\n{expected}became\n{made}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(passes.len() >= 8, "{passes:?}");
}

/// Every kernel of the benchmarks, in both IRs, is read back as what it was.
#[test]
fn what_is_written_is_read_back() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/kernels/programs");
    let mut kernels = 0;
    for entry in fs::read_dir(programs).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "ptx") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("PTX");
        for (name, kernel) in inspect(&text).expect("PTX") {
            let kernel = kernel.expect("a kernel").kernel;
            for f in [&kernel.entry, &kernel.entry_independent] {
                let written = write_vector(f);
                let read =
                    read_vector(&written).unwrap_or_else(|e| panic!("{name}: {e}\n{written}"));
                assert_eq!(write_vector(&read), written, "{name}");
                assert_eq!((&read.classes, &read.storage), (&f.classes, &f.storage), "{name}");
                let ops = |f: &simt::ir::vector::VectorFunction| -> Vec<_> {
                    f.blocks.iter().flat_map(|b| &b.insts).map(|i| i.op.clone()).collect()
                };
                assert_eq!(ops(&read), ops(f), "{name}");
            }
            // What people are shown lacks the registers' classes, and is otherwise the same.
            let shown = dump(&text, Some(&name), Stage::Ir).expect("PTX").expect("the kernel");
            let (head, blocks) = shown.split_once('\n').expect("blocks");
            let entry = blocks.split("\n# function").next().unwrap_or_default();
            let highest = entry
                .split(|c: char| !c.is_ascii_alphanumeric())
                .filter_map(|word| word.strip_prefix('r')?.parse::<u32>().ok())
                .max();
            let registers: String =
                (0..=highest.unwrap_or(0)).map(|n| format!("reg r{n} b32\n")).collect();
            let slots: String =
                (0..64).map(|n| format!("slot slot{n} 4 bytes aligned 4\n")).collect();
            let whole = format!("{head}\n{registers}{slots}{entry}");
            let read = read_simt(&whole).unwrap_or_else(|e| panic!("{name}: {e}\n{whole}"));
            assert_eq!(read.to_string(), entry, "{name}");
            assert_eq!(read_simt(&write_simt(&read)).expect("its text").to_string(), entry);
            kernels += 1;
        }
    }
    assert!(kernels > 20, "{kernels} kernels");
}
