//! Integer arithmetic on lanes: what is one instruction, and what takes several.

use crate::asm::assembler::X;
use crate::host::{SimdIsa, host_has};
use crate::lanewise::codes::{
    ABS, ABS_LONG, ABS_WORDS, ADD, ADD_LONG, ADD_SAT_S16, ADD_SAT_U16, ADD_WORDS, AND, AND_LONG,
    DIV_F32, DOWN, DOWN_BY, DOWN_BY_LONG, DOWN_LONG, DOWN_SIGNED, DOWN_SIGNED_BY,
    DOWN_SIGNED_BY_LONG, DOWN_SIGNED_LONG, F32_OF_S32, LaneCode, MAX_S16, MAX_S32, MAX_S64,
    MAX_U16, MAX_U32, MAX_U64, MIN_S16, MIN_S32, MIN_S64, MIN_U16, MIN_U32, MIN_U64, MUL,
    MUL_HIGH_S16, MUL_HIGH_U16, MUL_LONG, MUL_WORDS, OR, OR_LONG, S32_CUT_F32, SUB, SUB_LONG, UP,
    UP_BY, UP_BY_LONG, UP_LONG, XOR, XOR_LONG, add, even_products, pick, subtract,
};
use crate::lanewise::convert;
use crate::lanewise::isa::VectorIsa;
use iced_x86::Register;
use simt::ir::op::{IntOp, IntType, Width};
use simt::ir::vector::{Source, VectorInst};

/// Operations that are one instruction of two operands, in one set at least.
fn binary(op: IntOp, ty: IntType) -> Option<LaneCode> {
    use IntOp::{
        Add, Add16x2, AddSat16x2, And, Max, Max16x2, Min, Min16x2, MulHi, MulLo, Or, Shl, Shr, Sub,
        Xor,
    };
    use IntType::{S16, S32, S64, U16, U32, U64};
    let w = ty.width();
    Some(match (op, ty) {
        (Add, _) => add(w),
        (Sub, _) => subtract(w),
        (MulLo, U16 | S16) => MUL_WORDS,
        (MulLo, _) => pick(w, MUL, MUL_LONG),
        (MulHi, S16) => MUL_HIGH_S16,
        (MulHi, U16) => MUL_HIGH_U16,
        (And, _) => pick(w, AND, AND_LONG),
        (Or, _) => pick(w, OR, OR_LONG),
        (Xor, _) => pick(w, XOR, XOR_LONG),
        (Min, S16) | (Min16x2, S16 | S32 | S64) => MIN_S16,
        (Min, U16) | (Min16x2, _) => MIN_U16,
        (Min, S32) => MIN_S32,
        (Min, U32) => MIN_U32,
        (Min, S64) => MIN_S64,
        (Min, U64) => MIN_U64,
        (Max, S16) | (Max16x2, S16 | S32 | S64) => MAX_S16,
        (Max, U16) | (Max16x2, _) => MAX_U16,
        (Max, S32) => MAX_S32,
        (Max, U32) => MAX_U32,
        (Max, S64) => MAX_S64,
        (Max, U64) => MAX_U64,
        (Add16x2, _) => ADD_WORDS,
        (AddSat16x2, S32) => ADD_SAT_S16,
        (AddSat16x2, _) => ADD_SAT_U16,
        (Shl, U32 | S32) => UP_BY,
        (Shr, U32) => DOWN_BY,
        (Shr, S32) => DOWN_SIGNED_BY,
        _ => return None,
    })
}

/// A shift by a constant: by how much. Amounts have 32 bits; those over the width give nothing, or the
/// sign.
fn constant_shift(
    isa: SimdIsa,
    inst: &VectorInst,
    op: IntOp,
    ty: IntType,
) -> Option<(LaneCode, i32)> {
    let (Some(Source::Imm(amount)), w) = (inst.src.get(1), ty.width()) else { return None };
    let signed = ty.signed() && op == IntOp::Shr;
    let code = match (op, w) {
        (_, Width::W16 | Width::W128) => return None,
        (IntOp::Shl, _) => pick(w, UP, UP_LONG),
        (IntOp::Shr, _) if signed => pick(w, DOWN_SIGNED, DOWN_SIGNED_LONG),
        (IntOp::Shr, _) => pick(w, DOWN, DOWN_LONG),
        _ => return None,
    };
    let most = w.bits() - u32::from(signed);
    code.is_in(isa).then_some((code, (*amount as u32).min(most) as i32))
}

