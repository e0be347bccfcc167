//! Kernels and device functions: signature, directives, and the bookkeeping of one function.

use super::labels::Labels;
use super::{Parsed, Parser, clip};
use crate::ast::{
    Directives, Function, FunctionId, FunctionKind, Item, LabelKind, Linkage, Name, Operand,
    Parameter, Prototype, Register, RegisterId, ScalarType, Span, StateSpace, Statement, Variable,
};
use crate::lexer::TokenKind;
use crate::limits::PARAMETERS_MAX;
use crate::parser::scope::Entity;
use std::collections::HashMap;

/// A `.reg` name; its registers get their numbers when they are used.
struct DeclaredRegister {
    name: Name,
    span: Span,
    ty: ScalarType,
    vector: u8,
    /// Registers of a range; `None` for a register of its own.
    count: Option<u32>,
}

/// Tables of the function being read.
pub(super) struct FunctionState {
    registers: Vec<Register>,
    declared: Vec<DeclaredRegister>,
    /// Number of each used register, by declaration and number within its range.
    numbers: HashMap<(u32, u32), RegisterId>,
    pub(super) locals: Vec<Variable>,
    pub(super) labels: Labels,
    pub(super) body: Vec<Statement>,
}

impl FunctionState {
    pub(super) fn new() -> Self {
        FunctionState {
            registers: Vec::new(),
            declared: Vec::new(),
            numbers: HashMap::new(),
            locals: Vec::new(),
            labels: Labels::new(),
            body: Vec::new(),
        }
    }
}

