//! `ldmatrix` and `stmatrix` of elements of 8 bits and fewer: rows of 16 elements, which may be
//! packed.
//!
//! A row is 16 bytes in memory for elements of every type, so it is loaded as one of `.m8n8.b16`
//! is; what lanes have of it then changes hands. Elements of 6 and 4 bits lie without gaps at the
//! start of the row and come to the low bits of a byte each.
//!
//! What `stmatrix` stores are columns of 16 bytes. Its lanes have them as they have sums of `mma`:
//! lane `4 g + q` rows `g` and `g + 8` of columns `2 q` and `2 q + 1`.

use crate::ir::op::{Class, Compare, CompareType, IntOp, IntType, Op, Special, Width};
use crate::ir::{Operand, Reg};
use crate::lower::Lowering;
use ptx::ast::{self, Modifier as M, ScalarType, Shape};

/// Bits of packed elements.
const PACKED: [(M, u64); 2] = [(M::B6x16P32, 6), (M::B4x16P64, 4)];

impl Lowering<'_> {
    pub(super) fn load_narrow_tiles(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [d, address] = &inst.operands[..] else { return None };
        let packed = PACKED.iter().find(|(word, _)| inst.has(*word)).map(|(_, bits)| *bits);
        let count = how_many(inst)?;
        let (square, results) = match inst.shape()? {
            Shape { m: 16, n: 16, .. } => (true, 2 * count),
            Shape { m: 8, n: 16, .. } => (false, count),
            _ => return None,
        };
        let (space, base, offset) = self.location(inst, address)?;
        let dst = self.results(d, Width::W32)?;
        (dst.len() == usize::from(results)).then_some(())?;
        let rows: Vec<Reg> = (0..results).map(|_| self.temp(Width::W32)).collect();
        let op = Op::LoadMatrix { space, count: results, transpose: false };
        self.emit(op, rows.clone(), vec![base, offset]);
        let lane = self.value(Op::Special(Special::LaneId), Width::W32, vec![]);
        let mut rows: Vec<Operand> = rows.into_iter().map(Operand::Reg).collect();
        if let Some(bits) = packed {
            rows = rows.into_iter().map(|row| self.unpacked(row, bits, lane)).collect();
        }
        if square {
            let tiles = rows.chunks_exact(2);
            rows = tiles.flat_map(|tile| self.turned([tile[0], tile[1]], lane)).collect();
        }
        for (d, row) in dst.into_iter().zip(rows) {
            self.emit(Op::Mov(Width::W32), vec![d], vec![row]);
        }
        Some(())
    }

    pub(super) fn store_narrow_tiles(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [address, values] = &inst.operands[..] else { return None };
        let (count, tall) = (how_many(inst)?, Shape { m: 16, n: 8, k: 0 });
        (inst.shape()? == tall && inst.ty()? == ScalarType::B8).then_some(())?;
        let (space, base, offset) = self.location(inst, address)?;
        let values = self.elements(values, ScalarType::B32)?;
        (values.len() == usize::from(count)).then_some(())?;
        let lane = self.value(Op::Special(Special::LaneId), Width::W32, vec![]);
        let mut src = vec![base, offset];
        src.extend(values.into_iter().map(|value| self.column_of_sums(value, lane)));
        self.emit(Op::StoreMatrix { space, count, transpose: false }, vec![], src);
        Some(())
    }

    /// Bytes that lanes have as sums: lane `4 c + q` gets rows `4 q` to `4 q + 3` of column `c`.
    fn column_of_sums(&mut self, value: Operand, lane: Operand) -> Operand {
        let column = self.word(IntOp::Shr, lane, Operand::Imm(2));
        let holder = self.word(IntOp::Shr, column, Operand::Imm(1));
        let upper_rows = self.word(IntOp::And, lane, Operand::Imm(1));
        let upper_rows = self.word(IntOp::Shl, upper_rows, Operand::Imm(4));
        let holder = self.word(IntOp::Or, holder, upper_rows);
        // The byte in it: odd columns are one further, rows from 8 on two.
        let place = self.word(IntOp::And, column, Operand::Imm(1));
        let far = self.word(IntOp::And, lane, Operand::Imm(2));
        let place = self.word(IntOp::Or, place, far);
        let shift = self.word(IntOp::Shl, place, Operand::Imm(3));
        let mut bytes = Operand::Imm(0);
        for e in 0..4 {
            let from = self.word(IntOp::Add, holder, Operand::Imm(4 * e));
            let word = self.of_lane(value, from);
            let byte = self.word(IntOp::Shr, word, shift);
            let byte = self.word(IntOp::And, byte, Operand::Imm(0xff));
            let byte = self.word(IntOp::Shl, byte, Operand::Imm(8 * e));
            bytes = self.word(IntOp::Or, bytes, byte);
        }
        bytes
    }

    /// Four elements of a row for each of the four lanes that have it: lane `q` takes those from bit
    /// `4 q bits` on, of two words that other lanes have.
    fn unpacked(&mut self, row: Operand, bits: u64, lane: Operand) -> Operand {
        let quarter = self.word(IntOp::And, lane, Operand::Imm(3));
        let first_bit = self.word(IntOp::MulLo, quarter, Operand::Imm(4 * bits));
        let word = self.word(IntOp::Shr, first_bit, Operand::Imm(5));
        let first = self.word(IntOp::And, lane, Operand::Imm(0x1c));
        let first = self.word(IntOp::Add, first, word);
        let low = self.of_lane(row, first);
        // Behind the last word there is nothing that counts.
        let next = self.word(IntOp::Add, first, Operand::Imm(1));
        let next = self.word(IntOp::And, next, Operand::Imm(31));
        let high = self.of_lane(row, next);
        let both = Op::Pack { part: Width::W32, whole: Width::W64 };
        let both = self.value(both, Width::W64, vec![low, high]);
        let shift = self.word(IntOp::And, first_bit, Operand::Imm(31));
        let shr = Op::Int(IntOp::Shr, IntType::U64);
        let moved = self.value(shr, Width::W64, vec![both, shift]);
        let cut = Op::Extend { from: Width::W64, bits: 32, signed: false, to: Width::W32 };
        let elements = self.value(cut, Width::W32, vec![moved]);
        let mask = Operand::Imm((1 << bits) - 1);
        let mut bytes = self.word(IntOp::And, elements, mask);
        for e in 1..4 {
            let element = self.word(IntOp::Shr, elements, Operand::Imm(e * bits));
            let element = self.word(IntOp::And, element, mask);
            let element = self.word(IntOp::Shl, element, Operand::Imm(8 * e));
            bytes = self.word(IntOp::Or, bytes, element);
        }
        bytes
    }

    /// A tile of 16 by 16 bytes, of which the registers have eight rows each, by its columns: lane
    /// `4 c + q` has rows `4 q` to `4 q + 3` of column `c` and, in the second register, `c + 8`.
    fn turned(&mut self, rows: [Operand; 2], lane: Operand) -> [Operand; 2] {
        let column = self.word(IntOp::Shr, lane, Operand::Imm(2));
        let place = self.word(IntOp::And, column, Operand::Imm(3));
        let shift = self.word(IntOp::Shl, place, Operand::Imm(3));
        let of_column = self.word(IntOp::Shr, column, Operand::Imm(2));
        let odd = self.word(IntOp::And, lane, Operand::Imm(1));
        let row = self.word(IntOp::Shl, odd, Operand::Imm(4));
        let holder = self.word(IntOp::Or, row, of_column);
        let lower = self.word(IntOp::And, lane, Operand::Imm(2));
        let upper_rows = self.temporary(Class::Pred);
        let test = Op::Setp(Compare::Ne, CompareType::Int(IntType::U32));
        self.emit(test, vec![upper_rows], vec![lower, Operand::Imm(0)]);
        [0, 2].map(|eight_columns| {
            let mut bytes = Operand::Imm(0);
            for e in 0..4 {
                let from = Operand::Imm(4 * e + eight_columns);
                let from = self.word(IntOp::Add, holder, from);
                let words = rows.map(|row| self.of_lane(row, from));
                let src = vec![words[1], words[0], upper_rows.into()];
                let word = self.value(Op::Select(Width::W32), Width::W32, src);
                let byte = self.word(IntOp::Shr, word, shift);
                let byte = self.word(IntOp::And, byte, Operand::Imm(0xff));
                let byte = self.word(IntOp::Shl, byte, Operand::Imm(8 * e));
                bytes = self.word(IntOp::Or, bytes, byte);
            }
            bytes
        })
    }
}

/// Tiles that are loaded or stored.
pub(super) fn how_many(inst: &ast::Instruction) -> Option<u8> {
    let counts = [(M::X1, 1), (M::X2, 2), (M::X4, 4)];
    counts.iter().find(|(word, _)| inst.has(*word)).map(|(_, count)| *count)
}
