//! Transfer functions of divergence analysis: how operations carry uniform, affine and half-warp-
//! affine values from operands to results.
//!
//! Where blocks are 16 threads wide, or a program counts modulo 16, the halves of a warp are two
//! rows: a value then has a first lane in each half, lane 0 and lane 16, and grows by the same
//! stride in both.
//!
//! The rules hold for a first lane's value even where that lane does not run: a base
//! and a stride define it, and arithmetic modulo a power of two is exact on affine values. Only what looks at single
//! bits or widens needs to know more: that low bits of the first lane's value are zero, that no
//! lane's value is so large that it wraps, or, failing that, a check when the warp gets there
//! ([`Widening`]).

use crate::analysis::known_bits::{KnownBits, shift_amount};
use crate::ir::op::{Compare, CompareType, IntOp, IntType, Op, Special, Width};
use crate::ir::{Inst, Operand, Reg};
use crate::kernel::WARP_LANES;
use crate::launch_shape::{HALF_LANES, LaunchShape};

/// How a value differs between the lanes that can read it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// It has not been written yet.
    Unknown,
    /// Lane `i` has lane 0's value plus `i` times this, modulo the width. 0 is the same for all.
    Affine(i64),
    /// The same within each half of a warp, and nothing is known of one half from the other.
    HalfAffine(i64),
    /// Nothing is known.
    Varying,
}

impl Shape {
    /// The same in all lanes.
    pub(crate) const UNIFORM: Self = Self::Affine(0);

    /// The shape of a register that gets values of both shapes.
    pub(crate) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, s) | (s, Self::Unknown) => s,
            (a, b) if a == b => a,
            (Self::Affine(a), Self::HalfAffine(b)) | (Self::HalfAffine(b), Self::Affine(a))
                if a == b =>
            {
                Self::HalfAffine(a)
            }
            _ => Self::Varying,
        }
    }

    /// True unless all lanes have the same.
    pub(crate) fn varies(self) -> bool {
        !matches!(self, Self::Unknown | Self::UNIFORM)
    }

    /// What a lane's value is more than that of the lane before, within a run.
    fn stride(self) -> Option<i64> {
        match self {
            Self::Affine(stride) | Self::HalfAffine(stride) => Some(stride),
            Self::Unknown | Self::Varying => None,
        }
    }
}

/// A conversion to 64 bits that is only affine if its source does not wrap, as a 32-bit number of
/// that signedness, between the first lane and the last one that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Widening {
    /// The register widened.
    pub(crate) reg: Reg,
    /// It is sign-extended.
    pub(crate) signed: bool,
}

/// Lanes that count up together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// All.
    Warp,
    /// Those of half a warp.
    Half,
}

impl Run {
    fn lanes(self) -> i64 {
        match self {
            Self::Warp => WARP_LANES as i64,
            Self::Half => HALF_LANES as i64,
        }
    }
}

/// What the rules know of the function around an instruction.
pub(crate) struct Rules<'a> {
    /// Which launches the code is for.
    pub(crate) launch_shape: LaunchShape,
    /// Bounds.
    pub(crate) facts: &'a KnownBits,
    /// Shapes found so far, by register.
    pub(crate) shapes: &'a [Shape],
}

