//! A recording as Perfetto's trace: a process a client, below it its streams and its submissions; a
//! process a device, below it its SMs. Arrows lead from a submission to where the work began.
//!
//! Slices of one track must not overlap unless one is within the other, which kernels of a stream can
//! do (programmatic launches): such ones are laid out over several tracks of the same name.

use super::nvtx::Range;
use super::perfetto::{
    Clock, ClockSnapshot, DebugAnnotation, PerfettoTrace, ProcessDescriptor, TracePacket,
    TrackDescriptor, TrackEvent,
};
use super::recorder::Recording;
use crate::names::{demangled, short};
use control::trace::{Kind, TracedWork};
use prost::Message;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Number of CLOCK_MONOTONIC in Perfetto.
const MONOTONIC: u32 = 3;
/// The one writer of the file.
const SEQUENCE: u32 = 1;
/// What begins and ends a slice.
const BEGIN: i32 = 1;
const END: i32 = 2;
/// How long the slice of a submission is drawn, ns: only its begin is known.
const SUBMISSION_NS: u64 = 1000;

#[derive(Default)]
struct Writer {
    packets: Vec<TracePacket>,
    /// Tracks by the track that they are below, name and lane, and when the last slice of it ends.
    tracks: BTreeMap<(u64, String, u32), (u64, u64)>,
    tracks_made: u64,
}

/// A slice.
struct Slice<'a> {
    name: String,
    category: &'a str,
    start_ns: u64,
    end_ns: u64,
    flow_out: Option<u64>,
    flow_in: Option<u64>,
    notes: Vec<DebugAnnotation>,
}

fn number(name: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation {
        name: Some(name.to_owned()),
        uint_value: Some(value),
        ..DebugAnnotation::default()
    }
}

fn text(name: &str, value: String) -> DebugAnnotation {
    DebugAnnotation {
        name: Some(name.to_owned()),
        string_value: Some(value),
        ..DebugAnnotation::default()
    }
}

impl Writer {
    fn new_track(&mut self, descriptor: TrackDescriptor) -> u64 {
        self.tracks_made += 1;
        let uuid = self.tracks_made;
        self.packets.push(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(TrackDescriptor { uuid: Some(uuid), ..descriptor }),
            ..TracePacket::default()
        });
        uuid
    }

    fn process(&mut self, pid: u32, name: String, command: &str) -> u64 {
        self.new_track(TrackDescriptor {
            process: Some(ProcessDescriptor {
                pid: i32::try_from(pid).ok(),
                cmdline: command.split_whitespace().map(str::to_owned).collect(),
                process_name: Some(name.clone()),
            }),
            name: Some(name),
            ..TrackDescriptor::default()
        })
    }

    /// The track of that name on which nothing is at `start_ns`; it is taken until `end_ns`.
    fn track(&mut self, parent: u64, name: &str, start_ns: u64, end_ns: u64) -> u64 {
        for lane in 0.. {
            let key = (parent, name.to_owned(), lane);
            if let Some((uuid, busy_until)) = self.tracks.get_mut(&key) {
                if *busy_until > start_ns {
                    continue;
                }
                *busy_until = end_ns;
                return *uuid;
            }
            let uuid = self.new_track(TrackDescriptor {
                parent_uuid: Some(parent),
                name: Some(name.to_owned()),
                ..TrackDescriptor::default()
            });
            self.tracks.insert(key, (uuid, end_ns));
            return uuid;
        }
        unreachable!("a lane is free")
    }

    fn event(&mut self, timestamp: u64, event: TrackEvent) {
        self.packets.push(TracePacket {
            timestamp: Some(timestamp),
            timestamp_clock_id: Some(MONOTONIC),
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_event: Some(event),
            ..TracePacket::default()
        });
    }

    fn slice(&mut self, track: u64, slice: Slice<'_>) {
        let begin = TrackEvent {
            kind: Some(BEGIN),
            track_uuid: Some(track),
            name: Some(slice.name),
            categories: vec![slice.category.to_owned()],
            flow_ids: slice.flow_out.into_iter().collect(),
            terminating_flow_ids: slice.flow_in.into_iter().collect(),
            debug_annotations: slice.notes,
        };
        self.event(slice.start_ns, begin);
        let end = TrackEvent { kind: Some(END), track_uuid: Some(track), ..TrackEvent::default() };
        self.event(slice.end_ns.max(slice.start_ns), end);
    }
}