/// True if the processor counts bits as code for the set does it.
fn counts(isa: SimdIsa, op: IntOp, w: Width) -> bool {
    match (isa, op) {
        (SimdIsa::Avx512, IntOp::Popc) => host_has!("avx512vpopcntdq"),
        (SimdIsa::Avx512, _) => host_has!("avx512cd"),
        (SimdIsa::Avx2, IntOp::Popc) => true,
        (SimdIsa::Avx2, _) => w != Width::W64,
    }
}

/// An operation, and what its type says.
#[derive(Clone, Copy)]
struct Operation {
    op: IntOp,
    ty: IntType,
    w: Width,
    signed: bool,
}

/// How an operation is made: all pieces at once, each by itself, or each in a register of its own.
enum Emitter<I> {
    Whole(fn(&mut I, &VectorInst, Operation)),
    Piece(fn(&mut I, &VectorInst, Operation, usize)),
    Made(fn(&mut I, &VectorInst, Operation, usize) -> Register),
}

/// The form of an operation.
pub(crate) struct Form<I> {
    operation: Operation,
    emitter: Emitter<I>,
}

impl<I: VectorIsa> Form<I> {
    /// Makes the operation.
    pub(crate) fn make(&self, i: &mut I, inst: &VectorInst) {
        match self.emitter {
            Emitter::Whole(make) => make(i, inst, self.operation),
            Emitter::Piece(make) => {
                for piece in 0..i.pieces(self.operation.w) {
                    make(i, inst, self.operation, piece);
                }
            }
            Emitter::Made(make) => {
                for piece in 0..i.pieces(self.operation.w) {
                    let made = make(i, inst, self.operation, piece);
                    i.put(inst, 0, piece, made);
                }
            }
        }
    }
}

/// The form of an instruction's operation, if there is one.
pub(crate) fn form<I: VectorIsa>(inst: &VectorInst, op: IntOp, ty: IntType) -> Option<Form<I>> {
    use Emitter::{Made, Piece, Whole};
    use IntOp::*;
    let w = ty.width();
    let (short, word) = (w == Width::W16, w == Width::W32);
    let emitter = match op {
        _ if constant_shift(I::ISA, inst, op, ty).is_some() => Whole(shift_by_constant),
        _ if binary(op, ty).is_some_and(|code| code.is_in(I::ISA)) => Whole(one_instruction),
        Shl | Shr if short => Whole(shift_words),
        Shl | Shr => Piece(shift),
        Min | Max => Made(extreme),
        MulLo | MadLo => Piece(product),
        Not => Piece(complement),
        Neg => Piece(negative),
        Abs => Piece(absolute),
        MulHi if w == Width::W64 => Made(high_product),
        MulHi => Piece(narrow_product),
        MadHi | Mul24Lo | Mul24Hi | Mad24Lo | Mad24Hi if word => Piece(narrow_product),
        MulWide | MadWide if short => Whole(wide_product_of_words),
        MulWide | MadWide if word => Whole(wide_product),
        Div | Rem if short => Whole(divide_words),
        Div | Rem if word => Made(divide),
        Popc | Clz if counts(I::ISA, op, w) => Whole(if short { count_words } else { count }),
        Bfind | BfindShift if !short && counts(I::ISA, Clz, w) => Whole(count),
        Brev if reverses(I::ISA, w) => Made(reverse),
        Bfe if !short => Piece(field_of),
        Bfi if !short => Made(insert_field),
        Cnot if !short => Made(is_zero),
        Sad if !short => Made(difference_sum),
        AddSat | SubSat if ty == IntType::S32 => Made(saturating),
        ShfLeftWrap | ShfLeftClamp | ShfRightWrap | ShfRightClamp if word => Made(funnel),
        SzextClamp | SzextWrap if word => Made(sized),
        BmskClamp | BmskWrap => Made(bit_mask),
        _ => return None,
    };
    Some(Form { operation: Operation { op, ty, w, signed: ty.signed() }, emitter })
}

