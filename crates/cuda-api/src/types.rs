//! C types of the driver API, with cuda.h's names and layouts (CUDA 13.0, 64-bit Linux).
//!
//! Enumerations that a program passes in are plain integers: any value may arrive. Handles are
//! opaque words: nothing in the project ever takes one for an address.
#![allow(missing_docs, reason = "fields are documented in cuda.h's manual under the same names")]

use crate::constants::{graph_edge, launch_attribute};
use core::ffi::{c_int, c_uint, c_ushort, c_void};

pub use crate::error::CUresult;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub usize);

        impl $name {
            /// The handle that stands for nothing (for a stream: the default stream).
            pub const NULL: Self = Self(0);

            /// True for [`Self::NULL`].
            pub const fn is_null(self) -> bool {
                self.0 == 0
            }
        }
    )*};
}

handles! {
    /// A context.
    CUcontext;
    /// A module: one loaded image.
    CUmodule;
    /// A kernel of a module. A [`CUkernel`] may come in its place.
    CUfunction;
    /// A library: an image not bound to a context.
    CUlibrary;
    /// A kernel of a library.
    CUkernel;
    /// A stream; 0, 1 and 2 are literals (see [`CU_STREAM_LEGACY`]).
    CUstream;
    /// An event.
    CUevent;
    /// A pool of stream-ordered memory.
    CUmemoryPool;
    /// An array.
    CUarray;
    /// Arrays of which each is half as large as the one before.
    CUmipmappedArray;
    /// A graph.
    CUgraph;
    /// A node of a graph.
    CUgraphNode;
    /// A graph that can be launched.
    CUgraphExec;
    /// Something of the program's whose life a graph can prolong.
    CUuserObject;
    /// A link in progress.
    CUlinkState;
    /// A green context.
    CUgreenCtx;
    /// What a green context is to be made of.
    CUdevResourceDesc;
}

/// An address in device memory.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CUdeviceptr(pub u64);

/// A device's ordinal.
pub type CUdevice = c_int;
/// Physical memory made by cuMemCreate.
pub type CUmemGenericAllocationHandle = u64;
/// A function run by cuLaunchHostFunc, or when a user object is no longer held. Like all functions
/// of a program's it may be left by unwinding: a Rust panic costs what that call was to do and no
/// more; another language's exception ends the process, as where nothing catches it.
pub type CUhostFn = Option<unsafe extern "C-unwind" fn(user_data: *mut c_void)>;
/// A function run by cuStreamAddCallback; see [`CUhostFn`].
pub type CUstreamCallback =
    Option<unsafe extern "C-unwind" fn(stream: CUstream, status: c_uint, user_data: *mut c_void)>;
/// Dynamic shared memory, bytes, that a block of `block_size` threads needs; see [`CUhostFn`].
pub type CUoccupancyB2DSize = Option<unsafe extern "C-unwind" fn(block_size: c_int) -> usize>;

/// The legacy default stream, as a handle of its own.
pub const CU_STREAM_LEGACY: CUstream = CUstream(1);
/// The per-thread default stream, as a handle of its own.
pub const CU_STREAM_PER_THREAD: CUstream = CUstream(2);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CUuuid {
    pub bytes: [u8; 16],
}

/// As nvidia-smi writes a device's: `GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d`.
impl core::fmt::Display for CUuuid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("GPU")?;
        self.bytes.iter().enumerate().try_for_each(|(index, byte)| {
            let dash = if matches!(index, 0 | 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")
        })
    }
}

impl CUuuid {
    /// Reads what [`Display`](core::fmt::Display) writes; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut digits = text.strip_prefix("GPU-")?.bytes().filter(|byte| *byte != b'-');
        let mut uuid = Self::default();
        for byte in &mut uuid.bytes {
            let mut digit = || char::from(digits.next()?).to_digit(16);
            *byte = (digit()? << 4 | digit()?) as u8;
        }
        (alloc::string::ToString::to_string(&uuid).eq_ignore_ascii_case(text)).then_some(uuid)
    }
}

