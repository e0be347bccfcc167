//! Modules and functions: what modules and libraries have in common.

pub(crate) mod variables;

use crate::boundary::{In, Out};
use crate::connection::SERVER_GONE;
use crate::handles::{device_of, device_of_word};
use crate::memory::fd_numbers::out_of_the_way;
use crate::memory::{Global, VariableCopy};
use crate::module::jit_options::answer as answer_options;
use crate::module::kernel_params::Layout;
use crate::program::Client;
use crate::program::launch::submission::{
    Function, Module, ModuleSource, function_handle, wire_function, wire_module,
};
use crate::stderr::say;
use channel::memfd::sealed_image;
use channel::request::{
    CODE_HAS_VARIABLES, GetFunction, GetGlobal, ListFunctions, MODULE_PRINTS, NO_CODE,
    SYMBOL_BYTES_MAX, UnloadModule,
};
use core::ffi::c_char;
use core::sync::atomic::Ordering;
use cuda_api::extension::NO_PTX;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CUdeviceptr, CUfunction, CUresult, CudaError};
use driver_common::image::image_at;
use driver_common::jit_options::JitOptions;
use provider::ImageOrigin;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Room for what the software GPU says of an image without PTX.
const UNUSABLE_LOG_BYTES: usize = 1024;

impl Client {
    /// Loads an image in a context, or in none (0) for a library.
    pub(crate) fn load_image(
        &self,
        image: &[u8],
        context: u64,
        options: &JitOptions,
        origin: impl FnOnce() -> ImageOrigin,
    ) -> Result<Handle, CudaError> {
        let file = sealed_image(image).map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let (bytes, scalars) = (image.len() as u64, options.scalars.clone());
        let source = ModuleSource::new(out_of_the_way(file), bytes, scalars);
        let source = Arc::new(source);
        let loaded = self.load_source(Arc::clone(&source), context, options);
        if loaded.as_ref().is_err_and(|error| *error == CudaError::NO_BINARY_FOR_GPU) {
            self.say_unusable(&source, &origin());
        }
        loaded
    }

    /// Says on standard error which file of the program's has no PTX, in the software GPU's words: most
    /// programs name that by a number, if at all. Other devices leave it to the program.
    #[cold]
    fn say_unusable(&self, source: &Arc<ModuleSource>, origin: &ImageOrigin) {
        if !origin.is_new() {
            return;
        }
        // The program need not have wanted a log, so the image is tried once more.
        let mut log = [0; UNUSABLE_LOG_BYTES];
        let options = JitOptions::with_error_log(&mut log);
        if let Ok(handle) = self.load_source(Arc::clone(source), 0, &options) {
            let _ = self.unload(handle);
        }
        let why = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
        if why.starts_with(NO_PTX) {
            say(format_args!("{origin}: {why}"));
        }
    }

    /// Loads what a module of another device was loaded from, or an image.
    pub(crate) fn load_source(
        &self,
        source: Arc<ModuleSource>,
        context: u64,
        options: &JitOptions,
    ) -> Result<Handle, CudaError> {
        let start = Instant::now();
        let module = Module {
            context,
            functions: BTreeMap::new(),
            source: Arc::clone(&source),
            place: None,
            code: NO_CODE,
            prints: false,
            changes: false,
        };
        let handle = self.state().modules.insert(module)?;
        let answer = self.load_with_place(handle, &source, options.log_bytes());
        let loaded = answer.as_ref().ok().and_then(|(_, loaded, _)| loaded.as_ref());
        let result = answer.as_ref().map_or_else(|error| Err(*error), |(result, ..)| *result);
        answer_options(options, loaded, result, start.elapsed());
        if let Some(loaded) = loaded {
            let prints = loaded.flags & MODULE_PRINTS != 0;
            if prints {
                self.prints.store(true, Ordering::Release);
            }
            if let Some(module) = self.state().modules.get_mut(handle) {
                (module.code, module.prints) = (loaded.code, prints);
                module.changes = loaded.flags & CODE_HAS_VARIABLES != 0;
            }
        }
        let loaded =
            answer.and_then(|(result, loaded, managed)| result.map(|()| (loaded, managed)));
        let Ok((loaded, managed)) = loaded else {
            let module = self.state().modules.remove(handle);
            if let Some((address, _)) = module.and_then(|module| module.place) {
                self.memory().heap.free(address);
            }
            return loaded.map(|_| handle);
        };
        if let (Some(loaded), Some(file)) = (loaded, managed) {
            let module = wire_module(handle).0 as u64;
            let mapped = self.memory().add_managed(loaded.managed, file, module, context);
            if let Err(error) = mapped {
                let _ = self.unload(handle);
                return Err(error);
            }
        }
        Ok(handle)
    }

