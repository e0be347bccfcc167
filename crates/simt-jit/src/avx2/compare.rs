//! Comparisons on the lanes of a slice: predicates are masks of 32 bits a lane. Comparisons of
//! affine values stand outside of regions, where predicates are bits.

use crate::asm::assembler::X;
use crate::avx2::layout::{SLICE_LANES, SLICES};
use crate::avx2::slice::{Slice, pieces, xmm};
use crate::function::Compiler;
use crate::lanewise::half::{Format, single_of};
use crate::lanewise::isa::VectorIsa;
use crate::operands::HalfBits;
use crate::shared::predicate::float_condition;
use iced_x86::{Code, Register};
use simt::ir::op::{Compare, CompareType, FloatType, Width};
use simt::ir::vector::{Source, VectorInst};
use simt::kernel::WARP_LANES;
use simt::launch_shape::HALF_LANES;

/// True if there is a form for the comparison.
pub(crate) fn has_form(compare: Compare, ty: CompareType) -> bool {
    match ty {
        CompareType::Int(_) => int_way(compare).is_some(),
        CompareType::Float(ty, flush) => {
            matches!(ty, FloatType::F32 | FloatType::F64)
                || !flush && matches!(Format::of(ty), Some(format) if !format.pair)
        }
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

/// True for a comparison of affine values of the lane's number and numbers: it needs no lanes, but where
/// the outcome changes within the warp.
pub(crate) fn is_of_formulas(inst: &VectorInst, compare: Compare, ty: CompareType) -> bool {
    let CompareType::Int(ty) = ty else { return false };
    let formula = |s: &Source| {
        matches!(
            s,
            Source::Affine(..) | Source::HalfAffine(..) | Source::Scalar(_) | Source::Imm(_)
        )
    };
    !inst.uniform
        && ty.width() == Width::W32
        && int_way(compare).is_some()
        && inst.src.iter().all(formula)
}

impl Compiler<'_> {
    /// The outcomes of a comparison of affine values in EAX, outside of regions.
    pub(crate) fn compare_formulas(&mut self, inst: &VectorInst, compare: Compare, signed: bool) {
        let Some((equal, swapped, inverted)) = int_way(compare) else { return };
        if equal && self.equal_at_one_lane(inst, inverted) {
            return;
        }
        let (eax, edx): (X, X) = (Register::EAX.into(), Register::EDX.into());
        let [a, b, sign] = [Register::YMM0, Register::YMM1, Register::YMM2];
        let xor = Code::VEX_Vpxor_ymm_ymm_ymmm256;
        for slice in (0..SLICES).rev() {
            for (source, to) in inst.src.iter().zip(if swapped { [b, a] } else { [a, b] }) {
                self.formula_of_quarter(*source, slice, to);
                if !equal && !signed {
                    // As signed numbers they are in the same order with the highest bits turned.
                    let bits = self.a.constant(&(1u32 << 31).to_le_bytes().repeat(8));
                    self.a.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[sign.into(), bits.into()]);
                    self.a.op(xor, &[to.into(), to.into(), sign.into()]);
                }
            }
            let code = match equal {
                true => Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256,
                false => Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256,
            };
            self.a.op(code, &[a.into(), a.into(), b.into()]);
            let last = slice + 1 == SLICES;
            let to = if last { eax } else { edx };
            self.a.op(Code::VEX_Vmovmskps_r32_ymm, &[to, a.into()]);
            if !last {
                self.a.op(Code::Shl_rm32_imm8, &[eax, X::I(SLICE_LANES as i32)]);
                self.a.op(Code::Or_r32_rm32, &[eax, edx]);
            }
        }
        if inverted {
            self.a.op(Code::Not_rm32, &[eax]);
        }
    }

    /// Compares affine values that are the same in one lane at most, as in all whose strides differ by a
    /// power of two: the lane's number is their distance in strides. False if they are no such.
    fn equal_at_one_lane(&mut self, inst: &VectorInst, inverted: bool) -> bool {
        let plain = |source: Source| match source {
            Source::Affine(r, stride) => Some((Source::Scalar(r), stride)),
            Source::Scalar(_) | Source::Imm(_) => Some((source, 0)),
            _ => None,
        };
        let (Some((a, stride_of_a)), Some((b, stride_of_b))) =
            (plain(inst.src[0]), plain(inst.src[1]))
        else {
            return false;
        };
        let stride = stride_of_a - stride_of_b;
        let (from, to) = if stride > 0 { (a, b) } else { (b, a) };
        let log = stride.unsigned_abs().trailing_zeros();
        // Strides of lanes that are apart do not wrap around to each other.
        if !stride.unsigned_abs().is_power_of_two() || log > 32 - WARP_LANES.trailing_zeros() {
            return false;
        }
        let (eax, ecx, edx): (X, X, X) =
            (Register::EAX.into(), Register::ECX.into(), Register::EDX.into());
        let distance = self.scalar_copy(to, false, Register::RCX);
        let from = self.scalar_in(from, false, Register::RDX);
        self.a.op(Code::Sub_r32_rm32, &[distance.into(), from.into()]);
        if log > 0 {
            // What is between lanes becomes too large.
            self.a.op(Code::Ror_rm32_imm8, &[ecx, X::I(log as i32)]);
        }
        self.a.op(Code::Mov_r32_imm32, &[eax, X::I(1)]);
        self.a.op(Code::Shl_rm32_CL, &[eax, Register::CL.into()]);
        self.a.op(Code::Cmp_rm32_imm8, &[ecx, X::I(WARP_LANES as i32)]);
        self.a.op(Code::Sbb_r32_rm32, &[edx, edx]);
        self.a.op(Code::And_r32_rm32, &[eax, edx]);
        if inverted {
            self.a.op(Code::Not_rm32, &[eax]);
        }
        true
    }

    /// A slice of an affine value of the lane's number, of 32 bits. Uses RCX.
    fn formula_of_quarter(&mut self, source: Source, slice: usize, to: Register) {
        let first = (slice * SLICE_LANES) as i64;
        let (start, stride, first) = match source {
            Source::Affine(r, stride) => (Source::Scalar(r), stride, first),
            Source::HalfAffine(low, high, stride) => {
                let half = HALF_LANES as i64;
                let start = if first < half { low } else { high };
                (Source::Scalar(start), stride, first % half)
            }
            other => (other, 0, 0),
        };
        let number = self.scalar_in(start, false, Register::RCX);
        self.a.op(Code::VEX_Vmovd_xmm_rm32, &[xmm(to).into(), number.into()]);
        self.a.op(Code::VEX_Vpbroadcastd_ymm_xmmm32, &[to.into(), xmm(to).into()]);
        if stride != 0 {
            let lanes = first..first + SLICE_LANES as i64;
            let steps = lanes.flat_map(|n| (stride.wrapping_mul(n) as u32).to_le_bytes());
            let steps = self.a.constant(&steps.collect::<Vec<_>>());
            self.a.op(Code::VEX_Vpaddd_ymm_ymm_ymmm256, &[to.into(), to.into(), steps.into()]);
        }
    }
}

