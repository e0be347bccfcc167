//! Mismatches: how an operand differs from its pattern.

/// What was found and what was expected, each as a phrase.
#[derive(Debug, Default)]
pub(super) struct Mismatch {
    pub(super) found: String,
    pub(super) expected: String,
}

/// Whether it does.
pub(super) type Fit = Result<(), Mismatch>;
