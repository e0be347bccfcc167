//! Vector loads and stores of two or four elements a lane: whole rows move and are transposed in
//! registers.

use crate::asm::assembler::X;
use crate::avx2::layout::SLICE_LANES;
use crate::avx2::memory::address_mode::AddressMode;
use crate::avx2::slice::{Slice, pieces, xmm};
use crate::memory::access::MemAccess;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::Width;
use simt::ir::vector::VectorInst;

const LOW_SINGLES: Code = Code::VEX_Vunpcklps_ymm_ymm_ymmm256;
const HIGH_SINGLES: Code = Code::VEX_Vunpckhps_ymm_ymm_ymmm256;
const LOW_DOUBLES: Code = Code::VEX_Vunpcklpd_ymm_ymm_ymmm256;
const HIGH_DOUBLES: Code = Code::VEX_Vunpckhpd_ymm_ymm_ymmm256;

/// Elements of a lane that are moved together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    /// Two of 32 bits.
    Pair,
    /// Four of 32 bits.
    Four,
    /// Two of 64 bits.
    WidePair,
}

fn row(mem: MemAccess, address_mode: AddressMode) -> Option<Row> {
    let access = mem.access;
    if matches!(address_mode, AddressMode::Formula { stride: 0, .. }) {
        return None;
    }
    match (access.count, access.bytes, access.width) {
        (2, 4, Width::W32) => Some(Row::Pair),
        (4, 4, Width::W32) => Some(Row::Four),
        (2, 8, Width::W64) => Some(Row::WidePair),
        _ => None,
    }
}

impl Slice<'_, '_> {
    /// Makes a load or store of rows; false if it is none.
    pub(crate) fn move_rows(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address_mode: AddressMode,
    ) -> bool {
        let Some(row) = row(mem, address_mode) else { return false };
        for piece in 0..pieces(mem.access.width) {
            let first = piece * SLICE_LANES / pieces(mem.access.width);
            match (mem.write, row) {
                (false, Row::Pair) => self.load_pairs(inst, mem, address_mode),
                (true, Row::Pair) => self.store_pairs(inst, mem, address_mode),
                (false, _) => self.load_whole_rows(inst, mem, address_mode, first, row),
                (true, _) => self.store_whole_rows(inst, mem, address_mode, first),
            }
        }
        true
    }

    /// A lane's elements in memory.
    fn row_of(&mut self, mem: MemAccess, address_mode: AddressMode, lane: usize) -> MemoryOperand {
        self.memory_of_lane(mem, address_mode, lane, Self::rest(mem, address_mode, 0))
    }

    fn binary_of(&mut self, code: Code, a: Register, b: Register) -> Register {
        let to = self.temp();
        self.op(code, &[to.into(), a.into(), b.into()]);
        to
    }

    /// Registers of which the nth has the nth elements of each of those given, by halves: two of 64
    /// bits, or four of 32. If they are `spent`, those given are dead.
    fn turned(&mut self, given: &[Register], spent: bool) -> Vec<Register> {
        let mut both = |codes: [Code; 2], a: Register, b: Register, spent: bool| {
            let made = codes.map(|code| self.binary_of(code, a, b));
            if spent {
                [a, b].into_iter().for_each(|r| self.free(r));
            }
            made
        };
        let (singles, doubles) = ([LOW_SINGLES, HIGH_SINGLES], [LOW_DOUBLES, HIGH_DOUBLES]);
        let Some((&[a, b], rest)) = given.split_first_chunk() else { return Vec::new() };
        let Some(&[c, d]) = rest.first_chunk() else { return both(doubles, a, b, spent).into() };
        let [ab, cd] = [(a, b), (c, d)].map(|(a, b)| both(singles, a, b, spent));
        std::iter::zip(ab, cd).flat_map(|(a, b)| both(doubles, a, b, true)).collect()
    }

    /// Rows of 16 bytes, of lanes in the lower half and of the others in the upper one.
    fn load_whole_rows(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address_mode: AddressMode,
        first: usize,
        row: Row,
    ) {
        let count = if row == Row::Four { 4 } else { 2 };
        let rows: Vec<Register> = (0..count).map(|_| self.temp()).collect();
        for (n, to) in rows.iter().enumerate() {
            let low = self.row_of(mem, address_mode, first + n);
            self.op(Code::VEX_Vmovdqu_xmm_xmmm128, &[xmm(*to).into(), low.into()]);
            let high = self.row_of(mem, address_mode, first + count + n);
            let insert = Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8;
            self.op(insert, &[(*to).into(), (*to).into(), high.into(), X::I(1)]);
        }
        let made = self.turned(&rows, true);
        let piece = first * pieces(mem.access.width) / SLICE_LANES;
        for (element, made) in made.into_iter().enumerate() {
            self.put(inst, element, piece, made);
        }
    }

