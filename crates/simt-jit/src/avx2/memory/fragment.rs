//! Tiles of fragments whose lines are dealt to every fourth lane, with AVX2: four lines at a time are loaded and turned
//! into the register file.

use crate::asm::assembler::at;
use crate::avx2::slice::xmm;
use crate::frame_layout::{C, FILE};
use crate::function::Compiler;
use iced_x86::{Code, Register};
use simt::ir::op::Width;
use simt::ir::op::fragment::{Layout, Tile};
use simt::ir::vector::VectorInst;

impl Compiler<'_> {
    /// Makes code for the load of such a tile by a full warp; false if it is none.
    pub(crate) fn load_turned_tile(
        &mut self,
        inst: &VectorInst,
        layout: &Layout,
        tile: &Tile,
    ) -> bool {
        if layout.four_places || layout.width != Width::W32 || layout.pieces > 2 {
            return false;
        }
        let place = self.layout.place(inst.dst[tile.register].reg.index());
        let start = place.vector.unwrap_or(0) as i32;
        let low = |n: usize| xmm(Register::YMM0 + n as u32);
        for half in 0..2 {
            self.start_tile(tile);
            // Four places' elements of the lines of four lanes.
            let first = at(C, (4 * layout.place_bytes) as i32 * half);
            for line in 0..4 {
                let to = low(line);
                if layout.pieces == 1 {
                    self.a.op(Code::VEX_Vmovdqu_xmm_xmmm128, &[to.into(), first.into()]);
                } else {
                    self.a.op(Code::VEX_Vmovq_xmm_xmmm64, &[to.into(), first.into()]);
                    self.next_line(1);
                    self.a.op(Code::VEX_Vmovq_xmm_xmmm64, &[low(4).into(), first.into()]);
                    let join = Code::VEX_Vpunpcklwd_xmm_xmm_xmmm128;
                    self.a.op(join, &[to.into(), to.into(), low(4).into()]);
                }
                if line < 3 {
                    self.next_line(layout.line_step + 1 - layout.pieces);
                }
            }
            let singles =
                [Code::VEX_Vunpcklps_xmm_xmm_xmmm128, Code::VEX_Vunpckhps_xmm_xmm_xmmm128];
            let doubles =
                [Code::VEX_Vunpcklpd_xmm_xmm_xmmm128, Code::VEX_Vunpckhpd_xmm_xmm_xmmm128];
            for (upper, single) in singles.into_iter().enumerate() {
                for (to, from) in [(4, 0), (5, 2)] {
                    self.a.op(single, &[low(to).into(), low(from).into(), low(from + 1).into()]);
                }
                for (n, double) in doubles.into_iter().enumerate() {
                    self.a.op(double, &[low(6).into(), low(4).into(), low(5).into()]);
                    let row = 4 * half + 2 * upper as i32 + n as i32;
                    let to = at(FILE, start + 16 * row);
                    self.a.op(Code::VEX_Vmovdqu_xmmm128_xmm, &[to.into(), low(6).into()]);
                }
            }
        }
        true
    }
}
