//! Linear sums: addresses as sums of uniform values, which are kept in frame slots.
//!
//! What a sum is made of is kept on the stack where some instruction first reads it, because it
//! may be gone where the address is wanted.
//!
//! Deliberately absent: products of two such numbers.

use crate::asm::assembler::{X, at};
use crate::frame_layout::{A, SUM_SLOTS, SUMS};
use crate::function::Compiler;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::Reg;
use simt::ir::op::Width;
use simt::ir::vector::{Source, StorageClass, VectorFunction};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A sum of values that all lanes have, times constants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinearSum {
    pub(crate) constant: i64,
    /// What was kept in a slot, and how often it counts.
    pub(crate) terms: Vec<(usize, i64)>,
}

/// Values that sums of a block are made of.
#[derive(Default)]
pub(crate) struct LinearSums {
    /// Slots of values that are as they were when they were kept.
    slots: HashMap<Reg, usize>,
    /// Slots that the instruction at hand needs.
    new: Vec<(Reg, usize)>,
    /// How many there are.
    count: usize,
    /// By instruction: what it reads is kept in a slot.
    kept: BTreeMap<usize, Vec<(Reg, usize)>>,
}

impl LinearSum {
    pub(crate) fn of(constant: i64) -> Self {
        Self { constant, terms: Vec::new() }
    }

    pub(crate) fn plus(mut self, other: &Self) -> Self {
        self.constant = self.constant.wrapping_add(other.constant);
        for (slot, factor) in &other.terms {
            match self.terms.iter_mut().find(|(s, _)| s == slot) {
                Some((_, sum)) => *sum = sum.wrapping_add(*factor),
                None => self.terms.push((*slot, *factor)),
            }
        }
        self.terms.retain(|(_, factor)| *factor != 0);
        self
    }

    pub(crate) fn times(&self, factor: i64) -> Self {
        let terms = self.terms.iter().map(|(r, f)| (*r, f.wrapping_mul(factor)));
        let terms = terms.filter(|(_, f)| *f != 0).collect();
        Self { constant: self.constant.wrapping_mul(factor), terms }
    }

    /// The product, if one of the two is constant.
    pub(crate) fn product(&self, other: &Self) -> Option<Self> {
        match (self.as_constant(), other.as_constant()) {
            (Some(factor), _) => Some(other.times(factor)),
            (_, Some(factor)) => Some(self.times(factor)),
            _ => None,
        }
    }

    pub(crate) fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// True if code can multiply by its factors.
    pub(crate) fn is_small(&self) -> bool {
        self.terms.iter().all(|(_, factor)| i32::try_from(*factor).is_ok())
    }
}

impl LinearSums {
    /// None yet; the first slots are taken.
    pub(crate) fn behind(others: &Self) -> Self {
        Self { count: others.count, ..Self::default() }
    }

    /// What all lanes have of a source, if it is a number of the width.
    pub(crate) fn of(
        &mut self,
        f: &VectorFunction,
        source: Source,
        width: Width,
    ) -> Option<LinearSum> {
        let r = match source {
            Source::Imm(v) => return Some(LinearSum::of(v as i64)),
            Source::Scalar(r) => r,
            Source::Vector(r) if f.storage[r.index()] == StorageClass::ScalarAndVector => r,
            _ => return None,
        };
        let slot = (f.classes[r.index()].width() == Some(width)).then(|| self.slot(r))??;
        Some(LinearSum { constant: 0, terms: vec![(slot, 1)] })
    }

    /// The slot of a value.
    fn slot(&mut self, r: Reg) -> Option<usize> {
        if let Some(slot) = self.slots.get(&r) {
            return Some(*slot);
        }
        let slot = self.count;
        (slot < SUM_SLOTS).then_some(())?;
        self.count += 1;
        self.slots.insert(r, slot);
        self.new.push((r, slot));
        Some(slot)
    }

    /// An instruction has read what sums were asked for of since the last one; they are good for
    /// something or not.
    pub(crate) fn end(&mut self, index: usize, good: bool) {
        let new = std::mem::take(&mut self.new);
        if !good {
            new.iter().for_each(|(r, _)| self.changed(*r));
        } else if !new.is_empty() {
            self.kept.insert(index, new);
        }
    }

    /// The register has another value from here on.
    pub(crate) fn changed(&mut self, r: Reg) {
        self.slots.remove(&r);
    }

    /// Only these sums are wanted.
    pub(crate) fn retain<'s>(&mut self, sums: impl Iterator<Item = &'s LinearSum>) {
        let used: BTreeSet<usize> = sums.flat_map(|s| &s.terms).map(|(slot, _)| *slot).collect();
        self.kept.retain(|_, list| {
            list.retain(|(_, slot)| used.contains(slot));
            !list.is_empty()
        });
    }

    /// What an instruction reads that is kept, and where.
    pub(crate) fn kept_at(&self, index: usize) -> &[(Reg, usize)] {
        self.kept.get(&index).map_or(&[], |list| &list[..])
    }
}

impl Compiler<'_> {
    /// Keeps a value for the sums that it is in; uses RAX.
    pub(crate) fn keep_term(&mut self, r: Reg, slot: usize) {
        let wide = self.f.classes[r.index()].width() == Some(Width::W64);
        // The upper half of a narrow one is zero.
        let from = self.scalar_in(Source::Scalar(r), wide, A).full_register();
        self.a.op(Code::Mov_rm64_r64, &[kept_at(slot).into(), from.into()]);
        self.in_eax = None;
    }

    /// A sum in a register that is not RAX; uses that.
    pub(crate) fn sum_in(&mut self, sum: &LinearSum, to: Register) {
        let mut is_empty = sum.constant == 0 && !sum.terms.is_empty();
        if !is_empty {
            self.a.load_constant(to, sum.constant as u64);
        }
        for (slot, factor) in &sum.terms {
            let mut from: X = kept_at(*slot).into();
            if *factor != 1 {
                let factor = X::I(*factor as i32);
                self.a.op(Code::Imul_r64_rm64_imm32, &[A.into(), from, factor]);
                from = A.into();
            }
            let code = if is_empty { Code::Mov_r64_rm64 } else { Code::Add_r64_rm64 };
            self.a.op(code, &[to.into(), from]);
            is_empty = false;
        }
    }
}

/// Where a value is kept.
fn kept_at(slot: usize) -> MemoryOperand {
    at(Register::RSP, SUMS + 8 * slot as i32)
}
