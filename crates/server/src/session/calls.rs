//! Requests with a reply: memory, modules, questions.

use super::Session;
use super::code::{Code, Placed, Prepared, VARIABLES_ALIGN_BYTES, VariablePlace};
use super::declaration::Declaration;
use super::image::Image;
use super::modules::LoadedModule;
use super::posts::launch_shape;
use crate::account::Charge;
use crate::device::{
    BuildLog, CodeKey, IMAGE_PADDING_BYTES, JitOption, LaunchShape, Module, TensorMapKind,
};
use crate::meter::{KernelCounters, KernelMeter};
use channel::memfd::{IMAGE_BYTES_MAX, SealedBytes};
use channel::message::Message;
use channel::request::{
    AdoptChunk, ChunkCreate, ChunkRelease, ClusterCount, CountClusters, ElapsedTime,
    ElapsedTimeReply, EncodeIm2col, EncodeTiled, FunctionInfo, FunctionNames, GetFunction,
    GetGlobal, GlobalInfo, HostMap, HostUnmap, ImportMemory, KEEPS_VALUES, KNOWN_TO_PRINT,
    LOG_BYTES_MAX, LargestCluster, ListFunctions, LoadModule, MODULE_PRINTS, MemoryInfo,
    MemoryInfoReply, MemoryNote, ModuleLoaded, NAMES_BYTES_MAX, NO_CODE, PLACES_VARIABLES,
    ReplaceMapAddress, Request, Reset, WaitIdle,
};
use channel::ring::Record;
use channel::socket::ReceiveError;
use cuda_api::extension::variable_place;
use cuda_api::{CUdevice, CUdeviceptr, CudaError, Word};
use ptx::module_state::State;
use std::ffi::CStr;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

/// The device as clients count: a server shows one.
const DEVICE: CUdevice = 0;

pub(super) fn check_device(device: CUdevice) -> Result<(), CudaError> {
    if device == DEVICE { Ok(()) } else { Err(CudaError::INVALID_DEVICE) }
}

impl Session {
    /// The file that the client has sent before a request. What was sent for a request that
    /// never came is dropped.
    pub(super) fn receive_file(&self, opcode: u16) -> Result<OwnedFd, CudaError> {
        loop {
            let (message, mut files) = self.socket.receive().map_err(|error| match error {
                // It came, and this process had no descriptor left for it.
                ReceiveError::Fds => CudaError::OUT_OF_MEMORY,
                _ => CudaError::INVALID_VALUE,
            })?;
            let wanted = match message {
                Message::HostFd(()) => {
                    [HostMap::OPCODE, ImportMemory::OPCODE, AdoptChunk::OPCODE].contains(&opcode)
                }
                Message::ImageFd(()) => opcode == LoadModule::OPCODE,
                _ => return Err(CudaError::INVALID_VALUE),
            };
            if wanted {
                return files.pop().ok_or(CudaError::INVALID_VALUE);
            }
        }
    }

    pub(super) fn create_chunk(&mut self, request: ChunkCreate) -> Result<(), CudaError> {
        check_device(request.device)?;
        let address = request.address.0;
        let internal = self.internal.as_ref();
        let file = match self.memory.create_chunk(address, request.bytes, internal) {
            Err(CudaError::OUT_OF_MEMORY) if self.retired.end_arrays() => {
                self.memory.create_chunk(address, request.bytes, internal)?
            }
            file => file?,
        };
        let message = Message::ChunkFd(self.memory.window_offset(address));
        if self.socket.send(&message, &[file.as_fd()]).is_err() {
            self.memory.release_chunk(address)?;
            return Err(CudaError::MPS_RPC_FAILURE);
        }
        Ok(())
    }

    pub(super) fn adopt_chunk(
        &mut self,
        request: AdoptChunk,
        file: &OwnedFd,
    ) -> Result<(), CudaError> {
        check_device(request.device)?;
        self.declaration.get_or_insert_with(Declaration::begin);
        self.memory.adopt_chunk(&self.common.windows, request.address.0, request.bytes, file)
    }

