//! Kernels that launch kernels: what threads ask of the device by the device runtime library.
//!
//! What a grid asks for is kept until its last block has ended and runs then, in the place of the
//! grid in its stream, so that the grid is complete when all of it is. First comes what was put into
//! streams and what was launched to be forgotten, in the order in which it was asked for, then what
//! was launched to come last; and what a child asks for comes right behind the child. CUDA promises
//! no more order than that, and lets no kernel wait for its children. Streams and events of a grid
//! therefore need no distinction.

use locks::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

use cuda_api::constants::limit;
use cuda_api::limits::Limits;
use cuda_api::{CUfunction, CUlaunchConfig, CUstream, CudaError};
use simt::kernel::{ChildLaunch, DeviceRequest, DeviceRuntime, Kernel, Launch, NO_ANSWER};

use super::module::LoadedModule;
use super::{Driver, thread};
use crate::device::attributes;
use crate::device::execution::grid::Followers;
use crate::device::stream::Op;
use crate::device::stream::transfer::{Copy, Fill, Side, Transfer};
use crate::device::tenant::Tenant;

/// cudaStreamTailLaunch.
const STREAM_TAIL_LAUNCH: u64 = 3;
/// Launches of a grid that wait, at least: more than CUDA's own limit to begin with
/// (CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT), since none of them starts before the grid has ended.
const PENDING_MIN: usize = 1 << 16;

/// cudaError_t.
mod error {
    pub(super) const SUCCESS: u32 = 0;
    pub(super) const INVALID_VALUE: u32 = 1;
    pub(super) const INVALID_CONFIGURATION: u32 = 9;
    pub(super) const LAUNCH_PENDING_COUNT_EXCEEDED: u32 = 69;
    pub(super) const INVALID_DEVICE_FUNCTION: u32 = 98;
}

/// What grids of a module share that ask the device for something.
#[derive(Clone)]
pub(crate) struct Nesting {
    driver: &'static Driver,
    module: Arc<LoadedModule>,
    /// Of the context.
    limits: Limits,
}

/// What one grid has asked for.
pub(crate) struct Children {
    nesting: Nesting,
    tenant: Arc<Tenant>,
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    ops: Vec<Op>,
    /// What comes after all of those.
    tails: Vec<Op>,
    /// The last error of each thread that has one, by block and thread.
    errors: HashMap<(u64, u32), u32>,
    /// Kernels among them for whose shapes no code has been made yet.
    unprepared: Vec<(Arc<dyn Kernel>, Arc<Launch>)>,
}

impl Nesting {
    /// For kernels of a module; `None` if it is gone.
    pub(super) fn of(driver: &'static Driver, module: usize) -> Option<Self> {
        let module = driver.modules.get(module).ok()?;
        let limits = thread::current().map(|context| context.limits().clone()).unwrap_or_default();
        Some(Self { driver, module, limits })
    }

    /// A limit of the context; 0 if there is none.
    pub(super) fn limit(&self, limit: u32) -> usize {
        self.limits.get(limit).unwrap_or(0)
    }

    /// Launches of a grid that may wait.
    fn pending_max(&self) -> usize {
        self.limit(limit::DEV_RUNTIME_PENDING_LAUNCH_COUNT).max(PENDING_MIN)
    }

    /// For one grid.
    pub(super) fn begin(self, tenant: &Arc<Tenant>) -> Arc<Children> {
        let (tenant, asked) = (tenant.clone(), Mutex::default());
        Arc::new(Children { nesting: self, tenant, asked })
    }
}

