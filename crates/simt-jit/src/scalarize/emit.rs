//! Emission of a scalarised loop: scalar code that one lane after the other runs.
//!
//! Values that vector registers hold go into the register file first, from where each lane takes
//! its own, and to where it brings what it has made. What machine registers held is put back in
//! the end, so that around the loop nothing has changed but its results.

use crate::asm::assembler::{Label, X, at};
use crate::frame::entry_exit::Exit;
use crate::frame_layout::{A, C, D, FILE, Field, LANE_ADDRESSES, LANE_VALUES, MASK, field};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::lanewise::compare;
use crate::memory::access::{range_end, range_start};
use crate::memory::per_lane_access::load_code;
use crate::operands::move_code;
use crate::regalloc::allocate::{Assignment, Lanes, SCALARS};
use crate::scalar::integer::mov;
use crate::scalarize::loop_selection::ScalarLoop;
use crate::scalarize::registers::{BUDGET, FLOATS, SCRATCH};
use iced_x86::{Code, MemoryOperand, Register};
use simt::analysis::address::growth::{Check, Linear, Own, Scaled, TripCount, WORDS_MAX, own};
use simt::ir::Reg;
use simt::ir::op::{Compare, CompareType, FloatOp, FloatType, Op, Width};
use simt::ir::vector::{Source, VectorInst};

/// Iterations after which the yield flag is polled.
const BUDGET_MAX: i32 = 1 << 10;

/// Words of the stack that are free here: lanes that are not through.
const LEFT: usize = 0;
/// The lane that runs.
const LANE: usize = 1;
/// The budget that it began with.
const GIVEN: usize = 2;
/// Iterations of all lanes, those of the lane in earlier budgets, and those of the lane that had most.
const TURNS: usize = 3;
const EARLIER: usize = 7;
const MOST: usize = 4;
/// What is kept while an access runs in its interpreter handlers.
const OLD_MASK: usize = 5;
const OLD_BUDGET: usize = 6;
/// Bytes of loads that ran so, which have been counted.
const APART: usize = 8;
/// Not 0 if no lane need look whether its iterations stay in their ranges.
pub(crate) const FIT: usize = 9;
/// General registers as they were.
const SAVED: usize = 10;
/// The words of [`Check`].
pub(crate) const WORDS: usize = SAVED + SCALARS.len();

const _: () = assert!(8 * (WORDS + WORDS_MAX) as i32 <= LANE_VALUES - LANE_ADDRESSES);

pub(crate) fn word(number: usize) -> MemoryOperand {
    at(Register::RSP, LANE_ADDRESSES + 8 * number as i32)
}

/// A load's way aside.
struct SlowPath {
    label: Label,
    back: Label,
    index: usize,
}

