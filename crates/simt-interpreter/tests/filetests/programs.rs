//! Whole programs: `.ptx` files whose comments say how to run them and what must come out.
//!
//! - `// run: KERNEL grid=X[,Y,Z] block=X[,Y,Z] [cluster=X[,Y,Z]] [shared=BYTES] [stack=BYTES]` starts a run; what
//!   follows belongs to it.
//! - `// arg: NAME TYPE[COUNT] [= VALUES]` is a pointer to a buffer; `// value: TYPE = V` a value.
//! - `// room: NAME TYPE[COUNT]` is a pointer to an uninitialised buffer.
//! - `// expect: NAME[OFFSET] TYPE = VALUES` compares memory after the run, from an element on.
//! - `// finding: TEXT` is what checking finds, in order, each line a part of a finding;
//!   `// findings: none` that it finds nothing.
//! - `// fault: KIND [line=N] [block=X] [thread=X] [at=BUFFER+OFFSET|OFFSET] [bytes=N] [write=0|1]`;
//!   `// print: TEXT` (lines in order, `\n` at each end).
//!
//! Types: u8 u16 u32 u64 f32 f64. Values: numbers, `V*N` repeats, `A..B` counts up, both ends in.

use super::harness::{Device, Params, STACK_BYTES, Shape};
use super::tiers::{ALL_SETS, Set};
use simt::kernel::{Dim3, Fault, FaultKind};
use std::collections::HashMap;

fn size(ty: &str) -> usize {
    match ty {
        "u8" => 1,
        "u16" => 2,
        "u32" | "f32" => 4,
        "u64" | "f64" => 8,
        other => panic!("type {other}"),
    }
}

fn one(ty: &str, text: &str) -> Vec<u8> {
    match ty {
        "f32" if !text.starts_with("0x") => text.parse::<f32>().expect(text).to_le_bytes().to_vec(),
        "f64" if !text.starts_with("0x") => text.parse::<f64>().expect(text).to_le_bytes().to_vec(),
        _ => {
            let value = match (text.strip_prefix("0x"), text.strip_prefix('-')) {
                (Some(hex), _) => u64::from_str_radix(hex, 16).expect(text),
                (_, Some(digits)) => digits.parse::<u64>().expect(text).wrapping_neg(),
                _ => text.parse().expect(text),
            };
            value.to_le_bytes()[..size(ty)].to_vec()
        }
    }
}

fn values(ty: &str, text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        if let Some((value, count)) = word.split_once('*') {
            bytes.extend(one(ty, value).repeat(count.parse().expect("a count")));
        } else if let Some((first, last)) = word.split_once("..") {
            let (first, last): (i64, i64) = (first.parse().expect(word), last.parse().expect(word));
            (first..=last).for_each(|v| bytes.extend(one(ty, &v.to_string())));
        } else {
            bytes.extend(one(ty, word));
        }
    }
    bytes
}

/// An argument of a kernel.
enum Argument {
    /// A pointer to a buffer of that name with these contents.
    Buffer(String, Vec<u8>),
    /// A pointer to a number of uninitialised bytes.
    Room(String, u64),
    /// These bytes.
    Value(Vec<u8>),
}

#[derive(Default)]
struct Run {
    line: usize,
    kernel: String,
    shape: Option<Shape>,
    /// The limit of a thread's stack.
    stack_bytes: Option<u32>,
    args: Vec<Argument>,
    expect: Vec<(usize, String, usize, String, Vec<u8>)>,
    /// Its kind, and what else is said of it.
    fault: Option<(String, Vec<(String, String)>)>,
    print: Option<String>,
    /// Parts of what checking finds.
    findings: Option<Vec<String>>,
}

fn dim(text: &str) -> Dim3 {
    let mut parts = text.split(',').map(|p| p.parse().expect("an extent"));
    let mut next = || parts.next().unwrap_or(1);
    Dim3 { x: next(), y: next(), z: next() }
}

fn bracketed(text: &str) -> (&str, usize) {
    match text.split_once('[') {
        Some((name, rest)) => (name, rest.trim_end_matches(']').parse().expect("a number")),
        None => (text, 0),
    }
}

