//! What these tests run on: native code, kernels that move up to it, and the interpreter.

use simt::vector::Tier;
use simt_interpreter::Interpreter;
use simt_jit::Jit;
use std::sync::Arc;

/// A way to run kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// Native from the first block on.
    Native,
    /// Native as soon as it is ready, while the kernel runs.
    MovingUp,
    /// The interpreter alone.
    Interpreted,
}

/// All of them, the interpreter last: it is what the others are compared with.
pub(crate) const ALL_SETS: [Set; 3] = [Set::Native, Set::MovingUp, Set::Interpreted];

/// What runs kernels. A processor that has no native code interprets.
pub(crate) fn tier(set: Set) -> Arc<dyn Tier> {
    let interpreter = Interpreter::new();
    Arc::new(match (set, Jit::new()) {
        (Set::Native, Some(jit)) => interpreter.moving_up(Arc::new(jit.after(0))),
        (Set::MovingUp, Some(jit)) => interpreter.moving_up(Arc::new(jit.after(1))),
        _ => interpreter,
    })
}
