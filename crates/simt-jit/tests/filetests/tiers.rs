//! What these tests run on: native code of every flavour, kernels that move up to it, and the
//! interpreter; and what of a fault is the same on all of them.

use simt::kernel::FaultKind;
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
    /// Native from the first block on, or interpreted, of kernels that are made for processors that
    /// estimate, whether that is so here or not.
    Estimating(Option<Flavour>),
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
    let (flavour, starts, estimating) = match set {
        Set::Native(flavour) => (Some(flavour), 0, flavour.estimates()),
        Set::MovingUp(flavour) => (Some(flavour), 1, flavour.estimates()),
        Set::Interpreted => (None, 0, false),
        Set::Estimating(flavour) => (flavour, 0, true),
    };
    let interpreter = Interpreter::new().estimating(estimating);
    Arc::new(match flavour.and_then(Jit::new) {
        Some(jit) => interpreter.moving_up(Arc::new(jit.after(starts))),
        None => interpreter,
    })
}

/// What a fault is but for its address: buffers are elsewhere each time.
pub(crate) fn without_address(kind: FaultKind) -> FaultKind {
    match kind {
        FaultKind::IllegalAddress { bytes, write, .. } => {
            FaultKind::IllegalAddress { address: 0, bytes, write }
        }
        FaultKind::MisalignedAddress { bytes, .. } => {
            FaultKind::MisalignedAddress { address: 0, bytes }
        }
        other => other,
    }
}
