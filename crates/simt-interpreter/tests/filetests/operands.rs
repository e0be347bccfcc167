//! Every form of the instruction table with every kind of operand that PTX allows: each tier gives what the
//! interpreter gives, and that what `ptx-reference` gives where it knows the instruction.
//!
//! Forms and their spellings come from `ptx::examples`; operands are varied one at a time, and what the checker
//! takes is run: registers of each type and width, the same in all lanes or a stride apart, constants, special
//! registers, negated predicates, `_`, and addresses in registers of 32 and 64 bits and by name. Several
//! instructions make a kernel, in warps that are full, partial by a guard, or partial by a branch. All registers
//! that a kernel names, and the memory it may have written, are compared, so that an instruction that spoils
//! another's operands is found too.
//!
//! A part runs by default; `OPENMPS_FORMS=all` runs everything, `OPENMPS_FORMS=N/M` the N-th of M parts,
//! `OPENMPS_FORMS=WORD` what starts with a word.
//!
//! Deliberately absent: control flow, barriers and what waits (`ptx-reference` makes such programs), textures and
//! tensor maps (`texture_random`, `tensor_copy`), and `wgmma`, which have tests of their own.

use super::harness::{Device, Params, Shape};
use super::tiers::{self, HELD, Set};
use ptx::examples::{self, Example, FIRST_LINE};
use ptx_reference::{Argument, Launch, Random};
use simt::kernel::FaultKind;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Between them they have every instruction.
const TARGETS: &[(&str, &str)] = &[
    ("9.5", "sm_90a"),
    ("9.5", "sm_100a"),
    ("9.5", "sm_103a"),
    ("9.5", "sm_107a"),
    ("9.5", "sm_110a"),
    ("9.5", "sm_120a"),
    ("6.3", "sm_72"),
];

/// Starts of what is not made here, each with who does.
const ELSEWHERE: &[&str] = &[
    // Control flow and barriers: programs, not instructions.
    "bra",
    "brx",
    "call",
    "ret",
    "exit",
    "trap",
    "brkpt",
    "barrier",
    "bar.sync",
    "bar.arrive",
    "bar.red",
    "bar.cta",
    "nanosleep",
    "stackrestore",
    "alloca",
    // Textures and tensor maps.
    "tex",
    "tld4",
    "txq",
    "suld",
    "sust",
    "sured",
    "suq",
    "tensormap",
    "cp.async.bulk.tensor",
    "cp.reduce.async.bulk.tensor",
    "cp.async.bulk.prefetch.tensor",
    "istypep",
    // Warp groups of 128 threads.
    "wgmma",
    "setmaxnreg",
    // What the software GPU does not have, as `simt/tests/unsupported.txt` says.
    "tcgen05",
    "multimem",
    // A launch of its own.
    "griddepcontrol",
];

/// Threads of a block: two warps.
const THREADS: u32 = 64;
/// Bytes a thread has of each register's values.
const CELL: usize = 16;
/// Registers' values in the input, at most.
const SLOTS: usize = 256;
const INPUT_BYTES: usize = SLOTS * THREADS as usize * CELL;
/// Memory that instructions access.
const MEM_BYTES: usize = 64 << 10;
/// Results a thread: of registers and of memory.
const RESULTS: usize = 224;
const OUTPUT_BYTES: usize = RESULTS * THREADS as usize * CELL;
/// Instructions of a kernel.
const BATCH: usize = 6;

const DECLARED: &str = ".reg .b64 %in, %inl, %out, %mem, %ga<20>; .reg .b32 %sa<20>, %k<8>, %t0; .reg .pred %pq; \
    .reg .b32 %v<4>; .reg .b16 %n0; .reg .b8 %m0; .shared .align 128 .b8 tile[8192]; \
    .local .align 128 .b8 own[256]";

