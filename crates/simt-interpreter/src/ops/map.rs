//! Lane-wise combinators: a closure over one lane becomes a handler over a warp, for each
//! instruction set.
//!
//! A table row gives a closure; [`Target`] gives one of three machine codes of the loop around it:
//! one lane (a uniform value), or 32 lanes compiled for AVX2 or for plain x86-64. LLVM vectorises
//! the loops; nothing here names an instruction set except the attribute. With AVX-512 only what
//! is written for it by hand differs: there tier 1 runs what is hot, and a third machine code of
//! every handler would cost more compile time than it saves.
//!
//! Invariant: handlers write all 32 lanes of their result, active or not. Where an inactive lane
//! must keep its value, the decoder points the result at a scratch register and adds [`blend`].
//! Handlers that write predicates look at mask and guard themselves.

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
pub(crate) use crate::processor::pack_mask;
use crate::processor::{has_avx2, has_avx512};
pub(crate) use crate::register_file::Lane;
use crate::register_file::Operand;
use simt::kernel::WARP_LANES;
use simt::launch_shape::HALF_LANES;
use std::marker::PhantomData;

/// What a handler is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// One value for all lanes.
    Scalar,
    /// 32 lanes, what every processor of the architecture has.
    Baseline,
    /// 32 lanes, AVX2 and FMA.
    Avx2,
    /// 32 lanes as for AVX2, and AVX-512 F, BW, DQ, VL where it is used by hand.
    Avx512,
}

impl Target {
    /// The widest that this processor has.
    pub(crate) fn detect() -> Self {
        if has_avx512() {
            Self::Avx512
        } else if has_avx2() {
            Self::Avx2
        } else {
            Self::Baseline
        }
    }
}

/// The code of a handler, before it is compiled for a target.
pub(crate) trait Body {
    /// Runs it, an instruction that was decoded for the function whose registers the machine has.
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step;
}

fn baseline<B: Body>(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    B::run(machine, ins)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,popcnt,lzcnt")]
fn avx2<B: Body>(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    B::run(machine, ins)
}

/// Which machine codes of a handler exist.
pub(crate) trait Versions: Copy {
    /// The handler of body `B` for a vector target, or of `S` for one lane.
    fn pick<B: Body, S: Body>(self) -> Handler;
}

impl Versions for Target {
    fn pick<B: Body, S: Body>(self) -> Handler {
        match self {
            Self::Scalar => baseline::<S>,
            Self::Baseline => baseline::<B>,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 | Self::Avx512 => avx2::<B>,
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => baseline::<B>,
        }
    }
}

/// For handlers that are rare, or one lane at a time anyway: one machine code for all vector
/// targets. Each more costs compile time and size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rare(pub(crate) Target);

impl Versions for Rare {
    fn pick<B: Body, S: Body>(self) -> Handler {
        match self.0 {
            Target::Scalar => baseline::<S>,
            Target::Baseline | Target::Avx2 | Target::Avx512 => baseline::<B>,
        }
    }
}

/// The handler of body `B` for a vector target, or of `S` for one lane.
pub(crate) fn versions<B: Body, S: Body>(target: impl Versions) -> Handler {
    target.pick::<B, S>()
}

/// A value of a zero-sized closure type, out of nothing: the handler is a plain function and can
/// carry no value, only the type.
#[inline(always)]
fn conjure<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "a handler's closure may not capture") };
    // SAFETY: `F` has no bytes, so any aligned pointer is good for reading it; it is `Copy` and
    // inhabited: every caller was instantiated from a function that was given a value of it.
    unsafe { std::ptr::NonNull::<F>::dangling().as_ptr().read() }
}

/// An array of `f`'s values. Unlike the standard library's it is always inlined, and so compiled
/// for the target of the handler that uses it.
#[inline(always)]
pub(crate) fn each<T: Copy, const N: usize>(f: impl Fn(usize) -> T) -> [T; N] {
    let mut array = [const { std::mem::MaybeUninit::<T>::uninit() }; N];
    let mut i = 0;
    while i < N {
        array[i].write(f(i));
        i += 1;
    }
    // SAFETY: every element was written.
    unsafe { array.as_ptr().cast::<[T; N]>().read() }
}

