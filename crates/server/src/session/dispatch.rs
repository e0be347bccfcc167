//! Dispatch: an opcode selects the function that serves it, whose result goes to the client.

use super::calls::set_limit;
use super::memory::arrays::ObjectName;
use super::module::loading::Loading;
use super::restore::is_work;
use super::{Session, generic};
use crate::device::{Device, TensorMapKind};
use channel::payload::Payload;
use channel::request::*;
use channel::ring::Record;
use cuda_api::constants::vmm;
use cuda_api::{CUresult, CudaError, Policy, Word, number, row_of_number};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Requests of a kind that the server does not know are written to the log so often.
const UNKNOWN_LOGGED_MAX: u32 = 8;

// A request of the table without a row here does not compile.
macro_rules! dispatch {
    ($session:ident, $record:ident, |$s:ident, $request:ident| {
        post { $($post:ident => $posted:expr,)* }
        call { $($call:ident => $called:expr,)* }
        file($file:ident) { $($with_file:ident => $called_with_file:expr,)* }
    }) => {
        match RequestName::of($record.opcode()) {
            $(Some(RequestName::$post) => $session.post($record, |$s, $request: $post| $posted),)*
            $(Some(RequestName::$call) => $session.call($record, |$s, $request: $call| $called),)*
            // The file came before, and goes even if the request is refused.
            $(Some(RequestName::$with_file) => {
                let file = $session.submission.receive_file(&$session.socket, $with_file::OPCODE);
                $session.call($record, |$s, $request: $with_file| {
                    let $file = &file?;
                    $called_with_file
                })
            })*
            // The one request whose reply says something about an error too.
            Some(RequestName::LoadModule) => $session.load_module($record),
            None => $session.forward($record.opcode(), $record.words()),
        }
    };
}