/// True if bits are put in reverse order.
fn reverses(isa: SimdIsa, w: Width) -> bool {
    match isa {
        SimdIsa::Avx512 => w != Width::W16 && host_has!("gfni"),
        SimdIsa::Avx2 => w == Width::W32,
    }
}

fn shift_by_constant<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation) {
    let Some((code, by)) = constant_shift(I::ISA, inst, of.op, of.ty) else {
        return i.unsupported();
    };
    for piece in 0..i.pieces(of.w) {
        let a = i.source_in(inst.src[0], of.w, piece);
        i.put_by(inst, 0, piece, code, &[a.into(), X::I(by)]);
    }
}

fn count_words<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation) {
    for piece in 0..i.pieces(Width::W32) {
        let a = i.words(inst.src[0], piece, false);
        let made = counted(i, a, of.op, Width::W32);
        if of.op == IntOp::Clz {
            let more = i.number(16, Width::W32);
            i.op(SUB, &[made.into(), made.into(), more]);
        }
        i.put(inst, 0, piece, made);
    }
}

fn count<I: VectorIsa>(i: &mut I, inst: &VectorInst, Operation { op, ty, w, .. }: Operation) {
    for piece in 0..i.pieces(Width::W32) {
        let made = if w == Width::W64 {
            let [low, high] = [0, 1].map(|half| {
                let a = i.source_in(inst.src[0], w, 2 * piece + half);
                found(i, a, op, ty)
            });
            i.narrowed(low, high)
        } else {
            let a = i.source_in(inst.src[0], w, piece);
            found(i, a, op, ty)
        };
        i.put(inst, 0, piece, made);
    }
}

fn shift_words<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation) {
    i.put_words(inst, 0, |i, piece| {
        let a = i.words(inst.src[0], piece, of.signed);
        let by = i.source_in(inst.src[1], Width::W32, piece);
        let code = match (of.op, of.signed) {
            (IntOp::Shl, _) => UP_BY,
            (_, true) => DOWN_SIGNED_BY,
            _ => DOWN_BY,
        };
        i.op(code, &[a.into(), a.into(), by.into()]);
        i.free(by);
        a
    });
}

fn divide_words<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation) {
    i.put_words(inst, 0, |i, piece| {
        let [a, b] = [0, 1].map(|n| i.words(inst.src[n], piece, of.signed));
        // As f32 numbers: exact, and quotients of them are cut off rightly.
        let [to, by] = [a, b].map(|from| {
            let to = i.temp();
            i.op(F32_OF_S32, &[to.into(), from.into()]);
            to
        });
        i.op(DIV_F32, &[to.into(), to.into(), by.into()]);
        i.op(S32_CUT_F32, &[to.into(), to.into()]);
        i.free(by);
        divided(i, to, [a, b], of.op == IntOp::Rem);
        i.free_all([a, b]);
        to
    });
}

fn wide_product_of_words<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation) {
    for piece in 0..i.pieces(Width::W32) {
        let [a, b] = [0, 1].map(|n| i.words(inst.src[n], piece, of.signed));
        i.op(MUL, &[a.into(), a.into(), b.into()]);
        i.free(b);
        with_sum(i, inst, piece, a, (of.op == IntOp::MadWide).then_some(Width::W32));
    }
}

fn wide_product<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation) {
    for piece in 0..i.pieces(Width::W64) {
        // Only the low halves count.
        let [a, b] = [0, 1].map(|n| i.widened(inst.src[n], piece, false));
        i.op(even_products(of.signed), &[a.into(), a.into(), b.into()]);
        i.free(b);
        with_sum(i, inst, piece, a, (of.op == IntOp::MadWide).then_some(Width::W64));
    }
}

/// Puts a product, or its sum with the third source.
fn with_sum<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    piece: usize,
    made: Register,
    sum: Option<Width>,
) {
    match sum {
        Some(w) => {
            let c = i.source(inst.src[2], w, piece);
            i.put_by(inst, 0, piece, add(w), &[made.into(), c]);
        }
        None => i.put(inst, 0, piece, made),
    }
}

