//! Half precision: f16 and bf16 arithmetic on lanes, single and packed, by way of f32.
//!
//! Sums and products of two halves are exact enough in f32 that rounding twice does no harm. For
//! `fma` the f32 result is rounded to odd: what is cut off leaves a trace in the last digit, so
//! that the second rounding is right.

use crate::asm::assembler::X;
use crate::lanewise::codes::{
    ADD, ADD_F32, AND, ANDN, DOWN, FMA_F32, LESS, MUL_F32, NOT_ABOVE, OR, SUB_F32, UNORDERED, UP,
    XOR,
};
use crate::lanewise::convert;
use crate::lanewise::float::{
    self, canonical, extreme, flush, keep_signs, nan_of_either, saturate,
};
use crate::lanewise::isa::VectorIsa;
use crate::lanewise::math;
use crate::operands::HalfBits;
use iced_x86::Register;
use simt::ir::op::{Convert, FloatMode, FloatOp, FloatType, Round, Width};
use simt::ir::vector::{Source, VectorInst};

/// NaN as operations on halves return it.
const NAN: u64 = 0x7fff;
const W: Width = Width::W32;

/// A format: brain floats or not, in pairs or not.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    pub(crate) brain: bool,
    pub(crate) pair: bool,
}

impl Format {
    pub(crate) fn of(ty: FloatType) -> Option<Self> {
        Some(match ty {
            FloatType::F16 => Self { brain: false, pair: false },
            FloatType::BF16 => Self { brain: true, pair: false },
            FloatType::F16x2 => Self { brain: false, pair: true },
            FloatType::BF16x2 => Self { brain: true, pair: true },
            _ => return None,
        })
    }
}

/// Subnormal f16 numbers become zero: bf16 has f32's exponents, and the extremes are taken as they
/// are.
fn flushes(op: FloatOp, format: Format, mode: FloatMode) -> bool {
    use FloatOp::{Max, MaxNan, Min, MinNan};
    mode.ftz && !format.brain && !matches!(op, Min | Max | MinNan | MaxNan)
}

/// What makes arithmetic on halves, if there is a form for it.
pub(crate) fn form<I: VectorIsa>(
    op: FloatOp,
    ty: FloatType,
    mode: FloatMode,
) -> Option<float::Emitter<I>> {
    use FloatOp::{Abs, Add, Ex2, Fma, FmaRelu, Max, MaxNan, Min, MinNan, Mul, Neg, Sub, Tanh};
    let format = Format::of(ty)?;
    if mode.round != Round::Near || mode.sat && format.brain {
        return None;
    }
    match op {
        Neg | Abs if !flushes(op, format, mode) && !mode.sat => Some(signs),
        Add | Sub | Mul | Fma | FmaRelu | Min | Max | MinNan | MaxNan | Ex2 | Tanh => {
            Some(arithmetic)
        }
        _ => None,
    }
}

/// What makes a conversion to or from halves, if there is a form for it.
pub(crate) fn conversion<I: VectorIsa>(convert: Convert) -> Option<convert::Emitter<I>> {
    Some(match formats(convert)? {
        (Some(_), _) => to_singles,
        _ => to_halves,
    })
}

/// The formats of a conversion to or from halves that has a form: of the source, and of the result.
/// Subnormals are not flushed where halves are made, or made of halves.
fn formats(convert: Convert) -> Option<(Option<Format>, Option<Format>)> {
    let Convert::Float { from, to, mode, relu } = convert else { return None };
    let formats = (Format::of(from), Format::of(to));
    let formed = match formats {
        (Some(format), None) => !format.pair && to == FloatType::F32 && !relu,
        (None, Some(_)) => from == FloatType::F32,
        _ => false,
    };
    (formed && mode.round == Round::Near && !mode.sat).then_some(formats)
}

