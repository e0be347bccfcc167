//! Textures and surfaces, through the handles of objects. References by name (`.texref`) belong to
//! an older interface and are not supported; neither are several samples,
//! nor levels that follow from gradients.

use super::{Lowering, class_of};
use crate::ir::Operand;
use crate::op::{Op, Outside, SurfaceOp, TextureLevel, TextureOp, TextureQuery, Width};
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
                // `.r` is a word of its own to nobody else.
                self.sample(inst, Some(channel.unwrap_or(0)))
            }
            Opcode::Suld => self.surface_load(inst),
            Opcode::Sust if inst.has(M::MatB) => self.surface_store(inst),
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
        if inst.has(M::Grad) {
            return None;
        }
        let integer = coordinate == T::S32;
        let mut src = self.place(place, dims, layered, coordinate)?;
        let level = if inst.has(M::Level) {
            src.push(self.source(inst.operands.get(2)?, coordinate)?);
            TextureLevel::Given
        } else {
            TextureLevel::First
        };
        let cube = inst.has(M::GeomCube) || inst.has(M::GeomAcube);
        let dst = self.results(d, Width::W32)?;
        (dst.len() == 4).then_some(())?;
        let floats = result == T::F32;
        let op = TextureOp { dims, layered, integer, floats, gather, level, cube };
        self.emit(Op::Texture(op), dst, src);
        Some(())
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
        Some(SurfaceOp { dims, layered, bytes, count, width, outside })
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
        let values = self.elements(values, super::moves::bits_type(op.width))?;
        let place = self.place(place, op.dims, op.layered, T::S32)?;
        (values.len() == usize::from(op.count)).then_some(())?;
        // One store a register: a wide one may need more operands than there is room for.
        for (index, value) in values.into_iter().enumerate() {
            let mut src = place.clone();
            let x = usize::from(op.layered) + 1;
            let step = Operand::Imm(index as u64 * u64::from(op.bytes));
            if index > 0 {
                let add = Op::Int(crate::op::IntOp::Add, crate::op::IntType::U32);
                src[x] = self.value(add, Width::W32, vec![src[x], step]);
            }
            src.push(value);
            self.effect(Op::SurfaceStore(SurfaceOp { count: 1, ..op }), src);
        }
        Some(())
    }

    fn query(&mut self, inst: &ast::Instruction) -> Option<()> {
        // Sizes of other levels than the first one are asked for with an operand more.
        let [d, ast::Operand::Memory(address)] = &inst.operands[..] else { return None };
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
        self.emit_to(Op::TextureQuery(what), d, Width::W32, false, vec![handle])
    }
}