/// Registers of addresses and what makes them, of thread `%t0`.
const ADDRESSES: &[(&str, &str)] = &[
    // In global memory: scattered, the same, at two strides, one behind the other as a table says.
    ("%ga1", "mul.lo.u32 %k0, %t0, 5; and.b32 %k0, %k0, 63; mad.wide.u32 %ga1, %k0, 64, %mem"),
    ("%ga2", "mov.b64 %ga2, %mem"),
    ("%ga3", "mad.wide.u32 %ga3, %t0, 16, %mem"),
    ("%ga4", "mad.wide.u32 %ga4, %t0, 4, %mem"),
    (
        "%ga5",
        "ld.global.u32 %k0, [%in+8]; and.b32 %k0, %k0, 0; mad.lo.u32 %k0, %t0, 16, %k0; \
              cvt.u64.u32 %ga5, %k0; add.u64 %ga5, %mem, %ga5",
    ),
    // In shared memory, as numbers of 64 bits and of 32.
    (
        "%ga6",
        "mul.lo.u32 %k0, %t0, 5; and.b32 %k0, %k0, 63; mov.u64 %ga6, tile; mad.wide.u32 %ga6, %k0, 16, %ga6",
    ),
    ("%ga7", "mov.u64 %ga7, tile"),
    ("%ga8", "mov.u64 %ga8, tile; mad.wide.u32 %ga8, %t0, 16, %ga8"),
    ("%ga9", "mov.u64 %ga9, tile; mad.wide.u32 %ga9, %t0, 4, %ga9"),
    (
        "%sa1",
        "mul.lo.u32 %k0, %t0, 5; and.b32 %k0, %k0, 63; mov.u32 %sa1, tile; mad.lo.u32 %sa1, %k0, 16, %sa1",
    ),
    ("%sa2", "mov.u32 %sa2, tile"),
    ("%sa3", "mov.u32 %sa3, tile; mad.lo.u32 %sa3, %t0, 16, %sa3"),
    ("%sa4", "mov.u32 %sa4, tile; mad.lo.u32 %sa4, %t0, 4, %sa4"),
    // mbarriers.
    ("%sa7", "mov.u32 %sa7, tile; mad.lo.u32 %sa7, %t0, 16, %sa7; add.u32 %sa7, %sa7, 4096"),
    (
        "%ga17",
        "mov.u64 %ga17, tile; mad.wide.u32 %ga17, %t0, 16, %ga17; add.u64 %ga17, %ga17, 4096",
    ),
    // In local and constant memory.
    ("%ga10", "mov.u64 %ga10, own"),
    ("%sa5", "mov.u32 %sa5, own"),
    ("%ga11", "and.b32 %k0, %t0, 1; mov.u64 %ga11, own; mad.wide.u32 %ga11, %k0, 32, %ga11"),
    ("%ga12", "and.b32 %k0, %t0, 1; mov.u64 %ga12, const_data; mad.wide.u32 %ga12, %k0, 32, %ga12"),
    ("%ga13", "mov.u64 %ga13, const_data"),
    // Generic ones of shared and of local memory.
    (
        "%ga14",
        "mul.lo.u32 %k0, %t0, 5; and.b32 %k0, %k0, 63; mov.u64 %ga14, tile; \
               mad.wide.u32 %ga14, %k0, 16, %ga14; cvta.shared.u64 %ga14, %ga14",
    ),
    ("%ga15", "mov.u64 %ga15, own; cvta.local.u64 %ga15, %ga15"),
];

/// Kinds of registers of `ptx::examples`: prefix, how many there are, type that moves them.
const KINDS: &[(&str, usize, &str)] = &[
    ("%uc", 8, "b8"),
    ("%sw", 8, "b16"),
    ("%hf", 8, "b16"),
    ("%hx", 8, "b32"),
    ("%ud", 8, "b64"),
    ("%sd", 8, "b64"),
    ("%p", 8, "pred"),
    ("%c", 8, "b8"),
    ("%h", 40, "b16"),
    ("%w", 8, "b16"),
    ("%r", 260, "b32"),
    ("%u", 40, "b32"),
    ("%i", 260, "b32"),
    ("%f", 260, "b32"),
    ("%d", 40, "b64"),
    ("%e", 40, "b64"),
    ("%q", 8, "b128"),
];

/// A register of [`KINDS`]: its kind and number.
type Register = (usize, usize);

fn name((kind, number): Register) -> String {
    format!("{}{number}", KINDS[kind].0)
}

/// The registers of [`KINDS`] that a text names.
fn registers(text: &str) -> Vec<Register> {
    let mut found = Vec::new();
    for part in text.split('%').skip(1) {
        let letters = part.chars().take_while(char::is_ascii_alphabetic).count();
        let digits = part[letters..].chars().take_while(char::is_ascii_digit).count();
        let number: Option<usize> = part[letters..letters + digits].parse().ok();
        let prefix = &part[..letters];
        let kind = KINDS.iter().position(|(p, ..)| &p[1..] == prefix);
        if let (Some(kind), Some(number)) = (kind, number)
            && number < KINDS[kind].1
        {
            found.push((kind, number));
        }
    }
    found
}

/// How a register's values are: numbers from 20 on are the same in all lanes, from 30 on at a stride.
fn is_uniform((kind, number): Register) -> bool {
    match KINDS[kind].1 {
        8 => number >= 6,
        _ => (20..30).contains(&number),
    }
}