impl Session {
    /// Carries out one request. A row says which parts of the session it touches.
    pub(super) fn dispatch(&mut self, record: &Record) {
        dispatch!(self, record, |s, request| {
            post {
                LaunchKernel => s.submission.launch(request),
                HostToDevice => s.submission.copy_in(request, &s.memory),
                DeviceToHost => s.submission.copy_out(request, &s.memory),
                Copy3D => s.submission.copy_3d(request, &s.memory, &s.arrays),
                Fence => s.submission.fence(request, &s.memory),
                Notify => s.submission.notify(request, &s.callbacks),
                HostFunc => s.submission.host_function(request, &s.memory, &s.callbacks),
                Repeats => s.note_repeats(request),
                CreateStream => s.submission.create_stream(request),
                CreateGreenStream => s.submission.create_green_stream(request),
                DestroyStream => {
                    s.batcher.forget_stream(request.stream.0 as u64);
                    s.submission.streams.destroy(request.stream.0 as u64)
                },
                CreateEvent => s.events.create(request),
                DestroyEvent => s.events.destroy(request.event, |word| s.pending.uses(word)),
                RecordEvent => s.submission.record_event(request, &s.events, &s.memory),
                WaitEvent => s.submission.wait_event(request, &s.events),
                UnloadModule => s.unload_module(request),
                AllocationRetry => s.memory.note_retry(request),
                DestroyArray => s.destroy_array(request),
                DestroyMipmappedArray => s.destroy_mipmapped_array(request),
                DestroyTexture => s.destroy_object((request.texture, false)),
                DestroySurface => s.destroy_object((request.surface, true)),
                GraphBegin => s.graphs.begin(request, &s.memory),
                GraphEmpty => s.graphs.add_empty(request, &s.memory),
                GraphKernel => s.graphs.add_kernel(request, &s.memory, &mut s.submission),
                GraphCopy => s.graphs.add_copy(request, &s.memory, &s.arrays),
                GraphFill => s.graphs.add_fill(request, &s.memory),
                GraphEdges => s.graphs.add_edges(request, &s.memory),
                GraphCondition => s.graphs.add_condition(request, &s.memory),
                GraphConditional => s.graphs.add_conditional(request, &s.memory),
                GraphLaunch => s.graphs.launch(request, &mut s.submission, &s.memory),
                GraphDestroy => {
                    s.graphs.destroy(request, &s.pending);
                    Ok(())
                },
            }
            call {
                ChunkCreate => s.memory.create_chunk(request),
                ChunkRelease => {
                    s.wait_idle()?;
                    s.memory.release_chunk(request.address.0)
                },
                // The provider checks that the memory is the client's.
                MemoryNote => {
                    let MemoryNote { address, bytes, note } = request;
                    s.submission.share.note_memory(address.0, bytes, note)
                },
                HostUnmap => {
                    s.wait_idle()?;
                    s.memory.unmap_host(request)
                },
                MemoryInfo => s.memory.info(request),
                PrintfDrain => s.submission.drain_printf(request),
                Reset => s.reset(request),
                WaitIdle => s.answer_when_idle(request),
                ElapsedTime => s.events.elapsed_time(request),
                GetFunction => s.submission.modules.get_function(request),
                GetGlobal => s.submission.modules.get_global(request, &mut s.memory),
                CountClusters => s.submission.count_clusters(request),
                LargestCluster => s.submission.largest_cluster(request),
                ListFunctions => s.submission.modules.list_functions(request),
                CreateArray => s.arrays.create(request, &mut s.memory),
                CreateMipmappedArray => s.arrays.create_mipmapped(request, &mut s.memory),
                NameLevel => s.arrays.name_level(request),
                ArrayRequirements => s.arrays.requirements(request),
                MipmappedRequirements => s.arrays.mipmapped_requirements(request),
                CreateTexture => s.arrays.create_texture(request, &s.memory),
                CreateSurface => s.arrays.create_surface(request, &s.memory),
                EncodeTiled => s.device().encode_tensor_map(TensorMapKind::Tiled, &request.0),
                EncodeIm2col => s.device().encode_tensor_map(TensorMapKind::Im2col, &request.0),
                ReplaceMapAddress => s.device().replace_map_address(&request),
                ReserveAddresses => s.memory.reserve_addresses(request),
                FreeAddresses => s.memory.free_addresses(request),
                CreateMemory => s.memory.create_memory(request),
                ReleaseMemory => s.memory.release_memory(request),
                MapMemory => s.memory.map_memory(request),
                UnmapMemory => {
                    s.wait_idle()?;
                    s.memory.unmap(request.address.0, request.bytes)
                },
                SetAccess => {
                    let SetAccess { address, bytes, access } = request;
                    if access != vmm::ACCESS_READ_WRITE {
                        s.wait_idle()?;
                    }
                    s.memory.set_access(address.0, bytes, access)
                },
                ShareMemory => s.memory.share_memory(request),
                OpenMemory => s.memory.open_memory(request),
                SharedFile => s.memory.shared_file(request),
                ShareEvent => s.events.share(request),
                OpenEvent => s.events.open(request),
                QueryEvent => {
                    // Another client may wait for it as soon as this is answered.
                    s.carry_out_pending(|pending| pending.records(request.event.0 as u64))?;
                    s.events.query(request.event)
                },
                GraphInstantiate => {
                    s.graphs.instantiate(request, &mut s.submission, &s.pending)
                },
                GraphCanChoose => s.graphs.can_choose(request),
            }
            file(file) {
                HostMap => s.memory.map_host(request, file),
                AdoptChunk => s.memory.adopt_chunk(request, file),
                ImportMemory => s.memory.import_memory(request, file),
            }
        });
    }

    fn device(&self) -> &Device {
        self.submission.share.device()
    }

    fn reset(&mut self, _: Reset) -> CUresult {
        self.wait_idle()?;
        self.clear();
        Ok(())
    }

    fn answer_when_idle(&mut self, _: WaitIdle) -> CUresult {
        self.wait_idle()
    }

    /// Unloads a module, and forgets the graphs that use it.
    fn unload_module(&mut self, request: UnloadModule) -> CUresult {
        let word = request.module.0 as u64;
        self.submission.modules.module(word)?;
        self.wait_idle()?;
        self.graphs.forget_module(word);
        self.batcher.forget();
        self.submission.modules.unload(word, &mut self.memory)
    }

