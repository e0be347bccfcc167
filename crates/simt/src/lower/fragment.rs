//! `wmma.load` and `wmma.store`: f16 fragments of A and B name twice the registers they need, and get
//! everything twice.

use super::Lowering;
use crate::ir::Operand;
use crate::ir::op::fragment::{Fragment, FragmentOf};
use crate::ir::op::{IntOp, IntType, Op, Width};
use ptx::ast::{self, Modifier as M, ScalarType as T, Shape};

impl Lowering<'_> {
    fn wide(&mut self, op: IntOp, a: Operand, by: u64) -> Operand {
        match (op, by) {
            (_, 1) => a,
            _ => self.value(Op::Int(op, IntType::U64), Width::W64, vec![a, Operand::Imm(by)]),
        }
    }

    /// A fragment, its registers, and the sources that loads and stores have.
    fn fragment(
        &mut self,
        inst: &ast::Instruction,
        address: &ast::Operand,
        stride: Option<&ast::Operand>,
    ) -> Option<(Fragment, usize, Vec<Operand>)> {
        let Shape { m, n, k } = inst.shape()?;
        let of = match () {
            () if inst.has(M::MatA) => FragmentOf::A,
            () if inst.has(M::MatB) => FragmentOf::B,
            () => FragmentOf::Sum,
        };
        let (space, base, offset) = self.location(inst, address)?;
        let [m, n, k] = [m, n, k].map(|n| u8::try_from(n).ok());
        let bits = inst.ty()?.bits() as u8;
        let fragment = Fragment { space, of, m: m?, n: n?, k: k?, bits, row: inst.has(M::Row) };
        let registers = fragment.layout()?.registers();
        let base = self.fit(base, Width::W64);
        let line = match stride {
            Some(stride) => {
                let stride = self.source(stride, T::U32)?;
                self.fit(stride, Width::W64)
            }
            None => Operand::Imm(fragment.line().into()),
        };
        // Elements of less than a byte: lines of whole bytes, elements side by side.
        let bits = u64::from(bits);
        let line = match line {
            Operand::Imm(n) => Operand::Imm(n * bits / 8),
            line if bits >= 8 => self.wide(IntOp::MulLo, line, bits / 8),
            line => self.wide(IntOp::Div, line, 8 / bits),
        };
        Some((fragment, registers, vec![base, offset, line]))
    }

    pub(super) fn fragment_load(&mut self, inst: &ast::Instruction) -> Option<()> {
        let (d, address, stride) = match &inst.operands[..] {
            [d, address] => (d, address, None),
            [d, address, stride] => (d, address, Some(stride)),
            _ => return None,
        };
        let width = if inst.ty()? == T::F64 { Width::W64 } else { Width::W32 };
        let dst = self.results(d, width)?;
        let (fragment, registers, src) = self.fragment(inst, address, stride)?;
        (dst.len() >= registers && dst.len().is_multiple_of(registers)).then_some(())?;
        let loaded: Vec<_> = (0..registers).map(|_| self.temp(width)).collect();
        self.emit(Op::LoadFragment(fragment), loaded.clone(), src);
        for (d, loaded) in dst.iter().zip(loaded.iter().cycle()) {
            self.emit(Op::Mov(width), vec![*d], vec![(*loaded).into()]);
        }
        Some(())
    }

    pub(super) fn fragment_store(&mut self, inst: &ast::Instruction) -> Option<()> {
        let (address, values, stride) = match &inst.operands[..] {
            [address, values] => (address, values, None),
            [address, values, stride] => (address, values, Some(stride)),
            _ => return None,
        };
        let values = self.elements(values, if inst.ty()? == T::F64 { T::B64 } else { T::B32 })?;
        let (fragment, registers, mut src) = self.fragment(inst, address, stride)?;
        (values.len() == registers).then_some(())?;
        src.extend(values);
        self.effect(Op::StoreFragment(fragment), src);
        Some(())
    }
}