impl Slice<'_, '_> {
    pub(crate) fn compare(&mut self, inst: &VectorInst, compare: Compare, ty: CompareType) {
        if let CompareType::Float(ty, _) = ty
            && let Some(format) = Format::of(ty)
        {
            let [a, b] =
                [0, 1].map(|n| single_of(self, inst.src[n], 0, (format.brain, HalfBits::All)));
            let made = self.compare_floats(a, b.into(), compare, Width::W32, false);
            return self.put_predicate(inst, 0, made);
        }
        let width = match ty {
            CompareType::Int(ty) => ty.width(),
            CompareType::Float(ty, _) => ty.width(),
        };
        let mut made = [Register::None; 2];
        for (piece, made) in made.iter_mut().enumerate().take(pieces(width)) {
            let formula =
                |n: usize| matches!(inst.src[n], Source::Affine(..) | Source::HalfAffine(..));
            let float = matches!(ty, CompareType::Float(..));
            if float && !formula(0) && !formula(1) {
                let a = self.piece_in(inst.src[0], width, piece);
                let b = self.piece(inst.src[1], width, piece);
                let flush = matches!(ty, CompareType::Float(_, true));
                *made = self.compare_floats(a, b, compare, width, flush);
                continue;
            }
            let [a, b] = [0, 1].map(|n| match formula(n) {
                true => self.formula(inst.src[n], width, piece),
                false => self.piece_in(inst.src[n], width, piece),
            });
            *made = match ty {
                CompareType::Int(ty) => self.compare_integers(a, b, compare, width, ty.signed()),
                CompareType::Float(_, flush) => {
                    self.compare_floats(a, b.into(), compare, width, flush)
                }
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
        b: X,
        compare: Compare,
        width: Width,
        flush: bool,
    ) -> Register {
        let (mut a, mut b) = (a, b);
        if flush && width == Width::W32 {
            let second = match b {
                X::R(register) => register,
                memory => self.copied(memory),
            };
            (a, b) = (self.flushed(a), self.flushed(second).into());
        }
        let code = match width {
            Width::W32 => Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8,
            _ => Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8,
        };
        let to = self.temp();
        self.op(code, &[to.into(), a.into(), b, X::I(float_condition(compare))]);
        to
    }

    pub(crate) fn compare_integers(
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