/// An instruction of two operands, the second maybe in memory.
fn one_instruction<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    Operation { op, ty, w, .. }: Operation,
) {
    let Some(code) = binary(op, ty) else { return i.unsupported() };
    let (mut a, mut b) = (inst.src[0], inst.src[1]);
    if !matches!(op, IntOp::Sub | IntOp::Shl | IntOp::Shr) && i.is_in_memory(a) {
        std::mem::swap(&mut a, &mut b);
    }
    for piece in 0..i.pieces(w) {
        let first = i.source_in(a, w, piece);
        if let IntOp::Add16x2 | IntOp::AddSat16x2 | IntOp::Min16x2 | IntOp::Max16x2 = op {
            // Lanes of the instruction are halves of the result's.
            let second = i.source_in(b, w, piece);
            let made = i.made(code, first, second);
            i.put(inst, 0, piece, made);
            continue;
        }
        let second = i.source(b, w, piece);
        i.put_by(inst, 0, piece, code, &[first.into(), second]);
    }
}

fn shift<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation, piece: usize) {
    let Operation { op, w, signed, .. } = of;
    let by = match inst.src[1] {
        Source::Imm(v) => i.splat(u64::from(v as u32), w),
        source => i.widened(source, piece, false),
    };
    let a = i.source_in(inst.src[0], w, piece);
    if op == IntOp::Shl {
        return i.put_by(inst, 0, piece, UP_BY_LONG, &[a.into(), by.into()]);
    }
    if !signed || DOWN_SIGNED_BY_LONG.is_in(I::ISA) {
        let code = if signed { DOWN_SIGNED_BY_LONG } else { DOWN_BY_LONG };
        return i.put_by(inst, 0, piece, code, &[a.into(), by.into()]);
    }
    let made = i.shift_down(a, by, w, signed);
    i.free(by);
    i.put(inst, 0, piece, made);
}

fn extreme<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation, piece: usize) -> Register {
    let [a, b] = [0, 1].map(|n| i.source_in(inst.src[n], of.w, piece));
    i.extreme_long(a, b, of.op == IntOp::Max, of.signed)
}

fn product<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation, piece: usize) {
    let w = of.w;
    let a = i.source_in(inst.src[0], w, piece);
    let made = match w {
        Width::W64 => {
            let b = i.source_in(inst.src[1], w, piece);
            i.product_long(a, b)
        }
        _ => {
            let b = i.source(inst.src[1], w, piece);
            i.made(if w == Width::W16 { MUL_WORDS } else { MUL }, a, b)
        }
    };
    with_sum(i, inst, piece, made, (of.op == IntOp::MadLo).then_some(w));
}

fn complement<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation, piece: usize) {
    let a = i.source_in(inst.src[0], of.w, piece);
    let ones = i.number(u64::MAX, of.w);
    i.put_by(inst, 0, piece, pick(of.w, XOR, XOR_LONG), &[a.into(), ones]);
}

fn negative<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation, piece: usize) {
    let zero = i.zero();
    let a = i.source(inst.src[0], of.w, piece);
    i.put_by(inst, 0, piece, subtract(of.w), &[zero.into(), a]);
}

fn absolute<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation, piece: usize) {
    let w = of.w;
    let code = if w == Width::W16 { ABS_WORDS } else { pick(w, ABS, ABS_LONG) };
    let a = i.source_in(inst.src[0], w, piece);
    if code.is_in(I::ISA) {
        return i.put_by(inst, 0, piece, code, &[a.into()]);
    }
    // The sign's bits turn the number over, which is one less than its negative.
    let sign = i.signs(a, w);
    let made = i.made(XOR_LONG, a, sign);
    i.op(SUB_LONG, &[made.into(), made.into(), sign.into()]);
    i.free(sign);
    i.put(inst, 0, piece, made);
}

fn divide<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation, piece: usize) -> Register {
    let to = convert::quotients(i, [inst.src[0], inst.src[1]], piece, of.signed);
    let [a, b] = [0, 1].map(|n| i.source_in(inst.src[n], of.w, piece));
    divided(i, to, [a, b], of.op == IntOp::Rem);
    to
}

