//! Microkernels: routines that the products of a function call, made once for the sake of the
//! instruction cache: packing operand fragments, accumulating a fragment's products.
//!
//! Nothing here uses general registers but RAX, RCX and RDX.

use crate::asm::assembler::{X, at, repeated};
use crate::avx512::matrix::ldmatrix::RowLoad;
use crate::avx512::matrix::operand_packing::{Engine, Form, Kind, VECTOR};
use crate::avx512::matrix::packed_cache::Factor;
use crate::avx512::matrix::{PAIRED_LEAST, SPARE};
use crate::frame_layout::{A, C, D, FragmentOrder, K1, K2, PAIR_CHECK, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::operands::{move_code, store_code, ymm};
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::matrix::MatrixType;
use simt::ir::op::Width;

/// Routines of products with AVX2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eights {
    /// Makes a register of A at RCX ready at RAX.
    Rows(Form),
    /// The same of B.
    Columns(Form),
    /// Adds the products of A's rows at RAX and B's columns at RCX to the sums.
    Add(Engine),
}

/// A routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routine {
    /// Makes a part of a register of A ready, from Z0 to RAX; or all parts of one of B, from Z0 on.
    Ready(Factor, Form),
    /// The same of B, from RCX.
    ReadyFrom(Form),
    /// Looks at a number of vectors of a fragment at RAX, as [`Self::Ready`] does, and ends that.
    Look(usize),
    /// Says at RDX, and to those who only ask for doubt, whether what was made ready since
    /// [`Compiler::start_least`] is refused.
    Refuse,
    /// Moves the sums from the registers of C at RDX, or to those of D.
    Move(Engine, MovedSums),
    /// Adds the products of a group of A's fragment at RAX and B's at RCX to the sums.
    Add(Engine, usize),
    /// The same of two products that share A; the other's B is at RDX.
    AddBoth(Engine, usize),
    /// Clears the zero flag if some sum is subnormal.
    Subnormal(Engine),
    /// Loads eight rows of 16 bytes (`tiles`).
    LoadRows(RowLoad),
    /// Stores half of the lines of a product's results (`results`).
    StoreLines,
    /// What there is with AVX2 (`avx2::tensor`).
    Eights(Eights),
}

/// Where registers of C or D are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MovedSums {
    pub(super) store: bool,
    /// NaNs become the canonical one.
    pub(super) canonical: bool,
    /// Bytes from the first.
    pub(super) offsets: [i32; 4],
}

/// Least magnitudes but zero, doubled and negated, of what products of pairs were made ready of.
const LEAST: Register = SPARE[3];

