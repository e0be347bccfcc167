//! Asynchronous copies from global to shared memory (`cp.async`), done where they are issued: what lies side by
//! side in both memories is moved at once, lines of AVX-512 in `copy_lines`, everything else lane by lane.
//!
//! Deliberately absent: lanes of which some bytes are missing. They run in the interpreter.

use crate::asm::assembler::{Label, X, at};
use crate::frame_layout::{A, C, D, Field, LANE_ADDRESSES, LANE_VALUES, SAVED_SCRATCH, Z0, field};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::memory::access::{Address, MemAccess};
use crate::operands::{xmm, ymm};
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{Access, Op, Space, Width};
use simt::ir::vector::{Source, VectorInst};

/// A copy's accesses.
#[derive(Clone, Copy)]
pub(crate) struct MemCopy {
    /// To shared memory.
    pub(crate) to: MemAccess,
    /// From global memory.
    pub(crate) from: MemAccess,
}

/// Sources of a copy: the two addresses, each before its offset, and the bytes that there are.
pub(crate) const TO: usize = 0;
pub(crate) const FROM: usize = 2;
const VALID: usize = 4;

/// One of a copy's accesses as an instruction.
fn half(inst: &VectorInst, bytes: u8, first: usize) -> VectorInst {
    let (unit, count) = if bytes == 16 { (4, 4) } else { (bytes, 1) };
    let (signed, volatile, width) = (false, false, Width::for_bits(8 * u32::from(unit)));
    let access = |space| Access { space, bytes: unit, signed, count, width, volatile };
    let op = match first {
        TO => Op::Store(access(Space::Shared)),
        _ => Op::Load(access(Space::Global)),
    };
    VectorInst { op, src: inst.src[first..first + 2].to_vec(), ..inst.clone() }
}

