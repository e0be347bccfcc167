//! What an attached process has, from the handshake ([`crate::handshake`]) to its end.
//!
//! Its locks are ranked ([`crate::lock`]).

use crate::arrays::Arrays;
use crate::calls::Calls;
use crate::contexts::Contexts;
use crate::graph_exec::ClientExec;
use crate::hostfunc::HostFunctions;
use crate::link::{Link, ServerName};
use crate::lock::{Guard, Lock, Rank};
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
use std::sync::Arc;

pub(crate) use channel::message::Device;

/// All that an attached process has.
pub(crate) struct Attached {
    pub(crate) link: Arc<Link>,
    pub(crate) policy: SpinPolicy,
    welcome: Welcome,
    contexts: Contexts,
    state: Lock<State>,
    pub(crate) calls: Lock<Calls>,
    pub(crate) staging: Lock<Staging>,
    memory: Lock<Memory>,
    pub(crate) arrays: Lock<Arrays>,
    pub(crate) host_functions: HostFunctions,
    /// Held while a function is looked up by its name; taken before all others.
    pub(crate) finding: Lock<()>,
    /// Graphs and captures.
    pub(crate) graphs: Graphs<ClientExec>,
    /// True once a module was loaded whose kernels may print.
    pub(crate) prints: AtomicBool,
    /// True if a failed assertion was shown.
    pub(crate) asserted: AtomicBool,
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
            state: Lock::new(
                Rank::Submission,
                State::new(Arc::clone(&link), Producer::new(region.clone(), policy)),
            ),
            calls: Lock::new(Rank::Calls, Calls::new(region.clone(), policy)),
            staging: Lock::new(Rank::Staging, Staging::new(STAGING_BYTES as u32)),
            memory: Lock::new(
                Rank::Objects,
                Memory::new(window, host_window, welcome.devices.len()),
            ),
            arrays: Lock::new(Rank::Objects, Arrays::new()),
            host_functions: HostFunctions::new(),
            finding: Lock::new(Rank::Finding, ()),
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
    pub(crate) fn state(&self) -> Guard<'_, State> {
        self.state.lock()
    }

    /// Takes the memory's lock.
    pub(crate) fn memory(&self) -> Guard<'_, Memory> {
        self.memory.lock()
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
