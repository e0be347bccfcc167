//! `cp.async.bulk.tensor` (TMA) and `tensormap.replace`.
//!
//! A copy is done where it is issued, as other asynchronous copies are. A map is memory: what
//! replaces one of its fields is a store, and proxies have nothing to fence.

use super::Lowering;
use super::memory::atomic_op;
use crate::ir::Operand;
use crate::ir::op::{Access, Op, Space, TensorCopy, TensorDirection, TensorMode, Width};
use crate::runtime::tensor_map::{Element, MAP_BYTES, RANK_MAX, field};
use ptx::ast::{self, Modifier as M, Opcode, ScalarType as T, StateSpace};

/// Bytes of the pieces in which a map is copied.
const PIECE_BYTES: u64 = 16;

impl Lowering<'_> {
    pub(super) fn tensor_map(&mut self, inst: &ast::Instruction) -> Option<()> {
        match inst.opcode {
            // Prefetches and cache hints have no visible effect.
            Opcode::Cp if inst.has(M::Prefetch) => Some(()),
            Opcode::Cp => self.tensor_copy(inst),
            Opcode::Tensormap if inst.has(M::Replace) => self.replace(inst),
            Opcode::Tensormap if inst.has(M::CpFenceproxy) => self.copy_map(inst),
            _ => None,
        }
    }

    /// `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor`.
    fn tensor_copy(&mut self, inst: &ast::Instruction) -> Option<()> {
        let dims = inst.modifiers.iter().find_map(|m| {
            Some(match m {
                M::Geom1d => 1,
                M::Geom2d => 2,
                M::Geom3d => 3,
                M::Geom4d => 4,
                M::Geom5d => 5,
                _ => return None,
            })
        })?;
        // Pairs of blocks that share an mbarrier, and halos, are other processors'.
        if inst.has(M::CtaGroup2) || inst.has(M::Im2colW) || inst.has(M::Im2colW128) {
            return None;
        }
        let mode = match () {
            () if inst.has(M::Im2col) || inst.has(M::Im2colNoOffs) => TensorMode::Columns,
            () if inst.has(M::TileGather4) || inst.has(M::TileScatter4) => TensorMode::Rows,
            () => TensorMode::Tile,
        };
        let load = inst.has(M::CompleteTxBytes);
        let direction = match () {
            () if load => TensorDirection::Load { multicast: inst.has(M::MulticastCluster) },
            () if inst.has(M::Reduce) => TensorDirection::Reduce(atomic_op(inst.atomic_op()?)),
            () => TensorDirection::Store,
        };
        let copy = TensorCopy { dims, mode, direction };
        let (shared, tensor, rest) = match &inst.operands[..] {
            [shared, tensor, rest @ ..] if load => (shared, tensor, rest),
            [tensor, shared, rest @ ..] if !load => (shared, tensor, rest),
            _ => return None,
        };
        let ast::Operand::Indexed(map, coordinates) = tensor else { return None };
        let [coordinates] = &coordinates[..] else { return None };
        let map = self.generic_address(&ast::Operand::Memory(*map))?;
        let (_, shared) = self.address(Some(StateSpace::Shared), shared)?;
        let mut src = vec![map, shared];
        let coordinates = self.elements(coordinates, T::S32)?;
        (coordinates.len() == copy.coordinates()).then_some(())?;
        src.extend(coordinates);
        if load {
            let (barrier, mut rest) = rest.split_first()?;
            if copy.offsets() > 0 {
                let (offsets, others) = rest.split_first()?;
                let offsets = self.elements(offsets, T::U16)?;
                (offsets.len() == copy.offsets()).then_some(())?;
                src.extend(offsets.into_iter().map(|offset| self.fit(offset, Width::W32)));
                rest = others;
            }
            let (_, barrier) = self.address(Some(StateSpace::Shared), barrier)?;
            src.push(barrier);
            if inst.has(M::MulticastCluster) {
                let mask = self.source(rest.first()?, T::U16)?;
                src.push(self.fit(mask, Width::W32));
            }
        }
        self.effect(Op::TensorCopy(copy), src);
        Some(())
    }

    /// The address of `[a]`, generic.
    fn generic_address(&mut self, operand: &ast::Operand) -> Option<Operand> {
        let (space, address) = self.address(None, operand)?;
        Some(match space {
            Space::Generic | Space::Global => address,
            other => self.value(Op::ToGeneric(other), Width::W64, vec![address]),
        })
    }

    /// `tensormap.replace`: a store to the field.
    fn replace(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [map, values @ ..] = &inst.operands[..] else { return None };
        let (index, value) = match values {
            [value] => (0, value),
            [ast::Operand::Immediate(index), value] => {
                (u64::try_from(index.as_i64()?).ok()?, value)
            }
            _ => return None,
        };
        (index < RANK_MAX as u64).then_some(())?;
        let (place, bytes) = inst.modifiers.iter().find_map(|m| {
            Some(match m {
                M::GlobalAddress => (field::ADDRESS, 8),
                M::GlobalStride => (field::STRIDES + 8 * index, 8),
                M::GlobalDim => (field::DIMENSIONS + 4 * index, 4),
                M::BoxDim => (field::BOX + 4 * index, 4),
                M::ElementStride => (field::STEPS + 4 * index, 4),
                M::Rank => (field::RANK, 1),
                M::Elemtype => (field::TYPE, 1),
                M::InterleaveLayout => (field::INTERLEAVE, 1),
                M::SwizzleMode => (field::SWIZZLE, 1),
                M::FillMode => (field::FILL, 1),
                _ => return None,
            })
        })?;
        let (ty, width) = match bytes {
            8 => (T::B64, Width::W64),
            _ => (T::B32, Width::W32),
        };
        let value = match value {
            // PTX has numbers of its own.
            ast::Operand::Immediate(number) if inst.has(M::Elemtype) => {
                let number = u32::try_from(number.as_i64()?).ok()?;
                Operand::Imm(Element::from_ptx(number)? as u64)
            }
            value => self.source(value, ty)?,
        };
        let (space, base, offset) = self.location(inst, map)?;
        let offset = self.moved(offset, place)?;
        let access = Access { space, bytes, signed: false, count: 1, width, volatile: false };
        self.effect(Op::Store(access), vec![base, offset, value]);
        Some(())
    }

    /// `tensormap.cp_fenceproxy`: each lane copies the whole map.
    fn copy_map(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [to, from, ast::Operand::Immediate(bytes)] = &inst.operands[..] else { return None };
        (bytes.as_i64()? == MAP_BYTES as i64).then_some(())?;
        let (to_space, to, to_offset) = self.location_in(Some(StateSpace::Global), to)?;
        let (from_space, from, from_offset) = self.location_in(Some(StateSpace::Shared), from)?;
        let access = |space| Access {
            space,
            bytes: 4,
            signed: false,
            count: 4,
            width: Width::W32,
            volatile: false,
        };
        for at in (0..MAP_BYTES as u64).step_by(PIECE_BYTES as usize) {
            let parts: Vec<_> = (0..4).map(|_| self.temp(Width::W32)).collect();
            let offset = self.moved(from_offset, at)?;
            self.emit(Op::Load(access(from_space)), parts.clone(), vec![from, offset]);
            let mut src = vec![to, self.moved(to_offset, at)?];
            src.extend(parts.into_iter().map(Operand::Reg));
            self.effect(Op::Store(access(to_space)), src);
        }
        Some(())
    }

    /// An address's constant part, some bytes on.
    fn moved(&self, offset: Operand, bytes: u64) -> Option<Operand> {
        match offset {
            Operand::Imm(offset) => Some(Operand::Imm(offset.wrapping_add(bytes))),
            _ => None,
        }
    }
}