/// Bits of a lane whose type does not matter.
pub(crate) trait Word: Lane {
    /// `self` if the bit is 1, else `other`. Arithmetic, because a vectoriser turns a choice of
    /// two loads into a gather.
    fn pick(self, other: Self, bit: u32) -> Self;
}

macro_rules! words {
    ($($ty:ty)*) => {
        $(impl Word for $ty {
            #[inline(always)]
            fn pick(self, other: Self, bit: u32) -> Self {
                let m = (0 as $ty).wrapping_sub(<$ty>::from((bit & 1) as u8));
                (self & m) | (other & !m)
            }
        })*
    };
}
words! { u16 u32 u64 u128 }

/// Integers that can be affine values of the lane's number.
pub(crate) trait Formula: Lane {
    /// The value `i` strides on, modulo the width.
    fn step(self, stride: i64, i: usize) -> Self;
}

macro_rules! formulas {
    ($($ty:ty)*) => {
        $(impl Formula for $ty {
            #[inline(always)]
            fn step(self, stride: i64, i: usize) -> Self {
                self.wrapping_add((stride as $ty).wrapping_mul(i as $ty))
            }
        })*
    };
}
formulas! { u16 i16 u32 i32 u64 i64 }

/// Reads a register.
#[inline(always)]
pub(crate) fn read<T: Lane, const N: usize>(machine: &HandlerContext<'_>, at: Operand) -> [T; N] {
    machine.regs.read(at)
}

/// Writes a register.
#[inline(always)]
pub(crate) fn write<T: Lane, const N: usize>(
    machine: &mut HandlerContext<'_>,
    at: Operand,
    lanes: [T; N],
) {
    machine.regs.write(at, lanes);
}

struct Map1<const N: usize, A, D, F>(PhantomData<(A, D, F)>);

impl<const N: usize, A: Lane, D: Lane, F: Fn(A) -> D + Copy> Body for Map1<N, A, D, F> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let f: F = conjure();
        let a = read::<A, N>(machine, ins.a[0]);
        write::<D, N>(machine, ins.d[0], each(|i| f(a[i])));
        Step::Next
    }
}

struct Map2<const N: usize, A, B, D, F>(PhantomData<(A, B, D, F)>);

impl<const N: usize, A: Lane, B: Lane, D: Lane, F: Fn(A, B) -> D + Copy> Body
    for Map2<N, A, B, D, F>
{
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let f: F = conjure();
        let a = read::<A, N>(machine, ins.a[0]);
        let b = read::<B, N>(machine, ins.a[1]);
        write::<D, N>(machine, ins.d[0], each(|i| f(a[i], b[i])));
        Step::Next
    }
}

struct Map3<const N: usize, A, B, C, D, F>(PhantomData<(A, B, C, D, F)>);

impl<const N: usize, A: Lane, B: Lane, C: Lane, D: Lane, F: Fn(A, B, C) -> D + Copy> Body
    for Map3<N, A, B, C, D, F>
{
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let f: F = conjure();
        let a = read::<A, N>(machine, ins.a[0]);
        let b = read::<B, N>(machine, ins.a[1]);
        let c = read::<C, N>(machine, ins.a[2]);
        let d = each(|i| f(a[i], b[i], c[i]));
        write::<D, N>(machine, ins.d[0], d);
        Step::Next
    }
}

/// A handler `d = f(a)`.
pub(crate) fn unary<A: Lane, D: Lane, F: Fn(A) -> D + Copy>(
    target: impl Versions,
    _: F,
) -> Handler {
    versions::<Map1<WARP_LANES, A, D, F>, Map1<1, A, D, F>>(target)
}

/// A handler `d = f(a, b)`.
pub(crate) fn binary<A: Lane, B: Lane, D: Lane, F: Fn(A, B) -> D + Copy>(
    target: impl Versions,
    _: F,
) -> Handler {
    versions::<Map2<WARP_LANES, A, B, D, F>, Map2<1, A, B, D, F>>(target)
}

