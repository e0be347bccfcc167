//! What a program owns for life: contexts, and on each device ([`Client`]) streams, events, modules,
//! memory, arrays, with the connection to the server that carries them out.
//!
//! Below are tables that know no server ([`crate::context`], [`crate::stream`], [`crate::module`],
//! [`crate::memory`]) and the connection, which knows none of them ([`crate::connection`]). Here they
//! meet. A connection can be lost and another one put in its place; the tables say what the new
//! server has to restore.

pub(crate) mod attributes;
mod calls;
pub(crate) mod forwarded;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod mode;
pub(crate) mod modules;
pub(crate) mod peers;
pub(crate) mod recovery;
pub(crate) mod streams;
mod visible;

pub(crate) use crate::connection::SERVER_GONE;
pub(crate) use crate::connection::answered;

use self::launch::submission::Submission;
use self::memory::arrays::Arrays;
use self::peers::Peers;
use self::streams::host_functions::HostFunctions;
use crate::connection::Connection;
use crate::context::table::Contexts;
use crate::lock::{Guard, Lock, Rank};
use crate::memory::Memory;
use channel::memfd::Reservation;
use channel::message::{Device, Peer, WELCOME_WANTS_NOTES};
use channel::region::Region;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use cuda_api::handle::Handle;
use cuda_api::{CUdevice, CUresult, CUuuid, CudaError};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::OnceLock;

/// Makes a connection for a device. The region is given to the second argument before a server sees
/// it.
pub(crate) type Connect =
    dyn Fn(&Device, &dyn Fn(&Region)) -> Result<Connection, CudaError> + Send + Sync;

