//! Kernels and device functions: signature, launch limits, tables and body.
//!
//! A body is flat: scopes are markers, so a file that nests deeply costs no recursion anywhere.
//! Registers, variables and labels of all scopes are numbered in the function's own tables, so
//! two registers that share a name in different scopes are different numbers.

use super::instruction::Instruction;
use super::module::{FunctionId, LabelId, LocalId, Name, RegisterId, Span};
use super::types::ScalarType;
use super::variable::Variable;

/// Kernel or device function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// `.entry`: launched by the host.
    Entry,
    /// `.func`: called from the device.
    Func,
}

/// Who sees a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Linkage {
    /// This module only.
    #[default]
    Internal,
    /// `.visible`
    Visible,
    /// `.extern`: defined elsewhere.
    Extern,
    /// `.weak`
    Weak,
    /// `.common`
    Common,
}

impl Linkage {
    /// The directive with its dot; empty for internal linkage.
    pub const fn text(self) -> &'static str {
        match self {
            Linkage::Internal => "",
            Linkage::Visible => ".visible",
            Linkage::Extern => ".extern",
            Linkage::Weak => ".weak",
            Linkage::Common => ".common",
        }
    }
}

/// A formal parameter or return parameter of a `.func`, or a parameter of an `.entry`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// `.reg`: passed in a register of the function (device functions only).
    Register(RegisterId),
    /// `.param`: passed in memory, see [`Function::locals`].
    Memory(LocalId),
}

/// A register that the function uses. Those declared and never used have no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its full name, `%r12` for one of `%r<42>`.
    pub name: Name,
    /// Element type.
    pub ty: ScalarType,
    /// Elements: 1, 2 or 4.
    pub vector: u8,
}

/// A `.reg` declaration, kept for printing; the used registers are in [`Function::registers`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterDeclaration {
    /// Where it stands.
    pub span: Span,
    /// Element type.
    pub ty: ScalarType,
    /// Elements: 1, 2 or 4.
    pub vector: u8,
    /// Names; with a count `n`, the name is a prefix that stands for `name0` to `name(n-1)`.
    pub names: Vec<(Name, Option<u32>)>,
}

/// A label, and what it marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: Name,
    /// Where it is defined.
    pub span: Span,
    /// What it marks.
    pub kind: LabelKind,
}

/// What a label marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelKind {
    /// A place in the code: index of its [`Statement::Label`] in the body.
    Code(usize),
    /// `.branchtargets`: the labels that `brx.idx` chooses from.
    BranchTargets(Vec<LabelId>),
    /// `.calltargets`: the functions that an indirect call can reach.
    CallTargets(Vec<FunctionId>),
    /// `.callprototype`: the signature of an indirect call.
    Prototype(Prototype),
}

/// Signature of an indirect call. Parameters have no names that matter.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Prototype {
    /// Return parameters.
    pub returns: Vec<Variable>,
    /// Parameters.
    pub params: Vec<Variable>,
    /// `.noreturn`
    pub noreturn: bool,
}

/// `.loc`: the line of the program that the following instructions come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// Number of a `.file`.
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 unknown.
    pub column: u32,
}

/// One element of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// An instruction.
    Instruction(Instruction),
    /// A label; for a table or prototype label, the directive itself.
    Label(LabelId),
    /// `.reg`
    Registers(RegisterDeclaration),
    /// `.local`, `.shared`, `.param`, `.const`, `.global` inside the body.
    Variable(LocalId),
    /// `{`
    Open,
    /// `}`
    Close,
    /// `.loc`
    Location(SourceLocation),
    /// `.pragma "text";`
    Pragma(String),
}

/// Launch and tuning directives between the parameter list and the body.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Directives {
    /// `.maxntid`: the most threads of a block, each extent; missing extents are 1.
    pub maxntid: Option<[u32; 3]>,
    /// `.reqntid`: the exact extents of a block.
    pub reqntid: Option<[u32; 3]>,
    /// `.minnctapersm`: blocks an SM should hold.
    pub minnctapersm: Option<u32>,
    /// `.maxnctapersm`
    pub maxnctapersm: Option<u32>,
    /// `.maxnreg`: registers a thread.
    pub maxnreg: Option<u32>,
    /// `.reqnctapercluster`
    pub reqnctapercluster: Option<[u32; 3]>,
    /// `.explicitcluster`
    pub explicitcluster: bool,
    /// `.maxclusterrank`
    pub maxclusterrank: Option<u32>,
    /// `.blocksareclusters`
    pub blocksareclusters: bool,
    /// `.noreturn`
    pub noreturn: bool,
    /// `.attribute(...)`, as written.
    pub attributes: Vec<String>,
    /// `.pragma` strings.
    pub pragmas: Vec<String>,
    /// Directives this version does not know or need, as written.
    pub other: Vec<String>,
}

/// A kernel or a device function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: Name,
    /// The name's place.
    pub span: Span,
    /// Kernel or device function.
    pub kind: FunctionKind,
    /// Who sees it.
    pub linkage: Linkage,
    /// Return parameters, empty for a kernel.
    pub returns: Vec<Parameter>,
    /// Parameters.
    pub params: Vec<Parameter>,
    /// Launch and tuning directives.
    pub directives: Directives,
    /// Registers of all scopes that an instruction uses.
    pub registers: Vec<Register>,
    /// Variables of all scopes: `.param` parameters first, then what the body declares.
    pub locals: Vec<Variable>,
    /// Labels of all scopes.
    pub labels: Vec<Label>,
    /// Statements in order; `None` for a declaration.
    pub body: Option<Vec<Statement>>,
}

impl Function {
    /// The register with this number.
    ///
    /// # Panics
    /// If `id` is of another function.
    pub fn register(&self, id: RegisterId) -> &Register {
        &self.registers[id.index()]
    }

    /// The variable with this number.
    ///
    /// # Panics
    /// If `id` is of another function.
    pub fn local(&self, id: LocalId) -> &Variable {
        &self.locals[id.index()]
    }

    /// The label with this number.
    ///
    /// # Panics
    /// If `id` is of another function.
    pub fn label(&self, id: LabelId) -> &Label {
        &self.labels[id.index()]
    }

    /// The body's instructions in order.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        self.body.iter().flatten().filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        })
    }

    /// Offset in bytes of each `.param` parameter in the parameter buffer, in order, and the
    /// buffer's size: each at the next multiple of its alignment. Parameters in registers have
    /// no place in the buffer and are left out. `None` if sizes overflow.
    pub fn parameter_layout(&self) -> Option<ParameterLayout> {
        let mut layout = ParameterLayout::default();
        for param in &self.params {
            let Parameter::Memory(local) = *param else { continue };
            let variable = self.local(local);
            let size_bytes = variable.size_bytes()?;
            let offset_bytes =
                layout.size_bytes.checked_next_multiple_of(variable.align_bytes())?;
            layout.size_bytes = offset_bytes.checked_add(size_bytes)?;
            layout.params.push(ParameterSlot { local, offset_bytes, size_bytes });
        }
        Some(layout)
    }
}

/// Where a function's `.param` parameters lie in the parameter buffer.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ParameterLayout {
    /// One for each `.param` parameter, in order.
    pub params: Vec<ParameterSlot>,
    /// Size of the buffer, not rounded up.
    pub size_bytes: u64,
}

/// One parameter's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterSlot {
    /// The parameter.
    pub local: LocalId,
    /// From the start of the buffer.
    pub offset_bytes: u64,
    /// Its size.
    pub size_bytes: u64,
}
