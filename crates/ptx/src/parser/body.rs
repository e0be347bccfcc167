//! Statements of a function's body.

use super::directives::variable_space_of;
use super::{Parsed, Parser, clip};
use crate::ast::{
    AddressBase, Guard, Instruction, LabelKind, Name, Opcode, Operand, Span, Statement,
};
use crate::lexer::TokenKind;
use crate::limits::{MODIFIERS_MAX, OPERANDS_MAX, SCOPE_DEPTH_MAX};

impl Parser<'_> {
    /// Everything after the opening brace, to after the closing one. A mistake ends only its
    /// statement; `Err` means that the end was not found.
    pub(super) fn read_body(&mut self) -> Parsed<()> {
        let mut open = 0u32;
        loop {
            match self.token.kind {
                TokenKind::Eof => {
                    return Err(self.unexpected("`}` at the end of a function"));
                }
                TokenKind::Punct(b'}') => {
                    self.advance();
                    if open == 0 {
                        return Ok(());
                    }
                    open -= 1;
                    self.names.close_scope();
                    self.function.labels.close_scope();
                    self.function.body.push(Statement::Close);
                }
                TokenKind::Punct(b'{') => {
                    let span = self.advance().span;
                    if open >= SCOPE_DEPTH_MAX {
                        let message = format!("`{{` nested deeper than {SCOPE_DEPTH_MAX}");
                        return Err(self.mistake(span, message));
                    }
                    open += 1;
                    self.names.open_scope();
                    self.function.labels.open_scope();
                    self.function.body.push(Statement::Open);
                }
                _ if self.truncated => return Err(super::Stop),
                _ => {
                    if self.read_statement().is_err() {
                        self.skip_statement();
                    }
                }
            }
        }
    }

    fn read_statement(&mut self) -> Parsed<()> {
        match self.token.kind {
            TokenKind::Punct(b'@') => {
                let start = self.advance().span;
                let guard = self.read_guard()?;
                let (name, span) = self.expect_ident("an instruction after its guard")?;
                self.read_instruction(start, Some(guard), name, span)
            }
            TokenKind::Ident => {
                let (name, span) = self.expect_ident("an instruction")?;
                if self.take_punct(b':') {
                    return self.read_label(name, span);
                }
                self.read_instruction(span, None, name, span)
            }
            TokenKind::Dot => self.read_body_directive(),
            _ => Err(self.unexpected("an instruction, a label or a directive")),
        }
    }

    fn read_guard(&mut self) -> Parsed<Guard> {
        let negated = self.take_punct(b'!');
        let (name, span) = self.expect_ident("a predicate after `@`")?;
        match self.find_register(name, span)? {
            Some(register) => Ok(Guard { register, negated }),
            None => Err(self.unknown_symbol(name, span, "a declared predicate")),
        }
    }

    fn read_label(&mut self, name: Name, span: Span) -> Parsed<()> {
        let kind = if self.take_dot(".branchtargets") {
            let mut targets = Vec::new();
            loop {
                let (target, at) = self.expect_ident("a label")?;
                targets.push(self.function.labels.use_of(target, at));
                if !self.take_punct(b',') {
                    break;
                }
            }
            self.expect_punct(b';', "after `.branchtargets`")?;
            LabelKind::BranchTargets(targets)
        } else if self.take_dot(".calltargets") {
            let mut targets = Vec::new();
            loop {
                targets.push(self.expect_function("a declared function")?.0);
                if !self.take_punct(b',') {
                    break;
                }
            }
            self.expect_punct(b';', "after `.calltargets`")?;
            LabelKind::CallTargets(targets)
        } else if self.take_dot(".callprototype") {
            LabelKind::Prototype(self.read_prototype()?)
        } else {
            LabelKind::Code(self.function.body.len())
        };
        if let Some(first) = self.declared_here(name) {
            self.duplicate(name, span, first);
            return Ok(());
        }
        match self.function.labels.define(name, span, kind) {
            Ok(label) => {
                self.function.body.push(Statement::Label(label));
                Ok(())
            }
            Err(first) => {
                // The label itself was read whole: there is no statement to skip.
                self.duplicate(name, span, first);
                Ok(())
            }
        }
    }

    fn read_body_directive(&mut self) -> Parsed<()> {
        let word = self.peek_text();
        if variable_space_of(word).is_some() {
            let ids = self.read_local_variables()?;
            self.function.body.extend(ids.into_iter().map(Statement::Variable));
            return Ok(());
        }
        match word {
            ".reg" => {
                let declaration = self.read_registers()?;
                self.function.body.push(Statement::Registers(declaration));
            }
            ".loc" => {
                let location = self.read_loc()?;
                self.function.body.push(Statement::Location(location));
            }
            ".pragma" => {
                let text = self.read_pragma()?;
                self.function.body.push(Statement::Pragma(text));
            }
            ".file" => self.read_file()?,
            ".section" => self.read_section()?,
            _ => return Err(self.unexpected("a directive of a function's body")),
        }
        Ok(())
    }

    /// An instruction, after its base name.
    fn read_instruction(
        &mut self,
        start: Span,
        guard: Option<Guard>,
        name: Name,
        name_span: Span,
    ) -> Parsed<()> {
        let opcode = self.words.opcode(&self.names, name);
        let mut modifiers = Vec::new();
        let mut operands = Vec::new();
        if opcode == Opcode::Unknown {
            self.skip_opaque(name_span)?;
        } else {
            while self.token.kind == TokenKind::Dot {
                let span = self.advance().span;
                let word = self.names.intern(Span { start: span.start + 1, end: span.end });
                if modifiers.len() >= MODIFIERS_MAX {
                    let message = format!("more than {MODIFIERS_MAX} modifiers");
                    return Err(self.mistake(span, message));
                }
                modifiers.push(self.words.modifier(&self.names, word));
            }
            self.read_operands(opcode, &mut operands)?;
        }
        let span = Span { start: start.start, end: self.last_end };
        self.expect_punct(b';', "or `,` after an operand")?;
        self.function.body.push(Statement::Instruction(Instruction {
            span,
            guard,
            opcode,
            name,
            modifiers: modifiers.into(),
            operands: operands.into(),
        }));
        Ok(())
    }

    fn read_operands(&mut self, opcode: Opcode, operands: &mut Vec<Operand>) -> Parsed<()> {
        if self.at_punct(b';') {
            return Ok(());
        }
        loop {
            if operands.len() >= OPERANDS_MAX {
                return Err(self.unexpected(&format!("at most {OPERANDS_MAX} operands")));
            }
            let bracket = self.at_punct(b'[');
            let mut operand = match opcode {
                Opcode::Call if self.at_punct(b'(') => self.call_list()?,
                Opcode::Bra | Opcode::Brx => self.branch_operand()?,
                _ => self.operand(0)?,
            };
            // `a[1]` is what is there, but moved it is the address.
            if let (Opcode::Mov, false, Operand::Memory(address)) = (opcode, bracket, &operand)
                && let AddressBase::Symbol(symbol) = address.base
            {
                operand = Operand::Symbol(symbol, address.offset);
            }
            operands.push(operand);
            if !self.take_punct(b',') {
                break;
            }
        }
        Ok(())
    }

    /// Reads past an instruction that is not known, to before its semicolon.
    fn skip_opaque(&mut self, name_span: Span) -> Parsed<()> {
        let mut open = 0u32;
        if self.at_punct(b':') {
            return Err(self.unexpected("an instruction after its guard, labels before it"));
        }
        loop {
            match self.token.kind {
                TokenKind::Punct(b';') if open == 0 => return Ok(()),
                TokenKind::Punct(b'{') => open += 1,
                TokenKind::Punct(b'}') if open > 0 => open -= 1,
                TokenKind::Eof | TokenKind::Punct(b'}' | b';') | TokenKind::Invalid(_) => {
                    let text = clip(self.text(name_span));
                    return Err(self.unexpected(&format!("`;` at the end of instruction '{text}'")));
                }
                _ => {}
            }
            self.advance();
        }
    }
}
