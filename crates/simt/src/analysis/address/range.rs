//! Ranges of addresses: offsets that have a known upper bound (a mask, a shift, a narrow load), as in
//! look-up tables and histograms, so that one check does for a warp.
//!
//! Only instructions of the block at hand, in front of the access, are asked: they have run for
//! every lane that comes to it. What a register holds that was never written is anything.

use crate::analysis::vector_cfg::{PROLOGUE, Writers};
use crate::ir::Reg;
use crate::ir::address::InRange;
use crate::ir::op::{IntOp, IntType, Op, Space, Width};
use crate::ir::vector::{Source, StorageClass, VectorFunction, VectorInst};

/// Instructions followed back from an address: indices are made by few.
const DEPTH_MAX: u32 = 8;
/// No bound beyond this is of use: code compares with numbers of 32 bits.
const MAX: u64 = i32::MAX as u64;

/// What is known of the numbers that lanes hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    /// None is above this, taken as unsigned.
    max: u64,
    /// A number of low bits of each are zero.
    zero_bits: u32,
}

/// The largest number of `bits` bits.
fn largest(bits: u32) -> u64 {
    u64::MAX >> (64 - bits.clamp(1, 64))
}

impl Bound {
    /// Any numbers of a width.
    fn any(width: Width) -> Self {
        Self { max: largest(width.bits()), zero_bits: 0 }
    }

    /// The larger bound's number of a width, or any, if the operation may have left the width.
    fn within(max: Option<u64>, zero_bits: u32, width: Width) -> Self {
        let any = Self::any(width).max;
        Self { max: max.filter(|m| *m <= any).unwrap_or(any), zero_bits: zero_bits.min(64) }
    }
}

/// What is known of an instruction's addresses.
pub(super) fn of_address(
    f: &VectorFunction,
    writers: &Writers,
    at: (usize, usize),
    inst: &VectorInst,
) -> Option<InRange> {
    let Some(Source::Vector(r)) = inst.src.first() else { return None };
    let bounds = Bounds { f, writers, block: at.0 };
    let (base, bound) = match inst.op.address_space()? {
        Space::Shared => (None, bounds.of(Source::Vector(*r), Width::W32, at.1, 0)),
        _ => bounds.indexed(*r, at.1)?,
    };
    let Bound { max, zero_bits } = bound;
    (max <= MAX).then_some(InRange { base, max, zero_bits })
}

/// The block at hand.
struct Bounds<'a> {
    f: &'a VectorFunction,
    writers: &'a Writers,
    block: usize,
}

impl Bounds<'_> {
    /// A 64-bit register that is the sum of a number that all lanes have and one of which something is
    /// known.
    fn indexed(&self, r: Reg, before: usize) -> Option<(Option<Reg>, Bound)> {
        let (at, inst) = self.written_here(r, before)?;
        let (Op::Int(IntOp::Add, ty), [a, b]) = (&inst.op, &inst.src[..]) else { return None };
        [(a, b), (b, a)].into_iter().find_map(|(base, index)| {
            let (Source::Scalar(base) | Source::Vector(base)) = base else { return None };
            let one = matches!(
                self.f.storage[base.index()],
                StorageClass::Scalar | StorageClass::ScalarAndVector
            );
            let bound = self.of(*index, Width::W64, at, 0);
            (ty.width() == Width::W64 && one && bound.max <= MAX).then_some((Some(*base), bound))
        })
    }

    /// The instruction of this block, in front of another, that alone writes a register.
    fn written_here(&self, r: Reg, before: usize) -> Option<(usize, &VectorInst)> {
        let (block, index) = self.writers[r.index()]?;
        let here = block == self.block && block != PROLOGUE && index < before;
        here.then(|| (index, &self.f.blocks[block].insts[index]))
    }

    /// What is known of a source's lanes in front of an instruction of the block.
    fn of(&self, source: Source, width: Width, before: usize, depth: u32) -> Bound {
        let any = Bound::any(width);
        let r = match source {
            Source::Imm(v) if v & any.max == 0 => return Bound { max: 0, zero_bits: 64 },
            Source::Imm(v) => {
                return Bound { max: v & any.max, zero_bits: v.trailing_zeros() };
            }
            Source::Vector(r) if depth < DEPTH_MAX => r,
            _ => return any,
        };
        let Some((at, inst)) = self.written_here(r, before) else { return any };
        let source = |i: usize, width| match inst.src.get(i) {
            Some(source) => self.of(*source, width, at, depth + 1),
            None => Bound::any(width),
        };
        match &inst.op {
            Op::Mov(w) => source(0, *w),
            Op::Extend { from, bits, signed, .. } => {
                let kept = largest(u32::from(*bits));
                let bound = source(0, *from);
                match bound.max <= if *signed { kept >> 1 } else { kept } {
                    true => bound,
                    false if *signed => any,
                    false => Bound { max: kept, zero_bits: bound.zero_bits },
                }
            }
            Op::Load(access) if !access.signed && u32::from(access.bytes) < width.bytes() => {
                Bound { max: largest(8 * u32::from(access.bytes)), zero_bits: 0 }
            }
            Op::Int(op, ty) => of_integer(*op, *ty, width, &inst.src, source),
            _ => any,
        }
    }
}

/// What is known of the results, which are so wide, of an operation on integers.
fn of_integer(
    op: IntOp,
    ty: IntType,
    width: Width,
    sources: &[Source],
    bound: impl Fn(usize, Width) -> Bound,
) -> Bound {
    let own = ty.width();
    let constant = |i: usize| match sources.get(i) {
        Some(Source::Imm(v)) => Some(*v & Bound::any(own).max),
        _ => None,
    };
    // The amount of a shift.
    let amount = constant(1).map(|k| k as u32).filter(|k| *k < own.bits());
    // What a signed operation widens or shifts in must not be a sign.
    let positive = |b: Bound| !ty.signed() || b.max <= Bound::any(own).max >> 1;
    let (a, b) = (bound(0, own), bound(1, own));
    match (op, amount) {
        (IntOp::And, _) => Bound { max: a.max.min(b.max), zero_bits: a.zero_bits.max(b.zero_bits) },
        (IntOp::Add, _) => {
            Bound::within(a.max.checked_add(b.max), a.zero_bits.min(b.zero_bits), width)
        }
        (IntOp::MulLo, _) => {
            Bound::within(a.max.checked_mul(b.max), a.zero_bits + b.zero_bits, width)
        }
        (IntOp::MulWide, _) if positive(a) && positive(b) => {
            Bound::within(a.max.checked_mul(b.max), a.zero_bits + b.zero_bits, width)
        }
        (IntOp::Shl, Some(k)) => Bound::within(a.max.checked_mul(1 << k), a.zero_bits + k, width),
        (IntOp::Shr, Some(k)) if positive(a) => {
            Bound { max: a.max >> k, zero_bits: a.zero_bits.saturating_sub(k) }
        }
        // The number of bits that are taken.
        (IntOp::Bfe, _) if !ty.signed() => match constant(2).map(|length| length as u8) {
            Some(0) | None => Bound::any(width),
            Some(length) => Bound { max: largest(length.into()), zero_bits: 0 },
        },
        _ => Bound::any(width),
    }
}
