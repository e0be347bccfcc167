//! Known bits and value ranges: bounds of integers, and low bits that are zero.
//!
//! Only registers with one definition are looked at, and each by its definition alone: no
//! iteration, so nothing is known of what goes around a loop. A register that is read where its
//! definition has not run is undefined in PTX; facts hold for it as for any value it could have.

use crate::ir::op::{IntOp, IntType, Op, Special, Width};
use crate::ir::{Function, Inst, Operand, Reg};
use crate::kernel::WARP_LANES;
use crate::launch_shape::{HALF_LANES, LaunchShape, THREADS_PER_BLOCK_MAX};

/// Definitions followed from one register: deeper chains are too rare to pay for.
const DEPTH_MAX: u32 = 32;
/// Most blocks of a grid along each axis, as the driver API has them.
const GRID_MAX: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownValue {
    /// Low bits that are zero: in the value of lane 0, and in those of lanes 0 and 16, the first
    /// of each half of the warp.
    pub(crate) zero_bits: [u32; 2],
    /// No lane's value, taken as unsigned, is above this: lanes that a warp lacks included.
    pub(crate) max: u64,
    /// Which number of the launch it is, if one of these.
    origin: Origin,
}

/// Numbers of the launch that are bounded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Other,
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    /// `%ctaid * %ntid`.
    FirstThread(u8),
}

impl KnownValue {
    fn any(width: Width) -> Self {
        Self { zero_bits: [0; 2], max: width_max(width), origin: Origin::Other }
    }

    fn constant(value: u64) -> Self {
        Self { zero_bits: [value.trailing_zeros(); 2], max: value, origin: Origin::Other }
    }

    /// True if lane 0's value can only be 0.
    pub(crate) fn starts_at_zero(self) -> bool {
        self.zero_bits[0] >= 64 || self.max >> self.zero_bits[0] == 0
    }
}

/// The largest number of a width.
fn width_max(width: Width) -> u64 {
    u64::MAX >> (64 - width.bits().min(64))
}

/// The facts of a function for a geometry.
pub(crate) struct KnownBits {
    facts: Vec<KnownValue>,
}

impl KnownBits {
    /// Finds what can be known.
    pub(crate) fn of(f: &Function, launch_shape: LaunchShape) -> Self {
        let mut definitions: Vec<Definition<'_>> = vec![Definition::None; f.regs.len()];
        for block in &f.blocks {
            for inst in &block.insts {
                for d in &inst.dst {
                    let definition = &mut definitions[d.index()];
                    *definition = match definition {
                        Definition::None => Definition::One(inst),
                        _ => Definition::Many,
                    };
                }
            }
            if let Some(d) = block.term.def() {
                definitions[d.index()] = Definition::Many;
            }
        }
        let mut finder = Finder { f, launch_shape, definitions, known: vec![None; f.regs.len()] };
        let facts = (0..f.regs.len()).map(|r| finder.register(Reg(r as u32), 0)).collect();
        Self { facts }
    }

    /// What is known of a register.
    pub(crate) fn register(&self, reg: Reg) -> KnownValue {
        self.facts[reg.index()]
    }

    /// What is known of an operand of that width.
    pub(crate) fn operand(&self, operand: &Operand, width: Width) -> KnownValue {
        match operand {
            Operand::Reg(r) => self.facts[r.index()],
            Operand::Imm(v) => KnownValue::constant(v & width_max(width)),
            Operand::Slot(_) => KnownValue::any(width),
        }
    }
}

#[derive(Clone, Copy)]
enum Definition<'a> {
    None,
    One(&'a Inst),
    Many,
}

struct Finder<'a> {
    f: &'a Function,
    launch_shape: LaunchShape,
    definitions: Vec<Definition<'a>>,
    known: Vec<Option<KnownValue>>,
}

