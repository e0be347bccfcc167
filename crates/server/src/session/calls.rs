//! Requests with a reply: memory, modules, questions.

use super::Session;
use super::stream::posts::launch_shape;
use crate::device::{self, LaunchShape, TensorMapKind};
use crate::meter::{KernelCounters, KernelMeter};
use crate::session::memory::check_device;
use channel::message::Message;
use channel::request::{
    AdoptChunk, AllocationRetry, ChunkCreate, ChunkRelease, ClusterCount, CountClusters,
    ElapsedTime, ElapsedTimeReply, EncodeIm2col, EncodeTiled, FunctionInfo, FunctionNames,
    GetFunction, GetGlobal, GlobalInfo, HostMap, HostUnmap, ImportMemory, LargestCluster,
    ListFunctions, LoadModule, MemoryInfo, MemoryInfoReply, MemoryNote, NAMES_BYTES_MAX,
    ReplaceMapAddress, Request, Reset, WaitIdle,
};
use channel::socket::ReceiveError;
use cuda_api::limits::Limits;
use cuda_api::{CUdeviceptr, CudaError, Word};
use std::ffi::CStr;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

/// Messages with files that a client may have sent for requests that never came: more than a socket takes.
const UNUSED_FILES_MAX: usize = 1024;

impl Session {
    /// The file that the client has sent before a request. What was sent for a request that
    /// never came is dropped.
    pub(super) fn receive_file(&self, opcode: u16) -> Result<OwnedFd, CudaError> {
        for _ in 0..=UNUSED_FILES_MAX {
            self.check_end()?;
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
        // It goes on sending: that has no end.
        Err(CudaError::INVALID_VALUE)
    }

    pub(super) fn create_chunk(&mut self, request: ChunkCreate) -> Result<(), CudaError> {
        check_device(request.device)?;
        let address = request.address.0;
        let internal = self.internal.as_ref();
        let file = match self.memory.create_chunk(address, request.bytes, internal) {
            Err(CudaError::OUT_OF_MEMORY) if self.retired.end_arrays() => {
                self.memory.account.retries();
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
        let (address, bytes) = (request.address.0, request.bytes);
        self.memory.adopt_chunk(&self.common.windows, address, bytes, file)
    }

    pub(super) fn release_chunk(&mut self, request: ChunkRelease) -> Result<(), CudaError> {
        self.wait_idle()?;
        self.memory.release_chunk(request.address.0)?;
        self.common.shared.forget_memory(self.link.identity.id, request.address.0);
        Ok(())
    }

    pub(super) fn retry_allocation(&mut self, _: AllocationRetry) -> Result<(), CudaError> {
        self.memory.account.retries();
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
        // A limit leaves the device its size, as under NVIDIA's MPS: what is free is less.
        Ok(MemoryInfoReply { free_bytes: self.memory.account.free(free_bytes), total_bytes })
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

    /// cuCtxSetLimit's words: limit, value. A tenant's limits are its own. Elsewhere all clients have
    /// those of the one context, which are CUDA's to begin with: CUDA_ERROR_UNSUPPORTED_LIMIT for more.
    pub(super) fn set_limit(&mut self, words: &[u64]) -> Result<(), CudaError> {
        let &[limit, value] = words else { return Err(CudaError::INVALID_VALUE) };
        let limit = u32::try_from(limit).map_err(|_| CudaError::INVALID_VALUE)?;
        let value = usize::try_from(value).map_err(|_| CudaError::INVALID_VALUE)?;
        if self.share.is_tenant() {
            return self.share.device().set_limit(limit, value);
        }
        match value <= Limits::default().get(limit)? {
            true => Ok(()),
            false => Err(CudaError::UNSUPPORTED_LIMIT),
        }
    }

    /// cuFuncSetAttribute's words: function, attribute, value.
    pub(super) fn set_function_attribute(&mut self, words: &[u64]) -> Result<(), CudaError> {
        let &[function, attribute, value] = words else { return Err(CudaError::INVALID_VALUE) };
        let attribute = u32::try_from(attribute).map_err(|_| CudaError::INVALID_VALUE)?;
        let value = i32::from_word(value).ok_or(CudaError::INVALID_VALUE)?;
        let device = self.share.device().clone();
        self.modules.function_mut(function)?.set_attribute(device.calls(), attribute, value)
    }

    pub(super) fn set_function_cache(&mut self, words: &[u64]) -> Result<(), CudaError> {
        let &[function, preferred] = words else { return Err(CudaError::INVALID_VALUE) };
        let preferred = u32::try_from(preferred).map_err(|_| CudaError::INVALID_VALUE)?;
        self.modules.function(function)?.set_cache(self.share.device().calls(), preferred)
    }

    pub(super) fn count_clusters(&mut self, r: CountClusters) -> Result<ClusterCount, CudaError> {
        let stream = self.streams.on_share()?;
        let function = self.modules.function(r.function.0 as u64)?;
        let calls = self.share.device().calls();
        Ok(ClusterCount {
            clusters: device::clusters(calls, function, cluster_shape(&r)?, stream)?,
        })
    }

    pub(super) fn largest_cluster(&mut self, r: LargestCluster) -> Result<ClusterCount, CudaError> {
        let stream = self.streams.on_share()?;
        let function = self.modules.function(r.0.function.0 as u64)?;
        let calls = self.share.device().calls();
        Ok(ClusterCount {
            clusters: device::largest_cluster(calls, function, cluster_shape(&r.0)?, stream)?,
        })
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
