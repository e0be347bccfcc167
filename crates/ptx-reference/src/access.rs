//! Loads, stores and read-modify-writes of one thread.

use crate::execute::Thread;
use crate::grid::{Grid, Memory};
use crate::memory::{self, Space};
use crate::{float, integer};
use ptx::ast::{
    Address, AddressBase, AtomicOp, Instruction, Opcode, Operand, ScalarType as T, StateSpace,
};

impl Thread {
    /// Where an access goes: the space and the address in it.
    pub(crate) fn location(
        &mut self,
        grid: &Grid<'_>,
        inst: &Instruction,
        operand: &Operand,
    ) -> Option<(Space, u64)> {
        let Operand::Memory(Address { base, offset }) = operand else { return None };
        let named = inst.space().map(StateSpace::root);
        let (base, of_symbol) = match *base {
            AddressBase::Register(id) => (self.top().registers[id.index()][0], None),
            AddressBase::Absolute => (0, None),
            AddressBase::Symbol(symbol) => {
                let variable = symbol.variable(grid.module, self.function(grid))?;
                let param = self.kernel_parameter(grid, symbol);
                (self.symbol(grid, symbol)?, Some((variable.space.root(), param)))
            }
        };
        let mut address = base.wrapping_add(*offset as u64);
        let mut space = match (named.or(of_symbol.map(|(space, _)| space)), of_symbol) {
            (None, _) => Space::Generic,
            (Some(StateSpace::Global | StateSpace::Const), _) => Space::Global,
            (Some(StateSpace::Shared), _) => Space::Shared,
            (Some(StateSpace::Local), _) => Space::Local,
            (Some(StateSpace::Param), Some((_, true))) => Space::Param,
            (Some(StateSpace::Param), _) => Space::Local,
            _ => return None,
        };
        if space == Space::Generic {
            (space, address) = memory::from_generic(address);
        }
        Some((space, address))
    }

    fn bytes<'m>(
        &'m mut self,
        grid: &'m Grid<'_>,
        memory: &'m mut Memory<'_>,
        (space, address): (Space, u64),
        count: usize,
    ) -> Option<Result<&'m mut [u8], &'m [u8]>> {
        let at = usize::try_from(address).ok()?;
        let range = at..at.checked_add(count)?;
        Some(match space {
            Space::Global => Ok(memory::global(memory.buffers, address, count)?),
            Space::Shared => Ok(memory.shared.get_mut(range)?),
            Space::Local => Ok(self.local.get_mut(range)?),
            Space::Param => Err(grid.params.get(range)?),
            Space::Generic => return None,
        })
    }

    pub(crate) fn peek(
        &mut self,
        grid: &Grid<'_>,
        memory: &mut Memory<'_>,
        (space, address): (Space, u64),
        bytes: u64,
    ) -> Option<u64> {
        // Values of 128 bits are not here.
        if bytes > 8 {
            return None;
        }
        let mut word = [0; 8];
        let from = self.bytes(grid, memory, (space, address), bytes as usize)?;
        word[..bytes as usize].copy_from_slice(match &from {
            Ok(bytes) => bytes,
            Err(bytes) => bytes,
        });
        Some(u64::from_le_bytes(word))
    }

    pub(crate) fn poke(
        &mut self,
        grid: &Grid<'_>,
        memory: &mut Memory<'_>,
        place: (Space, u64),
        bytes: u64,
        value: u64,
    ) -> Option<()> {
        let to = self.bytes(grid, memory, place, bytes as usize)?.ok()?;
        to.copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
        Some(())
    }

    pub(crate) fn load(
        &mut self,
        grid: &Grid<'_>,
        memory: &mut Memory<'_>,
        inst: &Instruction,
    ) -> Option<()> {
        let (space, address) = self.location(grid, inst, &inst.operands[1])?;
        let ty = inst.ty()?;
        let size = ty.size_bytes();
        let parts = match &inst.operands[0] {
            Operand::Vector(parts) => parts,
            single => std::slice::from_ref(single),
        };
        if address % (size * parts.len() as u64) != 0 {
            return None;
        }
        let mut values = Vec::new();
        for i in 0..parts.len() as u64 {
            values.push(self.peek(grid, memory, (space, address + i * size), size)?);
        }
        parts.iter().zip(values).try_for_each(|(part, value)| self.write(grid, part, value, ty))
    }

    pub(crate) fn store(
        &mut self,
        grid: &Grid<'_>,
        memory: &mut Memory<'_>,
        inst: &Instruction,
    ) -> Option<()> {
        let (space, address) = self.location(grid, inst, &inst.operands[0])?;
        let ty = inst.ty()?;
        let size = ty.size_bytes();
        let parts = match &inst.operands[1] {
            Operand::Vector(parts) => parts,
            single => std::slice::from_ref(single),
        };
        if address % (size * parts.len() as u64) != 0 {
            return None;
        }
        for (i, part) in parts.iter().enumerate() {
            let value = self.source(grid, part, ty)?;
            self.poke(grid, memory, (space, address + i as u64 * size), size, value)?;
        }
        Some(())
    }

    pub(crate) fn atomic(
        &mut self,
        grid: &Grid<'_>,
        memory: &mut Memory<'_>,
        inst: &Instruction,
    ) -> Option<()> {
        let returns = inst.opcode == Opcode::Atom;
        let operands = &inst.operands[usize::from(returns)..];
        let place = self.location(grid, inst, &operands[0])?;
        let ty = inst.ty()?;
        let size = ty.size_bytes();
        if place.1 % size != 0 {
            return None;
        }
        let old = self.peek(grid, memory, place, size)?;
        let b = self.source(grid, &operands[1], ty)?;
        let (x, y) = (integer::value(old, ty), integer::value(b, ty));
        let new = match inst.atomic_op()? {
            AtomicOp::Add if ty.is_float() => {
                let format = float::format_of(ty)?;
                let one = |at: u32| float::sum(format, old >> at, b >> at);
                if ty == T::F32 && place.0 == Space::Global {
                    format.flush(float::sum(format, format.flush(old), format.flush(b)))
                } else if ty.is_packed() {
                    (one(0) & 0xffff) | one(16) << 16
                } else {
                    one(0)
                }
            }
            AtomicOp::Add => (x + y) as u64,
            AtomicOp::Min => x.min(y) as u64,
            AtomicOp::Max => x.max(y) as u64,
            AtomicOp::And => old & b,
            AtomicOp::Or => old | b,
            AtomicOp::Xor => old ^ b,
            AtomicOp::Exch => b,
            AtomicOp::Inc => {
                if old >= b {
                    0
                } else {
                    old + 1
                }
            }
            AtomicOp::Dec => {
                if old == 0 || old > b {
                    b
                } else {
                    old - 1
                }
            }
            AtomicOp::Cas => {
                let c = self.source(grid, &operands[2], ty)?;
                if old == b { c } else { old }
            }
        };
        self.poke(grid, memory, place, size, new)?;
        if returns { self.write(grid, &inst.operands[0], old, ty) } else { Some(()) }
    }
}
