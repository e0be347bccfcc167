//! Directed rounding (`.rz`, `.rm`, `.rp`), exact because the processor's rounding mode does it.
//!
//! Rust has no rounding modes, so each handler is one block of assembly that sets the mode,
//! works through the lanes and restores the mode before anything else can see it. The same mode
//! flushes subnormals for `.ftz`.

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::float::{flush, output};
use crate::ops::map::{Body, Lanes, Rare, Target, each, read, versions, write};
use simt::ir::op::{FloatMode, FloatOp, Round};
use simt::kernel::WARP_LANES;
use std::arch::asm;

/// MXCSR: all exceptions masked.
const MASKED: u32 = 0x1f80;
/// MXCSR: the rounding field's place.
const ROUNDING_SHIFT: u32 = 13;

const fn control(round: u8) -> u32 {
    MASKED | (round as u32) << ROUNDING_SHIFT
}

/// MXCSR's rounding field.
pub(crate) const DOWN: u8 = 1;
/// MXCSR's rounding field.
pub(crate) const UP: u8 = 2;
/// MXCSR's rounding field.
pub(crate) const ZERO: u8 = 3;

/// Works through `n` lanes: loads `a` (and `b`, `c`), one instruction, stores.
macro_rules! lanes {
    ($d:ident, $a:ident, $b:ident, $c:ident, $n:expr, $control:expr, $size:literal,
     $load:literal, [$($work:literal),*]) => {{
        let control: u32 = $control;
        let mut saved: u32 = 0;
        // SAFETY: the arrays have `n` lanes of the element's size, which is the stride; the
        // block writes only `d` and `saved`, and leaves MXCSR's control bits as they were.
        unsafe {
            asm!(
                "stmxcsr dword ptr [{saved}]",
                "ldmxcsr dword ptr [{control}]",
                "2:",
                concat!($load, " xmm0, [{a}]"),
                $($work,)*
                concat!($load, " [{d}], xmm0"),
                concat!("add {a}, ", $size),
                concat!("add {b}, ", $size),
                concat!("add {c}, ", $size),
                concat!("add {d}, ", $size),
                "dec {n}",
                "jnz 2b",
                "ldmxcsr dword ptr [{saved}]",
                saved = in(reg) &raw mut saved,
                control = in(reg) &raw const control,
                a = inout(reg) $a.0.as_ptr() => _,
                b = inout(reg) $b.0.as_ptr() => _,
                c = inout(reg) $c.0.as_ptr() => _,
                d = inout(reg) $d.0.as_mut_ptr() => _,
                n = inout(reg) $n => _,
                out("xmm0") _,
                out("xmm1") _,
                out("xmm2") _,
                options(nostack)
            );
        }
    }};
}

const ADD: u8 = 0;
const SUB: u8 = 1;
const MUL: u8 = 2;
const FMA: u8 = 3;
const DIV: u8 = 4;
const RCP: u8 = 5;
const SQRT: u8 = 6;

struct Op32<const N: usize, const OP: u8, const ROUND: u8, const FTZ: bool>;

impl<const N: usize, const OP: u8, const ROUND: u8, const FTZ: bool> Body
    for Op32<N, OP, ROUND, FTZ>
{
    #[inline(always)]
    unsafe fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let inp = |x: Lanes<f32, N>| {
            if FTZ { Lanes(each(|i| flush(x.0[i]))) } else { x }
        };
        // SAFETY: the decoder gave f32 registers; sources that the operation lacks are the
        // first one again.
        let (a, b, c) = unsafe {
            let a = inp(read::<f32, N>(machine, ins.a[0]));
            let b = if OP == RCP || OP == SQRT { a } else { inp(read(machine, ins.a[1])) };
            (a, b, if OP == FMA { inp(read(machine, ins.a[2])) } else { a })
        };
        let one = Lanes([1f32; N]);
        let mut d = Lanes([0f32; N]);
        let mode = control(ROUND);
        match OP {
            ADD => lanes!(d, a, b, c, N, mode, "4", "movss", ["addss xmm0, [{b}]"]),
            SUB => lanes!(d, a, b, c, N, mode, "4", "movss", ["subss xmm0, [{b}]"]),
            MUL => lanes!(d, a, b, c, N, mode, "4", "movss", ["mulss xmm0, [{b}]"]),
            DIV => lanes!(d, a, b, c, N, mode, "4", "movss", ["divss xmm0, [{b}]"]),
            RCP => lanes!(d, one, a, c, N, mode, "4", "movss", ["divss xmm0, [{b}]"]),
            SQRT => lanes!(d, a, b, c, N, mode, "4", "movss", ["sqrtss xmm0, [{a}]"]),
            // The product of two f32 is exact in f64, and rounding the sum twice in the same
            // direction is rounding it once: no processor with FMA is needed.
            _ => lanes!(
                d,
                a,
                b,
                c,
                N,
                mode,
                "4",
                "movss",
                [
                    "cvtss2sd xmm0, xmm0",
                    "cvtss2sd xmm1, [{b}]",
                    "cvtss2sd xmm2, [{c}]",
                    "mulsd xmm0, xmm1",
                    "addsd xmm0, xmm2",
                    "cvtsd2ss xmm0, xmm0"
                ]
            ),
        }
        let d = Lanes::<f32, N>(each(|i| output::<FTZ>(d.0[i])));
        // SAFETY: the decoder gave an f32 result.
        unsafe { write(machine, ins.d[0], d) };
        Step::Next
    }
}

