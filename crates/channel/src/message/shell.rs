//! Messages between the shell and the daemon.

use super::{Body, COMMAND_BYTES_MAX, REPLY_TEXT_BYTES_MAX};
use crate::codec::{CodecError, Decoder, Encoder, cut};

/// A command, as it was typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The line without its end. One longer than [`COMMAND_BYTES_MAX`] arrives cut: refuse it
    /// before it is sent.
    pub text: String,
}

impl Body for Command {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.text(&self.text, COMMAND_BYTES_MAX);
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self { text: from.text(COMMAND_BYTES_MAX)? })
    }
}

/// An answer to a command, or a piece of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// 0 if the command was carried out, else the exit status of the shell.
    pub status: i32,
    /// True if another piece follows.
    pub more: bool,
    /// Text to be shown.
    pub text: String,
}

impl Reply {
    /// The messages that carry a text of any length: one at least, cut between characters.
    pub fn split(status: i32, text: &str) -> Vec<Self> {
        let mut pieces = Vec::new();
        let mut rest = text;
        loop {
            let (piece, after) = rest.split_at(cut(rest, REPLY_TEXT_BYTES_MAX).len());
            let more = !after.is_empty();
            pieces.push(Self { status, more, text: piece.to_owned() });
            if !more {
                return pieces;
            }
            rest = after;
        }
    }
}

impl Body for Reply {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.i32(self.status);
        to.bool(self.more);
        to.text(&self.text, REPLY_TEXT_BYTES_MAX);
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self { status: from.i32()?, more: from.bool()?, text: from.text(REPLY_TEXT_BYTES_MAX)? })
    }
}
