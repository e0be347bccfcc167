//! A server that ends, or breaks, is an error code and nothing else.

use super::{attach, watched};
use crate::stream::table::{LEGACY, Stream};
use channel::region::ServerState;
use channel::request::MemoryInfo;
use cuda_api::CudaError;
use std::sync::atomic::Ordering;

const GONE: Result<(), CudaError> = Err(CudaError::MPS_RPC_FAILURE);

#[test]
fn waits_and_calls_end_when_the_server_does() {
    watched(|| {
        let (client, server) = attach();
        server.held.store(true, Ordering::Release);
        client.state().streams.issue(LEGACY.index);
        std::thread::scope(|scope| {
            let wait = scope.spawn(|| client.synchronize(LEGACY));
            let call = scope.spawn(|| client.call(&MemoryInfo { device: 0 }).map(|_| ()));
            // Its socket closes, as when its process ends.
            server.killed.store(true, Ordering::Release);
            assert_eq!((wait.join().unwrap(), call.join().unwrap()), (GONE, GONE));
        });
        assert_eq!(client.health(), GONE);
        assert_eq!(client.call(&MemoryInfo { device: 0 }).map(|_| ()), GONE);
    });
}

#[test]
fn a_wait_for_a_descriptor_ends_with_the_server() {
    watched(|| {
        let (client, server) = attach();
        std::thread::scope(|scope| {
            // It is answered, and no file comes.
            let call = scope.spawn(|| client.call_for_file(&MemoryInfo { device: 0 }).map(|_| ()));
            server.killed.store(true, Ordering::Release);
            assert_eq!(call.join().unwrap(), GONE);
        });
        assert_eq!(client.health(), GONE);
    });
}

#[test]
fn the_reason_that_a_server_leaves_is_what_calls_answer() {
    watched(|| {
        let (client, server) = attach();
        server.held.store(true, Ordering::Release);
        client.state().streams.issue(LEGACY.index);
        server.region.set_sticky_error(CudaError::MPS_CLIENT_TERMINATED);
        server.region.set_server_state(ServerState::Ended);
        let terminated = Err(CudaError::MPS_CLIENT_TERMINATED);
        assert_eq!(client.synchronize(LEGACY), terminated);
        assert_eq!(client.allocate(1, 100, cuda_api::CUmemoryPool::NULL).map(|_| ()), terminated);
    });
}

#[test]
fn a_full_ring_without_a_server_is_an_error() {
    watched(|| {
        let (client, server) = attach();
        let stream = Stream {
            context: 1,
            green: 0,
            default: crate::stream::table::OwnDefault::Legacy,
            flags: 1,
            priority: 0,
        };
        server.killed.store(true, Ordering::Release);
        let mut last = Ok(());
        // Far more than the ring holds.
        for _ in 0..200_000 {
            last = client.posting().and_then(|mut posting| {
                posting.push_words(cuda_api::number::cuMemsetD8Async, &[0, 0, 0, 0])
            });
            if last.is_err() {
                break;
            }
        }
        assert_eq!(last, GONE);
        assert_eq!(client.create_stream(stream).map(|_| ()), GONE);
    });
}
