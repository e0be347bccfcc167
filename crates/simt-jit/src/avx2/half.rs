//! Half precision: f16 and bf16 arithmetic on the lanes of a slice, single and packed, by way of
//! f32. The sequences are those of [`crate::avx512::half`].

use crate::asm::assembler::X;
use crate::avx2::slice::{Slice, xmm};
use crate::avx512::half::{Format, NAN};
use crate::lanewise::math;
use crate::operands::HalfBits;
use iced_x86::{Code, Register};
use simt::ir::op::{Convert, FloatMode, FloatOp, FloatType, Round, Width};
use simt::ir::vector::{Source, VectorInst};

/// Rounding to nearest, nothing else.
fn is_plain(mode: FloatMode) -> bool {
    mode.round == Round::Near && !mode.ftz && !mode.sat
}

/// Subnormal f16 numbers become zero: bf16 has f32's exponents, and the extremes are taken as they
/// are.
fn flushes(op: FloatOp, format: Format, mode: FloatMode) -> bool {
    use FloatOp::{Max, MaxNan, Min, MinNan};
    mode.ftz && !format.brain && !matches!(op, Min | Max | MinNan | MaxNan)
}

/// True if there is a form for the operation.
pub(crate) fn has_form(op: FloatOp, ty: FloatType, mode: FloatMode) -> bool {
    use FloatOp::{Abs, Add, Ex2, Fma, FmaRelu, Max, MaxNan, Min, MinNan, Mul, Neg, Sub, Tanh};
    let Some(format) = Format::of(ty) else { return false };
    if mode.round != Round::Near || mode.sat && format.brain {
        return false;
    }
    match op {
        Neg | Abs => !flushes(op, format, mode) && !mode.sat,
        Add | Sub | Mul | Fma | FmaRelu | Min | Max | MinNan | MaxNan | Ex2 | Tanh => true,
        _ => false,
    }
}

/// True if there is a form for the conversion.
pub(crate) fn converts(convert: Convert) -> bool {
    let Convert::Float { from, to, mode, relu: false } = convert else { return false };
    let single = |ty: FloatType| ty == FloatType::F32;
    is_plain(mode)
        && match (Format::of(from), Format::of(to)) {
            (Some(format), None) => !format.pair && single(to),
            (None, Some(_)) => single(from),
            _ => false,
        }
}

impl Slice<'_, '_> {
    /// Arithmetic on halves.
    pub(crate) fn halves(
        &mut self,
        inst: &VectorInst,
        op: FloatOp,
        ty: FloatType,
        mode: FloatMode,
    ) {
        let Some(format) = Format::of(ty) else { return self.unsupported() };
        let flush = flushes(op, format, mode);
        if let FloatOp::Neg | FloatOp::Abs = op {
            let (bits, code) = match op {
                FloatOp::Neg => (0x8000, Code::VEX_Vpxor_ymm_ymm_ymmm256),
                _ => (0x7fff, Code::VEX_Vpand_ymm_ymm_ymmm256),
            };
            let bits = self.constant(bits, Width::W16);
            let a = self.piece_in(inst.src[0], ty.width(), 0);
            let to = self.temp();
            self.op(code, &[to.into(), a.into(), bits.into()]);
            return self.put(inst, 0, 0, to);
        }
        self.put_halves(inst, format.pair, |this, bits| {
            let made = this.half_result(inst, op, flush, (format.brain, bits));
            let made = this.half_within(made, mode.sat);
            let made = this.rounded_half(made, format.brain);
            if flush || op == FloatOp::FmaRelu {
                this.half_cleared(made, flush, op == FloatOp::FmaRelu);
            }
            made
        });
    }

    /// `cvt` between halves and f32.
    pub(crate) fn convert_halves(&mut self, inst: &VectorInst, from: FloatType, to: FloatType) {
        match (Format::of(from), Format::of(to)) {
            (Some(format), _) => {
                let single = self.single_of(inst.src[0], (format.brain, HalfBits::All));
                let made = self.canonical(single);
                self.put(inst, 0, 0, made);
            }
            (None, Some(format)) => self.put_halves(inst, format.pair, |this, bits| {
                let source = inst.src[usize::from(bits == HalfBits::Low)];
                let single = this.piece(source, Width::W32, 0);
                let made = this.copied(single);
                this.rounded_half(made, format.brain)
            }),
            _ => self.unsupported(),
        }
    }

