//! Terminators: how blocks end, with their operands.

use super::*;

impl Decoder<'_> {
    /// A terminator's operand.
    pub(super) fn operand(&mut self, source: Source, class: Class) -> Operand {
        let at = self.source(source, class, false);
        Operand::new(at, self.file)
    }

    pub(super) fn term(&mut self, term: &VectorTerm) -> CodeTerm {
        let number = |t: &ir::Target| match t {
            ir::Target::Block(id) => id.0,
            ir::Target::Return => RETURN,
            ir::Target::Exit => EXIT,
        };
        match term {
            VectorTerm::Jump(t) => CodeTerm::Jump(number(t)),
            VectorTerm::Branch { guard, taken, other, .. } => CodeTerm::Branch {
                predicate: self.operand(Source::Mask(guard.reg), Class::Pred),
                flip: if guard.negated { u32::MAX } else { 0 },
                taken: number(taken),
                other: number(other),
            },
            VectorTerm::Table { index, targets } => CodeTerm::Table {
                index: self.word(*index),
                targets: targets.iter().map(number).collect(),
            },
            VectorTerm::Call { site, next } => CodeTerm::Call { site: *site, next: *next },
            VectorTerm::Barrier { op, barrier, count, predicate, negated, dst, next } => {
                CodeTerm::Barrier(BarrierTerm {
                    op: *op,
                    barrier: self.word(*barrier),
                    count: self.word(*count),
                    predicate: predicate.map(|p| self.operand(p, Class::Pred)),
                    negated: *negated,
                    dst: dst.map(|d| d.reg),
                    next: *next,
                })
            }
            VectorTerm::Pause { next } => CodeTerm::Pause { next: *next },
        }
    }

    fn word(&mut self, source: Source) -> Word {
        let uniform = matches!(source, Source::Scalar(_));
        Word { at: self.operand(source, W32), uniform }
    }
}