/// What another process opens to reach memory; opaque to programs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CUipcMemHandle {
    pub reserved: [u8; 64],
}

/// What another process opens to reach an event; opaque to programs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CUipcEventHandle {
    pub reserved: [u8; 64],
}

/// A texture object: opaque to programs.
pub type CUtexObject = u64;
/// A surface object: opaque to programs.
pub type CUsurfObject = u64;

/// What a texture reads.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUDA_RESOURCE_DESC {
    pub resType: c_uint,
    /// The union of cuda.h, whose members begin with a pointer or handle. Of linear memory and of
    /// rows: the address, format (low half) and channels, then bytes, or width, height and pitch.
    pub resource: [u64; 16],
    pub flags: c_uint,
}

/// How a texture is read.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CUDA_TEXTURE_DESC {
    pub addressMode: [c_uint; 3],
    pub filterMode: c_uint,
    pub flags: c_uint,
    pub maxAnisotropy: c_uint,
    pub mipmapFilterMode: c_uint,
    pub mipmapLevelBias: f32,
    pub minMipmapLevelClamp: f32,
    pub maxMipmapLevelClamp: f32,
    pub borderColor: [f32; 4],
    pub reserved: [c_int; 12],
}

/// Which part of an array a texture reads, and as what.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUDA_RESOURCE_VIEW_DESC {
    pub format: c_uint,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub firstMipmapLevel: c_uint,
    pub lastMipmapLevel: c_uint,
    pub firstLayer: c_uint,
    pub lastLayer: c_uint,
    pub reserved: [c_uint; 16],
}

/// How a tensor lies in device memory, as the device's copy engine of a kernel reads it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUtensorMap {
    pub opaque: [u64; 16],
}

macro_rules! of_zeros {
    ($($ty:ty)*) => {$(
        impl Default for $ty {
            fn default() -> Self {
                // SAFETY: numbers and pointers, of which zeros are a value.
                unsafe { core::mem::zeroed() }
            }
        }
    )*};
}
of_zeros! { CUDA_MEMCPY2D CUDA_MEMCPY3D CUDA_MEMCPY3D_PEER CUmemAllocationProp }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEMCPY2D {
    pub srcXInBytes: usize,
    pub srcY: usize,
    pub srcMemoryType: c_uint,
    pub srcHost: *const c_void,
    pub srcDevice: CUdeviceptr,
    pub srcArray: CUarray,
    pub srcPitch: usize,
    pub dstXInBytes: usize,
    pub dstY: usize,
    pub dstMemoryType: c_uint,
    pub dstHost: *mut c_void,
    pub dstDevice: CUdeviceptr,
    pub dstArray: CUarray,
    pub dstPitch: usize,
    pub WidthInBytes: usize,
    pub Height: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEMCPY3D {
    pub srcXInBytes: usize,
    pub srcY: usize,
    pub srcZ: usize,
    pub srcLOD: usize,
    pub srcMemoryType: c_uint,
    pub srcHost: *const c_void,
    pub srcDevice: CUdeviceptr,
    pub srcArray: CUarray,
    pub reserved0: *mut c_void,
    pub srcPitch: usize,
    pub srcHeight: usize,
    pub dstXInBytes: usize,
    pub dstY: usize,
    pub dstZ: usize,
    pub dstLOD: usize,
    pub dstMemoryType: c_uint,
    pub dstHost: *mut c_void,
    pub dstDevice: CUdeviceptr,
    pub dstArray: CUarray,
    pub reserved1: *mut c_void,
    pub dstPitch: usize,
    pub dstHeight: usize,
    pub WidthInBytes: usize,
    pub Height: usize,
    pub Depth: usize,
}

/// An array of one or two dimensions.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUDA_ARRAY_DESCRIPTOR {
    pub Width: usize,
    pub Height: usize,
    pub Format: c_uint,
    pub NumChannels: c_uint,
}