impl Compiler<'_> {
    /// Makes code for a copy; false if there is none.
    pub(crate) fn copy_to_shared(&mut self, inst: &VectorInst, bytes: u8) -> bool {
        let [to, from] = [TO, FROM].map(|n| self.mem(&half(inst, bytes, n)));
        let (Some(to), Some(from)) = (to, from) else { return false };
        let constant = |n: usize| matches!(inst.src[n], Source::Imm(_));
        let to = MemAccess { wide: to.wide && !constant(TO), ..to };
        let listed = self.isa == SimdIsa::Avx512 || !constant(TO) && !constant(FROM);
        let aligned = to.offset % to.total == 0 && from.offset % from.total == 0;
        if to.wide
            || !from.wide
            || !aligned
            || !listed
            || inst.src.get(VALID).is_some() && constant(VALID)
        {
            return false;
        }
        let copy = MemCopy { to, from };
        let back = self.a.label();
        if let Some(valid) = inst.src.get(VALID) {
            let slow = self.interpreter_path(back);
            match self.isa {
                SimdIsa::Avx512 => self.find_missing(inst, *valid, bytes.into()),
                SimdIsa::Avx2 => self.find_missing_in_file(inst, *valid, bytes.into()),
            }
            self.a.jump(Code::Jne_rel32_64, slow);
        }
        if !self.copy_spans(inst, copy, back) && !self.copy_lines(inst, copy, back) {
            self.copy_by_lane(inst, copy, back);
        }
        self.a.bind(back);
        true
    }

    /// Copies what lies side by side in both memories, for a full warp or for each half of one;
    /// false if it does not.
    fn copy_spans(&mut self, inst: &VectorInst, copy: MemCopy, back: Label) -> bool {
        let total = i64::from(copy.to.total);
        let starts = [TO, FROM].map(|n| match inst.src[n] {
            Source::Affine(r, stride) if stride == total => Some([r, r]),
            Source::HalfAffine(low, high, stride) if stride == total => Some([low, high]),
            _ => None,
        });
        let [Some(to), Some(from)] = starts else { return false };
        if self.masked || inst.guard.is_some() {
            return false;
        }
        let slow = self.interpreter_path(back);
        // Both are given by halves, or neither is.
        let runs = if matches!(inst.src[TO], Source::HalfAffine(..)) { 2 } else { 1 };
        let span = 32 * copy.to.total / runs as i32;
        let kept = at(Register::RSP, SAVED_SCRATCH);
        for (to, from) in to.into_iter().zip(from).take(runs) {
            self.number_in(Source::Scalar(from), copy.from, C);
            self.add_to_address(copy.from, copy.from.offset.into());
            self.check(copy.from, span, slow);
            self.a.op(Code::Mov_rm64_r64, &[kept.into(), C.into()]);
            self.number_in(Source::Scalar(to), copy.to, C);
            self.add_to_address(copy.to, copy.to.offset.into());
            self.check(copy.to, span, slow);
            self.a.op(Code::Mov_r64_rm64, &[A.into(), kept.into()]);
            for offset in (0..span).step_by(32) {
                self.move_bytes(32, at(A, offset), at(C, offset));
            }
        }
        self.count(copy.from, 32 * copy.from.total);
        true
    }

    /// Copies lane by lane.
    pub(crate) fn copy_by_lane(&mut self, inst: &VectorInst, copy: MemCopy, back: Label) {
        let slow = self.interpreter_path(back);
        let [to, from] =
            [(TO, Width::W32), (FROM, Width::W64)].map(|(n, width)| match inst.src[n] {
                Source::Vector(r) if self.isa == SimdIsa::Avx2 => {
                    Address::Lanes(self.lanes_in_file(r))
                }
                source => self.address(source, width),
            });
        let (mem, _) = self.check_lanes(inst, copy.to, to, slow);
        let (load, some) =
            self.check_lanes(&half(inst, copy.to.total as u8, FROM), copy.from, from, slow);
        let rows = self.address_slots_at(mem, to, LANE_VALUES);
        let from = self.address_slots_at(load, from, LANE_ADDRESSES);
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Shared).into()]);
        self.in_turn(inst, some, |c, turn| {
            c.a.op(Code::Mov_r64_rm64, &[A.into(), from.of(turn, 8).into()]);
            c.a.op(Code::Mov_r32_rm32, &[Register::ECX.into(), rows.of(turn, 4).into()]);
            let offset = i64::from(mem.offset);
            let to = MemoryOperand::with_base_index_scale_displ_size(D, C, 1, offset, 8);
            c.move_bytes(copy.to.total, at(A, load.offset), to);
        });
    }

    /// Moves 1, 2, 4, 8, 16 or 32 bytes by RAX, which may be what they are found by, or by a vector register that
    /// holds nothing.
    pub(crate) fn move_bytes(&mut self, bytes: i32, from: MemoryOperand, to: MemoryOperand) {
        let (load, store, register) = match bytes {
            1 | 2 => {
                let (load, store, low) = match bytes {
                    1 => (Code::Movzx_r32_rm8, Code::Mov_rm8_r8, Register::AL),
                    _ => (Code::Movzx_r32_rm16, Code::Mov_rm16_r16, Register::AX),
                };
                self.a.op(load, &[Register::EAX.into(), from.into()]);
                self.a.op(store, &[X::from(to), low.into()]);
                return;
            }
            4 => (Code::Mov_r32_rm32, Code::Mov_rm32_r32, Register::EAX),
            8 => (Code::Mov_r64_rm64, Code::Mov_rm64_r64, A),
            _ => match (self.isa, bytes) {
                (SimdIsa::Avx512, 16) => (
                    Code::EVEX_Vmovdqu32_xmm_k1z_xmmm128,
                    Code::EVEX_Vmovdqu32_xmmm128_k1z_xmm,
                    xmm(Z0),
                ),
                (SimdIsa::Avx512, _) => (
                    Code::EVEX_Vmovdqu32_ymm_k1z_ymmm256,
                    Code::EVEX_Vmovdqu32_ymmm256_k1z_ymm,
                    ymm(Z0),
                ),
                (SimdIsa::Avx2, 16) => {
                    (Code::VEX_Vmovdqu_xmm_xmmm128, Code::VEX_Vmovdqu_xmmm128_xmm, Register::XMM0)
                }
                (SimdIsa::Avx2, _) => {
                    (Code::VEX_Vmovdqu_ymm_ymmm256, Code::VEX_Vmovdqu_ymmm256_ymm, Register::YMM0)
                }
            },
        };
        self.a.op(load, &[register.into(), from.into()]);
        self.a.op(store, &[X::from(to), register.into()]);
    }
}
