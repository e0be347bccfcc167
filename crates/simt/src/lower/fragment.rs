//! `wmma.load` and `wmma.store`: fragments between memory and the registers that [`Multiply`]
//! reads.
//!
//! Which element is in which lane is hardware's business in PTX, so loads and stores need only
//! agree with the products: each lane computes where its elements are and accesses them, one
//! register at a time where they lie side by side in memory. The fragments are those of `mma`,
//! which is what the hardware does too; f16 fragments of A and B name twice the registers they
//! need, and get everything twice.
//!
//! [`Multiply`]: crate::ir::matrix::Multiply

use super::Lowering;
use super::matrix::is_transposed;
use crate::ir::op::{Access, IntOp, IntType, Op, Space, Special, Width};
use crate::ir::{Operand, Reg};
use ptx::ast::{self, Modifier as M, ScalarType as T, Shape};

/// Where the elements of a fragment are in its matrix. Element `e` of register `i` is at
/// `(l / 4 + outer(i), inner_step (l % 4) + inner(i) + e)`.
struct Fragment {
    /// Elements a register.
    packed: u32,
    /// Bytes an element; 0: less than one.
    bytes: u32,
    /// Width of the registers.
    width: Width,
    inner_step: u32,
    /// Of each register that is not a copy.
    outer: Vec<u32>,
    inner: Vec<u32>,
    /// The inner coordinate runs along memory.
    along: bool,
    /// Elements from one line in memory to the next, if the program does not say.
    line: u32,
}

fn fragment(inst: &ast::Instruction, registers: usize) -> Option<Fragment> {
    let shape @ Shape { m, n, k } = inst.shape()?;
    let ty = inst.ty()?;
    let row = inst.has(M::Row);
    let (m, n, k) = (u32::from(m), u32::from(n), u32::from(k));
    let width = if ty == T::F64 { Width::W64 } else { Width::W32 };
    let packed = width.bits() / ty.bits();
    let (is_a, is_b) = (inst.has(M::MatA), inst.has(M::MatB));
    let (mut outer, mut inner) = (Vec::new(), Vec::new());
    let transposed = is_transposed(shape);
    let (inner_step, along, line);
    if is_a || is_b {
        // The factor whose lines are dealt out in sixteens, and the other in eights.
        let tall = if is_a { m != 8 } else { transposed };
        let lines = if is_a { m } else { n };
        let step = if tall { 16 } else { 8 };
        for tile in 0..lines / step {
            for group in 0..k / (4 * packed) {
                for half in 0..step / 8 {
                    outer.push(step * tile + 8 * half);
                    inner.push(4 * packed * group);
                }
            }
        }
        inner_step = packed;
        along = row == is_a;
        line = match (row, is_a) {
            (true, true) | (false, false) => k,
            (false, true) => m,
            (true, false) => n,
        };
    } else {
        // C and D: pairs of columns, of rows if transposed.
        let tall = m != 8 || transposed;
        for tile in 0..(m * n / if tall { 128 } else { 64 }) {
            let (tile_outer, tile_inner) =
                if (m, n) == (16, 16) { (0, 8 * tile) } else { (16 * tile, 0) };
            for half in 0..if tall { 2 } else { 1 } {
                for e in (0..2).step_by(packed as usize) {
                    outer.push(tile_outer + 8 * half);
                    inner.push(tile_inner + e);
                }
            }
        }
        inner_step = 2;
        along = row != transposed;
        line = if row { n } else { m };
    }
    (registers.is_multiple_of(outer.len()) && registers >= outer.len()).then_some(())?;
    let bytes = ty.bits() / 8;
    (bytes > 0 || along).then_some(())?;
    Some(Fragment { packed, bytes, width, inner_step, outer, inner, along, line })
}

/// Addresses of a fragment's registers while they are computed: `base` is the lane's own first
/// element; a step of the inner and of the outer coordinate is that many bytes.
struct Walk {
    space: Space,
    base: Operand,
    offset: u64,
    inner: Operand,
    outer: Operand,
}

impl Fragment {
    /// True if registers `i` and `i + 1` are elements of 32 bits side by side in memory: tiles are
    /// aligned so that one access is aligned for both.
    fn is_pair(&self, i: usize) -> bool {
        self.along
            && self.packed == 1
            && self.width == Width::W32
            && self.outer.get(i + 1) == Some(&self.outer[i])
            && self.inner[i + 1] == self.inner[i] + 1
    }
}