/// An array of one to three dimensions, or layers of one or two.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUDA_ARRAY3D_DESCRIPTOR {
    pub Width: usize,
    pub Height: usize,
    pub Depth: usize,
    pub Format: c_uint,
    pub NumChannels: c_uint,
    pub Flags: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUDA_ARRAY_MEMORY_REQUIREMENTS {
    pub size: usize,
    pub alignment: usize,
    pub reserved: [c_uint; 4],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEMCPY3D_PEER {
    pub srcXInBytes: usize,
    pub srcY: usize,
    pub srcZ: usize,
    pub srcLOD: usize,
    pub srcMemoryType: c_uint,
    pub srcHost: *const c_void,
    pub srcDevice: CUdeviceptr,
    pub srcArray: CUarray,
    pub srcContext: CUcontext,
    pub srcPitch: usize,
    pub srcHeight: usize,
    pub dstXInBytes: usize,
    pub dstY: usize,
    pub dstZ: usize,
    pub dstLOD: usize,
    pub dstMemoryType: c_uint,
    pub dstHost: *mut c_void,
    pub dstDevice: CUdeviceptr,
    pub dstArray: CUarray,
    pub dstContext: CUcontext,
    pub dstPitch: usize,
    pub dstHeight: usize,
    pub WidthInBytes: usize,
    pub Height: usize,
    pub Depth: usize,
}

impl CUDA_MEMCPY3D_PEER {
    /// The same copy where all contexts share their addresses.
    pub fn without_contexts(&self) -> CUDA_MEMCPY3D {
        CUDA_MEMCPY3D {
            srcXInBytes: self.srcXInBytes,
            srcY: self.srcY,
            srcZ: self.srcZ,
            srcLOD: self.srcLOD,
            srcMemoryType: self.srcMemoryType,
            srcHost: self.srcHost,
            srcDevice: self.srcDevice,
            srcArray: self.srcArray,
            reserved0: core::ptr::null_mut(),
            srcPitch: self.srcPitch,
            srcHeight: self.srcHeight,
            dstXInBytes: self.dstXInBytes,
            dstY: self.dstY,
            dstZ: self.dstZ,
            dstLOD: self.dstLOD,
            dstMemoryType: self.dstMemoryType,
            dstHost: self.dstHost,
            dstDevice: self.dstDevice,
            dstArray: self.dstArray,
            reserved1: core::ptr::null_mut(),
            dstPitch: self.dstPitch,
            dstHeight: self.dstHeight,
            WidthInBytes: self.WidthInBytes,
            Height: self.Height,
            Depth: self.Depth,
        }
    }
}

/// What a device was once described by.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUdevprop {
    pub maxThreadsPerBlock: c_int,
    pub maxThreadsDim: [c_int; 3],
    pub maxGridSize: [c_int; 3],
    pub sharedMemPerBlock: c_int,
    pub totalConstantMemory: c_int,
    pub SIMDWidth: c_int,
    pub memPitch: c_int,
    pub regsPerBlock: c_int,
    pub clockRate: c_int,
    pub textureAlign: c_int,
}

