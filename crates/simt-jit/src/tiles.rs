//! Matrices of 8 rows of 16 bytes between memory and registers, with AVX-512: `ldmatrix`,
//! `stmatrix`, `movmatrix`, and copies of 16 bytes a lane, which `cp.async` becomes.
//!
//! Rows lie where their lanes' addresses say: all are checked at once, then each is moved by an
//! instruction of its own. Part `p` of the register that matrix `m` is in has its rows `4 p` to
//! `4 p + 3`.
//!
//! Deliberately absent: warps that are not whole, and generic addresses. Their decoded form runs.

use crate::Flavour;
use crate::access::{Address, Plan};
use crate::assembler::{Label, X, at};
use crate::assign::parts;
use crate::cold::Cold;
use crate::compiler::Compiler;
use crate::frame::{A, C, D, Field, K1, LANE_VALUES, Z0, Z1, Z2, Z3, field};
use crate::ranges::sources;
use crate::tensor::Routine;
use crate::turnwise::{Slot, Turn};
use crate::value::{Value, store_code, xmm};
use iced_x86::{Code, MemoryOperand, Register};
use simt::op::{Access, Op, Space, Width};
use simt::vector::{Source, VectorInst};

/// Bytes of a row.
const ROW_BYTES: i32 = 16;
/// Rows of a matrix.
const ROWS: usize = 8;

/// Moves a row between memory and the low bytes of a vector register.
const LOAD: Code = Code::EVEX_Vmovdqu32_xmm_k1z_xmmm128;
const STORE: Code = Code::EVEX_Vmovdqu32_xmmm128_k1z_xmm;

/// What turned matrices are made in.
const TURNED: [Register; 2] = [Z2, Z3];

/// A load of a matrix whose rows may be anywhere in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowLoad {
    /// Added to the rows' numbers.
    offset: i32,
    transpose: bool,
}

impl RowLoad {
    /// The vectors that it loads.
    pub(crate) fn results(self) -> [Register; 2] {
        if self.transpose { TURNED } else { [Z0, Z1] }
    }
}

