//! A client's part in a fault, as its server tells the daemon, for those who look.

use super::{Body, COMMAND_LINE_BYTES_MAX, REASON_BYTES_MAX};
use crate::codec::{CodecError, Decoder, Encoder};

/// A client that has caused a fault, or may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFault {
    /// Its process.
    pub pid: u32,
    /// Its command line, as it says.
    pub command: String,
    /// It is known that it was this one: it has the error. Else others may have been it too.
    pub is_culprit: bool,
    /// The error's name.
    pub error: String,
    /// Which kernel, or what was under way, and how it was found, in words.
    pub why: String,
}

impl Body for ClientFault {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.pid);
        to.text(&self.command, COMMAND_LINE_BYTES_MAX);
        to.bool(self.is_culprit);
        to.text(&self.error, REASON_BYTES_MAX);
        to.text(&self.why, REASON_BYTES_MAX);
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            pid: from.u32()?,
            command: from.text(COMMAND_LINE_BYTES_MAX)?,
            is_culprit: from.bool()?,
            error: from.text(REASON_BYTES_MAX)?,
            why: from.text(REASON_BYTES_MAX)?,
        })
    }
}
