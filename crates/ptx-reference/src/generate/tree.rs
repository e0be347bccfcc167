//! Program tree: statements and conditions, and what all of them may use.

/// Registers of each kind.
pub(super) const REGISTERS: u64 = 5;
/// Bytes that all threads may read.
pub(super) const INPUT_BYTES: usize = 1024;

/// A statement of a program, or several.
#[derive(Clone, Debug)]
pub enum Node {
    /// Instructions that go together. `$M` stands for the mask of the lanes that are here.
    Lines(String),
    /// Two ways. `condition` is a predicate, or a comparison of uniform registers.
    If {
        /// What decides.
        condition: Condition,
        /// Where it holds.
        then: Vec<Node>,
        /// Where it does not.
        otherwise: Vec<Node>,
    },
    /// `body` some times: as many as `times`, a 32-bit source, says, but few.
    Loop {
        /// What decides.
        times: Condition,
        /// What is repeated.
        body: Vec<Node>,
    },
    /// Leaves the innermost loop where the predicate holds.
    Break(String),
    /// `brx.idx` over the bodies by a 32-bit register.
    Switch {
        /// The register.
        index: String,
        /// What is chosen from.
        bodies: Vec<Vec<Node>>,
    },
    /// Bodies that jump to each other until their fuel is used up: after each, to another where a
    /// predicate holds.
    Tangle {
        /// Jumps that are made at most.
        fuel: u32,
        /// A body, a predicate, and the number of the body to go to where it holds.
        bodies: Vec<(Vec<Node>, String, usize)>,
    },
}

/// What decides a branch or a loop, and who agrees on it.
#[derive(Clone, Debug)]
pub enum Condition {
    /// All threads of the block: an operand of a uniform register.
    Uniform(String),
    /// No threads need agree; the mask is kept.
    Orderly(String),
    /// No threads need agree, and none asks which are here.
    Free(String),
}

/// Makes a NaN in an f32 or f64 register the one that all tiers give.
pub(super) fn one_nan(ty: &str, register: &str) -> String {
    let nan = if ty == "f64" { "0d7FF8000000000000" } else { "0f7FC00000" };
    format!("testp.notanumber.{ty} %q, {register};\n@%q mov.{ty} {register}, {nan};")
}