fn signs<I: VectorIsa>(i: &mut I, inst: &VectorInst, op: FloatOp, ty: FloatType, _: FloatMode) {
    let (bits, code) = match op {
        FloatOp::Neg => (0x8000_8000, XOR),
        _ => (0x7fff_7fff, AND),
    };
    for piece in 0..i.pieces(ty.width()) {
        let a = i.source_in(inst.src[0], ty.width(), piece);
        let bits = i.number(bits, W);
        let made = i.made(code, a, bits);
        i.put(inst, 0, piece, made);
    }
}

fn arithmetic<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    op: FloatOp,
    ty: FloatType,
    mode: FloatMode,
) {
    let Some(format) = Format::of(ty) else { return i.unsupported() };
    let flushes = flushes(op, format, mode);
    put(i, inst, format.pair, |i, piece, bits| {
        let made = result(i, inst, op, flushes, piece, (format.brain, bits));
        if mode.sat {
            saturate(i, made, W);
        }
        rounded(i, made, format.brain);
        if flushes {
            flush(i, made, 0x7c00, 0x8000, W);
        }
        if op == FloatOp::FmaRelu {
            // NaN has no sign, and stays.
            let up = i.made(UP, made, X::I(16));
            let signs = i.signs(up, W);
            i.op(ANDN, &[made.into(), signs.into(), made.into()]);
            i.free_all([up, signs]);
        }
        made
    });
}

fn to_singles<I: VectorIsa>(i: &mut I, inst: &VectorInst, convert: Convert) {
    let Some((Some(format), _)) = formats(convert) else { return i.unsupported() };
    for piece in 0..i.pieces(W) {
        let made = single_of(i, inst.src[0], piece, (format.brain, HalfBits::All));
        canonical(i, made);
        i.put(inst, 0, piece, made);
    }
}

fn to_halves<I: VectorIsa>(i: &mut I, inst: &VectorInst, convert: Convert) {
    let Some((_, Some(format))) = formats(convert) else { return i.unsupported() };
    let relu = matches!(convert, Convert::Float { relu: true, .. });
    put(i, inst, format.pair, |i, piece, bits| {
        let source = inst.src[usize::from(bits == HalfBits::Low)];
        let single = i.source(source, W, piece);
        let made = i.copied(single, W);
        if relu {
            // Numbers that are not above zero become it; NaN stays.
            let zero = i.zero();
            let mask = i.compare(made, zero.into(), NOT_ABOVE, W);
            i.blend(made, zero.into(), mask, W);
            i.free_mask(mask);
            i.free(zero);
        }
        rounded(i, made, format.brain);
        made
    });
}

/// Makes the first result of halves: `make` gives those that are asked for, in the lower 16 bits of 32-bit
/// lanes.
fn put<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    pair: bool,
    mut make: impl FnMut(&mut I, usize, HalfBits) -> Register,
) {
    if !pair {
        return i.put_words(inst, 0, |i, piece| make(i, piece, HalfBits::All));
    }
    for piece in 0..i.pieces(W) {
        let low = make(i, piece, HalfBits::Low);
        let high = make(i, piece, HalfBits::High);
        i.op(UP, &[high.into(), high.into(), X::I(16)]);
        i.put_by(inst, 0, piece, OR, &[low.into(), high.into()]);
    }
}

/// A source's halves as f32 numbers, in a register of their own.
pub(crate) fn single_of<I: VectorIsa>(
    i: &mut I,
    source: Source,
    piece: usize,
    (brain, bits): (bool, HalfBits),
) -> Register {
    if bits == HalfBits::All {
        if !brain {
            return i.f32_of_f16(source, piece);
        }
        let to = i.words(source, piece, false);
        i.op(UP, &[to.into(), to.into(), X::I(16)]);
        return to;
    }
    let from = i.source_in(source, W, piece);
    let to = match (brain, bits) {
        (true, HalfBits::Low) => i.made(UP, from, X::I(16)),
        (true, _) => {
            let upper = i.number(0xffff_0000, W);
            i.made(AND, from, upper)
        }
        (false, HalfBits::Low) => {
            let to = i.copied(from.into(), W);
            i.lower_f16_as_f32(to);
            to
        }
        (false, _) => {
            let to = i.made(DOWN, from, X::I(16));
            i.lower_f16_as_f32(to);
            to
        }
    };
    i.free(from);
    to
}

