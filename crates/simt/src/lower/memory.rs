//! Loads, stores, atomics, and addresses of the state spaces.

use super::{Lowering, class_of};
use crate::ir::op::{Access, AtomOp, AtomType, Class, CopyNote, MbarrierOp, Op, Space, Width};
use crate::ir::{Operand, Reg, SlotId};
use crate::lower::mov_setp_selp::bits_type;
use ptx::ast::{
    self, AddressBase, AtomicOp, MemoryOrder, Modifier as M, Opcode, ScalarType as T, StateSpace,
};

/// Most registers one access moves; `.v8` is two accesses.
const VECTOR_MAX: usize = 4;

/// Where an access goes: space, base, byte offset.
type Location = (Space, Operand, Operand);

impl Lowering<'_> {
    pub(super) fn memory(&mut self, inst: &ast::Instruction) -> Option<()> {
        match inst.opcode {
            Opcode::Ld | Opcode::Ldu => self.load(inst),
            Opcode::St if inst.has(M::Bulk) => self.clear(inst),
            Opcode::St => self.store(inst),
            Opcode::Atom => self.atomic(inst, true),
            Opcode::Red => self.atomic(inst, false),
            Opcode::Prefetch
            | Opcode::Prefetchu
            | Opcode::Applypriority
            | Opcode::Discard
            | Opcode::Createpolicy => self.hint(inst),
            Opcode::Membar | Opcode::Fence => {
                self.effect(Op::Fence, vec![]);
                Some(())
            }
            Opcode::Cvta => self.cvta(inst),
            Opcode::Isspacep => self.isspacep(inst),
            // No address is that of a texture, sampler or surface by name: there are none.
            Opcode::Istypep => {
                let d = self.predicate_dest(inst.operands.first()?)?;
                self.emit(Op::PredMov, vec![d], vec![Operand::Imm(0)]);
                Some(())
            }
            _ => None,
        }
    }

    fn space_of(&self, space: Option<StateSpace>, base: AddressBase) -> Option<Space> {
        let named = match (space.map(StateSpace::root), base) {
            (Some(space), _) => space,
            (None, AddressBase::Symbol(symbol)) => self.symbol_space(symbol)?,
            (None, _) => return Some(Space::Generic),
        };
        Some(match named {
            StateSpace::Global | StateSpace::Const => Space::Global,
            StateSpace::Shared => Space::Shared,
            StateSpace::Local => Space::Local,
            StateSpace::Param => match base {
                AddressBase::Symbol(symbol) if self.symbol_space(symbol)? == StateSpace::Local => {
                    Space::Local
                }
                _ if self.ast.kind == ast::FunctionKind::Entry => Space::Param,
                _ => Space::Local,
            },
            _ => return None,
        })
    }

    pub(super) fn location(
        &mut self,
        inst: &ast::Instruction,
        operand: &ast::Operand,
    ) -> Option<Location> {
        self.location_in(inst.space(), operand)
    }

    /// Where `[a]` is; without a space, where its base says.
    pub(super) fn location_in(
        &mut self,
        space: Option<StateSpace>,
        operand: &ast::Operand,
    ) -> Option<Location> {
        let ast::Operand::Memory(address) = operand else { return None };
        let space = self.space_of(space, address.base)?;
        Some(match address.base {
            AddressBase::Register(id) => {
                let base = self.register(id)?.into();
                (space, self.address_in(space, base), Operand::Imm(address.offset as u64))
            }
            AddressBase::Absolute => (space, Operand::Imm(address.offset as u64), Operand::Imm(0)),
            AddressBase::Symbol(symbol) => match self.symbol_address(symbol, 0)? {
                Operand::Imm(base) => {
                    (space, Operand::Imm(base.wrapping_add(address.offset as u64)), Operand::Imm(0))
                }
                base => (space, base, Operand::Imm(address.offset as u64)),
            },
        })
    }

    /// A register as wide as addresses of the space are, which code relies on: wider ones are cut, narrower ones
    /// zero-extended.
    fn address_in(&mut self, space: Space, base: Operand) -> Operand {
        self.fit(base, if space == Space::Shared { Width::W32 } else { Width::W64 })
    }

    fn load(&mut self, inst: &ast::Instruction) -> Option<()> {
        let (d, rest) = inst.operands.split_first()?;
        let (space, base, offset) = self.location(inst, rest.first()?)?;
        // A vector register stands for its elements.
        let mut dst = Vec::new();
        for part in parts(d) {
            match part {
                ast::Operand::Register(id) => {
                    dst.extend(self.regs[id.index()].iter().map(|r| Some(*r)));
                }
                other => dst.push(self.dest_reg(other)?),
            }
        }
        (dst.len() == inst.vector_width()).then_some(())?;
        let widest = dst.iter().flatten().filter_map(|r| self.reg_class(*r).width()).max();
        let each = one_element(inst, space, widest)?;
        let width = each.width;
        let dst: Vec<Reg> =
            dst.into_iter().map(|r| r.unwrap_or_else(|| self.temp(width))).collect();
        dst.iter().all(|r| self.reg_class(*r) == Class::Lane(width)).then_some(())?;
        if let Some(access) = whole_access(each, dst.len()) {
            let whole = access.width;
            let value = self.value(Op::Load(access), whole, vec![base, offset]);
            self.take_apart(value, whole, &dst, width);
            return Some(());
        }
        // The base may be among what the first half writes.
        let later = dst.len() > VECTOR_MAX;
        let mut halves = Vec::new();
        for (access, offset, part) in accesses(each, offset, &dst) {
            let to: Vec<Reg> = match later {
                true => part.iter().map(|_| self.temp(width)).collect(),
                false => part.to_vec(),
            };
            self.emit(Op::Load(access), to.clone(), vec![base, offset?]);
            halves.extend(to);
        }
        if later {
            for (d, value) in dst.into_iter().zip(halves) {
                self.emit(Op::Mov(width), vec![d], vec![value.into()]);
            }
        }
        Some(())
    }

    /// Writes the parts of a value to registers, the lowest bits first.
    fn take_apart(&mut self, value: Operand, whole: Width, dst: &[Reg], part: Width) {
        if let [low, high] = *dst {
            return self.emit(Op::Unpack { part, whole }, vec![low, high], vec![value]);
        }
        let half = Width::for_bits(whole.bits() / 2);
        let halves = [self.temp(half), self.temp(half)];
        self.emit(Op::Unpack { part: half, whole }, halves.to_vec(), vec![value]);
        for (half_value, dst) in halves.into_iter().zip(dst.chunks(dst.len() / 2)) {
            self.take_apart(half_value.into(), half, dst, part);
        }
    }

    /// One value of registers, the lowest bits first.
    fn put_together(&mut self, mut values: Vec<Operand>, part: Width, whole: Width) -> Operand {
        let mut part = part;
        while part != whole {
            let twice = Width::for_bits(part.bits() * 2);
            let op = Op::Pack { part, whole: twice };
            values =
                values.chunks(2).map(|two| self.value(op.clone(), twice, two.to_vec())).collect();
            part = twice;
        }
        values[0]
    }

    fn store(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [address, value, ..] = &inst.operands[..] else { return None };
        let (space, base, offset) = self.location(inst, address)?;
        let mut values = Vec::new();
        for part in parts(value) {
            match part {
                ast::Operand::Register(id) => {
                    for reg in self.regs[id.index()].clone() {
                        values.push(self.low_half(reg, inst.ty()?));
                    }
                }
                other => values.push(self.raw_source(other, inst.ty()?)?),
            }
        }
        (values.len() == inst.vector_width()).then_some(())?;
        let width = |v: &Operand| match v {
            Operand::Reg(r) => self.reg_class(*r).width(),
            _ => None,
        };
        let each = one_element(inst, space, values.iter().filter_map(width).max())?;
        if let Some(access) = whole_access(each, values.len()) {
            let values = values.iter().map(|v| self.fit(*v, each.width)).collect();
            let value = self.put_together(values, each.width, access.width);
            self.emit(Op::Store(access), vec![], vec![base, offset, value]);
            return Some(());
        }
        for (access, offset, part) in accesses(each, offset, &values) {
            let mut src = vec![base, offset?];
            src.extend(part.iter().map(|v| self.fit(*v, each.width)));
            self.emit(Op::Store(access), vec![], src);
        }
        if inst.has(M::CompleteTxBytes) {
            self.notify_of_bytes(inst, u64::from(each.bytes) * values.len() as u64)?;
        }
        Some(())
    }

    /// A register to be stored: of 128 bits only the half that a narrower type has.
    fn low_half(&mut self, reg: Reg, ty: T) -> Operand {
        if self.reg_class(reg).width() != Some(Width::W128) || ty.bits() > 64 {
            return reg.into();
        }
        let (low, high) = (self.temp(Width::W64), self.temp(Width::W64));
        let split = Op::Unpack { part: Width::W64, whole: Width::W128 };
        self.emit(split, vec![low, high], vec![reg.into()]);
        low.into()
    }

    fn atomic(&mut self, inst: &ast::Instruction, returns: bool) -> Option<()> {
        let ty = inst.ty()?;
        let op = atomic_op(inst.atomic_op()?);
        let atom = atomic_type(ty)?;
        if inst.vector_width() != 1 {
            return self.atomic_vector(inst, op, atom, returns);
        }
        let (d, rest) = if returns {
            let (d, rest) = inst.operands.split_first()?;
            (Some(d), rest)
        } else {
            (None, &inst.operands[..])
        };
        let (space, base, offset) = self.location(inst, rest.first()?)?;
        let atom = flushed_in(space, atom);
        let b = self.source(rest.get(1)?, ty)?;
        let mut src = vec![base, offset, b];
        if op == AtomOp::Cas {
            src.push(self.source(rest.get(2)?, ty)?);
        }
        let used = matches!(d, Some(d) if !matches!(d, ast::Operand::Sink));
        let atom = Op::Atom { space, op, ty: atom, returns: used };
        match d {
            Some(d) if used => self.emit_to(atom, d, class_of(ty).width()?, ty.is_signed(), src),
            _ => {
                self.effect(atom, src);
                if inst.has(M::CompleteTxBytes) {
                    self.notify_of_bytes(inst, ty.size_bytes())?;
                }
                Some(())
            }
        }
    }

    /// A read-modify-write of several elements: each is atomic, the whole is not.
    fn atomic_vector(
        &mut self,
        inst: &ast::Instruction,
        op: AtomOp,
        ty: AtomType,
        returns: bool,
    ) -> Option<()> {
        let (d, rest) = match returns {
            true => (Some(inst.operands.first()?), &inst.operands[1..]),
            false => (None, &inst.operands[..]),
        };
        let [address, values, ..] = rest else { return None };
        let (space, base, offset) = self.location(inst, address)?;
        let ty = flushed_in(space, ty);
        let bits = bits_type(ty.width());
        let values = self.elements(values, bits)?;
        let used = matches!(d, Some(d) if !matches!(d, ast::Operand::Sink));
        let mut old = Vec::new();
        for (index, value) in values.into_iter().enumerate() {
            let offset = beyond(offset, index * ty.width().bytes() as usize)?;
            let atom = Op::Atom { space, op, ty, returns: used };
            let src = vec![base, offset, value];
            match used {
                true => old.push(self.value(atom, ty.width(), src)),
                false => self.effect(atom, src),
            }
        }
        if let (Some(ast::Operand::Vector(parts)), true) = (d, used) {
            for (part, old) in parts.iter().zip(old) {
                self.emit_to(Op::Mov(ty.width()), part, ty.width(), false, vec![old])?;
            }
        }
        Some(())
    }

    /// `st.async`, `red.async`: the mbarrier that comes last hears of the bytes. A grid without
    /// clusters must not come here, as on hardware.
    fn notify_of_bytes(&mut self, inst: &ast::Instruction, bytes: u64) -> Option<()> {
        let [to, .., m] = &inst.operands[..] else { return None };
        let note = CopyNote::Written { bytes: u8::try_from(bytes).ok()?, barrier: true };
        self.copy_note(note, Some(StateSpace::Shared), &[to, m])?;
        let (space, base, offset) = self.location_in(Some(StateSpace::Shared), m)?;
        let src = vec![base, offset, Operand::Imm(bytes)];
        self.effect(Op::Mbarrier(MbarrierOp::CompleteInCluster, space), src);
        Some(())
    }

    /// Hints change nothing; `createpolicy` has a result that nothing reads.
    fn hint(&mut self, inst: &ast::Instruction) -> Option<()> {
        if inst.opcode == Opcode::Createpolicy {
            let d = self.dest_reg(inst.operands.first()?)??;
            self.emit(Op::Mov(Width::W64), vec![d], vec![Operand::Imm(0)]);
        }
        Some(())
    }

    fn cvta(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [d, a] = &inst.operands[..] else { return None };
        let ty = inst.ty()?;
        let space = match inst.space()?.root() {
            StateSpace::Global | StateSpace::Const => Space::Global,
            StateSpace::Shared => Space::Shared,
            StateSpace::Local => Space::Local,
            StateSpace::Param => Space::Param,
            _ => return None,
        };
        let a = self.source(a, ty)?;
        let width = class_of(ty).width()?;
        let op = match (space, inst.has(M::To)) {
            (Space::Global, _) => Op::Mov(width),
            _ if width != Width::W64 => return None,
            (_, true) => Op::FromGeneric(space),
            (_, false) => Op::ToGeneric(space),
        };
        self.emit_to(op, d, width, false, vec![a])
    }

    fn isspacep(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [p, a] = &inst.operands[..] else { return None };
        if inst.space()? == StateSpace::SharedCluster {
            return self.is_of_cluster(p, a);
        }
        let space = match inst.space()?.root() {
            StateSpace::Global => Some(Space::Global),
            StateSpace::Shared => Some(Space::Shared),
            StateSpace::Local => Some(Space::Local),
            StateSpace::Param => Some(Space::Param),
            StateSpace::Const => None,
            _ => return None,
        };
        let a = self.source(a, T::U64)?;
        let p = self.predicate_dest(p)?;
        self.emit(Op::IsSpace(space), vec![p], vec![a]);
        Some(())
    }

    /// Loads a whole slot into a register of its size.
    pub(super) fn load_slot(&mut self, reg: Reg, slot: SlotId) {
        let Some(width) = self.reg_class(reg).width() else { return };
        let access = slot_access(width);
        self.emit(Op::Load(access), vec![reg], vec![Operand::Slot(slot), Operand::Imm(0)]);
    }

    /// Stores a value into a whole slot.
    pub(super) fn store_slot(&mut self, slot: SlotId, value: Operand, width: Width) {
        let access = slot_access(width);
        self.emit(Op::Store(access), vec![], vec![Operand::Slot(slot), Operand::Imm(0), value]);
    }

    /// A register for an operand that is passed by value, and the type it then has.
    pub(super) fn passed(&mut self, operand: &ast::Operand) -> Option<(Operand, Width)> {
        match operand {
            ast::Operand::Register(id) => {
                let reg = self.register(*id)?;
                Some((reg.into(), self.reg_class(reg).width()?))
            }
            ast::Operand::Immediate(value) => {
                Some((Operand::Imm(value.bits_as(bits_type(Width::W32))?), Width::W32))
            }
            _ => None,
        }
    }
}

