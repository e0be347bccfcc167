//! How a segment's loads and stores find their memory, and the checks in front of the segment.

use super::{POINTERS, QUARTER_LANES, QUARTERS, table_slot};
use crate::access::{Plan, range_end, range_start};
use crate::assembler::{Label, X, at};
use crate::compiler::Compiler;
use crate::frame::{A, C, D, FILE, Field, MASK, SAVED_VECTOR, field};
use crate::scalar::mov;
use iced_x86::{Code, MemoryOperand, Register};
use simt::geometry::HALF_LANES;
use simt::ir::Reg;
use simt::op::Width;
use simt::vector::{Home, Source, VectorInst};

/// How an access finds its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    /// Lanes follow each other at a stride; `pointer` is lane 0's, and lane 16's in the next one
    /// if the halves of the warp start apart.
    Formula {
        /// Number of the first pointer.
        pointer: usize,
        /// Bytes between lanes.
        stride: i32,
        /// There are two pointers.
        halves: bool,
    },
    /// Every lane has its address in the register file.
    File(Reg),
    /// Every lane has its address in a list on the stack; those of lanes that do not take part
    /// lead to scratch memory.
    Table {
        /// Where the addresses come from.
        from: Reg,
        /// Number of the list.
        table: usize,
    },
}

impl Reach {
    /// Consecutive lanes are at a constant distance.
    pub(crate) fn is_formula(&self) -> bool {
        matches!(self, Self::Formula { .. })
    }

    /// Pointers that it needs.
    pub(crate) fn pointers(&self) -> usize {
        match self {
            Self::Formula { halves, .. } => 1 + usize::from(*halves),
            _ => 0,
        }
    }

    /// Lists that it needs.
    pub(crate) fn tables(&self) -> usize {
        usize::from(matches!(self, Self::Table { .. }))
    }

    /// Gives it the next pointers and lists.
    pub(crate) fn place(&mut self, pointers: &mut usize, tables: &mut usize) {
        let (first, list) = (*pointers, *tables);
        *pointers += self.pointers();
        *tables += self.tables();
        match self {
            Self::Formula { pointer, .. } => *pointer = first,
            Self::Table { table, .. } => *table = list,
            Self::File(_) => {}
        }
    }
}

