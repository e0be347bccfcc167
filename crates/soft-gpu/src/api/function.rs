//! Functions: kernels of modules and libraries, their attributes and parameters.

use locks::{Mutex, MutexGuard};
use std::ffi::CString;
use std::sync::Arc;

use cuda_api::constants::function_attribute as attribute;
use cuda_api::handle::HandleKind;
use cuda_api::pointer::Out;
use cuda_api::*;
use driver_common::old_launch::OldLaunch;

use super::{Driver, driver, exports, thread};
use crate::device::capability::{CLUSTER_BLOCKS_PORTABLE, Capability};
use crate::device::limits::SHARED_PER_BLOCK;
use crate::device::occupancy::KernelNeed;
use crate::device::settings::Settings;
use crate::error::{Error, Result};
use simt::kernel::{Dim3, Kernel, KernelInfo};

/// CU_FUNC_CACHE_PREFER_*.
mod cache {
    pub(super) const PREFER_NONE: u32 = 0;
    pub(super) const PREFER_SHARED: u32 = 1;
    pub(super) const PREFER_L1: u32 = 2;
    pub(super) const PREFER_EQUAL: u32 = 3;
}

/// CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING: a hint that changes nothing here.
const CLUSTER_POLICY_LAST: i32 = 2;

/// A kernel that the program has a handle of.
pub(crate) struct Function {
    pub(crate) handle: usize,
    pub(crate) name: CString,
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) module: usize,
    /// Its library; 0 for a module's function.
    pub(crate) library: usize,
    /// It may ask the device for something.
    pub(crate) calls_device: bool,
    /// What the kernel needs, as the program had it compiled.
    info: KernelInfo,
    /// Of the device.
    capability: &'static Capability,
    /// Blocks of a cluster that the device allows.
    cluster_blocks_limit: u32,
    chosen: Mutex<Chosen>,
    /// What was set at it as before CUDA 4.0.
    old_launch: Mutex<OldLaunch>,
}

/// What the program set for a function.
#[derive(Clone, Copy)]
pub(crate) struct Chosen {
    /// Most dynamic shared memory a launch may ask for, bytes.
    pub(crate) dynamic_shared_max: u32,
    /// Share of shared memory in an SM's, percent; -1 if none was set.
    carveout: i32,
    /// CU_FUNC_CACHE_PREFER_*: what holds where no share was set.
    cache: u32,
    /// Clusters may be larger than every device allows.
    any_cluster_size: bool,
    /// Blocks of a cluster that every launch must have, all 0 if that was not set.
    cluster: [u32; 3],
    cluster_policy: i32,
}

/// Fewest registers that a kernel may need of which so many were estimated: an estimate is within five
/// halves of what a compiler needs (`simt/tests/registers.rs`). A block that fits with these is not refused.
fn least_registers(estimated: u32) -> u32 {
    estimated * 2 / 5
}

impl Function {
    pub(crate) fn new(
        handle: usize,
        name: CString,
        kernel: Arc<dyn Kernel>,
        module: usize,
        library: usize,
        settings: &Settings,
    ) -> Self {
        let info = kernel.info().clone();
        let fixed = info.shared_bytes;
        Self {
            info,
            capability: settings.capability,
            cluster_blocks_limit: settings.cluster_blocks_max(),
            handle,
            name,
            kernel,
            module,
            library,
            calls_device: false,
            chosen: Mutex::new(Chosen {
                dynamic_shared_max: SHARED_PER_BLOCK.saturating_sub(fixed),
                carveout: -1,
                cache: 0,
                any_cluster_size: false,
                cluster: [0; 3],
                cluster_policy: 0,
            }),
            old_launch: Mutex::default(),
        }
    }

    /// The same with no more registers than that.
    pub(super) fn with_registers(mut self, registers_max: u32) -> Self {
        self.info.registers = self.info.registers.min(registers_max);
        self
    }

    /// The same, of a module whose kernels may ask the device for something, or not.
    pub(super) fn calling_device(mut self, calls_device: bool) -> Self {
        self.calls_device = calls_device;
        self
    }

    pub(crate) fn info(&self) -> &KernelInfo {
        &self.info
    }