    /// The module that a library is on this device. One that was loaded on another device is loaded
    /// here when it is first asked for.
    pub(crate) fn library_here(&self, library: Handle) -> Result<Handle, CudaError> {
        if device_of(library) == self.device {
            return Ok(library);
        }
        let home = self.program.client_at(device_of(library) as usize);
        let home = home.map_err(|_| CudaError::INVALID_HANDLE)?;
        let source = {
            let state = home.state();
            let module = state.modules.get(library).ok_or(CudaError::INVALID_HANDLE)?;
            if !module.is_library() {
                return Err(CudaError::INVALID_HANDLE);
            }
            Arc::clone(&module.source)
        };
        let mut libraries = self.libraries.lock();
        if let Some(here) = libraries.get(&(library.index, library.generation)) {
            return Ok(*here);
        }
        let here = self.load_source(source, 0, &JitOptions::none())?;
        libraries.insert((library.index, library.generation), here);
        Ok(here)
    }

    /// The function that a kernel of a library is on this device.
    pub(crate) fn function_here(&self, function: CUfunction) -> Result<CUfunction, CudaError> {
        match device_of_word(function.0 as u64) == Some(self.device) {
            true => Ok(function),
            false => self.function_from_elsewhere(function),
        }
    }

    #[cold]
    fn function_from_elsewhere(&self, function: CUfunction) -> Result<CUfunction, CudaError> {
        let handle = function_handle(function.0)?;
        let home = self.program.client_at(device_of(handle) as usize);
        let (module, name) = {
            let state = home.map_err(|_| CudaError::INVALID_HANDLE)?.state();
            let (_, known) = state.function(function.0)?;
            (known.module, known.name.clone())
        };
        let here = self.find_function(self.library_here(module)?, &name)?;
        Ok(wire_function(here))
    }

    /// Loads the image at an address that the program passed.
    pub(crate) fn load_image_at(
        &self,
        address: In<u8>,
        context: u64,
        options: &JitOptions,
    ) -> Result<Handle, CudaError> {
        // SAFETY: the program passed the address as that of an image, good during the call.
        let image = unsafe { image_at(address) }
            .inspect_err(|error| answer_options(options, None, Err(*error), Duration::ZERO))?;
        let origin = || ImageOrigin::of_address(address.address() as usize);
        self.load_image(&image, context, options, origin)
    }

