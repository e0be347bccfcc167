//! Asynchronous copies with a run-time count of valid bytes, between regions: whether every lane has all
//! of them.

use crate::asm::assembler::at;
use crate::avx2::layout::SLICES;
use crate::avx2::whole_warp::RUNNING;
use crate::frame_layout::LANE_VALUES;
use crate::function::Compiler;
use crate::memory::lane_loop::Slot;
use iced_x86::{Code, Register};
use simt::ir::op::Width;
use simt::ir::vector::{Source, VectorInst};

impl Compiler<'_> {
    /// Clears the zero flag if there are less than all bytes for some lane that runs a copy.
    pub(crate) fn find_missing_in_file(&mut self, inst: &VectorInst, valid: Source, all: u32) {
        let some = self.masked || inst.guard.is_some();
        let bytes = self.source_slots(valid, Width::W32, LANE_VALUES);
        if some {
            self.spread_bits(inst);
        }
        let all = self.a.constant(&all.to_le_bytes().repeat(8));
        let [missing, number]: [Register; 2] = [Register::YMM0, Register::YMM1];
        let xor = Code::VEX_Vpxor_ymm_ymm_ymmm256;
        self.a.op(xor, &[missing.into(), missing.into(), missing.into()]);
        for slice in 0..SLICES {
            match bytes {
                Slot::One(memory) => {
                    let spread = Code::VEX_Vpbroadcastd_ymm_xmmm32;
                    self.a.op(spread, &[number.into(), memory.into()]);
                }
                Slot::Lanes(base, offset) => {
                    let memory = at(base, offset + 32 * slice as i32);
                    self.a.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[number.into(), memory.into()]);
                }
            }
            // The smaller of the two is what there should be, or less.
            self.a
                .op(Code::VEX_Vpminud_ymm_ymm_ymmm256, &[number.into(), number.into(), all.into()]);
            self.a.op(xor, &[number.into(), number.into(), all.into()]);
            if some {
                self.mask_of_piece(Width::W32, slice);
                let and = Code::VEX_Vpand_ymm_ymm_ymmm256;
                self.a.op(and, &[number.into(), number.into(), RUNNING.into()]);
            }
            let or = Code::VEX_Vpor_ymm_ymm_ymmm256;
            self.a.op(or, &[missing.into(), missing.into(), number.into()]);
        }
        self.a.op(Code::VEX_Vptest_ymm_ymmm256, &[missing.into(), missing.into()]);
    }
}
