//! Records that cannot go yet hold up their own stream and what CUDA orders behind them, and nothing else.

mod support;

use channel::request::*;
use cuda_api::CUstream;
use cuda_api::number::*;
use support::*;

/// More launches than a stream has room for at the provider.
const MANY: u32 = 3 * server::session::OPERATIONS_OF_STREAM_MAX;

fn note(client: &mut Client, stream: CUstream, number: u32) {
    client.launch("note", stream, &number.to_le_bytes());
}

/// A stream that stands behind a gate, with more launches than there is room for, of that number.
fn stand_still(client: &mut Client, stream: CUstream, gate: u32, number: u32) {
    client.launch("hold", stream, &gate.to_le_bytes());
    (0..MANY).for_each(|_| note(client, stream, number));
}

fn make(client: &mut Client, slot: u32, flags: u32) -> CUstream {
    client.post(&CreateStream { stream: stream(slot), flags, priority: 0 });
    stream(slot)
}

#[test]
fn streams_far_ahead_behind_gates_hold_up_no_other_one() {
    for (tenants, gate) in [(true, 8001), (false, 8002)] {
        let (many, one) = (10 * gate, 10 * gate + 1);
        let mut server = Server::start(tenants);
        let mut client = server.connect();
        client.load();
        let far: Vec<CUstream> = (1..=8).map(|slot| make(&mut client, slot, 1)).collect();
        far.iter().for_each(|far| stand_still(&mut client, *far, gate, many));
        let free = make(&mut client, 9, 1);
        note(&mut client, free, one);
        client.synchronize(free);
        assert_eq!(provider::notes(|n| n == one), [one]);
        // Neither is the client's question held up.
        assert_eq!(client.call(&MemoryInfo { device: 0 }), Ok(()));
        provider::open_gate(gate);
        far.iter().for_each(|far| client.synchronize(*far));
        let all = provider::notes(|n| n == many).len();
        assert_eq!(all as u32, 8 * MANY);
        assert_eq!(client.error(), Ok(()));
    }
}

#[test]
fn what_cuda_orders_behind_pending_work_waits_for_it() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    let (far, blocking) = (make(&mut client, 1, 0), make(&mut client, 2, 0));
    let (free, behind) = (make(&mut client, 3, 1), make(&mut client, 4, 1));
    let done = event(1);
    client.post(&CreateEvent { event: done, flags: 0 });
    stand_still(&mut client, far, 8101, 81_010);
    // The record of the event is one of those that wait, and the event goes while it does.
    client.record(done, far);
    client.post(&WaitEvent { stream: behind, event: done });
    client.post(&DestroyEvent { event: done });
    let next = event(2);
    client.post(&CreateEvent { event: next, flags: 0 });
    client.record(next, free);
    note(&mut client, behind, 81_011);
    note(&mut client, LEGACY, 81_012);
    note(&mut client, blocking, 81_013);
    note(&mut client, free, 81_014);
    client.synchronize(free);
    client.settle();
    let others = |n: u32| (81_011..=81_014).contains(&n);
    assert_eq!(provider::notes(others), [81_014]);
    provider::open_gate(8101);
    client.synchronize(blocking);
    client.synchronize(behind);
    assert_eq!(client.error(), Ok(()));
    let all = provider::notes(|n| (81_010..=81_014).contains(&n));
    let place = |number: u32| all.iter().position(|n| *n == number);
    let last_far = all.iter().rposition(|n| *n == 81_010);
    assert_eq!(all.iter().filter(|n| **n == 81_010).count() as u32, MANY);
    assert!(last_far < place(81_011) && last_far < place(81_012), "{last_far:?}");
    assert!(place(81_012) < place(81_013));
}

#[test]
fn a_value_that_is_written_later_is_waited_for_by_copies_too() {
    let mut server = Server::start(false);
    let mut client = server.connect();
    client.chunk(0, 2 << 20).unwrap();
    let (far, other) = (make(&mut client, 1, 1), make(&mut client, 2, 1));
    let flag = client.address(0);
    let word = |stream: CUstream| stream.0 as u64;
    client.post_row(cuStreamWaitValue32_v2, &[word(far), flag, 1, 1]);
    for _ in 0..MANY {
        let (to, from) = (client.address(64), client.address(128));
        client.post_row(cuMemcpyDtoDAsync_v2, &[to, from, 4, word(far)]);
    }
    client.post_row(cuStreamWriteValue32_v2, &[word(other), flag, 1, 0]);
    client.synchronize(other);
    client.synchronize(far);
    assert_eq!(client.error(), Ok(()));
}

#[test]
fn a_stream_and_its_end_and_a_reset_wait_for_what_is_pending() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    let far = make(&mut client, 1, 0);
    stand_still(&mut client, far, 8301, 83_010);
    client.post(&DestroyStream { stream: far });
    note(&mut client, LEGACY, 83_011);
    client.settle();
    assert!(provider::notes(|n| n == 83_011).is_empty());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            provider::open_gate(8301);
        });
        assert_eq!(client.call(&WaitIdle {}), Ok(()));
    });
    assert_eq!(provider::notes(|n| n == 83_010).len() as u32, MANY);
    assert_eq!(provider::notes(|n| n == 83_011), [83_011]);
    assert_eq!(client.error(), Ok(()));
}
