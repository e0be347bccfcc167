//! A server on a real provider: the software GPU, which is linked, unless OPENMPS_PROVIDER names
//! another one, as on a machine with a GPU.
#![allow(dead_code, reason = "each test program uses a part")]

use crate::support::Server;
use cuda_api::DriverTable;
use cuda_api::environment::OPENMPS_PROVIDER;
use cuda_api::extension::Extension;
use openmps_soft as _;
use server::device::Driver;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

cuda_api::linked_symbols! {
    cuCtxGetStreamPriorityRange cuCtxSetCurrent cuDeviceGetAttribute cuDeviceGetCount cuDeviceGetName
    cuDeviceGetPCIBusId cuDeviceGetUuid cuDeviceGetUuid_v2 cuDevicePrimaryCtxRelease_v2
    cuDevicePrimaryCtxRetain cuDeviceTotalMem_v2 cuDriverGetVersion cuEventCreate
    cuEventDestroy_v2 cuEventElapsedTime cuEventQuery cuEventRecord cuFuncGetAttribute
    cuFuncGetParamInfo cuFuncSetAttribute cuGraphAddDependencies cuGraphAddEmptyNode
    cuGraphAddKernelNode_v2 cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddNode_v2 cuGraphCreate cuGraphDestroy
    cuGraphExecDestroy cuGraphExecUpdate_v2 cuGraphInstantiateWithFlags
    cuGraphKernelNodeSetAttribute cuGraphLaunch cuInit cuLaunchCooperativeKernel cuLaunchHostFunc
    cuLaunchKernel cuLaunchKernelEx cuMemAddressFree cuMemAddressReserve cuMemCreate cuMemExportToShareableHandle
    cuMemImportFromShareableHandle cuMemGetInfo_v2 cuMemHostGetDevicePointer_v2 cuMemHostRegister_v2 cuMemHostUnregister cuMemMap
    cuMemRelease cuMemSetAccess cuMemUnmap cuMemcpy3DAsync_v2 cuMemcpyDtoDAsync_v2
    cuArray3DCreate_v2 cuArrayDestroy cuArrayGetMemoryRequirements cuMipmappedArrayCreate
    cuMipmappedArrayDestroy cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements
    cuTexObjectCreate cuTexObjectDestroy cuSurfObjectCreate cuSurfObjectDestroy
    cuMemcpyDtoHAsync_v2 cuMemcpyHtoDAsync_v2 cuMemsetD8Async cuMemsetD32Async cuModuleGetFunction
    cuModuleGetGlobal_v2 cuPointerGetAttribute cuModuleLoadDataEx cuModuleUnload cuStreamCreateWithPriority
    cuStreamDestroy_v2 cuStreamQuery cuStreamSynchronize cuStreamWaitEvent cuStreamWaitValue32_v2
    cuStreamWriteValue32_v2
    cuDeviceGetDevResource cuDevSmResourceSplitByCount cuDevResourceGenerateDesc cuGreenCtxCreate
    cuGreenCtxDestroy cuGreenCtxStreamCreate cuStreamBeginCaptureToGraph cuStreamEndCapture
    cuStreamGetCaptureInfo_v3 cuGraphNodeGetDependencies cuGraphNodeGetDependentNodes cuGraphDestroyNode cuGraphExecKernelNodeSetParams_v2
    openmpsTenantCreate openmpsTenantBind openmpsTenantName openmpsTenantError openmpsTenantFault openmpsTenantEnd
    openmpsTenantPrintf openmpsTenantPlaceManaged openmpsTenantPlaceVariables openmpsTenantWork openmpsTenantUsage openmpsTenantMemory openmpsDeviceActivity
    openmpsTenantLimit openmpsDeviceDescribe openmpsDeviceCodeStore openmpsTenantKernels openmpsTenantTrace openmpsTenantTraceTake
    cuStreamGetId cuOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxActiveClusters
    cuOccupancyMaxPotentialClusterSize
}

/// The provider that the environment names; the software GPU if it names none.
pub fn driver() -> Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    *DRIVER.get_or_init(|| match std::env::var(OPENMPS_PROVIDER).as_deref() {
        Err(_) | Ok("soft") => software_gpu_driver(),
        Ok(_) => {
            let provider = Box::leak(Box::new(::provider::load().expect("the provider is there")));
            Driver { table: provider.table(), extension: provider.extension() }
        }
    })
}

fn software_gpu_driver() -> Driver {
    // SAFETY: the symbols are the software GPU's, linked into this program.
    let (table, extension) = unsafe { (DriverTable::resolve(symbol), Extension::resolve(symbol)) };
    let extension = extension.expect("the software GPU has tenants");
    let extension = Some(&*Box::leak(Box::new(extension)));
    Driver { table: Box::leak(Box::new(table)), extension }
}

/// The software GPU without tenants and with some functions replaced by others, by their symbols; `None` if the
/// environment names another provider.
///
/// # Safety
/// As of [`DriverTable::resolve`].
pub unsafe fn driver_but(replaced: impl Fn(&CStr) -> Option<*const c_void>) -> Option<Driver> {
    match std::env::var(OPENMPS_PROVIDER).as_deref() {
        Err(_) | Ok("soft") => {}
        Ok(_) => return None,
    }
    // SAFETY: the caller vouches for those; the others are the software GPU's, linked into this program.
    let table = unsafe { DriverTable::resolve(|name| replaced(name).or_else(|| symbol(name))) };
    Some(Driver { table: Box::leak(Box::new(table)), extension: None })
}

/// A server on it.
pub fn start() -> Server {
    Server::start_on(driver())
}

/// A server whose provider keeps its clients apart; `None` where the provider does not.
pub fn start_with_tenants() -> Option<Server> {
    let server = driver().extension.map(|_| start());
    if server.is_none() {
        eprintln!("left out: the provider has no tenants");
    }
    server
}
