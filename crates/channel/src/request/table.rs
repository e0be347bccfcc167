//! The table of requests: what is said on the ring, by whom it is answered, and with what.
//!
//! From a row come the request's opcode, kind and reply ([`Request`]), its name
//! ([`RequestName`]), the server's duty to have a handler, and what tests and fuzzers draw.

use super::*;

/// Gives all requests to a macro: `name<'a> = opcode, kind -> reply;` each. The opcode is the number
/// of the row of cuda-api that the request stands for, or from
/// [`INTERNAL_FIRST`] on where there is none: those are append-only.
macro_rules! for_each_request {
    ($callback:ident) => {
        $callback! {
            // Launches.
            CountClusters = cuda_api::number::cuOccupancyMaxActiveClusters, Call -> ClusterCount;
            LaunchKernel<'a> = cuda_api::number::cuLaunchKernel, Post -> ();
            LargestCluster = cuda_api::number::cuOccupancyMaxPotentialClusterSize, Call -> ClusterCount;
            // Copies.
            HostToDevice = cuda_api::number::cuMemcpyHtoDAsync_v2, Post -> ();
            DeviceToHost = cuda_api::number::cuMemcpyDtoHAsync_v2, Post -> ();
            Copy3D = cuda_api::number::cuMemcpy3DAsync_v2, Post -> ();
            GraphCopy = cuda_api::number::cuGraphAddMemcpyNode, Post -> ();
            // Streams and events.
            Fence = 0x8005, Post -> ();
            Notify = 0x8006, Post -> ();
            HostFunc = 0x8007, Post -> ();
            Repeats = 0x8024, Post -> ();
            CreateStream = cuda_api::number::cuStreamCreateWithPriority, Post -> ();
            CreateGreenStream = cuda_api::number::cuGreenCtxStreamCreate, Post -> ();
            DestroyStream = cuda_api::number::cuStreamDestroy_v2, Post -> ();
            CreateEvent = cuda_api::number::cuEventCreate, Post -> ();
            DestroyEvent = cuda_api::number::cuEventDestroy_v2, Post -> ();
            RecordEvent = cuda_api::number::cuEventRecord, Post -> ();
            WaitEvent = cuda_api::number::cuStreamWaitEvent, Post -> ();
            ElapsedTime = cuda_api::number::cuEventElapsedTime, Call -> ElapsedTimeReply;
            // Memory, output.
            ChunkCreate = 0x8001, Call -> ();
            ChunkRelease = 0x8002, Call -> ();
            AdoptChunk = 0x8022, Call -> ();
            HostMap = 0x8003, Call -> ();
            HostUnmap = 0x8004, Call -> ();
            MemoryInfo = cuda_api::number::cuMemGetInfo_v2, Call -> MemoryInfoReply;
            MemoryNote = 0x8021, Call -> ();
            PrintfDrain = 0x8008, Call -> PrintfText;
            Reset = 0x8009, Call -> ();
            WaitIdle = 0x8023, Call -> ();
            AllocationRetry = 0x8025, Post -> ();
            // Modules.
            ListFunctions = cuda_api::number::cuModuleEnumerateFunctions, Call -> FunctionNames;
            LoadModule = cuda_api::number::cuModuleLoadDataEx, Call -> ModuleLoaded;
            UnloadModule = cuda_api::number::cuModuleUnload, Post -> ();
            GetFunction<'a> = cuda_api::number::cuModuleGetFunction, Call -> FunctionInfo;
            GetGlobal<'a> = cuda_api::number::cuModuleGetGlobal_v2, Call -> GlobalInfo;
            // Arrays, textures.
            CreateArray = cuda_api::number::cuArray3DCreate_v2, Call -> ();
            DestroyArray = cuda_api::number::cuArrayDestroy, Post -> ();
            CreateMipmappedArray = cuda_api::number::cuMipmappedArrayCreate, Call -> ();
            NameLevel = cuda_api::number::cuMipmappedArrayGetLevel, Call -> ();
            DestroyMipmappedArray = cuda_api::number::cuMipmappedArrayDestroy, Post -> ();
            ArrayRequirements = cuda_api::number::cuArrayGetMemoryRequirements, Call -> MemoryRequirements;
            MipmappedRequirements = cuda_api::number::cuMipmappedArrayGetMemoryRequirements, Call -> MemoryRequirements;
            DestroyTexture = cuda_api::number::cuTexObjectDestroy, Post -> ();
            DestroySurface = cuda_api::number::cuSurfObjectDestroy, Post -> ();
            CreateTexture = cuda_api::number::cuTexObjectCreate, Call -> [u64; 1];
            CreateSurface = cuda_api::number::cuSurfObjectCreate, Call -> [u64; 1];
            // Tensor maps.
            ReplaceMapAddress = cuda_api::number::cuTensorMapReplaceAddress, Call -> [u64; 16];
            EncodeTiled = cuda_api::number::cuTensorMapEncodeTiled, Call -> [u64; 16];
            EncodeIm2col = cuda_api::number::cuTensorMapEncodeIm2col, Call -> [u64; 16];
            // Virtual memory.
            ReserveAddresses = cuda_api::number::cuMemAddressReserve, Call -> AddressesReserved;
            FreeAddresses = cuda_api::number::cuMemAddressFree, Call -> ();
            CreateMemory = cuda_api::number::cuMemCreate, Call -> ();
            ImportMemory = cuda_api::number::cuMemImportFromShareableHandle, Call -> ();
            ReleaseMemory = cuda_api::number::cuMemRelease, Call -> ();
            MapMemory = cuda_api::number::cuMemMap, Call -> ();
            UnmapMemory = cuda_api::number::cuMemUnmap, Call -> ();
            SetAccess = cuda_api::number::cuMemSetAccess, Call -> ();
            // What processes share.
            ShareMemory = cuda_api::number::cuIpcGetMemHandle, Call -> SharedMemory;
            OpenMemory = 0x8020, Call -> ();
            SharedFile = 0x8030, Call -> ();
            ShareEvent = cuda_api::number::cuIpcGetEventHandle, Call -> Token;
            OpenEvent = cuda_api::number::cuIpcOpenEventHandle, Call -> ();
            QueryEvent = cuda_api::number::cuEventQuery, Call -> EventState;
            // Graphs.
            GraphCanChoose = cuda_api::number::cuGraphConditionalHandleCreate, Call -> GraphConditions;
            GraphCondition = cuda_api::number::cuGraphAddNode, Post -> ();
            GraphBegin = cuda_api::number::cuGraphCreate, Post -> ();
            GraphEmpty = cuda_api::number::cuGraphAddEmptyNode, Post -> ();
            GraphFill = cuda_api::number::cuGraphAddMemsetNode, Post -> ();
            GraphInstantiate = cuda_api::number::cuGraphInstantiateWithFlags, Call -> ();
            GraphLaunch = cuda_api::number::cuGraphLaunch, Post -> ();
            GraphDestroy = cuda_api::number::cuGraphExecDestroy, Post -> ();
            GraphConditional<'a> = cuda_api::number::cuGraphAddNode_v2, Post -> ();
            GraphKernel<'a> = cuda_api::number::cuGraphAddKernelNode_v2, Post -> ();
            GraphEdges<'a> = cuda_api::number::cuGraphAddDependencies, Post -> ();
        }
    };
}
pub(crate) use for_each_request;

