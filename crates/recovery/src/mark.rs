//! Mark: a place in a stream's work.

/// A place in a stream's work: the `value`-th operation of the stream in `slot`. How far the device
/// has come stands in the region, a word a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The stream's slot.
    pub slot: u32,
    /// The operation's number in the stream.
    pub value: u64,
}

impl Mark {
    /// The operation before it.
    pub fn before(self) -> Self {
        Self { value: self.value.saturating_sub(1), ..self }
    }
}
