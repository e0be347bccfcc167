//! `clmad`: carry-less multiply-add, half of the product of two polynomials over GF(2) plus a
//! third.
//!
//! It becomes ordinary products. Of numbers in which only every fourth bit may be set, one digit of
//! the product counts at most sixteen terms, so that its parity stands alone in the lowest of four
//! bits; only the last count of sixteen would reach the next digit, and that is beyond the 64th
//! bit. The sixteen products of such quarters make up the lower half. The upper half is the lower
//! one of the reversed factors, reversed.

use crate::ir::Operand;
use crate::ir::op::{IntOp, IntType, Op, Width};
use crate::lower::Lowering;
use ptx::ast::{self, Modifier as M, Opcode, ScalarType as T};

/// Every fourth bit, from the lowest on.
const QUARTER: u64 = 0x1111_1111_1111_1111;

impl Lowering<'_> {
    pub(super) fn carryless(&mut self, inst: &ast::Instruction) -> Option<()> {
        if inst.opcode != Opcode::Clmad {
            return None;
        }
        let [d, a, b, c] = &inst.operands[..] else { return None };
        let [a, b, c] = [a, b, c].map(|source| self.source(source, T::U64));
        let (a, b, c) = (a?, b?, c?);
        let half = if inst.has(M::Hi) {
            let [a, b] = [a, b].map(|factor| self.long(IntOp::Brev, vec![factor]));
            let reversed = self.lower_half(a, b);
            let half = self.long(IntOp::Brev, vec![reversed]);
            // The product has 127 bits: the reversed factors' lower half is one bit too high.
            self.long(IntOp::Shr, vec![half, Operand::Imm(1)])
        } else {
            self.lower_half(a, b)
        };
        let op = Op::Int(IntOp::Xor, IntType::U64);
        self.emit_to(op, d, Width::W64, false, vec![half, c])
    }

    fn long(&mut self, op: IntOp, src: Vec<Operand>) -> Operand {
        self.value(Op::Int(op, IntType::U64), Width::W64, src)
    }

    fn lower_half(&mut self, a: Operand, b: Operand) -> Operand {
        let quarters = |l: &mut Self, of: Operand| {
            [0, 1, 2, 3].map(|at| l.long(IntOp::And, vec![of, Operand::Imm(QUARTER << at)]))
        };
        let (a, b) = (quarters(self, a), quarters(self, b));
        let mut half = Operand::Imm(0);
        for at in 0..4 {
            let mut sum = self.long(IntOp::MulLo, vec![a[0], b[at]]);
            for i in 1..4 {
                let product = self.long(IntOp::MulLo, vec![a[i], b[(4 + at - i) % 4]]);
                sum = self.long(IntOp::Xor, vec![sum, product]);
            }
            let digits = self.long(IntOp::And, vec![sum, Operand::Imm(QUARTER << at)]);
            half = if at == 0 { digits } else { self.long(IntOp::Or, vec![half, digits]) };
        }
        half
    }
}
