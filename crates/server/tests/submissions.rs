//! Calls that submit work are timed where the driver takes one at a time, and nowhere else.

mod support;

use channel::message::Question;
use cuda_api::settings::Counting;
use support::*;

const LAUNCHES: u64 = 3000;
/// Calls of a launch: the launch itself; marks of the gate and samples that are timed have some more.
const CALLS_MAX: u64 = 3;

/// Launches kernels and waits for them; the calls that were counted, and their time, ns.
fn submitted(server: &Server, client: &mut Client) -> (u64, u64) {
    let before = server.status().clients[0].counts;
    for number in 0..LAUNCHES {
        client.launch("note", LEGACY, &(number as u32).to_le_bytes());
        if number % 50 == 0 {
            client.synchronize(LEGACY);
        }
    }
    client.synchronize(LEGACY);
    // Counters are reported when a session looks at its work, at the latest when it has none.
    wait_until("nothing is in flight", || server.status().clients[0].counts.in_flight == 0);
    let now = server.status().clients[0].counts;
    (now.submissions - before.submissions, now.submitting_ns - before.submitting_ns)
}

#[test]
fn submissions_are_timed_where_a_driver_takes_one_at_a_time() {
    let mut server = Server::start(false);
    let mut client = server.connect();
    client.load();
    let (calls, together_ns) = submitted(&server, &mut client);
    assert!((LAUNCHES / 4..=CALLS_MAX * LAUNCHES).contains(&calls), "{calls}");
    assert!(together_ns > 0);
    assert_eq!(server.status().clients[0].counts.uncounted, 0);
    server.ask(7, Question::Counters(Counting::Off));
    assert_eq!(server.receive(), done(7, 0));
    // Those before it are known now; none is added.
    submitted(&server, &mut client);
    assert_eq!(submitted(&server, &mut client), (0, 0));
    // That stays so when they are counted again: some were not.
    server.ask(8, Question::Counters(Counting::Sampled));
    assert_eq!(server.receive(), done(8, 0));
    submitted(&server, &mut client);
    assert_eq!(server.status().clients[0].counts.uncounted, 1);
}

#[test]
fn no_submission_is_timed_where_tenants_do_not_wait_for_each_other() {
    let mut server = Server::start(true);
    let mut client = server.connect();
    client.load();
    assert_eq!(submitted(&server, &mut client), (0, 0));
}
