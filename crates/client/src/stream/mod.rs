//! Streams: what they are and how far each has come.

mod ahead;
pub(crate) mod table;

/// What stream NULL stands for: functions come in two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultStream {
    /// The legacy default stream, which is one for the process.
    Legacy,
    /// The calling thread's own.
    PerThread,
}
