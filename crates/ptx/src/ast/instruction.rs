//! Instructions and operands.
//!
//! Operands stand in the order written. The queries on [`Instruction`] read a modifier in its
//! role; they answer from what is written and do not apply defaults (no scope written is `None`,
//! not `.sys`).

use super::function::Function;
use super::modifier::Modifier;
use super::module::{FunctionId, LabelId, LocalId, Module, Name, RegisterId, Span, VariableId};
use super::opcode::Opcode;
use super::special::SpecialRegister;
use super::types::{
    AtomicOp, BoolOp, Comparison, Component, MemoryOrder, Rounding, ScalarType, Scope, Shape,
    StateSpace,
};
use super::variable::Variable;

/// `@p` or `@!p` before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The predicate.
    pub register: RegisterId,
    /// `@!p`: run where it is false.
    pub negated: bool,
}

/// A constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Immediate {
    /// An integer: 64 bits, with PTX's rule whether it is signed (`U` or over `i64::MAX`).
    Integer {
        /// Two's complement.
        bits: u64,
        /// Of type `.u64` rather than `.s64`.
        unsigned: bool,
    },
    /// `0f3F800000`: bits of an f32.
    F32(u32),
    /// `0d3FF0000000000000` or `1.0`: bits of an f64.
    F64(u64),
}

impl Immediate {
    /// A signed integer.
    pub const fn signed(value: i64) -> Immediate {
        Immediate::Integer { bits: value as u64, unsigned: false }
    }

    /// The integer, if it is one.
    pub const fn as_i64(self) -> Option<i64> {
        match self {
            Immediate::Integer { bits, .. } => Some(bits as i64),
            _ => None,
        }
    }

    /// The bits that an operand of type `ty` takes, in the low end: integers are truncated,
    /// floats converted between f32 and f64 (round to nearest even) for floats and `.b32`; of
    /// other plain bits they are their own, cut or extended with zeros. `None` where PTX has no
    /// conversion: an integer for a float type, a float for an integer type.
    pub fn bits_as(self, ty: ScalarType) -> Option<u64> {
        use ScalarType as T;
        match self {
            Immediate::Integer { .. } if matches!(ty, T::F32 | T::F64 | T::Tf32) => None,
            Immediate::Integer { bits, .. } => Some(match ty.bits() {
                1 => u64::from(bits != 0),
                width @ 2..=63 => bits & ((1 << width) - 1),
                _ => bits,
            }),
            Immediate::F32(bits) => match ty {
                T::F32 | T::B32 | T::Tf32 => Some(u64::from(bits)),
                T::F64 => Some(f64::from(f32::from_bits(bits)).to_bits()),
                T::B8 | T::B16 | T::B64 => Some(u64::from(bits) & (u64::MAX >> (64 - ty.bits()))),
                _ => None,
            },
            Immediate::F64(bits) => match ty {
                T::B8 | T::B16 => Some(bits & (u64::MAX >> (64 - ty.bits()))),
                T::F64 | T::B64 => Some(bits),
                T::F32 | T::B32 | T::Tf32 => {
                    Some(u64::from((f64::from_bits(bits) as f32).to_bits()))
                }
                _ => None,
            },
        }
    }
}

/// A name that stands for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SymbolRef {
    /// A variable at module scope.
    Module(VariableId),
    /// A parameter or a variable declared in the function.
    Local(LocalId),
    /// A function.
    Function(FunctionId),
}

/// What an address counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressBase {
    /// `[%rd1+8]`
    Register(RegisterId),
    /// `[sym+8]`
    Symbol(SymbolRef),
    /// `[8]`: the offset alone.
    Absolute,
}

/// `[base+offset]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// What it counts from.
    pub base: AddressBase,
    /// Added to it, in bytes.
    pub offset: i64,
}

