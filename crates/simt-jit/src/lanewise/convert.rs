//! Conversions of lanes of 32 and 64 bits: between f32, f64 and integers, and to numbers of the same
//! format (integral ones, tf32, flushed or clamped ones).
//!
//! Integers saturate. NaN becomes 0 or, where f64 or 64-bit integers are involved, the top bit alone.

use crate::asm::assembler::X;
use crate::host::SimdIsa;
use crate::lanewise::codes::{
    ADD, ADD_PRODUCT_F32, AND, DIV_F64, DOWN, DOWN_SIGNED, F32_OF_F64, F32_OF_S32, F32_OF_S64,
    F32_OF_U32, F32_OF_U64, F64_OF_F32, F64_OF_S32, F64_OF_S64, F64_OF_U32, F64_OF_U64, LaneCode,
    MAX_F32, MAX_F64, MIN_F64, NOT_BELOW, OR, OR_LONG, ROUND_F32, ROUND_F64, S32_CUT_F32,
    S32_CUT_F64, S32_OF_F32, S32_OF_F64, S64_OF_F64, SUB_F32, SUB_F64, U32_OF_F32, U32_OF_F64,
    U64_OF_F64, UNORDERED, XOR, pick,
};
use crate::lanewise::float::{canonical, rounding, saturate};
use crate::lanewise::isa::VectorIsa;
use crate::lanewise::math::clamped;
use iced_x86::Register;
use simt::ir::op::{Convert, FloatType, Round, Width};
use simt::ir::vector::{Source, VectorInst};

const TWO_TO_31: u64 = 1 << 31;

/// Makes a conversion.
pub(crate) type Emitter<I> = fn(&mut I, &VectorInst, Convert);

/// What makes a conversion, if there is a form for it here.
pub(crate) fn form<I: VectorIsa>(convert: Convert) -> Option<Emitter<I>> {
    use FloatType::{F32, F64};
    let rounds = |round| rounding(round).is_some();
    let formed = match convert {
        Convert::Integral { ty, mode } => {
            let double = ty == F64 && !mode.ftz;
            (double || ty == F32) && rounds(mode.round)
        }
        Convert::Float { from: F32, to: F32, relu, .. } => !relu,
        Convert::Float { from: F32, to: F64, mode, relu } => !mode.sat && !relu,
        Convert::Float { from: F64, to: F32, mode, relu } => {
            !mode.sat && !relu && rounds(mode.round)
        }
        Convert::FromInt { from, to: F32 | F64, mode } => {
            let exists = match from.width() {
                Width::W32 => true,
                Width::W64 => F64_OF_S64.is_in(I::ISA),
                _ => false,
            };
            exists && !mode.sat && rounds(mode.round)
        }
        Convert::ToInt { from: from @ (F32 | F64), bits, round, .. } => {
            let exists = match bits {
                8 | 16 => from == F32,
                32 => true,
                _ => S64_OF_F64.is_in(I::ISA),
            };
            exists && rounds(round)
        }
        Convert::Tf32(round) => matches!(round, Round::Zero | Round::Near | Round::NearAway),
        _ => false,
    };
    formed.then_some(())?;
    Some(match convert {
        Convert::Float { from: F32, to: F64, .. } => doubles_of_singles,
        Convert::Float { from: F64, .. } => singles_of_doubles,
        Convert::FromInt { .. } => of_integers,
        Convert::ToInt { from: F32, bits: 8 | 16, .. } => small_integers,
        Convert::ToInt { bits: 32, .. } => integers,
        Convert::ToInt { .. } => long_integers_of,
        _ => same_format,
    })
}

fn singles_of_doubles<I: VectorIsa>(i: &mut I, inst: &VectorInst, convert: Convert) {
    let Convert::Float { mode, .. } = convert else { return i.unsupported() };
    put_narrowed(i, inst, mode.ftz, |i, piece| narrow(i, inst, piece, F32_OF_F64, mode.round));
}

fn integers<I: VectorIsa>(i: &mut I, inst: &VectorInst, convert: Convert) {
    let Convert::ToInt { from, signed, round, ftz, .. } = convert else {
        return i.unsupported();
    };
    if from == FloatType::F64 {
        return put_narrowed(i, inst, false, |i, piece| {
            let a = i.source_in(inst.src[0], Width::W64, piece);
            integers_of_doubles(i, a, signed, round)
        });
    }
    for piece in 0..i.pieces(Width::W32) {
        let a = single(i, inst.src[0], piece, ftz);
        let made = integers_of_singles(i, a, signed, round);
        i.put(inst, 0, piece, made);
    }
}