impl Rules<'_> {
    fn operand(&self, operand: &Operand) -> Shape {
        match operand {
            Operand::Reg(r) => self.shapes[r.index()],
            Operand::Imm(_) | Operand::Slot(_) => Shape::UNIFORM,
        }
    }

    /// The shape of the results.
    pub(crate) fn results(&self, inst: &Inst) -> Shape {
        let sources = match inst.op {
            // One answer for all lanes that are asked together.
            Op::Vote(_) | Op::Redux(..) | Op::Match { all: true, .. } => &inst.src[1..],
            _ => &inst.src[..],
        };
        let guard = inst.guard.map(|g| self.shapes[g.reg.index()]);
        let all = sources.iter().map(|s| self.operand(s)).chain(guard);
        if all.clone().any(|s| s == Shape::Unknown) {
            return Shape::Unknown;
        }
        if guard.is_some_and(Shape::varies) {
            return Shape::Varying;
        }
        if let Op::Special(special) = inst.op {
            return self.special(special);
        }
        if inst.op.varies() {
            return Shape::Varying;
        }
        if !all.clone().any(Shape::varies) {
            return Shape::UNIFORM;
        }
        let halves = all.clone().any(|s| matches!(s, Shape::HalfAffine(_)));
        if matches!(inst.op, Op::Setp(..)) {
            return if halves { Shape::Varying } else { self.comparison(inst) };
        }
        if !Self::is_formula(&inst.op) {
            return Shape::Varying;
        }
        let same = all.clone().all(|s| s.stride() == Some(0));
        let stride = |run| if same { Some(0) } else { self.formula(inst, run) };
        // What breaks over the whole warp may hold within its halves: the lane's number modulo 16.
        let whole = if halves { None } else { stride(Run::Warp).map(Shape::Affine) };
        whole.or_else(|| stride(Run::Half).map(Shape::HalfAffine)).unwrap_or(Shape::Varying)
    }

    fn special(&self, special: Special) -> Shape {
        match (special, self.launch_shape) {
            (Special::Tid(_), LaunchShape::Any) => Shape::Varying,
            (Special::Tid(0) | Special::LaneId, LaunchShape::HalfRows) => Shape::HalfAffine(1),
            (Special::Tid(1), LaunchShape::HalfRows) => Shape::HalfAffine(0),
            (Special::Tid(0) | Special::LaneId, _) => Shape::Affine(1),
            (Special::Tid(_), _) => Shape::UNIFORM,
            _ if Op::Special(special).varies() => Shape::Varying,
            _ => Shape::UNIFORM,
        }
    }

    /// The stride of a source; `None` if it has none.
    fn stride(&self, inst: &Inst, i: usize) -> Option<i64> {
        self.operand(inst.src.get(i)?).stride()
    }

    /// The shape of a comparison's result.
    fn comparison(&self, inst: &Inst) -> Shape {
        let same = self.stride(inst, 0).is_some_and(|a| self.stride(inst, 1) == Some(a));
        match inst.op {
            // For every value of lane 0 the difference is the same in all lanes.
            Op::Setp(Compare::Eq | Compare::Ne, CompareType::Int(_)) if same => Shape::UNIFORM,
            Op::Setp(compare, CompareType::Int(ty)) if self.parts_no_warp(inst, compare, ty) => {
                Shape::UNIFORM
            }
            _ => Shape::Varying,
        }
    }

    /// True if the comparison is one of a number that counts up from a multiple of a power of two
    /// with a constant that has all lanes' numbers on one side: `%tid.x < 64`.
    fn parts_no_warp(&self, inst: &Inst, compare: Compare, ty: IntType) -> bool {
        let width = ty.width();
        let (x, constant, turned) = match inst.src[..] {
            [Operand::Reg(_), Operand::Imm(v)] => (0, v, false),
            [Operand::Imm(v), Operand::Reg(_)] => (1, v, true),
            _ => return false,
        };
        let (Some(bits), Some(stride)) =
            (self.lane_bits(inst, x, width, Run::Warp), self.stride(inst, x))
        else {
            return false;
        };
        // How far the constant is from a number of the first lane, which has these bits clear.
        let from_first = |v: u64| (v & ((1 << bits.end) - 1)) as i64;
        let most = stride * (Run::Warp.lanes() - 1);
        let above = |v: u64| from_first(v) >= most;
        let distance = from_first(constant);
        match (compare, turned) {
            (Compare::Gt | Compare::Le, false) | (Compare::Lt | Compare::Ge, true) => {
                above(constant)
            }
            (Compare::Lt | Compare::Ge, false) | (Compare::Gt | Compare::Le, true) => {
                above(constant.wrapping_sub(1))
            }
            (Compare::Eq | Compare::Ne, _) => distance > most || distance % stride != 0,
            _ => false,
        }
    }

    /// The stride of a result that is an affine value of the lane's number.
    fn formula(&self, inst: &Inst, run: Run) -> Option<i64> {
        let stride = |i| self.stride(inst, i);
        match &inst.op {
            Op::Mov(w) => Some(wrapped(stride(0)?, *w)),
            Op::ToGeneric(_) | Op::FromGeneric(_) => stride(0),
            Op::Select(_) => {
                let same = stride(0)? == stride(1)? && stride(2)? == 0;
                if same { stride(0) } else { None }
            }
            Op::Extend { from, bits, to, .. } => {
                let bits = u32::from(*bits);
                if bits >= to.bits() || self.widening(inst).is_some() {
                    Some(wrapped(stride(0)?, *to))
                } else if self.never_wraps(inst, bits) {
                    Some(wrapped(stride(0)?, *from))
                } else {
                    None
                }
            }
            Op::Int(op, ty) => self.integer(inst, *op, *ty, run),
            _ => None,
        }
    }

    fn integer(&self, inst: &Inst, op: IntOp, ty: IntType, run: Run) -> Option<i64> {
        let width = ty.width();
        let stride = |i| self.stride(inst, i);
        let affine = |stride: i64, width: Width| Some(wrapped(stride, width));
        match op {
            IntOp::Add => affine(stride(0)?.wrapping_add(stride(1)?), width),
            IntOp::Sub => affine(stride(0)?.wrapping_sub(stride(1)?), width),
            IntOp::Neg | IntOp::Not => affine(stride(0)?.wrapping_neg(), width),
            IntOp::MulLo => affine(self.scaled(inst, ty)?, width),
            IntOp::MadLo => affine(self.scaled(inst, ty)?.wrapping_add(stride(2)?), width),
            IntOp::MulWide | IntOp::MadWide if width != Width::W64 => {
                // What needs no check is proved or is not widened: two values that are the same in
                // all lanes.
                let narrow = stride(0)? == 0 && stride(1)? == 0;
                if !narrow && self.widening(inst).is_none() && !self.never_wraps(inst, width.bits())
                {
                    return None;
                }
                let wide = Width::for_bits(width.bits() * 2);
                let third = if op == IntOp::MadWide { stride(2)? } else { 0 };
                affine(self.scaled(inst, ty)?.wrapping_add(third), wide)
            }
            IntOp::Shl => affine(stride(0)? << shift_amount(inst, width)?, width),
            IntOp::Shr => {
                let bits = self.lane_bits(inst, 0, width, run)?;
                let k = shift_amount(inst, width)?;
                if k >= bits.end {
                    Some(0)
                } else if k <= bits.start {
                    affine(stride(0)? >> k, width)
                } else {
                    None
                }
            }
            IntOp::And => {
                let (x, mask) = self.with_constant(inst)?;
                let bits = self.lane_bits(inst, x, width, run)?;
                let used = span(&bits);
                match mask & used {
                    0 => Some(0),
                    m if m == used => affine(stride(x)?, width),
                    _ => None,
                }
            }
            IntOp::Or | IntOp::Xor => {
                let x = if stride(0)? != 0 { 0 } else { 1 };
                (stride(1 - x)? == 0).then_some(())?;
                let other = self.facts.operand(&inst.src[1 - x], width);
                // In bits below all that the lanes differ in: these are the same in all lanes.
                let below = stride(x)?.trailing_zeros();
                if other.max >> below.min(63) == 0 {
                    return affine(stride(x)?, width);
                }
                // Or around the bits that the lanes differ in.
                let bits = self.lane_bits(inst, x, width, run)?;
                let clear = match inst.src[1 - x] {
                    Operand::Imm(v) => v & span(&bits) == 0,
                    _ => other.zero_bits[run as usize] >= bits.end,
                };
                if clear { affine(stride(x)?, width) } else { None }
            }
            _ => None,
        }
    }

    /// Stride of the product of the first two sources: one must be a constant.
    fn scaled(&self, inst: &Inst, ty: IntType) -> Option<i64> {
        let (a, b) = (self.stride(inst, 0)?, self.stride(inst, 1)?);
        if a == 0 && b == 0 {
            return Some(0);
        }
        let (x, factor) = self.with_constant(inst)?;
        let factor = if ty.signed() { wrapped(factor as i64, ty.width()) } else { factor as i64 };
        Some(self.stride(inst, x)?.wrapping_mul(factor))
    }

    /// Of the first two sources, the index of the one that is a register, and the other's value.
    fn with_constant(&self, inst: &Inst) -> Option<(usize, u64)> {
        let Op::Int(_, ty) = inst.op else { return None };
        let cut = |v: u64| v & u64::MAX >> (64 - ty.width().bits().min(64));
        match inst.src[..] {
            [Operand::Reg(_), Operand::Imm(v), ..] => Some((0, cut(v))),
            [Operand::Imm(v), Operand::Reg(_), ..] => Some((1, cut(v))),
            _ => None,
        }
    }

    /// The bits in which lanes of a run can differ, if they are zero in the value of the first:
    /// nothing carries.
    fn lane_bits(
        &self,
        inst: &Inst,
        i: usize,
        width: Width,
        run: Run,
    ) -> Option<std::ops::Range<u32>> {
        let stride = self.stride(inst, i)?;
        if stride <= 0 {
            return None;
        }
        let most = stride.checked_mul(run.lanes() - 1)?;
        let end = 64 - most.leading_zeros();
        // Not the sign: it would be shifted in from the left.
        let fits = end < width.bits()
            && self.facts.operand(&inst.src[i], width).zero_bits[run as usize] >= end;
        fits.then_some(stride.trailing_zeros()..end)
    }

    /// The source that differs between lanes and becomes wider: the only one there can be.
    fn widened(&self, inst: &Inst) -> Option<usize> {
        match inst.op {
            Op::Extend { .. } => Some(0),
            Op::Int(IntOp::MulWide | IntOp::MadWide, _) => Some(self.with_constant(inst)?.0),
            _ => None,
        }
    }

    /// True if what is widened is known to be below half of the range of `bits`.
    fn never_wraps(&self, inst: &Inst, bits: u32) -> bool {
        let width = match inst.op {
            Op::Extend { from, .. } => from,
            Op::Int(_, ty) => ty.width(),
            _ => return false,
        };
        self.widened(inst)
            .is_some_and(|i| self.facts.operand(&inst.src[i], width).max >> (bits - 1) == 0)
    }

    /// The widening that the instruction is, if it must be checked.
    pub(crate) fn unproved(&self, inst: &Inst) -> Option<Widening> {
        let widening = self.widening(inst)?;
        let differs = self.shapes[widening.reg.index()].stride().is_some_and(|s| s != 0);
        (differs && !self.never_wraps(inst, 32)).then_some(widening)
    }

    fn widening(&self, inst: &Inst) -> Option<Widening> {
        let signed = match inst.op {
            Op::Extend { from: Width::W32, bits: 32, signed, to: Width::W64 } => signed,
            Op::Int(IntOp::MulWide | IntOp::MadWide, ty) if ty.width() == Width::W32 => ty.signed(),
            _ => return None,
        };
        match inst.src[self.widened(inst)?] {
            Operand::Reg(reg) => Some(Widening { reg, signed }),
            _ => None,
        }
    }

    /// True if the operation can be computed from first lanes' values where its result is affine,
    /// and nothing goes wrong where it runs although it need not.
    pub(crate) fn is_formula(op: &Op) -> bool {
        match op {
            Op::Mov(w) | Op::Select(w) => *w != Width::W128,
            Op::ToGeneric(_)
            | Op::FromGeneric(_)
            | Op::Extend { .. }
            | Op::Int(..)
            | Op::Special(Special::LaneId | Special::Tid(_)) => true,
            _ => false,
        }
    }
}

