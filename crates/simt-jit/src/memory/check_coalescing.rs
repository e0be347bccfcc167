//! Bounds-check coalescing: accesses of a block that differ by constants are checked together, in
//! front of the first; if that fails, a version of the block's rest checks them one by one.
//!
//! If one comparison cannot allow them all, the rest of the block runs in a copy behind the
//! function in which every access is checked where it is made: what is not allowed faults there,
//! in its order.
//!
//! Invariants: groups are of unmasked versions only, and of instructions that all lanes run; between the
//! first and the last of a group no instruction writes the register that its addresses start at.

use crate::asm::assembler::X;
use crate::frame_layout::{C, Field, field};
use crate::function::Compiler;
use crate::memory::access::MemAccess;
use crate::regalloc::allocate::SCALARS;
use crate::scalar::integer::mov;
use iced_x86::{Code, Register};
use simt::analysis::vector_cfg::{mentioned, sources};
use simt::ir::Reg;
use simt::ir::op::Op;
use simt::ir::vector::Source;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes that the accesses of one group may lie apart: displacements must fit instructions.
pub(crate) const REACH_MAX: i64 = 1 << 24;

/// Accesses for which another value has to wait in the register file: storing and loading it must
/// cost less than making the pointer each time.
const MOVED_FOR_MIN: usize = 3;

/// Accesses that are checked together.
#[derive(Debug)]
pub(crate) struct CheckGroup {
    /// Instructions, in order.
    members: Vec<usize>,
    mem: MemAccess,
    /// Where addresses start: one number, or one for each half.
    bases: Vec<Source>,
    /// What is accessed, bytes from there.
    low: i64,
    high: i64,
    /// Pointers to where addresses start, if there are registers for them.
    pointers: Vec<Register>,
    /// Those of them that hold nothing else.
    lent: Vec<Register>,
    /// Those of them that another value had, and that value.
    moved: Vec<(Register, Reg)>,
}

/// The groups of the block under construction.
#[derive(Default)]
pub(crate) struct CheckGroups {
    list: Vec<CheckGroup>,
    /// By instruction.
    of: HashMap<usize, usize>,
    /// General registers that hold nothing in this block.
    free: Vec<Register>,
    /// Those that hold what the block does not mention: that can wait in the register file.
    movable: Vec<(Register, Reg)>,
    /// By instruction: bytes that are counted with those of the first one, for all.
    counted: BTreeMap<usize, i32>,
}

/// The space, where addresses start, and how often the registers in that have changed.
type Key = (bool, Vec<Source>, Vec<u32>);

impl CheckGroups {
    /// True if no general register is away from its value.
    pub(crate) fn is_closed(&self) -> bool {
        self.list.iter().all(|g| g.moved.is_empty())
    }
}

impl CheckGroup {
    fn new(mem: MemAccess, bases: Vec<Source>, low: i64, high: i64) -> Self {
        let (members, pointers, lent, moved) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { members, mem, bases, low, high, pointers, lent, moved }
    }

    /// Takes an access in, if it is near enough and aligned where the others are.
    fn add(&mut self, index: usize, mem: MemAccess, low: i64, high: i64) {
        let (from, to) = (self.low.min(low), self.high.max(high));
        let near = to - from < REACH_MAX && from.abs() < REACH_MAX;
        if !near || mem.offset % mem.total != 0 {
            return;
        }
        self.members.push(index);
        (self.low, self.high) = (from, to);
        self.mem.total = self.mem.total.max(mem.total);
        self.mem.write |= mem.write;
    }
}

