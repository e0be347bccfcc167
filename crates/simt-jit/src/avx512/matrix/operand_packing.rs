//! Operand packing: how products of a format are made, and the layout of their operand fragments in
//! memory.
//!
//! A fragment is kept *ready*: for each step the vectors that it multiplies. A step is one value of
//! `k` of a quad of lanes and one *unit* of its registers: one element, or as many as one
//! instruction adds up.
//!
//! - Of A there are the lanes as programs have them, one unit of all registers behind the other: a
//!   step shuffles a row's value into all lanes of the row's quad.
//! - Of B there are, for each step, two quads that all quads of lanes have in common: what even
//!   columns multiply with, and odd ones.

use crate::host::host_has;
use crate::regalloc::allocate::parts;
use iced_x86::Register;
use simt::ir::matrix::{MatrixType, Multiply, added};
use simt::ir::op::Width;

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `vdpbf16ps` adds two products of bf16, in the order of `simt::ir::matrix` and each rounded as a
    /// fused multiply-add, but takes subnormal numbers for zero, as sources and as results.
    Pairs,
    /// Elements become f32 and are multiplied one by one.
    Single,
    /// So are f64.
    Double,
    /// `vpdpbusd` adds four products of bytes, one operand with signs and one without.
    Bytes,
    /// `vpmaddwd` adds two products of integers with signs that have become 16 bits.
    Words,
    /// Bits are combined and counted.
    Bits,
}

/// How a product is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Engine {
    pub(super) kind: Kind,
    pub(super) product: Multiply,
    /// It is made beside another with the same A, whose sums are where they always are.
    pub(super) beside: bool,
}

/// How the registers of a fragment become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) kind: Kind,
    pub(crate) ty: MatrixType,
    /// Elements that one instruction multiplies, in a register.
    pub(crate) units: usize,
    /// Of A, bytes from one unit to the next; of B, of a quad.
    pub(crate) step: i32,
    /// Of A: bytes have their upper bit turned over, so that one operand has signs and one has none.
    pub(super) turned: bool,
    /// Of B: what that adds to the sums stands behind the steps of a unit, to be taken off.
    pub(super) counted: bool,
}

/// Bytes of 16 lanes of 32 bits, or of 8 of 64.
pub(super) const VECTOR: i32 = 64;

impl Engine {
    /// How a product is made on this processor; `None` if it runs in its interpreter handlers.
    pub(crate) fn of(product: Multiply) -> Option<Self> {
        use MatrixType as M;
        let same = product.a == product.b;
        let is_byte = |ty| matches!(ty, M::S8 | M::U8);
        let is_nibble = |ty| matches!(ty, M::S4 | M::U4);
        let is_quarter = |ty| matches!(ty, M::E4M3 | M::E5M2);
        let (a, b) = (product.a, product.b);
        let kind = match a {
            M::BF16 if same && host_has!("avx512bf16") => Kind::Pairs,
            M::BF16 | M::F16 | M::TF32 if same => Kind::Single,
            M::E4M3 | M::E5M2 if is_quarter(b) => Kind::Single,
            M::F64 if same => Kind::Double,
            M::S8 | M::U8 if is_byte(b) => Kind::Bytes,
            M::S4 | M::U4 if is_nibble(b) => Kind::Bytes,
            M::Xor | M::And if same => Kind::Bits,
            _ => return None,
        };
        let here = match kind {
            Kind::Pairs | Kind::Single | Kind::Double | Kind::Words => true,
            Kind::Bytes => host_has!("avx512vnni"),
            Kind::Bits => host_has!("avx512vpopcntdq"),
        };
        here.then_some(Self { kind, product, beside: false })
    }

    /// How it is made without AVX-512.
    pub(crate) fn with_avx2(product: Multiply) -> Option<Self> {
        use MatrixType as M;
        let is_integer = |ty| matches!(ty, M::S8 | M::U8 | M::S4 | M::U4);
        let same = product.a == product.b;
        let kind = match product.a {
            M::F16 if same && host_has!("f16c") => Kind::Single,
            M::BF16 | M::TF32 if same => Kind::Single,
            M::F64 if same => Kind::Double,
            a if is_integer(a) && a.bits() == product.b.bits() => Kind::Words,
            _ => return None,
        };
        Some(Self { kind, product, beside: false })
    }