    /// Destroys an array, and forgets the graphs that copy from or to it: the provider would follow its
    /// own handle in them.
    fn destroy_array(&mut self, request: DestroyArray) -> CUresult {
        self.arrays.check_whole(request.array)?;
        self.wait_idle()?;
        self.graphs.forget_array(request.array.to_word());
        self.arrays.destroy(request, &mut self.memory)
    }

    /// As [`Session::destroy_array`], of one with levels.
    fn destroy_mipmapped_array(&mut self, request: DestroyMipmappedArray) -> CUresult {
        self.arrays.mipmapped(request.mipmapped)?;
        self.wait_idle()?;
        let graphs = &mut self.graphs;
        self.arrays.destroy_mipmapped(request, &mut self.memory, |level| graphs.forget_array(level))
    }

    /// Destroys a texture or surface: kernels that were launched before may still read by it.
    fn destroy_object(&mut self, object: ObjectName) -> CUresult {
        self.arrays.check_object(object)?;
        self.wait_idle()?;
        self.arrays.destroy_object(object);
        Ok(())
    }

    /// A request without a reply: an error waits in the region.
    fn post<'a, R: Request<'a>>(
        &mut self,
        record: &'a Record,
        carry_out: impl FnOnce(&mut Self, R) -> CUresult,
    ) {
        const { assert!(matches!(R::KIND, RequestKind::Post)) };
        if self.submission.sticky.is_some() {
            return;
        }
        let result = match record.decode::<R>() {
            Ok(request) => carry_out(self, request),
            Err(_) => Err(CudaError::INVALID_VALUE),
        };
        if self.submission.deferral.is_none() {
            self.submission.posted(result);
        }
    }

    /// A request with a reply.
    fn call<'a, R: Request<'a>>(
        &mut self,
        record: &'a Record,
        carry_out: impl FnOnce(&mut Self, R) -> Result<R::Reply, CudaError>,
    ) {
        const { assert!(matches!(R::KIND, RequestKind::Call)) };
        // What was said before a fault, and of it, is fetched behind it.
        let after_fault = R::OPCODE == PrintfDrain::OPCODE && self.submission.share.is_tenant();
        let result = match self.submission.sticky.filter(|_| !after_fault) {
            Some(error) => Err(error),
            None => match record.decode::<R>() {
                Ok(request) => {
                    self.submission.link.set_in_call(true);
                    carry_out(self, request)
                }
                Err(_) => Err(CudaError::INVALID_VALUE),
            },
        };
        match result {
            Ok(reply) => self.reply(Ok(()), &reply),
            Err(error) => self.refuse(error),
        }
        self.submission.link.set_in_call(false);
    }

    /// Answers with an error, or not at all if the client is going to get its answer from another
    /// server.
    fn refuse(&mut self, error: CudaError) {
        let error = self.submission.note(error);
        if self.submission.answers(error) {
            self.replies.send_result(Err(error));
        }
    }

