//! What a provider of our own says of its devices, without initialising any.

use cuda_api::extension::{CodeStore, DeviceDescription, Extension};
use std::mem::MaybeUninit;

/// A device; `None` if there is none of that number.
pub(crate) fn describe(extension: &Extension, ordinal: i32) -> Option<DeviceDescription> {
    let mut description = MaybeUninit::<DeviceDescription>::zeroed();
    // SAFETY: the place is writable and of the type that the function writes; any bytes, also the zeros that it leaves,
    // are such a value.
    unsafe {
        (extension.device_describe)(ordinal, description.as_mut_ptr()).ok()?;
        Some(description.assume_init())
    }
}

/// Where a device's native code is kept for later processes.
pub(crate) fn code_store(extension: &Extension, ordinal: i32) -> Option<CodeStore> {
    let mut store = MaybeUninit::<CodeStore>::zeroed();
    // SAFETY: as above.
    unsafe {
        (extension.device_code_store)(ordinal, store.as_mut_ptr()).ok()?;
        Some(store.assume_init())
    }
}