    fn lock(&self) -> MutexGuard<'_, Chosen> {
        self.chosen.lock()
    }

    pub(super) fn old_launch(&self) -> MutexGuard<'_, OldLaunch> {
        self.old_launch.lock()
    }

    /// What is set for it now.
    pub(crate) fn chosen(&self) -> Chosen {
        *self.lock()
    }

    /// Most blocks of a cluster that a launch may ask for now.
    pub(crate) fn cluster_blocks_max(&self) -> u32 {
        let limit = self.cluster_blocks_limit;
        let any = self.chosen().any_cluster_size;
        let most = if any { limit } else { limit.min(CLUSTER_BLOCKS_PORTABLE) };
        self.info().cluster_blocks_max.map_or(most, |max| max.min(limit))
    }

    /// Blocks of a cluster that every launch must have: the kernel's own, or what was set.
    pub(crate) fn required_cluster(&self) -> Option<Dim3> {
        self.info.required_cluster.or_else(|| match self.chosen().cluster {
            [0, 0, 0] => None,
            [x, y, z] => Some(Dim3 { x: x.max(1), y: y.max(1), z: z.max(1) }),
        })
    }

    /// As [`Self::need`], for blocks of so many threads: with fewer registers if only their estimate is in
    /// the way of such a block.
    pub(crate) fn need_for(&self, threads: u32) -> KernelNeed {
        let need = self.need();
        let fits = |registers: &u32| self.capability.fits_by_registers(*registers, threads);
        let registers = (least_registers(need.registers)..=need.registers).rev().find(fits);
        KernelNeed { registers: registers.unwrap_or(need.registers), ..need }
    }

    /// What occupancy depends on; the current context says what the program did not say for the
    /// function.
    pub(crate) fn need(&self) -> KernelNeed {
        let chosen = self.chosen();
        let preferred = match chosen.cache {
            cache::PREFER_NONE => thread::current().map_or(0, |context| context.cache_config()),
            own => own,
        };
        let by_cache = match preferred {
            cache::PREFER_SHARED => Some(100),
            cache::PREFER_L1 => Some(0),
            cache::PREFER_EQUAL => Some(50),
            _ => None,
        };
        KernelNeed {
            registers: self.info.registers,
            static_bytes: self.info.shared_bytes,
            dynamic_bytes_max: chosen.dynamic_shared_max,
            barriers: self.info.barriers,
            carveout_percent: u32::try_from(chosen.carveout).ok().or(by_cache),
        }
    }

    /// Threads of the largest block: what the kernel says, and its registers allow, which are fewer
    /// than estimated at best.
    pub(crate) fn threads_max(&self) -> u32 {
        let least = least_registers(self.info.registers);
        let fitting = self.capability.threads_by_registers(least);
        self.info.max_threads_per_block.min(fitting)
    }

    pub(crate) fn attribute(&self, number: u32) -> Result<i32> {
        let info = self.info();
        let chosen = self.chosen();
        let cluster = info.required_cluster.map_or(chosen.cluster, |of| [of.x, of.y, of.z]);
        Ok(match number {
            attribute::MAX_THREADS_PER_BLOCK => self.threads_max() as i32,
            attribute::SHARED_SIZE_BYTES => info.shared_bytes as i32,
            attribute::CONST_SIZE_BYTES => info.const_bytes as i32,
            attribute::LOCAL_SIZE_BYTES => info.local_bytes as i32,
            attribute::NUM_REGS => info.registers as i32,
            attribute::PTX_VERSION => info.target as i32,
            attribute::BINARY_VERSION => self.capability.number() as i32,
            attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES => chosen.dynamic_shared_max as i32,
            attribute::PREFERRED_SHARED_MEMORY_CARVEOUT => chosen.carveout,
            attribute::REQUIRED_CLUSTER_WIDTH => cluster[0] as i32,
            attribute::REQUIRED_CLUSTER_HEIGHT => cluster[1] as i32,
            attribute::REQUIRED_CLUSTER_DEPTH => cluster[2] as i32,
            attribute::CLUSTER_SIZE_MUST_BE_SET => info.cluster_must_be_set.into(),
            attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED => chosen.any_cluster_size.into(),
            attribute::CLUSTER_SCHEDULING_POLICY_PREFERENCE => chosen.cluster_policy,
            attribute::CACHE_MODE_CA => 0,
            _ => return Err(Error::INVALID_VALUE),
        })
    }

    pub(crate) fn set_attribute(&self, number: u32, value: i32) -> Result {
        let mut chosen = self.lock();
        let positive = || u32::try_from(value).map_err(|_| Error::INVALID_VALUE);
        match number {
            attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                let bytes = positive()?;
                let most = self.capability.shared_per_block_optin;
                if bytes.saturating_add(self.info().shared_bytes) > most {
                    return Err(Error::INVALID_VALUE);
                }
                chosen.dynamic_shared_max = bytes;
            }
            attribute::PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {
                chosen.carveout = value;
            }
            attribute::REQUIRED_CLUSTER_WIDTH
            | attribute::REQUIRED_CLUSTER_HEIGHT
            | attribute::REQUIRED_CLUSTER_DEPTH => {
                let (axis, extent) = (number - attribute::REQUIRED_CLUSTER_WIDTH, positive()?);
                // What the kernel says itself may be said again, and nothing else.
                match self.info.required_cluster.map(|of| [of.x, of.y, of.z][axis as usize]) {
                    Some(own) if own != extent => return Err(Error::INVALID_VALUE),
                    Some(_) => {}
                    None => chosen.cluster[axis as usize] = extent,
                }
            }
            attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED => chosen.any_cluster_size = value != 0,
            attribute::CLUSTER_SCHEDULING_POLICY_PREFERENCE
                if (0..=CLUSTER_POLICY_LAST).contains(&value) =>
            {
                chosen.cluster_policy = value;
            }
            _ => return Err(Error::INVALID_VALUE),
        }
        Ok(())
    }

    pub(super) fn set_cache(&self, preference: u32) -> Result {
        if preference > cache::PREFER_EQUAL {
            return Err(Error::INVALID_VALUE);
        }
        self.lock().cache = preference;
        Ok(())
    }

    /// Offset and size of a parameter; INVALID_VALUE past the last.
    pub(crate) fn parameter(&self, index: usize, offset: Out<usize>, size: Out<usize>) -> Result {
        let param = self.info().params.get(index).ok_or(Error::INVALID_VALUE)?;
        offset.required()?;
        offset.set(param.offset as usize)?;
        size.set_if_wanted(param.size as usize);
        Ok(())
    }
}

