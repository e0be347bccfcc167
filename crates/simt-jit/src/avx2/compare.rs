//! Comparisons of a quarter's lanes: predicates as masks of 32 bits a lane.

use super::quarter::{Quarter, pieces, xmm};
use crate::assembler::X;
use crate::predicate::float_condition;
use iced_x86::{Code, Register};
use simt::op::{Compare, CompareType, FloatType, Width};
use simt::vector::VectorInst;

/// True if there is a form for the comparison.
pub(crate) fn has_form(compare: Compare, ty: CompareType) -> bool {
    match ty {
        CompareType::Int(_) => int_way(compare).is_some(),
        CompareType::Float(ty, _) => matches!(ty, FloatType::F32 | FloatType::F64),
    }
}

/// How integers are compared: whether for equality, with the operands swapped, and whether the
/// answer is turned over.
fn int_way(compare: Compare) -> Option<(bool, bool, bool)> {
    Some(match compare {
        Compare::Eq => (true, false, false),
        Compare::Ne => (true, false, true),
        Compare::Gt => (false, false, false),
        Compare::Le => (false, false, true),
        Compare::Lt => (false, true, false),
        Compare::Ge => (false, true, true),
        _ => return None,
    })
}

impl Quarter<'_, '_> {
    pub(crate) fn compare(&mut self, inst: &VectorInst, compare: Compare, ty: CompareType) {
        let width = match ty {
            CompareType::Int(ty) => ty.width(),
            CompareType::Float(ty, _) => ty.width(),
        };
        let mut made = [Register::None; 2];
        for (piece, made) in made.iter_mut().enumerate().take(pieces(width)) {
            let [a, b] = [0, 1].map(|n| match inst.src[n] {
                simt::vector::Source::Affine(..) | simt::vector::Source::Halves(..) => {
                    self.formula(inst.src[n], width, piece)
                }
                source => self.piece_in(source, width, piece),
            });
            *made = match ty {
                CompareType::Int(ty) => self.compare_integers(a, b, compare, width, ty.signed()),
                CompareType::Float(_, flush) => self.compare_floats(a, b, compare, width, flush),
            };
        }
        match width {
            Width::W64 => {
                self.narrow_masks(made[0], made[1]);
                self.free(made[1]);
            }
            Width::W16 => {
                let widen = Code::VEX_Vpmovsxwd_ymm_xmmm128;
                self.op(widen, &[made[0].into(), xmm(made[0]).into()]);
            }
            _ => {}
        }
        self.put_predicate(inst, 0, made[0]);
    }

    fn compare_floats(
        &mut self,
        a: Register,
        b: Register,
        compare: Compare,
        width: Width,
        flush: bool,
    ) -> Register {
        let (mut a, mut b) = (a, b);
        if flush && width == Width::W32 {
            (a, b) = (self.flushed(a), self.flushed(b));
        }
        let code = match width {
            Width::W32 => Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8,
            _ => Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8,
        };
        let to = self.temp();
        self.op(code, &[to.into(), a.into(), b.into(), X::I(float_condition(compare))]);
        to
    }

    fn compare_integers(
        &mut self,
        a: Register,
        b: Register,
        compare: Compare,
        width: Width,
        signed: bool,
    ) -> Register {
        let Some((equal, swapped, inverted)) = int_way(compare) else {
            self.unsupported();
            return a;
        };
        let (a, b) = if swapped { (b, a) } else { (a, b) };
        let (to, inverted) = match (equal, width, signed) {
            (true, ..) => {
                let code = match width {
                    Width::W16 => Code::VEX_Vpcmpeqw_ymm_ymm_ymmm256,
                    Width::W32 => Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256,
                    _ => Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256,
                };
                let to = self.temp();
                self.op(code, &[to.into(), a.into(), b.into()]);
                (to, inverted)
            }
            (_, Width::W64, _) => (self.above(a, b, signed), inverted),
            (_, _, true) => {
                let code = match width {
                    Width::W16 => Code::VEX_Vpcmpgtw_ymm_ymm_ymmm256,
                    _ => Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256,
                };
                let to = self.temp();
                self.op(code, &[to.into(), a.into(), b.into()]);
                (to, inverted)
            }
            (_, _, false) => {
                // Not above is being the smaller of the two.
                let (least, same) = match width {
                    Width::W16 => {
                        (Code::VEX_Vpminuw_ymm_ymm_ymmm256, Code::VEX_Vpcmpeqw_ymm_ymm_ymmm256)
                    }
                    _ => (Code::VEX_Vpminud_ymm_ymm_ymmm256, Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256),
                };
                let to = self.temp();
                self.op(least, &[to.into(), a.into(), b.into()]);
                self.op(same, &[to.into(), to.into(), a.into()]);
                (to, !inverted)
            }
        };
        if inverted {
            let ones = self.constant(u64::MAX, Width::W64);
            self.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[to.into(), to.into(), ones.into()]);
        }
        to
    }
}
