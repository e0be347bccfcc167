//! Terms of linear sums: values that all lanes have, as they are where some instruction reads them.
//!
//! A tier keeps a term where it is first read, because it may be gone where the address is wanted.
//!
//! Deliberately absent: products of two such numbers.

use crate::ir::Reg;
use crate::ir::address::{LinearSum, TERMS_MAX};
use crate::ir::op::Width;
use crate::ir::vector::{Source, StorageClass, VectorFunction};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Values that the sums of a block are made of.
#[derive(Default)]
pub(super) struct Terms {
    /// Numbers of values that are as they were when they got them.
    numbers: HashMap<Reg, usize>,
    /// Those that the instruction at hand needs.
    new: Vec<(Reg, usize)>,
    /// How many there are.
    count: usize,
    /// By instruction: what it reads that is a term.
    kept: BTreeMap<usize, Vec<(Reg, usize)>>,
}

impl Terms {
    /// Gives all terms back.
    pub(super) fn take(self) -> BTreeMap<usize, Vec<(Reg, usize)>> {
        self.kept
    }

    /// What all lanes have of a source, if it is a number of the width.
    pub(super) fn of(
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
        let term = (f.classes[r.index()].width() == Some(width)).then(|| self.number(r))??;
        Some(LinearSum { constant: 0, terms: vec![(term, 1)] })
    }

    /// The number of a value.
    fn number(&mut self, r: Reg) -> Option<usize> {
        if let Some(number) = self.numbers.get(&r) {
            return Some(*number);
        }
        let number = self.count;
        (number < TERMS_MAX).then_some(())?;
        self.count += 1;
        self.numbers.insert(r, number);
        self.new.push((r, number));
        Some(number)
    }

    /// An instruction has read what sums were asked for of since the last one; they are good for
    /// something or not.
    pub(super) fn end(&mut self, index: usize, good: bool) {
        let new = std::mem::take(&mut self.new);
        if !good {
            new.iter().for_each(|(r, _)| self.changed(*r));
        } else if !new.is_empty() {
            self.kept.insert(index, new);
        }
    }

    /// The register has another value from here on.
    pub(super) fn changed(&mut self, r: Reg) {
        self.numbers.remove(&r);
    }

    /// Only these sums are wanted.
    pub(super) fn retain<'s>(&mut self, sums: impl Iterator<Item = &'s LinearSum>) {
        let used: BTreeSet<usize> = sums.flat_map(|s| &s.terms).map(|(term, _)| *term).collect();
        self.kept.retain(|_, list| {
            list.retain(|(_, term)| used.contains(term));
            !list.is_empty()
        });
    }
}
