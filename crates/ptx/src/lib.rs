//! PTX: lexer, parser and checker, and readers of fatbins and cubins.
//!
//! [`parse`] reads text into the tree of [`ast`], with every name resolved; [`check()`] holds the
//! tree against the instruction table and PTX's rules of types. [`fatbin`] and [`cubin`] read what
//! else a program may hand to a driver, [`image`] tells which of them it is, [`embedded`] finds
//! the PTX in a file, and [`link`] joins several texts. What comes out is
//! data: this crate compiles nothing and runs nothing.
//!
//! Input may come from any program: no input panics, every count has a named maximum (see
//! [`limits`]), and recursion is bounded. What must hold for any input is written down in
//! [`fuzz_oracle`].
#![forbid(unsafe_code)]

pub mod ast;
pub mod bytes;
mod check;
pub mod cubin;
pub mod diagnostic;
pub mod embedded;
pub mod fatbin;
pub mod fuzz_oracle;
pub mod image;
mod instructions;
mod lexer;
pub mod limits;
pub mod link;
pub mod managed;
pub mod module_state;
mod one_line;
mod parser;
mod print;
mod text_in_binary;

pub use check::{VERSION_MAX, check, is_target, is_version};
pub use diagnostic::{Diagnostic, Errors, Position, Severity};
pub use instructions::examples;
pub use parser::{header, parse, parse_bytes, starts_a_module};