/// One instruction to try.
#[derive(Clone, Debug)]
struct Case {
    /// As it is written.
    text: String,
    /// In front of it.
    before: Vec<String>,
    /// The first operand, which is the result of most.
    first: String,
    /// Index in [`TARGETS`].
    target: usize,
}

impl Case {
    /// True if it may be run by a part of a warp.
    fn may_be_partial(&self) -> bool {
        !self.text.contains(".aligned") && !self.text.starts_with("mma")
    }
}

/// The operands that may stand in the place of one of an example.
fn alternatives(example: &Example, at: usize) -> Vec<String> {
    let own = example.operands[at].as_str();
    let of = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
    let mbarrier = example.name.starts_with("mbarrier");
    match own {
        // Both the barrier of a copy and what it copies are in shared memory.
        "[shared_data]" if example.name.starts_with("cp.") && at >= 2 => {
            of(&["[%sa7]", "[%ga17]", "[%sa7+16]"])
        }
        "[%d9]" if mbarrier => of(&["[%ga14]", "[%ga14+16]"]),
        "[%d9]" if example.name.starts_with("wmma") => of(&["[%ga2]", "[%ga2+128]"]),
        "[shared_data]" if example.name.starts_with("wmma") => {
            of(&["[%sa2]", "[%ga7]", "[%sa2+128]", "[%ga7+128]"])
        }
        "[%d9]" => of(&[
            "[%ga1]",
            "[%ga1+16]",
            "[%ga2]",
            "[%ga3]",
            "[%ga3+16]",
            "[%ga4]",
            "[%ga5]",
            "[global_data]",
            "[global_data+16]",
            "[%ga14]",
            "[%ga15]",
        ]),
        "[shared_data]" => of(&[
            "[%sa1]",
            "[%sa1+16]",
            "[%sa2]",
            "[%sa3]",
            "[%sa3+16]",
            "[%sa4]",
            "[%ga6]",
            "[%ga6+16]",
            "[%ga7]",
            "[%ga8]",
            "[%ga8+16]",
            "[%ga9]",
            "[shared_data]",
            "[shared_data+16]",
        ]),
        "[local_data]" => {
            of(&["[%ga10]", "[%ga11]", "[%ga11+16]", "[%sa5]", "[local_data]", "[local_data+16]"])
        }
        "[const_data]" => of(&["[%ga12]", "[%ga13]", "[const_data]", "[const_data+16]"]),
        "[param_data]" => of(&["[param_data]", "[param_data+16]"]),
        _ if own.starts_with('[') => of(&[own]),
        _ if own.contains('|') => {
            let (a, b) = own.split_once('|').unwrap_or((own, own));
            vec![own.to_owned(), format!("{a}|_"), format!("_|{b}")]
        }
        _ if own.starts_with('{') => {
            let elements: Vec<&str> = own[1..own.len() - 1].split(", ").collect();
            let joined = |list: Vec<String>| format!("{{{}}}", list.join(", "));
            let each = |f: &dyn Fn(usize, &str) -> String| {
                joined(elements.iter().enumerate().map(|(n, e)| f(n, e)).collect())
            };
            vec![
                own.to_owned(),
                each(&|_, e| uniform(e)),
                each(&|_, _| elements[0].to_owned()),
                each(&|n, e| if n == 0 { "_".to_owned() } else { e.to_owned() }),
                each(&|n, e| if n + 1 == elements.len() { "_".to_owned() } else { e.to_owned() }),
                each(&|n, e| if n % 2 == 0 { "3".to_owned() } else { e.to_owned() }),
                each(&|n, e| if n % 2 == 0 { "0f3FC00000".to_owned() } else { e.to_owned() }),
                each(&|_, e| other_type(e)),
            ]
        }
        _ if own.starts_with('%') => {
            let mut list = of(&[
                own,
                "_",
                "7",
                "-3",
                "300",
                "0f3FC00000",
                "0dC008000000000000",
                "WARP_SZ",
                "%laneid",
            ]);
            list.push(format!("!{own}"));
            list.push(format!("-{own}"));
            list.push(uniform(own));
            if let [register @ (kind, number)] = registers(own)[..] {
                debug_assert_eq!(name(register), own);
                if KINDS[kind].1 > 40 || KINDS[kind].1 == 40 && number < 8 {
                    list.push(format!("{}{}", KINDS[kind].0, number + 30));
                }
                // Any other kind of register.
                list.extend(
                    KINDS.iter().map(|(prefix, ..)| format!("{prefix}{}", number.clamp(1, 5))),
                );
            }
            list
        }
        _ => of(&[own]),
    }
}

