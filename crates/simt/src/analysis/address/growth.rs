//! Growing addresses: how the loads of a loop that runs lane by lane can be checked, and how often it runs.
//!
//! An address that grows by a constant is checked for many iterations at once: the loop counts
//! down how many are left until one of them would leave its range. One that is a sum of a value
//! that all lanes have and one of the lane is checked by comparing the latter with the room behind
//! the former, which is computed in front of the loop; where the lane's is an index times the size
//! of an element, the index is compared, and the processor multiplies and adds ([`Scaled`]). Others
//! are compared with start and end.

use crate::ir::Reg;
use crate::ir::op::{Compare, CompareType, IntOp, Op, Width};
use crate::ir::vector::{Source, StorageClass, VectorFunction, VectorInst};
use std::collections::BTreeMap;

/// Words of the stack that checks can have.
pub const WORDS_MAX: usize = 14;
/// Longest constant by which an address grows, bytes.
const STEP_MAX: i64 = 1 << 20;
/// Bytes that accesses of one growing address may lie apart.
const SPREAD_MAX: i64 = 1 << 12;

/// How a load is checked. Numbers are of words on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// With all others of the growing address.
    Linear,
    /// A lane's value must be below a word: the room behind what all lanes have.
    Offset {
        /// What all lanes have.
        base: Reg,
        /// The lane's.
        lane: Reg,
        /// The instruction that adds them up.
        sum: usize,
        /// The lane's value is a multiple of the access's size.
        multiple: bool,
        /// The word.
        word: usize,
        /// It is an index that no other instruction needs widened.
        scaled: Option<Scaled>,
    },
    /// The distance from one word must be below the next one.
    Any {
        /// The first.
        word: usize,
    },
}

/// The product of an index and a power of two that is nothing but a part of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// The instruction that makes the product.
    pub made: usize,
    /// Logarithm of the factor, at most 3.
    pub log: u32,
    /// The index is sign-extended.
    pub signed: bool,
    /// The load of the index, if it does nothing else.
    pub load: Option<usize>,
}

/// An address that grows by a constant, and the bytes accessed from there in one iteration.
#[derive(Clone, Debug)]
pub struct Linear {
    /// The register.
    pub address: Reg,
    /// A power of two.
    pub step: i64,
    /// From the address to the first byte.
    pub low: i64,
    /// From the address to behind the last byte.
    pub high: i64,
    /// The largest access.
    pub align: i64,
    /// The first of its loads.
    pub first: usize,
    /// Two words: the lowest address of an iteration's first byte, and the room from there, or 0.
    pub word: usize,
}

/// A source as one lane sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// Its own value.
    Lane(Reg),
    /// That of all lanes.
    Uniform(Reg),
    /// A constant.
    Constant(u64),
}

