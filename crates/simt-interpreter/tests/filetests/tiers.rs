//! What these tests run on: the interpreter, with every instruction set.

use simt::ir::vector::Tier;
use simt::kernel::FaultKind;
pub(crate) use simt_interpreter::InstructionSet as Set;
use simt_interpreter::Interpreter;
use std::sync::Arc;

/// Every instruction set; those that this processor lacks fall back to what it has.
pub(crate) const ALL_SETS: [Set; 3] = [Set::Avx512, Set::Avx2, Set::Baseline];

/// What is held against what: each against the one without vector instructions.
pub(crate) const HELD: &[(Set, Set)] = &[(Set::Avx512, Set::Baseline), (Set::Avx2, Set::Baseline)];

/// Of the operands of all forms, one in this number is tried by default.
pub(crate) const PARTS: usize = 211;

/// A fault as it is: addresses are compared elsewhere.
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

/// Those that every random kernel of index arithmetic runs on: there is one code for all.
pub(crate) const ALWAYS: [Set; 0] = [];

/// True if a kernel that such a set runs must have entered native code: there is none here.
pub(crate) fn is_native(_: Set) -> bool {
    false
}

/// What runs kernels.
pub(crate) fn tier(set: Set) -> Arc<dyn Tier> {
    Arc::new(Interpreter::with(set))
}
