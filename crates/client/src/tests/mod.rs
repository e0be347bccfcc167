//! The functions against a server in this process.

mod affinity;
mod arrays;
mod dead;
mod functions;
mod green;
mod registered;
mod replaced;
mod reported;
mod room;
pub(crate) mod server;
mod waited;
mod woken;

use crate::boundary::{FromProgram, In, Out};
use crate::connection::Connection;
use crate::program::mode;
use crate::program::{Client, Program};
use channel::message::Welcome;
use channel::region::Region;
use channel::socket::SeqPacket;
use cuda_api::{CUcontext, CudaError};
use locks::{Mutex, MutexGuard};
use std::sync::OnceLock;
use std::time::Duration;

/// Longest that a test of something that could hang may take.
const WATCHDOG: Duration = Duration::from_secs(300);

/// A client of a program of its own that is attached to a server of its own.
fn attach() -> (&'static Client, server::Handle) {
    attach_to(server::welcome())
}

/// The same, to one that says this.
fn attach_to(welcome: Welcome) -> (&'static Client, server::Handle) {
    let (ours, theirs) = SeqPacket::pair().unwrap();
    let (region, file) = Region::create().unwrap();
    let server = server::start(region.clone(), theirs);
    let connection = Connection::new((region, file), ours, welcome);
    let program =
        Program::of_first(connection, Box::new(|_, _| Err(CudaError::MPS_CONNECTION_FAILED)))
            .unwrap();
    (program.client_at(0).unwrap(), server)
}

/// The process' client, with the primary context current, for one test at a time.
struct Session {
    client: &'static Client,
    server: &'static server::Handle,
    _one_at_a_time: MutexGuard<'static, ()>,
}

fn session() -> Session {
    static ONE: Mutex<()> = Mutex::new(());
    static SESSION: OnceLock<(&'static Client, server::Handle)> = OnceLock::new();
    let one_at_a_time = ONE.lock();
    let (client, server) = SESSION.get_or_init(|| {
        let (client, server) = attach();
        mode::attach_for_test(client.program);
        (client, server)
    });
    let context = client.contexts().retain(0).unwrap();
    client.contexts().set_current(context).unwrap();
    Session { client, server, _one_at_a_time: one_at_a_time }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.server.held.store(false, std::sync::atomic::Ordering::Release);
        let _ = crate::api::cuDevicePrimaryCtxRelease(0);
        self.client.contexts().set_current(CUcontext::NULL).unwrap();
    }
}

/// A place for a result.
fn out<T>(value: &mut T) -> Out<T> {
    // SAFETY: a reference is good for writing; tests use the result before the value ends.
    unsafe { core::ptr::from_mut(value).believe() }
}

/// Waits for the end of a child of fork; its status, as wait(2) has it.
pub(crate) fn wait_for_child(child: libc::pid_t) -> i32 {
    let child = rustix::process::Pid::from_raw(child).expect("a child");
    let ended = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
    ended.expect("a child to wait for").expect("it has ended").1.as_raw()
}

/// Something to read.
fn input<T>(value: *const T) -> In<T> {
    // SAFETY: tests pass pointers to values that are alive.
    unsafe { value.believe() }
}

/// Runs a test that could hang; the process ends if it does.
fn watched<R>(test: impl FnOnce() -> R) -> R {
    let (done, finished) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if finished.recv_timeout(WATCHDOG) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("a test hangs");
            std::process::abort();
        }
    });
    let result = test();
    drop(done);
    result
}
