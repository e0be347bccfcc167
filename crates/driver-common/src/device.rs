//! Devices: texts by which programs name them, and their oldest description.

use crate::pci;
use core::ffi::{c_char, c_int, c_uint};
use cuda_api::pointer::{In, Out};
use cuda_api::{CUdevice, CUdevprop, CUresult, CudaError};

/// cuDeviceGetName: the name, cut to the `bytes` that the program has room for.
pub fn set_name(to: Out<c_char>, bytes: c_int, name: &str) -> CUresult {
    to.set_text(room(bytes)?, name.as_bytes())
}

/// cuDeviceGetPCIBusId. CUDA_ERROR_INVALID_VALUE for a buffer that is too small: unlike a name, an id
/// that is cut is worth nothing.
pub fn set_pci_bus_id(to: Out<c_char>, bytes: c_int, id: &str) -> CUresult {
    match room(bytes)? {
        bytes if bytes > id.len() => to.set_text(bytes, id.as_bytes()),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

fn room(bytes: c_int) -> Result<usize, CudaError> {
    usize::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE)
}

/// cuDeviceGetByPCIBusId among the ids of all devices. CUDA_ERROR_INVALID_VALUE for a text that is no
/// address, CUDA_ERROR_INVALID_DEVICE for that of another device.
pub fn by_pci_bus_id<T: AsRef<str>>(
    id: In<c_char>,
    ids: impl IntoIterator<Item = T>,
) -> Result<CUdevice, CudaError> {
    let wanted = id.text()?.to_str().ok().and_then(pci::address).ok_or(CudaError::INVALID_VALUE)?;
    let found = ids.into_iter().position(|id| pci::address(id.as_ref()) == Some(wanted));
    Ok(found.ok_or(CudaError::INVALID_DEVICE)? as CUdevice)
}

/// cuDeviceGetProperties, by the device's attributes, which are the first of all.
pub fn properties(attribute: impl Fn(c_uint) -> c_int) -> CUdevprop {
    CUdevprop {
        maxThreadsPerBlock: attribute(1),
        maxThreadsDim: [2, 3, 4].map(&attribute),
        maxGridSize: [5, 6, 7].map(&attribute),
        sharedMemPerBlock: attribute(8),
        totalConstantMemory: attribute(9),
        SIMDWidth: attribute(10),
        memPitch: attribute(11),
        regsPerBlock: attribute(12),
        clockRate: attribute(13),
        textureAlign: attribute(14),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passed;

    #[test]
    fn a_device_is_found_by_its_address_in_any_spelling() {
        let find = |id: &core::ffi::CStr| {
            by_pci_bus_id(passed(id.as_ptr()), ["0000:01:00.0", "0000:0a:00.0"])
        };
        assert_eq!((find(c"0A:0"), find(c"0000:01:00.0")), (Ok(1), Ok(0)));
        assert_eq!(find(c"0000:02:00.0"), Err(CudaError::INVALID_DEVICE));
        assert_eq!(find(c"nonsense"), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn a_name_is_cut_and_an_address_is_not() {
        let mut text = [1u8; 8];
        let to = passed(text.as_mut_ptr().cast::<c_char>());
        set_name(to, 4, "a device").unwrap();
        assert_eq!(&text[..5], b"a d\0\x01");
        assert_eq!(set_pci_bus_id(to, 4, "0a:0"), Err(CudaError::INVALID_VALUE));
        assert_eq!(set_name(to, -1, "a device"), Err(CudaError::INVALID_VALUE));
        set_pci_bus_id(to, 5, "0a:0").unwrap();
        assert_eq!(&text[..5], b"0a:0\0");
    }
}
