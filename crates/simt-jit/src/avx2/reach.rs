//! How a segment's loads and stores find their memory, and the checks of formulas in front of the
//! segment; `listed` has those of addresses that are no formula.

use super::{POINTERS, QUARTER_LANES, QUARTERS};
use crate::access::Plan;
use crate::assembler::{Label, X, at};
use crate::compiler::Compiler;
use crate::frame::{A, C, FILE};
use crate::scalar::mov;
use iced_x86::{Code, MemoryOperand, Register};
use simt::geometry::HALF_LANES;
use simt::ir::Reg;
use simt::op::Width;
use simt::vector::{Source, VectorInst};

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
        let copies = Register::YMM0.into();
        self.a.op(code, &[copies, at(FILE, scalar as i32).into()]);
        for n in 0..width.bytes() as i32 {
            let to = at(FILE, vector as i32 + 32 * n);
            self.a.op(Code::VEX_Vmovdqu_ymmm256_ymm, &[to.into(), copies]);
        }
    }
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
