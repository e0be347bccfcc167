//! Precheck: one check, before the loop, of all accesses at growing addresses of all lanes. Where
//! it passes, which is nearly always, lanes check nothing.

use crate::asm::assembler::{Label, X, at, repeated};
use crate::frame_layout::{FILE, K1, K2, MASK, PREDICATE};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::operands::ymm;
use crate::scalarize::emit::{FIT, WORDS, word};
use crate::scalarize::loop_selection::ScalarLoop;
use iced_x86::{Code, MemoryOperand, Register};
use simt::analysis::address::growth::{Linear, Own, TripCount, own};
use simt::ir::op::Width;
use simt::ir::vector::Source;

/// Vector registers that are free in front of the lanes, since they were saved: how often lanes
/// run the loop behind its first time, two of 16 lanes each; scratch behind them.
const TIMES: [Register; 2] = [Register::ZMM0, Register::ZMM1];
const FIRST: Register = Register::ZMM2;
const LAST: Register = Register::ZMM3;

impl Compiler<'_> {
    /// True if lanes can be looked at together.
    pub(crate) fn can_fit(&self, this: &ScalarLoop) -> bool {
        self.isa == SimdIsa::Avx512 && this.trips.is_some() && !self.ablation.bounds
    }

    /// Sets the word [`FIT`] if all lanes that run have at least one and at most `most` iterations
    /// to go, in none of which a growing address leaves its range.
    pub(crate) fn look_at_all(&mut self, this: &ScalarLoop, most: i32) {
        let Some(trips) = this.trips else { return };
        let not = self.a.label();
        self.a.op(Code::Mov_rm64_imm32, &[word(FIT).into(), X::I(0)]);
        self.a.op(Code::VEX_Kmovd_kr_r32, &[K1.into(), MASK.into()]);
        self.a.op(Code::VEX_Kshiftrd_kr_kr_imm8, &[K2.into(), K1.into(), X::I(16)]);
        let [_, bad] = PREDICATE;
        self.a.op(Code::VEX_Kxorw_kr_kr_kr, &[bad.into(), bad.into(), bad.into()]);
        self.times(this, trips, most);
        for linear in &this.linear {
            self.all_inside(linear);
        }
        self.a.op(Code::VEX_Kortestw_kr_kr, &[bad.into(), bad.into()]);
        self.a.jump(Code::Jne_rel32_64, not);
        self.a.op(Code::Mov_rm64_imm32, &[word(FIT).into(), X::I(1)]);
        self.a.bind(not);
    }

    /// Goes on with the lane's iterations in `budget` if all lanes fit, and to `otherwise` if not.
    pub(crate) fn budget_that_fits(
        &mut self,
        this: &ScalarLoop,
        budget: Register,
        otherwise: Label,
    ) {
        let Some(trips) = this.trips else { return };
        let inst = &self.f.blocks[self.block].insts[this.compare];
        self.a.op(Code::Cmp_rm32_imm8, &[word(FIT).into(), X::I(0)]);
        self.a.jump(Code::Je_rel32_64, otherwise);
        let to = budget.full_register32();
        let limit = self.scalar_copy(inst.src[1], false, budget);
        let number = self.scalar(inst.src[0], false, Register::RCX);
        self.a.op(Code::Sub_r32_rm32, &[limit.into(), number]);
        if trips.log > 0 {
            self.a.op(Code::Add_rm32_imm32, &[to.into(), X::I((1 << trips.log) - 1)]);
            self.a.op(Code::Shr_rm32_imm8, &[to.into(), X::I(trips.log as i32)]);
        }
    }

    /// 16 lanes of 32 bits of a source as they are in the register file.
    fn sixteen(&mut self, source: Source, part: usize) -> MemoryOperand {
        match own(self.f, source) {
            Some(Own::Lane(r)) => {
                let offset = self.layout.place(r.index()).vector.unwrap_or(0) as i32;
                at(FILE, offset + 64 * part as i32)
            }
            Some(Own::Uniform(r)) => {
                let offset = self.layout.place(r.index()).scalar.unwrap_or(0) as i32;
                repeated(at(FILE, offset))
            }
            Some(Own::Constant(v)) => repeated(self.a.constant(&(v as u32).to_le_bytes())),
            None => at(FILE, 0),
        }
    }

    /// How often lanes run the loop behind its first time; lanes for which this is not from 0 to
    /// below `most` are bad.
    fn times(&mut self, this: &ScalarLoop, trips: TripCount, most: i32) {
        let inst = &self.f.blocks[self.block].insts[this.compare];
        let one = repeated(self.a.constant(&1u32.to_le_bytes()));
        let most = repeated(self.a.constant(&most.to_le_bytes()));
        let below = if trips.signed {
            Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8
        } else {
            Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8
        };
        for (part, to) in TIMES.into_iter().enumerate() {
            let limit = self.sixteen(inst.src[1], part);
            let number = self.sixteen(inst.src[0], part);
            let load = |c: &mut Self, to: Register, from: MemoryOperand| {
                let (code, from) = match from.is_broadcast {
                    true => (
                        Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
                        MemoryOperand { is_broadcast: false, ..from },
                    ),
                    false => (Code::EVEX_Vmovdqu32_zmm_k1z_zmmm512, from),
                };
                c.a.op(code, &[to.into(), from.into()]);
            };
            load(self, to, limit);
            load(self, FIRST, number);
            // Not below the end: 5.
            self.bad_if(below, part, Width::W32, [FIRST.into(), to.into(), X::I(5)]);
            let subtract = Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32;
            self.a.op(subtract, &[to.into(), to.into(), FIRST.into()]);
            self.a.op(subtract, &[to.into(), to.into(), one.into()]);
            let unsigned = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
            self.bad_if(unsigned, part, Width::W32, [to.into(), most.into(), X::I(5)]);
            if trips.log > 0 {
                let shift = Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
                self.a.op(shift, &[to.into(), to.into(), X::I(trips.log as i32)]);
            }
        }
    }

    /// Lanes one of whose accesses by a growing address may not be made are bad.
    fn all_inside(&mut self, linear: &Linear) {
        let offset = self.layout.place(linear.address.index()).vector.unwrap_or(0) as i32;
        let words = [0, 1].map(|n| repeated(word(WORDS + linear.word + n)));
        let low = (linear.low != 0).then(|| self.a.constant(&linear.low.to_le_bytes()));
        let bits = repeated(self.a.constant(&(linear.align - 1).to_le_bytes()));
        let add = Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64;
        let compare = Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8;
        for part in 0..4 {
            let from = at(FILE, offset + 64 * part as i32);
            self.a.op(Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512, &[FIRST.into(), from.into()]);
            if let Some(low) = low {
                self.a.op(add, &[FIRST.into(), FIRST.into(), repeated(low).into()]);
            }
            let mut times = TIMES[part / 2];
            if part % 2 == 1 {
                let code = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
                self.a.op(code, &[ymm(LAST).into(), times.into(), X::I(1)]);
                times = LAST;
            }
            let widen = Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256;
            self.a.op(widen, &[LAST.into(), ymm(times).into()]);
            let shift = X::I(linear.step.trailing_zeros() as i32);
            let code = Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8;
            self.a.op(code, &[LAST.into(), LAST.into(), shift]);
            self.a.op(add, &[LAST.into(), LAST.into(), FIRST.into()]);
            // In front of the range, behind it, around the end of all addresses, not aligned.
            for operands in [
                [FIRST.into(), words[0].into(), X::I(1)],
                [LAST.into(), words[1].into(), X::I(5)],
                [LAST.into(), FIRST.into(), X::I(1)],
            ] {
                self.bad_if(compare, part, Width::W64, operands);
            }
            if linear.align > 1 {
                let test = Code::EVEX_Vptestmq_kr_k1_zmm_zmmm512b64;
                self.bad_lanes(test, part, Width::W64, &[FIRST.into(), bits.into()]);
            }
        }
    }

    fn bad_if(&mut self, code: Code, part: usize, width: Width, operands: [X; 3]) {
        self.bad_lanes(code, part, width, &operands);
    }

    /// Notes lanes of a part that run and for which a comparison holds.
    fn bad_lanes(&mut self, code: Code, part: usize, width: Width, operands: &[X]) {
        let [found, bad] = PREDICATE;
        let k = self.of_pair([K1, K2], part, width);
        let mut all = vec![X::from(found)];
        all.extend(operands);
        self.a.op(code, &all).set_op_mask(k);
        self.a.op(Code::VEX_Korw_kr_kr_kr, &[bad.into(), bad.into(), found.into()]);
    }
}
