//! Modules.

use locks::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use cuda_api::pointer::{In, Out};
use cuda_api::*;
use driver_common::entry_point::module_loading_mode;
use driver_common::jit_options::JitOptions;

use super::function::Function;
use super::image::Loaded;
use super::image_file::ImageFile;
use super::{Driver, driver, exports, thread};
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};
use simt::kernel::Module;

/// A loaded image.
pub(crate) struct LoadedModule {
    pub(crate) handle: usize,
    /// Number of its context; 0 for a library's, which has none.
    pub(crate) context: u64,
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) module: Arc<dyn Module>,
    /// Memory of its variables.
    memory: Vec<u64>,
    /// Most registers a thread of its kernels may have.
    registers_max: u32,
    /// Handles given out for its kernels.
    functions: Mutex<HashMap<String, usize>>,
}

impl Driver {
    pub(crate) fn add_module(
        &self,
        tenant: &Arc<Tenant>,
        context: u64,
        loaded: Loaded,
    ) -> Result<Arc<LoadedModule>> {
        let Loaded { module, memory, registers_max } = loaded;
        let tenant = tenant.clone();
        let make = |handle| LoadedModule {
            handle,
            context,
            tenant,
            module,
            memory,
            registers_max,
            functions: Mutex::default(),
        };
        self.modules.insert_with(make).map(|(_, module)| module)
    }

    /// The handle of a kernel of a module; NOT_FOUND if it has none of that name.
    pub(crate) fn function_of(
        &self,
        module: &LoadedModule,
        library: usize,
        name: &std::ffi::CStr,
    ) -> Result<usize> {
        let text = name.to_str().map_err(|_| Error::NOT_FOUND)?;
        let mut functions = module.functions.lock();
        if let Some(handle) = functions.get(text) {
            return Ok(*handle);
        }
        let kernel = module.module.kernel(text).ok_or(Error::NOT_FOUND)?;
        let (handle, _) = self.functions.insert_with(|handle| {
            let settings = &self.device.settings;
            Function::new(handle, name.to_owned(), kernel, module.handle, library, settings)
                .with_registers(module.registers_max)
                .calling_device(module.module.calls_device())
        })?;
        functions.insert(text.to_owned(), handle);
        Ok(handle)
    }

    /// The handles of all kernels of a module.
    pub(super) fn functions_of(&self, module: CUmodule) -> Result<Vec<CUfunction>> {
        let module = self.modules.get(module.0)?;
        let handle = |name| {
            let name = CString::new::<String>(name).map_err(|_| Error::NOT_FOUND)?;
            self.function_of(&module, 0, &name).map(CUfunction)
        };
        module.module.kernel_names().into_iter().map(handle).collect()
    }

    /// Takes away the handles of a module's kernels.
    pub(crate) fn forget_functions(&self, module: &LoadedModule) {
        let mut functions = module.functions.lock();
        for (_, handle) in functions.drain() {
            let _ = self.functions.remove(handle);
        }
    }

    /// Unloads a module once nothing that may use it is in a stream.
    pub(crate) fn unload(&self, module: &LoadedModule) {
        for context in [module.context, thread::top().ok().flatten().map_or(0, |c| c.number())] {
            if context != 0
                && let Ok(group) = self.device.group(context, &module.tenant)
            {
                // An error of earlier work does not keep the module.
                let _ = self.device.synchronize_group(group, &module.tenant);
            }
        }
        self.forget_functions(module);
        for address in &module.memory {
            let _ = self.device.free(*address, |_| true);
        }
    }

    /// Address and size of a variable of a module.
    pub(crate) fn variable(
        &self,
        module: &LoadedModule,
        name: In<std::ffi::c_char>,
        pointer: Out<CUdeviceptr>,
        bytes: Out<usize>,
    ) -> Result {
        let name = name.text()?;
        let name = name.to_str().map_err(|_| Error::NOT_FOUND)?;
        let (address, size) = module.module.global(name).ok_or(Error::NOT_FOUND)?;
        pointer.set_if_wanted(CUdeviceptr(address));
        bytes.set_if_wanted(size as usize);
        Ok(())
    }
}

exports! {
    fn cuModuleGetLoadingMode(mode: *mut c_uint) {
        driver()?;
        mode.set(module_loading_mode())
    }

    fn cuModuleLoad(module: *mut CUmodule, fname: *const c_char) {
        let driver = driver()?;
        let context = thread::current()?;
        let tenant = driver.working_tenant()?;
        module.required()?;
        let file = ImageFile::read(fname)?;
        let logs = JitOptions::default();
        let loaded = driver.load_file(&tenant, context.number(), &file, &logs)?;
        module.set(CUmodule(driver.add_module(&tenant, context.number(), loaded)?.handle))
    }

    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) {
        load(module, image, &JitOptions::default())
    }

    fn cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void, num_options: c_uint,
        options: *mut c_uint, option_values: *mut *mut c_void,
    ) {
        load(module, image, &JitOptions::read(num_options, options, option_values)?)
    }

    fn cuModuleLoadFatBinary(module: *mut CUmodule, fat_cubin: *const c_void) {
        load(module, fat_cubin, &JitOptions::default())
    }

    fn cuModuleUnload(module: CUmodule) {
        let driver = driver()?;
        if driver.modules.get(module.0)?.context == 0 {
            // A library's module goes with its library.
            return Err(Error::INVALID_HANDLE);
        }
        let removed = driver.modules.remove(module.0)?;
        driver.unload(&removed);
        Ok(())
    }

    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) {
        let driver = driver()?;
        function.required()?;
        let module = driver.modules.get(module.0)?;
        // As drivers do: what is not found leaves no handle behind.
        function.set(CUfunction::NULL)?;
        function.set(CUfunction(driver.function_of(&module, 0, &name.text()?)?))
    }

    fn cuModuleGetGlobal_v2(
        pointer: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, name: *const c_char,
    ) {
        let driver = driver()?;
        let module = driver.modules.get(module.0)?;
        driver.variable(&module, name, pointer, bytes)
    }

    fn cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule) {
        let module = driver()?.modules.get(module.0)?;
        count.set(module.module.kernel_names().len() as c_uint)
    }

    fn cuModuleEnumerateFunctions(
        functions: *mut CUfunction, num_functions: c_uint, module: CUmodule,
    ) {
        let found = driver()?.functions_of(module)?;
        for (index, function) in found.into_iter().take(num_functions as usize).enumerate() {
            functions.array(num_functions as usize).set(index, function)?;
        }
        Ok(())
    }
}

fn load(module: Out<CUmodule>, image: In<std::ffi::c_void>, logs: &JitOptions) -> Result {
    let driver = driver()?;
    let context = thread::current()?;
    let tenant = driver.working_tenant()?;
    module.required()?;
    let loaded = driver.load_image(&tenant, context.number(), image, logs)?;
    module.set(CUmodule(driver.add_module(&tenant, context.number(), loaded)?.handle))
}
