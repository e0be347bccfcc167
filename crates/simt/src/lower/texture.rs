//! Textures and surfaces, through the handles of objects. Not supported: references by name
//! (`.texref`, an older interface), several samples, and gradients of directions in cubes.

use super::memory::{atomic_op, atomic_type};
use super::{Lowering, class_of};
use crate::ir::op::{
    AtomType, Class, Convert, FloatMode, FloatOp, FloatType, IntOp, IntType, Op, Outside, PredOp,
    Space, SurfaceOp, TextureLevel, TextureOp, TextureQuery, Width,
};
use crate::ir::{Guard, Operand};
use ptx::ast::{self, AddressBase, Modifier as M, Opcode, ScalarType as T};

/// Coordinates, and whether a layer stands before them.
fn geometry(inst: &ast::Instruction) -> Option<(u8, bool)> {
    inst.modifiers.iter().find_map(|m| {
        Some(match m {
            M::Geom1d => (1, false),
            M::Geom2d => (2, false),
            M::Geom3d => (3, false),
            M::GeomA1d => (1, true),
            M::GeomA2d => (2, true),
            M::GeomCube => (3, false),
            M::GeomAcube => (3, true),
            _ => return None,
        })
    })
}

impl Lowering<'_> {
    pub(super) fn texture(&mut self, inst: &ast::Instruction) -> Option<()> {
        match inst.opcode {
            Opcode::Tex => self.sample(inst, None),
            Opcode::Tld4 => {
                let channel = inst.modifiers.iter().find_map(|m| match m {
                    M::MatA => Some(3),
                    M::MatB => Some(2),
                    M::CompG => Some(1),
                    _ => None,
                });
                // `.r` is a word of its own to no other user.
                self.sample(inst, Some(channel.unwrap_or(0)))
            }
            Opcode::Suld => self.surface_load(inst),
            Opcode::Sust if inst.has(M::MatB) => self.surface_store(inst),
            Opcode::Sust => self.formatted_store(inst),
            Opcode::Sured => self.surface_reduction(inst),
            Opcode::Txq | Opcode::Suq => self.query(inst),
            _ => None,
        }
    }

    /// The handle in `[a, ...]`.
    fn handle(&mut self, address: &ast::Address) -> Option<Operand> {
        match (address.base, address.offset) {
            (AddressBase::Register(id), 0) => {
                let handle = Operand::Reg(self.register(id)?);
                Some(self.fit(handle, Width::W64))
            }
            _ => None,
        }
    }

    /// Handle and coordinates of `[a, {x, y}]`, the layer first if there are layers.
    fn place(
        &mut self,
        operand: &ast::Operand,
        dims: u8,
        layered: bool,
        ty: T,
    ) -> Option<Vec<Operand>> {
        let ast::Operand::Indexed(address, rest) = operand else { return None };
        let mut src = vec![self.handle(address)?];
        // A sampler of its own would stand between.
        let [coordinates] = &rest[..] else { return None };
        let parts = match coordinates {
            ast::Operand::Vector(parts) => parts,
            single => std::slice::from_ref(single),
        };
        let count = usize::from(dims) + usize::from(layered);
        (parts.len() >= count).then_some(())?;
        for (index, part) in parts.iter().take(count).enumerate() {
            let ty = if layered && index == 0 { T::U32 } else { ty };
            src.push(self.source(part, ty)?);
        }
        Some(src)
    }

    fn sample(&mut self, inst: &ast::Instruction, gather: Option<u8>) -> Option<()> {
        let (dims, layered) = geometry(inst)?;
        let mut types = inst.types();
        let (result, coordinate) = (types.next()?, types.next()?);
        let [d, place, ..] = &inst.operands[..] else { return None };
        if !matches!(result, T::F32 | T::U32 | T::S32) {
            return None;
        }
        let integer = coordinate == T::S32;
        let cube = inst.has(M::GeomCube) || inst.has(M::GeomAcube);
        let mut src = self.place(place, dims, layered, coordinate)?;
        let level = if inst.has(M::Level) {
            src.push(self.source(inst.operands.get(2)?, coordinate)?);
            TextureLevel::Given
        } else if inst.has(M::Grad) {
            let [dx, dy] = inst.operands.get(2..)? else { return None };
            (!cube).then_some(())?;
            let level = self.gradient_level(src[0], dims, dx, dy)?;
            src.push(level);
            TextureLevel::Given
        } else {
            TextureLevel::First
        };
        let dst = self.results(d, Width::W32)?;
        (dst.len() == 4).then_some(())?;
        let floats = result == T::F32;
        let op = TextureOp { dims, layered, integer, floats, gather, level, cube };
        self.emit(Op::Texture(op), dst, src);
        Some(())
    }

    /// The level whose texels are as far apart as the longer of two gradients of the coordinates.
    fn gradient_level(
        &mut self,
        handle: Operand,
        dims: u8,
        dx: &ast::Operand,
        dy: &ast::Operand,
    ) -> Option<Operand> {
        let (dx, dy) = (self.elements(dx, T::F32)?, self.elements(dy, T::F32)?);
        let axes = usize::from(dims);
        (dx.len() >= axes && dy.len() >= axes).then_some(())?;
        let float = |op| Op::Float(op, FloatType::F32, FloatMode::default());
        let mut squares = [Operand::Imm(0); 2];
        let sizes = [TextureQuery::Width, TextureQuery::Height, TextureQuery::Depth];
        for (axis, size) in sizes.into_iter().enumerate().take(axes) {
            let size = self.value(Op::TextureQuery(size), Width::W32, vec![handle]);
            let (from, to) = (IntType::U32, FloatType::F32);
            let widen = Convert::FromInt { from, to, mode: FloatMode::default() };
            let size = self.value(Op::Convert(widen), Width::W32, vec![size]);
            for (square, gradient) in squares.iter_mut().zip([dx[axis], dy[axis]]) {
                let src = vec![gradient, size];
                let texels = self.value(float(FloatOp::Mul), Width::W32, src);
                let src = vec![texels, texels, *square];
                *square = self.value(float(FloatOp::Fma), Width::W32, src);
            }
        }
        let longer = self.value(float(FloatOp::Max), Width::W32, squares.to_vec());
        let twice = self.value(float(FloatOp::Lg2), Width::W32, vec![longer]);
        let half = Operand::Imm(u64::from(0.5f32.to_bits()));
        Some(self.value(float(FloatOp::Mul), Width::W32, vec![twice, half]))
    }

    /// Shape of an unformatted access.
    fn surface(&self, inst: &ast::Instruction) -> Option<SurfaceOp> {
        let (dims, layered) = geometry(inst)?;
        if inst.has(M::GeomCube) || inst.has(M::GeomAcube) {
            return None;
        }
        let ty = inst.ty()?;
        let outside = match () {
            () if inst.has(M::Clamp) => Outside::Clamp,
            () if inst.has(M::Zero) => Outside::Zero,
            () => Outside::Trap,
        };
        let count = u8::try_from(inst.vector_width()).ok()?;
        let (bytes, width) = (ty.size_bytes() as u8, class_of(ty).width()?);
        (count <= 4 && bytes <= 8).then_some(())?;
        Some(SurfaceOp { dims, layered, bytes, count, width, outside, channel: None })
    }

    fn surface_load(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [d, place] = &inst.operands[..] else { return None };
        let op = self.surface(inst)?;
        let src = self.place(place, op.dims, op.layered, T::S32)?;
        let dst = self.results(d, op.width)?;
        (dst.len() == usize::from(op.count)).then_some(())?;
        self.emit(Op::SurfaceLoad(op), dst, src);
        Some(())
    }

    fn surface_store(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [place, values] = &inst.operands[..] else { return None };
        let op = self.surface(inst)?;
        let values = self.elements(values, crate::lower::mov_setp_selp::bits_type(op.width))?;
        let place = self.place(place, op.dims, op.layered, T::S32)?;
        (values.len() == usize::from(op.count)).then_some(())?;
        // One store a register: a wide one may need more operands than there is room for.
        for (index, value) in values.into_iter().enumerate() {
            let mut src = place.clone();
            let x = usize::from(op.layered) + 1;
            let step = Operand::Imm(index as u64 * u64::from(op.bytes));
            if index > 0 {
                let add = Op::Int(crate::ir::op::IntOp::Add, crate::ir::op::IntType::U32);
                src[x] = self.value(add, Width::W32, vec![src[x], step]);
            }
            src.push(value);
            self.effect(Op::SurfaceStore(SurfaceOp { count: 1, ..op }), src);
        }
        Some(())
    }

    /// `sust.p`: channel by channel.
    fn formatted_store(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [place, values] = &inst.operands[..] else { return None };
        let op = self.surface(inst)?;
        (inst.has(M::MatP) && inst.ty()? == T::B32 && !op.layered).then_some(())?;
        let values = self.elements(values, T::B32)?;
        let place = self.place(place, op.dims, op.layered, T::S32)?;
        (values.len() == usize::from(op.count)).then_some(())?;
        for (channel, value) in (0..).zip(values) {
            let mut src = place.clone();
            src.push(value);
            let op = SurfaceOp { count: 1, channel: Some(channel), ..op };
            self.effect(Op::SurfaceStore(op), src);
        }
        Some(())
    }

    /// `sured`: a read-modify-write where the coordinates say.
    fn surface_reduction(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [place, value] = &inst.operands[..] else { return None };
        let formatted = inst.has(M::MatP);
        let op = self.surface(inst)?;
        let op = SurfaceOp { channel: formatted.then_some(0), ..op };
        (op.count == 1 && !op.layered).then_some(())?;
        let (ty, how) = (inst.ty()?, inst.atomic_op()?);
        let value = match value {
            ast::Operand::Vector(parts) => parts.first()?,
            value => value,
        };
        let value = self.source(value, ty)?;
        let src = self.place(place, op.dims, op.layered, T::S32)?;
        let address = self.temp(Width::W64);
        let (touched, signed) = (self.temporary(Class::Pred), self.temporary(Class::Pred));
        self.emit(Op::SurfaceAddress(op), vec![address, touched, signed], src);
        let unsigned = match ty {
            T::B64 => AtomType::U64,
            ty => atomic_type(ty)?,
        };
        let ordered = matches!(how, ast::AtomicOp::Min | ast::AtomicOp::Max);
        let types = match (formatted && ordered, unsigned) {
            (true, AtomType::U32) => vec![(AtomType::U32, true), (AtomType::S32, false)],
            (true, AtomType::U64) => vec![(AtomType::U64, true), (AtomType::S64, false)],
            (true, _) => return None,
            (false, ty) => vec![(ty, false)],
        };
        // Nothing happens outside; and where the format says how numbers compare, one of two.
        let guard = self.guard;
        let inside = self.both(guard, Guard { reg: touched, negated: false });
        let choose = types.len() > 1;
        for (ty, negated) in types {
            let of_type = Guard { reg: signed, negated };
            self.guard = Some(match choose {
                true => self.both(Some(inside), of_type),
                false => inside,
            });
            let atom = Op::Atom { space: Space::Global, op: atomic_op(how), ty, returns: false };
            self.effect(atom, vec![address.into(), Operand::Imm(0), value]);
        }
        self.guard = guard;
        Some(())
    }

    /// What holds where both do.
    fn both(&mut self, a: Option<Guard>, b: Guard) -> Guard {
        let Some(a) = a else { return b };
        let [a, b] = [a, b].map(|guard| match guard.negated {
            false => guard.reg,
            true => {
                let d = self.temporary(Class::Pred);
                self.emit(Op::PredNot, vec![d], vec![guard.reg.into()]);
                d
            }
        });
        let reg = self.temporary(Class::Pred);
        self.emit(Op::Pred(PredOp::And), vec![reg], vec![a.into(), b.into()]);
        Guard { reg, negated: false }
    }

    fn query(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [d, ast::Operand::Memory(address), level @ ..] = &inst.operands[..] else {
            return None;
        };
        let what = inst.modifiers.iter().find_map(|m| {
            Some(match m {
                M::Width => TextureQuery::Width,
                M::Height => TextureQuery::Height,
                M::Depth | M::ArraySize => TextureQuery::Depth,
                M::NormalizedCoords => TextureQuery::Normalized,
                M::NumMipmapLevels => TextureQuery::Levels,
                _ => return None,
            })
        })?;
        let handle = self.handle(address)?;
        let Some(level) = level.first() else {
            return self.emit_to(Op::TextureQuery(what), d, Width::W32, false, vec![handle]);
        };
        // Each level has half the size of the one before it, and at least one texel.
        let first = self.value(Op::TextureQuery(what), Width::W32, vec![handle]);
        let level = self.source(level, T::U32)?;
        let halved = match inst.has(M::Width) || inst.has(M::Height) || inst.has(M::Depth) {
            true => self.value(Op::Int(IntOp::Shr, IntType::U32), Width::W32, vec![first, level]),
            false => first,
        };
        let src = vec![halved, Operand::Imm(1)];
        self.emit_to(Op::Int(IntOp::Max, IntType::U32), d, Width::W32, false, src)
    }
}
