//! Perfetto's protobuf messages, as far as traces here have them: the fields' numbers are those of
//! `perfetto/protos/perfetto/trace`. All that is left out is optional there.

use prost::Message;

/// The whole file.
#[derive(Clone, PartialEq, Message)]
pub struct PerfettoTrace {
    /// Its packets.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// A packet.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// When, ns, of the clock `timestamp_clock_id`.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// 3 is CLOCK_MONOTONIC.
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    /// Which writer's packets belong together.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// 1: what was interned before is forgotten.
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// How clocks are to each other.
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    /// An event.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// A track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// How clocks are to each other at one moment.
#[derive(Clone, PartialEq, Message)]
pub struct ClockSnapshot {
    /// The clocks.
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    /// The clock of the trace: 3, CLOCK_MONOTONIC.
    #[prost(int32, optional, tag = "2")]
    pub primary_trace_clock: Option<i32>,
}

/// A clock of a snapshot.
#[derive(Clone, PartialEq, Message)]
pub struct Clock {
    /// Which.
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    /// What it says, ns.
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
}

/// A track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Its number.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// The track that it is below.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// Its name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// The process that it stands for.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// How the tracks below it are ordered: 3 is by `sibling_order_rank`.
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    /// Its place among its siblings.
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
}

/// A process.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    /// Its number.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Its command line.
    #[prost(string, repeated, tag = "2")]
    pub cmdline: Vec<String>,
    /// Its name.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

/// An event of a track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// 1 begins a slice, 2 ends it, 3 is a moment.
    #[prost(int32, optional, tag = "9")]
    pub kind: Option<i32>,
    /// Its track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// Its name.
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    /// Its categories.
    #[prost(string, repeated, tag = "22")]
    pub categories: Vec<String>,
    /// Arrows that begin or go through here.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    /// Arrows that end here.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
    /// What else is known.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
}

/// A name and its value.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// The name.
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
    /// A number.
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    /// A text.
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
}
