//! NaN demand analysis: where the payload of an f32 NaN is observable, so that it must be the
//! canonical one. Elsewhere canonicalisation is deferred.
//!
//! Most results are read by f32 arithmetic only, to which one NaN is as good as another. Such a
//! register is *lazy*: its NaNs are made canonical only in front of an instruction that could
//! distinguish them, and never if there is none. The interpreter, which reads the register file, sees the
//! same instructions, so this holds between the tiers as well.

use crate::analysis::vector_cfg::mentioned;
use crate::ir::op::{NanClass, Op, Width};
use crate::ir::vector::{Source, StorageClass, VectorFunction, VectorInst};

/// NaN as f32 instructions return it.
pub const NAN: u32 = 0x7fff_ffff;

/// True if the operation's f32 results have no NaN but the canonical one.
fn makes_canonical(op: &Op) -> bool {
    matches!(op.nan_class(), NanClass::Makes(_))
}

/// True if the operation does not distinguish NaNs in its f32 source of a number.
fn is_indifferent(op: &Op, source: usize) -> bool {
    match op.nan_class() {
        NanClass::Makes(from) => source >= from,
        class => class == NanClass::Blind,
    }
}

/// The sources that an instruction passes on as they are, as its first result.
fn passed(inst: &VectorInst) -> &[Source] {
    match inst.op.nan_class() {
        NanClass::Copies(count) => &inst.src[..count],
        _ => &[],
    }
}

/// The sources of which NaNs remain NaNs, though maybe others, as the first result.
fn handed_on(inst: &VectorInst) -> &[Source] {
    match inst.op.nan_class() {
        NanClass::Keeps => &inst.src,
        _ => passed(inst),
    }
}

/// By register: its NaNs are not distinguished, nor those of what they are handed on to.
fn unseen(f: &VectorFunction) -> Vec<bool> {
    let mut unseen = vec![true; f.classes.len()];
    for r in f.blocks.iter().flat_map(|b| mentioned(f, &b.term)) {
        unseen[r.index()] = false;
    }
    loop {
        let mut changed = false;
        for inst in f.prologue.iter().chain(f.blocks.iter().flat_map(|b| &b.insts)) {
            let on = inst.dst.first().is_some_and(|d| unseen[d.reg.index()]);
            let on = if on { handed_on(inst).len() } else { 0 };
            for (i, source) in inst.src.iter().enumerate() {
                if i >= on && !is_indifferent(&inst.op, i) {
                    for r in source.registers() {
                        changed |= std::mem::replace(&mut unseen[r.index()], false);
                    }
                }
            }
        }
        if !changed {
            return unseen;
        }
    }
}

/// By register: its NaNs may be any.
pub fn nan_deferred(f: &VectorFunction) -> Vec<bool> {
    let unseen = unseen(f);
    let mut nan_deferred: Vec<bool> = f
        .storage
        .iter()
        .zip(&f.classes)
        .map(|(storage, class)| {
            *storage == StorageClass::Vector && class.width() == Some(Width::W32)
        })
        .collect();
    for d in f.prologue.iter().flat_map(|i| &i.dst) {
        nan_deferred[d.reg.index()] = false;
    }
    loop {
        let mut changed = false;
        for inst in f.blocks.iter().flat_map(|b| &b.insts) {
            let canonical = |s: &Source| match s {
                Source::Imm(v) => {
                    let bits = *v as u32;
                    bits & 0x7fff_ffff <= 0x7f80_0000 || bits == NAN
                }
                Source::Vector(r) => nan_deferred[r.index()],
                _ => false,
            };
            let copies = passed(inst);
            let good = !inst.uniform
                && (makes_canonical(&inst.op)
                    || !copies.is_empty() && copies.iter().all(canonical));
            if !good {
                for d in inst.dst.iter().filter(|d| !unseen[d.reg.index()]) {
                    changed |= std::mem::replace(&mut nan_deferred[d.reg.index()], false);
                }
            }
        }
        if !changed {
            break;
        }
    }
    let made = computed(f, &nan_deferred);
    (0..nan_deferred.len()).map(|r| nan_deferred[r] && (unseen[r] || made[r])).collect()
}

/// By register: it holds, maybe by way of copies, what some instruction has computed. What only has
/// copies of constants has no NaNs to look after.
fn computed(f: &VectorFunction, nan_deferred: &[bool]) -> Vec<bool> {
    let mut computed = vec![false; f.classes.len()];
    loop {
        let mut changed = false;
        for inst in f.blocks.iter().flat_map(|b| &b.insts) {
            let from =
                |s: &Source| s.registers().any(|r| nan_deferred[r.index()] && computed[r.index()]);
            if makes_canonical(&inst.op) || passed(inst).iter().any(from) {
                for d in &inst.dst {
                    changed |= !std::mem::replace(&mut computed[d.reg.index()], true);
                }
            }
        }
        if !changed {
            return computed;
        }
    }
}

/// Lazy registers that the instruction would distinguish.
pub fn exposed<'a>(
    nan_deferred: &'a [bool],
    inst: &'a VectorInst,
) -> impl Iterator<Item = crate::ir::Reg> + 'a {
    let to_lazy = inst.dst.first().is_some_and(|d| nan_deferred[d.reg.index()]);
    let on = if to_lazy { handed_on(inst).len() } else { 0 };
    inst.src.iter().enumerate().filter_map(move |(i, s)| match s {
        Source::Vector(r) if nan_deferred[r.index()] && i >= on => {
            (!is_indifferent(&inst.op, i)).then_some(*r)
        }
        _ => None,
    })
}
