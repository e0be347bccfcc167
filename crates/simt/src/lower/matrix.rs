//! `mma`, `wmma.mma`, `ldmatrix`, `stmatrix`, `movmatrix`.
//!
//! Everything becomes products with 8 columns ([`Multiply`]). A `wmma` tile is two of them side by
//! side, on top of each other or, for `.m8n32k16`, on top of each other and transposed; `fragment`
//! loads and stores tiles to match. Operands of narrow floats are in `mma_block_scale`.

use super::Lowering;
use crate::ir::matrix::{MatrixType, Multiply};
use crate::ir::op::{Class, Convert, FloatMode, FloatType, Op, Round, Width};
use crate::ir::{Operand, Reg};
use crate::lower::ldmatrix_b8::how_many;
use ptx::ast::{self, Modifier as M, Opcode, Rounding, ScalarType as T, Shape};

/// The format of A or B; `xor` says which way bits multiply.
pub(super) fn matrix_type(ty: T, xor: bool) -> Option<MatrixType> {
    Some(match ty {
        T::F16 => MatrixType::F16,
        T::Bf16 => MatrixType::BF16,
        T::Tf32 => MatrixType::TF32,
        T::E4m3 => MatrixType::E4M3,
        T::E5m2 => MatrixType::E5M2,
        T::F64 => MatrixType::F64,
        T::S8 => MatrixType::S8,
        T::U8 => MatrixType::U8,
        T::S4 => MatrixType::S4,
        T::U4 => MatrixType::U4,
        T::B1 if xor => MatrixType::Xor,
        T::B1 => MatrixType::And,
        _ => return None,
    })
}

/// Words by which `mma` says that its operands are narrow floats.
const KINDS: &[M] = &[M::KindF8f6f4, M::KindMxf8f6f4, M::KindMxf4, M::KindMxf4nvf4];

/// Which part of a `wmma` tile goes into one product: registers of A, of B and, counted in
/// accumulators, of C.
type Part = (std::ops::Range<usize>, std::ops::Range<usize>, std::ops::Range<usize>);

