//! Video instructions: arithmetic on the bytes and halves of 32-bit registers.
//!
//! They become ordinary integer operations. Those on one part compute in 64 bits, in which the 34
//! bits that the manual gives intermediate results fit; those on several parts compute each part
//! in 32 bits.

use super::Lowering;
use crate::ir::Operand;
use crate::ir::op::{Class, Compare, CompareType, IntOp, IntType, Op, Width};
use crate::lower::mov_setp_selp::comparison;
use ptx::ast::{self, Component, Modifier as M, Opcode, ScalarType as T};

/// Bits of a register, from one on.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) first: u32,
    pub(super) bits: u32,
}

impl Part {
    const WHOLE: Self = Self { first: 0, bits: 32 };
}

/// What an operation makes of two numbers.
#[derive(Clone, Copy)]
enum Combine {
    Add,
    Sub,
    AbsDiff,
    Min,
    Max,
    /// Half the sum, halves away from zero.
    Average,
    /// 1 or 0.
    Compare(Compare),
    /// Shifts; by a clamped or a wrapped number.
    Shift {
        left: bool,
        wrap: bool,
    },
}

impl Lowering<'_> {
    pub(super) fn video(&mut self, inst: &ast::Instruction) -> Option<()> {
        use Opcode::*;
        let shift = |left| Combine::Shift { left, wrap: inst.has(M::Wrap) };
        let compare = || Some(Combine::Compare(comparison(inst.comparison()?)));
        match inst.opcode {
            Vadd => self.video_one(inst, Combine::Add),
            Vsub => self.video_one(inst, Combine::Sub),
            Vabsdiff => self.video_one(inst, Combine::AbsDiff),
            Vmin => self.video_one(inst, Combine::Min),
            Vmax => self.video_one(inst, Combine::Max),
            Vshl => self.video_one(inst, shift(true)),
            Vshr => self.video_one(inst, shift(false)),
            Vset => self.video_one(inst, compare()?),
            Vmad => self.video_mad(inst),
            Vadd2 | Vadd4 => self.video_many(inst, Combine::Add),
            Vsub2 | Vsub4 => self.video_many(inst, Combine::Sub),
            Vavrg2 | Vavrg4 => self.video_many(inst, Combine::Average),
            Vabsdiff2 | Vabsdiff4 => self.video_many(inst, Combine::AbsDiff),
            Vmin2 | Vmin4 => self.video_many(inst, Combine::Min),
            Vmax2 | Vmax4 => self.video_many(inst, Combine::Max),
            Vset2 | Vset4 => self.video_many(inst, compare()?),
            _ => None,
        }
    }

    /// The operand's register or constant, and which part of it is meant.
    fn video_operand(&mut self, operand: &ast::Operand) -> Option<(Operand, Part)> {
        let (id, part) = match operand {
            ast::Operand::Component(id, part) => (id, part_of(*part)?),
            ast::Operand::Register(id) | ast::Operand::Negated(id) => (id, Part::WHOLE),
            other => return Some((self.raw_source(other, T::B32)?, Part::WHOLE)),
        };
        Some((self.register(*id)?.into(), part))
    }

    /// A part of a register, extended to `width`.
    pub(super) fn part(
        &mut self,
        from: Operand,
        part: Part,
        signed: bool,
        width: Width,
    ) -> Operand {
        let mut value = from;
        if part.bits < 32 {
            let src = vec![from, Operand::Imm(part.first.into()), Operand::Imm(part.bits.into())];
            let op = Op::Int(IntOp::Bfe, IntType::of(Width::W32, signed));
            value = self.value(op, Width::W32, src);
        }
        match width {
            Width::W32 => value,
            _ => {
                let op = Op::Extend { from: Width::W32, bits: 32, signed, to: width };
                self.value(op, width, vec![value])
            }
        }
    }

    fn int(&mut self, op: IntOp, ty: IntType, src: Vec<Operand>) -> Operand {
        self.value(Op::Int(op, ty), ty.width(), src)
    }

    /// `a` and `b`, numbers of the signed type `ty`, combined in that type.
    fn combine(&mut self, how: Combine, a: Operand, b: Operand, ty: IntType, sat: bool) -> Operand {
        match how {
            Combine::Add => self.int(IntOp::Add, ty, vec![a, b]),
            Combine::Sub => self.int(IntOp::Sub, ty, vec![a, b]),
            Combine::AbsDiff => {
                let difference = self.int(IntOp::Sub, ty, vec![a, b]);
                self.int(IntOp::Abs, ty, vec![difference])
            }
            Combine::Min => self.int(IntOp::Min, ty, vec![a, b]),
            Combine::Max => self.int(IntOp::Max, ty, vec![a, b]),
            Combine::Average => {
                let sum = self.int(IntOp::Add, ty, vec![a, b]);
                // One more, unless the sum is negative: its sign, shifted in, is -1 then.
                let sign = Operand::Imm(u64::from(ty.width().bits()) - 1);
                let negative = self.int(IntOp::Shr, ty, vec![sum, sign]);
                let more = self.int(IntOp::Add, ty, vec![negative, Operand::Imm(1)]);
                let sum = self.int(IntOp::Add, ty, vec![sum, more]);
                self.int(IntOp::Shr, ty, vec![sum, Operand::Imm(1)])
            }
            Combine::Compare(how) => {
                let p = self.temporary(Class::Pred);
                self.emit(Op::Setp(how, CompareType::Int(ty)), vec![p], vec![a, b]);
                let src = vec![Operand::Imm(1), Operand::Imm(0), p.into()];
                self.value(Op::Select(ty.width()), ty.width(), src)
            }
            Combine::Shift { left, wrap } => {
                let narrow =
                    Op::Extend { from: ty.width(), bits: 32, signed: false, to: Width::W32 };
                let by = self.value(narrow, Width::W32, vec![b]);
                let by = match wrap {
                    true => self.int(IntOp::And, IntType::U32, vec![by, Operand::Imm(31)]),
                    false => self.int(IntOp::Min, IntType::U32, vec![by, Operand::Imm(32)]),
                };
                match (left, sat) {
                    (false, _) => self.int(IntOp::Shr, ty, vec![a, by]),
                    (true, false) => self.int(IntOp::Shl, ty, vec![a, by]),
                    // 33 bits moved by 32 are too many: what overflows anyway is cut in between.
                    (true, true) => {
                        let first = self.int(IntOp::Min, IntType::U32, vec![by, Operand::Imm(31)]);
                        let rest = self.int(IntOp::Sub, IntType::U32, vec![by, first]);
                        let moved = self.int(IntOp::Shl, ty, vec![a, first]);
                        let moved = self.clamp(moved, Width::W64, true, 41, true);
                        self.int(IntOp::Shl, ty, vec![moved, rest])
                    }
                }
            }
        }
    }

    /// `vadd d, a, b`, with a second operation or a merge if there is a `c`.
    fn video_one(&mut self, inst: &ast::Instruction, how: Combine) -> Option<()> {
        let ty = IntType::S64;
        let [d, a, b, c @ ..] = &inst.operands[..] else { return None };
        let types: Vec<T> = inst.types().collect();
        // `vset` has no type of the result: it is unsigned.
        let (a_type, b_type) = (types.iter().rev().nth(1)?, types.last()?);
        let signed = types.len() == 3 && types[0].is_signed();
        let (a, a_part) = self.video_operand(a)?;
        let (b, b_part) = self.video_operand(b)?;
        let a = self.part(a, a_part, a_type.is_signed(), Width::W64);
        let b = self.part(b, b_part, b_type.is_signed(), Width::W64);
        let sat = inst.has(M::Sat);
        let mut value = self.combine(how, a, b, ty, sat);
        let (d, part) = match d {
            ast::Operand::Component(id, part) => (ast::Operand::Register(*id), part_of(*part)?),
            d => (d.clone(), Part::WHOLE),
        };
        if sat {
            value = self.clamp(value, Width::W64, true, part.bits, signed);
        }
        let c = match c.first() {
            Some(c) => Some(self.video_operand(c)?.0),
            None => None,
        };
        let second = [(M::Add, IntOp::Add), (M::Min, IntOp::Min), (M::Max, IntOp::Max)]
            .into_iter()
            .find_map(|(modifier, op)| inst.has(modifier).then_some(op));
        if let (Some(op), Some(c)) = (second, c) {
            let c = self.part(c, Part::WHOLE, signed, Width::W64);
            value = self.int(op, ty, vec![value, c]);
        }
        let low = Op::Extend { from: Width::W64, bits: 32, signed: false, to: Width::W32 };
        match c {
            Some(c) if part.bits < 32 => {
                let value = self.value(low, Width::W32, vec![value]);
                let (at, bits) = (Operand::Imm(part.first.into()), Operand::Imm(part.bits.into()));
                let op = Op::Int(IntOp::Bfi, IntType::U32);
                self.emit_to(op, &d, Width::W32, false, vec![value, c, at, bits])
            }
            _ => self.emit_to(low, &d, Width::W32, false, vec![value]),
        }
    }

    /// `vmad d, a, b, c`: the product has 64 bits and a sign.
    fn video_mad(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [d, a, b, c] = &inst.operands[..] else { return None };
        let types: Vec<T> = inst.types().collect();
        let [_, a_type, b_type] = types[..] else { return None };
        let negated = |operand: &ast::Operand| matches!(operand, ast::Operand::Negated(_));
        let (product_negated, c_negated) = (negated(a) != negated(b), negated(c));
        let factors_signed = a_type.is_signed() || b_type.is_signed();
        let signed = factors_signed || product_negated || c_negated;
        let ty = IntType::of(Width::W64, signed);
        let (a, a_part) = self.video_operand(a)?;
        let (b, b_part) = self.video_operand(b)?;
        let a = self.part(a, a_part, a_type.is_signed(), Width::W64);
        let b = self.part(b, b_part, b_type.is_signed(), Width::W64);
        let mut value = self.int(IntOp::MulLo, ty, vec![a, b]);
        let sat = inst.has(M::Sat);
        if sat && signed && !factors_signed {
            // An unsigned product needs all 64 bits; one this large saturates with every operation that follows.
            value = self.int(IntOp::Min, IntType::U64, vec![value, Operand::Imm(1 << 62)]);
        }
        if product_negated {
            value = self.int(IntOp::Neg, IntType::S64, vec![value]);
        }
        let (c, c_part) = self.video_operand(c)?;
        let c = self.part(c, c_part, signed, Width::W64);
        value = match c_negated {
            true => self.int(IntOp::Sub, ty, vec![value, c]),
            false => self.int(IntOp::Add, ty, vec![value, c]),
        };
        if inst.has(M::Po) {
            value = self.int(IntOp::Add, ty, vec![value, Operand::Imm(1)]);
        }
        let shift = [(M::Shr7, 7), (M::Shr15, 15)]
            .into_iter()
            .find_map(|(modifier, by)| inst.has(modifier).then_some(by));
        if let Some(by) = shift {
            value = self.int(IntOp::Shr, ty, vec![value, Operand::Imm(by)]);
        }
        if sat {
            value = self.clamp(value, Width::W64, signed, 32, signed);
        }
        let low = Op::Extend { from: Width::W64, bits: 32, signed: false, to: Width::W32 };
        self.emit_to(low, d, Width::W32, false, vec![value])
    }

    /// `vadd2`, `vadd4`: on all halves or bytes, chosen from those of `a` and `b` together.
    fn video_many(&mut self, inst: &ast::Instruction, how: Combine) -> Option<()> {
        let [d, a, b, c] = &inst.operands[..] else { return None };
        let types: Vec<T> = inst.types().collect();
        let (a_type, b_type) = (types.iter().rev().nth(1)?, types.last()?);
        let signed = types.len() == 3 && types[0].is_signed();
        let letter = if self.env.module.name(inst.name).ends_with('2') { 'h' } else { 'b' };
        let count = if letter == 'h' { 2 } else { 4 };
        let bits = 32 / count;
        let (written, d) = self.selection(d, letter)?;
        // Without a mask all are written.
        let written: Vec<u32> = written.unwrap_or_else(|| (0..count).collect());
        let (from_a, a) = self.selection(a, letter)?;
        let (from_b, b) = self.selection(b, letter)?;
        let from_a = from_a.unwrap_or_else(|| (0..count).collect());
        let from_b = from_b.unwrap_or_else(|| (count..2 * count).collect());
        (from_a.len() == count as usize && from_b.len() == count as usize).then_some(())?;
        let both = [self.video_operand(&a)?.0, self.video_operand(&b)?.0];
        let c = self.video_operand(c)?.0;
        let ty = IntType::S32;
        let mut result = c;
        for i in 0..count {
            if !written.contains(&i) {
                continue;
            }
            let element = |l: &mut Self, from: &[u32], ty: &T| {
                let at = from[i as usize];
                let part = Part { first: at % count * bits, bits };
                l.part(both[(at / count) as usize], part, ty.is_signed(), Width::W32)
            };
            let a = element(self, &from_a, a_type);
            let b = element(self, &from_b, b_type);
            let mut value = self.combine(how, a, b, ty, false);
            if inst.has(M::Sat) {
                value = self.clamp(value, Width::W32, true, bits, signed);
            }
            result = match inst.has(M::Add) {
                true => self.int(IntOp::Add, IntType::U32, vec![result, value]),
                false => {
                    let (at, bits) = (Operand::Imm((i * bits).into()), Operand::Imm(bits.into()));
                    self.int(IntOp::Bfi, IntType::U32, vec![value, result, at, bits])
                }
            };
        }
        self.emit_to(Op::Mov(Width::W32), &d, Width::W32, false, vec![result])
    }

    /// The numbers behind `.h` or `.b`, the last first, if there are any; and the operand without.
    fn selection(
        &self,
        operand: &ast::Operand,
        letter: char,
    ) -> Option<(Option<Vec<u32>>, ast::Operand)> {
        let (id, text) = match operand {
            ast::Operand::Selected(id, name) => (*id, self.env.module.name(*name)),
            ast::Operand::Component(id, part) => (*id, part.text()),
            other => return Some((None, other.clone())),
        };
        let digits = text.strip_prefix(letter)?;
        let most = if letter == 'h' { 4 } else { 8 };
        let numbers =
            digits.chars().rev().map(|digit| digit.to_digit(most)).collect::<Option<Vec<u32>>>()?;
        Some((Some(numbers), ast::Operand::Register(id)))
    }
}

/// The byte or half that a selector names.
fn part_of(component: Component) -> Option<Part> {
    use Component::*;
    let (index, bits) = match component {
        B0 => (0, 8),
        B1 => (1, 8),
        B2 => (2, 8),
        B3 => (3, 8),
        H0 => (0, 16),
        H1 => (1, 16),
        _ => return None,
    };
    Some(Part { first: index * bits, bits })
}
