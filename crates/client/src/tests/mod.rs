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

use crate::boundary::{FromProgram, Out};
use crate::connection::Connection;
use crate::program::mode;
use crate::program::{Client, Program};
use channel::message::Welcome;
use channel::region::Region;
use channel::socket::SeqPacket;
use cuda_api::{CUcontext, CudaError};
use locks::{Mutex, MutexGuard};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
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

/// A pointer as an argument.
pub(crate) fn passed<P: FromProgram>(pointer: P) -> P::Argument {
    // SAFETY: tests pass pointers to values that live until they have been used, and addresses that are
    // not followed.
    unsafe { pointer.believe() }
}

/// A place for a result.
fn out<T>(value: &mut T) -> Out<T> {
    passed(core::ptr::from_mut(value))
}

/// Words of memory that a test has mapped, of the device's too, or of one that is kept.
pub(crate) fn words_at(address: u64, count: usize) -> &'static [AtomicU32] {
    assert!(address != 0 && address.is_multiple_of(4));
    // SAFETY: such memory is there while tests use the words, which nothing in this process reads but by
    // atomics or as a device would.
    unsafe { core::slice::from_raw_parts(address as *const AtomicU32, count) }
}

/// Forks; the child's status, as wait(2) has it: 0 if it says true.
pub(crate) fn in_child(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child makes system calls, starts threads and takes memory, of which no other thread of the
    // parent holds a lock for long: the allocator's own handlers see to it. It ends without running anything
    // of the parent's.
    let child = unsafe {
        match libc::fork() {
            0 => libc::_exit(i32::from(!child())),
            child => rustix::process::Pid::from_raw(child),
        }
    };
    let ended = rustix::process::waitpid(child, rustix::process::WaitOptions::empty());
    ended.expect("a child to wait for").expect("it has ended").1.as_raw()
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
