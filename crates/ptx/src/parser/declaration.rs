//! Declarations of variables, parameters and registers.

use super::directives::variable_space_of;
use super::{Parsed, Parser};
use crate::ast::{
    Item, Linkage, LocalId, Name, PointerAttribute, RegisterDeclaration, ScalarType, Span,
    StateSpace, TypeKind, Variable, VariableId, Version,
};
use crate::instructions::VECTOR_BITS_MAX;
use crate::lexer::TokenKind;
use crate::limits::{ALIGN_BYTES_MAX, ARRAY_DIMENSIONS_MAX};
use crate::parser::scope::Entity;

/// What stands before the names of a declaration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) ty: ScalarType,
    pub(super) vector: u8,
    align: Option<u32>,
    pub(super) pointer: Option<PointerAttribute>,
    managed: bool,
}

impl Parser<'_> {
    /// `.align`, `.v4`, type, `.ptr` and attributes, in any order; the type must be there.
    pub(super) fn declaration_head(&mut self) -> Parsed<Head> {
        let start = self.token.span;
        let mut head =
            Head { ty: ScalarType::B32, vector: 1, align: None, pointer: None, managed: false };
        let mut typed = false;
        while self.token.kind == TokenKind::Dot {
            let word = self.peek_text();
            match word {
                ".align" => head.align = Some(self.alignment()?),
                ".ptr" => head.pointer = Some(self.pointer_attribute()?),
                ".attribute" => head.managed |= self.attribute()?,
                ".v2" | ".v4" => {
                    self.advance();
                    head.vector = word.as_bytes()[2] - b'0';
                }
                _ => match ScalarType::ALL.iter().find(|ty| ty.text() == &word[1..]) {
                    Some(&ty) if !typed => {
                        self.advance();
                        head.ty = ty;
                        typed = true;
                    }
                    _ => break,
                },
            }
        }
        if !typed {
            return Err(self.unexpected("a type such as `.b32`"));
        }
        if !head.ty.is_declarable() {
            let message = format!("Type {} may only be used as an instruction type", head.ty);
            return Err(self.mistake(start, message));
        }
        if u32::from(head.vector) * head.ty.bits() > VECTOR_BITS_MAX as u32 {
            let message = format!("Vector type too large, exceeds {VECTOR_BITS_MAX} bit limit");
            return Err(self.mistake(start, message));
        }
        Ok(head)
    }

    /// `.align 8`, at the directive.
    fn alignment(&mut self) -> Parsed<u32> {
        self.advance();
        let span = self.token.span;
        let value = self.plain_constant("an alignment in bytes")?.as_i64().unwrap_or(0);
        if value <= 0 || value as u64 > ALIGN_BYTES_MAX || !(value as u64).is_power_of_two() {
            let message =
                format!("alignment {value}, expected a power of two of at most {ALIGN_BYTES_MAX}");
            return Err(self.mistake(span, message));
        }
        Ok(value as u32)
    }

    /// `.ptr [.space] [.align 8]`, at the directive.
    fn pointer_attribute(&mut self) -> Parsed<PointerAttribute> {
        self.advance();
        let mut pointer = PointerAttribute { space: None, align_bytes: 4 };
        if self.token.kind == TokenKind::Dot
            && let Some(space) = variable_space_of(self.peek_text())
            && !matches!(space, StateSpace::Param | StateSpace::Tex)
        {
            self.advance();
            pointer.space = Some(space);
        }
        if self.at_dot(".align") {
            pointer.align_bytes = self.alignment()?;
        }
        Ok(pointer)
    }

    /// `.attribute(.managed, .unified(1, 2))`, at the directive; whether `.managed` is in it.
    pub(super) fn attribute(&mut self) -> Parsed<bool> {
        self.advance();
        self.expect_punct(b'(', "after `.attribute`")?;
        let mut managed = false;
        loop {
            if !self.at_dot(".managed") && !self.at_dot(".unified") {
                return Err(self.unexpected("`.managed` or `.unified`"));
            }
            managed |= self.peek_text() == ".managed";
            self.advance();
            if self.take_punct(b'(') {
                self.integer("a number of the unified identity")?;
                while self.take_punct(b',') {
                    self.integer("a number of the unified identity")?;
                }
                self.expect_punct(b')', "after an attribute's numbers")?;
            }
            if !self.take_punct(b',') {
                break;
            }
        }
        self.expect_punct(b')', "after attributes")?;
        Ok(managed)
    }

    /// The array extents after a name.
    pub(super) fn dimensions(&mut self) -> Parsed<Vec<u64>> {
        let mut dims = Vec::new();
        while self.at_punct(b'[') {
            let span = self.advance().span;
            if dims.len() >= ARRAY_DIMENSIONS_MAX {
                let message = format!("more than {ARRAY_DIMENSIONS_MAX} array extents");
                return Err(self.mistake(span, message));
            }
            if self.take_punct(b']') {
                dims.push(0);
                continue;
            }
            let span = self.token.span;
            let extent = self.integer("the extent of an array")?;
            let extent = u64::try_from(extent).map_err(|_| {
                self.mistake(span, format!("array extent {extent}, expected at least 0"))
            })?;
            dims.push(extent);
            self.expect_punct(b']', "after an array's extent")?;
        }
        Ok(dims)
    }

    pub(super) fn variable(
        &self,
        head: &Head,
        space: StateSpace,
        linkage: Linkage,
        (name, span): (Name, Span),
        dims: Vec<u64>,
    ) -> Variable {
        Variable {
            name,
            span,
            space,
            linkage,
            ty: head.ty,
            vector: head.vector,
            align: head.align,
            dims,
            pointer: head.pointer,
            managed: head.managed,
            init: None,
        }
    }

    /// Reads the state space and, for `.const[2]`, past the bank.
    fn variable_space(&mut self) -> Parsed<StateSpace> {
        let space = variable_space_of(self.peek_text())
            .ok_or_else(|| self.unexpected("a state space such as `.global`"))?;
        self.advance();
        let bank = self.token.span;
        if space == StateSpace::Const && self.take_punct(b'[') {
            if self.module.version >= (Version { major: 2, minor: 2 }) {
                let message = "Deprecated feature: explicit constant banks are not supported as \
                               of PTX version 2.2";
                return Err(self.mistake(bank, message.to_owned()));
            }
            self.integer("the number of a constant bank")?;
            self.expect_punct(b']', "after the constant bank")?;
        }
        Ok(space)
    }

    /// Variables at module scope, at the state space.
    pub(super) fn read_module_variables(&mut self, linkage: Linkage) -> Parsed<()> {
        let space = self.variable_space()?;
        let head = self.declaration_head()?;
        loop {
            let named = self.expect_ident("the name of a variable")?;
            let dims = self.dimensions()?;
            let mut variable = self.variable(&head, space, linkage, named, dims);
            // Bound first: an initialiser may hold the variable's own address.
            let id = self.bind_module_variable(&variable)?;
            if self.take_punct(b'=') {
                variable.init = Some(self.initializer(0)?);
            }
            if variable.init.is_some() || self.module.variables[id.index()].init.is_none() {
                self.place_module_variable(id, variable);
            }
            if !self.take_punct(b',') {
                break;
            }
        }
        self.expect_punct(b';', "after a variable's declaration")?;
        Ok(())
    }

    /// Gives a variable its number. One that is declared again keeps it, if one of the two is
    /// `.extern`, the other can be seen from outside, and they agree.
    fn bind_module_variable(&mut self, variable: &Variable) -> Parsed<VariableId> {
        let id = VariableId(self.module.variables.len() as u32);
        match self.names.bind(variable.name, Entity::Variable(id)) {
            None => {
                self.module.variables.push(variable.clone());
                self.module.items.push(Item::Variable(id));
                Ok(id)
            }
            Some(Entity::Variable(known)) => {
                let old = &self.module.variables[known.index()];
                let linkages = [old.linkage, variable.linkage];
                let mergeable = linkages.contains(&Linkage::Extern)
                    && !linkages.contains(&Linkage::Internal)
                    && same_extents(&old.dims, &variable.dims);
                if mergeable && old.space == variable.space && old.ty == variable.ty {
                    self.module.items.push(Item::Variable(known));
                    return Ok(known);
                }
                Err(self.duplicate(variable.name, variable.span, old.span))
            }
            Some(Entity::Function(id)) => {
                let first = self.module.functions[id.index()].span;
                Err(self.duplicate(variable.name, variable.span, first))
            }
            Some(_) => Err(self.duplicate(variable.name, variable.span, variable.span)),
        }
    }

    fn place_module_variable(&mut self, id: VariableId, variable: Variable) {
        let slot = &mut self.module.variables[id.index()];
        // `.extern` after the definition adds nothing.
        let redundant = variable.linkage == Linkage::Extern && slot.linkage != Linkage::Extern;
        if !redundant {
            *slot = variable;
        }
    }

    pub(super) fn duplicate(&mut self, name: Name, span: Span, first: Span) -> super::Stop {
        let first = crate::ast::position_in(&self.lines, first.start);
        let text = super::clip(self.names.text(name));
        self.mistake(
            span,
            format!("Duplicate definition of '{text}', expected a new name: first at {first}"),
        )
    }

    /// Variables inside a function, at the state space. Returns their numbers.
    pub(super) fn read_local_variables(&mut self) -> Parsed<Vec<LocalId>> {
        let space = self.variable_space()?;
        let head = self.declaration_head()?;
        let mut ids = Vec::new();
        loop {
            let named = self.expect_ident("the name of a variable")?;
            let dims = self.dimensions()?;
            // `.param .b32 p<4>;` declares p0 to p3.
            if self.at_punct(b'<') {
                return Err(self.unexpected("a name without a count"));
            }
            let mut variable = self.variable(&head, space, Linkage::Internal, named, dims);
            if self.take_punct(b'=') {
                variable.init = Some(self.initializer(0)?);
            }
            ids.push(self.add_local(variable)?);
            if !self.take_punct(b',') {
                break;
            }
        }
        self.expect_punct(b';', "after a variable's declaration")?;
        Ok(ids)
    }

    /// Numbers a variable of the function and binds its name, unless it is `_`.
    pub(super) fn add_local(&mut self, variable: Variable) -> Parsed<LocalId> {
        let id = LocalId(self.function.locals.len() as u32);
        let (name, span) = (variable.name, variable.span);
        self.function.locals.push(variable);
        if let Some(first) = self.range_here(name) {
            return Err(self.duplicate(name, span, first));
        }
        if self.names.text(name) != "_"
            && let Some(first) = self.names.bind(name, Entity::Local(id))
        {
            let first = match first {
                Entity::Local(first) => self.function.locals[first.index()].span,
                _ => span,
            };
            return Err(self.duplicate(name, span, first));
        }
        Ok(id)
    }

    /// `.reg .b32 %r<42>, a, b;`, at the directive.
    pub(super) fn read_registers(&mut self) -> Parsed<RegisterDeclaration> {
        let start = self.advance().span;
        let head = self.declaration_head()?;
        let problem = match head.ty {
            ScalarType::Pred if head.vector > 1 => "Predicate type can only be that of scalars",
            ty if ty.kind() == TypeKind::Opaque => {
                "Texture/surface variable must be at module or entry parameter scope"
            }
            _ => "",
        };
        if !problem.is_empty() {
            return Err(self.mistake(start, problem.to_owned()));
        }
        let mut names = Vec::new();
        loop {
            let (name, span) = self.expect_ident("the name of a register")?;
            let mut count = None;
            if self.take_punct(b'<') {
                let at = self.token.span;
                let value = self.plain_constant("the number of registers")?.as_i64().unwrap_or(-1);
                count = Some(u32::try_from(value).map_err(|_| {
                    self.mistake(at, format!("register count {value}, expected 0 to 2^32-1"))
                })?);
                self.expect_punct(b'>', "after the number of registers")?;
            }
            self.declare_register(head.ty, head.vector, (name, span), count)?;
            names.push((name, count));
            if !self.take_punct(b',') {
                break;
            }
        }
        self.expect_punct(b';', "after `.reg`")?;
        let span = Span { start: start.start, end: self.last_end };
        Ok(RegisterDeclaration { span, ty: head.ty, vector: head.vector, names })
    }
}

/// Two declarations of one variable have the same extents, or one leaves the first open.
fn same_extents(old: &[u64], new: &[u64]) -> bool {
    let (old_first, new_first) = (old.first(), new.first());
    let open = old_first == Some(&0) || new_first == Some(&0);
    old.len() == new.len() && old.get(1..) == new.get(1..) && (open || old_first == new_first)
}
