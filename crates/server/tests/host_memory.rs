//! Memory of the machine that a server holds for a client: pinned memory and graphs, within a limit. One test,
//! because the limit is the process'.

mod support;

use channel::request::*;
use cuda_api::CudaError;
use cuda_api::environment::OPENMPS_HOST_MEMORY;
use support::*;

const KIB: u64 = 1 << 10;

#[test]
fn a_client_has_no_more_of_the_machine_s_memory_than_it_may() {
    // SAFETY: this is the process' only test, and no other thread of it reads the environment yet.
    unsafe { std::env::set_var(OPENMPS_HOST_MEMORY, "1M") };
    let mut server = Server::start(true);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.load();
    assert_eq!(client.pin(0, 512 * KIB), Ok(()));
    assert_eq!(client.pin(512 * KIB, 1024 * KIB), Err(CudaError::OUT_OF_MEMORY));
    assert_eq!(other.pin(0, 1024 * KIB), Ok(()), "each client has its own limit");
    let log = server.log();
    assert!(log.contains("is at its host memory limit of 1048576 bytes"), "{log}");
    // Graphs take of it too: so many nodes are more than is left.
    let build = |client: &mut Client, nodes: u32| {
        client.post(&GraphBegin { graph: graph(1) });
        for _ in 0..nodes {
            client.post(&GraphKernel {
                graph: graph(1),
                launch: one_block(function(1), 32, &7u32.to_le_bytes()),
            });
        }
        client.call(&GraphInstantiate { graph: graph(1), replaces: cuda_api::CUgraphExec::NULL })
    };
    assert_eq!(build(&mut client, 4096), Err(CudaError::OUT_OF_MEMORY));
    assert_eq!(build(&mut client, 64), Ok(()), "what the refused one had is given back");
    client.post(&GraphDestroy { graph: graph(1) });
    assert_eq!(client.error(), Ok(()));
    let address = client.welcome.host_window.address;
    assert_eq!(client.call(&HostUnmap { address }), Ok(()));
    wait_until("the pinned memory has gone", || client.pin(0, 1000 * KIB) == Ok(()));
}
