//! A function from start to end: both clones of every block, ways in and out, the cold rest.
//!
//! A block exists twice. The *full* clone runs when all 32 lanes do, so nobody waits anywhere: it
//! needs no masks, and all its lanes going one way is a plain jump. The *masked* clone runs with
//! any lanes; it looks whether somebody waits at a lower block before it goes on.
//!
//! What is rare stands behind the function: ways out (every value that a lane may still read goes
//! back into the register file), checks that failed, instructions run by their decoded form.

use crate::Flavour;
use crate::ablation::Ablation;
use crate::assembler::{Assembler, Label, X, at};
use crate::assign::{Assignment, Lanes, parts};
use crate::avx2::Step;
use crate::frame::{
    A, C, COUNT, D, FILE, FRAME, Field, K1, K2, MASK, SAVED_STACK, STACK_BYTES, Z0, field,
};
use crate::group::Groups;
use crate::nan;
use crate::predicate::Steps;
use crate::ranges::Ranges;
use crate::serial::{self, SerialLoop};
use crate::start::{self, PROLOGUE};
use crate::tensor::Fragments;
use crate::value::{Value, store_code};
use iced_x86::{Code, Register};
use simt::ir::Reg;
use simt::op::{Op, Width};
use simt::vector::{Home, Source, VectorFunction, VectorInst, VectorTerm};
use simt_interpreter::native::{Abilities, LEAVE, Layout, NEXT, PARK, TERMINATE};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Why code comes back at the end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// The terminator is for others.
    Terminate,
    /// All lanes are in the table, or have exited.
    Done,
    /// The block cannot start yet.
    Park,
    /// The block cannot run in this form.
    Leave,
}

/// What stands behind the function.
pub(crate) enum Cold {
    /// Leaves at a block.
    Out { label: Label, block: usize, way: Way },
    /// Runs an instruction by its decoded form, then goes on at `back`; so many bytes that it
    /// accesses have been counted already.
    Decoded { label: Label, back: Label, block: usize, index: usize, masked: bool, counted: i32 },
    /// Runs a segment's members by their decoded forms; what `in_eax` names is expected there.
    Segment {
        label: Label,
        back: Label,
        block: usize,
        masked: bool,
        members: Vec<usize>,
        in_eax: Option<Reg>,
    },
    /// Makes a block's checks again, by their decoded form.
    Check { label: Label, back: Label, block: usize, masked: bool },
    /// Gathers or scatters what is not contiguous.
    Apart { label: Label, back: Label, block: usize, index: usize },
    /// What is left of a block from an instruction on, where its accesses are checked one by one.
    Rest { label: Label, block: usize, index: usize, counted: i32 },
    /// Compares lanes one by one: their outcomes go to EAX.
    Compare {
        label: Label,
        back: Label,
        block: usize,
        index: usize,
        masked: bool,
        steps: Option<Steps>,
    },
    /// A back-edge's turn has ended: nothing has happened yet.
    Turn { label: Label, block: usize },
    /// All lanes go from a block to a block.
    Edge { label: Label, block: usize, to: usize, masked: bool },
    /// All lanes that run, of a warp of which others wait elsewhere or have exited, exit.
    Exit { label: Label, block: usize },
    /// Some lanes of a full warp go one way, the others the other; those in EAX to the first.
    Part { label: Label, block: usize, masked: bool },
    /// Lanes go to a block behind one at which others wait.
    Queue { label: Label, block: usize, to: usize },
}

