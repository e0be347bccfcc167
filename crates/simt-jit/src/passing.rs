//! Machine registers that are passed on: where the last instruction that reads a register makes
//! another one of it, part by part, the result can stand where the source was.

use crate::assign::parts;
use crate::ranges::Ranges;
use simt::op::{FloatOp, FloatType, IntOp, Op, Width};
use simt::vector::{Home, Source, VectorFunction, VectorInst};

/// By register: from whom it can get machine registers, or to whom it can pass them on, and where.
pub(crate) struct Passing(Vec<Vec<(usize, u32)>>);

/// True if the code of an instruction on lanes reads a part of its sources, or more of those of
/// another width, before it writes that part of its result, and writes that once.
fn goes_part_by_part(op: &Op) -> bool {
    match op {
        Op::Mov(w) => *w != Width::W128,
        Op::Lop3(_) => true,
        Op::Select(w) => matches!(w, Width::W32 | Width::W64),
        Op::Int(op, ty) => {
            let plain = matches!(
                op,
                IntOp::Add | IntOp::Sub | IntOp::MulLo | IntOp::And | IntOp::Or | IntOp::Xor
            );
            let more = matches!(
                op,
                IntOp::Min
                    | IntOp::Max
                    | IntOp::Shl
                    | IntOp::Shr
                    | IntOp::MadLo
                    | IntOp::MadWide
                    | IntOp::Not
                    | IntOp::Neg
                    | IntOp::Abs
                    | IntOp::ShfLeftWrap
                    | IntOp::ShfRightWrap
            );
            plain || more && ty.width() != Width::W16
        }
        Op::Float(op, FloatType::F32 | FloatType::F64, _) => matches!(
            op,
            FloatOp::Add
                | FloatOp::Sub
                | FloatOp::Mul
                | FloatOp::Div
                | FloatOp::Fma
                | FloatOp::Min
                | FloatOp::Max
                | FloatOp::Neg
                | FloatOp::Abs
                | FloatOp::Sqrt
                | FloatOp::Rcp
                | FloatOp::RcpApprox
                | FloatOp::RsqrtApprox
                | FloatOp::RsqrtEstimate
        ),
        _ => false,
    }
}

impl Passing {
    /// Nobody.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Finds them; `same` are registers whose lanes are in one part.
    pub(crate) fn of(f: &VectorFunction, ranges: &Ranges, same: &[bool]) -> Self {
        let mut found = vec![Vec::new(); f.classes.len()];
        let is_lanes = |r: usize| f.homes[r] == Home::Vector && !same[r];
        let ends = |inst: &VectorInst, position: u32, r: usize| {
            inst.guard.is_none()
                && ranges.kept.stretch_at(r, position).is_some_and(|s| s.end == position)
        };
        let begins = |position: u32, r: usize| {
            ranges.kept.stretch_at(r, position).is_some_and(|s| s.start == position)
        };
        for (block, start) in f.blocks.iter().zip(&ranges.kept.starts) {
            for (position, inst) in (start + 1..).zip(&block.insts) {
                let [dest] = &inst.dst[..] else { continue };
                let to = dest.reg.index();
                let width = f.classes[to].width();
                if inst.uniform
                    || !goes_part_by_part(&inst.op)
                    || !is_lanes(to)
                    || !begins(position, to)
                {
                    continue;
                }
                for source in &inst.src {
                    let Source::Vector(from) = source else { continue };
                    let from = from.index();
                    if from != to
                        && is_lanes(from)
                        && f.classes[from].width().map(parts) == width.map(parts)
                        && ends(inst, position, from)
                    {
                        found[from].push((to, position));
                        found[to].push((from, position));
                    }
                }
            }
        }
        Self(found)
    }

    /// The others and the positions.
    pub(crate) fn partners(&self, r: usize) -> &[(usize, u32)] {
        self.0.get(r).map_or(&[], |list| &list[..])
    }
}