impl Compiler<'_> {
    /// Finds the groups of a block's unmasked version.
    pub(crate) fn find_groups(&mut self, block: usize) {
        self.groups = CheckGroups::default();
        let f = self.f;
        let mut changes: HashMap<Reg, u32> = HashMap::new();
        let mut found: Vec<(Key, CheckGroup)> = Vec::new();
        for (index, inst) in f.blocks[block].insts.iter().enumerate() {
            self.index = index;
            if matches!(inst.op, Op::Load(_) | Op::Store(_))
                && inst.guard.is_none()
                && let Some(mem) = self.mem(inst)
                && let Some(form) = self.form(inst, mem)
            {
                let (mem, bases) = based(inst.src[0], mem);
                let count =
                    |s: &Source| s.registers().map(|r| *changes.get(&r).unwrap_or(&0)).sum();
                let versions = bases.iter().map(count).collect();
                let key = (mem.shared, bases.clone(), versions);
                let (low, high) = form.reach(mem);
                let (low, high) = (low + i64::from(mem.offset), high + i64::from(mem.offset));
                let at = found.iter().position(|(k, _)| *k == key).unwrap_or_else(|| {
                    found.push((key, CheckGroup::new(mem, bases, low, high)));
                    found.len() - 1
                });
                found[at].1.add(index, mem, low, high);
                if !mem.shared {
                    self.groups.counted.insert(index, form.bytes(mem));
                }
            }
            for d in &inst.dst {
                *changes.entry(d.reg).or_default() += 1;
            }
        }
        self.groups.free = self.idle_scalars(block);
        self.groups.movable = self.movable_scalars(block);
        for (_, group) in found.into_iter().filter(|(_, g)| g.members.len() > 1) {
            for member in &group.members {
                self.groups.of.insert(*member, self.groups.list.len());
            }
            self.groups.list.push(group);
        }
    }

    /// General registers that hold no value in a block.
    fn idle_scalars(&self, block: usize) -> Vec<Register> {
        let busy = |m: &Register| {
            let mut scalars = self.assignment.scalars.iter().enumerate();
            scalars
                .any(|(r, scalar)| *scalar == Some(*m) && self.weights.kept.covers_some(r, block))
        };
        SCALARS.into_iter().filter(|m| !busy(m)).collect()
    }

    /// General registers that hold a value all through a block that does not mention it.
    fn movable_scalars(&self, block: usize) -> Vec<(Register, Reg)> {
        let (b, kept) = (&self.f.blocks[block], &self.weights.kept);
        let mut mentions: BTreeSet<Reg> = mentioned(self.f, &b.term).collect();
        mentions.extend(b.checks.iter().map(|check| check.reg));
        for inst in &b.insts {
            mentions.extend(sources(inst).chain(inst.dst.iter().map(|d| d.reg)));
        }
        let mut holders: BTreeMap<Register, Vec<Reg>> = BTreeMap::new();
        for (r, scalar) in self.assignment.scalars.iter().enumerate() {
            if let Some(m) = scalar.filter(|_| kept.covers_some(r, block)) {
                holders.entry(m).or_default().push(Reg(r as u32));
            }
        }
        let waits = |(m, held): (Register, Vec<Reg>)| match held[..] {
            [r] if !mentions.contains(&r) => {
                let through = [kept.starts[block], kept.ends[block]];
                through.iter().all(|p| kept.covers(r.index(), *p)).then_some((m, r))
            }
            _ => None,
        };
        holders.into_iter().filter_map(waits).collect()
    }

    /// Pointers to where the addresses of the instruction under construction start, if it is one
    /// of a group, with all of the group checked: one, or one for each half.
    pub(crate) fn grouped(&mut self) -> Option<usize> {
        let number = *self.groups.of.get(&self.index)?;
        if self.groups.list[number].members[0] == self.index {
            self.check_group(number);
        }
        Some(number)
    }

    /// The pointer of a half of a group: RCX, if it has no register of its own.
    pub(crate) fn group_pointer(&mut self, number: usize, half: usize) -> Register {
        let group = &self.groups.list[number];
        if let Some(pointer) = group.pointers.get(half) {
            return *pointer;
        }
        let (base, mem) = (group.bases[half], group.mem);
        self.base_in(base, mem, C);
        C
    }

    /// Gives the group's registers back behind its last access.
    pub(crate) fn leave_group(&mut self, number: usize) {
        let group = &mut self.groups.list[number];
        if group.members.last() == Some(&self.index) {
            self.groups.free.append(&mut group.lent);
            let moved = std::mem::take(&mut group.moved);
            self.move_back(&moved);
            self.groups.movable.extend(moved);
        }
    }

    /// Loads what general registers held before they gave way.
    pub(crate) fn move_back(&mut self, moved: &[(Register, Reg)]) {
        for (m, r) in moved {
            let (place, class) = (self.layout.place(r.index()), self.f.classes[r.index()]);
            if let (Some(offset), Some(width)) = (place.scalar, class.width()) {
                self.load_scalar(*m, offset, width);
            }
        }
    }

    /// Counts the bytes of all accesses of an unmasked version's block at once, at the first of them;
    /// false where each counts its own, once its check is made.
    pub(crate) fn count_block(&mut self, mem: MemAccess) -> bool {
        let Some((first, _)) = self.groups.counted.first_key_value() else { return false };
        if *first == self.index {
            let all = self.groups.counted.values().sum();
            self.count(MemAccess { shared: false, ..mem }, all);
        }
        true
    }

    /// Bytes that have been counted for instructions from `index` on, up to `end`: none in front of the
    /// first access that is counted.
    pub(crate) fn counted_ahead(&self, index: usize, end: usize) -> i32 {
        let counted = &self.groups.counted;
        match counted.first_key_value() {
            Some((first, _)) if *first <= index => {
                counted.range(index..end).map(|(_, bytes)| *bytes).sum()
            }
            _ => 0,
        }
    }

    /// Where addresses start, as a pointer in a register.
    fn base_in(&mut self, base: Source, mem: MemAccess, to: Register) {
        self.number_in(base, mem, to);
        if mem.shared {
            self.a.op(Code::Add_r64_rm64, &[to.into(), field(Field::Shared).into()]);
        }
    }

    /// Where addresses start, as a number in the space.
    pub(crate) fn number_in(&mut self, base: Source, mem: MemAccess, to: Register) {
        let low = if mem.wide { to } else { to.full_register32() };
        match base {
            Source::Imm(v) => self.a.load_constant(to, v),
            base => {
                let from = self.scalar_in(base, mem.wide, to);
                if from != low {
                    self.a.op(mov(mem.wide), &[low.into(), from.into()]);
                }
            }
        }
    }

    /// Adds a constant to the address in RCX.
    pub(crate) fn add_to_address(&mut self, mem: MemAccess, more: i64) {
        if more != 0 {
            let code = if mem.wide { Code::Add_rm64_imm32 } else { Code::Add_rm32_imm32 };
            let to = if mem.wide { C } else { Register::ECX };
            self.a.op(code, &[to.into(), X::I(more as i32)]);
        }
    }

    /// The register that has where addresses of global memory start, if one has.
    pub(crate) fn own_pointer(&mut self, base: Source, mem: MemAccess) -> Option<Register> {
        match base {
            Source::Imm(_) => None,
            _ if mem.shared || !mem.wide => None,
            base => match self.scalar(base, true, C) {
                X::R(register) => Some(register),
                _ => None,
            },
        }
    }

    /// What is left of a block from an instruction on, with its accesses checked one by one.
    fn rest_of_block(
        &mut self,
        block: usize,
        index: usize,
        counted: i32,
        moved: Vec<(Register, Reg)>,
    ) {
        self.uncount_bytes(counted);
        self.move_back(&moved);
        self.groups = CheckGroups::default();
        self.begin_addresses(block);
        self.merged = 0..0;
        let b = &self.f.blocks[block];
        for (index, inst) in b.insts.iter().enumerate().skip(index) {
            self.index = index;
            self.instruction(inst);
        }
        self.emit_deferred_loads(usize::MAX);
        self.terminator(&b.term);
    }

    /// Checks all of a group and makes its pointers.
    fn check_group(&mut self, number: usize) {
        let (block, index) = (self.block, self.index);
        let group = &self.groups.list[number];
        let (mem, bases, low, high) = (group.mem, group.bases.clone(), group.low, group.high);
        let alone = self.a.label();
        let counted = self.counted_ahead(index, usize::MAX);
        let moved = self.groups.list.iter().flat_map(|g| g.moved.iter().copied()).collect();
        self.slow_path(alone, move |c| c.rest_of_block(block, index, counted, moved));
        for base in &bases {
            let span = (high - low) as i32;
            if let (Some(address), false) = (self.own_pointer(*base, mem), self.ablation.bounds) {
                self.check_global((address, low as i32), mem, span, alone);
                continue;
            }
            self.number_in(*base, mem, C);
            if mem.total > 1 {
                self.a.op(Code::Test_rm8_imm8, &[Register::CL.into(), X::I(mem.total - 1)]);
                self.a.jump(Code::Jne_rel32_64, alone);
            }
            self.add_to_address(mem, low);
            self.check(MemAccess { total: 1, ..mem }, span, alone);
        }
        for base in bases {
            let own = self.own_pointer(base, mem);
            let pointer = match own {
                Some(register) => register,
                None => {
                    let Some(pointer) = self.pointer_for(number) else { break };
                    self.base_in(base, mem, pointer);
                    pointer
                }
            };
            self.groups.list[number].pointers.push(pointer);
        }
    }

    /// A general register for a pointer of a group: a free one, or one whose value is spilled.
    fn pointer_for(&mut self, number: usize) -> Option<Register> {
        if let Some(free) = self.groups.free.pop() {
            self.temporaries.insert(free);
            self.groups.list[number].lent.push(free);
            return Some(free);
        }
        if self.groups.list[number].members.len() < MOVED_FOR_MIN {
            return None;
        }
        let (m, r) = self.groups.movable.pop()?;
        if self.weights.written[r.index()] {
            self.flush_scalar(r.index());
        }
        self.groups.list[number].moved.push((m, r));
        Some(m)
    }
}

/// Where the addresses of a source start; a constant is a part of the access's offset, so that all
/// constants start at one place.
pub(crate) fn based(source: Source, mem: MemAccess) -> (MemAccess, Vec<Source>) {
    if let Source::Imm(v) = source
        && let Ok(offset) = i32::try_from((v as i64).saturating_add(mem.offset.into()))
    {
        return (MemAccess { offset, ..mem }, vec![Source::Imm(0)]);
    }
    (mem, bases(source))
}

/// Where the addresses of a source start.
pub(crate) fn bases(source: Source) -> Vec<Source> {
    match source {
        Source::HalfAffine(low, high, _) => vec![Source::Scalar(low), Source::Scalar(high)],
        Source::Affine(r, _) => vec![Source::Scalar(r)],
        other => vec![other],
    }
}
