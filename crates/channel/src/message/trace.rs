//! Trace messages: what work clients had the device do and when, while a reader asks for it.

use super::counts::{KERNEL_NAME_BYTES_MAX, numbers, travelling};
use super::{Body, COMMAND_LINE_BYTES_MAX};
use crate::codec::{CodecError, Decoder, Encoder};

/// Records in one message.
pub const TRACE_RECORDS_MAX: usize = 256;
/// Different names in one message.
pub const TRACE_NAMES_MAX: usize = 48;
/// Bytes of all names in one message, which still fit beside the records.
const TRACE_NAME_BYTES_MAX: usize = 24 << 10;
/// Clients that are named in one message.
pub const TRACE_CLIENTS_MAX: usize = 4;

/// What a record is of.
pub mod trace_kind {
    pub use cuda_api::extension::trace_kind::*;
    /// The launch of a graph as a whole.
    pub const GRAPH: u32 = 7;
}

numbers! {
    /// A piece of work. Times are of CLOCK_MONOTONIC.
    pub struct TraceEntry {
        /// One of [`trace_kind`].
        pub kind: u32,
        /// The client's number at the server.
        pub client: u32,
        /// Its stream's slot; [`StreamCounts::PAST_STREAMS`](super::StreamCounts::PAST_STREAMS) of one
        /// that is not known (any more), such as those within a graph.
        pub stream: u32,
        /// The SM, of [`trace_kind::ON_SM`].
        pub sm: u32,
        /// Number of the launch.
        pub launch: u64,
        /// When it was submitted to the device, ns.
        pub submitted_ns: u64,
        /// When it began, ns.
        pub start_ns: u64,
        /// When it ended, ns.
        pub end_ns: u64,
        /// Bytes of a copy or fill.
        pub bytes: u64,
        /// Blocks, by x.
        pub grid_x: u32,
        /// Blocks, by y.
        pub grid_y: u32,
        /// Blocks, by z.
        pub grid_z: u32,
        /// Threads of a block, by x.
        pub block_x: u32,
        /// Threads of a block, by y.
        pub block_y: u32,
        /// Threads of a block, by z.
        pub block_z: u32,
        /// Place of its name in the message's names.
        pub name: u32,
    }
}

/// Who a client is, in a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceClient {
    /// Its number at the server.
    pub client: u32,
    /// Its process.
    pub pid: u32,
    /// Its command line.
    pub command_line: String,
}

/// A part of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePart {
    /// True if another part follows.
    pub more: bool,
    /// The number to go on from: what the next question says.
    pub next: u64,
    /// Records that were lost since the number that was asked from.
    pub lost: u64,
    /// Clients that the daemon may not have heard of.
    pub clients: Vec<TraceClient>,
    /// Names that records refer to.
    pub names: Vec<String>,
    /// The records, as they ended.
    pub records: Vec<TraceEntry>,
}

impl TracePart {
    /// Adds a record; false if there is no room for it, and the part is unchanged.
    pub fn add(&mut self, record: &TraceEntry, name: &str) -> bool {
        if self.records.len() >= TRACE_RECORDS_MAX {
            return false;
        }
        let name = travelling(name);
        let has_room = || {
            let bytes: usize = self.names.iter().map(String::len).sum();
            self.names.len() < TRACE_NAMES_MAX && bytes + name.len() <= TRACE_NAME_BYTES_MAX
        };
        let place = match self.names.iter().position(|known| *known == name) {
            Some(place) => place,
            None if has_room() => {
                self.names.push(name.into_owned());
                self.names.len() - 1
            }
            None => return false,
        };
        self.records.push(TraceEntry { name: place as u32, ..*record });
        true
    }
}

impl Body for TraceClient {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.client);
        to.u32(self.pid);
        to.text(&self.command_line, COMMAND_LINE_BYTES_MAX);
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            client: from.u32()?,
            pid: from.u32()?,
            command_line: from.text(COMMAND_LINE_BYTES_MAX)?,
        })
    }
}

impl Body for TracePart {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.bool(self.more);
        to.u64(self.next);
        to.u64(self.lost);
        to.list(&self.clients, TRACE_CLIENTS_MAX, |to, client| client.write_within(to))?;
        to.list(&self.names, TRACE_NAMES_MAX, |to, name| {
            to.text(&travelling(name), KERNEL_NAME_BYTES_MAX);
            Ok(())
        })?;
        to.list(&self.records, TRACE_RECORDS_MAX, |to, record| record.write_within(to))
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            more: from.bool()?,
            next: from.u64()?,
            lost: from.u64()?,
            clients: from.list(TRACE_CLIENTS_MAX, TraceClient::read_within)?,
            names: from.list(TRACE_NAMES_MAX, |from| from.text(KERNEL_NAME_BYTES_MAX))?,
            records: from.list(TRACE_RECORDS_MAX, TraceEntry::read_within)?,
        })
    }
}
