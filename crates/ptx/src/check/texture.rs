//! Textures, surfaces and tensors: what stands in brackets with coordinates.

use super::Checker;
use super::mismatch::Fit;
use super::operand::{Site, compatible, immediate_fits};
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

    /// What shifts coordinates, or says how they change: one number for each dimension.
    pub(super) fn shift(&self, at: &Site<'_>, kind: Kind, operand: &Operand) -> Fit {
        let gradient = kind == Kind::Gradient;
        let ty = if gradient { ScalarType::F32 } else { ScalarType::S32 };
        let words = &at.instruction.modifiers;
        let count = words.iter().find_map(|word| word.offsets()).unwrap_or(1);
        let cube =
            words.iter().any(|word| matches!(word, Modifier::GeomCube | Modifier::GeomAcube));
        let fits = match operand {
            Operand::Vector(list) => {
                let counted = if !gradient {
                    list.len() >= count
                } else if cube {
                    matches!(list.len(), 2 | 4)
                } else {
                    list.len() == count
                };
                counted
                    && list.iter().all(|element| match element {
                        Operand::Register(id) => {
                            let register = at.function.register(*id);
                            register.vector == 1 && compatible(register.ty, ty)
                        }
                        Operand::Immediate(value) => immediate_fits(*value, ty),
                        _ => false,
                    })
            }
            Operand::Register(id) => {
                let register = at.function.register(*id);
                let scalar = register.vector == 1 && count == 1 && !gradient;
                compatible(register.ty, ty)
                    && (scalar || (register.vector > 1 && usize::from(register.vector) >= count))
            }
            Operand::Immediate(value) => count == 1 && !gradient && immediate_fits(*value, ty),
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(self.mismatch(at, operand, format!("a vector of {count} of type '{ty}'")))
    }

    /// `{a, b}`: what shifts the window of `im2col`.
    pub(super) fn window(&self, at: &Site<'_>, operand: &Operand) -> Fit {
        let count = crate::instructions::window(&at.instruction.modifiers);
        let half = |element: &Operand| match element {
            Operand::Register(id) => {
                let register = at.function.register(*id);
                register.vector == 1 && compatible(register.ty, ScalarType::U16)
            }
            Operand::Immediate(value) => immediate_fits(*value, ScalarType::U16),
            _ => false,
        };
        match operand {
            Operand::Vector(list) if Some(list.len()) == count && list.iter().all(half) => Ok(()),
            _ => {
                let expected = format!("a vector of {} of type '.u16'", count.unwrap_or(0));
                Err(self.mismatch(at, operand, expected))
            }
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