fn category(kind: Kind) -> &'static str {
    match kind {
        Kind::Kernel => "kernel",
        Kind::Graph => "graph",
        Kind::OnSm => "sm",
        Kind::CopyIn | Kind::CopyOut | Kind::CopyWithin => "copy",
        Kind::Fill => "fill",
    }
}

fn name_of(record: &TracedWork) -> String {
    match record.kind {
        Kind::Kernel | Kind::Graph | Kind::OnSm => short(&record.name),
        Kind::CopyIn => "copy to device".to_owned(),
        Kind::CopyOut => "copy to host".to_owned(),
        Kind::CopyWithin => "copy on device".to_owned(),
        Kind::Fill => "fill".to_owned(),
    }
}

fn notes_of(record: &TracedWork) -> Vec<DebugAnnotation> {
    match record.kind {
        Kind::Kernel => {
            let extents = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
            vec![
                text("kernel", demangled(&record.name)),
                text("grid", extents(record.grid)),
                text("block", extents(record.block)),
                number("launch", record.launch),
                number("queued_ns", record.start_ns.saturating_sub(record.submitted_ns)),
            ]
        }
        Kind::CopyIn | Kind::CopyOut | Kind::CopyWithin | Kind::Fill => {
            vec![number("bytes", record.bytes)]
        }
        Kind::Graph | Kind::OnSm => vec![number("launch", record.launch)],
    }
}

/// The file's bytes. `ranges` are what programs have marked themselves.
pub fn perfetto(recording: &Recording, ranges: &[Range]) -> Vec<u8> {
    PerfettoTrace { packet: packets(recording, ranges) }.encode_to_vec()
}

/// The same in the JSON that chrome://tracing reads.
pub fn chrome(recording: &Recording, ranges: &[Range]) -> String {
    let mut events = Vec::new();
    let mut process_of: BTreeMap<u64, u64> = BTreeMap::new();
    for packet in packets(recording, ranges) {
        if let Some(track) = packet.track_descriptor {
            let uuid = track.uuid.unwrap_or(0);
            let parent = track.parent_uuid.unwrap_or(uuid);
            process_of.insert(uuid, parent);
            let kind = if track.process.is_some() { "process_name" } else { "thread_name" };
            events.push(json!({"ph": "M", "pid": parent, "tid": uuid, "name": kind,
                "args": {"name": track.name}}));
        }
        let Some(event) = packet.track_event else { continue };
        let track = event.track_uuid.unwrap_or(0);
        let pid = process_of.get(&track).copied().unwrap_or(0);
        let ts = packet.timestamp.unwrap_or(0) as f64 / 1000.0;
        let args: serde_json::Map<String, Value> = event
            .debug_annotations
            .into_iter()
            .filter_map(|note| {
                let value = note.string_value.map(Value::from);
                Some((note.name?, value.or(note.uint_value.map(Value::from))?))
            })
            .collect();
        let phase = if event.kind == Some(BEGIN) { "B" } else { "E" };
        events.push(json!({"ph": phase, "pid": pid, "tid": track, "ts": ts, "name": event.name,
            "cat": event.categories.join(","), "args": args}));
        let flows = event.flow_ids.iter().map(|id| ("s", id));
        for (phase, id) in flows.chain(event.terminating_flow_ids.iter().map(|id| ("f", id))) {
            events
                .push(json!({"ph": phase, "bp": "e", "id": id, "pid": pid, "tid": track, "ts": ts,
                "name": "launch", "cat": "flow"}));
        }
    }
    json!({"traceEvents": events, "displayTimeUnit": "ns"}).to_string()
}