    fn store_whole_rows(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address_mode: AddressMode,
        first: usize,
    ) {
        let width = mem.access.width;
        let piece = first * pieces(width) / SLICE_LANES;
        let count = usize::from(mem.access.count);
        let elements: Vec<Register> =
            (0..count).map(|n| self.piece_in(inst.src[2 + n], width, piece)).collect();
        let rows = self.turned(&elements, false);
        // In the order of the lanes: of two at one address the last one's stays.
        for (n, row) in rows.iter().enumerate() {
            let to = self.row_of(mem, address_mode, first + n);
            self.op(Code::VEX_Vmovdqu_xmmm128_xmm, &[to.into(), xmm(*row).into()]);
        }
        for (n, row) in rows.iter().enumerate() {
            let to = self.row_of(mem, address_mode, first + count + n);
            let extract = Code::VEX_Vextracti128_xmmm128_ymm_imm8;
            self.op(extract, &[to.into(), (*row).into(), X::I(1)]);
        }
    }

    /// Pairs of neighbouring lanes are 16 bytes.
    fn are_neighbours(mem: MemAccess, address_mode: AddressMode) -> bool {
        matches!(address_mode, AddressMode::Formula { stride, .. } if stride == mem.total)
    }

    /// Two lanes' pairs, from `lane` on, in 16 bytes.
    fn load_two(&mut self, mem: MemAccess, address_mode: AddressMode, lane: usize, to: Register) {
        let to: X = xmm(to).into();
        let first = self.row_of(mem, address_mode, lane);
        if Self::are_neighbours(mem, address_mode) {
            self.op(Code::VEX_Vmovdqu_xmm_xmmm128, &[to, first.into()]);
            return;
        }
        self.op(Code::VEX_Vmovq_xmm_xmmm64, &[to, first.into()]);
        let second = self.row_of(mem, address_mode, lane + 1);
        self.op(Code::VEX_Vmovhps_xmm_xmm_m64, &[to, to, second.into()]);
    }

    fn load_pairs(&mut self, inst: &VectorInst, mem: MemAccess, address_mode: AddressMode) {
        let rows = [0, 2].map(|lane| {
            let to = self.temp();
            self.load_two(mem, address_mode, lane, to);
            let insert = Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8;
            if Self::are_neighbours(mem, address_mode) {
                let upper = self.row_of(mem, address_mode, lane + 4);
                self.op(insert, &[to.into(), to.into(), upper.into(), X::I(1)]);
            } else {
                let upper = self.temp();
                self.load_two(mem, address_mode, lane + 4, upper);
                self.op(insert, &[to.into(), to.into(), xmm(upper).into(), X::I(1)]);
                self.free(upper);
            }
            to
        });
        for (element, which) in [0x88, 0xdd].into_iter().enumerate() {
            let to = self.temp();
            let which = X::I(i32::from(which as u8 as i8));
            let shuffle = Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8;
            self.op(shuffle, &[to.into(), rows[0].into(), rows[1].into(), which]);
            self.put(inst, element, 0, to);
        }
    }

    fn store_pairs(&mut self, inst: &VectorInst, mem: MemAccess, address_mode: AddressMode) {
        let [x, y] = [2, 3].map(|n| self.piece_in(inst.src[n], Width::W32, 0));
        let rows = [LOW_SINGLES, HIGH_SINGLES].map(|code| self.binary_of(code, x, y));
        for half in 0..2 {
            for (n, row) in rows.into_iter().enumerate() {
                let lane = 4 * half + 2 * n;
                let two = self.half_of(row, half);
                let first = self.row_of(mem, address_mode, lane);
                if Self::are_neighbours(mem, address_mode) {
                    self.op(Code::VEX_Vmovdqu_xmmm128_xmm, &[first.into(), two.into()]);
                    continue;
                }
                self.op(Code::VEX_Vmovlps_m64_xmm, &[first.into(), two.into()]);
                let second = self.row_of(mem, address_mode, lane + 1);
                self.op(Code::VEX_Vmovhps_m64_xmm, &[second.into(), two.into()]);
            }
        }
    }
}
