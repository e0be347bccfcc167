//! Partitioning: cuts a block into vector regions.
//!
//! A region has *members*, instructions on lanes that are made once a slice, and instructions
//! on one value, hoisted above or sunk below all of them where no dependence forbids it. An instruction
//! for which there is no place starts a new region; one that has no native form, or needs all
//! lanes together, stands alone between two.
//!
//! Nothing here makes code.

use crate::avx2::layout::{POINTERS, PREDICATES_MAX, SPILLS, TABLES_MAX};
use crate::avx2::memory::address_mode::AddressMode;
use crate::avx2::memory::check_coalescing::{CheckGroup, Key, Span};
use crate::avx2::schedule::{ValueLocation, ordered};
use crate::avx2::shuffle::exchanged;
use crate::avx2::slice::pieces;
use crate::avx2::support::{self, Kind};
use crate::function::Compiler;
use crate::memory::access::MemAccess;
use simt::analysis::vector_cfg::{mentioned, sources, successors};
use simt::ir::Reg;
use simt::ir::op::Op;
use simt::ir::vector::{StorageClass, VectorFunction, VectorInst};
use simt_interpreter::tier1_abi::Layout;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Members of a region: a longer one gains nothing, and its code is made four times.
const MEMBERS_MAX: usize = 160;

/// What a block is made of.
#[derive(Clone)]
pub(crate) enum Step {
    /// An instruction that runs by the interpreter.
    Whole(usize),
    /// Instructions of which no lane needs another.
    VectorRegion(Rc<VectorRegion>),
}

/// An instruction on lanes.
#[derive(Clone)]
pub(crate) struct Member {
    /// Its number in the block.
    pub(crate) index: usize,
    /// What it moves, if it is a load or store.
    pub(crate) access: Option<(MemAccess, AddressMode)>,
}

/// What a member does to a register.
#[derive(Clone, Copy)]
struct RegisterUse {
    position: usize,
    reads: bool,
    writes: bool,
    /// The old value is gone.
    kills: bool,
}

/// Instructions between two places where lanes reconverge.
#[derive(Clone, Default)]
pub(crate) struct VectorRegion {
    /// Instructions on one value that run first.
    pub(crate) before: Vec<usize>,
    /// Instructions on lanes.
    pub(crate) members: Vec<Member>,
    /// Instructions on one value that run last.
    pub(crate) after: Vec<usize>,
    /// Predicates that members write.
    pub(crate) predicates: Vec<Reg>,
    /// Registers that members write and that are live behind the region.
    pub(crate) live: HashSet<Reg>,
    /// Registers of lanes that are needed nowhere else, and where each is put on the stack if it must
    /// leave its machine register.
    pub(crate) inner: HashMap<Reg, usize>,
    /// Accesses whose addresses are affine values.
    pub(crate) groups: Vec<CheckGroup>,
    uses: HashMap<Reg, Vec<RegisterUse>>,
    /// The first instruction, and the one behind the last.
    range: (usize, usize),
}

impl VectorRegion {
    /// An instruction alone, whose results are not read from the register file.
    pub(super) fn of_one(index: usize) -> Self {
        Self { members: vec![Member { index, access: None }], ..Self::default() }
    }

    /// The first member from `position` on that reads the register's present value; their number
    /// if it is only read behind the region.
    pub(crate) fn next_read(&self, r: Reg, position: usize) -> Option<usize> {
        let uses = self.uses.get(&r).map_or(&[][..], |m| m);
        for m in uses.iter().filter(|m| m.position >= position) {
            if m.reads {
                return Some(m.position);
            }
            if m.kills {
                return None;
            }
        }
        self.live.contains(&r).then_some(self.members.len())
    }

    /// The first member that mentions the register.
    pub(crate) fn first_mention(&self, r: Reg) -> Option<usize> {
        self.uses.get(&r).and_then(|m| m.first()).map(|m| m.position)
    }

    /// A member in front of `position` has written the register.
    pub(crate) fn has_written(&self, r: Reg, position: usize) -> bool {
        self.uses.get(&r).is_some_and(|m| m.iter().any(|m| m.position < position && m.writes))
    }

    /// Puts the members into the order in which they are made, and notes what they do to registers.
    fn arrange(
        &mut self,
        f: &VectorFunction,
        insts: &[VectorInst],
        layout: &Layout<'_>,
        masked: bool,
    ) {
        self.find_inner(f, insts, masked);
        let members = std::mem::take(&mut self.members);
        self.members = ordered(members, insts, |r| match f.storage[r.index()] {
            StorageClass::Vector if !self.inner.contains_key(&r) => {
                ValueLocation::Place(layout.place(r.index()).vector)
            }
            _ => ValueLocation::Register(r),
        });
        for position in 0..self.members.len() {
            let inst = &insts[self.members[position].index];
            for r in sources(inst) {
                self.mention(r, position).reads = true;
            }
            for d in &inst.dst {
                let keeps = support::keeps(inst, d, masked);
                let mention = self.mention(d.reg, position);
                mention.writes = true;
                // Lanes that do not run it keep what they have.
                mention.reads |= keeps;
                mention.kills |= !keeps;
            }
        }
    }

