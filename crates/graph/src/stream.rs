//! Stream keys: a stream as captures see it.

/// How a stream takes turns with its context's legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOrder {
    /// It is the legacy default stream.
    Legacy,
    /// It takes turns with it.
    Blocking,
    /// It does not.
    NonBlocking,
}

/// A stream as captures see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey {
    /// Unique among the process' streams.
    pub id: u64,
    /// The stream's context: unique among the process' contexts.
    pub context: u64,
    /// How it takes turns.
    pub order: StreamOrder,
}
