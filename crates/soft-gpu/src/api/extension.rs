//! What this provider offers beyond the driver API: tenants, and counters of the device.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use cuda_api::attributes::{CLOCK_RATE, GLOBAL_MEMORY_BUS_WIDTH, MEMORY_CLOCK_RATE};
use cuda_api::extension::{
    CodeStore, DeviceActivity, DeviceDescription, KernelUsage, PlaceManaged, TenantUsage,
    TraceRecord, USAGE_NAME_BYTES, standard,
};

use super::context_waits::Waits;
use super::{Driver, devices, driver, export, thread};
use crate::device::execution::turn::TurnFile;
use crate::device::memory::device_directory;
use crate::device::memory::variable_place::VariablePlace;
use crate::device::settings::{Settings, installed_devices};
use crate::device::tenant::{Tenant, TenantId};
use crate::device::{attributes, identity};
use crate::error::{Error, Result};

impl Driver {
    /// NOT_SUPPORTED if the device is set up without tenants.
    fn check_tenants(&self) -> Result {
        if self.device.settings.tenants { Ok(()) } else { Err(Error::NOT_SUPPORTED) }
    }

    fn tenant_of(&self, number: u64) -> Result<Arc<Tenant>> {
        self.check_tenants()?;
        self.device.tenant(TenantId(number)).ok_or(Error::INVALID_HANDLE)
    }
}

/// Defines exported functions of the extension.
macro_rules! extension {
    ($(fn $name:ident $params:tt $body:block)*) => {
        $(export!($name $params, Waits::Nothing, $body);)*

    /// The functions have the types that callers take them by.
    const _: fn() = || {
        let _ = cuda_api::extension::Extension {
            tenant_create: openmpsTenantCreate,
            tenant_bind: openmpsTenantBind,
            tenant_name: openmpsTenantName,
            tenant_error: openmpsTenantError,
            tenant_fault: openmpsTenantFault,
            tenant_end: openmpsTenantEnd,
            tenant_printf: openmpsTenantPrintf,
            tenant_work: openmpsTenantWork,
            tenant_place_managed: openmpsTenantPlaceManaged,
            tenant_place_variables: openmpsTenantPlaceVariables,
            tenant_memory: openmpsTenantMemory,
            tenant_limit: openmpsTenantLimit,
            tenant_usage: openmpsTenantUsage,
            tenant_kernels: openmpsTenantKernels,
            tenant_trace: openmpsTenantTrace,
            tenant_trace_take: openmpsTenantTraceTake,
            device_activity: openmpsDeviceActivity,
            device_describe: openmpsDeviceDescribe,
            device_code_store: openmpsDeviceCodeStore,
        };
    };};
}

extension! {
    fn openmpsTenantCreate(tenant: *mut u64) {
        let driver = driver()?;
        driver.check_tenants()?;
        tenant.required()?;
        let device = thread::top()?.map_or(0, |context| context.device);
        tenant.set(driver.device.create_tenant_on(device)?.id.0)
    }

    fn openmpsTenantBind(tenant: u64) {
        let driver = driver()?;
        driver.check_tenants()?;
        thread::bind(match tenant {
            0 => None,
            number => Some(driver.tenant_of(number)?),
        })
    }

    fn openmpsTenantName(tenant: u64, name: *const c_char) {
        driver()?.tenant_of(tenant)?.set_name(&name.text()?.to_string_lossy());
        Ok(())
    }

    fn openmpsTenantError(tenant: u64) {
        driver()?.tenant_of(tenant)?.sticky()
    }

    fn openmpsTenantFault(tenant: u64, text: *mut c_char, bytes: usize) {
        let tenant = driver()?.tenant_of(tenant)?;
        let fault = tenant.fault_text().unwrap_or_default();
        text.set_text(bytes, fault.as_bytes())
    }

    fn openmpsTenantEnd(tenant: u64) {
        let driver = driver()?;
        let tenant = driver.tenant_of(tenant)?;
        if driver.device.is_default(&tenant) {
            return Err(Error::INVALID_VALUE);
        }
        driver.device.end_tenant(&tenant);
        Ok(())
    }

