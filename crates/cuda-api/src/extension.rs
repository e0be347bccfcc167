//! Extension: functions that a provider may export beside the driver API.
//!
//! NVIDIA's driver has none of them; the software GPU has all. A *tenant* is a share of one
//! context: its own set of addresses that its kernels may touch, and its own faults. With tenants
//! a server gives its clients in one context what hardware cannot: a fault or an endless kernel
//! of one of them harms no other. A caller that finds the functions missing goes without.

use crate::types::CUresult;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// What the name of a device of the software GPU begins with.
pub const SOFTWARE_GPU_NAME: &str = "openmps software GPU";

/// What the software GPU's log of a load begins with if the image has nothing that it can run.
pub const NO_PTX: &str = "the image has no PTX";

/// Work of one tenant so far.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantUsage {
    /// Kernels that ended.
    pub kernels: u64,
    /// Blocks that ended.
    pub blocks: u64,
    /// Time during which at least one of its kernels ran, ns.
    pub busy_ns: u64,
    /// Device memory mapped at present, bytes.
    pub memory_bytes: u64,
    /// Time that threads spent in its blocks, ns, summed over threads.
    pub worker_ns: u64,
    /// Instructions, once a warp.
    pub warp_instructions: u64,
    /// Instructions, once a thread that took part.
    pub thread_instructions: u64,
    /// Bytes read from and written to global memory.
    pub global_bytes: u64,
    /// Sum over SMs of the time during which at least one of its blocks was resident, ns: over the
    /// time that passed and the device's SMs it is the tenant's SM activity.
    pub sm_active_ns: u64,
    /// Sum over its resident warps of the time they were resident, ns: over the time that passed and
    /// the warps that the device has room for it is the tenant's occupancy.
    pub warp_ns: u64,
    /// From the start of each of its kernels to the end, ns; kernels that overlap count each.
    pub kernel_ns: u64,
}

/// Longest name of a kernel in [`KernelUsage`], bytes, with a NUL; longer ones are cut.
pub const USAGE_NAME_BYTES: usize = 1024;

/// What a tenant's kernels of one name did so far.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelUsage {
    /// Launches that ended.
    pub launches: u64,
    /// Blocks that ended.
    pub blocks: u64,
    /// From the start of each launch to its end, ns; launches that overlap count each.
    pub kernel_ns: u64,
    /// Time that threads spent in its blocks, ns, summed over threads.
    pub worker_ns: u64,
    /// SM * ns in which a launch had a block there.
    pub sm_active_ns: u64,
    /// Warp * ns in which warps were resident.
    pub warp_ns: u64,
    /// Instructions, once a warp.
    pub warp_instructions: u64,
    /// Instructions, once a thread that took part.
    pub thread_instructions: u64,
    /// Bytes read from and written to global memory.
    pub global_bytes: u64,
    /// Its name, NUL-terminated.
    pub name: [u8; USAGE_NAME_BYTES],
}

impl Default for KernelUsage {
    fn default() -> Self {
        Self {
            launches: 0,
            blocks: 0,
            kernel_ns: 0,
            worker_ns: 0,
            sm_active_ns: 0,
            warp_ns: 0,
            warp_instructions: 0,
            thread_instructions: 0,
            global_bytes: 0,
            name: [0; USAGE_NAME_BYTES],
        }
    }
}

/// What a [`TraceRecord`] is of.
pub mod trace_kind {
    /// A launch.
    pub const KERNEL: u32 = 1;
    /// A copy from host memory to the device.
    pub const COPY_IN: u32 = 2;
    /// A copy from the device to host memory.
    pub const COPY_OUT: u32 = 3;
    /// A copy on the device.
    pub const COPY_WITHIN: u32 = 4;
    /// A fill.
    pub const FILL: u32 = 5;
    /// The time in which a launch had blocks on one SM.
    pub const ON_SM: u32 = 6;
}

/// Longest name of a kernel in a [`TraceRecord`], bytes, with a NUL; longer ones are cut.
pub const TRACE_NAME_BYTES: usize = 256;

/// A piece of work that a tenant had done, or a part of one. Times are of CLOCK_MONOTONIC.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// One of [`trace_kind`].
    pub kind: u32,
    /// The SM, of [`trace_kind::ON_SM`].
    pub sm: u32,
    /// The stream, as cuStreamGetId says it; 0 of what has none.
    pub stream: u64,
    /// Number of the launch, unique on the device; 0 of what is none.
    pub launch: u64,
    /// When it was submitted, ns; 0 if that was not measured.
    pub submitted_ns: u64,
    /// When it began, ns.
    pub start_ns: u64,
    /// When it ended, ns.
    pub end_ns: u64,
    /// Bytes of a copy or fill.
    pub bytes: u64,
    /// Blocks of a launch.
    pub grid: [u32; 3],
    /// Threads of its blocks.
    pub block: [u32; 3],
    /// The kernel's name, NUL-terminated.
    pub name: [u8; TRACE_NAME_BYTES],
}

