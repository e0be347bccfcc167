//! `ldmatrix`, `stmatrix`, `movmatrix`.
//!
//! Rows lie where their lanes' addresses say: all are checked at once (`offset_table`), then each is
//! moved by an instruction of its own. Part `p` of the register that matrix `m` is in has its rows `4 p` to
//! `4 p + 3`.
//!
//! Deliberately absent: warps that are not whole, and generic addresses. They run in the interpreter.

use crate::asm::assembler::{Label, X, at};
use crate::avx512::matrix::Routine;
use crate::avx512::memory::offset_table::{Kind, ROW_BYTES, distance, pattern_at};
use crate::frame_layout::{A, C, D, FragmentOrder, K1, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::memory::access::{Address, MemAccess};
use crate::operands::{Place, Value, move_code, store_code, xmm, ymm};
use crate::regalloc::allocate::parts;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{Access, Space, Width};
use simt::ir::vector::{Source, VectorInst};

/// Rows of a matrix.
const PACKED_A: usize = 8;

/// Moves a row between memory and the low bytes of a vector register.
const LOAD: Code = Code::EVEX_Vmovdqu32_xmm_k1z_xmmm128;
const STORE: Code = Code::EVEX_Vmovdqu32_xmmm128_k1z_xmm;

/// What pairs of rows are loaded into, what whole matrices are in then, and turned ones.
const PAIRS: [Register; 4] = [Z0, Z1, Z2, Z3];
const LOADED: [Register; 2] = [Z0, Z1];
const TURNED: [Register; 2] = [Z2, Z3];

/// A load of a matrix whose rows may be anywhere in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowLoad {
    pub(crate) transpose: bool,
    pub(crate) order: FragmentOrder,
}

impl RowLoad {
    /// True if rows are moved as they are.
    fn is_plain(self) -> bool {
        !self.transpose && self.order == FragmentOrder::Lanes
    }
}

