//! Integer arithmetic and moves on 32 lanes, and the dispatcher of lane-wise operations.

use crate::asm::assembler::{X, repeated};
use crate::frame_layout::{K1, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::host::host_has;
use crate::operands::{Place, Value, move_code, ymm};
use crate::scalar::integer::window;
use iced_x86::{Code, Register};
use simt::ir::op::{IntOp, IntType, Op, Width};
use simt::ir::vector::{Source, StorageClass, VectorInst};

/// Integer operations that are one instruction of two operands.
fn binary_int(op: IntOp, ty: IntType) -> Option<Code> {
    use IntType::{S32, S64, U32, U64};
    Some(match (op, ty) {
        (IntOp::Add, U32 | S32) => Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
        (IntOp::Add, U64 | S64) => Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
        (IntOp::Add, _) => Code::EVEX_Vpaddw_zmm_k1z_zmm_zmmm512,
        (IntOp::Sub, U32 | S32) => Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
        (IntOp::Sub, U64 | S64) => Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64,
        (IntOp::Sub, _) => Code::EVEX_Vpsubw_zmm_k1z_zmm_zmmm512,
        (IntOp::MulLo, U32 | S32) => Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32,
        (IntOp::MulLo, U64 | S64) => Code::EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64,
        (IntOp::MulLo, _) => Code::EVEX_Vpmullw_zmm_k1z_zmm_zmmm512,
        (IntOp::And, U64 | S64) => Code::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64,
        (IntOp::Or, U64 | S64) => Code::EVEX_Vporq_zmm_k1z_zmm_zmmm512b64,
        (IntOp::Xor, U64 | S64) => Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64,
        (IntOp::And, U32 | S32) => Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
        (IntOp::Or, U32 | S32) => Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
        (IntOp::Xor, U32 | S32) => Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
        (IntOp::Min, S32) => Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
        (IntOp::Min, U32) => Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
        (IntOp::Min, S64) => Code::EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64,
        (IntOp::Min, U64) => Code::EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64,
        (IntOp::Max, S32) => Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
        (IntOp::Max, U32) => Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
        (IntOp::Max, S64) => Code::EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64,
        (IntOp::Max, U64) => Code::EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64,
        // The processor gives nothing for amounts over the width, as PTX wants it.
        (IntOp::Shl, U32 | S32) => Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
        (IntOp::Shr, U32) => Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
        (IntOp::Shr, S32) => Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
        (IntOp::Min, IntType::S16) => Code::EVEX_Vpminsw_zmm_k1z_zmm_zmmm512,
        (IntOp::Min, IntType::U16) => Code::EVEX_Vpminuw_zmm_k1z_zmm_zmmm512,
        (IntOp::Max, IntType::S16) => Code::EVEX_Vpmaxsw_zmm_k1z_zmm_zmmm512,
        (IntOp::Max, IntType::U16) => Code::EVEX_Vpmaxuw_zmm_k1z_zmm_zmmm512,
        (IntOp::MulHi, IntType::S16) => Code::EVEX_Vpmulhw_zmm_k1z_zmm_zmmm512,
        (IntOp::MulHi, IntType::U16) => Code::EVEX_Vpmulhuw_zmm_k1z_zmm_zmmm512,
        _ => return None,
    })
}

/// 64-bit shifts, whose amount has 32 bits: by an amount a lane, and by a constant.
fn wide_shift(op: IntOp, ty: IntType) -> Option<[Code; 2]> {
    Some(match (op, ty) {
        (IntOp::Shl, IntType::U64 | IntType::S64) => {
            [Code::EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64, Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8]
        }
        (IntOp::Shr, IntType::U64) => {
            [Code::EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64, Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8]
        }
        (IntOp::Shr, IntType::S64) => {
            [Code::EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64, Code::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8]
        }
        _ => return None,
    })
}

impl Compiler<'_> {
    /// Makes code for a lane-wise instruction; false if there is none.
    pub(crate) fn lanes(&mut self, inst: &VectorInst) -> bool {
        if self.uniform_as_vector.is_some() {
            return self.lane_wise(inst);
        }
        if inst.uniform || inst.dst.is_empty() || !self.has_lane_results(inst) {
            return false;
        }
        if let (Op::Mov(w), Some(source @ (Source::Affine(..) | Source::HalfAffine(..)))) =
            (&inst.op, inst.src.first())
        {
            if *w == Width::W16 && matches!(source, Source::HalfAffine(..)) {
                return false;
            }
            let place = self.dest(inst, &inst.dst[0]);
            for part in 0..self.parts(*w) {
                let target = self.target(&place, part);
                let register = self.formula(inst.src[0], part, *w, target.unwrap_or(Z0));
                if target != Some(register) {
                    self.put(&place, part, move_code(*w), &[register.into()]);
                }
            }
            return true;
        }
        if inst.src.iter().any(|s| matches!(s, Source::Affine(..) | Source::HalfAffine(..))) {
            return false;
        }
        self.lane_wise(inst)
    }

    fn lane_wise(&mut self, inst: &VectorInst) -> bool {
        match inst.op {
            Op::Mov(w) => {
                let value = self.value(inst.src[0], w);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(w) {
                    match self.target(&place, part) {
                        Some(target) => {
                            let register = self.part_in(value, part, w, target);
                            if register != target {
                                self.a.op(move_code(w), &[target.into(), register.into()]);
                            }
                        }
                        None => {
                            let register = self.part_in(value, part, w, Z0);
                            self.put(&place, part, move_code(w), &[register.into()]);
                        }
                    }
                }
                true
            }
            Op::Int(op, ty) => self.lanes_int(inst, op, ty),
            Op::Float(op, ty, mode) => {
                self.lanes_float(inst, op, ty, mode) || self.half_arithmetic(inst, op, ty, mode)
            }
            Op::Select(w) => {
                let (a, b) = (self.value(inst.src[0], w), self.value(inst.src[1], w));
                let place = self.dest(inst, &inst.dst[0]);
                let pair = self.predicate(inst.src[2]);
                let code = match w {
                    Width::W16 => Code::EVEX_Vpblendmw_zmm_k1z_zmm_zmmm512,
                    Width::W32 => Code::EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32,
                    _ => Code::EVEX_Vpblendmq_zmm_k1z_zmm_zmmm512b64,
                };
                for part in 0..self.parts(w) {
                    let second = self.part_in(b, part, w, Z0);
                    let k = self.of_pair(pair, part, w);
                    let first = self.part(a, part);
                    let target = self.target(&place, part).unwrap_or(Z0);
                    let operands = [target.into(), second.into(), first];
                    self.a.op(code, &operands).set_op_mask(k);
                    if self.target(&place, part).is_none() {
                        self.put(&place, part, move_code(w), &[Z0.into()]);
                    }
                }
                true
            }
            Op::Extend { from, bits, signed, to } => {
                self.lanes_extend(inst, from, bits, signed, to)
                    || self.half_extend(inst, (from, to), bits, signed)
            }
            Op::Pack { part: Width::W32, whole: Width::W64 } => {
                let low = self.value(inst.src[0], Width::W32);
                let high = self.value(inst.src[1], Width::W32);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(Width::W64) {
                    let first = self.half(low, part, Z0);
                    self.a.op(Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256, &[Z0.into(), first]);
                    let second = self.half(high, part, Z1);
                    self.a.op(Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256, &[Z1.into(), second]);
                    let shift = [Z1.into(), Z1.into(), X::I(32)];
                    self.a.op(Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8, &shift);
                    let or = Code::EVEX_Vporq_zmm_k1z_zmm_zmmm512b64;
                    self.put(&place, part, or, &[Z0.into(), Z1.into()]);
                }
                true
            }
            Op::Unpack { part: Width::W32, whole: Width::W64 } => {
                let value = self.value(inst.src[0], Width::W64);
                for (n, dest) in inst.dst.iter().enumerate() {
                    let place = self.dest(inst, dest);
                    self.narrow(&place, value, if n == 0 { 0 } else { 32 });
                }
                true
            }
            Op::Pack { part: Width::W16, whole } => self.pack_halves(inst, whole),
            Op::Unpack { part: Width::W16, whole } => self.unpack_halves(inst, whole),
            Op::Dp4a(a, b) => {
                self.dot_of_bytes(inst, a, b);
                true
            }
            Op::Dp2a(a, b, high) => {
                self.dot_of_halves(inst, a, b, high);
                true
            }
            Op::Special(special) => self.lane_masks(inst, special),
            Op::Lop3(table) => {
                let w = Width::W32;
                let values: [Value; 3] = std::array::from_fn(|n| self.value(inst.src[n], w));
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(w) {
                    let register = self.part_in(values[0], part, w, Z0);
                    if register != Z0 {
                        self.a.op(move_code(w), &[Z0.into(), register.into()]);
                    }
                    let second = self.part_in(values[1], part, w, Z1);
                    let third = self.part(values[2], part);
                    let operands = [Z0.into(), second.into(), third, X::I(i32::from(table as i8))];
                    let code = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
                    self.a.op(code, &operands);
                    self.put(&place, part, move_code(w), &[Z0.into()]);
                }
                true
            }
            Op::Prmt(mode) => self.permute_bytes(inst, mode),
            Op::Convert(convert) => {
                self.lanes_convert(inst, convert) || self.half_convert(inst, convert)
            }
            Op::ToGeneric(space) | Op::FromGeneric(space) => {
                let Some(window) = window(space) else { return false };
                let (w, value) = (Width::W64, self.value(inst.src[0], Width::W64));
                let window = repeated(self.a.constant(&window.to_le_bytes()));
                let code = match inst.op {
                    Op::ToGeneric(_) => Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
                    _ => Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64,
                };
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(w) {
                    let register = self.part_in(value, part, w, Z0);
                    self.put(&place, part, code, &[register.into(), window.into()]);
                }
                true
            }
            _ => false,
        }
    }

    /// True if all results have a value a lane, in a form that is written here.
    pub(crate) fn has_lane_results(&self, inst: &VectorInst) -> bool {
        inst.dst.iter().all(|d| {
            let r = d.reg.index();
            self.f.storage[r] == StorageClass::Vector
                && !self.assignment.same[r]
                && self.f.classes[r].width().is_some_and(|w| w != Width::W128)
        })
    }

    /// The low half of every 64-bit lane, shifted right first.
    pub(crate) fn narrow(&mut self, place: &Place, value: Value, shift: i32) {
        for part in 0..self.parts(Width::W32) {
            for (half, scratch) in [(0, Z0), (1, Z1)] {
                let mut from = self.part_in(value, 2 * part + half, Width::W64, scratch);
                if shift != 0 {
                    let operands = [scratch.into(), from.into(), X::I(shift)];
                    self.a.op(Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8, &operands);
                    from = scratch;
                }
                let operands = [ymm(scratch).into(), from.into()];
                self.a.op(Code::EVEX_Vpmovqd_ymmm256_k1z_zmm, &operands);
            }
            self.join(place, part);
        }
    }

    /// A part from the low halves of Z0 and Z1.
    fn join(&mut self, place: &Place, part: usize) {
        let operands = [Z0.into(), Z0.into(), ymm(Z1).into(), X::I(1)];
        self.a.op(Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8, &operands);
        self.put(place, part, move_code(Width::W32), &[Z0.into()]);
    }

    /// 32-bit lanes as 64-bit ones with the same low half, in a register.
    pub(crate) fn widened(
        &mut self,
        source: Source,
        part: usize,
        signed: bool,
        to: Register,
    ) -> Register {
        if let Source::Imm(v) = source {
            let wide = if signed { v as i32 as i64 as u64 } else { u64::from(v as u32) };
            let constant = self.a.constant(&wide.to_le_bytes());
            let code = Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64;
            self.a.op(code, &[to.into(), constant.into()]);
            return to;
        }
        let value = self.value(source, Width::W32);
        let half = self.half(value, part, to);
        let code = if signed {
            Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256
        } else {
            Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256
        };
        self.a.op(code, &[to.into(), half]);
        to
    }

    fn lanes_int(&mut self, inst: &VectorInst, op: IntOp, ty: IntType) -> bool {
        let w = ty.width();
        if let Some(code) = binary_int(op, ty) {
            let (mut a, mut b) = (self.value(inst.src[0], w), self.value(inst.src[1], w));
            let swaps = !matches!(op, IntOp::Sub | IntOp::Shl | IntOp::Shr);
            if swaps && !matches!(a, Value::Parts(_) | Value::Same(_)) {
                std::mem::swap(&mut a, &mut b);
            }
            let place = self.dest(inst, &inst.dst[0]);
            for part in 0..self.parts(w) {
                let first = self.part_in(a, part, w, Z0);
                let second = self.part(b, part);
                self.put(&place, part, code, &[first.into(), second]);
            }
            return true;
        }
        if let Some([by_lane, by_constant]) = wide_shift(op, ty) {
            let a = self.value(inst.src[0], w);
            let place = self.dest(inst, &inst.dst[0]);
            for part in 0..self.parts(w) {
                if let Source::Imm(amount) = inst.src[1] {
                    let first = self.part_in(a, part, w, Z0);
                    // All bits are out from 64 on.
                    let amount = X::I((amount as u32).min(64) as i32);
                    self.put(&place, part, by_constant, &[first.into(), amount]);
                    continue;
                }
                let amount = self.widened(inst.src[1], part, false, Z1);
                let first = self.part_in(a, part, w, Z0);
                self.put(&place, part, by_lane, &[first.into(), amount.into()]);
            }
            return true;
        }
        match (op, w) {
            (IntOp::MadLo, Width::W32 | Width::W64) => {
                let values: [Value; 3] = std::array::from_fn(|n| self.value(inst.src[n], w));
                let (multiply, add) = if w == Width::W32 {
                    (
                        Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32,
                        Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
                    )
                } else {
                    (
                        Code::EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64,
                        Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
                    )
                };
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(w) {
                    let first = self.part_in(values[0], part, w, Z0);
                    let second = self.part(values[1], part);
                    self.a.op(multiply, &[Z0.into(), first.into(), second]);
                    let third = self.part(values[2], part);
                    self.put(&place, part, add, &[Z0.into(), third]);
                }
                true
            }
            (IntOp::MulWide | IntOp::MadWide, Width::W32) => {
                let code = if ty.signed() {
                    Code::EVEX_Vpmuldq_zmm_k1z_zmm_zmmm512b64
                } else {
                    Code::EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64
                };
                let third = (op == IntOp::MadWide).then(|| self.value(inst.src[2], Width::W64));
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(Width::W64) {
                    // Only the low halves count.
                    let first = self.widened(inst.src[0], part, false, Z0);
                    let second = self.widened(inst.src[1], part, false, Z1);
                    match third {
                        None => self.put(&place, part, code, &[first.into(), second.into()]),
                        Some(third) => {
                            self.a.op(code, &[Z0.into(), first.into(), second.into()]);
                            let third = self.part(third, part);
                            let add = Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64;
                            self.put(&place, part, add, &[Z0.into(), third]);
                        }
                    }
                }
                true
            }
            (IntOp::MulHi, Width::W32) => {
                let code = if ty.signed() {
                    Code::EVEX_Vpmuldq_zmm_k1z_zmm_zmmm512b64
                } else {
                    Code::EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64
                };
                let (a, b) = (self.value(inst.src[0], w), self.value(inst.src[1], w));
                let place = self.dest(inst, &inst.dst[0]);
                self.a.op(Code::Mov_r32_imm32, &[Register::EAX.into(), X::I(0xaaaa)]);
                self.a.op(Code::VEX_Kmovd_kr_r32, &[K1.into(), Register::EAX.into()]);
                for part in 0..self.parts(w) {
                    let first = self.part_in(a, part, w, Z2);
                    let second = self.part_in(b, part, w, Z3);
                    let shift = Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8;
                    self.a.op(code, &[Z0.into(), first.into(), second.into()]);
                    self.a.op(shift, &[Z1.into(), first.into(), X::I(32)]);
                    self.a.op(shift, &[Z3.into(), second.into(), X::I(32)]);
                    self.a.op(code, &[Z1.into(), Z1.into(), Z3.into()]);
                    self.a.op(shift, &[Z0.into(), Z0.into(), X::I(32)]);
                    let blend = Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512;
                    self.a.op(blend, &[Z0.into(), Z1.into()]).set_op_mask(K1);
                    self.put(&place, part, move_code(w), &[Z0.into()]);
                }
                true
            }
            (IntOp::And | IntOp::Or | IntOp::Xor, Width::W16) => {
                let code = match op {
                    IntOp::And => Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
                    IntOp::Or => Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
                    _ => Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
                };
                let (a, b) = (self.value(inst.src[0], w), self.value(inst.src[1], w));
                let place = self.dest(inst, &inst.dst[0]);
                let first = self.part_in(a, 0, w, Z0);
                let second = self.part(b, 0);
                // The masks of this instruction have a bit for 32 bits.
                self.a.op(code, &[Z0.into(), first.into(), second]);
                self.put(&place, 0, move_code(w), &[Z0.into()]);
                true
            }
            (IntOp::Not, _) => {
                let ones = u32::MAX.to_le_bytes();
                let ones = repeated(self.a.constant(&ones));
                let a = self.value(inst.src[0], w);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(w) {
                    let first = self.part_in(a, part, w, Z0);
                    let xor = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
                    self.a.op(xor, &[Z0.into(), first.into(), ones.into()]);
                    self.put(&place, part, move_code(w), &[Z0.into()]);
                }
                true
            }
            (IntOp::Neg, _) => {
                let code = match w {
                    Width::W16 => Code::EVEX_Vpsubw_zmm_k1z_zmm_zmmm512,
                    Width::W32 => Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
                    _ => Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64,
                };
                let a = self.value(inst.src[0], w);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(w) {
                    self.zero(Z0);
                    let second = self.part(a, part);
                    self.put(&place, part, code, &[Z0.into(), second]);
                }
                true
            }
            (IntOp::Abs, Width::W32 | Width::W64) => {
                let code = match w {
                    Width::W32 => Code::EVEX_Vpabsd_zmm_k1z_zmmm512b32,
                    _ => Code::EVEX_Vpabsq_zmm_k1z_zmmm512b64,
                };
                let a = self.value(inst.src[0], w);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(w) {
                    let operand = self.part(a, part);
                    self.put(&place, part, code, &[operand]);
                }
                true
            }
            (IntOp::Popc | IntOp::Clz, Width::W32) => {
                let (code, has) = if op == IntOp::Popc {
                    let has = host_has!("avx512vpopcntdq");
                    (Code::EVEX_Vpopcntd_zmm_k1z_zmmm512b32, has)
                } else {
                    let has = host_has!("avx512cd");
                    (Code::EVEX_Vplzcntd_zmm_k1z_zmmm512b32, has)
                };
                if !has {
                    return false;
                }
                let a = self.value(inst.src[0], w);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(w) {
                    let operand = self.part(a, part);
                    self.put(&place, part, code, &[operand]);
                }
                true
            }
            (IntOp::ShfLeftWrap | IntOp::ShfRightWrap, Width::W32) => {
                self.funnel(inst, op == IntOp::ShfLeftWrap) || self.rare_integer(inst, op, ty)
            }
            (IntOp::Brev, Width::W32 | Width::W64) => self.reverse_bits(inst, w),
            (IntOp::Bfi, Width::W32) if self.insert_bits(inst) => true,
            (IntOp::Bfe, Width::W32) if self.bit_field(inst, ty.signed()) => true,
            (IntOp::Div | IntOp::Rem, Width::W64) => {
                self.divide_wide(inst, op == IntOp::Rem, ty.signed());
                true
            }
            (IntOp::Div | IntOp::Rem, Width::W32) => {
                self.divide(inst, op == IntOp::Rem, ty.signed());
                true
            }
            _ => self.rare_integer(inst, op, ty),
        }
    }

    /// `shf.wrap` by a constant; a rotation, if both halves are the same.
    fn funnel(&mut self, inst: &VectorInst, left: bool) -> bool {
        let Source::Imm(amount) = inst.src[2] else { return false };
        let amount = (amount & 31) as i32;
        // As a shift to the left of the upper half.
        let left_by = if left { amount } else { (32 - amount) & 31 };
        let w = Width::W32;
        let (low, high) = (self.value(inst.src[0], w), self.value(inst.src[1], w));
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..self.parts(w) {
            let (lower, upper) = (self.part(low, part), self.part(high, part));
            if inst.src[0] == inst.src[1] {
                let rotate = Code::EVEX_Vprold_zmm_k1z_zmmm512b32_imm8;
                self.put(&place, part, rotate, &[lower, X::I(left_by)]);
            } else if amount == 0 {
                let whole = self.part_in(if left { high } else { low }, part, w, Z0);
                self.put(&place, part, move_code(w), &[whole.into()]);
            } else {
                let (up, down) = (
                    Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8,
                    Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8,
                );
                self.a.op(up, &[Z0.into(), upper, X::I(left_by)]);
                self.a.op(down, &[Z1.into(), lower, X::I(32 - left_by)]);
                let or = Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
                self.put(&place, part, or, &[Z0.into(), Z1.into()]);
            }
        }
        true
    }

    /// 32-bit division: doubles hold the quotient exactly enough that cutting it off is right.
    fn divide(&mut self, inst: &VectorInst, remainder: bool, signed: bool) {
        let w = Width::W32;
        let (a, b) = (self.value(inst.src[0], w), self.value(inst.src[1], w));
        let place = self.dest(inst, &inst.dst[0]);
        let (widen, cut) = if signed {
            (
                Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er,
                Code::EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae,
            )
        } else {
            (
                Code::EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er,
                Code::EVEX_Vcvttpd2udq_ymm_k1z_zmmm512b64_sae,
            )
        };
        for part in 0..self.parts(w) {
            for (half, to) in [(0, Z2), (1, Z1)] {
                let number = self.half(a, 2 * part + half, Z0);
                self.a.op(widen, &[Z0.into(), number]);
                let number = self.half(b, 2 * part + half, Z1);
                self.a.op(widen, &[Z1.into(), number]);
                let divide = Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er;
                self.a.op(divide, &[Z0.into(), Z0.into(), Z1.into()]);
                self.a.op(cut, &[ymm(to).into(), Z0.into()]);
            }
            let join = [Z0.into(), Z2.into(), ymm(Z1).into(), X::I(1)];
            self.a.op(Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8, &join);
            let divisor = self.part_in(b, part, w, Z3);
            if remainder {
                let multiply = Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32;
                self.a.op(multiply, &[Z0.into(), Z0.into(), divisor.into()]);
                let number = self.part_in(a, part, w, Z1);
                let subtract = Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32;
                self.a.op(subtract, &[Z0.into(), number.into(), Z0.into()]);
            }
            if signed || remainder {
                // A division by 0 gives all ones; unsigned quotients come out so.
                let test = Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32;
                self.a.op(test, &[K1.into(), divisor.into(), divisor.into()]);
                let ones = [Z0.into(), Z0.into(), Z0.into(), X::I(-1)];
                let code = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
                self.a.op(code, &ones).set_op_mask(K1);
            }
            self.put(&place, part, move_code(w), &[Z0.into()]);
        }
    }

    /// `bfe` at a constant place inside of the register.
    fn bit_field(&mut self, inst: &VectorInst, signed: bool) -> bool {
        let (Source::Imm(position), Source::Imm(length)) = (inst.src[1], inst.src[2]) else {
            return false;
        };
        let inside = length > 0 && position < 32 && length <= 32 && position + length <= 32;
        if !inside {
            return false;
        }
        let a = self.value(inst.src[0], Width::W32);
        let place = self.dest(inst, &inst.dst[0]);
        let up = X::I((32 - position - length) as i32);
        let down = X::I((32 - length) as i32);
        let shift = if signed {
            Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8
        } else {
            Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8
        };
        for part in 0..self.parts(Width::W32) {
            let operand = self.part(a, part);
            self.a.op(Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, &[Z0.into(), operand, up]);
            self.put(&place, part, shift, &[Z0.into(), down]);
        }
        true
    }

    pub(crate) fn zero(&mut self, register: Register) {
        let code = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        self.a.op(code, &[register.into(), register.into(), register.into()]);
    }

    fn lanes_extend(
        &mut self,
        inst: &VectorInst,
        from: Width,
        bits: u8,
        signed: bool,
        to: Width,
    ) -> bool {
        match (from, bits, to) {
            (Width::W32, 32, Width::W64) => {
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(to) {
                    let register = self.widened(inst.src[0], part, signed, Z0);
                    self.put(&place, part, move_code(to), &[register.into()]);
                }
                true
            }
            (Width::W64, 32, Width::W32) => {
                let value = self.value(inst.src[0], from);
                let place = self.dest(inst, &inst.dst[0]);
                self.narrow(&place, value, 0);
                true
            }
            (a, _, b) if a == b && matches!(a, Width::W32 | Width::W64) => {
                let whole = a.bits();
                let (up, down) = if a == Width::W32 {
                    let down = if signed {
                        Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8
                    } else {
                        Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8
                    };
                    (Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, down)
                } else {
                    let down = if signed {
                        Code::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8
                    } else {
                        Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8
                    };
                    (Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8, down)
                };
                let amount = X::I(whole as i32 - i32::from(bits));
                let value = self.value(inst.src[0], a);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(a) {
                    let operand = self.part(value, part);
                    self.a.op(up, &[Z0.into(), operand, amount]);
                    self.put(&place, part, down, &[Z0.into(), amount]);
                }
                true
            }
            _ => false,
        }
    }
}