impl Default for TraceRecord {
    fn default() -> Self {
        Self {
            kind: 0,
            sm: 0,
            stream: 0,
            launch: 0,
            submitted_ns: 0,
            start_ns: 0,
            end_ns: 0,
            bytes: 0,
            grid: [0; 3],
            block: [0; 3],
            name: [0; TRACE_NAME_BYTES],
        }
    }
}

/// What a device did since it was made. Differences of two readings give ratios.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceActivity {
    /// Time that passed, ns.
    pub elapsed_ns: u64,
    /// Time during which at least one kernel ran, ns: over `elapsed_ns` it is what
    /// nvidia-smi calls GPU-Util.
    pub kernel_ns: u64,
    /// Sum over SMs of the time during which at least one block was resident, ns: over
    /// `elapsed_ns * sms` it is SM activity.
    pub sm_active_ns: u64,
    /// Sum over resident warps of the time they were resident, ns: over
    /// `elapsed_ns * sms * warps_per_sm` it is SM occupancy.
    pub warp_ns: u64,
    /// SMs of the device.
    pub sms: u32,
    /// Largest number of resident warps of an SM.
    pub warps_per_sm: u32,
}

/// Name of the file, in the directory in which processes of the software GPU meet, that begins
/// with a [`DeviceActivity`] to which all of them add. `elapsed_ns` in it is 0.
pub const ACTIVITY_FILE_NAME: &str = "openmps-soft-activity";

impl DeviceActivity {
    /// Reads the beginning of the activity file; `None` if there are too few bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let u64_at = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Self {
            elapsed_ns: u64_at(0)?,
            kernel_ns: u64_at(8)?,
            sm_active_ns: u64_at(16)?,
            warp_ns: u64_at(24)?,
            sms: u32_at(32)?,
            warps_per_sm: u32_at(36)?,
        })
    }

    /// The beginning of the activity file.
    pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        let words = [self.elapsed_ns, self.kernel_ns, self.sm_active_ns, self.warp_ns];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes[32..36].copy_from_slice(&self.sms.to_ne_bytes());
        bytes[36..].copy_from_slice(&self.warps_per_sm.to_ne_bytes());
        bytes
    }
}

/// Where the rows of processes begin in the activity file, bytes.
pub const PROCESS_ROWS_AT: u64 = 64;
/// The byte of the activity file that a process locks while it takes device memory into its row, so
/// that all together take no more than there is.
pub const MEMORY_LOCK_AT: u64 = 48;
/// Rows of processes in the activity file: more than contexts fit on one machine's memory.
pub const PROCESS_ROWS_MAX: u64 = 1024;

/// A process with memory on the software GPU, as it says itself in the activity file. A row counts
/// while a process holds a lock on its first byte, which a process takes for life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessRow {
    /// Its process id, in its own namespace.
    pub pid: u32,
    /// Device memory that it has, bytes.
    pub memory_bytes: u64,
}

impl ProcessRow {
    /// Bytes of a row.
    pub const BYTES: usize = 16;

    /// Where a row is in the file.
    pub const fn position(row: u64) -> u64 {
        PROCESS_ROWS_AT + row * Self::BYTES as u64
    }

    /// Reads a row.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let [pid, _, low, high] =
            [0, 4, 8, 12].map(|at| u32::from_ne_bytes([0, 1, 2, 3].map(|i| bytes[at + i])));
        Self { pid, memory_bytes: u64::from(low) | u64::from(high) << 32 }
    }

    /// The row in the file.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.memory_bytes.to_le_bytes());
        bytes
    }
}

const _: () = assert!(size_of::<DeviceActivity>() as u64 <= MEMORY_LOCK_AT);
const _: () = assert!(MEMORY_LOCK_AT < PROCESS_ROWS_AT);