    pub(crate) fn kind(self) -> Kind {
        self.kind
    }

    pub(crate) fn halves(self) -> usize {
        if self.product.tall { 2 } else { 1 }
    }

    /// Registers of B: groups of four values of `k` a quad.
    pub(super) fn groups(self) -> usize {
        self.product.b_registers()
    }

    pub(crate) fn width(self) -> Width {
        self.product.a.width()
    }

    /// Parts of a register.
    pub(crate) fn parts(self) -> usize {
        parts(self.width())
    }

    /// Steps of a register.
    fn units(self) -> usize {
        match (self.kind, self.product.a) {
            (Kind::Single, ty) => ty.packed() as usize,
            (Kind::Words, ty) => (16 / ty.bits()) as usize,
            (_, MatrixType::S4 | MatrixType::U4) => 2,
            _ => 1,
        }
    }

    /// True if one operand of bytes must get signs, or lose them.
    fn turns(self) -> bool {
        let signed = |ty| matches!(ty, MatrixType::S8 | MatrixType::S4);
        self.kind == Kind::Bytes && signed(self.product.a) == signed(self.product.b)
    }

    /// True if of the operands of bytes A has no signs.
    pub(super) fn rows_are_unsigned(self) -> bool {
        matches!(self.product.b, MatrixType::S8 | MatrixType::S4)
    }

    /// The sums of a product, each of a part of a register of C, the first register's parts first.
    pub(super) fn sums(self) -> impl Iterator<Item = Register> + Clone {
        let count = (self.product.c_registers() * self.parts()) as u32;
        let last = Register::ZMM28 as u32 - Register::ZMM0 as u32;
        let end = if self.beside { last - count } else { last };
        (end - count..end).map(|n| Register::ZMM0 + n)
    }

    /// The same made beside it; `None` if products of this kind are made one by one. Two share what
    /// is shuffled of A, which takes units that multiply as long as half a product does, and their
    /// sums wait less for each other. Only where that is as quick as it is for `held` does it matter.
    pub(super) fn second(self) -> Option<Self> {
        let quick = matches!(self.kind, Kind::Pairs | Kind::Bytes);
        (quick && self.product.tall && !self.product.saturate)
            .then_some(Self { beside: true, ..self })
    }

    /// Vector registers that products need, if some are made beside others.
    pub(super) fn vectors(self, beside: bool) -> usize {
        match self.second().filter(|_| beside) {
            Some(second) => self.sums().count() + second.sums().count() + 1,
            None => self.sums().count() + self.held().count(),
        }
    }

    /// What two products share of A while they multiply: in front of all sums.
    pub(super) fn shared_row(self) -> Register {
        let second = Self { beside: true, ..self };
        second.sums().next().map_or(Register::None, |sum| sum - 1)
    }

    /// Registers in which a product has the rows of a group of four values of `k` while it multiplies
    /// with all of them: memory is read a slice as often then, and has time for other loads. Only
    /// products whose instructions add up several elements are so quick that it matters.
    pub(super) fn held(self) -> impl Iterator<Item = Register> + Clone {
        let count = match self.kind {
            Kind::Pairs | Kind::Bytes => self.halves() * self.parts() * self.units(),
            Kind::Single | Kind::Double | Kind::Words | Kind::Bits => 0,
        };
        let end = self.sums().next().map_or(0, |sum| sum as u32 - Register::ZMM0 as u32);
        (end - count as u32..end).map(|n| Register::ZMM0 + n)
    }

    /// The sum of a half of the rows, of even or odd columns, of a part.
    pub(super) fn sum(self, half: usize, odd: usize, part: usize) -> Register {
        let first = self.sums().next().unwrap_or(Register::None);
        first + ((2 * half + odd) * self.parts() + part) as u32
    }

    /// How A's registers become ready.
    pub(crate) fn rows(self) -> Form {
        let step = VECTOR * (self.product.a_registers() * self.parts()) as i32;
        let (kind, ty, units) = (self.kind, self.product.a, self.units());
        Form { kind, ty, units, step, turned: self.turns(), counted: false }
    }