fn parse(text: &str) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some((key, rest)) = line.strip_prefix("// ").and_then(|l| l.split_once(": ")) else {
            continue;
        };
        if key == "run" {
            let mut words = rest.split_whitespace();
            let kernel = words.next().expect("a kernel").to_owned();
            let mut shape = Shape::linear(1, 32);
            let mut stack_bytes = None;
            for word in words {
                match word.split_once('=').expect("key=value") {
                    ("grid", v) => shape.grid = dim(v),
                    ("block", v) => shape.block = dim(v),
                    ("cluster", v) => shape.cluster = Some(dim(v)),
                    ("shared", v) => shape.shared = v.parse().expect("bytes"),
                    ("stack", v) => stack_bytes = Some(v.parse().expect("bytes")),
                    other => panic!("{other:?}"),
                }
            }
            let shape = Some(shape);
            runs.push(Run { line: index + 1, kernel, shape, stack_bytes, ..Run::default() });
            continue;
        }
        let Some(run) = runs.last_mut() else { continue };
        let (left, right) = rest.split_once(" = ").unwrap_or((rest, ""));
        match key {
            "arg" => {
                let (name, ty) = left.split_once(' ').expect("a name and a type");
                let (ty, count) = bracketed(ty);
                let mut bytes = values(ty, right);
                bytes.resize(bytes.len().max(count * size(ty)), 0);
                run.args.push(Argument::Buffer(name.to_owned(), bytes));
            }
            "room" => {
                let (name, ty) = rest.split_once(' ').expect("a name and a type");
                let (ty, count) = bracketed(ty);
                run.args.push(Argument::Room(name.to_owned(), (count * size(ty)) as u64));
            }
            "value" => run.args.push(Argument::Value(values(left, right))),
            "expect" => {
                let (name, ty) = left.split_once(' ').expect("a name and a type");
                let (name, offset) = bracketed(name);
                let bytes = values(ty, right);
                run.expect.push((index + 1, name.to_owned(), offset, ty.to_owned(), bytes));
            }
            "fault" => {
                let mut words = rest.split_whitespace();
                let kind = words.next().expect("a kind").to_owned();
                let details = words.map(|word| word.split_once('=').expect("NAME=VALUE"));
                let details = details.map(|(name, value)| (name.to_owned(), value.to_owned()));
                run.fault = Some((kind, details.collect()));
            }
            "findings" => run.findings = Some(Vec::new()),
            "finding" => run.findings.get_or_insert_default().push(rest.to_owned()),
            "print" => {
                let all = run.print.get_or_insert_default();
                all.push_str(rest);
                all.push('\n');
            }
            _ => {}
        }
    }
    runs
}

fn kind_name(kind: &FaultKind) -> &'static str {
    match kind {
        FaultKind::IllegalAddress { .. } | FaultKind::OutsideSpace { .. } => "illegal_address",
        FaultKind::MisalignedAddress { .. } => "misaligned_address",
        FaultKind::UnsupportedInstruction { .. } => "unsupported_instruction",
        FaultKind::OutsideCluster => "outside_cluster",
        FaultKind::TensorMap { .. } => "tensor_map",
        FaultKind::InvalidPc { .. } => "invalid_pc",
        FaultKind::DynamicParallelism => "dynamic_parallelism",
        FaultKind::Trap => "trap",
        FaultKind::Assert { .. } => "assert",
        FaultKind::StackOverflow => "stack_overflow",
        FaultKind::InvalidFree { .. } => "invalid_free",
        FaultKind::BarrierDeadlock => "barrier_deadlock",
    }
}

/// What a kind of fault says of the access: address or offset, bytes, whether it writes.
fn access(kind: &FaultKind) -> Option<(u64, u32, Option<bool>)> {
    match *kind {
        FaultKind::IllegalAddress { address, bytes, write } => Some((address, bytes, Some(write))),
        FaultKind::OutsideSpace { offset, bytes, write, .. } => Some((offset, bytes, Some(write))),
        FaultKind::MisalignedAddress { address, bytes } => Some((address, bytes, None)),
        FaultKind::InvalidFree { address, .. } => Some((address, 0, None)),
        _ => None,
    }
}

