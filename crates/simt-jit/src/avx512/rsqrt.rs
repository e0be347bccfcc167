//! `rsqrt.approx`: the processor's estimate and one Newton step, as the interpreter's
//! `rsqrt_estimate`, operation by operation, for the same bits.
//!
//! There is no case to distinguish. Of zero and infinity the estimate is the result; their product with
//! it is the processor's own NaN, which without a unit of its exponent is a number, far below zero.
//! Times the estimate's magnitude it takes the estimate to where it is. Negative arguments and NaNs
//! have a NaN for an estimate, and subnormal ones are arguments like others.

use crate::asm::assembler::{X, repeated};
use crate::frame_layout::{Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::operands::{Place, Value};
use iced_x86::{Code, Register};
use simt::ir::op::{FloatMode, Width};
use simt::ir::vector::VectorInst;

/// A part: where its result goes, which may be where the argument is, its argument, and two registers
/// for what comes between.
pub(crate) type Root = (Register, X, Register, Register);

impl Compiler<'_> {
    /// `rsqrt` by the estimate, of a result that is taken as it is; false if it is not.
    pub(crate) fn simple_roots(&mut self, inst: &VectorInst, mode: FloatMode) -> bool {
        let canonical = !self.nan_deferred[inst.dst[0].reg.index()];
        if canonical || mode.ftz || mode.sat {
            return false;
        }
        let argument = self.value(inst.src[0], Width::W32);
        let place = self.dest(inst, &inst.dst[0]);
        self.estimated_roots(argument, &place)
    }

    /// All lanes of a register, one step for one part after the other: each waits for the one before.
    /// False if there is no place where a result may be made.
    fn estimated_roots(&mut self, argument: Value, place: &Place) -> bool {
        let (Some(low), Some(high)) = (self.target(place, 0), self.target(place, 1)) else {
            return false;
        };
        let [first, second] = [0, 1].map(|part| self.part(argument, part));
        self.estimated_root([(low, first, Z0, Z2), (high, second, Z1, Z3)]);
        true
    }

    /// Parts of f32 lanes.
    pub(crate) fn estimated_root<const N: usize>(&mut self, parts: [Root; N]) {
        let [unit, magnitude] =
            [1u32 << 23, 0x7fff_ffff].map(|bits| repeated(self.a.constant(&bits.to_le_bytes())));
        let half = repeated(self.a.constant(&0.5f32.to_le_bytes()));
        let multiply = Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er;
        let multiply_add = Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er;
        let subtract_from = Code::EVEX_Vfnmadd213ps_zmm_k1z_zmm_zmmm512b32_er;
        for (_, x, y, _) in parts {
            self.a.op(Code::EVEX_Vrsqrt14ps_zmm_k1z_zmmm512b32, &[y.into(), x]);
        }
        for (_, x, y, product) in parts {
            self.a.op(multiply, &[product.into(), y.into(), x]);
        }
        // From here on the argument is not needed.
        for (to, _, y, _) in parts {
            self.a.op(
                Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
                &[to.into(), y.into(), magnitude.into()],
            );
        }
        for (_, _, _, product) in parts {
            self.a.op(
                Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
                &[product.into(), product.into(), unit.into()],
            );
        }
        for (to, _, _, product) in parts {
            self.a.op(subtract_from, &[to.into(), product.into(), half.into()]);
        }
        for (to, _, y, _) in parts {
            self.a.op(multiply_add, &[to.into(), y.into(), y.into()]);
        }
    }
}
