//! Bit fields that are shifted and masked, as shifts there and back.
//!
//! Compilers make one shift and a mask of `(x >> 5) << 2`, the place of a warp's word. What bits of `x`
//! lanes differ in and that none of them is left can be told of shifts, one by one (`affine`), so the
//! mask becomes shifts again where it does nothing but clear low bits.
//!
//! Nothing becomes longer; a shift that nobody reads any more goes with dead code.

use crate::ir::{Function, Inst, Operand, Reg};
use crate::op::{IntOp, IntType, Op, Width};

/// Looks at all blocks.
pub(crate) fn run(f: &mut Function) {
    for block in 0..f.blocks.len() {
        let mut at = 0;
        while at < f.blocks[block].insts.len() {
            if let Some((source, right, left, ty)) = field(&f.blocks[block].insts, at) {
                let dst = f.blocks[block].insts[at].dst[0];
                let class = f.regs[dst.index()];
                let shifted = f.new_reg(class);
                let line = f.blocks[block].insts[at].line;
                let shift = |op, dst, src, by: u32| Inst {
                    op: Op::Int(op, ty),
                    guard: None,
                    dst: vec![dst],
                    src: vec![Operand::Reg(src), Operand::Imm(u64::from(by))],
                    line,
                };
                let insts = &mut f.blocks[block].insts;
                insts[at] = shift(IntOp::Shl, dst, shifted, left);
                insts.insert(at, shift(IntOp::Shr, shifted, source, right));
                at += 1;
            }
            at += 1;
        }
    }
}

/// The shifts that an instruction is, if it masks low bits of what was shifted right: of which
/// register, by how much to the right, by how much back.
fn field(insts: &[Inst], at: usize) -> Option<(Reg, u32, u32, IntType)> {
    let inst = &insts[at];
    let (Op::Int(IntOp::And, ty), [Operand::Reg(field), Operand::Imm(mask)]) =
        (&inst.op, &inst.src[..])
    else {
        return None;
    };
    let bits = ty.width().bits();
    let earlier = insts[..at].iter().rposition(|i| i.dst.contains(field))?;
    let made = &insts[earlier];
    let (Op::Int(IntOp::Shr, of), [Operand::Reg(source), Operand::Imm(by)]) =
        (&made.op, &made.src[..])
    else {
        return None;
    };
    let plain = inst.guard.is_none() && made.guard.is_none() && !of.signed();
    let changed = insts[earlier..at].iter().any(|i| i.dst.contains(source));
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
    use crate::ir::{Block, Target, Term};
    use crate::op::Class;

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
}
