//! The tree as PTX text again, for `openmps ptx dump` and for tests.
//!
//! What is printed reads back to an equal tree: same functions, registers, instructions, values.
//! Constant expressions are printed as their value, floats as bit patterns, comments are gone.

use crate::ast::{
    Address, AddressBase, Directives, Function, FunctionId, FunctionKind, Immediate,
    InitialAddress, Initializer, Instruction, Item, LabelKind, Module, Opcode, Operand, Parameter,
    Prototype, Register, Statement, SymbolRef, Variable, VariableId,
};
use std::fmt::{self, Display, Formatter};

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, ".version {}.{}", self.version.major, self.version.minor)?;
        let sm =
            format!("sm_{}{}", self.target.sm, self.target.suffix.map_or("".into(), String::from));
        let words: Vec<&str> = (self.target.sm != 0 || self.target.options.is_empty())
            .then_some(sm.as_str())
            .into_iter()
            .chain(self.target.options.iter().map(String::as_str))
            .collect();
        writeln!(f, ".target {}", words.join(", "))?;
        writeln!(f, ".address_size {}", self.address_size_bits)?;
        write!(f, "{}", self.content())
    }
}

/// A module without its header.
pub(crate) struct Content<'a>(&'a Module);

impl Display for Content<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.print_content(f)
    }
}

impl Module {
    /// All but `.version`, `.target` and `.address_size`.
    pub(crate) fn content(&self) -> Content<'_> {
        Content(self)
    }

    fn print_content(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            writeln!(f, ".file {} \"{}\"", file.index, file.path)?;
        }
        for pragma in &self.pragmas {
            writeln!(f, ".pragma \"{pragma}\";")?;
        }
        // How often each variable is still to come.
        let mut left = vec![0usize; self.variables.len()];
        for item in &self.items {
            if let Item::Variable(id) = item {
                left[id.index()] += 1;
            }
        }
        for item in &self.items {
            match *item {
                Item::Variable(id) => {
                    left[id.index()] -= 1;
                    self.print_module_variable(f, id, left[id.index()] == 0)?;
                }
                Item::Declaration(id) => {
                    self.print_signature(f, self.function(id))?;
                    writeln!(f, ";")?;
                }
                Item::Definition(id) => self.print_function(f, self.function(id))?,
            }
        }
        for alias in &self.aliases {
            let name = |id| self.name(self.function(id).name);
            writeln!(f, ".alias {}, {};", name(alias.name), name(alias.target))?;
        }
        Ok(())
    }
}

struct FunctionText<'a>(&'a Module, &'a Function);

impl Display for FunctionText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.print_function(f, self.1)
    }
}

struct VariableText<'a>(&'a Module, VariableId);

impl Display for VariableText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.print_module_variable(f, self.1, true)
    }
}

/// Something of a module, or of a function of it, that `Display` needs both for.
struct In<'a, T>(&'a Module, &'a Function, T);

impl Module {
    /// One function as PTX text; empty if `id` is of another module.
    pub fn function_text(&self, id: FunctionId) -> String {
        self.functions
            .get(id.index())
            .map_or_else(String::new, |function| FunctionText(self, function).to_string())
    }

    /// One module variable as PTX text, with its initial value.
    pub(crate) fn variable_text(&self, id: VariableId) -> String {
        VariableText(self, id).to_string()
    }

    /// A variable that is declared several times: all but the last time as `.extern`.
    fn print_module_variable(
        &self,
        f: &mut Formatter<'_>,
        id: VariableId,
        last: bool,
    ) -> fmt::Result {
        let variable = self.variable(id);
        let linkage = if last { variable.linkage.text() } else { ".extern" };
        if !linkage.is_empty() {
            write!(f, "{linkage} ")?;
        }
        self.print_declaration(f, variable)?;
        if let Some(init) = &variable.init
            && last
        {
            write!(f, " = ")?;
            self.print_initializer(f, init, None)?;
        }
        writeln!(f, ";")
    }

