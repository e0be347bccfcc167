//! Comparison of a kernel's results: each tier with the interpreter, and that with `ptx-reference`.

use super::super::harness::{Device, Params, Shape};
use super::super::tiers::{self, HELD, Set};
use super::forms::Case;
use super::kernels::{CELL, MEM_BYTES, Mode, OUTPUT_BYTES, THREADS, input, memory, text};
use ptx_reference::{Argument, Launch};
use simt::kernel::FaultKind;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a kernel ended.
#[derive(Clone, PartialEq, Eq)]
enum Outcome {
    Done(Vec<u8>, Vec<u8>),
    Fault(FaultKind),
    Failed(String),
}

impl Outcome {
    /// With one NaN in the place of all: of 64 bits no manual promises which it is.
    fn with_one_nan(&self) -> Self {
        let Self::Done(results, memory) = self else { return self.clone() };
        let one_nan = |bytes: &[u8]| -> Vec<u8> {
            let words = bytes.chunks_exact(8).map(|word| word.try_into().unwrap());
            let nan = |word: [u8; 8]| {
                let low = f32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                match () {
                    () if f64::from_le_bytes(word).is_nan() => f64::NAN.to_le_bytes(),
                    // An f64 that was narrowed.
                    () if low.is_nan() => [0, 0, 0xc0, 0x7f, word[4], word[5], word[6], word[7]],
                    () => word,
                }
            };
            words.flat_map(nan).collect()
        };
        Self::Done(one_nan(results), one_nan(memory))
    }
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
    let pointers = [0, 1, 2].map(|n| ptx_reference::GLOBAL_BASE + (n << 32));
    let launch = Launch {
        kernel: "examples".to_owned(),
        grid: [1; 3],
        block: [THREADS, 1, 1],
        shared_bytes: 0,
        arguments: vec![Argument::Value(words(pointers))],
    };
    let mut buffers = vec![input.to_vec(), vec![0; OUTPUT_BYTES], memory.to_vec()];
    ptx_reference::run(&module, &launch, &mut buffers).ok()?;
    Some(Outcome::Done(std::mem::take(&mut buffers[1]), std::mem::take(&mut buffers[2])))
}

fn doubles(cases: &[Case]) -> bool {
    cases.iter().any(|case| case.text.contains(".f64"))
}

/// True if all of a kernel is what PTX promises.
fn is_promised(cases: &[Case], mode: Mode) -> bool {
    let conflict =
        |(at, case): (usize, &Case)| cases[..at].iter().any(|other| case.conflicts(other));
    cases.iter().all(|case| case.is_promised)
        // There is no barrier between them, or one makes a NaN that others take for a number.
        && !((mode == Mode::Branch || doubles(cases)) && cases.iter().enumerate().any(conflict))
}

/// What was tried.
#[derive(Default)]
pub(super) struct Report {
    pub(super) instructions: usize,
    pub(super) kernels: usize,
    /// Instructions that end in a fault, the same on each tier.
    pub(super) faults: usize,
    /// Those of them that are not there.
    pub(super) unsupported: BTreeSet<String>,
    /// Instructions that the reference has judged.
    pub(super) judged: usize,
    pub(super) failures: BTreeMap<String, String>,
}

/// Data of a run.
pub(super) struct Data {
    input: Vec<u8>,
    memory: Vec<u8>,
}

impl Data {
    pub(super) fn new(seed: u64) -> Self {
        Self { input: input(seed), memory: memory(seed) }
    }
}

impl Report {
    /// Adds what another thread has tried.
    pub(super) fn add(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.kernels += other.kernels;
        self.faults += other.faults;
        self.judged += other.judged;
        self.unsupported.extend(other.unsupported);
        self.failures.extend(other.failures);
    }

    /// True if all agree on a kernel of these instructions; else the fewest that differ are named.
    pub(super) fn compare(&mut self, data: &Data, cases: &[Case], mode: Mode) -> bool {
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
            // Kernels for processors that estimate are others only where there is something to estimate.
            let estimates = cases.iter().any(|case| case.text.contains("rsqrt"));
            let oracle = if estimates { oracle } else { &HELD[0].1 };
            let expected = outcome(*oracle);
            let ended = !matches!(expected, Outcome::Done(..));
            if ended && cases.len() > 1 {
                // Each half by itself: others are not run behind a fault.
                let (first, second) = cases.split_at(cases.len() / 2);
                return self.compare(data, first, mode) & self.compare(data, second, mode);
            }
            let got = outcome(*set);
            // Which of two NaNs a fused sum gives depends on the order of its operands.
            let fused = cases.iter().any(|case| {
                let adds = ["fma.", "mad.", "mma."].iter().any(|op| case.text.contains(op));
                adds && case.text.contains(".f64")
            });
            let of =
                |outcome: &Outcome| if fused { outcome.with_one_nan() } else { outcome.clone() };
            failure = difference(&of(&expected), &of(&got))
                .map(|what| format!("{set:?}, {mode:?}: {what}"));
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
            && is_promised(cases, mode)
            && let Some(reference) = by_reference(&text, &data.input, &data.memory)
        {
            self.judged += cases.len();
            let of = |outcome: &Outcome| {
                if doubles(cases) { outcome.with_one_nan() } else { outcome.clone() }
            };
            failure = difference(&of(&reference), &of(&expected))
                .map(|what| format!("not as the reference, {mode:?}: {what}"));
        }
        let Some(failure) = failure else {
            self.instructions += cases.len();
            return true;
        };
        if cases.len() > 1 {
            let (first, second) = cases.split_at(cases.len() / 2);
            let agrees = self.compare(data, first, mode) & self.compare(data, second, mode);
            if !agrees {
                return false;
            }
        }
        let key = cases.iter().map(|case| case.text.clone()).collect::<Vec<_>>().join("; ");
        self.failures.entry(key).or_insert(failure);
        false
    }
}
