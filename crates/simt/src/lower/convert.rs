//! `cvt`: between integers, between floats, and across.

use super::float::{float_type, mode_of};
use super::{Lowering, class_of};
use crate::ir::Operand;
use crate::ir::op::{Convert, FloatMode, FloatType, IntOp, IntType, Op, Round, Width};
use ptx::ast::{self, Modifier as M, Opcode, Rounding, ScalarType as T};

/// An integer type of 8 to 64 bits; plain bits count as unsigned.
fn integer(ty: T) -> Option<(u32, bool)> {
    let kind_ok = ty.is_integer() || matches!(ty, T::B8 | T::B16 | T::B32 | T::B64);
    (kind_ok && !ty.is_packed() && (8..=64).contains(&ty.bits()))
        .then(|| (ty.bits(), ty.is_signed()))
}

/// The rounding of a conversion to an integral value, `.rni` and the like.
fn integral_round(inst: &ast::Instruction) -> Option<Round> {
    Some(match inst.rounding()? {
        Rounding::Rni => Round::Near,
        Rounding::Rzi => Round::Zero,
        Rounding::Rmi => Round::Down,
        Rounding::Rpi => Round::Up,
        _ => return None,
    })
}

impl Lowering<'_> {
    pub(super) fn convert(&mut self, inst: &ast::Instruction) -> Option<()> {
        if inst.opcode != Opcode::Cvt {
            return None;
        }
        let mut types = inst.types();
        let (to, from) = (types.next()?, types.next()?);
        if types.next().is_some() || inst.has(M::Satfinite) || inst.has(M::Scaled) {
            return None;
        }
        let (d, sources) = inst.operands.split_first()?;
        match (integer(to), integer(from)) {
            (Some(to), Some(from)) => self.int_to_int(inst, d, sources, to, from),
            (Some((bits, signed)), None) => {
                let [a] = sources else { return None };
                let ftz = inst.has(M::Ftz);
                let round = integral_round(inst)?;
                let mut source_type = float_type(from)?;
                let mut a = self.source(a, from)?;
                // Exact: every half is an f32.
                if matches!(source_type, FloatType::F16 | FloatType::BF16) {
                    let widen = Convert::Float {
                        from: source_type,
                        to: FloatType::F32,
                        mode: FloatMode::default(),
                        relu: false,
                    };
                    a = self.value(Op::Convert(widen), Width::W32, vec![a]);
                    source_type = FloatType::F32;
                }
                let bits8 = bits as u8;
                let op = Convert::ToInt { from: source_type, bits: bits8, signed, round, ftz };
                self.emit_to(Op::Convert(op), d, Width::for_bits(bits), signed, vec![a])
            }
            (None, Some((bits, signed))) => {
                let [a] = sources else { return None };
                let raw = self.raw_source(a, from)?;
                let a = self.extended(raw, bits, signed, Width::for_bits(bits.max(32)))?;
                let from = IntType::of(Width::for_bits(bits.max(32)), signed);
                let to = float_type(to)?;
                let op = Convert::FromInt { from, to, mode: mode_of(inst)? };
                self.emit_to(Op::Convert(op), d, to.width(), false, vec![a])
            }
            (None, None) => self.float_to_float(inst, d, sources, to, from),
        }
    }

    /// The low `bits` of a source, extended to `to`.
    fn extended(&mut self, source: Operand, bits: u32, signed: bool, to: Width) -> Option<Operand> {
        let reg = match source {
            Operand::Imm(value) => {
                let shift = 64 - bits;
                let value = if signed {
                    (((value << shift) as i64) >> shift) as u64
                } else {
                    (value << shift) >> shift
                };
                return Some(Operand::Imm(value));
            }
            Operand::Slot(_) => return None,
            Operand::Reg(reg) => reg,
        };
        let from = self.reg_class(reg).width()?;
        if from == to && bits == to.bits() {
            return Some(source);
        }
        (bits <= from.bits()).then_some(())?;
        let op = Op::Extend { from, bits: bits as u8, signed, to };
        Some(self.value(op, to, vec![source]))
    }

    fn int_to_int(
        &mut self,
        inst: &ast::Instruction,
        d: &ast::Operand,
        sources: &[ast::Operand],
        (to_bits, to_signed): (u32, bool),
        (from_bits, from_signed): (u32, bool),
    ) -> Option<()> {
        let [a] = sources else { return None };
        let ty = inst.ty()?;
        let raw = self.raw_source(a, ty)?;
        let result = Width::for_bits(to_bits);
        let Some(dest) = self.dest_reg(d)? else { return Some(()) };
        let dest_width = self.reg_class(dest).width()?;
        if inst.has(M::Sat) {
            // Clamp in a width that holds both ranges, then cut.
            let work = Width::for_bits(from_bits.max(to_bits).max(32));
            let a = self.extended(raw, from_bits, from_signed, work)?;
            let a = self.clamp(a, work, from_signed, to_bits, to_signed);
            let cut = self.extended(a, to_bits, to_signed, dest_width.max(result))?;
            self.emit(Op::Mov(dest_width), vec![dest], vec![cut]);
            return Some(());
        }
        if to_bits <= from_bits {
            // Narrowing: the result's low bits, extended by the result's sign to the register.
            let cut = self.extended(raw, to_bits, to_signed, dest_width)?;
            return self.assign(dest, dest_width, cut);
        }
        let wide = self.extended(raw, from_bits, from_signed, result)?;
        let wide = if dest_width > result {
            self.extended(wide, to_bits, to_signed, dest_width)?
        } else {
            wide
        };
        self.assign(dest, dest_width, wide)
    }

    /// Moves a value into a register of its width, retargeting the temporary's definition.
    fn assign(&mut self, dest: crate::ir::Reg, width: Width, value: Operand) -> Option<()> {
        let last = self.insts.last_mut();
        if let (Operand::Reg(reg), Some(last)) = (value, last)
            && reg.0 >= self.first_temporary
            && last.dst == [reg]
        {
            last.dst = vec![dest];
            last.guard = self.guard;
            return Some(());
        }
        self.emit(Op::Mov(width), vec![dest], vec![value]);
        Some(())
    }

    /// A number of type `work` and `from_signed`, moved into the range of another integer type.
    pub(super) fn clamp(
        &mut self,
        a: Operand,
        work: Width,
        from_signed: bool,
        to_bits: u32,
        to_signed: bool,
    ) -> Operand {
        let ty = IntType::of(work, from_signed);
        let high = if to_signed { (1u64 << (to_bits - 1)) - 1 } else { u64::MAX >> (64 - to_bits) };
        let mut a = a;
        // A bound outside of the source's range would wrap in `work`, and cannot bind.
        let source_high = if from_signed {
            (1u64 << (work.bits() - 1)) - 1
        } else {
            u64::MAX >> (64 - work.bits())
        };
        if high < source_high {
            a = self.value(Op::Int(IntOp::Min, ty), work, vec![a, Operand::Imm(high)]);
        }
        if from_signed {
            let low = if to_signed { (-1i64 << (to_bits - 1)) as u64 } else { 0 };
            a = self.value(Op::Int(IntOp::Max, ty), work, vec![a, Operand::Imm(low)]);
        }
        a
    }

    fn float_to_float(
        &mut self,
        inst: &ast::Instruction,
        d: &ast::Operand,
        sources: &[ast::Operand],
        to: T,
        from: T,
    ) -> Option<()> {
        let (to_type, from_type) = (float_type(to)?, float_type(from)?);
        let mut src = sources.iter().map(|s| self.source(s, from)).collect::<Option<Vec<_>>>()?;
        // Of f32 an f16 is made as it is, also with `.ftz`: so assemblers have it.
        if (from_type, to_type) == (FloatType::F32, FloatType::BF16) && inst.has(M::Ftz) {
            src = src.into_iter().map(|value| self.without_subnormals(value)).collect();
        }
        let packed = matches!(to_type, FloatType::F16x2 | FloatType::BF16x2);
        if src.len() != if packed { 2 } else { 1 } || (packed && from_type != FloatType::F32) {
            return None;
        }
        let width = class_of(to).width()?;
        let flags = FloatMode { round: Round::Near, ftz: inst.has(M::Ftz), sat: inst.has(M::Sat) };
        let op = match integral_round(inst) {
            Some(round) if to == from => {
                Convert::Integral { ty: to_type, mode: FloatMode { round, ..flags } }
            }
            Some(_) => return None,
            None => {
                let mode = FloatMode { round: mode_of(inst)?.round, ..flags };
                Convert::Float { from: from_type, to: to_type, mode, relu: inst.has(M::Relu) }
            }
        };
        self.emit_to(Op::Convert(op), d, width, false, src)
    }
}
