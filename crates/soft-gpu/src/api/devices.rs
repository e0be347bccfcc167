//! Devices: there is one.

use cuda_api::*;

use super::{driver, exports};
use crate::device::{attributes, identity};
use crate::error::{Error, Result};

/// Where the device says it is on the PCI bus, which it is not.
pub(super) const PCI_BUS_ID: &str = "0000:00:00.0";

exports! {
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) {
        driver()?;
        check(ordinal)?;
        device.set(0)
    }

    fn cuDeviceGetCount(count: *mut c_int) {
        driver()?;
        count.set(1)
    }

    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice) {
        let driver = driver()?;
        check(device)?;
        let bytes = usize::try_from(len).map_err(|_| Error::INVALID_VALUE)?;
        name.set_text(bytes, identity::name(&driver.device.settings).as_bytes())
    }

    fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice) {
        driver()?;
        check(device)?;
        uuid.set(CUuuid { bytes: identity::uuid() })
    }

    fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice) {
        driver()?;
        check(device)?;
        uuid.set(CUuuid { bytes: identity::uuid() })
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice) {
        let driver = driver()?;
        check(device)?;
        value.set(attributes::attribute(&driver.device.settings, attribute)?)
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) {
        let driver = driver()?;
        check(device)?;
        bytes.set(driver.device.memory.info().1 as usize)
    }

    fn cuDeviceGetPCIBusId(pci_bus_id: *mut c_char, len: c_int, device: CUdevice) {
        driver()?;
        check(device)?;
        let bytes = usize::try_from(len).map_err(|_| Error::INVALID_VALUE)?;
        pci_bus_id.set_text(bytes, PCI_BUS_ID.as_bytes())
    }

    fn cuDeviceGetByPCIBusId(device: *mut CUdevice, pci_bus_id: *const c_char) {
        driver()?;
        let wanted = pci_bus_id.text()?.to_str().map_err(|_| Error::INVALID_VALUE)?;
        // Domain and function may be left out.
        if ![PCI_BUS_ID, "0000:00:00", "00:00.0", "00:00"].contains(&wanted) {
            return Err(Error::INVALID_DEVICE);
        }
        device.set(0)
    }

    fn cuDeviceCanAccessPeer(can_access: *mut c_int, device: CUdevice, peer: CUdevice) {
        driver()?;
        check(device)?;
        check(peer)?;
        can_access.set(0)
    }

    fn cuDeviceGetP2PAttribute(
        _value: *mut c_int, _attribute: c_uint, device: CUdevice, peer: CUdevice,
    ) {
        driver()?;
        check(device)?;
        check(peer)?;
        // The manual: a device is no peer of itself.
        Err(Error::INVALID_DEVICE)
    }

    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CUdevice) {
        let capability = driver()?.device.settings.capability;
        check(device)?;
        major.set(capability.major as c_int)?;
        minor.set(capability.minor as c_int)
    }
}

/// INVALID_DEVICE for any device but the one there is.
pub(crate) fn check(device: CUdevice) -> Result {
    if device == 0 { Ok(()) } else { Err(Error::INVALID_DEVICE) }
}
