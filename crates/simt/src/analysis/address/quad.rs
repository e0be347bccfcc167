//! Quad-affine addresses: lane `4 j + m` has its element in line `j` at place `m`, or in line `m` at place
//! `j`; lines are any distance apart.
//!
//! Fragments of matrices are dealt to lanes so: what `wmma.load` and `wmma.store` become, and what
//! programs write that have no such instruction.
//!
//! Deliberately absent: elements of bytes or of 64 bits whose lines are `m`.

use super::terms::Terms;
use super::use_counts::UseCounts;
use crate::analysis::vector_cfg::sources;
use crate::ir::Reg;
use crate::ir::address::{BlockAddresses, LinearSum, QuadAffine};
use crate::ir::op::{Access, IntOp, IntType, Op, Space, Special, Width};
use crate::ir::vector::{Source, StorageClass, VectorFunction, VectorInst};
use std::collections::{BTreeSet, HashMap};

/// Lanes with the same `m`.
const LONG: i64 = 8;

/// What a register's lanes have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Formula {
    /// The lane's number.
    Lane,
    /// `base + (lane / 4) * major + (lane % 4) * minor`.
    Quad { base: LinearSum, major: LinearSum, minor: LinearSum },
}

impl Formula {
    fn same(base: LinearSum) -> Self {
        Self::Quad { base, major: LinearSum::default(), minor: LinearSum::default() }
    }

    fn plus(&self, other: &Self) -> Option<Self> {
        let (Self::Quad { base, major, minor }, Self::Quad { base: b, major: j, minor: m }) =
            (self, other)
        else {
            return None;
        };
        let (base, major) = (base.clone().plus(b), major.clone().plus(j));
        Some(Self::Quad { base, major, minor: minor.clone().plus(m) })
    }

    fn times(&self, other: &Self) -> Option<Self> {
        let same = |f: &Self| match f {
            Self::Quad { base, major, minor }
                if major == minor && *major == LinearSum::default() =>
            {
                Some(base.clone())
            }
            _ => None,
        };
        let (factor, of) = match (same(self), same(other)) {
            (Some(factor), _) => (factor, other),
            (_, Some(factor)) => (factor, self),
            _ => return None,
        };
        let Self::Quad { base, major, minor } = of else { return None };
        let by = |sum: &LinearSum| sum.product(&factor);
        Some(Self::Quad { base: by(base)?, major: by(major)?, minor: by(minor)? })
    }
}

/// What is known in a block, from its start to an instruction.
struct Known<'a> {
    f: &'a VectorFunction,
    formulas: HashMap<Reg, Formula>,
    /// Scalars that are the number of the first lane.
    first_lane: BTreeSet<Reg>,
    /// By register: the instructions that its value came from.
    made_by: HashMap<Reg, BTreeSet<usize>>,
    terms: &'a mut Terms,
}

impl Known<'_> {
    fn formula(&mut self, source: Source) -> Option<Formula> {
        match source {
            Source::Affine(r, 1) if self.first_lane.contains(&r) => Some(Formula::Lane),
            Source::Vector(r) | Source::Scalar(r) if self.formulas.contains_key(&r) => {
                self.formulas.get(&r).cloned()
            }
            source => Some(Formula::same(self.terms.of(self.f, source, Width::W64)?)),
        }
    }

    /// The formula of an instruction's result.
    fn result(&mut self, inst: &VectorInst) -> Option<Formula> {
        let mut source = |n: usize| self.formula(*inst.src.get(n)?);
        let small = |f: &Formula| {
            let Formula::Quad { base, major, minor } = f else { return false };
            let few = |sum: &LinearSum| sum.as_constant().is_some_and(|n| (0..=LONG).contains(&n));
            few(base) && few(major) && few(minor)
        };
        match inst.op {
            Op::Mov(_) => source(0),
            Op::Extend { .. } => source(0).filter(small),
            Op::Int(IntOp::Shr, IntType::U32) => match (source(0)?, inst.src.get(1)?) {
                (Formula::Lane, Source::Imm(2)) => {
                    let (base, minor) = (LinearSum::default(), LinearSum::default());
                    Some(Formula::Quad { base, major: LinearSum::of(1), minor })
                }
                _ => None,
            },
            Op::Int(IntOp::And, IntType::U32 | IntType::S32) => {
                match (source(0)?, inst.src.get(1)?) {
                    (Formula::Lane, Source::Imm(3)) => {
                        let (base, major) = (LinearSum::default(), LinearSum::default());
                        Some(Formula::Quad { base, major, minor: LinearSum::of(1) })
                    }
                    _ => None,
                }
            }
            Op::Int(IntOp::Add, IntType::U64 | IntType::S64) => source(0)?.plus(&source(1)?),
            Op::Int(IntOp::MulLo, IntType::U64 | IntType::S64) => source(0)?.times(&source(1)?),
            _ => None,
        }
    }

    fn changed(&mut self, r: Reg) {
        self.formulas.remove(&r);
        self.first_lane.remove(&r);
        self.made_by.remove(&r);
        self.terms.changed(r);
    }
}