impl Compiler<'_> {
    /// Rows in shared memory as an access of 16 bytes a lane; `None` if there is no code for it.
    pub(crate) fn rows(&self, inst: &VectorInst, space: Space, write: bool) -> Option<MemAccess> {
        let (Source::Vector(address), Source::Imm(offset)) = (inst.src[0], inst.src[1]) else {
            return None;
        };
        let offset = i32::try_from(offset as i64).ok()?;
        // The checks compare numbers of 32 bits.
        if self.f.classes[address.index()].width() != Some(Width::W32) {
            return None;
        }
        let whole = !self.masked && inst.guard.is_none();
        let kept = inst.dst.iter().all(|d| d.reg != address);
        let lanes = matches!(self.lanes_of(address), Value::Parts(_) | Value::Memory(..));
        let known = space == Space::Shared && offset >= 0 && offset % ROW_BYTES == 0;
        if !(whole && kept && known && lanes && self.has_lane_results(inst)) {
            return None;
        }
        let (bytes, count, width) = (4, 4, Width::W32);
        let access = Access { space, bytes, signed: false, count, width, volatile: false };
        let (shared, local, wide) = (true, false, false);
        let (total, before, site) = (ROW_BYTES, 0, 0);
        Some(MemAccess { access, write, shared, local, total, offset, before, wide, site })
    }

    /// Checks the rows of `count` lanes. What they are counted from is in RCX then, as a pointer;
    /// gives back where their distances from that are on the stack.
    fn checked_rows(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        lanes: usize,
        slow: Label,
    ) -> i32 {
        let address = self.value(inst.src[0], Width::W32);
        // A pattern that nothing else has is not worth to be measured.
        if let Some(shared) = self.shared(self.index)
            && (shared.uses > 1 || lanes < 32)
        {
            return self.pattern(shared, mem, Kind::Rows(lanes), address, slow);
        }
        self.check_lanes(inst, mem, Address::Lanes(address), slow);
        let distances = pattern_at(self.pattern_slot(), 0);
        for part in 0..2 {
            let from = self.part_in(address, part, Width::W32, Z0);
            let to = at(Register::RSP, distances + 64 * part as i32);
            self.a.op(store_code(Width::W32), &[to.into(), from.into()]);
        }
        self.a.op(Code::Lea_r64_m, &[C.into(), at(D, mem.offset).into()]);
        distances
    }

    /// Makes code for a load of matrices; false if there is none.
    pub(crate) fn load_matrix(&mut self, inst: &VectorInst, space: Space, transpose: bool) -> bool {
        let Some(mem) = self.rows(inst, space, false) else { return false };
        let back = self.a.label();
        let slow = self.interpreter_path(back);
        let late = self.late_slot(inst);
        if let Some(slot) = late {
            self.say_loaded(slot);
        }
        let distances = self.checked_rows(inst, mem, PACKED_A * inst.dst.len(), slow);
        if let Some(slot) = late {
            self.say_late(slot);
            self.a.bind(back);
            self.load_later(inst, slot, distances, transpose);
            return true;
        }
        self.a.op(Code::Mov_r64_rm64, &[D.into(), C.into()]);
        for (matrix, d) in inst.dst.iter().enumerate() {
            let place = self.dest(inst, d);
            let load = RowLoad { transpose, order: self.order_of(d.reg) };
            self.load_rows_of(load, distances, matrix);
            self.put_rows(&place, load);
        }
        self.a.bind(back);
        true
    }

    /// Loads a matrix, whose rows are at distances from RDX that are on the stack.
    pub(crate) fn load_rows_of(&mut self, load: RowLoad, distances: i32, matrix: usize) {
        let first = distance(distances, Kind::Rows(32), PACKED_A * matrix);
        self.a.op(Code::Lea_r64_m, &[A.into(), first.into()]);
        self.call(Routine::LoadRows(load));
    }

    /// The code that loads a matrix: with the distance of its first row at RAX, from RDX. Two rows
    /// are in the low half of each of four registers then, which is quicker than four rows in one
    /// where a register of 512 bits is two; or the whole matrix is in its order in [`LOADED`], turned
    /// in [`TURNED`].
    pub(crate) fn load_rows(&mut self, load: RowLoad) {
        let columns = !load.transpose && load.order == FragmentOrder::Columns;
        let rows = if columns { [0, 2, 4, 6, 1, 3, 5, 7] } else { [0, 1, 2, 3, 4, 5, 6, 7] };
        for (n, row) in rows.into_iter().enumerate() {
            let to = PAIRS[n / 2];
            self.a.op(Code::Mov_r32_rm32, &[Register::ECX.into(), at(A, 4 * row).into()]);
            let from = MemoryOperand::with_base_index(D, C);
            if n % 2 == 0 {
                self.a.op(LOAD, &[xmm(to).into(), from.into()]);
            } else {
                let insert = Code::EVEX_Vinserti32x4_ymm_k1z_ymm_xmmm128_imm8;
                self.a.op(insert, &[ymm(to).into(), ymm(to).into(), from.into(), X::I(1)]);
            }
        }
        if columns {
            // A register has every other row: the first 32 bits of all, then the second ones.
            self.join_pairs();
            self.load_picks(Width::W32, Z2, (0..16).map(|n| 4 * (n % 4) + n / 4));
            for part in LOADED {
                let pick = Code::EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32;
                self.a.op(pick, &[part.into(), Z2.into(), part.into()]);
            }
        } else if load.transpose {
            self.join_pairs();
            self.transposed(LOADED, load.order);
        }
    }

    /// Makes the two parts of a matrix of what was loaded in pairs.
    fn join_pairs(&mut self) {
        for (pair, to) in PAIRS.chunks(2).zip(LOADED) {
            let join = Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8;
            self.a.op(join, &[to.into(), pair[0].into(), ymm(pair[1]).into(), X::I(1)]);
        }
    }

    /// Puts a matrix that [`Self::load_rows`] has loaded where it belongs.
    pub(crate) fn put_rows(&mut self, place: &Place, load: RowLoad) {
        if let (true, Some(Value::Memory(base, offset))) = (load.is_plain(), place.whole()) {
            for (pair, from) in (0..).zip(PAIRS) {
                let to = at(base, offset + 2 * ROW_BYTES * pair);
                let store = Code::EVEX_Vmovdqu32_ymmm256_k1z_ymm;
                self.a.op(store, &[to.into(), ymm(from).into()]);
            }
            return;
        }
        if load.is_plain() {
            self.join_pairs();
        }
        let parts = if load.transpose { TURNED } else { LOADED };
        for (part, from) in parts.into_iter().enumerate() {
            self.put_register(place, part, from);
        }
    }

    /// Makes code for a store of matrices; false if there is none.
    pub(crate) fn store_matrix(
        &mut self,
        inst: &VectorInst,
        space: Space,
        transpose: bool,
    ) -> bool {
        let Some(mem) = self.rows(inst, space, true) else { return false };
        if !inst.src[2..].iter().all(|s| matches!(s, Source::Vector(_) | Source::Imm(_))) {
            return false;
        }
        let back = self.a.label();
        let slow = self.interpreter_path(back);
        let distances = self.checked_rows(inst, mem, PACKED_A * (inst.src.len() - 2), slow);
        self.a.op(Code::Mov_r64_rm64, &[D.into(), C.into()]);
        for (matrix, source) in inst.src[2..].iter().enumerate() {
            let value = self.value(*source, Width::W32);
            let mut parts =
                [(0, Z0), (1, Z1)].map(|(part, z)| self.part_in(value, part, Width::W32, z));
            if transpose {
                parts = self.transposed(parts, FragmentOrder::Lanes);
            }
            for row in 0..PACKED_A {
                let (from, slice) = (parts[row / 4], row as i32 % 4);
                let number = distance(distances, Kind::Rows(32), PACKED_A * matrix + row);
                self.a.op(Code::Mov_r32_rm32, &[Register::ECX.into(), number.into()]);
                let to = MemoryOperand::with_base_index(D, C);
                if slice == 0 {
                    self.a.op(STORE, &[to.into(), xmm(from).into()]);
                } else {
                    let extract = Code::EVEX_Vextracti32x4_xmmm128_k1z_zmm_imm8;
                    self.a.op(extract, &[to.into(), from.into(), X::I(slice)]);
                }
            }
        }
        self.a.bind(back);
        true
    }

    /// Makes code for a matrix turned in its register; false if there is none.
    pub(crate) fn transpose_matrix(&mut self, inst: &VectorInst) -> bool {
        let whole = self.isa == SimdIsa::Avx512 && !self.masked && inst.guard.is_none();
        let plain = matches!(inst.src[0], Source::Vector(_) | Source::Imm(_));
        if !whole || !plain || !self.has_lane_results(inst) {
            return false;
        }
        let value = self.value(inst.src[0], Width::W32);
        let parts = [(0, Z0), (1, Z1)].map(|(part, z)| self.part_in(value, part, Width::W32, z));
        let turned = self.transposed(parts, FragmentOrder::Lanes);
        let place = self.dest(inst, &inst.dst[0]);
        for (part, from) in turned.into_iter().enumerate() {
            self.put_register(&place, part, from);
        }
        true
    }

    /// A matrix of 16-bit elements with rows and columns exchanged, its lanes in an order.
    fn transposed(&mut self, parts: [Register; 2], order: FragmentOrder) -> [Register; 2] {
        for (part, to) in TURNED.into_iter().enumerate() {
            // Element `n` of the result is in row `n / 8`.
            let elements = order.lanes(part).flat_map(|lane| [2 * lane, 2 * lane + 1]);
            self.load_picks(
                Width::W16,
                to,
                elements.map(|n| PACKED_A * (n % PACKED_A) + n / PACKED_A),
            );
            let pick = Code::EVEX_Vpermi2w_zmm_k1z_zmm_zmmm512;
            self.a.op(pick, &[to.into(), parts[0].into(), parts[1].into()]);
        }
        TURNED
    }

    /// Says in K1 whether in some quad the four lanes' bytes do not follow each other.
    /// Uses Z0 to Z3.
    pub(crate) fn differ_in_quads(&mut self, address: Address, width: Width, bytes: i32) {
        let wide = width == Width::W64;
        let pick = |narrow: Code, wide_one: Code| if wide { wide_one } else { narrow };
        let first = pick(
            Code::EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8,
            Code::EVEX_Vpermq_zmm_k1z_zmmm512b64_imm8,
        );
        let add = pick(
            Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
            Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
        );
        let lanes = 64 / width.bytes() as u64;
        let steps = (0..lanes).map(|lane| bytes as u64 * (lane % 4));
        let size = width.bytes() as usize;
        let steps: Vec<u8> = steps.flat_map(|n| n.to_le_bytes().into_iter().take(size)).collect();
        let steps = self.a.constant(&steps);
        self.a.op(move_code(width), &[Z3.into(), steps.into()]);
        for part in 0..parts(width) {
            let register = self.address_part(0, address, part, width, Z0);
            self.a.op(first, &[Z1.into(), register.into(), X::I(0)]);
            self.a.op(add, &[Z1.into(), Z1.into(), Z3.into()]);
            if part == 0 {
                let xor = Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64;
                self.a.op(xor, &[Z2.into(), Z1.into(), register.into()]);
            } else {
                // a | (b ^ c)
                let code = Code::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8;
                let how = X::I(0xf6u8 as i8 as i32);
                self.a.op(code, &[Z2.into(), Z1.into(), register.into(), how]);
            }
        }
        let test = Code::EVEX_Vptestmq_kr_k1_zmm_zmmm512b64;
        self.a.op(test, &[K1.into(), Z2.into(), Z2.into()]);
    }
}
