//! Arithmetic, logic, conversions and comparisons of one thread.

use crate::execute::Thread;
use crate::grid::Grid;
use crate::memory::{self, Space};
use crate::number::F32;
use crate::{fixed, float, integer, narrow};
use ptx::ast::{
    BoolOp, Comparison, Instruction, Modifier as M, Opcode, Operand, Rounding, ScalarType as T,
    StateSpace,
};

/// `cvt` of a pair: the types, the sources without the scale, and the scale.
type Convert = fn(&Instruction, T, T, &[u64], Option<u64>) -> Option<u64>;

impl Thread {
    pub(crate) fn compute(&mut self, grid: &Grid<'_>, inst: &Instruction) -> Option<()> {
        let ty = inst.ty()?;
        let (d, sources) = inst.operands.split_first()?;
        match inst.opcode {
            Opcode::Mov => self.mov(grid, inst, ty, d, sources.first()?),
            Opcode::Cvt if inst.has(M::Pack) => None,
            Opcode::Cvt => self.cvt(grid, inst, d, sources),
            Opcode::Setp => self.setp(grid, inst, ty, d, sources),
            Opcode::Set if inst.types().count() == 2 => {
                let to = inst.types().next()?;
                if ty.is_packed() {
                    return None;
                }
                let holds = self.comparison(grid, inst, ty, sources)?;
                let yes = match to {
                    T::F32 => u64::from(1f32.to_bits()),
                    T::F16 => 0x3c00,
                    T::Bf16 => 0x3f80,
                    _ => u64::MAX,
                };
                self.write(grid, d, if holds { yes } else { 0 }, to)
            }
            Opcode::Selp => {
                let chosen = usize::from(!self.predicate(grid, sources.get(2)?)?);
                let value = self.source(grid, &sources[chosen], ty)?;
                self.write(grid, d, value, ty)
            }
            Opcode::Slct => {
                let first = inst.types().next()?;
                let c = self.source(grid, sources.get(2)?, ty)?;
                let at_least_zero = match ty {
                    T::S32 => integer::value(c, ty) >= 0,
                    _ => {
                        let format = float::format_of(ty)?;
                        let ge = Comparison::Ge;
                        float::compare(ge, format, inst.has(M::Ftz), c, 0)?
                    }
                };
                let value = self.source(grid, &sources[usize::from(!at_least_zero)], first)?;
                self.write(grid, d, value, first)
            }
            Opcode::Testp => {
                let value = self.source(grid, sources.first()?, ty)?;
                self.write_predicate(grid, d, float::test(inst, float::format_of(ty)?, value)?)
            }
            Opcode::And | Opcode::Or | Opcode::Xor | Opcode::Not if ty == T::Pred => {
                let a = self.predicate(grid, sources.first()?)?;
                let result = match inst.opcode {
                    Opcode::Not => !a,
                    Opcode::And => a & self.predicate(grid, sources.get(1)?)?,
                    Opcode::Or => a | self.predicate(grid, sources.get(1)?)?,
                    _ => a ^ self.predicate(grid, sources.get(1)?)?,
                };
                self.write_predicate(grid, d, result)
            }
            Opcode::Cvta => {
                let address = self.source(grid, sources.first()?, ty)?;
                let space = match inst.space()?.root() {
                    StateSpace::Shared => Space::Shared,
                    StateSpace::Local => Space::Local,
                    _ => Space::Global,
                };
                let result = if inst.has(M::To) {
                    memory::from_generic(address).1
                } else {
                    memory::to_generic(space, address)
                };
                self.write(grid, d, result, ty)
            }
            Opcode::Isspacep => {
                let address = self.source(grid, sources.first()?, T::U64)?;
                let wanted = match inst.space()?.root() {
                    StateSpace::Global => Space::Global,
                    StateSpace::Shared => Space::Shared,
                    StateSpace::Local => Space::Local,
                    _ => return None,
                };
                let is = memory::from_generic(address).0 == wanted;
                self.write_predicate(grid, d, is)
            }
            _ => self.arithmetic(grid, inst, ty, d, sources),
        }
    }

