//! mem2reg: local variables whose address is not taken become registers; the others get their place
//! in the frame.
//!
//! After inlining, parameters of calls are such variables, and so are scalars of unoptimised
//! code. A slot is promoted if all that happens to it are loads and stores at constant offsets
//! that agree on offset and size; each offset then becomes a register. Slots of real calls stay
//! in memory, where caller and callee both find them.

use crate::ir::op::{Access, Class, Op, Space, Width};
use crate::ir::{Function, Inst, Operand, Reg, SlotId, Term};
use std::collections::{BTreeMap, HashMap};

/// Promotes what can be.
pub(crate) fn run(f: &mut Function) {
    let promoted = find(f);
    let mut registers: HashMap<(SlotId, u64), Reg> = HashMap::new();
    for (slot, elements) in promoted {
        for (offset, bytes) in elements {
            let class = Class::Lane(Width::for_bits(u32::from(bytes) * 8));
            registers.insert((slot, offset), f.new_reg(class));
        }
    }
    if registers.is_empty() {
        return;
    }
    for block in &mut f.blocks {
        let mut insts = Vec::with_capacity(block.insts.len());
        for inst in block.insts.drain(..) {
            match access_of(&inst) {
                Some((slot, offset, access)) if registers.contains_key(&(slot, offset)) => {
                    rewrite(&inst, slot, offset, access, &registers, &mut insts);
                }
                _ => insts.push(inst),
            }
        }
        block.insts = insts;
    }
}

/// The slot, offset and form of a direct access.
fn access_of(inst: &Inst) -> Option<(SlotId, u64, Access)> {
    let (Op::Load(access) | Op::Store(access)) = inst.op else { return None };
    match inst.src[..] {
        [Operand::Slot(slot), Operand::Imm(offset), ..] if access.space == Space::Local => {
            Some((slot, offset, access))
        }
        _ => None,
    }
}

/// What can be promoted: offsets and sizes, in order, so that a program always becomes the same code.
fn find(f: &Function) -> BTreeMap<SlotId, BTreeMap<u64, u8>> {
    let mut elements: BTreeMap<SlotId, Option<BTreeMap<u64, u8>>> = BTreeMap::new();
    let ruin = |elements: &mut BTreeMap<SlotId, Option<_>>, slot: SlotId| {
        elements.insert(slot, None);
    };
    for call in f.blocks.iter().filter_map(|b| match b.term {
        Term::Call { site, .. } => Some(&f.calls[site as usize]),
        _ => None,
    }) {
        call.args.iter().chain(&call.results).for_each(|s| ruin(&mut elements, *s));
    }
    // The formals of a function that is really called.
    f.params.iter().chain(&f.results).for_each(|s| ruin(&mut elements, *s));
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        let direct = access_of(inst);
        for (position, source) in inst.src.iter().enumerate() {
            let Operand::Slot(slot) = *source else { continue };
            let (true, Some((_, offset, access))) = (position == 0, direct) else {
                ruin(&mut elements, slot);
                continue;
            };
            let entry = elements.entry(slot).or_insert_with(|| Some(BTreeMap::new()));
            let size = u64::from(f.slots[slot.0 as usize].bytes);
            let Some(known) = entry else { continue };
            // 8-bit elements share a register class with 16-bit ones; leave them in memory.
            let fits = access.bytes >= 2
                && offset
                    .checked_add(u64::from(access.bytes) * u64::from(access.count))
                    .is_some_and(|end| end <= size);
            let agrees = fits
                && (0..u64::from(access.count)).all(|i| {
                    let at = offset + i * u64::from(access.bytes);
                    *known.entry(at).or_insert(access.bytes) == access.bytes
                });
            if !agrees {
                *entry = None;
            }
        }
    }
    elements
        .into_iter()
        .filter_map(|(slot, known)| Some((slot, known?)))
        .filter(|(_, known)| {
            let ranges: Vec<_> = known.iter().map(|(&at, &bytes)| (at, bytes)).collect();
            ranges.windows(2).all(|w| w[0].0 + u64::from(w[0].1) <= w[1].0)
        })
        .collect()
}

