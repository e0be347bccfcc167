//! Accumulator stores: each quad of lanes writes a row of a product, two 32-bit elements a lane, by
//! one shared routine.
//!
//! Deliberately absent: warps that are not whole. Their lanes go one by one.

use crate::asm::assembler::{X, at};
use crate::avx512::matrix::Routine;
use crate::avx512::memory::offset_table::{Kind, LINES, distance};
use crate::frame_layout::{A, C, D, Z0, Z1, Z2};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::memory::access::MemAccess;
use crate::operands::{Value, move_code};
use iced_x86::{Code, MemoryOperand};
use simt::ir::op::{Access, Width};
use simt::ir::vector::{Source, VectorInst};

impl Compiler<'_> {
    /// True if there is code for a store of rows.
    fn writes_rows(&self, inst: &VectorInst, mem: MemAccess) -> bool {
        let Access { bytes: 4, count: 2, width: Width::W32, .. } = mem.access else {
            return false;
        };
        let plain = |s: &Source| matches!(s, Source::Vector(_));
        let global = mem.wide && !mem.shared && mem.write && mem.offset % mem.total == 0;
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
    pub(crate) fn store_results(&mut self, inst: &VectorInst, mem: MemAccess) -> bool {
        let whole = self.isa == SimdIsa::Avx512 && !self.masked;
        if !whole || !self.writes_rows(inst, mem) {
            return false;
        }
        let address = self.value(inst.src[0], Width::W64);
        let (back, apart) = (self.a.label(), self.a.label());
        let kind = Kind::Lines(mem.total);
        let Some(shared) = self.shared(self.index) else { return false };
        let lines = self.pattern(shared, mem, kind, address, apart);
        self.scattered_path(apart, back);
        let values = [2, 3].map(|n| self.value(inst.src[n], Width::W32));
        for part in 0..2 {
            for (value, to) in values.into_iter().zip([Z0, Z1]) {
                let from = self.part_in(value, part, Width::W32, to);
                if from != to {
                    self.a.op(move_code(Width::W32), &[to.into(), from.into()]);
                }
            }
            let first = distance(lines, kind, LINES / 2 * part);
            self.a.op(Code::Lea_r64_m, &[A.into(), first.into()]);
            self.call(Routine::StoreLines);
        }
        self.a.bind(back);
        true
    }

    /// The code that stores half of the lines, of two elements a lane: the first ones are in Z0, the
    /// second ones in Z1, the distances of the lines from RCX at RAX.
    pub(crate) fn store_four_lines(&mut self) {
        for pair in 0..2 {
            let picks = (0..16).map(|n| 8 * pair + n / 2 + 16 * (n % 2));
            self.load_picks(Width::W32, Z2, picks);
            let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
            self.a.op(pick, &[Z2.into(), Z0.into(), Z1.into()]);
            for line in 0..2 {
                let number = at(A, 8 * (2 * pair + line) as i32);
                self.a.op(Code::Mov_r64_rm64, &[D.into(), number.into()]);
                let store = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
                let row = MemoryOperand::with_base_index(C, D);
                self.a.op(store, &[row.into(), Z2.into(), X::I(line as i32)]);
            }
        }
    }
}
