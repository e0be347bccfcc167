//! Identity: which devices there are and what they are called.

use super::{Handle, functions};
use crate::device::Device;
use crate::mode;
use crate::out::{Out, Text};
use crate::status::{Answer, Failure};
use std::ffi::{c_char, c_int, c_uint};

/// NVML_BRAND_UNKNOWN.
const BRAND_UNKNOWN: c_uint = 0;
/// NVML_DEVICE_ARCH_MAXWELL and its successors: the first compute capability of each, latest first.
const ARCHITECTURES: &[((i32, i32), c_uint)] = &[
    ((10, 0), 10),
    ((9, 0), 9),
    ((8, 9), 8),
    ((8, 0), 7),
    ((7, 5), 6),
    ((7, 0), 5),
    ((6, 0), 4),
    ((5, 0), 3),
];
/// Cores of an SM: what does an f32 operation in a cycle. Of compute capabilities that are not
/// listed, it has as many as Maxwell had.
const CORES: &[((i32, i32), u32)] =
    &[((6, 0), 64), ((7, 0), 64), ((7, 2), 64), ((7, 5), 64), ((8, 0), 64)];
/// See [`CORES`].
const CORES_ELSEWHERE: u32 = 128;
/// NVML_BUS_TYPE_UNKNOWN.
const BUS_UNKNOWN: c_uint = 0;

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PciInfo {
    bus_id_legacy: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_subsystem_id: c_uint,
    bus_id: [u8; 32],
}

/// `nvmlPciInfoExt_v1_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PciInfoExt {
    version: c_uint,
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_subsystem_id: c_uint,
    base_class: c_uint,
    sub_class: c_uint,
    bus_id: [u8; 32],
}

functions! {
    fn nvmlDeviceGetCount(count: *mut c_uint) {
        count.set(mode::devices()?.len() as c_uint)
    }

    fn nvmlDeviceGetCount_v2(count: *mut c_uint) {
        count.set(mode::devices()?.len() as c_uint)
    }

    fn nvmlDeviceGetHandleByIndex(index: c_uint, handle: *mut Handle) {
        by_index(index, handle)
    }

    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, handle: *mut Handle) {
        by_index(index, handle)
    }

    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, handle: *mut Handle) {
        let wanted = uuid.get()?;
        found(|device| wanted == device.uuid_text(), handle)
    }

    fn nvmlDeviceGetHandleByPciBusId(id: *const c_char, handle: *mut Handle) {
        by_bus_id(id, handle)
    }

    fn nvmlDeviceGetHandleByPciBusId_v2(id: *const c_char, handle: *mut Handle) {
        by_bus_id(id, handle)
    }

    fn nvmlDeviceGetIndex(handle: Handle, index: *mut c_uint) {
        index.set(handle.index()?)
    }

    fn nvmlDeviceGetMinorNumber(handle: Handle, number: *mut c_uint) {
        number.set(handle.index()?)
    }

    fn nvmlDeviceGetModuleId(handle: Handle, number: *mut c_uint) {
        number.set(handle.index()?)
    }

    fn nvmlDeviceGetBoardId(handle: Handle, number: *mut c_uint) {
        number.set(handle.index()?)
    }

    fn nvmlDeviceGetMultiGpuBoard(handle: Handle, several: *mut c_uint) {
        handle.device()?;
        several.set(0)
    }

    fn nvmlDeviceGetName(handle: Handle, name: *mut c_char, length: c_uint) {
        name.set_text(&handle.device()?.name, length)
    }

    fn nvmlDeviceGetUUID(handle: Handle, uuid: *mut c_char, length: c_uint) {
        uuid.set_text(&handle.device()?.uuid_text(), length)
    }

    fn nvmlDeviceGetBrand(handle: Handle, brand: *mut c_uint) {
        handle.device()?;
        brand.set(BRAND_UNKNOWN)
    }

    fn nvmlDeviceGetArchitecture(handle: Handle, architecture: *mut c_uint) {
        let capability = handle.device()?.compute_capability;
        let row = ARCHITECTURES.iter().find(|(least, _)| capability >= *least);
        architecture.set(row.ok_or(Failure::NOT_SUPPORTED)?.1)
    }

    fn nvmlDeviceGetNumGpuCores(handle: Handle, cores: *mut c_uint) {
        let device = handle.device()?;
        let row = CORES.iter().find(|(of, _)| *of == device.compute_capability);
        cores.set(device.sms * row.map_or(CORES_ELSEWHERE, |(_, cores)| *cores))
    }

    fn nvmlDeviceGetCudaComputeCapability(
        handle: Handle, major: *mut c_int, minor: *mut c_int,
    ) {
        let capability = handle.device()?.compute_capability;
        major.set(capability.0)?;
        minor.set(capability.1)
    }

    fn nvmlDeviceGetBusType(handle: Handle, kind: *mut c_uint) {
        handle.device()?;
        kind.set(BUS_UNKNOWN)
    }

    fn nvmlDeviceGetPciInfo(handle: Handle, info: *mut PciInfo) {
        pci_info(handle, info)
    }

    fn nvmlDeviceGetPciInfo_v2(handle: Handle, info: *mut PciInfo) {
        pci_info(handle, info)
    }

    fn nvmlDeviceGetPciInfo_v3(handle: Handle, info: *mut PciInfo) {
        pci_info(handle, info)
    }

    fn nvmlDeviceGetPciInfoExt(handle: Handle, info: *mut PciInfoExt) {
        let device = handle.device()?;
        let version = info.get()?.version;
        if version != (1 << 24 | size_of::<PciInfoExt>() as c_uint) {
            return Err(Failure::ARGUMENT_VERSION_MISMATCH);
        }
        let [domain, bus, slot] = device.pci_numbers();
        info.set(PciInfoExt {
            version, domain, bus, device: slot, pci_device_id: 0, pci_subsystem_id: 0,
            base_class: 0, sub_class: 0, bus_id: text(&device.pci_bus_id(8)),
        })
    }
}

fn by_index(index: c_uint, handle: Out<Handle>) -> Answer {
    // An index beyond the last is an argument out of range, unlike a UUID that no device has.
    if index as usize >= mode::devices()?.len() {
        return Err(Failure::INVALID_ARGUMENT);
    }
    handle.set(Handle::of(index as usize))
}

fn by_bus_id(id: Text, handle: Out<Handle>) -> Answer {
    let wanted = id.get()?;
    found(|device| device.is_at(&wanted), handle)
}

fn found(is_it: impl Fn(&Device) -> bool, handle: Out<Handle>) -> Answer {
    let index = mode::devices()?.iter().position(is_it).ok_or(Failure::NOT_FOUND)?;
    handle.set(Handle::of(index))
}

fn pci_info(handle: Handle, info: Out<PciInfo>) -> Answer {
    let device: &Device = handle.device()?;
    let [domain, bus, slot] = device.pci_numbers();
    info.set(PciInfo {
        bus_id_legacy: text(&device.pci_bus_id(4)),
        domain,
        bus,
        device: slot,
        pci_device_id: 0,
        pci_subsystem_id: 0,
        bus_id: text(&device.pci_bus_id(8)),
    })
}

/// A NUL-terminated text, cut if it is too long.
fn text<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (place, byte) in bytes[..BYTES - 1].iter_mut().zip(text.bytes()) {
        *place = byte;
    }
    bytes
}
