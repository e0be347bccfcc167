//! What nodes do, as data. Nothing here is looked at through a pointer: addresses are numbers.

use crate::conditional::ConditionalNode;
use crate::memory::Allocation;
use crate::model::GraphId;
use core::ffi::c_uint;
use cuda_api::constants::graph_node as kind;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUarray, CUdeviceptr, CUevent,
    CUfunction, CUhostFn, CUkernel, CUlaunchAttribute, CUlaunchConfig, CUmemLocation, CUstream,
    CUstreamBatchMemOpParams,
};
use std::sync::Arc;

/// What a node does.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// Launches a kernel.
    Kernel(KernelNode),
    /// Copies.
    Copy(CopyNode),
    /// Fills memory.
    Fill(CUDA_MEMSET_NODE_PARAMS),
    /// Calls a function of the program's.
    Host(HostNode),
    /// Runs a graph of its own.
    Child(GraphId),
    /// Nothing: a place in the order.
    Empty,
    /// Waits for an event.
    WaitEvent(CUevent),
    /// Records an event.
    RecordEvent(CUevent),
    /// Allocates memory.
    Alloc(AllocNode),
    /// Frees memory.
    Free(CUdeviceptr),
    /// Writes words and waits for words.
    MemOps(Vec<CUstreamBatchMemOpParams>),
    /// Runs a graph of its own or not.
    Conditional(ConditionalNode),
}

impl NodeKind {
    /// CUgraphNodeType.
    pub fn number(&self) -> c_uint {
        match self {
            Self::Kernel(_) => kind::KERNEL,
            Self::Copy(_) => kind::MEMCPY,
            Self::Fill(_) => kind::MEMSET,
            Self::Host(_) => kind::HOST,
            Self::Child(_) => kind::GRAPH,
            Self::Empty => kind::EMPTY,
            Self::WaitEvent(_) => kind::WAIT_EVENT,
            Self::RecordEvent(_) => kind::EVENT_RECORD,
            Self::Alloc(_) => kind::MEM_ALLOC,
            Self::Free(_) => kind::MEM_FREE,
            Self::MemOps(_) => kind::BATCH_MEM_OP,
            Self::Conditional(_) => kind::CONDITIONAL,
        }
    }

    /// True if a launchable graph can leave the node out (cuGraphNodeSetEnabled).
    pub fn can_be_disabled(&self) -> bool {
        matches!(self, Self::Kernel(_) | Self::Copy(_) | Self::Fill(_))
    }

    /// True for what ties a graph to memory.
    pub fn is_memory(&self) -> bool {
        matches!(self, Self::Alloc(_) | Self::Free(_))
    }

    /// True for what there cannot be twice, so that its graph cannot be copied.
    pub(crate) fn is_unique(&self) -> bool {
        self.is_memory() || matches!(self, Self::Conditional(_))
    }

    /// True for what the body of a conditional node may have.
    pub(crate) fn may_be_conditional(&self) -> bool {
        matches!(
            self,
            Self::Kernel(_)
                | Self::Copy(_)
                | Self::Fill(_)
                | Self::Child(_)
                | Self::Empty
                | Self::Conditional(_)
        )
    }

    /// Graphs that are the node's own.
    pub(crate) fn embedded(&self) -> &[GraphId] {
        match self {
            Self::Child(child) => std::slice::from_ref(child),
            Self::Conditional(node) => &node.bodies,
            _ => &[],
        }
    }
}

/// A launch's parameters in one buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The buffer.
    pub bytes: Box<[u8]>,
    /// Where each parameter begins in it.
    pub offsets: Box<[usize]>,
}

/// A kernel to launch.
#[derive(Clone, Debug)]
pub struct KernelNode {
    /// The function, or the kernel in its place.
    pub function: CUfunction,
    /// The kernel, if the program has named one: runtime libraries know their code by it.
    pub kernel: CUkernel,
    /// Blocks in x, y, z.
    pub grid: [c_uint; 3],
    /// Threads of a block in x, y, z.
    pub block: [c_uint; 3],
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: c_uint,
    /// The parameters, copied when the node was made.
    pub parameters: Parameters,
    /// Launch attributes.
    pub attributes: Vec<CUlaunchAttribute>,
    /// What cuGraphKernelNodeGetParams last gave out: addresses of the parameters.
    pub(crate) shown: Box<[usize]>,
}

impl KernelNode {
    /// What an attribute was set to; `None` if never.
    pub fn attribute(&self, id: c_uint) -> Option<[u8; 64]> {
        self.attributes.iter().rfind(|a| a.id == id).map(|a| a.value)
    }

    /// A launch with a configuration's geometry, and the attributes that were read from it.
    pub fn new(
        function: CUfunction,
        config: &CUlaunchConfig,
        attributes: Vec<CUlaunchAttribute>,
        parameters: Parameters,
    ) -> Self {
        let kind = Handle::from_word(function.0 as u64).map(|handle| handle.kind);
        let kernel = match kind {
            Some(HandleKind::Kernel) => CUkernel(function.0),
            _ => CUkernel::NULL,
        };
        Self {
            function,
            kernel,
            grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
            block: [config.blockDimX, config.blockDimY, config.blockDimZ],
            shared_bytes: config.sharedMemBytes,
            parameters,
            attributes,
            shown: Box::default(),
        }
    }

