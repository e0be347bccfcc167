//! `ldmatrix`, `stmatrix`, `movmatrix`: matrices of 8 rows of 16 bytes.
//!
//! Register `i` of a warp, 32 lanes of 4 bytes, is matrix `i` row after row: loading is copying
//! rows. Transposing moves 16-bit elements.

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::{Body, Rare, Target, each, read, versions};
use crate::ops::memory::locate;
use crate::ops::mma::{W, together, write_lanes};

/// Bytes of a row.
const ROW_BYTES: usize = 16;

/// Row addresses of `count` matrices, checked.
#[inline(always)]
fn rows(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    count: usize,
    write: bool,
) -> Result<[u64; W], Step> {
    let lanes = u32::MAX >> (W - 8 * count);
    let mut pointers = [0; W];
    let found = locate(machine, ins, lanes, ROW_BYTES as u64, write, &mut pointers)?;
    found.point(&mut pointers, ROW_BYTES);
    Ok(pointers)
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
        // SAFETY: the decoder gave an address register and `COUNT` results of 32 bits; `rows`
        // checked 16 bytes for each row that is read.
        unsafe {
            let m = match together(machine, ins) {
                Ok(m) => m,
                Err(step) => return step,
            };
            let rows = match rows(machine, ins, COUNT, false) {
                Ok(rows) => rows,
                Err(step) => return step,
            };
            for i in 0..COUNT {
                let matrix: [[u32; 4]; 8] =
                    each(|row| (rows[8 * i + row] as *const [u32; 4]).read_unaligned());
                let matrix = each(|lane| matrix[lane / 4][lane % 4]);
                let matrix = if TRANSPOSE { transposed(matrix) } else { matrix };
                write_lanes(machine, ins.d[i], m, matrix);
            }
        }
        Step::Next
    }
}

struct Store<const COUNT: usize, const TRANSPOSE: bool>;

impl<const COUNT: usize, const TRANSPOSE: bool> Body for Store<COUNT, TRANSPOSE> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        // SAFETY: the decoder gave an address register and `COUNT` values of 32 bits; `rows`
        // checked 16 bytes for each row that is written.
        unsafe {
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
                    let to = rows[8 * i + row] as *mut [u32; 4];
                    to.write_unaligned([words[0], words[1], words[2], words[3]]);
                }
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
