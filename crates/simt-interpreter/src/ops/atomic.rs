//! Atomics (read-modify-writes).
//!
//! Device memory is shared with other workers and the host, so these are the processor's own
//! atomics, or compare-and-swap loops around what it lacks. Lanes go one after the other in the
//! order of their numbers. Shared and local memory use the same code: uncontended, it is cheap.

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::half;
use crate::ops::map::{Body, Lane, Rare, Target, active, versions};
use crate::ops::memory::{Checked, lanes, locate_lanes};
use crate::processor::{exchange_16, has_exchange_16};
use simt::ir::op::{AtomOp, AtomType, Space};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};

/// Where a word is that is aligned and may be read and written, until the instruction ends.
#[derive(Clone, Copy)]
pub(crate) struct Cell<W>(*mut W);

impl<W> Cell<W> {
    /// The word that memory is; `None` if it is none that can be updated.
    pub(crate) fn of(memory: Checked) -> Option<Self> {
        memory.holds::<W>().then_some(Self(memory.pointer().cast()))
    }
}

/// A word that can be updated atomically.
pub(crate) trait Word: Lane + PartialEq {
    /// Replaces a word by `f` of it; returns the old value.
    fn update(at: Cell<Self>, f: impl Fn(Self) -> Self) -> Self;
}

macro_rules! words {
    ($($ty:ty, $atomic:ty;)*) => {
        $(impl Cell<$ty> {
            #[inline(always)]
            fn atomic(&self) -> &$atomic {
                // SAFETY: it is a word that can be updated; other accesses to device memory are atomic or
                // racing by the program's own doing.
                unsafe { <$atomic>::from_ptr(self.0) }
            }
        }

        impl Word for $ty {
            #[inline(always)]
            fn update(at: Cell<Self>, f: impl Fn(Self) -> Self) -> Self {
                let word = at.atomic();
                let mut old = word.load(SeqCst);
                loop {
                    match word.compare_exchange_weak(old, f(old), SeqCst, SeqCst) {
                        Ok(old) => return old,
                        Err(now) => old = now,
                    }
                }
            }
        })*
    };
}
words! {
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

impl Word for u128 {
    fn update(at: Cell<Self>, f: impl Fn(Self) -> Self) -> Self {
        // SAFETY: it is a word that can be updated; `visit` gives this only where the processor has it.
        let exchange = |old, new| unsafe { exchange_16(at.0, old, new) };
        let mut old = exchange(0, 0);
        loop {
            let now = exchange(old, f(old));
            if now == old {
                return old;
            }
            old = now;
        }
    }
}

/// One lane's operation: from the old value and two operands to the new value.
pub(crate) trait Operation: 'static {
    /// What it works on.
    type Word: Word;
    /// The new value.
    fn apply(old: Self::Word, b: Self::Word, c: Self::Word) -> Self::Word;
    /// Does it.
    #[inline(always)]
    fn run(at: Cell<Self::Word>, b: Self::Word, c: Self::Word) -> Self::Word {
        Self::Word::update(at, |old| Self::apply(old, b, c))
    }
}

struct Atom<O, const RETURNS: bool>(PhantomData<O>);

impl<O: Operation, const RETURNS: bool> Body for Atom<O, RETURNS> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        each_lane(machine, ins, RETURNS, |_, at, b, c| O::run(at, b, c))
    }
}

/// Sums of f32 where addresses lead: subnormals stay in the block's shared memory alone.
struct AddGeneric<const RETURNS: bool>;

impl<const RETURNS: bool> Body for AddGeneric<RETURNS> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        each_lane(machine, ins, RETURNS, |machine, at, b, c| {
            let offset = (at.0 as u64).wrapping_sub(machine.shared as u64);
            match offset < machine.shared_bytes {
                true => AddF32::run(at, b, c),
                false => AddF32Ftz::run(at, b, c),
            }
        })
    }
}

