//! One operand against its pattern: PTX's rules of compatible types.

use super::Checker;
use super::instruction::Candidate;
use super::mismatch::{Fit, Mismatch};
use crate::ast::{
    Address, AddressBase, Function, Immediate, Instruction, LabelKind, Opcode, Operand, Parameter,
    RegisterId, ScalarType, SpecialRegister, StateSpace, SymbolRef, TypeKind,
};
use crate::instructions::{Count, Kind, Pattern, VECTOR_BITS_MAX};

/// A register of type `register` can stand for type `ty`: same size, and the same kind or one of
/// them plain bits. Packed and alternative formats take plain bits or themselves only.
pub(super) fn compatible(register: ScalarType, ty: ScalarType) -> bool {
    if register == ty {
        return true;
    }
    if register.bits() != ty.bits() || register == ScalarType::Pred || ty == ScalarType::Pred {
        return false;
    }
    let bits = |ty: ScalarType| ty.kind() == TypeKind::Bits;
    let integer = |ty: ScalarType| ty.is_integer() && !ty.is_packed();
    // A pair of halves in a register is plain bits to all but floats.
    if register == ScalarType::F16x2 && ty.kind() != TypeKind::Float {
        return true;
    }
    bits(register) || bits(ty) || (integer(register) && integer(ty))
}

/// The relaxed rule of loads, stores and conversions: the register may also be wider. A float
/// register only stands for its own type or for bits.
fn compatible_relaxed(register: ScalarType, ty: ScalarType) -> bool {
    if register.bits() <= ty.bits() || register == ScalarType::Pred || ty == ScalarType::Pred {
        return compatible(register, ty);
    }
    let bits = |ty: ScalarType| ty.kind() == TypeKind::Bits;
    bits(register) || bits(ty) || (register.is_integer() && ty.is_integer())
}

pub(super) fn immediate_fits(value: Immediate, ty: ScalarType) -> bool {
    let bits = ty.kind() == TypeKind::Bits;
    match value {
        Immediate::Integer { .. } => !ty.is_packed() && !ty.is_float() && ty != ScalarType::B128,
        Immediate::F32(_) => {
            matches!(ty, ScalarType::F32 | ScalarType::F64) || (bits && ty.bits() == 32)
        }
        Immediate::F64(_) => {
            matches!(ty, ScalarType::F32 | ScalarType::F64) || (bits && ty.bits() == 64)
        }
    }
}

fn special_fits(special: SpecialRegister, ty: ScalarType, relaxed: bool) -> bool {
    let own = special.ty();
    if own == ScalarType::Pred || ty == ScalarType::Pred {
        return own == ty;
    }
    // `%gridid` grew from 32 to 64 bits; 32-bit registers may be read as 16 bits, as they were.
    let narrow = ty.bits() <= 32 && special == SpecialRegister::Gridid;
    let half = ty.bits() == 16 && own.bits() == 32;
    !ty.is_float() && (relaxed || own.bits() == ty.bits() || narrow || half)
}