/// The register of the same kind whose value all lanes have.
fn uniform(own: &str) -> String {
    match registers(own)[..] {
        [(kind, _)] if KINDS[kind].1 == 8 => format!("{}6", KINDS[kind].0),
        [(kind, number)] => format!("{}{}", KINDS[kind].0, 20 + number % 10),
        _ => own.to_owned(),
    }
}

/// A register of as many bits and another type.
fn other_type(own: &str) -> String {
    match registers(own)[..] {
        [(kind, number)] => {
            let bits = KINDS[kind].2;
            let other = KINDS
                .iter()
                .enumerate()
                .find(|(n, (.., b))| *n != kind && *b == bits && KINDS[*n].1 > 8);
            other.map_or(own.to_owned(), |(_, (prefix, ..))| format!("{prefix}{}", number % 20))
        }
        _ => own.to_owned(),
    }
}

/// All variants of an example, whether PTX allows them or not.
fn variants(example: &Example) -> Vec<Example> {
    let lists: Vec<Vec<String>> =
        (0..example.operands.len()).map(|at| alternatives(example, at)).collect();
    let first: Vec<String> = lists.iter().map(|list| list[0].clone()).collect();
    let mut found = Vec::new();
    let mut push = |operands: Vec<String>| {
        found.push(Example { template: example.template, name: example.name.clone(), operands });
    };
    push(first.clone());
    for (at, list) in lists.iter().enumerate() {
        for other in &list[1..] {
            let mut operands = first.clone();
            operands[at].clone_from(other);
            push(operands);
        }
    }
    // All sources the same in all lanes, with a result and without one; and addresses at a stride beside that.
    let same = |from: usize, address: &dyn Fn(&str) -> String| -> Vec<String> {
        let each = |(n, own): (usize, &String)| match own.starts_with('[') {
            true => address(own),
            false if n < from => own.clone(),
            false => uniform(own),
        };
        first.iter().enumerate().map(each).collect()
    };
    for from in [0, 1] {
        push(same(from, &str::to_owned));
        push(same(from, &|own| own.replace("%sa1", "%sa3").replace("%ga1]", "%ga3]")));
    }
    found
}

/// An instruction that may be run, and what it needs in front.
fn case(example: &Example) -> Option<Case> {
    let (name, mut before) = (example.name.as_str(), Vec::new());
    let words: Vec<&str> = name.split('.').collect();
    let last = example.operands.last().cloned().unwrap_or_default();
    let mask = match words[0] {
        "shfl" | "vote" | "match" | "redux" | "elect" => words.contains(&"sync"),
        "bar" => words.contains(&"warp"),
        _ => false,
    };
    if mask {
        match registers(&last)[..] {
            [_] if last.starts_with("%r") => before.push(format!("activemask.b32 {last}")),
            _ => return None,
        }
    }
    if words[0] == "mbarrier" && words[1] != "init" {
        let address = example.operands.iter().find(|o| o.starts_with('['));
        let space =
            if words.contains(&"shared") || name.contains("shared::") { ".shared" } else { "" };
        if let Some(address) = address {
            before.push(format!("mbarrier.init{space}.b64 {address}, 64"));
        }
    }
    if name.starts_with("cp.async.mbarrier") {
        before.push(format!("mbarrier.init.shared.b64 {last}, 64"));
    }
    let bulk = name.starts_with("cp.async.bulk") || name.starts_with("cp.reduce.async.bulk");
    for (at, operand) in example.operands.iter().enumerate() {
        if bulk && at >= 2 && operand.starts_with('[') {
            before.push(format!("mbarrier.init.shared.b64 {operand}, 64"));
        }
        match registers(operand)[..] {
            [(kind, _)] if bulk && KINDS[kind].2 == "b32" => {
                before.push(format!("mov.b32 {operand}, 32"))
            }
            [(kind, _)] if bulk && KINDS[kind].2 == "b16" => {
                before.push(format!("mov.b16 {operand}, 1"))
            }
            // All bytes, or as many as the lane's number says.
            [(kind, 20..)] if name.starts_with("cp.async") && KINDS[kind].2 == "b32" => {
                before.push(format!("mov.b32 {operand}, 16"));
            }
            // Bytes of a row of a fragment.
            [(kind, _)] if words[0] == "wmma" && at >= 2 && KINDS[kind].2 == "b32" => {
                before.push(format!("mov.b32 {operand}, 32"));
            }
            _ => {}
        }
    }
    let first = example.operands.first().cloned().unwrap_or_default();
    Some(Case { text: example.text(), before, first, target: usize::MAX })
}

