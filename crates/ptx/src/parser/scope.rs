//! Words and what they are bound to while a file is read.
//!
//! A word is looked up by text once and numbered; from then on it is an index. A binding knows
//! the depth of the scope it was made in (0 is the module), and closing a scope takes its
//! bindings back in the reverse order. Labels are not here: they are used before they are
//! defined, see `labels`.

use crate::ast::{FunctionId, LocalId, Name, Span, VariableId};
use std::collections::HashMap;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entity {
    Variable(VariableId),
    Function(FunctionId),
    Local(LocalId),
    /// A register of its own: index of its declaration.
    Register(u32),
    /// Prefix of `.reg .b32 %r<n>`: index of the declaration.
    RegisterRange(u32),
}

/// An entity and the depth of the scope that bound it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    pub(super) entity: Entity,
    pub(super) depth: u32,
}

/// Splitting of a name like `%r12` into `%r` and 12.
#[derive(Clone, Copy, Debug)]
enum Split {
    NotTried,
    No,
    Yes(Name, u32),
}

pub(super) struct Names<'s> {
    source: &'s str,
    by_text: HashMap<&'s str, Name>,
    pub(super) spans: Vec<Span>,
    bindings: Vec<Option<Binding>>,
    splits: Vec<Split>,
    /// What each binding since the module's start replaced.
    undo: Vec<(Name, Option<Binding>)>,
    /// Length of `undo` at the start of each open scope.
    marks: Vec<usize>,
}

impl<'s> Names<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Names {
            source,
            by_text: HashMap::new(),
            spans: Vec::new(),
            bindings: Vec::new(),
            splits: Vec::new(),
            undo: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// The number of the word at `span`.
    pub(super) fn intern(&mut self, span: Span) -> Name {
        let text = &self.source[span.start as usize..span.end as usize];
        *self.by_text.entry(text).or_insert_with(|| {
            self.spans.push(span);
            self.bindings.push(None);
            self.splits.push(Split::NotTried);
            Name(self.spans.len() as u32 - 1)
        })
    }

    pub(super) fn text(&self, name: Name) -> &'s str {
        let span = self.spans[name.0 as usize];
        &self.source[span.start as usize..span.end as usize]
    }

    pub(super) fn depth(&self) -> u32 {
        self.marks.len() as u32
    }

    pub(super) fn open_scope(&mut self) {
        self.marks.push(self.undo.len());
    }

    pub(super) fn close_scope(&mut self) {
        let mark = self.marks.pop().unwrap_or(0);
        for (name, old) in self.undo.drain(mark..).rev() {
            self.bindings[name.0 as usize] = old;
        }
    }

    /// Binds `name` in the innermost scope; the binding already made there, if any, stays and is
    /// returned.
    pub(super) fn bind(&mut self, name: Name, entity: Entity) -> Option<Entity> {
        let depth = self.depth();
        let slot = &mut self.bindings[name.0 as usize];
        if let Some(old) = *slot
            && old.depth == depth
        {
            return Some(old.entity);
        }
        self.undo.push((name, *slot));
        *slot = Some(Binding { entity, depth });
        None
    }

    /// Binds `name` at module scope from inside a function's signature. An existing binding
    /// there stays and is returned.
    pub(super) fn bind_module(&mut self, name: Name, entity: Entity) -> Option<Entity> {
        let slot = &mut self.bindings[name.0 as usize];
        match *slot {
            Some(old) if old.depth == 0 => return Some(old.entity),
            // A parameter has the function's name: it hides the function inside.
            Some(_) => {
                let hidden = self.undo.iter_mut().rev().find(|(known, _)| *known == name);
                if let Some((_, old)) = hidden {
                    if let Some(old) = old {
                        return Some(old.entity);
                    }
                    *old = Some(Binding { entity, depth: 0 });
                }
            }
            None => *slot = Some(Binding { entity, depth: 0 }),
        }
        None
    }

    /// What exactly this name is bound to.
    pub(super) fn get(&self, name: Name) -> Option<Binding> {
        self.bindings[name.0 as usize]
    }

    /// The declaration of the range that `name` falls into by its spelling, the number within
    /// it, and the depth of the range's scope. The caller compares the number with the count.
    pub(super) fn range_of(&mut self, name: Name) -> Option<(u32, u32, u32)> {
        if let Split::NotTried = self.splits[name.0 as usize] {
            self.splits[name.0 as usize] = match split_number(self.text(name)) {
                Some((prefix, number)) => match self.by_text.get(prefix) {
                    Some(&prefix) => Split::Yes(prefix, number),
                    // The prefix may be declared later: try again then.
                    None => return None,
                },
                None => Split::No,
            };
        }
        let Split::Yes(prefix, number) = self.splits[name.0 as usize] else { return None };
        match self.get(prefix)? {
            Binding { entity: Entity::RegisterRange(declaration), depth } => {
                Some((declaration, number, depth))
            }
            _ => None,
        }
    }
}

/// `%r12` to `%r` and 12; nothing when there are no digits, or leading zeros.
fn split_number(text: &str) -> Option<(&str, u32)> {
    let prefix = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &text[prefix.len()..];
    if prefix.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((prefix, digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(source: &str) -> (Names<'_>, Vec<Name>) {
        let mut names = Names::new(source);
        let list = source
            .split(' ')
            .map(|word| {
                let start = word.as_ptr() as usize - source.as_ptr() as usize;
                names.intern(Span { start: start as u32, end: (start + word.len()) as u32 })
            })
            .collect();
        (names, list)
    }

    #[test]
    fn equal_words_are_equal_names() {
        let (names, list) = names("a b a");
        assert_eq!(list[0], list[2]);
        assert_ne!(list[0], list[1]);
        assert_eq!(names.text(list[1]), "b");
    }

    #[test]
    fn closing_a_scope_restores_what_it_hid() {
        let (mut names, list) = names("a b");
        assert_eq!(names.bind(list[0], Entity::Register(0)), None);
        assert_eq!(names.bind(list[0], Entity::Register(1)), Some(Entity::Register(0)));
        names.open_scope();
        assert_eq!(names.bind(list[0], Entity::Register(2)), None);
        assert_eq!(names.bind(list[1], Entity::Register(3)), None);
        names.close_scope();
        assert_eq!(names.get(list[0]).map(|b| b.entity), Some(Entity::Register(0)));
        assert!(names.get(list[1]).is_none());
    }

    #[test]
    fn ranges_are_found_by_prefix() {
        let (mut names, list) = names("%r %r12 %r012 %r4294967296");
        names.bind(list[0], Entity::RegisterRange(7));
        assert_eq!(names.range_of(list[1]), Some((7, 12, 0)));
        assert_eq!(names.range_of(list[2]), None);
        assert_eq!(names.range_of(list[3]), None);
        assert_eq!(names.range_of(list[0]), None);
    }
}
