//! Initial values of variables.

use super::{Parsed, Parser, clip};
use crate::ast::{Immediate, InitialAddress, Initializer, Name, Span, SymbolRef};
use crate::lexer::TokenKind;
use crate::limits::ARRAY_DIMENSIONS_MAX;
use crate::parser::scope::Entity;

impl Parser<'_> {
    /// What follows `=`.
    pub(super) fn initializer(&mut self, depth: usize) -> Parsed<Initializer> {
        if self.at_punct(b'{') {
            let span = self.advance().span;
            if depth >= ARRAY_DIMENSIONS_MAX {
                let message = format!("initialiser nested deeper than {ARRAY_DIMENSIONS_MAX}");
                return Err(self.mistake(span, message));
            }
            return self.initializer_list(depth);
        }
        if self.token.kind == TokenKind::Ident && self.peek_text() != "WARP_SZ" {
            return self.initial_address(None);
        }
        let value = self.constant("a constant, an address or `{`")?;
        // `0xff00(sym)`: one byte of an address.
        if let Immediate::Integer { bits, .. } = value
            && self.take_punct(b'(')
        {
            let address = self.initial_address(Some(bits))?;
            self.expect_punct(b')', "after a masked address")?;
            return Ok(address);
        }
        Ok(Initializer::Value(value))
    }

    fn initializer_list(&mut self, depth: usize) -> Parsed<Initializer> {
        let mut list = Vec::new();
        let mut properties = Vec::new();
        let mut more = !self.at_punct(b'}');
        while more {
            match self.property()? {
                Some(property) => properties.push(property),
                None => list.push(self.initializer(depth + 1)?),
            }
            more = self.take_punct(b',');
        }
        self.expect_punct(b'}', "or `,` in an initialiser")?;
        if properties.is_empty() {
            return Ok(Initializer::List(list));
        }
        Ok(Initializer::Properties(properties))
    }

    /// `filter_mode = linear`, if that is what comes next.
    fn property(&mut self) -> Parsed<Option<(Name, Name)>> {
        if self.token.kind != TokenKind::Ident
            || self.lexer.clone().next_token().kind != TokenKind::Punct(b'=')
        {
            return Ok(None);
        }
        let (name, _) = self.expect_ident("a property")?;
        self.advance();
        if !matches!(self.token.kind, TokenKind::Ident | TokenKind::Number(_)) {
            return Err(self.unexpected("the value of a property"));
        }
        let value = self.advance().span;
        Ok(Some((name, self.names.intern(value))))
    }

    /// `sym`, `sym+8`, `sym+-8`, `generic(sym)+8`.
    fn initial_address(&mut self, mask: Option<u64>) -> Parsed<Initializer> {
        let generic = self.peek_text() == "generic";
        let symbol = if generic {
            self.advance();
            self.expect_punct(b'(', "after `generic`")?;
            let symbol = self.initial_symbol()?;
            self.expect_punct(b')', "after the symbol of `generic`")?;
            symbol
        } else {
            self.initial_symbol()?
        };
        let mut offset = 0i64;
        if self.take_punct(b'+') {
            offset = self.integer("an offset in bytes")?;
        }
        Ok(Initializer::Address(InitialAddress { symbol, offset, generic, mask }))
    }

    fn initial_symbol(&mut self) -> Parsed<SymbolRef> {
        let (name, span) = self.expect_ident("the name of a variable or function")?;
        match self.names.get(name).map(|binding| binding.entity) {
            Some(Entity::Variable(id)) => Ok(SymbolRef::Module(id)),
            Some(Entity::Function(id)) => Ok(SymbolRef::Function(id)),
            Some(Entity::Local(id)) => Ok(SymbolRef::Local(id)),
            _ => Err(self.unknown_symbol(name, span, "a variable or function declared before")),
        }
    }

    /// Records that a name is not declared.
    pub(super) fn unknown_symbol(&mut self, name: Name, span: Span, expected: &str) -> super::Stop {
        let text = clip(self.names.text(name));
        self.mistake(span, format!("Unknown symbol '{text}', expected {expected}"))
    }
}