/// Which of these a target's checker takes.
fn taken(target: (&str, &str), cases: &[Case]) -> Vec<bool> {
    let mut verdicts = vec![true; cases.len()];
    for (start, part) in (0..).step_by(60).zip(cases.chunks(60)) {
        let mut bodies = vec![DECLARED.to_owned()];
        bodies.extend(part.iter().map(|case| case.text.clone()));
        loop {
            let text = examples::module(target.0, target.1, &bodies);
            let Err(errors) = ptx::parse(&text).and_then(|module| ptx::check(&module)) else {
                break;
            };
            let mut progress = false;
            for diagnostic in &errors.diagnostics {
                let index =
                    (diagnostic.position.line.wrapping_sub(FIRST_LINE) as usize).wrapping_sub(1);
                if index < part.len() && bodies[index + 1] != "exit" {
                    verdicts[start + index] = false;
                    progress = true;
                    "exit".clone_into(&mut bodies[index + 1]);
                }
            }
            if !progress {
                break;
            }
        }
    }
    verdicts
}

/// How warps run a kernel's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Full,
    /// By a guard that is true.
    Guarded,
    /// By a guard that is true in some lanes.
    Partial,
    /// In a branch that some lanes take.
    Branch,
}

const MODES: [Mode; 4] = [Mode::Full, Mode::Guarded, Mode::Partial, Mode::Branch];

/// A kernel of some instructions.
fn text(cases: &[Case], mode: Mode) -> String {
    let mut bodies = vec![DECLARED.to_owned()];
    let mut push = |line: String| bodies.push(line);
    let all: Vec<&str> = cases
        .iter()
        .flat_map(|case| case.before.iter().map(String::as_str).chain([case.text.as_str()]))
        .collect();
    for line in [
        "ld.param.u64 %in, [param_data+40]",
        "ld.param.u64 %out, [param_data+48]",
        "ld.param.u64 %mem, [param_data+56]",
        "mov.u32 %t0, %tid.x",
        "mad.wide.u32 %inl, %t0, 16, %in",
        "mad.wide.u32 %out, %t0, 16, %out",
        // What shared and local memory hold.
        "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%inl+3072]",
        "mov.u32 %k1, tile",
        "mad.lo.u32 %k1, %t0, 16, %k1",
    ] {
        push(line.to_owned());
    }
    for row in 0..4 {
        push(format!("st.shared.v4.b32 [%k1+{}], {{%v0, %v1, %v2, %v3}}", 1024 * row));
    }
    for row in 0..4 {
        push(format!("st.local.v4.b32 [own+{}], {{%v1, %v2, %v3, %v0}}", 16 * row));
        push(format!("st.local.v4.b32 [local_data+{}], {{%v2, %v3, %v0, %v1}}", 16 * row));
    }
    push("bar.sync 0".to_owned());
    push("ld.global.u32 %k2, [%inl+2048]; and.b32 %k2, %k2, 1; setp.ne.u32 %pq, %k2, 0".to_owned());
    let named = |register: &str| {
        all.iter().any(|text| {
            text.split(|c: char| !c.is_ascii_alphanumeric() && c != '%').any(|w| w == register)
        })
    };
    for (register, made) in ADDRESSES {
        if named(register) {
            push((*made).to_owned());
        }
    }
    let used: BTreeSet<Register> = all.iter().flat_map(|text| registers(text)).collect();
    for &register in &used {
        let ((kind, number), name) = (register, name(register));
        let ty = KINDS[kind].2;
        let slot = (kind * 37 + number) % SLOTS * THREADS as usize * CELL;
        let base = if is_uniform(register) { "%in" } else { "%inl" };
        match ty {
            "pred" if number == 7 => push(format!("setp.eq.u32 {name}, %k2, %k2")),
            "pred" => push(format!(
                "ld.global.u32 %k3, [{base}+{slot}]; and.b32 %k3, %k3, 4; setp.ne.u32 {name}, %k3, 0"
            )),
            "b32" if (30..40).contains(&number) => push(format!(
                "mad.lo.u32 {}, %t0, 4, 96",
                if KINDS[kind].0 == "%f" { "%k4" } else { &name }
            )),
            "b64" if number >= 30 && KINDS[kind].0 != "%e" => {
                push(format!("mul.wide.u32 {name}, %t0, 8"))
            }
            _ => push(format!("ld.global.{ty} {name}, [{base}+{slot}]")),
        }
    }
    if mode == Mode::Branch {
        push("@!%pq bra BEHIND".to_owned());
    }
    let mut result = 0;
    let mut save = |push: &mut dyn FnMut(String), register: Register| {
        let at = result * THREADS as usize * CELL;
        result += 1;
        let name = name(register);
        match KINDS[register.0].2 {
            "pred" => push(format!("selp.u32 %k5, 1, 0, {name}; st.global.b32 [%out+{at}], %k5")),
            ty => push(format!("st.global.{ty} [%out+{at}], {name}")),
        }
    };
    for case in cases {
        case.before.iter().for_each(|line| push(line.clone()));
        let guard = match mode {
            Mode::Guarded => "@%p7 ",
            Mode::Partial => "@%pq ",
            Mode::Full | Mode::Branch => "",
        };
        push(format!("{guard}{}", case.text));
        registers(&case.first).into_iter().take(8).for_each(|register| save(&mut push, register));
    }
    if mode == Mode::Branch {
        push("BEHIND: bar.warp.sync -1".to_owned());
    }
    used.iter().take(RESULTS / 2).for_each(|register| save(&mut push, *register));
    push("bar.sync 0".to_owned());
    let mut at = (RESULTS - 24) * THREADS as usize * CELL;
    let mut keep = |push: &mut dyn FnMut(String), space: &str, address: String| {
        push(format!("ld.{space}.v4.b32 {{%v0, %v1, %v2, %v3}}, [{address}]"));
        push(format!("st.global.v4.b32 [%out+{at}], {{%v0, %v1, %v2, %v3}}"));
        at += THREADS as usize * CELL;
    };
    (0..6).for_each(|row| keep(&mut push, "shared", format!("%k1+{}", 1024 * row)));
    (0..4).for_each(|row| keep(&mut push, "local", format!("own+{}", 16 * row)));
    (0..4).for_each(|row| keep(&mut push, "local", format!("local_data+{}", 16 * row)));
    push("and.b32 %k0, %t0, 15; mov.u32 %k1, shared_data; mad.lo.u32 %k1, %k0, 16, %k1".to_owned());
    (0..4).for_each(|row| keep(&mut push, "shared", format!("%k1+{}", 256 * row)));
    push("mov.u64 %ga0, global_data; mad.wide.u32 %ga0, %k0, 16, %ga0".to_owned());
    keep(&mut push, "global", "%ga0".to_owned());
    if mode == Mode::Guarded && !used.iter().any(|r| name(*r) == "%p7") {
        bodies.insert(1, "setp.eq.u32 %p7, %k7, %k7".to_owned());
    }
    let (version, target) = TARGETS[cases[0].target];
    examples::module(version, target, &bodies)
}

