//! A whole PTX file: names, positions, and the tables of functions and variables.
//!
//! Everything that can be referred to has a number that is an index into a table here or in its
//! function, so a tree is `Clone`, has no lifetimes, and is walked without looking up text.
//! Positions are byte ranges of the source, which the module keeps; line and column are found
//! on demand.

use super::function::{Function, FunctionKind};
use super::variable::Variable;
use crate::diagnostic::Position;
use std::sync::Arc;

/// A byte range of the module's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

/// A word of the source, numbered: equal names have equal numbers within a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub(crate) u32);

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name(pub(crate) u32);

            impl $name {
                /// Index into the table it numbers.
                pub const fn index(self) -> usize {
                    self.0 as usize
                }
            }
        )*
    };
}

ids! {
    /// Index into [`Module::functions`].
    FunctionId;
    /// Index into [`Module::variables`].
    VariableId;
    /// Index into [`Function::registers`].
    RegisterId;
    /// Index into [`Function::locals`].
    LocalId;
    /// Index into [`Function::labels`].
    LabelId;
}

/// ISA version of `.version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Version {
    /// Before the dot.
    pub major: u16,
    /// After the dot.
    pub minor: u16,
}

/// What `.target` says.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Target {
    /// Compute capability times ten: 80 for `sm_80`; 0 when the file names none.
    pub sm: u32,
    /// Letter after the number: `a` (this architecture only), `f` (its family), or none.
    pub suffix: Option<char>,
    /// Further words: `texmode_independent`, `debug`, `map_f64_to_f32`, ...
    pub options: Vec<String>,
}

impl Target {
    /// True if code for it runs on devices of compute capability `sm` (times ten).
    pub fn runs_on(&self, sm: u32) -> bool {
        runs_on(self.sm, self.suffix, sm)
    }

    /// See [`family`].
    pub fn family(&self) -> u32 {
        family(self.sm)
    }
}

/// The family of an architecture (compute capability times ten), by its first member: code for
/// `sm_100f` runs on sm_100, sm_103 and sm_107.
pub fn family(sm: u32) -> u32 {
    sm / 10 * 10
}

/// True if code for the architecture `target` (compute capability times ten) and suffix runs on
/// devices of compute capability `sm`. Plain code runs on what comes later; that of a family (`f`)
/// on what comes later in it; that of an architecture (`a`) nowhere else.
pub fn runs_on(target: u32, suffix: Option<char>, sm: u32) -> bool {
    match suffix {
        Some('a') => target == sm,
        Some('f') => family(target) == family(sm) && target <= sm,
        _ => target <= sm,
    }
}

/// Top-level items in the order written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A module variable, once for each time it is declared.
    Variable(VariableId),
    /// A function's declaration without a body.
    Declaration(FunctionId),
    /// A function with its body.
    Definition(FunctionId),
}

/// `.alias alias, aliasee;`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Where it stands.
    pub span: Span,
    /// The name that becomes another name for `target`.
    pub name: FunctionId,
    /// The function that is called.
    pub target: FunctionId,
}

/// `.file index "path"`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The number that `.loc` uses.
    pub index: u32,
    /// The path as written.
    pub path: String,
}

/// A parsed PTX file. Names are resolved; instructions are not yet checked against their table
/// (that is `check`).
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) source: Arc<str>,
    /// Offset of the first byte of each line.
    pub(crate) lines: Vec<u32>,
    /// Text range of the first use of each name.
    pub(crate) names: Vec<Span>,
    /// Where the version and the target stand.
    pub(crate) version_span: Span,
    pub(crate) target_span: Span,
    /// Of `.version`.
    pub version: Version,
    /// Of `.target`.
    pub target: Target,
    /// 32 or 64, of `.address_size` (32 when the file does not say, as the manual has it).
    pub address_size_bits: u32,
    /// Every function once; a definition takes the place of earlier declarations.
    pub functions: Vec<Function>,
    /// Variables at module scope; a definition takes the place of earlier `.extern` ones.
    pub variables: Vec<Variable>,
    /// Order of the file.
    pub items: Vec<Item>,
    /// `.alias` directives.
    pub aliases: Vec<Alias>,
    /// `.file` directives.
    pub files: Vec<SourceFile>,
    /// `.pragma` strings at module scope.
    pub pragmas: Vec<String>,
}

impl Module {
    /// The whole text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text at `span`; empty if the span is not of this module.
    pub fn text(&self, span: Span) -> &str {
        self.source.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// The text at `span` on one line: runs of white space become one blank, comments go. For
    /// messages.
    pub fn text_line(&self, span: Span) -> String {
        crate::one_line::squeeze(self.text(span))
    }

    /// Line and column of the first byte of `span`.
    pub fn position(&self, span: Span) -> Position {
        position_in(&self.lines, span.start)
    }

    /// Spelling of a name.
    pub fn name(&self, name: Name) -> &str {
        self.names.get(name.0 as usize).map_or("", |&span| self.text(span))
    }

    /// The function with this number.
    ///
    /// # Panics
    /// If `id` is of another module.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.index()]
    }

    /// The variable with this number.
    ///
    /// # Panics
    /// If `id` is of another module.
    pub fn variable(&self, id: VariableId) -> &Variable {
        &self.variables[id.index()]
    }

    /// The function or kernel called `name`, following `.alias`.
    pub fn find_function(&self, name: &str) -> Option<FunctionId> {
        let index = self.functions.iter().position(|function| self.name(function.name) == name)?;
        Some(self.resolve_alias(FunctionId(index as u32)))
    }

    /// The function that `id` stands for: itself, or what `.alias` made it another name of.
    pub fn resolve_alias(&self, id: FunctionId) -> FunctionId {
        self.aliases.iter().find(|alias| alias.name == id).map_or(id, |alias| alias.target)
    }

    /// The module-scope variable called `name`.
    pub fn find_variable(&self, name: &str) -> Option<VariableId> {
        let index = self.variables.iter().position(|variable| self.name(variable.name) == name)?;
        Some(VariableId(index as u32))
    }

    /// Kernels with a body, in the order of their numbers.
    pub fn kernels(&self) -> impl Iterator<Item = (FunctionId, &Function)> {
        self.functions.iter().enumerate().filter_map(|(index, function)| {
            (function.kind == FunctionKind::Entry && function.body.is_some())
                .then_some((FunctionId(index as u32), function))
        })
    }
}

/// Line and column of byte `offset`, given the offsets at which lines start.
pub(crate) fn position_in(lines: &[u32], offset: u32) -> Position {
    let line = lines.partition_point(|&start| start <= offset).max(1);
    let start = lines.get(line - 1).copied().unwrap_or(0);
    Position { line: line as u32, column: offset.saturating_sub(start) + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_runs_where_the_manual_says() {
        let plain = |target, sm| runs_on(target, None, sm);
        assert!(plain(50, 80) && plain(80, 80) && !plain(86, 80));
        assert!(runs_on(90, Some('a'), 90) && !runs_on(90, Some('a'), 100));
        assert!(!runs_on(100, Some('f'), 90) && runs_on(100, Some('f'), 103));
        assert!(!runs_on(100, Some('f'), 120) && !runs_on(103, Some('f'), 100));
    }
}