    /// Space, alignment, type, name and extents.
    fn print_declaration(&self, f: &mut Formatter<'_>, variable: &Variable) -> fmt::Result {
        write!(f, "{} ", variable.space)?;
        if variable.managed {
            write!(f, ".attribute(.managed) ")?;
        }
        if let Some(align) = variable.align {
            write!(f, ".align {align} ")?;
        }
        if variable.vector > 1 {
            write!(f, ".v{} ", variable.vector)?;
        }
        write!(f, "{} ", variable.ty)?;
        if let Some(pointer) = variable.pointer {
            write!(f, ".ptr ")?;
            if let Some(space) = pointer.space {
                write!(f, "{space} ")?;
            }
            write!(f, ".align {} ", pointer.align_bytes)?;
        }
        write!(f, "{}", self.name(variable.name))?;
        for &extent in &variable.dims {
            if extent == 0 { write!(f, "[]")? } else { write!(f, "[{extent}]")? }
        }
        Ok(())
    }

    fn print_initializer(
        &self,
        f: &mut Formatter<'_>,
        init: &Initializer,
        function: Option<&Function>,
    ) -> fmt::Result {
        match init {
            Initializer::Value(value) => write!(f, "{value}"),
            Initializer::Address(InitialAddress { symbol, offset, generic, mask }) => {
                let name = match (symbol, function) {
                    (SymbolRef::Local(id), Some(function)) => self.name(function.local(*id).name),
                    _ => self.symbol(*symbol),
                };
                if let Some(mask) = mask {
                    write!(f, "0x{mask:X}(")?;
                }
                if *generic {
                    write!(f, "generic({name})")?
                } else {
                    write!(f, "{name}")?
                }
                if *offset != 0 {
                    write!(f, "+{offset}")?;
                }
                if mask.is_some() { write!(f, ")") } else { Ok(()) }
            }
            Initializer::List(list) => {
                write!(f, "{{")?;
                for (index, element) in list.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    self.print_initializer(f, element, function)?;
                }
                write!(f, "}}")
            }
            Initializer::Properties(properties) => {
                write!(f, "{{")?;
                for (index, &(name, value)) in properties.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    write!(f, "{} = {}", self.name(name), self.name(value))?;
                }
                write!(f, "}}")
            }
        }
    }

    /// Name of a module's symbol; empty for one of a function.
    fn symbol(&self, symbol: SymbolRef) -> &str {
        match symbol {
            SymbolRef::Module(id) => self.name(self.variable(id).name),
            SymbolRef::Function(id) => self.name(self.function(id).name),
            SymbolRef::Local(_) => "",
        }
    }

    fn print_signature(&self, f: &mut Formatter<'_>, function: &Function) -> fmt::Result {
        let linkage = function.linkage.text();
        if !linkage.is_empty() {
            write!(f, "{linkage} ")?;
        }
        write!(f, "{}", if function.kind == FunctionKind::Entry { ".entry" } else { ".func" })?;
        for attribute in &function.directives.attributes {
            write!(f, " {attribute}")?;
        }
        if !function.returns.is_empty() {
            write!(f, " ")?;
            self.print_parameters(f, function, &function.returns)?;
        }
        write!(f, " {}", self.name(function.name))?;
        if !function.params.is_empty() || function.kind == FunctionKind::Entry {
            self.print_parameters(f, function, &function.params)?;
        }
        write!(f, "{}", function.directives)
    }

    fn print_parameters(
        &self,
        f: &mut Formatter<'_>,
        function: &Function,
        params: &[Parameter],
    ) -> fmt::Result {
        write!(f, "(")?;
        for (index, param) in params.iter().enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            match *param {
                Parameter::Memory(id) => self.print_declaration(f, function.local(id))?,
                Parameter::Register(id) => {
                    let Register { name, ty, vector } = function.register(id);
                    let vector = if *vector > 1 { format!(".v{vector} ") } else { String::new() };
                    write!(f, ".reg {vector}{ty} {}", self.name(*name))?;
                }
            }
        }
        write!(f, ")")
    }

    fn print_function(&self, f: &mut Formatter<'_>, function: &Function) -> fmt::Result {
        self.print_signature(f, function)?;
        writeln!(f, "\n{{")?;
        let mut depth = 1;
        for statement in function.body.iter().flatten() {
            match statement {
                Statement::Open => {
                    writeln!(f, "{:depth$}{{", "", depth = depth * 4)?;
                    depth += 1;
                    continue;
                }
                Statement::Close => depth -= 1,
                _ => {}
            }
            let label = matches!(statement, Statement::Label(_));
            let indent = if label { 0 } else { depth * 4 };
            writeln!(f, "{:indent$}{}", "", In(self, function, statement))?;
        }
        writeln!(f, "}}")
    }

    fn print_prototype(&self, f: &mut Formatter<'_>, prototype: &Prototype) -> fmt::Result {
        let list = |f: &mut Formatter<'_>, list: &[Variable]| {
            write!(f, "(")?;
            for (index, variable) in list.iter().enumerate() {
                f.write_str(if index > 0 { ", " } else { "" })?;
                self.print_declaration(f, variable)?;
            }
            write!(f, ")")
        };
        if !prototype.returns.is_empty() {
            list(f, &prototype.returns)?;
            write!(f, " ")?;
        }
        write!(f, "_ ")?;
        list(f, &prototype.params)?;
        f.write_str(if prototype.noreturn { " .noreturn;" } else { ";" })
    }
}

