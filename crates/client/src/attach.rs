//! What an attached process has, from the handshake ([`crate::handshake`]) to its end.
//!
//! Locks, in the order in which a thread may take them: graphs; memory, arrays or host functions;
//! calls, staging, state. The contexts' lock is taken alone.

use crate::arrays::Arrays;
use crate::calls::Calls;
use crate::contexts::Contexts;
use crate::graph_exec::ClientExec;
use crate::hostfunc::HostFunctions;
use crate::link::{Link, ServerName};
use crate::memory::Memory;
use crate::memory::kept_file::close_all_in_child;
use crate::memory::staging::Staging;
use crate::state::State;
use channel::memfd::Reservation;
use channel::message::{WELCOME_WANTS_NOTES, Welcome};
use channel::region::{Region, STAGING_BYTES};
use channel::ring::Producer;
use channel::socket::SeqPacket;
use channel::wait::SpinPolicy;
use core::ffi::c_int;
use core::sync::atomic::AtomicBool;
use cuda_api::CUresult;
use graph::Graphs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use channel::message::Device;

/// All that an attached process has.
pub(crate) struct Attached {
    pub(crate) link: Arc<Link>,
    pub(crate) policy: SpinPolicy,
    welcome: Welcome,
    contexts: Contexts,
    state: Mutex<State>,
    pub(crate) calls: Mutex<Calls>,
    pub(crate) staging: Mutex<Staging>,
    memory: Mutex<Memory>,
    pub(crate) arrays: Mutex<Arrays>,
    pub(crate) host_functions: HostFunctions,
    /// Held while a function is looked up by its name; taken before all others.
    pub(crate) finding: Mutex<()>,
    /// Graphs and captures.
    pub(crate) graphs: Graphs<ClientExec>,
    /// True once a module was loaded whose kernels may print.
    pub(crate) prints: AtomicBool,
    /// True if a failed assertion was shown.
    pub(crate) asserted: AtomicBool,
}

/// Takes a lock. A panic of another thread while it held the lock left its data usable: nothing
/// here is changed in two steps that a panic could come between.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Attached {
    /// An attached process' state after the handshake.
    ///
    /// # Errors
    /// The addresses that the server chose cannot be had here.
    pub(crate) fn new(region: Region, socket: SeqPacket, welcome: Welcome) -> io::Result<Self> {
        let window = Reservation::at(welcome.window.address, welcome.window.bytes)?;
        let host_window = Reservation::at(welcome.host_window.address, welcome.host_window.bytes)?;
        let policy = SpinPolicy::of_process();
        let server = ServerName { pid: welcome.server_pid, log_path: welcome.log_path.clone() };
        let link = Arc::new(Link::new(region.clone(), socket, server));
        Ok(Self {
            policy,
            contexts: Contexts::new(welcome.devices.len()),
            state: Mutex::new(State::new(Arc::clone(&link), Producer::new(region.clone(), policy))),
            calls: Mutex::new(Calls::new(region.clone(), policy)),
            staging: Mutex::new(Staging::new(STAGING_BYTES as u32)),
            memory: Mutex::new(Memory::new(window, host_window, welcome.devices.len())),
            arrays: Mutex::new(Arrays::new()),
            host_functions: HostFunctions::new(),
            finding: Mutex::new(()),
            graphs: Graphs::new(),
            prints: AtomicBool::new(false),
            asserted: AtomicBool::new(false),
            link,
            welcome,
        })
    }

    /// The devices by ordinal.
    pub(crate) fn devices(&self) -> &[Device] {
        &self.welcome.devices
    }

    /// What the server calls this client, which no other client of it is ever called.
    pub(crate) fn client_id(&self) -> u32 {
        self.welcome.client_id
    }

    /// What cuDriverGetVersion answers.
    pub(crate) fn driver_version(&self) -> c_int {
        self.welcome.driver_version
    }

    /// True if the server is to be told what memory is given out and taken back.
    pub(crate) fn wants_notes(&self) -> bool {
        self.welcome.flags & WELCOME_WANTS_NOTES != 0
    }

    /// Least and greatest stream priority.
    pub(crate) fn priority_range(&self) -> (c_int, c_int) {
        (self.welcome.priority_least, self.welcome.priority_greatest)
    }

    /// The contexts.
    #[inline(always)]
    pub(crate) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// The error after which every call fails, if there is one.
    #[inline(always)]
    pub(crate) fn health(&self) -> CUresult {
        self.link.health()
    }

    /// Takes the short lock.
    #[inline(always)]
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Takes the memory's lock.
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        locked(&self.memory)
    }

    /// In a forked child: lets go of what must not outlive the parent. Takes no lock that another
    /// thread of the parent may have held.
    pub(crate) fn abandon_in_child(&self) {
        // Only the parent's end must count for the server. The number stays taken in this
        // process' tables of owned descriptors, which are never dropped.
        close_in_child(self.link.socket().as_fd().as_raw_fd());
        close_all_in_child();
        for window in [self.welcome.window, self.welcome.host_window] {
            // SAFETY: the range was reserved by `new` for nothing else, and the child's state that
            // points into it is not used any more.
            unsafe { libc::munmap(window.address as *mut libc::c_void, window.bytes as usize) };
        }
    }
}

fn close_in_child(fd: i32) {
    // SAFETY: the descriptor belongs to the parent's session, whose owner is never used or
    // dropped in the child.
    unsafe { libc::close(fd) };
}
