//! Asynchronous copies of 16 bytes a lane by a full warp: four lanes' rows that lie one behind the other, a line, are
//! moved by one instruction. Lanes that turn out to lie otherwise are copied one by one.

use crate::asm::assembler::{Label, X, at, repeated};
use crate::avx512::memory::offset_table::{Kind, LINES, ROW_BYTES, distance};
use crate::frame_layout::{A, C, D, K1, K2, SAVED_SCRATCH, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::memory::async_copy::{FROM, MemCopy, TO};
use crate::operands::Value;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::Width;
use simt::ir::vector::{Source, VectorInst};

/// Bytes of a line of four lanes' rows.
const LINE_BYTES: i32 = 4 * ROW_BYTES;

impl Compiler<'_> {
    /// Makes code for such a copy; false if it is none.
    pub(crate) fn copy_lines(&mut self, inst: &VectorInst, copy: MemCopy, back: Label) -> bool {
        let Some((shared, of_source)) = self
            .shape(self.index)
            .and_then(|s| Some((s.shared.as_ref()?, s.shared_of_source.as_ref()?)))
        else {
            return false;
        };
        let lanes = |source: Source| {
            source
                .registers()
                .all(|r| matches!(self.lanes_of(r), Value::Parts(_) | Value::Memory(..)))
        };
        let whole = !self.masked && inst.guard.is_none();
        if !whole || copy.to.offset < 0 || !lanes(inst.src[TO]) {
            return false;
        }
        let kind = Kind::Lines(ROW_BYTES);
        let (to, from) =
            (self.value(inst.src[TO], Width::W32), self.value(inst.src[FROM], Width::W64));
        let apart = self.a.label();
        let (block, index) = (self.block, self.index);
        self.slow_path_to(apart, back, move |c| {
            let f = c.f;
            c.copy_by_lane(&f.blocks[block].insts[index], copy, back);
        });
        let once = of_source.uses == 1;
        self.measured(shared, copy.to, kind, to);
        if !once {
            self.measured(of_source, copy.from, kind, from);
        }
        let kept = at(Register::RSP, SAVED_SCRATCH);
        let to = self.pattern(shared, copy.to, kind, to, apart);
        self.a.op(Code::Mov_rm64_r64, &[kept.into(), C.into()]);
        // Where lines are: their addresses, or how far they are from RCX.
        let (lines, first): ([MemoryOperand; LINES], _) = if once {
            let first = self.check_lines(copy.from, from, apart);
            let lines = std::array::from_fn(|line| distance(first, kind, line));
            (lines, at(A, copy.from.offset))
        } else {
            let first = self.pattern(of_source, copy.from, kind, from, apart);
            let lines = std::array::from_fn(|line| distance(first, kind, line));
            (lines, MemoryOperand::with_base_index(C, A))
        };
        // Loops that copy tile after tile want what is behind the lines next, long before which it
        // is in the second-level cache then.
        let behind = MemoryOperand {
            displacement: first.displacement + i64::from(LINE_BYTES),
            displ_size: 8,
            ..first
        };
        self.a.op(Code::Mov_r64_rm64, &[D.into(), kept.into()]);
        for (line, z) in (0..LINES).zip([Z0, Z1, Z2, Z3].into_iter().cycle()) {
            let [load, store] =
                [Code::EVEX_Vmovdqu32_zmm_k1z_zmmm512, Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm];
            self.a.op(Code::Mov_r64_rm64, &[A.into(), lines[line].into()]);
            self.a.op(load, &[z.into(), first.into()]);
            self.a.op(Code::Prefetcht1_m8, &[behind.into()]);
            self.a.op(Code::Mov_r64_rm64, &[A.into(), distance(to, kind, line).into()]);
            self.a.op(store, &[MemoryOperand::with_base_index(D, A).into(), z.into()]);
        }
        true
    }

    /// Clears the zero flag if there are less than all bytes for some lane that runs a copy.
    pub(crate) fn find_missing(&mut self, inst: &VectorInst, valid: Source, all: u32) {
        let value = self.value(valid, Width::W32);
        let some = self.masked || inst.guard.is_some();
        if some {
            self.activate(inst.guard);
        }
        let all = repeated(self.a.constant(&all.to_le_bytes()));
        for (part, found) in [(0, K1), (1, K2)] {
            let register = self.part_in(value, part, Width::W32, Z0);
            let below = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
            let mask = some.then(|| self.active(part, Width::W32));
            let made = self.a.op(below, &[found.into(), register.into(), all.into(), X::I(1)]);
            if let Some(k) = mask {
                made.set_op_mask(k);
            }
        }
        self.a.op(Code::VEX_Kortestw_kr_kr, &[K1.into(), K2.into()]);
    }
}