    /// How wide a source is where that is not the instruction's type.
    fn source_type(inst: &Instruction, ty: T, index: usize) -> T {
        match (inst.opcode, index) {
            (Opcode::Shl | Opcode::Shr, 1)
            | (Opcode::Bfe | Opcode::Szext, 1..)
            | (Opcode::Bfi, 2..)
            | (Opcode::Fns | Opcode::Bmsk, _)
            | (Opcode::Lop3, 3) => T::U32,
            // Of mixed precision: the addend is an f32.
            (Opcode::Add | Opcode::Sub, 1) | (Opcode::Fma, 2) => inst.types().next().unwrap_or(ty),
            (Opcode::Mad | Opcode::Madc, 2) if inst.has(M::Wide) => match ty.bits() {
                16 => T::B32,
                _ => T::B64,
            },
            _ => ty,
        }
    }

    fn arithmetic(
        &mut self,
        grid: &Grid<'_>,
        inst: &Instruction,
        ty: T,
        d: &Operand,
        sources: &[Operand],
    ) -> Option<()> {
        let values = sources
            .iter()
            .enumerate()
            .map(|(i, source)| self.source(grid, source, Self::source_type(inst, ty, i)))
            .collect::<Option<Vec<_>>>()?;
        if ty.is_float() {
            let format = float::format_of(ty)?;
            if inst.types().next() == Some(T::F32) && matches!(ty, T::F16 | T::Bf16) {
                let values = float::widen_factors(format, values);
                let result = float::arithmetic(inst, F32, &values)?;
                return self.write(grid, d, result, T::F32);
            }
            let part = if ty.is_packed() { ty.bits() / 2 } else { ty.bits() };
            let mut result = 0;
            for at in (0..ty.bits()).step_by(part as usize) {
                let cut: Vec<u64> =
                    values.iter().map(|v| integer::unsigned(v >> at, part)).collect();
                result |= float::arithmetic(inst, format, &cut)? << at;
            }
            return self.write(grid, d, result, ty);
        }
        if matches!(inst.opcode, Opcode::Dp4a | Opcode::Dp2a) {
            return self.write(grid, d, integer::dot(inst, &values)?, T::B32);
        }
        let chain =
            inst.has(M::Cc) || matches!(inst.opcode, Opcode::Addc | Opcode::Subc | Opcode::Madc);
        if chain {
            let carry_in = matches!(inst.opcode, Opcode::Addc | Opcode::Subc | Opcode::Madc);
            let (a, b) = match inst.opcode {
                Opcode::Mad | Opcode::Madc => {
                    // Two unsigned factors of 64 bits may exceed 127 bits: the low half stays right.
                    let whole =
                        integer::value(values[0], ty).wrapping_mul(integer::value(values[1], ty));
                    let whole = if inst.has(M::Hi) && ty.bits() == 64 && !ty.is_signed() {
                        ((u128::from(values[0]) * u128::from(values[1])) >> 64) as i128
                    } else if inst.has(M::Hi) {
                        whole >> ty.bits()
                    } else {
                        whole
                    };
                    (whole as u64, values[2])
                }
                _ => (values[0], values[1]),
            };
            let subtract = matches!(inst.opcode, Opcode::Sub | Opcode::Subc);
            let flag = carry_in.then(|| self.top().carry);
            let (value, carry) = integer::carry(subtract, ty.bits(), a, b, flag);
            if inst.has(M::Cc) {
                self.top().carry = carry;
            }
            return self.write(grid, d, value, ty);
        }
        let value = integer::arithmetic(inst, ty, &values)?;
        let result = match inst.opcode {
            Opcode::Popc | Opcode::Clz | Opcode::Bfind => T::U32,
            Opcode::Mul | Opcode::Mad if inst.has(M::Wide) => match (ty.bits(), ty.is_signed()) {
                (16, true) => T::S32,
                (16, false) => T::U32,
                (_, true) => T::S64,
                (_, false) => T::U64,
            },
            _ => ty,
        };
        self.write(grid, d, value, result)
    }

    fn mov(
        &mut self,
        grid: &Grid<'_>,
        inst: &Instruction,
        ty: T,
        d: &Operand,
        a: &Operand,
    ) -> Option<()> {
        if inst.vector_width() != 1 {
            return None;
        }
        if ty == T::Pred {
            let value = self.predicate(grid, a)?;
            return self.write_predicate(grid, d, value);
        }
        let part_type = |parts: usize| match ty.bits() / parts as u32 {
            8 => Some(T::B8),
            16 => Some(T::B16),
            32 => Some(T::B32),
            _ => None,
        };
        if let Operand::Vector(parts) = a {
            let part = part_type(parts.len())?;
            let mut value = 0;
            for (i, operand) in parts.iter().enumerate() {
                value |= self.source(grid, operand, part)? << (i as u32 * part.bits());
            }
            return self.write(grid, d, value, ty);
        }
        let value = self.source(grid, a, ty)?;
        if let Operand::Vector(parts) = d {
            let part = part_type(parts.len())?;
            for (i, operand) in parts.iter().enumerate() {
                self.write(grid, operand, value >> (i as u32 * part.bits()), part)?;
            }
            return Some(());
        }
        self.write(grid, d, value, ty)
    }

