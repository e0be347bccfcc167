//! Devices (the manual's "Device Management"): all from what the server said at the handshake.

use crate::boundary::{In, Out};
use crate::program::attributes::attribute_of;
use crate::program::mode;
use channel::message::Device;
use core::ffi::{c_char, c_int, c_uint};
use cuda_api::attributes as attribute;
use cuda_api::{CUdevice, CUresult, CUuuid, CudaError};
use driver_common::device::{by_pci_bus_id, set_name, set_pci_bus_id};

pub(super) fn device(device: CUdevice) -> Result<&'static Device, CudaError> {
    let index = usize::try_from(device).map_err(|_| CudaError::INVALID_DEVICE)?;
    mode::program()?.devices().get(index).ok_or(CudaError::INVALID_DEVICE)
}

pub(crate) fn cuDeviceGet(result: Out<CUdevice>, ordinal: c_int) -> CUresult {
    mode::program()?;
    result.required()?;
    device(ordinal)?;
    result.set(ordinal)
}

pub(crate) fn cuDeviceGetCount(count: Out<c_int>) -> CUresult {
    count.set(mode::program()?.devices().len() as c_int)
}

pub(crate) fn cuDeviceGetName(name: Out<c_char>, len: c_int, d: CUdevice) -> CUresult {
    set_name(name, len, &device(d)?.name)
}

pub(crate) fn cuDeviceGetUuid(uuid: Out<CUuuid>, d: CUdevice) -> CUresult {
    uuid.set(device(d)?.uuid)
}

pub(crate) fn cuDeviceGetUuid_v2(uuid: Out<CUuuid>, d: CUdevice) -> CUresult {
    cuDeviceGetUuid(uuid, d)
}

pub(crate) fn cuDeviceGetAttribute(value: Out<c_int>, number: c_uint, d: CUdevice) -> CUresult {
    let device = device(d)?;
    value.required()?;
    if number == 0 || number as usize >= device.attributes.len() {
        return Err(CudaError::INVALID_VALUE);
    }
    // The current context may have fewer.
    if number == attribute::MULTIPROCESSOR_COUNT
        && let Ok(client) = mode::program()?.client_at(d as usize)
    {
        return value.set(client.sms_here());
    }
    value.set(attribute_of(device, number))
}

pub(crate) fn cuDeviceTotalMem_v2(bytes: Out<usize>, d: CUdevice) -> CUresult {
    // NVIDIA's driver writes before it looks at the device.
    bytes.set(0)?;
    let total = device(d)?.memory_bytes;
    bytes.set(usize::try_from(total).unwrap_or(usize::MAX))
}

pub(crate) fn cuDeviceGetPCIBusId(id: Out<c_char>, len: c_int, d: CUdevice) -> CUresult {
    set_pci_bus_id(id, len, &device(d)?.pci_bus_id)
}

pub(crate) fn cuDeviceGetByPCIBusId(result: Out<CUdevice>, id: In<c_char>) -> CUresult {
    let devices = mode::program()?.devices();
    result.required()?;
    result.set(by_pci_bus_id(id, devices.iter().map(|device| &device.pci_bus_id))?)
}

pub(crate) fn cuDeviceCanAccessPeer(can: Out<c_int>, d: CUdevice, peer: CUdevice) -> CUresult {
    device(d)?;
    device(peer)?;
    can.set(mode::program()?.can_access(d, peer).into())
}

pub(crate) fn cuDeviceComputeCapability(
    major: Out<c_int>,
    minor: Out<c_int>,
    d: CUdevice,
) -> CUresult {
    let device = device(d)?;
    minor.required()?;
    major.set(attribute_of(device, attribute::COMPUTE_CAPABILITY_MAJOR))?;
    minor.set(attribute_of(device, attribute::COMPUTE_CAPABILITY_MINOR))
}

pub(crate) fn cuDeviceGetP2PAttribute(
    value: Out<c_int>,
    number: c_uint,
    from: CUdevice,
    to: CUdevice,
) -> CUresult {
    const PERFORMANCE_RANK: c_uint = 1;
    const LAST: c_uint = 5;
    device(from)?;
    device(to)?;
    if from == to {
        return Err(CudaError::INVALID_DEVICE);
    }
    let peer = mode::program()?.peer(from, to).copied().unwrap_or_default();
    match number {
        PERFORMANCE_RANK..=LAST => value.set(peer.attribute(number).unwrap_or(0)),
        _ => Err(CudaError::INVALID_VALUE),
    }
}
