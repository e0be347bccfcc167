//! Waits that sleep: the server is asked to wake a thread only where the device does not do that.

use super::{attach_to, server, watched};
use crate::stream::table::LEGACY;
use channel::message::{WELCOME_HAS_TENANTS, Welcome};
use cuda_api::{CUmemoryPool, number};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a server with these flags is asked to wake a thread that waits longer than it stays awake.
fn asked(flags: u32) -> u32 {
    let (client, server) = attach_to(Welcome { flags, ..server::welcome() });
    let context = client.contexts().retain(0).unwrap();
    client.contexts().set_current(context).unwrap();
    let device = client.allocate(1, 64, CUmemoryPool::NULL).unwrap();
    server.held.store(true, Ordering::Release);
    let mut posting = client.posting().unwrap();
    let copy = [device + 32, device, 32, LEGACY.to_word()];
    posting.push_words_in(LEGACY, number::cuMemcpyDtoDAsync_v2, &copy).unwrap();
    drop(posting);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(250));
            server.held.store(false, Ordering::Release);
        });
        client.synchronize_all().unwrap();
    });
    // What was asked is popped before this is answered.
    client.call(&channel::request::MemoryInfo { device: 0 }).unwrap();
    server.asked.load(Ordering::Relaxed)
}

#[test]
fn a_device_that_wakes_threads_itself_is_not_asked_to() {
    watched(|| {
        assert_eq!(asked(0), 1);
        assert_eq!(asked(WELCOME_HAS_TENANTS), 0);
    });
}
