//! Client: what the program has on one device, and the connection to the server that drives it.
//!
//! All but the connection is the program's for life. Its locks are ranked ([`crate::lock`]).

use super::Program;
use super::arrays::Arrays;
use super::host_functions::HostFunctions;
use super::peers::Peers;
use super::process::device_key;
use super::submission::Submission;
use crate::connection::{Connection, SERVER_GONE};
use crate::context::table::Contexts;
use crate::lock::{Guard, Lock, Rank};
use crate::memory::Memory;
use crate::memory::kept_file::close_all_in_child;
use channel::memfd::Reservation;
use channel::message::{Device, WELCOME_WANTS_NOTES};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use cuda_api::handle::Handle;
use cuda_api::{CUdevice, CUresult, CudaError};
use std::collections::HashMap;
use std::io;

/// What the program has on one device.
pub(crate) struct Client {
    pub(crate) program: &'static Program,
    /// The device's ordinal in this process.
    pub(crate) device: CUdevice,
    /// Made by Box; connections that were replaced are never freed, since other threads may still
    /// look at them.
    pub(super) connection: AtomicPtr<Connection>,
    state: Lock<Submission>,
    memory: Lock<Memory>,
    pub(crate) arrays: Lock<Arrays>,
    pub(crate) host_functions: HostFunctions,
    /// Held while a function is looked up by its name; taken before all others.
    pub(crate) finding: Lock<()>,
    /// What libraries of other devices are here, by the indices and generations of their handles.
    pub(crate) libraries: Lock<HashMap<(u32, u32), Handle>>,
    /// Memory and events of other devices that this one's server knows.
    pub(crate) peers: Lock<Peers>,
    /// Devices that reach all memory of this one, a bit each.
    pub(crate) readers: AtomicU32,
    /// True once a module was loaded whose kernels may print.
    pub(crate) prints: AtomicBool,
    /// The program knows variables that are the provider's.
    pub(super) has_foreign_variables: AtomicBool,
    /// True if a failed assertion was shown.
    pub(crate) asserted: AtomicBool,
}

impl Client {
    /// What the program has on a device of which it has a first connection.
    ///
    /// # Errors
    /// The addresses that the server chose cannot be had here.
    pub(crate) fn new(
        program: &'static Program,
        device: CUdevice,
        connection: Connection,
    ) -> io::Result<Self> {
        let welcome = connection.welcome();
        let window = Reservation::at(welcome.window.address, welcome.window.bytes)?;
        let host_window = Reservation::at(welcome.host_window.address, welcome.host_window.bytes)?;
        let connection: &'static Connection = Box::leak(Box::new(connection));
        Ok(Self {
            program,
            device,
            connection: AtomicPtr::new(core::ptr::from_ref(connection).cast_mut()),
            state: Lock::new(Rank::Submission, Submission::new(device, connection)),
            memory: Lock::new(Rank::Objects, Memory::new(window, host_window, device)),
            arrays: Lock::new(Rank::Objects, Arrays::new(device)),
            host_functions: HostFunctions::new(),
            finding: Lock::new(Rank::Finding, ()),
            libraries: Lock::new(Rank::Libraries, HashMap::new()),
            peers: Lock::new(Rank::Peers, Peers::new(device)),
            readers: AtomicU32::new(0),
            prints: AtomicBool::new(false),
            has_foreign_variables: AtomicBool::new(false),
            asserted: AtomicBool::new(false),
        })
    }

    /// The connection that the client has now.
    #[inline(always)]
    pub(crate) fn connection(&self) -> &'static Connection {
        // SAFETY: the pointer came from Box::leak and is never freed.
        unsafe { &*self.connection.load(Ordering::Acquire) }
    }

    /// The process' devices by ordinal.
    pub(crate) fn devices(&self) -> &'static [Device] {
        self.program.devices()
    }

    /// What is known of this client's device.
    #[inline(always)]
    pub(crate) fn description(&self) -> &'static Device {
        &self.program.devices()[self.device as usize]
    }

    /// What the server calls this client, which no other client of it is ever called.
    fn client_id(&self) -> u32 {
        self.connection().welcome().client_id
    }

    /// What handles of exported objects name this client by, on this machine: its device and its ID at
    /// that device's server.
    pub(crate) fn shared_name(&self) -> u64 {
        u64::from(device_key(&self.description().uuid)) << 32 | u64::from(self.client_id())
    }

    /// True if the server is to be told what memory is given out and taken back.
    pub(crate) fn wants_notes(&self) -> bool {
        self.connection().welcome().flags & WELCOME_WANTS_NOTES != 0
    }

    /// Least and greatest stream priority.
    pub(crate) fn priority_range(&self) -> (c_int, c_int) {
        let welcome = self.connection().welcome();
        (welcome.priority_least, welcome.priority_greatest)
    }

    /// The program's contexts, on all devices.
    #[inline(always)]
    pub(crate) fn contexts(&self) -> &'static Contexts {
        self.program.contexts()
    }

    /// The error after which every call fails, if there is one.
    #[inline(always)]
    pub(crate) fn health(&self) -> CUresult {
        self.connection().health()
    }

    /// Takes the short lock.
    #[inline(always)]
    pub(crate) fn state(&self) -> Guard<'_, Submission> {
        self.state.lock()
    }

    /// Takes the short lock for a request of a call by that connection: the reply comes there, so the
    /// request must not go to another server that has taken its place meanwhile.
    #[inline(always)]
    pub(crate) fn state_of(
        &self,
        connection: &Connection,
    ) -> Result<Guard<'_, Submission>, CudaError> {
        let state = self.state();
        match core::ptr::eq(state.connection(), connection) {
            true => Ok(state),
            false => Err(SERVER_GONE),
        }
    }

    /// Takes the memory's lock.
    pub(crate) fn memory(&self) -> Guard<'_, Memory> {
        self.memory.lock()
    }

    /// In a forked child: lets go of what must not outlive the parent. Takes no lock that another
    /// thread of the parent may have held.
    pub(crate) fn abandon_in_child(&self) {
        let connection = self.connection();
        // Only the parent's end must count for the server.
        connection.close_in_child();
        close_all_in_child();
        let welcome = connection.welcome();
        for window in [welcome.window, welcome.host_window] {
            // SAFETY: the range was reserved by `new` for nothing else, and the child's state that
            // points into it is not used any more.
            unsafe { libc::munmap(window.address as *mut libc::c_void, window.bytes as usize) };
        }
    }
}
