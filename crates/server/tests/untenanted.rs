//! A fault where the provider has no tenants, as on hardware: the server is lost, one client gets the
//! error, and the others are told to go on elsewhere. One test, because the provider of the process
//! is of no use afterwards.

mod support;

use channel::message::Message;
use channel::region::{ServerState, SessionEnd};
use cuda_api::CudaError;
use server::Exit;
use support::*;

#[test]
fn the_fault_of_one_is_its_own_and_the_others_go_on_elsewhere() {
    let mut server = Server::start(false);
    server.spoiled = true;
    let (mut client, mut other) = (server.connect(), server.connect());
    assert_eq!(client.welcome.flags, 0);
    client.load();
    other.load();
    client.launch("fault", LEGACY, &[]);
    wait_until("the fault", || client.region.server_state() == ServerState::Ended);
    wait_until("the neighbour's move", || other.region.server_state() == ServerState::Ended);
    let illegal = CudaError::ILLEGAL_ADDRESS;
    assert_eq!(client.region.sticky_error(), Err(illegal));
    assert_eq!(client.region.session_end(), None);
    assert_eq!(other.region.sticky_error(), Ok(()), "it has done nothing wrong");
    assert_eq!(other.region.session_end(), Some(SessionEnd::Moved));
    assert_eq!(server.receive(), Message::Fault(illegal.to_string()));
    assert_eq!(server.wait(), Exit::Fault, "it waits for no client");
    let log = server.log();
    assert_eq!(log.matches("Server is handling a fatal GPU error.").count(), 1, "{log}");
    assert_eq!(
        log.matches("its kernels fault, the rarest launched 0 times before; it gets the error")
            .count(),
        1,
        "{log}"
    );
    let innocent = "none of its kernels was under way; goes on at another server";
    assert_eq!(log.matches(innocent).count(), 1, "{log}");
}
