//! Directed rounding (`.rz`, `.rm`, `.rp`), exact because the processor's rounding mode does it.
//!
//! Rust has no rounding modes, so each handler is one block of assembly (`processor`) that sets the
//! mode, works through the lanes and restores the mode before anything else can see it.

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::float::{flush, output};
use crate::ops::map::{Body, Rare, Target, each, read, versions, write};
use crate::processor::arithmetic::{ADD, DIV, FMA, MUL, SQRT, SUB};
use crate::processor::direction::{DOWN, UP, ZERO};
use crate::processor::{has_fma, rounded_32, rounded_64};
use simt::ir::op::{FloatMode, FloatOp, Round};
use simt::kernel::WARP_LANES;

/// The reciprocal, a quotient: no number of `arithmetic`.
const RCP: u8 = 16;

struct Op32<const N: usize, const OP: u8, const ROUND: u8, const FTZ: bool>;

impl<const N: usize, const OP: u8, const ROUND: u8, const FTZ: bool> Body
    for Op32<N, OP, ROUND, FTZ>
{
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let inp = |x: [f32; N]| {
            if FTZ { each(|i| flush(x[i])) } else { x }
        };
        let (a, b, c) = {
            let a = inp(read::<f32, N>(machine, ins.a[0]));
            let b = if OP == RCP || OP == SQRT { a } else { inp(read(machine, ins.a[1])) };
            (a, b, if OP == FMA { inp(read(machine, ins.a[2])) } else { a })
        };
        let mut d = [0f32; N];
        match OP {
            RCP => rounded_32::<DIV, ROUND, N>(&mut d, &[1.0; N], &a, &c),
            _ => rounded_32::<OP, ROUND, N>(&mut d, &a, &b, &c),
        }
        let d: [f32; N] = each(|i| output::<FTZ>(d[i]));
        write(machine, ins.d[0], d);
        Step::Next
    }
}

/// Two f32 in a 64-bit register.
struct Pair<const N: usize, const OP: u8, const ROUND: u8, const FTZ: bool>;

impl<const N: usize, const OP: u8, const ROUND: u8, const FTZ: bool> Body
    for Pair<N, OP, ROUND, FTZ>
{
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let (a, b, c) = {
            let a = read::<u64, N>(machine, ins.a[0]);
            let b = read::<u64, N>(machine, ins.a[1]);
            (a, b, if OP == FMA { read(machine, ins.a[2]) } else { a })
        };
        let half = |x: &[u64; N], shift: u32| -> [f32; N] {
            each(|i| {
                let number = f32::from_bits((x[i] >> shift) as u32);
                if FTZ { flush(number) } else { number }
            })
        };
        let mut d = [0u64; N];
        for shift in [0, 32] {
            let mut made = [0f32; N];
            rounded_32::<OP, ROUND, N>(
                &mut made,
                &half(&a, shift),
                &half(&b, shift),
                &half(&c, shift),
            );
            for (d, made) in d.iter_mut().zip(made) {
                *d |= u64::from(output::<FTZ>(made).to_bits()) << shift;
            }
        }
        write(machine, ins.d[0], d);
        Step::Next
    }
}

struct Op64<const N: usize, const OP: u8, const ROUND: u8>;

impl<const N: usize, const OP: u8, const ROUND: u8> Body for Op64<N, OP, ROUND> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let (a, b, c) = {
            let a = read::<f64, N>(machine, ins.a[0]);
            let b = if OP == RCP || OP == SQRT { a } else { read(machine, ins.a[1]) };
            (a, b, if OP == FMA { read(machine, ins.a[2]) } else { a })
        };
        let mut d = [0f64; N];
        match OP {
            RCP => rounded_64::<DIV, ROUND, N>(&mut d, &[1.0; N], &a, &c),
            _ => rounded_64::<OP, ROUND, N>(&mut d, &a, &b, &c),
        }
        write(machine, ins.d[0], d);
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

/// The direction; `None` for roundings that arithmetic does not have.
fn direction(round: Round) -> Option<u8> {
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
            match (code(op)?, direction(mode.round)?, mode.ftz) {
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

/// The handler of an operation on two f32 in a 64-bit register with directed rounding.
pub(crate) fn pair_handler(op: FloatOp, mode: FloatMode, t: Target) -> Option<Handler> {
    let t = Rare(t);
    macro_rules! pick {
        ($($op:ident)*) => {
            match (code(op)?, direction(mode.round)?, mode.ftz) {
                $(
                    ($op, DOWN, false) => versions::<Pair<W, $op, DOWN, false>, Pair<1, $op, DOWN, false>>(t),
                    ($op, UP, false) => versions::<Pair<W, $op, UP, false>, Pair<1, $op, UP, false>>(t),
                    ($op, ZERO, false) => versions::<Pair<W, $op, ZERO, false>, Pair<1, $op, ZERO, false>>(t),
                    ($op, DOWN, true) => versions::<Pair<W, $op, DOWN, true>, Pair<1, $op, DOWN, true>>(t),
                    ($op, UP, true) => versions::<Pair<W, $op, UP, true>, Pair<1, $op, UP, true>>(t),
                    ($op, ZERO, true) => versions::<Pair<W, $op, ZERO, true>, Pair<1, $op, ZERO, true>>(t),
                )*
                _ => return None,
            }
        };
    }
    Some(pick!(ADD SUB MUL FMA))
}

/// The handler of an f64 operation with directed rounding.
pub(crate) fn handler64(op: FloatOp, mode: FloatMode, t: Target) -> Option<Handler> {
    if op == FloatOp::Fma && !has_fma() {
        return None;
    }
    let t = Rare(t);
    macro_rules! pick {
        ($($op:ident)*) => {
            match (code(op)?, direction(mode.round)?) {
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