fn packets(recording: &Recording, ranges: &[Range]) -> Vec<TracePacket> {
    let mut writer = Writer::default();
    writer.packets.push(TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        sequence_flags: Some(1),
        clock_snapshot: Some(ClockSnapshot {
            clocks: vec![
                Clock { clock_id: Some(MONOTONIC), timestamp: Some(1) },
                Clock { clock_id: Some(6), timestamp: Some(1) },
            ],
            primary_trace_clock: Some(MONOTONIC as i32),
        }),
        ..TracePacket::default()
    });
    let mut records: Vec<&(u32, TracedWork)> = recording.records.iter().collect();
    records.sort_by_key(|(_, record)| (record.start_ns, std::cmp::Reverse(record.end_ns)));
    let names: BTreeMap<(u32, u32, u64), &str> = records
        .iter()
        .filter(|(_, record)| record.kind == Kind::Kernel)
        .map(|(server, record)| ((*server, record.client, record.launch), record.name.as_str()))
        .collect();
    let mut devices = BTreeMap::new();
    let mut clients = BTreeMap::new();
    let mut of_pid = BTreeMap::new();
    for (key, client) in &recording.clients {
        let used = records.iter().any(|(server, record)| (*server, record.client) == *key);
        if !used && !ranges.iter().any(|range| range.pid == client.pid) {
            continue;
        }
        let name = format!("client {} ({})", client.pid, short_command(&client.command));
        let track = writer.process(client.pid, name, &client.command);
        clients.insert(*key, track);
        of_pid.insert(client.pid, track);
    }
    let mut flow = 0;
    for (server, record) in records {
        let key = (*server, record.client);
        let device = recording.clients.get(&key).map(|client| client.device.clone());
        let device = device.unwrap_or_default();
        if record.kind == Kind::OnSm {
            let parent = *devices.entry((*server, device.clone())).or_insert_with(|| {
                writer.process(*server, format!("device {} {}", device.0, device.1), "")
            });
            let name = names.get(&(key.0, key.1, record.launch)).copied().unwrap_or("kernel");
            let track = writer.track(
                parent,
                &format!("SM {:03}", record.sm),
                record.start_ns,
                record.end_ns,
            );
            let pid = recording.clients.get(&key).map_or(0, |client| client.pid);
            writer.slice(
                track,
                Slice {
                    name: short(name),
                    category: category(record.kind),
                    start_ns: record.start_ns,
                    end_ns: record.end_ns,
                    flow_out: None,
                    flow_in: None,
                    notes: vec![number("client", pid.into()), number("launch", record.launch)],
                },
            );
            continue;
        }
        let parent = *clients.entry(key).or_insert_with(|| {
            writer.process(0, format!("client {} of server {server}", record.client), "")
        });
        let mut flow_in = None;
        if record.submitted_ns > 0 {
            flow += 1;
            flow_in = Some(flow);
            let (start_ns, end_ns) = (record.submitted_ns, record.submitted_ns + SUBMISSION_NS);
            let track = writer.track(parent, "submissions", start_ns, end_ns);
            writer.slice(
                track,
                Slice {
                    name: name_of(record),
                    category: "submission",
                    start_ns,
                    end_ns,
                    flow_out: flow_in,
                    flow_in: None,
                    notes: Vec::new(),
                },
            );
        }
        let stream = match record.stream {
            Some(0) => "stream 0 (default)".to_owned(),
            Some(slot) => format!("stream {slot}"),
            None => "within graphs".to_owned(),
        };
        let track = writer.track(parent, &stream, record.start_ns, record.end_ns);
        writer.slice(
            track,
            Slice {
                name: name_of(record),
                category: category(record.kind),
                start_ns: record.start_ns,
                end_ns: record.end_ns,
                flow_out: None,
                flow_in,
                notes: notes_of(record),
            },
        );
    }
    let mut ranges: Vec<&Range> = ranges.iter().collect();
    ranges.sort_by_key(|range| (range.start_ns, std::cmp::Reverse(range.end_ns)));
    for range in ranges {
        let parent = *of_pid
            .entry(range.pid)
            .or_insert_with(|| writer.process(range.pid, format!("program {}", range.pid), ""));
        let thread = range.thread;
        // Those that a thread pushes in a domain lie within each other, so one track has them all.
        let track = match range.domain.as_deref() {
            Some("default") => writer.track(parent, &format!("NVTX thread {thread}"), u64::MAX, 0),
            Some(domain) => {
                writer.track(parent, &format!("NVTX thread {thread}, {domain}"), u64::MAX, 0)
            }
            None => {
                let name = format!("NVTX ranges of thread {thread}");
                writer.track(parent, &name, range.start_ns, range.end_ns)
            }
        };
        writer.slice(
            track,
            Slice {
                name: range.name.clone(),
                category: "nvtx",
                start_ns: range.start_ns,
                end_ns: range.end_ns,
                flow_out: None,
                flow_in: None,
                notes: Vec::new(),
            },
        );
    }
    // Readers sort by time and keep the order of what is at one moment: a slice's end stands before the
    // begin of the next one, as they were written.
    writer.packets
}

fn short_command(command: &str) -> String {
    let first = command.split_whitespace().next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or_default().to_owned()
}