fn long_integers_of<I: VectorIsa>(i: &mut I, inst: &VectorInst, convert: Convert) {
    let Convert::ToInt { from, signed, round, ftz, .. } = convert else {
        return i.unsupported();
    };
    for piece in 0..i.pieces(Width::W64) {
        let a = match from {
            FloatType::F64 => i.source_in(inst.src[0], Width::W64, piece),
            // Exact.
            _ => double(i, inst.src[0], piece, ftz),
        };
        let made = long_integers(i, a, signed, round);
        i.put(inst, 0, piece, made);
    }
}

/// A piece of f32 lanes, maybe with subnormals made zero: a register that must not be written.
fn single<I: VectorIsa>(i: &mut I, source: Source, piece: usize, flush: bool) -> Register {
    let a = i.source_in(source, Width::W32, piece);
    if !flush {
        return a;
    }
    let to = i.flushed(a);
    i.free(a);
    to
}

/// A piece of f32 lanes as doubles, in a register of its own.
fn double<I: VectorIsa>(i: &mut I, source: Source, piece: usize, flush: bool) -> Register {
    if !flush {
        return i.by_half(source, Width::W32, piece, F64_OF_F32);
    }
    let a = single(i, source, piece / 2, true);
    let to = i.by_half_of(a, piece % 2, F64_OF_F32);
    i.free(a);
    to
}

fn doubles_of_singles<I: VectorIsa>(i: &mut I, inst: &VectorInst, convert: Convert) {
    let Convert::Float { mode, .. } = convert else { return i.unsupported() };
    let flush = mode.ftz;
    let mut flushed = None;
    for piece in 0..i.pieces(Width::W64) {
        if flush && piece % 2 == 0 {
            let a = single(i, inst.src[0], piece / 2, true);
            i.hold(a);
            flushed = Some(a);
        }
        let made = match flushed {
            Some(a) => i.by_half_of(a, piece % 2, F64_OF_F32),
            None => double(i, inst.src[0], piece, false),
        };
        if let (Some(a), 1) = (flushed, piece % 2) {
            i.free(a);
        }
        i.put(inst, 0, piece, made);
    }
}

/// Puts 32-bit lanes of 64-bit ones: `make` gives those of a piece in the lower half of a register of its
/// own. f32 numbers that are subnormal may be made zero.
fn put_narrowed<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    flush: bool,
    make: impl Fn(&mut I, usize) -> Register,
) {
    for piece in 0..i.pieces(Width::W32) {
        let [low, high] = [0, 1].map(|half| make(i, 2 * piece + half));
        let mut made = i.joined(low, high);
        if flush {
            let flushed = i.flushed(made);
            i.free(made);
            made = flushed;
        }
        i.put(inst, 0, piece, made);
    }
}

/// A source's piece as an instruction that rounds so reads it: with AVX-512 others than to the nearest
/// take registers alone.
fn rounded_source<I: VectorIsa>(
    i: &mut I,
    source: Source,
    w: Width,
    piece: usize,
    round: Round,
) -> X {
    if round == Round::Near || I::ISA != SimdIsa::Avx512 {
        i.source(source, w, piece)
    } else {
        i.source_in(source, w, piece).into()
    }
}

/// What an instruction that rounds so makes of a piece of a source, in a register of its own, or the part of it
/// that `part` says.
fn rounded<I: VectorIsa>(
    i: &mut I,
    (source, w, piece): (Source, Width, usize),
    part: fn(Register) -> Register,
    (code, round): (LaneCode, Round),
) -> Register {
    let a = rounded_source(i, source, w, piece, round);
    let to = i.temp();
    i.op_rounded(code, &[part(to).into(), a], round);
    if let X::R(register) = a {
        i.free(register);
    }
    to
}

/// What an instruction makes of 64-bit lanes, in the lower half of a register of its own.
fn narrow<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    piece: usize,
    code: LaneCode,
    round: Round,
) -> Register {
    rounded(i, (inst.src[0], Width::W64, piece), I::lower, (code, round))
}

