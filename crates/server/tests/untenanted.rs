//! A fault where the provider has no tenants, as on hardware: everybody's. One test, because the
//! provider of the process is of no use afterwards.

mod support;

use cuda_api::CudaError;
use server::Exit;
use support::*;

#[test]
fn a_fault_of_one_is_the_end_of_all() {
    let mut server = Server::start(false);
    server.spoiled = true;
    let (mut client, mut other) = (server.connect(), server.connect());
    assert_eq!(client.welcome.flags, 0);
    client.load();
    other.load();
    client.launch("fault", LEGACY, &[]);
    wait_until("the fault", || client.region.sticky_error().is_err());
    wait_until("the neighbour's fault", || other.region.sticky_error().is_err());
    let illegal = CudaError::ILLEGAL_ADDRESS;
    assert_eq!(other.region.sticky_error(), Err(illegal));
    assert_eq!(other.chunk(0, 2 << 20).err(), Some(illegal));
    let fault = channel::message::Message::Fault(illegal.to_string());
    assert_eq!(server.receive(), fault, "the daemon sends nobody here any more");
    let refused = Client::welcome(server.introduce()).err().expect("no new clients");
    assert_eq!(refused.0, CudaError::MPS_SERVER_NOT_READY.code());
    assert!(refused.1.contains("fault, CUDA_ERROR_ILLEGAL_ADDRESS"), "{}", refused.1);
    drop(client);
    drop(other);
    assert_eq!(server.wait(), Exit::Fault);
    let log = server.log();
    assert_eq!(log.matches("Server is handling a fatal GPU error.").count(), 1, "{log}");
    assert_eq!(log.matches("under way were its kernels fault").count(), 1, "{log}");
    assert_eq!(log.matches("none of its kernels was under way").count(), 1, "{log}");
}
