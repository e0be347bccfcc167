//! A record, copied out of the ring into private memory.

use crate::payload::{Malformed, Payload, Reader};

/// Header word of a record.
pub(super) const fn header(bytes: u64, opcode: u16) -> u64 {
    bytes | (opcode as u64) << 32
}

/// Room for one record, used again for the next.
#[derive(Debug)]
pub struct Record {
    pub(super) opcode: u16,
    pub(super) words: Vec<u64>,
}

impl Default for Record {
    fn default() -> Self {
        Self::new()
    }
}

impl Record {
    /// Room for a record; it grows to at most
    /// [`RECORD_BYTES_MAX`](crate::region::RECORD_BYTES_MAX).
    pub const fn new() -> Self {
        Self { opcode: 0, words: Vec::new() }
    }

    /// What is asked for: a row's number, or one of [`RequestName`](crate::request::RequestName).
    pub const fn opcode(&self) -> u16 {
        self.opcode
    }

    /// The payload.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The payload, to put one together that comes from no ring.
    pub fn words_mut(&mut self) -> &mut Vec<u64> {
        &mut self.words
    }

    /// A reader of the payload.
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(&self.words)
    }

    /// The payload as a request of that type; all of it must belong to the request.
    pub fn decode<'a, P: Payload<'a>>(&'a self) -> Result<P, Malformed> {
        P::from_words(&self.words)
    }
}
