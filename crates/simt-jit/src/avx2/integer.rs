//! Moves and selections on the lanes of a slice, and the dispatcher of lane-wise operations.

use crate::asm::assembler::X;
use crate::avx2::layout::SLICE_LANES;
use crate::avx2::slice::{Slice, pieces, xmm};
use crate::avx2::support;
use crate::lanewise::{self, compare};
use iced_x86::Code;
use simt::ir::op::{Op, Width};
use simt::ir::vector::{Source, VectorInst};

impl Slice<'_, '_> {
    /// Makes an instruction on lanes that is no load or store.
    pub(crate) fn lanes(&mut self, inst: &VectorInst) {
        match inst.op {
            Op::Mov(w) => {
                let keeps = support::keeps(inst, &inst.dst[0], self.c.masked);
                for piece in 0..pieces(w) {
                    let made = match inst.src[0] {
                        source @ (Source::Affine(..) | Source::HalfAffine(..)) => {
                            self.formula(source, w, piece)
                        }
                        source if keeps => self.piece_in(source, w, piece),
                        source => self.owned(inst, source, w, piece),
                    };
                    self.put(inst, 0, piece, made);
                }
            }
            Op::Select(w) => self.select(inst, w),
            Op::Carry { .. } => self.carry(inst),
            Op::ToGeneric(space) | Op::FromGeneric(space) => {
                let window = crate::scalar::integer::window(space).unwrap_or(0);
                let code = match inst.op {
                    Op::ToGeneric(_) => Code::VEX_Vpaddq_ymm_ymm_ymmm256,
                    _ => Code::VEX_Vpsubq_ymm_ymm_ymmm256,
                };
                for piece in 0..pieces(Width::W64) {
                    let a = self.piece_in(inst.src[0], Width::W64, piece);
                    let window = self.constant(window, Width::W64);
                    let to = self.temp();
                    self.op(code, &[to.into(), a.into(), window.into()]);
                    self.put(inst, 0, piece, to);
                }
            }
            Op::Setp(compare, ty) => match compare::form(compare, ty) {
                Some(form) => form.make(self, inst),
                None => self.unsupported(),
            },
            Op::Shfl(..) => self.exchange(inst),
            _ => match lanewise::form(inst) {
                Some(form) => form.make(self, inst),
                None => self.unsupported(),
            },
        }
    }

    fn select(&mut self, inst: &VectorInst, w: Width) {
        if let Some(bits) = self.known(inst.src[2]) {
            return self.select_known(inst, w, u32::from(bits));
        }
        let predicate = self.predicate(inst.src[2]);
        for piece in 0..pieces(w) {
            let mask = self.mask_of_width(predicate, w, piece);
            // What is 0 where the other is chosen is masked.
            let masked = match (inst.src[0], inst.src[1]) {
                (other, Source::Imm(0)) => Some((Code::VEX_Vpand_ymm_ymm_ymmm256, other)),
                (Source::Imm(0), other) => Some((Code::VEX_Vpandn_ymm_ymm_ymmm256, other)),
                _ => None,
            };
            if let Some((code, other)) = masked {
                let other = self.piece(other, w, piece);
                let to = self.temp();
                self.op(code, &[to.into(), mask.into(), other]);
                self.put(inst, 0, piece, to);
                continue;
            }
            let b = self.piece_in(inst.src[1], w, piece);
            let a = self.piece(inst.src[0], w, piece);
            let to = self.temp();
            let blend = Code::VEX_Vpblendvb_ymm_ymm_ymmm256_ymm;
            self.op(blend, &[to.into(), b.into(), a, mask.into()]);
            self.put(inst, 0, piece, to);
        }
    }

    /// A choice by a predicate that is known.
    fn select_known(&mut self, inst: &VectorInst, w: Width, bits: u32) {
        let lanes = SLICE_LANES / pieces(w);
        for piece in 0..pieces(w) {
            let here = bits >> (lanes * piece) & ((1 << lanes) - 1);
            let to = if here == 0 || here == (1 << lanes) - 1 {
                self.owned(inst, inst.src[usize::from(here == 0)], w, piece)
            } else {
                let b = self.piece_in(inst.src[1], w, piece);
                let a = self.piece(inst.src[0], w, piece);
                let to = self.temp();
                let (code, to_here, b, bits) = match w {
                    Width::W16 => (Code::VEX_Vpblendw_xmm_xmm_xmmm128_imm8, xmm(to), xmm(b), here),
                    Width::W32 => (Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8, to, b, here),
                    _ => {
                        let pairs = (0..lanes).map(|n| ((here >> n & 1) * 3) << (2 * n)).sum();
                        (Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8, to, b, pairs)
                    }
                };
                let a = match a {
                    X::R(a) if w == Width::W16 => xmm(a).into(),
                    a => a,
                };
                let bits = X::I(i32::from(bits as u8 as i8));
                self.op(code, &[to_here.into(), b.into(), a, bits]);
                to
            };
            self.put(inst, 0, piece, to);
        }
    }
}
