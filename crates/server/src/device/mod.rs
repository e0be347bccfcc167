//! The device as sessions see it: a thin, owning layer over a provider's functions.
//!
//! Every call of a provider stands in this folder, so every pointer that a provider gets is made
//! here, from locals, from owned objects or from ranges that a session has checked
//! ([`CheckedRange`]). Objects destroy themselves when dropped and are counted while they live
//! ([`Share::leftovers`]). This layer knows no client, no ring and no policy.
//!
//! # Trust in a provider
//!
//! A provider runs in the server's process, so the process is the unit of trust: a provider that
//! writes where it must not ends the server, and all of its clients. What the server counts on is
//! what the driver API documents, and of each thing that it hands over this:
//!
//! * An argument (names, images, options, flattened parameters, descriptions of nodes, buffers of
//!   answers) is used during the call only.
//! * Memory that asynchronous work uses ([`CheckedRange`]) and host memory that is registered
//!   ([`HostRegistration`]) stays until the work has ended: until `cuStreamQuery` answers success, or
//!   `openmpsTenantEnd` has returned, or an answer says that the context is spoiled, after which a
//!   device runs nothing more.
//! * What is called back later, on a thread of the provider, gets a number and never an address
//!   ([`HostCallback`]). The driver API does not say when a function that was queued will not be
//!   called any more if the context is spoiled, or that its last call has returned.
//! * What is called back during a call (places of managed variables, [`ManagedRoom`]) is called in
//!   that call, on its thread.

mod array;
pub mod calls;
mod code_cache;
mod context_sync;
mod copy_box;
mod function;
mod graph;
mod green;
mod host;
mod linking;
mod managed;
mod memory;
mod module;
mod partition;
mod range;
mod share;
mod stream;
mod tensor;
mod timing;

pub use array::{Array, ImageObject, MipmappedArray, Shown};
pub use code_cache::UNUSED_BYTES_MAX;
pub use context_sync::{ContextCall, ContextSync, InFlight, SHALLOW_KERNELS, SyncReport};
pub use copy_box::BoxSide;
pub use function::Function;
pub use graph::{Condition, GraphBuilder, GraphExec};
pub use host::HostRegistration;
pub use linking::link;
pub use managed::{ManagedRoom, ManagedVariables};
pub use memory::{DeviceMapping, Physical, Reservation, new_chunk, old_chunk};
pub use module::{BuildLog, IMAGE_PADDING_BYTES, JitOption, Module};
pub use partition::SmCount;
pub use range::CheckedRange;
pub use share::{Leftovers, Share};
pub use stream::{Event, HostCallback, LaunchShape, RawEvent, Stream};
pub use tensor::TensorMapKind;
pub use timing::{Started, Stopwatch, Timed};

use channel::message::DEVICE_ATTRIBUTES;
use code_cache::CodeCache;
use cuda_api::attributes;
use cuda_api::extension::Extension;
use cuda_api::{CUcontext, CUdevice, CUresult, CUuuid, CudaError, DriverTable};
use std::ffi::c_int;
use std::sync::OnceLock;

/// Hardware queues that a server asks NVIDIA's driver for: as many as it gives. Streams with work
/// share them, and what waits in a queue, for an event, a value, a host function or an earlier
/// kernel of its stream, holds up whatever is behind it. With fewer queues one client's wait would
/// be other clients' wait, and two clients could wait for each other for ever.
pub const HARDWARE_QUEUES: usize = 32;

/// Longest name of a device asked for, bytes.
const NAME_BYTES_MAX: usize = 256;
/// Longest PCI bus id, bytes: `00000000:00:00.0` and room to spare.
const PCI_BUS_ID_BYTES_MAX: usize = 32;

/// A provider's functions.
#[derive(Clone, Copy)]
pub struct Driver {
    /// The driver API.
    pub table: &'static DriverTable,
    /// What the software GPU has beyond it.
    pub extension: Option<&'static Extension>,
}

/// What does not change about a device.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its memory, bytes.
    pub memory_bytes: u64,
    /// Its place on the PCI bus, as cuDeviceGetPCIBusId says it.
    pub pci_bus_id: String,
    /// Its attributes by CUdevice_attribute; 0 where the provider knows none.
    pub attributes: [i32; DEVICE_ATTRIBUTES],
    /// Most of the smallest groups that its SMs can be parted into; 0 if it does not part them.
    pub sm_groups: u32,
}

