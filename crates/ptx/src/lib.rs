//! PTX lexer, parser and checker; fatbin and cubin reading.
//!
//! [`parse`] reads text into the tree of [`ast`], with every name resolved. What comes out is
//! data: [`check`] holds it against the instruction table; this crate compiles nothing and runs nothing. Input may come from anybody: no input
//! panics, every count has a named maximum, and recursion is bounded.
#![forbid(unsafe_code)]

pub mod ast;
mod bytes;
mod check;
pub mod cubin;
pub mod diagnostic;
pub mod fatbin;
pub mod image;
mod instructions;
mod lexer;
pub mod limits;
pub mod oracle;
mod parser;
mod print;

pub use check::check;
pub use diagnostic::{Diagnostic, Errors, Position, Severity};
pub use parser::{parse, parse_bytes};
