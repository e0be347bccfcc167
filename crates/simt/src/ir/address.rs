//! Address shapes: what is known of the addresses of loads and stores beyond what their sources say.
//!
//! A source shows uniform, affine and half-warp-affine addresses; they need nothing else. Where every
//! lane has an address of its own, a tier finds here what lanes have in common, so that it need not
//! gather: how far they are from one number, proved or guessed, and which accesses share that.

use crate::ir::Reg;
use crate::kernel::WARP_LANES;
use std::collections::BTreeMap;
use std::fmt;

/// Terms that the sums of a block may have in all: a tier has a place for each.
pub const TERMS_MAX: usize = 64;

/// A sum of values that all lanes have, times constants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LinearSum {
    /// What is added besides.
    pub constant: i64,
    /// Terms by number ([`BlockAddresses::terms`]), and how often each counts.
    pub terms: Vec<(usize, i64)>,
}

impl LinearSum {
    /// A constant.
    pub fn of(constant: i64) -> Self {
        Self { constant, terms: Vec::new() }
    }

    /// The sum of two.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.constant = self.constant.wrapping_add(other.constant);
        for (term, factor) in &other.terms {
            match self.terms.iter_mut().find(|(t, _)| t == term) {
                Some((_, sum)) => *sum = sum.wrapping_add(*factor),
                None => self.terms.push((*term, *factor)),
            }
        }
        self.terms.retain(|(_, factor)| *factor != 0);
        self
    }

    /// The sum times a constant.
    #[must_use]
    pub fn times(&self, factor: i64) -> Self {
        let terms = self.terms.iter().map(|(r, f)| (*r, f.wrapping_mul(factor)));
        let terms = terms.filter(|(_, f)| *f != 0).collect();
        Self { constant: self.constant.wrapping_mul(factor), terms }
    }

    /// Its value, if it has no terms.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// True if code can multiply by its factors.
    pub fn is_small(&self) -> bool {
        self.terms.iter().all(|(_, factor)| i32::try_from(*factor).is_ok())
    }
}

/// Guessed: a number that `1 << log` divides, plus the lanes' own. Code compares the guess with the lanes'
/// values before it relies on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneOffsets {
    /// Logarithm of what divides the common number; 64 if that is zero.
    pub log: u32,
    /// What lanes add, by lane.
    pub steps: [i64; WARP_LANES],
}

/// Proved: lanes' addresses are as far from each other as those of all accesses with the same root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedOffsets {
    /// A number within the block.
    pub root: usize,
    /// Added to the root's addresses.
    pub more: LinearSum,
    /// How many accesses have this root.
    pub uses: usize,
}

/// Proved: no lane's number, taken as unsigned, is above a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InRange {
    /// A register that all lanes have, which the number is added to; `None`: it is the address.
    pub base: Option<Reg>,
    /// The largest number.
    pub max: u64,
    /// Low bits of each number that are zero.
    pub zero_bits: u32,
}

/// What is known of the addresses of an access whose source is a vector or strided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddressShape {
    /// Guessed offsets of the lanes.
    pub guess: Option<Box<LaneOffsets>>,
    /// Accesses that have the same offsets.
    pub shared: Option<SharedOffsets>,
    /// The same of the addresses that a copy reads.
    pub shared_of_source: Option<SharedOffsets>,
    /// A bound.
    pub in_range: Option<InRange>,
}

/// The addresses of a block's accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockAddresses {
    /// By instruction.
    pub shapes: BTreeMap<usize, AddressShape>,
    /// By instruction: what it reads that is a term of a sum, and the term's number.
    pub terms: BTreeMap<usize, Vec<(Reg, usize)>>,
}

impl BlockAddresses {
    /// The shape of an access, to be written.
    pub(crate) fn shape_mut(&mut self, index: usize) -> &mut AddressShape {
        self.shapes.entry(index).or_default()
    }

    /// What an instruction reads that is a term of a sum, and the term's number.
    pub fn terms_at(&self, index: usize) -> &[(Reg, usize)] {
        self.terms.get(&index).map_or(&[], |list| &list[..])
    }
}

impl fmt::Display for LinearSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.constant)?;
        self.terms.iter().try_for_each(|(term, factor)| write!(f, "{factor:+}*t{term}"))
    }
}

impl fmt::Display for AddressShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for SharedOffsets { root, more, uses } in
            [&self.shared, &self.shared_of_source].into_iter().flatten()
        {
            write!(f, "{between}offsets {root} of {uses} from {more}")?;
            between = ", ";
        }
        if let Some(InRange { base, max, zero_bits }) = &self.in_range {
            write!(f, "{between}up to {max} by {}", 1u64 << zero_bits.min(&63))?;
            if let Some(base) = base {
                write!(f, " from s{}", base.0)?;
            }
            between = ", ";
        }
        if let Some(guess) = &self.guess {
            let first = guess.steps[0];
            let stride = guess.steps[1] - first;
            let even = (0..WARP_LANES).all(|n| guess.steps[n] == first + n as i64 * stride);
            match even {
                true => write!(f, "{between}perhaps {stride:+}*lane")?,
                false => write!(f, "{between}perhaps {:?}", guess.steps)?,
            }
        }
        Ok(())
    }
}
