//! The library that really drives a device: which one, where it is, loading it.
//!
//! A provider is a shared library that exports the driver API: NVIDIA's libcuda.so.1, or the
//! software GPU. It is always loaded by its absolute path, so that a client library of our own
//! that goes by the same name is never taken for it; a file that carries the client's [`MARKER`]
//! is refused. A provider is never unloaded.
//!
//! This crate calls no driver function; it links no library but the C library.

mod choice;
pub mod compute_mode;
pub mod device_faults;
mod driver_version;
mod dynamic_library;
mod error;
mod exported;
mod image_origin;
mod library;
mod search;
mod visible;
mod whole;

pub use choice::{Choice, Found};
pub use driver_version::asked_driver_version;
pub use dynamic_library::{DynamicLibrary, file_of_address};
pub use error::ProviderError;
pub use image_origin::ImageOrigin;
pub use library::Provider;
pub use search::{
    DRIVER_ROOT_MANIFEST, DRIVER_ROOT_PIPE, INSTALLED_LIBRARIES, SOFT_FILE_NAME, driver_root,
    find_software, find_vendor, find_vendor_nvml, library_directory,
};
pub use visible::{visible_devices, wants_a_device};

/// Bytes that stand in our own client library, and by which it is recognised.
pub const MARKER: &[u8] = b"openmps client library, not a provider";

/// Environment variable, and its value, for a process of ours that drives a device itself.
///
/// NVIDIA's driver is a client of MPS on its own: it looks for a daemon's socket in this directory.
/// It would take our daemon for its own and wait ten seconds for an answer in a language that ours
/// does not speak. So it is sent to a directory that is nowhere.
pub const WITHOUT_DAEMON: (&str, &str) =
    (cuda_api::environment::CUDA_MPS_PIPE_DIRECTORY, "/nonexistent");

/// Chooses, finds and loads the provider that the environment asks for.
pub fn load() -> Result<Provider, ProviderError> {
    Choice::from_environment()?.load()
}