impl Parser<'_> {
    /// A function, after `.entry` or `.func`.
    pub(super) fn read_function(&mut self, kind: FunctionKind, linkage: Linkage) -> Parsed<()> {
        self.function = FunctionState::new();
        self.names.open_scope();
        let result = self.read_function_parts(kind, linkage);
        while self.names.depth() > 0 {
            self.names.close_scope();
        }
        result
    }

    fn read_function_parts(&mut self, kind: FunctionKind, linkage: Linkage) -> Parsed<()> {
        let mut directives = Directives::default();
        if self.at_dot(".attribute") {
            self.read_attribute(&mut directives)?;
        }
        let returns = if kind == FunctionKind::Func && self.at_punct(b'(') {
            let start = self.token.span;
            let returns = self.read_parameters(kind)?;
            if returns.len() > 1 && returns.iter().any(|p| matches!(p, Parameter::Memory(_))) {
                let message = "Multiple return parameters require .reg state space".to_owned();
                return Err(self.mistake(start, message));
            }
            returns
        } else {
            Vec::new()
        };
        if self.peek_text() == "_" {
            return Err(self.unexpected("the name of a function"));
        }
        let (name, span) = self.expect_ident("the name of a function")?;
        let params = if self.at_punct(b'(') { self.read_parameters(kind)? } else { Vec::new() };
        self.read_directives(&mut directives)?;
        let function = Function {
            name,
            span,
            kind,
            linkage,
            returns,
            params,
            directives,
            // A mistake may leave this as it is, and a later declaration is compared with it.
            registers: self.function.registers.clone(),
            locals: self.function.locals.clone(),
            labels: Vec::new(),
            body: None,
        };
        let defined = self.at_punct(b'{');
        if defined && linkage == Linkage::Extern {
            let text = clip(self.names.text(name));
            let message = format!("Function definition conflicts with '.extern' of '{text}'");
            return Err(self.mistake(span, message));
        }
        let id = self.bind_function(&function, defined)?;
        if !defined {
            self.expect_punct(b';', "or `{` after a function's signature")?;
            self.finish_function(id, function, None);
            return Ok(());
        }
        self.advance();
        let result = self.read_body();
        let body = std::mem::take(&mut self.function.body);
        self.finish_function(id, function, Some(body));
        result
    }

    /// Gives the function its number, the same as its earlier declaration's.
    fn bind_function(&mut self, function: &Function, defined: bool) -> Parsed<FunctionId> {
        let new = FunctionId(self.module.functions.len() as u32);
        let item = |id| if defined { Item::Definition(id) } else { Item::Declaration(id) };
        let Some(old) = self.names.bind_module(function.name, Entity::Function(new)) else {
            self.module.functions.push(function.clone());
            self.module.items.push(item(new));
            return Ok(new);
        };
        let first = match old {
            Entity::Function(id) => {
                let known = &self.module.functions[id.index()];
                if !same_signature(known, function, &self.function) {
                    let text = clip(self.names.text(function.name));
                    let first = crate::ast::position_in(&self.lines, known.span.start);
                    let message = format!(
                        "declaration of '{text}' differs, expected the parameters of {first}"
                    );
                    return Err(self.mistake(function.span, message));
                }
                if !(defined && known.body.is_some()) {
                    self.module.items.push(item(id));
                    return Ok(id);
                }
                known.span
            }
            Entity::Variable(id) => self.module.variables[id.index()].span,
            _ => function.span,
        };
        Err(self.duplicate(function.name, function.span, first))
    }

    /// Puts the finished function in its place. A declaration never replaces a definition.
    fn finish_function(
        &mut self,
        id: FunctionId,
        mut function: Function,
        body: Option<Vec<Statement>>,
    ) {
        let state = std::mem::replace(&mut self.function, FunctionState::new());
        let (labels, renumbering, undefined) = state.labels.finish();
        for (name, span) in undefined {
            let expected =
                "a label of this function, or a register, variable or function declared before";
            self.unknown_symbol(name, span, expected);
        }
        function.registers = state.registers;
        function.locals = state.locals;
        function.labels = labels;
        function.body = body;
        for label in &mut function.labels {
            if let LabelKind::BranchTargets(targets) = &mut label.kind {
                targets.iter_mut().for_each(|target| renumbering.apply(target));
            }
        }
        for statement in function.body.iter_mut().flatten() {
            match statement {
                Statement::Label(label) => renumbering.apply(label),
                Statement::Instruction(instruction) => {
                    for operand in &mut instruction.operands {
                        if let Operand::Label(label) = operand {
                            renumbering.apply(label);
                        }
                    }
                }
                _ => {}
            }
        }
        let slot = &mut self.module.functions[id.index()];
        if function.body.is_some() || slot.body.is_none() {
            *slot = function;
        }
    }

    /// `(.param .b32 a, .reg .u32 b)`, at the parenthesis.
    fn read_parameters(&mut self, kind: FunctionKind) -> Parsed<Vec<Parameter>> {
        let mut params = Vec::new();
        for (is_register, variable) in self.parameter_list(kind)? {
            params.push(if is_register {
                let (name, span) = (variable.name, variable.span);
                self.declare_register(variable.ty, variable.vector, (name, span), None)?;
                let declaration = self.function.declared.len() as u32 - 1;
                Parameter::Register(self.register_number(declaration, 0, name))
            } else {
                Parameter::Memory(self.add_local(variable)?)
            });
        }
        Ok(params)
    }

    /// A parenthesised parameter list as variables; `true` for one in a register.
    fn parameter_list(&mut self, kind: FunctionKind) -> Parsed<Vec<(bool, Variable)>> {
        self.expect_punct(b'(', "before parameters")?;
        let mut list = Vec::new();
        while !self.at_punct(b')') {
            let is_register = self.at_dot(".reg");
            if !is_register && !self.at_dot(".param") {
                return Err(self.unexpected("`.param`, `.reg` or `)`"));
            }
            let span = self.advance().span;
            if list.len() >= PARAMETERS_MAX {
                let message = format!("more than {PARAMETERS_MAX} parameters");
                return Err(self.mistake(span, message));
            }
            let head = self.declaration_head()?;
            if kind == FunctionKind::Func && head.pointer.is_some() {
                let message = "Illegal placement of kernel parameter attribute '.ptr'".to_owned();
                return Err(self.mistake(span, message));
            }
            let named = self.expect_ident("the name of a parameter")?;
            if kind == FunctionKind::Entry && is_register {
                let name = clip(self.names.text(named.0));
                let message = format!("Entry parameter '{name}' must have .param state space");
                return Err(self.mistake(span, message));
            }
            let dims = self.dimensions()?;
            let space = if is_register { StateSpace::Reg } else { StateSpace::Param };
            list.push((is_register, self.variable(&head, space, Linkage::Internal, named, dims)));
            if !self.take_punct(b',') {
                break;
            }
        }
        self.expect_punct(b')', "or `,` after a parameter")?;
        Ok(list)
    }

    /// `.callprototype (ret) _ (params);`, after the directive.
    pub(super) fn read_prototype(&mut self) -> Parsed<Prototype> {
        let mut prototype = Prototype::default();
        let variables = |list: Vec<(bool, Variable)>| list.into_iter().map(|(_, v)| v).collect();
        if self.at_punct(b'(') {
            prototype.returns = variables(self.parameter_list(FunctionKind::Func)?);
        }
        self.expect_ident("`_` in place of a name")?;
        if self.at_punct(b'(') {
            prototype.params = variables(self.parameter_list(FunctionKind::Func)?);
        }
        let mut directives = Directives::default();
        self.read_directives(&mut directives)?;
        prototype.noreturn = directives.noreturn;
        self.expect_punct(b';', "after `.callprototype`")?;
        Ok(prototype)
    }

    /// `.attribute(...)` of a function, at the directive.
    fn read_attribute(&mut self, directives: &mut Directives) -> Parsed<()> {
        let start = self.token.span;
        self.attribute()?;
        let span = Span { start: start.start, end: self.last_end };
        directives.attributes.push(crate::one_line::squeeze(self.text(span)));
        Ok(())
    }

    /// Launch and tuning directives.
    fn read_directives(&mut self, directives: &mut Directives) -> Parsed<()> {
        while self.token.kind == TokenKind::Dot {
            let word = self.peek_text();
            if word == ".pragma" {
                directives.pragmas.push(self.read_pragma()?);
                continue;
            }
            let start = self.advance().span;
            match word {
                ".maxntid" => directives.maxntid = Some(self.extents("an extent of a block")?),
                ".reqntid" => directives.reqntid = Some(self.extents("an extent of a block")?),
                ".minnctapersm" => {
                    directives.minnctapersm = Some(self.unsigned("a number of blocks")?);
                }
                ".maxnctapersm" => {
                    directives.maxnctapersm = Some(self.unsigned("a number of blocks")?);
                }
                ".maxnreg" => directives.maxnreg = Some(self.unsigned("a number of registers")?),
                ".reqnctapercluster" => {
                    directives.reqnctapercluster = Some(self.extents("an extent of a cluster")?);
                }
                ".maxclusterrank" => {
                    directives.maxclusterrank = Some(self.unsigned("a number of blocks")?);
                }
                ".explicitcluster" => directives.explicitcluster = true,
                ".blocksareclusters" => directives.blocksareclusters = true,
                ".noreturn" => directives.noreturn = true,
                // Known to some version, or not yet known: keep its words and numbers.
                _ => {
                    while self.at_constant() && !self.at_punct(b'(') {
                        self.constant("a number")?;
                        if !self.take_punct(b',') {
                            break;
                        }
                    }
                    let span = Span { start: start.start, end: self.last_end };
                    directives.other.push(crate::one_line::squeeze(self.text(span)));
                }
            }
        }
        Ok(())
    }

    /// Where a register, variable or parameter of this name is declared in the innermost scope.
    pub(super) fn declared_here(&self, name: Name) -> Option<Span> {
        let binding = self.names.get(name)?;
        if binding.depth != self.names.depth() {
            return None;
        }
        match binding.entity {
            Entity::Register(id) => Some(self.function.declared[id as usize].span),
            Entity::Local(id) => Some(self.function.locals[id.index()].span),
            _ => None,
        }
    }

    /// Where a range of registers is declared in the innermost scope that `name` is one of.
    pub(super) fn range_here(&mut self, name: Name) -> Option<Span> {
        let (declaration, number, depth) = self.names.range_of(name)?;
        let declared = &self.function.declared[declaration as usize];
        let within = depth == self.names.depth() && declared.count.is_some_and(|n| number < n);
        within.then_some(declared.span)
    }

    /// Declares a register or a range of them in the innermost scope.
    pub(super) fn declare_register(
        &mut self,
        ty: ScalarType,
        vector: u8,
        (name, span): (Name, Span),
        count: Option<u32>,
    ) -> Parsed<()> {
        if let Some(first) = self.range_here(name) {
            return Err(self.duplicate(name, span, first));
        }
        let declaration = self.function.declared.len() as u32;
        self.function.declared.push(DeclaredRegister { name, span, ty, vector, count });
        let entity = match count {
            Some(_) => Entity::RegisterRange(declaration),
            None => Entity::Register(declaration),
        };
        match self.names.bind(name, entity) {
            None => Ok(()),
            Some(Entity::RegisterRange(old) | Entity::Register(old)) => {
                let first = self.function.declared[old as usize].span;
                Err(self.duplicate(name, span, first))
            }
            Some(_) => Err(self.duplicate(name, span, span)),
        }
    }

    /// Number of a register, given out at its first use. `name` is its full name.
    pub(super) fn register_number(
        &mut self,
        declaration: u32,
        number: u32,
        name: Name,
    ) -> RegisterId {
        let registers = &mut self.function.registers;
        let declared = &self.function.declared[declaration as usize];
        *self.function.numbers.entry((declaration, number)).or_insert_with(|| {
            registers.push(Register { name, ty: declared.ty, vector: declared.vector });
            RegisterId(registers.len() as u32 - 1)
        })
    }

    /// The register that `name` means here, if it is one.
    pub(super) fn find_register(&mut self, name: Name, span: Span) -> Parsed<Option<RegisterId>> {
        let direct = self.names.get(name);
        let range = self.names.range_of(name);
        // The innermost declaration counts; at the same depth, the one by full name.
        if let Some((declaration, number, depth)) = range
            && direct.is_none_or(|binding| binding.depth < depth)
        {
            let declared = &self.function.declared[declaration as usize];
            let count = declared.count.unwrap_or(0);
            if number < count {
                return Ok(Some(self.register_number(declaration, number, name)));
            }
            let prefix = self.names.text(declared.name);
            let message = format!(
                "Unknown symbol '{}', expected one of '{prefix}<{count}>'",
                clip(self.names.text(name))
            );
            return Err(self.mistake(span, message));
        }
        match direct.map(|binding| binding.entity) {
            Some(Entity::Register(declaration)) => {
                Ok(Some(self.register_number(declaration, 0, name)))
            }
            _ => Ok(None),
        }
    }

    /// A declared function by name.
    pub(super) fn expect_function(&mut self, what: &str) -> Parsed<(FunctionId, Span)> {
        let (name, span) = self.expect_ident(what)?;
        match self.names.get(name).map(|binding| binding.entity) {
            Some(Entity::Function(id)) => Ok((id, span)),
            _ => Err(self.unknown_symbol(name, span, what)),
        }
    }
}

/// Both take and return the same: number, place and size of each parameter.
fn same_signature(known: &Function, new: &Function, state: &FunctionState) -> bool {
    let shape =
        |parameter: &Parameter, locals: &[Variable], registers: &[Register]| match *parameter {
            Parameter::Memory(id) => (false, locals[id.index()].size_bytes()),
            Parameter::Register(id) => (true, Some(registers[id.index()].ty.size_bytes())),
        };
    let list = |params: &[Parameter], locals: &[Variable], registers: &[Register]| {
        params.iter().map(|param| shape(param, locals, registers)).collect::<Vec<_>>()
    };
    known.kind == new.kind
        && list(&known.params, &known.locals, &known.registers)
            == list(&new.params, &state.locals, &state.registers)
        && list(&known.returns, &known.locals, &known.registers)
            == list(&new.returns, &state.locals, &state.registers)
}
