//! Register estimate: how many registers and barriers a thread of a kernel would take on hardware,
//! as ptxas would report it.
//!
//! PTX names neither; they are what a compiler makes of it. No allocator runs here, so registers
//! are an estimate: what is live at once, less what hardware keeps elsewhere, plus what compilers
//! spend beyond that. Barriers are exact.

use crate::analysis::liveness::Liveness;
use crate::ir::op::{BarrierOp, Class, Op, Space, Special};
use crate::ir::{Block, Function, Inst, Operand, Reg, Term};
use crate::kernel::WARP_LANES;
use ptx::ast::Directives;

/// Fewest registers a kernel is said to have: what hardware allocates in one piece.
const REGISTERS_MIN: u32 = 8;
/// Most registers a thread can have.
const REGISTERS_MAX: u32 = 255;
/// Fewest of a kernel that calls functions: those that the calling convention hands over.
const REGISTERS_OF_CALLER_MIN: u32 = 24;
/// Registers that are spent on not waiting for memory, and those that every kernel has beyond what is
/// live: what fits the kernels of `tests/registers.rs` best.
const REGISTERS_EARLY_MAX: u32 = 8;
/// See [`REGISTERS_EARLY_MAX`].
const REGISTERS_SCRATCH: u32 = 3;
/// Registers of an SM of every compute capability.
const REGISTERS_PER_SM: u32 = 65_536;
/// Registers are given to warps in units of this number a thread.
const REGISTERS_PIECE: u32 = 8;
/// Barriers of a block.
const BARRIERS_MAX: u32 = 16;

/// 32-bit registers a thread of the kernel, which calls those functions, and whose directives bound
/// them.
pub(crate) fn estimate<'a>(
    entry: &Function,
    called: impl IntoIterator<Item = &'a Function>,
    directives: &Directives,
) -> u32 {
    let mut live = pressure(entry);
    let mut calls = entry.blocks.iter().flat_map(|block| &block.insts).any(is_call);
    for function in called {
        calls = true;
        live = live.max(pressure(function));
    }
    let least = if calls { REGISTERS_OF_CALLER_MIN } else { REGISTERS_MIN };
    // Compilers load early what they need late, and have some registers for what is not live from
    // one instruction to the next.
    let early = (live / 2).min(REGISTERS_EARLY_MAX);
    (live + early + REGISTERS_SCRATCH).max(least).min(bound(directives))
}

fn is_call(inst: &Inst) -> bool {
    matches!(inst.op, Op::Runtime(_))
}

/// Most registers a thread may have by what the kernel says of itself.
fn bound(directives: &Directives) -> u32 {
    let threads = directives.maxntid.or(directives.reqntid).map(|extents| {
        extents.iter().fold(1u32, |threads, extent| threads.saturating_mul(*extent))
    });
    let by_blocks = threads.map_or(REGISTERS_MAX, |threads| {
        let warp = WARP_LANES as u32;
        let threads = threads.max(1).div_ceil(warp).saturating_mul(warp);
        let blocks = directives.minnctapersm.unwrap_or(1).max(1);
        REGISTERS_PER_SM / threads.saturating_mul(blocks) / REGISTERS_PIECE * REGISTERS_PIECE
    });
    let asked = directives.maxnreg.unwrap_or(REGISTERS_MAX);
    by_blocks.min(asked).clamp(REGISTERS_MIN, REGISTERS_MAX)
}

/// Barriers a block: the highest that is named and all below it, or all if one is computed.
pub(crate) fn barriers<'a>(functions: impl IntoIterator<Item = &'a Function>) -> u32 {
    let blocks = functions.into_iter().flat_map(|function| &function.blocks);
    blocks.filter_map(barrier).max().unwrap_or(0)
}

fn barrier(block: &Block) -> Option<u32> {
    match &block.term {
        // The cluster's barrier is none of the block's, but uses one there.
        Term::Barrier { op: BarrierOp::ClusterArrive | BarrierOp::ClusterWait, .. } => Some(1),
        Term::Barrier { barrier: Operand::Imm(number), .. } => {
            Some((*number as u32).saturating_add(1).min(BARRIERS_MAX))
        }
        Term::Barrier { .. } => Some(BARRIERS_MAX),
        _ => None,
    }
}

/// The most 32-bit registers live at once.
fn pressure(f: &Function) -> u32 {
    let constants = constants(f);
    let weight = |r: Reg| match f.regs[r.index()] {
        _ if constants[r.index()] => 0,
        Class::Pred => 0,
        Class::Lane(width) => width.bytes().div_ceil(4),
    };
    Liveness::of(f).most(f, weight)
}

/// Values that instructions have for nothing, from the constant bank: parameters, extents, and
/// addresses made of them alone.
fn constants(f: &Function) -> Vec<bool> {
    let mut defined = vec![0u32; f.regs.len()];
    let all = || f.blocks.iter().flat_map(|block| &block.insts);
    all().flat_map(|inst| &inst.dst).for_each(|r| defined[r.index()] += 1);
    f.blocks.iter().filter_map(|b| b.term.def()).for_each(|r| defined[r.index()] += 1);
    let mut constant = vec![false; f.regs.len()];
    // Definitions come before uses nearly always: what is missed by one walk counts as live.
    for inst in all() {
        let free = match &inst.op {
            Op::Mov(_) | Op::ToGeneric(Space::Global) | Op::FromGeneric(Space::Global) => true,
            Op::Load(access) => access.space == Space::Param,
            Op::Special(special) => matches!(special, Special::Ntid(_) | Special::Nctaid(_)),
            _ => false,
        };
        let of_constants = inst.src.iter().all(|source| match source {
            Operand::Reg(r) => constant[r.index()],
            _ => true,
        });
        if free && inst.guard.is_none() && of_constants {
            for r in inst.dst.iter().filter(|r| defined[r.index()] == 1) {
                constant[r.index()] = true;
            }
        }
    }
    constant
}
