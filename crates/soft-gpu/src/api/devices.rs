//! Devices: those that the process sees, in the order of its list.

use cuda_api::attributes::{COMPUTE_MODE, PCI_BUS_ID};
use cuda_api::constants::p2p_attribute;
use cuda_api::*;
use driver_common::device::{by_pci_bus_id, set_name, set_pci_bus_id};

use super::{Driver, driver, exports};
use crate::device::{attributes, identity};
use crate::error::{Error, Result};

exports! {
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) {
        driver()?;
        check(ordinal)?;
        device.set(ordinal)
    }

    fn cuDeviceGetCount(count: *mut c_int) {
        count.set(driver()?.device.count() as c_int)
    }

    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice) {
        let driver = driver()?;
        check(device)?;
        set_name(name, len, &driver.device.settings.device_name())
    }

    fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice) {
        uuid.set(CUuuid { bytes: identity::uuid(driver()?.device_number(device)?) })
    }

    fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice) {
        uuid.set(CUuuid { bytes: identity::uuid(driver()?.device_number(device)?) })
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice) {
        let driver = driver()?;
        let number = driver.device_number(device)?;
        value.set(match attribute {
            PCI_BUS_ID => identity::pci_bus(number),
            COMPUTE_MODE => driver.compute_mode(check(device)?).number(),
            other => attributes::attribute(&driver.device.settings, other)?,
        })
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) {
        let driver = driver()?;
        // NVIDIA's driver writes before it looks at the device.
        bytes.set(0)?;
        bytes.set(driver.device.memory.info(check(device)?).1 as usize)
    }

    fn cuDeviceGetPCIBusId(pci_bus_id: *mut c_char, len: c_int, device: CUdevice) {
        let id = identity::pci_bus_id(driver()?.device_number(device)?);
        set_pci_bus_id(pci_bus_id, len, &id)
    }

    fn cuDeviceGetByPCIBusId(device: *mut CUdevice, pci_bus_id: *const c_char) {
        let driver = driver()?;
        device.required()?;
        let ids = driver.device.settings.devices.iter().map(|number| identity::pci_bus_id(*number));
        device.set(by_pci_bus_id(pci_bus_id, ids)?)
    }

    fn cuDeviceCanAccessPeer(can_access: *mut c_int, device: CUdevice, peer: CUdevice) {
        let driver = driver()?;
        let (from, of) = (check(device)?, check(peer)?);
        can_access.set(driver.device.can_access_peer(from, of).into())
    }

    fn cuDeviceGetP2PAttribute(
        value: *mut c_int, attribute: c_uint, device: CUdevice, peer: CUdevice,
    ) {
        let driver = driver()?;
        let (from, of) = (check(device)?, check(peer)?);
        // The manual: a device is no peer of itself.
        if from == of {
            return Err(Error::INVALID_DEVICE);
        }
        let access = driver.device.can_access_peer(from, of);
        value.set(match attribute {
            p2p_attribute::PERFORMANCE_RANK | p2p_attribute::ONLY_PARTIAL_NATIVE_ATOMIC => 0,
            p2p_attribute::ACCESS_SUPPORTED
            | p2p_attribute::NATIVE_ATOMIC_SUPPORTED
            | p2p_attribute::CUDA_ARRAY_ACCESS_SUPPORTED => access.into(),
            _ => return Err(Error::INVALID_VALUE),
        })
    }

    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CUdevice) {
        let capability = driver()?.device.settings.capability;
        check(device)?;
        major.set(capability.major as c_int)?;
        minor.set(capability.minor as c_int)
    }
}

impl Driver {
    /// The number on this machine of a device.
    pub(super) fn device_number(&self, device: CUdevice) -> Result<u32> {
        let place = check(device)? as usize;
        self.device.settings.devices.get(place).copied().ok_or(Error::INVALID_DEVICE)
    }
}

/// The ordinal of a device; INVALID_DEVICE for one that the process does not see.
pub(crate) fn check(device: CUdevice) -> Result<u32> {
    let count = driver()?.device.count();
    u32::try_from(device).ok().filter(|device| *device < count).ok_or(Error::INVALID_DEVICE)
}
