//! AVX-512 as an instruction set of lane-wise operations: 64 bytes of lanes at a time.
//!
//! Temporary registers are the four scratch ones, then those that hold nothing in this function, then
//! ones that the instruction does not mention, saved on the stack while it is made.

use crate::asm::assembler::{X, at};
use crate::frame_layout::{K1, K2, LANE_VALUES, PREDICATE, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::lanewise::codes::{AND, ANDN, LaneCode, MAX_S64, MAX_U64, MIN_S64, MIN_U64, OR, XOR};
use crate::lanewise::compare::{By, integer_condition};
use crate::lanewise::isa::VectorIsa;
use crate::operands::{Value, move_code, single, store_code, ymm};
use iced_x86::{Code, Register, RoundingControl};
use simt::ir::Reg;
use simt::ir::op::{Round, Width};
use simt::ir::vector::{Source, VectorInst};

const SCRATCH: [Register; 4] = [Z0, Z1, Z2, Z3];
/// Registers that can be saved on the stack at a time.
const SAVED_MAX: usize = 8;

/// Rounding to nearest needs no mode of its own.
fn rounding(round: Round) -> Option<RoundingControl> {
    Some(match round {
        Round::Near => RoundingControl::None,
        Round::Zero => RoundingControl::RoundTowardZero,
        Round::Down => RoundingControl::RoundDown,
        Round::Up => RoundingControl::RoundUp,
        Round::NearAway => return None,
    })
}

/// What compares floats.
fn pick_float(w: Width) -> Code {
    match w {
        Width::W64 => Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae,
        _ => Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae,
    }
}

/// An instruction under construction.
pub(crate) struct Zmm<'c, 'a> {
    pub(crate) c: &'c mut Compiler<'a>,
    /// Registers that the instruction reads or writes.
    mentioned: Vec<Register>,
    /// Temporary registers that hold something.
    taken: Vec<Register>,
    /// Those of them that are kept while pieces are put.
    held: Vec<Register>,
    /// Masks that hold something.
    masks: Vec<Register>,
    /// Registers that were saved, in the order of their places.
    saved: Vec<Register>,
}

impl<'c, 'a> Zmm<'c, 'a> {
    /// Makes an instruction by `make`.
    pub(crate) fn with<R>(
        c: &'c mut Compiler<'a>,
        inst: &VectorInst,
        make: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let sources = inst.src.iter().flat_map(|source| source.registers());
        let registers: Vec<_> = sources.chain(inst.dst.iter().map(|d| d.reg)).collect();
        if c.uniform_as_vector.is_some() {
            // That uses a scratch register.
            for r in inst.src.iter().flat_map(|source| source.registers()) {
                let width = c.width_of(r);
                c.value_of_one(r, width);
            }
        }
        let lanes = registers.iter().flat_map(|r| c.assignment.lanes[r.index()].registers());
        let mentioned = lanes.collect();
        let this = Self {
            c,
            mentioned,
            taken: Vec::new(),
            held: Vec::new(),
            masks: Vec::new(),
            saved: Vec::new(),
        };
        this.finish(make)
    }

    /// Makes something of scratch registers that hold something, by `make`; nothing else is used.
    pub(crate) fn of_scratch<R, const N: usize>(
        c: &'c mut Compiler<'a>,
        holding: [Register; N],
        make: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let mentioned = (0..28).map(|n| Register::ZMM0 + n).collect();
        let taken = holding.into_iter().chain(c.spares.clone()).collect();
        let held = Vec::new();
        let this = Self { c, mentioned, taken, held, masks: Vec::new(), saved: Vec::new() };
        this.finish(make)
    }

    fn finish<R>(mut self, make: impl FnOnce(&mut Self) -> R) -> R {
        let this = &mut self;
        let result = make(this);
        for (n, register) in this.saved.iter().enumerate() {
            let from = at(Register::RSP, LANE_VALUES + 64 * n as i32);
            this.c.a.op(move_code(Width::W32), &[(*register).into(), from.into()]);
        }
        result
    }

    fn evex(&mut self, code: Code, operands: &[X]) {
        self.c.a.op(code, operands);
    }

    fn mask(&mut self) -> Register {
        let free = [K1, K2].into_iter().find(|k| !self.masks.contains(k));
        debug_assert!(free.is_some(), "no mask is free");
        self.masks.extend(free);
        free.unwrap_or(K1)
    }

    /// Where a source is; one value of 16 bits is repeated in a register of its own.
    fn value(&mut self, source: Source, w: Width) -> Value {
        if let (Width::W16, None, Some(r)) =
            (w, &self.c.uniform_as_vector, source.registers().next())
            && let Value::One(memory) = self.c.lanes_of(r)
        {
            let to = self.temp();
            let spread = Code::EVEX_Vpbroadcastw_zmm_k1z_xmmm16;
            self.evex(spread, &[to.into(), single(memory).into()]);
            return Value::Same(to);
        }
        self.c.value(source, w)
    }

    /// One operand's result, in a register of its own.
    fn one(&mut self, code: Code, a: Register) -> Register {
        let to = self.temp();
        self.evex(code, &[to.into(), a.into()]);
        to
    }
}

impl VectorIsa for Zmm<'_, '_> {
    const ISA: SimdIsa = SimdIsa::Avx512;
    const BYTES: usize = 64;

    fn pieces(&self, w: Width) -> usize {
        self.c.parts(w)
    }

    fn op(&mut self, code: LaneCode, operands: &[X]) {
        self.c.a.op(code.of(SimdIsa::Avx512), operands);
    }

    fn op_rounded(&mut self, code: LaneCode, operands: &[X], round: Round) {
        let Some(control) = rounding(round) else { return self.unsupported() };
        self.c.a.op(code.of(SimdIsa::Avx512), operands).set_rounding_control(control);
    }

    fn defers_nan(&self, r: Reg) -> bool {
        self.c.nan_deferred[r.index()]
    }

    fn unsupported(&mut self) {
        self.c.a.op(Code::INVALID, &[]);
    }

    fn temp(&mut self) -> Register {
        let known = SCRATCH.iter().chain(&self.c.spares).chain(&self.saved);
        let free = known.copied().find(|register| !self.taken.contains(register));
        let register = free.unwrap_or_else(|| {
            let held = (0..28).map(|n| Register::ZMM0 + n).find(|register| {
                !self.mentioned.contains(register)
                    && !self.c.spares.contains(register)
                    && !self.saved.contains(register)
            });
            let place = self.saved.len();
            let Some(register) = held.filter(|_| place < SAVED_MAX) else {
                self.unsupported();
                return Z0;
            };
            let to = at(Register::RSP, LANE_VALUES + 64 * place as i32);
            self.evex(store_code(Width::W32), &[to.into(), register.into()]);
            self.saved.push(register);
            register
        });
        self.taken.push(register);
        register
    }

    fn free(&mut self, register: Register) {
        self.taken.retain(|taken| *taken != register);
        self.held.retain(|held| *held != register);
    }

    fn number(&mut self, bits: u64, w: Width) -> X {
        match self.c.value(Source::Imm(bits), w) {
            Value::One(memory) | Value::Whole(memory) => memory.into(),
            _ => X::I(0),
        }
    }

    fn bytes(&mut self, byte: impl Fn(u8) -> u8) -> X {
        let bytes: Vec<u8> = (0..64).map(byte).collect();
        self.c.a.constant(&bytes).into()
    }

    fn copied(&mut self, operand: X, w: Width) -> Register {
        let to = self.temp();
        match operand {
            X::M(memory) if memory.is_broadcast => {
                let spread = match w {
                    Width::W64 => Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64,
                    _ => Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
                };
                self.evex(spread, &[to.into(), single(memory).into()]);
            }
            _ => self.evex(move_code(Width::W32), &[to.into(), operand]),
        }
        to
    }

    fn first_lane(&self, piece: usize) -> usize {
        16 * piece
    }

    fn is_in_memory(&self, source: Source) -> bool {
        self.c.uniform_as_vector.is_some()
            || match source {
                Source::Imm(_) => true,
                source => source
                    .registers()
                    .into_iter()
                    .any(|r| !matches!(self.c.lanes_of(r), Value::Parts(_) | Value::Same(_))),
            }
    }

    fn source(&mut self, source: Source, w: Width, piece: usize) -> X {
        let value = self.value(source, w);
        self.c.part(value, piece)
    }

    fn source_in(&mut self, source: Source, w: Width, piece: usize) -> Register {
        let value = self.value(source, w);
        match self.c.part(value, piece) {
            X::R(register) => register,
            _ => {
                let to = self.temp();
                self.c.part_in(value, piece, w, to)
            }
        }
    }

    fn by_half(&mut self, source: Source, w: Width, piece: usize, code: LaneCode) -> Register {
        let value = self.value(source, w);
        let to = self.temp();
        let half = self.c.half(value, piece, to);
        self.op(code, &[to.into(), half]);
        to
    }

    fn halves(&mut self, source: Source, piece: usize, upper: bool) -> Register {
        let [low, high] = [0, 1].map(|half| {
            let from = self.source_in(source, Width::W64, 2 * piece + half);
            if !upper {
                return from;
            }
            let to = self.temp();
            let down = Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8;
            self.evex(down, &[to.into(), from.into(), X::I(32)]);
            to
        });
        self.narrowed(low, high)
    }

    fn narrowed(&mut self, low: Register, high: Register) -> Register {
        let [to, upper] = [low, high].map(|from| {
            let to = if self.taken.contains(&from) { from } else { self.temp() };
            self.evex(Code::EVEX_Vpmovqd_ymmm256_k1z_zmm, &[ymm(to).into(), from.into()]);
            to
        });
        self.joined(to, upper)
    }

    fn lower(register: Register) -> Register {
        ymm(register)
    }

    /// There are conversions of unsigned numbers.
    fn is_below_sign(&self, _: Source) -> bool {
        false
    }

    fn hold(&mut self, register: Register) {
        self.held.push(register);
    }

    fn put(&mut self, inst: &VectorInst, n: usize, piece: usize, made: Register) {
        let place = self.c.dest(inst, &inst.dst[n]);
        let target = self.c.target(&place, piece);
        let own = self.taken.contains(&made);
        if !target.is_some_and(|target| own && self.c.a.retarget(made, target)) {
            self.c.put_register(&place, piece, made);
        }
        self.taken.clone_from(&self.held);
    }

    fn put_by(&mut self, inst: &VectorInst, n: usize, piece: usize, code: LaneCode, from: &[X]) {
        // Masks of these have a bit for 32 bits.
        let of_words = self.c.width_of(inst.dst[n].reg) == Width::W16;
        if of_words && [AND, ANDN, OR, XOR].contains(&code) {
            let to = self.temp();
            let all: Vec<X> = std::iter::once(to.into()).chain(from.iter().copied()).collect();
            self.op(code, &all);
            return self.put(inst, n, piece, to);
        }
        let place = self.c.dest(inst, &inst.dst[n]);
        self.c.put(&place, piece, code.of(SimdIsa::Avx512), from);
        self.taken.clone_from(&self.held);
    }

    fn put_words(
        &mut self,
        inst: &VectorInst,
        n: usize,
        mut make: impl FnMut(&mut Self, usize) -> Register,
    ) {
        let [low, high] = [0, 1].map(|piece| {
            let before = self.taken.clone();
            let made = make(self, piece);
            self.evex(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, &[ymm(made).into(), made.into()]);
            self.taken = before;
            self.taken.push(made);
            made
        });
        let made = self.joined(low, high);
        self.put(inst, n, 0, made);
    }

    fn is_zero(&mut self, a: Register, bits: X, w: Width) -> Register {
        let code = match w {
            Width::W64 => Code::EVEX_Vptestnmq_kr_k1_zmm_zmmm512b64,
            _ => Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32,
        };
        let mask = self.mask();
        self.evex(code, &[mask.into(), a.into(), bits]);
        mask
    }

    fn has_bit(&mut self, a: Register, bit: u32) -> Register {
        let mask = self.mask();
        if bit == 31 {
            self.evex(Code::EVEX_Vpmovd2m_kr_zmm, &[mask.into(), a.into()]);
            return mask;
        }
        let bits = self.number(1 << bit, Width::W32);
        self.evex(Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32, &[mask.into(), a.into(), bits]);
        mask
    }

    fn compare(&mut self, a: Register, b: X, condition: i32, w: Width) -> Register {
        let mask = self.mask();
        self.evex(pick_float(w), &[mask.into(), a.into(), b, X::I(condition)]);
        mask
    }

    fn affine(&mut self, source: Source, w: Width, piece: usize) -> Register {
        let to = self.temp();
        self.c.formula(source, piece, w, to)
    }

    fn compare_piece(&mut self, piece: usize, a: Register, b: X, by: By, w: Width) {
        let [low, high] = PREDICATE;
        // Bits come 8, 16 or 32 at a time.
        let to = match w {
            Width::W64 => [low, K1, high, K2][piece],
            _ => [low, high][piece],
        };
        let (code, condition) = match by {
            By::Floats(condition) => (pick_float(w), condition),
            By::Integers(compare, signed) => {
                let code = match (w, signed) {
                    (Width::W16, true) => Code::EVEX_Vpcmpw_kr_k1_zmm_zmmm512_imm8,
                    (Width::W16, false) => Code::EVEX_Vpcmpuw_kr_k1_zmm_zmmm512_imm8,
                    (Width::W32, true) => Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8,
                    (Width::W32, false) => Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
                    (_, true) => Code::EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8,
                    (_, false) => Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8,
                };
                (code, integer_condition(compare).unwrap_or(0))
            }
        };
        self.evex(code, &[to.into(), a.into(), b, X::I(condition)]);
        self.taken.clone_from(&self.held);
    }

    fn put_compared(&mut self, _: &VectorInst, w: Width) {
        let ([low, high], eax) = (PREDICATE, Register::EAX);
        if w == Width::W16 {
            return self.evex(Code::VEX_Kmovd_r32_kr, &[eax.into(), low.into()]);
        }
        if w == Width::W64 {
            self.evex(Code::VEX_Kunpckbw_kr_kr_kr, &[low.into(), K1.into(), low.into()]);
            self.evex(Code::VEX_Kunpckbw_kr_kr_kr, &[high.into(), K2.into(), high.into()]);
        }
        self.evex(Code::VEX_Kunpckwd_kr_kr_kr, &[K1.into(), high.into(), low.into()]);
        self.evex(Code::VEX_Kmovd_r32_kr, &[eax.into(), K1.into()]);
    }

    fn blend(&mut self, to: Register, from: X, mask: Register, w: Width) {
        let (code, from) = match (from, w) {
            (X::M(m), Width::W64) if m.is_broadcast => {
                (Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, single(m).into())
            }
            (X::M(m), _) if m.is_broadcast => {
                (Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, single(m).into())
            }
            _ => (move_code(w), from),
        };
        self.c.a.op(code, &[to.into(), from]).set_op_mask(mask);
    }

    fn clear(&mut self, to: Register, mask: Register, w: Width) {
        let code = match w {
            Width::W64 => Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64,
            _ => Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
        };
        self.c.a.op(code, &[to.into(), to.into(), to.into()]).set_op_mask(mask);
    }

    fn fill(&mut self, to: Register, mask: Register, w: Width) {
        let code = match w {
            Width::W64 => Code::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8,
            _ => Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8,
        };
        self.c.a.op(code, &[to.into(), to.into(), to.into(), X::I(-1)]).set_op_mask(mask);
    }

    fn free_mask(&mut self, mask: Register) {
        self.masks.retain(|taken| *taken != mask);
    }

    fn signs(&mut self, a: Register, w: Width) -> Register {
        let code = match w {
            Width::W64 => Code::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8,
            _ => Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8,
        };
        let to = self.temp();
        self.evex(code, &[to.into(), a.into(), X::I(w.bits() as i32 - 1)]);
        to
    }

    fn shift_down(&mut self, a: Register, by: Register, w: Width, signed: bool) -> Register {
        let code = match (w, signed) {
            (Width::W64, true) => Code::EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64,
            (Width::W64, false) => Code::EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64,
            (_, true) => Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
            (_, false) => Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
        };
        let to = self.temp();
        self.evex(code, &[to.into(), a.into(), by.into()]);
        to
    }

    fn product_long(&mut self, a: Register, b: Register) -> Register {
        let to = self.temp();
        let code = Code::EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64;
        self.evex(code, &[to.into(), a.into(), b.into()]);
        to
    }

    fn extreme_long(&mut self, a: Register, b: Register, larger: bool, signed: bool) -> Register {
        let code = match (larger, signed) {
            (true, true) => MAX_S64,
            (true, false) => MAX_U64,
            (false, true) => MIN_S64,
            (false, false) => MIN_U64,
        };
        self.made(code, a, b)
    }

    fn extended(&mut self, a: Register, w: Width, bits: u8, signed: bool) -> Register {
        let to = self.temp();
        let by = X::I(w.bits() as i32 - i32::from(bits));
        let [up, down] = match (w, signed) {
            (Width::W64, true) => [
                Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8,
                Code::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8,
            ],
            (Width::W64, false) => [
                Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8,
                Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8,
            ],
            (_, true) => [
                Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8,
                Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8,
            ],
            (_, false) => [
                Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8,
                Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8,
            ],
        };
        self.evex(up, &[to.into(), a.into(), by]);
        self.evex(down, &[to.into(), to.into(), by]);
        to
    }

    fn odd_lanes(&mut self, to: Register, odd: Register) {
        // The third's bit chooses: the second's or the first's.
        let upper = self.number(u64::MAX << 32, Width::W64);
        let choose = Code::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8;
        self.evex(choose, &[to.into(), odd.into(), upper, X::I(0xd8u8 as i8 as i32)]);
    }

    fn choose_bits(&mut self, to: Register, other: Register, mask: Register) {
        // The third's bit chooses: the first's or the second's.
        let choose = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
        self.evex(choose, &[to.into(), other.into(), mask.into(), X::I(0xe4u8 as i8 as i32)]);
    }

    fn blend_bytes(&mut self, to: Register, from: Register, by: Register) {
        let mask = self.mask();
        self.evex(Code::EVEX_Vpmovb2m_kr_zmm, &[mask.into(), by.into()]);
        let copy = Code::EVEX_Vmovdqu8_zmm_k1z_zmmm512;
        self.c.a.op(copy, &[to.into(), from.into()]).set_op_mask(mask);
        self.free_mask(mask);
    }

    fn byte_signs(&mut self, a: Register) -> Register {
        let (to, mask) = (self.temp(), self.mask());
        self.evex(Code::EVEX_Vpmovb2m_kr_zmm, &[mask.into(), a.into()]);
        self.evex(Code::EVEX_Vpmovm2b_zmm_kr, &[to.into(), mask.into()]);
        self.free_mask(mask);
        to
    }

    fn count_ones(&mut self, a: Register, w: Width) -> Register {
        let code = match w {
            Width::W64 => Code::EVEX_Vpopcntq_zmm_k1z_zmmm512b64,
            _ => Code::EVEX_Vpopcntd_zmm_k1z_zmmm512b32,
        };
        self.one(code, a)
    }

    fn leading_zeros(&mut self, a: Register, w: Width) -> Register {
        let code = match w {
            Width::W64 => Code::EVEX_Vplzcntq_zmm_k1z_zmmm512b64,
            _ => Code::EVEX_Vplzcntd_zmm_k1z_zmmm512b32,
        };
        self.one(code, a)
    }

    fn reversed(&mut self, a: Register, w: Width) -> Register {
        /// Bits of every byte in reverse order, as an affine map.
        const REVERSED: u64 = 0x8040_2010_0804_0201;
        let map = self.number(REVERSED, Width::W64);
        let last = w.bytes() as u8 - 1;
        let swap = self.bytes(|at| (at & 15 & !last) + (last - (at & last)));
        let to = self.temp();
        let affine = Code::EVEX_Vgf2p8affineqb_zmm_k1z_zmm_zmmm512b64_imm8;
        self.evex(affine, &[to.into(), a.into(), map, X::I(0)]);
        self.evex(Code::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512, &[to.into(), to.into(), swap]);
        to
    }

    fn lookup(&mut self, inst: &VectorInst, piece: usize, table: u8) -> Register {
        let w = Width::W32;
        let first = self.source(inst.src[0], w, piece);
        let to = self.copied(first, w);
        let second = self.source_in(inst.src[1], w, piece);
        let third = self.source(inst.src[2], w, piece);
        let code = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
        self.evex(code, &[to.into(), second.into(), third, X::I(i32::from(table as i8))]);
        to
    }

    fn rotated(&mut self, source: Source, piece: usize, by: i32) -> Option<Register> {
        let from = self.source(source, Width::W32, piece);
        let to = self.temp();
        self.evex(Code::EVEX_Vprold_zmm_k1z_zmmm512b32_imm8, &[to.into(), from, X::I(by)]);
        Some(to)
    }

    /// One of the three is where the result goes, or may be put there: one that is in memory, if there is
    /// one.
    fn fused(&mut self, inst: &VectorInst, w: Width, piece: usize) -> bool {
        let place = self.c.dest(inst, &inst.dst[0]);
        let (target, kept) = match (self.c.target(&place, piece), place.whole()) {
            (Some(target), _) => (target, true),
            (None, Some(Value::Memory(..))) => (Z0, false),
            _ => return false,
        };
        let values: [Value; 3] = std::array::from_fn(|n| self.value(inst.src[n], w));
        let at = values.map(|value| self.c.part(value, piece));
        let (add, times) = match w {
            Width::W64 => (
                Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er,
                Code::EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er,
            ),
            _ => (
                Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
                Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            ),
        };
        let is_target = |n: &usize| matches!(at[*n], X::R(r) if r == target);
        let in_memory = |n: &usize| matches!(at[*n], X::M(_));
        let order = [2, 0, 1];
        let found = order.iter().find(|n| is_target(n)).or(order.iter().find(|n| in_memory(n)));
        let first = found.copied().unwrap_or(0);
        let register = self.c.part_in(values[first], piece, w, target);
        if register != target {
            self.evex(move_code(w), &[target.into(), register.into()]);
        }
        // The factor that must be in a register, and the rest.
        let (code, factor, last) = match first {
            2 => (add, 0, 1),
            0 => (times, 1, 2),
            _ => (times, 0, 2),
        };
        let factor = self.c.part_in(values[factor], piece, w, Z1);
        self.evex(code, &[target.into(), factor.into(), at[last]]);
        if !kept {
            self.c.put_register(&place, piece, target);
        }
        self.taken.clone_from(&self.held);
        true
    }

    fn flushed(&mut self, a: Register) -> Register {
        let to = self.temp();
        self.c.flushed(a, to)
    }

    fn root_estimate(&mut self, a: Register) -> Register {
        let (to, y, product) = (self.temp(), self.temp(), self.temp());
        self.c.estimated_root([(to, a.into(), y, product)]);
        self.free_all([y, product]);
        to
    }

    fn lower_f16_as_f32(&mut self, a: Register) {
        self.evex(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, &[ymm(a).into(), a.into()]);
        self.evex(Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae, &[a.into(), ymm(a).into()]);
    }

    fn f32_as_f16(&mut self, a: Register) {
        let narrow = Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae;
        self.evex(narrow, &[ymm(a).into(), a.into(), X::I(0)]);
        self.evex(Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256, &[a.into(), ymm(a).into()]);
    }

    fn scale(&mut self, to: Register, exponents: Register) {
        let code = Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er;
        self.evex(code, &[to.into(), to.into(), exponents.into()]);
    }

    fn mantissas(&mut self, a: Register) -> [Register; 2] {
        /// In [3/4, 3/2), a NaN of a negative number.
        const MANTISSA: i32 = 0b1011;
        let exponent = Code::EVEX_Vgetexpps_zmm_k1z_zmmm512b32_sae;
        let subtract = Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er;
        let (x, e, other) = (self.temp(), self.temp(), self.temp());
        let mantissa = Code::EVEX_Vgetmantps_zmm_k1z_zmmm512b32_imm8_sae;
        self.evex(mantissa, &[x.into(), a.into(), X::I(MANTISSA)]);
        self.evex(exponent, &[e.into(), a.into()]);
        self.evex(exponent, &[other.into(), x.into()]);
        self.evex(subtract, &[e.into(), e.into(), other.into()]);
        self.free(other);
        let one = self.number(1f32.to_bits().into(), Width::W32);
        self.evex(subtract, &[x.into(), x.into(), one]);
        [x, e]
    }

    /// The exponents of zero and infinity are the result, and the mantissas of negative numbers NaN.
    fn special_logarithms(&mut self, _: Register, _: Register) {}
}