impl DeviceInfo {
    /// The UUID as NVIDIA's tools write it: `GPU-` and five groups of hexadecimal digits.
    pub fn uuid_text(&self) -> String {
        cuda_api::CUuuid { bytes: self.uuid }.to_string()
    }
}

/// The device that a server serves, with the context that its clients share.
///
/// At present a server serves the provider's device 0: a stream of the wire has no device.
pub struct Device {
    driver: Driver,
    ordinal: CUdevice,
    context: CUcontext,
    info: DeviceInfo,
    driver_version: i32,
    stream_priorities: (i32, i32),
    /// Whether conditions of a graph are 1, 2, ...: [`Share::numbers_conditions`].
    counts_conditions: OnceLock<bool>,
    sync: ContextSync,
    code_cache: CodeCache,
}

/// A step of the start that failed.
#[derive(Debug, thiserror::Error)]
#[error("{function} answered {error}")]
pub struct DeviceError {
    /// The provider's function.
    pub function: &'static str,
    /// Its answer.
    pub error: CudaError,
}

fn step(function: &'static str, result: CUresult) -> Result<(), DeviceError> {
    result.map_err(|error| DeviceError { function, error })
}

impl Device {
    /// Initialises the provider and makes the shared context, which is current on this thread
    /// afterwards.
    pub fn open(mut driver: Driver) -> Result<Self, DeviceError> {
        let t = driver.table;
        let ordinal: CUdevice = 0;
        let (mut version, mut context) = (0, CUcontext::NULL);
        // SAFETY: cuInit takes a value; the others write to the locals they are given.
        unsafe {
            step("cuInit", t.cuInit(0))?;
            step("cuDriverGetVersion", t.cuDriverGetVersion(&mut version))?;
            step("cuDevicePrimaryCtxRetain", t.cuDevicePrimaryCtxRetain(&mut context, ordinal))?;
            step("cuCtxSetCurrent", t.cuCtxSetCurrent(context))?;
        }
        // The functions may be there and the device be set up without tenants.
        // SAFETY: takes a value; 0 is the tenant of everybody, to which this thread belongs anyway.
        driver.extension = driver.extension.filter(|e| unsafe { (e.tenant_bind)(0) }.is_ok());
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: both locals are written.
        let range = unsafe { t.cuCtxGetStreamPriorityRange(&mut least, &mut greatest) };
        if range.is_err() {
            // A device without priorities has the range 0..0.
            (least, greatest) = (0, 0);
        }
        Ok(Self {
            driver,
            ordinal,
            context,
            info: read_info(t, ordinal)?,
            driver_version: version,
            stream_priorities: (least, greatest),
            counts_conditions: OnceLock::new(),
            sync: ContextSync::default(),
            code_cache: CodeCache::default(),
        })
    }

    /// The way to calls that wait for the context.
    pub fn sync(&self) -> &ContextSync {
        &self.sync
    }

    /// Code that clients share.
    pub fn code_cache(&self) -> &CodeCache {
        &self.code_cache
    }

    /// Unloads shared code that no client uses but for the last so many bytes of images.
    pub fn unload_unused(&self, bytes_max: u64) {
        for module in self.code_cache.take_unused(bytes_max) {
            let name = "the code cache";
            // SAFETY: the module was loaded for the cache, which gave it up: no function of it is
            // left.
            let _ = self.sync.make(ContextCall::UnloadModule, name, None, || unsafe {
                self.driver.table.cuModuleUnload(module)
            });
        }
    }

    /// Makes the shared context current on this thread: needed once a thread, before anything
    /// else of this layer.
    pub fn make_current(&self) -> CUresult {
        // SAFETY: the context was retained by `open` and is released only by `close`.
        unsafe { self.driver.table.cuCtxSetCurrent(self.context) }
    }

    /// Waits until nothing runs in the shared context any more, which a fault has spoiled.
    pub fn settle_after_fault(&self) {
        // SAFETY: takes no argument. It answers with the fault.
        let _ = unsafe { self.driver.table.cuCtxSynchronize() };
    }