    /// Replies with a payload; one that is too long becomes an error, so that the client goes on.
    pub(super) fn reply<'a>(&mut self, result: CUresult, payload: &impl Payload<'a>) {
        if self.replies.send(result, payload).is_err() {
            self.replies.send_result(Err(CudaError::OUT_OF_MEMORY));
        }
    }

    /// Loads a module. Logs come back with an error too.
    fn load_module(&mut self, record: &Record) {
        // Sessions that load the same code wait for one of them, which may wait until no session
        // submits anything.
        self.submission.share.in_flight().end_submitting();
        let file = self.submission.receive_file(&self.socket, LoadModule::OPCODE);
        self.submission.link.set_in_call(true);
        let request = record.decode::<LoadModule>().map_err(|_| CudaError::INVALID_VALUE);
        let mut loaded = ModuleLoaded::default();
        let result = match (self.submission.sticky, request, file) {
            (Some(error), ..) | (None, Err(error), _) | (None, _, Err(error)) => Err(error),
            (None, Ok(request), Ok(file)) => self.load(&request, &file, &mut loaded),
        };
        match result {
            Ok(()) => self.reply(Ok(()), &loaded),
            Err(error) => {
                let error = self.submission.note(error);
                if self.submission.answers(error) {
                    self.reply(Err(error), &loaded);
                }
            }
        }
        self.submission.link.set_in_call(false);
    }

    fn load(
        &mut self,
        request: &LoadModule,
        file: &OwnedFd,
        loaded: &mut ModuleLoaded,
    ) -> CUresult {
        if let Some(result) = self.loading().take_known(request, loaded) {
            return result;
        }
        let charge = self.submission.charge_image(request);
        // A wait for room has begun it again.
        self.submission.share.in_flight().end_submitting();
        let _charge = charge?;
        self.loading().load(request, file, loaded)
    }

    fn loading(&mut self) -> Loading<'_> {
        Loading {
            can_print: self.submission.printing.can_fetch(),
            modules: &mut self.submission.modules,
            memory: &mut self.memory,
            socket: &self.socket,
            restored: self.restored.as_deref_mut(),
        }
    }

    /// A row that goes to the provider as it is, or something that this server does not have.
    fn forward(&mut self, row: u16, words: &[u64]) {
        let is_post = row_of_number(row).is_some_and(|row| row.policy == Policy::Post);
        let mut results = std::mem::take(&mut self.results);
        results.clear();
        let result = match self.submission.sticky {
            Some(error) => Err(error),
            None => self.forward_to(row, words, &mut results),
        };
        if is_post {
            if self.submission.sticky.is_none() && self.submission.deferral.is_none() {
                self.submission.posted(result);
            }
        } else {
            match result {
                Ok(()) => self.reply(Ok(()), &results.as_slice()),
                Err(error) => self.refuse(error),
            }
        }
        self.results = results;
    }

    fn forward_to(&mut self, row: u16, words: &[u64], results: &mut Vec<u64>) -> CUresult {
        if [number::cuKernelSetAttribute, number::cuFuncSetAttribute, number::cuFuncSetCacheConfig]
            .contains(&row)
        {
            // A node has what its function had when it was made.
            self.batcher.forget();
        }
        if row == number::cuKernelSetAttribute {
            let words = generic::as_function_attribute(words)?;
            return self.forward_to(number::cuFuncSetAttribute, &words, results);
        }
        if row == number::cuFuncSetAttribute {
            return self.submission.modules.set_attribute(words);
        }
        if row == number::cuCtxSetLimit {
            return set_limit(&self.submission.share, words);
        }
        if row == number::cuFuncSetCacheConfig {
            return self.submission.modules.set_cache(words);
        }
        match generic::handler(row) {
            Some(handler) => handler(&mut self.submission, &self.memory, words, results),
            None => {
                let before = self.submission.link.unknown_requests.fetch_add(1, Ordering::Relaxed);
                if before < UNKNOWN_LOGGED_MAX {
                    let name = self.submission.link.name();
                    let text = format!("Client {name} asks for {row:#06x}, which is unknown");
                    self.submission.common.log.line(text);
                }
                Err(CudaError::NOT_SUPPORTED)
            }
        }
    }

    /// Carries out a request of a client that restores what it had.
    #[cold]
    pub(super) fn restore(&mut self, record: &Record) {
        if is_work(record.opcode()) {
            if let Some(restored) = self.restored.take() {
                self.memory.set_restoring(false);
                restored.finish(&self.submission.link, &self.submission.common);
            }
            return self.dispatch(record);
        }
        let since = Instant::now();
        self.dispatch(record);
        let Some(restored) = &mut self.restored else { return };
        restored.has_done(record.opcode(), since, Instant::now());
    }

    fn note_repeats(&mut self, request: Repeats) -> CUresult {
        if let Some(restored) = &mut self.restored {
            restored.note_repeats(request);
        }
        Ok(())
    }
}
