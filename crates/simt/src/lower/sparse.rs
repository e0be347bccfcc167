//! `mma.sp`: matrix products with a sparse operand A.
//!
//! The operand is made whole ([`Sparse`]), and what is left are products as any others: two, one
//! behind the other, where the instruction's `k` is larger than theirs.

use super::Lowering;
use super::matrix::{accumulator_width, matrix_type};
use crate::ir::matrix::{MatrixType, Multiply};
use crate::ir::op::{Class, IntOp, IntType, Op, Width};
use crate::ir::sparse::Sparse;
use crate::ir::{Operand, Reg};
use ptx::ast::{self, Modifier as M, ScalarType as T};

impl Lowering<'_> {
    pub(super) fn sparse_product(&mut self, inst: &ast::Instruction) -> Option<()> {
        let shape = inst.shape()?;
        let types: Vec<T> = inst.types().collect();
        let [d_type, a_type, b_type, c_type] = types[..] else { return None };
        let (a_type, b_type) = (matrix_type(a_type, false)?, matrix_type(b_type, false)?);
        let [d, a, b, c, metadata, selector] = &inst.operands[..] else { return None };
        let (a, b) = (self.elements(a, T::B32)?, self.elements(b, T::B32)?);
        let halves = a.len() / 2;
        let k = shape.k / u16::try_from(halves).ok()?;
        let saturate = inst.has(M::Satfinite);
        let product = Multiply { tall: true, k, a: a_type, b: b_type, saturate };
        ((shape.m, shape.n) == (16, 8) && matches!(halves, 1 | 2)).then_some(())?;
        (product.b_registers() == 2 && b.len() == 2 * halves).then_some(())?;
        let c = self.accumulators(c, c_type)?;
        (c.len() == product.c_registers()).then_some(())?;
        let parts = self.wholes(a_type, &a, metadata, selector)?;
        let sums = self.half_products(product, &parts, &b, c);
        let d = self.results(d, accumulator_width(d_type))?;
        self.finish_sums(&d, d_type, Width::W32, &sums)
    }

    /// Matrix A's operand, four registers for each two of what is kept of it.
    pub(super) fn wholes(
        &mut self,
        ty: MatrixType,
        kept: &[Operand],
        metadata: &ast::Operand,
        selector: &ast::Operand,
    ) -> Option<Vec<[Operand; 4]>> {
        let ast::Operand::Immediate(selector) = selector else { return None };
        let selector = u8::try_from(selector.as_i64()?).ok()?;
        let metadata = self.source(metadata, T::B32)?;
        let halves = kept.len() / 2;
        let mut wholes = Vec::with_capacity(halves);
        for (half, kept) in kept.chunks_exact(2).enumerate() {
            let sparse = expansion(ty, halves, half, selector)?;
            let registers = [(); 4].map(|()| self.temporary(Class::Lane(Width::W32)));
            let src = vec![kept[0], kept[1], metadata];
            self.emit(Op::Expand(sparse), registers.to_vec(), src);
            wholes.push(registers.map(Operand::Reg));
        }
        Some(wholes)
    }

    /// The sum of products of parts of A with two registers of B each.
    pub(super) fn half_products(
        &mut self,
        product: Multiply,
        parts: &[[Operand; 4]],
        b: &[Operand],
        c: Vec<Operand>,
    ) -> Vec<Operand> {
        // Only the whole sum is clamped, and the products alone never need to be.
        let clamped = product.saturate && parts.len() > 1;
        let product = Multiply { saturate: product.saturate && !clamped, ..product };
        let mut sums = if clamped { vec![Operand::Imm(0); c.len()] } else { c.clone() };
        for (part, b) in parts.iter().zip(b.chunks(2)) {
            let mut src = part.to_vec();
            src.extend(b);
            src.extend(&sums);
            let dst: Vec<Reg> = sums.iter().map(|_| self.temp(Width::W32)).collect();
            self.emit(Op::Multiply(product), dst.clone(), src);
            sums = dst.into_iter().map(Operand::Reg).collect();
        }
        if clamped {
            let add = Op::Int(IntOp::AddSat, IntType::S32);
            let both = sums.iter().zip(&c);
            let both: Vec<_> = both.map(|(sum, c)| vec![*sum, *c]).collect();
            sums = both.into_iter().map(|src| self.value(add.clone(), Width::W32, src)).collect();
        }
        sums
    }
}

/// Expands half of matrix A's operand, of as many halves; `None` for a selector that the form does
/// not have.
fn expansion(ty: MatrixType, halves: usize, half: usize, selector: u8) -> Option<Sparse> {
    let unit_bits = if ty.bits() >= 16 { 16 } else { 8 };
    let half = half as u8;
    // All metadata of matrix A's operand lie in one, two or four lanes side by side.
    let (selectors, lane) = match (unit_bits, halves) {
        (16, 1) => (4, selector),
        (16, _) => (2, 2 * selector + half),
        (_, 1) => (2, 2 * selector),
        _ => (1, 2 * half),
    };
    (selector < selectors).then_some(Sparse { unit_bits, lane })
}
