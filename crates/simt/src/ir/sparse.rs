//! Structured sparsity (2:4): operands of which half the elements are zero and left out (`mma.sp`,
//! `wgmma.mma_async.sp`).
//!
//! Elements come in groups of four *units*, two of which are kept; metadata have two numbers of two
//! bits for each group, the places of the units kept. A unit is an element of 16 or 8 bits, half of
//! one of 32 (so that one of two elements is kept), or two of 4. Registers hold what is kept as
//! [`crate::ir::matrix`] says of A with 16 rows and half the columns.

/// Makes four registers of matrix A's operand of two with its kept elements, and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sparse {
    /// Bits of a unit: 8 or 16.
    pub unit_bits: u8,
    /// The first of each four lanes that have metadata.
    pub lane: u8,
}

impl Sparse {
    /// Units a register: the `P` of [`crate::ir::matrix`].
    pub fn packed(self) -> usize {
        32 / usize::from(self.unit_bits)
    }

    /// Which lane has the metadata of a group of a row, and their first bit.
    pub fn place(self, row: usize, group: usize) -> (usize, u32) {
        let (quad, high) = (row % 8, row / 8);
        let lane = 4 * quad + usize::from(self.lane);
        match self.unit_bits {
            16 => (lane, (16 * high + 4 * group) as u32),
            _ => (lane + high, 4 * group as u32),
        }
    }
}