impl Finder<'_> {
    fn register(&mut self, reg: Reg, depth: u32) -> KnownValue {
        let Some(width) = self.f.regs[reg.index()].width() else {
            return KnownValue::any(Width::W32);
        };
        if let Some(fact) = self.known[reg.index()] {
            return fact;
        }
        let any = KnownValue::any(width);
        let Definition::One(inst) = self.definitions[reg.index()] else { return any };
        if depth == DEPTH_MAX {
            return any;
        }
        // A register that depends on itself is met here again, with nothing known.
        self.known[reg.index()] = Some(any);
        let fact = self.instruction(inst, width, depth + 1);
        // What may be larger wraps.
        let fact = KnownValue { max: fact.max.min(any.max), ..fact };
        let fact = if fact.max == 0 { KnownValue::constant(0) } else { fact };
        self.known[reg.index()] = Some(fact);
        fact
    }

    fn operand(&mut self, operand: &Operand, width: Width, depth: u32) -> KnownValue {
        match operand {
            Operand::Reg(r) => self.register(*r, depth),
            Operand::Imm(v) => KnownValue::constant(v & width_max(width)),
            Operand::Slot(_) => KnownValue::any(width),
        }
    }

    fn instruction(&mut self, inst: &Inst, width: Width, depth: u32) -> KnownValue {
        let any = KnownValue::any(width);
        match &inst.op {
            Op::Mov(w) => self.operand(&inst.src[0], *w, depth),
            Op::Special(special) => self.special(*special, any),
            Op::Extend { from, bits, signed, .. } => {
                let source = self.operand(&inst.src[0], *from, depth);
                let kept = u64::MAX >> (64 - u32::from(*bits).clamp(1, 64));
                if source.max <= if *signed { kept >> 1 } else { kept } {
                    return source;
                }
                let zero_bits =
                    source.zero_bits.map(|zero| if zero >= u32::from(*bits) { 64 } else { zero });
                KnownValue { zero_bits, max: if *signed { any.max } else { kept }, ..any }
            }
            Op::Select(w) => {
                let [a, b] = [0, 1].map(|i| self.operand(&inst.src[i], *w, depth));
                KnownValue { zero_bits: least(a, b), max: a.max.max(b.max), ..any }
            }
            Op::Load(access) if !access.signed && access.bytes < 8 => {
                KnownValue { max: (1 << (8 * u32::from(access.bytes))) - 1, ..any }
            }
            Op::Int(op, ty) => self.integer(inst, *op, *ty, any, depth),
            _ => any,
        }
    }

    fn special(&self, special: Special, any: KnownValue) -> KnownValue {
        let bounded = |max: u32, origin| KnownValue { max: u64::from(max), origin, ..any };
        // Where a warp begins, and where its upper half does.
        let starts = [WARP_LANES, HALF_LANES].map(usize::trailing_zeros);
        match (special, self.launch_shape) {
            (Special::Tid(1 | 2), LaunchShape::Line) => KnownValue::constant(0),
            (Special::Tid(0), LaunchShape::Line | LaunchShape::Rows) => {
                let fact = bounded(THREADS_PER_BLOCK_MAX - 1, Origin::Tid(0));
                KnownValue { zero_bits: starts, ..fact }
            }
            (Special::Tid(0), LaunchShape::HalfRows) => {
                KnownValue { zero_bits: [64; 2], ..bounded(HALF_LANES as u32 - 1, Origin::Tid(0)) }
            }
            (Special::Ntid(0), LaunchShape::Rows) => {
                let fact = bounded(THREADS_PER_BLOCK_MAX, Origin::Ntid(0));
                KnownValue { zero_bits: [starts[0]; 2], ..fact }
            }
            (Special::Ntid(0), LaunchShape::HalfRows) => KnownValue {
                zero_bits: [starts[1]; 2],
                ..bounded(HALF_LANES as u32, Origin::Ntid(0))
            },
            (Special::LaneId, _) => {
                KnownValue { zero_bits: [64, starts[1]], ..bounded(31, Origin::Other) }
            }
            _ => Self::special_bound(special, any),
        }
    }

    /// What is known of a special register in any geometry.
    fn special_bound(special: Special, any: KnownValue) -> KnownValue {
        let bounded = |max: u32, origin| KnownValue { max: u64::from(max), origin, ..any };
        match special {
            Special::Tid(axis) => bounded(THREADS_PER_BLOCK_MAX - 1, Origin::Tid(axis)),
            Special::Ntid(axis) => bounded(THREADS_PER_BLOCK_MAX, Origin::Ntid(axis)),
            Special::Ctaid(axis @ 0..3) => {
                bounded(GRID_MAX[usize::from(axis)] - 1, Origin::Ctaid(axis))
            }
            Special::Nctaid(axis @ 0..3) => bounded(GRID_MAX[usize::from(axis)], Origin::Other),
            Special::WarpId => {
                bounded(THREADS_PER_BLOCK_MAX.div_ceil(WARP_LANES as u32), Origin::Other)
            }
            _ => any,
        }
    }

    fn integer(
        &mut self,
        inst: &Inst,
        op: IntOp,
        ty: IntType,
        any: KnownValue,
        depth: u32,
    ) -> KnownValue {
        let own = ty.width();
        let launched = self.launch_shape != LaunchShape::Any;
        let mut source = |i: usize, width| match inst.src.get(i) {
            Some(operand) => self.operand(operand, width, depth),
            None => KnownValue::any(width),
        };
        let (a, b) = (source(0, own), source(1, own));
        // Of the size of what leaves the width, nothing is known; see `register`.
        let bounded = |max: Option<u64>| max.unwrap_or(any.max);
        let sum = |a: KnownValue, b: KnownValue| {
            let max = match pair(a.origin, b.origin) {
                Some((Origin::FirstThread(i), Origin::Tid(j))) if i == j => THREAD_INDEX_MAX,
                _ => bounded(a.max.checked_add(b.max)),
            };
            KnownValue { zero_bits: least(a, b), max, ..any }
        };
        let product = |a: KnownValue, b: KnownValue| {
            let zero_bits = [0, 1].map(|i| (a.zero_bits[i] + b.zero_bits[i]).min(64));
            match pair(a.origin, b.origin) {
                Some((Origin::Ntid(i), Origin::Ctaid(j))) if i == j && launched => {
                    KnownValue { zero_bits, max: THREAD_INDEX_MAX, origin: Origin::FirstThread(i) }
                }
                _ => KnownValue { zero_bits, max: bounded(a.max.checked_mul(b.max)), ..any },
            }
        };
        // What a signed operation widens or shifts in must not be a sign.
        let positive = |fact: KnownValue| fact.max <= width_max(own) >> 1 || !ty.signed();
        match op {
            IntOp::Add => sum(a, b),
            IntOp::Sub => KnownValue { zero_bits: least(a, b), ..any },
            IntOp::MulLo => product(a, b),
            IntOp::MadLo => sum(product(a, b), source(2, own)),
            IntOp::MulWide if positive(a) && positive(b) => product(a, b),
            IntOp::MadWide if positive(a) && positive(b) => {
                let wide = Width::for_bits(own.bits() * 2);
                let c = source(2, wide);
                sum(product(a, b), c)
            }
            IntOp::Shl => match shift_amount(inst, own) {
                Some(k) => {
                    let max = bounded((a.max <= any.max >> k).then(|| a.max << k));
                    KnownValue { zero_bits: a.zero_bits.map(|zero| (zero + k).min(64)), max, ..any }
                }
                None => any,
            },
            IntOp::Shr if positive(a) => match shift_amount(inst, own) {
                Some(k) => {
                    let left = |zero: u32| if zero >= 64 { 64 } else { zero.max(k) - k };
                    KnownValue { zero_bits: a.zero_bits.map(left), max: a.max >> k, ..any }
                }
                None => any,
            },
            IntOp::And => {
                let zero_bits = [0, 1].map(|i| a.zero_bits[i].max(b.zero_bits[i]));
                KnownValue { zero_bits, max: a.max.min(b.max), ..any }
            }
            IntOp::Or | IntOp::Xor => {
                let max = u64::MAX >> (a.max | b.max).leading_zeros().min(63);
                KnownValue { zero_bits: least(a, b), max, ..any }
            }
            IntOp::Min if !ty.signed() => KnownValue { max: a.max.min(b.max), ..any },
            IntOp::Rem if !ty.signed() => match inst.src[1] {
                Operand::Imm(_) if b.max > 0 => KnownValue { max: a.max.min(b.max - 1), ..any },
                // Of a division by 0 all ones are left.
                _ => any,
            },
            IntOp::Div if !ty.signed() => match inst.src[1] {
                Operand::Imm(_) if b.max > 0 => KnownValue { max: a.max / b.max, ..any },
                _ => any,
            },
            _ => any,
        }
    }
}

