//! `ldmatrix`, `stmatrix`, `movmatrix`: matrices of 8 rows of 16 bytes.
//!
//! Register `i` of a warp, 32 lanes of 4 bytes, is matrix `i` row after row: loading is copying
//! rows. Transposing moves 16-bit elements.

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::{Body, Rare, Target, each, read, versions};
use crate::ops::memory::{CheckedLanes, locate_lanes};
use crate::ops::mma::{W, together, write_lanes};
use crate::register_file::recast;

/// Bytes of a row.
const ROW_BYTES: usize = 16;

/// Rows of `count` matrices, checked.
#[inline(always)]
fn rows(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    count: usize,
    write: bool,
) -> Result<CheckedLanes, Step> {
    let lanes = u32::MAX >> (W - 8 * count);
    locate_lanes(machine, ins, lanes, ROW_BYTES as u64, write)
}

/// A matrix of 16-bit elements with rows and columns exchanged.
#[inline(always)]
fn transposed(matrix: [u32; W]) -> [u32; W] {
    let element =
        |row: usize, column: usize| matrix[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
    each(|lane| {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        element(column, row) | element(column + 1, row) << 16
    })
}

struct Load<const COUNT: usize, const TRANSPOSE: bool>;

impl<const COUNT: usize, const TRANSPOSE: bool> Body for Load<COUNT, TRANSPOSE> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = match together(machine, ins) {
            Ok(m) => m,
            Err(step) => return step,
        };
        let rows = match rows(machine, ins, COUNT, false) {
            Ok(rows) => rows,
            Err(step) => return step,
        };
        for i in 0..COUNT {
            let row = |row: usize| rows.of((8 * i + row) as u32).read::<ROW_BYTES>();
            let matrix: [[u32; 4]; 8] = each(|number| recast(row(number)));
            let matrix = each(|lane| matrix[lane / 4][lane % 4]);
            let matrix = if TRANSPOSE { transposed(matrix) } else { matrix };
            write_lanes(machine, ins.d[i], m, matrix);
        }
        Step::Next
    }
}

struct Store<const COUNT: usize, const TRANSPOSE: bool>;

impl<const COUNT: usize, const TRANSPOSE: bool> Body for Store<COUNT, TRANSPOSE> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        if let Err(step) = together(machine, ins) {
            return step;
        }
        let rows = match rows(machine, ins, COUNT, true) {
            Ok(rows) => rows,
            Err(step) => return step,
        };
        for i in 0..COUNT {
            let matrix = read::<u32, W>(machine, ins.a[1 + i]);
            let matrix = if TRANSPOSE { transposed(matrix) } else { matrix };
            for (row, words) in matrix.chunks_exact(4).enumerate() {
                let words: [u8; ROW_BYTES] = recast([words[0], words[1], words[2], words[3]]);
                rows.of((8 * i + row) as u32).copy_from(&words);
            }
        }
        Step::Next
    }
}

struct Transpose;

impl Body for Transpose {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        match together(machine, ins) {
            Ok(m) => {
                let matrix = transposed(read::<u32, W>(machine, ins.a[0]));
                write_lanes(machine, ins.d[0], m, matrix);
                Step::Next
            }
            Err(step) => step,
        }
    }
}

macro_rules! by_count {
    ($body:ident, $count:expr, $transpose:expr, $target:expr) => {
        match ($count, $transpose) {
            (1, false) => versions::<$body<1, false>, $body<1, false>>($target),
            (1, true) => versions::<$body<1, true>, $body<1, true>>($target),
            (2, false) => versions::<$body<2, false>, $body<2, false>>($target),
            (2, true) => versions::<$body<2, true>, $body<2, true>>($target),
            (4, false) => versions::<$body<4, false>, $body<4, false>>($target),
            (4, true) => versions::<$body<4, true>, $body<4, true>>($target),
            _ => return None,
        }
    };
}

/// The handler of `ldmatrix`.
pub(crate) fn load(count: u8, transpose: bool, t: Target) -> Option<Handler> {
    Some(by_count!(Load, count, transpose, t))
}

/// The handler of `stmatrix`.
pub(crate) fn store(count: u8, transpose: bool, t: Target) -> Option<Handler> {
    Some(by_count!(Store, count, transpose, t))
}

/// The handler of `movmatrix`.
pub(crate) fn transpose() -> Handler {
    versions::<Transpose, Transpose>(Rare(Target::Baseline))
}
