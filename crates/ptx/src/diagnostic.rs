//! What was wrong with a PTX file, and where.
//!
//! The log is written line by line as ptxas writes its own, because programs that print or search
//! the JIT error log know that shape; column, finding and expectation follow in the message.

use std::fmt;

/// Place in a file, both from 1; the column counts bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Byte in the line, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used.
    Warning,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where.
    pub position: Position,
    /// How bad.
    pub severity: Severity,
    /// What was wrong, with the value; what was expected.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error  ",
            Severity::Warning => "warning",
        };
        let Position { line, column } = self.position;
        write!(
            f,
            "ptxas application ptx input, line {line}; {severity} : {} (column {column})",
            self.message
        )
    }
}

/// Why a file cannot be used: at least one error, in the order of the file. Its text is the JIT
/// error log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Errors {
    /// The findings; warnings may be among them.
    pub diagnostics: Vec<Diagnostic>,
    /// There were more than [`ERRORS_MAX`].
    pub truncated: bool,
}

/// Most findings kept of one file: the first few are what a person reads, and a hostile file
/// must not make a log larger than itself.
pub const ERRORS_MAX: usize = 64;

impl Errors {
    /// The first error's place.
    pub fn position(&self) -> Option<Position> {
        self.diagnostics
            .iter()
            .find(|diagnostic| diagnostic.severity == Severity::Error)
            .map(|diagnostic| diagnostic.position)
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.diagnostics {
            writeln!(f, "{diagnostic}")?;
        }
        if self.truncated {
            writeln!(f, "ptxas info    : only the first {ERRORS_MAX} messages are shown")?;
        }
        write!(f, "ptxas fatal   : Ptx assembly aborted due to errors")
    }
}
