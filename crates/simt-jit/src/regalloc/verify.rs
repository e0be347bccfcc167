//! Verifier of register allocation, for debug builds: follows which value each machine register and
//! stack slot holds, instruction by instruction, and compares it with what each instruction reads.
//!
//! It knows nothing of how the assignment was made. It trusts live intervals where a block starts,
//! and checks them from there: an operand is where the assignment says, and a definition overwrites
//! no value that is still live.

use crate::regalloc::allocate::{Assignment, Lanes};
use crate::regalloc::use_weights::UseWeights;
use iced_x86::Register;
use simt::analysis::vector_cfg::sources;
use simt::analysis::vector_cfg::{result, terminator_sources};
use simt::ir::Reg;
use simt::ir::vector::VectorFunction;
use std::collections::HashMap;

/// Where a value can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Location {
    Machine(Register),
    Stack(i32),
}

/// Where the assignment keeps a register: nowhere if it is spilled.
fn locations(assignment: &Assignment, r: usize) -> Vec<Location> {
    let lanes = match assignment.lanes[r] {
        Lanes::File => Vec::new(),
        Lanes::Parts(registers) => registers.to_vec(),
        Lanes::Same(register) => vec![register],
        Lanes::Stack(offset, _) => return vec![Location::Stack(offset)],
    };
    let all = lanes.into_iter().chain(assignment.scalars[r]);
    all.filter(|register| *register != Register::None).map(Location::Machine).collect()
}

/// The state of the verifier within a block.
struct Contents<'a> {
    weights: &'a UseWeights,
    /// By register: where it is.
    of: &'a [Vec<Location>],
    held: HashMap<Location, usize>,
}

impl Contents<'_> {
    /// An instruction at a position reads a register.
    fn read(&self, r: Reg, position: u32) -> Result<(), String> {
        for location in &self.of[r.index()] {
            let held = self.held.get(location);
            if held != Some(&r.index()) {
                let held = held.map_or("nothing".to_owned(), |o| Reg(*o as u32).to_string());
                return Err(format!("{position} reads {r} in {location:?}, which holds {held}"));
            }
        }
        Ok(())
    }

    /// An instruction at a position writes a register.
    fn write(&mut self, r: Reg, position: u32) -> Result<(), String> {
        for location in &self.of[r.index()] {
            let before = self.held.insert(*location, r.index());
            // An interval that begins with the next instruction is another value of that register.
            let lives_on = |o: usize| {
                let next = self.weights.kept.interval_at(o, position + 1);
                next.is_some_and(|interval| interval.start <= position)
            };
            let live = before.filter(|o| *o != r.index() && lives_on(*o));
            if let Some(o) = live {
                let o = Reg(o as u32);
                return Err(format!(
                    "{position} writes {r} to {location:?}, over {o}, which is live"
                ));
            }
        }
        Ok(())
    }
}

/// Checks the assignment of a function; what is wrong, if something is.
pub(crate) fn verify(
    f: &VectorFunction,
    weights: &UseWeights,
    assignment: &Assignment,
) -> Result<(), String> {
    let of: Vec<Vec<Location>> = (0..f.classes.len()).map(|r| locations(assignment, r)).collect();
    let assigned: Vec<usize> = (0..of.len()).filter(|r| !of[*r].is_empty()).collect();
    for (b, block) in f.blocks.iter().enumerate() {
        let start = weights.kept.starts[b];
        let mut contents = Contents { weights, of: &of, held: HashMap::new() };
        for &r in assigned.iter().filter(|r| weights.kept.covers(**r, start)) {
            for location in &of[r] {
                if let Some(other) = contents.held.insert(*location, r) {
                    let (a, b) = (Reg(other as u32), Reg(r as u32));
                    return Err(format!("block at {start}: {location:?} is of {a} and of {b}"));
                }
            }
        }
        for check in &block.checks {
            contents.read(check.reg, start)?;
        }
        for (position, inst) in (start + 1..).zip(&block.insts) {
            for r in sources(inst) {
                contents.read(r, position)?;
            }
            for d in &inst.dst {
                contents.write(d.reg, position)?;
            }
        }
        let end = weights.kept.ends[b];
        for r in terminator_sources(f, &block.term) {
            contents.read(r, end)?;
        }
        if let Some(r) = result(&block.term) {
            contents.write(r, end)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::SimdIsa;
    use crate::regalloc::allocate::MatrixRegisters;
    use simt::inspect::inspect;

    const TEXT: &str = ".version 7.8\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 a)
        {
            .reg .b64 %a, %x; .reg .b32 %t, %u, %v, %w;
            ld.param.u64 %a, [a]; mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 4; add.u64 %a, %a, %x;
            ld.global.u32 %u, [%a]; ld.global.u32 %v, [%a+4];
            mul.lo.u32 %w, %u, %v; add.u32 %w, %w, %u; xor.b32 %w, %w, %v;
            st.global.u32 [%a], %w; ret;
        }";

    #[test]
    fn two_live_values_in_one_machine_register_are_found() {
        let (_, kernel) = inspect(TEXT).expect("PTX").remove(0);
        let f = kernel.expect("a kernel").kernel.entry;
        let weights = UseWeights::of(&f);
        let matrices = MatrixRegisters::default();
        let made = Assignment::of(&f, &weights, SimdIsa::Avx512, &matrices);
        assert_eq!(verify(&f, &weights, &made), Ok(()));
        let in_parts: Vec<usize> =
            (0..made.lanes.len()).filter(|r| matches!(made.lanes[*r], Lanes::Parts(_))).collect();
        assert!(in_parts.len() >= 2, "{in_parts:?}");
        let overlap = |a: usize, b: usize| {
            weights.kept.of_register(a).iter().any(|s| {
                (s.start..s.end).any(|p| weights.kept.covers(b, p) && weights.kept.covers(b, p + 1))
            })
        };
        let mut tried = 0;
        for &a in &in_parts {
            for &b in in_parts.iter().filter(|b| **b != a && overlap(a, **b)) {
                let mut wrong = Assignment { lanes: made.lanes.clone(), ..Assignment::default() };
                wrong.scalars.clone_from(&made.scalars);
                wrong.lanes[b] = wrong.lanes[a];
                assert!(verify(&f, &weights, &wrong).is_err(), "{a} and {b}");
                tried += 1;
            }
        }
        assert!(tried > 0, "no two values are live at once");
    }
}
