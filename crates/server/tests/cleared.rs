//! The end of a client whose new memory is being cleared: the session does not wait within the provider. One test,
//! because what the fill writes stays until the process ends.

mod support;

use channel::request::ChunkCreate;
use cuda_api::CUdeviceptr;
use support::*;

#[test]
fn a_client_ends_while_its_new_memory_is_being_cleared() {
    let mut server = Server::start(false);
    server.corrupted = true;
    let mut client = server.connect();
    provider::hold_fills(true);
    let address = CUdeviceptr(client.address(0));
    client.post(&ChunkCreate { device: 0, address, bytes: 2 << 20 });
    wait_until("the fill waits", || provider::waiting_fills() > 0);
    drop(client);
    server.wait_for_clients(0);
    provider::hold_fills(false);
}