    /// Gives the context back. Nothing of the device may be in use any more.
    pub fn close(&self) {
        // SAFETY: releases what `open` retained. The answer changes nothing: the process ends.
        let _ = unsafe { self.driver.table.cuDevicePrimaryCtxRelease_v2(self.ordinal) };
    }

    /// The shared context.
    pub(crate) fn context(&self) -> CUcontext {
        self.context
    }

    /// What is known of the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// CUDA version of the provider: major * 1000 + minor * 10.
    pub fn driver_version(&self) -> i32 {
        self.driver_version
    }

    /// Least and greatest priority of a stream; greater priorities are smaller numbers.
    pub fn stream_priorities(&self) -> (i32, i32) {
        self.stream_priorities
    }

    /// Number of its SMs.
    pub fn sms(&self) -> u32 {
        let count = self.info.attributes[attributes::MULTIPROCESSOR_COUNT as usize];
        u32::try_from(count).unwrap_or(0)
    }

    /// The device's ordinal at the provider.
    pub fn ordinal(&self) -> CUdevice {
        self.ordinal
    }

    /// True if the provider isolates clients from each other's faults.
    pub fn has_tenants(&self) -> bool {
        self.driver.extension.is_some()
    }

    /// How many streams can have work that waits without one holding up another one.
    pub fn queues(&self) -> usize {
        if self.has_tenants() { usize::MAX } else { HARDWARE_QUEUES }
    }

    /// The driver API, for this folder and for the rows that are forwarded as they are.
    pub(crate) fn table(&self) -> &'static DriverTable {
        self.driver.table
    }

    fn extension(&self) -> Option<&'static Extension> {
        self.driver.extension
    }

    /// Free and total memory, bytes.
    pub fn memory_info(&self) -> Result<(u64, u64), CudaError> {
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: both locals are written.
        unsafe { self.driver.table.cuMemGetInfo_v2(&mut free, &mut total)? };
        Ok((free as u64, total as u64))
    }
}

fn read_info(t: &DriverTable, ordinal: CUdevice) -> Result<DeviceInfo, DeviceError> {
    let mut name = [0u8; NAME_BYTES_MAX];
    let mut pci = [0u8; PCI_BUS_ID_BYTES_MAX];
    let mut uuid = CUuuid::default();
    let mut bytes = 0usize;
    // SAFETY: each function writes to the local it is given, buffers up to the length that goes
    // with them.
    unsafe {
        step(
            "cuDeviceGetName",
            t.cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int, ordinal),
        )?;
        step("cuDeviceGetUuid", t.cuDeviceGetUuid_v2(&mut uuid, ordinal))
            .or_else(|_| step("cuDeviceGetUuid", t.cuDeviceGetUuid(&mut uuid, ordinal)))?;
        step("cuDeviceTotalMem", t.cuDeviceTotalMem_v2(&mut bytes, ordinal))?;
        step(
            "cuDeviceGetPCIBusId",
            t.cuDeviceGetPCIBusId(pci.as_mut_ptr().cast(), pci.len() as c_int, ordinal),
        )?;
    }
    let mut attributes = [0; DEVICE_ATTRIBUTES];
    for (number, value) in attributes.iter_mut().enumerate() {
        let mut answer = 0;
        // SAFETY: the local is written.
        if unsafe { t.cuDeviceGetAttribute(&mut answer, number as u32, ordinal) }.is_ok() {
            *value = answer;
        }
    }
    Ok(DeviceInfo {
        name: text(&name),
        uuid: uuid.bytes,
        memory_bytes: bytes as u64,
        pci_bus_id: text(&pci),
        attributes,
        sm_groups: green::groups_of_sms(t, ordinal).unwrap_or(0),
    })
}

/// The text before the first NUL.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_in_five_groups() {
        let info = DeviceInfo {
            name: String::new(),
            uuid: *b"0123456789abcdef",
            memory_bytes: 0,
            pci_bus_id: String::new(),
            attributes: [0; DEVICE_ATTRIBUTES],
            sm_groups: 0,
        };
        assert_eq!(info.uuid_text(), "GPU-30313233-3435-3637-3839-616263646566");
    }
}