/// What a device is, as far as it is known without initialising anything.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceDescription {
    /// Name, NUL-terminated.
    pub name: [u8; 64],
    /// PCI bus id, NUL-terminated.
    pub pci_bus_id: [u8; 32],
    /// Directory of the activity file, NUL-terminated; empty if there is none.
    pub shared_directory: [u8; 256],
    /// UUID.
    pub uuid: [u8; 16],
    /// Device memory, bytes.
    pub memory_bytes: u64,
    /// Compute capability, major.
    pub compute_major: i32,
    /// Compute capability, minor.
    pub compute_minor: i32,
    /// SMs.
    pub sms: u32,
    /// Clock of the SMs, kHz.
    pub clock_khz: u32,
    /// Clock of the memory, kHz.
    pub memory_clock_khz: u32,
    /// Width of the memory's bus, bits.
    pub memory_bus_bits: u32,
}

/// Native code that a device keeps on disk for later processes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CodeStore {
    /// Its directory, NUL-terminated; empty if none is kept.
    pub directory: [u8; 1024],
    /// Not 0 if the directory is not used, because it is not this user's alone, or would not be.
    pub refused: u32,
    /// Functions whose code is kept.
    pub functions: u64,
    /// Those of them that were found again after they were made.
    pub found_again: u64,
    /// Their size, bytes.
    pub bytes: u64,
    /// Most that is kept, bytes.
    pub bytes_max: u64,
}

/// Says where a module's managed variables shall lie: the address of `bytes` bytes of zeros that the
/// calling tenant has registered (cuMemHostRegister), aligned to a page; 0 if there are none.
pub type PlaceManaged = unsafe extern "C" fn(data: *mut c_void, bytes: u64) -> u64;

/// What `tenant_place_variables` says of variables of modules that are loaded from then on.
pub mod variable_place {
    use super::c_uint;

    /// They are in the provider's own memory.
    pub const NONE: c_uint = 0;
    /// None are placed: a module that has some is not loaded (OUT_OF_MEMORY), but how many bytes
    /// they need is given.
    pub const MEASURE: c_uint = 1;
    /// They begin with their first values.
    pub const NEW: c_uint = 2;
    /// They have the values that lie there.
    pub const KEPT: c_uint = 3;
}

/// Where a program finds what its kernels say: what `openmpsTenantPrintf` is asked for.
pub mod standard {
    /// Standard output: device `printf`.
    pub const OUTPUT: u32 = 1;
    /// Standard error: failed assertions.
    pub const ERROR: u32 = 2;
}

/// What `tenant_memory` is notified of about a range, whose accesses are looked at then.
pub mod memory_note {
    use super::c_uint;

    /// Nothing: the call only asks whether accesses are looked at.
    pub const NONE: c_uint = 0;
    /// It is given out and not written yet.
    pub const FRESH: c_uint = 1;
    /// The same, of memory that the host writes by itself: it is filled with a pattern.
    pub const FRESH_SHARED: c_uint = 2;
    /// It was freed.
    pub const FREED: c_uint = 3;
    /// It may have been written anywhere, and is no longer looked at.
    pub const UNKNOWN: c_uint = 4;
}

macro_rules! extension {
    ($($(#[$doc:meta])* $field:ident = $name:ident($($param:ident: $ty:ty),* $(,)?);)*) => {
        /// Exported symbols of the extension.
        pub const SYMBOLS: &[&str] = &[$(stringify!($name)),*];

        /// The functions of the extension, all of them.
        #[derive(Clone, Copy)]
        pub struct Extension {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($param: $ty),*) -> CUresult,)*
        }

        impl Extension {
            /// Builds the table from `lookup`; `None` if a function is missing.
            ///
            /// # Safety
            /// As for [`DriverTable::resolve`](crate::DriverTable::resolve).
            pub unsafe fn resolve(
                mut lookup: impl FnMut(&CStr) -> Option<*const c_void>,
            ) -> Option<Self> {
                Some(Self {$(
                    $field: {
                        let name = CStr::from_bytes_with_nul(
                            concat!(stringify!($name), "\0").as_bytes(),
                        )
                        .ok()?;
                        let address = lookup(name)?;
                        // SAFETY: the caller vouches for the address and the signature.
                        unsafe {
                            core::mem::transmute::<
                                *const c_void,
                                unsafe extern "C" fn($($param: $ty),*) -> CUresult,
                            >(address)
                        }
                    },
                )*})
            }
        }
    };
}