impl Lowering<'_> {
    pub(super) fn matrix(&mut self, inst: &ast::Instruction) -> Option<()> {
        match inst.opcode {
            Opcode::Mma if inst.modifiers.iter().any(|word| KINDS.contains(word)) => {
                self.product_of_kind(inst)
            }
            Opcode::Mma if inst.has(M::Sp) || inst.has(M::SpMetadata) => self.sparse_product(inst),
            Opcode::Mma => self.mma(inst),
            Opcode::Wmma if inst.has(M::Mma) => self.wmma(inst),
            Opcode::Wmma if inst.has(M::Load) => self.fragment_load(inst),
            Opcode::Wmma if inst.has(M::Store) => self.fragment_store(inst),
            Opcode::Wgmma => self.warpgroup(inst),
            Opcode::Ldmatrix => self.ldmatrix(inst),
            Opcode::Stmatrix => self.stmatrix(inst),
            Opcode::Movmatrix => {
                let [d, a] = &inst.operands[..] else { return None };
                let a = self.source(a, T::B32)?;
                self.emit_to(Op::TransposeMatrix, d, Width::W32, false, vec![a])
            }
            _ => None,
        }
    }

    /// The registers of `{...}` as sources.
    pub(super) fn elements(&mut self, operand: &ast::Operand, ty: T) -> Option<Vec<Operand>> {
        match operand {
            ast::Operand::Vector(parts) => parts.iter().map(|p| self.source(p, ty)).collect(),
            single => Some(vec![self.source(single, ty)?]),
        }
    }

    /// The registers of `{...}` as results of `width`; `_` is a temporary.
    pub(super) fn results(&mut self, operand: &ast::Operand, width: Width) -> Option<Vec<Reg>> {
        let parts = match operand {
            ast::Operand::Vector(parts) => parts,
            single => std::slice::from_ref(single),
        };
        let mut results = Vec::with_capacity(parts.len());
        for part in parts {
            let reg = match self.dest_reg(part)? {
                Some(reg) => reg,
                None => self.temp(width),
            };
            (self.reg_class(reg) == Class::Lane(width)).then_some(())?;
            results.push(reg);
        }
        Some(results)
    }

    fn mma(&mut self, inst: &ast::Instruction) -> Option<()> {
        let Shape { m, n, k } = inst.shape()?;
        let mut types = inst.types();
        let (d_type, a_type) = (types.next()?, types.next()?);
        let (b_type, c_type) = (types.next()?, types.next()?);
        let [d, a, b, c] = &inst.operands[..] else { return None };
        let xor = inst.has(M::Xor);
        let product = Multiply {
            tall: m == 16,
            k,
            a: matrix_type(a_type, xor)?,
            b: matrix_type(b_type, xor)?,
            saturate: inst.has(M::Satfinite),
        };
        if (m, n, k) == (8, 8, 4) && product.a == MatrixType::F16 {
            return self.quarter_products(inst);
        }
        if n != 8 || !matches!(m, 8 | 16) || k < 4 * product.a.packed() as u16 {
            return None;
        }
        if !matches!(inst.rounding(), None | Some(Rounding::Rn)) {
            return None;
        }
        let register = register_type(product.a);
        let (a, b) = (self.elements(a, register)?, self.elements(b, register)?);
        let c = self.accumulators(c, c_type)?;
        let d = self.results(d, accumulator_width(d_type))?;
        self.products(product, &d, d_type, &[(0..a.len(), 0..b.len(), 0..c.len())], &a, &b, &c)
    }

    fn wmma(&mut self, inst: &ast::Instruction) -> Option<()> {
        let shape = inst.shape()?;
        let mut types = inst.types();
        let d_type = types.next()?;
        let rest: Vec<T> = types.collect();
        let (a_type, b_type, c_type) = match rest[..] {
            // f16 is not written.
            [c] => (T::F16, T::F16, c),
            [a, b, c] => (a, b, c),
            _ => return None,
        };
        if !matches!(inst.rounding(), None | Some(Rounding::Rn)) {
            return None;
        }
        let [d, a, b, c] = &inst.operands[..] else { return None };
        let xor = inst.has(M::Xor);
        let (a_type, b_type) = (matrix_type(a_type, xor)?, matrix_type(b_type, xor)?);
        let register = register_type(a_type);
        let (mut a, mut b) = (self.elements(a, register)?, self.elements(b, register)?);
        let (mut a_type, mut b_type) = (a_type, b_type);
        let transposed = is_transposed(shape);
        if transposed {
            (a, b) = (b, a);
            (a_type, b_type) = (b_type, a_type);
        }
        let tall = shape.m != 8 || transposed;
        let saturate = inst.has(M::Satfinite) && d_type == T::S32;
        let product = Multiply { tall, k: shape.k, a: a_type, b: b_type, saturate };
        let (ra, rb, rc) = (product.a_registers(), product.b_registers(), product.c_registers());
        // Registers behind those used are copies (see `fragment`).
        let parts: Vec<Part> = match (shape.m, shape.n) {
            (8, 8) => vec![(0..ra, 0..rb, 0..rc)],
            (16, 16) => {
                (0..2).map(|p| (0..ra, p * rb..(p + 1) * rb, p * rc..(p + 1) * rc)).collect()
            }
            _ => (0..2).map(|p| (p * ra..(p + 1) * ra, 0..rb, p * rc..(p + 1) * rc)).collect(),
        };
        let c = self.accumulators(c, c_type)?;
        let d = self.results(d, accumulator_width(d_type))?;
        self.products(product, &d, d_type, &parts, &a, &b, &c)
    }

    /// C with one element a register: f16 pairs are widened.
    pub(super) fn accumulators(&mut self, c: &ast::Operand, ty: T) -> Option<Vec<Operand>> {
        if ty != T::F16 {
            return self.elements(c, if ty == T::F64 { T::F64 } else { T::B32 });
        }
        let pairs = self.elements(c, T::B32)?;
        let mut wide = Vec::with_capacity(2 * pairs.len());
        for pair in pairs {
            wide.extend(self.wide_halves(pair));
        }
        Some(wide)
    }

    /// The two f16 of a register, the lower one first, as f32.
    pub(super) fn wide_halves(&mut self, pair: Operand) -> [Operand; 2] {
        let halves = [self.temp(Width::W16), self.temp(Width::W16)];
        let op = Op::Unpack { part: Width::W16, whole: Width::W32 };
        self.emit(op, halves.to_vec(), vec![pair]);
        halves.map(|half| self.value(widen(), Width::W32, vec![half.into()]))
    }

    /// Emits a product for each part and, for f16 results, rounds them to pairs.
    #[allow(clippy::too_many_arguments, reason = "a product has three operands and a result")]
    fn products(
        &mut self,
        product: Multiply,
        d: &[Reg],
        d_type: T,
        parts: &[Part],
        a: &[Operand],
        b: &[Operand],
        c: &[Operand],
    ) -> Option<()> {
        let narrow = d_type == T::F16;
        let width = product.a.width();
        let mut sums: Vec<Operand> = Vec::new();
        for (index, (in_a, in_b, in_c)) in parts.iter().enumerate() {
            let counts = (in_a.len(), in_b.len(), in_c.len());
            let expected = (product.a_registers(), product.b_registers(), product.c_registers());
            (counts == expected).then_some(())?;
            let mut src = a.get(in_a.clone())?.to_vec();
            src.extend(b.get(in_b.clone())?);
            src.extend(c.get(in_c.clone())?);
            // A later part must not read what an earlier one has written.
            let dst: Vec<Reg> = if narrow || index + 1 < parts.len() {
                in_c.clone().map(|_| self.temp(width)).collect()
            } else {
                d.get(in_c.clone())?.to_vec()
            };
            self.emit(Op::Multiply(product), dst.clone(), src);
            sums.extend(dst.into_iter().map(Operand::Reg));
        }
        self.finish_sums(d, d_type, width, &sums)
    }

    /// Moves sums to where they belong: f16 ones are rounded and packed.
    pub(super) fn finish_sums(
        &mut self,
        d: &[Reg],
        d_type: T,
        width: Width,
        sums: &[Operand],
    ) -> Option<()> {
        if d_type == T::F16 {
            (2 * d.len() == sums.len()).then_some(())?;
            for (d, pair) in d.iter().zip(sums.chunks(2)) {
                let mode = FloatMode { round: Round::Near, ..FloatMode::default() };
                let round = Convert::Float {
                    from: FloatType::F32,
                    to: FloatType::F16x2,
                    mode,
                    relu: false,
                };
                self.emit(Op::Convert(round), vec![*d], vec![pair[1], pair[0]]);
            }
            return Some(());
        }
        (d.len() == sums.len()).then_some(())?;
        for (d, sum) in d.iter().zip(sums) {
            if Operand::Reg(*d) != *sum {
                self.emit(Op::Mov(width), vec![*d], vec![*sum]);
            }
        }
        Some(())
    }

    fn ldmatrix(&mut self, inst: &ast::Instruction) -> Option<()> {
        if inst.ty() != Some(T::B16) {
            return self.load_narrow_tiles(inst);
        }
        let [d, address] = &inst.operands[..] else { return None };
        let count = matrices(inst)?;
        let (space, base, offset) = self.location(inst, address)?;
        let dst = self.results(d, Width::W32)?;
        (dst.len() == usize::from(count)).then_some(())?;
        let op = Op::LoadMatrix { space, count, transpose: inst.has(M::Trans) };
        self.emit(op, dst, vec![base, offset]);
        Some(())
    }

    fn stmatrix(&mut self, inst: &ast::Instruction) -> Option<()> {
        if inst.ty() != Some(T::B16) {
            return self.store_narrow_tiles(inst);
        }
        let [address, values] = &inst.operands[..] else { return None };
        let count = matrices(inst)?;
        let (space, base, offset) = self.location(inst, address)?;
        let mut src = vec![base, offset];
        src.extend(self.elements(values, T::B32)?);
        (src.len() == 2 + usize::from(count)).then_some(())?;
        let op = Op::StoreMatrix { space, count, transpose: inst.has(M::Trans) };
        self.emit(op, vec![], src);
        Some(())
    }
}

/// `.m8n32k16` is multiplied as its transpose.
fn is_transposed(shape: Shape) -> bool {
    (shape.m, shape.n) == (8, 32)
}

/// How many 8 by 8 matrices of 16-bit elements; `None` for the shapes of narrower ones.
fn matrices(inst: &ast::Instruction) -> Option<u8> {
    if inst.shape()? != (Shape { m: 8, n: 8, k: 0 }) || inst.ty()? != T::B16 {
        return None;
    }
    how_many(inst)
}

/// From f16 to f32.
pub(super) fn widen() -> Op {
    Op::Convert(Convert::Float {
        from: FloatType::F16,
        to: FloatType::F32,
        mode: FloatMode::default(),
        relu: false,
    })
}

/// The untyped register that holds elements.
fn register_type(ty: MatrixType) -> T {
    if ty == MatrixType::F64 { T::B64 } else { T::B32 }
}

pub(super) fn accumulator_width(ty: T) -> Width {
    if ty == T::F64 { Width::W64 } else { Width::W32 }
}
