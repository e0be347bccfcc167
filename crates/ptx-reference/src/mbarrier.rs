//! mbarriers in shared memory: init, arrive and test by parity, which is all that random programs
//! use.
//!
//! The word has arrivals that are pending in its low 20 bits, those of each phase in the next 20,
//! and the phase's parity in bit 63: programs must not look at it.

use crate::execute::Thread;
use crate::grid::{Grid, Memory};
use ptx::ast::{Instruction, Modifier as M, ScalarType as T};

const COUNT_BITS: u32 = 20;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const PARITY: u64 = 1 << 63;

fn fresh(count: u64, parity: u64) -> u64 {
    count | count << COUNT_BITS | parity
}

impl Thread {
    /// Runs an instruction; `None` if it is none of those.
    pub(crate) fn mbarrier(
        &mut self,
        grid: &Grid<'_>,
        memory: &mut Memory<'_>,
        inst: &Instruction,
    ) -> Option<()> {
        let operands = &inst.operands[..];
        if inst.has(M::TestWait) || inst.has(M::TryWait) {
            let ([over, at, parity], true) = (operands, inst.has(M::Parity)) else { return None };
            let place = self.location(grid, inst, at)?;
            let word = self.peek(grid, memory, place, 8)?;
            let parity = self.source(grid, parity, T::U32)?;
            return self.write_predicate(grid, over, word >> 63 != parity);
        }
        if inst.has(M::Init) {
            let [at, count] = operands else { return None };
            let place = self.location(grid, inst, at)?;
            let count = self.source(grid, count, T::U32)?;
            return self.poke(grid, memory, place, 8, fresh(count, 0));
        }
        let [state, at] = operands else { return None };
        if !inst.has(M::Arrive) {
            return None;
        }
        let place = self.location(grid, inst, at)?;
        let word = self.peek(grid, memory, place, 8)?;
        let left = (word & COUNT_MAX).checked_sub(1)?;
        let now = match left {
            0 => fresh(word >> COUNT_BITS & COUNT_MAX, word & PARITY ^ PARITY),
            left => word & !COUNT_MAX | left,
        };
        self.poke(grid, memory, place, 8, now)?;
        self.write(grid, state, word, T::B64)
    }
}