fn rewrite(
    inst: &Inst,
    slot: SlotId,
    offset: u64,
    access: Access,
    registers: &HashMap<(SlotId, u64), Reg>,
    out: &mut Vec<Inst>,
) {
    let element = Width::for_bits(u32::from(access.bytes) * 8);
    for i in 0..usize::from(access.count) {
        let storage = registers[&(slot, offset + i as u64 * u64::from(access.bytes))];
        let load = matches!(inst.op, Op::Load(_));
        let (dst, src) =
            if load { (inst.dst[i], Operand::Reg(storage)) } else { (storage, inst.src[2 + i]) };
        let (from, to) = if load { (element, access.width) } else { (access.width, element) };
        let op = if from == to {
            Op::Mov(to)
        } else {
            let bits = element.bits() as u8;
            Op::Extend { from, bits, signed: load && access.signed, to }
        };
        out.push(Inst { op, guard: inst.guard, dst: vec![dst], src: vec![src], line: inst.line });
    }
}

/// Gives every slot that is left its place in the frame and replaces it by its address. Returns
/// the offset of each slot and the frame's size in bytes.
pub(crate) fn place_frame(f: &mut Function) -> (Vec<u32>, u32) {
    let mut used = vec![false; f.slots.len()];
    for operand in f.blocks.iter().flat_map(|b| &b.insts).flat_map(|i| &i.src) {
        if let Operand::Slot(slot) = operand {
            used[slot.0 as usize] = true;
        }
    }
    let called = f.blocks.iter().filter_map(|b| match b.term {
        Term::Call { site, .. } => Some(&f.calls[site as usize]),
        _ => None,
    });
    let formals = f.params.iter().chain(&f.results);
    for slot in called.flat_map(|c| c.args.iter().chain(&c.results)).chain(formals) {
        used[slot.0 as usize] = true;
    }
    let mut offsets = vec![0; f.slots.len()];
    let mut size = 0u32;
    for (index, slot) in f.slots.iter().enumerate() {
        if used[index] {
            size = size.checked_next_multiple_of(slot.align.max(1)).unwrap_or(FRAME_END);
            offsets[index] = size;
            size = size.saturating_add(slot.bytes).min(FRAME_END);
        }
    }
    let offsets_ref = &offsets;
    for block in &mut f.blocks {
        let mut insts = Vec::with_capacity(block.insts.len());
        for mut inst in block.insts.drain(..) {
            for at in 0..inst.src.len() {
                let Operand::Slot(slot) = inst.src[at] else { continue };
                let mut value = |op, width, src| {
                    f.regs.push(Class::Lane(width));
                    let reg = Reg(f.regs.len() as u32 - 1);
                    insts.push(Inst { op, guard: None, dst: vec![reg], src, line: inst.line });
                    Operand::Reg(reg)
                };
                let offset = offsets_ref[slot.0 as usize];
                let mut address = value(Op::FrameAddress(offset), Width::W64, vec![]);
                // Addresses of local memory may be used as 32 bits: not the halves of 64-bit lanes.
                let narrow =
                    Op::Extend { from: Width::W64, bits: 32, signed: false, to: Width::W32 };
                if inst.op.source_class(at) == Class::Lane(Width::W32) {
                    address = value(narrow, Width::W32, vec![address]);
                }
                inst.src[at] = address;
            }
            insts.push(inst);
        }
        block.insts = insts;
    }
    // Frames of a call chain follow each other: keep every one aligned for any type.
    (offsets, size.next_multiple_of(16))
}