/// The amount of a shift, if it is a constant below the width.
pub(crate) fn shift_amount(inst: &Inst, width: Width) -> Option<u32> {
    match inst.src[1] {
        Operand::Imm(k) => Some(k as u32).filter(|k| *k < width.bits()),
        _ => None,
    }
}

/// The largest index of a thread in the grid, along an axis, in every geometry that promises it.
const THREAD_INDEX_MAX: u64 = (1 << 31) - 1;

/// Zero bits that both have.
fn least(a: KnownValue, b: KnownValue) -> [u32; 2] {
    [0, 1].map(|i| a.zero_bits[i].min(b.zero_bits[i]))
}

/// Both origins in the order of [`rank`], if both are known.
fn pair(a: Origin, b: Origin) -> Option<(Origin, Origin)> {
    match (a, b) {
        (Origin::Other, _) | (_, Origin::Other) => None,
        _ if rank(a) <= rank(b) => Some((a, b)),
        _ => Some((b, a)),
    }
}

fn rank(origin: Origin) -> u8 {
    match origin {
        Origin::FirstThread(_) => 0,
        Origin::Ntid(_) => 1,
        Origin::Ctaid(_) => 2,
        Origin::Tid(_) => 3,
        Origin::Other => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::op::{Access, Class, Space};
    use crate::ir::{Block, Target, Term};
    use Width::{W32, W64};

    const U32: IntType = IntType::U32;
    const S32: IntType = IntType::S32;

    /// Instructions of a block, each of which writes the next register.
    struct Builder(Function);

    impl Builder {
        fn new() -> Self {
            let block = Block { insts: vec![], term: Term::Jump(Target::Exit), line: 0 };
            Self(Function { blocks: vec![block], ..Function::default() })
        }

        fn write(&mut self, d: Reg, op: Op, src: &[Operand]) {
            let inst = Inst { op, guard: None, dst: vec![d], src: src.to_vec(), line: 0 };
            self.0.blocks[0].insts.push(inst);
        }

        fn put(&mut self, width: Width, op: Op, src: &[Operand]) -> Operand {
            let d = self.0.new_reg(Class::Lane(width));
            self.write(d, op, src);
            Operand::Reg(d)
        }

        fn special(&mut self, special: Special) -> Operand {
            self.put(W32, Op::Special(special), &[])
        }

        fn load(&mut self, bytes: u8, signed: bool) -> Operand {
            let (space, width) = (Space::Global, W32);
            let access = Access { space, bytes, count: 1, signed, volatile: false, width };
            self.put(W32, Op::Load(access), &[Operand::Imm(0), Operand::Imm(0)])
        }

        fn int(&mut self, op: IntOp, ty: IntType, src: &[Operand]) -> Operand {
            let wide = matches!(op, IntOp::MulWide | IntOp::MadWide);
            let width = if wide { Width::for_bits(2 * ty.width().bits()) } else { ty.width() };
            self.put(width, Op::Int(op, ty), src)
        }

        fn fact(&self, launch_shape: LaunchShape, operand: Operand) -> KnownValue {
            KnownBits::of(&self.0, launch_shape).operand(&operand, W32)
        }

        fn max(&self, operand: Operand) -> u64 {
            self.fact(LaunchShape::Line, operand).max
        }

        fn zeros(&self, operand: Operand) -> [u32; 2] {
            self.fact(LaunchShape::Line, operand).zero_bits
        }
    }

    const ANY: u64 = u32::MAX as u64;

    #[test]
    fn numbers_of_threads_are_bounded_as_launches_are() {
        let mut b = Builder::new();
        let [x, y, z] = [0, 1, 2].map(|axis| b.special(Special::Tid(axis)));
        let lane = b.special(Special::LaneId);
        let of = |launch_shape, operand| {
            let fact = b.fact(launch_shape, operand);
            (fact.max, fact.zero_bits)
        };
        assert_eq!(
            (of(LaunchShape::Line, x), of(LaunchShape::Line, y)),
            ((1023, [5, 4]), (0, [64; 2]))
        );
        assert_eq!((of(LaunchShape::Line, z).0, of(LaunchShape::Rows, x).0), (0, 1023));
        for axis in [y, z] {
            assert_eq!(of(LaunchShape::Rows, axis).0, 1023);
            assert_eq!(of(LaunchShape::HalfRows, axis).0, 1023);
        }
        assert_eq!(of(LaunchShape::HalfRows, x), (15, [64; 2]));
        assert_eq!(
            (of(LaunchShape::Any, x), of(LaunchShape::Any, lane)),
            ((1023, [0; 2]), (31, [64, 4]))
        );
    }

    #[test]
    fn the_number_of_a_thread_in_the_grid_does_not_wrap_where_launches_promise_it() {
        let mut b = Builder::new();
        let special = [Special::Ctaid(0), Special::Ntid(0), Special::Tid(0), Special::Tid(1)];
        let [block, size, x, y] = special.map(|s| b.special(s));
        let index = b.int(IntOp::MadLo, S32, &[block, size, x]);
        let mixed = b.int(IntOp::MadLo, S32, &[block, size, y]);
        for launch_shape in [LaunchShape::Line, LaunchShape::Rows, LaunchShape::HalfRows] {
            assert_eq!(b.fact(launch_shape, index).max, THREAD_INDEX_MAX, "{launch_shape:?}");
        }
        assert_eq!(b.fact(LaunchShape::Any, index).max, ANY);
        assert_eq!(b.fact(LaunchShape::Rows, mixed).max, THREAD_INDEX_MAX + 1023, "another axis");
    }

    #[test]
    fn what_wraps_or_may_be_below_zero_has_no_bound() {
        let mut b = Builder::new();
        let (byte, signed, word) = (b.load(1, false), b.load(1, true), b.load(4, false));
        assert_eq!((b.max(byte), b.max(signed), b.max(word)), (255, ANY, ANY));
        let (one, five, minus) = (Operand::Imm(1), Operand::Imm(5), Operand::Imm(ANY - 3));
        for (op, ty, src, max) in [
            (IntOp::Add, U32, [byte, one], 256),
            (IntOp::Add, U32, [word, one], ANY),
            (IntOp::Sub, U32, [byte, one], ANY),
            (IntOp::MulLo, U32, [byte, byte], 255 * 255),
            (IntOp::MulLo, U32, [word, byte], ANY),
            (IntOp::MulWide, S32, [byte, five], 255 * 5),
            (IntOp::MulWide, S32, [byte, minus], u64::MAX),
            (IntOp::MulWide, U32, [byte, minus], 255 * (ANY - 3)),
            (IntOp::Shl, U32, [byte, five], 255 << 5),
            (IntOp::Shl, U32, [word, five], ANY),
            (IntOp::Shr, U32, [word, five], ANY >> 5),
            (IntOp::Shr, S32, [word, five], ANY),
            (IntOp::And, U32, [word, five], 5),
            (IntOp::Or, U32, [byte, five], 255),
            (IntOp::Min, U32, [word, five], 5),
            (IntOp::Min, S32, [word, five], ANY),
            (IntOp::Rem, U32, [word, five], 4),
            (IntOp::Rem, U32, [word, byte], ANY),
            (IntOp::Rem, S32, [word, five], ANY),
            (IntOp::Div, U32, [word, five], ANY / 5),
            (IntOp::Div, U32, [byte, word], ANY),
        ] {
            let made = b.int(op, ty, &src);
            assert_eq!(b.max(made), max, "{op:?} {ty:?} {src:?}");
        }
        let choice = b.put(W32, Op::Select(W32), &[five, byte, word]);
        assert_eq!(b.max(choice), 255);
        for (bits, signed, to, max) in [
            (7, false, W64, 127),
            (8, false, W64, 255),
            (8, true, W64, u64::MAX),
            (8, true, W32, ANY),
            (9, true, W32, 255),
        ] {
            let low = b.put(to, Op::Extend { from: W32, bits, signed, to }, &[byte]);
            assert_eq!(b.max(low), max, "{bits} {signed} {to:?}");
        }
    }

    #[test]
    fn low_bits_are_zero_where_they_are_in_every_operand() {
        let mut b = Builder::new();
        let (x, byte) = (b.special(Special::Tid(0)), b.load(1, false));
        let (two, three, four) = (Operand::Imm(2), Operand::Imm(3), Operand::Imm(4));
        let times_four = b.int(IntOp::Shl, U32, &[byte, two]);
        for (op, src, zeros) in [
            (IntOp::Add, [x, four], [2, 2]),
            (IntOp::Sub, [x, times_four], [2, 2]),
            (IntOp::MulLo, [x, four], [7, 6]),
            (IntOp::Shl, [x, three], [8, 7]),
            (IntOp::Shr, [x, three], [2, 1]),
            (IntOp::Shr, [byte, three], [0, 0]),
            (IntOp::And, [times_four, Operand::Imm(!15 & ANY)], [4, 4]),
            (IntOp::Or, [x, four], [2, 2]),
            (IntOp::Min, [x, times_four], [0, 0]),
        ] {
            let made = b.int(op, U32, &src);
            assert_eq!(b.zeros(made), zeros, "{op:?} {src:?}");
        }
        let choice = b.put(W32, Op::Select(W32), &[x, times_four, byte]);
        assert_eq!(b.zeros(choice), [2, 2]);
    }

    #[test]
    fn of_what_is_written_twice_nothing_is_known() {
        let mut b = Builder::new();
        let five = b.put(W32, Op::Mov(W32), &[Operand::Imm(5)]);
        let copy = b.put(W32, Op::Mov(W32), &[five]);
        assert_eq!((b.max(five), b.max(copy)), (5, 5));
        let Operand::Reg(r) = five else { unreachable!() };
        b.write(r, Op::Mov(W32), &[Operand::Imm(3)]);
        assert_eq!((b.max(five), b.max(copy)), (ANY, ANY));
    }
}
