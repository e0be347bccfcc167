//! What these tests run on: native code of every flavour, kernels that move up to it, and the
//! interpreter.

use simt::vector::Tier;
use simt_interpreter::Interpreter;
use simt_jit::{Flavour, Jit};
use std::sync::Arc;

/// A way to run kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// Native from the first block on.
    Native(Flavour),
    /// Native as soon as it is ready, while the kernel runs.
    MovingUp(Flavour),
    /// The interpreter alone.
    Interpreted,
}

/// All of them, the interpreter last: it is what the others are compared with.
pub(crate) const ALL_SETS: [Set; 5] = [
    Set::Native(Flavour::Avx512),
    Set::Native(Flavour::Avx2),
    Set::MovingUp(Flavour::Avx512),
    Set::MovingUp(Flavour::Avx2),
    Set::Interpreted,
];

/// Those that every random kernel of index arithmetic runs on.
pub(crate) const ALWAYS: [Set; 1] = [Set::Native(Flavour::Avx2)];

/// What runs kernels. A processor that has no such native code interprets.
pub(crate) fn tier(set: Set) -> Arc<dyn Tier> {
    let interpreter = Interpreter::new();
    let (flavour, starts) = match set {
        Set::Native(flavour) => (flavour, 0),
        Set::MovingUp(flavour) => (flavour, 1),
        Set::Interpreted => return Arc::new(interpreter),
    };
    Arc::new(match Jit::new(flavour) {
        Some(jit) => interpreter.moving_up(Arc::new(jit.after(starts))),
        None => interpreter,
    })
}