    /// Makes the first result of halves: `make` gives those that are asked for, in the lower 16 bits
    /// of 32-bit lanes.
    fn put_halves(
        &mut self,
        inst: &VectorInst,
        pair: bool,
        mut make: impl FnMut(&mut Self, HalfBits) -> Register,
    ) {
        if pair {
            let low = make(self, HalfBits::Low);
            let high = make(self, HalfBits::High);
            self.op(Code::VEX_Vpslld_ymm_ymm_imm8, &[high.into(), high.into(), X::I(16)]);
            self.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[low.into(), low.into(), high.into()]);
            return self.put(inst, 0, 0, low);
        }
        // A conversion of one has its only source first.
        let made = make(self, HalfBits::All);
        self.lower_words(made, made);
        self.put(inst, 0, 0, made);
    }

    /// A source's halves as f32 numbers, in a register of their own.
    pub(crate) fn single_of(
        &mut self,
        source: Source,
        (brain, bits): (bool, HalfBits),
    ) -> Register {
        let (up, widen) = (Code::VEX_Vpslld_ymm_ymm_imm8, Code::VEX_Vcvtph2ps_ymm_xmmm128);
        let width = if bits == HalfBits::All { Width::W16 } else { Width::W32 };
        let from = self.piece_in(source, width, 0);
        let to = self.temp();
        match (brain, bits) {
            (true, HalfBits::All) => {
                self.op(Code::VEX_Vpmovzxwd_ymm_xmmm128, &[to.into(), xmm(from).into()]);
                self.op(up, &[to.into(), to.into(), X::I(16)]);
            }
            (true, HalfBits::Low) => self.op(up, &[to.into(), from.into(), X::I(16)]),
            (true, HalfBits::High) => {
                let upper = self.constant(0xffff_0000, Width::W32);
                let and = Code::VEX_Vpand_ymm_ymm_ymmm256;
                self.op(and, &[to.into(), from.into(), upper.into()]);
            }
            (false, HalfBits::All) => self.op(widen, &[to.into(), xmm(from).into()]),
            (false, _) => {
                let mut words = from;
                if bits == HalfBits::High {
                    self.op(Code::VEX_Vpsrld_ymm_ymm_imm8, &[to.into(), from.into(), X::I(16)]);
                    words = to;
                }
                self.lower_words(to, words);
                self.op(widen, &[to.into(), xmm(to).into()]);
            }
        }
        to
    }

    /// f32 numbers as halves, in the lower 16 bits of their lanes; they are overwritten.
    fn rounded_half(&mut self, a: Register, brain: bool) -> Register {
        let none = self.temp();
        let compare = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
        self.op(compare, &[none.into(), a.into(), a.into(), X::I(3)]);
        if brain {
            let (down, add) = (Code::VEX_Vpsrld_ymm_ymm_imm8, Code::VEX_Vpaddd_ymm_ymm_ymmm256);
            let (one, most) = (self.constant(1, Width::W32), self.constant(0x7fff, Width::W32));
            // To the even one, where it is in the middle.
            let even = self.temp();
            self.op(down, &[even.into(), a.into(), X::I(16)]);
            self.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[even.into(), even.into(), one.into()]);
            self.op(add, &[a.into(), a.into(), even.into()]);
            self.op(add, &[a.into(), a.into(), most.into()]);
            self.op(down, &[a.into(), a.into(), X::I(16)]);
            self.free(even);
        } else {
            let narrow = Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8;
            self.op(narrow, &[xmm(a).into(), a.into(), X::I(0)]);
            self.op(Code::VEX_Vpmovzxwd_ymm_xmmm128, &[a.into(), xmm(a).into()]);
        }
        let nan = self.constant(NAN.into(), Width::W32);
        let blend = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
        self.op(blend, &[a.into(), a.into(), nan.into(), none.into()]);
        self.free(none);
        a
    }

    /// f32 numbers, clamped to [0, 1] with `sat`; they are overwritten.
    fn half_within(&mut self, a: Register, sat: bool) -> Register {
        if !sat {
            return a;
        }
        let made = self.saturated(a, false);
        self.free(a);
        made
    }

    /// Makes zeros, in the lower 16 bits of 32-bit lanes, of what is subnormal, and of what is below
    /// zero.
    fn half_cleared(&mut self, a: Register, subnormal: bool, negative: bool) {
        let (and, clear) = (Code::VEX_Vpand_ymm_ymm_ymmm256, Code::VEX_Vpandn_ymm_ymm_ymmm256);
        let mask = self.zero();
        if subnormal {
            let exponent = self.constant(0x7c00, Width::W32);
            let magnitude = self.constant(0x7fff, Width::W32);
            let bits = self.temp();
            self.op(and, &[bits.into(), a.into(), exponent.into()]);
            let equal = Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256;
            self.op(equal, &[mask.into(), bits.into(), mask.into()]);
            self.op(and, &[mask.into(), mask.into(), magnitude.into()]);
            self.op(clear, &[a.into(), mask.into(), a.into()]);
            self.free(bits);
        }
        if negative {
            // NaN has no sign, and stays.
            self.op(Code::VEX_Vpslld_ymm_ymm_imm8, &[mask.into(), a.into(), X::I(16)]);
            self.op(Code::VEX_Vpsrad_ymm_ymm_imm8, &[mask.into(), mask.into(), X::I(31)]);
            self.op(clear, &[a.into(), mask.into(), a.into()]);
        }
        self.free(mask);
    }

    /// Source `n`'s halves as f32 numbers, those that are subnormal as f16 zero with `flush`.
    fn half_operand(
        &mut self,
        inst: &VectorInst,
        n: usize,
        flush: bool,
        what: (bool, HalfBits),
    ) -> Register {
        let a = self.single_of(inst.src[n], what);
        if flush {
            let magnitude = self.constant(0x7fff_ffff, Width::W32);
            let least = self.constant(0x3880_0000, Width::W32);
            let mask = self.temp();
            let and = Code::VEX_Vpand_ymm_ymm_ymmm256;
            self.op(and, &[mask.into(), a.into(), magnitude.into()]);
            let compare = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
            self.op(compare, &[mask.into(), mask.into(), least.into(), X::I(0x11)]);
            self.op(and, &[mask.into(), mask.into(), magnitude.into()]);
            self.op(Code::VEX_Vpandn_ymm_ymm_ymmm256, &[a.into(), mask.into(), a.into()]);
            self.free(mask);
        }
        a
    }

    /// The results of an operation, as f32 numbers.
    fn half_result(
        &mut self,
        inst: &VectorInst,
        op: FloatOp,
        flush: bool,
        what: (bool, HalfBits),
    ) -> Register {
        let a = self.half_operand(inst, 0, flush, what);
        if let FloatOp::Ex2 | FloatOp::Tanh = op {
            let made = math::function(self, op, a);
            self.free(a);
            return made;
        }
        let b = self.half_operand(inst, 1, flush, what);
        let add = Code::VEX_Vaddps_ymm_ymm_ymmm256;
        let made = match op {
            FloatOp::Min | FloatOp::Max => self.extreme(op == FloatOp::Max, false, a, b),
            FloatOp::MinNan | FloatOp::MaxNan => {
                let made = self.extreme(op == FloatOp::MaxNan, false, a, b);
                let none = self.temp();
                let compare = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
                self.op(compare, &[none.into(), a.into(), b.into(), X::I(3)]);
                // A sum with a NaN is one.
                self.op(add, &[a.into(), a.into(), b.into()]);
                let blend = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
                self.op(blend, &[made.into(), made.into(), a.into(), none.into()]);
                self.free(none);
                made
            }
            FloatOp::Fma | FloatOp::FmaRelu => {
                let c = self.half_operand(inst, 2, flush, what);
                self.fma_to_odd(a, b, c);
                self.free(c);
                a
            }
            _ => {
                let code = match op {
                    FloatOp::Add => add,
                    FloatOp::Sub => Code::VEX_Vsubps_ymm_ymm_ymmm256,
                    _ => Code::VEX_Vmulps_ymm_ymm_ymmm256,
                };
                self.op(code, &[a.into(), a.into(), b.into()]);
                a
            }
        };
        self.free(b);
        if made != a {
            self.free(a);
        }
        made
    }

    /// The first times the second plus the third, in the first; inexact results have an odd last
    /// digit.
    fn fma_to_odd(&mut self, a: Register, b: Register, c: Register) {
        let code = Code::VEX_Vfmadd213ps_ymm_ymm_ymmm256;
        let bounds = [Round::Down, Round::Up].map(|round| {
            let to = self.copied(a.into());
            self.round(round);
            self.op(code, &[to.into(), b.into(), c.into()]);
            to
        });
        self.round(Round::Zero);
        self.op(code, &[a.into(), b.into(), c.into()]);
        self.round(Round::Near);
        let [same, other] = bounds;
        let one = self.constant(1, Width::W32);
        self.op(Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, &[same.into(), same.into(), other.into()]);
        self.op(Code::VEX_Vpandn_ymm_ymm_ymmm256, &[same.into(), same.into(), one.into()]);
        self.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[a.into(), a.into(), same.into()]);
        bounds.into_iter().for_each(|r| self.free(r));
    }
}