pub(crate) struct Compiler<'a> {
    pub(crate) a: Assembler,
    pub(crate) f: &'a VectorFunction,
    pub(crate) layout: &'a Layout<'a>,
    pub(crate) ranges: Ranges,
    pub(crate) assignment: Assignment,
    pub(crate) lazy: Vec<bool>,
    pub(crate) flavour: Flavour,
    /// What is left out.
    pub(crate) without: Ablation,
    /// With AVX2, by block, the full and the masked clone: what they are made of.
    pub(crate) steps: Vec<[Vec<Step>; 2]>,
    /// By register: the one value that it ever has.
    constants: Vec<Option<u64>>,
    /// By block: the loop that is made lane by lane.
    serial_loops: Vec<Option<Rc<SerialLoop>>>,
    /// The clone under construction.
    pub(crate) masked: bool,
    /// The block under construction.
    pub(crate) block: usize,
    /// The instruction under construction.
    pub(crate) index: usize,
    /// The guard for which the active masks are right.
    pub(crate) active_for: Option<Option<(Reg, bool)>>,
    /// The predicate that the pair of predicate masks holds.
    pub(crate) in_pair: Option<Reg>,
    /// All warps of a block of the grid can enter together: they wait for each other somewhere.
    pub(crate) together: bool,
    /// The predicate that EAX holds.
    pub(crate) in_eax: Option<Reg>,
    /// Accesses that are checked together.
    pub(crate) groups: Groups,
    /// Where products of pairs are added, by groups of `k`, once something calls it.
    pub(crate) pairs: [Option<Label>; 2],
    /// Instructions of the block that an earlier one has done already.
    pub(crate) merged: std::ops::Range<usize>,
    /// Fragments of matrices that are ready for products.
    pub(crate) fragments: Fragments,
    /// General registers that hold values within blocks.
    pub(crate) temporaries: BTreeSet<Register>,
    /// Instructions without a native form: block, number, in the masked clone.
    pub(crate) decoded_at: BTreeSet<(usize, usize, bool)>,
    pub(crate) cold: Vec<Cold>,
    /// A clone is under construction, not cold code.
    pub(crate) in_line: bool,
    /// The full clones.
    pub(crate) full: Vec<Label>,
    /// The masked clones.
    pub(crate) partial: Vec<Label>,
    pub(crate) entries: Vec<Label>,
    ways: std::collections::HashMap<(usize, Way), Label>,
    /// Where the lowest pending lanes are taken.
    pub(crate) choose: Label,
    /// Where the next warp starts, if there is one.
    pub(crate) next_warp: Label,
    /// Where a warp starts with the prologue.
    pub(crate) start: Label,
    /// Where the next warp of those that entered together has its turn.
    pub(crate) next_turn: Label,
    pub(crate) leave: Label,
    /// Where the interpreter is called.
    pub(crate) decoded: Label,
}

/// Code of a function, to be put behind a table of its offsets.
pub(crate) struct Made {
    /// The code.
    pub(crate) code: Vec<u8>,
    /// Where it is entered.
    pub(crate) start: u32,
    /// Offsets of the blocks' entries, full clones and masked clones, one list behind the other.
    pub(crate) table: Vec<u32>,
    /// What it can do.
    pub(crate) abilities: Abilities,
    /// Instructions that run by their decoded forms: block, number, in the masked clone.
    pub(crate) decoded_at: BTreeSet<(usize, usize, bool)>,
}