/// Whether a fault is as a detail has it.
fn is_so(fault: &Fault, name: &str, value: &str, addresses: &HashMap<String, u64>) -> bool {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).expect(text),
        None => text.parse().expect(text),
    };
    match (name, access(&fault.kind)) {
        ("line", _) => u64::from(fault.line) == number(value),
        ("block", _) => u64::from(fault.block.x) == number(value),
        ("thread", _) => u64::from(fault.thread.x) == number(value),
        ("at", Some((address, ..))) => match value.split_once('+') {
            Some((buffer, offset)) => address == addresses[buffer] + number(offset),
            None => address == number(value),
        },
        ("bytes", Some((_, bytes, _))) => u64::from(bytes) == number(value),
        ("write", Some((.., Some(write)))) => u64::from(write) == number(value),
        _ => false,
    }
}

fn execute(
    file: &str,
    text: &str,
    run: &Run,
    set: Set,
    interrupted: bool,
    failures: &mut Vec<String>,
) {
    let how = if interrupted { ", interrupted" } else { "" };
    let place = format!("{file}:{} ({set:?}{how})", run.line);
    let mut device = match run.findings {
        Some(_) => Device::checking(set),
        None => Device::new(set),
    };
    device.interrupted = interrupted;
    device.stack_bytes = run.stack_bytes.unwrap_or(STACK_BYTES);
    let module = match device.load(text) {
        Ok(module) => module,
        Err(error) => return failures.push(format!("{place}: {error}")),
    };
    let mut params = Params::default();
    let mut addresses = HashMap::new();
    for argument in &run.args {
        let (name, address) = match argument {
            Argument::Value(bytes) => {
                params.push(bytes);
                continue;
            }
            Argument::Room(name, bytes) => (name, device.memory.allocate(*bytes, true)),
            Argument::Buffer(name, bytes) => {
                let address = device.memory.allocate(bytes.len() as u64, true);
                device.memory.write(address, bytes);
                (name, address)
            }
        };
        addresses.insert(name.clone(), address);
        params.push(&address.to_le_bytes());
    }
    let Some(kernel) = module.kernel(&run.kernel) else {
        return failures.push(format!("{place}: no kernel {}", run.kernel));
    };
    let outcome = device.run(&kernel, run.shape.expect("a shape"), &params.0);
    match (&outcome, &run.fault) {
        (Ok(()), None) => {}
        (Err(fault), Some((kind, details)))
            if kind_name(&fault.kind) == kind
                && details.iter().all(|(name, value)| is_so(fault, name, value, &addresses)) => {}
        _ => return failures.push(format!("{place}: {outcome:?}, expected {:?}", run.fault)),
    }
    if let (Some(expected), Some(found)) = (&run.findings, &device.findings) {
        let found = found.lock().unwrap();
        let same = expected.len() == found.len()
            && expected.iter().zip(found.iter()).all(|(part, text)| text.contains(part));
        if !same {
            failures.push(format!("{place}: found {found:#?}, expected {expected:#?}"));
        }
    }
    if let Some(print) = &run.print {
        let printed = device.printed.0.lock().unwrap();
        let printed = String::from_utf8_lossy(&printed);
        if printed != *print {
            failures.push(format!("{place}: printed {printed:?}, expected {print:?}"));
        }
    }
    for (line, name, offset, ty, expected) in &run.expect {
        let size = size(ty);
        let address = match addresses.get(name) {
            Some(address) => *address,
            None => module.global(name).unwrap_or_else(|| panic!("{place}: no {name}")).0,
        };
        let got = device.memory.read(address + (offset * size) as u64, expected.len());
        for (i, (g, e)) in got.chunks(size).zip(expected.chunks(size)).enumerate() {
            if g != e {
                let hex = |b: &[u8]| b.iter().rev().map(|b| format!("{b:02x}")).collect::<String>();
                failures.push(format!(
                    "{file}:{line} ({set:?}): {name}[{}] is 0x{}, not 0x{}",
                    offset + i,
                    hex(g),
                    hex(e)
                ));
                break;
            }
        }
    }
}

#[test]
fn programs() {
    let folder = format!("{}/../simt-interpreter/tests/filetests", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "ptx"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let mut failures = Vec::new();
    for path in files {
        let file = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a program");
        let runs = parse(&text);
        assert!(!runs.is_empty(), "{file} runs nothing");
        for run in &runs {
            let checks = run.expect.len()
                + usize::from(run.fault.is_some() || run.print.is_some() || run.findings.is_some());
            assert!(checks > 0, "{file}:{} checks nothing", run.line);
            for set in ALL_SETS {
                execute(&file, &text, run, set, false, &mut failures);
            }
            execute(&file, &text, run, ALL_SETS[0], true, &mut failures);
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