impl Display for Directives {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let extents = |f: &mut Formatter<'_>, word: &str, extents: Option<[u32; 3]>| {
            extents.map_or(Ok(()), |[x, y, z]| write!(f, " {word} {x}, {y}, {z}"))
        };
        let number = |f: &mut Formatter<'_>, word: &str, number: Option<u32>| {
            number.map_or(Ok(()), |number| write!(f, " {word} {number}"))
        };
        extents(f, ".maxntid", self.maxntid)?;
        extents(f, ".reqntid", self.reqntid)?;
        number(f, ".minnctapersm", self.minnctapersm)?;
        number(f, ".maxnctapersm", self.maxnctapersm)?;
        number(f, ".maxnreg", self.maxnreg)?;
        extents(f, ".reqnctapercluster", self.reqnctapercluster)?;
        number(f, ".maxclusterrank", self.maxclusterrank)?;
        let flag = |f: &mut Formatter<'_>, word, on| if on { write!(f, " {word}") } else { Ok(()) };
        flag(f, ".explicitcluster", self.explicitcluster)?;
        flag(f, ".blocksareclusters", self.blocksareclusters)?;
        flag(f, ".noreturn", self.noreturn)?;
        self.other.iter().try_for_each(|other| write!(f, " {other}"))?;
        self.pragmas.iter().try_for_each(|pragma| write!(f, " .pragma \"{pragma}\";"))
    }
}

impl Display for Immediate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Immediate::Integer { bits, unsigned: true } => write!(f, "{bits}U"),
            Immediate::Integer { bits, unsigned: false } => write!(f, "{}", bits as i64),
            Immediate::F32(bits) => write!(f, "0f{bits:08X}"),
            Immediate::F64(bits) => write!(f, "0d{bits:016X}"),
        }
    }
}

impl Display for In<'_, &Statement> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let In(module, function, statement) = *self;
        match statement {
            Statement::Instruction(instruction) => {
                write!(f, "{}", In(module, function, instruction))
            }
            Statement::Label(id) => {
                let label = function.label(*id);
                write!(f, "{}:", module.name(label.name))?;
                let names = |names: Vec<&str>| names.join(", ");
                match &label.kind {
                    LabelKind::Code(_) => Ok(()),
                    LabelKind::BranchTargets(targets) => {
                        let name = |&id| module.name(function.label(id).name);
                        write!(f, " .branchtargets {};", names(targets.iter().map(name).collect()))
                    }
                    LabelKind::CallTargets(targets) => {
                        let name = |&id| module.name(module.function(id).name);
                        write!(f, " .calltargets {};", names(targets.iter().map(name).collect()))
                    }
                    LabelKind::Prototype(prototype) => {
                        write!(f, " .callprototype ")?;
                        module.print_prototype(f, prototype)
                    }
                }
            }
            Statement::Registers(declaration) => {
                let vector = match declaration.vector {
                    1 => String::new(),
                    count => format!(".v{count} "),
                };
                write!(f, ".reg {vector}{} ", declaration.ty)?;
                for (index, &(name, count)) in declaration.names.iter().enumerate() {
                    let name = module.name(name);
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    match count {
                        Some(count) => write!(f, "{name}<{count}>")?,
                        None => write!(f, "{name}")?,
                    }
                }
                write!(f, ";")
            }
            Statement::Variable(id) => {
                let variable = function.local(*id);
                let linkage = variable.linkage.text();
                write!(f, "{linkage}{}", if linkage.is_empty() { "" } else { " " })?;
                module.print_declaration(f, variable)?;
                if let Some(init) = &variable.init {
                    write!(f, " = ")?;
                    module.print_initializer(f, init, Some(function))?;
                }
                write!(f, ";")
            }
            Statement::Open => write!(f, "{{"),
            Statement::Close => write!(f, "}}"),
            Statement::Location(at) => write!(f, ".loc {} {} {}", at.file, at.line, at.column),
            Statement::Pragma(text) => write!(f, ".pragma \"{text}\";"),
        }
    }
}