fn of_integers<I: VectorIsa>(i: &mut I, inst: &VectorInst, convert: Convert) {
    let Convert::FromInt { from, to, mode } = convert else { return i.unsupported() };
    let round = mode.round;
    let (signed, double) = (from.signed(), to == FloatType::F64);
    match (from.width(), double) {
        (Width::W64, false) => {
            let code = if signed { F32_OF_S64 } else { F32_OF_U64 };
            put_narrowed(i, inst, false, |i, piece| narrow(i, inst, piece, code, round));
        }
        (w, _) => {
            for piece in 0..i.pieces(to.width()) {
                let made = if w == Width::W64 {
                    let code = if signed { F64_OF_S64 } else { F64_OF_U64 };
                    rounded(i, (inst.src[0], w, piece), |all| all, (code, round))
                } else if double {
                    doubles_of_integers(i, inst.src[0], piece, signed)
                } else {
                    singles_of_integers(i, inst.src[0], piece, signed, round)
                };
                i.put(inst, 0, piece, made);
            }
        }
    }
}

/// 32-bit integers as f32 numbers, in a register of their own.
fn singles_of_integers<I: VectorIsa>(
    i: &mut I,
    source: Source,
    piece: usize,
    signed: bool,
    round: Round,
) -> Register {
    let w = Width::W32;
    let code = if signed || i.is_below_sign(source) { F32_OF_S32 } else { F32_OF_U32 };
    if code.is_in(I::ISA) {
        return rounded(i, (source, w, piece), |all| all, (code, round));
    }
    // Both halves are exact, and so is the upper one times 2^16: the sum is rounded once.
    let a = i.source_in(source, w, piece);
    let [low_bits, power] = [0xffff, 65536f32.to_bits()].map(|bits| i.number(bits.into(), w));
    let upper = i.made(DOWN, a, X::I(16));
    let to = i.made(AND, a, low_bits);
    for half in [upper, to] {
        i.op(F32_OF_S32, &[half.into(), half.into()]);
    }
    i.op_rounded(ADD_PRODUCT_F32, &[to.into(), upper.into(), power], round);
    i.free(upper);
    to
}

/// 32-bit integers as doubles, in a register of their own.
fn doubles_of_integers<I: VectorIsa>(
    i: &mut I,
    source: Source,
    piece: usize,
    signed: bool,
) -> Register {
    let code = if signed { F64_OF_S32 } else { F64_OF_U32 };
    if code.is_in(I::ISA) {
        return i.by_half(source, Width::W32, piece, code);
    }
    // As the lowest bits of 2^52, which is then taken away.
    let to = i.widened(source, piece, false);
    let bits = i.number(((1u64 << 52) as f64).to_bits(), Width::W64);
    i.op(OR_LONG, &[to.into(), to.into(), bits]);
    i.op(SUB_F64, &[to.into(), to.into(), bits]);
    to
}

/// Puts f32 lanes as integers of 8 or 16 bits.
fn small_integers<I: VectorIsa>(i: &mut I, inst: &VectorInst, convert: Convert) {
    let Convert::ToInt { bits, signed, round, ftz, .. } = convert else { return i.unsupported() };
    let ends = match signed {
        true => [-(1i32 << (bits - 1)), (1 << (bits - 1)) - 1],
        false => [0, (1 << bits) - 1],
    };
    i.put_words(inst, 0, |i, piece| {
        let a = single(i, inst.src[0], piece, ftz);
        let near = clamped(i, a, ends.map(|end| end as f32));
        i.free(a);
        // A NaN becomes 2^31, whose lower half is 0.
        let made = signed_of_singles(i, near, round);
        i.free(near);
        made
    });
}

/// f32 lanes as signed integers, in a register of their own: of NaN and what is out of range 2^31.
fn signed_of_singles<I: VectorIsa>(i: &mut I, a: Register, round: Round) -> Register {
    let to = i.temp();
    if I::ISA == SimdIsa::Avx512 || round == Round::Near {
        i.op_rounded(S32_OF_F32, &[to.into(), a.into()], round);
        return to;
    }
    let mut from = a;
    if let (Some(how), true) = (rounding(round), round != Round::Zero) {
        i.op(ROUND_F32, &[to.into(), a.into(), X::I(how)]);
        from = to;
    }
    i.op(S32_CUT_F32, &[to.into(), from.into()]);
    to
}

