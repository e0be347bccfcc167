//! Conversions of f32 and f64 lanes to numbers of the same format: integral ones, tf32, flushed or
//! clamped ones.

use crate::asm::assembler::X;
use crate::lanewise::codes::{ADD, AND, DOWN, ROUND_F32, ROUND_F64, pick};
use crate::lanewise::float::{UNORDERED, canonical, rounding, saturate};
use crate::lanewise::isa::VectorIsa;
use iced_x86::Register;
use simt::ir::op::{Convert, FloatType, Round, Width};
use simt::ir::vector::VectorInst;

/// True if there is a form for the conversion here.
pub(crate) fn has_form(convert: Convert) -> bool {
    match convert {
        Convert::Integral { ty, mode } => {
            let double = ty == FloatType::F64 && !mode.ftz;
            (double || ty == FloatType::F32) && rounding(mode.round).is_some()
        }
        Convert::Float { from: FloatType::F32, to: FloatType::F32, relu, .. } => !relu,
        Convert::Tf32(round) => matches!(round, Round::Zero | Round::Near | Round::NearAway),
        _ => false,
    }
}

/// Makes a conversion that has a form here.
pub(crate) fn convert<I: VectorIsa>(i: &mut I, inst: &VectorInst, convert: Convert) {
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
