//! Block terminators: branches, back-edge polls, divergence and reconvergence.
//!
//! Back-edges spend fuel and poll the yield flag. In the masked version every edge compares its
//! target with the lowest pending block: if that is lower, the active lanes are queued at the
//! target and the lowest block runs (reconvergence).

use crate::asm::assembler::{Assembler, Label, X, at};
use crate::frame::entry_exit::Exit;
use crate::frame::warp_loop;
use crate::frame_layout::{C, D, Field, MASK, field};
use crate::function::Compiler;
use iced_x86::{Code, Register};
use simt::ir::vector::VectorTerm;

/// Instructions of a block that is worth being made again for a branch.
const SIDE_INSTRUCTIONS_MAX: usize = 16;

/// Blocks between a branch and where its lanes reconverge.
#[derive(Clone, Copy)]
struct Sides {
    yes: Option<usize>,
    no: Option<usize>,
    meet: usize,
}

impl Compiler<'_> {
    pub(crate) fn refund_fuel(&mut self, block: usize) {
        let cost = self.layout.cost(block) as i32;
        self.a.op(Code::Add_rm64_imm32, &[field(Field::Fuel).into(), X::I(cost)]);
    }

    /// The poll of a back-edge: has the fuel run out, or is the yield flag set? Keeps EAX.
    fn back_edge(&mut self, block: usize) {
        if self.ablation.back_edges {
            return;
        }
        let label = self.a.label();
        let known_branch = self.known_branch;
        // Nothing of the back-edge has happened yet, but its predicate may be known already.
        self.out_of_line(label, move |c| {
            if let Some((r, outcome)) = known_branch {
                let memory = c.mask_of(r);
                c.a.op(Code::Mov_rm32_imm32, &[memory.into(), X::I(outcome)]);
            }
            c.refund_fuel(block);
            let out = c.exit_stub(block, Exit::Terminate);
            c.a.jump(Code::Jmp_rel32_64, out);
        });
        let cost = self.layout.cost(block) as i32;
        let a = &mut self.a;
        a.op(Code::Sub_rm64_imm32, &[field(Field::Fuel).into(), X::I(cost)]);
        a.jump(Code::Jle_rel32_64, label);
        a.op(Code::Mov_r64_rm64, &[C.into(), field(Field::Control).into()]);
        a.op(Code::Cmp_rm32_imm8, &[at(C, 0).into(), X::I(0)]);
        a.jump(Code::Jne_rel32_64, label);
    }

    /// All lanes that run go from the end of a block to a block.
    pub(crate) fn go(&mut self, block: usize, to: usize) {
        if to <= block {
            self.back_edge(block);
        }
        self.arrive(block, to);
    }

    /// [`Self::go`] after the back-edge.
    fn arrive(&mut self, block: usize, to: usize) {
        // The next block stands right behind.
        let next = self.inline && to == block + 1;
        if !self.masked {
            if !next {
                self.a.jump(Code::Jmp_rel32_64, self.unmasked_labels[to]);
            }
            return;
        }
        let queue = self.a.label();
        self.out_of_line(queue, move |c| c.queue(block, to));
        self.a.op(Code::Cmp_rm32_imm32, &[field(Field::Lowest).into(), X::I(to as i32)]);
        self.a.jump(Code::Jbe_rel32_64, queue);
        if !next {
            self.a.jump(Code::Jmp_rel32_64, self.masked_labels[to]);
        }
    }

    /// Lanes are pending at `to` or a lower block: these are queued too, and the lowest block runs.
    pub(crate) fn queue(&mut self, block: usize, to: usize) {
        self.a.op(Code::Mov_r64_rm64, &[C.into(), field(Field::Pending).into()]);
        self.a.op(Code::Or_rm32_r32, &[at(C, 4 * to as i32).into(), MASK.into()]);
        self.choose_or(block);
    }

    fn choose_or(&mut self, block: usize) {
        let out = self.exit_stub(block, Exit::Done);
        self.a.op(Code::Lea_r64_m, &[D.into(), Assembler::at_label(out).into()]);
        self.a.jump(Code::Jmp_rel32_64, self.next_pending);
    }

    /// All lanes that run exit.
    pub(crate) fn exit(&mut self, block: usize) {
        if !self.masked {
            self.a.jump(Code::Jmp_rel32_64, self.next_warp);
            return;
        }
        let eax = Register::EAX;
        let out = self.exit_stub(block, Exit::Done);
        self.a.op(Code::Mov_r32_rm32, &[eax.into(), MASK.into()]);
        self.a.op(Code::Not_rm32, &[eax.into()]);
        self.a.op(Code::And_rm32_r32, &[field(Field::Live).into(), eax.into()]);
        self.a.jump(Code::Je_rel32_64, self.next_warp);
        self.a.op(Code::Lea_r64_m, &[D.into(), Assembler::at_label(out).into()]);
        self.a.jump(Code::Jmp_rel32_64, self.next_pending);
    }

    /// Where all lanes that run go by a jump instruction.
    fn edge(&mut self, block: usize, to: Option<usize>) -> Label {
        match to {
            Some(to) if !self.masked && to > block => self.unmasked_labels[to],
            Some(to) => {
                let label = self.a.label();
                self.out_of_line(label, move |c| c.go(block, to));
                label
            }
            None if !self.masked => self.next_warp,
            None => {
                let label = self.a.label();
                self.out_of_line(label, move |c| c.exit(block));
                label
            }
        }
    }

    pub(crate) fn terminator(&mut self, term: &VectorTerm) {
        let block = self.block;
        match term {
            VectorTerm::Jump(target) => match target.block() {
                Some(to) => self.go(block, to.index()),
                None => self.exit(block),
            },
            VectorTerm::Branch { guard, uniform, taken, other } => {
                let (yes, no) = (taken.block(), other.block());
                let (mut yes, mut no) = (yes.map(|b| b.index()), no.map(|b| b.index()));
                if guard.negated {
                    std::mem::swap(&mut yes, &mut no);
                }
                let eax = Register::EAX;
                if self.in_eax != Some(guard.reg) {
                    let memory = self.mask_of(guard.reg);
                    self.a.op(Code::Mov_r32_rm32, &[eax.into(), memory.into()]);
                }
                if yes == no {
                    match yes {
                        Some(to) => self.go(block, to),
                        None => self.exit(block),
                    }
                    return;
                }
                if self.masked {
                    self.a.op(Code::And_r32_rm32, &[eax.into(), MASK.into()]);
                } else {
                    self.a.op(Code::Test_rm32_r32, &[eax.into(), eax.into()]);
                }
                self.branch(block, yes, no, *uniform);
            }
            VectorTerm::Table { .. }
            | VectorTerm::Call { .. }
            | VectorTerm::Barrier { .. }
            | VectorTerm::Pause { .. } => {
                if let Some(next) = warp_loop::waits_until(term) {
                    self.barrier(block, next);
                }
                let out = self.exit_stub(block, Exit::Terminate);
                self.a.jump(Code::Jmp_rel32_64, out);
            }
        }
    }

    /// Lanes in EAX, for which the flags are set, go to `yes`, the others that run to `no`.
    fn branch(&mut self, block: usize, yes: Option<usize>, no: Option<usize>, uniform: bool) {
        let eax = Register::EAX;
        let back = |to: Option<usize>| to.is_some_and(|to| to <= block);
        // The way back stands in line, the others behind.
        if uniform {
            if back(yes) {
                let away = self.edge(block, no);
                self.a.jump(Code::Je_rel32_64, away);
                self.fall(block, yes);
            } else {
                let away = self.edge(block, yes);
                self.a.jump(Code::Jne_rel32_64, away);
                self.fall(block, no);
            }
            return;
        }
        let none = self.edge(block, no);
        self.a.jump(Code::Je_rel32_64, none);
        let part = self.a.label();
        self.out_of_line(part, move |c| c.diverge(block));
        if self.masked {
            self.a.op(Code::Cmp_r32_rm32, &[eax.into(), MASK.into()]);
        } else {
            self.a.op(Code::Cmp_rm32_imm8, &[eax.into(), X::I(-1)]);
        }
        self.a.jump(Code::Jne_rel32_64, part);
        self.fall(block, yes);
    }

    pub(crate) fn fall(&mut self, block: usize, to: Option<usize>) {
        match to {
            Some(to) => self.go(block, to),
            None => self.exit(block),
        }
    }

    /// The ways of a branch at the end of a block, if lanes that part there meet again behind one
    /// short block each, or none.
    fn sides(&self, block: usize, yes: Option<usize>, no: Option<usize>) -> Option<Sides> {
        let (yes, no) = (yes?, no?);
        let behind = |side: usize| {
            let b = &self.f.blocks[side];
            let plain = b.checks.is_empty()
                && b.insts.len() <= SIDE_INSTRUCTIONS_MAX
                && b.insts.iter().all(|i| !i.op.is_sync());
            match &b.term {
                VectorTerm::Jump(to) if plain && side > block => {
                    to.block().map(|to| to.index()).filter(|to| *to > side)
                }
                _ => None,
            }
        };
        let (after_yes, after_no) = (behind(yes), behind(no));
        if no > block && after_yes == Some(no) {
            Some(Sides { yes: Some(yes), no: None, meet: no })
        } else if yes > block && after_no == Some(yes) {
            Some(Sides { yes: None, no: Some(no), meet: yes })
        } else {
            let meet = after_yes.filter(|to| after_no == Some(*to))?;
            Some(Sides { yes: Some(yes), no: Some(no), meet })
        }
    }

    /// Lanes of a full warp, those in EAX and the others, go their ways one after the other, the
    /// lower block first, and on together.
    fn aside_and_back(&mut self, sides: Sides) {
        let Sides { yes, no, meet } = sides;
        self.a.op(Code::Mov_r32_rm32, &[MASK.into(), Register::EAX.into()]);
        let mut sides = [(yes, false), (no, true)];
        if no < yes {
            sides.reverse();
        }
        let mut turned = false;
        for (way, others) in sides {
            let Some(way) = way else { continue };
            if turned != others {
                self.a.op(Code::Not_rm32, &[MASK.into()]);
                turned = others;
            }
            self.masked = true;
            self.block = way;
            self.forget_cached();
            self.contents(way);
        }
        self.masked = false;
        self.a.op(Code::Mov_r32_imm32, &[MASK.into(), X::I(-1)]);
        self.a.jump(Code::Jmp_rel32_64, self.unmasked_labels[meet]);
    }

    /// The lanes in EAX, some of those that run, take the branch of a block, the others do not.
    pub(crate) fn diverge(&mut self, block: usize) {
        let VectorTerm::Branch { guard, taken, other, .. } = &self.f.blocks[block].term else {
            return;
        };
        let (yes, no) = if guard.negated { (other, taken) } else { (taken, other) };
        let (yes, no) = (yes.block().map(|b| b.index()), no.block().map(|b| b.index()));
        if !self.masked
            && let Some(sides) = self.sides(block, yes, no)
        {
            return self.aside_and_back(sides);
        }
        let (eax, ecx, edx) = (Register::EAX, Register::ECX, Register::EDX);
        let (high, low) = match (yes, no) {
            // Those that exit leave the others alone.
            (None, Some(to)) | (Some(to), None) => {
                if yes.is_some() {
                    self.a.op(Code::Xor_r32_rm32, &[eax.into(), MASK.into()]);
                }
                // EAX exits.
                if to <= block {
                    self.back_edge(block);
                }
                self.a.op(Code::Xor_r32_rm32, &[MASK.into(), eax.into()]);
                self.a.op(Code::Not_rm32, &[eax.into()]);
                self.a.op(Code::And_rm32_r32, &[field(Field::Live).into(), eax.into()]);
                self.masked = true;
                self.arrive(block, to);
                return;
            }
            (Some(yes), Some(no)) => (yes.max(no), yes.min(no)),
            (None, None) => return,
        };
        if low <= block {
            self.back_edge(block);
        }
        if yes == Some(low) {
            // EAX goes to the higher block.
            self.a.op(Code::Xor_r32_rm32, &[eax.into(), MASK.into()]);
        }
        self.a.op(Code::Xor_r32_rm32, &[MASK.into(), eax.into()]);
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Pending).into()]);
        self.a.op(Code::Or_rm32_r32, &[at(D, 4 * high as i32).into(), eax.into()]);
        self.a.load_constant(C, high as u64);
        self.a.op(Code::Mov_r32_rm32, &[edx.into(), field(Field::Lowest).into()]);
        self.a.op(Code::Cmp_r32_rm32, &[edx.into(), ecx.into()]);
        self.a.op(Code::Cmova_r32_rm32, &[edx.into(), ecx.into()]);
        self.a.op(Code::Mov_rm32_r32, &[field(Field::Lowest).into(), edx.into()]);
        self.masked = true;
        self.arrive(block, low);
    }
}
