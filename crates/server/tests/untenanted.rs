//! A fault where the provider has no tenants, as on hardware: the server is lost, one client gets the
//! error, and the others are asked to go on elsewhere. One test, because the provider of the process
//! is of no use afterwards.

mod support;

use channel::message::{Message, WELCOME_TAKES_UNMARKED};
use channel::region::{ServerState, SessionEnd};
use channel::request::{GetFunction, NO_CODE, PLACES_VARIABLES};
use cuda_api::CudaError;
use server::Exit;
use support::*;

/// A client of another server says by what servers find its code: where it is loaded, no image is read.
fn known_code_is_taken_without_its_image(client: &mut Client) {
    let (result, loaded) = client.load_image(module(1), b".version 8.0");
    assert_eq!(result, Ok(()));
    assert_ne!(loaded.code, NO_CODE, "nothing in it can change");
    let (result, again) = client.load_known(module(2), loaded.code, b"garbage");
    assert_eq!((result, again.code), (Ok(()), loaded.code));
    let found = GetFunction { function: function(20), module: module(2), name: b"add" };
    assert_eq!(client.call(&found), Ok(()));
    // With a place for variables, and under another key, the image is read.
    let places = client.load_with(module(3), PLACES_VARIABLES, loaded.code, b"garbage");
    assert_eq!(places.0, Err(CudaError::INVALID_PTX));
    let other = [1, 2, 3, 4];
    assert_eq!(client.load_known(module(3), other, b"garbage").0, Err(CudaError::INVALID_PTX));
    let (result, read) = client.load_known(module(3), other, b".version 8.0");
    assert_eq!((result, read.code), (Ok(()), loaded.code));
    assert_eq!(client.load_known(module(3), loaded.code, b"").0, Err(CudaError::INVALID_HANDLE));
}

#[test]
fn the_fault_of_one_is_its_own_and_the_others_go_on_elsewhere() {
    let mut server = Server::start(false);
    server.corrupted = true;
    let (mut client, mut other) = (server.connect(), server.connect());
    assert_eq!(client.welcome.flags, WELCOME_TAKES_UNMARKED, "no tenants, no notes");
    client.load();
    other.load();
    known_code_is_taken_without_its_image(&mut other);
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
    let unaffected = "none of its kernels was in flight; goes on at another server";
    assert_eq!(log.matches(unaffected).count(), 1, "{log}");
}
