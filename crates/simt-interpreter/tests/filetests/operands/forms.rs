//! Forms to try: which examples are chosen, what each needs in front, and which target takes it.

use super::registers::{KINDS, registers};
use super::variants::variants;
use ptx::examples::{self, Example, FIRST_LINE, TARGETS};
use std::collections::{BTreeSet, HashSet};

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

/// One instruction to try.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// As it is written.
    pub(super) text: String,
    /// In front of it.
    pub(super) before: Vec<String>,
    /// The first operand, which is the result of most.
    pub(super) first: String,
    /// PTX says what it gives: not so for addresses of symbols and mbarriers that lanes share.
    pub(super) is_promised: bool,
    /// Index in [`TARGETS`].
    pub(super) target: usize,
}

impl Case {
    fn accesses(&self) -> bool {
        self.text.contains('[')
    }

    /// True if the order in which lanes run both is seen in memory.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let loads = |case: &Self| case.text.starts_with("ld");
        self.accesses() && other.accesses() && !(loads(self) && loads(other))
    }

    /// True if it may be run by a part of a warp.
    pub(super) fn may_be_partial(&self) -> bool {
        !self.text.contains(".aligned") && !self.text.starts_with("mma")
    }
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
    // What a chain of carries starts with is not promised: a carry that differs from lane to lane.
    if matches!(words[0], "addc" | "subc" | "madc") {
        before.push("add.cc.u32 %k6, %k2, -1".to_owned());
    }
    let init = name.starts_with("mbarrier.init");
    if init && last.starts_with('%') {
        // A count that an mbarrier can have.
        before.push(format!("and.b32 {last}, {last}, 255; or.b32 {last}, {last}, 1"));
    }
    if words[0] == "mbarrier" && !init {
        let address = example.operands.iter().find(|o| o.starts_with('['));
        let space =
            if words.contains(&"shared") || name.contains("shared::") { ".shared" } else { "" };
        if let Some(address) = address {
            before.push(format!("mbarrier.init{space}.b64 {address}, 64"));
            // A phase's parity is one bit.
            let parity = example.operands.get(2).filter(|_| name.contains("wait.parity"));
            if let Some(register) = parity.filter(|parity| parity.starts_with('%')) {
                before.push(format!("and.b32 {register}, {register}, 1"));
            }
        }
    }
    if name.starts_with("cp.async.mbarrier") && !last.starts_with("[global") {
        let space = if name.contains(".shared") { ".shared" } else { "" };
        before.push(format!("mbarrier.init{space}.b64 {last}, 64"));
    }
    let bulk = name.starts_with("cp.async.bulk") || name.starts_with("cp.reduce.async.bulk");
    for (at, operand) in example.operands.iter().enumerate() {
        if bulk && at >= 2 && operand.starts_with('[') {
            before.push(format!("mbarrier.init.shared.b64 {operand}, 64"));
        }
        let register = if operand.starts_with('%') { registers(operand) } else { Vec::new() };
        match register[..] {
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
    // Rows that overlap have no order: strides are whole rows.
    let immediate = last.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    if words[0] == "wmma" && words[1] != "mma" && immediate {
        return None;
    }
    let first = example.operands.first().cloned().unwrap_or_default();
    let symbol = |o: &String| o.starts_with(|c: char| c.is_ascii_alphabetic()) && o != "WARP_SZ";
    // The address of a symbol in global memory is another in each run.
    if example
        .operands
        .iter()
        .any(|o| symbol(o) && !o.starts_with("shared") && !o.starts_with("local"))
    {
        return None;
    }
    // Each lane has an mbarrier of its own.
    let own = ["%sa1", "%sa3", "%ga6", "%ga8", "%ga14"];
    let text = example.text();
    let shares = words[0] == "mbarrier" && !own.iter().any(|own| text.contains(own));
    // Atomics have no place in local memory.
    let local = matches!(words[0], "atom" | "red") && text.contains("%ga15");
    let negative = init && last.starts_with('-');
    let address = words[0] == "cvta" || example.operands.iter().any(symbol);
    let is_promised = !(shares || local || negative || address);
    Some(Case { text: example.text(), before, first, is_promised, target: usize::MAX })
}

/// Which of these a target's checker takes.
fn taken(target: (&str, &str), cases: &[Case]) -> Vec<bool> {
    let mut verdicts = vec![true; cases.len()];
    for (start, part) in (0..).step_by(60).zip(cases.chunks(60)) {
        let mut bodies = vec![super::kernels::DECLARED.to_owned()];
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

/// What is asked for: a part of all, and a start of instructions.
pub(super) struct Asked {
    /// Every pair of modifiers, and every way to run a kernel.
    pub(super) all: bool,
    pub(super) part: usize,
    pub(super) parts: usize,
    pub(super) start: String,
}

impl Asked {
    /// As `OPENMPS_FORMS` says; one of `parts` if it says nothing.
    pub(super) fn of_environment(parts: usize) -> Self {
        let value = std::env::var("OPENMPS_FORMS").unwrap_or_default();
        let asked =
            |all, part, parts, start: &str| Self { all, part, parts, start: start.to_owned() };
        match (value.as_str(), value.split_once('/')) {
            ("", _) => asked(false, 0, parts, ""),
            ("all", _) => asked(true, 0, 1, ""),
            (_, Some((n, m))) if n.parse::<usize>().is_ok() => {
                asked(true, n.parse().unwrap(), m.parse().unwrap(), "")
            }
            (word, _) => asked(true, 0, 1, word),
        }
    }

    /// The instructions to try, whether PTX allows them or not.
    pub(super) fn cases(&self) -> Vec<Case> {
        let single = examples::single();
        let full: HashSet<String> = single.iter().map(Example::text).collect();
        let examples = if self.all { examples::all() } else { single };
        let (mut seen, mut cases, mut number) = (BTreeSet::new(), Vec::new(), 0);
        for example in &examples {
            if is_elsewhere(&example.name) || !example.name.starts_with(&self.start) {
                continue;
            }
            let varied = full.contains(&example.text());
            for (at, variant) in variants(example, varied).into_iter().enumerate() {
                number += 1;
                // By default each form is there as it is written first.
                let first = at == 0 && !self.all;
                if (first || number % self.parts == self.part) && seen.insert(variant.text()) {
                    cases.extend(case(&variant));
                }
            }
        }
        cases
    }
}

fn is_elsewhere(name: &str) -> bool {
    let starts = |word: &&str| {
        name.strip_prefix(*word).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    ELSEWHERE.iter().any(starts)
}

/// Those that are PTX, by the first target that has them.
pub(super) fn by_target(mut left: Vec<Case>) -> Vec<Vec<Case>> {
    let mut by_target = Vec::new();
    for (number, target) in TARGETS.iter().enumerate() {
        let verdicts = taken(*target, &left);
        let (mut yes, mut no) = (Vec::new(), Vec::new());
        for (case, taken) in left.into_iter().zip(verdicts) {
            if taken { yes.push(Case { target: number, ..case }) } else { no.push(case) }
        }
        by_target.push(yes);
        left = no;
    }
    by_target
}
