//! Program: what the process has as a whole, its devices and contexts.

use super::Client;
use crate::connection::Connection;
use crate::context::table::Contexts;
use crate::lock::{Lock, Rank};
use channel::message::{Device, Peer};
use channel::region::Region;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use cuda_api::{CUdevice, CUuuid, CudaError};
use std::sync::OnceLock;

/// Makes a connection for a device. The region is given to the second argument before a server sees
/// it.
pub(crate) type Connect =
    dyn Fn(&Device, &dyn Fn(&Region)) -> Result<Connection, CudaError> + Send + Sync;

/// 32 bits of a device's UUID (FNV-1a).
pub(super) fn device_key(uuid: &CUuuid) -> u32 {
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
    pub(super) connecting: Lock<()>,
    pub(super) connect: Box<Connect>,
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
