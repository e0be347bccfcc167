//! Questions of the daemon to a server: each has a number, which its answer carries back.
//!
//! A server answers some at once and others when the work is done, so answers come in any order.

use super::{
    Body, Change, CountsPart, REASON_BYTES_MAX, SCHEDULING_BYTES_MAX, ServerStatus, TracePart,
};
use crate::codec::{CodecError, Decoder, Encoder};
use cuda_api::settings::Counting;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The daemon's number for it: from 1 up, never used again in a server's life.
    pub number: u32,
    /// What the daemon wants.
    pub question: Question,
}

/// What the daemon can want of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// How it is. Answered by [`Answered::Status`], in several parts if it has many clients.
    Status,
    /// The end of the session of the client that has this number there. Answered by
    /// [`Answered::Done`] when all that the client had on the device is gone.
    Terminate(u32),
    /// Another share, memory or priority for the client that has this number there. Answered by
    /// [`Answered::Done`], or [`Answered::Refused`].
    Set(u32, Change),
    /// Other settings of scheduling. Answered by [`Answered::Done`]; CUDA_ERROR_INVALID_VALUE for a
    /// client that there is not, or a text that is no setting.
    Schedule(Schedule),
    /// What is counted by kernel and stream, of the client that has this number there; 0: of all.
    /// Answered by [`Answered::Counts`], in several parts.
    Counts(u32),
    /// What work was done since the record that has this number; 0: from now on. Work is recorded as
    /// long as this is asked again and again. Answered by [`Answered::Trace`], in several parts.
    Trace(u64),
    /// Other counters of launches ([`Counting`]). Answered by [`Answered::Done`], or
    /// [`Answered::Refused`] where there is no CUPTI.
    Counters(Counting),
}

/// A change of scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The client's number, or 0 for the server's own settings.
    pub client: u32,
    /// What changes: the settings' text.
    pub settings: String,
}

/// An answer, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The number of the question.
    pub number: u32,
    /// What the server says to it.
    pub answered: Answered,
}

/// What a server can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// How it is.
    Status(ServerStatus),
    /// What came of a request: a CUresult.
    Done(u32),
    /// It is not done; why.
    Refused(String),
    /// What is counted by kernel and stream.
    Counts(CountsPart),
    /// What work was done.
    Trace(TracePart),
}

impl Body for Ask {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.number);
        match &self.question {
            Question::Status => to.u8(0),
            Question::Terminate(id) => {
                to.u8(1);
                to.u32(*id);
            }
            Question::Set(id, change) => {
                to.u8(2);
                to.u32(*id);
                change.write_within(to)?;
            }
            Question::Schedule(Schedule { client, settings }) => {
                to.u8(3);
                to.u32(*client);
                to.text(settings, SCHEDULING_BYTES_MAX);
            }
            Question::Counts(id) => {
                to.u8(4);
                to.u32(*id);
            }
            Question::Trace(from) => {
                to.u8(5);
                to.u64(*from);
            }
            Question::Counters(counting) => {
                to.u8(6);
                to.u8(*counting as u8);
            }
        }
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let number = from.u32()?;
        let question = match from.u8()? {
            0 => Question::Status,
            1 => Question::Terminate(from.u32()?),
            2 => Question::Set(from.u32()?, Change::read_within(from)?),
            3 => Question::Schedule(Schedule {
                client: from.u32()?,
                settings: from.text(SCHEDULING_BYTES_MAX)?,
            }),
            4 => Question::Counts(from.u32()?),
            5 => Question::Trace(from.u64()?),
            6 => {
                let found = from.u8()?;
                let wrong = CodecError::Value { what: "counters", found: found.into() };
                Question::Counters(Counting::from_number(found).ok_or(wrong)?)
            }
            found => return Err(CodecError::Value { what: "question", found: found.into() }),
        };
        Ok(Self { number, question })
    }
}

impl Body for Answer {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.number);
        match &self.answered {
            Answered::Status(status) => {
                to.u8(0);
                status.write_within(to)?;
            }
            Answered::Done(result) => {
                to.u8(1);
                to.u32(*result);
            }
            Answered::Refused(reason) => {
                to.u8(2);
                to.text(reason, REASON_BYTES_MAX);
            }
            Answered::Counts(part) => {
                to.u8(3);
                part.write_within(to)?;
            }
            Answered::Trace(part) => {
                to.u8(4);
                part.write_within(to)?;
            }
        }
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let number = from.u32()?;
        let answered = match from.u8()? {
            0 => Answered::Status(ServerStatus::read_within(from)?),
            1 => Answered::Done(from.u32()?),
            2 => Answered::Refused(from.text(REASON_BYTES_MAX)?),
            3 => Answered::Counts(CountsPart::read_within(from)?),
            4 => Answered::Trace(TracePart::read_within(from)?),
            found => return Err(CodecError::Value { what: "answer", found: found.into() }),
        };
        Ok(Self { number, answered })
    }
}