    pub(super) fn release_chunk(&mut self, request: ChunkRelease) -> Result<(), CudaError> {
        self.wait_idle()?;
        self.memory.release_chunk(request.address.0)?;
        self.common.shared.forget_memory(self.link.identity.id, request.address.0);
        Ok(())
    }

    /// The provider checks that the memory is the client's.
    pub(super) fn note_memory(&mut self, request: MemoryNote) -> Result<(), CudaError> {
        self.share.note_memory(request.address.0, request.bytes, request.note)
    }

    pub(super) fn map_host(&mut self, request: HostMap, file: &OwnedFd) -> Result<(), CudaError> {
        self.retired.vacate(request.address, request.bytes)?;
        self.memory.map_host(&self.common.windows, request.address, request.bytes, file)
    }

    pub(super) fn unmap_host(&mut self, request: HostUnmap) -> Result<(), CudaError> {
        self.wait_idle()?;
        let (bytes, piece) = self.memory.unmap_host(request.address)?;
        self.retired.host(request.address, bytes, piece);
        Ok(())
    }

    pub(super) fn memory_info(&mut self, r: MemoryInfo) -> Result<MemoryInfoReply, CudaError> {
        check_device(r.device)?;
        let (free_bytes, total_bytes) = self.share.device().memory_info()?;
        let (free_bytes, total_bytes) = self.memory.account.seen(free_bytes, total_bytes);
        Ok(MemoryInfoReply { free_bytes, total_bytes })
    }

    pub(super) fn answer_when_idle(&mut self, _: WaitIdle) -> Result<(), CudaError> {
        self.wait_idle()
    }

    pub(super) fn reset(&mut self, _: Reset) -> Result<(), CudaError> {
        self.wait_idle()?;
        self.clear();
        Ok(())
    }

    pub(super) fn elapsed_time(&mut self, r: ElapsedTime) -> Result<ElapsedTimeReply, CudaError> {
        let (start, end) = (self.events.get(r.start.0 as u64)?, self.events.get(r.end.0 as u64)?);
        Ok(ElapsedTimeReply { milliseconds: start.elapsed_ms(end)? })
    }

    /// Loads a module. Logs come back with an error too.
    pub(super) fn load_module(&mut self, record: &Record) {
        // Sessions that load the same code wait for one of them, which may wait until no session
        // submits anything.
        self.share.in_flight().end_submitting();
        let file = self.receive_file(LoadModule::OPCODE);
        let request = record.decode::<LoadModule>().map_err(|_| CudaError::INVALID_VALUE);
        let (result, loaded) = match (self.sticky, request, file) {
            (Some(error), ..) | (None, Err(error), _) | (None, _, Err(error)) => {
                (Err(error), ModuleLoaded::default())
            }
            (None, Ok(request), Ok(file)) => self.load(&request, &file),
        };
        match result {
            Ok(()) => self.reply(Ok(()), &loaded),
            Err(error) => {
                let error = self.note(error);
                if !self.is_on_trial() {
                    self.reply(Err(error), &loaded);
                }
            }
        }
    }