/// One operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// `%r1`
    Register(RegisterId),
    /// `%v.x`, `%r1.b0`
    Component(RegisterId, Component),
    /// `%r1.b3210`: bytes or halves of a SIMD video operand, the selector as written.
    Selected(RegisterId, Name),
    /// `!%p1`
    Not(RegisterId),
    /// `-%r1` (video instructions)
    Negated(RegisterId),
    /// `%tid.x`, `%laneid`
    Special(SpecialRegister, Option<Component>),
    /// A constant.
    Immediate(Immediate),
    /// `sym`, `sym+8`: the address of a variable, or its value's name in `call` and textures.
    Symbol(SymbolRef, i64),
    /// `[%rd1+8]`
    Memory(Address),
    /// `[tex, {%f1, %f2}]`, `[tensor, {%r1}, ...]`: an address with further operands.
    Indexed(Address, Box<[Operand]>),
    /// `{%r1, %r2}`
    Vector(Box<[Operand]>),
    /// `_`
    Sink,
    /// `%p1|%p2`
    Pair(Box<(Operand, Operand)>),
    /// `(a, b)` of a call.
    List(Box<[Operand]>),
    /// A label: branch target, `.branchtargets`, `.calltargets`, `.callprototype`.
    Label(LabelId),
}

/// An instruction as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// From the guard or the base name to the semicolon.
    pub span: Span,
    /// `@p`
    pub guard: Option<Guard>,
    /// Base name.
    pub opcode: Opcode,
    /// The base name as written.
    pub name: Name,
    /// Dotted words in order.
    pub modifiers: Box<[Modifier]>,
    /// Operands in order. Empty for [`Opcode::Unknown`].
    pub operands: Box<[Operand]>,
}

/// The parts of a `call`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call<'a> {
    /// What receives the results, in order.
    pub results: &'a [Operand],
    /// What is called.
    pub callee: Callee,
    /// Arguments, in order.
    pub arguments: &'a [Operand],
    /// `.calltargets` or `.callprototype` label of an indirect call.
    pub prototype: Option<LabelId>,
}

/// What a `call` calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A function by name.
    Direct(FunctionId),
    /// A function whose address is in a register.
    Indirect(RegisterId),
}

impl Instruction {
    /// The modifier is among those written.
    pub fn has(&self, modifier: Modifier) -> bool {
        self.modifiers.contains(&modifier)
    }

    /// Scalar types in order: for `cvt` destination, then source.
    pub fn types(&self) -> impl DoubleEndedIterator<Item = ScalarType> {
        self.modifiers.iter().filter_map(|modifier| match modifier {
            Modifier::Type(ty) => Some(*ty),
            _ => None,
        })
    }

    /// The last scalar type, which for most instructions is the only one.
    pub fn ty(&self) -> Option<ScalarType> {
        self.types().next_back()
    }

    /// The first state space.
    pub fn space(&self) -> Option<StateSpace> {
        self.modifiers.iter().find_map(|modifier| match modifier {
            Modifier::Space(space) => Some(*space),
            _ => None,
        })
    }

    /// The first rounding mode.
    pub fn rounding(&self) -> Option<Rounding> {
        self.modifiers.iter().find_map(|modifier| match modifier {
            Modifier::Rounding(rounding) => Some(*rounding),
            _ => None,
        })
    }

    /// The scope; `membar`'s `.gl` is [`Scope::Gpu`].
    pub fn scope(&self) -> Option<Scope> {
        self.modifiers.iter().find_map(|modifier| match modifier {
            Modifier::Scope(scope) => Some(*scope),
            Modifier::Gl => Some(Scope::Gpu),
            _ => None,
        })
    }

    /// The first tile shape.
    pub fn shape(&self) -> Option<Shape> {
        self.modifiers.iter().find_map(|modifier| match modifier {
            Modifier::Shape(shape) => Some(*shape),
            _ => None,
        })
    }

    /// Elements of a vector access: 1, 2, 4 or 8.
    pub fn vector_width(&self) -> usize {
        self.modifiers
            .iter()
            .find_map(|modifier| match modifier {
                Modifier::V2 => Some(2),
                Modifier::V4 => Some(4),
                Modifier::V8 => Some(8),
                _ => None,
            })
            .unwrap_or(1)
    }

