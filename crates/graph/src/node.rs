//! Nodes: what they do, as data. Nothing here is looked at through a pointer: addresses are
//! numbers.

use crate::conditional::{Condition, ConditionalNode, NumberedCondition, WORD_BYTES};
use crate::id::GraphId;
use crate::memory::Allocation;
use core::ffi::c_uint;
use cuda_api::constants::graph_node as kind;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{
    CUDA_MEMSET_NODE_PARAMS, CUdeviceptr, CUevent, CUfunction, CUhostFn, CUkernel,
    CUlaunchAttribute, CUlaunchConfig, CUmemLocation, CUstream, CUstreamBatchMemOpParams, Memcpy3D,
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
    /// Has the device make a condition. No program's node is one: a graph begins with it.
    Condition(NumberedCondition),
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
            Self::Empty | Self::Condition(_) => kind::EMPTY,
            Self::WaitEvent(_) => kind::WAIT_EVENT,
            Self::RecordEvent(_) => kind::EVENT_RECORD,
            Self::Alloc(_) => kind::MEM_ALLOC,
            Self::Free(_) => kind::MEM_FREE,
            Self::MemOps(_) => kind::BATCH_MEM_OP,
            Self::Conditional(_) => kind::CONDITIONAL,
        }
    }

    /// True for a launch.
    pub fn is_kernel(&self) -> bool {
        matches!(self, Self::Kernel(_))
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

    /// With what a condition's graph begins: the word is set to its default, or the device makes the condition.
    pub(crate) fn beginning(condition: &Condition) -> Option<Self> {
        match condition {
            Condition::Word { memory, default, .. } => default.map(|value| {
                Self::Fill(CUDA_MEMSET_NODE_PARAMS {
                    dst: CUdeviceptr(memory.address),
                    pitch: 0,
                    value,
                    elementSize: WORD_BYTES as c_uint,
                    width: 1,
                    height: 1,
                })
            }),
            Condition::Numbered(condition) => Some(Self::Condition(*condition)),
        }
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
    /// SMs that its blocks may be placed on, regardless of the stream that its graph is launched
    /// in: those of the context that it was captured or made in. `None` for all.
    pub sms: Option<Arc<[u32]>>,
    /// What cuGraphKernelNodeGetParams last gave out: addresses of the parameters.
    pub(crate) shown: Box<[usize]>,
}

impl KernelNode {
    /// What an attribute was set to; `None` if never.
    pub fn attribute(&self, id: c_uint) -> Option<[u8; 64]> {
        self.attributes.iter().rfind(|a| a.id == id).map(|a| a.value)
    }

    /// True if it may begin when the kernel before it in its stream allows it.
    pub(crate) fn is_programmatic(&self) -> bool {
        self.attributes.iter().any(CUlaunchAttribute::is_programmatic)
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
            sms: None,
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

/// A 3-D copy of bytes.
pub type CopyNode = Memcpy3D;

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
    /// Bytes that the program asked for: no more than the memory has.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_may_be_used_for_depends_on_what_it_does() {
        let fill = NodeKind::Fill(CUDA_MEMSET_NODE_PARAMS::default());
        let host = NodeKind::Host(HostNode { function: None, user_data: 0 });
        let nodes = [fill, NodeKind::Empty, host, NodeKind::WaitEvent(CUevent::NULL)];
        assert_eq!(nodes.each_ref().map(NodeKind::can_be_disabled), [true, false, false, false]);
        assert_eq!(nodes.each_ref().map(NodeKind::may_be_conditional), [true, true, false, false]);
    }

    #[test]
    fn an_attribute_is_what_it_was_set_to_last() {
        let attribute = |id, byte| CUlaunchAttribute { id, pad: [0; 4], value: [byte; 64] };
        let attributes = vec![attribute(1, 5), attribute(2, 6), attribute(1, 7)];
        let node = KernelNode {
            function: CUfunction::NULL,
            kernel: CUkernel::NULL,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            parameters: Parameters::default(),
            attributes,
            sms: None,
            shown: Box::default(),
        };
        assert_eq!(node.attribute(1), Some([7; 64]));
        assert_eq!((node.attribute(2), node.attribute(3)), (Some([6; 64]), None));
    }

    #[test]
    fn only_a_condition_with_a_default_is_set_at_the_beginning() {
        let memory = Allocation::new(0x1000, WORD_BYTES, &Arc::default(), |_| {});
        let set = |default| {
            let memory = memory.clone();
            NodeKind::beginning(&Condition::Word { memory, default, device: 0 })
        };
        assert!(set(None).is_none(), "it keeps what it has");
        let fill = match set(Some(7)) {
            Some(NodeKind::Fill(fill)) => fill,
            other => panic!("{other:?}"),
        };
        assert_eq!((fill.dst, fill.value), (CUdeviceptr(0x1000), 7));
        assert_eq!((fill.elementSize, fill.width, fill.height), (4, 1, 1));
        // The device has to hear of one of its own in any case.
        let numbered = NumberedCondition { number: 3, default: None, device: 0 };
        let beginning = NodeKind::beginning(&Condition::Numbered(numbered));
        assert!(matches!(beginning, Some(NodeKind::Condition(c)) if c == numbered));
    }
}