impl Display for In<'_, &Instruction> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let In(module, function, instruction) = *self;
        if instruction.opcode == Opcode::Unknown {
            return write!(f, "{};", module.text_line(instruction.span));
        }
        if let Some(guard) = instruction.guard {
            let name = module.name(function.register(guard.register).name);
            write!(f, "@{}{name} ", if guard.negated { "!" } else { "" })?;
        }
        write!(f, "{}", instruction.form(module))?;
        for (index, operand) in instruction.operands.iter().enumerate() {
            write!(f, "{}{}", if index > 0 { ", " } else { " " }, In(module, function, operand))?;
        }
        write!(f, ";")
    }
}

impl Display for In<'_, &Operand> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let In(module, function, operand) = *self;
        let register = |id| module.name(function.register(id).name);
        let list = |f: &mut Formatter<'_>, list: &[Operand]| {
            list.iter().enumerate().try_for_each(|(index, operand)| {
                write!(f, "{}{}", if index > 0 { ", " } else { "" }, In(module, function, operand))
            })
        };
        match operand {
            Operand::Register(id) => f.write_str(register(*id)),
            Operand::Component(id, part) => write!(f, "{}{part}", register(*id)),
            Operand::Selected(id, part) => write!(f, "{}.{}", register(*id), module.name(*part)),
            Operand::Not(id) => write!(f, "!{}", register(*id)),
            Operand::Negated(id) => write!(f, "-{}", register(*id)),
            Operand::Special(special, part) => {
                write!(f, "%{}", special.text())?;
                part.map_or(Ok(()), |part| write!(f, "{part}"))
            }
            Operand::Immediate(value) => write!(f, "{value}"),
            Operand::Symbol(symbol, offset) => {
                write!(f, "{}", In(module, function, *symbol))?;
                if *offset == 0 { Ok(()) } else { write!(f, "+{offset}") }
            }
            Operand::Memory(address) => write!(f, "[{}]", In(module, function, address)),
            Operand::Indexed(address, operands) => {
                write!(f, "[{}, ", In(module, function, address))?;
                list(f, operands)?;
                write!(f, "]")
            }
            Operand::Vector(elements) => {
                write!(f, "{{")?;
                list(f, elements)?;
                write!(f, "}}")
            }
            Operand::Sink => write!(f, "_"),
            Operand::Pair(pair) => {
                let half = |operand| In(module, function, operand);
                write!(f, "{}|{}", half(&pair.0), half(&pair.1))
            }
            Operand::List(operands) => {
                write!(f, "(")?;
                list(f, operands)?;
                write!(f, ")")
            }
            Operand::Label(id) => f.write_str(module.name(function.label(*id).name)),
        }
    }
}

impl Display for In<'_, SymbolRef> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let In(module, function, symbol) = *self;
        f.write_str(match symbol {
            SymbolRef::Local(id) => module.name(function.local(id).name),
            symbol => module.symbol(symbol),
        })
    }
}

impl Display for In<'_, &Address> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let In(module, function, address) = *self;
        match address.base {
            AddressBase::Register(id) => {
                f.write_str(module.name(function.register(id).name))?;
            }
            AddressBase::Symbol(symbol) => write!(f, "{}", In(module, function, symbol))?,
            AddressBase::Absolute => return write!(f, "{}", address.offset),
        }
        if address.offset == 0 { Ok(()) } else { write!(f, "+{}", address.offset) }
    }
}
