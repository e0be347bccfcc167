//! The syntax tree of a PTX file, with names resolved and numbers parsed.
//!
//! It says what was written, not what it does: nothing here decides whether an instruction is
//! valid. Everything is plain owned data; what refers, refers by number.

mod function;
mod instruction;
mod modifier;
mod module;
mod opcode;
mod special;
mod types;
mod variable;

pub use function::{
    Directives, Function, FunctionKind, Label, LabelKind, Linkage, Parameter, ParameterLayout,
    ParameterSlot, Prototype, Register, RegisterDeclaration, SourceLocation, Statement,
};
pub use instruction::{
    Address, AddressBase, Call, Callee, Guard, Immediate, Instruction, Operand, SymbolRef,
};
pub use modifier::Modifier;
pub(crate) use module::position_in;
pub use module::{
    Alias, FunctionId, Item, LabelId, LocalId, Module, Name, RegisterId, SourceFile, Span, Target,
    VariableId, Version, family, runs_on,
};
pub use opcode::Opcode;
pub use special::SpecialRegister;
pub use types::{
    AtomicOp, BoolOp, Comparison, Component, MemoryOrder, Rounding, ScalarType, Scope, Shape,
    StateSpace, TypeKind,
};
pub use variable::{InitialAddress, Initializer, PointerAttribute, Variable};
