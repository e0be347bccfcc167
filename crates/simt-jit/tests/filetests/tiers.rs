//! What these tests run on: native code of every flavour, kernels that move up to it, and the
//! interpreter; and what of a fault is the same on all of them.

use simt::ir::vector::Tier;
use simt::kernel::FaultKind;
use simt_interpreter::Interpreter;
use simt_jit::{Jit, SimdIsa};
use std::io::Write;
use std::sync::{Arc, Once};

/// A way to run kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// Native from the first block on.
    Native(SimdIsa),
    /// Native as soon as it is ready, while the kernel runs.
    MovingUp(SimdIsa),
    /// The interpreter alone.
    Interpreted,
    /// Native from the first block on, or interpreted, of kernels that are made for processors that
    /// estimate, whether that is so here or not.
    Estimating(Option<SimdIsa>),
}

/// All of them, the interpreter last: it is what the others are compared with.
pub(crate) const ALL_SETS: [Set; 5] = [
    Set::Native(SimdIsa::Avx512),
    Set::Native(SimdIsa::Avx2),
    Set::MovingUp(SimdIsa::Avx512),
    Set::MovingUp(SimdIsa::Avx2),
    Set::Interpreted,
];

/// What is held against what: native code against the interpreter of kernels made for the same processor.
pub(crate) const HELD: &[(Set, Set)] = &[
    (Set::Native(SimdIsa::Avx2), Set::Interpreted),
    (Set::Estimating(Some(SimdIsa::Avx512)), Set::Estimating(None)),
];

/// Of the operands of all forms, one in this number is tried by default.
pub(crate) const PARTS: usize = 101;

/// Those that every random kernel of index arithmetic runs on.
pub(crate) const ALWAYS: [Set; 1] = [Set::Native(SimdIsa::Avx2)];

/// Says, once for each instruction set and past the test runner's capture, that native code for it
/// is not tested on this processor.
fn skipped(isa: SimdIsa) {
    static SAID: [Once; 2] = [const { Once::new() }; 2];
    SAID[isa as usize].call_once(|| {
        let text = format!("SKIPPED: this processor does not run native code for {isa:?}\n");
        std::io::stderr().write_all(text.as_bytes()).expect("standard error");
    });
}

/// True if a kernel that such a set runs must have entered native code.
pub(crate) fn is_native(set: Set) -> bool {
    let (Set::Native(isa) | Set::Estimating(Some(isa))) = set else { return false };
    isa.is_here()
}

/// What runs kernels. A processor that has no such native code interprets, and says so.
pub(crate) fn tier(set: Set) -> Arc<dyn Tier> {
    let (isa, starts, estimating) = match set {
        Set::Native(isa) => (Some(isa), 0, isa.estimates()),
        Set::MovingUp(isa) => (Some(isa), 1, isa.estimates()),
        Set::Interpreted => (None, 0, false),
        Set::Estimating(isa) => (isa, 0, true),
    };
    let interpreter = Interpreter::new().estimating(estimating);
    let Some(isa) = isa else { return Arc::new(interpreter) };
    if !isa.is_here() {
        skipped(isa);
        return Arc::new(interpreter);
    }
    let jit = Jit::new(isa).expect("the system grants memory for native code");
    Arc::new(interpreter.moving_up(Arc::new(jit.after(starts).counting_slow_paths())))
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
        FaultKind::OutsideSpace { space, bytes, size, write, .. } => {
            FaultKind::OutsideSpace { space, offset: 0, bytes, size, write }
        }
        other => other,
    }
}