    fn openmpsTenantPrintf(
        tenant: u64, standard: c_uint, text: *mut c_char, bytes: usize, written: *mut usize,
    ) {
        let tenant = driver()?.tenant_of(tenant)?;
        let kept = match standard {
            standard::OUTPUT => &*tenant.printf,
            standard::ERROR => &tenant.assertions,
            _ => return Err(Error::INVALID_VALUE),
        };
        written.required()?;
        if text.is_null() && bytes > 0 {
            return Err(Error::INVALID_VALUE);
        }
        let taken = kept.take_up_to(bytes);
        for (index, byte) in taken.iter().enumerate() {
            text.array(bytes).set(index, *byte as _)?;
        }
        written.set(taken.len())
    }

    fn openmpsTenantWork(tenant: u64, worked: *mut c_int) {
        let driver = driver()?;
        worked.required()?;
        // A thread works for the tenant it is bound to; any other has to be looked up.
        let id = match driver.tenant() {
            bound if bound.id == TenantId(tenant) => bound.id,
            _ => driver.tenant_of(tenant)?.id,
        };
        worked.set(driver.device.work_for(id).into())
    }

    fn openmpsTenantPlaceManaged(
        tenant: u64, place: Option<PlaceManaged>, data: *mut c_void,
    ) {
        driver()?.tenant_of(tenant)?.place_managed(place.map(|place| (place, data.address())));
        Ok(())
    }

    fn openmpsTenantPlaceVariables(
        tenant: u64, address: u64, bytes: u64, how: c_uint, needed: *mut u64,
    ) {
        let tenant = driver()?.tenant_of(tenant)?;
        let place = VariablePlace::new(address, bytes, how).ok_or(Error::INVALID_VALUE)?;
        let mut variables = tenant.variables.lock();
        let before = std::mem::replace(&mut *variables, place);
        needed.set_if_wanted(before.needed());
        Ok(())
    }

    fn openmpsTenantMemory(tenant: u64, address: u64, bytes: u64, note: c_uint) {
        let driver = driver()?;
        let tenant = driver.tenant_of(tenant)?;
        driver.device.note_memory(&tenant, address, bytes, note)
    }

    fn openmpsTenantLimit(
        tenant: u64, sms: *const c_uint, count: usize, less_urgent: c_int,
    ) {
        let driver = driver()?;
        let tenant = driver.tenant_of(tenant)?;
        let all = driver.device.settings.sms;
        if count > all as usize || less_urgent < 0 {
            return Err(Error::INVALID_VALUE);
        }
        let mut own = sms.array(count).iter().collect::<Result<Vec<u32>>>()?;
        own.sort_unstable();
        own.dedup();
        if own.len() != count || own.last().is_some_and(|last| *last >= all) {
            return Err(Error::INVALID_VALUE);
        }
        let own = (!own.is_empty()).then(|| own.into());
        driver.device.limit_tenant(&tenant, own, less_urgent);
        Ok(())
    }

    fn openmpsTenantUsage(tenant: u64, usage: *mut TenantUsage) {
        let driver = driver()?;
        let used = driver.device.usage(&*driver.tenant_of(tenant)?);
        usage.set(TenantUsage {
            kernels: used.kernels,
            blocks: used.blocks,
            busy_ns: used.busy_ns,
            memory_bytes: used.memory_bytes,
            worker_ns: used.worker_ns,
            warp_instructions: used.counters.warp_instructions,
            thread_instructions: used.counters.thread_instructions,
            global_bytes: used.counters.global_bytes,
            sm_active_ns: used.sm_ns,
            warp_ns: used.warp_ns,
            kernel_ns: used.kernel_ns,
        })
    }

    fn openmpsTenantKernels(
        tenant: u64, rows: *mut KernelUsage, capacity: usize, written: *mut usize,
    ) {
        let driver = driver()?;
        written.required()?;
        let kernels = driver.device.kernel_totals_of(&*driver.tenant_of(tenant)?);
        if capacity == 0 {
            return written.set(kernels.len());
        }
        let count = kernels.len().min(capacity);
        for (index, row) in kernels.iter().take(count).enumerate() {
            let totals = &row.totals;
            rows.array(capacity).set(index, KernelUsage {
                launches: totals.launches,
                blocks: totals.blocks,
                kernel_ns: totals.span_ns,
                worker_ns: totals.worker_ns,
                sm_active_ns: totals.sm_ns,
                warp_ns: totals.warp_ns,
                warp_instructions: totals.warp_instructions,
                thread_instructions: totals.thread_instructions,
                global_bytes: totals.global_bytes,
                name: {
                    let name = row.kernel.as_bytes();
                    text(&name[..name.len().min(USAGE_NAME_BYTES - 1)])
                },
            })?;
        }
        written.set(count)
    }

