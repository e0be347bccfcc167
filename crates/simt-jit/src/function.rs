//! Function driver: analysis, register allocation, then the code of a function from entry to exit.
//!
//! A block has two versions. The *unmasked* one runs with all 32 lanes, so no lane is pending
//! elsewhere: it needs no masks, and a branch that all lanes take is a plain jump. The *masked* one
//! runs with any lanes, and looks for lanes pending at a lower block before it goes on.
//!
//! Here are what is known while a function is made and the order of its parts; the parts
//! themselves are elsewhere. This is the only file that names every folder.

use crate::ablation::Ablation;
use crate::asm::assembler::{Assembler, Label};
use crate::avx2::partition::Step;
use crate::avx512::matrix::{self, Fragments};
use crate::avx512::memory::offset_table::OffsetTables;
use crate::avx512::uniform_via_vector::UniformAsVector;
use crate::frame::entry_exit::Exit;
use crate::frame::out_of_line::OutOfLine;
use crate::frame::warp_loop;
use crate::host::SimdIsa;
use crate::memory::check_coalescing::CheckGroups;
use crate::regalloc::allocate::Assignment;
use crate::regalloc::use_weights::UseWeights;
#[cfg(debug_assertions)]
use crate::regalloc::verify::verify;
use crate::scalarize::loop_selection::{self, ScalarLoop};
use iced_x86::Register;
use simt::analysis::nan_demand;
use simt::analysis::vector_cfg::{PROLOGUE, Writers, writers};
use simt::ir::Reg;
use simt::ir::op::Op;
use simt::ir::vector::{Source, VectorFunction, VectorInst};
use simt_interpreter::tier1_abi::{Abilities, Layout};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