fn is_zero<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation, piece: usize) -> Register {
    let a = i.source_in(inst.src[0], of.w, piece);
    let zero = i.is_zero(a, a.into(), of.w);
    let made = i.zero();
    let one = i.number(1, of.w);
    i.blend(made, one, zero, of.w);
    i.free_mask(zero);
    made
}

fn reverse<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation, piece: usize) -> Register {
    let a = i.source_in(inst.src[0], of.w, piece);
    i.reversed(a, of.w)
}

/// `popc`, `clz` and `bfind` of a register's lanes, in one of its own.
fn found<I: VectorIsa>(i: &mut I, a: Register, op: IntOp, ty: IntType) -> Register {
    let w = ty.width();
    if matches!(op, IntOp::Popc | IntOp::Clz) {
        return counted(i, a, op, w);
    }
    // The place of the highest bit that is not the sign's, or its distance from the top.
    let of = match ty.signed() {
        true => {
            let sign = i.signs(a, w);
            i.op(XOR, &[sign.into(), sign.into(), a.into()]);
            sign
        }
        false => a,
    };
    let count = i.leading_zeros(of, w);
    if of != a {
        i.free(of);
    }
    if op == IntOp::BfindShift {
        let rest = i.splat(w.bits().into(), w);
        i.op(pick(w, XOR, XOR_LONG), &[rest.into(), rest.into(), count.into()]);
        let none = i.is_zero(rest, rest.into(), w);
        i.free(rest);
        i.fill(count, none, w);
        i.free_mask(none);
        return count;
    }
    // The top's place less the count: below 0 if there is none.
    let top = i.splat(u64::from(w.bits()) - 1, w);
    i.op(subtract(w), &[top.into(), top.into(), count.into()]);
    i.free(count);
    top
}

fn counted<I: VectorIsa>(i: &mut I, a: Register, op: IntOp, w: Width) -> Register {
    if op == IntOp::Popc { i.count_ones(a, w) } else { i.leading_zeros(a, w) }
}

/// Makes remainders of quotients, if that is asked for, and of a division by 0 all ones.
fn divided<I: VectorIsa>(i: &mut I, to: Register, [a, b]: [Register; 2], remainder: bool) {
    if remainder {
        i.op(MUL, &[to.into(), to.into(), b.into()]);
        i.op(SUB, &[to.into(), a.into(), to.into()]);
    }
    let none = i.is_zero(b, b.into(), Width::W32);
    i.fill(to, none, Width::W32);
    i.free_mask(none);
}

/// 32 bits of products of 32-bit lanes, or of their low 24 bits: even and odd lanes apart.
fn product_of_32<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    op: IntOp,
    piece: usize,
    signed: bool,
) -> Register {
    let w = Width::W32;
    let short = !matches!(op, IntOp::MulHi | IntOp::MadHi);
    let [a, b] = [0, 1].map(|n| {
        let a = i.source_in(inst.src[n], w, piece);
        if !short {
            return a;
        }
        let to = i.extended(a, w, 24, signed);
        i.free(a);
        to
    });
    if matches!(op, IntOp::Mul24Lo | IntOp::Mad24Lo) {
        return i.made(MUL, a, b);
    }
    let (bit, code) = (if short { 16 } else { 32 }, even_products(signed));
    let even = i.made(code, a, b);
    let odd = i.made(DOWN_LONG, a, X::I(32));
    let other = i.made(DOWN_LONG, b, X::I(32));
    i.free_all([a, b]);
    i.op(code, &[odd.into(), odd.into(), other.into()]);
    i.free(other);
    i.op(DOWN_LONG, &[even.into(), even.into(), X::I(bit)]);
    if short {
        i.op(UP_LONG, &[odd.into(), odd.into(), X::I(32 - bit)]);
    }
    i.odd_lanes(even, odd);
    i.free(odd);
    even
}

/// 32 bits of products, or their sums with the third source.
fn narrow_product<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation, piece: usize) {
    let made = product_of_32(i, inst, of.op, piece, of.signed);
    let sum = matches!(of.op, IntOp::MadHi | IntOp::Mad24Lo | IntOp::Mad24Hi);
    with_sum(i, inst, piece, made, sum.then_some(of.w));
}