extension! {
    /// Makes a tenant; its number is never 0, which is the tenant of threads without one of their
    /// own.
    tenant_create = openmpsTenantCreate(tenant: *mut u64);
    /// From now on what this thread makes (streams, modules, memory, host registrations,
    /// events) belongs to the tenant. NOT_SUPPORTED, as all functions of tenants, if the device is
    /// set up without them; else 0 always succeeds.
    tenant_bind = openmpsTenantBind(tenant: u64);
    /// Says what the tenant is called where work is distinguished; at most 64 bytes are kept.
    tenant_name = openmpsTenantName(tenant: u64, name: *const c_char);
    /// Answers the tenant's sticky error, or success.
    tenant_error = openmpsTenantError(tenant: u64);
    /// Writes what is known of the tenant's fault, NUL-terminated, at most `bytes` long.
    tenant_fault = openmpsTenantFault(tenant: u64, text: *mut c_char, bytes: usize);
    /// Ends the tenant's kernels wherever they are and drops its queued work; its objects can
    /// be destroyed afterwards, and nothing of it runs any more. A host function (cuLaunchHostFunc)
    /// that is being called is waited for, so that what it was given can be freed too; those that
    /// are still queued are not called.
    tenant_end = openmpsTenantEnd(tenant: u64);
    /// Takes what the tenant's kernels have printed (device `printf`), or what their failed
    /// assertions say, as [`standard`] asks: at most `bytes` into `text`, their number into
    /// `written`; the rest stays for the next call.
    tenant_printf = openmpsTenantPrintf(
        tenant: u64, standard: c_uint, text: *mut c_char, bytes: usize, written: *mut usize);
    /// Does work of the tenant in the calling thread: short kernels and copies then cost no switch
    /// of threads. Comes back when there is none that this thread can do, or after a fraction of
    /// a millisecond (a kernel's block may take up to a millisecond); `worked` is not 0 if it did
    /// some. A thread that has called this once is taken to call it again before it sleeps: what
    /// it submits from then on wakes no other thread at once.
    tenant_work = openmpsTenantWork(tenant: u64, worked: *mut c_int);
    /// From now on a module that this tenant loads has its managed variables where `place` says,
    /// which is called during the load, on the thread that loads, at most once a module. Without
    /// (NULL) they are the provider's own memory.
    tenant_place_managed = openmpsTenantPlaceManaged(
        tenant: u64, place: Option<PlaceManaged>, data: *mut c_void);
    /// From now on variables of modules that this tenant loads (but for managed ones) lie in its
    /// memory from an address on, a multiple of 256, as `how` says: one of [`variable_place`]. What
    /// finds no room there is the provider's own memory. `needed` gets the bytes that the last
    /// module needed that was measured; 0 if it had no variables.
    tenant_place_variables = openmpsTenantPlaceVariables(
        tenant: u64, address: u64, bytes: u64, how: c_uint, needed: *mut u64);
    /// Says what became of the tenant's memory, which it deals out by itself: see [`memory_note`].
    /// NOT_SUPPORTED if accesses are not looked at.
    tenant_memory = openmpsTenantMemory(tenant: u64, address: u64, bytes: u64, note: c_uint);
    /// Has blocks of the tenant's placed on these SMs only, each named once, regardless of what
    /// their streams say; no SMs (0, NULL) are all. Its launches to come are so much less urgent
    /// than their streams say (0: as those say). Blocks that run stay where they are until they
    /// end. For any thread, at any time.
    tenant_limit = openmpsTenantLimit(
        tenant: u64, sms: *const c_uint, count: usize, less_urgent: c_int);
    /// Reads the tenant's counters.
    tenant_usage = openmpsTenantUsage(tenant: u64, usage: *mut TenantUsage);
    /// Reads what the tenant's kernels did, by name: at most `capacity` rows, their number into
    /// `written`; with a capacity of 0, how many there are.
    tenant_kernels = openmpsTenantKernels(
        tenant: u64, rows: *mut KernelUsage, capacity: usize, written: *mut usize);
    /// Begins to keep a [`TraceRecord`] of each piece of the tenant's work that ends (`on` is not 0),
    /// or ends it and drops what was kept.
    tenant_trace = openmpsTenantTrace(tenant: u64, on: c_uint);
    /// Takes the oldest records: at most `capacity`, their number into `written`, and into `lost` the
    /// number of those since the last call for which there was no room.
    tenant_trace_take = openmpsTenantTraceTake(
        tenant: u64, records: *mut TraceRecord, capacity: usize, written: *mut usize,
        lost: *mut u64);
    /// Reads a device's counters.
    device_activity = openmpsDeviceActivity(device: c_int, activity: *mut DeviceActivity);
    /// Describes a device. May be called before cuInit, and initialises nothing.
    device_describe = openmpsDeviceDescribe(
        device: c_int, description: *mut DeviceDescription);
    /// Says what native code a process with this environment would find on disk. May be called
    /// before cuInit, and initialises nothing.
    device_code_store = openmpsDeviceCodeStore(device: c_int, store: *mut CodeStore);
}
