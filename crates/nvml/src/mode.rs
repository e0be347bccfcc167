//! Whose answers a program gets: NVIDIA's library's, or ours about the software GPU. Decided once.

use crate::device::Device;
use crate::status::{Answer, Failure};
use provider::DynamicLibrary;
use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// Stands in the file, so that a search for NVIDIA's libraries does not find this one.
#[used]
static MARKER: [u8; provider::MARKER.len()] = *provider::MARKER.first_chunk().unwrap();

/// Whose answers.
pub(crate) enum Mode {
    /// NVIDIA's.
    Vendor(Vendor),
    /// Ours, about these devices: one at least.
    Own(Vec<Device>),
}

static MODE: OnceLock<Answer<Mode>> = OnceLock::new();

/// The decision, made by the first that asks.
pub(crate) fn decide() -> Answer<&'static Mode> {
    MODE.get_or_init(find).as_ref().map_err(|failure| *failure)
}

/// The software GPU's devices, for functions that are reached only when they are what is asked about.
pub(crate) fn devices() -> Answer<&'static [Device]> {
    match decide()? {
        Mode::Own(devices) => Ok(devices),
        Mode::Vendor(_) => Err(Failure::UNKNOWN),
    }
}

/// The first of them.
pub(crate) fn first() -> Answer<&'static Device> {
    devices()?.first().ok_or(Failure::UNKNOWN)
}

/// Has all tests of this process ask about these devices.
#[cfg(test)]
pub(crate) fn decide_for_test(devices: impl FnOnce() -> Vec<Device>) {
    MODE.get_or_init(|| Ok(Mode::Own(devices())));
}

fn find() -> Answer<Mode> {
    let choice = provider::Choice::from_environment().and_then(provider::Choice::resolve);
    let found = choice.map_err(|_| Failure::LIBRARY_NOT_FOUND)?;
    if !found.is_vendor() {
        let provider = found.load().map_err(|_| Failure::LIBRARY_NOT_FOUND)?;
        if let Some(devices) = Device::all_of(&provider) {
            return Ok(Mode::Own(devices?));
        }
    }
    let path = provider::find_vendor_nvml().map_err(|_| Failure::LIBRARY_NOT_FOUND)?;
    Vendor::load(&path).map(Mode::Vendor).ok_or(Failure::LIBRARY_NOT_FOUND)
}

/// NVIDIA's library.
pub(crate) struct Vendor(DynamicLibrary);

impl Vendor {
    fn load(path: &Path) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        DynamicLibrary::open(&path).ok().map(Self)
    }

    /// The address of one of its functions.
    pub(crate) fn function(&self, name: &str) -> Option<*const c_void> {
        self.0.symbol(&CString::new(name).ok()?)
    }
}
