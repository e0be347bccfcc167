//! Tests of the written traces, as their readers see them.

use super::nvtx::Range;
use super::perfetto::PerfettoTrace;
use super::*;
use control::trace::{Kind, TracedWork};
use prost::Message;

fn record(kind: Kind, launch: u64, start_ns: u64, end_ns: u64) -> (u32, TracedWork) {
    let record = TracedWork {
        kind,
        client: 1,
        stream: Some(3),
        launch,
        submitted_ns: start_ns - 50,
        start_ns,
        end_ns,
        grid: [4, 1, 1],
        block: [64, 1, 1],
        name: "_Z9add_arrayPfi".to_owned(),
        ..TracedWork::default()
    };
    (9, record)
}

fn recording() -> Recording {
    let mut recording = Recording::default();
    let client = RecordedClient {
        pid: 77,
        command: "/bin/x --y".to_owned(),
        device: (0, "soft".to_owned()),
    };
    recording.clients.insert((9, 1), client);
    recording.records = vec![
        record(Kind::Kernel, 1, 1000, 2000),
        // It overlaps the first one in its stream.
        record(Kind::Kernel, 2, 1500, 2500),
        record(Kind::CopyIn, 0, 3000, 3000),
        record(Kind::OnSm, 1, 1000, 1800),
    ];
    recording
}

fn range(name: &str, domain: Option<&str>, start_ns: u64, end_ns: u64) -> Range {
    let (name, domain) = (name.to_owned(), domain.map(str::to_owned));
    Range { pid: 77, thread: 5, domain, start_ns, end_ns, name }
}

#[test]
fn ranges_that_cross_have_tracks_of_their_own() {
    let ranges = [
        range("a", None, 0, 10),
        range("b", None, 5, 15),
        range("c", None, 20, 30),
        range("outer", Some("x"), 0, 10),
        range("inner", Some("x"), 2, 8),
        range("other", Some("y"), 5, 15),
    ];
    let trace =
        PerfettoTrace::decode(&perfetto(&recording(), &ranges)[..]).expect("Perfetto's messages");
    let track_of = |name: &str| {
        let events = trace.packet.iter().filter_map(|packet| packet.track_event.as_ref());
        let mut found = events.filter(|event| event.name.as_deref() == Some(name));
        found.next().and_then(|event| event.track_uuid).expect("its track")
    };
    assert_ne!(track_of("a"), track_of("b"));
    assert_eq!(track_of("a"), track_of("c"));
    assert_eq!(track_of("outer"), track_of("inner"));
    assert_ne!(track_of("outer"), track_of("other"));
}

#[test]
fn a_trace_has_tracks_slices_and_arrows() {
    let range = range("step", Some("default"), 900, 2600);
    let bytes = perfetto(&recording(), &[range]);
    let trace = PerfettoTrace::decode(&bytes[..]).expect("Perfetto's messages");
    let tracks: Vec<_> =
        trace.packet.iter().filter_map(|packet| packet.track_descriptor.clone()).collect();
    let named = |name: &str| tracks.iter().filter(|t| t.name.as_deref() == Some(name)).count();
    assert_eq!((named("client 77 (x)"), named("device 0 soft"), named("SM 000")), (1, 1, 1));
    assert_eq!((named("stream 3"), named("NVTX thread 5")), (2, 1), "what overlaps has two");
    let events: Vec<_> =
        trace.packet.iter().filter_map(|packet| packet.track_event.clone()).collect();
    let slices = |name: &str, category: &str| {
        let is = |e: &&super::perfetto::TrackEvent| {
            e.name.as_deref() == Some(name) && e.categories.iter().any(|c| c == category)
        };
        events.iter().filter(is).count()
    };
    assert_eq!((slices("add_array", "kernel"), slices("add_array", "sm")), (2, 1));
    assert_eq!((slices("copy to device", "copy"), slices("step", "nvtx")), (1, 1));
    let arrows = |of: fn(&super::perfetto::TrackEvent) -> &Vec<u64>| {
        let mut ids: Vec<u64> = events.iter().flat_map(|e| of(e).clone()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(arrows(|e| &e.flow_ids), [1, 2, 3]);
    assert_eq!(arrows(|e| &e.terminating_flow_ids), [1, 2, 3]);
}

#[test]
fn chrome_gets_the_same_slices() {
    let text = chrome(&recording(), &[]);
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let events = value["traceEvents"].as_array().expect("events");
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!((count("B"), count("E"), count("s"), count("f")), (7, 7, 3, 3));
}