/// The elements of a vector, or what stands by itself.
fn parts(operand: &ast::Operand) -> &[ast::Operand] {
    match operand {
        ast::Operand::Vector(parts) => parts,
        single => std::slice::from_ref(single),
    }
}

/// A load's or store's access to one element: from or to registers of that width, or as wide as it.
fn one_element(inst: &ast::Instruction, space: Space, width: Option<Width>) -> Option<Access> {
    let ty = inst.ty()?;
    let bytes = u8::try_from(ty.bits() / 8).ok().filter(|n| matches!(n, 1 | 2 | 4 | 8 | 16))?;
    let width = width.unwrap_or(Width::for_bits(u32::from(bytes) * 8));
    (u32::from(bytes) <= width.bytes()).then_some(())?;
    let volatile = !matches!(inst.memory_order(), None | Some(MemoryOrder::Weak));
    Some(Access { space, bytes, signed: ty.is_signed(), count: 1, width, volatile })
}

/// The access to a whole slot.
fn slot_access(width: Width) -> Access {
    let (space, bytes) = (Space::Local, width.bytes() as u8);
    Access { space, bytes, signed: false, count: 1, width, volatile: false }
}

/// The accesses by which elements that lie side by side are moved, each with its offset and what it
/// moves.
fn accesses<T>(
    each: Access,
    offset: Operand,
    moved: &[T],
) -> impl Iterator<Item = (Access, Option<Operand>, &[T])> {
    moved.chunks(VECTOR_MAX).enumerate().map(move |(index, part)| {
        let offset = beyond(offset, index * VECTOR_MAX * usize::from(each.bytes));
        (Access { count: part.len() as u8, ..each }, offset, part)
    })
}