/// What lanes start with.
fn input(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let cells = (0..INPUT_BYTES / 8).map(|_| match random.below(5) {
        0 => random.below(64) | random.below(64) << 32,
        1 => random.integer(),
        // Floats around one, two at a time.
        2 | 3 => (random.bits() & 0x80ff_ffff_80ff_ffff) | 0x3f00_0000_3f00_0000,
        _ => random.bits(),
    });
    cells.flat_map(u64::to_le_bytes).collect()
}

/// What memory holds.
fn memory(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed ^ 0x55aa);
    (0..MEM_BYTES / 8).flat_map(|_| (random.integer() ^ random.below(9)).to_le_bytes()).collect()
}

/// How a kernel ended.
#[derive(Clone, PartialEq, Eq)]
enum Outcome {
    Done(Vec<u8>, Vec<u8>),
    Fault(FaultKind),
    Failed(String),
}

fn words(pointers: [u64; 3]) -> Vec<u8> {
    let mut bytes: Vec<u8> = (1..=40).map(|n| n * 3).collect();
    bytes.extend(pointers.iter().flat_map(|p| p.to_le_bytes()));
    bytes
}

fn run(set: Set, text: &str, input: &[u8], memory: &[u8]) -> Outcome {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut device = Device::new(set);
        let module = device.load(text).map_err(|e| e.to_string())?;
        let kernel = module.kernel("examples").ok_or("no kernel")?;
        let place = |bytes: &[u8]| {
            let address = device.memory.allocate(bytes.len() as u64, true);
            device.memory.write(address, bytes);
            address
        };
        let addresses = [place(input), place(&vec![0; OUTPUT_BYTES]), place(memory)];
        let mut params = Params::default();
        params.0.extend(words(addresses));
        if let Err(fault) = device.run(&kernel, Shape::linear(1, THREADS), &params.0) {
            return Ok(Outcome::Fault(tiers::without_address(fault.kind)));
        }
        let read = |n: usize, bytes: usize| device.memory.read(addresses[n], bytes);
        Ok(Outcome::Done(read(1, OUTPUT_BYTES), read(2, MEM_BYTES)))
    }));
    match ran {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Outcome::Failed(error),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Outcome::Failed(
                text.or(panic.downcast_ref::<&str>().map(|t| (*t).to_owned())).unwrap_or_default(),
            )
        }
    }
}