/// The upper halves of products of 64-bit lanes, from four products of halves.
fn high_product<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    Operation { w, signed, .. }: Operation,
    piece: usize,
) -> Register {
    let [a, b] = [0, 1].map(|n| i.source_in(inst.src[n], w, piece));
    let times = even_products(false);
    // What the lowest product carries into the second.
    let sum = i.made(times, a, b);
    i.op(DOWN_LONG, &[sum.into(), sum.into(), X::I(32)]);
    let to = i.made(DOWN_LONG, a, X::I(32));
    let middle = i.made(times, to, b);
    i.op(ADD_LONG, &[sum.into(), sum.into(), middle.into()]);
    // The lower half of that and the third have place for one more.
    let high = i.made(DOWN_LONG, b, X::I(32));
    i.op(times, &[middle.into(), a.into(), high.into()]);
    i.op(times, &[to.into(), to.into(), high.into()]);
    let low = i.number(u64::from(u32::MAX), w);
    i.op(AND_LONG, &[high.into(), sum.into(), low]);
    i.op(ADD_LONG, &[middle.into(), middle.into(), high.into()]);
    for carry in [sum, middle] {
        i.op(DOWN_LONG, &[carry.into(), carry.into(), X::I(32)]);
        i.op(ADD_LONG, &[to.into(), to.into(), carry.into()]);
    }
    i.free_all([high, sum, middle]);
    // Each factor below zero was taken for one that is 2^64 more.
    for (negative, other) in [(a, b), (b, a)].into_iter().filter(|_| signed) {
        let sign = i.signs(negative, w);
        i.op(AND_LONG, &[sign.into(), sign.into(), other.into()]);
        i.op(SUB_LONG, &[to.into(), to.into(), sign.into()]);
        i.free(sign);
    }
    i.free_all([a, b]);
    to
}

/// A sum or difference; where it has wrapped, the largest or least number.
fn saturating<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    Operation { op, w, .. }: Operation,
    piece: usize,
) -> Register {
    let subtract = op == IntOp::SubSat;
    let [a, b] = [0, 1].map(|n| i.source_in(inst.src[n], w, piece));
    let to = i.made(if subtract { SUB } else { ADD }, a, b);
    // It has wrapped where its sign is neither's; of a difference, not the first's, and the
    // others' differ.
    let wrapped = i.made(XOR, a, to);
    let limit = i.made(XOR, b, if subtract { a } else { to });
    i.op(AND, &[wrapped.into(), wrapped.into(), limit.into()]);
    let most = i.number(u64::from(i32::MAX as u32), w);
    i.op(DOWN_SIGNED, &[limit.into(), a.into(), X::I(31)]);
    i.op(XOR, &[limit.into(), limit.into(), most]);
    let mask = i.has_bit(wrapped, 31);
    i.free(wrapped);
    i.blend(to, limit.into(), mask, w);
    i.free_mask(mask);
    i.free(limit);
    to
}

/// `sad`: the larger of two less the smaller one, and a third.
fn difference_sum<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    Operation { w, signed, .. }: Operation,
    piece: usize,
) -> Register {
    let [a, b] = [0, 1].map(|n| i.source_in(inst.src[n], w, piece));
    let [least, most] = match (w, signed) {
        (Width::W64, _) => [false, true].map(|larger| i.extreme_long(a, b, larger, signed)),
        (_, true) => [MIN_S32, MAX_S32].map(|code| i.made(code, a, b)),
        (_, false) => [MIN_U32, MAX_U32].map(|code| i.made(code, a, b)),
    };
    i.op(subtract(w), &[most.into(), most.into(), least.into()]);
    i.free(least);
    let c = i.source(inst.src[2], w, piece);
    i.op(add(w), &[most.into(), most.into(), c]);
    most
}

