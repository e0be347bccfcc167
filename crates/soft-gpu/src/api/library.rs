//! Libraries: images that are not bound to a context, and their kernels.

use locks::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use cuda_api::handle::HandleKind;
use cuda_api::pointer::Out;
use cuda_api::*;

use super::function::Function;
use super::image_file::ImageFile;
use super::module::LoadedModule;
use super::registry::with_kind;
use super::{Driver, devices, driver, exports};
use crate::error::{Error, Result};
use driver_common::jit_options::JitOptions;

/// A loaded library, with a module on each device that has used it.
pub(crate) struct Library {
    handle: usize,
    /// Its module on the device where it was loaded.
    module: Arc<LoadedModule>,
    /// Those on other devices.
    others: Mutex<HashMap<u32, Arc<LoadedModule>>>,
    /// What the others are made of, where there may be others.
    text: Option<String>,
}

impl Driver {
    fn add_library(&self, library: Out<CUlibrary>, text: String, logs: &JitOptions) -> Result {
        let tenant = self.tenant();
        let loaded = self.load_text(&tenant, 0, &text, logs)?;
        let module = self.add_module(&tenant, 0, loaded)?;
        let text = (self.device.count() > 1).then_some(text);
        let others = Mutex::default();
        let make = |handle| Library { handle, module, others, text };
        let (handle, _) = self.libraries.insert_with(make)?;
        library.set(CUlibrary(handle))
    }

    fn kernel_of(&self, library: &Library, name: &std::ffi::CStr) -> Result<CUkernel> {
        let handle = self.function_of(&library.module, library.handle, name)?;
        Ok(CUkernel(with_kind(handle, HandleKind::Kernel)))
    }

    /// A library's module on the current context's device, loaded there when it is first used.
    fn module_here(&self, library: &Library) -> Result<Arc<LoadedModule>> {
        let Some(text) = &library.text else { return Ok(library.module.clone()) };
        let tenant = self.tenant();
        if tenant.device == library.module.tenant.device {
            return Ok(library.module.clone());
        }
        let mut others = library.others.lock();
        if let Some(module) = others.get(&tenant.device) {
            return Ok(module.clone());
        }
        let loaded = self.load_text(&tenant, 0, text, &JitOptions::default())?;
        let module = self.add_module(&tenant, 0, loaded)?;
        others.insert(tenant.device, module.clone());
        Ok(module)
    }

    /// The function of a library's kernel on the current context's device.
    pub(super) fn function_here(&self, function: Arc<Function>) -> Result<Arc<Function>> {
        if self.device.count() == 1 || function.library == 0 {
            return Ok(function);
        }
        let module = self.module_here(&*self.libraries.get(function.library)?)?;
        if module.handle == function.module {
            return Ok(function);
        }
        self.functions.get(self.function_of(&module, function.library, &function.name)?)
    }
}

