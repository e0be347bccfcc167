//! What is said on the ring: requests that are written by hand, and their replies.
//!
//! A record's opcode is the number of a row of cuda-api, or one from [`INTERNAL_FIRST`] on for what has
//! no row. All of them are in one table ([`RequestName`]).
//! `post` and `call` rows are generic: a word for each parameter that is not `*mut`, in the row's
//! order, and a reply with a word for each that is. All others are the structs here.
//!
//! A *stream* is the handle of one of the client's stream slots, never one of the literals 0, 1, 2:
//! the client resolves them. Numbers in a request are allegations until the server has checked
//! them against the client's own tables and windows.

mod array;
mod copy;
mod copy3d;
mod graph;
mod launch;
mod memory;
mod module;
mod sharing;
mod stream;
mod table;
mod tensor;
#[cfg(test)]
mod tests;
mod virtual_memory;

pub use array::{
    ArrayRequirements, CreateArray, CreateMipmappedArray, CreateSurface, CreateTexture,
    DestroyArray, DestroyMipmappedArray, DestroySurface, DestroyTexture, MemoryRequirements,
    MipmappedRequirements, NameLevel, RESOURCE_WORDS, Resource,
};
pub use copy::{DeviceToHost, HostReference, HostToDevice};
pub use copy3d::{Copy3D, Copy3DEnd, Copy3DParams, GraphCopy};
pub use graph::{
    GRAPH_BODIES_MAX, GRAPH_EDGES_MAX, GraphBegin, GraphCanChoose, GraphCondition,
    GraphConditional, GraphConditions, GraphDestroy, GraphEdges, GraphEmpty, GraphFill,
    GraphInstantiate, GraphKernel, GraphLaunch,
};
pub use launch::{
    ClusterCount, CountClusters, LAUNCH_COOPERATIVE, LAUNCH_FLAGS, LAUNCH_PRIORITY,
    LAUNCH_PRIORITY_FLAGS, LAUNCH_PROGRAMMATIC, LAUNCH_REMOTE_DOMAIN, LargestCluster, LaunchKernel,
    PARAMETER_BYTES_MAX, cluster_flags, cluster_of, priority_flags, priority_of,
};
pub use memory::{
    AdoptChunk, AllocationRetry, ChunkCreate, ChunkRelease, HostMap, HostUnmap, MemoryInfo,
    MemoryInfoReply, MemoryNote, PrintfDrain, PrintfText, Reset, WaitIdle,
};
pub use module::{
    CODE_HAS_VARIABLES, CodeWords, FUNCTION_ATTRIBUTES, FunctionInfo, FunctionNames, GetFunction,
    GetGlobal, GlobalInfo, JIT_OPTIONS_MAX, JitOption, KEEPS_VALUES, KNOWN_TO_PRINT, LOG_BYTES_MAX,
    ListFunctions, LoadModule, MODULE_PRINTS, ModuleLoaded, NAMES_BYTES_MAX, NO_CODE,
    PARAMETERS_MAX, PLACES_VARIABLES, ParameterLayout, SYMBOL_BYTES_MAX, UnloadModule,
};
pub use stream::{
    CreateEvent, CreateGreenStream, CreateStream, DestroyEvent, DestroyStream, ElapsedTime,
    ElapsedTimeReply, Fence, HostFunc, Notify, RECORD_UNMARKED, RecordEvent, Repeats, WaitEvent,
};

pub use sharing::{
    EventState, OpenEvent, OpenMemory, QueryEvent, ShareEvent, ShareMemory, SharedFile,
    SharedMemory, Token,
};
pub(crate) use table::for_each_request;
pub use table::{INTERNAL_FIRST, RequestName};
pub use tensor::{
    EncodeIm2col, EncodeTiled, ReplaceMapAddress, TENSOR_BOX_WORDS, TENSOR_RANK_MAX,
    TensorDescription,
};
pub use virtual_memory::{
    AddressesReserved, CreateMemory, FreeAddresses, ImportMemory, MapMemory, ReleaseMemory,
    ReserveAddresses, SetAccess, UnmapMemory,
};

use crate::payload::Payload;

/// Whether a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// No reply; an error is noted in the region.
    Post,
    /// The client waits for the reply.
    Call,
}

/// A request of the table.
pub trait Request<'a>: Payload<'a> {
    /// Its opcode.
    const OPCODE: u16;
    /// Whether it is answered.
    const KIND: RequestKind;
    /// The payload of its reply; `()` for a post.
    type Reply: for<'r> Payload<'r>;
}

/// Defines payloads whose fields are one word each.
macro_rules! payloads {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl $crate::payload::Payload<'_> for $name {
            #[inline(always)]
            fn words(&self) -> usize {
                const {
                    let fields: &[&str] = &[$(stringify!($field)),*];
                    fields.len()
                }
            }
            #[inline(always)]
            fn write(&self, sink: &mut impl $crate::payload::Sink) {
                $(sink.word(cuda_api::Word::to_word(self.$field));)*
                let _ = sink;
            }
            #[inline(always)]
            fn read(
                reader: &mut $crate::payload::Reader<'_>,
            ) -> Result<Self, $crate::payload::Malformed> {
                let _ = &reader;
                Ok(Self { $($field: reader.value()?,)* })
            }
        }
    )*};
}
use payloads;
