//! Matrix products (mma): shapes, formats, the fragments that lanes hold, and the order of
//! additions.
//!
//! One shape of fragment serves them all, that of PTX's `mma` with 8 columns: with `P` elements a
//! register, lane `l` of register `i` holds, from element `e = 0` up,
//!
//! | operand | row | column |
//! |---|---|---|
//! | A, 16 rows | `l / 4 + 8 (i % 2)` | `4 P (i / 2) + P (l % 4) + e` |
//! | A, 8 rows | `l / 4` | `4 P i + P (l % 4) + e` |
//! | B | `4 P i + P (l % 4) + e` | `l / 4` |
//! | C, D | `l / 4 + 8 (i / 2)` | `2 (l % 4) + i % 2` |
//!
//! C and D have one element a register: the lowering widens f16 accumulators. What PTX builds of
//! larger tiles (`wmma`) is several of these products.

use crate::ir::width::Width;

/// Formats of the elements of A and B. Which go together, and the accumulator, follow PTX: f32 for
/// floats, f64 for f64, s32 for integers and bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum MatrixType {
    F16,
    BF16,
    /// f32 whose low 13 bits are not looked at.
    TF32,
    E4M3,
    E5M2,
    F64,
    S8,
    U8,
    S4,
    U4,
    /// Products are exclusive ors, counted.
    Xor,
    /// Products are conjunctions, counted.
    And,
}

impl MatrixType {
    /// Bits of an element.
    pub fn bits(self) -> u32 {
        match self {
            Self::F64 => 64,
            Self::TF32 => 32,
            Self::F16 | Self::BF16 => 16,
            Self::E4M3 | Self::E5M2 | Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
            Self::Xor | Self::And => 1,
        }
    }

    /// Registers that hold elements and, for this type, accumulators.
    pub fn width(self) -> Width {
        if self == Self::F64 { Width::W64 } else { Width::W32 }
    }

    /// Elements a register: the `P` of the table above.
    pub fn packed(self) -> u32 {
        self.width().bits() / self.bits()
    }
}

/// Which of a register's `packed` elements is the `i`-th whose product is added. Of two the second
/// comes first: so do processors' products of pairs (`vdpbf16ps`), and every tier must give the
/// same bits.
pub const fn added(packed: usize, i: usize) -> usize {
    if packed == 2 { 1 - i } else { i }
}

/// `D = A B + C` with 8 columns.
///
/// Floats: the products of a row and a column are added to C's element in ascending order of `k`,
/// but those of a register in the order of [`added`], each exactly, and the sum rounded to nearest
/// even (a chain of fused multiply-adds). Hardware adds several products at once and cuts where
/// this rounds; PTX leaves both open. Integers: the exact sum, cut to 32 bits or clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Multiply {
    /// 16 rows, not 8.
    pub tall: bool,
    /// Columns of A and rows of B, as the instruction names it.
    pub k: u16,
    /// Format of A.
    pub a: MatrixType,
    /// Format of B.
    pub b: MatrixType,
    /// Integer sums clamp.
    pub saturate: bool,
}

impl Multiply {
    /// Rows, in eights.
    fn halves(self) -> usize {
        if self.tall { 2 } else { 1 }
    }

    /// Registers of A.
    pub fn a_registers(self) -> usize {
        self.b_registers() * self.halves()
    }

    /// Registers of B: groups of four lanes' worth of `k`.
    pub fn b_registers(self) -> usize {
        self.k as usize / (4 * self.b.packed() as usize)
    }

    /// Registers of C, and of D.
    pub fn c_registers(self) -> usize {
        2 * self.halves()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_as_many_as_ptx_says() {
        let of = |tall, k, a| {
            let m = Multiply { tall, k, a, b: a, saturate: false };
            (m.a_registers(), m.b_registers(), m.c_registers())
        };
        assert_eq!(of(true, 16, MatrixType::F16), (4, 2, 4));
        assert_eq!(of(true, 8, MatrixType::TF32), (4, 2, 4));
        assert_eq!(of(false, 4, MatrixType::F64), (1, 1, 2));
        assert_eq!(of(true, 16, MatrixType::F64), (8, 4, 4));
        assert_eq!(of(false, 16, MatrixType::S8), (1, 1, 2));
        assert_eq!(of(true, 64, MatrixType::S4), (4, 2, 4));
        assert_eq!(of(true, 256, MatrixType::Xor), (4, 2, 4));
    }
}