    /// Loads the image in a file.
    pub(crate) fn load_image_from(
        &self,
        path: In<c_char>,
        context: u64,
        options: &JitOptions,
    ) -> Result<Handle, CudaError> {
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path.text()?.to_bytes()));
        let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => CudaError::FILE_NOT_FOUND,
            _ => CudaError::INVALID_VALUE,
        });
        let mut bytes = bytes
            .inspect_err(|error| answer_options(options, None, Err(*error), Duration::ZERO))?;
        // A text ends with a NUL, as one in memory would; anything else does not mind one.
        bytes.push(0);
        self.load_image(&bytes, context, options, || ImageOrigin::of_file(&path))
    }

    /// Unloads a library on all devices.
    pub(crate) fn unload_library(&self, library: Handle) -> CUresult {
        self.unload(library)?;
        for other in self.program.clients().filter(|other| other.device != self.device) {
            let here = other.libraries.lock().remove(&(library.index, library.generation));
            here.map_or(Ok(()), |here| other.unload(here))?;
        }
        Ok(())
    }

    /// Unloads a module with its functions and variables.
    pub(crate) fn unload(&self, handle: Handle) -> CUresult {
        // Should the server be lost, the next one does not restore the module: none of its kernels may be in flight.
        if self.has_launched(handle)
            && let Err(SERVER_GONE) = self.wait_for_everything_unseen()
        {
            return Err(SERVER_GONE);
        }
        let mut memory = self.memory();
        let mut state = self.posting()?;
        state.check_open()?;
        let module = state.modules.remove(handle).ok_or(CudaError::INVALID_HANDLE)?;
        for function in module.functions.into_values() {
            state.functions.remove(function);
        }
        let place = module.place;
        let module = wire_module(handle);
        // Before the server can give the addresses to another module.
        memory.remove_globals_of(module.0 as u64);
        let posted = state.push(&UnloadModule { module });
        drop(state);
        // What uses the memory from now on comes behind the unloading, which waits for the kernels.
        if let Some((address, _)) = place {
            memory.heap.free(address);
            self.release_spare_chunks(&mut memory);
        }
        posted
    }

    /// True if kernels of a module may have been launched.
    fn has_launched(&self, module: Handle) -> bool {
        let state = self.state();
        let functions = state.modules.get(module).map(|module| &module.functions);
        let mut functions = functions.into_iter().flat_map(BTreeMap::values);
        // A graph's kernels are launched with it.
        let has_graphs = state.graphs.iter().next().is_some();
        functions.any(|of| has_graphs || state.functions.get(*of).is_some_and(|of| of.launched))
    }

    /// The function of that name, given a handle at the first time.
    pub(crate) fn find_function(&self, module: Handle, name: &CStr) -> Result<Handle, CudaError> {
        if name.count_bytes() > SYMBOL_BYTES_MAX {
            return Err(CudaError::NOT_FOUND);
        }
        // Two threads that ask for the same name at the same time must get the same handle.
        let _one_at_a_time = self.finding.lock();
        let handle = {
            let mut state = self.state();
            let known = state.modules.get(module).ok_or(CudaError::INVALID_HANDLE)?;
            if let Some(handle) = known.functions.get(name) {
                return Ok(*handle);
            }
            state.functions.insert(Function {
                module,
                name: name.to_owned(),
                layout: Layout::default(),
                attributes: Default::default(),
                cache: 0,
                occupancy: Default::default(),
                launched: false,
                old_launch: None,
            })?
        };
        let answer = self.call(&GetFunction {
            function: wire_function(handle),
            module: wire_module(module),
            name: name.to_bytes(),
        });
        let mut state = self.state();
        let result = answer.and_then(|info| {
            let params = info.parameters.iter().map(|p| (p.offset_bytes, p.size_bytes));
            let layout = Layout::new(params).ok_or(CudaError::UNKNOWN)?;
            // The program may have unloaded the module meanwhile.
            let known = state.modules.get_mut(module).ok_or(CudaError::INVALID_HANDLE)?;
            known.functions.insert(name.to_owned(), handle);
            let function = state.functions.get_mut(handle).ok_or(CudaError::INVALID_HANDLE)?;
            function.layout = layout;
            function.attributes = info.attributes;
            Ok(handle)
        });
        if result.is_err() {
            state.functions.remove(handle);
            return result;
        }
        drop(state);
        self.follow_cache(handle)?;
        result
    }

    /// All functions of a module, in the provider's order.
    pub(crate) fn all_functions(&self, module: Handle) -> Result<Vec<Handle>, CudaError> {
        let mut functions = Vec::new();
        loop {
            let first = functions.len() as u32;
            let answer = self.call(&ListFunctions { module: wire_module(module), first })?;
            for name in answer.names.split_inclusive(|b| *b == 0) {
                let name = CStr::from_bytes_with_nul(name).map_err(|_| CudaError::UNKNOWN)?;
                functions.push(self.find_function(module, name)?);
            }
            let found = functions.len() as u32;
            if found >= answer.total {
                return Ok(functions);
            }
            // A name that does not fit into a reply.
            if found == first {
                return Err(CudaError::NOT_SUPPORTED);
            }
        }
    }

    /// Finds a variable of a module, or one of those that host and device share, and gives the
    /// program address and size, as it wants them.
    pub(crate) fn find_global(
        &self,
        module: Handle,
        managed: bool,
        name: &CStr,
        pointer: Out<CUdeviceptr>,
        bytes: Out<usize>,
    ) -> CUresult {
        if name.count_bytes() > SYMBOL_BYTES_MAX {
            return Err(CudaError::NOT_FOUND);
        }
        let (module, name) = (wire_module(module), name.to_bytes());
        let info = self.call(&GetGlobal { module, managed, name })?;
        let name = name.to_vec();
        let global = Global {
            bytes: info.bytes,
            module: module.0 as u64,
            name,
            managed,
            present: info.address.0,
            copy: VariableCopy::default(),
        };
        let mut memory = self.memory();
        if !managed && !memory.is_device(info.address.0) {
            self.has_foreign_variables.store(true, Ordering::Relaxed);
        }
        memory.add_global(info.address.0, global);
        drop(memory);
        pointer.set_if_wanted(info.address);
        bytes.set_if_wanted(info.bytes as usize);
        Ok(())
    }

    /// Ends all objects of a context, whose work is done.
    pub(crate) fn end_objects_of(&self, context: u64) {
        let (streams, events, modules) = {
            let state = self.state();
            let streams: Vec<Handle> = state
                .streams
                .iter()
                .filter(|(_, stream)| stream.context == context)
                .map(|(handle, _)| handle)
                .collect();
            let events: Vec<Handle> = state
                .events
                .iter()
                .filter(|(_, event)| event.context == context)
                .map(|(handle, _)| handle)
                .collect();
            let modules: Vec<Handle> = state
                .modules
                .iter()
                .filter(|(_, module)| module.context == context)
                .map(|(handle, _)| handle)
                .collect();
            (streams, events, modules)
        };
        // Errors mean that the server is gone, and the objects with it.
        for handle in modules {
            let _ = self.unload(handle);
        }
        for handle in events {
            let _ = self.destroy_event(handle);
        }
        for handle in streams {
            let _ = self.destroy_stream(crate::program::launch::submission::wire_stream(handle));
        }
        self.end_arrays_of(context);
        self.free_memory_of(context);
        export_tables::forget_context(cuda_api::CUcontext(context as usize));
    }
}

/// The handle of a module that the program holds as that kind.
pub(crate) fn module_handle(
    client: &Client,
    word: usize,
    kind: HandleKind,
) -> Result<Handle, CudaError> {
    Ok(client.state().module(word, kind)?.0)
}
