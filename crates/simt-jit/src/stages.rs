//! Stages of code generation as text, for people: live intervals, register allocation, schedule.

use crate::avx2::partition::Step;
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::regalloc::allocate::Lanes;
use iced_x86::Register;
use simt::analysis::live_intervals::LiveIntervals;
use simt::ir::Reg;
use simt::ir::vector::{StorageClass, VectorFunction};
use simt_interpreter::tier1_abi::with_layout;
use std::fmt::Write;

/// A stage of code generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeStage {
    /// Live intervals of the vector code's registers.
    Intervals,
    /// Where each register is: in machine registers, on the stack, or spilled.
    Allocation,
    /// The order in which instructions are emitted.
    Schedule,
}

/// The positions of blocks, in front of what stands in them.
fn positions(kept: &LiveIntervals) -> String {
    let mut out = String::new();
    for (b, (start, end)) in kept.starts.iter().zip(&kept.ends).enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(out, "  b{b}: {start}..{end}");
    }
    out
}

fn intervals_of(kept: &LiveIntervals, r: usize) -> String {
    let list = kept.of_register(r).iter().map(|s| format!("{}..{}", s.start, s.end));
    list.collect::<Vec<_>>().join(" ")
}

/// The name of a machine register, as disassembly has it.
fn name(register: Register) -> String {
    format!("{register:?}").to_lowercase()
}

/// A stage of a kernel's function as text, for an instruction set.
pub fn stage(function: &VectorFunction, isa: SimdIsa, wanted: CodeStage) -> String {
    let function = function.clone();
    let f = &if isa.estimates() { function.by_estimates() } else { function };
    with_layout(f, |layout| {
        let mut compiler = Compiler::new(f, layout, isa);
        compiler.allocate();
        let mut out = format!("// {}: {wanted:?}, {isa:?}\n", f.name);
        match wanted {
            CodeStage::Intervals => {
                out += &positions(&compiler.weights.kept);
                for r in 0..f.classes.len() {
                    let list = intervals_of(&compiler.weights.kept, r);
                    if !list.is_empty() {
                        let _ = writeln!(out, "  {}: {list}", Reg(r as u32));
                    }
                }
            }
            CodeStage::Allocation => compiler.write_allocation(&mut out),
            CodeStage::Schedule => compiler.write_schedule(&mut out),
        }
        out
    })
}

impl Compiler<'_> {
    fn write_allocation(&self, out: &mut String) {
        let spilled = "register file".to_owned();
        for r in 0..self.f.classes.len() {
            let kept = intervals_of(&self.weights.kept, r);
            if kept.is_empty() {
                continue;
            }
            let lanes = match self.assignment.lanes[r] {
                Lanes::File => None,
                Lanes::Same(register) => Some(format!("{} (uniform)", name(register))),
                Lanes::Parts(all) => {
                    let all = all.iter().filter(|part| **part != Register::None);
                    Some(all.map(|part| name(*part)).collect::<Vec<_>>().join(" "))
                }
                Lanes::Stack(offset, order) => Some(format!("stack+{offset} ({order:?})")),
            };
            let scalar = self.assignment.scalars[r].map(name);
            let place = match (lanes, scalar) {
                (Some(lanes), Some(scalar)) => format!("{lanes}, {scalar}"),
                (Some(place), None) | (None, Some(place)) => place,
                (None, None) => spilled.clone(),
            };
            let storage = match self.f.storage[r] {
                StorageClass::Vector => "vector",
                StorageClass::Mask => "mask",
                StorageClass::Scalar => "scalar",
                StorageClass::ScalarAndVector => "scalar and vector",
                StorageClass::None => "none",
                StorageClass::Affine { .. } => "affine",
                StorageClass::HalfAffine { .. } => "half-warp affine",
            };
            let weight = self.weights.by_register[r];
            let _ =
                writeln!(out, "  {}: {place}; {storage}, weight {weight}, {kept}", Reg(r as u32));
        }
    }

    fn write_schedule(&self, out: &mut String) {
        for (b, block) in self.f.blocks.iter().enumerate() {
            let _ = writeln!(out, "b{b}:");
            let write = |out: &mut String, indent: &str, index: usize| {
                let inst = &block.insts[index];
                let to = inst.dst.iter().map(|d| d.reg.to_string()).collect::<Vec<_>>().join(", ");
                let from = inst.src.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(", ");
                let _ = writeln!(out, "{indent}{index}: {to} = {} {from}", inst.op);
            };
            let Some([unmasked, _]) = self.steps.get(b) else {
                // With AVX-512 instructions are emitted in program order.
                (0..block.insts.len()).for_each(|index| write(out, "  ", index));
                continue;
            };
            for step in unmasked {
                match step {
                    Step::Whole(index) => write(out, "  ", *index),
                    Step::VectorRegion(region) => {
                        let _ = writeln!(out, "  region:");
                        region.before.iter().for_each(|index| write(out, "    before ", *index));
                        let members = region.members.iter().map(|member| member.index);
                        members.for_each(|index| write(out, "    ", index));
                        region.after.iter().for_each(|index| write(out, "    after ", *index));
                    }
                }
            }
        }
    }
}
