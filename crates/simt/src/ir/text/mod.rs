//! Reader of the IRs' text: the inverse of what they print, for tests of passes (`tests/passes/`).
//!
//! The text of a function is a header, which says what the instructions do not show, and its blocks as
//! `openmps ptx dump` shows them. [`write_simt`] and [`write_vector`] write both; what they write
//! is read back equal, but for the lines of the PTX, what calls pass, and live registers.
//!
//! A comment is `#` to the end of the line.
//!
//! Deliberately absent: operations beyond those that `ops` lists, which are refused by name.

mod ops;
mod simt;
mod vector;

pub use simt::{read_simt, write_simt};
pub use vector::{read_vector, write_vector};

use crate::ir::op::{BarrierOp, Class, Op, Width};
use crate::ir::{BlockId, Reg, Target};

/// Why a text could not be read, with the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Line of the text, 1-based.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ReadError {}

/// Of one line, before its number is known.
type Read<T> = Result<T, String>;

/// The lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(n, line)| (n + 1, line.split('#').next().unwrap_or_default().trim()))
        .filter(|(_, line)| !line.is_empty())
}

/// A number behind a word, as `b12`.
fn numbered(text: &str, word: &str) -> Read<u32> {
    let number = text.strip_prefix(word).and_then(|rest| rest.parse().ok());
    number.ok_or_else(|| format!("`{text}` is not `{word}` and a number"))
}

fn number(text: &str) -> Read<u64> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.ok_or_else(|| format!("`{text}` is no number"))
}

fn target(text: &str) -> Read<Target> {
    match text {
        "return" => Ok(Target::Return),
        "exit" => Ok(Target::Exit),
        _ => Ok(Target::Block(BlockId(numbered(text, "b")?))),
    }
}

fn operation(text: &str) -> Read<Op> {
    ops::read(text).ok_or_else(|| format!("no operation is called `{text}`"))
}

/// Names of classes, and the classes.
const CLASSES: [(&str, Class); 5] = [
    ("pred", Class::Pred),
    ("b16", Class::Lane(Width::W16)),
    ("b32", Class::Lane(Width::W32)),
    ("b64", Class::Lane(Width::W64)),
    ("b128", Class::Lane(Width::W128)),
];

fn class_name(class: Class) -> &'static str {
    CLASSES.iter().find(|(_, c)| *c == class).map_or("", |(name, _)| name)
}

fn class(text: &str) -> Read<Class> {
    let found = CLASSES.iter().find(|(name, _)| *name == text);
    found.map(|(_, class)| *class).ok_or_else(|| format!("no class is called `{text}`"))
}

fn barrier_op(text: &str) -> Read<BarrierOp> {
    use BarrierOp::{Arrive, ClusterArrive, ClusterWait, RedAnd, RedOr, RedPopc, Sync};
    let all = [Sync, Arrive, ClusterArrive, ClusterWait, RedAnd, RedOr, RedPopc];
    let found = all.into_iter().find(|op| format!("{op:?}") == text);
    found.ok_or_else(|| format!("no barrier does `{text}`"))
}

/// `left WORD right`.
fn cut<'a>(text: &'a str, by: &str) -> Read<(&'a str, &'a str)> {
    let parts = text.split_once(by).map(|(left, right)| (left.trim(), right.trim()));
    parts.ok_or_else(|| format!("`{text}` has no `{}`", by.trim()))
}

/// The parts of a list with commas; none of an empty text.
fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// A function's registers in the order of their numbers, from declarations in any order.
struct Declared<T>(Vec<Option<T>>);

impl<T> Default for Declared<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Declared<T> {
    fn add(&mut self, reg: Reg, value: T) -> Read<()> {
        const REGISTERS_MAX: usize = 1 << 20;
        if reg.index() >= REGISTERS_MAX {
            return Err(format!("register {} is beyond all numbers", reg.0));
        }
        if self.0.len() <= reg.index() {
            self.0.resize_with(reg.index() + 1, || None);
        }
        match self.0[reg.index()].replace(value) {
            Some(_) => Err(format!("register {} is declared twice", reg.0)),
            None => Ok(()),
        }
    }

    fn all(self) -> Read<Vec<T>> {
        let missing = self.0.iter().position(Option::is_none);
        match missing {
            Some(n) => Err(format!("register {n} is not declared")),
            None => Ok(self.0.into_iter().flatten().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let error = |text: &str| read_simt(text).expect_err(text).to_string();
        assert_eq!(
            error("function k\nb0:\n    r0 = add.u31 1, 2\n    jump exit"),
            "line 3: no operation is called `add.u31`"
        );
        assert_eq!(
            error("function k\nb0:\n    r0 = mov.b32 1\n    jump exit"),
            "line 3: register 0 is not declared"
        );
        assert_eq!(error("function k\nb0:\n    jump b7"), "line 3: there is no block 7");
        assert_eq!(error("function k\nb0:\n"), "line 2: block 0 has no end");
    }
}