/// Calls `update` with the place of each lane's word and its two operands; the old values are the
/// results.
#[inline(always)]
fn each_lane<W: Lane>(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    returns: bool,
    update: impl Fn(&HandlerContext<'_>, Cell<W>, W, W) -> W,
) -> Step {
    let m = active(machine, ins);
    if m == 0 {
        return Step::Next;
    }
    let found = match locate_lanes(machine, ins, m, size_of::<W>() as u64, true) {
        Ok(found) => found,
        Err(step) => return step,
    };
    for lane in lanes(m) {
        let b = machine.regs.lane(ins.a[1], lane);
        let c = machine.regs.lane(ins.a[2], lane);
        // Every word was checked, and that it is aligned.
        let Some(cell) = Cell::of(found.of(lane)) else { continue };
        let old = update(machine, cell, b, c);
        if returns {
            machine.regs.set_lane(ins.d[0], lane, old);
        }
    }
    Step::Next
}

macro_rules! operations {
    ($($name:ident: $word:ty = |$old:ident, $b:ident, $c:ident| $new:expr;)*) => {
        $(struct $name;
        impl Operation for $name {
            type Word = $word;
            #[inline(always)]
            fn apply($old: $word, $b: $word, $c: $word) -> $word {
                let _ = ($old, $b, $c);
                $new
            }
        })*
    };
}

/// Operations that the processor does in one instruction.
macro_rules! native {
    ($($name:ident: $word:ty, $method:ident;)*) => {
        $(struct $name;
        impl Operation for $name {
            type Word = $word;
            fn apply(_: $word, b: $word, _: $word) -> $word {
                b
            }
            #[inline(always)]
            fn run(at: Cell<$word>, b: $word, _: $word) -> $word {
                at.atomic().$method(b, SeqCst)
            }
        })*
    };
}

native! {
    Add32: u32, fetch_add;
    Exch32: u32, swap;
    And32: u32, fetch_and;
    Or32: u32, fetch_or;
    Xor32: u32, fetch_xor;
    Add64: u64, fetch_add;
    Exch64: u64, swap;
    And64: u64, fetch_and;
    Or64: u64, fetch_or;
    Xor64: u64, fetch_xor;
    Exch16: u16, swap;
}

#[inline(always)]
fn add_f32(a: u32, b: u32) -> u32 {
    let r = f32::from_bits(a) + f32::from_bits(b);
    if r.is_nan() { 0x7fff_ffff } else { r.to_bits() }
}

#[inline(always)]
fn add_f32_flushing(a: u32, b: u32) -> u32 {
    let flush = |x: u32| if x & 0x7f80_0000 == 0 { x & 0x8000_0000 } else { x };
    flush(add_f32(flush(a), flush(b)))
}

#[inline(always)]
fn add_f16(a: u16, b: u16) -> u16 {
    half::narrow16(half::widen16(a) + half::widen16(b))
}

#[inline(always)]
fn add_b16(a: u16, b: u16) -> u16 {
    half::narrow_b16(half::widen_b16(a) + half::widen_b16(b))
}

#[inline(always)]
fn pairwise(a: u32, b: u32, f: fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

operations! {
    MinU32: u32 = |old, b, c| old.min(b);
    MaxU32: u32 = |old, b, c| old.max(b);
    MinS32: u32 = |old, b, c| (old as i32).min(b as i32) as u32;
    MaxS32: u32 = |old, b, c| (old as i32).max(b as i32) as u32;
    MinU64: u64 = |old, b, c| old.min(b);
    MaxU64: u64 = |old, b, c| old.max(b);
    MinS64: u64 = |old, b, c| (old as i64).min(b as i64) as u64;
    MaxS64: u64 = |old, b, c| (old as i64).max(b as i64) as u64;
    Inc: u32 = |old, b, c| if old >= b { 0 } else { old + 1 };
    Dec: u32 = |old, b, c| if old == 0 || old > b { b } else { old - 1 };
    Cas16: u16 = |old, b, c| if old == b { c } else { old };
    Cas32: u32 = |old, b, c| if old == b { c } else { old };
    Cas64: u64 = |old, b, c| if old == b { c } else { old };
    Cas128: u128 = |old, b, c| if old == b { c } else { old };
    Exch128: u128 = |old, b, c| b;
    AddF32: u32 = |old, b, c| add_f32(old, b);
    AddF32Ftz: u32 = |old, b, c| add_f32_flushing(old, b);
    AddF64: u64 = |old, b, c| (f64::from_bits(old) + f64::from_bits(b)).to_bits();
    AddF16: u16 = |old, b, c| add_f16(old, b);
    AddB16: u16 = |old, b, c| add_b16(old, b);
    AddF16x2: u32 = |old, b, c| pairwise(old, b, add_f16);
    AddB16x2: u32 = |old, b, c| pairwise(old, b, add_b16);
    MinF16: u16 = |old, b, c| half::least(old, b, false);
    MaxF16: u16 = |old, b, c| half::largest(old, b, false);
    MinB16: u16 = |old, b, c| half::least(old, b, true);
    MaxB16: u16 = |old, b, c| half::largest(old, b, true);
    MinF16x2: u32 = |old, b, c| pairwise(old, b, |a, b| half::least(a, b, false));
    MaxF16x2: u32 = |old, b, c| pairwise(old, b, |a, b| half::largest(a, b, false));
    MinB16x2: u32 = |old, b, c| pairwise(old, b, |a, b| half::least(a, b, true));
    MaxB16x2: u32 = |old, b, c| pairwise(old, b, |a, b| half::largest(a, b, true));
}

/// Something that is done with an operation found by name.
pub(crate) trait Visitor {
    /// What comes of it.
    type Made;
    /// Does it.
    fn visit<O: Operation>(self) -> Self::Made;
}

/// The handler of a read-modify-write; `None` if there is no such form.
pub(crate) fn handler(op: AtomOp, ty: AtomType, space: Space, returns: bool) -> Option<Handler> {
    if (op, ty, space) == (AtomOp::Add, AtomType::F32, Space::Generic) {
        let t = Rare(Target::Baseline);
        return Some(match returns {
            true => versions::<AddGeneric<true>, AddGeneric<true>>(t),
            false => versions::<AddGeneric<false>, AddGeneric<false>>(t),
        });
    }
    struct Atoms {
        returns: bool,
    }
    impl Visitor for Atoms {
        type Made = Handler;
        fn visit<O: Operation>(self) -> Handler {
            let t = Rare(Target::Baseline);
            if self.returns {
                versions::<Atom<O, true>, Atom<O, true>>(t)
            } else {
                versions::<Atom<O, false>, Atom<O, false>>(t)
            }
        }
    }
    visit(op, ty, Atoms { returns })
}

/// What the visitor makes of an operation on a type; `None` if there is no such form.
pub(crate) fn visit<V: Visitor>(op: AtomOp, ty: AtomType, visitor: V) -> Option<V::Made> {
    use AtomOp as A;
    use AtomType as T;
    macro_rules! of {
        ($o:ty) => {
            visitor.visit::<$o>()
        };
    }
    if ty == T::B128 && !has_exchange_16() {
        return None;
    }
    Some(match (op, ty) {
        (A::Add, T::U32 | T::S32) => of!(Add32),
        (A::Add, T::U64 | T::S64) => of!(Add64),
        (A::Add, T::F32) => of!(AddF32),
        (A::Add, T::F32Ftz) => of!(AddF32Ftz),
        (A::Add, T::F64) => of!(AddF64),
        (A::Add, T::F16) => of!(AddF16),
        (A::Add, T::BF16) => of!(AddB16),
        (A::Add, T::F16x2) => of!(AddF16x2),
        (A::Add, T::BF16x2) => of!(AddB16x2),
        (A::Min, T::F16) => of!(MinF16),
        (A::Max, T::F16) => of!(MaxF16),
        (A::Min, T::BF16) => of!(MinB16),
        (A::Max, T::BF16) => of!(MaxB16),
        (A::Min, T::F16x2) => of!(MinF16x2),
        (A::Max, T::F16x2) => of!(MaxF16x2),
        (A::Min, T::BF16x2) => of!(MinB16x2),
        (A::Max, T::BF16x2) => of!(MaxB16x2),
        (A::Min, T::U32) => of!(MinU32),
        (A::Max, T::U32) => of!(MaxU32),
        (A::Min, T::S32) => of!(MinS32),
        (A::Max, T::S32) => of!(MaxS32),
        (A::Min, T::U64) => of!(MinU64),
        (A::Max, T::U64) => of!(MaxU64),
        (A::Min, T::S64) => of!(MinS64),
        (A::Max, T::S64) => of!(MaxS64),
        (A::Inc, T::U32) => of!(Inc),
        (A::Dec, T::U32) => of!(Dec),
        (A::And, T::U32) => of!(And32),
        (A::Or, T::U32) => of!(Or32),
        (A::Xor, T::U32) => of!(Xor32),
        (A::And, T::U64) => of!(And64),
        (A::Or, T::U64) => of!(Or64),
        (A::Xor, T::U64) => of!(Xor64),
        (A::Exch, T::B16) => of!(Exch16),
        (A::Exch, T::U32) => of!(Exch32),
        (A::Exch, T::U64) => of!(Exch64),
        (A::Exch, T::B128) => of!(Exch128),
        (A::Cas, T::B16) => of!(Cas16),
        (A::Cas, T::U32) => of!(Cas32),
        (A::Cas, T::U64) => of!(Cas64),
        (A::Cas, T::B128) => of!(Cas128),
        _ => return None,
    })
}
