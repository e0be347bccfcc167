//! `shfl` of a full warp, and the instruction dispatcher.

use crate::asm::assembler::{X, repeated};
use crate::frame_layout::{K1, K2, K3, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::operands::{Value, move_code};
use iced_x86::{Code, Register};
use simt::ir::op::{Op, ShflMode, Width};
use simt::ir::vector::{Source, VectorInst};

/// For each lane: the lane it reads, and whether that one is inside of its region.
pub(crate) fn lanes_read(mode: ShflMode, b: u32, c: u32) -> ([u32; 32], u32) {
    let (b, clamp, region) = (b as i32 & 31, c as i32 & 31, (c >> 8) as i32 & 31);
    let (mut from, mut inside) = ([0; 32], 0);
    for lane in 0..32 {
        let most = (lane & region) | (clamp & !region);
        let (j, fits) = match mode {
            ShflMode::Up => (lane - b, lane - b >= most),
            ShflMode::Down => (lane + b, lane + b <= most),
            ShflMode::Bfly => (lane ^ b, lane ^ b <= most),
            ShflMode::Idx => {
                let j = (lane & region) | (b & !region);
                (j, j <= most)
            }
        };
        from[lane as usize] = if fits { j & 31 } else { lane } as u32;
        inside |= u32::from(fits) << lane;
    }
    (from, inside)
}

/// Sixteen numbers as bytes.
pub(crate) fn numbers(of: impl Iterator<Item = u32>) -> Vec<u8> {
    of.flat_map(u32::to_le_bytes).collect()
}

impl Compiler<'_> {
    /// Makes code for a shuffle; false if there is none.
    pub(crate) fn together(&mut self, inst: &VectorInst) -> bool {
        let Op::Shfl(mode, predicate) = inst.op else { return false };
        let Source::Imm(c) = inst.src[2] else { return false };
        let all = !self.masked && inst.guard.is_none();
        let members = match inst.src[3] {
            Source::Imm(members) => members as u32,
            _ if all => u32::MAX,
            _ => return false,
        };
        let place_is_lanes = inst.dst.first().is_some_and(|d| {
            self.f.storage[d.reg.index()] == simt::ir::vector::StorageClass::Vector
                && !self.assignment.same[d.reg.index()]
        });
        if inst.uniform || !place_is_lanes {
            return false;
        }
        let back = self.a.label();
        if !all {
            self.all_here(inst, members, back);
        }
        let w = Width::W32;
        let value = self.value(inst.src[0], w);
        let place = self.dest(inst, &inst.dst[0]);
        // Both parts are made before either is put, unless the result is elsewhere than all that
        // is read.
        let elsewhere = inst.src[..2].iter().all(|s| s.registers().all(|r| r != inst.dst[0].reg));
        let made_in = [(0, Z0), (1, Z1)].map(|(part, scratch)| {
            self.target(&place, part).filter(|_| elsewhere).unwrap_or(scratch)
        });
        let inside = match inst.src[1] {
            Source::Imm(b) => {
                let (from, inside) = lanes_read(mode, b as u32, c as u32);
                for (part, to) in made_in.into_iter().enumerate() {
                    let from = numbers(from[16 * part..16 * part + 16].iter().copied());
                    let from = self.a.constant(&from);
                    self.a.op(move_code(w), &[to.into(), from.into()]);
                }
                Some(inside)
            }
            b => {
                let b = self.value(b, w);
                for (part, (to, k)) in made_in.into_iter().zip([K1, K2]).enumerate() {
                    self.lanes_to_read(mode, b, part, c as u32, (to, k));
                }
                None
            }
        };
        for to in made_in {
            let low = self.part_in(value, 0, w, Z2);
            let high = match self.part(value, 1) {
                X::M(memory) if memory.is_broadcast => low.into(),
                other => other,
            };
            let code = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
            self.a.op(code, &[to.into(), low.into(), high]);
        }
        for (part, from) in made_in.into_iter().enumerate() {
            if self.target(&place, part) != Some(from) {
                self.put(&place, part, move_code(w), &[from.into()]);
            }
        }
        if predicate && self.weights.read[inst.dst[1].reg.index()] {
            match inside {
                Some(inside) => {
                    self.a.op(Code::Mov_r32_imm32, &[Register::EAX.into(), X::I(inside as i32)]);
                }
                None => {
                    self.a.op(Code::VEX_Kunpckwd_kr_kr_kr, &[K1.into(), K2.into(), K1.into()]);
                    self.a.op(Code::VEX_Kmovd_r32_kr, &[Register::EAX.into(), K1.into()]);
                }
            }
            self.store_predicate(inst, 1);
        }
        self.join_ways(inst, back);
        true
    }

    /// The numbers of the lanes that those of a part read, by lane arguments `b`, in a register;
    /// which of them are inside of their regions, in a mask. Uses Z3.
    fn lanes_to_read(
        &mut self,
        mode: ShflMode,
        b: Value,
        part: usize,
        c: u32,
        (to, inside): (Register, Register),
    ) {
        let (clamp, region) = (c & 31, c >> 8 & 31);
        let lanes = 16 * part as u32..16 * part as u32 + 16;
        let own = self.a.constant(&numbers(lanes.clone()));
        let most = numbers(lanes.clone().map(|lane| (lane & region) | (clamp & !region)));
        let most = self.a.constant(&most);
        let free = if mode == ShflMode::Idx { 31 & !region } else { 31 };
        let free = repeated(self.a.constant(&free.to_le_bytes()));
        let given = self.part_in(b, part, Width::W32, to);
        self.a
            .op(Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, &[to.into(), given.into(), free.into()]);
        let condition = match mode {
            ShflMode::Up => {
                self.a.op(move_code(Width::W32), &[Z3.into(), own.into()]);
                let subtract = Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32;
                self.a.op(subtract, &[to.into(), Z3.into(), to.into()]);
                5
            }
            ShflMode::Down => {
                self.a.op(
                    Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
                    &[to.into(), to.into(), own.into()],
                );
                2
            }
            ShflMode::Bfly => {
                self.a.op(
                    Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
                    &[to.into(), to.into(), own.into()],
                );
                2
            }
            ShflMode::Idx => {
                let fixed = self.a.constant(&numbers(lanes.map(|lane| lane & region)));
                self.a.op(
                    Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
                    &[to.into(), to.into(), fixed.into()],
                );
                2
            }
        };
        let compare = Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8;
        self.a.op(compare, &[inside.into(), to.into(), most.into(), X::I(condition)]);
        self.a.op(Code::VEX_Knotw_kr_kr, &[K3.into(), inside.into()]);
        self.a.op(move_code(Width::W32), &[to.into(), own.into()]).set_op_mask(K3);
    }

    /// Makes code for an instruction; false if it has to run in its interpreter handlers.
    pub(crate) fn native(&mut self, inst: &VectorInst) -> bool {
        if self.isa == crate::host::SimdIsa::Avx2 {
            return self.native_single(inst) || self.between(inst);
        }
        match inst.op {
            Op::Load(_) => self.load_parameter(inst) || self.memory(inst),
            Op::CopyToShared { bytes } => self.copy_to_shared(inst, bytes),
            Op::Store(_) => self.memory(inst),
            Op::IsSpace(space) => self.in_space(inst, space),
            Op::Setp(..) | Op::PredMov | Op::PredNot | Op::Pred(_) | Op::PredSelect => {
                self.predicates(inst)
            }
            Op::Atom { .. } => self.atomic(inst),
            Op::Shfl(..) => self.together(inst),
            Op::Vote(_) | Op::ActiveMask | Op::Redux(..) | Op::Match { .. } | Op::Elect => {
                self.votes(inst)
            }
            Op::Carry { .. } => self.carry(inst),
            Op::Multiply(product) => self.multiply(inst, product),
            Op::Expand(sparse) => self.expand(inst, sparse),
            Op::TransposeMatrix => self.transpose_matrix(inst),
            Op::LoadMatrix { space, transpose, .. } => self.load_matrix(inst, space, transpose),
            Op::LoadFragment(fragment) => self.fragment(inst, fragment, false),
            Op::StoreFragment(fragment) => self.fragment(inst, fragment, true),
            Op::StoreMatrix { space, transpose, .. } => self.store_matrix(inst, space, transpose),
            Op::Breakpoint => true,
            Op::Fence => {
                self.a.op(Code::Mfence, &[]);
                true
            }
            _ if inst.uniform => self.scalars(inst),
            _ => self.lanes(inst),
        }
    }
}