    /// The first memory order.
    pub fn memory_order(&self) -> Option<MemoryOrder> {
        self.modifiers.iter().find_map(|modifier| {
            Some(match modifier {
                Modifier::Weak => MemoryOrder::Weak,
                Modifier::Volatile => MemoryOrder::Volatile,
                Modifier::Relaxed => MemoryOrder::Relaxed,
                Modifier::Acquire => MemoryOrder::Acquire,
                Modifier::Release => MemoryOrder::Release,
                Modifier::AcqRel => MemoryOrder::AcqRel,
                Modifier::Sc => MemoryOrder::Sc,
                Modifier::Mmio => MemoryOrder::Mmio,
                _ => return None,
            })
        })
    }

    /// The comparison of `set` and `setp`.
    pub fn comparison(&self) -> Option<Comparison> {
        self.modifiers.iter().find_map(|modifier| {
            let text = modifier.text()?;
            Comparison::ALL.iter().copied().find(|comparison| comparison.text() == text)
        })
    }

    /// What `set`, `setp` or `bar.red` combines with.
    pub fn bool_op(&self) -> Option<BoolOp> {
        self.modifiers.iter().find_map(|modifier| {
            Some(match modifier {
                Modifier::And => BoolOp::And,
                Modifier::Or => BoolOp::Or,
                Modifier::Xor => BoolOp::Xor,
                Modifier::Popc => BoolOp::Popc,
                _ => return None,
            })
        })
    }

    /// The operation of `atom`, `red`, `redux`, `multimem` or `cp.reduce`.
    pub fn atomic_op(&self) -> Option<AtomicOp> {
        self.modifiers.iter().find_map(|modifier| {
            Some(match modifier {
                Modifier::Add => AtomicOp::Add,
                Modifier::Min => AtomicOp::Min,
                Modifier::Max => AtomicOp::Max,
                Modifier::And => AtomicOp::And,
                Modifier::Or => AtomicOp::Or,
                Modifier::Xor => AtomicOp::Xor,
                Modifier::Exch => AtomicOp::Exch,
                Modifier::Cas => AtomicOp::Cas,
                Modifier::Inc => AtomicOp::Inc,
                Modifier::Dec => AtomicOp::Dec,
                _ => return None,
            })
        })
    }

    /// The parts of a `call`; `None` for other instructions or a call whose operands are not
    /// `[(results),] callee [, (arguments)] [, prototype]`.
    pub fn call(&self) -> Option<Call<'_>> {
        if self.opcode != Opcode::Call {
            return None;
        }
        let mut operands = &self.operands[..];
        let results = take_list(&mut operands);
        let (callee, rest) = operands.split_first()?;
        let callee = match callee {
            Operand::Symbol(SymbolRef::Function(id), 0) => Callee::Direct(*id),
            Operand::Register(register) => Callee::Indirect(*register),
            _ => return None,
        };
        operands = rest;
        let arguments = take_list(&mut operands);
        let prototype = match operands {
            [] => None,
            [Operand::Label(label)] => Some(*label),
            _ => return None,
        };
        Some(Call { results, callee, arguments, prototype })
    }

    /// Base name and modifiers as written, `fma.rn.f32`; for messages and tables.
    pub fn form(&self, module: &Module) -> String {
        use std::fmt::Write;
        let mut text = module.name(self.name).to_owned();
        for modifier in &self.modifiers {
            // Writing to a String cannot fail.
            let _ = match (modifier, modifier.text()) {
                (_, Some(word)) => write!(text, ".{word}"),
                (Modifier::Shape(shape), _) => write!(text, "{shape}"),
                (Modifier::Other(name), _) => write!(text, ".{}", module.name(*name)),
                _ => Ok(()),
            };
        }
        text
    }
}

/// Takes a leading parenthesised list, if there is one.
fn take_list<'a>(operands: &mut &'a [Operand]) -> &'a [Operand] {
    match operands.split_first() {
        Some((Operand::List(list), rest)) => {
            *operands = rest;
            list
        }
        _ => &[],
    }
}

impl SymbolRef {
    /// The variable it names; `None` for a function.
    ///
    /// # Panics
    /// If it is of another module or function.
    pub fn variable<'a>(self, module: &'a Module, function: &'a Function) -> Option<&'a Variable> {
        match self {
            SymbolRef::Module(id) => Some(module.variable(id)),
            SymbolRef::Local(id) => Some(function.local(id)),
            SymbolRef::Function(_) => None,
        }
    }
}
