//! Generic matrix product in registers, for any format.
//!
//! A slice is what one element position of one group of registers holds, as one array of lanes:
//! four values of `k` for eight rows of A, or for the eight columns of B. For each of the four, A's
//! value is spread over the four lanes that share its row, B's over the rows, and every lane adds
//! one product to each of its sums: no lane ever looks for its operands.

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::{Body, Versions, each};
use crate::ops::mma::format::{Format, Sum};
use crate::ops::mma::{Operands, W, together, write_lanes};
use simt::ir::matrix::added;
use std::marker::PhantomData;

/// Most slices: two groups of eight elements, or four of one.
const SLICES_MAX: usize = 16;

/// The handler of a body that has no form for one lane.
pub(super) fn versions_of<B: Body>(target: impl Versions) -> Handler {
    target.pick::<B, B>()
}

/// `D = A B + C`.
pub(super) struct Product<A, B, S>(PhantomData<(A, B, S)>);

impl<A, B, S> Body for Product<A, B, S>
where
    S: Sum,
    A: Format<Number = S::Number>,
    B: Format<Number = S::Number>,
{
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = match together(machine, ins) {
            Ok(m) => m,
            Err(step) => return step,
        };
        let o = Operands::of(ins);
        let mut a = [[[S::Number::default(); W]; 2]; SLICES_MAX];
        let mut b = [[S::Number::default(); W]; SLICES_MAX];
        for group in 0..o.groups {
            let register = o.register::<B::Register>(machine, o.b() + group);
            for e in 0..B::PACKED {
                b[group * B::PACKED + e] = each(|i| B::element(register[i], e));
            }
            for index in 0..o.halves {
                let register = o.register::<A::Register>(machine, o.a() + group * o.halves + index);
                for (e, slice) in a[group * A::PACKED..][..A::PACKED].iter_mut().enumerate() {
                    slice[index] = each(|i| A::element(register[i], e));
                }
            }
        }
        let mut c = [[S::Accumulator::default(); W]; 4];
        for (i, c) in c.iter_mut().enumerate().take(o.sums()) {
            *c = o.register(machine, o.c() + i);
        }
        // D may be any of the sources: it is written when all have been read.
        let d = accumulate::<A, S>(o, &a, &b, &c);
        for (i, d) in d.into_iter().enumerate().take(o.sums()) {
            let at = o.operand(machine, i);
            write_lanes(machine, at, m, d);
        }
        Step::Next
    }
}

/// C with all products of the slices added.
#[inline(always)]
fn accumulate<A: Format, S: Sum>(
    o: Operands,
    a: &[[[S::Number; W]; 2]; SLICES_MAX],
    b: &[[S::Number; W]; SLICES_MAX],
    c: &[[S::Accumulator; W]; 4],
) -> [[S::Accumulator; W]; 4] {
    let mut d = *c;
    for half in 0..o.halves {
        for odd in 0..2 {
            let c = &c[2 * half + odd];
            let mut sum: [S::Accumulator; W] = each(|lane| S::start(c[lane]));
            for group in 0..o.groups {
                for quarter in 0..4 {
                    for i in 0..A::PACKED {
                        let slice = group * A::PACKED + added(A::PACKED, i);
                        let (a, b) = (&a[slice][half], &b[slice]);
                        let row: [S::Number; W] = each(|lane| a[(lane & !3) + quarter]);
                        let column: [S::Number; W] =
                            each(|lane| b[8 * (lane & 3) + 4 * odd + quarter]);
                        sum = each(|lane| S::add(row[lane], column[lane], sum[lane]));
                    }
                }
            }
            d[2 * half + odd] = each(|lane| S::finish(sum[lane], c[lane], o.saturate));
        }
    }
    d
}