struct Op64<const N: usize, const OP: u8, const ROUND: u8>;

impl<const N: usize, const OP: u8, const ROUND: u8> Body for Op64<N, OP, ROUND> {
    #[inline(always)]
    unsafe fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        // SAFETY: as for f32. FMA is selected only where the processor has it.
        let (a, b, c) = unsafe {
            let a = read::<f64, N>(machine, ins.a[0]);
            let b = if OP == RCP || OP == SQRT { a } else { read(machine, ins.a[1]) };
            (a, b, if OP == FMA { read(machine, ins.a[2]) } else { a })
        };
        let one = Lanes([1f64; N]);
        let mut d = Lanes([0f64; N]);
        let mode = control(ROUND);
        match OP {
            ADD => lanes!(d, a, b, c, N, mode, "8", "movsd", ["addsd xmm0, [{b}]"]),
            SUB => lanes!(d, a, b, c, N, mode, "8", "movsd", ["subsd xmm0, [{b}]"]),
            MUL => lanes!(d, a, b, c, N, mode, "8", "movsd", ["mulsd xmm0, [{b}]"]),
            DIV => lanes!(d, a, b, c, N, mode, "8", "movsd", ["divsd xmm0, [{b}]"]),
            RCP => lanes!(d, one, a, c, N, mode, "8", "movsd", ["divsd xmm0, [{b}]"]),
            SQRT => lanes!(d, a, b, c, N, mode, "8", "movsd", ["sqrtsd xmm0, [{a}]"]),
            _ => lanes!(
                d,
                a,
                b,
                c,
                N,
                mode,
                "8",
                "movsd",
                ["movsd xmm1, [{b}]", "vfmadd213sd xmm0, xmm1, [{c}]"]
            ),
        }
        // SAFETY: the decoder gave an f64 result.
        unsafe { write(machine, ins.d[0], d) };
        Step::Next
    }
}

const W: usize = WARP_LANES;

fn code(op: FloatOp) -> Option<u8> {
    Some(match op {
        FloatOp::Add => ADD,
        FloatOp::Sub => SUB,
        FloatOp::Mul => MUL,
        FloatOp::Fma => FMA,
        FloatOp::Div => DIV,
        FloatOp::Rcp => RCP,
        FloatOp::Sqrt => SQRT,
        _ => return None,
    })
}

/// The rounding field; `None` for roundings that arithmetic does not have.
pub(crate) fn field(round: Round) -> Option<u8> {
    Some(match round {
        Round::Down => DOWN,
        Round::Up => UP,
        Round::Zero => ZERO,
        Round::Near | Round::NearAway => return None,
    })
}

/// The handler of an f32 operation with directed rounding.
pub(crate) fn handler32(op: FloatOp, mode: FloatMode, t: Target) -> Option<Handler> {
    let t = Rare(t);
    macro_rules! pick {
        ($($op:ident)*) => {
            match (code(op)?, field(mode.round)?, mode.ftz) {
                $(
                    ($op, DOWN, false) => versions::<Op32<W, $op, DOWN, false>, Op32<1, $op, DOWN, false>>(t),
                    ($op, UP, false) => versions::<Op32<W, $op, UP, false>, Op32<1, $op, UP, false>>(t),
                    ($op, ZERO, false) => versions::<Op32<W, $op, ZERO, false>, Op32<1, $op, ZERO, false>>(t),
                    ($op, DOWN, true) => versions::<Op32<W, $op, DOWN, true>, Op32<1, $op, DOWN, true>>(t),
                    ($op, UP, true) => versions::<Op32<W, $op, UP, true>, Op32<1, $op, UP, true>>(t),
                    ($op, ZERO, true) => versions::<Op32<W, $op, ZERO, true>, Op32<1, $op, ZERO, true>>(t),
                )*
                _ => return None,
            }
        };
    }
    Some(pick!(ADD SUB MUL FMA DIV RCP SQRT))
}

/// The handler of an f64 operation with directed rounding.
pub(crate) fn handler64(op: FloatOp, mode: FloatMode, t: Target) -> Option<Handler> {
    if op == FloatOp::Fma && !is_x86_feature_detected!("fma") {
        return None;
    }
    let t = Rare(t);
    macro_rules! pick {
        ($($op:ident)*) => {
            match (code(op)?, field(mode.round)?) {
                $(
                    ($op, DOWN) => versions::<Op64<W, $op, DOWN>, Op64<1, $op, DOWN>>(t),
                    ($op, UP) => versions::<Op64<W, $op, UP>, Op64<1, $op, UP>>(t),
                    ($op, ZERO) => versions::<Op64<W, $op, ZERO>, Op64<1, $op, ZERO>>(t),
                )*
                _ => return None,
            }
        };
    }
    Some(pick!(ADD SUB MUL FMA DIV RCP SQRT))
}
