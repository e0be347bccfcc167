//! Moves and selections of 32 lanes, and the dispatcher of lane-wise operations.

use crate::asm::assembler::{X, at, repeated};
use crate::avx512::isa::Zmm;
use crate::frame_layout::{LANE_SECONDS, LANE_VALUES, Z0, Z1};
use crate::function::Compiler;
use crate::lanewise;
use crate::operands::move_code;
use crate::scalar::integer::window;
use iced_x86::{Code, Register};
use simt::ir::op::{FloatOp, IntOp, Op, Width};
use simt::ir::vector::{Source, StorageClass, VectorInst};

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
            Op::Int(IntOp::Div | IntOp::Rem, ty) if ty.width() == Width::W64 => {
                self.divide_wide(inst, matches!(inst.op, Op::Int(IntOp::Rem, _)), ty.signed());
                true
            }
            Op::Float(FloatOp::RsqrtEstimate, _, mode) if self.simple_roots(inst, mode) => true,
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
            Op::Pack { part: Width::W16, whole: Width::W64 } => self.pack_words(inst),
            Op::Unpack { part: Width::W16, whole: Width::W64 } => self.unpack_words(inst),
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
            _ => match lanewise::form(inst) {
                Some(form) => {
                    Zmm::with(self, inst, |i| form.make(i, inst));
                    true
                }
                None => false,
            },
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

    pub(crate) fn zero(&mut self, register: Register) {
        let code = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        self.a.op(code, &[register.into(), register.into(), register.into()]);
    }

    /// 64-bit lanes of four of 16 bits each, the lowest first: eight lanes at a time out of memory.
    fn pack_words(&mut self, inst: &VectorInst) -> bool {
        for (n, source) in inst.src.iter().enumerate() {
            let value = self.value(*source, Width::W16);
            let register = self.part_in(value, 0, Width::W16, Z0);
            let to = at(Register::RSP, LANE_VALUES + 64 * n as i32);
            let store = Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm;
            self.a.op(store, &[to.into(), register.into()]);
        }
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..self.parts(Width::W64) {
            for n in 0..inst.src.len() as i32 {
                let from = at(Register::RSP, LANE_VALUES + 64 * n + 16 * part as i32);
                let to = if n == 0 { Z0 } else { Z1 };
                let widen = Code::EVEX_Vpmovzxwq_zmm_k1z_xmmm128;
                self.a.op(widen, &[to.into(), from.into()]);
                if n > 0 {
                    let up = Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8;
                    self.a.op(up, &[Z1.into(), Z1.into(), X::I(16 * n)]);
                    let or = Code::EVEX_Vporq_zmm_k1z_zmm_zmmm512b64;
                    self.a.op(or, &[Z0.into(), Z0.into(), Z1.into()]);
                }
            }
            self.put_register(&place, part, Z0);
        }
        true
    }

    /// The reverse.
    fn unpack_words(&mut self, inst: &VectorInst) -> bool {
        let w = Width::W64;
        let value = self.value(inst.src[0], w);
        for n in 0..inst.dst.len() {
            let kept = |part: usize| at(Register::RSP, LANE_SECONDS + 16 * part as i32);
            let place = self.dest(inst, &inst.dst[n]);
            for part in 0..self.parts(w) {
                let register = self.part_in(value, part, w, Z0);
                let down = Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8;
                self.a.op(down, &[Z0.into(), register.into(), X::I(16 * n as i32)]);
                self.a.op(Code::EVEX_Vpmovqw_xmmm128_k1z_zmm, &[kept(part).into(), Z0.into()]);
            }
            self.put(&place, 0, move_code(Width::W16), &[kept(0).into()]);
        }
        true
    }
}
