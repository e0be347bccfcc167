//! Layers: which folder of a crate may name which other, as facts that a test compares with the code.

use crate::tidy::{read, tracked};

/// What a folder of a crate (or a file beside `lib.rs`) may name of the crate's others.
struct Layer {
    folder: &'static str,
    may_name: &'static [&'static str],
}

const fn layer(folder: &'static str, may_name: &'static [&'static str]) -> Layer {
    Layer { folder, may_name }
}

/// The layers of crates, or of a crate's folder (`crate/folder`), the lowest first. Folders that are not listed may name everything and
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
            layer("memory", &["connection", "handles", "stderr"]),
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
            layer(
                "graph",
                &["connection", "handles", "lock", "memory", "module", "program", "stream"],
            ),
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
            layer("register_file", &[]),
            layer("processor", &["register_file"]),
            // Handlers see the block that their warp is in, and what checks keep of it.
            layer("handler_context", &["check", "ops", "register_file", "run"]),
            layer("ops", &["check", "handler_context", "processor", "register_file", "run"]),
            layer("runtime", &["handler_context", "ops"]),
            layer("check", &["handler_context", "ops", "register_file"]),
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
                    "lanewise",
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
                    "lanewise",
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
    (
        "soft-gpu",
        // Tests alone name `testing`.
        &[
            layer("error", &[]),
            layer("testing", &["device"]),
            layer("device", &["error", "testing"]),
            layer("api", &["device", "error", "testing"]),
        ],
    ),
    (
        "server",
        &[
            layer("kernel_log", &[]),
            layer("last_request", &[]),
            layer("log", &[]),
            layer("scheduling", &[]),
            layer("trace_log", &[]),
            layer("window", &[]),
            layer("device", &["window"]),
            layer("account", &[]),
            layer("host_memory", &["account"]),
            layer("oversubscription", &[]),
            layer("meter", &["device", "trace_log"]),
            layer("counting", &["device", "meter"]),
            layer("green_ahead", &["device"]),
            layer("printed", &["log"]),
            layer("shared", &["device"]),
            layer("warm", &["device", "log"]),
            layer(
                "common",
                &[
                    "account",
                    "counting",
                    "oversubscription",
                    "device",
                    "green_ahead",
                    "host_memory",
                    "kernel_log",
                    "log",
                    "printed",
                    "scheduling",
                    "shared",
                    "trace_log",
                    "warm",
                    "window",
                ],
            ),
            layer(
                "session",
                &[
                    "account",
                    "common",
                    "oversubscription",
                    "device",
                    "last_request",
                    "meter",
                    "scheduling",
                    "trace_log",
                    "window",
                ],
            ),
            layer("after_start", &["common", "device"]),
            layer("cupti_windows", &["after_start", "common"]),
            layer(
                "run",
                &[
                    "after_start",
                    "common",
                    "oversubscription",
                    "cupti_windows",
                    "device",
                    "log",
                    "meter",
                    "printed",
                    "session",
                    "warm",
                    "window",
                ],
            ),
        ],
    ),
    (
        "server/session",
        &[
            layer("handles", &[]),
            layer("memory", &["handles"]),
            layer("module", &["handles", "memory"]),
            layer("policy", &[]),
            layer("printing", &[]),
            layer("link", &["policy"]),
            layer("stream", &["handles", "link", "memory", "module", "policy", "printing"]),
            layer("graph", &["handles", "memory", "module", "policy", "stream"]),
        ],
    ),
    (
        "control",
        &[
            layer("activation", &[]),
            layer("counts", &[]),
            layer("cgroup", &[]),
            layer("error", &[]),
            layer("faults", &[]),
            layer("log", &[]),
            layer("process", &[]),
            layer("settings", &[]),
            layer("status", &[]),
            layer("trace", &[]),
            layer("users", &[]),
            layer("access", &["users"]),
            layer("accounting", &["log", "users"]),
            layer("directory", &["activation", "error", "users"]),
            layer("fault_budget", &["faults"]),
            layer("format", &["log", "status"]),
            layer("options", &["access"]),
            layer("report", &["faults", "status"]),
            // Protocol 3: what the daemon asks of it, and in a folder of it what the daemon does with it.
            layer("v3", &["directory", "error", "log", "settings"]),
            layer("settings_file", &["error", "fault_budget", "options", "v3"]),
            layer(
                "daemon",
                &[
                    "accounting",
                    "activation",
                    "cgroup",
                    "directory",
                    "error",
                    "fault_budget",
                    "faults",
                    "log",
                    "options",
                    "process",
                    "report",
                    "settings",
                    "settings_file",
                    "status",
                    "users",
                    "v3",
                ],
            ),
            layer("v3/daemon", &["cgroup", "daemon", "report", "status", "users", "v3"]),
            layer(
                "command",
                &["counts", "daemon", "format", "log", "report", "status", "trace", "users", "v3"],
            ),
            layer("v3/command", &["command", "format", "log", "status", "users", "v3"]),
            layer("shell", &["command", "directory", "process", "report", "status"]),
            layer("locate", &["directory", "report", "shell"]),
            layer(
                "program",
                &[
                    "command",
                    "daemon",
                    "locate",
                    "options",
                    "report",
                    "settings_file",
                    "shell",
                    "v3",
                ],
            ),
        ],
    ),
    (
        "openmps-k8s",
        &[
            layer("driver", &[]),
            layer("libraries", &[]),
            layer("proto", &[]),
            layer("quantity", &[]),
            layer("parameters", &["driver", "quantity"]),
            layer("health", &[]),
            layer("gpu", &["driver", "health"]),
            layer("share", &["driver", "gpu", "parameters", "quantity"]),
            layer("cdi", &["driver", "share"]),
            layer("checkpoint", &["share"]),
            layer("daemon", &["gpu", "share"]),
            layer("joined", &["share"]),
            layer("prepare", &["cdi", "checkpoint", "daemon", "driver", "gpu", "joined", "share"]),
            layer("api", &["checkpoint", "driver", "gpu", "prepare", "share"]),
            layer("metrics", &["checkpoint", "daemon", "prepare", "share"]),
            layer(
                "agent",
                &[
                    "api",
                    "checkpoint",
                    "daemon",
                    "driver",
                    "gpu",
                    "health",
                    "joined",
                    "metrics",
                    "prepare",
                    "share",
                ],
            ),
            layer("kubelet", &["agent", "prepare", "proto", "share"]),
            layer(
                "run",
                &["agent", "api", "daemon", "driver", "health", "kubelet", "prepare", "proto"],
            ),
        ],
    ),
    (
        "observe",
        &[
            layer("names", &[]),
            layer("reading", &[]),
            layer("past", &["reading"]),
            layer("rates", &["past", "reading"]),
            layer("source", &[]),
            layer("metrics", &["names", "reading"]),
            layer("advise", &["names", "rates", "reading"]),
            layer("top", &["names", "past", "rates", "reading"]),
            layer("trace", &["names", "source"]),
            layer(
                "web",
                &["advise", "metrics", "names", "past", "rates", "reading", "source", "trace"],
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

/// The folders (or files) below `above`, such as `crate::`, that code names, as `crate::name` or in
/// `crate::{...}`.
fn named_folders<'a>(code: &'a str, above: &'a str) -> impl Iterator<Item = &'a str> {
    code.split(above).skip(1).flat_map(|rest| {
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
        let (package, within) = name.split_once('/').unwrap_or((name, ""));
        let source = crate::root().join("crates").join(package).join("src").join(within);
        let files = tracked(&format!("{}/*.rs", source.display()));
        let above = match within {
            "" => "crate::".to_owned(),
            within => format!("crate::{within}::"),
        };
        // Tests in a file of their own may name what the tests of others have.
        for path in files.iter().filter(|path| !path.ends_with("tests.rs")) {
            let inside =
                path.strip_prefix(&source).expect("a source of the crate").to_string_lossy();
            let outer = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
            // A folder within a folder may have a row of its own.
            let inner = |layer: &&Layer| {
                inside.strip_prefix(layer.folder).is_some_and(|rest| rest.starts_with('/'))
            };
            let own = |layer: &&Layer| layer.folder == outer;
            let nested = layers.iter().filter(inner).max_by_key(|layer| layer.folder.len());
            let Some(layer) = nested.or_else(|| layers.iter().find(own)) else { continue };
            let folder = layer.folder;
            let others: Vec<&str> = layers.iter().map(|layer| layer.folder).collect();
            let text = code_of(&read(path));
            for named in named_folders(&text, &above) {
                let is_folder = source.join(named).is_dir()
                    || source.join(named).with_extension("rs").is_file();
                let is_known = others.contains(&named) || is_folder;
                if is_known && named != folder && !layer.may_name.contains(&named) {
                    complaints.push(format!("{name}: {inside} names {named}"));
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