/// First opcode that is not a row's number.
pub const INTERNAL_FIRST: u16 = 0x8000;

macro_rules! implement {
    ($($name:ident $(<$life:lifetime>)? = $opcode:expr, $kind:ident -> $reply:ty;)*) => {
        $(impl<'a> Request<'a> for $name $(<$life>)? {
            const OPCODE: u16 = $opcode;
            const KIND: RequestKind = RequestKind::$kind;
            type Reply = $reply;
        })*

        /// Which request a record is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum RequestName {
            $(#[doc = concat!("[`", stringify!($name), "`]")] $name,)*
        }

        impl RequestName {
            /// All requests, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The request with that opcode; `None` if it is a generic row's, or nothing.
            #[inline(always)]
            pub const fn of(opcode: u16) -> Option<Self> {
                $(if opcode == $opcode {
                    return Some(Self::$name);
                })*
                None
            }

            /// Its name, as the table has it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Its opcode.
            pub const fn opcode(self) -> u16 {
                match self {
                    $(Self::$name => $opcode,)*
                }
            }

            /// Whether it is answered.
            pub const fn kind(self) -> RequestKind {
                match self {
                    $(Self::$name => RequestKind::$kind,)*
                }
            }
        }
    };
}
for_each_request!(implement);

// No opcode stands for two requests.
const _: () = {
    let mut index = 0;
    while index < RequestName::ALL.len() {
        let name = RequestName::ALL[index];
        let found = RequestName::of(name.opcode());
        assert!(matches!(found, Some(found) if found as usize == index));
        index += 1;
    }
};
