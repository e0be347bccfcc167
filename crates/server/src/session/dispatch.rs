//! Dispatch: an opcode selects the function that serves it, whose result goes to the client.

use super::restore::is_work;
use super::{Session, generic};
use channel::payload::Payload;
use channel::request::*;
use channel::ring::Record;
use cuda_api::{CUresult, CudaError, Policy, number, row_of_number};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Requests of a kind that the server does not know are written to the log so often.
const UNKNOWN_LOGGED_MAX: u32 = 8;

// A request of the table without a handler here does not compile.
macro_rules! dispatch {
    ($session:ident, $record:ident, {
        post { $($post:ident => $post_method:ident,)* }
        call { $($call:ident => $call_method:ident,)* }
        file { $($file:ident => $file_method:ident,)* }
    }) => {
        match RequestName::of($record.opcode()) {
            $(Some(RequestName::$post) => $session.post($record, |session, request: $post| {
                session.$post_method(request)
            }),)*
            $(Some(RequestName::$call) => $session.call($record, |session, request: $call| {
                session.$call_method(request)
            }),)*
            // The file came before, and goes even if the request is refused.
            $(Some(RequestName::$file) => {
                let file = $session.receive_file($file::OPCODE);
                $session.call($record, |session, request: $file| {
                    session.$file_method(request, &file?)
                })
            })*
            // The one request whose reply says something about an error too.
            Some(RequestName::LoadModule) => $session.load_module($record),
            None => $session.forward($record.opcode(), $record.words()),
        }
    };
}

impl Session {
    /// Carries out one request.
    pub(super) fn dispatch(&mut self, record: &Record) {
        dispatch!(self, record, {
            post {
                LaunchKernel => launch,
                HostToDevice => copy_in,
                DeviceToHost => copy_out,
                Copy3D => copy_3d,
                Fence => fence,
                Notify => notify,
                HostFunc => host_function,
                Repeats => note_repeats,
                CreateStream => create_stream,
                CreateGreenStream => create_green_stream,
                DestroyStream => destroy_stream,
                CreateEvent => create_event,
                DestroyEvent => destroy_event,
                RecordEvent => record_event,
                WaitEvent => wait_event,
                UnloadModule => unload_module,
                AllocationRetry => retry_allocation,
                DestroyArray => destroy_array,
                DestroyMipmappedArray => destroy_mipmapped_array,
                DestroyTexture => destroy_texture,
                DestroySurface => destroy_surface,
                GraphBegin => begin_graph,
                GraphEmpty => add_empty,
                GraphKernel => add_kernel,
                GraphCopy => add_copy,
                GraphFill => add_fill,
                GraphEdges => add_edges,
                GraphCondition => add_condition,
                GraphConditional => add_conditional,
                GraphLaunch => launch_graph,
                GraphDestroy => destroy_graph,
            }
            call {
                ChunkCreate => create_chunk,
                ChunkRelease => release_chunk,
                MemoryNote => note_memory,
                HostUnmap => unmap_host,
                MemoryInfo => memory_info,
                PrintfDrain => drain_printf,
                Reset => reset,
                WaitIdle => answer_when_idle,
                ElapsedTime => elapsed_time,
                GetFunction => get_function,
                GetGlobal => get_global,
                CountClusters => count_clusters,
                LargestCluster => largest_cluster,
                ListFunctions => list_functions,
                CreateArray => create_array,
                CreateMipmappedArray => create_mipmapped_array,
                NameLevel => name_level,
                ArrayRequirements => array_requirements,
                MipmappedRequirements => mipmapped_requirements,
                CreateTexture => create_texture,
                CreateSurface => create_surface,
                EncodeTiled => encode_tiled,
                EncodeIm2col => encode_im2col,
                ReplaceMapAddress => replace_map_address,
                ReserveAddresses => reserve_addresses,
                FreeAddresses => free_addresses,
                CreateMemory => create_memory,
                ReleaseMemory => release_memory,
                MapMemory => map_memory,
                UnmapMemory => unmap_memory,
                SetAccess => set_access,
                ShareMemory => share_memory,
                OpenMemory => open_memory,
                SharedFile => shared_file,
                ShareEvent => share_event,
                OpenEvent => open_event,
                QueryEvent => query_event,
                GraphInstantiate => instantiate_graph,
                GraphCanChoose => can_choose,
            }
            file {
                HostMap => map_host,
                AdoptChunk => adopt_chunk,
                ImportMemory => import_memory,
            }
        });
    }