impl Checker<'_> {
    pub(super) fn operand(
        &mut self,
        function: &Function,
        instruction: &Instruction,
        candidate: &Candidate,
        pattern: &Pattern,
        operand: &Operand,
    ) -> Fit {
        let at = Site { function, instruction, candidate };
        match (&pattern.pair, operand) {
            (Some((second, _)), Operand::Pair(pair)) => {
                // In a pair either half may be `_`.
                if pair.0 != Operand::Sink || pattern.kind != Kind::Destination {
                    self.single(&at, pattern, &pair.0)?;
                }
                if pair.1 == Operand::Sink { Ok(()) } else { self.single(&at, second, &pair.1) }
            }
            (Some((_, false)), _) => Err(self.mismatch(&at, operand, "a pair `d|p`".into())),
            _ => self.single(&at, pattern, operand),
        }
    }

    fn single(&mut self, at: &Site<'_>, pattern: &Pattern, operand: &Operand) -> Fit {
        match pattern.kind {
            Kind::Any => return Ok(()),
            Kind::Sink => {
                return match operand {
                    Operand::Sink => Ok(()),
                    _ => Err(self.mismatch(at, operand, "`_`".into())),
                };
            }
            Kind::Call => return Ok(()),
            Kind::Texture | Kind::Handle => return self.texture(at, pattern.kind, operand),
            Kind::Offset | Kind::Gradient => return self.shift(at, pattern.kind, operand),
            Kind::Window => return self.window(at, operand),
            Kind::Video | Kind::VideoRegister | Kind::VideoNegatable | Kind::VideoDestination => {
                return self.video(at, pattern.kind, operand);
            }
            Kind::Label | Kind::Targets => return self.label(at, pattern.kind, operand),
            Kind::Memory(space) => return self.memory(at, space, operand),
            Kind::Constant => return self.constant(at, pattern, operand),
            _ => {}
        }
        let Some(ty) = at.candidate.type_of(pattern) else { return Ok(()) };
        if matches!(pattern.kind, Kind::Pack | Kind::Unpack) {
            return self.pack(at, pattern.kind == Kind::Unpack, ty, operand);
        }
        let count = match pattern.count {
            Count::One => return self.element(at, pattern, ty, 0, operand),
            Count::Vector => match at.instruction.vector_width() {
                count if ty.bits() as usize * count > VECTOR_BITS_MAX => {
                    let expected = format!("at most {VECTOR_BITS_MAX} bits");
                    return Err(self.mismatch(at, operand, expected));
                }
                1 if !matches!(operand, Operand::Vector(_)) => {
                    return self.element(at, pattern, ty, 0, operand);
                }
                count => count,
            },
            Count::Exactly(count) => count,
            Count::Columns(divisor) => {
                at.instruction.shape().map_or(0, |shape| usize::from(shape.n) / divisor)
            }
        };
        match operand {
            Operand::Vector(elements) if elements.len() == count => {
                elements.iter().enumerate().try_for_each(|(index, element)| {
                    let discarded = *element == Operand::Sink
                        && matches!(pattern.kind, Kind::Destination | Kind::DestinationOrSink);
                    if discarded { Ok(()) } else { self.element(at, pattern, ty, index, element) }
                })
            }
            Operand::Sink if pattern.kind == Kind::DestinationOrSink => Ok(()),
            Operand::Register(id) => {
                let register = at.function.register(*id);
                let fits = usize::from(register.vector) == count && compatible(register.ty, ty);
                if fits { Ok(()) } else { Err(self.expected_vector(at, operand, count, ty)) }
            }
            Operand::Special(special, None)
                if pattern.kind == Kind::SourceOrSpecial && special.is_vector() =>
            {
                if count == 4 && special_fits(*special, ty, false) {
                    return Ok(());
                }
                Err(self.expected_vector(at, operand, count, ty))
            }
            _ => Err(self.expected_vector(at, operand, count, ty)),
        }
    }

    fn expected_vector(
        &self,
        at: &Site<'_>,
        operand: &Operand,
        count: usize,
        ty: ScalarType,
    ) -> Mismatch {
        self.mismatch(at, operand, format!("a vector of {count} of type '{ty}'"))
    }

    /// A single value, or an element of a vector.
    fn element(
        &mut self,
        at: &Site<'_>,
        pattern: &Pattern,
        ty: ScalarType,
        index: usize,
        operand: &Operand,
    ) -> Fit {
        self.scalar(at, pattern, ty, operand)?;
        self.in_range(at, pattern, index, operand)
    }

    /// A single value: register, constant, special register, symbol.
    fn scalar(
        &mut self,
        at: &Site<'_>,
        pattern: &Pattern,
        ty: ScalarType,
        operand: &Operand,
    ) -> Fit {
        let written = matches!(pattern.kind, Kind::Destination | Kind::DestinationOrSink);
        let fits = match operand {
            Operand::Register(id) => {
                let register = at.function.register(*id);
                register.vector == 1 && register_fits(register.ty, ty, pattern.relaxed)
            }
            Operand::Component(id, component) => {
                let register = at.function.register(*id);
                component.index().is_some_and(|index| index < usize::from(register.vector))
                    && register.vector > 1
                    && register_fits(register.ty, ty, pattern.relaxed)
            }
            Operand::Not(id) => {
                pattern.kind == Kind::Predicate && at.function.register(*id).ty == ScalarType::Pred
            }
            Operand::Immediate(value) => {
                !written && pattern.kind != Kind::Register && immediate_fits(*value, ty)
            }
            Operand::Special(special, component) => {
                pattern.kind == Kind::SourceOrSpecial
                    && special.is_vector() == component.is_some()
                    && special_fits(*special, ty, pattern.relaxed)
            }
            Operand::Symbol(symbol, _) => {
                pattern.kind == Kind::Address && self.address_fits(at, *symbol, ty)
            }
            Operand::Sink => pattern.kind == Kind::DestinationOrSink,
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let expected = match pattern.kind {
            Kind::Address => format!("the address of a variable, of type '{ty}'"),
            _ if written => format!("a register of type '{ty}'"),
            _ => format!("a register or constant of type '{ty}'"),
        };
        Err(self.mismatch(at, operand, expected))
    }

    fn constant(&self, at: &Site<'_>, pattern: &Pattern, operand: &Operand) -> Fit {
        match operand {
            Operand::Immediate(Immediate::Integer { .. }) => self.in_range(at, pattern, 0, operand),
            _ => Err(self.mismatch(at, operand, "an integer constant".into())),
        }
    }

    /// A constant against the values that the table lists for the element.
    fn in_range(&self, at: &Site<'_>, pattern: &Pattern, index: usize, operand: &Operand) -> Fit {
        match (pattern.values.as_ref().and_then(|values| values.of(index)), operand) {
            (Some(values), Operand::Immediate(Immediate::Integer { bits, .. }))
                if !values.contains(*bits as i64) =>
            {
                Err(self.mismatch(at, operand, values.to_string()))
            }
            _ => Ok(()),
        }
    }

    fn address_fits(&self, at: &Site<'_>, symbol: SymbolRef, ty: ScalarType) -> bool {
        let half = ty.bits() == 16 && at.instruction.opcode == Opcode::Mov;
        let sized = ty.bits() == 32 || ty.bits() == 64 || half;
        let space_of_instruction = at.instruction.space().map(StateSpace::root);
        let space = symbol.variable(self.module, at.function).map(|variable| variable.space.root());
        let same_space = match (at.instruction.opcode, space_of_instruction, space) {
            (Opcode::Cvta, Some(asked), Some(space)) => asked == space,
            (Opcode::Cvta, ..) => false,
            (Opcode::Mapa | Opcode::Getctarank, _, space) => space == Some(StateSpace::Shared),
            _ => true,
        };
        sized && same_space && !ty.is_float()
    }

    /// `{a, b}` in the place of one value.
    fn pack(&self, at: &Site<'_>, written: bool, ty: ScalarType, operand: &Operand) -> Fit {
        let expected = || {
            let bits = ty.bits();
            self.mismatch(at, operand, format!("2 or 4 values of together {bits} bits"))
        };
        let elements = match operand {
            Operand::Vector(elements) if matches!(elements.len(), 2 | 4) => elements,
            Operand::Register(id) => {
                let register = at.function.register(*id);
                let bits = register.ty.bits() * u32::from(register.vector);
                return if register.vector > 1 && bits == ty.bits() {
                    Ok(())
                } else {
                    Err(expected())
                };
            }
            _ => return Err(expected()),
        };
        let each = ty.bits() / elements.len() as u32;
        let fits = elements.iter().all(|element| match element {
            Operand::Register(id) => {
                let register = at.function.register(*id);
                register.vector == 1
                    && register.ty != ScalarType::Pred
                    && register.ty.bits() == each
            }
            Operand::Immediate(Immediate::Integer { .. }) => !written,
            Operand::Immediate(Immediate::F32(_)) => !written && each == 32,
            Operand::Immediate(Immediate::F64(_)) => !written && each == 64,
            Operand::Sink => written,
            _ => false,
        });
        if fits { Ok(()) } else { Err(expected()) }
    }

    /// Selectors are taken as written.
    fn video(&self, at: &Site<'_>, kind: Kind, operand: &Operand) -> Fit {
        let fits = match operand {
            Operand::Register(id) | Operand::Component(id, _) | Operand::Selected(id, _) => {
                register_fits(at.function.register(*id).ty, ScalarType::U32, false)
            }
            Operand::Negated(id) => {
                kind == Kind::VideoNegatable
                    && register_fits(at.function.register(*id).ty, ScalarType::U32, false)
            }
            Operand::Immediate(value) => {
                matches!(kind, Kind::Video | Kind::VideoNegatable)
                    && immediate_fits(*value, ScalarType::U32)
            }
            _ => false,
        };
        let expected = "a register of 32 integer bits, perhaps with a selector, or a constant";
        if fits { Ok(()) } else { Err(self.mismatch(at, operand, expected.to_owned())) }
    }

    fn label(&self, at: &Site<'_>, kind: Kind, operand: &Operand) -> Fit {
        let Operand::Label(id) = operand else {
            return Err(self.mismatch(at, operand, "a label".into()));
        };
        let fits = matches!(
            (&at.function.label(*id).kind, kind),
            (LabelKind::Code(_), Kind::Label) | (LabelKind::BranchTargets(_), Kind::Targets)
        ) && (kind == Kind::Label
            || at.function.label(*id).span.start < at.instruction.span.start);
        let expected = match kind {
            Kind::Targets => "a label of `.branchtargets` before it",
            _ => "a label of code",
        };
        if fits { Ok(()) } else { Err(self.mismatch(at, operand, expected.into())) }
    }

    fn memory(&self, at: &Site<'_>, space: Option<StateSpace>, operand: &Operand) -> Fit {
        let Operand::Memory(Address { base, .. }) = operand else {
            return Err(self.mismatch(at, operand, "an address in brackets".into()));
        };
        let space = space.or_else(|| at.instruction.space()).map(StateSpace::root);
        let opcode = at.instruction.opcode;
        match base {
            AddressBase::Register(id) => {
                let register = at.function.register(*id);
                let narrow_ok = self.module.address_size_bits == 32
                    || space.is_some_and(|space| space != StateSpace::Global);
                if at.instruction.space() == Some(StateSpace::ParamFunc) {
                    let expected = "a parameter of a call by its name";
                    return Err(self.mismatch(at, operand, expected.into()));
                }
                let sized = register.ty.bits() == 64 || (register.ty.bits() == 32 && narrow_ok);
                if sized && !register.ty.is_float() && register.vector == 1 {
                    return Ok(());
                }
                let bits = if narrow_ok { "32 or 64" } else { "64" };
                Err(self.mismatch(at, operand, format!("an integer address of {bits} bits")))
            }
            AddressBase::Symbol(symbol) => {
                let variable = symbol.variable(self.module, at.function);
                let of_symbol = variable.map(|variable| variable.space.root());
                let Some(of_symbol) = of_symbol else {
                    return Err(self.mismatch(at, operand, "the address of a variable".into()));
                };
                // Parameters and constants have no generic address without `cvta`.
                let special = match opcode {
                    Opcode::Mbarrier => of_symbol != StateSpace::Shared,
                    Opcode::Prefetchu => of_symbol != StateSpace::Global,
                    _ => matches!(of_symbol, StateSpace::Param | StateSpace::Const),
                };
                if space.map_or(special, |space| space != of_symbol) {
                    let space = space.map_or("generic", StateSpace::text);
                    return Err(self.mismatch(at, operand, format!("one in space '{space}'")));
                }
                if opcode == Opcode::St && is_input(at.function, *symbol) {
                    let expected = "a variable that may be written, not an input parameter";
                    return Err(self.mismatch(at, operand, expected.into()));
                }
                if opcode == Opcode::Ld && is_output(at.function, *symbol) {
                    let expected = "a variable that may be read, not a return parameter";
                    return Err(self.mismatch(at, operand, expected.into()));
                }
                Ok(())
            }
            AddressBase::Absolute if space == Some(StateSpace::Local) => Ok(()),
            AddressBase::Absolute => {
                let expected = "one by a register or a variable: constants are for '.local' only";
                Err(self.mismatch(at, operand, expected.into()))
            }
        }
    }

    pub(super) fn mismatch(&self, at: &Site<'_>, operand: &Operand, expected: String) -> Mismatch {
        Mismatch { found: self.describe(at.function, operand), expected }
    }

    /// An operand as a phrase: what it is, with its name and type.
    pub(super) fn describe(&self, function: &Function, operand: &Operand) -> String {
        let register = |id: &RegisterId| {
            let register = function.register(*id);
            let name = self.module.name(register.name);
            let vector =
                if register.vector > 1 { format!(".v{} ", register.vector) } else { String::new() };
            format!("a register, '{name}' of type '{vector}{}'", register.ty)
        };
        match operand {
            Operand::Register(id) => register(id),
            Operand::Component(id, component) => {
                format!("the part '{component}' of {}", register(id))
            }
            Operand::Selected(id, name) => {
                format!("the part '.{}' of {}", self.module.name(*name), register(id))
            }
            Operand::Not(id) => format!("the negation of {}", register(id)),
            Operand::Negated(id) => format!("the minus of {}", register(id)),
            Operand::Special(special, _) => format!("the special register '%{}'", special.text()),
            Operand::Immediate(Immediate::Integer { bits, unsigned: true }) => {
                format!("the integer {bits}")
            }
            Operand::Immediate(Immediate::Integer { bits, .. }) => {
                format!("the integer {}", *bits as i64)
            }
            Operand::Immediate(Immediate::F32(bits)) => format!("the float 0f{bits:08X}"),
            Operand::Immediate(Immediate::F64(bits)) => format!("the float 0d{bits:016X}"),
            Operand::Symbol(symbol, _) => {
                format!("the symbol '{}'", self.symbol_name(function, *symbol))
            }
            Operand::Memory(Address { base, .. }) | Operand::Indexed(Address { base, .. }, _) => {
                match base {
                    AddressBase::Register(id) => format!("an address by {}", register(id)),
                    AddressBase::Symbol(symbol) => {
                        let space = symbol
                            .variable(self.module, function)
                            .map_or(String::new(), |v| format!(" in space '{}'", v.space));
                        format!("the address of '{}'{space}", self.symbol_name(function, *symbol))
                    }
                    AddressBase::Absolute => "a constant address".to_owned(),
                }
            }
            Operand::Vector(elements) => format!("a vector of {}", elements.len()),
            Operand::Sink => "`_`".to_owned(),
            Operand::Pair(_) => "a pair".to_owned(),
            Operand::List(_) => "a list in parentheses".to_owned(),
            Operand::Label(id) => {
                format!("the label '{}'", self.module.name(function.label(*id).name))
            }
        }
    }

    fn symbol_name(&self, function: &Function, symbol: SymbolRef) -> &str {
        self.module.name(match symbol {
            SymbolRef::Module(id) => self.module.variable(id).name,
            SymbolRef::Local(id) => function.local(id).name,
            SymbolRef::Function(id) => self.module.function(id).name,
        })
    }
}

/// Where an operand stands.
pub(super) struct Site<'a> {
    pub(super) function: &'a Function,
    pub(super) instruction: &'a Instruction,
    candidate: &'a Candidate,
}

fn register_fits(register: ScalarType, ty: ScalarType, relaxed: bool) -> bool {
    if relaxed { compatible_relaxed(register, ty) } else { compatible(register, ty) }
}

fn is_output(function: &Function, symbol: SymbolRef) -> bool {
    let SymbolRef::Local(id) = symbol else { return false };
    function.returns.contains(&Parameter::Memory(id))
}

fn is_input(function: &Function, symbol: SymbolRef) -> bool {
    let SymbolRef::Local(id) = symbol else { return false };
    function.params.contains(&Parameter::Memory(id))
}
