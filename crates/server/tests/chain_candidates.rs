//! Candidates of a fault whose launches went as graphs: each of their kernels counts as it was launched.
//! One test, because the provider of the process is of no use afterwards.

mod support;

use channel::message::Message;
use channel::region::ServerState;
use channel::request::LaunchKernel;
use cuda_api::CudaError;
use server::Exit;
use server::device::Driver;
use support::provider::{graph_launches, open_gate};
use support::*;

const OPEN: u32 = 9201;
const OPENED: u32 = 9202;
const CLOSED: u32 = 9203;
/// Launches of a step, of which the first is of a kernel that is launched once a step.
const STEP: u32 = 30;
const STEPS: u32 = 60;

/// A step: `add` once, then `note` again and again, in shapes that differ.
fn step(client: &mut Client, number: u32) {
    for at in 0..STEP {
        let note = (number * STEP + at).to_le_bytes();
        client.post(&LaunchKernel {
            grid: [1 + at % 5, 1 + at % 3, 1],
            ..one_block(function(u32::from(at > 0)), 32, if at > 0 { &note } else { &[0; 16] })
        });
    }
}

#[test]
fn kernels_of_graphs_made_of_launches_count_one_by_one() {
    let driver = Driver { table: provider::table(), extension: None };
    let mut server = Server::start_batched(driver);
    server.corrupted = true;
    open_gate(OPEN);
    let [mut chained, mut culprit] = [0; 2].map(|_| server.connect());
    chained.load();
    culprit.load();
    for _ in 0..10 * STEPS {
        chained.launch("hold", LEGACY, &OPEN.to_le_bytes());
    }
    let (before, _) = graph_launches();
    // Launches wait in the ring, so that they go together.
    chained.launch("hold", LEGACY, &OPENED.to_le_bytes());
    (0..STEPS).for_each(|number| step(&mut chained, number));
    open_gate(OPENED);
    chained.synchronize(LEGACY);
    chained.launch("hold", LEGACY, &CLOSED.to_le_bytes());
    (STEPS..STEPS + 3).for_each(|number| step(&mut chained, number));
    chained.settle();
    let (after, _) = graph_launches();
    assert!(after > before + u64::from(STEPS) / 4, "{} graphs", after - before);
    culprit.launch("fault", LEGACY, &[]);
    for client in [&chained, &culprit] {
        wait_until("the client's move", || client.region.server_state() == ServerState::Ended);
    }
    assert_eq!(server.receive(), Message::Fault(CudaError::ILLEGAL_ADDRESS.to_string()));
    assert_eq!(server.receive(), Message::Candidate(culprit.pid));
    assert_eq!(server.wait(), Exit::Fault);
    let said = format!("the rarest launched {STEPS} times before; goes on at another server");
    assert_eq!(server.log().matches(&said).count(), 1, "{said}: {}", server.log());
}
