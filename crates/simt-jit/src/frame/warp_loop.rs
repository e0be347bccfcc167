//! Warp loop: starts warps with the uniform preamble, one after the other, block of the grid after
//! block, and hands over between warps at barriers.
//!
//! A function in which warps wait for each other can take all warps of a block of the grid, each
//! with its own register file. Others run one warp behind the other in the same file: the
//! prologue's values are there for all of them.

use crate::asm::assembler::{X, at};
use crate::frame_layout::{A, C, D, FILE, Field, MASK, field};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::regalloc::allocate::{Lanes, PARTS_MAX, loads_for_all};
use iced_x86::{Code, Register};
use simt::analysis::vector_cfg::{PROLOGUE, sources};
use simt::ir::op::{BarrierOp, IntOp, Op, Space, Special};
use simt::ir::vector::{Source, VectorFunction, VectorInst, VectorTerm};
use simt_interpreter::tier1_abi::{ASKED, Abilities, FINISHED, NEXT, START, Slot, TIME_SLICE_FUEL};
use std::collections::HashMap;
use std::mem::offset_of;

/// The block behind a barrier at which native code can leave a warp: that of the whole block of
/// the grid, for nothing but the wait.
pub(crate) fn waits_until(term: &VectorTerm) -> Option<usize> {
    match term {
        VectorTerm::Barrier { op: BarrierOp::Sync, barrier, count, next, .. }
            if *barrier == Source::Imm(0) && *count == Source::Imm(0) =>
        {
            Some(*next as usize)
        }
        _ => None,
    }
}

/// True if warps wait for each other somewhere.
pub(crate) fn waits(f: &VectorFunction) -> bool {
    f.blocks.iter().any(|b| waits_until(&b.term).is_some())
}

/// What the code of a function can do.
pub(crate) fn abilities(f: &VectorFunction) -> Abilities {
    let insts = || f.prologue.iter().chain(f.blocks.iter().flat_map(|b| &b.insts));
    // Blocks that follow each other may stand on different SMs.
    let asks = insts().any(|i| matches!(i.op, Op::Special(Special::SmId)));
    let calls = f.blocks.iter().any(|b| matches!(b.term, VectorTerm::Call { .. }));
    let param_bytes = f.prologue.iter().filter_map(parameter).map(|(_, end)| end).max();
    Abilities {
        block_entry: waits(f),
        blocks: !asks && !calls,
        param_bytes: param_bytes.unwrap_or(0) as u64,
    }
}

/// Where a load of parameters starts and ends, bytes from the start of the parameters.
fn parameter(inst: &VectorInst) -> Option<(usize, usize)> {
    match (&inst.op, inst.src.first(), inst.src.get(1)) {
        (Op::Load(access), Some(Source::Imm(base)), Some(Source::Imm(offset)))
            if access.space == Space::Param && inst.uniform && inst.guard.is_none() =>
        {
            let start = usize::try_from(base.wrapping_add(*offset)).ok()?;
            let bytes = usize::from(access.bytes) * usize::from(access.count);
            Some((start, start.checked_add(bytes).filter(|end| i32::try_from(*end).is_ok())?))
        }
        _ => None,
    }
}