/// `shf`: by any amount, where a shift by all bits leaves nothing.
fn funnel<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    Operation { op, w, .. }: Operation,
    piece: usize,
) -> Register {
    use IntOp::{ShfLeftClamp, ShfLeftWrap, ShfRightWrap};
    let left = matches!(op, ShfLeftWrap | ShfLeftClamp);
    let wrap = matches!(op, ShfLeftWrap | ShfRightWrap);
    if let (Source::Imm(amount), true) = (inst.src[2], wrap) {
        let amount = (amount & 31) as i32;
        if amount == 0 {
            let whole = i.source(inst.src[usize::from(left)], w, piece);
            return i.copied(whole, w);
        }
        // As a shift to the left of the upper half.
        let left_by = if left { amount } else { 32 - amount };
        if inst.src[0] == inst.src[1]
            && let Some(made) = i.rotated(inst.src[0], piece, left_by)
        {
            return made;
        }
        let [low, high] = [0, 1].map(|n| i.source_in(inst.src[n], w, piece));
        let to = i.made(UP, high, X::I(left_by));
        let down = i.made(DOWN, low, X::I(32 - left_by));
        i.op(OR, &[to.into(), to.into(), down.into()]);
        i.free(down);
        return to;
    }
    let amount = i.source_in(inst.src[2], w, piece);
    let limit = i.number(if wrap { 31 } else { 32 }, w);
    let by = i.made(if wrap { AND } else { MIN_U32 }, amount, limit);
    i.free(amount);
    let rest = i.splat(32, w);
    i.op(SUB, &[rest.into(), rest.into(), by.into()]);
    let (above, below) = if left { (by, rest) } else { (rest, by) };
    for (n, code, by) in [(1, UP_BY, above), (0, DOWN_BY, below)] {
        let half = i.source_in(inst.src[n], w, piece);
        i.op(code, &[by.into(), half.into(), by.into()]);
        i.free(half);
    }
    i.op(OR, &[above.into(), above.into(), below.into()]);
    i.free(below);
    above
}

/// Source `n` as an amount in a register of its own, modulo 32 if it wraps.
fn amount<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    n: usize,
    wrap: bool,
    piece: usize,
) -> Register {
    let from = i.source(inst.src[n], Width::W32, piece);
    let to = i.copied(from, Width::W32);
    if wrap {
        let low = i.number(31, Width::W32);
        i.op(AND, &[to.into(), to.into(), low]);
    }
    to
}

/// `count` becomes that many ones, from a bit on: a shift by all bits leaves nothing, and that less one
/// is everything.
fn ones_from<I: VectorIsa>(i: &mut I, count: Register, from: Register, w: Width) {
    let one = i.splat(1, w);
    let up = pick(w, UP_BY, UP_BY_LONG);
    i.op(up, &[count.into(), one.into(), count.into()]);
    i.op(subtract(w), &[count.into(), count.into(), one.into()]);
    i.free(one);
    i.op(up, &[count.into(), count.into(), from.into()]);
}

/// `bmsk`: a number of ones from a bit on, none behind the last.
fn bit_mask<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation, piece: usize) -> Register {
    let wrap = of.op == IntOp::BmskWrap;
    let [from, count] = [0, 1].map(|n| amount(i, inst, n, wrap, piece));
    ones_from(i, count, from, Width::W32);
    i.free(from);
    count
}

/// `szext`: a number of low bits, extended.
fn sized<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    Operation { op, w, signed, .. }: Operation,
    piece: usize,
) -> Register {
    let count = amount(i, inst, 1, op == IntOp::SzextWrap, piece);
    let most = i.splat(32, w);
    i.op(MIN_U32, &[count.into(), count.into(), most.into()]);
    i.op(SUB, &[most.into(), most.into(), count.into()]);
    let a = i.source_in(inst.src[0], w, piece);
    // Of no bits nothing is left, with any fill from above.
    i.op(UP_BY, &[count.into(), a.into(), most.into()]);
    let made = i.shift_down(count, most, w, signed);
    i.free_all([count, most]);
    made
}

/// A `bfe` at a constant place inside of 32 bits: shifts up and down.
fn constant_field(inst: &VectorInst, w: Width) -> Option<(i32, i32)> {
    let (Source::Imm(position), Source::Imm(length)) = (inst.src[1], inst.src[2]) else {
        return None;
    };
    let inside = length > 0 && position < 32 && length <= 32 && position + length <= 32;
    (inside && w == Width::W32)
        .then_some((32 - position as i32 - length as i32, 32 - length as i32))
}