    fn openmpsTenantTrace(tenant: u64, on: c_uint) {
        let driver = driver()?;
        driver.device.set_trace(&*driver.tenant_of(tenant)?, on != 0);
        Ok(())
    }

    fn openmpsTenantTraceTake(
        tenant: u64, records: *mut TraceRecord, capacity: usize, written: *mut usize,
        lost: *mut u64,
    ) {
        let driver = driver()?;
        written.required()?;
        lost.required()?;
        let (taken, gone) = driver.device.take_trace(&*driver.tenant_of(tenant)?, capacity);
        for (index, record) in taken.iter().enumerate() {
            records.array(capacity).set(index, *record)?;
        }
        lost.set(gone)?;
        written.set(taken.len())
    }

    fn openmpsDeviceActivity(device: c_int, activity: *mut DeviceActivity) {
        let driver = driver()?;
        devices::check(device)?;
        let totals = driver.device.activity();
        activity.set(DeviceActivity {
            elapsed_ns: totals.total_ns,
            kernel_ns: totals.any_kernel_ns,
            sm_active_ns: totals.sm_ns,
            warp_ns: totals.warp_ns,
            sms: totals.sms,
            warps_per_sm: driver.device.settings.capability.warps,
        })
    }

    fn openmpsDeviceDescribe(device: c_int, description: *mut DeviceDescription) {
        let number = number_of(device)?;
        let settings = Settings::from_environment();
        let attribute = |which| attributes::attribute(&settings, which).map(|value| value as u32);
        let meeting_place = TurnFile::open(&settings.turn_dirs).ok();
        let directory = meeting_place.map(|file| device_directory(file.dir(), number));
        let directory = directory.as_ref().map(|directory| directory.as_os_str().as_bytes());
        description.set(DeviceDescription {
            name: text(settings.device_name().as_bytes()),
            pci_bus_id: text(identity::pci_bus_id(number).as_bytes()),
            shared_directory: text(directory.unwrap_or_default()),
            uuid: identity::uuid(number),
            memory_bytes: settings.memory_bytes,
            compute_major: settings.capability.major as i32,
            compute_minor: settings.capability.minor as i32,
            sms: settings.sms,
            clock_khz: attribute(CLOCK_RATE)?,
            memory_clock_khz: attribute(MEMORY_CLOCK_RATE)?,
            memory_bus_bits: attribute(GLOBAL_MEMORY_BUS_WIDTH)?,
        })
    }

    fn openmpsDeviceCodeStore(device: c_int, store: *mut CodeStore) {
        number_of(device)?;
        let found = Settings::from_environment().code_store.map(|place| place.open());
        let directory = found.as_ref().map(|found| found.directory().as_os_str().as_bytes());
        let usage = found.as_ref().map(|found| found.usage());
        let kept = usage.flatten().unwrap_or_default();
        store.set(CodeStore {
            directory: text(directory.unwrap_or_default()),
            refused: u32::from(usage == Some(None)),
            functions: kept.functions,
            found_again: kept.found_again,
            bytes: kept.bytes,
            bytes_max: found.as_ref().map_or(0, |found| found.bytes_max()),
        })
    }
}

/// The number of a device on this machine, whether this process is to see it or not.
fn number_of(device: c_int) -> Result<u32> {
    let number = u32::try_from(device).ok();
    number.filter(|number| *number < installed_devices()).ok_or(Error::INVALID_DEVICE)
}

/// A NUL-terminated text; empty if it is too long.
fn text<const BYTES: usize>(text: &[u8]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    if text.len() < BYTES {
        bytes[..text.len()].copy_from_slice(text);
    }
    bytes
}