impl Compiler<'_> {
    /// Rows in shared memory as an access of 16 bytes a lane; `None` if there is no code for it.
    pub(crate) fn rows(&self, inst: &VectorInst, space: Space, write: bool) -> Option<Plan> {
        let (Source::Vector(address), Source::Imm(offset)) = (inst.src[0], inst.src[1]) else {
            return None;
        };
        let offset = i32::try_from(offset as i64).ok()?;
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
        Some(Plan { access, write, shared, local, total, offset, before, wide, site })
    }

    /// Where the checked rows' numbers within shared memory are, whose start is in RDX.
    fn checked_rows(&mut self, inst: &VectorInst, plan: Plan, slow: Label) -> Slot {
        let address = Address::Lanes(self.value(inst.src[0], Width::W32));
        self.check_lanes(inst, plan, address, slow);
        self.value_slots(inst.src[0], Width::W32, LANE_VALUES)
    }

    /// A lane's row, by its number in RCX.
    fn row(&mut self, plan: Plan, rows: Slot, lane: usize) -> MemoryOperand {
        let from = rows.of(Turn::Number(lane), 4);
        self.a.op(Code::Mov_r32_rm32, &[Register::ECX.into(), from.into()]);
        MemoryOperand::with_base_index_scale_displ_size(D, C, 1, i64::from(plan.offset), 8)
    }

    /// Makes code for a load of matrices; false if there is none.
    pub(crate) fn load_matrix(&mut self, inst: &VectorInst, space: Space, transpose: bool) -> bool {
        let Some(plan) = self.rows(inst, space, false) else { return false };
        let back = self.a.label();
        let slow = self.aside(back);
        let load = RowLoad { offset: plan.offset, transpose };
        if let Some(slot) = self.late_slot(inst) {
            self.say_late(slot, false);
            let address = self.value(inst.src[0], Width::W32);
            self.check_lanes(inst, plan, Address::Lanes(address), slow);
            for part in 0..2 {
                let from = self.part_in(address, part, Width::W32, Z0);
                let to = at(Register::RSP, Self::late_rows(slot) + 64 * part as i32);
                self.a.op(store_code(Width::W32), &[to.into(), from.into()]);
            }
            self.say_late(slot, true);
            self.a.bind(back);
            self.load_later(inst, slot, load);
            return true;
        }
        let rows = self.checked_rows(inst, plan, slow);
        let Slot::Lanes(base, offset) = rows else { return false };
        for (matrix, d) in inst.dst.iter().enumerate() {
            let place = self.dest(inst, d);
            self.load_rows_of(load, at(base, offset + 4 * (ROWS * matrix) as i32));
            for (part, from) in load.results().into_iter().enumerate() {
                self.put_register(&place, part, from);
            }
        }
        self.a.bind(back);
        true
    }

    /// Loads a matrix, the numbers of whose rows are in memory.
    pub(crate) fn load_rows_of(&mut self, load: RowLoad, numbers: MemoryOperand) {
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Shared).into()]);
        self.a.op(Code::Lea_r64_m, &[A.into(), numbers.into()]);
        self.call(Routine::LoadRows(load));
    }

    /// The code that loads a matrix: with the number of its first row within shared memory at RAX,
    /// whose start is in RDX.
    pub(crate) fn load_rows(&mut self, load: RowLoad) {
        for row in 0..ROWS {
            let (to, quarter) = ([Z0, Z1][row / 4], row as i32 % 4);
            let number = at(A, 4 * row as i32);
            self.a.op(Code::Mov_r32_rm32, &[Register::ECX.into(), number.into()]);
            let offset = i64::from(load.offset);
            let from = MemoryOperand::with_base_index_scale_displ_size(D, C, 1, offset, 8);
            if quarter == 0 {
                self.a.op(LOAD, &[xmm(to).into(), from.into()]);
            } else {
                let insert = Code::EVEX_Vinserti32x4_zmm_k1z_zmm_xmmm128_imm8;
                self.a.op(insert, &[to.into(), to.into(), from.into(), X::I(quarter)]);
            }
        }
        if load.transpose {
            self.transposed([Z0, Z1]);
        }
    }

    /// Makes code for a store of matrices; false if there is none.
    pub(crate) fn store_matrix(
        &mut self,
        inst: &VectorInst,
        space: Space,
        transpose: bool,
    ) -> bool {
        let Some(plan) = self.rows(inst, space, true) else { return false };
        if !inst.src[2..].iter().all(|s| matches!(s, Source::Vector(_) | Source::Imm(_))) {
            return false;
        }
        let back = self.a.label();
        let slow = self.aside(back);
        let rows = self.checked_rows(inst, plan, slow);
        for (matrix, source) in inst.src[2..].iter().enumerate() {
            let value = self.value(*source, Width::W32);
            let mut parts =
                [(0, Z0), (1, Z1)].map(|(part, z)| self.part_in(value, part, Width::W32, z));
            if transpose {
                parts = self.transposed(parts);
            }
            for row in 0..ROWS {
                let (from, quarter) = (parts[row / 4], row as i32 % 4);
                let to = self.row(plan, rows, ROWS * matrix + row);
                if quarter == 0 {
                    self.a.op(STORE, &[to.into(), xmm(from).into()]);
                } else {
                    let extract = Code::EVEX_Vextracti32x4_xmmm128_k1z_zmm_imm8;
                    self.a.op(extract, &[to.into(), from.into(), X::I(quarter)]);
                }
            }
        }
        self.a.bind(back);
        true
    }

    /// Makes code for a matrix turned in its register; false if there is none.
    pub(crate) fn transpose_matrix(&mut self, inst: &VectorInst) -> bool {
        let whole = self.flavour == Flavour::Avx512 && !self.masked && inst.guard.is_none();
        let plain = matches!(inst.src[0], Source::Vector(_) | Source::Imm(_));
        if !whole || !plain || !self.has_lane_results(inst) {
            return false;
        }
        let value = self.value(inst.src[0], Width::W32);
        let parts = [(0, Z0), (1, Z1)].map(|(part, z)| self.part_in(value, part, Width::W32, z));
        let turned = self.transposed(parts);
        let place = self.dest(inst, &inst.dst[0]);
        for (part, from) in turned.into_iter().enumerate() {
            self.put_register(&place, part, from);
        }
        true
    }

    /// A matrix of 16-bit elements with rows and columns exchanged.
    fn transposed(&mut self, parts: [Register; 2]) -> [Register; 2] {
        for (part, to) in TURNED.into_iter().enumerate() {
            // Element `n` of the result is in row `n / 8`.
            let picks = (32 * part..32 * part + 32).map(|n| ROWS * (n % ROWS) + n / ROWS);
            self.load_picks(Width::W16, to, picks);
            let pick = Code::EVEX_Vpermi2w_zmm_k1z_zmm_zmmm512;
            self.a.op(pick, &[to.into(), parts[0].into(), parts[1].into()]);
        }
        TURNED
    }

    /// If a load of 16 bytes a lane is there for the store behind it only, makes code for both;
    /// false if that is not so, or if there is none.
    pub(crate) fn copy(&mut self, inst: &VectorInst, load: Plan) -> bool {
        let f = self.f;
        let next = f.blocks.get(self.block).and_then(|b| b.insts.get(self.index + 1));
        let Some(store) = next else { return false };
        let Op::Store(access) = store.op else { return false };
        let sixteen =
            |a: Access| (a.bytes, a.count, a.width, a.volatile) == (4, 4, Width::W32, false);
        let same = || {
            let results = inst.dst.iter().map(|d| Source::Vector(d.reg));
            store.src.len() == 6 && results.eq(store.src[2..].iter().copied())
        };
        // Shared memory is apart from what is loaded, so lanes may take turns.
        let apart = load.access.space == Space::Global && load.wide && inst.guard.is_none();
        let aligned = load.offset % ROW_BYTES == 0;
        if !(apart && aligned && sixteen(load.access) && sixteen(access) && same()) {
            return false;
        }
        let reads = f.blocks.iter().flat_map(|b| &b.insts).flat_map(sources);
        if reads.filter(|r| inst.dst.iter().any(|d| d.reg == *r)).count() != 4 {
            return false;
        }
        let Some(plan) = self.rows(store, access.space, true) else { return false };
        let address = self.address(inst.src[0], Width::W64);
        let (slow, back) = (self.a.label(), self.a.label());
        let members = vec![self.index, self.index + 1];
        let (block, masked) = (self.block, self.masked);
        self.cold.push(Cold::Segment { label: slow, back, block, masked, members, in_eax: None });
        let rows = self.checked_rows(store, plan, slow);
        self.check_lanes(inst, load, address, slow);
        let from = self.address_slots(load, address);
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Shared).into()]);
        let apart = self.a.label();
        let to = Address::Lanes(self.value(store.src[0], Width::W32));
        self.differ_in_quads(to, Width::W32, ROW_BYTES);
        self.a.jump(Code::Jne_rel32_64, apart);
        self.differ_in_quads(address, Width::W64, ROW_BYTES);
        self.a.jump(Code::Jne_rel32_64, apart);
        self.copy_rows((load, from), (plan, rows), 4);
        self.a.jump(Code::Jmp_rel32_64, back);
        self.a.bind(apart);
        self.copy_rows((load, from), (plan, rows), 1);
        self.a.bind(back);
        self.merged = self.index + 1..self.index + 2;
        true
    }

    /// Copies all lanes' rows, so many at a time.
    fn copy_rows(&mut self, from: (Plan, Slot), to: (Plan, Slot), together: usize) {
        let (load, store, name): (_, _, fn(Register) -> Register) = match together {
            1 => (LOAD, STORE, xmm),
            _ => {
                (Code::EVEX_Vmovdqu32_zmm_k1z_zmmm512, Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm, |z| z)
            }
        };
        for (lane, z) in (0..32).step_by(together).zip([Z0, Z1, Z2, Z3].into_iter().cycle()) {
            let number = from.1.of(Turn::Number(lane), 8);
            self.a.op(Code::Mov_r64_rm64, &[C.into(), number.into()]);
            self.a.op(load, &[name(z).into(), at(C, from.0.offset).into()]);
            let to = self.row(to.0, to.1, lane);
            self.a.op(store, &[to.into(), name(z).into()]);
        }
    }

    /// Clears the zero flag if in some quad the four lanes' bytes, so many each, do not follow each
    /// other.
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
        for part in 0..parts(width) {
            let register = self.address_part(0, address, part, width, Z0);
            self.a.op(first, &[Z1.into(), register.into(), X::I(0)]);
            self.a.op(add, &[Z1.into(), Z1.into(), steps.into()]);
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
        self.a.op(Code::VEX_Kortestb_kr_kr, &[K1.into(), K1.into()]);
    }
}
