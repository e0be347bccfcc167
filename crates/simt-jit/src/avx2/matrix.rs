//! Matrix products (mma) with AVX2, from the register file to the register file.
//!
//! As with AVX-512 (`matrix`), fragments become ready on the stack first, in the same places; they
//! are not kept. Eight accumulators of 32 bytes are made at a time: of a half of the rows, or a slice of
//! them where elements have 64 bits.
//!
//! Deliberately absent: warps that are not whole, and formats that few programs have (slices of
//! floats, bits). They run in the interpreter.

use crate::asm::assembler::{X, at};
use crate::avx512::matrix::{Eights, Engine, Form, Kind, Routine};
use crate::frame_layout::{A, C, FILE, PACKED_A, PACKED_B};
use crate::function::Compiler;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::matrix::{MatrixType, Multiply};
use simt::ir::op::Width;
use simt::ir::vector::{Source, StorageClass, VectorInst};

/// Bytes of a vector register, and of those that make sums at a time.
const PIECE: i32 = 32;
const PIECES: usize = 4;

/// Sums of even columns, then of odd ones.
const SUMS: [Register; 8] = [
    Register::YMM0,
    Register::YMM1,
    Register::YMM2,
    Register::YMM3,
    Register::YMM4,
    Register::YMM5,
    Register::YMM6,
    Register::YMM7,
];
/// Scratch.
const T: [Register; 8] = [
    Register::YMM8,
    Register::YMM9,
    Register::YMM10,
    Register::YMM11,
    Register::YMM12,
    Register::YMM13,
    Register::YMM14,
    Register::YMM15,
];

const LOAD: Code = Code::VEX_Vmovdqu_ymm_ymmm256;
const STORE: Code = Code::VEX_Vmovdqu_ymmm256_ymm;

/// The low half of a vector register.
fn low(register: Register) -> Register {
    Register::XMM0 + (register as u32 - Register::YMM0 as u32)
}