impl Driver {
    /// The function of a handle, in whose place that of a library's kernel may come.
    pub(crate) fn function(&self, handle: CUfunction) -> Result<Arc<Function>> {
        self.function_here(self.functions.get_either(handle.0, HandleKind::Kernel)?)
    }

    /// The function that a kernel's handle stands for.
    pub(crate) fn kernel(&self, handle: CUkernel) -> Result<Arc<Function>> {
        self.function_here(self.functions.get_either(handle.0, HandleKind::Kernel)?)
    }
}

exports! {
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction) {
        let function = driver()?.function(function)?;
        value.set(function.attribute(attribute)?)
    }

    fn cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int) {
        driver()?.function(function)?.set_attribute(attribute, value)
    }

    fn cuFuncSetCacheConfig(function: CUfunction, config: c_uint) {
        driver()?.function(function)?.set_cache(config)
    }

    fn cuFuncSetSharedMemConfig(function: CUfunction, config: c_uint) {
        driver()?.function(function)?;
        if config > 2 { Err(Error::INVALID_VALUE) } else { Ok(()) }
    }

    fn cuFuncGetModule(module: *mut CUmodule, function: CUfunction) {
        module.set(CUmodule(driver()?.function(function)?.module))
    }

    fn cuFuncGetName(name: *mut *const c_char, function: CUfunction) {
        // Of no function at all it is a wrong value, not a wrong handle.
        if function.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // Valid until the module is unloaded, as the manual says.
        name.set(driver()?.function(function)?.name.as_ptr())
    }

    fn cuFuncGetParamInfo(
        function: CUfunction, param_index: usize, param_offset: *mut usize,
        param_size: *mut usize,
    ) {
        driver()?.function(function)?.parameter(param_index, param_offset, param_size)
    }

    fn cuFuncGetParamCount(function: CUfunction, count: *mut usize) {
        count.set(driver()?.function(function)?.info().params.len())
    }

    fn cuFuncIsLoaded(state: *mut c_uint, function: CUfunction) {
        driver()?.function(function)?;
        // CU_FUNCTION_LOADING_STATE_LOADED
        state.set(1)
    }

    fn cuFuncLoad(function: CUfunction) {
        driver()?.function(function).map(|_| ())
    }
}