/// By register: the constant that the only instruction that writes it gives it.
fn constants(f: &VectorFunction) -> Vec<Option<u64>> {
    let mut found = vec![None; f.classes.len()];
    let mut written = vec![false; f.classes.len()];
    for inst in f.prologue.iter().chain(f.blocks.iter().flat_map(|b| &b.insts)) {
        let value = match (&inst.op, inst.src.first()) {
            (Op::Mov(_), Some(Source::Imm(v))) if inst.guard.is_none() => Some(*v),
            _ => None,
        };
        for d in &inst.dst {
            let again = std::mem::replace(&mut written[d.reg.index()], true);
            found[d.reg.index()] = value.filter(|_| !again);
        }
    }
    for block in &f.blocks {
        if let VectorTerm::Barrier { dst: Some(d), .. } = &block.term {
            found[d.reg.index()] = None;
        }
    }
    found
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(f: &'a VectorFunction, layout: &'a Layout<'a>, flavour: Flavour) -> Self {
        let mut a = Assembler::new();
        let ranges = Ranges::of(f);
        let mut labels = || f.blocks.iter().map(|_| a.label()).collect::<Vec<_>>();
        let (full, partial, entries) = (labels(), labels(), labels());
        let (choose, next_warp) = (a.label(), a.label());
        let (leave, decoded) = (a.label(), a.label());
        let (start, next_turn) = (a.label(), a.label());
        Self {
            a,
            f,
            layout,
            ranges,
            assignment: Assignment::default(),
            lazy: nan::lazy(f),
            flavour,
            without: Ablation::current(),
            steps: Vec::new(),
            constants: constants(f),
            serial_loops: Vec::new(),
            masked: false,
            block: 0,
            index: 0,
            active_for: None,
            in_pair: None,
            together: start::waits(f),
            in_eax: None,
            groups: Groups::default(),
            fragments: Fragments::of(f),
            merged: 0..0,
            pairs: [None; 2],
            temporaries: BTreeSet::new(),
            decoded_at: BTreeSet::new(),
            cold: Vec::new(),
            in_line: true,
            full,
            partial,
            entries,
            ways: std::collections::HashMap::new(),
            choose,
            next_warp,
            start,
            next_turn,
            leave,
            decoded,
        }
    }

    /// Makes the code.
    pub(crate) fn make(mut self) -> Option<Made> {
        if self.flavour == Flavour::Avx2 {
            self.cut_all();
        }
        self.assignment = Assignment::of(self.f, &self.ranges, self.flavour);
        self.serial_loops = serial::find(self.f, &self.ranges);
        let start = self.a.label();
        self.a.bind(start);
        self.way_in();
        self.start();
        for masked in [false, true] {
            self.masked = masked;
            for block in 0..self.f.blocks.len() {
                self.clone_of(block);
            }
        }
        self.in_line = false;
        self.groups = Groups::default();
        let mut next = 0;
        while next < self.cold.len() {
            // Cold code can need more of it.
            let cold = std::mem::replace(
                &mut self.cold[next],
                Cold::Out { label: self.leave, block: 0, way: Way::Done },
            );
            self.emit_cold(cold);
            next += 1;
        }
        let left = self.untouched();
        for block in 0..self.f.blocks.len() {
            self.entry(block, &left);
        }
        self.choose();
        self.next_warp(&left);
        if self.together {
            self.next_turn();
        }
        self.add_pairs();
        self.run_decoded();
        self.epilogue();
        if self.flavour == Flavour::Avx2 && self.a.needs_avx512() {
            // A mistake, which the tests find; the processor would.
            return None;
        }
        let finished = self.a.finish().ok()?;
        let table = [&self.entries, &self.full, &self.partial]
            .into_iter()
            .flatten()
            .map(|label| finished.offset(*label))
            .collect::<Option<Vec<u32>>>()?;
        let start = finished.offset(start)?;
        let abilities = start::abilities(self.f);
        let decoded_at = self.decoded_at;
        Some(Made { code: finished.bytes, start, table, abilities, decoded_at })
    }

    pub(crate) fn forget(&mut self) {
        self.active_for = None;
        self.in_pair = None;
        self.in_eax = None;
        self.fragments.clear();
    }

    fn way_in(&mut self) {
        let a = &mut self.a;
        let saved = [Register::RBX, Register::RBP, Register::R12];
        for r in saved.into_iter().chain([Register::R13, Register::R14, Register::R15]) {
            a.op(Code::Push_r64, &[r.into()]);
        }
        let stack = Register::RSP;
        a.op(Code::Mov_r64_rm64, &[A.into(), stack.into()]);
        a.op(Code::Sub_rm64_imm32, &[stack.into(), X::I(STACK_BYTES)]);
        a.op(Code::And_rm64_imm8, &[stack.into(), X::I(-64)]);
        a.op(Code::Mov_rm64_r64, &[at(stack, SAVED_STACK).into(), A.into()]);
        a.op(Code::Mov_r64_rm64, &[FRAME.into(), Register::RDI.into()]);
        a.op(Code::Mov_r64_rm64, &[FILE.into(), field(Field::Regs).into()]);
        a.op(Code::Mov_r32_rm32, &[MASK.into(), field(Field::Mask).into()]);
        a.op(Code::Xor_r32_rm32, &[Register::R14D.into(), Register::R14D.into()]);
        if self.together {
            a.op(Code::Cmp_rm64_imm8, &[field(Field::Slots).into(), X::I(0)]);
            a.jump(Code::Jne_rel32_64, self.next_turn);
        }
        a.op(Code::Cmp_rm32_imm8, &[field(Field::Fresh).into(), X::I(0)]);
        a.jump(Code::Jne_rel32_64, self.start);
        a.op(Code::Mov_r32_rm32, &[Register::ECX.into(), Register::ESI.into()]);
        self.jump_through_table(0);
    }

    /// Goes to the block in ECX by the list of the table that starts at `list`.
    pub(crate) fn jump_through_table(&mut self, list: usize) {
        let first = 4 * (list * self.f.blocks.len()) as i64;
        let a = &mut self.a;
        a.op(Code::Mov_r64_rm64, &[A.into(), field(Field::Own).into()]);
        let entry = iced_x86::MemoryOperand::with_base_index_scale_displ_size(A, C, 4, first, 8);
        a.op(Code::Mov_r32_rm32, &[Register::ECX.into(), entry.into()]);
        a.op(Code::Add_r64_rm64, &[A.into(), C.into()]);
        a.op(Code::Jmp_rm64, &[A.into()]);
    }

    fn epilogue(&mut self) {
        self.a.bind(self.leave);
        let a = &mut self.a;
        a.op(Code::Add_rm64_r64, &[field(Field::WarpInstructions).into(), COUNT.into()]);
        a.op(Code::Shl_rm64_imm8, &[COUNT.into(), X::I(5)]);
        a.op(Code::Add_rm64_r64, &[field(Field::ThreadInstructions).into(), COUNT.into()]);
        a.op(Code::Mov_r64_rm64, &[Register::RSP.into(), at(Register::RSP, SAVED_STACK).into()]);
        a.op(Code::VEX_Vzeroupper, &[]);
        let saved = [Register::R15, Register::R14, Register::R13];
        for r in saved.into_iter().chain([Register::R12, Register::RBP, Register::RBX]) {
            a.op(Code::Pop_r64, &[r.into()]);
        }
        a.op(Code::Retnq, &[]);
    }

    /// Takes the lanes of the lowest pending block and goes there; out by the way in RDX if they
    /// are not for native code.
    fn choose(&mut self) {
        self.a.bind(self.choose);
        let blocks = self.f.blocks.len() as i32;
        let (ecx, eax) = (Register::ECX, Register::EAX);
        let (scan, none, found, inside) =
            (self.a.label(), self.a.label(), self.a.label(), self.a.label());
        let a = &mut self.a;
        a.op(Code::Mov_r32_rm32, &[ecx.into(), field(Field::Lowest).into()]);
        a.op(Code::Cmp_r32_rm32, &[ecx.into(), field(Field::Limit).into()]);
        a.jump(Code::Jb_rel32_64, inside);
        a.op(Code::Jmp_rm64, &[D.into()]);
        a.bind(inside);
        let entry = |index| iced_x86::MemoryOperand::with_base_index_scale(D, index, 4);
        a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Pending).into()]);
        a.op(Code::Mov_r32_rm32, &[MASK.into(), entry(C).into()]);
        a.op(Code::Mov_rm32_imm32, &[entry(C).into(), X::I(0)]);
        a.op(Code::Mov_r32_rm32, &[eax.into(), ecx.into()]);
        a.bind(scan);
        a.op(Code::Add_rm32_imm8, &[eax.into(), X::I(1)]);
        a.op(Code::Cmp_rm32_imm32, &[eax.into(), X::I(blocks)]);
        a.jump(Code::Jae_rel32_64, none);
        a.op(Code::Cmp_rm32_imm8, &[entry(A).into(), X::I(0)]);
        a.jump(Code::Je_rel32_64, scan);
        a.jump(Code::Jmp_rel32_64, found);
        a.bind(none);
        a.op(Code::Mov_r32_imm32, &[eax.into(), X::I(-1)]);
        a.bind(found);
        a.op(Code::Mov_rm32_r32, &[field(Field::Lowest).into(), eax.into()]);
        let all = a.label();
        a.op(Code::Cmp_rm32_imm8, &[MASK.into(), X::I(-1)]);
        a.jump(Code::Je_rel32_64, all);
        self.jump_through_table(2);
        self.a.bind(all);
        self.jump_through_table(1);
    }

    /// Loads what lives at the start of a block, and what the next warp expects to find, and goes
    /// there.
    fn entry(&mut self, block: usize, left: &[bool]) {
        self.a.bind(self.entries[block]);
        let position = self.ranges.starts[block];
        for (r, left) in left.iter().enumerate() {
            if self.ranges.covers(r, position) || *left {
                self.fill(r);
            }
        }
        self.a.op(Code::Cmp_rm32_imm8, &[MASK.into(), X::I(-1)]);
        self.a.jump(Code::Je_rel32_64, self.full[block]);
        self.a.jump(Code::Jmp_rel32_64, self.partial[block]);
    }

    /// Loads a register's machine registers from the register file.
    pub(crate) fn fill(&mut self, r: usize) {
        let place = self.layout.place(r);
        let Some(width) = self.f.classes[r].width() else { return };
        if let (Some(register), Some(offset)) = (self.assignment.scalars[r], place.scalar) {
            self.load_scalar(register, offset, width);
        }
        match self.assignment.lanes[r] {
            Lanes::File => {}
            Lanes::Stack(to) => {
                let Some(offset) = place.vector else { return };
                self.copy_lanes((FILE, offset as i32), (Register::RSP, to), width);
            }
            Lanes::Parts(registers) => {
                let Some(offset) = place.vector else { return };
                for (part, register) in registers.into_iter().take(parts(width)).enumerate() {
                    let from = at(FILE, offset as i32 + 64 * part as i32);
                    let code = Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512;
                    self.a.op(code, &[register.into(), from.into()]);
                }
            }
            Lanes::Same(register) => {
                let code = match width {
                    Width::W64 => Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64,
                    _ => Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
                };
                let from = match (self.f.homes[r], place.scalar, place.vector) {
                    (Home::ScalarAndVector, Some(scalar), _) => at(FILE, scalar as i32),
                    // Lanes that are elsewhere may never have seen it.
                    (_, _, vector) => {
                        let offset = i64::from(vector.unwrap_or(0));
                        let first = [Register::ECX.into(), MASK.into()];
                        self.a.op(Code::Tzcnt_r32_rm32, &first);
                        let scale = width.bytes();
                        iced_x86::MemoryOperand::with_base_index_scale_displ_size(
                            FILE, C, scale, offset, 8,
                        )
                    }
                };
                self.a.op(code, &[register.into(), from.into()]);
            }
        }
    }

    pub(crate) fn load_scalar(&mut self, to: Register, offset: u32, width: Width) {
        let from = at(FILE, offset as i32);
        match width {
            Width::W64 => {
                self.a.op(Code::Mov_r64_rm64, &[to.full_register().into(), from.into()]);
            }
            _ => {
                self.a.op(Code::Mov_r32_rm32, &[to.full_register32().into(), from.into()]);
            }
        }
    }

    /// Stores a scalar's machine register into the register file.
    pub(crate) fn flush_scalar(&mut self, r: usize) {
        let place = self.layout.place(r);
        let (Some(register), Some(offset)) = (self.assignment.scalars[r], place.scalar) else {
            return;
        };
        let to = at(FILE, offset as i32);
        match place.bytes {
            8 => self.a.op(Code::Mov_rm64_r64, &[to.into(), register.full_register().into()]),
            _ => self.a.op(Code::Mov_rm32_r32, &[to.into(), register.full_register32().into()]),
        };
    }

    /// Stores a register's lanes into the register file, under the pair of masks K1, K2 if there
    /// are lanes that did not come in.
    pub(crate) fn flush_lanes(&mut self, r: usize, masked: bool) {
        if self.flavour == Flavour::Avx2 {
            // The register file has all lanes but the copies of scalars.
            if self.f.homes[r] == Home::ScalarAndVector {
                self.flush_copies(r);
            }
            return;
        }
        let place = self.layout.place(r);
        let (Some(width), Some(offset)) = (self.f.classes[r].width(), place.vector) else {
            return;
        };
        let to = |part: usize| at(FILE, offset as i32 + 64 * part as i32);
        let spread = match (self.lanes_of(Reg(r as u32)), self.assignment.lanes[r]) {
            (Value::Same(register), _) => register,
            (_, Lanes::Stack(from)) => {
                return self.copy_lanes((Register::RSP, from), (FILE, offset as i32), width);
            }
            (value @ Value::One(_), Lanes::File) => self.part_in(value, 0, width, Z0),
            (_, Lanes::Parts(registers)) => {
                for (part, register) in registers.into_iter().take(parts(width)).enumerate() {
                    let mask =
                        if masked { Some(self.of_pair([K1, K2], part, width)) } else { None };
                    let operands = [to(part).into(), register.into()];
                    let made = self.a.op(store_code(width), &operands);
                    if let Some(k) = mask {
                        made.set_op_mask(k);
                    }
                }
                return;
            }
            _ => return,
        };
        for part in 0..parts(width) {
            self.a.op(store_code(width), &[to(part).into(), spread.into()]);
        }
    }

    /// Puts back what a lane may read at a position, and leaves.
    fn emit_out(&mut self, block: usize, way: Way) {
        let position = match way {
            Way::Park | Way::Leave => self.ranges.starts[block],
            Way::Terminate | Way::Done => self.ranges.ends[block],
        };
        if self.flavour == Flavour::Avx512 {
            self.a.op(Code::VEX_Kmovd_kr_km32, &[K1.into(), field(Field::Lanes).into()]);
            self.a.op(Code::VEX_Kshiftrd_kr_kr_imm8, &[K2.into(), K1.into(), X::I(16)]);
        }
        for r in 0..self.f.classes.len() {
            if self.ranges.covers(r, position) && self.ranges.written[r] {
                self.flush_scalar(r);
                self.flush_lanes(r, true);
            }
        }
        let why = match way {
            Way::Park => PARK,
            Way::Leave => LEAVE,
            Way::Terminate => TERMINATE,
            Way::Done => NEXT,
        };
        self.a.op(Code::Mov_rm32_r32, &[field(Field::Mask).into(), MASK.into()]);
        self.a.op(Code::Mov_rm32_imm32, &[field(Field::Block).into(), X::I(block as i32)]);
        self.a.op(Code::Mov_r32_imm32, &[Register::EAX.into(), X::I(why as i32)]);
        self.a.jump(Code::Jmp_rel32_64, self.leave);
    }

    /// The way out at a block.
    pub(crate) fn out(&mut self, block: usize, way: Way) -> Label {
        if let Some(label) = self.ways.get(&(block, way)) {
            return *label;
        }
        let label = self.a.label();
        self.ways.insert((block, way), label);
        self.cold.push(Cold::Out { label, block, way });
        label
    }

    fn clone_of(&mut self, block: usize) {
        let f = self.f;
        let b = &f.blocks[block];
        let label = if self.masked { self.partial[block] } else { self.full[block] };
        self.a.bind(label);
        self.forget();
        self.block = block;
        if let Some(serial) = self.serial_loops[block].clone() {
            return self.serial(&serial);
        }
        self.contents(block);
        self.terminator(&b.term);
    }

    /// A block but for its end.
    pub(crate) fn contents(&mut self, block: usize) {
        let f = self.f;
        let b = &f.blocks[block];
        self.merged = 0..0;
        let size = b.insts.len() as i32 + 1;
        if self.masked {
            let (eax, rax) = (Register::EAX, A);
            self.a.op(Code::Popcnt_r32_rm32, &[eax.into(), MASK.into()]);
            self.a.op(Code::Imul_r32_rm32_imm32, &[eax.into(), eax.into(), X::I(size)]);
            let threads = field(Field::ThreadInstructions);
            self.a.op(Code::Add_rm64_r64, &[threads.into(), rax.into()]);
            let warps = field(Field::WarpInstructions);
            self.a.op(Code::Add_rm64_imm32, &[warps.into(), X::I(size)]);
        } else {
            self.a.op(Code::Add_rm64_imm32, &[COUNT.into(), X::I(size)]);
        }
        self.checks(block);
        self.groups = Groups::default();
        match self.flavour {
            Flavour::Avx512 => {
                if !self.masked {
                    self.find_groups(block);
                }
                for (index, inst) in b.insts.iter().enumerate() {
                    self.index = index;
                    self.instruction(inst);
                }
            }
            Flavour::Avx2 => self.quarters(),
        }
    }

    /// What the block relies on: that affine registers do not wrap before the last lane.
    fn checks(&mut self, block: usize) {
        let f = self.f;
        if f.blocks[block].checks.is_empty() {
            return;
        }
        let (label, back) = (self.a.label(), self.a.label());
        self.cold.push(Cold::Check { label, back, block, masked: self.masked });
        for check in &f.blocks[block].checks {
            let value = self.scalar(Source::Scalar(check.reg), false, A);
            let Ok(reach) = i32::try_from(check.stride.saturating_mul(check.last.into())) else {
                self.a.jump(Code::Jmp_rel32_64, label);
                break;
            };
            let (widen, again) = if check.signed {
                (Code::Movsxd_r64_rm32, Code::Movsxd_r64_rm32)
            } else {
                (Code::Mov_r32_rm32, Code::Mov_r32_rm32)
            };
            let to = |r: Register| if check.signed { r } else { r.full_register32() };
            self.a.op(widen, &[to(A).into(), value]);
            self.a.op(Code::Add_rm64_imm32, &[A.into(), X::I(reach)]);
            self.a.op(again, &[to(C).into(), Register::EAX.into()]);
            self.a.op(Code::Cmp_r64_rm64, &[A.into(), C.into()]);
            self.a.jump(Code::Jne_rel32_64, label);
        }
        self.a.bind(back);
    }

    pub(crate) fn instruction(&mut self, inst: &VectorInst) {
        for r in nan::exposed(&self.lazy, inst).collect::<Vec<_>>() {
            self.canonicalise(r);
        }
        let in_eax = self.in_eax;
        if !self.merged.contains(&self.index) && !self.native(inst) {
            self.decoded_at.insert((self.block, self.index, self.masked));
            self.decoded_form(self.block, self.index);
        }
        // What an instruction leaves in EAX is good until the next one.
        if self.in_eax == in_eax {
            self.in_eax = None;
        }
        for d in &inst.dst {
            self.forget_predicate(d.reg);
            self.fragments.forget(d.reg);
        }
    }

    /// The predicate has changed, unless the caches were made of the new value.
    fn forget_predicate(&mut self, r: Reg) {
        if self.f.homes[r.index()] != Home::Mask {
            return;
        }
        if self.active_for.is_some_and(|key| key.is_some_and(|(guard, _)| guard == r)) {
            self.active_for = None;
        }
    }

    /// An instruction of a block, or of the prologue.
    pub(crate) fn inst_at(&self, block: usize, index: usize) -> &'a VectorInst {
        match block {
            PROLOGUE => &self.f.prologue[index],
            _ => &self.f.blocks[block].insts[index],
        }
    }

    /// Its decoded form: the first piece's number, and how many.
    pub(crate) fn pieces(&self, block: usize, index: usize) -> (u32, u32) {
        match block {
            PROLOGUE => self.layout.prologue_pieces(index),
            _ => self.layout.pieces(block, index, self.masked),
        }
    }

    fn uncount(&mut self, bytes: i32) {
        if bytes != 0 {
            let counter = field(Field::GlobalBytes).into();
            self.a.op(Code::Sub_rm64_imm32, &[counter, X::I(bytes)]);
        }
    }

    fn emit_cold(&mut self, cold: Cold) {
        self.forget();
        match cold {
            Cold::Out { label, block, way } => {
                if label != self.leave {
                    self.a.bind(label);
                    self.emit_out(block, way);
                }
            }
            Cold::Decoded { label, back, block, index, masked, counted } => {
                self.a.bind(label);
                self.uncount(counted);
                (self.masked, self.block, self.index) = (masked, block, index);
                self.decoded_form(block, index);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::Segment { label, back, block, masked, members, in_eax } => {
                self.a.bind(label);
                (self.masked, self.block) = (masked, block);
                self.segment_decoded(&members, in_eax);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::Check { label, back, block, masked } => {
                self.a.bind(label);
                let (first, count) = self.layout.checks(block, masked);
                for check in &self.f.blocks[block].checks {
                    self.flush_scalar(check.reg.index());
                }
                self.a.load_constant(A, u64::from(first));
                self.a.load_constant(C, u64::from(count));
                self.a.jump(Code::Call_rel32_64, self.decoded);
                let out = self.out(block, Way::Leave);
                self.a.op(Code::Cmp_rm32_imm8, &[Register::EAX.into(), X::I(LEAVE as i32)]);
                self.a.jump(Code::Je_rel32_64, out);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::Apart { label, back, block, index } => {
                self.a.bind(label);
                (self.masked, self.block, self.index) = (false, block, index);
                let f = self.f;
                self.apart(&f.blocks[block].insts[index], back);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::Rest { label, block, index, counted } => {
                self.a.bind(label);
                self.uncount(counted);
                (self.masked, self.block) = (false, block);
                self.groups = Groups::default();
                self.merged = 0..0;
                let b = &self.f.blocks[block];
                for (index, inst) in b.insts.iter().enumerate().skip(index) {
                    self.index = index;
                    self.instruction(inst);
                }
                self.terminator(&b.term);
            }
            Cold::Compare { label, back, block, index, masked, steps } => {
                self.a.bind(label);
                if let Some(steps) = steps {
                    self.compare_steps(steps, back);
                }
                (self.masked, self.block, self.index) = (masked, block, index);
                let inst = self.inst_at(block, index);
                self.compare_each(inst);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::Turn { label, block } => {
                self.a.bind(label);
                self.give_back_patience(block);
                let out = self.out(block, Way::Terminate);
                self.a.jump(Code::Jmp_rel32_64, out);
            }
            Cold::Edge { label, block, to, masked } => {
                self.a.bind(label);
                self.masked = masked;
                self.go(block, to);
            }
            Cold::Exit { label, block } => {
                self.a.bind(label);
                self.masked = true;
                self.exit(block);
            }
            Cold::Part { label, block, masked } => {
                self.a.bind(label);
                self.masked = masked;
                self.part_ways(block);
            }
            Cold::Queue { label, block, to } => {
                self.a.bind(label);
                self.queue(block, to);
            }
        }
    }

    /// The numbers of the lanes, if a source is a constant, or counts up from one.
    pub(crate) fn known_lanes(&self, source: Source) -> Option<[u64; 32]> {
        let (first, stride) = match source {
            Source::Imm(v) => (v, 0),
            Source::Scalar(r) => (self.constants[r.index()]?, 0),
            Source::Affine(r, stride) => (self.constants[r.index()]?, stride),
            _ => return None,
        };
        Some(std::array::from_fn(|n| first.wrapping_add(stride.wrapping_mul(n as i64) as u64)))
    }

    /// True if a source is one value in a place where instructions on 16-bit lanes cannot read it.
    pub(crate) fn is_awkward(&self, source: Source, width: Width) -> bool {
        width == Width::W128
            || width == Width::W16
                && matches!(source, Source::Vector(r)
                    if !matches!(self.lanes_of(r), Value::Parts(_) | Value::Memory(..)))
    }
}