pub(crate) struct Compiler<'a> {
    pub(crate) a: Assembler,
    pub(crate) f: &'a VectorFunction,
    pub(crate) layout: &'a Layout<'a>,
    /// Live intervals and spill weights.
    pub(crate) weights: UseWeights,
    /// Machine registers of values.
    pub(crate) assignment: Assignment,
    /// By register: canonicalisation of its NaNs is deferred to where they are observable.
    pub(crate) nan_deferred: Vec<bool>,
    pub(crate) isa: SimdIsa,
    /// Checks that are left out, for measurements.
    pub(crate) ablation: Ablation,
    /// Slow paths are counted.
    pub(crate) counts_slow_paths: bool,
    /// With AVX2, by block, for the unmasked and the masked version: its regions.
    pub(crate) steps: Vec<[Vec<Step>; 2]>,
    /// By register: the block and number of the only instruction that writes it, in all lanes that
    /// there are.
    writers: Writers,
    /// By block: the loop that is scalarised.
    pub(crate) scalar_loops: Vec<Option<Rc<ScalarLoop>>>,
    /// The version under construction.
    pub(crate) masked: bool,
    /// The block under construction.
    pub(crate) block: usize,
    /// The instruction under construction.
    pub(crate) index: usize,
    /// The guard for which the machine registers of active masks are valid.
    pub(crate) active_for: Option<Option<(Reg, bool)>>,
    /// The predicate that the pair of mask registers holds.
    pub(crate) in_pair: Option<Reg>,
    /// All warps of a block of the grid can enter together: they wait for each other somewhere.
    pub(crate) block_entry: bool,
    /// The predicate that EAX holds.
    pub(crate) in_eax: Option<Reg>,
    /// Accesses whose bounds checks are coalesced.
    pub(crate) groups: CheckGroups,
    /// Accesses that share a vector of lane offsets.
    pub(crate) offset_tables: OffsetTables,
    /// Instructions of the block whose work an earlier one has done (fused).
    pub(crate) merged: std::ops::Range<usize>,
    /// Instructions are emitted in program order: all those before the current one have been.
    pub(crate) is_program_order: bool,
    /// The last instruction of the block has emitted the terminator as well.
    pub(crate) ended: bool,
    /// The branch predicate, known constant in all lanes and not yet stored: (register, 0 or -1).
    /// Exits must store it.
    pub(crate) known_branch: Option<(Reg, i32)>,
    /// The current instruction is uniform and is made as on lanes: where its operands are.
    pub(crate) uniform_as_vector: Option<UniformAsVector>,
    /// Broadcast slots used: uniform values of 16 bits that have been repeated for lanes.
    pub(crate) broadcast_count: i32,
    /// Vector registers that are never allocated: further scratch.
    pub(crate) spares: Vec<Register>,
    /// Operand fragments that are packed for matrix products.
    pub(crate) fragments: Fragments,
    /// General registers that hold values within a block only.
    pub(crate) temporaries: BTreeSet<Register>,
    /// Instructions that call the interpreter: block, number, in the masked version.
    pub(crate) interpreted_at: BTreeSet<(usize, usize, bool)>,
    /// Out-of-line code that is still to be emitted.
    pub(crate) deferred_code: VecDeque<OutOfLine>,
    /// A version of a block is under construction, not out-of-line code.
    pub(crate) inline: bool,
    /// Labels of the unmasked versions.
    pub(crate) unmasked_labels: Vec<Label>,
    /// Labels of the masked versions.
    pub(crate) masked_labels: Vec<Label>,
    /// Labels of the blocks' entries.
    pub(crate) entries: Vec<Label>,
    /// Labels of exit stubs, by block and reason.
    pub(crate) exit_stubs: HashMap<(usize, Exit), Label>,
    /// Label of the scheduler of pending lanes, which runs the lowest pending block.
    pub(crate) next_pending: Label,
    /// Label where the next warp starts, if there is one.
    pub(crate) next_warp: Label,
    /// Label where a warp starts with the uniform preamble.
    pub(crate) start: Label,
    /// Label of the next time slice, with block-level entry.
    pub(crate) next_time_slice: Label,
    /// Label of the first time slice, with block-level entry.
    pub(crate) first_time_slice: Label,
    /// Label of the epilogue.
    pub(crate) leave: Label,
    /// Label of the thunk that calls the interpreter.
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
    /// Where the versions end, and what they jump to when something is rare begins.
    pub(crate) out_of_line: u32,
    /// Offsets of the blocks' entries, unmasked versions and masked versions, one list behind the other.
    pub(crate) table: Vec<u32>,
    /// What it can do.
    pub(crate) abilities: Abilities,
    /// Instructions that run by the interpreter: block, number, in the masked version.
    pub(crate) interpreted_at: BTreeSet<(usize, usize, bool)>,
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(f: &'a VectorFunction, layout: &'a Layout<'a>, isa: SimdIsa) -> Self {
        let mut a = Assembler::new();
        a.holds_lanes = isa == SimdIsa::Avx512;
        let weights = UseWeights::of(f);
        let mut labels = || f.blocks.iter().map(|_| a.label()).collect::<Vec<_>>();
        let (unmasked_labels, masked_labels, entries) = (labels(), labels(), labels());
        let (next_pending, next_warp) = (a.label(), a.label());
        let (leave, decoded, decoded_bare) = (a.label(), a.label(), a.label());
        let (start, next_time_slice, first_time_slice) = (a.label(), a.label(), a.label());
        Self {
            a,
            f,
            layout,
            weights,
            assignment: Assignment::default(),
            nan_deferred: nan_demand::nan_deferred(f),
            isa,
            ablation: Ablation::current(),
            counts_slow_paths: false,
            steps: Vec::new(),
            writers: writers(f),
            scalar_loops: Vec::new(),
            masked: false,
            block: 0,
            index: 0,
            active_for: None,
            in_pair: None,
            block_entry: warp_loop::waits(f),
            in_eax: None,
            groups: CheckGroups::default(),
            offset_tables: OffsetTables::default(),
            fragments: Fragments::of(f),
            merged: 0..0,
            is_program_order: isa == SimdIsa::Avx512,
            ended: false,
            known_branch: None,
            uniform_as_vector: None,
            broadcast_count: 0,
            spares: Vec::new(),
            temporaries: BTreeSet::new(),
            interpreted_at: BTreeSet::new(),
            deferred_code: VecDeque::new(),
            inline: true,
            unmasked_labels,
            masked_labels,
            entries,
            exit_stubs: HashMap::new(),
            next_pending,
            next_warp,
            start,
            next_time_slice,
            first_time_slice,
            leave,
            decoded,
            decoded_bare,
        }
    }

    /// Finds what code generation needs to know, and gives values their machine registers.
    pub(crate) fn allocate(&mut self) {
        if self.isa == SimdIsa::Avx2 {
            self.cut_all();
        }
        self.scalar_loops = loop_selection::find(self.f, &self.weights);
        let matrices = matrix::registers(self.f);
        self.assignment = Assignment::of(self.f, &self.weights, self.isa, &matrices);
        self.spares = self.assignment.spares(&matrices);
        #[cfg(debug_assertions)]
        if let Err(wrong) = verify(self.f, &self.weights, &self.assignment) {
            panic!("register allocation of {}: {wrong}\n{}", self.f.name, self.f);
        }
    }

    /// Makes the code.
    pub(crate) fn make(mut self) -> Option<Made> {
        self.allocate();
        let start = self.a.label();
        self.a.bind(start);
        self.emit_prologue();
        self.start();
        for masked in [false, true] {
            self.masked = masked;
            for block in 0..self.f.blocks.len() {
                self.emit_version(block);
            }
        }
        self.inline = false;
        self.groups = CheckGroups::default();
        let out_of_line = self.a.label();
        self.a.bind(out_of_line);
        self.emit_out_of_line();
        self.block = PROLOGUE;
        let left = self.untouched();
        for block in 0..self.f.blocks.len() {
            self.entry(block, &left);
        }
        self.emit_next_pending();
        self.next_warp(&left);
        if self.block_entry {
            self.next_time_slice();
        }
        self.tensor_routines();
        self.emit_interpreter_thunk();
        self.epilogue();
        if self.isa == SimdIsa::Avx2 && self.a.needs_avx512() {
            debug_assert!(false, "{}: code for AVX2 needs AVX-512", self.f.name);
            return None;
        }
        let finished = self.a.finish()?;
        let table = [&self.entries, &self.unmasked_labels, &self.masked_labels]
            .into_iter()
            .flatten()
            .map(|label| finished.offset(*label))
            .collect::<Option<Vec<u32>>>()?;
        let start = finished.offset(start)?;
        let out_of_line = finished.offset(out_of_line)?;
        let abilities = warp_loop::abilities(self.f);
        let interpreted_at = self.interpreted_at;
        let (code, constants) = (finished.bytes, finished.constants);
        Some(Made { code, constants, start, out_of_line, table, abilities, interpreted_at })
    }

    pub(crate) fn forget_cached(&mut self) {
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

    /// Its interpreter handlers: the first piece's number, and how many.
    pub(crate) fn handler_range(&self, block: usize, index: usize) -> (u32, u32) {
        match block {
            PROLOGUE => self.layout.prologue_handler_range(index),
            _ => self.layout.handler_range(block, index, self.masked),
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