impl Walk {
    /// An access to `count` whole registers.
    fn access(&self, width: Width, count: u8) -> Access {
        let (space, bytes) = (self.space, width.bytes() as u8);
        Access { space, bytes, signed: false, count, width, volatile: false }
    }
}

impl Lowering<'_> {
    fn wide(&mut self, op: IntOp, a: Operand, b: Operand) -> Operand {
        if let (Operand::Imm(a), Operand::Imm(b), IntOp::MulLo) = (a, b, op) {
            return Operand::Imm(a.wrapping_mul(b));
        }
        match (op, a, b) {
            (IntOp::Add, a, Operand::Imm(0)) | (IntOp::MulLo, a, Operand::Imm(1)) => a,
            (IntOp::MulLo, _, Operand::Imm(0)) => Operand::Imm(0),
            _ => self.value(Op::Int(op, IntType::U64), Width::W64, vec![a, b]),
        }
    }

    fn walk(
        &mut self,
        inst: &ast::Instruction,
        fragment: &Fragment,
        address: &ast::Operand,
        stride: Option<&ast::Operand>,
    ) -> Option<Walk> {
        let (space, base, offset) = self.location(inst, address)?;
        let Operand::Imm(offset) = offset else { return None };
        let base = self.fit(base, Width::W64);
        let line = match stride {
            Some(stride) => {
                let stride = self.source(stride, T::U32)?;
                self.fit(stride, Width::W64)
            }
            None => Operand::Imm(u64::from(fragment.line)),
        };
        // Elements of less than a byte: lines of whole bytes, elements side by side.
        let bits = u64::from(fragment.width.bits() / fragment.packed);
        let line = match line {
            Operand::Imm(n) => Operand::Imm(n * bits / 8),
            line if bits >= 8 => self.wide(IntOp::MulLo, line, Operand::Imm(bits / 8)),
            line => {
                let per_byte = Operand::Imm(8 / bits);
                self.wide(IntOp::Div, line, per_byte)
            }
        };
        // A step along memory; of elements below a byte only whole registers are stepped.
        let element = Operand::Imm(u64::from(fragment.bytes));
        let (inner, outer) = if fragment.along { (element, line) } else { (line, element) };
        let lane = self.value(Op::Special(Special::LaneId), Width::W32, vec![]);
        let part = |l: &mut Self, op: IntOp, by: u64| {
            let src = vec![lane, Operand::Imm(by)];
            let value = l.value(Op::Int(op, IntType::U32), Width::W32, src);
            l.fit(value, Width::W64)
        };
        let (major, minor) = (part(self, IntOp::Shr, 2), part(self, IntOp::And, 3));
        let minor_bytes = if fragment.bytes == 0 {
            Operand::Imm(4)
        } else {
            self.wide(IntOp::MulLo, inner, Operand::Imm(u64::from(fragment.inner_step)))
        };
        let major = self.wide(IntOp::MulLo, major, outer);
        let minor = self.wide(IntOp::MulLo, minor, minor_bytes);
        let base = self.wide(IntOp::Add, base, major);
        let base = self.wide(IntOp::Add, base, minor);
        Some(Walk { space, base, offset, inner, outer })
    }

    /// Address and offset of element `e` of register `i`.
    fn step(&mut self, walk: &Walk, fragment: &Fragment, i: usize, e: u32) -> (Operand, Operand) {
        let (mut base, mut offset) = (walk.base, walk.offset);
        for (by, count) in [(walk.outer, fragment.outer[i]), (walk.inner, fragment.inner[i] + e)] {
            match by {
                Operand::Imm(by) => offset = offset.wrapping_add(by * u64::from(count)),
                by => {
                    let far = self.wide(IntOp::MulLo, by, Operand::Imm(u64::from(count)));
                    base = match far {
                        Operand::Imm(_) => base,
                        far => self.wide(IntOp::Add, base, far),
                    };
                }
            }
        }
        (base, Operand::Imm(offset))
    }

    pub(super) fn fragment_load(&mut self, inst: &ast::Instruction) -> Option<()> {
        let (d, address, stride) = match &inst.operands[..] {
            [d, address] => (d, address, None),
            [d, address, stride] => (d, address, Some(stride)),
            _ => return None,
        };
        let width = if inst.ty()? == T::F64 { Width::W64 } else { Width::W32 };
        let dst = self.results(d, width)?;
        let f = fragment(inst, dst.len())?;
        let walk = self.walk(inst, &f, address, stride)?;
        // The address may be in one of the results.
        let mut loaded = Vec::with_capacity(f.outer.len());
        while loaded.len() < f.outer.len() {
            let i = loaded.len();
            if f.is_pair(i) {
                loaded.extend(self.load_pair(&walk, &f, i));
            } else {
                loaded.push(self.load_register(&walk, &f, i));
            }
        }
        for (i, d) in dst.iter().enumerate() {
            self.emit(Op::Mov(width), vec![*d], vec![loaded[i % loaded.len()]]);
        }
        Some(())
    }

    /// Registers `i` and `i + 1`, which are side by side in memory.
    fn load_pair(&mut self, walk: &Walk, f: &Fragment, i: usize) -> [Operand; 2] {
        let (base, offset) = self.step(walk, f, i, 0);
        let results = [self.temp(f.width), self.temp(f.width)];
        self.emit(Op::Load(walk.access(f.width, 2)), results.to_vec(), vec![base, offset]);
        results.map(Operand::Reg)
    }

    fn load_register(&mut self, walk: &Walk, f: &Fragment, i: usize) -> Operand {
        let load = |l: &mut Self, e: u32, bytes: u32| -> Operand {
            let (base, offset) = l.step(walk, f, i, e);
            let access = Access { bytes: bytes as u8, ..walk.access(f.width, 1) };
            // Not by lanes that the guard keeps away: their addresses may be anything.
            let d = l.temp(f.width);
            l.emit(Op::Load(access), vec![d], vec![base, offset]);
            d.into()
        };
        if f.along || f.packed == 1 {
            return load(self, 0, f.width.bytes());
        }
        let bits = f.width.bits() / f.packed;
        let mut whole = load(self, 0, f.bytes);
        for e in 1..f.packed {
            let part = load(self, e, f.bytes);
            let src =
                vec![part, whole, Operand::Imm(u64::from(e * bits)), Operand::Imm(u64::from(bits))];
            whole = self.value(Op::Int(IntOp::Bfi, IntType::U32), Width::W32, src);
        }
        whole
    }

    pub(super) fn fragment_store(&mut self, inst: &ast::Instruction) -> Option<()> {
        let (address, values, stride) = match &inst.operands[..] {
            [address, values] => (address, values, None),
            [address, values, stride] => (address, values, Some(stride)),
            _ => return None,
        };
        let values = self.elements(values, if inst.ty()? == T::F64 { T::B64 } else { T::B32 })?;
        let f = fragment(inst, values.len())?;
        let walk = self.walk(inst, &f, address, stride)?;
        let mut second = false;
        for (i, value) in values.iter().enumerate() {
            if std::mem::take(&mut second) {
                continue;
            }
            if f.is_pair(i) {
                let (base, offset) = self.step(&walk, &f, i, 0);
                let src = vec![base, offset, *value, values[i + 1]];
                self.emit(Op::Store(walk.access(f.width, 2)), vec![], src);
                second = true;
                continue;
            }
            if f.along || f.packed == 1 {
                self.store_element(&walk, &f, i, 0, f.width, *value);
                continue;
            }
            // f16 pairs, apart in memory.
            let halves: [Reg; 2] = [self.temp(Width::W16), self.temp(Width::W16)];
            let op = Op::Unpack { part: Width::W16, whole: Width::W32 };
            self.emit(op, halves.to_vec(), vec![*value]);
            for (e, half) in halves.into_iter().enumerate() {
                self.store_element(&walk, &f, i, e as u32, Width::W16, half.into());
            }
        }
        Some(())
    }

    fn store_element(
        &mut self,
        walk: &Walk,
        f: &Fragment,
        i: usize,
        e: u32,
        width: Width,
        value: Operand,
    ) {
        let (base, offset) = self.step(walk, f, i, e);
        self.emit(Op::Store(walk.access(width, 1)), vec![], vec![base, offset, value]);
    }
}
