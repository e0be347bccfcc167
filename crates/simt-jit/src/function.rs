//! A function from start to end: both clones of every block, ways in and out, the cold rest.
//!
//! A block exists twice. The *full* clone runs when all 32 lanes do, so nobody waits anywhere: it
//! needs no masks, and all its lanes going one way is a plain jump. The *masked* clone runs with
//! any lanes; it looks whether somebody waits at a lower block before it goes on.
//!
//! Here is what is known while a function is made, and the order in which its parts are; the parts
//! themselves are elsewhere.

use crate::Flavour;
use crate::ablation::Ablation;
use crate::analysis::lane_offsets::{self, Pattern};
use crate::analysis::nan_demand;
use crate::analysis::use_weights::Ranges;
use crate::asm::assembler::{Assembler, Label};
use crate::avx2::Step;
use crate::avx512::matrix::Fragments;
use crate::avx512::memory::offset_table::Relatives;
use crate::avx512::memory::quad_tile::{Mentions, Rectangles};
use crate::avx512::uniform_via_vector::One;
use crate::frame::entry_exit::Way;
use crate::frame::out_of_line::Cold;
use crate::frame::warp_loop::{self, PROLOGUE};
use crate::memory::check_coalescing::Groups;
use crate::regalloc::allocate::Assignment;
use crate::regalloc::loop_residency::Loans;
use crate::scalarize::loop_selection::{self, SerialLoop};
use iced_x86::Register;
use simt::ir::Reg;
use simt::ir::op::Op;
use simt::ir::vector::{Source, VectorFunction, VectorInst, VectorTerm};
use simt_interpreter::tier1_abi::{Abilities, Layout};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

pub(crate) struct Compiler<'a> {
    pub(crate) a: Assembler,
    pub(crate) f: &'a VectorFunction,
    pub(crate) layout: &'a Layout<'a>,
    pub(crate) ranges: Ranges,
    pub(crate) assignment: Assignment,
    pub(crate) loans: Loans,
    /// The loop whose loans the assignment has at present.
    pub(crate) borrows: Option<usize>,
    pub(crate) lazy: Vec<bool>,
    pub(crate) flavour: Flavour,
    /// What is left out.
    pub(crate) without: Ablation,
    /// Slow paths are counted.
    pub(crate) counts_slow_paths: bool,
    /// With AVX2, by block, the full and the masked clone: what they are made of.
    pub(crate) steps: Vec<[Vec<Step>; 2]>,
    /// By register: the block and number of the only instruction that writes it, in all lanes that
    /// there are.
    writers: Vec<Option<(usize, usize)>>,
    /// By block: the loop that is made lane by lane.
    pub(crate) serial_loops: Vec<Option<Rc<SerialLoop>>>,
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
    /// Accesses to rectangles.
    pub(crate) rectangles: Rectangles,
    /// How often registers are mentioned.
    pub(crate) mentions: Mentions,
    /// Accesses whose lanes are as far apart as others'.
    pub(crate) relatives: Relatives,
    /// What lanes' addresses look like, by block and instruction.
    pub(crate) patterns: HashMap<(usize, usize), Pattern>,
    /// Instructions of the block that an earlier one has done already.
    pub(crate) merged: std::ops::Range<usize>,
    /// All that stands in front of the instruction under construction has been made.
    pub(crate) in_order: bool,
    /// The last instruction of the block has made its end as well.
    pub(crate) ended: bool,
    /// The predicate that the block's end depends on and what it is in all lanes, if the register
    /// file does not have it.
    pub(crate) decided: Option<(Reg, i32)>,
    /// The instruction under construction is on one value and is made as on lanes: where its
    /// sources' values are.
    pub(crate) one: Option<One>,
    /// Single values of 16 bits that have been repeated for lanes.
    pub(crate) spread: i32,
    /// Vector registers that hold nothing anywhere.
    pub(crate) spares: Vec<Register>,
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
    pub(crate) ways: HashMap<(usize, Way), Label>,
    /// Where the lowest pending lanes are taken.
    pub(crate) choose: Label,
    /// Where the next warp starts, if there is one.
    pub(crate) next_warp: Label,
    /// Where a warp starts with the prologue.
    pub(crate) start: Label,
    /// Where the next warp of those that entered together has its turn.
    pub(crate) next_turn: Label,
    /// Where they enter.
    pub(crate) first_turn: Label,
    pub(crate) leave: Label,
    /// Where the interpreter is called.
    pub(crate) decoded: Label,
    /// The same, which keeps no vector registers.
    pub(crate) decoded_bare: Label,
}

/// Code of a function, to be put behind a table of its offsets.
pub(crate) struct Made {
    /// The code, behind its constants.
    pub(crate) code: Vec<u8>,
    /// Bytes of these.
    pub(crate) constants: usize,
    /// Where it is entered.
    pub(crate) start: u32,
    /// Offsets of the blocks' entries, full clones and masked clones, one list behind the other.
    pub(crate) table: Vec<u32>,
    /// What it can do.
    pub(crate) abilities: Abilities,
    /// Instructions that run by their decoded forms: block, number, in the masked clone.
    pub(crate) decoded_at: BTreeSet<(usize, usize, bool)>,
}