    fn load(
        &mut self,
        request: &LoadModule,
        file: &OwnedFd,
    ) -> (Result<(), CudaError>, ModuleLoaded) {
        let mut loaded = ModuleLoaded::default();
        let word = request.module.0 as u64;
        if let Some(result) = self.take_known(request, &mut loaded) {
            return (result, loaded);
        }
        let charged = self.modules.vacant(word).and_then(|()| self.charge_image(request));
        let checked =
            charged.and_then(|charge| read_image(request, file).map(|checked| (charge, checked)));
        let (_charge, (image, bytes, options)) = match checked {
            Ok(checked) => checked,
            Err(error) => return (Err(error), loaded),
        };
        let place = match self.place_of(request) {
            Ok(place) => place,
            Err(error) => return (Err(error), loaded),
        };
        let prepared = self.prepare((image, bytes), place, options.is_empty());
        let Code { image, may_print, placed, state } = match prepared {
            Ok(Prepared::Code(code)) => code,
            Ok(Prepared::NeedsPlace(bytes)) => {
                loaded.variables_bytes = bytes;
                return (Ok(()), loaded);
            }
            Err(error) => return (Err(error), loaded),
        };
        if may_print {
            loaded.flags |= MODULE_PRINTS;
        }
        let image_bytes = ptx::module_state::variable_bytes(&image);
        let before = self.share.mapped_bytes();
        let log_bytes = |wanted: u32| (wanted as usize).min(LOG_BYTES_MAX);
        let logs = (log_bytes(request.info_log_bytes), log_bytes(request.error_log_bytes));
        let (module, BuildLog { info, error }) = match &state {
            State::None => {
                let key = CodeKey::of(&image, &options);
                // Who takes code by its key is not told where variables were placed.
                if placed.is_empty() {
                    loaded.code = key.words();
                }
                self.common.warm.loading(key, &image, &options, None);
                Module::load_shared(&self.share, key, image, &options, logs)
            }
            State::Variables(variables) => {
                let key = CodeKey::of(&image, &options);
                let warm = &self.common.warm;
                let copy = warm.is_new(&key, &image).then(|| image.clone());
                let (module, log) =
                    Module::load_recycled(&self.share, key, image, &options, logs, variables);
                // Not if its variables cannot get their first values again.
                if module.as_ref().is_ok_and(|module| module.key().is_some()) {
                    match copy {
                        Some(image) => warm.loading(key, &image, &options, Some(variables)),
                        None => warm.again(&key),
                    }
                }
                (module, log)
            }
            State::Unknown => Module::load(&self.share, image, &options, logs),
        };
        (loaded.info_log, loaded.error_log) = (info, error);
        if self.share.is_tenant() && place.is_some() {
            let needed = self.share.place_variables((0, 0), variable_place::NONE);
            loaded.variables_bytes = needed.unwrap_or(0);
            if module.is_err() && loaded.variables_bytes > 0 {
                self.memory.take_managed();
                return (Ok(()), loaded);
            }
        }
        if let (Some(declaration), Ok(module)) = (&mut self.declaration, &module) {
            declaration.has_module(module.is_new(), &state);
        }
        // What was placed goes again if the module does not come.
        let managed = self.memory.take_managed();
        let kept = module.and_then(|module| {
            let charge =
                self.memory.account.charge(self.share.variable_bytes(before, image_bytes))?;
            let globals = Vec::new();
            let module =
                LoadedModule { module, may_print, globals, placed, managed, _charge: charge };
            self.keep_module(word, module, &mut loaded)
        });
        (kept, loaded)
    }

    /// Takes code that is loaded by the key that a client was told at another server. `None`: the image has
    /// to be read.
    fn take_known(
        &mut self,
        request: &LoadModule,
        loaded: &mut ModuleLoaded,
    ) -> Option<Result<(), CudaError>> {
        let word = request.module.0 as u64;
        // A request for places, or one that is not understood, goes the whole way.
        let plain = request.flags & !KNOWN_TO_PRINT == 0;
        if request.code == NO_CODE || !plain || self.modules.vacant(word).is_err() {
            return None;
        }
        let key = CodeKey::of_words(request.code);
        let module = Module::find_shared(&self.share, &key)?;
        self.common.warm.again(&key);
        if let Some(declaration) = &mut self.declaration {
            declaration.has_module(false, &State::None);
        }
        loaded.code = request.code;
        let may_print = self.can_fetch_printed() && request.flags & KNOWN_TO_PRINT != 0;
        if may_print {
            loaded.flags |= MODULE_PRINTS;
        }
        let charge = self.memory.account.charge(0);
        Some(charge.and_then(|charge| {
            let (globals, placed, managed) = (Vec::new(), Placed::new(), None);
            let module =
                LoadedModule { module, may_print, globals, placed, managed, _charge: charge };
            self.keep_module(word, module, loaded)
        }))
    }