exports! {
    fn cuLibraryLoadData(
        library: *mut CUlibrary, code: *const c_void, jit_options: *mut c_uint,
        jit_options_values: *mut *mut c_void, num_jit_options: c_uint,
        _library_options: *mut c_uint, _library_option_values: *mut *mut c_void,
        _num_library_options: c_uint,
    ) {
        let driver = driver()?;
        driver.working_tenant()?;
        library.required()?;
        let logs = JitOptions::read(num_jit_options, jit_options, jit_options_values)?;
        driver.add_library(library, driver.text_of_image(code, &logs)?, &logs)
    }

    fn cuLibraryLoadFromFile(
        library: *mut CUlibrary, file_name: *const c_char, jit_options: *mut c_uint,
        jit_options_values: *mut *mut c_void, num_jit_options: c_uint,
        _library_options: *mut c_uint, _library_option_values: *mut *mut c_void,
        _num_library_options: c_uint,
    ) {
        let driver = driver()?;
        driver.working_tenant()?;
        library.required()?;
        let logs = JitOptions::read(num_jit_options, jit_options, jit_options_values)?;
        let file = ImageFile::read(file_name)?;
        driver.add_library(library, driver.text_of_file(&file, &logs)?, &logs)
    }

    fn cuLibraryUnload(library: CUlibrary) {
        let driver = driver()?;
        let library = driver.libraries.remove(library.0)?;
        let others = library.others.lock();
        for module in others.values().chain([&library.module]) {
            let _ = driver.modules.remove(module.handle);
            driver.unload(module);
        }
        Ok(())
    }

    fn cuLibraryGetKernel(
        p_kernel: *mut CUkernel, library: CUlibrary, name: *const c_char,
    ) {
        let driver = driver()?;
        p_kernel.required()?;
        let library = driver.libraries.get(library.0)?;
        p_kernel.set(driver.kernel_of(&library, &name.text()?)?)
    }

    fn cuLibraryGetModule(p_mod: *mut CUmodule, library: CUlibrary) {
        let driver = driver()?;
        let library = driver.libraries.get(library.0)?;
        p_mod.set(CUmodule(driver.module_here(&library)?.handle))
    }

    fn cuLibraryGetGlobal(
        pointer: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char,
    ) {
        let driver = driver()?;
        let library = driver.libraries.get(library.0)?;
        driver.variable(&*driver.module_here(&library)?, name, pointer, bytes)
    }

    fn cuLibraryGetManaged(
        pointer: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char,
    ) {
        // A module's variables lie in this process' memory, where the program reaches them too.
        let library = driver()?.libraries.get(library.0)?;
        let name = name.text()?;
        let name = name.to_str().map_err(|_| Error::NOT_FOUND)?;
        let (address, size) = library.module.module.managed(name).ok_or(Error::NOT_FOUND)?;
        pointer.set_if_wanted(CUdeviceptr(address));
        bytes.set_if_wanted(size as usize);
        Ok(())
    }

    fn cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary) {
        let library = driver()?.libraries.get(library.0)?;
        count.set(library.module.module.kernel_names().len() as c_uint)
    }

    fn cuLibraryEnumerateKernels(
        kernels: *mut CUkernel, num_kernels: c_uint, library: CUlibrary,
    ) {
        let driver = driver()?;
        let library = driver.libraries.get(library.0)?;
        let names = library.module.module.kernel_names();
        for (index, name) in names.into_iter().take(num_kernels as usize).enumerate() {
            let name = CString::new(name).map_err(|_| Error::NOT_FOUND)?;
            kernels.array(num_kernels as usize).set(index, driver.kernel_of(&library, &name)?)?;
        }
        Ok(())
    }

    fn cuKernelGetFunction(p_func: *mut CUfunction, kernel: CUkernel) {
        let function = driver()?.kernel(kernel)?;
        p_func.set(CUfunction(function.handle))
    }

    fn cuKernelGetAttribute(
        value: *mut c_int, attribute: c_uint, kernel: CUkernel, device: CUdevice,
    ) {
        let function = driver()?.kernel(kernel)?;
        devices::check(device)?;
        value.set(function.attribute(attribute)?)
    }

    fn cuKernelSetAttribute(
        attribute: c_uint, val: c_int, kernel: CUkernel, device: CUdevice,
    ) {
        let function = driver()?.kernel(kernel)?;
        devices::check(device)?;
        function.set_attribute(attribute, val)
    }

    fn cuKernelSetCacheConfig(kernel: CUkernel, config: c_uint, device: CUdevice) {
        let kernel = driver()?.kernel(kernel)?;
        devices::check(device)?;
        kernel.set_cache(config)
    }

    fn cuKernelGetName(name: *mut *const c_char, kernel: CUkernel) {
        // Of no kernel at all it is a wrong value, not a wrong handle.
        if kernel.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // Valid until the library is unloaded, as the manual says.
        name.set(driver()?.kernel(kernel)?.name.as_ptr())
    }

    fn cuKernelGetParamInfo(
        kernel: CUkernel, param_index: usize, param_offset: *mut usize, param_size: *mut usize,
    ) {
        driver()?.kernel(kernel)?.parameter(param_index, param_offset, param_size)
    }

    fn cuKernelGetParamCount(kernel: CUkernel, count: *mut usize) {
        count.set(driver()?.kernel(kernel)?.info().params.len())
    }

    fn cuKernelGetLibrary(p_lib: *mut CUlibrary, kernel: CUkernel) {
        match driver()?.kernel(kernel)?.library {
            0 => Err(Error::INVALID_HANDLE),
            library => p_lib.set(CUlibrary(library)),
        }
    }
}