    fn cvt(
        &mut self,
        grid: &Grid<'_>,
        inst: &Instruction,
        d: &Operand,
        sources: &[Operand],
    ) -> Option<()> {
        let mut types = inst.types();
        let (to, from) = (types.next()?, types.next()?);
        let special = [to, from].into_iter().find_map(|ty| match ty {
            T::F16x2 | T::Bf16x2 if inst.rounding() == Some(Rounding::Rs) => {
                Some(narrow::halves_at_random as Convert)
            }
            T::S2f6x2 => Some(fixed::convert as Convert),
            ty => narrow::has(ty).then_some(narrow::convert as Convert),
        });
        if let Some(convert) = special {
            // Behind the numbers.
            let more = match inst.rounding() {
                Some(Rounding::Rs) => Some(T::B32),
                _ if inst.has(M::Scaled) => Some(T::B16),
                _ if inst.has(M::ScaledAlike) => Some(T::B8),
                _ => None,
            };
            let (sources, more) = match (more, sources.split_last()) {
                (Some(ty), Some((last, rest))) => (rest, Some(self.source(grid, last, ty)?)),
                _ => (sources, None),
            };
            let numbers = match sources {
                [Operand::Vector(numbers)] => &numbers[..],
                numbers => numbers,
            };
            let values = numbers
                .iter()
                .map(|source| self.source(grid, source, from))
                .collect::<Option<Vec<_>>>()?;
            let value = convert(inst, to, from, &values, more)?;
            let bits = match to.bits() {
                8 => T::B8,
                16 => T::B16,
                _ => T::B32,
            };
            return self.write(grid, d, value, bits);
        }
        let a = self.source(grid, &sources[0], from)?;
        if to.is_packed() && sources.len() == 2 {
            // The first source is the high half.
            let high = float::convert(inst, to, from, a)?;
            let b = self.source(grid, &sources[1], from)?;
            let low = float::convert(inst, to, from, b)?;
            return self.write(grid, d, high << 16 | low, T::B32);
        }
        let value = if to.is_float() || from.is_float() {
            float::convert(inst, to, from, a)?
        } else {
            integer::convert(inst.has(M::Sat), to, from, a)
        };
        self.write(grid, d, value, to)
    }

    fn comparison(
        &mut self,
        grid: &Grid<'_>,
        inst: &Instruction,
        ty: T,
        sources: &[Operand],
    ) -> Option<bool> {
        let (a, b) = (self.source(grid, &sources[0], ty)?, self.source(grid, &sources[1], ty)?);
        let holds = match float::format_of(ty) {
            Some(format) => float::compare(inst.comparison()?, format, inst.has(M::Ftz), a, b)?,
            None => integer::compare(inst.comparison()?, ty, a, b)?,
        };
        self.combined(grid, inst, sources, holds)
    }

    fn combined(
        &mut self,
        grid: &Grid<'_>,
        inst: &Instruction,
        sources: &[Operand],
        holds: bool,
    ) -> Option<bool> {
        let Some(c) = sources.get(2) else { return Some(holds) };
        let c = self.predicate(grid, c)?;
        Some(match inst.bool_op()? {
            BoolOp::And => holds & c,
            BoolOp::Or => holds | c,
            BoolOp::Xor => holds ^ c,
            BoolOp::Popc => return None,
        })
    }

    fn setp(
        &mut self,
        grid: &Grid<'_>,
        inst: &Instruction,
        ty: T,
        d: &Operand,
        sources: &[Operand],
    ) -> Option<()> {
        if ty.is_packed() {
            return None;
        }
        let plain = &sources[..2];
        let holds = self.comparison(grid, inst, ty, plain)?;
        let p = self.combined(grid, inst, sources, holds)?;
        match d {
            Operand::Pair(pair) => {
                let q = self.combined(grid, inst, sources, !holds)?;
                self.write_predicate(grid, &pair.0, p)?;
                self.write_predicate(grid, &pair.1, q)
            }
            single => self.write_predicate(grid, single, p),
        }
    }
}