    /// Finds what is not needed outside of the region.
    fn find_inner(&mut self, f: &VectorFunction, insts: &[VectorInst], masked: bool) {
        let mut read: HashSet<Reg> = HashSet::new();
        let mut slots = 0;
        for inst in self.members.iter().map(|m| &insts[m.index]) {
            read.extend(sources(inst));
            for d in &inst.dst {
                let from_before = support::keeps(inst, d, masked) || read.contains(&d.reg);
                let lanes =
                    f.storage[d.reg.index()] == StorageClass::Vector && !self.live.contains(&d.reg);
                let pieces = f.classes[d.reg.index()].width().map_or(1, pieces);
                if from_before && !self.inner.contains_key(&d.reg) {
                    read.insert(d.reg);
                } else if lanes && !self.inner.contains_key(&d.reg) && slots + pieces <= SPILLS {
                    self.inner.insert(d.reg, slots);
                    slots += pieces;
                }
            }
        }
    }

    fn mention(&mut self, r: Reg, position: usize) -> &mut RegisterUse {
        let uses = self.uses.entry(r).or_default();
        if uses.last().is_none_or(|last| last.position != position) {
            uses.push(RegisterUse { position, reads: false, writes: false, kills: false });
        }
        let last = uses.len() - 1;
        &mut uses[last]
    }

    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.members.is_empty() && self.after.is_empty()
    }
}

/// A region under construction.
#[derive(Default)]
struct Builder {
    region: VectorRegion,
    member_reads: HashSet<Reg>,
    member_writes: HashSet<Reg>,
    after_reads: HashSet<Reg>,
    after_writes: HashSet<Reg>,
    /// Places of lanes in the register file that members use: registers share them, each in its own
    /// part of the code's order.
    member_places: HashSet<u32>,
    /// Those that instructions behind the members write.
    after_places: HashSet<u32>,
    /// Places in the register file that shuffles read of other slices.
    exchanged: HashSet<Option<u32>>,
    loads: bool,
    stores: bool,
    /// Some load's addresses are known only lane by lane.
    scattered_loads: bool,
    /// So are some store's.
    scattered_stores: bool,
    pointers: usize,
    tables: usize,
}

impl Builder {
    /// An instruction on one value can run before the members; it may touch memory.
    fn goes_before(&self, f: &VectorFunction, layout: &Layout<'_>, inst: &VectorInst) -> bool {
        let order = match inst.op {
            Op::Load(access) if !access.volatile => !self.stores,
            Op::Load(_) | Op::Store(_) => !self.stores && !self.loads,
            _ => true,
        };
        order
            && !lanes_of_results(f, layout, inst).any(|place| {
                self.member_places.contains(&place) || self.after_places.contains(&place)
            })
            && inst.dst.iter().all(|d| {
                [&self.member_reads, &self.member_writes, &self.after_reads, &self.after_writes]
                    .iter()
                    .all(|set| !set.contains(&d.reg))
            })
            && sources(inst)
                .all(|r| !self.member_writes.contains(&r) && !self.after_writes.contains(&r))
    }

    fn goes_behind(&self, inst: &VectorInst) -> bool {
        !matches!(inst.op, Op::Load(_) | Op::Store(_))
    }

    fn add_behind(
        &mut self,
        f: &VectorFunction,
        layout: &Layout<'_>,
        index: usize,
        inst: &VectorInst,
    ) {
        self.after_places.extend(lanes_of_results(f, layout, inst));
        self.region.after.push(index);
        self.after_reads.extend(sources(inst));
        self.after_writes.extend(inst.dst.iter().map(|d| d.reg));
    }

