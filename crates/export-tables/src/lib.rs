//! The tables behind cuGetExportTable, without which CUDA's runtime library does not start.
//!
//! CUDA's runtime (cudart) and the CUDA libraries ask the driver for unpublished tables of
//! functions, each named by a UUID, and call a few of their slots. This crate has those tables
//! and slots that such programs were seen to need; a table that is not here is refused, which
//! they all survive. What a slot needs of its surroundings it asks of a [`Host`].
//!
//! Its users: the client library and the software GPU, each as a driver of its own. A process
//! may have both; each has its own copy of everything here.
//!
//! Invariants: a table's address never changes (it enters the integrity check); a slot without a
//! function is NULL.

mod integrity;
mod slots;
mod storage;
mod tables;

use cuda_api::pointer::In;
use cuda_api::{CUcontext, CUdevice, CUfunction, CUmodule, CudaError};
use std::ffi::c_void;
use std::sync::OnceLock;

pub use integrity::DeviceIdentity;
pub use storage::forget_context;
pub use tables::find;

/// What the slots ask of the driver that they belong to.
pub trait Host: Send + Sync {
    /// As cuDriverGetVersion reports it.
    fn driver_version(&self) -> i32;
    /// Every device in order, as its attributes report it.
    fn devices(&self) -> Vec<DeviceIdentity>;
    /// The handle of a device's primary context, which it need not retain.
    fn primary_context(&self, device: CUdevice) -> Result<CUcontext, CudaError>;
    /// The calling thread's current context.
    fn current_context(&self) -> Option<CUcontext>;
    /// As cuCtxGetId reports it.
    fn context_id(&self, context: CUcontext) -> Result<u64, CudaError>;
    /// All functions of a module, as cuModuleEnumerateFunctions gives them.
    /// CUDA_ERROR_NOT_SUPPORTED from a driver that does not know them.
    fn module_functions(&self, _module: CUmodule) -> Result<Vec<CUfunction>, CudaError> {
        Err(CudaError::NOT_SUPPORTED)
    }
    /// As cuModuleLoadData.
    fn load_module(&self, image: In<c_void>) -> Result<CUmodule, CudaError>;
}

static HOST: OnceLock<&'static dyn Host> = OnceLock::new();

/// Gives the tables their host. The first one stays.
pub fn install(host: &'static dyn Host) {
    HOST.get_or_init(|| host);
}

fn host() -> Result<&'static dyn Host, CudaError> {
    HOST.get().copied().ok_or(CudaError::NOT_INITIALIZED)
}