impl Compiler<'_> {
    /// Makes code for a product; false if there is none.
    pub(crate) fn multiply_by_eights(&mut self, inst: &VectorInst, product: Multiply) -> bool {
        let Some(engine) = Engine::with_avx2(product) else { return false };
        let whole = !self.masked && inst.guard.is_none() && self.has_lane_results(inst);
        let c = product.a_registers() + product.b_registers();
        let place = |source: &Source| match source {
            Source::Vector(r) if self.f.storage[r.index()] == StorageClass::Vector => {
                self.layout.place(r.index()).vector.map(|offset| offset as i32)
            }
            _ => None,
        };
        let factors: Option<Vec<i32>> = inst.src[..c].iter().map(place).collect();
        let starts: Vec<Option<i32>> = inst.src[c..].iter().map(place).collect();
        let known = |(source, place): (&Source, &Option<i32>)| {
            place.is_some() || matches!(source, Source::Imm(_))
        };
        let results: Vec<Source> = inst.dst.iter().map(|d| Source::Vector(d.reg)).collect();
        let ends: Option<Vec<i32>> = results.iter().map(place).collect();
        let (Some(factors), Some(ends)) = (factors, ends) else { return false };
        // Sums of the second half must not start where those of the first have ended.
        let apart = inst.src[c..].iter().skip(2).all(|s| !results[..2].contains(s));
        if !whole || !apart || !inst.src[c..].iter().zip(&starts).all(known) {
            return false;
        }
        for (n, from) in factors.into_iter().enumerate() {
            let (to, routine) = match n.checked_sub(product.a_registers()) {
                None => (PACKED_A + engine.row_offset(n, 0), Eights::Rows(engine.rows())),
                Some(group) => {
                    (PACKED_B + engine.column_offset(group), Eights::Columns(engine.columns()))
                }
            };
            self.call_with(at(Register::RSP, to), at(FILE, from), routine);
        }
        let batches = engine.parts() / 2;
        for (half, batch) in (0..engine.halves()).flat_map(|h| (0..batches).map(move |b| (h, b))) {
            let first = PIECE * (PIECES * batch) as i32;
            let sums =
                || SUMS.into_iter().enumerate().map(|(n, sum)| (n / PIECES, n % PIECES, sum));
            for (odd, piece, sum) in sums() {
                let n = 2 * half + odd;
                let source = if product.saturate { Source::Imm(0) } else { inst.src[c + n] };
                match (source, starts[n]) {
                    (Source::Imm(v), _) => self.repeat(sum, v, engine.width()),
                    (_, place) => {
                        let from = at(FILE, place.unwrap_or(0) + first + PIECE * piece as i32);
                        self.a.op(LOAD, &[sum.into(), from.into()]);
                    }
                }
            }
            let rows = at(Register::RSP, PACKED_A + engine.row_offset(half, 0) + first);
            self.call_with(rows, at(Register::RSP, PACKED_B), Eights::Add(engine));
            for (odd, piece, sum) in sums() {
                let n = 2 * half + odd;
                let offset = first + PIECE * piece as i32;
                if product.saturate {
                    match (inst.src[c + n], starts[n]) {
                        (Source::Imm(v), _) => self.repeat(T[0], v, engine.width()),
                        (_, place) => {
                            let from = at(FILE, place.unwrap_or(0) + offset);
                            self.a.op(LOAD, &[T[0].into(), from.into()]);
                        }
                    }
                    self.add_within(sum, T[0]);
                }
                self.a.op(STORE, &[at(FILE, ends[n] + offset).into(), sum.into()]);
            }
        }
        for d in &inst.dst {
            if engine.kind() == Kind::Single && !self.nan_deferred[d.reg.index()] {
                self.canonicalise_file(d.reg);
            }
        }
        true
    }

    fn call_with(&mut self, a: MemoryOperand, c: MemoryOperand, routine: Eights) {
        self.a.op(Code::Lea_r64_m, &[A.into(), a.into()]);
        self.a.op(Code::Lea_r64_m, &[C.into(), c.into()]);
        self.call(Routine::Eights(routine));
    }

    /// A constant in all lanes.
    fn repeat(&mut self, to: Register, value: u64, width: Width) {
        let bytes = value.to_le_bytes();
        let repeated =
            bytes[..width.bytes() as usize].repeat((PIECE as u32 / width.bytes()) as usize);
        let from = self.a.constant(&repeated);
        self.a.op(LOAD, &[to.into(), from.into()]);
    }

    /// Adds integers with signs to a sum, which stays within 32 bits.
    fn add_within(&mut self, sum: Register, c: Register) {
        let [_, all, over, other, most, ..] = T;
        let xor = Code::VEX_Vpxor_ymm_ymm_ymmm256;
        self.a.op(Code::VEX_Vpaddd_ymm_ymm_ymmm256, &[all.into(), sum.into(), c.into()]);
        // The sign of the result is that of neither.
        self.a.op(xor, &[over.into(), sum.into(), all.into()]);
        self.a.op(xor, &[other.into(), c.into(), all.into()]);
        self.a.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[over.into(), over.into(), other.into()]);
        self.a.op(Code::VEX_Vpsrad_ymm_ymm_imm8, &[most.into(), sum.into(), X::I(31)]);
        let end = self.a.constant(&i32::MAX.to_le_bytes().repeat(8));
        self.a.op(xor, &[most.into(), most.into(), end.into()]);
        let blend = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
        self.a.op(blend, &[sum.into(), all.into(), most.into(), over.into()]);
    }

    /// Makes a routine that something calls.
    pub(crate) fn eights(&mut self, routine: Eights) {
        match routine {
            Eights::Rows(form) => {
                let pieces = if form.kind == Kind::Double { 2 * PIECES } else { PIECES };
                for (unit, piece) in (0..form.units).flat_map(|u| (0..pieces).map(move |p| (u, p)))
                {
                    self.unit_of_eight(form, unit, at(C, PIECE * piece as i32), T[0]);
                    let to = at(A, form.step * unit as i32 + PIECE * piece as i32);
                    self.a.op(STORE, &[to.into(), T[0].into()]);
                }
            }
            Eights::Columns(form) if form.kind == Kind::Double => self.turn_doubles(form),
            Eights::Columns(form) => self.turn_words(form),
            Eights::Add(engine) => self.add_eights(engine),
        }
    }

    /// Of B: lane `4 c + k` is `k` of column `c`; a piece has an even column and an odd one.
    fn turn_words(&mut self, form: Form) {
        let [y0, y1, y2, y3, t0, t1, t2, t3] = T;
        for unit in 0..form.units {
            for (piece, to) in [y0, y1, y2, y3].into_iter().enumerate() {
                self.unit_of_eight(form, unit, at(C, PIECE * piece as i32), to);
            }
            let (lower, upper) =
                (Code::VEX_Vunpcklps_ymm_ymm_ymmm256, Code::VEX_Vunpckhps_ymm_ymm_ymmm256);
            for (code, to, a, b) in
                [(lower, t0, y0, y1), (lower, t1, y2, y3), (upper, t2, y0, y1), (upper, t3, y2, y3)]
            {
                self.a.op(code, &[to.into(), a.into(), b.into()]);
            }
            let (lower, upper) =
                (Code::VEX_Vunpcklpd_ymm_ymm_ymmm256, Code::VEX_Vunpckhpd_ymm_ymm_ymmm256);
            for (k, (code, a, b)) in
                [(lower, t0, t1), (upper, t0, t1), (lower, t2, t3), (upper, t2, t3)]
                    .into_iter()
                    .enumerate()
            {
                self.a.op(code, &[y0.into(), a.into(), b.into()]);
                let even = form.unit_bytes() * unit as i32 + form.step * k as i32;
                let odd = even + 4 * form.step;
                let store = Code::VEX_Vmovdqu_xmmm128_xmm;
                self.a.op(store, &[at(A, even).into(), low(y0).into()]);
                let store = Code::VEX_Vextracti128_xmmm128_ymm_imm8;
                self.a.op(store, &[at(A, odd).into(), y0.into(), X::I(1)]);
            }
        }
    }

    /// Of B's f64: a piece is a column.
    fn turn_doubles(&mut self, form: Form) {
        let [y0, y1, y2, y3, t0, t1, t2, t3] = T;
        let (lower, upper) =
            (Code::VEX_Vunpcklpd_ymm_ymm_ymmm256, Code::VEX_Vunpckhpd_ymm_ymm_ymmm256);
        for odd in 0..2 {
            for (n, to) in [y0, y1, y2, y3].into_iter().enumerate() {
                self.a.op(LOAD, &[to.into(), at(C, PIECE * (2 * n + odd) as i32).into()]);
            }
            for (code, to, a, b) in
                [(lower, t0, y0, y1), (upper, t1, y0, y1), (lower, t2, y2, y3), (upper, t3, y2, y3)]
            {
                self.a.op(code, &[to.into(), a.into(), b.into()]);
            }
            for (k, (a, b, halves)) in
                [(t0, t2, 0x20), (t1, t3, 0x20), (t0, t2, 0x31), (t1, t3, 0x31)]
                    .into_iter()
                    .enumerate()
            {
                let code = Code::VEX_Vperm2f128_ymm_ymm_ymmm256_imm8;
                self.a.op(code, &[y0.into(), a.into(), b.into(), X::I(halves)]);
                let to = at(A, 4 * form.step * odd as i32 + form.step * k as i32);
                self.a.op(STORE, &[to.into(), y0.into()]);
            }
        }
    }

    /// A unit of eight lanes, or of four.
    fn unit_of_eight(&mut self, form: Form, unit: usize, from: MemoryOperand, to: Register) {
        let and = |c: &mut Self, bits: u32| {
            let kept = c.a.constant(&bits.to_le_bytes().repeat(8));
            c.a.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[to.into(), to.into(), kept.into()]);
        };
        self.a.op(LOAD, &[to.into(), from.into()]);
        match (form.kind, form.ty) {
            (Kind::Single, MatrixType::BF16) if unit == 0 => {
                self.a.op(Code::VEX_Vpslld_ymm_ymm_imm8, &[to.into(), to.into(), X::I(16)]);
            }
            (Kind::Single, MatrixType::BF16) => and(self, 0xffff_0000),
            (Kind::Single, MatrixType::F16) => {
                let bytes = (0..8).map(|n| 4 * (n / 2) + 2 * unit as u8 + n % 2);
                let picks: Vec<u8> = bytes.chain([0x80; 8]).collect();
                let picks = self.a.constant(&picks.repeat(2));
                self.a.op(Code::VEX_Vpshufb_ymm_ymm_ymmm256, &[to.into(), to.into(), picks.into()]);
                self.a.op(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[to.into(), to.into(), X::I(8)]);
                self.a.op(Code::VEX_Vcvtph2ps_ymm_xmmm128, &[to.into(), low(to).into()]);
            }
            // f32 without the low 13 bits.
            (Kind::Single, _) => and(self, 0xffff_e000),
            (Kind::Words, ty) => {
                let bits = ty.bits() as i32;
                let signed = matches!(ty, MatrixType::S8 | MatrixType::S4);
                let up = X::I(16 - bits * (unit as i32 + 1));
                self.a.op(Code::VEX_Vpsllw_ymm_ymm_imm8, &[to.into(), to.into(), up]);
                let down = match signed {
                    true => Code::VEX_Vpsraw_ymm_ymm_imm8,
                    false => Code::VEX_Vpsrlw_ymm_ymm_imm8,
                };
                self.a.op(down, &[to.into(), to.into(), X::I(16 - bits)]);
            }
            _ => {}
        }
    }

    fn add_eights(&mut self, engine: Engine) {
        let double = engine.kind() == Kind::Double;
        let (repeat, spread) = match double {
            true => (LOAD, Code::VEX_Vpermpd_ymm_ymmm256_imm8),
            false => (Code::VEX_Vbroadcasti128_ymm_m128, Code::VEX_Vpshufd_ymm_ymmm256_imm8),
        };
        for (row, slice, column) in engine.steps() {
            let columns = [T[0], T[1]];
            for (odd, to) in columns.into_iter().enumerate() {
                let from = at(C, column + engine.odd_offset() * odd as i32);
                self.a.op(repeat, &[to.into(), from.into()]);
            }
            for piece in 0..PIECES {
                let (row_of, made) = (T[2 + piece % 2], T[4 + piece]);
                let from = at(A, row + PIECE * piece as i32);
                // The immediate repeats one of four.
                let how = X::I((slice as u8 * 0x55) as i8 as i32);
                self.a.op(spread, &[row_of.into(), from.into(), how]);
                for (odd, column) in columns.into_iter().enumerate() {
                    let sum = SUMS[PIECES * odd + piece];
                    let operands = [sum.into(), row_of.into(), column.into()];
                    match engine.kind() {
                        Kind::Double => {
                            self.a.op(Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256, &operands);
                        }
                        Kind::Words => {
                            let multiply = Code::VEX_Vpmaddwd_ymm_ymm_ymmm256;
                            self.a.op(multiply, &[made.into(), row_of.into(), column.into()]);
                            let add = Code::VEX_Vpaddd_ymm_ymm_ymmm256;
                            self.a.op(add, &[sum.into(), sum.into(), made.into()]);
                        }
                        _ => {
                            self.a.op(Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256, &operands);
                        }
                    }
                }
            }
        }
    }
}