    /// Charges what is held for an image while it is loaded; waits while others hold all there is
    /// room for. CUDA_ERROR_OUT_OF_MEMORY for one that finds no room even alone.
    fn charge_image(&mut self, request: &LoadModule) -> Result<Charge, CudaError> {
        if request.image_bytes > IMAGE_BYTES_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        let images = self.common.images.clone();
        if !images.could_hold(request.image_bytes) {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let mut charge = None;
        self.wait_until(|_| {
            charge = images.charge(request.image_bytes).ok();
            Ok(charge.is_some())
        })?;
        charge.ok_or(CudaError::OUT_OF_MEMORY)
    }

    /// Where the client wants variables; `None` if it leaves that to the provider.
    fn place_of(&self, request: &LoadModule) -> Result<Option<VariablePlace>, CudaError> {
        if request.flags & !(PLACES_VARIABLES | KEEPS_VALUES | KNOWN_TO_PRINT) != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if request.flags & PLACES_VARIABLES == 0 {
            return Ok(None);
        }
        let (address, bytes) = request.place;
        self.memory.device_range(address, bytes)?;
        if !address.is_multiple_of(VARIABLES_ALIGN_BYTES) {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(Some(VariablePlace { address, bytes, kept: request.flags & KEEPS_VALUES != 0 }))
    }

    fn keep_module(
        &mut self,
        word: u64,
        module: LoadedModule,
        loaded: &mut ModuleLoaded,
    ) -> Result<(), CudaError> {
        if let Some(variables) = &module.managed {
            let sent = self.socket.send(&Message::ManagedFd(()), &[variables.file().as_fd()]);
            sent.map_err(|_| CudaError::MPS_RPC_FAILURE)?;
            self.memory.add_managed(variables)?;
            loaded.managed = (variables.address(), variables.bytes());
        }
        self.modules.add(word, module)
    }

    pub(super) fn get_function(
        &mut self,
        request: GetFunction<'_>,
    ) -> Result<FunctionInfo, CudaError> {
        let module = request.module.0 as u64;
        let name = symbol(request.name)?;
        let loaded = &self.modules.module(module)?.module;
        let function = loaded.function(&name)?;
        if let Some(key) = loaded.key() {
            self.common.warm.uses(key, &name);
        }
        let info = FunctionInfo {
            attributes: *function.attributes(),
            parameters: function.parameters().to_vec(),
        };
        let new = |name: &CStr| KernelCounters::new(name, function.attributes());
        let meter = KernelMeter::new(self.link.counters.kernel(&name, new));
        self.modules.add_function(request.function.0 as u64, module, name, function, meter)?;
        Ok(info)
    }

    /// cuFuncSetAttribute's words: function, attribute, value.
    pub(super) fn set_function_attribute(&mut self, words: &[u64]) -> Result<(), CudaError> {
        let &[function, attribute, value] = words else { return Err(CudaError::INVALID_VALUE) };
        let attribute = u32::try_from(attribute).map_err(|_| CudaError::INVALID_VALUE)?;
        let value = i32::from_word(value).ok_or(CudaError::INVALID_VALUE)?;
        let device = self.share.device().clone();
        self.modules.function_mut(function)?.set_attribute(device.table(), attribute, value)
    }

    pub(super) fn count_clusters(&mut self, r: CountClusters) -> Result<ClusterCount, CudaError> {
        let function = self.modules.function(r.function.0 as u64)?;
        let table = self.share.device().table();
        Ok(ClusterCount { clusters: function.clusters(table, cluster_shape(&r)?)? })
    }

    pub(super) fn largest_cluster(&mut self, r: LargestCluster) -> Result<ClusterCount, CudaError> {
        let function = self.modules.function(r.0.function.0 as u64)?;
        let table = self.share.device().table();
        Ok(ClusterCount { clusters: function.largest_cluster(table, cluster_shape(&r.0)?)? })
    }

    pub(super) fn encode_tiled(&mut self, r: EncodeTiled) -> Result<[u64; 16], CudaError> {
        self.share.device().encode_tensor_map(TensorMapKind::Tiled, &r.0)
    }

    pub(super) fn encode_im2col(&mut self, r: EncodeIm2col) -> Result<[u64; 16], CudaError> {
        self.share.device().encode_tensor_map(TensorMapKind::Im2col, &r.0)
    }

    pub(super) fn replace_map_address(
        &mut self,
        r: ReplaceMapAddress,
    ) -> Result<[u64; 16], CudaError> {
        self.share.device().replace_map_address(&r)
    }

    pub(super) fn list_functions(&mut self, r: ListFunctions) -> Result<FunctionNames, CudaError> {
        let all = self.modules.module(r.module.0 as u64)?.module.function_names()?;
        let total = u32::try_from(all.len()).map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let mut names = Vec::new();
        for name in all.iter().skip(r.first as usize) {
            let name = name.as_bytes_with_nul();
            if names.len() + name.len() > NAMES_BYTES_MAX {
                break;
            }
            names.extend_from_slice(name);
        }
        Ok(FunctionNames { total, names })
    }

    pub(super) fn get_global(&mut self, request: GetGlobal<'_>) -> Result<GlobalInfo, CudaError> {
        let name = symbol(request.name)?;
        let loaded = self.modules.module(request.module.0 as u64)?;
        let placed = name.to_str().ok().and_then(|name| loaded.placed.get(name));
        let (address, bytes) = placed.copied().map_or_else(|| loaded.module.global(&name), Ok)?;
        let shared = loaded.managed.as_ref().is_some_and(|m| m.contains(address, bytes));
        if !shared && loaded.module.is_managed(address) {
            let (name, client) = (name.to_string_lossy(), self.link.name());
            let why = "the device's driver keeps it where only this process reaches it";
            let log = &self.common.log;
            log.line(format!("Client {client} has no managed variable {name}: {why}"));
            return Err(CudaError::NOT_SUPPORTED);
        }
        if request.managed && !shared {
            return Err(CudaError::NOT_FOUND);
        }
        if self.memory.add_global(address, bytes)? {
            loaded.globals.push(address);
        }
        Ok(GlobalInfo { address: CUdeviceptr(address), bytes })
    }
}

fn cluster_shape(r: &CountClusters) -> Result<LaunchShape, CudaError> {
    let grid = [r.grid_x, r.grid_y, r.grid_z];
    let block = [r.block_x, r.block_y, r.block_z];
    launch_shape(grid, block, r.shared_bytes, r.flags)
}

/// A name as a C string; there is no symbol with a NUL in its name.
fn symbol(name: &[u8]) -> Result<CString, CudaError> {
    CString::new(name).map_err(|_| CudaError::NOT_FOUND)
}

/// Copies the image out of the client's file and checks its structure.
fn read_image(
    request: &LoadModule,
    file: &OwnedFd,
) -> Result<(Image, Vec<u8>, Vec<JitOption>), CudaError> {
    let sealed = SealedBytes::open(file, IMAGE_BYTES_MAX).map_err(|_| CudaError::INVALID_VALUE)?;
    let length = usize::try_from(request.image_bytes).map_err(|_| CudaError::INVALID_VALUE)?;
    let bytes = sealed.get(..length).ok_or(CudaError::INVALID_VALUE)?;
    let image = Image::check(bytes)?;
    let options = request
        .options
        .iter()
        .map(|o| {
            let value = u32::try_from(o.value).map_err(|_| CudaError::INVALID_VALUE)?;
            JitOption::new(o.option, value)
        })
        .collect::<Result<Vec<_>, _>>()?;
    // With the room that is needed to load it: what is large is not moved.
    let mut copy = Vec::new();
    let room = copy.try_reserve_exact(length + IMAGE_PADDING_BYTES);
    room.map_err(|_| CudaError::OUT_OF_MEMORY)?;
    copy.extend_from_slice(bytes);
    Ok((image, copy, options))
}