/// Finds the quad-affine accesses of a block, and what is computed for their addresses only.
pub(super) fn find(
    f: &VectorFunction,
    block: usize,
    terms: &mut Terms,
    counts: &mut Option<UseCounts>,
    found: &mut BlockAddresses,
) {
    let insts = &f.blocks[block].insts;
    let scattered = |inst: &VectorInst| {
        matches!(inst.op, Op::Load(_) | Op::Store(_))
            && matches!(inst.src[..], [Source::Vector(_), ..])
    };
    if !insts.iter().any(scattered) {
        return;
    }
    let (formulas, first_lane, made_by) = (HashMap::new(), BTreeSet::new(), HashMap::new());
    let mut known = Known { f, formulas, first_lane, made_by, terms };
    let mut members: BTreeSet<usize> = BTreeSet::new();
    for (index, inst) in insts.iter().enumerate() {
        let plain = inst.guard.is_none() && !inst.uniform;
        let result = if plain { known.result(inst) } else { None };
        known.terms.end(index, result.is_some());
        if scattered(inst)
            && let Source::Vector(address) = inst.src[0]
            && let Some(formula) = known.formulas.get(&address)
            && let Some(quad) = quad(f, inst, address, formula)
        {
            members.extend(known.made_by.get(&address).into_iter().flatten());
            found.shape_mut(index).quad = Some(quad);
        }
        let mut made_by: BTreeSet<usize> =
            sources(inst).filter_map(|r| known.made_by.get(&r)).flatten().copied().collect();
        made_by.insert(index);
        inst.dst.iter().for_each(|d| known.changed(d.reg));
        let [d] = &inst.dst[..] else { continue };
        if let (Op::Special(Special::LaneId), true) = (&inst.op, inst.uniform) {
            known.first_lane.insert(d.reg);
        }
        if let Some(result) = result {
            known.formulas.insert(d.reg, result);
            known.made_by.insert(d.reg, made_by);
        }
    }
    let quads = || found.shapes.values().filter_map(|shape| shape.quad.as_ref());
    terms.retain(quads().flat_map(|q| [&q.base, &q.major, &q.minor]));
    if members.is_empty() {
        return;
    }
    let counts = counts.get_or_insert_with(|| UseCounts::of(f));
    found.only_for_quads = only_for_quads(f, block, counts, found, members);
}

/// The shape of an access to memory at the lanes' numbers.
fn quad(
    f: &VectorFunction,
    inst: &VectorInst,
    address: Reg,
    formula: &Formula,
) -> Option<QuadAffine> {
    let (Op::Load(access) | Op::Store(access), Formula::Quad { base, major, minor }) =
        (&inst.op, formula)
    else {
        return None;
    };
    let Access { space, bytes, count, width, signed, .. } = *access;
    let write = matches!(inst.op, Op::Store(_));
    let plain = |s: &Source| matches!(s, Source::Vector(_) | Source::Imm(_));
    let values = inst.src.get(2..).is_none_or(|values| values.iter().all(plain));
    let lanes = |r: Reg| f.storage[r.index()] == StorageClass::Vector && r != address;
    let results = inst.dst.iter().all(|d| lanes(d.reg));
    let offset = matches!(inst.src[1], Source::Imm(n) if i32::try_from(n as i64).is_ok());
    let space = !matches!(space, Space::Local | Space::Param);
    if inst.guard.is_some() || inst.uniform || !(values && results && offset && space) {
        return None;
    }
    let whole = u32::from(bytes) == width.bytes();
    let total = i64::from(bytes) * i64::from(count);
    let short = minor.as_constant() == Some(total)
        && matches!((width, count), (Width::W32, 1 | 2) | (Width::W64, 1))
        && whole;
    let element = major.as_constant() == Some(i64::from(bytes)) && count == 1;
    let long = element && width == Width::W32 && (bytes == 4 || bytes == 2 && !signed && !write);
    let small = [base, major, minor].into_iter().all(LinearSum::is_small);
    let [base, major, minor] = [base, major, minor].map(LinearSum::clone);
    (small && (short || long)).then_some(QuadAffine { base, major, minor, short })
}

/// Of the instructions that addresses are made by, those whose results nothing else reads.
fn only_for_quads(
    f: &VectorFunction,
    block: usize,
    counts: &UseCounts,
    found: &BlockAddresses,
    members: BTreeSet<usize>,
) -> BTreeSet<usize> {
    let insts = &f.blocks[block].insts;
    // By register: who else reads it.
    let registers = members.iter().flat_map(|n| &insts[*n].dst).map(|d| d.reg);
    let mut others: HashMap<Reg, i32> = registers.map(|r| (r, counts.reads[r.index()])).collect();
    for access in found.shapes.iter().filter(|(_, s)| s.quad.is_some()).map(|(index, _)| *index) {
        for r in insts[access].src[0].registers() {
            others.entry(r).and_modify(|n| *n -= 1);
        }
    }
    let mut only = BTreeSet::new();
    for index in members.into_iter().rev() {
        let inst = &insts[index];
        let unread =
            inst.dst.iter().all(|d| others[&d.reg] == 0 && counts.writes[d.reg.index()] == 1);
        if unread && !inst.uniform {
            only.insert(index);
            for r in sources(inst) {
                others.entry(r).and_modify(|n| *n -= 1);
            }
        }
    }
    only
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(number: usize) -> Formula {
        Formula::same(LinearSum { constant: 0, terms: vec![(number, 1)] })
    }

    #[test]
    fn formulas_are_linear() {
        let zero = LinearSum::default;
        let major = Formula::Quad { base: zero(), major: LinearSum::of(1), minor: zero() };
        let scaled =
            major.times(&term(1)).expect("a product").times(&Formula::same(LinearSum::of(2)));
        let sum = scaled.expect("a product").plus(&term(2)).expect("a sum");
        let Formula::Quad { base, major: lines, minor } = &sum else { panic!("no quad") };
        assert_eq!(base.terms, [(2, 1)]);
        assert_eq!(lines.terms, [(1, 2)]);
        assert_eq!(*minor, zero());
        // Products of two values are none.
        assert!(term(1).times(&term(2)).is_none() && Formula::Lane.plus(&term(1)).is_none());
    }
}