    /// The node as a launch's configuration, good while the node lives unchanged.
    pub fn config(&self) -> CUlaunchConfig {
        CUlaunchConfig {
            gridDimX: self.grid[0],
            gridDimY: self.grid[1],
            gridDimZ: self.grid[2],
            blockDimX: self.block[0],
            blockDimY: self.block[1],
            blockDimZ: self.block[2],
            sharedMemBytes: self.shared_bytes,
            stream: CUstream::NULL,
            attrs: self.attributes.as_ptr().cast_mut(),
            numAttrs: self.attributes.len() as c_uint,
        }
    }
}

/// One end of a copy, as [`CUDA_MEMCPY3D`] describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyEnd {
    /// Offset in bytes, rows and slices.
    pub offset: [usize; 3],
    /// Mipmap level: 0.
    pub level: usize,
    /// CUmemorytype.
    pub memory_type: c_uint,
    /// Address in host memory.
    pub host: u64,
    /// Address in device or unified memory.
    pub device: CUdeviceptr,
    /// The array.
    pub array: CUarray,
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// Rows from one slice to the next.
    pub height: usize,
}

/// A copy of a box of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyNode {
    /// Where to.
    pub destination: CopyEnd,
    /// Where from.
    pub source: CopyEnd,
    /// Bytes in a row, rows in a slice, slices.
    pub extent: [usize; 3],
}

impl From<&CUDA_MEMCPY2D> for CopyNode {
    fn from(c: &CUDA_MEMCPY2D) -> Self {
        Self {
            destination: CopyEnd {
                offset: [c.dstXInBytes, c.dstY, 0],
                memory_type: c.dstMemoryType,
                host: c.dstHost as u64,
                device: c.dstDevice,
                array: c.dstArray,
                pitch: c.dstPitch,
                ..CopyEnd::default()
            },
            source: CopyEnd {
                offset: [c.srcXInBytes, c.srcY, 0],
                memory_type: c.srcMemoryType,
                host: c.srcHost as u64,
                device: c.srcDevice,
                array: c.srcArray,
                pitch: c.srcPitch,
                ..CopyEnd::default()
            },
            extent: [c.WidthInBytes, c.Height, 1],
        }
    }
}

impl From<&CUDA_MEMCPY3D> for CopyNode {
    fn from(c: &CUDA_MEMCPY3D) -> Self {
        Self {
            destination: CopyEnd {
                offset: [c.dstXInBytes, c.dstY, c.dstZ],
                level: c.dstLOD,
                memory_type: c.dstMemoryType,
                host: c.dstHost as u64,
                device: c.dstDevice,
                array: c.dstArray,
                pitch: c.dstPitch,
                height: c.dstHeight,
            },
            source: CopyEnd {
                offset: [c.srcXInBytes, c.srcY, c.srcZ],
                level: c.srcLOD,
                memory_type: c.srcMemoryType,
                host: c.srcHost as u64,
                device: c.srcDevice,
                array: c.srcArray,
                pitch: c.srcPitch,
                height: c.srcHeight,
            },
            extent: [c.WidthInBytes, c.Height, c.Depth],
        }
    }
}

impl From<&CopyNode> for CUDA_MEMCPY3D {
    fn from(c: &CopyNode) -> Self {
        let (d, s) = (&c.destination, &c.source);
        Self {
            srcXInBytes: s.offset[0],
            srcY: s.offset[1],
            srcZ: s.offset[2],
            srcLOD: s.level,
            srcMemoryType: s.memory_type,
            srcHost: s.host as *const _,
            srcDevice: s.device,
            srcArray: s.array,
            reserved0: core::ptr::null_mut(),
            srcPitch: s.pitch,
            srcHeight: s.height,
            dstXInBytes: d.offset[0],
            dstY: d.offset[1],
            dstZ: d.offset[2],
            dstLOD: d.level,
            dstMemoryType: d.memory_type,
            dstHost: d.host as *mut _,
            dstDevice: d.device,
            dstArray: d.array,
            reserved1: core::ptr::null_mut(),
            dstPitch: d.pitch,
            dstHeight: d.height,
            WidthInBytes: c.extent[0],
            Height: c.extent[1],
            Depth: c.extent[2],
        }
    }
}

/// A function of the program's.
#[derive(Clone, Copy, Debug)]
pub struct HostNode {
    /// The function.
    pub function: CUhostFn,
    /// What it is called with.
    pub user_data: usize,
}

/// An allocation by a graph.
#[derive(Clone, Debug)]
pub struct AllocNode {
    /// The memory, which is there as long as the graph or one made of it.
    pub allocation: Arc<Allocation>,
    /// Where it is.
    pub location: CUmemLocation,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_survives_the_way_there_and_back() {
        let end = |n: usize| CopyEnd {
            offset: [n + 1, n + 2, n + 3],
            level: n + 4,
            memory_type: n as u32 + 5,
            host: n as u64 + 6,
            device: CUdeviceptr(n as u64 + 7),
            array: CUarray(n + 8),
            pitch: n + 9,
            height: n + 10,
        };
        let copy = CopyNode { destination: end(100), source: end(200), extent: [1, 2, 3] };
        assert_eq!(CopyNode::from(&CUDA_MEMCPY3D::from(&copy)), copy);
    }
}