/// f32 lanes as integers, in a register of their own.
fn integers_of_singles<I: VectorIsa>(
    i: &mut I,
    a: Register,
    signed: bool,
    round: Round,
) -> Register {
    let w = Width::W32;
    if signed {
        let to = signed_of_singles(i, a, round);
        let limit = i.number(2_147_483_648f32.to_bits().into(), w);
        let large = i.compare(a, limit, NOT_BELOW, w);
        let most = i.number(i32::MAX as u64, w);
        i.blend(to, most, large, w);
        i.free_mask(large);
        let none = i.compare(a, a.into(), UNORDERED, w);
        i.clear(to, none, w);
        i.free_mask(none);
        return to;
    }
    // The maximum of NaN and 0 is 0.
    let zero = i.number(0, w);
    let x = i.made(MAX_F32, a, zero);
    i.free(a);
    if U32_OF_F32.is_in(I::ISA) {
        i.op_rounded(U32_OF_F32, &[x.into(), x.into()], round);
        return x;
    }
    if let (Some(how), true) = (rounding(round), round != Round::Zero) {
        i.op(ROUND_F32, &[x.into(), x.into(), X::I(how)]);
    }
    // From 2^31 on `low` is its bit alone, and `high` has the others.
    let [half, whole] =
        [31, 32].map(|power| i.number(((1u64 << power) as f32).to_bits().into(), w));
    let low = i.temp();
    i.op(S32_CUT_F32, &[low.into(), x.into()]);
    let high = i.made(SUB_F32, x, half);
    i.op(S32_CUT_F32, &[high.into(), high.into()]);
    let large = i.made(DOWN_SIGNED, low, X::I(31));
    i.op(AND, &[high.into(), high.into(), large.into()]);
    i.op(OR, &[low.into(), low.into(), high.into()]);
    i.free_all([high, large]);
    let beyond = i.compare(x, whole, NOT_BELOW, w);
    i.fill(low, beyond, w);
    i.free_mask(beyond);
    i.free(x);
    low
}

/// Doubles as 32-bit integers, in the lower half of a register of their own.
fn integers_of_doubles<I: VectorIsa>(
    i: &mut I,
    a: Register,
    signed: bool,
    round: Round,
) -> Register {
    let w = Width::W64;
    let x = if signed {
        // The minimum of a number and NaN is NaN, of which the processor makes the top bit alone, as of
        // what is too small.
        let most = i.splat(f64::from(i32::MAX).to_bits(), w);
        i.op(MIN_F64, &[most.into(), most.into(), a.into()]);
        most
    } else {
        let [least, most, top] = [0.0, f64::from(u32::MAX), TWO_TO_31 as f64]
            .map(|number| i.number(number.to_bits(), w));
        let x = i.made(MAX_F64, a, least);
        i.op(MIN_F64, &[x.into(), x.into(), most]);
        let none = i.compare(a, a.into(), UNORDERED, w);
        i.blend(x, top, none, w);
        i.free_mask(none);
        x
    };
    i.free(a);
    narrow_integers(i, x, signed, round);
    x
}

/// Doubles that are 32-bit integers when they are rounded: these, in the lower half of the register.
fn narrow_integers<I: VectorIsa>(i: &mut I, a: Register, signed: bool, round: Round) {
    let low = I::lower(a);
    let code = if signed { S32_OF_F64 } else { U32_OF_F64 };
    if I::ISA == SimdIsa::Avx512 || signed && round == Round::Near {
        return i.op_rounded(code, &[low.into(), a.into()], round);
    }
    if let (Some(how), true) = (rounding(round), !signed || round != Round::Zero) {
        i.op(ROUND_F64, &[a.into(), a.into(), X::I(how)]);
    }
    if signed {
        return i.op(S32_CUT_F64, &[low.into(), a.into()]);
    }
    // Half of the range lower, as signed ones.
    let offset = i.number((TWO_TO_31 as f64).to_bits(), Width::W64);
    let sign = i.number(TWO_TO_31, Width::W32);
    i.op(SUB_F64, &[a.into(), a.into(), offset]);
    i.op(S32_CUT_F64, &[low.into(), a.into()]);
    i.op(XOR, &[a.into(), a.into(), sign]);
}