impl Children {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock()
    }

    /// The function of a kernel that has that address.
    fn function(&self, address: u64) -> Option<CUfunction> {
        let Nesting { driver, module, .. } = &self.nesting;
        let name = std::ffi::CString::new(module.module.kernel_name_at(address)?).ok()?;
        driver.function_of(module, 0, &name).ok().map(CUfunction)
    }

    fn launch(&self, launch: ChildLaunch) -> u32 {
        let driver = self.nesting.driver;
        let Some(function) = self.function(launch.kernel) else {
            return error::INVALID_DEVICE_FUNCTION;
        };
        if self.asked().pending() >= self.nesting.pending_max() {
            return error::LAUNCH_PENDING_COUNT_EXCEEDED;
        }
        let extents = |of: simt::kernel::Dim3| [of.x, of.y, of.z];
        let (grid, block) = (extents(launch.grid), extents(launch.block));
        let shared = launch.dynamic_shared_bytes;
        let config = CUlaunchConfig::plain(grid, block, shared, CUstream::NULL);
        let prepared = driver.prepare_child(function, &config, launch.params, &self.nesting);
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(CudaError::INVALID_VALUE) => return error::INVALID_CONFIGURATION,
            Err(other) => return other.code(),
        };
        let op = prepared.into_kernel_op(&driver.device, &self.tenant, 0);
        let mut asked = self.asked();
        asked.unprepared.push((op.kernel.clone(), op.launch.clone()));
        let op = Op::Kernel(Box::new(op));
        match launch.stream {
            STREAM_TAIL_LAUNCH => asked.tails.push(op),
            _ => asked.ops.push(op),
        }
        error::SUCCESS
    }

    /// Memory is checked when the transfer runs.
    fn transfer(&self, bytes: u64, stream: u64, transfer: Transfer) -> u32 {
        if bytes == 0 {
            return error::SUCCESS;
        }
        if stream == STREAM_TAIL_LAUNCH {
            return error::INVALID_VALUE;
        }
        self.asked().ops.push(Op::Transfer(Box::new(transfer)));
        error::SUCCESS
    }
}

impl Asked {
    fn pending(&self) -> usize {
        self.ops.len() + self.tails.len()
    }
}

impl DeviceRuntime for Children {
    fn request(&self, thread: (u64, u32), request: DeviceRequest) -> u64 {
        let code = match request {
            DeviceRequest::ParameterBytes(kernel) => {
                let function = self.function(kernel);
                let found = function.and_then(|it| self.nesting.driver.function(it).ok());
                match found {
                    Some(function) => return function.info().param_bytes.into(),
                    None => {
                        self.asked().errors.insert(thread, error::INVALID_DEVICE_FUNCTION);
                        return NO_ANSWER;
                    }
                }
            }
            DeviceRequest::Attribute(number) => {
                let settings = &self.nesting.driver.device.settings;
                let value = attributes::attribute(settings, number);
                return value.map_or(NO_ANSWER, |value| u64::from(value as u32));
            }
            DeviceRequest::Limit(number) => {
                let value = self.nesting.limits.get(number);
                return value.map_or(NO_ANSWER, |value| value as u64);
            }
            DeviceRequest::LastError { forget } => {
                let mut asked = self.asked();
                let last = match forget {
                    true => asked.errors.remove(&thread),
                    false => asked.errors.get(&thread).copied(),
                };
                return last.unwrap_or(error::SUCCESS).into();
            }
            DeviceRequest::NoteError(code) => code,
            DeviceRequest::Launch(launch) => self.launch(launch),
            DeviceRequest::Copy { to, from, bytes, stream } => {
                let (dst, src) = (Side::linear(to, true), Side::linear(from, true));
                let copy = Copy { dst, src, width: bytes, height: 1, depth: 1, staged: None };
                self.transfer(bytes, stream, Transfer::copy(copy))
            }
            DeviceRequest::Fill { to, value, bytes, stream } => {
                let value = u32::from(value);
                let fill = Fill {
                    address: to,
                    pitch: 0,
                    value,
                    element: 1,
                    width: bytes,
                    height: 1,
                    chunks: false,
                };
                self.transfer(bytes, stream, Transfer::fill(fill))
            }
        };
        if code != error::SUCCESS {
            self.asked().errors.insert(thread, code);
        }
        code.into()
    }
}

impl Followers for Children {
    fn prepare(&self) {
        let unprepared = std::mem::take(&mut self.asked().unprepared);
        unprepared.iter().for_each(|(kernel, launch)| kernel.prepare(launch));
    }

    fn take(&self) -> Vec<Op> {
        let mut asked = self.asked();
        let mut ops = std::mem::take(&mut asked.ops);
        ops.append(&mut asked.tails);
        ops
    }
}