/// Position and length of a bit field, 8 bits each, in registers of their own.
fn field<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    first: usize,
    w: Width,
    piece: usize,
) -> [Register; 2] {
    [first, first + 1].map(|n| {
        let to = match w {
            Width::W64 => i.widened(inst.src[n], piece, false),
            _ => amount(i, inst, n, false, piece),
        };
        let byte = i.number(0xff, w);
        i.op(pick(w, AND, AND_LONG), &[to.into(), to.into(), byte]);
        to
    })
}

/// `bfe`, at a constant place by two shifts.
fn field_of<I: VectorIsa>(i: &mut I, inst: &VectorInst, of: Operation, piece: usize) {
    let Some((up, down)) = constant_field(inst, of.w) else {
        let made = extract_field(i, inst, of, piece);
        return i.put(inst, 0, piece, made);
    };
    let a = i.source_in(inst.src[0], of.w, piece);
    let made = i.made(UP, a, X::I(up));
    let code = if of.signed { DOWN_SIGNED } else { DOWN };
    i.put_by(inst, 0, piece, code, &[made.into(), X::I(down)]);
}

/// `bfe`: up until the field's last bit that there is stands at the top, then down.
fn extract_field<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    Operation { w, signed, .. }: Operation,
    piece: usize,
) -> Register {
    let [from, count] = field(i, inst, 1, w, piece);
    let empty = i.is_zero(count, count.into(), w);
    let [minus, top] = [u64::MAX, u64::from(w.bits()) - 1].map(|bits| i.number(bits, w));
    i.op(add(w), &[count.into(), count.into(), from.into()]);
    i.op(add(w), &[count.into(), count.into(), minus]);
    // Halves of 64 bits by themselves: the upper ones of the limit are 0.
    let top_of_halves = i.number(u64::from(w.bits()) - 1, w);
    let least = if MIN_U64.is_in(I::ISA) { pick(w, MIN_U32, MIN_U64) } else { MIN_U32 };
    i.op(least, &[count.into(), count.into(), top_of_halves]);
    // Its distance from the top, at most all bits of it.
    i.op(pick(w, XOR, XOR_LONG), &[count.into(), count.into(), top]);
    let a = i.source_in(inst.src[0], w, piece);
    let up = i.made(pick(w, UP_BY, UP_BY_LONG), a, count);
    i.free(a);
    i.op(add(w), &[count.into(), count.into(), from.into()]);
    i.free(from);
    let made = i.shift_down(up, count, w, signed);
    i.free_all([up, count]);
    i.clear(made, empty, w);
    i.free_mask(empty);
    made
}

/// Where `bfi` puts bits.
struct Moved {
    /// The lowest one's place.
    position: u32,
    /// All their places.
    mask: u32,
}

impl Moved {
    /// Of an instruction with a constant place; `None` if it is another, or changes nothing.
    fn of(inst: &VectorInst) -> Option<Self> {
        let (Source::Imm(position), Source::Imm(length)) = (inst.src[2], inst.src[3]) else {
            return None;
        };
        let (position, length) = (position as u32 & 0xff, length as u32 & 0xff);
        let field = 1u32.checked_shl(length).map_or(u32::MAX, |above| above - 1);
        (position < 32).then(|| Self { position, mask: field << position })
    }
}

/// `bfi`: at a constant place by a mask.
fn insert_field<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    of: Operation,
    piece: usize,
) -> Register {
    let w = of.w;
    if let Some(Moved { position, mask }) = Moved::of(inst).filter(|_| w == Width::W32) {
        let a = i.source_in(inst.src[0], w, piece);
        let made = i.made(UP, a, X::I(position as i32));
        let mask = i.splat(mask.into(), w);
        let base = i.source_in(inst.src[1], w, piece);
        i.choose_bits(made, base, mask);
        i.free(mask);
        return made;
    }
    let [from, count] = field(i, inst, 2, w, piece);
    ones_from(i, count, from, w);
    let a = i.source_in(inst.src[0], w, piece);
    i.op(pick(w, UP_BY, UP_BY_LONG), &[from.into(), a.into(), from.into()]);
    i.free(a);
    let b = i.source_in(inst.src[1], w, piece);
    i.choose_bits(from, b, count);
    i.free(count);
    from
}
