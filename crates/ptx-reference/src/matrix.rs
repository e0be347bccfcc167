//! Products of matrices: `mma` of 16 rows and 8 columns with sums in f32.
//!
//! Where elements are is the manual's; what the manual leaves open, the order in which products are
//! added, is `simt::ir::matrix`'s: ascending, but the second of the two elements of a register first;
//! each product is added exactly, and the sum rounded to nearest even.

use crate::collective::LANES;
use crate::execute::Thread;
use crate::float;
use crate::grid::Grid;
use crate::number::{F32, Number, Round};
use ptx::ast::{Instruction, Operand, ScalarType as T};

/// A register's elements as f32, from the low end.
fn elements(register: u64, ty: T) -> Option<Vec<f32>> {
    if ty == T::Tf32 {
        return Some(vec![f32::from_bits(register as u32 & 0xffff_e000)]);
    }
    let format = float::format_of(ty)?;
    let widened = [register & 0xffff, register >> 16 & 0xffff].map(|bits| {
        let bits = Number::decode(bits, format).encode(F32, Round::Near);
        f32::from_bits(bits as u32)
    });
    Some(widened.to_vec())
}

/// Runs a product; `None` for forms without a meaning here.
pub(crate) fn multiply(grid: &Grid<'_>, warp: &mut [Thread], inst: &Instruction) -> Option<()> {
    let types: Vec<T> = inst.types().collect();
    let &[T::F32, ty, second, T::F32] = &types[..] else { return None };
    (ty == second && warp.len() == LANES).then_some(())?;
    // Of each operand but the first: lane, register, element.
    let mut sources = [const { Vec::new() }; 3];
    for (n, of) in sources.iter_mut().enumerate() {
        for lane in warp.iter_mut() {
            let Operand::Vector(parts) = &inst.operands[1 + n] else { return None };
            let registers = parts.iter().map(|part| {
                let bits = lane.source(grid, part, T::B32)?;
                if n < 2 { elements(bits, ty) } else { Some(vec![f32::from_bits(bits as u32)]) }
            });
            of.push(registers.collect::<Option<Vec<_>>>()?);
        }
    }
    let [a, b, c] = sources;
    // Sparse ones and those of other shapes are not here.
    (a[0].len() == 2 * b[0].len() && c[0].len() == 4).then_some(())?;
    // Elements of a register, and of a row that the four lanes of a quad have in one register.
    let packed = a[0][0].len();
    let span = 4 * packed;
    let factor = |row: usize, k: usize| {
        a[4 * (row % 8) + k % span / packed][2 * (k / span) + row / 8][k % packed]
    };
    let column_of =
        |k: usize, column: usize| b[4 * column + k % span / packed][k / span][k % packed];
    for lane in 0..LANES {
        for (i, c) in c[lane].iter().enumerate() {
            let (row, column) = (lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2);
            let mut sum = c[0];
            for k in 0..span * b[0].len() {
                let k = if packed == 2 { k ^ 1 } else { k };
                sum = factor(row, k).mul_add(column_of(k, column), sum);
            }
            let bits = if sum.is_nan() { F32.nan() } else { sum.to_bits().into() };
            let Operand::Vector(parts) = &inst.operands[0] else { return None };
            warp[lane].write(grid, parts.get(i)?, bits, T::B32)?;
        }
    }
    Some(())
}
