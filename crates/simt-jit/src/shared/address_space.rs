//! `isspacep`: the state space of generic addresses.

use crate::asm::assembler::{X, repeated};
use crate::frame_layout::{K1, K2, PREDICATE, Z0};
use crate::function::Compiler;
use crate::regalloc::allocate::parts;
use crate::scalar::integer::window;
use iced_x86::{Code, Register};
use simt::ir::op::{Space, Width};
use simt::ir::vector::{SHARED_WINDOW, Source, VectorInst, WINDOW_BYTES, WINDOWS_END};

impl Compiler<'_> {
    /// `isspacep`; false for constant banks, whose places are the launch's business.
    pub(crate) fn in_space(&mut self, inst: &VectorInst, space: Option<Space>) -> bool {
        let Some(space) = space else { return false };
        // Inside of its window; device memory is outside of all.
        let (start, bytes, inside) = match window(space) {
            Some(start) => (start, WINDOW_BYTES, true),
            None => (SHARED_WINDOW, WINDOWS_END - SHARED_WINDOW, false),
        };
        let known = match inst.src[0] {
            Source::Imm(_) | Source::Mask(_) => return false,
            Source::Vector(_) => Some(self.value(inst.src[0], Width::W64)),
            _ => None,
        };
        self.in_pair = None;
        let [low, high] = PREDICATE;
        let [start, bytes] =
            [start, bytes].map(|number| repeated(self.a.constant(&number.to_le_bytes())));
        let condition = X::I(if inside { 1 } else { 5 });
        for (part, target) in [low, K1, high, K2].into_iter().enumerate().take(parts(Width::W64)) {
            let register = match known {
                Some(value) => self.part_in(value, part, Width::W64, Z0),
                None => self.formula(inst.src[0], part, Width::W64, Z0),
            };
            let subtract = Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64;
            self.a.op(subtract, &[Z0.into(), register.into(), start.into()]);
            let compare = Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8;
            self.a.op(compare, &[target.into(), Z0.into(), bytes.into(), condition]);
        }
        self.a.op(Code::VEX_Kunpckbw_kr_kr_kr, &[low.into(), K1.into(), low.into()]);
        self.a.op(Code::VEX_Kunpckbw_kr_kr_kr, &[high.into(), K2.into(), high.into()]);
        self.a.op(Code::VEX_Kunpckwd_kr_kr_kr, &[K1.into(), high.into(), low.into()]);
        self.a.op(Code::VEX_Kmovd_r32_kr, &[Register::EAX.into(), K1.into()]);
        self.store_predicate(inst, 0);
        true
    }
}
