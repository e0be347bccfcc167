//! `mma.m8n8k4` of f16: four products at once, each of a quarter of the warp.
//!
//! Lanes `4 q` to `4 q + 3` and the same of the upper half of the warp hold the matrices of product
//! `q`. A lane gathers the rows of A and the columns of B that its results are made of from the
//! other seven, and multiplies by itself: few programs have these products since later hardware
//! has larger ones.

use crate::ir::Operand;
use crate::ir::op::{FloatMode, FloatOp, FloatType, IntOp, IntType, Op, ShflMode, Special, Width};
use crate::lower::Lowering;
use crate::lower::matrix::{accumulator_width, widen};
use ptx::ast::{self, Modifier as M, ScalarType as T};

const WORD: IntType = IntType::U32;

impl Lowering<'_> {
    pub(super) fn quarter_products(&mut self, inst: &ast::Instruction) -> Option<()> {
        let types: Vec<T> = inst.types().collect();
        let [d_type, T::F16, T::F16, c_type] = types[..] else { return None };
        let [d, a, b, c] = &inst.operands[..] else { return None };
        let mut layouts = inst.modifiers.iter().filter(|m| matches!(m, M::Row | M::Col));
        let (a_along, b_along) = (*layouts.next()? == M::Row, *layouts.next()? == M::Col);
        let (a, b) = (self.elements(a, T::B32)?, self.elements(b, T::B32)?);
        let c = self.accumulators(c, c_type)?;
        let d = self.results(d, accumulator_width(d_type))?;
        (a.len() == 2 && b.len() == 2 && c.len() == 8).then_some(())?;
        let lane = self.value(Op::Special(Special::LaneId), Width::W32, vec![]);
        let upper = self.bits_of(lane, 16, Some((IntOp::Shr, 2)));
        // C and D may be laid out each in its own way; sums are computed where D's are.
        ((d_type == T::F16) == (c_type == T::F16)).then_some(())?;
        let mut sums = c;
        if d_type == T::F16 {
            let low = self.bits_of(lane, 3, None);
            let row = self.word(IntOp::Or, low, upper);
            let row = self.line(&a, row, a_along, lane);
            for (column, sum) in sums.iter_mut().enumerate() {
                let column = self.line(&b, Operand::Imm(column as u64), b_along, lane);
                *sum = self.dot(row, column, *sum);
            }
        } else {
            let odd = self.bits_of(lane, 1, None);
            let first = self.word(IntOp::Or, odd, upper);
            let pair = self.bits_of(lane, 2, None);
            let rows = [0, 2].map(|row| {
                let row = self.word(IntOp::Or, first, Operand::Imm(row));
                self.line(&a, row, a_along, lane)
            });
            let columns = [0, 1, 4, 5].map(|column| {
                let column = self.word(IntOp::Or, pair, Operand::Imm(column));
                self.line(&b, column, b_along, lane)
            });
            for (i, sum) in sums.iter_mut().enumerate() {
                let (row, column) = (rows[i >> 1 & 1], columns[i & 1 | i >> 1 & 2]);
                *sum = self.dot(row, column, *sum);
            }
        }
        self.finish_sums(&d, d_type, Width::W32, &sums)
    }

    /// An operation on two words.
    pub(super) fn word(&mut self, op: IntOp, a: Operand, b: Operand) -> Operand {
        self.value(Op::Int(op, WORD), Width::W32, vec![a, b])
    }

    /// Some bits of a number, perhaps shifted.
    fn bits_of(&mut self, of: Operand, mask: u64, shift: Option<(IntOp, u64)>) -> Operand {
        let bits = self.word(IntOp::And, of, Operand::Imm(mask));
        match shift {
            Some((op, by)) => self.word(op, bits, Operand::Imm(by)),
            None => bits,
        }
    }

    pub(super) fn of_lane(&mut self, value: Operand, lane: Operand) -> Operand {
        let all = Operand::Imm(u64::from(u32::MAX));
        let src = vec![value, lane, Operand::Imm(31), all];
        self.value(Op::Shfl(ShflMode::Idx, false), Width::W32, src)
    }

    /// The four numbers of a row of A or a column of B, in f32. `along`: one lane has them all;
    /// else each of four lanes has one.
    fn line(
        &mut self,
        registers: &[Operand],
        number: Operand,
        along: bool,
        lane: Operand,
    ) -> [Operand; 4] {
        let low = self.bits_of(number, 3, None);
        let upper = self.bits_of(number, 4, Some((IntOp::Shl, 2)));
        let quarter = self.bits_of(lane, 12, None);
        let first = self.word(IntOp::Or, quarter, upper);
        if along {
            let from = self.word(IntOp::Or, first, low);
            let pairs = [0, 1].map(|i| {
                let register = self.of_lane(registers[i], from);
                self.wide_halves(register)
            });
            return [pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1]];
        }
        let shift = self.word(IntOp::Shl, low, Operand::Imm(4));
        [0, 1, 2, 3].map(|k| {
            let from = self.word(IntOp::Or, first, Operand::Imm(k));
            let both = [0, 1].map(|i| self.of_lane(registers[i], from));
            let op = Op::Pack { part: Width::W32, whole: Width::W64 };
            let both = self.value(op, Width::W64, both.to_vec());
            let shr = Op::Int(IntOp::Shr, IntType::U64);
            let moved = self.value(shr, Width::W64, vec![both, shift]);
            let cut = Op::Extend { from: Width::W64, bits: 16, signed: false, to: Width::W16 };
            let half = self.value(cut, Width::W16, vec![moved]);
            self.value(widen(), Width::W32, vec![half])
        })
    }

    /// `sum` and four products.
    fn dot(&mut self, a: [Operand; 4], b: [Operand; 4], sum: Operand) -> Operand {
        let fma = Op::Float(FloatOp::Fma, FloatType::F32, FloatMode::default());
        let add = |sum, (a, b)| self.value(fma.clone(), Width::W32, vec![a, b, sum]);
        a.into_iter().zip(b).fold(sum, add)
    }
}
