//! House rules: those that a machine can check, as ordinary tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest source file that is no table and no test.
const LINES_MAX: usize = 800;

/// Crates in which `unsafe` does not occur at all.
const SAFE_CRATES: &[&str] = &["ptx", "control"];

pub(crate) fn tracked(pattern: &str) -> Vec<PathBuf> {
    let root = crate::root();
    let output = Command::new("git")
        .current_dir(&root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--", pattern])
        .output()
        .expect("git lists the files");
    assert!(output.status.success(), "git ls-files failed");
    String::from_utf8(output.stdout)
        .expect("paths are UTF-8")
        .lines()
        .map(|line| root.join(line))
        .filter(|path| path.is_file())
        .collect()
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn is_table_or_test(path: &Path) -> bool {
    let path = path.to_string_lossy();
    path.contains("/tests") || path.contains("generated") || path.ends_with("table.rs")
}

#[test]
fn source_files_open_with_what_they_are_and_stay_short() {
    let mut complaints = Vec::new();
    for path in tracked("*.rs") {
        let text = read(&path);
        if !text.starts_with("//!") {
            complaints.push(format!("{}: does not open with //!", path.display()));
        }
        let lines = text.lines().count();
        if lines > LINES_MAX && !is_table_or_test(&path) {
            complaints.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn safe_crates_forbid_unsafe() {
    for name in SAFE_CRATES {
        let path = crate::root().join("crates").join(name).join("src/lib.rs");
        assert!(read(&path).contains("#![forbid(unsafe_code)]"), "{}", path.display());
    }
}

#[test]
fn nothing_is_left_to_do_in_the_code() {
    let words = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("FIX", "ME")];
    for path in tracked("*.rs") {
        let text = read(&path);
        for word in words {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

/// What a folder of a crate (or a file beside `lib.rs`) may name of the crate's others.
struct Layer {
    folder: &'static str,
    may_name: &'static [&'static str],
}

const fn layer(folder: &'static str, may_name: &'static [&'static str]) -> Layer {
    Layer { folder, may_name }
}

/// The layers of crates, the lowest first. Folders that are not listed may name everything and
/// be named by those that list them. A folder names only what stands in its row, so a row that
/// names a folder further down is a circle: each has its reason in ARCHITECTURE.md.
const LAYERS: &[(&str, &[Layer])] = &[
    (
        "client",
        // Above them `graph`, `api` and `entry`, each naming only those before it.
        &[
            layer("boundary", &[]),
            layer("handles", &[]),
            layer("lock", &[]),
            layer("stderr", &[]),
            layer("connection", &["lock", "stderr"]),
            layer("context", &["handles", "lock"]),
            layer("stream", &["connection", "handles"]),
            layer("module", &["boundary"]),
            layer("memory", &["connection", "handles"]),
            layer("replay", &[]),
            layer(
                "program",
                &[
                    "boundary",
                    "connection",
                    "context",
                    "handles",
                    "lock",
                    "memory",
                    "module",
                    "replay",
                    "stderr",
                    "stream",
                ],
            ),
            layer("graph", &["connection", "handles", "memory", "module", "program", "stream"]),
            layer(
                "api",
                &[
                    "boundary", "context", "graph", "handles", "lock", "memory", "module",
                    "program", "stderr", "stream",
                ],
            ),
            layer("entry", &["api", "boundary", "connection", "program", "stderr", "stream"]),
        ],
    ),
    (
        "simt",
        &[
            layer("runtime", &[]),
            layer("kernel", &["runtime"]),
            layer("launch_shape", &["kernel"]),
            layer("ir", &["kernel", "runtime"]),
            layer("error", &[]),
            layer("variable_layout", &["error", "ir", "kernel", "runtime"]),
            layer("lower", &["ir", "runtime", "variable_layout"]),
            layer("analysis", &["ir", "kernel", "launch_shape"]),
            layer("transform", &["analysis", "ir", "launch_shape"]),
            layer("vectorize", &["analysis", "ir", "kernel", "launch_shape", "transform"]),
        ],
    ),
    (
        "simt-interpreter",
        &[
            layer("time_slice", &[]),
            layer("processor", &[]),
            layer("register_file", &[]),
            // Handlers see the block that their warp is in, and what checks keep of it.
            layer("handler_context", &["check", "ops", "run"]),
            layer("ops", &["check", "handler_context", "processor", "register_file", "run"]),
            layer("runtime", &["handler_context", "ops"]),
            layer("check", &["handler_context", "ops"]),
            layer(
                "decode",
                &["check", "handler_context", "ops", "register_file", "runtime", "time_slice"],
            ),
            layer(
                "tier1_abi",
                &["decode", "handler_context", "ops", "register_file", "time_slice"],
            ),
            layer(
                "run",
                &[
                    "check",
                    "decode",
                    "handler_context",
                    "ops",
                    "register_file",
                    "tier1_abi",
                    "time_slice",
                ],
            ),
        ],
    ),
    (
        "simt-jit",
        // `function` is the state of the code generator, which every folder extends by methods.
        &[
            layer("asm", &[]),
            layer("ablation", &[]),
            layer("host", &[]),
            layer("cache", &["asm"]),
            layer("frame_layout", &["asm"]),
            layer("regalloc", &["asm", "frame_layout", "function", "host"]),
            layer("operands", &["asm", "frame_layout", "function", "host", "regalloc"]),
            layer("frame", &["asm", "frame_layout", "function", "host", "operands", "regalloc"]),
            layer("scalar", &["asm", "frame_layout", "function", "host", "operands", "regalloc"]),
            layer(
                "memory",
                &[
                    "asm",
                    "frame",
                    "frame_layout",
                    "function",
                    "host",
                    "operands",
                    "regalloc",
                    "scalar",
                ],
            ),
            layer(
                "shared",
                &[
                    "asm",
                    "frame",
                    "frame_layout",
                    "function",
                    "host",
                    "memory",
                    "operands",
                    "regalloc",
                    "scalar",
                ],
            ),
            layer(
                "scalarize",
                &[
                    "asm",
                    "frame",
                    "frame_layout",
                    "function",
                    "host",
                    "memory",
                    "operands",
                    "regalloc",
                    "scalar",
                ],
            ),
            layer("lanewise", &["asm", "host", "operands"]),
            layer(
                "avx512",
                &[
                    "asm",
                    "frame",
                    "frame_layout",
                    "function",
                    "host",
                    "lanewise",
                    "memory",
                    "operands",
                    "regalloc",
                    "scalar",
                    "shared",
                ],
            ),
            layer(
                "avx2",
                &[
                    "asm",
                    "avx512",
                    "frame",
                    "frame_layout",
                    "function",
                    "host",
                    "lanewise",
                    "memory",
                    "operands",
                    "regalloc",
                    "scalar",
                    "shared",
                ],
            ),
        ],
    ),
];

/// The code of a file without its comments and its tests.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The folders (or files beside `lib.rs`) of the crate that code names, as `crate::name` or in
/// `crate::{...}`.
fn named_folders(code: &str) -> impl Iterator<Item = &str> {
    code.split("crate::").skip(1).flat_map(|rest| {
        let list = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default(),
            None => rest,
        };
        let parts = if list.len() == rest.len() { 1 } else { usize::MAX };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        list.split(',').take(parts).map(move |part| {
            let part = part.trim_start();
            &part[..part.find(|c| !is_name(c)).unwrap_or(part.len())]
        })
    })
}

#[test]
fn folders_name_only_what_is_below_them() {
    let mut complaints = Vec::new();
    for (name, layers) in LAYERS {
        let source = crate::root().join("crates").join(name).join("src");
        for path in tracked(&format!("crates/{name}/src/*.rs")) {
            let inside =
                path.strip_prefix(&source).expect("a source of the crate").to_string_lossy();
            let folder = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
            let Some(layer) = layers.iter().find(|layer| layer.folder == folder) else { continue };
            let others: Vec<&str> = layers.iter().map(|layer| layer.folder).collect();
            let text = code_of(&read(&path));
            for named in named_folders(&text) {
                let is_folder = source.join(named).is_dir()
                    || source.join(named).with_extension("rs").is_file();
                let is_known = others.contains(&named) || is_folder;
                if is_known && named != folder && !layer.may_name.contains(&named) {
                    complaints.push(format!("{name}/src/{inside}: names {named}"));
                }
            }
        }
        for layer in *layers {
            let there = source.join(layer.folder).is_dir()
                || source.join(layer.folder).with_extension("rs").is_file();
            assert!(there, "{name} has no {}", layer.folder);
        }
    }
    complaints.dedup();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Functions that a launch goes through on its way down, by file of crate client.
const WAY_OF_A_LAUNCH: &[(&str, &str)] = &[
    ("api/launch.rs", "cuLaunchKernel"),
    ("program/launch.rs", "launch"),
    ("program/submission.rs", "launch"),
    ("module/kernel_params.rs", "fill"),
];

/// A layer names only those below it, so the one way back up is a function that it is given.
#[test]
fn the_way_of_a_launch_goes_down() {
    for (file, function) in WAY_OF_A_LAUNCH {
        let text = read(&crate::root().join("crates/client/src").join(file));
        let start = text.find(&format!("fn {function}(")).expect("a function of the way");
        let end = text[start..].find('{').expect("a body") + start;
        let signature = &text[start..end];
        let is_called_back =
            ["impl Fn", "impl for<", "&dyn", "fn("].map(|way| signature.contains(way));
        assert!(!is_called_back.contains(&true), "client/src/{file}: {signature}");
    }
}
