//! Shuffles of a full warp by constants: lanes of other quarters are read from the register file.
//!
//! So nothing in the segment may write the source.

use super::QUARTER_LANES;
use super::quarter::Quarter;
use crate::assembler::{X, at};
use crate::compiler::Compiler;
use crate::frame::FILE;
use crate::shuffle::lanes_read;
use iced_x86::Code;
use simt::ir::Reg;
use simt::op::Op;
use simt::vector::{Home, Source, VectorInst};

/// The register whose lanes a shuffle exchanges.
pub(crate) fn exchanged(inst: &VectorInst) -> Option<Reg> {
    match (&inst.op, inst.src.first()) {
        (Op::Shfl(..), Some(Source::Vector(r))) => Some(*r),
        _ => None,
    }
}

impl Compiler<'_> {
    /// True if there is a form for a shuffle.
    pub(crate) fn exchanges(&self, inst: &VectorInst) -> bool {
        // With lanes elsewhere it may have to wait for them.
        if self.masked || inst.guard.is_some() || inst.uniform {
            return false;
        }
        let constant = |n: usize| matches!(inst.src.get(n), Some(Source::Imm(_)));
        let home = |r: Reg| self.f.homes[r.index()];
        let results = inst
            .dst
            .iter()
            .enumerate()
            .all(|(n, d)| home(d.reg) == if n == 0 { Home::Vector } else { Home::Mask });
        let source = exchanged(inst)
            .is_some_and(|r| home(r) == Home::Vector && inst.dst.iter().all(|d| d.reg != r));
        source && results && !inst.dst.is_empty() && constant(1) && constant(2)
    }
}

impl Quarter<'_, '_> {
    /// Makes a shuffle.
    pub(crate) fn exchange(&mut self, inst: &VectorInst) {
        let (Op::Shfl(mode, predicate), Some(r), Source::Imm(b), Source::Imm(c)) =
            (&inst.op, exchanged(inst), inst.src[1], inst.src[2])
        else {
            return self.unsupported();
        };
        let (from, inside) = lanes_read(*mode, b as u32, c as u32);
        let first = self.number * QUARTER_LANES;
        let from = &from[first..first + QUARTER_LANES];
        let start = self.c.layout.place(r.index()).vector.unwrap_or(0) as i32;
        let to = self.temp();
        if from.windows(2).all(|pair| pair[1] == pair[0] + 1) {
            let memory = at(FILE, start + 4 * from[0] as i32);
            self.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[to.into(), memory.into()]);
        } else {
            let lanes: Vec<u8> = from.iter().flat_map(|n| (n % 8).to_le_bytes()).collect();
            let lanes = self.c.a.constant(&lanes);
            let lanes = self.copied(lanes.into());
            let mut none_yet = true;
            for quarter in 0..4u32 {
                let here = |n: &u32| n / QUARTER_LANES as u32 == quarter;
                let bits = from.iter().rev().fold(0, |bits, n| bits << 1 | i32::from(here(n)));
                if bits == 0 {
                    continue;
                }
                let memory = at(FILE, start + 32 * quarter as i32);
                let permute = Code::VEX_Vpermd_ymm_ymm_ymmm256;
                if none_yet {
                    self.op(permute, &[to.into(), lanes.into(), memory.into()]);
                    none_yet = false;
                    continue;
                }
                let other = self.temp();
                self.op(permute, &[other.into(), lanes.into(), memory.into()]);
                let blend = Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8;
                let bits = X::I(i32::from(bits as u8 as i8));
                self.op(blend, &[to.into(), to.into(), other.into(), bits]);
                self.free(other);
            }
            self.free(lanes);
        }
        self.put(inst, 0, 0, to);
        if *predicate && inst.dst.len() > 1 {
            let mask: Vec<u8> = (first..first + QUARTER_LANES)
                .flat_map(|lane| (0u32.wrapping_sub(inside >> lane & 1)).to_le_bytes())
                .collect();
            let mask = self.c.a.constant(&mask);
            let made = self.copied(mask.into());
            self.put_predicate(inst, 1, made);
        }
    }
}