/// f32 numbers become halves, in the lower 16 bits of their lanes.
pub(crate) fn rounded<I: VectorIsa>(i: &mut I, a: Register, brain: bool) {
    let none = i.compare(a, a.into(), UNORDERED, W);
    if brain {
        // To the even one, where it is in the middle.
        let [one, most] = [1, 0x7fff].map(|bits| i.number(bits, W));
        let even = i.made(DOWN, a, X::I(16));
        i.op(AND, &[even.into(), even.into(), one]);
        i.op(ADD, &[a.into(), a.into(), even.into()]);
        i.op(ADD, &[a.into(), a.into(), most]);
        i.op(DOWN, &[a.into(), a.into(), X::I(16)]);
        i.free(even);
    } else {
        i.f32_as_f16(a);
    }
    let nan = i.number(NAN, W);
    i.blend(a, nan, none, W);
    i.free_mask(none);
}

/// The results of an operation, as f32 numbers.
fn result<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    op: FloatOp,
    flush: bool,
    piece: usize,
    what: (bool, HalfBits),
) -> Register {
    let operand = |i: &mut I, n: usize| {
        let a = single_of(i, inst.src[n], piece, what);
        if flush {
            // What is subnormal as f16.
            let magnitude = i.number(0x7fff_ffff, W);
            let least = i.number(0x3880_0000, W);
            let size = i.made(AND, a, magnitude);
            let mask = i.compare(size, least, LESS, W);
            i.free(size);
            keep_signs(i, a, mask, 1 << 31, W);
        }
        a
    };
    let a = operand(i, 0);
    if let FloatOp::Ex2 | FloatOp::Tanh = op {
        let made = math::function(i, op, a);
        i.free(a);
        return made;
    }
    let b = operand(i, 1);
    let made = match op {
        FloatOp::Fma | FloatOp::FmaRelu => {
            let c = operand(i, 2);
            fma_to_odd(i, a, b, c);
            i.free(c);
            a
        }
        _ => combined(i, op, a, b),
    };
    i.free(b);
    if made != a {
        i.free(a);
    }
    made
}

/// An operation on f32 numbers of halves: in the first's register or in one of its own.
pub(crate) fn combined<I: VectorIsa>(i: &mut I, op: FloatOp, a: Register, b: Register) -> Register {
    let code = match op {
        FloatOp::Add => ADD_F32,
        FloatOp::Sub => SUB_F32,
        FloatOp::Mul => MUL_F32,
        _ => {
            let made = extreme(i, matches!(op, FloatOp::Max | FloatOp::MaxNan), W, a, b);
            if let FloatOp::MinNan | FloatOp::MaxNan = op {
                nan_of_either(i, made, a, b);
            }
            return made;
        }
    };
    i.op(code, &[a.into(), a.into(), b.into()]);
    a
}

/// The first times the second plus the third, in the first; inexact results have an odd last digit.
fn fma_to_odd<I: VectorIsa>(i: &mut I, a: Register, b: Register, c: Register) {
    let [low, high] = [Round::Down, Round::Up].map(|round| {
        let to = i.copied(a.into(), W);
        i.op_rounded(FMA_F32, &[to.into(), b.into(), c.into()], round);
        to
    });
    i.op_rounded(FMA_F32, &[a.into(), b.into(), c.into()], Round::Zero);
    i.op(XOR, &[low.into(), low.into(), high.into()]);
    i.free(high);
    let exact = i.is_zero(low, low.into(), W);
    i.free(low);
    let odd = i.splat(1, W);
    i.clear(odd, exact, W);
    i.free_mask(exact);
    i.op(OR, &[a.into(), a.into(), odd.into()]);
    i.free(odd);
}
