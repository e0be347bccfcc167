//! A client's part in a fault, as its server reports it to the daemon, for those who look.

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
    pub is_faulting: bool,
    /// The error's name.
    pub error: String,
    /// Which kernel, or what was in flight, and how it was found, in words.
    pub why: String,
}

impl Body for ClientFault {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.pid);
        to.text(&self.command, COMMAND_LINE_BYTES_MAX);
        to.bool(self.is_faulting);
        to.text(&self.error, REASON_BYTES_MAX);
        to.text(&self.why, REASON_BYTES_MAX);
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            pid: from.u32()?,
            command: from.text(COMMAND_LINE_BYTES_MAX)?,
            is_faulting: from.bool()?,
            error: from.text(REASON_BYTES_MAX)?,
            why: from.text(REASON_BYTES_MAX)?,
        })
    }
}

/// A client that has said to its next server what it had at a lost one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Its process.
    pub process: u32,
    /// Operations that were in flight and are repeated. Since protocol 3.
    pub operations: u32,
    /// There was work that cannot be repeated: a call of the program fails. Since protocol 3.
    pub is_lost: bool,
}

impl Body for Restored {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.process);
        to.grown(|to| {
            to.u32(self.operations);
            to.bool(self.is_lost);
            Ok(())
        })
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let process = from.u32()?;
        let (operations, is_lost) = from.grown(|from| Ok((from.u32()?, from.bool()?)))?;
        Ok(Self { process, operations, is_lost })
    }
}