impl Compiler<'_> {
    /// The prologue, and on to the first block: all lanes of the warp are in MASK.
    pub(crate) fn start(&mut self) {
        self.a.bind(self.start);
        let f = self.f;
        self.forget_cached();
        self.block = PROLOGUE;
        (self.masked, self.inline) = (false, false);
        for (index, inst) in f.prologue.iter().enumerate() {
            self.index = index;
            self.prologue_instruction(inst);
        }
        self.inline = true;
        self.fill_others();
        self.begin();
    }

    /// Goes to the first block's version for the lanes in MASK.
    fn begin(&mut self) {
        self.a.op(Code::Cmp_rm32_imm8, &[MASK.into(), X::I(-1)]);
        self.a.jump(Code::Jne_rel32_64, self.masked_labels[0]);
        self.a.jump(Code::Jmp_rel32_64, self.unmasked_labels[0]);
    }

    /// A load of parameters whose place is known; they are there, or the prologue does not run.
    pub(crate) fn load_parameter(&mut self, inst: &VectorInst) -> bool {
        let Op::Load(access) = inst.op else { return false };
        let Some((start, _)) = parameter(inst) else { return false };
        if self.block != PROLOGUE || access.bytes > 8 {
            return false;
        }
        let whole = u32::from(access.bytes) == access.width.bytes() && access.bytes >= 4;
        let for_all = whole && loads_for_all(self.f, inst);
        if !for_all && !self.has_scalar_results(inst) {
            return false;
        }
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Params).into()]);
        for n in 0..usize::from(access.count) {
            let from = at(D, (start + n * usize::from(access.bytes)) as i32);
            match (for_all, self.isa) {
                (false, _) => self.load_one(inst, n, access, from),
                (true, SimdIsa::Avx512) => self.load_for_all(inst, n, access, from),
                (true, SimdIsa::Avx2) => self.load_into_file(inst, n, access.width, from),
            }
        }
        true
    }

    /// All lanes of the warp have exited. Alone: starts the next one of the block of the grid, or
    /// of the next block of the grid, if that is ours to start; out if not. Nothing of the old one
    /// need be kept.
    pub(crate) fn next_warp(&mut self, left: &[bool]) {
        self.a.bind(self.next_warp);
        let eax = Register::EAX;
        if self.block_entry {
            let alone = self.a.label();
            self.a.op(Code::Cmp_rm64_imm8, &[field(Field::Slots).into(), X::I(0)]);
            self.a.jump(Code::Je_rel32_64, alone);
            self.slot();
            self.a.op(Code::Mov_rm32_imm32, &[at(A, slot_live()).into(), X::I(0)]);
            self.a.jump(Code::Jmp_rel32_64, self.next_time_slice);
            self.a.bind(alone);
            return self.all_gone();
        }
        let (block, last, out) = (self.a.label(), self.a.label(), self.a.label());
        let a = &mut self.a;
        a.op(Code::Sub_rm32_imm8, &[field(Field::Following).into(), X::I(1)]);
        a.jump(Code::Jb_rel32_64, block);
        a.jump(Code::Je_rel32_64, last);
        self.next_of_block(X::I(-1), left);
        self.a.jump(Code::Jmp_rel32_64, self.unmasked_labels[0]);
        self.a.bind(last);
        self.next_of_block(field(Field::LastLanes).into(), left);
        self.begin();
        self.a.bind(out);
        self.all_gone();
        // A warp that waits for this one waits for a block's end, or for that of a loop's turn.
        self.a.bind(block);
        self.a.op(Code::Mov_rm32_imm32, &[field(Field::Following).into(), X::I(0)]);
        self.asked(out);
        let a = &mut self.a;
        a.op(Code::Cmp_rm32_imm8, &[field(Field::More).into(), X::I(0)]);
        a.jump(Code::Je_rel32_64, out);
        self.next_block();
        let a = &mut self.a;
        a.op(Code::Mov_rm32_imm32, &[field(Field::Warp).into(), X::I(0)]);
        a.op(Code::Mov_r32_rm32, &[eax.into(), field(Field::Warps).into()]);
        a.op(Code::Mov_r32_imm32, &[MASK.into(), X::I(-1)]);
        a.op(Code::Sub_rm32_imm8, &[eax.into(), X::I(1)]);
        a.op(Code::Cmove_r32_rm32, &[MASK.into(), field(Field::LastLanes).into()]);
        a.op(Code::Mov_rm32_r32, &[field(Field::Following).into(), eax.into()]);
        a.op(Code::Mov_rm32_r32, &[field(Field::Live).into(), MASK.into()]);
        a.op(Code::Mov_rm32_r32, &[field(Field::Lanes).into(), MASK.into()]);
        self.start_again(left);
    }

    /// The next warp of the block of the grid, which has these lanes.
    fn next_of_block(&mut self, lanes: X, left: &[bool]) {
        let code = match lanes {
            X::I(_) => Code::Mov_r32_imm32,
            _ => Code::Mov_r32_rm32,
        };
        self.a.op(code, &[MASK.into(), lanes]);
        self.a.op(Code::Add_rm32_imm8, &[field(Field::Warp).into(), X::I(1)]);
        self.a.op(Code::Mov_rm32_r32, &[field(Field::Live).into(), MASK.into()]);
        self.a.op(Code::Mov_rm32_r32, &[field(Field::Lanes).into(), MASK.into()]);
        // What the prologue made is still where it was, or in the file.
        let position = self.weights.kept.starts[0];
        for (r, left) in left.iter().enumerate() {
            if self.weights.kept.covers(r, position) && !left {
                self.fill(r);
            }
        }
    }

    /// The prologue for a further block of the grid: what does not depend on the block is in the
    /// register file, if it is not where it was.
    fn start_again(&mut self, left: &[bool]) {
        let f = self.f;
        let again = self.made_again();
        if again.iter().zip(&f.prologue).any(|(again, inst)| *again && !is_simple(inst)) {
            return self.a.jump(Code::Jmp_rel32_64, self.start);
        }
        self.forget_cached();
        self.block = PROLOGUE;
        (self.masked, self.inline) = (false, false);
        let kept = f.prologue.iter().zip(&again).filter(|(_, again)| !**again);
        for d in kept.flat_map(|(inst, _)| &inst.dst).filter(|d| !left[d.reg.index()]) {
            self.fill(d.reg.index());
        }
        for (index, inst) in f.prologue.iter().enumerate().filter(|(index, _)| again[*index]) {
            self.index = index;
            self.prologue_instruction(inst);
        }
        self.fill_others();
        self.begin();
    }

    /// By instruction of the prologue: its results depend on the block of the grid, or the code of
    /// warps has changed them.
    fn made_again(&self) -> Vec<bool> {
        let mut depends = vec![false; self.f.classes.len()];
        let mut again = Vec::new();
        for inst in &self.f.prologue {
            let asks = match &inst.op {
                Op::Special(special) => {
                    !matches!(special, Special::Ntid(_) | Special::Nctaid(_) | Special::GridId)
                }
                Op::Load(access) => access.space != Space::Param,
                _ => false,
            };
            let asks = asks || sources(inst).any(|r| depends[r.index()]);
            let changed = inst.dst.iter().any(|d| self.weights.written[d.reg.index()]);
            for d in &inst.dst {
                depends[d.reg.index()] = asks;
            }
            again.push(asks || changed);
        }
        again
    }

    /// An instruction of the prologue; an entry at a block finds its results in the file.
    fn prologue_instruction(&mut self, inst: &VectorInst) {
        self.instruction(inst);
        for d in &inst.dst {
            self.flush_scalar(d.reg.index());
            self.flush_lanes(d.reg.index(), false);
        }
    }

    /// Loads what lives at the start of the first block and is not of the prologue.
    fn fill_others(&mut self) {
        let f = self.f;
        let made: Vec<usize> =
            f.prologue.iter().flat_map(|i| &i.dst).map(|d| d.reg.index()).collect();
        let first = self.weights.kept.starts[0];
        for r in 0..f.classes.len() {
            if self.weights.kept.covers(r, first) && !made.contains(&r) {
                self.fill(r);
            }
        }
    }

    /// Comes back with a warp that has no lanes any more.
    fn all_gone(&mut self) {
        let a = &mut self.a;
        a.op(Code::Mov_rm32_imm32, &[field(Field::Live).into(), X::I(0)]);
        a.op(Code::Mov_r32_imm32, &[Register::EAX.into(), X::I(NEXT as i32)]);
        a.jump(Code::Jmp_rel32_64, self.leave);
    }

    /// By register: the prologue made it, and nothing else is ever put where it is, so the next
    /// warp finds it there.
    pub(crate) fn untouched(&self) -> Vec<bool> {
        let nothing = vec![false; self.f.classes.len()];
        if self.block_entry {
            return nothing;
        }
        let mut left = nothing;
        let mut holders: HashMap<Register, u32> = HashMap::new();
        let places = |lanes: Lanes, scalar: Option<Register>| {
            let lanes = match lanes {
                Lanes::File | Lanes::Stack(..) => [Register::None; PARTS_MAX],
                Lanes::Parts(registers) => registers,
                Lanes::Same(register) => [register, Register::None, Register::None, Register::None],
            };
            lanes.into_iter().chain(scalar).filter(|m| *m != Register::None)
        };
        let own = |r: usize| places(self.assignment.lanes[r], self.assignment.scalars[r]);
        for r in 0..self.f.classes.len() {
            own(r).for_each(|m| *holders.entry(m).or_default() += 1);
        }
        for m in &self.temporaries {
            *holders.entry(*m).or_default() += 1;
        }
        for r in self.f.prologue.iter().flat_map(|i| &i.dst).map(|d| d.reg.index()) {
            left[r] = !self.weights.written[r] && own(r).all(|m| holders[&m] == 1);
        }
        left
    }

    /// Moves on to the block of the grid that follows.
    fn next_block(&mut self) {
        let (eax, done) = (Register::EAX, self.a.label());
        let a = &mut self.a;
        a.op(Code::Sub_rm32_imm8, &[field(Field::More).into(), X::I(1)]);
        for axis in 0..3 {
            a.op(Code::Mov_r32_rm32, &[eax.into(), field(Field::Index(axis)).into()]);
            a.op(Code::Add_rm32_imm8, &[eax.into(), X::I(1)]);
            a.op(Code::Mov_rm32_r32, &[field(Field::Index(axis)).into(), eax.into()]);
            a.op(Code::Cmp_r32_rm32, &[eax.into(), field(Field::Grid(axis)).into()]);
            a.jump(Code::Jb_rel32_64, done);
            a.op(Code::Mov_rm32_imm32, &[field(Field::Index(axis)).into(), X::I(0)]);
        }
        a.bind(done);
    }

    /// Goes to `label` if the yield flag is set.
    fn asked(&mut self, label: crate::asm::assembler::Label) {
        self.a.op(Code::Mov_r64_rm64, &[A.into(), field(Field::Control).into()]);
        self.a.op(Code::Cmp_rm32_imm8, &[at(A, 0).into(), X::I(0)]);
        self.a.jump(Code::Jne_rel32_64, label);
    }

    /// The running warp's slot, in RAX.
    fn slot(&mut self) {
        self.a.op(Code::Mov_r32_rm32, &[Register::EAX.into(), field(Field::Warp).into()]);
        const { assert!(size_of::<Slot>() == 64) };
        self.a.op(Code::Shl_rm64_imm8, &[A.into(), X::I(6)]);
        self.a.op(Code::Add_r64_rm64, &[A.into(), field(Field::Slots).into()]);
    }

    /// The warp has come to the barrier of the block of the grid: it stays in front of `next`
    /// until all have. Falls through where this is not for native code.
    pub(crate) fn barrier(&mut self, block: usize, next: usize) {
        let (elsewhere, go_on) = (self.a.label(), self.a.label());
        self.a.op(Code::Cmp_rm64_imm8, &[field(Field::Slots).into(), X::I(0)]);
        self.a.jump(Code::Je_rel32_64, elsewhere);
        // Lanes of the warp that stand elsewhere come first.
        self.a.op(Code::Cmp_r32_rm32, &[MASK.into(), field(Field::Live).into()]);
        self.a.jump(Code::Jne_rel32_64, elsewhere);
        if next > block {
            // A warp that is alone does not wait.
            self.a.op(Code::Cmp_rm32_imm8, &[field(Field::Warps).into(), X::I(1)]);
            self.a.jump(Code::Je_rel32_64, go_on);
        }
        let position = self.weights.kept.starts[next];
        for r in 0..self.f.classes.len() {
            if self.weights.kept.covers(r, position) && self.weights.written[r] {
                self.flush_scalar(r);
                self.flush_lanes(r, false);
            }
        }
        self.slot();
        let a = &mut self.a;
        a.op(Code::Mov_rm32_r32, &[at(A, slot_live()).into(), MASK.into()]);
        a.op(Code::Mov_rm32_imm32, &[at(A, slot_block()).into(), X::I(next as i32)]);
        a.op(Code::Add_rm32_imm8, &[field(Field::Arrived).into(), X::I(1)]);
        a.jump(Code::Jmp_rel32_64, self.next_time_slice);
        if next > block {
            self.a.bind(go_on);
            let to =
                if self.masked { self.masked_labels[next] } else { self.unmasked_labels[next] };
            self.a.jump(Code::Jmp_rel32_64, to);
        }
        self.a.bind(elsewhere);
    }

    /// Warps have entered together: their sums are as their code left them if all stand at the
    /// start.
    fn first_time_slice(&mut self) {
        self.a.bind(self.first_time_slice);
        if !self.fragments.pairs {
            return;
        }
        let (next, at_start) = (self.a.label(), self.a.label());
        self.say_of_sums(false);
        self.a.op(Code::Mov_r64_rm64, &[C.into(), field(Field::Slots).into()]);
        self.a.op(Code::Mov_r32_rm32, &[Register::EDX.into(), field(Field::Warps).into()]);
        self.a.bind(next);
        self.a.op(Code::Cmp_rm32_imm8, &[at(C, slot_block()).into(), X::I(START as i32)]);
        self.a.jump(Code::Je_rel32_64, at_start);
        self.say_of_sums(true);
        self.a.bind(at_start);
        self.a.op(Code::Add_rm64_imm8, &[C.into(), X::I(size_of::<Slot>() as i32)]);
        self.a.op(Code::Sub_rm32_imm8, &[Register::EDX.into(), X::I(1)]);
        self.a.jump(Code::Jne_rel32_64, next);
    }

    /// The next of the warps that entered together has its turn; behind the last one the first
    /// again, if any has come to the barrier; if none has, the block of the grid has ended.
    pub(crate) fn next_time_slice(&mut self) {
        let (eax, ecx) = (Register::EAX, Register::ECX);
        let (round, ended, finished, asked, reset, leave) = (
            self.a.label(),
            self.a.label(),
            self.a.label(),
            self.a.label(),
            self.a.label(),
            self.leave,
        );
        let turn = self.next_time_slice;
        self.first_time_slice();
        let a = &mut self.a;
        a.bind(turn);
        a.op(Code::Mov_r32_rm32, &[eax.into(), field(Field::Warp).into()]);
        a.op(Code::Add_rm32_imm8, &[eax.into(), X::I(1)]);
        a.op(Code::Mov_rm32_r32, &[field(Field::Warp).into(), eax.into()]);
        a.op(Code::Cmp_r32_rm32, &[eax.into(), field(Field::Warps).into()]);
        a.jump(Code::Jae_rel32_64, round);
        self.slot();
        let a = &mut self.a;
        a.op(Code::Mov_r32_rm32, &[MASK.into(), at(A, slot_live()).into()]);
        a.op(Code::Test_rm32_r32, &[MASK.into(), MASK.into()]);
        a.jump(Code::Je_rel32_64, turn);
        a.op(Code::Mov_r64_rm64, &[C.into(), field(Field::Control).into()]);
        a.op(Code::Cmp_rm32_imm8, &[at(C, 0).into(), X::I(0)]);
        a.jump(Code::Jne_rel32_64, asked);
        a.op(Code::Mov_r64_rm64, &[FILE.into(), at(A, offset_of!(Slot, regs) as i32).into()]);
        a.op(Code::Mov_rm64_r64, &[field(Field::Regs).into(), FILE.into()]);
        a.op(Code::Mov_r64_rm64, &[C.into(), at(A, offset_of!(Slot, pending) as i32).into()]);
        a.op(Code::Mov_rm64_r64, &[field(Field::Pending).into(), C.into()]);
        a.op(Code::Mov_r64_rm64, &[C.into(), at(A, offset_of!(Slot, local) as i32).into()]);
        a.op(Code::Mov_rm64_r64, &[field(Field::Local).into(), C.into()]);
        a.op(Code::Mov_rm32_r32, &[field(Field::Live).into(), MASK.into()]);
        a.op(Code::Mov_rm32_r32, &[field(Field::Lanes).into(), MASK.into()]);
        let fuel = X::I(TIME_SLICE_FUEL as i32);
        a.op(Code::Mov_rm64_imm32, &[field(Field::Fuel).into(), fuel]);
        a.op(Code::Mov_r32_rm32, &[ecx.into(), at(A, slot_block()).into()]);
        a.op(Code::Cmp_rm32_imm8, &[ecx.into(), X::I(START as i32)]);
        a.jump(Code::Je_rel32_64, self.start);
        self.jump_through_table(0);
        let a = &mut self.a;
        a.bind(round);
        a.op(Code::Mov_rm32_imm32, &[field(Field::Warp).into(), X::I(-1)]);
        a.op(Code::Cmp_rm32_imm8, &[field(Field::Arrived).into(), X::I(0)]);
        a.jump(Code::Je_rel32_64, ended);
        a.op(Code::Mov_rm32_imm32, &[field(Field::Arrived).into(), X::I(0)]);
        a.jump(Code::Jmp_rel32_64, turn);
        a.bind(ended);
        a.op(Code::Cmp_rm32_imm8, &[field(Field::More).into(), X::I(0)]);
        a.jump(Code::Je_rel32_64, finished);
        self.asked(finished);
        self.next_block();
        // All warps stand at the start again.
        self.say_of_sums(false);
        let a = &mut self.a;
        a.op(Code::Mov_r64_rm64, &[C.into(), field(Field::Slots).into()]);
        a.op(Code::Mov_r32_rm32, &[Register::EDX.into(), field(Field::Warps).into()]);
        a.bind(reset);
        a.op(Code::Mov_r32_rm32, &[eax.into(), at(C, offset_of!(Slot, lanes) as i32).into()]);
        a.op(Code::Mov_rm32_r32, &[at(C, slot_live()).into(), eax.into()]);
        a.op(Code::Mov_rm32_imm32, &[at(C, slot_block()).into(), X::I(START as i32)]);
        a.op(Code::Add_rm64_imm8, &[C.into(), X::I(64)]);
        a.op(Code::Sub_rm32_imm8, &[Register::EDX.into(), X::I(1)]);
        a.jump(Code::Jne_rel32_64, reset);
        a.jump(Code::Jmp_rel32_64, turn);
        for (label, why) in [(finished, FINISHED), (asked, ASKED)] {
            a.bind(label);
            a.op(Code::Mov_r32_imm32, &[eax.into(), X::I(why as i32)]);
            a.jump(Code::Jmp_rel32_64, leave);
        }
    }
}

/// True if the instruction's code stands where it is made, all of it.
fn is_simple(inst: &VectorInst) -> bool {
    inst.uniform
        && inst.guard.is_none()
        && match inst.op {
            Op::Special(_) | Op::Mov(_) | Op::Extend { .. } | Op::Setp(..) | Op::Select(_) => true,
            Op::Int(op, _) => !matches!(op, IntOp::Div | IntOp::Rem),
            _ => false,
        }
}

fn slot_live() -> i32 {
    offset_of!(Slot, live) as i32
}

fn slot_block() -> i32 {
    offset_of!(Slot, block) as i32
}
