//! Functions that a provider may export beside the driver API.
//!
//! NVIDIA's driver has none of them; the software GPU has all. A *tenant* is a share of one
//! context: its own set of addresses that its kernels may touch, and its own faults. With tenants
//! a server gives its clients in one context what hardware cannot: a fault or an endless kernel
//! of one of them is nobody else's. A caller that finds the functions missing goes without.

use crate::types::CUresult;
use core::ffi::{CStr, c_char, c_int, c_void};

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
    /// Makes a tenant; its number is never 0, which is the tenant of everybody else.
    tenant_create = openmpsTenantCreate(tenant: *mut u64);
    /// From now on what this thread makes (streams, modules, memory, host registrations,
    /// events) belongs to the tenant.
    tenant_bind = openmpsTenantBind(tenant: u64);
    /// Answers the tenant's sticky error, or success.
    tenant_error = openmpsTenantError(tenant: u64);
    /// Writes what is known of the tenant's fault, NUL-terminated, at most `bytes` long.
    tenant_fault = openmpsTenantFault(tenant: u64, text: *mut c_char, bytes: usize);
    /// Ends the tenant's kernels wherever they are and drops its queued work; its objects can
    /// be destroyed afterwards, and nothing of it runs any more.
    tenant_end = openmpsTenantEnd(tenant: u64);
    /// Takes what the tenant's kernels have printed (device `printf`): at most `bytes` into
    /// `text`, their number into `written`; the rest stays for the next call.
    tenant_printf = openmpsTenantPrintf(
        tenant: u64, text: *mut c_char, bytes: usize, written: *mut usize);
    /// Does work of the tenant in the calling thread: short kernels and copies then cost no switch
    /// of threads. Comes back when there is none that this thread can do, or after a fraction of
    /// a millisecond (a kernel's block may take up to a millisecond); `worked` is not 0 if it did
    /// some. A thread that has called this once is taken to call it again before it sleeps: what
    /// it submits from then on wakes no other thread at once.
    tenant_work = openmpsTenantWork(tenant: u64, worked: *mut c_int);
    /// Reads the tenant's counters.
    tenant_usage = openmpsTenantUsage(tenant: u64, usage: *mut TenantUsage);
    /// Reads a device's counters.
    device_activity = openmpsDeviceActivity(device: c_int, activity: *mut DeviceActivity);
}