/// The first difference in words.
fn difference(expected: &Outcome, got: &Outcome) -> Option<String> {
    if expected == got {
        return None;
    }
    Some(match (expected, got) {
        (Outcome::Done(a, b), Outcome::Done(c, d)) => {
            let at = |a: &[u8], b: &[u8]| a.iter().zip(b).position(|(a, b)| a != b);
            match at(a, c) {
                Some(byte) => {
                    let (row, thread) =
                        (byte / CELL / THREADS as usize, byte / CELL % THREADS as usize);
                    let cell = byte / CELL * CELL;
                    let hex = |b: &[u8]| {
                        b[cell..cell + CELL]
                            .iter()
                            .rev()
                            .fold(String::new(), |s, b| s + &format!("{b:02x}"))
                    };
                    format!("result {row} of thread {thread}: 0x{}, not 0x{}", hex(c), hex(a))
                }
                None => format!("memory at {:?}", at(b, d)),
            }
        }
        (Outcome::Fault(a), Outcome::Fault(b)) => format!("{b:?}, not {a:?}"),
        (_, Outcome::Failed(text)) => text.clone(),
        (Outcome::Failed(text), _) => format!("the interpreter: {text}"),
        (Outcome::Done(..), Outcome::Fault(b)) => format!("{b:?}"),
        (Outcome::Fault(a), Outcome::Done(..)) => format!("no {a:?}"),
    })
}

/// The same by the reference interpreter, if it knows all instructions.
fn by_reference(text: &str, input: &[u8], memory: &[u8]) -> Option<Outcome> {
    let module = ptx::parse(text).ok()?;
    // What overflows in it is not known to it.
    let run = |buffers: &mut Vec<Vec<u8>>, launch: &Launch| {
        catch_unwind(AssertUnwindSafe(|| ptx_reference::run(&module, launch, buffers))).ok()?.ok()
    };
    let pointers = [0, 1, 2].map(|n| ptx_reference::GLOBAL_BASE + (n << 32));
    let launch = Launch {
        kernel: "examples".to_owned(),
        grid: [1; 3],
        block: [THREADS, 1, 1],
        shared_bytes: 0,
        arguments: vec![Argument::Value(words(pointers))],
    };
    let mut buffers = vec![input.to_vec(), vec![0; OUTPUT_BYTES], memory.to_vec()];
    run(&mut buffers, &launch)?;
    Some(Outcome::Done(std::mem::take(&mut buffers[1]), std::mem::take(&mut buffers[2])))
}

/// What was tried.
#[derive(Default)]
struct Report {
    instructions: usize,
    kernels: usize,
    /// Instructions that end in a fault, the same on each tier.
    faults: usize,
    /// Those of them that are not there.
    unsupported: BTreeSet<String>,
    /// Instructions that the reference has judged.
    judged: usize,
    failures: BTreeMap<String, String>,
}

/// Data of a run.
struct Data {
    input: Vec<u8>,
    memory: Vec<u8>,
}

impl Report {
    fn compare(&mut self, data: &Data, cases: &[Case], mode: Mode) {
        let text = text(cases, mode);
        self.kernels += 1;
        let mut outcomes: Vec<(Set, Outcome)> = Vec::new();
        let mut outcome = |set: Set| match outcomes.iter().find(|(known, _)| *known == set) {
            Some((_, outcome)) => outcome.clone(),
            None => {
                let made = run(set, &text, &data.input, &data.memory);
                outcomes.push((set, made.clone()));
                made
            }
        };
        let mut failure = None;
        for (set, oracle) in HELD {
            let expected = outcome(*oracle);
            let ended = !matches!(expected, Outcome::Done(..));
            if ended && cases.len() > 1 {
                // Each half by itself: others are not run behind a fault.
                let (first, second) = cases.split_at(cases.len() / 2);
                self.compare(data, first, mode);
                self.compare(data, second, mode);
                return;
            }
            let got = outcome(*set);
            failure = difference(&expected, &got).map(|what| format!("{set:?}, {mode:?}: {what}"));
            if let Outcome::Failed(text) = &expected {
                failure.get_or_insert_with(|| format!("{oracle:?}, {mode:?}: {text}"));
            }
            if failure.is_some() {
                break;
            }
        }
        let expected = outcome(HELD[0].1);
        match &expected {
            Outcome::Fault(FaultKind::UnsupportedInstruction { text }) => {
                _ = self.unsupported.insert(text.clone())
            }
            Outcome::Fault(_) => self.faults += 1,
            _ => {}
        }
        if failure.is_none()
            && matches!(expected, Outcome::Done(..))
            && let Some(reference) = by_reference(&text, &data.input, &data.memory)
        {
            self.judged += cases.len();
            failure = difference(&reference, &expected)
                .map(|what| format!("not as the reference, {mode:?}: {what}"));
        }
        let Some(failure) = failure else {
            self.instructions += cases.len();
            return;
        };
        if cases.len() > 1 {
            let before = self.failures.len();
            let (first, second) = cases.split_at(cases.len() / 2);
            self.compare(data, first, mode);
            self.compare(data, second, mode);
            if self.failures.len() > before {
                return;
            }
        }
        let key = cases.iter().map(|case| case.text.clone()).collect::<Vec<_>>().join("; ");
        self.failures.entry(key).or_insert(failure);
    }
}