impl Compiler<'_> {
    /// How the access of a load or store on lanes is made; `None` if there is no form.
    pub(crate) fn reach(&self, inst: &VectorInst, plan: Plan) -> Option<Reach> {
        let Plan { access, write, offset, total, wide, shared, .. } = plan;
        let count = usize::from(access.count);
        let values = if write { inst.src.len() - 2 } else { inst.dst.len() };
        if access.width == Width::W128 || values != count {
            return None;
        }
        let some = self.masked || inst.guard.is_some();
        let formula = |stride: i64, halves: bool| {
            let stride = i32::try_from(stride).ok()?;
            Some(Reach::Formula { pointer: 0, stride, halves })
        };
        // Lanes that do not take part are left out by a mask.
        let contiguous = |stride: i64| {
            stride == i64::from(total)
                && count == 1
                && u32::from(access.bytes) == access.width.bytes()
                && access.width != Width::W16
        };
        match inst.src[0] {
            _ if inst.uniform => {
                // One value for all lanes.
                (!write && inst.guard.is_none()).then_some(())?;
                formula(0, false)
            }
            Source::Affine(_, stride) => {
                let aligned = stride % i64::from(total) == 0 && stride != 0;
                (aligned && (!write || !some || contiguous(stride))).then_some(())?;
                formula(stride, false)
            }
            Source::Halves(_, _, stride) => {
                let aligned = stride % i64::from(total) == 0;
                (aligned && !(write && (some || stride == 0))).then_some(())?;
                formula(stride, true)
            }
            Source::Vector(r) => {
                // Addresses of one result must not fall to another.
                let apart = count == 1 || inst.dst.iter().all(|d| d.reg != r);
                let plain = wide != shared && offset % total == 0 && apart;
                plain.then_some(())?;
                Some(if some { Reach::Table { from: r, table: 0 } } else { Reach::File(r) })
            }
            _ => None,
        }
    }

    /// Checks an access of a segment and finds its pointers; goes to `slow` if it may not be made.
    pub(crate) fn check_reach(&mut self, inst: &VectorInst, plan: Plan, reach: Reach, slow: Label) {
        match reach {
            Reach::Formula { pointer, stride, halves: false } => {
                let exact = stride == plan.total
                    && plan.access.count == 1
                    && u32::from(plan.access.bytes) == plan.access.width.bytes()
                    && plan.access.width != Width::W16
                    && (self.masked || inst.guard.is_some());
                self.base(inst.src[0], plan);
                if exact && !inst.uniform {
                    let checked = self.a.label();
                    self.check_some(inst, plan, slow, checked);
                    self.a.bind(checked);
                } else {
                    self.check_formula(plan, stride, QUARTERS * QUARTER_LANES, slow);
                }
                self.a.op(Code::Mov_r64_rm64, &[POINTERS[pointer].into(), C.into()]);
            }
            Reach::Formula { pointer, stride, halves: true } => {
                let Source::Halves(low, high, _) = inst.src[0] else { return };
                for (n, r) in [low, high].into_iter().enumerate() {
                    self.base(Source::Scalar(r), plan);
                    self.check_formula(plan, stride, HALF_LANES, slow);
                    self.a.op(Code::Mov_r64_rm64, &[POINTERS[pointer + n].into(), C.into()]);
                }
            }
            Reach::File(r) => self.check_addresses(inst, plan, r, None, slow),
            Reach::Table { from, table } => {
                self.check_addresses(inst, plan, from, Some(table), slow);
            }
        }
    }

    /// Counts the bytes of an access that will be made.
    pub(crate) fn count_reach(&mut self, inst: &VectorInst, plan: Plan) {
        if inst.uniform {
            self.count(plan, plan.total);
        } else if self.masked || inst.guard.is_some() {
            self.count_some(inst, plan);
        } else {
            self.count(plan, 32 * plan.total);
        }
    }

    /// The address of a scalar source in RCX, offset included.
    fn base(&mut self, source: Source, plan: Plan) {
        let wide = plan.wide;
        if let Source::Imm(base) = source {
            let address = base.wrapping_add(plan.offset as i64 as u64);
            self.a.load_constant(C, if wide { address } else { u64::from(address as u32) });
            return;
        }
        let base = self.scalar_in(source, wide, C);
        let to = if wide { C } else { Register::ECX };
        if base != to {
            self.a.op(mov(wide), &[to.into(), base.into()]);
        }
        if plan.offset != 0 {
            let code = if wide { Code::Add_rm64_imm32 } else { Code::Add_rm32_imm32 };
            self.a.op(code, &[to.into(), X::I(plan.offset)]);
        }
    }

    /// Makes lane 0's address in RCX its pointer, if so many lanes may be accessed.
    fn check_formula(&mut self, plan: Plan, stride: i32, lanes: usize, slow: Label) {
        let reach = stride * (lanes as i32 - 1);
        if reach < 0 {
            let (code, to) = if plan.wide {
                (Code::Add_rm64_imm32, C)
            } else {
                (Code::Add_rm32_imm32, Register::ECX)
            };
            self.a.op(code, &[to.into(), X::I(reach)]);
        }
        self.check(plan, reach.abs() + plan.total, slow);
        if reach < 0 {
            self.a.op(Code::Sub_rm64_imm32, &[C.into(), X::I(reach)]);
        }
    }

    /// Two accesses of a segment, a load and a store, must be to the same lanes' memory or apart.
    pub(crate) fn check_apart(&mut self, load: (Plan, Reach), store: (Plan, Reach), slow: Label) {
        let ((load, from), (store, to)) = (load, store);
        if load.shared != store.shared {
            return;
        }
        let (
            Reach::Formula { pointer: p, stride: s, halves: h },
            Reach::Formula { pointer: q, stride: t, halves: i },
        ) = (from, to)
        else {
            return;
        };
        // The first byte and the number of bytes that each pointer leads to.
        let spans = |pointer: usize, stride: i32, halves: bool, total: i32| {
            let lanes = if halves { HALF_LANES } else { QUARTERS * QUARTER_LANES } as i32;
            let reach = stride * (lanes - 1);
            (0..=usize::from(halves))
                .map(move |n| (POINTERS[pointer + n], reach.min(0), reach.abs() + total))
        };
        for (a, a_first, a_bytes) in spans(p, s, h, load.total) {
            for (b, b_first, b_bytes) in spans(q, t, i, store.total) {
                let fine = self.a.label();
                self.a.op(Code::Mov_r64_rm64, &[A.into(), b.into()]);
                self.a.op(Code::Sub_r64_rm64, &[A.into(), a.into()]);
                if s == t && h == i && load.total == store.total && !h {
                    self.a.jump(Code::Je_rel32_64, fine);
                }
                // b + b_bytes - 1 - a in [0, a_bytes + b_bytes - 1): they meet.
                let shift = b_first - a_first + b_bytes - 1;
                self.a.op(Code::Add_rm64_imm32, &[A.into(), X::I(shift)]);
                self.a.op(Code::Cmp_rm64_imm32, &[A.into(), X::I(a_bytes + b_bytes - 1)]);
                self.a.jump(Code::Jb_rel32_64, slow);
                self.a.bind(fine);
            }
        }
    }

    /// Checks addresses that are in the register file, and lists those of the lanes that take
    /// part if not all do.
    fn check_addresses(
        &mut self,
        inst: &VectorInst,
        plan: Plan,
        r: Reg,
        table: Option<usize>,
        slow: Label,
    ) {
        if self.f.homes[r.index()] == Home::ScalarAndVector {
            self.flush_copies(r.index());
        }
        if table.is_none() && self.without.bounds {
            return;
        }
        if table.is_some() {
            match inst.guard {
                Some(guard) => self.active_lanes(guard),
                None => {
                    self.a.op(Code::Mov_r32_rm32, &[Register::EAX.into(), MASK.into()]);
                }
            }
            // The lanes that take part, in all lanes of a register.
            let active = ACTIVE.into();
            self.a.op(Code::VEX_Vmovd_xmm_rm32, &[low(ACTIVE).into(), Register::EAX.into()]);
            self.a.op(Code::VEX_Vpbroadcastq_ymm_xmmm64, &[active, low(ACTIVE).into()]);
            let later = if plan.shared { 0 } else { plan.offset };
            let nowhere = at(Register::RSP, SAVED_VECTOR - later);
            self.a.op(Code::Lea_r64_m, &[A.into(), nowhere.into()]);
            self.broadcast(NOWHERE, A);
        }
        if plan.shared {
            self.check_shared(plan, r, table, slow);
        } else {
            self.check_global(plan, r, table, slow);
        }
    }

    fn broadcast(&mut self, to: Register, from: Register) {
        self.a.op(Code::VEX_Vmovq_xmm_rm64, &[low(to).into(), from.into()]);
        self.a.op(Code::VEX_Vpbroadcastq_ymm_xmmm64, &[to.into(), low(to).into()]);
    }

    /// The lanes of four that take part, as a mask in T1.
    fn active_four(&mut self, four: usize) {
        let bits: Vec<u8> =
            (4 * four..4 * four + 4).flat_map(|lane| (1u64 << lane).to_le_bytes()).collect();
        let bits = self.a.constant(&bits);
        let t1: X = T1.into();
        self.a.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[t1, ACTIVE.into(), bits.into()]);
        self.a.op(Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256, &[t1, t1, bits.into()]);
    }

    /// Goes to `slow` if an address in `LOW_BITS` is not aligned.
    fn check_alignment(&mut self, plan: Plan, slow: Label) {
        if plan.total > 1 {
            let low_bits = (plan.total as u32 - 1).to_le_bytes();
            let unused = if plan.wide { [0; 4] } else { low_bits };
            let low_bits = self.a.constant(&[low_bits, unused].concat().repeat(4));
            self.a.op(Code::VEX_Vptest_ymm_ymmm256, &[LOW_BITS.into(), low_bits.into()]);
            self.a.jump(Code::Jne_rel32_64, slow);
        }
    }

    /// 64-bit addresses, four at a time.
    fn check_global(&mut self, plan: Plan, r: Reg, table: Option<usize>, slow: Label) {
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Ranges).into()]);
        self.a.op(Code::Mov_r64_rm64, &[A.into(), range_start(plan.site).into()]);
        self.a.op(Code::Mov_r64_rm64, &[C.into(), range_end(plan.site).into()]);
        self.a.op(Code::Sub_r64_rm64, &[C.into(), A.into()]);
        self.a.op(Code::Sub_rm64_imm32, &[C.into(), X::I(plan.total)]);
        self.a.jump(Code::Jb_rel32_64, slow);
        self.check_writable(plan, slow);
        if plan.offset != 0 {
            self.a.op(Code::Sub_rm64_imm32, &[A.into(), X::I(plan.offset)]);
        }
        // An address less the start is at most what is in RCX. The processor compares signed
        // numbers, so both are moved by half of the range.
        self.a.load_constant(D, 1 << 63);
        self.a.op(Code::Xor_r64_rm64, &[C.into(), D.into()]);
        self.broadcast(MOST, C);
        self.a.op(Code::Sub_r64_rm64, &[D.into(), A.into()]);
        self.broadcast(LESS, D);
        let offset = self.layout.place(r.index()).vector.unwrap_or(0) as i32;
        let or = Code::VEX_Vpor_ymm_ymm_ymmm256;
        for four in 0..8 {
            let memory = at(FILE, offset + 32 * four as i32);
            let bad = if four == 0 { BAD } else { T0 };
            let add = Code::VEX_Vpaddq_ymm_ymm_ymmm256;
            self.a.op(add, &[bad.into(), LESS.into(), memory.into()]);
            let greater = Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256;
            self.a.op(greater, &[bad.into(), bad.into(), MOST.into()]);
            let mut address: X = memory.into();
            if let Some(table) = table {
                self.active_four(four);
                let and = Code::VEX_Vpand_ymm_ymm_ymmm256;
                self.a.op(and, &[bad.into(), bad.into(), T1.into()]);
                self.a.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[T2.into(), memory.into()]);
                let blend = Code::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm;
                let listed = [T0B.into(), NOWHERE.into(), T2.into(), T1.into()];
                self.a.op(blend, &listed);
                self.list(table, four, T0B);
                self.a.op(and, &[T2.into(), T2.into(), T1.into()]);
                address = T2.into();
            }
            if four == 0 {
                self.a.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[LOW_BITS.into(), address]);
            } else {
                self.a.op(or, &[BAD.into(), BAD.into(), T0.into()]);
                self.a.op(or, &[LOW_BITS.into(), LOW_BITS.into(), address]);
            }
        }
        self.a.op(Code::VEX_Vptest_ymm_ymmm256, &[BAD.into(), BAD.into()]);
        self.a.jump(Code::Jne_rel32_64, slow);
        self.check_alignment(plan, slow);
    }

    /// 32-bit addresses in shared memory, eight at a time: the largest decides.
    fn check_shared(&mut self, plan: Plan, r: Reg, table: Option<usize>, slow: Label) {
        // What wraps below 0 is too large.
        self.a.op(Code::Mov_r64_rm64, &[C.into(), field(Field::SharedBytes).into()]);
        self.a.op(Code::Sub_rm64_imm32, &[C.into(), X::I(plan.total)]);
        self.a.jump(Code::Jb_rel32_64, slow);
        let offset = self.a.constant(&plan.offset.to_le_bytes().repeat(8));
        let start = self.layout.place(r.index()).vector.unwrap_or(0) as i32;
        let (add, or) = (Code::VEX_Vpaddd_ymm_ymm_ymmm256, Code::VEX_Vpor_ymm_ymm_ymmm256);
        let (max, and) = (Code::VEX_Vpmaxud_ymm_ymm_ymmm256, Code::VEX_Vpand_ymm_ymm_ymmm256);
        if table.is_some() {
            self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Shared).into()]);
            self.broadcast(LESS, D);
        }
        for quarter in 0..QUARTERS {
            let memory = at(FILE, start + 32 * quarter as i32);
            let address = if quarter == 0 { LOW_BITS } else { T0 };
            self.a.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[address.into(), memory.into()]);
            if let Some(table) = table {
                for half in 0..2 {
                    let four = 2 * quarter + half;
                    let memory = at(FILE, start + 16 * four as i32);
                    self.active_four(four);
                    // Offsets of shared memory wrap around at 32 bits.
                    let four_lanes: X = low(T2).into();
                    self.a.op(Code::VEX_Vmovdqu_xmm_xmmm128, &[four_lanes, memory.into()]);
                    let add = Code::VEX_Vpaddd_xmm_xmm_xmmm128;
                    self.a.op(add, &[four_lanes, four_lanes, offset.into()]);
                    self.a.op(Code::VEX_Vpmovzxdq_ymm_xmmm128, &[T2.into(), four_lanes]);
                    let base = Code::VEX_Vpaddq_ymm_ymm_ymmm256;
                    self.a.op(base, &[T2.into(), T2.into(), LESS.into()]);
                    let blend = Code::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm;
                    let listed = [T0B.into(), NOWHERE.into(), T2.into(), T1.into()];
                    self.a.op(blend, &listed);
                    self.list(table, four, T0B);
                }
                // Eight lanes' bits: of no lane, an address that is good if the offset is.
                let first = QUARTER_LANES * quarter;
                let bits: Vec<u8> = (first..first + QUARTER_LANES)
                    .flat_map(|lane| (1u32 << lane).to_le_bytes())
                    .collect();
                let bits = self.a.constant(&bits);
                let spread = Code::VEX_Vpbroadcastd_ymm_xmmm32;
                self.a.op(spread, &[T1.into(), low(ACTIVE).into()]);
                self.a.op(and, &[T1.into(), T1.into(), bits.into()]);
                let same = Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256;
                self.a.op(same, &[T1.into(), T1.into(), bits.into()]);
            }
            // With the offset, which wraps where the address is not one; lanes that take no part
            // are at 0.
            self.a.op(add, &[T2.into(), address.into(), offset.into()]);
            if table.is_some() {
                self.a.op(and, &[T2.into(), T2.into(), T1.into()]);
                self.a.op(and, &[address.into(), address.into(), T1.into()]);
            }
            if quarter == 0 {
                self.a.op(Code::VEX_Vmovdqa_ymm_ymmm256, &[BAD.into(), T2.into()]);
            } else {
                self.a.op(max, &[BAD.into(), BAD.into(), T2.into()]);
                self.a.op(or, &[LOW_BITS.into(), LOW_BITS.into(), T0.into()]);
            }
        }
        self.a.op(Code::VEX_Vmovd_xmm_rm32, &[low(MOST).into(), Register::ECX.into()]);
        self.a.op(Code::VEX_Vpbroadcastd_ymm_xmmm32, &[MOST.into(), low(MOST).into()]);
        self.a.op(max, &[BAD.into(), BAD.into(), MOST.into()]);
        self.a.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[BAD.into(), BAD.into(), MOST.into()]);
        self.a.op(Code::VEX_Vptest_ymm_ymmm256, &[BAD.into(), BAD.into()]);
        self.a.jump(Code::Jne_rel32_64, slow);
        self.check_alignment(plan, slow);
    }

    fn list(&mut self, table: usize, four: usize, from: Register) {
        let to = at(Register::RSP, table_slot(table) + 32 * four as i32);
        self.a.op(Code::VEX_Vmovdqu_ymmm256_ymm, &[to.into(), from.into()]);
    }

    /// Makes the copies of a scalar that all lanes need.
    pub(crate) fn flush_copies(&mut self, r: usize) {
        let place = self.layout.place(r);
        let (Some(width), Some(scalar), Some(vector)) =
            (self.f.classes[r].width(), place.scalar, place.vector)
        else {
            return;
        };
        let code = match width {
            Width::W16 => Code::VEX_Vpbroadcastw_ymm_xmmm16,
            Width::W32 => Code::VEX_Vpbroadcastd_ymm_xmmm32,
            Width::W64 => Code::VEX_Vpbroadcastq_ymm_xmmm64,
            Width::W128 => Code::VEX_Vbroadcasti128_ymm_m128,
        };
        self.a.op(code, &[T0.into(), at(FILE, scalar as i32).into()]);
        for n in 0..width.bytes() as i32 {
            let to = at(FILE, vector as i32 + 32 * n);
            self.a.op(Code::VEX_Vmovdqu_ymmm256_ymm, &[to.into(), T0.into()]);
        }
    }
}

/// Registers of the checks, which come before the segment uses any.
const T0: Register = Register::YMM0;
const T0B: Register = Register::YMM1;
const T1: Register = Register::YMM2;
const T2: Register = Register::YMM3;
const BAD: Register = Register::YMM4;
const LOW_BITS: Register = Register::YMM5;
const MOST: Register = Register::YMM6;
const LESS: Register = Register::YMM7;
const ACTIVE: Register = Register::YMM8;
const NOWHERE: Register = Register::YMM9;

fn low(register: Register) -> Register {
    super::quarter::xmm(register)
}

/// The memory of an element of a lane of a quarter; its address is in RAX if it is not a formula.
pub(crate) fn memory_of(reach: Reach, quarter: usize, lane: usize, offset: i32) -> MemoryOperand {
    match reach {
        Reach::Formula { pointer, stride, halves } => {
            let lane = quarter * QUARTER_LANES + lane;
            let (pointer, lane) = if halves && lane >= HALF_LANES {
                (pointer + 1, lane - HALF_LANES)
            } else {
                (pointer, lane)
            };
            at(POINTERS[pointer], stride * lane as i32 + offset)
        }
        Reach::File(_) | Reach::Table { .. } => at(A, offset),
    }
}
