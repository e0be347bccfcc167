//! Edge data of graphs: what a client says of when its kernels may begin reaches the provider.

mod support;

use channel::message::{Question, Schedule};
use channel::request::*;
use cuda_api::constants::graph_edge::PORT_LAUNCH_ORDER;
use cuda_api::{CUgraphEdgeData, CUgraphExec, CUresult, CudaError};
use server::device::Driver;
use support::provider::{EarlyEdges, GivenEdge};
use support::*;

const FULL: CUgraphEdgeData =
    CUgraphEdgeData { from_port: 0, to_port: 0, kind: 0, reserved: [0; 5] };
const EARLY: CUgraphEdgeData = CUgraphEdgeData::PROGRAMMATIC;
/// Kernels that begin when the blocks of the one before have begun.
const BEGUN: CUgraphEdgeData = CUgraphEdgeData { from_port: PORT_LAUNCH_ORDER, ..EARLY };
const GATE: u32 = 1_300_900;

fn server() -> Server {
    Server::start_on(Driver { table: provider::table(), extension: None })
}

fn note(number: &[u8]) -> LaunchKernel<'_> {
    LaunchKernel { flags: LAUNCH_PROGRAMMATIC, ..one_block(function(1), 32, number) }
}

/// A graph of kernels in a row, which note `first` and so on, with such edges.
fn chain(client: &mut Client, place: u32, first: u32, edges: &[CUgraphEdgeData]) -> CUresult {
    let graph = graph(place);
    client.post(&GraphBegin { graph });
    for at in 0..=edges.len() as u32 {
        let number = (first + at).to_le_bytes();
        client.post(&GraphKernel { graph, launch: note(&number) });
    }
    for (from, data) in (0..).zip(edges) {
        let from_word = GraphEdges::word(from, *data);
        client.post(&GraphEdges { graph, node: from + 1, from: &[from_word] });
    }
    client.call(&GraphInstantiate { graph, replaces: CUgraphExec::NULL })
}

fn run(client: &mut Client, place: u32) {
    client.post(&GraphLaunch { graph: graph(place), stream: LEGACY });
    client.synchronize(LEGACY);
    assert_eq!(client.error(), Ok(()));
}

fn notes_of(range: std::ops::Range<u32>) -> Vec<u32> {
    provider::notes(|number| range.contains(&number))
}

fn in_a_row(data: &[CUgraphEdgeData]) -> Vec<GivenEdge> {
    data.iter().enumerate().map(|(from, data)| (from, from + 1, *data)).collect()
}

#[test]
fn the_provider_knows_when_a_kernel_may_begin() {
    let mut server = server();
    let mut client = server.connect();
    client.load();
    let edges = [FULL, EARLY, BEGUN];
    assert_eq!(chain(&mut client, 0, 1_000_000, &edges), Ok(()));
    let mut given = provider::edges_of_graphs().pop().expect("a graph");
    given.sort_by_key(|(from, ..)| *from);
    assert_eq!(given, in_a_row(&edges));
    run(&mut client, 0);
    assert_eq!(notes_of(1_000_000..1_000_004), [1_000_000, 1_000_001, 1_000_002, 1_000_003]);
}

#[test]
fn where_the_provider_cannot_have_it_kernels_wait_for_each_others_ends() {
    let mut server = server();
    let mut client = server.connect();
    client.load();
    for (place, when) in [(0, EarlyEdges::Unknown), (1, EarlyEdges::NotInstantiated)] {
        provider::take_early_edges(when);
        let first = 1_100_000 + 10 * place;
        let made = chain(&mut client, place, first, &[EARLY, FULL]);
        provider::take_early_edges(EarlyEdges::Taken);
        assert_eq!(made, Ok(()));
        let mut given = provider::edges_of_graphs().pop().expect("a graph");
        given.sort_by_key(|(from, ..)| *from);
        assert_eq!(given, in_a_row(&[FULL, FULL]));
        run(&mut client, place);
        assert_eq!(notes_of(first..first + 3), [first, first + 1, first + 2]);
    }
}

#[test]
fn what_no_edge_can_say_is_refused() {
    let mut server = server();
    let mut client = server.connect();
    client.load();
    let graph = graph(0);
    let mut refused = |from: u32, word: u64, what: &str| {
        client.post(&GraphBegin { graph });
        let number = 1_200_000u32.to_le_bytes();
        client.post(&GraphKernel { graph, launch: note(&number) });
        client.post(&GraphKernel { graph, launch: note(&number) });
        client.post(&GraphEdges { graph, node: from, from: &[word] });
        let answer = client.call(&GraphInstantiate { graph, replaces: CUgraphExec::NULL });
        assert_eq!(answer, Err(CudaError::INVALID_VALUE), "{what}");
        assert_eq!(client.error(), Ok(()), "{what}");
    };
    let word = GraphEdges::word(0, EARLY);
    refused(1, word | 3 << 32, "a port that no kernel has");
    refused(1, word | 2 << 40, "an unknown type");
    refused(1, word & !(0xff << 32), "a programmatic edge from a kernel's end");
    refused(1, word & !(0xff << 40), "a full edge from where blocks allow it");
    refused(1, word | 1 << 48, "other bits");
    refused(1, word | 1 << 63, "other bits");
    refused(1, GraphEdges::word(7, EARLY), "an edge from no node");
    refused(9, word, "an edge to no node");
    assert_eq!(chain(&mut client, 0, 1_200_000, &[EARLY]), Ok(()));
}

#[test]
fn pieces_of_a_batch_clients_graph_keep_what_their_edges_say() {
    let mut server = server();
    let settings = "in-flight=100us pause=off".to_owned();
    server.ask(9, Question::Schedule(Schedule { client: 0, settings }));
    assert_eq!(server.receive(), done(9, 0));
    server.scheduling = "class=batch".to_owned();
    let mut client = server.connect();
    client.load();
    server.scheduling = "class=latency".to_owned();
    let mut critical = server.connect();
    critical.load();
    critical.launch("hold", LEGACY, &GATE.to_le_bytes());
    critical.settle();
    // A kernel of which nothing is known counts as 20 us: two are a piece.
    assert_eq!(chain(&mut client, 0, 1_300_000, &[EARLY, EARLY, FULL, EARLY]), Ok(()));
    // It is cut when it is launched, beside latency-critical work.
    run(&mut client, 0);
    let pieces = provider::edges_of_graphs().split_off(1);
    assert_eq!(pieces, [in_a_row(&[EARLY]), in_a_row(&[FULL]), vec![]]);
    assert_eq!(notes_of(1_300_000..1_300_005), (1_300_000..1_300_005).collect::<Vec<_>>());
    provider::open_gate(GATE);
}

#[test]
fn a_launch_outside_of_graphs_may_begin_early_too() {
    let mut server = server();
    let mut client = server.connect();
    client.load();
    let before = provider::early_launches();
    let number = 1_400_000u32.to_le_bytes();
    client.post(&note(&number));
    client.post(&LaunchKernel { flags: 0, ..note(&number) });
    client.synchronize(LEGACY);
    assert_eq!(provider::early_launches() - before, 1);
    assert_eq!(notes_of(1_400_000..1_400_001), [1_400_000; 2]);
}