    /// The instruction can be the next member.
    fn admits(
        &self,
        f: &VectorFunction,
        layout: &Layout<'_>,
        masked: bool,
        inst: &VectorInst,
        access: Option<&(MemAccess, AddressMode)>,
    ) -> bool {
        let s = &self.region;
        let predicates = inst.dst.iter().filter(|d| f.storage[d.reg.index()] == StorageClass::Mask);
        let new = predicates.filter(|d| !s.predicates.contains(&d.reg)).count();
        if s.members.len() >= MEMBERS_MAX || s.predicates.len() + new > PREDICATES_MAX {
            return false;
        }
        if sources(inst).any(|r| self.after_writes.contains(&r))
            || inst
                .dst
                .iter()
                .any(|d| self.after_reads.contains(&d.reg) || self.after_writes.contains(&d.reg))
        {
            return false;
        }
        // What runs behind the members would overwrite a value that has the place from here on.
        let mentioned = sources(inst).chain(inst.dst.iter().map(|d| d.reg));
        if mentioned
            .filter_map(|r| layout.place(r.index()).vector)
            .any(|place| self.after_places.contains(&place))
        {
            return false;
        }
        if inst.dst.iter().any(|d| self.exchanged.contains(&layout.place(d.reg.index()).vector))
            || exchanged(inst).is_some_and(|r| self.member_writes.contains(&r))
        {
            return false;
        }
        let Some((mem, address_mode)) = access else { return true };
        // Checks come before all members, so what they look at must be there.
        let address = inst.src[0].registers();
        let looked_at = address.chain(inst.guard.map(|g| g.reg));
        if looked_at.into_iter().any(|r| self.member_writes.contains(&r)) {
            return false;
        }
        // So do the copies of an address that all lanes have.
        if copied(f, layout, inst, address_mode)
            .is_some_and(|place| self.member_places.contains(&place))
        {
            return false;
        }
        // Slices run one behind the other: what one stores no other may load or store.
        match Span::of((0, inst), *mem, *address_mode, masked) {
            Some((key, span)) => {
                let scattered = self.scattered_stores || mem.write && self.scattered_loads;
                let own = s.groups.iter().position(|g| g.is_for(&key, &span));
                let pointers = if own.is_none() { address_mode.pointers() } else { 0 };
                !scattered
                    && self.pointers + pointers <= POINTERS.len()
                    && s.groups.iter().enumerate().all(|(n, g)| g.bears(&span, own == Some(n)))
            }
            None => {
                let ordered = if mem.write { self.loads || self.stores } else { self.stores };
                !ordered && self.tables + address_mode.tables() <= TABLES_MAX
            }
        }
    }

    /// Puts an access into its group; gives back the number of the group's pointer and how far that
    /// is from where addresses start.
    fn place(&mut self, key: Key, span: Span, pointers: usize) -> (usize, i32) {
        let groups = &mut self.region.groups;
        let group = match groups.iter().position(|g| g.is_for(&key, &span)) {
            Some(own) => {
                groups[own].add(span);
                &groups[own]
            }
            None => {
                groups.push(CheckGroup::new(key, self.pointers, span));
                self.pointers += pointers;
                &groups[groups.len() - 1]
            }
        };
        (group.pointer, group.shift())
    }

    fn add(
        &mut self,
        f: &VectorFunction,
        layout: &Layout<'_>,
        masked: bool,
        index: usize,
        inst: &VectorInst,
        mut access: Option<(MemAccess, AddressMode)>,
    ) {
        if let Some((mem, address_mode)) = &mut access {
            self.member_places.extend(copied(f, layout, inst, address_mode));
            address_mode.set_table(&mut self.tables);
            self.stores |= mem.write;
            self.loads |= !mem.write;
            match Span::of((index, inst), *mem, *address_mode, masked) {
                Some((key, span)) => {
                    let (pointer, shift) = self.place(key, span, address_mode.pointers());
                    address_mode.set_pointer(pointer, mem.offset - shift);
                }
                None if mem.write => self.scattered_stores = true,
                None => self.scattered_loads = true,
            }
        }
        let mentioned = sources(inst).chain(inst.dst.iter().map(|d| d.reg));
        let lanes = mentioned.filter(|r| f.storage[r.index()] == StorageClass::Vector);
        self.member_places.extend(lanes.filter_map(|r| layout.place(r.index()).vector));
        self.exchanged.extend(exchanged(inst).map(|r| layout.place(r.index()).vector));
        self.member_reads.extend(sources(inst));
        for d in &inst.dst {
            self.member_writes.insert(d.reg);
            if f.storage[d.reg.index()] == StorageClass::Mask
                && !self.region.predicates.contains(&d.reg)
            {
                self.region.predicates.push(d.reg);
            }
        }
        self.region.members.push(Member { index, access });
    }
}

/// Where the register file gets copies for each lane of an instruction's results on one value.
fn lanes_of_results<'i>(
    f: &'i VectorFunction,
    layout: &'i Layout<'_>,
    inst: &'i VectorInst,
) -> impl Iterator<Item = u32> + 'i {
    let copied = |r: &Reg| f.storage[r.index()] == StorageClass::ScalarAndVector;
    let results = inst.dst.iter().map(|d| d.reg).filter(copied);
    results.filter_map(|r| layout.place(r.index()).vector)
}

/// Where the register file gets a copy for each lane of an access's address that all lanes have.
fn copied(
    f: &VectorFunction,
    layout: &Layout<'_>,
    inst: &VectorInst,
    address_mode: &AddressMode,
) -> Option<u32> {
    let scattered = matches!(address_mode, AddressMode::File(_) | AddressMode::Table { .. });
    let r = inst.src[0].registers().find(|_| scattered)?;
    (f.storage[r.index()] == StorageClass::ScalarAndVector)
        .then(|| layout.place(r.index()).vector)?
}

