//! Every form of the instruction table with every kind of operand that PTX allows: each tier gives what the
//! interpreter gives, and that what `ptx-reference` gives where it knows the instruction.
//!
//! Forms and their spellings come from `ptx::examples`. Of forms with at most one optional modifier each
//! operand is varied in its turn; with two only that all sources are the same in all lanes. What the checker
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

mod comparison;
mod forms;
mod kernels;
mod registers;
mod variants;

use super::tiers;
use comparison::{Data, Report};
use forms::{Asked, Case};
use kernels::{MODES, Mode};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Instructions of a kernel.
const BATCH: usize = 10;

/// Kernels of these instructions, each with the way in which its warps run them.
fn kernels(by_target: &[Vec<Case>], all: bool) -> Vec<(Mode, Vec<Case>)> {
    let mut kernels = Vec::new();
    for (number, batch) in by_target.iter().flat_map(|cases| cases.chunks(BATCH)).enumerate() {
        for (at, mode) in MODES.into_iter().enumerate() {
            // By default each kernel in one way, in turn.
            if !all && number % MODES.len() != at && mode != Mode::Full {
                continue;
            }
            let partial = matches!(mode, Mode::Partial | Mode::Branch);
            let batch: Vec<Case> =
                batch.iter().filter(|case| !partial || case.may_be_partial()).cloned().collect();
            if !batch.is_empty() {
                kernels.push((mode, batch));
            }
        }
    }
    kernels
}

/// Runs kernels on every thread of the processor.
fn compare(kernels: &[(Mode, Vec<Case>)]) -> Report {
    let (data, next) = (Data::new(1), AtomicUsize::new(0));
    let work = || {
        let mut report = Report::default();
        while let Some((mode, cases)) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
            report.compare(&data, cases, *mode);
        }
        report
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut sum = Report::default();
        workers.into_iter().for_each(|worker| sum.add(worker.join().unwrap()));
        sum
    })
}

#[test]
fn every_form_with_every_operand_gives_the_same_on_each_tier() {
    let asked = Asked::of_environment(tiers::PARTS);
    let cases = asked.cases();
    let tried = cases.len();
    let by_target = forms::by_target(cases);
    let Report { instructions, kernels, faults, unsupported, judged, failures } =
        compare(&kernels(&by_target, asked.all));
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
