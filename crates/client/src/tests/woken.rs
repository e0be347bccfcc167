//! Waits that sleep: the server is asked to wake a thread only where the device does not do that.

use super::{attach_to, server, watched};
use crate::program::launch::submission::{Event, wire_event};
use crate::stream::table::LEGACY;
use channel::message::{WELCOME_HAS_TENANTS, WELCOME_TAKES_UNMARKED, Welcome};
use cuda_api::constants::event_flags;

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
    // All earlier requests are popped before this is answered.
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

#[test]
fn no_word_is_written_behind_an_event_until_a_thread_asks_about_it() {
    watched(|| {
        let flags = WELCOME_TAKES_UNMARKED;
        let (client, server) = attach_to(Welcome { flags, ..server::welcome() });
        let context = client.contexts().retain(0).unwrap();
        client.contexts().set_current(context).unwrap();
        let device = client.allocate(1, 64, CUmemoryPool::NULL).unwrap();
        let event =
            |flags| wire_event(client.create_event(Event::new(context.0 as u64, flags)).unwrap());
        // All earlier requests are popped before this is answered.
        let word = || {
            client.call(&channel::request::MemoryInfo { device: 0 }).unwrap();
            server.region.completion_word(LEGACY.index).unwrap().load()
        };
        let copy = || {
            let words = [device + 32, device, 32, LEGACY.to_word()];
            let mut posting = client.posting().unwrap();
            posting.push_words_in(LEGACY, number::cuMemcpyDtoDAsync_v2, &words).unwrap().value
        };
        let untimed = event(event_flags::DISABLE_TIMING);
        let before = word();
        client.record_event(untimed, LEGACY).unwrap();
        assert_eq!(word(), before);
        // Nothing is behind it: a fence there says it, and later records of it have words at once.
        assert!(!client.is_event_done(untimed).unwrap());
        while !client.is_event_done(untimed).unwrap() {}
        let after = word();
        client.record_event(untimed, LEGACY).unwrap();
        assert_eq!(word(), after + 1);
        // Of one with work behind it the server is asked: the word would come behind that work.
        let other = event(event_flags::DISABLE_TIMING);
        client.record_event(other, LEGACY).unwrap();
        copy();
        server.undone.store(true, Ordering::Release);
        assert!(!client.is_event_done(other).unwrap());
        assert_eq!(word(), after + 1);
        server.undone.store(false, Ordering::Release);
        assert!(client.is_event_done(other).unwrap());
        server.undone.store(true, Ordering::Release);
        assert!(client.is_event_done(other).unwrap(), "it is known");
        // As one that a thread waited for, new ones have words for a while; those that take times always.
        for flags in [event_flags::DISABLE_TIMING, 0] {
            let last = copy();
            client.record_event(event(flags), LEGACY).unwrap();
            assert_eq!(word(), last as u32 + 1);
        }
    });
}

#[test]
fn a_thread_that_only_asks_about_an_event_finds_the_server_lost() {
    watched(|| {
        let (client, server) = attach_to(server::welcome());
        let context = client.contexts().retain(0).unwrap();
        client.contexts().set_current(context).unwrap();
        let event = Event::new(context.0 as u64, event_flags::DISABLE_TIMING);
        let event = wire_event(client.create_event(event).unwrap());
        server.held.store(true, Ordering::Release);
        client.record_event(event, LEGACY).unwrap();
        assert_eq!(client.is_event_done(event), Ok(false));
        server.killed.store(true, Ordering::Release);
        loop {
            match client.is_event_done(event) {
                Ok(false) => std::thread::yield_now(),
                result => break assert_eq!(result, Err(crate::program::SERVER_GONE)),
            }
        }
    });
}