/// All bits of a range.
fn span(bits: &std::ops::Range<u32>) -> u64 {
    (u64::MAX >> (64 - bits.end)) & (u64::MAX << bits.start)
}

/// A stride modulo the width, as the signed number nearest to 0.
fn wrapped(stride: i64, width: Width) -> i64 {
    match width {
        Width::W16 => i64::from(stride as i16),
        Width::W32 => i64::from(stride as i32),
        Width::W64 | Width::W128 => stride,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::op::Class;
    use crate::ir::{Block, Function, Target, Term};

    const LANES: u32 = WARP_LANES as u32;
    const THREADS: u32 = 1024;

    /// Numbers that threads are multiplied by: small ones, and those that leave the word.
    const STRIDES: [u32; 12] =
        [1, 2, 3, 4, 6, 12, 31, 1 << 26, 1 << 27, 1 << 28, u32::MAX, u32::MAX - 3];
    const CONSTANTS: [u32; 28] = [
        0,
        1,
        2,
        3,
        4,
        5,
        7,
        8,
        15,
        16,
        27,
        28,
        30,
        31,
        32,
        33,
        60,
        62,
        63,
        64,
        93,
        95,
        96,
        124,
        127,
        0xfff0,
        0xffff_ffe0,
        0x8000_0000,
    ];

    type Compute = fn(u32, u32) -> u32;

    /// What is made of a number and a constant.
    fn operations() -> Vec<(Op, Compute)> {
        use Compare::{Eq, Ge, Gt, Le, Lt, Ne};
        use IntOp::{Add, And, MulLo, Or, Shl, Shr, Sub, Xor};
        use IntType::{S32, U32};
        let int = |op, ty| Op::Int(op, ty);
        let compare = |compare, ty| Op::Setp(compare, CompareType::Int(ty));
        // Amounts clamp at the width.
        vec![
            (int(Add, U32), u32::wrapping_add),
            (int(Sub, U32), u32::wrapping_sub),
            (int(MulLo, S32), u32::wrapping_mul),
            (int(Shl, U32), |a, b| a.checked_shl(b).unwrap_or(0)),
            (int(Shr, U32), |a, b| a.checked_shr(b).unwrap_or(0)),
            (int(Shr, S32), |a, b| (a.cast_signed() >> b.min(31)).cast_unsigned()),
            (int(And, U32), |a, b| a & b),
            (int(Or, U32), |a, b| a | b),
            (int(Xor, U32), |a, b| a ^ b),
            (compare(Eq, U32), |a, b| (a == b).into()),
            (compare(Ne, S32), |a, b| (a != b).into()),
            (compare(Lt, U32), |a, b| (a < b).into()),
            (compare(Le, U32), |a, b| (a <= b).into()),
            (compare(Gt, U32), |a, b| (a > b).into()),
            (compare(Ge, U32), |a, b| (a >= b).into()),
            (compare(Lt, S32), |a, b| (a.cast_signed() < b.cast_signed()).into()),
            (compare(Gt, S32), |a, b| (a.cast_signed() > b.cast_signed()).into()),
        ]
    }

    /// True if lanes have what the shape says.
    fn is_so(shape: Shape, of: impl Fn(u32) -> u32) -> bool {
        let (stride, run) = match shape {
            Shape::Affine(stride) => (stride, LANES),
            Shape::HalfAffine(stride) => (stride, LANES / 2),
            Shape::Varying => return true,
            Shape::Unknown => return false,
        };
        (0..THREADS).all(|thread| {
            let (first, lane) = (thread / run * run, thread % run);
            of(thread) == of(first).wrapping_add(lane.wrapping_mul(stride as u32))
        })
    }

    /// Every affine value of a thread's number, or of its lane's, against what threads would compute.
    #[test]
    fn lanes_have_what_shapes_say() {
        let mut formulas = 0;
        for (special, number) in [
            (Special::Tid(0), (|thread| thread) as fn(u32) -> u32),
            (Special::LaneId, |thread| thread % LANES),
        ] {
            for factor in STRIDES {
                let (lane, x) = (Class::Lane(Width::W32), Reg(1));
                let mut regs = vec![lane; 2];
                let inst = |op, d, src| Inst { op, guard: None, dst: vec![d], src, line: 0 };
                let scale = Op::Int(IntOp::MulLo, IntType::U32);
                let scaled = vec![Operand::Reg(Reg(0)), Operand::Imm(factor.into())];
                let mut insts =
                    vec![inst(Op::Special(special), Reg(0), vec![]), inst(scale, x, scaled)];
                let mut cases: Vec<(u32, bool, Compute)> = Vec::new();
                for (op, compute) in operations() {
                    for constant in CONSTANTS {
                        for turned in [false, true] {
                            let mut src = vec![Operand::Reg(x), Operand::Imm(constant.into())];
                            if turned {
                                src.reverse();
                            }
                            insts.push(inst(op.clone(), Reg(regs.len() as u32), src));
                            let is_compare = matches!(op, Op::Setp(..));
                            regs.push(if is_compare { Class::Pred } else { lane });
                            cases.push((constant, turned, compute));
                        }
                    }
                }
                let term = Term::Jump(Target::Exit);
                let blocks = vec![Block { insts, term, line: 0 }];
                let f = Function { regs, blocks, ..Function::default() };
                let facts = KnownBits::of(&f, LaunchShape::Line);
                let mut shapes = vec![Shape::Unknown; f.regs.len()];
                for inst in &f.blocks[0].insts {
                    let rules =
                        Rules { launch_shape: LaunchShape::Line, facts: &facts, shapes: &shapes };
                    shapes[inst.dst[0].index()] = rules.results(inst);
                }
                for ((constant, turned, compute), n) in cases.into_iter().zip(2..) {
                    formulas += u32::from(shapes[n] != Shape::Varying);
                    let of = |thread| {
                        let x = number(thread).wrapping_mul(factor);
                        if turned { compute(constant, x) } else { compute(x, constant) }
                    };
                    let what = &f.blocks[0].insts[n];
                    assert!(
                        is_so(shapes[n], of),
                        "{:?}: {special:?} * {factor}: {what:?}",
                        shapes[n]
                    );
                }
            }
        }
        // Of 22848; what else is one number or an affine value in each warp is not known to be.
        assert!(formulas > 6000, "{formulas}");
    }

    #[test]
    fn shapes_that_differ_have_nothing_in_common() {
        let (affine, halves) = (Shape::Affine(4), Shape::HalfAffine(4));
        assert_eq!((affine.join(halves), halves.join(affine)), (halves, halves));
        assert_eq!(Shape::Unknown.join(halves), halves);
        for other in [Shape::Affine(3), Shape::HalfAffine(3), Shape::Varying, Shape::UNIFORM] {
            assert_eq!((other.join(halves), halves.join(other)), (Shape::Varying, Shape::Varying));
        }
        assert_eq!(affine.join(Shape::Affine(3)), Shape::Varying);
    }
}
