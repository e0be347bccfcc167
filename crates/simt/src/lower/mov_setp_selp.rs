//! `mov`, special registers, `setp`, `selp` and predicate logic.

use crate::ir::op::{
    Class, Compare, CompareType, FloatType, IntOp, IntType, Op, PredOp, Special, Width,
};
use crate::ir::vector::FUNCTION_BASE;
use crate::ir::{Operand, Reg};
use crate::lower::float::float_type;
use crate::lower::{Lowering, Place, class_of, int_type};
use crate::variable_layout::kept_shared;
use ptx::ast::{
    self, BoolOp, Comparison, Component, Modifier as M, Opcode, ScalarType as T, SpecialRegister,
    StateSpace, SymbolRef,
};

/// Two operands that are compared, and how the result is combined with a predicate.
type Compared<'o> = (&'o ast::Operand, &'o ast::Operand, Option<(PredOp, Operand)>);

impl Lowering<'_> {
    pub(super) fn moves(&mut self, inst: &ast::Instruction) -> Option<()> {
        match inst.opcode {
            Opcode::Mov => self.mov(inst),
            Opcode::Setp => self.setp(inst),
            Opcode::Set => self.set(inst),
            Opcode::Selp => self.selp(inst),
            Opcode::Slct => self.slct(inst),
            Opcode::And | Opcode::Or | Opcode::Xor | Opcode::Not if inst.ty()? == T::Pred => {
                self.predicate_logic(inst)
            }
            _ => None,
        }
    }

    fn mov(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [d, a] = &inst.operands[..] else { return None };
        let ty = inst.ty()?;
        if inst.vector_width() != 1 {
            return self.mov_vector(d, a, ty);
        }
        if ty == T::Pred {
            let a = self.predicate(a)?;
            let d = self.predicate_dest(d)?;
            self.emit(Op::PredMov, vec![d], vec![a]);
            return Some(());
        }
        let whole = class_of(ty).width()?;
        match (a, d) {
            (ast::Operand::Vector(parts), _) if whole.bits() == 8 * parts.len() as u32 => {
                return self.pack_bytes(parts, d, whole);
            }
            (_, ast::Operand::Vector(parts)) if whole.bits() == 8 * parts.len() as u32 => {
                let a = self.source(a, ty)?;
                return self.unpack_bytes(parts, a, whole);
            }
            _ => {}
        }
        if let ast::Operand::Vector(parts) = a {
            let part = Width::for_bits(whole.bits() / parts.len() as u32);
            (part.bits() * parts.len() as u32 == whole.bits()).then_some(())?;
            let part_type = bits_type(part);
            let src =
                parts.iter().map(|p| self.source(p, part_type)).collect::<Option<Vec<_>>>()?;
            return self.emit_to(Op::Pack { part, whole }, d, whole, false, src);
        }
        if let ast::Operand::Vector(parts) = d {
            let part = Width::for_bits(whole.bits() / parts.len() as u32);
            (part.bits() * parts.len() as u32 == whole.bits()).then_some(())?;
            let a = self.source(a, ty)?;
            let dst = parts
                .iter()
                .map(|p| match self.dest_reg(p)? {
                    Some(reg) => (self.reg_class(reg) == Class::Lane(part)).then_some(reg),
                    None => Some(self.temp(part)),
                })
                .collect::<Option<Vec<Reg>>>()?;
            // The parts may be the source's own register under another guard: never, widths differ.
            self.emit(Op::Unpack { part, whole }, dst, vec![a]);
            return Some(());
        }
        let a = self.source(a, ty)?;
        self.emit_to(Op::Mov(whole), d, whole, ty.is_signed(), vec![a])
    }

    /// Bytes side by side in a register, the first at the low end; each has a register of 16 bits.
    fn pack_bytes(&mut self, parts: &[ast::Operand], d: &ast::Operand, whole: Width) -> Option<()> {
        let int = |op| Op::Int(op, IntType::of(whole, false));
        let mut word = Operand::Imm(0);
        for (at, part) in (0..).step_by(8).zip(parts) {
            let part = self.source(part, T::B8)?;
            let wide = Op::Extend { from: Width::W16, bits: 8, signed: false, to: whole };
            let byte = self.value(wide, whole, vec![part]);
            let byte = self.value(int(IntOp::Shl), whole, vec![byte, Operand::Imm(at)]);
            word = self.value(int(IntOp::Or), whole, vec![word, byte]);
        }
        self.emit_to(Op::Mov(whole), d, whole, false, vec![word])
    }

    /// The bytes of a register, each to one of its own.
    fn unpack_bytes(&mut self, parts: &[ast::Operand], a: Operand, whole: Width) -> Option<()> {
        for (at, part) in (0..).step_by(8).zip(parts) {
            let shr = Op::Int(IntOp::Shr, IntType::of(whole, false));
            let moved = self.value(shr, whole, vec![a, Operand::Imm(at)]);
            let byte = Op::Extend { from: whole, bits: 8, signed: false, to: Width::W16 };
            self.emit_to(byte, part, Width::W16, false, vec![moved])?;
        }
        Some(())
    }

    /// `mov.v2`: element by element, all read before any is written. Either side is a vector
    /// register or a list.
    fn mov_vector(&mut self, d: &ast::Operand, a: &ast::Operand, ty: T) -> Option<()> {
        let width = class_of(ty).width()?;
        let whole = |l: &Self, operand: &ast::Operand| match operand {
            ast::Operand::Register(id) => Some(l.regs[id.index()].clone()),
            _ => None,
        };
        let sources: Vec<Operand> = match (whole(self, a), a) {
            (Some(regs), _) => regs.into_iter().map(Operand::Reg).collect(),
            (None, ast::Operand::Vector(parts)) => {
                parts.iter().map(|part| self.source(part, ty)).collect::<Option<_>>()?
            }
            _ => return None,
        };
        let values: Vec<Operand> = sources
            .into_iter()
            .map(|source| self.value(Op::Mov(width), width, vec![source]))
            .collect();
        match (whole(self, d), d) {
            (Some(regs), _) if regs.len() == values.len() => {
                for (reg, value) in regs.into_iter().zip(values) {
                    self.emit(Op::Mov(width), vec![reg], vec![value]);
                }
            }
            (None, ast::Operand::Vector(parts)) if parts.len() == values.len() => {
                for (part, value) in parts.iter().zip(values) {
                    self.emit_to(Op::Mov(width), part, width, ty.is_signed(), vec![value])?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// The address of a symbol in its own space, or of a function.
    pub(super) fn symbol_address(&mut self, symbol: SymbolRef, offset: i64) -> Option<Operand> {
        let add = |base: u64| Operand::Imm(base.wrapping_add(offset as u64));
        match symbol {
            SymbolRef::Function(id) => Some(add(FUNCTION_BASE + 16 * id.index() as u64)),
            SymbolRef::Module(id) => Some(add(self.env.layout.module_variable(id)?)),
            SymbolRef::Local(id) => match self.places[id.index()] {
                Place::At(_, address) => Some(add(address)),
                Place::Slot(slot) if offset == 0 => Some(Operand::Slot(slot)),
                Place::Slot(slot) => {
                    let ty = IntType::U64;
                    let src = vec![Operand::Slot(slot), Operand::Imm(offset as u64)];
                    Some(self.value(Op::Int(IntOp::Add, ty), Width::W64, src))
                }
                Place::Nowhere => None,
            },
        }
    }

    /// The space a symbol is in.
    pub(super) fn symbol_space(&self, symbol: SymbolRef) -> Option<StateSpace> {
        match symbol {
            SymbolRef::Function(_) => None,
            SymbolRef::Module(id) => Some(self.env.module.variable(id).space.root()),
            SymbolRef::Local(id) => Some(match self.places[id.index()] {
                Place::At(space, _) => space,
                Place::Slot(_) => StateSpace::Local,
                Place::Nowhere => return None,
            }),
        }
    }

    pub(super) fn special(
        &mut self,
        register: SpecialRegister,
        part: Option<Component>,
        want: Width,
    ) -> Option<Operand> {
        use SpecialRegister as S;
        if let Some(offset) = kept_shared(register) {
            return Some(Operand::Imm(offset));
        }
        let axis = part.and_then(Component::index);
        let special = match register {
            S::Tid
            | S::Ntid
            | S::Ctaid
            | S::Nctaid
            | S::Clusterid
            | S::Nclusterid
            | S::ClusterCtaid
            | S::ClusterNctaid => {
                let axis = axis? as u8;
                match register {
                    // The fourth component exists and is 0 (1 for extents: the manual says 0).
                    _ if axis == 3 => Special::Constant(0),
                    S::Tid => Special::Tid(axis),
                    S::Ntid => Special::Ntid(axis),
                    S::Ctaid => Special::Ctaid(axis),
                    S::Clusterid => Special::Clusterid(axis),
                    S::Nclusterid => Special::Nclusterid(axis),
                    S::ClusterCtaid => Special::ClusterCtaid(axis),
                    S::ClusterNctaid => Special::ClusterNctaid(axis),
                    _ => Special::Nctaid(axis),
                }
            }
            S::ClusterCtarank => Special::ClusterCtarank,
            S::ClusterNctarank => Special::ClusterNctarank,
            S::Laneid => Special::LaneId,
            S::Warpid => Special::WarpId,
            S::Nwarpid => Special::NwarpId,
            S::Smid => Special::SmId,
            S::Nsmid => Special::NsmId,
            S::Gridid => Special::GridId,
            S::LanemaskEq => Special::LanemaskEq,
            S::LanemaskLe => Special::LanemaskLe,
            S::LanemaskLt => Special::LanemaskLt,
            S::LanemaskGe => Special::LanemaskGe,
            S::LanemaskGt => Special::LanemaskGt,
            S::Clock => Special::Clock,
            S::ClockHi => Special::ClockHi,
            S::Clock64 => Special::Clock64,
            S::Globaltimer => Special::GlobalTimer,
            S::GlobaltimerLo => Special::GlobalTimerLo,
            S::GlobaltimerHi => Special::GlobalTimerHi,
            S::DynamicSmemSize => Special::DynamicSharedBytes,
            S::TotalSmemSize | S::AggrSmemSize => Special::TotalSharedBytes,
            // Where cooperative groups look for their barrier.
            S::Envreg1 => Special::WorkspaceHigh,
            S::Envreg2 => Special::WorkspaceLow,
            _ if register.envreg().is_some() => Special::Constant(0),
            S::Pm0 | S::Pm1 | S::Pm2 | S::Pm3 | S::Pm4 | S::Pm5 | S::Pm6 | S::Pm7 => {
                Special::Constant(0)
            }
            _ => return None,
        };
        if let Special::Constant(value) = special {
            return Some(Operand::Imm(u64::from(value)));
        }
        let value = self.value(Op::Special(special), special.width(), vec![]);
        Some(self.fit(value, want))
    }

    fn setp(&mut self, inst: &ast::Instruction) -> Option<()> {
        let ty = inst.ty()?;
        let (d, sources) = inst.operands.split_first()?;
        let (p, q) = match d {
            ast::Operand::Pair(pair) => {
                (self.predicate_dest(&pair.0)?, Some(self.predicate_dest(&pair.1)?))
            }
            single => (self.predicate_dest(single)?, None),
        };
        if matches!(ty, T::F16x2 | T::Bf16x2) {
            let (a, b, c) = self.compared(inst, sources)?;
            let half = if ty == T::F16x2 { FloatType::F16 } else { FloatType::BF16 };
            let (a, b) = (self.halves(inst, ty, a)?, self.halves(inst, ty, b)?);
            let how = CompareType::Float(half, inst.has(M::Ftz));
            let op = Op::Setp(comparison(inst.comparison()?), how);
            // Each may be the other's source: both are made before one is written.
            let both = [0, 1].map(|half| {
                let t = self.temporary(Class::Pred);
                self.emit(op.clone(), vec![t], vec![a[half], b[half]]);
                self.combined(t, c)
            });
            for (d, made) in [p, q?].into_iter().zip(both) {
                self.emit(Op::PredMov, vec![d], vec![made]);
            }
            return Some(());
        }
        let (a, b, c) = self.compared(inst, sources)?;
        let op = self.comparison_op(inst, ty)?;
        let src = self.compared_values(inst, ty, [a, b])?;
        if c.is_none() && q.is_none() {
            self.emit(op, vec![p], src);
            return Some(());
        }
        let t = self.temporary(Class::Pred);
        self.emit(op, vec![t], src);
        // q is the negated comparison, combined alike. p may be a source of it: write it last.
        if let Some(q) = q {
            let n = self.temporary(Class::Pred);
            self.emit(Op::PredNot, vec![n], vec![t.into()]);
            let n = self.combined(n, c);
            let t = self.combined(t, c);
            self.emit(Op::PredMov, vec![q], vec![n]);
            self.emit(Op::PredMov, vec![p], vec![t]);
        } else {
            let t = self.combined(t, c);
            self.emit(Op::PredMov, vec![p], vec![t]);
        }
        Some(())
    }

    /// What is compared, and what the result is combined with.
    fn compared<'o>(
        &mut self,
        inst: &ast::Instruction,
        sources: &'o [ast::Operand],
    ) -> Option<Compared<'o>> {
        Some(match sources {
            [a, b] => (a, b, None),
            [a, b, c] => (a, b, Some((combination(inst)?, self.predicate(c)?))),
            _ => return None,
        })
    }

    fn compared_values(
        &mut self,
        inst: &ast::Instruction,
        ty: T,
        operands: [&ast::Operand; 2],
    ) -> Option<Vec<Operand>> {
        let value = |operand| {
            let value = self.source(operand, ty)?;
            Some(self.flushed_half(inst, ty, value))
        };
        operands.into_iter().map(value).collect()
    }

    fn halves(
        &mut self,
        inst: &ast::Instruction,
        ty: T,
        operand: &ast::Operand,
    ) -> Option<[Operand; 2]> {
        let a = self.source(operand, T::B32)?;
        let a = self.flushed_half(inst, ty, a);
        let (low, high) = (self.temp(Width::W16), self.temp(Width::W16));
        let op = Op::Unpack { part: Width::W16, whole: Width::W32 };
        self.emit(op, vec![low, high], vec![a]);
        Some([low.into(), high.into()])
    }

    fn combined(&mut self, t: Reg, with: Option<(PredOp, Operand)>) -> Operand {
        let Some((op, c)) = with else { return t.into() };
        let d = self.temporary(Class::Pred);
        self.emit(Op::Pred(op), vec![d], vec![t.into(), c]);
        d.into()
    }

    fn comparison_op(&self, inst: &ast::Instruction, ty: T) -> Option<Op> {
        let compare = comparison(inst.comparison()?);
        let how = match float_type(ty) {
            Some(float) => CompareType::Float(float, inst.has(M::Ftz)),
            None => CompareType::Int(int_type(ty)?),
        };
        Some(Op::Setp(compare, how))
    }

    fn set(&mut self, inst: &ast::Instruction) -> Option<()> {
        let mut types = inst.types();
        let (to, from) = (types.next()?, types.next()?);
        if from.is_packed() || to.is_packed() {
            return self.set_packed(inst, to, from);
        }
        let (d, sources) = inst.operands.split_first()?;
        let (a, b, c) = self.compared(inst, sources)?;
        let op = self.comparison_op(inst, from)?;
        let src = self.compared_values(inst, from, [a, b])?;
        let t = self.temporary(Class::Pred);
        self.emit(op, vec![t], src);
        let t = self.combined(t, c);
        let width = class_of(to).width()?;
        let yes = match to {
            T::F32 => u64::from(1f32.to_bits()),
            T::F16 => 0x3c00,
            T::Bf16 => 0x3f80,
            _ => u64::MAX >> (64 - to.bits()),
        };
        self.emit_to(
            Op::Select(width),
            d,
            width,
            false,
            vec![Operand::Imm(yes), Operand::Imm(0), t],
        )
    }

    /// `set` of pairs: each half becomes one or zero, of a float, or all ones or none.
    fn set_packed(&mut self, inst: &ast::Instruction, to: T, from: T) -> Option<()> {
        let (d, sources) = inst.operands.split_first()?;
        let (a, b, c) = self.compared(inst, sources)?;
        let half = |ty| match ty {
            T::F16x2 => Some((FloatType::F16, 0x3c00)),
            T::Bf16x2 => Some((FloatType::BF16, 0x3f80)),
            _ => None,
        };
        let (compared, _) = half(from)?;
        let yes = half(to).map_or(0xffff, |(_, one)| one);
        let (a, b) = (self.halves(inst, from, a)?, self.halves(inst, from, b)?);
        let how = CompareType::Float(compared, inst.has(M::Ftz));
        let compare = comparison(inst.comparison()?);
        let mut parts = Vec::with_capacity(2);
        for (a, b) in a.into_iter().zip(b) {
            let t = self.temporary(Class::Pred);
            self.emit(Op::Setp(compare, how), vec![t], vec![a, b]);
            let src = vec![Operand::Imm(yes), Operand::Imm(0), self.combined(t, c)];
            parts.push(self.value(Op::Select(Width::W16), Width::W16, src));
        }
        self.emit_to(Op::Pack { part: Width::W16, whole: Width::W32 }, d, Width::W32, false, parts)
    }

    fn selp(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [d, a, b, p] = &inst.operands[..] else { return None };
        let ty = inst.ty()?;
        let p = self.predicate(p)?;
        if ty == T::Pred {
            let src = vec![self.predicate(a)?, self.predicate(b)?, p];
            let d = self.predicate_dest(d)?;
            self.emit(Op::PredSelect, vec![d], src);
            return Some(());
        }
        let width = class_of(ty).width()?;
        let src = vec![self.source(a, ty)?, self.source(b, ty)?, p];
        self.emit_to(Op::Select(width), d, width, false, src)
    }

    fn slct(&mut self, inst: &ast::Instruction) -> Option<()> {
        let mut types = inst.types();
        let (ty, by) = (types.next()?, types.next()?);
        let [d, a, b, c] = &inst.operands[..] else { return None };
        let c = self.source(c, by)?;
        let how = match by {
            T::S32 => CompareType::Int(IntType::S32),
            T::F32 => CompareType::Float(FloatType::F32, inst.has(M::Ftz)),
            _ => return None,
        };
        let t = self.temporary(Class::Pred);
        self.emit(Op::Setp(Compare::Ge, how), vec![t], vec![c, Operand::Imm(0)]);
        let width = class_of(ty).width()?;
        let src = vec![self.source(a, ty)?, self.source(b, ty)?, t.into()];
        self.emit_to(Op::Select(width), d, width, false, src)
    }

    fn predicate_logic(&mut self, inst: &ast::Instruction) -> Option<()> {
        let (d, sources) = inst.operands.split_first()?;
        let src = sources.iter().map(|s| self.predicate(s)).collect::<Option<Vec<_>>>()?;
        let d = self.predicate_dest(d)?;
        let op = match inst.opcode {
            Opcode::And => Op::Pred(PredOp::And),
            Opcode::Or => Op::Pred(PredOp::Or),
            Opcode::Xor => Op::Pred(PredOp::Xor),
            _ => Op::PredNot,
        };
        self.emit(op, vec![d], src);
        Some(())
    }
}

/// The untyped type of a width.
pub(super) fn bits_type(width: Width) -> T {
    match width {
        Width::W16 => T::B16,
        Width::W32 => T::B32,
        Width::W64 => T::B64,
        Width::W128 => T::B128,
    }
}

pub(super) fn comparison(c: Comparison) -> Compare {
    match c {
        Comparison::Eq => Compare::Eq,
        Comparison::Ne => Compare::Ne,
        Comparison::Lt | Comparison::Lo => Compare::Lt,
        Comparison::Le | Comparison::Ls => Compare::Le,
        Comparison::Gt | Comparison::Hi => Compare::Gt,
        Comparison::Ge | Comparison::Hs => Compare::Ge,
        Comparison::Equ => Compare::Equ,
        Comparison::Neu => Compare::Neu,
        Comparison::Ltu => Compare::Ltu,
        Comparison::Leu => Compare::Leu,
        Comparison::Gtu => Compare::Gtu,
        Comparison::Geu => Compare::Geu,
        Comparison::Num => Compare::Num,
        Comparison::Nan => Compare::Nan,
    }
}

fn combination(inst: &ast::Instruction) -> Option<PredOp> {
    Some(match inst.bool_op()? {
        BoolOp::And => PredOp::And,
        BoolOp::Or => PredOp::Or,
        BoolOp::Xor => PredOp::Xor,
        BoolOp::Popc => return None,
    })
}