/// A source as one lane sees it; `None` if it is affine or a mask.
pub fn own(f: &VectorFunction, source: Source) -> Option<Own> {
    match source {
        Source::Imm(v) => Some(Own::Constant(v)),
        Source::Vector(r) | Source::Scalar(r) | Source::Affine(r, 0) => {
            match f.storage[r.index()] {
                StorageClass::Vector => Some(Own::Lane(r)),
                StorageClass::Scalar | StorageClass::ScalarAndVector => Some(Own::Uniform(r)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Address, offset and size of a load.
fn load(f: &VectorFunction, inst: &VectorInst) -> Option<(Reg, i64, i64)> {
    let Op::Load(access) = inst.op else { return None };
    let (Some(Own::Lane(address)), Source::Imm(offset)) = (own(f, inst.src[0]), inst.src[1]) else {
        return None;
    };
    Some((address, offset as i64, i64::from(access.bytes)))
}

/// The only instruction of a block that writes a register.
fn definition(f: &VectorFunction, block: usize, r: Reg) -> Option<usize> {
    let insts = f.blocks[block].insts.iter().enumerate();
    let mut found = insts.filter(|(_, i)| i.dst.iter().any(|d| d.reg == r)).map(|(at, _)| at);
    found.next().filter(|_| found.next().is_none())
}

/// True if some instruction of a block writes a register.
fn is_written(f: &VectorFunction, block: usize, r: Reg) -> bool {
    f.blocks[block].insts.iter().any(|i| i.dst.iter().any(|d| d.reg == r))
}

/// The two sides of a sum of 64 bits.
fn sum(f: &VectorFunction, inst: &VectorInst) -> Option<(Own, Own)> {
    match inst.op {
        Op::Int(IntOp::Add, ty) if ty.width() == Width::W64 => {
            Some((own(f, inst.src[0])?, own(f, inst.src[1])?))
        }
        _ => None,
    }
}

/// Where an address grows, and by how much.
fn growth(f: &VectorFunction, block: usize, address: Reg) -> Option<(usize, i64)> {
    let at = definition(f, block, address)?;
    let step = match sum(f, &f.blocks[block].insts[at])? {
        (Own::Lane(r), Own::Constant(v)) | (Own::Constant(v), Own::Lane(r)) if r == address => v,
        _ => return None,
    } as i64;
    ((1..=STEP_MAX).contains(&step) && step.count_ones() == 1).then_some((at, step))
}

/// The power of two that a register's value is a multiple of, by the only instruction that writes
/// it.
fn multiple(f: &VectorFunction, block: usize, r: Reg) -> i64 {
    let Some(at) = definition(f, block, r) else { return 1 };
    let inst = &f.blocks[block].insts[at];
    let bits = match (&inst.op, inst.src.get(1)) {
        (Op::Int(IntOp::MulWide, _), Some(Source::Imm(v))) => (*v as u32).trailing_zeros(),
        (Op::Int(IntOp::Shl, _), Some(Source::Imm(v))) => u32::try_from(*v).unwrap_or(63),
        _ => 0,
    };
    1 << bits.min(31)
}

/// A check of a load by what is added to a value that all lanes have.
fn offset(f: &VectorFunction, block: usize, at: usize, word: usize) -> Option<Check> {
    let insts = &f.blocks[block].insts;
    let (address, _, bytes) = load(f, &insts[at])?;
    let made = definition(f, block, address).filter(|made| *made < at)?;
    let (base, lane) = match sum(f, &insts[made])? {
        (Own::Uniform(base), Own::Lane(lane)) | (Own::Lane(lane), Own::Uniform(base)) => {
            (base, lane)
        }
        _ => return None,
    };
    // The same in the sum and at the load.
    let early = definition(f, block, lane).is_some_and(|d| d < made);
    if !early && is_written(f, block, lane) {
        return None;
    }
    let multiple = multiple(f, block, lane) % bytes == 0;
    let alone =
        early && multiple && is_read_once(f, block, address) && is_read_once(f, block, lane);
    let scaled = if alone { scaled(f, block, lane) } else { None };
    Some(Check::Offset { base, lane, sum: made, multiple, word, scaled })
}

/// True if one instruction reads a register, once, and nothing behind the block or in its next run.
fn is_read_once(f: &VectorFunction, block: usize, r: Reg) -> bool {
    let insts = &f.blocks[block].insts;
    let read = insts.iter().flat_map(|i| &i.src).flat_map(|s| s.registers()).filter(|s| *s == r);
    let live = crate::analysis::vector_cfg::successors(&f.blocks[block].term)
        .into_iter()
        .any(|b| f.blocks[b].live_in.contains(&r));
    read.count() == 1 && !live
}

/// The product that a register is, if it is one of an index and a small power of two.
fn scaled(f: &VectorFunction, block: usize, product: Reg) -> Option<Scaled> {
    let insts = &f.blocks[block].insts;
    let made = definition(f, block, product)?;
    let Op::Int(IntOp::MulWide, ty) = insts[made].op else { return None };
    let (Own::Lane(index), Source::Imm(factor)) = (own(f, insts[made].src[0])?, insts[made].src[1])
    else {
        return None;
    };
    let log = (factor as u32).trailing_zeros();
    if factor as u32 != 1 << log || log > 3 {
        return None;
    }
    let load = definition(f, block, index).filter(|load| {
        let whole = matches!(insts[*load].op, Op::Load(a) if a.bytes == 4 && a.width == Width::W32);
        whole && *load < made && is_read_once(f, block, index)
    });
    Some(Scaled { made, log, signed: ty.signed(), load })
}

/// Indices that are loaded as numbers of 64 bits, and whether they are signed.
pub fn widened(
    f: &VectorFunction,
    block: usize,
    checks: &BTreeMap<usize, Check>,
) -> BTreeMap<Reg, bool> {
    let scaled = checks.values().filter_map(|check| match check {
        Check::Offset { scaled, .. } => *scaled,
        _ => None,
    });
    scaled.filter_map(|s| Some((f.blocks[block].insts[s.load?].dst[0].reg, s.signed))).collect()
}

/// Gives up on indices that the processor multiplies.
pub fn unscale(checks: &mut BTreeMap<usize, Check>) {
    for check in checks.values_mut() {
        if let Check::Offset { scaled, .. } = check {
            *scaled = None;
        }
    }
}

/// How often a loop runs that ends where a number that grows comes to another.
#[derive(Clone, Copy, Debug)]
pub struct TripCount {
    /// Logarithm of the constant by which the number grows.
    pub log: u32,
    /// The numbers are signed.
    pub signed: bool,
}

/// How often a loop runs, if lanes go back while a number of 32 bits that grows before it is
/// compared is below one that stays; `compare` is the comparison.
pub fn trips(f: &VectorFunction, block: usize, compare: usize, back_if: bool) -> Option<TripCount> {
    let insts = &f.blocks[block].insts;
    let Op::Setp(how, CompareType::Int(ty)) = insts[compare].op else { return None };
    let below = (how == Compare::Lt && back_if) || (how == Compare::Ge && !back_if);
    let Own::Lane(number) = own(f, insts[compare].src[0])? else { return None };
    let stays = match own(f, insts[compare].src[1])? {
        Own::Lane(r) => !is_written(f, block, r),
        Own::Uniform(_) | Own::Constant(_) => true,
    };
    let at = definition(f, block, number).filter(|at| *at < compare)?;
    let step = match (&insts[at].op, own(f, insts[at].src[0])?, insts[at].src.get(1)) {
        (Op::Int(IntOp::Add, of), Own::Lane(r), Some(Source::Imm(v)))
            if r == number && of.width() == Width::W32 =>
        {
            *v as u32
        }
        _ => return None,
    };
    let fits = below && stays && ty.width() == Width::W32;
    (fits && step.is_power_of_two() && step < 1 << 16)
        .then_some(TripCount { log: step.trailing_zeros(), signed: ty.signed() })
}

/// How all loads of a loop are checked; `None` if there are too many.
pub fn checks(f: &VectorFunction, block: usize) -> Option<(BTreeMap<usize, Check>, Vec<Linear>)> {
    let (mut checks, mut linear, mut words) = (BTreeMap::new(), Vec::<Linear>::new(), 0);
    for (at, inst) in f.blocks[block].insts.iter().enumerate() {
        let Some((address, offset_of_load, bytes)) = load(f, inst) else { continue };
        if let Some((grows, step)) = growth(f, block, address) {
            let from = offset_of_load + if at > grows { step } else { 0 };
            let (low, high) = (from, from + bytes);
            let one = Linear { address, step, low, high, align: bytes, first: at, word: words };
            let before = linear.len();
            if take(&mut linear, one) {
                words += 2 * (linear.len() - before);
                checks.insert(at, Check::Linear);
                continue;
            }
        }
        let check = offset(f, block, at, words).unwrap_or(Check::Any { word: words });
        words += if matches!(check, Check::Any { .. }) { 2 } else { 1 };
        checks.insert(at, check);
    }
    (words <= WORDS_MAX).then_some((checks, linear))
}

/// Takes an access in among those of its address, if it is near and aligned where they are.
fn take(all: &mut Vec<Linear>, one: Linear) -> bool {
    if one.step % one.align != 0 {
        return false;
    }
    let Some(with) = all.iter_mut().find(|l| l.address == one.address) else {
        all.push(one);
        return true;
    };
    let (low, high) = (with.low.min(one.low), with.high.max(one.high));
    let align = with.align.max(one.align);
    // Aligned at the lowest byte, all are.
    let aligned = (one.low - low) % one.align == 0 && (with.low - low) % with.align == 0;
    let fits = aligned && with.step % align == 0 && high - low <= SPREAD_MAX;
    if fits {
        (with.low, with.high, with.align) = (low, high, align);
    }
    fits
}