impl Compiler<'_> {
    /// Makes a block that is a loop in scalar form.
    pub(crate) fn serial(&mut self, this: &ScalarLoop) {
        self.forget_cached();
        let vectors = self.make_room(this);
        let lane = self.lane_assignment(this);
        let own = std::mem::replace(&mut self.assignment, lane);
        let mut label = || self.a.label();
        let (next, budget, turn, early, through) = (label(), label(), label(), label(), label());
        let (careful, asked, done) = (label(), label(), label());
        let (more, alone, given) = (label(), label(), label());
        self.begin_lanes(this);
        let eax = Register::EAX;
        self.a.bind(next);
        self.a.op(Code::Tzcnt_r32_rm32, &[eax.into(), word(LEFT).into()]);
        self.a.op(Code::Mov_rm64_r64, &[word(LANE).into(), A.into()]);
        this.inputs.iter().for_each(|r| self.take(this, *r));
        self.a.bind(budget);
        self.may_go_on(asked);
        if self.can_fit(this) {
            self.budget_that_fits(this, BUDGET, alone);
        } else {
            self.own_budget(this, careful);
        }
        self.a.bind(given);
        self.a.op(Code::Mov_rm64_r64, &[word(GIVEN).into(), BUDGET.into()]);
        self.a.bind(turn);
        let mut asides = Vec::new();
        self.iteration(this, false, &mut asides);
        if this.trips.is_none() {
            self.leave_where(this, true, early);
        }
        self.a.op(Code::Sub_rm64_imm8, &[BUDGET.into(), X::I(1)]);
        self.a.jump(Code::Jne_rel32_64, turn);
        self.a.op(Code::Mov_r64_rm64, &[A.into(), word(GIVEN).into()]);
        if this.trips.is_some() {
            // Nearly always it ends here: what is rare stands behind, for the processor's guesses.
            self.leave_where(this, false, more);
        } else {
            self.a.jump(Code::Jmp_rel32_64, more);
            self.a.bind(early);
            self.a.op(Code::Mov_r64_rm64, &[A.into(), word(GIVEN).into()]);
            self.a.op(Code::Sub_r64_rm64, &[A.into(), BUDGET.into()]);
            self.a.op(Code::Add_rm64_imm8, &[A.into(), X::I(1)]);
        }
        // The lane has left the loop, after RAX iterations of its budget.
        self.a.bind(through);
        self.count_lane();
        self.a.op(Code::Mov_r64_rm64, &[A.into(), word(LANE).into()]);
        this.outputs.iter().for_each(|r| self.bring(this, *r));
        self.a.op(Code::VEX_Blsr_r32_rm32, &[eax.into(), word(LEFT).into()]);
        self.a.op(Code::Mov_rm32_r32, &[word(LEFT).into(), eax.into()]);
        self.a.jump(Code::Jne_rel32_64, next);
        self.a.jump(Code::Jmp_rel32_64, done);
        // An iteration in which every load is checked.
        self.a.bind(careful);
        self.iteration(this, true, &mut asides);
        self.a.op(Code::Mov_r32_imm32, &[eax.into(), X::I(1)]);
        self.leave_where(this, true, through);
        // The lane goes on, after RAX iterations of its budget.
        self.a.bind(more);
        self.a.op(Code::Add_rm64_r64, &[word(TURNS).into(), A.into()]);
        self.a.op(Code::Add_rm64_r64, &[word(EARLIER).into(), A.into()]);
        self.a.jump(Code::Jmp_rel32_64, budget);
        if self.can_fit(this) {
            self.a.bind(alone);
            self.own_budget(this, careful);
            self.a.jump(Code::Jmp_rel32_64, given);
        }
        for slow_path in asides {
            self.decoded_for_lane(this, &slow_path);
        }
        self.a.bind(asked);
        self.a.op(Code::Mov_r64_rm64, &[A.into(), word(LANE).into()]);
        this.kept.iter().for_each(|r| self.bring(this, *r));
        self.assignment = own;
        self.account(this);
        self.put_back(&vectors, &this.kept);
        self.interrupt(this);
        self.a.bind(done);
        self.account(this);
        self.put_back(&vectors, &this.outputs);
        self.go(self.block, this.exit);
    }

    /// What is done once for all lanes.
    fn begin_lanes(&mut self, this: &ScalarLoop) {
        self.load_uniforms(this);
        for index in this.checks.keys() {
            self.prepare(this, *index);
        }
        for linear in &this.linear {
            self.prepare_linear(linear);
        }
        self.a.op(Code::Mov_rm32_r32, &[word(LEFT).into(), MASK.into()]);
        for count in [TURNS, EARLIER, MOST, APART] {
            self.a.op(Code::Mov_rm64_imm32, &[word(count).into(), X::I(0)]);
        }
        if self.can_fit(this) {
            self.look_at_all(this, BUDGET_MAX);
        }
    }

    /// Saves what is in the way, and puts the lanes' values into the register file. Gives back the
    /// vector registers that were saved.
    fn make_room(&mut self, this: &ScalarLoop) -> Vec<Register> {
        for (n, register) in SCALARS.into_iter().enumerate() {
            self.a.op(Code::Mov_rm64_r64, &[word(SAVED + n).into(), register.into()]);
        }
        this.uniforms.iter().for_each(|r| self.flush_scalar(r.index()));
        let lanes: std::collections::BTreeSet<Reg> =
            this.inputs.iter().chain(&this.kept).copied().collect();
        let start = self.weights.kept.starts[self.block];
        for r in lanes {
            // Elsewhere its place is another's.
            if self.weights.kept.covers(r.index(), start) {
                self.flush_lanes(r.index(), false);
            }
        }
        let used = self.assignment.used_vectors();
        let low = (0..FLOATS + SCRATCH.len()).map(|n| Register::ZMM0 + n as u32);
        let vectors: Vec<Register> = low.filter(|r| used.contains(r)).collect();
        for (n, register) in vectors.iter().enumerate() {
            let to = at(Register::RSP, LANE_VALUES + 64 * n as i32);
            self.a.op(Code::EVEX_Vmovdqa32_zmmm512_k1z_zmm, &[to.into(), (*register).into()]);
        }
        self.a.holds_lanes = false;
        vectors
    }

    /// Puts back what machine registers held, with the results in `changed`.
    fn put_back(&mut self, vectors: &[Register], changed: &[Reg]) {
        self.a.holds_lanes = self.isa == SimdIsa::Avx512;
        for (n, register) in SCALARS.into_iter().enumerate() {
            self.a.op(Code::Mov_r64_rm64, &[register.into(), word(SAVED + n).into()]);
        }
        for (n, register) in vectors.iter().enumerate() {
            let from = at(Register::RSP, LANE_VALUES + 64 * n as i32);
            self.a.op(move_code(Width::W32), &[(*register).into(), from.into()]);
        }
        changed.iter().for_each(|r| self.fill(r.index()));
    }

    /// Registers as they are while a lane runs.
    fn lane_assignment(&self, this: &ScalarLoop) -> Assignment {
        let count = self.f.classes.len();
        let mut scalars = vec![None; count];
        for (r, register) in this.general() {
            scalars[r.index()] = Some(register);
        }
        let (lanes, same) = (vec![Lanes::File; count], vec![false; count]);
        Assignment { lanes, scalars, same }
    }

    /// Loads what all lanes have into the registers for it.
    fn load_uniforms(&mut self, this: &ScalarLoop) {
        for r in &this.uniforms {
            let offset = self.layout.place(r.index()).scalar.unwrap_or(0);
            let width = self.f.classes[r.index()].width().unwrap_or(Width::W64);
            if let Some(register) = this.places.general.get(r) {
                self.load_scalar(*register, offset, width);
            }
        }
    }

    /// A register's width.
    pub(crate) fn width_of(&self, r: Reg) -> Width {
        self.f.classes[r.index()].width().unwrap_or(Width::W64)
    }

    /// A value of the lane in RAX in the register file.
    fn of_lane(&self, r: Reg) -> MemoryOperand {
        let offset = i64::from(self.layout.place(r.index()).vector.unwrap_or(0));
        let bytes = self.width_of(r).bytes();
        MemoryOperand::with_base_index_scale_displ_size(FILE, A, bytes, offset, 8)
    }

    /// Takes a value of the lane in RAX out of the register file.
    fn take(&mut self, this: &ScalarLoop, r: Reg) {
        let (from, wide) = (self.of_lane(r), self.width_of(r) == Width::W64);
        if let Some(register) = this.places.floats.get(&r) {
            self.a.op(load_float(wide), &[(*register).into(), from.into()]);
        } else if let Some(register) = this.places.general.get(&r) {
            let (code, to) = match this.widened.get(&r) {
                Some(true) => (Code::Movsxd_r64_rm32, *register),
                _ => (mov(wide), sized(*register, wide)),
            };
            self.a.op(code, &[to.into(), from.into()]);
        }
    }

    /// Brings a value of the lane in RAX to the register file.
    fn bring(&mut self, this: &ScalarLoop, r: Reg) {
        let (to, wide) = (self.of_lane(r), self.width_of(r) == Width::W64);
        if let Some(register) = this.places.floats.get(&r) {
            let code = if wide { Code::VEX_Vmovsd_m64_xmm } else { Code::VEX_Vmovss_m32_xmm };
            self.a.op(code, &[to.into(), (*register).into()]);
        } else if let Some(register) = this.places.general.get(&r) {
            let code = if wide { Code::Mov_rm64_r64 } else { Code::Mov_rm32_r32 };
            self.a.op(code, &[to.into(), sized(*register, wide).into()]);
        }
    }

    /// Goes to `asked` if the yield flag is set.
    fn may_go_on(&mut self, asked: Label) {
        if self.ablation.back_edges {
            return;
        }
        self.a.op(Code::Mov_r64_rm64, &[C.into(), field(Field::Control).into()]);
        self.a.op(Code::Cmp_rm32_imm8, &[at(C, 0).into(), X::I(0)]);
        self.a.jump(Code::Jne_rel32_64, asked);
        let cost = self.layout.cost(self.block) as i32;
        self.a.op(Code::Imul_r64_rm64_imm32, &[C.into(), word(TURNS).into(), X::I(cost)]);
        self.a.op(Code::Cmp_r64_rm64, &[C.into(), field(Field::Fuel).into()]);
        self.a.jump(Code::Jge_rel32_64, asked);
    }

    /// How many iterations the lane can make: none of them leaves the ranges of its growing
    /// addresses, and with [`ScalarLoop::trips`] none is too many. Goes to `careful` if there are
    /// none.
    fn own_budget(&mut self, this: &ScalarLoop, careful: Label) {
        self.a.op(Code::Mov_r32_imm32, &[BUDGET.full_register32().into(), X::I(BUDGET_MAX)]);
        for linear in &this.linear {
            self.limit_budget(this, linear, careful);
        }
        if let Some(trips) = this.trips {
            self.limit_trips(this, trips);
        }
    }

    /// No more iterations than until the loop ends, of which there is at least one.
    fn limit_trips(&mut self, this: &ScalarLoop, trips: TripCount) {
        let inst = &self.f.blocks[self.block].insts[this.compare];
        let sides = [(inst.src[1], A), (inst.src[0], C)];
        for (side, to) in sides {
            self.widen(side, trips.signed, to);
        }
        self.a.op(Code::Sub_r64_rm64, &[A.into(), C.into()]);
        if trips.log > 0 {
            self.a.op(Code::Add_rm64_imm32, &[A.into(), X::I((1 << trips.log) - 1)]);
            self.a.op(Code::Sar_rm64_imm8, &[A.into(), X::I(trips.log as i32)]);
        }
        self.a.op(Code::Mov_r32_imm32, &[Register::ECX.into(), X::I(1)]);
        self.a.op(Code::Cmp_r64_rm64, &[A.into(), C.into()]);
        self.a.op(Code::Cmovl_r64_rm64, &[A.into(), C.into()]);
        self.a.op(Code::Cmp_r64_rm64, &[A.into(), BUDGET.into()]);
        self.a.op(Code::Cmovb_r64_rm64, &[BUDGET.into(), A.into()]);
    }

    /// No more iterations than fit the range of a growing address.
    fn limit_budget(&mut self, this: &ScalarLoop, linear: &Linear, careful: Label) {
        let Some(address) = this.places.general.get(&linear.address) else { return };
        if self.ablation.bounds {
            return;
        }
        let first = if linear.low == 0 {
            *address
        } else {
            self.a.op(Code::Lea_r64_m, &[A.into(), at(*address, linear.low as i32).into()]);
            A
        };
        self.aligned(first, linear.align, careful);
        self.a.op(Code::Cmp_r64_rm64, &[first.into(), word(WORDS + linear.word).into()]);
        self.a.jump(Code::Jb_rel32_64, careful);
        self.a.op(Code::Mov_r64_rm64, &[C.into(), word(WORDS + linear.word + 1).into()]);
        self.a.op(Code::Sub_r64_rm64, &[C.into(), first.into()]);
        self.a.jump(Code::Jbe_rel32_64, careful);
        let step = linear.step as i32;
        self.a.op(Code::Add_rm64_imm32, &[C.into(), X::I(step - 1)]);
        self.a.op(Code::Shr_rm64_imm8, &[C.into(), X::I(step.trailing_zeros() as i32)]);
        self.a.op(Code::Cmp_r64_rm64, &[C.into(), BUDGET.into()]);
        self.a.op(Code::Cmovb_r64_rm64, &[BUDGET.into(), C.into()]);
    }

    /// Computes the words for a growing address: where its range starts, and behind the last
    /// place where an iteration may begin.
    fn prepare_linear(&mut self, linear: &Linear) {
        let site = self.site_of(linear.first);
        let (low, high) = (word(WORDS + linear.word), word(WORDS + linear.word + 1));
        let done = self.a.label();
        self.a.op(Code::Mov_rm64_imm32, &[high.into(), X::I(0)]);
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Ranges).into()]);
        self.a.op(Code::Mov_r64_rm64, &[A.into(), range_start(site).into()]);
        self.a.op(Code::Mov_rm64_r64, &[low.into(), A.into()]);
        self.a.op(Code::Mov_r64_rm64, &[C.into(), range_end(site).into()]);
        self.a.op(Code::Sub_rm64_imm32, &[C.into(), X::I((linear.high - linear.low - 1) as i32)]);
        self.a.jump(Code::Jb_rel32_64, done);
        self.a.op(Code::Mov_rm64_r64, &[high.into(), C.into()]);
        self.a.bind(done);
    }

    /// Goes to `otherwise` if an address is not a multiple of a power of two up to 8.
    fn aligned(&mut self, address: Register, align: i64, otherwise: Label) {
        if align > 1 {
            let low = address.full_register32();
            self.a.op(Code::Test_rm32_imm32, &[low.into(), X::I(align as i32 - 1)]);
            self.a.jump(Code::Jne_rel32_64, otherwise);
        }
    }

    fn site_of(&self, index: usize) -> usize {
        let (first, count) = self.layout.handler_range(self.block, index, true);
        self.layout.site(first, count) % simt::kernel::RECENT_RANGES
    }

    /// Offset and size of a load.
    fn load_of(&self, index: usize) -> (i32, i32) {
        let inst = &self.f.blocks[self.block].insts[index];
        match (&inst.op, inst.src.get(1)) {
            (Op::Load(access), Some(Source::Imm(v))) => (*v as i32, access.bytes.into()),
            _ => (0, 1),
        }
    }

    /// Computes the words that a load's check compares with.
    fn prepare(&mut self, this: &ScalarLoop, index: usize) {
        let site = self.site_of(index);
        let (offset, bytes) = self.load_of(index);
        let (mut index_log, done) = (0, self.a.label());
        let (start, room) = match this.checks.get(&index) {
            Some(Check::Offset { base, multiple, word: to, scaled, .. }) => {
                index_log = scaled.map_or(0, |s| s.log);
                // Nothing passes, unless the base is inside.
                self.a.op(Code::Mov_rm64_imm32, &[word(WORDS + to).into(), X::I(0)]);
                let base = self.scalar_in(Source::Scalar(*base), true, A);
                self.a.op(Code::Lea_r64_m, &[A.into(), at(base, offset).into()]);
                if *multiple {
                    self.aligned(A, bytes.into(), done);
                }
                (None, *to)
            }
            Some(Check::Any { word: to }) => {
                self.a.op(Code::Mov_rm64_imm32, &[word(WORDS + to + 1).into(), X::I(0)]);
                (Some(*to), to + 1)
            }
            Some(Check::Linear) | None => return,
        };
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Ranges).into()]);
        match start {
            Some(start) => {
                self.a.op(Code::Mov_r64_rm64, &[A.into(), range_start(site).into()]);
                self.a.op(Code::Mov_rm64_r64, &[word(WORDS + start).into(), A.into()]);
            }
            None => {
                self.a.op(Code::Cmp_r64_rm64, &[A.into(), range_start(site).into()]);
                self.a.jump(Code::Jb_rel32_64, done);
            }
        }
        self.a.op(Code::Mov_r64_rm64, &[C.into(), range_end(site).into()]);
        self.a.op(Code::Sub_r64_rm64, &[C.into(), A.into()]);
        self.a.jump(Code::Jb_rel32_64, done);
        self.a.op(Code::Sub_rm64_imm8, &[C.into(), X::I(bytes - 1)]);
        self.a.jump(Code::Jb_rel32_64, done);
        if index_log > 0 {
            self.a.op(Code::Add_rm64_imm8, &[C.into(), X::I((1 << index_log) - 1)]);
            self.a.op(Code::Shr_rm64_imm8, &[C.into(), X::I(index_log as i32)]);
        }
        self.a.op(Code::Mov_rm64_r64, &[word(WORDS + room).into(), C.into()]);
        self.a.bind(done);
    }

    /// The instructions of an iteration, but for the comparison.
    fn iteration(&mut self, this: &ScalarLoop, careful: bool, asides: &mut Vec<SlowPath>) {
        let f = self.f;
        for (index, inst) in f.blocks[self.block].insts.iter().enumerate() {
            let sources = inst.src.iter().map(|s| match own(f, *s) {
                Some(Own::Lane(r) | Own::Uniform(r)) => Source::Scalar(r),
                _ => *s,
            });
            let inst = VectorInst { src: sources.collect(), ..inst.clone() };
            if let Some(scaled) = this.part_of_address(index) {
                if scaled.made == index {
                    self.index_of_lane(&inst, scaled);
                }
                continue;
            }
            match inst.op {
                Op::Load(_) => {
                    let (label, back) = (self.a.label(), self.a.label());
                    self.load_for_lane(this, &inst, index, careful, label);
                    self.a.bind(back);
                    asides.push(SlowPath { label, back, index });
                }
                Op::Float(op, ty, _) => self.float_of_lane(this, &inst, op, ty == FloatType::F64),
                Op::Mov(w) => self.move_of_lane(this, &inst, w == Width::W64),
                Op::Int(op, ty) => self.scalar_int(&inst, op, ty),
                Op::Extend { bits, signed, to, .. } => self.scalar_extend(&inst, bits, signed, to),
                _ => {}
            }
        }
    }

    /// An index as a number of 64 bits, where its product was to be.
    fn index_of_lane(&mut self, inst: &VectorInst, scaled: Scaled) {
        let to = self.scalar_target(inst, 0, true);
        match scaled.load {
            None => self.widen(inst.src[0], scaled.signed, to),
            Some(_) => {
                let from = self.scalar_in(inst.src[0], true, A);
                if from != to {
                    self.a.op(mov(true), &[to.into(), from.into()]);
                }
            }
        }
    }

    /// Goes to `label` where the lane leaves the loop, or where it does not.
    fn leave_where(&mut self, this: &ScalarLoop, leaves: bool, label: Label) {
        let inst = &self.f.blocks[self.block].insts[this.compare];
        let Op::Setp(compare, CompareType::Int(ty)) = inst.op else { return };
        let wide = ty.width() == Width::W64;
        let first = self.scalar_in(inst.src[0], wide, C);
        let second = self.scalar(inst.src[1], wide, D);
        let code = match (wide, second) {
            (true, X::I(_)) => Code::Cmp_rm64_imm32,
            (false, X::I(_)) => Code::Cmp_rm32_imm32,
            (true, _) => Code::Cmp_r64_rm64,
            (false, _) => Code::Cmp_r32_rm32,
        };
        self.a.op(code, &[first.into(), second]);
        let compare = if this.back_if == leaves { opposite(compare) } else { compare };
        if let Some(flags) = compare::flags(compare, ty.signed()) {
            self.a.jump(flags.jump, label);
        }
    }

    /// A load of one lane, checked; goes to `slow` if it may not be made.
    fn load_for_lane(
        &mut self,
        this: &ScalarLoop,
        inst: &VectorInst,
        index: usize,
        careful: bool,
        slow: Label,
    ) {
        let Op::Load(access) = inst.op else { return };
        let (offset, bytes) = self.load_of(index);
        let mut from = None;
        let address = match this.checks.get(&index) {
            Some(Check::Offset { scaled: Some(_), .. }) => A,
            _ => self.scalar_in(inst.src[0], true, A),
        };
        match this.checks.get(&index) {
            Some(Check::Offset { lane, base, word: with, scaled: Some(scaled), .. }) => {
                let lane = self.scalar_in(Source::Scalar(*lane), true, C);
                let base = self.scalar_in(Source::Scalar(*base), true, D);
                self.a.op(Code::Cmp_r64_rm64, &[lane.into(), word(WORDS + with).into()]);
                self.a.jump(Code::Jae_rel32_64, slow);
                from = Some(element(base, lane, scaled.log, offset));
            }
            Some(Check::Offset { lane, multiple, word: with, .. }) => {
                let lane = self.scalar_in(Source::Scalar(*lane), true, C);
                if !multiple {
                    self.a.op(Code::Lea_r64_m, &[D.into(), at(address, offset).into()]);
                    self.aligned(D, bytes.into(), slow);
                }
                self.a.op(Code::Cmp_r64_rm64, &[lane.into(), word(WORDS + with).into()]);
                self.a.jump(Code::Jae_rel32_64, slow);
            }
            Some(Check::Any { word: with }) => {
                self.a.op(Code::Lea_r64_m, &[D.into(), at(address, offset).into()]);
                self.aligned(D, bytes.into(), slow);
                self.a.op(Code::Sub_r64_rm64, &[D.into(), word(WORDS + with).into()]);
                self.a.op(Code::Cmp_r64_rm64, &[D.into(), word(WORDS + with + 1).into()]);
                self.a.jump(Code::Jae_rel32_64, slow);
            }
            // Any other kind of access is left to the interpreter's handlers.
            _ if careful => self.a.jump(Code::Jmp_rel32_64, slow),
            _ => {}
        }
        let (from, result) = (from.unwrap_or(at(address, offset)), inst.dst[0].reg);
        if let Some(register) = this.places.floats.get(&result) {
            self.a.op(load_float(bytes == 8), &[(*register).into(), from.into()]);
        } else if let Some(register) = this.places.general.get(&result) {
            let (code, to) = match (bytes, this.widened.get(&result)) {
                (8, _) => (Code::Mov_r64_rm64, *register),
                (_, Some(true)) => (Code::Movsxd_r64_rm32, *register),
                _ => load_code(access, *register),
            };
            self.a.op(code, &[to.into(), from.into()]);
        }
    }

    /// Runs a load by the interpreter, for this lane only.
    fn decoded_for_lane(&mut self, this: &ScalarLoop, slow_path: &SlowPath) {
        let &SlowPath { label, back, index } = slow_path;
        let result = self.f.blocks[self.block].insts[index].dst[0].reg;
        let places = &this.places;
        let lanes = places.general.keys().chain(places.floats.keys()).copied();
        let held: Vec<Reg> =
            lanes.filter(|r| !this.uniforms.contains(r) && places.holds(*r, index)).collect();
        let (eax, ecx) = (Register::EAX, Register::ECX);
        self.a.bind(label);
        self.a.op(Code::Mov_r64_rm64, &[A.into(), word(LANE).into()]);
        held.iter().for_each(|r| self.bring(this, *r));
        if let Some(Check::Offset { base, lane, scaled: Some(scaled), .. }) =
            this.checks.get(&index)
        {
            // The address that was not made.
            let inst = &self.f.blocks[self.block].insts[index];
            let base = self.scalar_in(Source::Scalar(*base), true, D);
            let lane = self.scalar_in(Source::Scalar(*lane), true, C);
            self.a.op(Code::Lea_r64_m, &[D.into(), element(base, lane, scaled.log, 0).into()]);
            for r in inst.src[0].registers() {
                self.a.op(Code::Mov_rm64_r64, &[self.of_lane(r).into(), D.into()]);
            }
        }
        self.a.op(Code::Mov_rm64_r64, &[word(OLD_BUDGET).into(), BUDGET.into()]);
        self.a.op(Code::Mov_rm32_r32, &[word(OLD_MASK).into(), MASK.into()]);
        self.a.op(Code::Mov_r32_rm32, &[ecx.into(), eax.into()]);
        self.a.op(Code::Mov_r32_imm32, &[MASK.into(), X::I(1)]);
        self.a.op(Code::Shl_rm32_CL, &[MASK.into(), Register::CL.into()]);
        let (first, count) = self.layout.handler_range(self.block, index, true);
        self.a.load_constant(A, u64::from(first));
        self.a.load_constant(C, u64::from(count));
        self.a.jump(Code::Call_rel32_64, self.decoded);
        let (_, bytes) = self.load_of(index);
        self.a.op(Code::Add_rm64_imm8, &[word(APART).into(), X::I(bytes)]);
        self.a.op(Code::Mov_r32_rm32, &[MASK.into(), word(OLD_MASK).into()]);
        self.load_uniforms(this);
        // Another range is remembered now.
        self.prepare(this, index);
        this.linear.iter().filter(|l| l.first == index).for_each(|l| self.prepare_linear(l));
        self.a.op(Code::Mov_r64_rm64, &[BUDGET.into(), word(OLD_BUDGET).into()]);
        self.a.op(Code::Mov_r64_rm64, &[A.into(), word(LANE).into()]);
        held.iter().for_each(|r| self.take(this, *r));
        self.take(this, result);
        self.a.jump(Code::Jmp_rel32_64, back);
    }

    fn move_of_lane(&mut self, this: &ScalarLoop, inst: &VectorInst, wide: bool) {
        if let Some(to) = this.places.floats.get(&inst.dst[0].reg) {
            let from = self.float_source(this, inst.src[0], wide);
            self.move_float(*to, from, wide);
        } else {
            let from = self.scalar_in(inst.src[0], wide, A);
            self.scalar_result(inst, 0, from);
        }
    }

    fn move_float(&mut self, to: Register, from: X, wide: bool) {
        let code = match from {
            X::R(_) => Code::VEX_Vmovapd_xmm_xmmm128,
            _ => load_float(wide),
        };
        self.a.op(code, &[to.into(), from]);
    }

    /// A floating-point source: a register, or memory.
    fn float_source(&mut self, this: &ScalarLoop, source: Source, wide: bool) -> X {
        match source {
            Source::Imm(v) if wide => self.a.constant(&v.to_le_bytes()).into(),
            Source::Imm(v) => self.a.constant(&(v as u32).to_le_bytes()).into(),
            source => match source.registers().next() {
                Some(r) => match this.places.floats.get(&r) {
                    Some(register) => (*register).into(),
                    None => {
                        let offset = self.layout.place(r.index()).scalar.unwrap_or(0);
                        at(FILE, offset as i32).into()
                    }
                },
                None => X::I(0),
            },
        }
    }

    fn float_of_lane(&mut self, this: &ScalarLoop, inst: &VectorInst, op: FloatOp, wide: bool) {
        let Some(&to) = this.places.floats.get(&inst.dst[0].reg) else { return };
        let sources: Vec<X> = inst.src.iter().map(|s| self.float_source(this, *s, wide)).collect();
        let [scratch, other] = SCRATCH;
        let pick = |narrow: Code, full: Code| if wide { full } else { narrow };
        let is_target = |x: &X| matches!(x, X::R(r) if *r == to);
        let made =
            if sources.iter().skip(1).any(is_target) && op != FloatOp::Fma { scratch } else { to };
        match op {
            FloatOp::Fma if is_target(&sources[2]) => {
                let code = pick(
                    Code::VEX_Vfmadd231ss_xmm_xmm_xmmm32,
                    Code::VEX_Vfmadd231sd_xmm_xmm_xmmm64,
                );
                let first = self.float_in(sources[0], wide, scratch);
                self.a.op(code, &[to.into(), first.into(), sources[1]]);
            }
            FloatOp::Fma => {
                let code = pick(
                    Code::VEX_Vfmadd213ss_xmm_xmm_xmmm32,
                    Code::VEX_Vfmadd213sd_xmm_xmm_xmmm64,
                );
                self.move_float(scratch, sources[0], wide);
                let second = self.float_in(sources[1], wide, other);
                self.a.op(code, &[scratch.into(), second.into(), sources[2]]);
                self.move_float(to, scratch.into(), wide);
            }
            _ => {
                let code = match op {
                    FloatOp::Add => {
                        pick(Code::VEX_Vaddss_xmm_xmm_xmmm32, Code::VEX_Vaddsd_xmm_xmm_xmmm64)
                    }
                    FloatOp::Sub => {
                        pick(Code::VEX_Vsubss_xmm_xmm_xmmm32, Code::VEX_Vsubsd_xmm_xmm_xmmm64)
                    }
                    _ => pick(Code::VEX_Vmulss_xmm_xmm_xmmm32, Code::VEX_Vmulsd_xmm_xmm_xmmm64),
                };
                let first = self.float_in(sources[0], wide, made);
                self.a.op(code, &[made.into(), first.into(), sources[1]]);
                if made != to {
                    self.move_float(to, made.into(), wide);
                }
            }
        }
        if !wide && !self.nan_deferred[inst.dst[0].reg.index()] {
            let number = self.a.label();
            self.a.op(Code::VEX_Vucomiss_xmm_xmmm32, &[to.into(), to.into()]);
            self.a.jump(Code::Jnp_rel32_64, number);
            let nan = self.a.constant(&simt::analysis::nan_demand::NAN.to_le_bytes());
            self.a.op(load_float(false), &[to.into(), nan.into()]);
            self.a.bind(number);
        }
    }

    /// A floating-point source in a register: `scratch`, if it is not in one.
    fn float_in(&mut self, source: X, wide: bool, scratch: Register) -> Register {
        match source {
            X::R(register) => register,
            memory => {
                self.a.op(load_float(wide), &[scratch.into(), memory]);
                scratch
            }
        }
    }

    /// Counts RAX iterations with which the lane has left the loop.
    fn count_lane(&mut self) {
        let fewer = self.a.label();
        self.a.op(Code::Add_rm64_r64, &[word(TURNS).into(), A.into()]);
        self.a.op(Code::Add_r64_rm64, &[A.into(), word(EARLIER).into()]);
        self.a.op(Code::Mov_rm64_imm32, &[word(EARLIER).into(), X::I(0)]);
        self.a.op(Code::Cmp_r64_rm64, &[A.into(), word(MOST).into()]);
        self.a.jump(Code::Jbe_rel32_64, fewer);
        self.a.op(Code::Mov_rm64_r64, &[word(MOST).into(), A.into()]);
        self.a.bind(fewer);
    }

    /// Takes all iterations of the fuel and counts what they did; those of the warp are those
    /// of the lane that made most.
    fn account(&mut self, this: &ScalarLoop) {
        let size = self.f.blocks[self.block].insts.len() as i32 + 1;
        let cost = self.layout.cost(self.block) as i32;
        let product = |c: &mut Self, count: usize, by: i32| {
            c.a.op(Code::Imul_r64_rm64_imm32, &[C.into(), word(count).into(), X::I(by)]);
        };
        product(self, TURNS, cost);
        self.a.op(Code::Sub_rm64_r64, &[field(Field::Fuel).into(), C.into()]);
        for (count, by, to) in [
            (TURNS, size, Field::ThreadInstructions),
            (TURNS, this.bytes, Field::GlobalBytes),
            (MOST, size, Field::WarpInstructions),
        ] {
            product(self, count, by);
            self.a.op(Code::Add_rm64_r64, &[field(to).into(), C.into()]);
        }
        self.a.op(Code::Mov_r64_rm64, &[C.into(), word(APART).into()]);
        self.a.op(Code::Sub_rm64_r64, &[field(Field::GlobalBytes).into(), C.into()]);
    }

    /// Comes back with the lanes that are not through: they go back to the start of the loop, which
    /// is for others to do.
    fn interrupt(&mut self, this: &ScalarLoop) {
        let (eax, ecx, edx) = (Register::EAX, Register::ECX, Register::EDX);
        let predicate = self.mask_of(this.guard);
        let no_lane = self.a.label();
        self.a.op(Code::Mov_r32_rm32, &[eax.into(), word(LEFT).into()]);
        self.a.op(Code::Xor_r32_rm32, &[MASK.into(), eax.into()]);
        self.a.jump(Code::Je_rel32_64, no_lane);
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Pending).into()]);
        let behind = at(D, 4 * this.exit as i32);
        self.a.op(Code::Or_rm32_r32, &[behind.into(), MASK.into()]);
        self.a.load_constant(C, this.exit as u64);
        self.a.op(Code::Mov_r32_rm32, &[edx.into(), field(Field::Lowest).into()]);
        self.a.op(Code::Cmp_r32_rm32, &[edx.into(), ecx.into()]);
        self.a.op(Code::Cmova_r32_rm32, &[edx.into(), ecx.into()]);
        self.a.op(Code::Mov_rm32_r32, &[field(Field::Lowest).into(), edx.into()]);
        self.a.bind(no_lane);
        self.a.op(Code::Mov_r32_rm32, &[MASK.into(), eax.into()]);
        if this.back_if {
            self.a.op(Code::Or_rm32_r32, &[predicate.into(), eax.into()]);
        } else {
            self.a.op(Code::Not_rm32, &[eax.into()]);
            self.a.op(Code::And_rm32_r32, &[predicate.into(), eax.into()]);
        }
        let out = self.exit_stub(self.block, Exit::Terminate);
        self.a.jump(Code::Jmp_rel32_64, out);
    }
}

/// An element by its index.
fn element(base: Register, index: Register, log: u32, offset: i32) -> MemoryOperand {
    MemoryOperand::with_base_index_scale_displ_size(base, index, 1 << log, i64::from(offset), 8)
}

fn load_float(wide: bool) -> Code {
    if wide { Code::VEX_Vmovsd_xmm_m64 } else { Code::VEX_Vmovss_xmm_m32 }
}

fn sized(register: Register, wide: bool) -> Register {
    if wide { register.full_register() } else { register.full_register32() }
}

/// The opposite of a comparison of integers.
fn opposite(compare: Compare) -> Compare {
    match compare {
        Compare::Eq => Compare::Ne,
        Compare::Ne => Compare::Eq,
        Compare::Lt => Compare::Ge,
        Compare::Le => Compare::Gt,
        Compare::Gt => Compare::Le,
        Compare::Ge => Compare::Lt,
        other => other,
    }
}
