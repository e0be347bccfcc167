//! Stores by which each quad of lanes writes a row of a product, two elements of 32 bits a lane,
//! with AVX-512.
//!
//! Deliberately absent: warps that are not whole. Their decoded form runs.

use crate::Flavour;
use crate::access::{Address, Plan};
use crate::assembler::{X, at};
use crate::cold::Cold;
use crate::compiler::Compiler;
use crate::frame::{C, Z0, Z1, Z2};
use crate::turnwise::Turn;
use crate::value::Value;
use iced_x86::Code;
use simt::op::{Access, Width};
use simt::vector::{Source, VectorInst};

impl Compiler<'_> {
    /// True if there is code for a store of rows.
    fn writes_rows(&self, inst: &VectorInst, plan: Plan) -> bool {
        let Access { bytes: 4, count: 2, width: Width::W32, .. } = plan.access else {
            return false;
        };
        let plain = |s: &Source| matches!(s, Source::Vector(_));
        let global = plan.wide && !plan.shared && plan.write && plan.offset % plan.total == 0;
        let lanes = inst.src[0]
            .registers()
            .all(|r| matches!(self.lanes_of(r), Value::Parts(_) | Value::Memory(..)));
        inst.guard.is_none()
            && global
            && lanes
            && plain(&inst.src[0])
            && inst.src[2..].iter().all(plain)
    }

    /// Makes code for a store of two elements of 32 bits a lane by which each quad writes a row of
    /// a product; false if it is no such store. Lanes that turn out to be apart are elsewhere.
    pub(crate) fn store_results(&mut self, inst: &VectorInst, plan: Plan) -> bool {
        let whole = self.flavour == Flavour::Avx512 && !self.masked;
        if !whole || !self.writes_rows(inst, plan) {
            return false;
        }
        let address = Address::Lanes(self.value(inst.src[0], Width::W64));
        let back = self.a.label();
        let (block, index) = (self.block, self.index);
        let slow = self.aside(back);
        let apart = self.a.label();
        self.cold.push(Cold::Apart { label: apart, back, block, index });
        self.differ_in_quads(address, Width::W64, plan.total);
        self.a.jump(Code::Jne_rel32_64, apart);
        self.check_lanes(inst, plan, address, slow);
        let to = self.address_slots(plan, address);
        let values = [2, 3].map(|n| self.value(inst.src[n], Width::W32));
        for eight in 0..4 {
            let part = eight / 2;
            let first = self.part_in(values[0], part, Width::W32, Z0);
            let second = self.part_in(values[1], part, Width::W32, Z1);
            let picks = (0..16).map(|n| 8 * (eight % 2) + n / 2 + 16 * (n % 2));
            self.load_picks(Width::W32, Z2, picks);
            let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
            self.a.op(pick, &[Z2.into(), first.into(), second.into()]);
            for quad in 0..2 {
                let number = to.of(Turn::Number(8 * eight + 4 * quad), 8);
                self.a.op(Code::Mov_r64_rm64, &[C.into(), number.into()]);
                let store = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
                let row = at(C, plan.offset);
                self.a.op(store, &[row.into(), Z2.into(), X::I(quad as i32)]);
            }
        }
        self.a.bind(back);
        true
    }
}
