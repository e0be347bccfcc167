//! Bounds checks of the loads in a scalarised loop.
//!
//! An address that grows by a constant is checked for many iterations at once: the loop counts
//! down how many are left until one of them would leave its range. One that is a sum of a value
//! that all lanes have and one of the lane is checked by comparing the latter with the room behind
//! the former, which is computed in front of the loop; where the lane's is an index times the size
//! of an element, the index is compared, and the processor multiplies and adds ([`Scaled`]). Others
//! are compared with start and end.

use crate::scalarize::own::{Own, own};
use iced_x86::Code;
use simt::ir::Reg;
use simt::ir::op::{Compare, CompareType, IntOp, Op, Width};
use simt::ir::vector::{Source, VectorFunction, VectorInst};
use std::collections::BTreeMap;

/// Words of the stack that checks can have.
pub(crate) const WORDS_MAX: usize = 14;
/// Longest constant by which an address grows, bytes.
const STEP_MAX: i64 = 1 << 20;
/// Bytes that accesses of one growing address may lie apart.
const SPREAD_MAX: i64 = 1 << 12;

/// How a load is checked. Numbers are of words on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
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
pub(crate) struct Scaled {
    /// The instruction that makes the product.
    pub(crate) made: usize,
    /// Logarithm of the factor, at most 3.
    pub(crate) log: u32,
    pub(crate) signed: bool,
    /// The load of the index, if it does nothing else.
    pub(crate) load: Option<usize>,
}

/// An address that grows by a constant, and the bytes accessed from there in one iteration.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    pub(crate) address: Reg,
    /// A power of two.
    pub(crate) step: i64,
    pub(crate) low: i64,
    pub(crate) high: i64,
    /// The largest access.
    pub(crate) align: i64,
    /// The first of its loads.
    pub(crate) first: usize,
    /// Two words: the lowest address of an iteration's first byte, and the room from there, or 0.
    pub(crate) word: usize,
}

/// The jump where a comparison of integers holds.
pub(crate) fn condition(compare: Compare, signed: bool) -> Option<Code> {
    Some(match (compare, signed) {
        (Compare::Eq, _) => Code::Je_rel32_64,
        (Compare::Ne, _) => Code::Jne_rel32_64,
        (Compare::Lt, true) => Code::Jl_rel32_64,
        (Compare::Le, true) => Code::Jle_rel32_64,
        (Compare::Gt, true) => Code::Jg_rel32_64,
        (Compare::Ge, true) => Code::Jge_rel32_64,
        (Compare::Lt, false) => Code::Jb_rel32_64,
        (Compare::Le, false) => Code::Jbe_rel32_64,
        (Compare::Gt, false) => Code::Ja_rel32_64,
        (Compare::Ge, false) => Code::Jae_rel32_64,
        _ => return None,
    })
}

/// The opposite of a comparison of integers.
pub(crate) fn opposite(compare: Compare) -> Compare {
    match compare {
        Compare::Eq => Compare::Ne,
        Compare::Ne => Compare::Eq,
        Compare::Lt => Compare::Ge,
        Compare::Le => Compare::Gt,
        Compare::Gt => Compare::Le,
        Compare::Ge => Compare::Lt,
        other => other,
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
    let live = crate::analysis::use_weights::successors(&f.blocks[block].term)
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
pub(crate) fn widened(
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
pub(crate) fn unscale(checks: &mut BTreeMap<usize, Check>) {
    for check in checks.values_mut() {
        if let Check::Offset { scaled, .. } = check {
            *scaled = None;
        }
    }
}

/// How often a loop runs that ends where a number that grows comes to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TripCount {
    /// Logarithm of the constant by which the number grows.
    pub(crate) log: u32,
    /// The numbers are signed.
    pub(crate) signed: bool,
}

/// How often a loop runs, if lanes go back while a number of 32 bits that grows before it is
/// compared is below one that stays; `compare` is the comparison.
pub(crate) fn trips(
    f: &VectorFunction,
    block: usize,
    compare: usize,
    back_if: bool,
) -> Option<TripCount> {
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
pub(crate) fn checks(
    f: &VectorFunction,
    block: usize,
) -> Option<(BTreeMap<usize, Check>, Vec<Linear>)> {
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
