//! Loads with a run-time count of valid bytes (zero-filling `cp.async`): native where every lane
//! loads all of them, or none.

use crate::asm::assembler::{X, repeated};
use crate::frame_layout::{K1, K2, Z0};
use crate::function::Compiler;
use iced_x86::Code;
use simt::ir::op::{Access, Op, Width};
use simt::ir::vector::{Source, VectorInst};

impl Compiler<'_> {
    /// Makes code for such a load; false if there is none. Lanes of which some bytes are missing
    /// are for the interpreter handlers.
    pub(crate) fn load_prefix(&mut self, inst: &VectorInst, access: Access) -> bool {
        let whole =
            VectorInst { op: Op::Load(access), src: inst.src[..2].to_vec(), ..inst.clone() };
        if inst.uniform || matches!(inst.src[2], Source::HalfAffine(..) | Source::Mask(_)) {
            return false;
        }
        let known = match inst.src[2] {
            Source::Vector(_) => Some(self.value(inst.src[2], Width::W32)),
            _ => None,
        };
        let back = self.a.label();
        let slow = self.interpreter_path(back);
        let some = self.masked || inst.guard.is_some();
        if some {
            self.activate(inst.guard);
        }
        let all = u32::from(access.bytes) * u32::from(access.count);
        let all = repeated(self.a.constant(&all.to_le_bytes()));
        for (part, found) in [(0, K1), (1, K2)] {
            let register = match known {
                Some(bytes) => self.part_in(bytes, part, Width::W32, Z0),
                None => self.formula(inst.src[2], part, Width::W32, Z0),
            };
            let below = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
            let mask = some.then(|| self.active(part, Width::W32));
            let made = self.a.op(below, &[found.into(), register.into(), all.into(), X::I(1)]);
            if let Some(k) = mask {
                made.set_op_mask(k);
            }
        }
        self.a.op(Code::VEX_Kortestw_kr_kr, &[K1.into(), K2.into()]);
        self.a.jump(Code::Jne_rel32_64, slow);
        if !self.memory(&whole) {
            self.interpreted_at.insert((self.block, self.index, self.masked));
            self.call_interpreter(self.block, self.index);
        }
        self.a.bind(back);
        true
    }
}