    /// A request without a reply: an error waits in the region.
    fn post<'a, R: Request<'a>>(
        &mut self,
        record: &'a Record,
        carry_out: impl FnOnce(&mut Self, R) -> CUresult,
    ) {
        const { assert!(matches!(R::KIND, RequestKind::Post)) };
        if self.sticky.is_some() {
            return;
        }
        let result = match record.decode::<R>() {
            Ok(request) => carry_out(self, request),
            Err(_) => Err(CudaError::INVALID_VALUE),
        };
        if self.deferral.is_none() {
            self.posted(result);
        }
    }

    /// Tells the client the result of a request without a reply.
    pub(super) fn posted(&mut self, result: CUresult) {
        if let Err(error) = result {
            let error = self.note(error);
            if self.sticky.is_none() {
                self.region.note_async_error(error);
            }
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
        let after_fault = R::OPCODE == PrintfDrain::OPCODE && self.share.is_tenant();
        let result = match self.sticky.filter(|_| !after_fault) {
            Some(error) => Err(error),
            None => match record.decode::<R>() {
                Ok(request) => {
                    self.link.set_in_call(true);
                    carry_out(self, request)
                }
                Err(_) => Err(CudaError::INVALID_VALUE),
            },
        };
        match result {
            Ok(reply) => self.reply(Ok(()), &reply),
            Err(error) => self.refuse(error),
        }
        self.link.set_in_call(false);
    }

    /// Answers with an error, or not at all if the client is going to get its answer from another
    /// server.
    fn refuse(&mut self, error: CudaError) {
        let error = self.note(error);
        if self.answers(error) {
            self.replies.send_result(Err(error));
        }
    }

    /// False if the client gets the answer of a call that failed like this from another server.
    pub(super) fn answers(&self, error: CudaError) -> bool {
        let is_given_up =
            error == CudaError::MPS_CLIENT_TERMINATED && self.link.makes_call_elsewhere();
        !self.awaits_attribution() && !is_given_up
    }

    /// Replies with a payload; one that is too long becomes an error, so that the client goes on.
    pub(super) fn reply<'a>(&mut self, result: CUresult, payload: &impl Payload<'a>) {
        if self.replies.send(result, payload).is_err() {
            self.replies.send_result(Err(CudaError::OUT_OF_MEMORY));
        }
    }

    /// A row that goes to the provider as it is, or something that this server does not have.
    fn forward(&mut self, row: u16, words: &[u64]) {
        let is_post = row_of_number(row).is_some_and(|row| row.policy == Policy::Post);
        let mut results = std::mem::take(&mut self.results);
        results.clear();
        let result = match self.sticky {
            Some(error) => Err(error),
            None => self.forward_to(row, words, &mut results),
        };
        if is_post {
            if self.sticky.is_none() && self.deferral.is_none() {
                self.posted(result);
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
            return self.set_function_attribute(words);
        }
        if row == number::cuCtxSetLimit {
            return self.set_limit(words);
        }
        if row == number::cuFuncSetCacheConfig {
            return self.set_function_cache(words);
        }
        match generic::handler(row) {
            Some(handler) => handler(self, words, results),
            None => {
                let before = self.link.unknown_requests.fetch_add(1, Ordering::Relaxed);
                if before < UNKNOWN_LOGGED_MAX {
                    let name = self.link.name();
                    let text = format!("Client {name} asks for {row:#06x}, which is unknown");
                    self.common.log.line(text);
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
                restored.finish(&self.link, &self.common);
            }
            return self.dispatch(record);
        }
        let since = Instant::now();
        self.dispatch(record);
        let Some(restored) = &mut self.restored else { return };
        restored.has_done(record.opcode(), since, Instant::now());
    }

    pub(super) fn note_repeats(&mut self, request: Repeats) -> CUresult {
        if let Some(restored) = &mut self.restored {
            restored.note_repeats(request);
        }
        Ok(())
    }
}
