//! What a client has used, reported when it has ended.

use super::{Body, ClientStatus};
use crate::codec::{CodecError, Decoder, Encoder};

/// A client that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedClient {
    /// How it was last.
    pub status: ClientStatus,
    /// When it came, ms since 1970.
    pub began_ms: u64,
    /// From then until its end, ms.
    pub wall_ms: u64,
    /// Most device memory that it had at a time, bytes.
    pub peak_memory_bytes: u64,
}

impl Body for EndedClient {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        self.status.write_within(to)?;
        to.u64(self.began_ms);
        to.u64(self.wall_ms);
        to.u64(self.peak_memory_bytes);
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            status: ClientStatus::read_within(from)?,
            began_ms: from.u64()?,
            wall_ms: from.u64()?,
            peak_memory_bytes: from.u64()?,
        })
    }
}