/// A handler `d = f(a, b, c)`.
pub(crate) fn ternary<A: Lane, B: Lane, C: Lane, D: Lane, F: Fn(A, B, C) -> D + Copy>(
    target: impl Versions,
    _: F,
) -> Handler {
    versions::<Map3<WARP_LANES, A, B, C, D, F>, Map3<1, A, B, C, D, F>>(target)
}

/// What makes NaN results canonical: the bits of f32's, if any lane has one.
///
/// The test is off the path from operands to result, because a processor guesses that there is
/// none; a choice in every lane would be on it. On the bits, because to a compiler one NaN is as
/// good as another: it has been seen to replace `is_nan(sqrt(x)) ? NAN : sqrt(x)` by `sqrt(x)`.
#[inline(always)]
fn canonical<const N: usize>(d: [f32; N]) -> [f32; N] {
    if d.iter().fold(false, |nan, x| nan | x.is_nan()) {
        return each(|i| {
            let bits = d[i].to_bits();
            f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff_ffff } else { bits })
        });
    }
    d
}

struct FloatMap1<const N: usize, F>(PhantomData<F>);
struct FloatMap2<const N: usize, F>(PhantomData<F>);
struct FloatMap3<const N: usize, F>(PhantomData<F>);

impl<const N: usize, F: Fn(f32) -> f32 + Copy> Body for FloatMap1<N, F> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let f: F = conjure();
        let a = read::<f32, N>(machine, ins.a[0]);
        write(machine, ins.d[0], canonical::<N>(each(|i| f(a[i]))));
        Step::Next
    }
}

impl<const N: usize, F: Fn(f32, f32) -> f32 + Copy> Body for FloatMap2<N, F> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let f: F = conjure();
        let a = read::<f32, N>(machine, ins.a[0]);
        let b = read::<f32, N>(machine, ins.a[1]);
        write(machine, ins.d[0], canonical::<N>(each(|i| f(a[i], b[i]))));
        Step::Next
    }
}

impl<const N: usize, F: Fn(f32, f32, f32) -> f32 + Copy> Body for FloatMap3<N, F> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let f: F = conjure();
        let a = read::<f32, N>(machine, ins.a[0]);
        let b = read::<f32, N>(machine, ins.a[1]);
        let c = read::<f32, N>(machine, ins.a[2]);
        write(machine, ins.d[0], canonical::<N>(each(|i| f(a[i], b[i], c[i]))));
        Step::Next
    }
}

/// A handler `d = f(a)` on f32, NaN made canonical.
pub(crate) fn float_unary<F: Fn(f32) -> f32 + Copy>(target: Target, _: F) -> Handler {
    versions::<FloatMap1<WARP_LANES, F>, FloatMap1<1, F>>(target)
}

/// A handler `d = f(a, b)` on f32, NaN made canonical.
pub(crate) fn float_binary<F: Fn(f32, f32) -> f32 + Copy>(target: Target, _: F) -> Handler {
    versions::<FloatMap2<WARP_LANES, F>, FloatMap2<1, F>>(target)
}

/// A handler `d = f(a, b, c)` on f32, NaN made canonical.
pub(crate) fn float_ternary<F: Fn(f32, f32, f32) -> f32 + Copy>(target: Target, _: F) -> Handler {
    versions::<FloatMap3<WARP_LANES, F>, FloatMap3<1, F>>(target)
}

/// Writes a predicate in the active lanes.
#[inline(always)]
pub(crate) fn write_pred(machine: &mut HandlerContext<'_>, ins: &Ins, value: u32) {
    write_pred_at(machine, ins, ins.d[0], value)
}

/// Writes the predicate at `at` in the active lanes.
#[inline(always)]
pub(crate) fn write_pred_at(machine: &mut HandlerContext<'_>, ins: &Ins, at: Operand, value: u32) {
    let m = active(machine, ins);
    let [old] = machine.regs.read::<u32, 1>(at);
    machine.regs.write(at, [(old & !m) | (value & m)]);
}

/// Reads a predicate, all 32 bits.
#[inline(always)]
pub(crate) fn read_pred(machine: &HandlerContext<'_>, at: Operand) -> u32 {
    machine.regs.read::<u32, 1>(at)[0]
}

