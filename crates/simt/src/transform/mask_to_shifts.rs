//! Mask to shifts: bit fields that are shifted and masked become a pair of shifts.
//!
//! Compilers make one shift and a mask of `(x >> 5) << 2`, the place of a warp's word. What bits of `x`
//! lanes differ in and that none of them is left can be known from shifts, one by one (`affine`), so the
//! mask becomes shifts again where it does nothing but clear low bits.
//!
//! Nothing becomes longer; a dead shift goes with dead code.

use crate::ir::op::{IntOp, IntType, Op, Width};
use crate::ir::{Function, Inst, Operand, Reg};

/// Looks at all blocks.
pub(crate) fn run(f: &mut Function) {
    let mut written = Written(Vec::new());
    for block in 0..f.blocks.len() {
        let insts = std::mem::take(&mut f.blocks[block].insts);
        let mut made: Vec<Inst> = Vec::with_capacity(insts.len());
        for mut inst in insts {
            if let Some((source, right, left, ty)) = field(&made, |r| written.at(block, r), &inst) {
                let shift = |op, dst, src, by: u32| Inst {
                    op: Op::Int(op, ty),
                    guard: None,
                    dst: vec![dst],
                    src: vec![Operand::Reg(src), Operand::Imm(u64::from(by))],
                    line: inst.line,
                };
                let dst = inst.dst[0];
                let shifted = f.new_reg(f.regs[dst.index()]);
                made.push(shift(IntOp::Shr, shifted, source, right));
                inst = shift(IntOp::Shl, dst, shifted, left);
            }
            inst.dst.iter().for_each(|r| written.note(block, *r, made.len()));
            made.push(inst);
        }
        f.blocks[block].insts = made;
    }
}

/// Where each register was written last: block and instruction.
struct Written(Vec<Option<(usize, usize)>>);

impl Written {
    fn note(&mut self, block: usize, reg: Reg, at: usize) {
        if reg.index() >= self.0.len() {
            self.0.resize(reg.index() + 1, None);
        }
        self.0[reg.index()] = Some((block, at));
    }

    /// The instruction of a block that wrote it.
    fn at(&self, block: usize, reg: Reg) -> Option<usize> {
        let (of, at) = (*self.0.get(reg.index())?)?;
        (of == block).then_some(at)
    }
}

/// The shifts that an instruction is, if it masks low bits of what was shifted right: of which
/// register, by how much to the right, by how much back. In front of it are others, of which it is
/// known which has written a register last.
fn field(
    before: &[Inst],
    written: impl Fn(Reg) -> Option<usize>,
    inst: &Inst,
) -> Option<(Reg, u32, u32, IntType)> {
    let (Op::Int(IntOp::And, ty), [Operand::Reg(field), Operand::Imm(mask)]) =
        (&inst.op, &inst.src[..])
    else {
        return None;
    };
    let bits = ty.width().bits();
    let earlier = written(*field)?;
    let made = &before[earlier];
    let (Op::Int(IntOp::Shr, of), [Operand::Reg(source), Operand::Imm(by)]) =
        (&made.op, &made.src[..])
    else {
        return None;
    };
    let plain = inst.guard.is_none() && made.guard.is_none() && !of.signed();
    let changed = written(*source).is_some_and(|at| at >= earlier);
    if !plain || changed || of.width() != ty.width() || ty.width() == Width::W128 {
        return None;
    }
    let by = u32::try_from(*by).ok().filter(|by| *by < bits)?;
    // What the shift leaves, and of that the mask clears but low bits.
    let left = u64::MAX >> (64 - bits) >> by;
    let low = (mask & left).trailing_zeros();
    let clears_low_bits = low > 0 && low + by < bits && mask & left == left >> low << low;
    clears_low_bits.then_some((*source, by + low, low, *of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::op::Class;
    use crate::ir::{Block, Target, Term};

    fn int(op: IntOp, ty: IntType, dst: u32, src: u32, by: u64) -> Inst {
        let src = vec![Operand::Reg(Reg(src)), Operand::Imm(by)];
        Inst { op: Op::Int(op, ty), guard: None, dst: vec![Reg(dst)], src, line: 0 }
    }

    fn shifts(mask: u64, between: Option<Inst>) -> Vec<(IntOp, u64)> {
        let mut insts = vec![int(IntOp::Shr, IntType::U32, 1, 0, 3)];
        insts.extend(between);
        insts.push(int(IntOp::And, IntType::U32, 2, 1, mask));
        let blocks = vec![Block { insts, term: Term::Jump(Target::Exit), line: 0 }];
        let regs = vec![Class::Lane(Width::W32); 3];
        let mut f = Function { regs, blocks, ..Function::default() };
        run(&mut f);
        let made = f.blocks[0].insts.iter().rev().take(2).rev();
        made.map(|i| match (&i.op, &i.src[..]) {
            (Op::Int(op, _), [_, Operand::Imm(by)]) => (*op, *by),
            _ => panic!("{i:?}"),
        })
        .collect()
    }

    #[test]
    fn the_place_of_a_warps_word_is_two_shifts() {
        assert_eq!(shifts(0x1fff_fffc, None), [(IntOp::Shr, 5), (IntOp::Shl, 2)]);
        assert_eq!(shifts(0xffff_fff0, None), [(IntOp::Shr, 7), (IntOp::Shl, 4)]);
    }

    #[test]
    fn other_masks_stay() {
        let kept = |mask| [(IntOp::Shr, 3), (IntOp::And, mask)];
        for mask in [0x0fff_fffc, 0x1fff_ffff, 0x1fff_fff4, 3, 0] {
            assert_eq!(shifts(mask, None), kept(mask), "{mask:#x}");
        }
        let changes = int(IntOp::Shr, IntType::U32, 0, 0, 1);
        let made = shifts(0x1fff_fffc, Some(changes));
        assert_eq!(made[1], (IntOp::And, 0x1fff_fffc), "another number was shifted");
    }

    #[test]
    fn shifts_of_other_kinds_stay() {
        let guard = Some(crate::ir::Guard { reg: Reg(2), negated: false });
        let shift = || int(IntOp::Shr, IntType::U32, 1, 0, 3);
        let mask = || int(IntOp::And, IntType::U32, 2, 1, 0x1fff_fffc);
        let made = |first: Inst, second: Inst| {
            let insts = vec![first, second];
            let blocks = vec![Block { insts, term: Term::Jump(Target::Exit), line: 0 }];
            let regs = vec![Class::Lane(Width::W32); 3];
            let mut f = Function { regs, blocks, ..Function::default() };
            run(&mut f);
            f.blocks[0].insts.last().map(|i| i.op.clone())
        };
        let [shl, and] = [IntOp::Shl, IntOp::And].map(|op| Some(Op::Int(op, IntType::U32)));
        assert_eq!(made(shift(), mask()), shl);
        for (first, second) in [
            // What was shifted is gone.
            (
                Inst { dst: vec![Reg(0)], ..shift() },
                int(IntOp::And, IntType::U32, 2, 0, 0x1fff_fffc),
            ),
            (int(IntOp::Shr, IntType::S32, 1, 0, 3), mask()),
            (int(IntOp::Shr, IntType::U32, 1, 0, 32), mask()),
            (Inst { guard, ..shift() }, mask()),
            (shift(), Inst { guard, ..mask() }),
        ] {
            assert_eq!(made(first.clone(), second), and, "{first:?}");
        }
    }
}