/// An offset some bytes further; offsets are constants.
fn beyond(offset: Operand, bytes: usize) -> Option<Operand> {
    match offset {
        Operand::Imm(offset) => Some(Operand::Imm(offset.wrapping_add(bytes as u64))),
        _ => None,
    }
}

/// The operation, as the IRs name it.
pub(super) fn atomic_op(op: AtomicOp) -> AtomOp {
    match op {
        AtomicOp::Add => AtomOp::Add,
        AtomicOp::Min => AtomOp::Min,
        AtomicOp::Max => AtomOp::Max,
        AtomicOp::And => AtomOp::And,
        AtomicOp::Or => AtomOp::Or,
        AtomicOp::Xor => AtomOp::Xor,
        AtomicOp::Exch => AtomOp::Exch,
        AtomicOp::Cas => AtomOp::Cas,
        AtomicOp::Inc => AtomOp::Inc,
        AtomicOp::Dec => AtomOp::Dec,
    }
}

/// The type as a space has it: f32 in global memory has no subnormals. Where a generic address leads is
/// seen when it is used.
fn flushed_in(space: Space, ty: AtomType) -> AtomType {
    match (space, ty) {
        (Space::Global, AtomType::F32) => AtomType::F32Ftz,
        _ => ty,
    }
}

/// What a read-modify-write can operate on.
pub(super) fn atomic_type(ty: T) -> Option<AtomType> {
    Some(match ty {
        T::B16 | T::U16 | T::S16 => AtomType::B16,
        T::U32 | T::B32 => AtomType::U32,
        T::S32 => AtomType::S32,
        T::U64 | T::B64 => AtomType::U64,
        T::S64 => AtomType::S64,
        T::B128 => AtomType::B128,
        T::F16 => AtomType::F16,
        T::Bf16 => AtomType::BF16,
        T::F16x2 => AtomType::F16x2,
        T::Bf16x2 => AtomType::BF16x2,
        T::F32 => AtomType::F32,
        T::F64 => AtomType::F64,
        _ => return None,
    })
}

/// The access to one element as which a vector of `count` elements is moved, if it is short enough and other
/// threads look: hardware moves it whole. CUB's scans rely on that.
fn whole_access(each: Access, count: usize) -> Option<Access> {
    let shared = matches!(each.space, Space::Global | Space::Shared | Space::Generic);
    let total = usize::from(each.bytes) * count;
    let whole = u32::from(each.bytes) == each.width.bytes() && matches!(each.bytes, 2 | 4 | 8);
    let fits = each.volatile && shared && whole && count > 1 && total <= 16;
    fits.then(|| Access {
        bytes: total as u8,
        signed: false,
        width: Width::for_bits(total as u32 * 8),
        ..each
    })
}