impl Compiler<'_> {
    /// Cuts all blocks into steps, before anything has a machine register.
    pub(crate) fn cut_all(&mut self) {
        for block in 0..self.f.blocks.len() {
            let [full, masked] = [false, true].map(|masked| {
                self.masked = masked;
                let steps = self.cut_block(block);
                self.keep_scalars(block, &steps);
                steps
            });
            self.steps.push([full, masked]);
        }
        self.weights.kept.merge();
    }

    /// Instructions of a region do not run in their order, so what is one value is kept through
    /// all of it.
    fn keep_scalars(&mut self, block: usize, steps: &[Step]) {
        let f = self.f;
        for step in steps {
            let Step::VectorRegion(region) = step else { continue };
            let (first, end) = region.range;
            for inst in &f.blocks[block].insts[first..end] {
                for r in sources(inst).chain(inst.dst.iter().map(|d| d.reg)) {
                    if !matches!(
                        f.storage[r.index()],
                        StorageClass::Vector | StorageClass::Mask | StorageClass::None
                    ) {
                        let start = self.weights.kept.starts[block] + 1;
                        let (first, last) = (start + first as u32, start + end as u32 - 1);
                        self.weights.kept.include(r, first, last);
                    }
                }
            }
        }
    }

    /// Cuts a block into steps, for the version under construction.
    fn cut_block(&mut self, block: usize) -> Vec<Step> {
        let f = self.f;
        let insts = &f.blocks[block].insts;
        self.block = block;
        let mut steps: Vec<Step> = Vec::new();
        let mut open = Builder::default();
        let close = |open: &mut Builder, steps: &mut Vec<Step>, next: usize| {
            let mut done = std::mem::take(open).region;
            if !done.is_empty() {
                done.range.1 = next;
                steps.push(Step::VectorRegion(Rc::new(done)));
            }
            open.region.range.0 = next;
        };
        for (index, inst) in insts.iter().enumerate() {
            self.index = index;
            match self.kind(inst) {
                Kind::Whole => {
                    close(&mut open, &mut steps, index);
                    steps.push(Step::Whole(index));
                    open.region.range.0 = index + 1;
                }
                Kind::Single => {
                    if open.goes_before(f, self.layout, inst) {
                        open.region.before.push(index);
                    } else if open.goes_behind(inst) {
                        open.add_behind(f, self.layout, index, inst);
                    } else {
                        close(&mut open, &mut steps, index);
                        open.region.before.push(index);
                    }
                }
                Kind::Lanes(access) => {
                    if !open.admits(self.f, self.layout, self.masked, inst, access.as_ref()) {
                        close(&mut open, &mut steps, index);
                    }
                    open.add(self.f, self.layout, self.masked, index, inst, access);
                }
            }
        }
        close(&mut open, &mut steps, insts.len());
        self.find_live(block, &mut steps);
        for step in &mut steps {
            if let Step::VectorRegion(region) = step {
                Rc::make_mut(region).arrange(f, insts, self.layout, self.masked);
            }
        }
        steps
    }

    /// Finds the results of members that are live behind their region.
    fn find_live(&self, block: usize, steps: &mut [Step]) {
        let f = self.f;
        let b = &f.blocks[block];
        let mut live: HashSet<Reg> = HashSet::new();
        for s in successors(&b.term) {
            live.extend(&f.blocks[s].live_in);
        }
        // A companion is in no `live_in`: it lives at most where what it is a companion of does. That may live for
        // longer, and the companion's slot is another register's by then.
        let end = self.weights.kept.ends[block];
        for (companion, of) in &f.companions {
            if live.contains(of) && self.weights.kept.covers(companion.index(), end) {
                live.insert(*companion);
            }
        }
        live.extend(mentioned(f, &b.term));
        let mut at = b.insts.len();
        for step in steps.iter_mut().rev() {
            let Step::VectorRegion(region) = step else { continue };
            let region = Rc::make_mut(region);
            while at > region.range.1 {
                at -= 1;
                self.step_back(&b.insts[at], &mut live);
            }
            let behind = region.after.iter().flat_map(|i| sources(&b.insts[*i]));
            let mut needed: HashSet<Reg> = behind.collect();
            for member in &region.members {
                for d in &b.insts[member.index].dst {
                    if live.contains(&d.reg) {
                        needed.insert(d.reg);
                    }
                }
            }
            region.live = needed;
        }
    }

    fn step_back(&self, inst: &VectorInst, live: &mut HashSet<Reg>) {
        for d in &inst.dst {
            if !support::keeps(inst, d, self.masked) {
                live.remove(&d.reg);
            }
        }
        live.extend(sources(inst));
    }
}