/// The end of the largest frame: more than any thread has.
const FRAME_END: u32 = u32::MAX - 15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Block, Guard, Target};

    const VALUE: Reg = Reg(0);
    const PART: Reg = Reg(1);

    fn access(bytes: u8, signed: bool) -> Access {
        let (space, width) = (Space::Local, Width::W32);
        Access { space, bytes, count: 1, signed, volatile: false, width }
    }

    fn load(offset: u64, bytes: u8, signed: bool) -> Inst {
        let src = vec![Operand::Slot(SlotId(0)), Operand::Imm(offset)];
        Inst { op: Op::Load(access(bytes, signed)), guard: None, dst: vec![VALUE], src, line: 0 }
    }

    fn store(offset: u64, bytes: u8) -> Inst {
        let src = vec![Operand::Slot(SlotId(0)), Operand::Imm(offset), Operand::Reg(VALUE)];
        Inst { op: Op::Store(access(bytes, false)), guard: None, dst: vec![], src, line: 0 }
    }

    /// What becomes of accesses to a variable of 8 bytes.
    fn promoted(insts: &[Inst]) -> Vec<Inst> {
        let blocks = vec![Block { insts: insts.to_vec(), term: Term::Jump(Target::Exit), line: 0 }];
        let regs = vec![Class::Lane(Width::W32), Class::Pred];
        let mut f = Function { regs, blocks, ..Function::default() };
        f.new_slot(8, 4);
        run(&mut f);
        f.blocks.remove(0).insts
    }

    #[test]
    fn accesses_that_agree_become_moves() {
        let (storage, other) = (Reg(2), Reg(3));
        let made = promoted(&[store(4, 4), load(4, 4, false)]);
        let words: Vec<_> = made.iter().map(|i| (&i.op, &i.dst[..], &i.src[..])).collect();
        let mov = Op::Mov(Width::W32);
        assert_eq!(words[0], (&mov, &[storage][..], &[Operand::Reg(VALUE)][..]));
        assert_eq!(words[1], (&mov, &[VALUE][..], &[Operand::Reg(storage)][..]));
        // Two variables in one, and lanes that keep what they have.
        let guard = Some(Guard { reg: PART, negated: true });
        let made = promoted(&[Inst { guard, ..store(0, 4) }, store(4, 4)]);
        assert_eq!((made[0].guard, made[1].guard), (guard, None));
        assert!(made[0].dst != made[1].dst && [storage, other].contains(&made[0].dst[0]));
        for (signed, bits) in [(false, 16), (true, 16)] {
            let made = promoted(&[store(2, 2), load(2, 2, signed)]);
            let (narrow, wide) = (Width::W16, Width::W32);
            let op = Op::Extend { from: narrow, bits, signed, to: wide };
            assert_eq!(made[1].op, op);
            let op = Op::Extend { from: wide, bits, signed: false, to: narrow };
            assert_eq!(made[0].op, op, "what is stored has no sign");
        }
    }

    #[test]
    fn accesses_that_do_not_agree_stay() {
        let address = Inst {
            op: Op::Mov(Width::W64),
            guard: None,
            dst: vec![VALUE],
            src: vec![Operand::Slot(SlotId(0))],
            line: 0,
        };
        for insts in [
            [store(0, 4), load(0, 2, false)],
            [store(0, 4), load(2, 2, false)],
            [store(2, 4), load(0, 4, false)],
            [store(4, 4), load(8, 4, false)],
            [store(4, 4), load(6, 4, false)],
            [store(0, 4), load(u64::MAX - 1, 4, false)],
            [store(0, 1), load(0, 1, false)],
            [store(0, 4), address],
        ] {
            assert_eq!(promoted(&insts), insts);
        }
    }

    #[test]
    fn a_frame_address_of_32_bits_is_made_of_the_whole_one() {
        let (op, src) = (Op::Mov(Width::W32), vec![Operand::Slot(SlotId(0))]);
        let insts = vec![Inst { op, guard: None, dst: vec![VALUE], src, line: 0 }];
        let blocks = vec![Block { insts, term: Term::Jump(Target::Exit), line: 0 }];
        let regs = vec![Class::Lane(Width::W32)];
        let mut f = Function { regs, blocks, ..Function::default() };
        f.new_slot(512, 8);
        place_frame(&mut f);
        let [address, narrow, mov] = &f.blocks[0].insts[..] else { panic!("three instructions") };
        assert_eq!(address.op, Op::FrameAddress(0));
        assert_eq!(f.regs[address.dst[0].index()], Class::Lane(Width::W64));
        assert_eq!(narrow.src, [Operand::Reg(address.dst[0])]);
        assert_eq!(f.regs[narrow.dst[0].index()], Class::Lane(Width::W32));
        assert_eq!(mov.src, [Operand::Reg(narrow.dst[0])]);
    }
}