/// Doubles as 64-bit integers, in a register of their own.
fn long_integers<I: VectorIsa>(i: &mut I, a: Register, signed: bool, round: Round) -> Register {
    let w = Width::W64;
    let to = i.temp();
    let (which, instead) = if signed {
        // Of NaN and of what is too small the processor makes the top bit alone.
        i.op_rounded(S64_OF_F64, &[to.into(), a.into()], round);
        let limit = i.number(((1u64 << 63) as f64).to_bits(), w);
        (i.compare(a, limit, NOT_BELOW, w), i64::MAX as u64)
    } else {
        let zero = i.number(0, w);
        i.op(MAX_F64, &[to.into(), a.into(), zero]);
        i.op_rounded(U64_OF_F64, &[to.into(), to.into()], round);
        (i.compare(a, a.into(), UNORDERED, w), 1 << 63)
    };
    let instead = i.number(instead, w);
    i.blend(to, instead, which, w);
    i.free_mask(which);
    i.free(a);
    to
}

/// Quotients of 32-bit lanes, cut off, in a register of its own; of a division by 0 anything.
pub(crate) fn quotients<I: VectorIsa>(
    i: &mut I,
    sources: [Source; 2],
    piece: usize,
    signed: bool,
) -> Register {
    // Doubles hold the quotient exactly enough that cutting it off is right.
    let [low, high] = [0, 1].map(|half| {
        let [a, b] = sources.map(|source| doubles_of_integers(i, source, 2 * piece + half, signed));
        i.op(DIV_F64, &[a.into(), a.into(), b.into()]);
        i.free(b);
        narrow_integers(i, a, signed, Round::Zero);
        a
    });
    i.joined(low, high)
}

/// Conversions to numbers of the same format.
fn same_format<I: VectorIsa>(i: &mut I, inst: &VectorInst, convert: Convert) {
    let w = match convert {
        Convert::Integral { ty, .. } => ty.width(),
        _ => Width::W32,
    };
    for piece in 0..i.pieces(w) {
        let a = i.source_in(inst.src[0], w, piece);
        let (mode, round) = match convert {
            Convert::Integral { mode, .. } => (mode, rounding(mode.round)),
            Convert::Float { mode, .. } => (mode, None),
            Convert::Tf32(round) => {
                let made = tf32(i, a, round);
                i.put(inst, 0, piece, made);
                continue;
            }
            _ => return i.unsupported(),
        };
        let made = if mode.ftz { i.flushed(a) } else { i.copied(a.into(), w) };
        i.free(a);
        if let Some(how) = round {
            i.op(pick(w, ROUND_F32, ROUND_F64), &[made.into(), made.into(), X::I(how)]);
        }
        // Of what is clamped no NaN is left.
        if w == Width::W32 && !mode.sat {
            canonical(i, made);
        }
        if mode.sat {
            saturate(i, made, w);
        }
        i.put(inst, 0, piece, made);
    }
}

/// f32 with ten digits of fraction: what is cut off has been added to before.
fn tf32<I: VectorIsa>(i: &mut I, a: Register, round: Round) -> Register {
    const DROPPED: u32 = 0x1fff;
    let w = Width::W32;
    let more = match round {
        Round::Near => DROPPED / 2,
        Round::NearAway => DROPPED / 2 + 1,
        _ => 0,
    };
    let more = i.number(more.into(), w);
    let to = i.made(ADD, a, more);
    if round == Round::Near {
        // To the even one, where it is in the middle.
        let one = i.number(1, w);
        let even = i.made(DOWN, a, X::I(13));
        i.op(AND, &[even.into(), even.into(), one]);
        i.op(ADD, &[to.into(), to.into(), even.into()]);
        i.free(even);
    }
    let none = i.compare(a, a.into(), UNORDERED, w);
    // Rounded away from zero, a NaN keeps its own digits.
    let instead = match round {
        Round::NearAway => a.into(),
        _ => i.number(simt::analysis::nan_demand::NAN.into(), w),
    };
    i.blend(to, instead, none, w);
    i.free_mask(none);
    let kept = i.number((!DROPPED).into(), w);
    i.op(AND, &[to.into(), to.into(), kept]);
    to
}
