//! What lanes do together, where all of them are here.

use crate::assembler::X;
use crate::assign::parts;
use crate::compiler::Compiler;
use crate::frame::{Z0, Z1};
use crate::value::move_code;
use iced_x86::{Code, Register};
use simt::op::{Op, ShflMode, Width};
use simt::vector::{Source, VectorInst};

/// For each lane: the lane it reads, and whether that one is inside of its segment.
fn lanes_read(mode: ShflMode, b: u32, c: u32) -> ([u32; 32], u32) {
    let (b, clamp, segment) = (b as i32 & 31, c as i32 & 31, (c >> 8) as i32 & 31);
    let (mut from, mut inside) = ([0; 32], 0);
    for lane in 0..32 {
        let most = (lane & segment) | (clamp & !segment);
        let (j, fits) = match mode {
            ShflMode::Up => (lane - b, lane - b >= most),
            ShflMode::Down => (lane + b, lane + b <= most),
            ShflMode::Bfly => (lane ^ b, lane ^ b <= most),
            ShflMode::Idx => {
                let j = (lane & segment) | (b & !segment);
                (j, j <= most)
            }
        };
        from[lane as usize] = if fits { j & 31 } else { lane } as u32;
        inside |= u32::from(fits) << lane;
    }
    (from, inside)
}

impl Compiler<'_> {
    /// Makes code for an instruction of the whole warp; false if there is none.
    pub(crate) fn together(&mut self, inst: &VectorInst) -> bool {
        let Op::Shfl(mode, predicate) = inst.op else { return false };
        // With lanes elsewhere it may have to wait for them.
        if self.masked || inst.guard.is_some() || inst.uniform {
            return false;
        }
        let (Source::Imm(b), Source::Imm(c)) = (inst.src[1], inst.src[2]) else { return false };
        let place_is_lanes = inst.dst.first().is_some_and(|d| {
            self.f.homes[d.reg.index()] == simt::vector::Home::Vector
                && !self.assignment.same[d.reg.index()]
        });
        if !place_is_lanes {
            return false;
        }
        let (from, inside) = lanes_read(mode, b as u32, c as u32);
        let w = Width::W32;
        let value = self.value(inst.src[0], w);
        let place = self.dest(inst, &inst.dst[0]);
        // Both parts are made before either is put: the result may be where the source is.
        for (part, to) in [(0, Z0), (1, Z1)] {
            let numbers = &from[16 * part..16 * part + 16];
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            let numbers = self.a.constant(&bytes);
            self.a.op(move_code(w), &[to.into(), numbers.into()]);
            let low = self.part_in(value, 0, w, crate::frame::Z2);
            let high = self.part(value, 1);
            let high = match high {
                X::M(memory) if memory.is_broadcast => low.into(),
                other => other,
            };
            let code = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
            self.a.op(code, &[to.into(), low.into(), high]);
        }
        for part in 0..parts(w) {
            let from = if part == 0 { Z0 } else { Z1 };
            self.put(&place, part, move_code(w), &[from.into()]);
        }
        if predicate {
            self.a.op(Code::Mov_r32_imm32, &[Register::EAX.into(), X::I(inside as i32)]);
            self.store_predicate(inst, 1);
        }
        true
    }

    /// Makes code for an instruction; false if it has to run in its decoded form.
    pub(crate) fn native(&mut self, inst: &VectorInst) -> bool {
        match inst.op {
            Op::Load(_) => self.load_parameter(inst) || self.memory(inst),
            Op::Store(_) => self.memory(inst),
            Op::Setp(..) | Op::PredMov | Op::PredNot | Op::Pred(_) | Op::PredSelect => {
                self.predicates(inst)
            }
            Op::Atom { .. } => self.atomic(inst),
            Op::Shfl(..) => self.together(inst),
            Op::Breakpoint => true,
            _ if inst.uniform => self.scalars(inst),
            _ => self.lanes(inst),
        }
    }
}
