//! Operands: those of instructions, parsed.

use super::{Parsed, Parser};
use crate::ast::{
    Address, AddressBase, Component, Modifier, Name, Opcode, Operand, Span, SpecialRegister,
    SymbolRef,
};
use crate::lexer::TokenKind;
use crate::limits::{OPERAND_DEPTH_MAX, OPERANDS_MAX};
use crate::parser::scope::{Entity, Names};

/// The opcode and the modifier that each name spells, found at its first use.
#[derive(Default)]
pub(super) struct WordCache {
    opcodes: Vec<Option<Opcode>>,
    modifiers: Vec<Option<Modifier>>,
}

impl WordCache {
    pub(super) fn opcode(&mut self, names: &Names<'_>, name: Name) -> Opcode {
        *slot(&mut self.opcodes, name).get_or_insert_with(|| Opcode::from_text(names.text(name)))
    }

    pub(super) fn modifier(&mut self, names: &Names<'_>, name: Name) -> Modifier {
        *slot(&mut self.modifiers, name).get_or_insert_with(|| {
            Modifier::from_text(names.text(name)).unwrap_or(Modifier::Other(name))
        })
    }
}

fn slot<T>(table: &mut Vec<Option<T>>, name: Name) -> &mut Option<T> {
    let index = name.0 as usize;
    if table.len() <= index {
        table.resize_with(index + 1, || None);
    }
    &mut table[index]
}

