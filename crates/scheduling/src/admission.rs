//! Admission: a policy's answer to a client that wants to submit.

/// Whether a policy lets a client submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It does.
    Go,
    /// It does when what other clients have there has changed.
    Hold,
    /// It does at that time, ns, at the latest.
    HoldUntil(u64),
}

impl Admission {
    /// Of two policies, both of which must let a client through.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Go, answer) | (answer, Self::Go) => answer,
            (Self::HoldUntil(one), Self::HoldUntil(other)) => Self::HoldUntil(one.max(other)),
            _ => Self::Hold,
        }
    }
}