/// 32 bits of a device's UUID (FNV-1a).
fn device_key(uuid: &CUuuid) -> u32 {
    uuid.bytes
        .iter()
        .fold(0x811c_9dc5, |key: u32, byte| (key ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// All that an attached process has.
pub(crate) struct Program {
    devices: Vec<Device>,
    driver_version: c_int,
    contexts: Contexts,
    /// By ordinal; filled when the program first has something to do there.
    clients: Box<[OnceLock<Client>]>,
    /// Held while a connection is made.
    connecting: Lock<()>,
    connect: Box<Connect>,
    /// True once there is more than one client.
    several: AtomicBool,
}

impl Program {
    /// A process that sees those devices and has no connection yet.
    pub(crate) fn new(devices: Vec<Device>, driver_version: c_int, connect: Box<Connect>) -> Self {
        Self {
            contexts: Contexts::new(devices.len()),
            clients: devices.iter().map(|_| OnceLock::new()).collect(),
            devices,
            driver_version,
            connecting: Lock::new(Rank::Connecting, ()),
            connect,
            several: AtomicBool::new(false),
        }
    }

    /// A process whose one connection says which devices there are.
    #[cfg(test)]
    pub(crate) fn of_first(
        connection: Connection,
        connect: Box<Connect>,
    ) -> Result<&'static Self, CudaError> {
        let welcome = connection.welcome();
        let program = Self::new(welcome.devices.clone(), welcome.driver_version, connect);
        let program: &'static Self = Box::leak(Box::new(program));
        program.put(0, connection)?;
        Ok(program)
    }

    /// The devices by ordinal.
    pub(crate) fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// What cuDriverGetVersion answers.
    pub(crate) fn driver_version(&self) -> c_int {
        self.driver_version
    }

    /// The contexts.
    #[inline(always)]
    pub(crate) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// The client of the first device that the program has something on, else of the first one.
    #[cold]
    pub(crate) fn first_client(&'static self) -> Result<&'static Client, CudaError> {
        match self.clients().next() {
            Some(client) => Ok(client),
            None => self.client_on(0),
        }
    }

    /// The client that knows what is at an address, else the first one.
    pub(crate) fn knower_of(&'static self, address: u64) -> Result<&'static Client, CudaError> {
        let found = self.clients().find(|client| client.memory().knows(address));
        found.map_or_else(|| self.first_client(), Ok)
    }

    /// What a device can do with another one; `None` if it is the same, or there is none such.
    pub(crate) fn peer(&self, from: CUdevice, to: CUdevice) -> Option<&Peer> {
        let device = self.devices.get(usize::try_from(from).ok()?)?;
        device.peers.get(usize::try_from(to).ok()?).filter(|_| from != to)
    }

    /// The device of a client that is known by its [`shared_name`](Client::shared_name); `None` if the
    /// program does not see it.
    pub(crate) fn device_of_shared(&self, name: u64) -> Option<CUdevice> {
        let is_its = |device: &Device| u64::from(device_key(&device.uuid)) == name >> 32;
        self.devices.iter().position(is_its).map(|ordinal| ordinal as CUdevice)
    }

    /// True if a device can reach another one's memory.
    pub(crate) fn can_access(&self, from: CUdevice, to: CUdevice) -> bool {
        self.peer(from, to).is_some_and(|peer| peer.can_access())
    }

    /// True if the program has something on more than one device.
    #[inline(always)]
    pub(crate) fn has_several(&self) -> bool {
        self.several.load(Ordering::Acquire)
    }

    /// The client of a device if the program has one. CUDA_ERROR_INVALID_DEVICE otherwise.
    #[inline(always)]
    pub(crate) fn client_at(&self, device: usize) -> Result<&Client, CudaError> {
        self.clients.get(device).and_then(OnceLock::get).ok_or(CudaError::INVALID_DEVICE)
    }

    /// The clients that there are.
    pub(crate) fn clients(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter_map(OnceLock::get)
    }

    /// The client of a device, connected now if it is the first time.
    ///
    /// # Errors
    /// CUDA_ERROR_INVALID_DEVICE if there is no such device; what the daemon or the server answered.
    pub(crate) fn client_on(&'static self, device: CUdevice) -> Result<&'static Client, CudaError> {
        let ordinal = usize::try_from(device).map_err(|_| CudaError::INVALID_DEVICE)?;
        match self.client_at(ordinal) {
            Ok(client) => Ok(client),
            Err(_) => self.connect(ordinal),
        }
    }

    #[cold]
    fn connect(&'static self, ordinal: usize) -> Result<&'static Client, CudaError> {
        let found = self.devices.get(ordinal).ok_or(CudaError::INVALID_DEVICE)?;
        let _one_at_a_time = self.connecting.lock();
        if let Ok(client) = self.client_at(ordinal) {
            return Ok(client);
        }
        let connection = (self.connect)(found, &|_| ())?;
        self.put(ordinal, connection)
    }

    /// Puts a first connection in its place.
    pub(crate) fn put(
        &'static self,
        ordinal: usize,
        connection: Connection,
    ) -> Result<&'static Client, CudaError> {
        let place = self.clients.get(ordinal).ok_or(CudaError::INVALID_DEVICE)?;
        let client = Client::new(self, ordinal as CUdevice, connection).map_err(|error| {
            crate::stderr::say(format_args!(
                "the server's addresses cannot be had here: {error}; `openmps doctor` names limits"
            ));
            CudaError::MPS_CONNECTION_FAILED
        })?;
        let several = self.clients().next().is_some();
        let client = place.get_or_init(|| client);
        self.several.store(several, Ordering::Release);
        if several {
            client.learn_peers()?;
        }
        Ok(client)
    }
}

/// What the program has on one device.
pub(crate) struct Client {
    pub(crate) program: &'static Program,
    /// The device's ordinal in this process.
    pub(crate) device: CUdevice,
    /// The device as it is for this client.
    seen: &'static Device,
    /// Made by `Box`; connections that were replaced are never freed, since other threads may still
    /// look at them.
    connection: AtomicPtr<Connection>,
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
    has_foreign_variables: AtomicBool,
    /// True if a failed assertion was shown.
    pub(crate) asserted: AtomicBool,
    /// Limits that the server has, by CUlimit.
    pub(crate) server_limits: Lock<BTreeMap<u32, usize>>,
    /// True while memory that was freed in a stream's order may have to go back at a synchronisation.
    keeps_freed: AtomicBool,
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
        let mut seen = program.devices().get(device as usize).cloned().unwrap_or_default();
        if let Some(device) = welcome.devices.first() {
            (seen.attributes, seen.sm_groups) = (device.attributes, device.sm_groups);
        }
        let seen: &'static Device = Box::leak(Box::new(seen));
        let connection: &'static Connection = Box::leak(Box::new(connection));
        Ok(Self {
            program,
            device,
            seen,
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
            server_limits: Lock::new(Rank::Leaf, BTreeMap::new()),
            keeps_freed: AtomicBool::new(false),
        })
    }

    /// The connection that the client has now.
    #[inline(always)]
    pub(crate) fn connection(&self) -> &'static Connection {
        // SAFETY: the pointer came from `Box::leak` and is never freed.
        unsafe { &*self.connection.load(Ordering::Acquire) }
    }

    /// The process' devices by ordinal.
    pub(crate) fn devices(&self) -> &'static [Device] {
        self.program.devices()
    }

    /// What is known of this client's device: with the SMs that its first server gave it, which
    /// stay what they were when its share changes.
    #[inline(always)]
    pub(crate) fn description(&self) -> &'static Device {
        self.seen
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

    /// True if the server is to know what memory is given out and taken back.
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
        let window = connection.welcome().window;
        // SAFETY: the range was reserved by `new` for nothing else, and the child's state that
        // points into it is not used any more. Host memory stays where the program has it.
        unsafe { libc::munmap(window.address as *mut libc::c_void, window.bytes as usize) };
    }
}