impl Parser<'_> {
    /// The target of `bra` and `brx`: names are labels, even if they are names of other things too.
    pub(super) fn branch_operand(&mut self) -> Parsed<Operand> {
        if self.token.kind != TokenKind::Ident {
            return self.operand(0);
        }
        let (name, span) = self.expect_ident("a label")?;
        Ok(match self.find_register(name, span)? {
            Some(register) => Operand::Register(register),
            None => Operand::Label(self.function.labels.use_of(name, span)),
        })
    }

    /// `(a, b)` of a call, at the parenthesis.
    pub(super) fn call_list(&mut self) -> Parsed<Operand> {
        self.advance();
        let list = self.operand_list(b')', 1)?;
        Ok(Operand::List(list))
    }

    /// Operands up to and including `close`.
    fn operand_list(&mut self, close: u8, depth: u32) -> Parsed<Box<[Operand]>> {
        let mut list = Vec::new();
        while !self.at_punct(close) {
            if list.len() >= OPERANDS_MAX {
                return Err(self.unexpected(&format!("at most {OPERANDS_MAX} operands")));
            }
            list.push(self.operand(depth)?);
            if !self.take_punct(b',') {
                break;
            }
        }
        self.expect_punct(close, "or `,` in a list of operands")?;
        Ok(list.into())
    }

    /// One operand, a pair included.
    pub(super) fn operand(&mut self, depth: u32) -> Parsed<Operand> {
        if depth >= OPERAND_DEPTH_MAX {
            return Err(self.unexpected(&format!("operands nested less than {OPERAND_DEPTH_MAX}")));
        }
        let first = self.single_operand(depth)?;
        if !self.take_punct(b'|') {
            return Ok(first);
        }
        let second = self.single_operand(depth)?;
        Ok(Operand::Pair(Box::new((first, second))))
    }

    fn single_operand(&mut self, depth: u32) -> Parsed<Operand> {
        match self.token.kind {
            TokenKind::Ident if self.peek_text() != "WARP_SZ" => self.named_operand(),
            TokenKind::Punct(b'[') => self.memory_operand(depth),
            TokenKind::Punct(b'{') => {
                self.advance();
                Ok(Operand::Vector(self.operand_list(b'}', depth + 1)?))
            }
            TokenKind::Punct(sign @ (b'!' | b'-')) if self.sign_is_of_a_name() => {
                self.advance();
                let (name, span) = self.expect_ident("a register")?;
                match self.find_register(name, span)? {
                    Some(register) if sign == b'!' => Ok(Operand::Not(register)),
                    Some(register) => Ok(Operand::Negated(register)),
                    None => Err(self.unknown_symbol(name, span, "a declared register")),
                }
            }
            _ if self.at_constant() => Ok(Operand::Immediate(self.constant("a constant")?)),
            _ => Err(self.unexpected("an operand")),
        }
    }

    /// `!` or `-` stands before a register rather than in a constant.
    fn sign_is_of_a_name(&self) -> bool {
        let next = self.lexer.clone().next_token();
        next.kind == TokenKind::Ident && self.text(next.span) != "WARP_SZ"
    }

    /// An operand that starts with a name.
    fn named_operand(&mut self) -> Parsed<Operand> {
        let (name, span) = self.expect_ident("an operand")?;
        if self.names.text(name) == "_" {
            return Ok(Operand::Sink);
        }
        if let Some(register) = self.find_register(name, span)? {
            if self.token.kind != TokenKind::Dot {
                return Ok(Operand::Register(register));
            }
            let part = self.advance().span;
            let part = Span { start: part.start + 1, end: part.end };
            return Ok(match component_of(self.text(part)) {
                Some(component) => Operand::Component(register, component),
                None => Operand::Selected(register, self.names.intern(part)),
            });
        }
        if let Some(symbol) = self.find_symbol(name) {
            if self.at_punct(b'[') {
                let offset = self.element(symbol)?;
                return Ok(Operand::Memory(Address { base: AddressBase::Symbol(symbol), offset }));
            }
            let offset = self.offset()?;
            return Ok(Operand::Symbol(symbol, offset));
        }
        let text = self.names.text(name);
        if let Some(bare) = text.strip_prefix('%') {
            let Some(register) = SpecialRegister::from_text(bare) else {
                return Err(self.unknown_symbol(name, span, "a declared or special register"));
            };
            if self.token.kind != TokenKind::Dot {
                return Ok(Operand::Special(register, None));
            }
            let part = &self.peek_text()[1..];
            let component = component_of(part).filter(|part| {
                register.is_vector() && part.text().len() == 1 && "xyzw".contains(part.text())
            });
            if component.is_none() {
                return Err(self.unexpected("`.x`, `.y` or `.z` of a vector register"));
            }
            self.advance();
            return Ok(Operand::Special(register, component));
        }
        Ok(Operand::Label(self.function.labels.use_of(name, span)))
    }

    /// `[2]` after the name of an array, at the bracket: the offset of that element in bytes. Of
    /// indices, only one that is a constant is known here; compilers write addresses.
    fn element(&mut self, symbol: SymbolRef) -> Parsed<i64> {
        let variable = match symbol {
            SymbolRef::Module(id) => self.module.variables.get(id.index()),
            SymbolRef::Local(id) => self.function.locals.get(id.index()),
            SymbolRef::Function(_) => None,
        };
        let Some(bytes) = variable.map(crate::ast::Variable::element_size_bytes) else {
            return Err(self.unexpected("no index after a function's name"));
        };
        self.advance();
        let index = self.integer("a constant index")?;
        self.expect_punct(b']', "after an index")?;
        Ok(index.wrapping_mul(bytes as i64))
    }

    /// The variable or function that `name` is bound to.
    fn find_symbol(&self, name: Name) -> Option<SymbolRef> {
        match self.names.get(name)?.entity {
            Entity::Variable(id) => Some(SymbolRef::Module(id)),
            Entity::Function(id) => Some(SymbolRef::Function(id)),
            Entity::Local(id) => Some(SymbolRef::Local(id)),
            Entity::Register(_) | Entity::RegisterRange(_) => None,
        }
    }

    /// `+8`, `+-8` or nothing.
    fn offset(&mut self) -> Parsed<i64> {
        if self.take_punct(b'+') { self.integer("an offset in bytes") } else { Ok(0) }
    }

    /// `[...]`, at the bracket.
    fn memory_operand(&mut self, depth: u32) -> Parsed<Operand> {
        self.advance();
        let address = self.address()?;
        if self.take_punct(b',') {
            return Ok(Operand::Indexed(address, self.operand_list(b']', depth + 1)?));
        }
        self.expect_punct(b']', "or `,` after an address")?;
        Ok(Operand::Memory(address))
    }

    fn address(&mut self) -> Parsed<Address> {
        if self.token.kind != TokenKind::Ident || self.peek_text() == "WARP_SZ" {
            let offset = self.integer("an address")?;
            return Ok(Address { base: AddressBase::Absolute, offset });
        }
        let (name, span) = self.expect_ident("an address")?;
        let base = match self.find_register(name, span)? {
            Some(register) => AddressBase::Register(register),
            None => match self.find_symbol(name) {
                Some(symbol) => AddressBase::Symbol(symbol),
                None => {
                    return Err(self.unknown_symbol(
                        name,
                        span,
                        "a register or a variable declared before",
                    ));
                }
            },
        };
        Ok(Address { base, offset: self.offset()? })
    }
}

fn component_of(text: &str) -> Option<Component> {
    Component::ALL.iter().copied().find(|component| component.text() == text)
}
