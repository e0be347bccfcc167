//! Shared lane offsets: accesses of a block whose lanes are as far from each other as those of another
//! one (common subexpressions of address vectors).
//!
//! Programs move tiles of matrices through addresses that differ by what all lanes have: a
//! constant, a stage, a row. Accesses that do have the same *root*; a tier looks at their lanes once.

use super::terms::Terms;
use crate::ir::Reg;
use crate::ir::address::{BlockAddresses, LinearSum, SharedOffsets};
use crate::ir::op::{IntOp, IntType, Op, Width};
use crate::ir::vector::{Source, StorageClass, VectorFunction, VectorInst};
use std::collections::{BTreeMap, HashMap};

/// Addresses as seen from others: the number of a root, and what is added to its.
type Lanes = (usize, LinearSum);

/// Single values as seen from others: a number of the one, and what is added.
type Single = (usize, i64);

/// Lanes that count up from single values.
type Steps = (usize, Option<(usize, i64)>, i64);

/// What is known in a block, from its start to an instruction.
struct Known<'a> {
    f: &'a VectorFunction,
    lanes: HashMap<Reg, Lanes>,
    singles: HashMap<Reg, Single>,
    steps: HashMap<Steps, usize>,
    /// How many roots there are, or single values that are seen as one.
    count: usize,
    terms: &'a mut Terms,
}

impl Known<'_> {
    /// A number that nothing has yet.
    fn fresh(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    /// A register's lanes.
    fn lanes(&mut self, r: Reg) -> Lanes {
        if !self.lanes.contains_key(&r) {
            let root = self.fresh();
            self.lanes.insert(r, (root, LinearSum::default()));
        }
        self.lanes[&r].clone()
    }

    fn single(&mut self, r: Reg) -> Single {
        if !self.singles.contains_key(&r) {
            let single = (self.fresh(), 0);
            self.singles.insert(r, single);
        }
        self.singles[&r]
    }

    /// Lanes that count up from a single value, or from one for each half.
    fn counted(&mut self, low: Reg, high: Option<Reg>, stride: i64) -> Lanes {
        let (root, more) = self.single(low);
        let high = high.map(|r| self.single(r)).map(|(r, m)| (r, m.wrapping_sub(more)));
        let key = (root, high, stride);
        let root = match self.steps.get(&key) {
            Some(root) => *root,
            None => {
                let root = self.fresh();
                self.steps.insert(key, root);
                root
            }
        };
        (root, LinearSum::of(more))
    }

    /// The result of an instruction on lanes, if it is known from others.
    fn result(&mut self, inst: &VectorInst) -> Option<Lanes> {
        let source = |n: usize| inst.src.get(n).copied();
        match (&inst.op, source(0)?) {
            (Op::Mov(Width::W32 | Width::W64), Source::Vector(r)) => Some(self.lanes(r)),
            (Op::Mov(Width::W32 | Width::W64), Source::Affine(r, stride)) => {
                Some(self.counted(r, None, stride))
            }
            (Op::Mov(Width::W32 | Width::W64), Source::HalfAffine(low, high, stride)) => {
                Some(self.counted(low, Some(high), stride))
            }
            (Op::Int(op @ (IntOp::Add | IntOp::Sub), ty), first) if ty.width() != Width::W16 => {
                let second = source(1)?;
                let (lanes, more) = match (first, second) {
                    (Source::Vector(r), more) if self.is_lanes(r) => (r, more),
                    (more, Source::Vector(r)) if *op == IntOp::Add => (r, more),
                    _ => return None,
                };
                let more = self.terms.of(self.f, more, ty.width())?;
                let more = if *op == IntOp::Sub { more.times(-1) } else { more };
                let (root, from) = self.lanes(lanes);
                Some((root, from.plus(&more)))
            }
            _ => None,
        }
    }

    /// True if a register has a value a lane, not one for all.
    fn is_lanes(&self, r: Reg) -> bool {
        self.f.storage[r.index()] == StorageClass::Vector
    }

    /// The result of an instruction on single values, if it is known from another.
    fn single_result(&mut self, inst: &VectorInst) -> Option<Single> {
        let (&[Source::Scalar(r), Source::Imm(more)], Op::Int(IntOp::Add, ty)) =
            (&inst.src[..], &inst.op)
        else {
            return None;
        };
        let more = match ty {
            IntType::U32 | IntType::S32 => i64::from(more as i32),
            IntType::U64 | IntType::S64 => more as i64,
            _ => return None,
        };
        let (root, before) = self.single(r);
        Some((root, before.wrapping_add(more)))
    }
}

/// Finds the accesses of a block that move rows of tiles, and what their addresses share.
pub(super) fn find(
    f: &VectorFunction,
    block: usize,
    terms: &mut Terms,
    found: &mut BlockAddresses,
) {
    let insts = &f.blocks[block].insts;
    if insts.iter().all(|inst| moves_tiles(inst).is_empty()) {
        return;
    }
    let (lanes, singles, steps) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut known = Known { f, lanes, singles, steps, count: 0, terms };
    let mut by_access: BTreeMap<(usize, usize), Lanes> = BTreeMap::new();
    for (index, inst) in insts.iter().enumerate() {
        let always = inst.guard.is_none();
        let result = if always && !inst.uniform { known.result(inst) } else { None };
        let single = if always && inst.uniform { known.single_result(inst) } else { None };
        known.terms.end(index, result.is_some());
        for n in moves_tiles(inst) {
            if let Some(Source::Vector(r)) = inst.src.get(*n) {
                by_access.insert((index, *n), known.lanes(*r));
            }
        }
        for d in &inst.dst {
            known.lanes.remove(&d.reg);
            known.singles.remove(&d.reg);
            known.terms.changed(d.reg);
        }
        let [d] = &inst.dst[..] else { continue };
        if let Some(result) = result {
            known.lanes.insert(d.reg, result);
        }
        if let Some(single) = single {
            known.singles.insert(d.reg, single);
        }
    }
    by_access.retain(|_, (_, more)| more.is_small());
    terms.retain(by_access.values().map(|(_, more)| more));
    let mut uses: HashMap<usize, usize> = HashMap::new();
    by_access.values().for_each(|(root, _)| *uses.entry(*root).or_default() += 1);
    for ((index, source), (root, more)) in by_access {
        let shared = Some(SharedOffsets { root, more, uses: uses[&root] });
        let shape = found.shape_mut(index);
        *if source == 0 { &mut shape.shared } else { &mut shape.shared_of_source } = shared;
    }
}

/// Which sources are addresses whose offsets are worth to be known: of rows, of a copy, of a product.
fn moves_tiles(inst: &VectorInst) -> &'static [usize] {
    match inst.op {
        Op::LoadMatrix { .. } | Op::StoreMatrix { .. } => &[0],
        Op::CopyToShared { bytes: 16 } => &[0, 2],
        Op::Store(access) if (access.count, access.width) == (2, Width::W32) => &[0],
        _ => &[],
    }
}