/// What is asked for: a part of all, and a start of instructions.
fn asked() -> (bool, usize, usize, String) {
    let value = std::env::var("OPENMPS_FORMS").unwrap_or_default();
    match (value.as_str(), value.split_once('/')) {
        ("", _) => (false, 0, tiers::PARTS, String::new()),
        ("all", _) => (true, 0, 1, String::new()),
        (_, Some((n, m))) if n.parse::<usize>().is_ok() => {
            (true, n.parse().unwrap(), m.parse().unwrap(), String::new())
        }
        (word, _) => (true, 0, 1, word.to_owned()),
    }
}

#[test]
#[ignore = "some forms have no native instruction for an operand, which it finds: see docs/testing.md"]
fn every_form_with_every_operand_gives_the_same_on_each_tier() {
    let (all, part, parts, start) = asked();
    let examples = if all { examples::all() } else { examples::single() };
    let mut seen = BTreeSet::new();
    let mut cases: Vec<Case> = Vec::new();
    let mut number = 0;
    for example in &examples {
        let elsewhere = ELSEWHERE.iter().any(|word| {
            example
                .name
                .strip_prefix(word)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        if elsewhere || !example.name.starts_with(&start) {
            continue;
        }
        for (at, variant) in variants(example).into_iter().enumerate() {
            number += 1;
            // Of a part each form is there as it is written first.
            if at > 0 && number % parts != part || at == 0 && all && number % parts != part {
                continue;
            }
            if seen.insert(variant.text()) {
                cases.extend(case(&variant));
            }
        }
    }
    let tried = cases.len();
    let mut left: Vec<Case> = cases;
    let mut by_target: Vec<Vec<Case>> = Vec::new();
    for (number, target) in TARGETS.iter().enumerate() {
        let verdicts = taken(*target, &left);
        let (mut yes, mut no) = (Vec::new(), Vec::new());
        for (case, taken) in left.into_iter().zip(verdicts) {
            if taken { yes.push(Case { target: number, ..case }) } else { no.push(case) }
        }
        by_target.push(yes);
        left = no;
    }
    let data = Data { input: input(1), memory: memory(1) };
    let mut report = Report::default();
    for cases in &by_target {
        for (number, batch) in cases.chunks(BATCH).enumerate() {
            for (at, mode) in MODES.into_iter().enumerate() {
                // By default each kernel in one way, in turn.
                if !all && number % MODES.len() != at && mode != Mode::Full {
                    continue;
                }
                let partial = matches!(mode, Mode::Partial | Mode::Branch);
                let batch: Vec<Case> = batch
                    .iter()
                    .filter(|case| !partial || case.may_be_partial())
                    .cloned()
                    .collect();
                if !batch.is_empty() {
                    report.compare(&data, &batch, mode);
                }
            }
        }
    }
    let Report { instructions, kernels, faults, unsupported, judged, failures } = report;
    let mut said = format!(
        "{tried} instructions tried, {} of them PTX; {instructions} runs in {kernels} kernels agree, {faults} of them \
         faults, {judged} judged by the reference; {} not there\n",
        by_target.iter().map(Vec::len).sum::<usize>(),
        unsupported.len()
    );
    for text in unsupported.iter().take(20) {
        writeln!(said, "    not there: {text}").unwrap();
    }
    println!("{said}");
    let mut text = String::new();
    failures.iter().for_each(|(key, failure)| writeln!(text, "{key}\n    {failure}").unwrap());
    assert!(failures.is_empty(), "{said}{} differ:\n{text}", failures.len());
    assert!(instructions > 0);
}