    /// How B's registers become ready.
    pub(crate) fn columns(self) -> Form {
        let step = self.quad_bytes();
        let (kind, ty, units) = (self.kind, self.product.b, self.units());
        Form { kind, ty, units, step, turned: false, counted: self.turns() }
    }

    fn quad_bytes(self) -> i32 {
        4 * self.width().bytes() as i32
    }

    /// Bytes of a fragment of A.
    pub(super) fn rows_bytes(self) -> i32 {
        self.rows().step * self.units() as i32
    }

    /// Bytes of a fragment of B.
    pub(super) fn columns_bytes(self) -> i32 {
        self.columns().unit_bytes() * (self.groups() * self.units()) as i32
    }

    /// Where a part of a register of A is in a fragment that is ready: the first unit.
    pub(crate) fn row_offset(self, register: usize, part: usize) -> i32 {
        VECTOR * (register * self.parts() + part) as i32
    }

    /// Where B's register of a group starts in one.
    pub(crate) fn column_offset(self, group: usize) -> i32 {
        self.columns().unit_bytes() * (group * self.units()) as i32
    }

    /// Where the vectors of A are, which of four lanes they repeat, and where B's quad of even
    /// columns is, of each step, in the order in which products are added.
    pub(crate) fn steps(self) -> impl Iterator<Item = (i32, usize, i32)> {
        (0..self.groups()).flat_map(move |group| self.steps_of(group))
    }

    /// The same of a group.
    pub(super) fn steps_of(self, group: usize) -> impl Iterator<Item = (i32, usize, i32)> {
        let (rows, columns) = (self.rows(), self.columns());
        let all = (0..4).flat_map(move |q| (0..rows.units).map(move |i| (q, i)));
        all.map(move |(slice, i)| {
            let unit = added(rows.units, i);
            let row = self.row_offset(group * self.halves(), 0) + rows.step * unit as i32;
            let first = columns.unit_bytes() * (group * rows.units + unit) as i32;
            (row, slice, first + columns.step * slice as i32)
        })
    }

    /// From the quad of even columns of a step to that of odd ones.
    pub(crate) fn odd_offset(self) -> i32 {
        4 * self.quad_bytes()
    }
}

impl Form {
    /// Bytes of one unit of a register of B.
    pub(crate) fn unit_bytes(self) -> i32 {
        8 * self.step + if self.counted { 2 * VECTOR } else { 0 }
    }

    /// True if elements are ready as they are: a fragment of A as programs have it, one of B of 32
    /// bits a lane in its order.
    pub(super) fn is_plain(self) -> bool {
        let split = matches!(self.ty, MatrixType::S4 | MatrixType::U4);
        match self.kind {
            Kind::Pairs | Kind::Double | Kind::Bits => true,
            Kind::Bytes => !self.turned && !self.counted && !split,
            Kind::Single | Kind::Words => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn steps_cover_what_is_ready() {
        for (tall, k, a, b) in [
            (true, 16, MatrixType::BF16, MatrixType::BF16),
            (true, 8, MatrixType::TF32, MatrixType::TF32),
            (true, 16, MatrixType::F16, MatrixType::F16),
            (true, 16, MatrixType::F64, MatrixType::F64),
            (false, 4, MatrixType::F64, MatrixType::F64),
            (true, 32, MatrixType::S8, MatrixType::S8),
            (true, 64, MatrixType::U4, MatrixType::S4),
            (true, 32, MatrixType::E5M2, MatrixType::E4M3),
        ] {
            let Some(engine) = Engine::of(Multiply { tall, k, a, b, saturate: false }) else {
                continue;
            };
            let steps: Vec<_> = engine.steps().collect();
            let of_part = VECTOR * (engine.halves() * engine.parts()) as i32;
            let rows: BTreeSet<i32> = steps.iter().map(|(row, ..)| *row).collect();
            assert_eq!(rows.len() as i32 * of_part, engine.rows_bytes());
            assert_eq!(steps.len(), 4 * rows.len());
            let columns: BTreeSet<i32> = steps.iter().map(|(.., column)| *column).collect();
            assert_eq!(columns.len(), steps.len());
            let last = columns.last().expect("a step");
            assert!(last + engine.odd_offset() + engine.quad_bytes() <= engine.columns_bytes());
        }
    }
}
