//! Comparisons of integers with AVX2: on the lanes of a slice, where predicates are masks of 32 bits a
//! lane, and of affine values outside of regions, where predicates are bits.

use crate::asm::assembler::X;
use crate::avx2::layout::{SLICE_LANES, SLICES};
use crate::avx2::slice::{Slice, xmm};
use crate::function::Compiler;
use iced_x86::{Code, Register};
use simt::ir::op::{Compare, CompareType, Width};
use simt::ir::vector::{Source, VectorInst};
use simt::kernel::WARP_LANES;
use simt::launch_shape::HALF_LANES;

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
    /// Lanes of integers that compare so, in a register of their own.
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
