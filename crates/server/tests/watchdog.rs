//! The watchdog believes what the provider says, and nothing that a client writes: one test, because its
//! limit is the process'.

mod support;

use channel::message::Message;
use cuda_api::environment::OPENMPS_KERNEL_TIMEOUT_S;
use support::*;

#[test]
fn one_that_says_that_its_kernel_is_done_has_no_other_one_ended_for_it() {
    // SAFETY: this is the process' only test, and no other thread of it reads the environment yet.
    unsafe { std::env::set_var(OPENMPS_KERNEL_TIMEOUT_S, "1") };
    let mut server = Server::start(false);
    server.corrupted = true;
    let (mut liar, mut other) = (server.connect(), server.connect());
    for client in [&mut liar, &mut other] {
        client.load();
    }
    liar.launch("hold", LEGACY, &9301u32.to_le_bytes());
    let value = liar.fence(LEGACY);
    liar.region.completion_word(0).expect("a slot").store(value);
    liar.settle();
    other.launch("hold", LEGACY, &9302u32.to_le_bytes());
    other.settle();
    let mut candidates = Vec::new();
    while candidates.len() < 2 {
        if let Message::Candidate(pid) = server.daemon.receive().expect("the server says so").0 {
            candidates.push(pid);
        }
    }
    candidates.sort_unstable();
    assert_eq!(candidates, [liar.pid, other.pid], "{}", server.log());
    assert_eq!(other.region.sticky_error(), Ok(()), "{}", server.log());
    for gate in [9301, 9302] {
        provider::open_gate(gate);
    }
}
