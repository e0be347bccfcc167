//! Textures, surfaces and tensors: what stands in brackets with coordinates.

use super::Checker;
use super::operand::{Fit, Site};
use crate::ast::{Address, AddressBase, Modifier, Opcode, Operand, ScalarType};
use crate::instructions::Kind;

impl Checker<'_> {
    /// `[texture, {coordinates}]`, or `[texture]` alone.
    pub(super) fn texture(&self, at: &Site<'_>, kind: Kind, operand: &Operand) -> Fit {
        let (address, coordinates) = match (kind, operand) {
            (Kind::Handle, Operand::Memory(address)) => (address, None),
            (Kind::Texture, Operand::Indexed(address, list)) => (address, list.last()),
            (Kind::Handle, _) => return Err(self.mismatch(at, operand, "`[texture]`".into())),
            _ => {
                let expected = "`[texture, {coordinates}]`";
                return Err(self.mismatch(at, operand, expected.into()));
            }
        };
        self.handle(at, operand, address)?;
        let words = &at.instruction.modifiers;
        let opcode = at.instruction.opcode;
        let gathers = [Modifier::TileGather4, Modifier::TileScatter4];
        let count = match words.iter().any(|word| gathers.contains(word)) {
            true => Some(5),
            false => words.iter().find_map(|word| word.coordinates(opcode)),
        };
        match (coordinates, count) {
            (Some(Operand::Vector(list)), Some(count)) => {
                let fits = match opcode {
                    Opcode::Cp => list.len() == count,
                    _ => list.len() >= count && list.len().is_power_of_two() && list.len() <= 4,
                };
                if fits {
                    return Ok(());
                }
                Err(self.mismatch(at, operand, format!("a vector of {count} coordinates")))
            }
            _ => Ok(()),
        }
    }

    /// What holds the texture: its name, or its address in a register of 64 bits.
    fn handle(&self, at: &Site<'_>, operand: &Operand, address: &Address) -> Fit {
        let kind = match at.instruction.opcode {
            Opcode::Tex | Opcode::Tld4 | Opcode::Txq => ScalarType::Texref,
            Opcode::Suld | Opcode::Sust | Opcode::Sured | Opcode::Suq => ScalarType::Surfref,
            _ => return Ok(()),
        };
        let fits = match address.base {
            AddressBase::Register(id) => {
                let register = at.function.register(id);
                register.ty.bits() == 64 && !register.ty.is_float() && register.vector == 1
            }
            AddressBase::Symbol(symbol) => {
                let variable = symbol.variable(self.module, at.function);
                variable.is_some_and(|variable| variable.ty == kind || variable.ty.bits() == 64)
            }
            AddressBase::Absolute => false,
        };
        if fits {
            return Ok(());
        }
        Err(self.mismatch(at, operand, format!("a variable of type '{kind}' or a '.u64' register")))
    }
}
