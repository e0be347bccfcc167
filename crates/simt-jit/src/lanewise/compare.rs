//! Comparisons: `setp` of lanes, and the conditions by which instructions name comparisons.
//!
//! A comparison makes no value a lane. Each piece's outcomes are kept by the instruction set, and
//! become a predicate when all pieces are there.

use crate::asm::assembler::X;
use crate::lanewise::half::{Format, single_of};
use crate::lanewise::isa::VectorIsa;
use crate::operands::HalfBits;
use iced_x86::{Code, Register};
use simt::ir::op::{Compare, CompareType, FloatType, Width};
use simt::ir::vector::{Source, VectorInst};

/// How lanes of a piece are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// As integers, signed or not.
    Integers(Compare, bool),
    /// As floats: the condition of `vcmpps`.
    Floats(i32),
}

/// A comparison that has a form on lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    by: By,
    w: Width,
    /// Subnormals are zero.
    flush: bool,
    /// Of halves: whether they are brain floats.
    brain: Option<bool>,
}

/// The condition of `vcmpps` and the like.
pub(crate) fn float_condition(compare: Compare) -> i32 {
    match compare {
        Compare::Eq => 0x00,
        Compare::Ne => 0x0c,
        Compare::Lt => 0x11,
        Compare::Le => 0x12,
        Compare::Gt => 0x1e,
        Compare::Ge => 0x1d,
        Compare::Equ => 0x08,
        Compare::Neu => 0x04,
        Compare::Ltu => 0x19,
        Compare::Leu => 0x1a,
        Compare::Gtu => 0x16,
        Compare::Geu => 0x15,
        Compare::Num => 0x07,
        Compare::Nan => 0x03,
    }
}

/// The condition of `vpcmpd` and the like; `None` for comparisons of floats.
pub(crate) fn integer_condition(compare: Compare) -> Option<i32> {
    Some(match compare {
        Compare::Eq => 0,
        Compare::Lt => 1,
        Compare::Le => 2,
        Compare::Ne => 4,
        Compare::Ge => 5,
        Compare::Gt => 6,
        _ => return None,
    })
}

/// What instructions do by the flags that a comparison of integers leaves.
pub(crate) struct Flags {
    /// Jumps if it holds.
    pub(crate) jump: Code,
    /// Sets a byte to whether it holds.
    pub(crate) set: Code,
}

/// The flags of a comparison of integers; `None` for comparisons of floats.
pub(crate) fn flags(compare: Compare, signed: bool) -> Option<Flags> {
    let (jump, set) = match (compare, signed) {
        (Compare::Eq, _) => (Code::Je_rel32_64, Code::Sete_rm8),
        (Compare::Ne, _) => (Code::Jne_rel32_64, Code::Setne_rm8),
        (Compare::Lt, true) => (Code::Jl_rel32_64, Code::Setl_rm8),
        (Compare::Le, true) => (Code::Jle_rel32_64, Code::Setle_rm8),
        (Compare::Gt, true) => (Code::Jg_rel32_64, Code::Setg_rm8),
        (Compare::Ge, true) => (Code::Jge_rel32_64, Code::Setge_rm8),
        (Compare::Lt, false) => (Code::Jb_rel32_64, Code::Setb_rm8),
        (Compare::Le, false) => (Code::Jbe_rel32_64, Code::Setbe_rm8),
        (Compare::Gt, false) => (Code::Ja_rel32_64, Code::Seta_rm8),
        (Compare::Ge, false) => (Code::Jae_rel32_64, Code::Setae_rm8),
        _ => return None,
    };
    Some(Flags { jump, set })
}

/// The form of a comparison on lanes, if there is one.
pub(crate) fn form(compare: Compare, ty: CompareType) -> Option<Form> {
    let (float, flush) = match ty {
        CompareType::Int(ty) => {
            integer_condition(compare)?;
            let by = By::Integers(compare, ty.signed());
            return Some(Form { by, w: ty.width(), flush: false, brain: None });
        }
        CompareType::Float(float, flush) => (float, flush),
    };
    let by = By::Floats(float_condition(compare));
    Some(match float {
        FloatType::F32 => Form { by, w: Width::W32, flush, brain: None },
        FloatType::F64 => Form { by, w: Width::W64, flush: false, brain: None },
        _ => {
            // As f32 numbers.
            let format = Format::of(float).filter(|format| !format.pair)?;
            Form { by, w: Width::W32, flush: false, brain: Some(format.brain) }
        }
    })
}

impl Form {
    /// Makes the comparison.
    pub(crate) fn make<I: VectorIsa>(&self, i: &mut I, inst: &VectorInst) {
        for piece in 0..i.pieces(self.w) {
            let (a, b) = self.operands(i, inst, piece);
            i.compare_piece(piece, a, b, self.by, self.w);
        }
        i.put_compared(inst, self.w);
    }

    fn operands<I: VectorIsa>(&self, i: &mut I, inst: &VectorInst, piece: usize) -> (Register, X) {
        if let Some(brain) = self.brain {
            let [a, b] = [0, 1].map(|n| single_of(i, inst.src[n], piece, (brain, HalfBits::All)));
            return (a, b.into());
        }
        let affine = |s: &Source| matches!(s, Source::Affine(..) | Source::HalfAffine(..));
        let (a, b) = match inst.src.iter().any(affine) {
            true => {
                let [a, b] = [0, 1].map(|n| i.affine(inst.src[n], self.w, piece));
                (a, b.into())
            }
            false => {
                let a = i.source_in(inst.src[0], self.w, piece);
                (a, i.source(inst.src[1], self.w, piece))
            }
        };
        if !self.flush {
            return (a, b);
        }
        let b = match b {
            X::R(b) => b,
            memory => i.copied(memory, self.w),
        };
        (i.flushed(a), i.flushed(b).into())
    }
}
