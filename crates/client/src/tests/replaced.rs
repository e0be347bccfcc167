//! Replaced connection: what other threads had begun when another server took the place of a lost one.

use super::{server, watched};
use crate::connection::{Connection, SERVER_GONE};
use crate::program::{Client, Program};
use crate::stream::table::LEGACY;
use channel::region::Region;
use channel::request::MemoryInfo;
use channel::socket::SeqPacket;
use cuda_api::CudaError;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// A client whose lost server is replaced by another one with the same windows, as a daemon does.
fn attach() -> (&'static Client, server::Handle) {
    let welcome = server::welcome();
    let again = welcome.clone();
    let begin = move |prepare: &dyn Fn(&Region)| {
        let (ours, theirs) = SeqPacket::pair().map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let (region, file) = Region::create().map_err(|_| CudaError::OUT_OF_MEMORY)?;
        prepare(&region);
        let server = server::start(region.clone(), theirs);
        Ok((Connection::new((region, file), ours, again.clone()), server))
    };
    let (connection, first) = begin(&|_| ()).unwrap();
    let later = Mutex::new(Vec::new());
    let connect = move |_: &_, prepare: &dyn Fn(&Region)| {
        let (connection, server) = begin(prepare)?;
        later.lock().unwrap().push(server);
        Ok(connection)
    };
    let program = Program::of_first(connection, Box::new(connect)).unwrap();
    (program.client_at(0).unwrap(), first)
}

/// Ends the server and has another one take its place.
fn replace(client: &'static Client, server: &server::Handle) {
    let old = client.connection();
    server.killed.store(true, Ordering::Release);
    server.held.store(false, Ordering::Release);
    while core::ptr::eq(client.connection(), old) {
        client.program.recover_lost();
        std::thread::yield_now();
    }
    assert_eq!(client.health(), Ok(()));
}

#[test]
fn a_thread_that_waits_for_a_lost_server_does_not_wait_on_for_it() {
    watched(|| {
        let (client, server) = attach();
        server.held.store(true, Ordering::Release);
        client.state().streams.issue(LEGACY.index);
        std::thread::scope(|scope| {
            let (thread, of_waiter) = std::sync::mpsc::channel();
            let waits = scope.spawn(move || {
                // SAFETY: the call takes nothing and cannot fail.
                thread.send(unsafe { libc::gettid() }).unwrap();
                client.synchronize(LEGACY)
            });
            let stat = format!("/proc/self/task/{}/stat", of_waiter.recv().unwrap());
            // Its fence is in the ring before it sleeps; between two of its looks around it is awake.
            let sleeps = || {
                let stat = std::fs::read_to_string(&stat).unwrap_or_default();
                stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
            };
            while !client.state().streams.unfenced().is_empty() || !sleeps() {
                std::thread::yield_now();
            }
            replace(client, &server);
            // It is told so that its call is made again, or the new server was faster.
            let waited = waits.join().unwrap();
            assert!(waited == Ok(()) || waited == Err(SERVER_GONE), "{waited:?}");
        });
        assert_eq!(client.synchronize(LEGACY), Ok(()));
    });
}

#[test]
fn a_call_by_a_lost_connection_does_not_reach_the_next_server() {
    watched(|| {
        let (client, server) = attach();
        let old = client.connection();
        replace(client, &server);
        assert_eq!(client.state_of(old).map(|_| ()), Err(SERVER_GONE));
        // Its reply would be taken for that of the next call.
        assert!(client.call(&MemoryInfo { device: 0 }).is_ok());
    });
}
