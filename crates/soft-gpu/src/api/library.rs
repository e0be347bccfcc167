//! Libraries: images that are not bound to a context, and their kernels.

use std::sync::Arc;

use cuda_api::handle::HandleKind;
use cuda_api::pointer::Out;
use cuda_api::*;

use super::image::{JitOptions, Loaded};
use super::module::{LoadedModule, read_file};
use super::registry::with_kind;
use super::{Driver, devices, driver, exports};
use crate::error::{Error, Result};

/// A loaded library. There is one device, so it has one module.
pub(crate) struct Library {
    handle: usize,
    module: Arc<LoadedModule>,
}

impl Driver {
    fn add_library(&self, library: Out<CUlibrary>, loaded: Loaded) -> Result {
        let tenant = self.tenant();
        let module = self.add_module(&tenant, 0, loaded)?;
        let (handle, _) = self.libraries.insert_with(|handle| Library { handle, module })?;
        library.set(CUlibrary(handle))
    }

    fn kernel_of(&self, library: &Library, name: &std::ffi::CStr) -> Result<CUkernel> {
        let handle = self.function_of(&library.module, library.handle, name)?;
        Ok(CUkernel(with_kind(handle, HandleKind::Kernel)))
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
        let tenant = driver.working_tenant()?;
        library.required()?;
        let logs = JitOptions::read(num_jit_options, jit_options, jit_options_values)?;
        driver.add_library(library, driver.load_image(&tenant, 0, code, &logs)?)
    }

    fn cuLibraryLoadFromFile(
        library: *mut CUlibrary, file_name: *const c_char, jit_options: *mut c_uint,
        jit_options_values: *mut *mut c_void, num_jit_options: c_uint,
        _library_options: *mut c_uint, _library_option_values: *mut *mut c_void,
        _num_library_options: c_uint,
    ) {
        let driver = driver()?;
        let tenant = driver.working_tenant()?;
        library.required()?;
        let logs = JitOptions::read(num_jit_options, jit_options, jit_options_values)?;
        let bytes = read_file(file_name)?;
        driver.add_library(library, driver.load_file(&tenant, 0, &bytes, &logs)?)
    }

    fn cuLibraryUnload(library: CUlibrary) {
        let driver = driver()?;
        let library = driver.libraries.remove(library.0)?;
        let _ = driver.modules.remove(library.module.handle);
        driver.unload(&library.module);
        Ok(())
    }

    fn cuLibraryGetKernel(
        p_kernel: *mut CUkernel, library: CUlibrary, name: *const c_char,
    ) {
        let driver = driver()?;
        p_kernel.required()?;
        let library = driver.libraries.get(library.0)?;
        p_kernel.set(driver.kernel_of(&library, name.text()?)?)
    }

    fn cuLibraryGetModule(p_mod: *mut CUmodule, library: CUlibrary) {
        p_mod.set(CUmodule(driver()?.libraries.get(library.0)?.module.handle))
    }

    fn cuLibraryGetGlobal(
        pointer: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char,
    ) {
        let driver = driver()?;
        let library = driver.libraries.get(library.0)?;
        driver.variable(&library.module, name, pointer, bytes)
    }

    fn cuLibraryGetManaged(
        pointer: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char,
    ) {
        // A module's variables lie in this process' memory, where the program reaches them too.
        let library = driver()?.libraries.get(library.0)?;
        let name = name.text()?.to_str().map_err(|_| Error::NOT_FOUND)?;
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
            kernels.set_at(index, driver.kernel_of(&library, &name)?)?;
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