struct Cmp1<A, F>(PhantomData<(A, F)>);
struct Cmp2<A, F>(PhantomData<(A, F)>);
struct UniformCmp1<A, F>(PhantomData<(A, F)>);
struct UniformCmp2<A, F>(PhantomData<(A, F)>);

impl<A: Lane, F: Fn(A) -> bool + Copy> Body for Cmp1<A, F> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let f: F = conjure();
        let a = read::<A, WARP_LANES>(machine, ins.a[0]);
        let bytes = each(|i| if f(a[i]) { 0xff } else { 0 });
        write_pred(machine, ins, pack_mask(&bytes));
        Step::Next
    }
}

impl<A: Lane, F: Fn(A, A) -> bool + Copy> Body for Cmp2<A, F> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let f: F = conjure();
        let a = read::<A, WARP_LANES>(machine, ins.a[0]);
        let b = read::<A, WARP_LANES>(machine, ins.a[1]);
        let bytes = each(|i| if f(a[i], b[i]) { 0xff } else { 0 });
        write_pred(machine, ins, pack_mask(&bytes));
        Step::Next
    }
}

impl<A: Lane, F: Fn(A) -> bool + Copy> Body for UniformCmp1<A, F> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let f: F = conjure();
        let a = read::<A, 1>(machine, ins.a[0]);
        write_pred(machine, ins, if f(a[0]) { !0 } else { 0 });
        Step::Next
    }
}

impl<A: Lane, F: Fn(A, A) -> bool + Copy> Body for UniformCmp2<A, F> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let f: F = conjure();
        let a = read::<A, 1>(machine, ins.a[0]);
        let b = read::<A, 1>(machine, ins.a[1]);
        write_pred(machine, ins, if f(a[0], b[0]) { !0 } else { 0 });
        Step::Next
    }
}

/// A handler whose result is the predicate `f(a)`.
pub(crate) fn test<A: Lane, F: Fn(A) -> bool + Copy>(target: impl Versions, _: F) -> Handler {
    versions::<Cmp1<A, F>, UniformCmp1<A, F>>(target)
}

/// A handler whose result is the predicate `f(a, b)`.
pub(crate) fn compare<A: Lane, F: Fn(A, A) -> bool + Copy>(target: impl Versions, _: F) -> Handler {
    versions::<Cmp2<A, F>, UniformCmp2<A, F>>(target)
}

/// The lanes of an affine value: of two scalars, the lower half's value and the upper half's, each the
/// first of a run of half a warp; or of one, lane 0's.
#[inline(always)]
fn lanes_of<T: Formula, const HALVES: bool>(
    machine: &HandlerContext<'_>,
    low: Operand,
    high: Operand,
    stride: i64,
) -> [T; WARP_LANES] {
    let low = read::<T, 1>(machine, low)[0];
    if HALVES {
        let high = read::<T, 1>(machine, high)[0];
        let [a, b]: [[T; HALF_LANES]; 2] =
            [each(|i| low.step(stride, i)), each(|i| high.step(stride, i))];
        each(|i| if i < HALF_LANES { a[i] } else { b[i - HALF_LANES] })
    } else {
        each(|i| low.step(stride, i))
    }
}

struct CmpAffine<A, F, const HALVES: bool>(PhantomData<(A, F)>);

impl<A: Formula, F: Fn(A, A) -> bool + Copy, const HALVES: bool> Body for CmpAffine<A, F, HALVES> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let f: F = conjure();
        let strides = (i64::from(ins.imm as i32), ins.imm >> 32);
        let a: [A; WARP_LANES] = lanes_of::<A, HALVES>(machine, ins.a[0], ins.a[2], strides.0);
        let b: [A; WARP_LANES] = lanes_of::<A, HALVES>(machine, ins.a[1], ins.a[3], strides.1);
        let bytes = each(|i| if f(a[i], b[i]) { 0xff } else { 0 });
        write_pred(machine, ins, pack_mask(&bytes));
        Step::Next
    }
}

