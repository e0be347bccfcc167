//! Candidates of a fault where the provider has no tenants: those whose code has run often go on among the others.
//! One test, because the provider of the process is of no use afterwards.

mod support;

use channel::message::Message;
use channel::message::Question;
use channel::region::{Region, ServerState, SessionEnd};
use channel::request::{GraphBegin, GraphInstantiate, GraphKernel, GraphLaunch};
use cuda_api::{CUgraphExec, CudaError};
use server::Exit;
use support::client::KERNELS;
use support::provider::open_gate;
use support::*;

const OPEN: u32 = 9101;
const CLOSED: u32 = 9102;
const RUNS: u32 = 200;

/// A graph of one kernel that runs until its gate is open.
fn add_graph(client: &mut Client, place: u32, gate: u32) -> CUgraphExec {
    let (graph, parameters) = (graph(place), gate.to_le_bytes());
    let hold = KERNELS.iter().position(|name| *name == "hold").expect("a kernel");
    let launch = one_block(function(hold as u32), 32, &parameters);
    client.post(&GraphBegin { graph });
    client.post(&GraphKernel { graph, launch });
    assert_eq!(client.call(&GraphInstantiate { graph, replaces: CUgraphExec::NULL }), Ok(()));
    graph
}

#[test]
fn code_that_has_run_often_is_unlikely_beside_new_code_and_graphs_count_as_code() {
    let mut server = Server::start(false);
    server.corrupted = true;
    open_gate(OPEN);
    let [mut worn, mut fresh, mut culprit] = [0; 3].map(|_| server.connect());
    for client in [&mut worn, &mut fresh, &mut culprit] {
        client.load();
    }
    // Its kernel has been launched often; so has a graph, and a new one has not.
    for _ in 0..RUNS {
        worn.launch("hold", LEGACY, &OPEN.to_le_bytes());
        worn.synchronize(LEGACY);
    }
    worn.launch("hold", LEGACY, &CLOSED.to_le_bytes());
    let often = add_graph(&mut fresh, 0, OPEN);
    let new = add_graph(&mut fresh, 1, CLOSED);
    for _ in 0..RUNS {
        fresh.post(&GraphLaunch { graph: often, stream: LEGACY });
    }
    fresh.synchronize(LEGACY);
    fresh.post(&GraphLaunch { graph: new, stream: LEGACY });
    worn.settle();
    fresh.settle();
    culprit.launch("fault", LEGACY, &[]);
    for client in [&worn, &fresh, &culprit] {
        wait_until("the client's move", || client.region.server_state() == ServerState::Ended);
        assert_eq!(client.region.sticky_error(), Ok(()), "none is known to have done it");
        assert_eq!(client.region.session_end(), Some(SessionEnd::Moved));
    }
    assert_eq!(server.receive(), Message::Fault(CudaError::ILLEGAL_ADDRESS.to_string()));
    let notified = [server.receive(), server.receive()];
    assert_eq!(notified, [&fresh, &culprit].map(|client| Message::Candidate(client.pid)));
    // It stays until the others have gone on, and takes no client.
    let region = Region::create().expect("a region").1;
    server.hand_over(region);
    let late = server.receive();
    assert!(matches!(late, Message::ClientGone(_)), "{late:?}");
    let faults = server.faults.take();
    let parts: Vec<_> = faults.iter().map(|fault| (fault.pid, fault.is_faulting)).collect();
    assert_eq!(parts, [(fresh.pid, false), (culprit.pid, false)]);
    assert!(faults[1].why.contains("its kernels fault, the rarest launched 0 times"), "{faults:?}");
    server.ask(7, Question::Status);
    assert!(matches!(server.receive(), Message::Answer(_)), "it lives");
    assert_eq!(server.wait(), Exit::Fault);
    let log = server.log();
    for said in [
        &*format!(
            "its kernels hold, the rarest launched {RUNS} times before; goes on at another server: others"
        ),
        "its kernels a graph of 1 kernels, the rarest launched 0 times before; goes on at a server of its own",
        "its kernels fault, the rarest launched 0 times before; goes on at a server of its own",
    ] {
        assert_eq!(log.matches(said).count(), 1, "{said}: {log}");
    }
}
