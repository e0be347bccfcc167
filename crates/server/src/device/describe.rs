//! Devices as a provider describes them, without a context on any.

use super::safe_calls::SafeCalls;
use super::sms::green;
use super::{DeviceError, Driver, step, text};
use channel::message::{self, DEVICE_ATTRIBUTES, DEVICES_MAX, Devices, PEER_ATTRIBUTES, Peer};
use cuda_api::attributes::COMPUTE_MODE;
use cuda_api::{CUdevice, CUuuid, CudaError};
use std::ffi::c_int;

/// Longest name of a device asked for, bytes.
const NAME_BYTES_MAX: usize = 256;
/// Longest PCI bus id, bytes: `00000000:00:00.0` and room to spare.
const PCI_BUS_ID_BYTES_MAX: usize = 32;

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

    /// Asks a provider that is initialised.
    pub(super) fn read(calls: SafeCalls, ordinal: CUdevice) -> Result<Self, DeviceError> {
        let mut name = [0u8; NAME_BYTES_MAX];
        let mut pci = [0u8; PCI_BUS_ID_BYTES_MAX];
        let uuid = uuid_of(calls, ordinal)?;
        let mut bytes = 0usize;
        step("cuDeviceGetName", calls.cuDeviceGetName(&mut name, ordinal))?;
        step("cuDeviceTotalMem", calls.cuDeviceTotalMem_v2(&mut bytes, ordinal))?;
        step("cuDeviceGetPCIBusId", calls.cuDeviceGetPCIBusId(&mut pci, ordinal))?;
        let mut attributes = [0; DEVICE_ATTRIBUTES];
        for (number, value) in attributes.iter_mut().enumerate() {
            let mut answer = 0;
            if calls.cuDeviceGetAttribute(&mut answer, number as u32, ordinal).is_ok() {
                *value = answer;
            }
        }
        Ok(Self {
            name: text(&name),
            uuid: uuid.bytes,
            memory_bytes: bytes as u64,
            pci_bus_id: text(&pci),
            attributes,
            sm_groups: green::groups_of_sms(calls, ordinal).unwrap_or(0),
        })
    }
}

impl From<DeviceInfo> for message::Device {
    fn from(info: DeviceInfo) -> Self {
        Self {
            name: info.name,
            uuid: CUuuid { bytes: info.uuid },
            memory_bytes: info.memory_bytes,
            pci_bus_id: info.pci_bus_id,
            attributes: info.attributes,
            sm_groups: info.sm_groups,
            peers: Vec::new(),
        }
    }
}

/// Describes all devices of a provider, and what each can do with the others. Makes no context.
pub fn describe_all(driver: Driver) -> Result<Devices, DeviceError> {
    let calls = SafeCalls(driver.table);
    let driver_version = initialise(calls)?;
    let count = device_count(calls)?.min(DEVICES_MAX as CUdevice);
    let mut devices = Vec::new();
    for ordinal in 0..count {
        let mut device = message::Device::from(DeviceInfo::read(calls, ordinal)?);
        device.peers = (0..count).map(|other| peer(calls, ordinal, other)).collect();
        devices.push(device);
    }
    Ok(Devices { driver_version, devices })
}

/// Initialises a provider. Returns its CUDA version.
pub(super) fn initialise(calls: SafeCalls) -> Result<c_int, DeviceError> {
    let mut version = 0;
    step("cuInit", calls.cuInit(0))?;
    step("cuDriverGetVersion", calls.cuDriverGetVersion(&mut version))?;
    Ok(version)
}

/// The device with this UUID.
pub(super) fn ordinal_of(calls: SafeCalls, wanted: CUuuid) -> Result<CUdevice, DeviceError> {
    for ordinal in 0..device_count(calls)? {
        if uuid_of(calls, ordinal)? == wanted {
            return Ok(ordinal);
        }
    }
    step("the search for the device's UUID", Err(CudaError::INVALID_DEVICE)).map(|()| 0)
}

pub(super) fn device_count(calls: SafeCalls) -> Result<CUdevice, DeviceError> {
    let mut count = 0;
    step("cuDeviceGetCount", calls.cuDeviceGetCount(&mut count))?;
    Ok(count)
}

impl super::Device {
    /// True if the device's compute mode is PROHIBITED now.
    pub fn is_prohibited(&self) -> bool {
        /// CU_COMPUTEMODE_PROHIBITED.
        const PROHIBITED: i32 = 2;
        let mut mode = 0;
        let asked = self.calls().cuDeviceGetAttribute(&mut mode, COMPUTE_MODE, self.ordinal());
        asked.is_ok() && mode == PROHIBITED
    }
}

fn uuid_of(calls: SafeCalls, ordinal: CUdevice) -> Result<CUuuid, DeviceError> {
    let mut uuid = CUuuid::default();
    step("cuDeviceGetUuid", calls.cuDeviceGetUuid_v2(&mut uuid, ordinal))
        .or_else(|_| step("cuDeviceGetUuid", calls.cuDeviceGetUuid(&mut uuid, ordinal)))?;
    Ok(uuid)
}

/// What a device can do with another one's memory; zeros for itself, and where the provider does
/// not say.
fn peer(calls: SafeCalls, from: CUdevice, to: CUdevice) -> Peer {
    let mut peer = Peer::default();
    if from == to {
        return peer;
    }
    for (place, value) in peer.attributes.iter_mut().enumerate().take(PEER_ATTRIBUTES) {
        let mut answer = 0;
        let asked = calls.cuDeviceGetP2PAttribute(&mut answer, place as u32 + 1, from, to);
        if asked.is_ok() {
            *value = answer;
        }
    }
    peer
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