/// Hints about copies of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUmemcpyAttributes {
    pub srcAccessOrder: c_uint,
    pub srcLocHint: CUmemLocation,
    pub dstLocHint: CUmemLocation,
    pub flags: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUmemLocation {
    pub kind: c_uint,
    pub id: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUmemAllocationProp {
    pub kind: c_uint,
    pub requestedHandleTypes: c_uint,
    pub location: CUmemLocation,
    pub win32HandleMetaData: *mut c_void,
    pub compressionType: u8,
    pub gpuDirectRDMACapable: u8,
    pub usage: c_ushort,
    pub reserved: [u8; 4],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CUmemAccessDesc {
    pub location: CUmemLocation,
    pub flags: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUmemPoolProps {
    pub allocType: c_uint,
    pub handleTypes: c_uint,
    pub location: CUmemLocation,
    pub win32SecurityAttributes: *mut c_void,
    pub maxSize: usize,
    pub usage: c_ushort,
    pub reserved: [u8; 54],
}

/// What a process needs to know to import a pool's pointer: opaque to programs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CUmemPoolPtrExportData {
    pub reserved: [u8; 64],
}

/// A part of a device: at present always a number of SMs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUdevResource {
    pub kind: c_uint,
    pub padding: [u8; 92],
    pub sm: CUdevSmResource,
    pub reserved: [u8; 20],
    pub nextResource: *mut CUdevResource,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUdevSmResource {
    pub smCount: c_uint,
    pub minSmPartitionSize: c_uint,
    pub smCoscheduledAlignment: c_uint,
    pub flags: c_uint,
    pub localityDomainId: c_uint,
}

const _: () = assert!(size_of::<CUdevResource>() == 144);

/// `CU_DEV_SM_RESOURCE_GROUP_PARAMS`: a wanted group of SMs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUdevSmGroupParams {
    pub smCount: c_uint,
    pub coscheduledSmCount: c_uint,
    pub preferredCoscheduledSmCount: c_uint,
    pub flags: c_uint,
    pub localityDomainId: c_uint,
    pub reserved: [c_uint; 11],
}

const _: () = assert!(size_of::<CUdevSmGroupParams>() == 64);

/// One launch attribute: a number and 64 bytes whose meaning it gives.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct CUlaunchAttribute {
    pub id: c_uint,
    pub pad: [u8; 4],
    pub value: [u8; 64],
}

/// The value of a launch attribute by itself.
pub type CUlaunchAttributeValue = [u64; 8];

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUlaunchConfig {
    pub gridDimX: c_uint,
    pub gridDimY: c_uint,
    pub gridDimZ: c_uint,
    pub blockDimX: c_uint,
    pub blockDimY: c_uint,
    pub blockDimZ: c_uint,
    pub sharedMemBytes: c_uint,
    pub stream: CUstream,
    pub attrs: *mut CUlaunchAttribute,
    pub numAttrs: c_uint,
}

impl CUlaunchConfig {
    /// A launch without attributes.
    pub const fn plain(
        grid: [c_uint; 3],
        block: [c_uint; 3],
        shared_bytes: c_uint,
        stream: CUstream,
    ) -> Self {
        Self {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: shared_bytes,
            stream,
            attrs: core::ptr::null_mut(),
            numAttrs: 0,
        }
    }
}

impl CUlaunchAttribute {
    /// An attribute whose value begins with a number.
    pub fn number(id: c_uint, number: c_int) -> Self {
        let mut value = [0; 64];
        value[..4].copy_from_slice(&number.to_ne_bytes());
        Self { id, pad: [0; 4], value }
    }

    /// The event of an attribute that asks for one to be recorded: once the blocks of the launch
    /// allow it, or have begun. To record it when they have ended is late, and right.
    pub fn event(&self) -> Option<CUevent> {
        self.event_and_edge().map(|(event, _)| event)
    }

    /// The same, and what an edge says to what waits for the event, if the launch is a node.
    pub fn event_and_edge(&self) -> Option<(CUevent, CUgraphEdgeData)> {
        let event = CUevent(u64::from_ne_bytes(*self.value.first_chunk()?) as usize);
        let edge = match self.id {
            launch_attribute::LAUNCH_COMPLETION_EVENT => CUgraphEdgeData {
                from_port: graph_edge::PORT_LAUNCH_ORDER,
                ..CUgraphEdgeData::default()
            },
            // Behind the event are its flags, and whether it triggers when the blocks begin.
            launch_attribute::PROGRAMMATIC_EVENT if self.value[12..16] == [0; 4] => {
                CUgraphEdgeData::PROGRAMMATIC
            }
            launch_attribute::PROGRAMMATIC_EVENT => CUgraphEdgeData {
                from_port: graph_edge::PORT_LAUNCH_ORDER,
                ..CUgraphEdgeData::PROGRAMMATIC
            },
            _ => return None,
        };
        Some((event, edge))
    }

    /// Whether it says that the launch may begin when the kernel before it in its stream allows it.
    pub fn is_programmatic(&self) -> bool {
        self.id == launch_attribute::PROGRAMMATIC_STREAM_SERIALIZATION && self.value[..4] != [0; 4]
    }
}