impl Compiler<'_> {
    /// Calls a routine.
    pub(crate) fn call(&mut self, routine: Routine) {
        let known = self.fragments.routines.iter().find(|(r, _)| *r == routine);
        let label = match known {
            Some((_, label)) => *label,
            None => {
                let label = self.a.label();
                self.fragments.routines.push((routine, label));
                label
            }
        };
        self.a.jump(Code::Call_rel32_64, label);
    }

    /// Makes all routines that something calls.
    pub(crate) fn tensor_routines(&mut self) {
        for (routine, label) in std::mem::take(&mut self.fragments.routines) {
            self.a.bind(label);
            match routine {
                Routine::Ready(Factor::A, form) => self.ready_rows(form),
                Routine::Ready(Factor::B, form) => self.ready_columns(form),
                Routine::ReadyFrom(form) => {
                    let parts = if form.kind == Kind::Double { 4 } else { 2 };
                    for (n, to) in [Z0, Z1, Z2, Z3].into_iter().take(parts).enumerate() {
                        let from = at(C, VECTOR * n as i32);
                        self.a.op(move_code(Width::W32), &[to.into(), from.into()]);
                    }
                    self.ready_columns(form);
                }
                Routine::Look(vectors) => {
                    self.start_least();
                    let factor = self.least_factor();
                    self.a.op(move_code(Width::W32), &[Z1.into(), factor.into()]);
                    for n in 0..vectors {
                        self.note_least_of(Z1, at(A, VECTOR * n as i32));
                    }
                    self.finish_least();
                }
                Routine::Refuse => self.finish_least(),
                Routine::Move(engine, moved) => self.move_sums(engine, moved),
                Routine::Add(engine, group) => self.add_products(engine, group),
                Routine::AddBoth(engine, group) => self.add_both(engine, group),
                Routine::Subnormal(engine) => self.find_subnormal(engine),
                Routine::LoadRows(load) => self.load_rows(load),
                Routine::StoreLines => self.store_four_lines(),
                Routine::Eights(routine) => self.eights(routine),
            }
            self.a.op(Code::Retnq, &[]);
        }
    }

    fn ready_rows(&mut self, form: Form) {
        for unit in 0..form.units {
            let from = self.unit(form, unit, Z0, Z1);
            let to = at(A, form.step * unit as i32);
            self.a.op(store_code(Width::W32), &[to.into(), from.into()]);
        }
        if form.kind == Kind::Pairs {
            self.note_least(Z0);
        }
    }

    fn ready_columns(&mut self, form: Form) {
        if form.kind == Kind::Double {
            return self.ready_doubles(form);
        }
        let [low, high, made, count] = SPARE;
        if form.kind == Kind::Pairs {
            self.note_least(Z0);
            self.note_least(Z1);
        }
        for unit in 0..form.units {
            let from = [self.unit(form, unit, Z0, low), self.unit(form, unit, Z1, high)];
            for odd in 0..2 {
                self.load_picks(Width::W32, made, FragmentOrder::Columns.lanes(odd));
                let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
                self.a.op(pick, &[made.into(), from[0].into(), from[1].into()]);
                let start = form.unit_bytes() * unit as i32;
                let at = |offset: i32| at(A, start + offset).into();
                let (store, odd) = (store_code(Width::W32), odd as i32);
                self.a.op(store, &[at(4 * form.step * odd), made.into()]);
                if form.counted {
                    self.count_turned(form, made, count);
                    self.a.op(store, &[at(8 * form.step + VECTOR * odd), count.into()]);
                }
            }
        }
    }

    /// What the upper bit of bytes of A adds to products with these, turned over: in all quads the
    /// sum over the four.
    fn count_turned(&mut self, form: Form, bytes: Register, to: Register) {
        let zero = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        self.a.op(zero, &[to.into(), to.into(), to.into()]);
        let upper = self.a.constant(&[0x80; VECTOR as usize]);
        self.a.op(Code::EVEX_Vmovdqu32_zmm_k1z_zmmm512, &[Z2.into(), upper.into()]);
        let signed = matches!(form.ty, MatrixType::S8 | MatrixType::S4);
        let factors = if signed { [Z2, bytes] } else { [bytes, Z2] };
        let add = Code::EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32;
        self.a.op(add, &[to.into(), factors[0].into(), factors[1].into()]);
        for quads in [0x4e, 0xb1u8] {
            let turn = Code::EVEX_Vshufi32x4_zmm_k1z_zmm_zmmm512b32_imm8;
            let how = X::I(quads as i8 as i32);
            self.a.op(turn, &[Z2.into(), to.into(), to.into(), how]);
            let add = Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
            self.a.op(add, &[to.into(), to.into(), Z2.into()]);
        }
    }

    /// Of B's f64: lane `l` of part `p` is `k = l % 4` of column `2 p + l / 4`.
    fn ready_doubles(&mut self, form: Form) {
        let [first, second, low, high] = SPARE;
        let pick = Code::EVEX_Vpermi2q_zmm_k1z_zmm_zmmm512b64;
        for odd in 0..2 {
            for (to, from) in [(first, [Z0, Z1]), (second, [Z2, Z3])] {
                let lanes = (0..4).flat_map(|k| [4 * odd + k, 8 + 4 * odd + k]);
                self.load_picks(Width::W64, to, lanes);
                self.a.op(pick, &[to.into(), from[0].into(), from[1].into()]);
            }
            for (half, to) in [low, high].into_iter().enumerate() {
                let lanes = [0, 1, 8, 9, 2, 3, 10, 11].map(|n| n + 4 * half);
                self.load_picks(Width::W64, to, lanes.into_iter());
                self.a.op(pick, &[to.into(), first.into(), second.into()]);
                let to_memory = at(A, 4 * form.step * odd as i32 + VECTOR * half as i32);
                self.a.op(store_code(Width::W64), &[to_memory.into(), to.into()]);
            }
        }
    }

    /// A unit of 64 bytes of a register, by itself: in `to`, or where it is if that is one.
    fn unit(&mut self, form: Form, unit: usize, from: Register, to: Register) -> Register {
        let word = |c: &mut Self, bits: u32| repeated(c.a.constant(&bits.to_le_bytes()));
        let and = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
        let xor = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        let left = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
        let right = Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
        let shift = |c: &mut Self, code: Code, from: Register, by: usize| {
            c.a.op(code, &[to.into(), from.into(), X::I(by as i32)]);
        };
        match (form.kind, form.ty) {
            (Kind::Single, MatrixType::F16) => {
                let mut from = from;
                if unit == 1 {
                    shift(self, right, from, 16);
                    from = to;
                }
                self.widen_halves(from, to);
            }
            (Kind::Single, MatrixType::E5M2) => {
                // The upper byte of f16.
                shift(self, left, from, 24 - 8 * unit);
                shift(self, right, to, 16);
                let upper = word(self, 0xff00);
                self.a.op(and, &[to.into(), to.into(), upper.into()]);
                self.widen_halves(to, to);
            }
            (Kind::Single, MatrixType::E4M3) => self.widen_e4m3(from, to, unit),
            (Kind::Single, MatrixType::BF16) if unit == 0 => shift(self, left, from, 16),
            (Kind::Single, MatrixType::BF16) => {
                let upper = word(self, 0xffff_0000);
                self.a.op(and, &[to.into(), from.into(), upper.into()]);
            }
            (Kind::Single, _) => {
                // f32 without the low 13 bits.
                let kept = word(self, 0xffff_e000);
                self.a.op(and, &[to.into(), from.into(), kept.into()]);
            }
            (Kind::Bytes, ty) => {
                let mut from = from;
                if matches!(ty, MatrixType::S4 | MatrixType::U4) {
                    if unit == 1 {
                        shift(self, right, from, 4);
                        from = to;
                    }
                    let low = word(self, 0x0f0f_0f0f);
                    self.a.op(and, &[to.into(), from.into(), low.into()]);
                    from = to;
                }
                if ty == MatrixType::S4 {
                    let sign = word(self, 0x0808_0808);
                    self.a.op(xor, &[to.into(), to.into(), sign.into()]);
                    let eight = self.a.constant(&[8; VECTOR as usize]);
                    let subtract = Code::EVEX_Vpsubb_zmm_k1z_zmm_zmmm512;
                    self.a.op(subtract, &[to.into(), to.into(), eight.into()]);
                }
                if form.turned {
                    let upper = word(self, 0x8080_8080);
                    self.a.op(xor, &[to.into(), from.into(), upper.into()]);
                    from = to;
                }
                return from;
            }
            (Kind::Pairs | Kind::Double | Kind::Bits | Kind::Words, _) => return from,
        }
        to
    }

    /// The low f16 of each lane as f32.
    fn widen_halves(&mut self, from: Register, to: Register) {
        self.a.op(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, &[ymm(to).into(), from.into()]);
        let widen = Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae;
        self.a.op(widen, &[to.into(), ymm(to).into()]);
    }

    /// A byte of E4M3 of each lane as f32.
    fn widen_e4m3(&mut self, from: Register, to: Register, byte: usize) {
        let magnitude = SPARE[2];
        let word = |c: &mut Self, bits: u32| repeated(c.a.constant(&bits.to_le_bytes()));
        let left = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
        self.a.op(left, &[to.into(), from.into(), X::I(24 - 8 * byte as i32)]);
        let right = Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8;
        self.a.op(right, &[to.into(), to.into(), X::I(4)]);
        let and = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
        let kept = word(self, 0x87f0_0000);
        self.a.op(and, &[to.into(), to.into(), kept.into()]);
        let all = word(self, 0x07f0_0000);
        self.a.op(and, &[magnitude.into(), to.into(), all.into()]);
        let equal = Code::EVEX_Vpcmpeqd_kr_k1_zmm_zmmm512b32;
        self.a.op(equal, &[K1.into(), magnitude.into(), all.into()]);
        // The exponent's bias is 7, not 127.
        let scale = word(self, 0x7b80_0000);
        let multiply = Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er;
        self.a.op(multiply, &[to.into(), to.into(), scale.into()]);
        let nan = self.a.constant(&simt::analysis::nan_demand::NAN.to_le_bytes());
        let spread = Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
        self.a.op(spread, &[to.into(), nan.into()]).set_op_mask(K1);
    }

    /// What elements of bf16 are multiplied with to be doubled without the sign and negated: the
    /// smaller the greater, but zero.
    fn least_factor(&mut self) -> MemoryOperand {
        self.a.constant(&(-2i16).to_le_bytes().repeat(32))
    }

    fn note_least(&mut self, from: Register) {
        let factor = self.least_factor();
        self.note_least_of(from, factor);
    }

    /// The same of elements and their operand, of which either is in memory.
    fn note_least_of(&mut self, one: Register, other: MemoryOperand) {
        let negated = Z2;
        let multiply = Code::EVEX_Vpmullw_zmm_k1z_zmm_zmmm512;
        self.a.op(multiply, &[negated.into(), one.into(), other.into()]);
        let most = Code::EVEX_Vpmaxuw_zmm_k1z_zmm_zmmm512;
        self.a.op(most, &[LEAST.into(), LEAST.into(), negated.into()]);
    }

    /// Starts looking for elements that products in pairs cannot have.
    pub(super) fn start_least(&mut self) {
        let zero = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        self.a.op(zero, &[LEAST.into(), LEAST.into(), LEAST.into()]);
    }

    /// Says at RDX, and to those who only ask for doubt, whether there was one.
    fn finish_least(&mut self) {
        let bound = self.a.constant(&(2 * PAIRED_LEAST).wrapping_neg().to_le_bytes().repeat(32));
        let compare = Code::EVEX_Vpcmpuw_kr_k1_zmm_zmmm512_imm8;
        self.a.op(compare, &[K1.into(), LEAST.into(), bound.into(), X::I(6)]);
        let ecx = Register::ECX.into();
        self.a.op(Code::VEX_Kmovd_r32_kr, &[ecx, K1.into()]);
        self.a.op(Code::Mov_rm32_r32, &[at(D, 0).into(), ecx]);
        // Behind the return address.
        self.a.op(Code::Or_rm32_r32, &[at(Register::RSP, PAIR_CHECK + 8).into(), ecx]);
    }

    /// Moves the sums from the registers of C at RDX, or to those of D.
    fn move_sums(&mut self, engine: Engine, moved: MovedSums) {
        for (n, sum) in engine.sums().enumerate() {
            let (register, part) = (n / engine.parts(), n % engine.parts());
            let memory = at(D, moved.offsets[register] + VECTOR * part as i32).into();
            if !moved.store {
                self.a.op(move_code(Width::W32), &[sum.into(), memory]);
                continue;
            }
            if moved.canonical {
                self.canonical(sum);
            }
            self.a.op(store_code(Width::W32), &[memory, sum.into()]);
        }
    }

    fn add_products(&mut self, engine: Engine, group: usize) {
        let double = engine.kind == Kind::Double;
        let (repeat, spread) = match double {
            true => (
                Code::EVEX_Vbroadcastf64x4_zmm_k1z_m256,
                Code::EVEX_Vpermpd_zmm_k1z_zmmm512b64_imm8,
            ),
            false => (
                Code::EVEX_Vbroadcasti32x4_zmm_k1z_m128,
                Code::EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8,
            ),
        };
        let held: Vec<Register> = engine.held().collect();
        let vectors = engine.halves() * engine.parts();
        for (step, (row, slice, column)) in engine.steps_of(group).enumerate() {
            let columns = [Z0, Z1];
            for (odd, to) in columns.into_iter().enumerate() {
                let from = at(C, column + engine.odd_offset() * odd as i32);
                self.a.op(repeat, &[to.into(), from.into()]);
            }
            for n in 0..vectors {
                let (half, part) = (n / engine.parts(), n % engine.parts());
                let mut from = X::from(at(A, row + VECTOR * n as i32));
                if !held.is_empty() {
                    let unit = step % (held.len() / vectors);
                    let kept = held[unit * vectors + n];
                    if slice == 0 {
                        self.a.op(move_code(Width::W32), &[kept.into(), from]);
                    }
                    from = kept.into();
                }
                let row = if n % 2 == 0 || engine.kind == Kind::Bits { Z2 } else { Z3 };
                // The immediate repeats one of four.
                let how = X::I((slice as u8 * 0x55) as i8 as i32);
                self.a.op(spread, &[row.into(), from, how]);
                for (odd, column) in columns.into_iter().enumerate() {
                    self.add_product(engine, engine.sum(half, odd, part), row, column);
                }
            }
        }
    }

    /// Here rows come from memory as often as they are shuffled: for two products, that is as often
    /// as if they were held for each.
    fn add_both(&mut self, engine: Engine, group: usize) {
        let Some(second) = engine.second() else { return };
        let row = engine.shared_row();
        let columns = [(C, [Z0, Z1], engine), (D, [Z2, Z3], second)];
        for (from, slice, column) in engine.steps_of(group) {
            for ((base, to, _), odd) in columns.iter().flat_map(|c| [(c, 0), (c, 1)]) {
                let from = at(*base, column + engine.odd_offset() * odd as i32);
                let repeat = Code::EVEX_Vbroadcasti32x4_zmm_k1z_m128;
                self.a.op(repeat, &[to[odd].into(), from.into()]);
            }
            for n in 0..engine.halves() * engine.parts() {
                let (half, part) = (n / engine.parts(), n % engine.parts());
                let from = at(A, from + VECTOR * n as i32);
                let how = X::I((slice as u8 * 0x55) as i8 as i32);
                let spread = Code::EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8;
                self.a.op(spread, &[row.into(), from.into(), how]);
                for ((_, columns, engine), odd) in columns.iter().flat_map(|c| [(c, 0), (c, 1)]) {
                    self.add_product(*engine, engine.sum(half, odd, part), row, columns[odd]);
                }
            }
        }
    }

    fn add_product(&mut self, engine: Engine, sum: Register, row: Register, column: Register) {
        let (code, factors) = match engine.kind {
            Kind::Pairs => (Code::EVEX_Vdpbf16ps_zmm_k1z_zmm_zmmm512b32, [row, column]),
            Kind::Double => (Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er, [row, column]),
            Kind::Single | Kind::Words => {
                (Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er, [row, column])
            }
            Kind::Bytes => {
                let swap = !engine.rows_are_unsigned();
                let unsigned_first = if swap { [column, row] } else { [row, column] };
                (Code::EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32, unsigned_first)
            }
            Kind::Bits => return self.add_bits(engine, sum, row, column),
        };
        self.a.op(code, &[sum.into(), factors[0].into(), factors[1].into()]);
    }

    fn add_bits(&mut self, engine: Engine, sum: Register, row: Register, column: Register) {
        let made = Z3;
        let combine = match engine.product.a {
            MatrixType::Xor => Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
            _ => Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
        };
        self.a.op(combine, &[made.into(), column.into(), row.into()]);
        self.a.op(Code::EVEX_Vpopcntd_zmm_k1z_zmmm512b32, &[made.into(), made.into()]);
        let add = Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
        self.a.op(add, &[sum.into(), sum.into(), made.into()]);
    }

    fn find_subnormal(&mut self, engine: Engine) {
        self.a.op(Code::VEX_Kxorw_kr_kr_kr, &[K1.into(), K1.into(), K1.into()]);
        for sum in engine.sums() {
            let code = Code::EVEX_Vfpclassps_kr_k1_zmmm512b32_imm8;
            self.a.op(code, &[K2.into(), sum.into(), X::I(0x20)]);
            self.a.op(Code::VEX_Korw_kr_kr_kr, &[K1.into(), K1.into(), K2.into()]);
        }
        self.a.op(Code::VEX_Kortestw_kr_kr, &[K1.into(), K1.into()]);
    }
}
