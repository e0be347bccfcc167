//! Division of 64-bit lanes by way of doubles where these are exact. It stands between regions,
//! because it looks at all lanes first.

use crate::asm::assembler::{X, at};
use crate::avx2::whole_warp::RUNNING;
use crate::frame_layout::{LANE_RESULTS, LANE_SECONDS, LANE_VALUES};
use crate::function::Compiler;
use crate::memory::lane_loop::Slot;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{IntOp, Op, Width};
use simt::ir::vector::VectorInst;

/// Unsigned numbers below 2 to the power of this are the lowest bits of a double's.
const BITS: u32 = 52;
/// Signed ones are from minus to plus this, moved to the middle of them.
const REACH: u64 = 1 << (BITS - 2);

const A: Register = Register::YMM0;
const B: Register = Register::YMM1;
const BAD: Register = Register::YMM3;
const T: Register = Register::YMM4;
const ZERO: Register = Register::YMM5;

const LOAD: Code = Code::VEX_Vmovdqu_ymm_ymmm256;
const ADD: Code = Code::VEX_Vpaddq_ymm_ymm_ymmm256;

/// The double to whose bits integers are added: they are what it is larger by then.
fn magic(signed: bool) -> f64 {
    let middle = if signed { 1u64 << (BITS - 1) } else { 0 };
    ((1u64 << BITS) + middle) as f64
}

impl Compiler<'_> {
    /// Quotients or remainders of 64-bit lanes: false if that is not what the instruction makes.
    /// Larger numbers, and division by 0, are for the interpreter handlers.
    pub(crate) fn divide_in_file(&mut self, inst: &VectorInst) -> bool {
        let Op::Int(op @ (IntOp::Div | IntOp::Rem), ty) = inst.op else { return false };
        if ty.width() != Width::W64 || inst.uniform || !self.has_lane_results(inst) {
            return false;
        }
        let back = self.a.label();
        let slow = self.interpreter_path(back);
        let some = self.masked || inst.guard.is_some();
        if some {
            self.spread_bits(inst);
        }
        let sources = [(inst.src[0], LANE_VALUES), (inst.src[1], LANE_SECONDS)];
        let slots = sources.map(|(source, offset)| self.source_slots(source, Width::W64, offset));
        let xor = Code::VEX_Vpxor_ymm_ymm_ymmm256;
        self.a.op(xor, &[BAD.into(), BAD.into(), BAD.into()]);
        self.a.op(xor, &[ZERO.into(), ZERO.into(), ZERO.into()]);
        for piece in 0..8 {
            self.four(slots[0], piece, A);
            self.four(slots[1], piece, B);
            if some {
                self.mask_of_piece(Width::W64, piece);
            }
            self.too_large(ty.signed(), some);
        }
        self.a.op(Code::VEX_Vptest_ymm_ymmm256, &[BAD.into(), BAD.into()]);
        self.a.jump(Code::Jne_rel32_64, slow);
        for piece in 0..8 {
            self.four(slots[0], piece, A);
            self.four(slots[1], piece, B);
            self.divide_doubles(ty.signed(), op == IntOp::Rem);
            let to = at(Register::RSP, LANE_RESULTS + 32 * piece as i32);
            self.a.op(Code::VEX_Vmovdqu_ymmm256_ymm, &[to.into(), A.into()]);
        }
        self.put_lanes(inst, 0, Width::W64, Some(LANE_RESULTS));
        self.a.bind(back);
        self.in_eax = None;
        true
    }

    fn four(&mut self, slot: Slot, piece: usize, to: Register) {
        match slot {
            Slot::One(memory) => {
                self.a.op(Code::VEX_Vpbroadcastq_ymm_xmmm64, &[to.into(), memory.into()])
            }
            Slot::Lanes(base, offset) => {
                self.a.op(LOAD, &[to.into(), at(base, offset + 32 * piece as i32).into()])
            }
        };
    }

    fn wide(&mut self, value: u64) -> MemoryOperand {
        self.a.constant(&value.to_le_bytes().repeat(4))
    }

    /// Notes bits that numbers must not have, and divisors that are 0, of lanes that run.
    fn too_large(&mut self, signed: bool, some: bool) {
        let (or, and) = (Code::VEX_Vpor_ymm_ymm_ymmm256, Code::VEX_Vpand_ymm_ymm_ymmm256);
        let [a, b, t]: [X; 3] = [A.into(), B.into(), T.into()];
        self.a.op(Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256, &[t, b, ZERO.into()]);
        let mut most = 1 << BITS;
        if signed {
            let address_mode = self.wide(REACH);
            self.a.op(ADD, &[a, a, address_mode.into()]);
            self.a.op(ADD, &[b, b, address_mode.into()]);
            most = 2 * REACH;
        }
        let above = self.wide(!(most - 1));
        self.a.op(or, &[a, a, b]);
        self.a.op(and, &[a, a, above.into()]);
        self.a.op(or, &[a, a, t]);
        if some {
            self.a.op(and, &[a, a, RUNNING.into()]);
        }
        self.a.op(or, &[BAD.into(), BAD.into(), a]);
    }

    /// The quotients or remainders of A's lanes by B's, in A.
    fn divide_doubles(&mut self, signed: bool, remainder: bool) {
        let double = self.wide(magic(signed).to_bits());
        let (add, subtract) = (Code::VEX_Vaddpd_ymm_ymm_ymmm256, Code::VEX_Vsubpd_ymm_ymm_ymmm256);
        let [a, b, t]: [X; 3] = [A.into(), B.into(), T.into()];
        for x in [a, b] {
            self.a.op(ADD, &[x, x, double.into()]);
            self.a.op(subtract, &[x, x, double.into()]);
        }
        self.a.op(Code::VEX_Vdivpd_ymm_ymm_ymmm256, &[t, a, b]);
        self.a.op(Code::VEX_Vroundpd_ymm_ymmm256_imm8, &[t, t, X::I(11)]);
        if remainder {
            // All of it is below 2 to the power of 53, and exact.
            self.a.op(Code::VEX_Vfnmadd231pd_ymm_ymm_ymmm256, &[a, t, b]);
            self.a.op(add, &[a, a, double.into()]);
        } else {
            self.a.op(add, &[a, t, double.into()]);
        }
        self.a.op(Code::VEX_Vpsubq_ymm_ymm_ymmm256, &[a, a, double.into()]);
    }
}