/// One operation of cuStreamBatchMemOp. `operation` is one of [`mem_op`](crate::constants::mem_op); for a wait or a write
/// the words are address, value, flags, alias.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUstreamBatchMemOpParams {
    pub operation: u64,
    pub address: CUdeviceptr,
    pub value: u64,
    pub flags: u64,
    pub alias: u64,
    pub pad: u64,
}

/// Execution affinity: at present always a number of SMs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUexecAffinityParam {
    pub kind: c_uint,
    pub smCount: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUctxCreateParams {
    pub execAffinityParams: *mut CUexecAffinityParam,
    pub numExecAffinityParams: c_int,
    pub cigParams: *mut c_void,
}

/// A word of a graph that decides what runs: the device sets it (`cudaGraphSetConditional`).
pub type CUgraphConditionalHandle = u64;

/// What an edge of a graph means. All zeros: the whole node waits for the whole other one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUgraphEdgeData {
    pub from_port: u8,
    pub to_port: u8,
    pub kind: u8,
    pub reserved: [u8; 5],
}

impl CUgraphEdgeData {
    /// A kernel may begin when all blocks of another one allow it, or have ended (programmatic
    /// dependent launch).
    pub const PROGRAMMATIC: Self = Self {
        from_port: graph_edge::PORT_PROGRAMMATIC,
        to_port: 0,
        kind: graph_edge::PROGRAMMATIC,
        reserved: [0; 5],
    };