/// By register: the block and number of the only instruction that writes it, if that has no guard.
fn writers(f: &VectorFunction) -> Vec<Option<(usize, usize)>> {
    let mut found = vec![None; f.classes.len()];
    let mut written = vec![false; f.classes.len()];
    let prologue = std::iter::once((PROLOGUE, &f.prologue));
    for (block, insts) in prologue.chain(f.blocks.iter().map(|b| &b.insts).enumerate()) {
        for (index, inst) in insts.iter().enumerate() {
            for d in &inst.dst {
                let again = std::mem::replace(&mut written[d.reg.index()], true);
                let alone = inst.guard.is_none() && !again;
                found[d.reg.index()] = alone.then_some((block, index));
            }
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
        let (leave, decoded, decoded_bare) = (a.label(), a.label(), a.label());
        let (start, next_turn, first_turn) = (a.label(), a.label(), a.label());
        Self {
            a,
            f,
            layout,
            ranges,
            assignment: Assignment::default(),
            loans: Loans::default(),
            borrows: None,
            lazy: nan_demand::lazy(f),
            flavour,
            without: Ablation::current(),
            counts_slow_paths: false,
            steps: Vec::new(),
            writers: writers(f),
            serial_loops: Vec::new(),
            masked: false,
            block: 0,
            index: 0,
            active_for: None,
            in_pair: None,
            together: warp_loop::waits(f),
            in_eax: None,
            groups: Groups::default(),
            rectangles: Rectangles::default(),
            mentions: Mentions::of(f),
            relatives: Relatives::default(),
            patterns: HashMap::new(),
            fragments: Fragments::of(f),
            merged: 0..0,
            in_order: flavour == Flavour::Avx512,
            ended: false,
            decided: None,
            one: None,
            spread: 0,
            spares: Vec::new(),
            temporaries: BTreeSet::new(),
            decoded_at: BTreeSet::new(),
            cold: Vec::new(),
            in_line: true,
            full,
            partial,
            entries,
            ways: HashMap::new(),
            choose,
            next_warp,
            start,
            next_turn,
            first_turn,
            leave,
            decoded,
            decoded_bare,
        }
    }

    /// Makes the code.
    pub(crate) fn make(mut self) -> Option<Made> {
        match self.flavour {
            Flavour::Avx2 => self.cut_all(),
            Flavour::Avx512 => self.patterns = lane_offsets::of_addresses(self.f),
        }
        self.serial_loops = loop_selection::find(self.f, &self.ranges);
        let skips = |block: usize| self.serial_loops[block].is_some();
        (self.assignment, self.loans) = Assignment::of(self.f, &self.ranges, self.flavour, skips);
        self.spares = self.assignment.spares(self.f);
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
        self.stand_at(PROLOGUE);
        let left = self.untouched();
        for block in 0..self.f.blocks.len() {
            self.entry(block, &left);
        }
        let [full, partial] = self.resumed();
        self.stand_at(PROLOGUE);
        self.choose();
        self.next_warp(&left);
        if self.together {
            self.next_turn();
        }
        self.tensor_routines();
        self.run_decoded();
        self.epilogue();
        if self.flavour == Flavour::Avx2 && self.a.needs_avx512() {
            debug_assert!(false, "{}: code for AVX2 needs AVX-512", self.f.name);
            return None;
        }
        let finished = self.a.finish()?;
        let table = [&self.entries, &full, &partial]
            .into_iter()
            .flatten()
            .map(|label| finished.offset(*label))
            .collect::<Option<Vec<u32>>>()?;
        let start = finished.offset(start)?;
        let abilities = warp_loop::abilities(self.f);
        let decoded_at = self.decoded_at;
        let (code, constants) = (finished.bytes, finished.constants);
        Some(Made { code, constants, start, table, abilities, decoded_at })
    }

    pub(crate) fn forget(&mut self) {
        self.active_for = None;
        self.in_pair = None;
        self.in_eax = None;
        self.fragments.clear();
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

    /// The only instruction that writes a register, if that has no guard.
    pub(crate) fn writer(&self, r: Reg) -> Option<&'a VectorInst> {
        self.written_at(r).map(|(block, index)| self.inst_at(block, index))
    }

    /// Its block and its number there.
    pub(crate) fn written_at(&self, r: Reg) -> Option<(usize, usize)> {
        self.writers[r.index()]
    }

    /// The one value that a register ever has.
    fn constant_in(&self, r: Reg) -> Option<u64> {
        let inst = self.writer(r)?;
        match (&inst.op, inst.src.first()) {
            (Op::Mov(_), Some(Source::Imm(v))) => Some(*v),
            _ => None,
        }
    }

    /// The numbers of the lanes, if a source is a constant, or counts up from one.
    pub(crate) fn known_lanes(&self, source: Source) -> Option<[u64; 32]> {
        let (first, stride) = match source {
            Source::Imm(v) => (v, 0),
            Source::Scalar(r) => (self.constant_in(r)?, 0),
            Source::Affine(r, stride) => (self.constant_in(r)?, stride),
            _ => return None,
        };
        Some(std::array::from_fn(|n| first.wrapping_add(stride.wrapping_mul(n as i64) as u64)))
    }
}