/// What the operands of an instruction are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operands {
    /// Registers.
    Lanes,
    /// Scalars with a stride each: in [`Ins::imm`], or in its halves if there are two.
    Formulas,
    /// The same, with a scalar for each half of the warp; the upper ones are the last sources.
    HalfAffine,
}

/// A handler whose result is the predicate `f(a, b)` of two integers.
pub(crate) fn compare_integers<A: Formula, F: Fn(A, A) -> bool + Copy>(
    target: Target,
    operands: Operands,
    f: F,
) -> Handler {
    match operands {
        Operands::Lanes => compare(target, f),
        Operands::Formulas => formula::<CmpAffine<A, F, false>>(target),
        Operands::HalfAffine => formula::<CmpAffine<A, F, true>>(target),
    }
}

/// A handler that only exists for vectors.
fn formula<B: Body>(target: Target) -> Handler {
    versions::<B, B>(target)
}

struct Ramp<T, const HALVES: bool>(PhantomData<T>);

impl<T: Formula, const HALVES: bool> Body for Ramp<T, HALVES> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let d = lanes_of::<T, HALVES>(machine, ins.a[0], ins.a[1], ins.imm);
        write::<T, WARP_LANES>(machine, ins.d[0], d);
        Step::Next
    }
}

/// A handler that makes lanes of scalars and the stride in [`Ins::imm`].
pub(crate) fn ramp<T: Formula>(operands: Operands, target: Target) -> Handler {
    match operands {
        Operands::HalfAffine => formula::<Ramp<T, true>>(target),
        _ => formula::<Ramp<T, false>>(target),
    }
}

struct Select<T>(PhantomData<T>);
struct UniformSelect<T>(PhantomData<T>);

impl<T: Word> Body for Select<T> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let a = read::<T, WARP_LANES>(machine, ins.a[0]);
        let b = read::<T, WARP_LANES>(machine, ins.a[1]);
        let p = read_pred(machine, ins.a[2]);
        let d = each(|i| a[i].pick(b[i], p >> i));
        write::<T, WARP_LANES>(machine, ins.d[0], d);
        Step::Next
    }
}

impl<T: Lane> Body for UniformSelect<T> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let p = read_pred(machine, ins.a[2]) & machine.mask != 0;
        let d = read::<T, 1>(machine, if p { ins.a[0] } else { ins.a[1] });
        write(machine, ins.d[0], d);
        Step::Next
    }
}

/// A handler `d = p ? a : b`, the predicate third.
pub(crate) fn select<T: Word>(target: Target) -> Handler {
    versions::<Select<T>, UniformSelect<T>>(target)
}

struct Blend<T>(PhantomData<T>);
struct UniformBlend<T>(PhantomData<T>);

impl<T: Word> Body for Blend<T> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = active(machine, ins);
        let a = read::<T, WARP_LANES>(machine, ins.a[0]);
        let old = read::<T, WARP_LANES>(machine, ins.d[0]);
        let d = each(|i| a[i].pick(old[i], m >> i));
        write::<T, WARP_LANES>(machine, ins.d[0], d);
        Step::Next
    }
}

impl<T: Word> Body for UniformBlend<T> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        if active(machine, ins) != 0 {
            let a = read::<T, 1>(machine, ins.a[0]);
            write(machine, ins.d[0], a);
        }
        Step::Next
    }
}

/// The lanes that run the instruction: active, and its guard holds.
#[inline(always)]
pub(crate) fn active(machine: &HandlerContext<'_>, ins: &Ins) -> u32 {
    machine.mask & read_pred(machine, ins.guard)
}

/// A handler that copies `a` to `d` in the active lanes.
pub(crate) fn blend<T: Word>(target: Target) -> Handler {
    versions::<Blend<T>, UniformBlend<T>>(target)
}

struct Splat<T>(PhantomData<T>);

impl<T: Lane> Body for Splat<T> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let a = read::<T, 1>(machine, ins.a[0])[0];
        write(machine, ins.d[0], [a; WARP_LANES]);
        Step::Next
    }
}

/// A handler that copies a scalar to all lanes.
pub(crate) fn splat<T: Lane>(target: Target) -> Handler {
    versions::<Splat<T>, Splat<T>>(target)
}