    /// True if the whole node waits for the whole other one, as edges without data say.
    pub fn is_full(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an edge may say that between two nodes, of which it is known whether they are kernels.
    /// A kernel has ports where an edge begins, no node one where it ends.
    pub fn fits(&self, from_kernel: bool, to_kernel: bool) -> bool {
        let fits = match (self.kind, self.from_port) {
            (graph_edge::DEFAULT, graph_edge::PORT_DEFAULT) => true,
            (graph_edge::DEFAULT, graph_edge::PORT_LAUNCH_ORDER) => from_kernel,
            (
                graph_edge::PROGRAMMATIC,
                graph_edge::PORT_PROGRAMMATIC | graph_edge::PORT_LAUNCH_ORDER,
            ) => from_kernel && to_kernel,
            _ => false,
        };
        fits && self.to_port == 0 && self.reserved == [0; 5]
    }
}

/// A kernel node as CUDA 10 and 11 pass it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_KERNEL_NODE_PARAMS_v1 {
    pub func: CUfunction,
    pub gridDimX: c_uint,
    pub gridDimY: c_uint,
    pub gridDimZ: c_uint,
    pub blockDimX: c_uint,
    pub blockDimY: c_uint,
    pub blockDimZ: c_uint,
    pub sharedMemBytes: c_uint,
    pub kernelParams: *mut *mut c_void,
    pub extra: *mut *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_KERNEL_NODE_PARAMS {
    pub v1: CUDA_KERNEL_NODE_PARAMS_v1,
    pub kern: CUkernel,
    pub ctx: CUcontext,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEMCPY_NODE_PARAMS {
    pub flags: c_int,
    pub reserved: c_int,
    pub copyCtx: CUcontext,
    pub copyParams: CUDA_MEMCPY3D,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUDA_MEMSET_NODE_PARAMS {
    pub dst: CUdeviceptr,
    pub pitch: usize,
    pub value: c_uint,
    pub elementSize: c_uint,
    pub width: usize,
    pub height: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_HOST_NODE_PARAMS {
    pub function: CUhostFn,
    pub userData: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_CHILD_GRAPH_NODE_PARAMS {
    pub graph: CUgraph,
    /// 0: the node has a copy of the graph; 1: it takes the graph itself.
    pub ownership: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_CONDITIONAL_NODE_PARAMS {
    pub handle: CUgraphConditionalHandle,
    /// CUgraphConditionalNodeType.
    pub kind: c_uint,
    /// Number of bodies.
    pub size: c_uint,
    /// Where the bodies' handles are: an array that is the node's.
    pub phGraph_out: *mut CUgraph,
    pub ctx: CUcontext,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEM_ALLOC_NODE_PARAMS {
    pub poolProps: CUmemPoolProps,
    pub accessDescs: *const CUmemAccessDesc,
    pub accessDescCount: usize,
    pub bytesize: usize,
    pub dptr: CUdeviceptr,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_BATCH_MEM_OP_NODE_PARAMS {
    pub ctx: CUcontext,
    pub count: c_uint,
    pub paramArray: *mut CUstreamBatchMemOpParams,
    pub flags: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_GRAPH_INSTANTIATE_PARAMS {
    pub flags: u64,
    pub hUploadStream: CUstream,
    pub hErrNode_out: CUgraphNode,
    pub result_out: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUgraphExecUpdateResultInfo {
    pub result: c_uint,
    pub errorNode: CUgraphNode,
    pub errorFromNode: CUgraphNode,
}

/// Parameters of a node of any type; the type says which of the body's members is meant.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CUgraphNodeParams {
    pub kind: c_uint,
    pub reserved0: [c_int; 3],
    pub body: CUgraphNodeBody,
    pub reserved2: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union CUgraphNodeBody {
    pub reserved1: [i64; 29],
    pub kernel: CUDA_KERNEL_NODE_PARAMS,
    pub memcpy: CUDA_MEMCPY_NODE_PARAMS,
    pub memset: CUDA_MEMSET_NODE_PARAMS,
    pub host: CUDA_HOST_NODE_PARAMS,
    pub graph: CUDA_CHILD_GRAPH_NODE_PARAMS,
    pub event: CUevent,
    pub alloc: CUDA_MEM_ALLOC_NODE_PARAMS,
    pub free: CUdeviceptr,
    pub memOp: CUDA_BATCH_MEM_OP_NODE_PARAMS,
    pub conditional: CUDA_CONDITIONAL_NODE_PARAMS,
}

const _: () = assert!(size_of::<CUgraphNodeParams>() == 256);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernels_have_edges_that_are_no_full_ones() {
        let data = |kind, from_port| CUgraphEdgeData { kind, from_port, ..Default::default() };
        let fits = |kind, port| {
            let data = data(kind, port);
            [(true, true), (true, false), (false, true), (false, false)]
                .map(|(f, t)| data.fits(f, t))
        };
        assert_eq!(fits(0, 0), [true; 4]);
        assert_eq!(fits(0, 1), [false; 4], "that port is of programmatic edges alone");
        assert_eq!(fits(0, 2), [true, true, false, false]);
        assert_eq!(fits(1, 0), [false; 4], "that port is of full edges alone");
        assert_eq!(fits(1, 1), [true, false, false, false]);
        assert_eq!(fits(1, 2), [true, false, false, false]);
        assert_eq!((fits(0, 3), fits(1, 3), fits(2, 0)), ([false; 4], [false; 4], [false; 4]));
        assert!(!CUgraphEdgeData { to_port: 1, ..data(1, 1) }.fits(true, true));
        assert!(!CUgraphEdgeData { reserved: [0, 0, 0, 0, 1], ..data(0, 0) }.fits(true, true));
    }

    #[test]
    fn an_event_of_a_launch_says_when_it_is_recorded() {
        let mut attribute = CUlaunchAttribute::number(launch_attribute::PROGRAMMATIC_EVENT, 7);
        let edge = |kind, from_port| {
            let data = CUgraphEdgeData { kind, from_port, ..Default::default() };
            Some((CUevent(7), data))
        };
        assert_eq!(attribute.event_and_edge(), edge(1, 1));
        attribute.value[12] = 1;
        assert_eq!(attribute.event_and_edge(), edge(1, 2), "when the blocks begin");
        attribute.id = launch_attribute::LAUNCH_COMPLETION_EVENT;
        assert_eq!(attribute.event_and_edge(), edge(0, 2));
        attribute.id = launch_attribute::PRIORITY;
        assert_eq!(attribute.event_and_edge(), None);
    }
}
