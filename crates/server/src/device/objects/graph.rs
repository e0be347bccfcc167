//! Graphs: objects of the provider, owned.

use crate::device::safe_calls::{Description, EdgeList, Live, Owned, SafeCalls};
use crate::device::share::{gone, made};
use crate::device::{CheckedRange, Function, LaunchShape, Share, Stream};
use cuda_api::constants::graph_instantiate::USE_NODE_PRIORITY;
use cuda_api::constants::graph_node;
use cuda_api::{
    CUDA_CONDITIONAL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1,
    CUDA_MEMSET_NODE_PARAMS, CUcontext, CUdeviceptr, CUgraph, CUgraphEdgeData, CUgraphExec,
    CUgraphExecUpdateResultInfo, CUgraphNode, CUgraphNodeBody, CUgraphNodeParams, CUkernel,
    CUlaunchAttributeValue, CUresult, CudaError,
};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;
use std::rc::Rc;

/// Conditional nodes within conditional nodes: deeper is a program's mistake, and the code that
/// walks through a graph recurses that often.
const DEPTH_MAX: u32 = 64;

/// What a conditional node looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Four bytes of device memory.
    Word(CheckedRange),
    /// A condition of the provider's, which [`GraphBuilder::add_condition`] made.
    Numbered(u64),
}

impl Share {
    /// Whether the provider gives conditions numbers, 1, 2, ... in each graph; if not, they are
    /// words. CUDA_ERROR_NOT_SUPPORTED for a provider whose conditions are neither. Only a graph that
    /// has some shows it, so one is made, once a provider.
    pub fn numbers_conditions(self: &Rc<Self>) -> Result<bool, CudaError> {
        let device = self.device();
        if device.has_tenants() {
            return Ok(false);
        }
        let counts = match device.counts_conditions.get() {
            Some(counts) => *counts,
            None => {
                let mut trial = GraphBuilder::new(self)?;
                let counts = [trial.add_condition(0, 0)?, trial.add_condition(0, 0)?] == [1, 2];
                *device.counts_conditions.get_or_init(|| counts)
            }
        };
        if counts { Ok(true) } else { Err(CudaError::NOT_SUPPORTED) }
    }
}

/// A graph of the provider's.
struct RawGraph {
    share: Rc<Share>,
    raw: Owned<CUgraph>,
    /// How many conditions were made for it.
    conditions: Cell<u64>,
    /// The graph that it is a body in, and goes with.
    whole: Option<Rc<RawGraph>>,
}

impl RawGraph {
    fn new(share: &Rc<Share>, raw: Owned<CUgraph>, whole: Option<Rc<RawGraph>>) -> Rc<Self> {
        Rc::new(Self { share: share.clone(), raw, conditions: Cell::new(0), whole })
    }

    /// The conditions of the graph that it is a part of, or is.
    fn conditions(&self) -> u64 {
        self.whole.as_ref().map_or(self.conditions.get(), |whole| whole.conditions())
    }
}

impl Drop for RawGraph {
    fn drop(&mut self) {
        if self.whole.is_none() {
            // Bodies keep the whole.
            let result = self.share.device().calls().cuGraphDestroy(self.raw.take());
            gone(&self.share.counts.graphs, result);
        }
    }
}

/// A fill as a node of a graph, of a range that is the session's and covers all rows.
struct CheckedFill(CUDA_MEMSET_NODE_PARAMS);

// SAFETY: see the type.
unsafe impl Description<CUDA_MEMSET_NODE_PARAMS> for CheckedFill {
    fn get(&self) -> *const CUDA_MEMSET_NODE_PARAMS {
        &self.0
    }
}

/// A launch as a node of a graph: of a function that is alive, and with its parameters.
struct KernelNode<'a>(CUDA_KERNEL_NODE_PARAMS, PhantomData<&'a Function>);

// SAFETY: function and parameters are there for as long as it.
unsafe impl Description<CUDA_KERNEL_NODE_PARAMS> for KernelNode<'_> {
    fn get(&self) -> *const CUDA_KERNEL_NODE_PARAMS {
        &self.0
    }
}

/// Calls `f` with a launch as a node of a graph.
fn with_kernel_node(
    function: &Function,
    shape: &LaunchShape,
    parameters: &[u8],
    f: impl FnOnce(&KernelNode<'_>) -> CUresult,
) -> CUresult {
    let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
    function.with_parameters(parameters, |list| {
        let node = CUDA_KERNEL_NODE_PARAMS {
            v1: CUDA_KERNEL_NODE_PARAMS_v1 {
                func: function.raw(),
                gridDimX: gx,
                gridDimY: gy,
                gridDimZ: gz,
                blockDimX: bx,
                blockDimY: by,
                blockDimZ: bz,
                sharedMemBytes: shape.shared_bytes,
                kernelParams: ptr::null_mut(),
                extra: list.get().cast_mut(),
            },
            kern: CUkernel::NULL,
            ctx: CUcontext::NULL,
        };
        f(&KernelNode(node, PhantomData))
    })
}

/// A graph that is being put together. Nodes have the numbers in which they were added.
pub struct GraphBuilder {
    share: Rc<Share>,
    graph: Rc<RawGraph>,
    depth: u32,
    nodes: Vec<CUgraphNode>,
    /// Those of them that launch, in the order of their numbers.
    pub(in crate::device) kernels: Vec<Kernel>,
    /// Between which of them there are edges.
    pub(in crate::device) edges: Vec<Edge>,
    /// Graphs of its conditional nodes that are whole.
    pub(in crate::device) bodies: Vec<GraphBuilder>,
    /// The SMs that its kernels are on, if not on all.
    pub(in crate::device) sms: Option<Range<u32>>,
}

/// That a node waits for another one, by their numbers.
#[derive(Clone, Copy)]
pub(in crate::device) struct Edge {
    pub(in crate::device) from: u32,
    pub(in crate::device) to: u32,
    pub(in crate::device) data: CUgraphEdgeData,
}

/// A node that launches, and with what.
pub(in crate::device) struct Kernel {
    /// Its number.
    pub(in crate::device) node: usize,
    pub(in crate::device) function: Function,
    pub(in crate::device) shape: LaunchShape,
    pub(in crate::device) parameters: Box<[u8]>,
}

impl GraphBuilder {
    /// A graph without nodes.
    pub fn new(share: &Rc<Share>) -> Result<Self, CudaError> {
        let mut raw = Owned::default();
        share.device().calls().cuGraphCreate(&mut raw)?;
        made(&share.counts.graphs);
        Ok(Self::of(share, RawGraph::new(share, raw, None), 0))
    }

    fn of(share: &Rc<Share>, graph: Rc<RawGraph>, depth: u32) -> Self {
        Self {
            share: share.clone(),
            graph,
            depth,
            nodes: Vec::new(),
            kernels: Vec::new(),
            edges: Vec::new(),
            bodies: Vec::new(),
            sms: None,
        }
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Takes the graph of one of its conditional nodes, or of one of its bodies', which is whole.
    pub fn take_body(&mut self, body: Self) {
        self.bodies.push(body);
    }

    /// The provider's handle, and its nodes.
    pub(in crate::device) fn parts(&mut self) -> (Live<'_, CUgraph>, &mut [CUgraphNode]) {
        (self.graph.raw.live(), &mut self.nodes)
    }

    /// Whose it is.
    pub(in crate::device) fn share(&self) -> &Rc<Share> {
        &self.share
    }

    /// Adds the node that `add` makes in the graph, which is alive.
    pub(in crate::device) fn add(
        &mut self,
        add: impl FnOnce(SafeCalls, Live<'_, CUgraph>, &mut CUgraphNode) -> CUresult,
    ) -> CUresult {
        let mut node = CUgraphNode::NULL;
        add(self.share.device().calls(), self.graph.raw.live(), &mut node)?;
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a node that does nothing.
    pub fn add_empty(&mut self) -> CUresult {
        self.add(|calls, graph, node| calls.cuGraphAddEmptyNode(node, graph))
    }

    /// Adds a launch. `parameters` is the flattened parameter buffer; it is copied. That a launch
    /// may begin early is said by its edges, and not by its shape.
    pub fn add_kernel(
        &mut self,
        function: &Function,
        shape: LaunchShape,
        parameters: &[u8],
    ) -> CUresult {
        let (t, calls) = (self.share.device().table(), self.share.device().calls());
        let shape = function.with_required_cluster(shape);
        let (graph, mut node) = (self.graph.raw.live(), CUgraphNode::NULL);
        with_kernel_node(function, &shape, parameters, |launch| {
            calls.cuGraphAddKernelNode_v2(&mut node, graph, launch)
        })?;
        let whole = LaunchShape { programmatic: false, ..shape };
        let (attributes, count) = whole.attributes();
        for attribute in &attributes[..count as usize] {
            let mut value = CUlaunchAttributeValue::default();
            for (word, bytes) in value.iter_mut().zip(attribute.value.as_chunks().0) {
                *word = u64::from_ne_bytes(*bytes);
            }
            // SAFETY: the node was just made; the local is read.
            unsafe { t.cuGraphKernelNodeSetAttribute(node, attribute.id, &value)? };
        }
        self.kernels.push(Kernel {
            node: self.nodes.len(),
            function: function.clone(),
            shape: whole,
            parameters: parameters.into(),
        });
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a fill; `range` covers all rows.
    pub fn add_fill(
        &mut self,
        range: CheckedRange,
        pitch: u64,
        (value, element_bytes): (u32, u32),
        [width, height]: [u64; 2],
    ) -> CUresult {
        let fill = CheckedFill(CUDA_MEMSET_NODE_PARAMS {
            dst: CUdeviceptr(range.address()),
            pitch: pitch as usize,
            value,
            elementSize: element_bytes,
            width: width as usize,
            height: height as usize,
        });
        // The session checks the range again should it give memory back.
        let device = self.share.device().clone();
        self.add(|calls, graph, node| {
            calls.cuGraphAddMemsetNode(node, graph, &fill, device.context())
        })
    }

    /// Has the provider make a condition for this graph, which is no body, and its bodies: its
    /// handle. Providers differ in what that is.
    pub fn add_condition(&mut self, default: u32, flags: u32) -> Result<u64, CudaError> {
        let (device, graph, mut handle) = (self.share.device(), self.graph.raw.live(), 0);
        let (calls, context) = (device.calls(), device.context());
        calls.cuGraphConditionalHandleCreate(&mut handle, graph, context, default, flags)?;
        self.graph.conditions.set(self.graph.conditions.get() + 1);
        Ok(handle)
    }

    /// Adds a node that chooses between `count` graphs, which are returned to be put together.
    /// `rule` is a CUgraphConditionalNodeType. CUDA_ERROR_INVALID_VALUE for a number that no
    /// condition has.
    pub fn add_conditional(
        &mut self,
        rule: u32,
        condition: Condition,
        count: u32,
    ) -> Result<Vec<Self>, CudaError> {
        let known = match condition {
            Condition::Word(_) => true,
            Condition::Numbered(number) => (1..=self.graph.conditions()).contains(&number),
        };
        if self.depth >= DEPTH_MAX || !known {
            return Err(CudaError::INVALID_VALUE);
        }
        let handle = match condition {
            Condition::Word(word) => word.address(),
            Condition::Numbered(number) => number,
        };
        let conditional = CUDA_CONDITIONAL_NODE_PARAMS {
            handle,
            kind: rule,
            size: count,
            phGraph_out: ptr::null_mut(),
            ctx: self.share.device().context().raw(),
        };
        let mut body = CUgraphNodeBody { reserved1: [0; 29] };
        body.conditional = conditional;
        let kind = graph_node::CONDITIONAL;
        let mut params = CUgraphNodeParams { kind, reserved0: [0; 3], body, reserved2: 0 };
        let (mut node, t) = (CUgraphNode::NULL, self.share.device().table());
        let (raw, nodes, edges) = (self.graph.raw.live().raw(), ptr::null(), ptr::null());
        // SAFETY: the graph is alive, the lists are empty; the locals are read and written. The member was
        // written above, and its list by the provider: as many graphs as were asked for, there as long as
        // the node, whose graph each keeps.
        let bodies: Vec<Owned<CUgraph>> = unsafe {
            t.cuGraphAddNode_v2(&mut node, raw, nodes, edges, 0, &mut params)?;
            let bodies = params.body.conditional.phGraph_out;
            let bodies = std::slice::from_raw_parts(bodies, count as usize);
            bodies.iter().map(|raw| Owned::new_unchecked(*raw)).collect()
        };
        self.nodes.push(node);
        let body = |raw| {
            let graph = RawGraph::new(&self.share, raw, Some(self.graph.clone()));
            Self::of(&self.share, graph, self.depth + 1)
        };
        Ok(bodies.into_iter().map(body).collect())
    }

    /// Lets a node wait for others, each as the edge's data says. Where the provider refuses an edge that is
    /// no full one, as drivers before 12.3 do, the node waits for the other one's end.
    /// CUDA_ERROR_INVALID_VALUE for numbers of no nodes, and for what no edge between such nodes can say.
    pub fn add_edges(
        &mut self,
        node: u32,
        from: impl IntoIterator<Item = (u32, CUgraphEdgeData)>,
    ) -> CUresult {
        let known = |number: u32| (number as usize) < self.nodes.len();
        let mut edges = Vec::new();
        for (from, data) in from {
            let fits = data.fits(self.is_kernel(from), self.is_kernel(node));
            if !known(from) || !known(node) || !fits {
                return Err(CudaError::INVALID_VALUE);
            }
            edges.push(Edge { from, to: node, data });
        }
        self.put_edges(&edges)?;
        self.edges.extend(edges);
        Ok(())
    }

    pub(in crate::device) fn is_kernel(&self, number: u32) -> bool {
        self.kernels.binary_search_by_key(&(number as usize), |kernel| kernel.node).is_ok()
    }

    /// Has the provider add edges between its nodes as they are now, early ones as full ones if it must.
    pub(in crate::device) fn put_edges(&self, edges: &[Edge]) -> CUresult {
        let calls = self.share.device().calls();
        let (early, mut full): (Vec<Edge>, Vec<Edge>) =
            edges.iter().copied().partition(|edge| !edge.data.is_full());
        if !early.is_empty() && calls.cuGraphAddDependencies_v2(&self.list_of(&early)).is_err() {
            full.extend(early);
        }
        if full.is_empty() {
            return Ok(());
        }
        calls.cuGraphAddDependencies(&self.list_of(&full))
    }

    /// Edges as the provider takes them.
    fn list_of(&self, edges: &[Edge]) -> EdgeList<'_> {
        let node = |number: u32| self.nodes[number as usize];
        let edges = edges.iter().map(|edge| (node(edge.from), node(edge.to), edge.data));
        // SAFETY: the nodes are the graph's, and there as long as it.
        unsafe { EdgeList::new_unchecked(self.graph.raw.live(), edges) }
    }

    /// Makes of it what can be launched. If the provider refuses such a graph with edges that are no full
    /// ones, these become full.
    pub fn instantiate(&mut self) -> Result<GraphExec, CudaError> {
        match self.make_exec() {
            Err(CudaError::INVALID_VALUE | CudaError::NOT_SUPPORTED) if self.has_early_edges() => {
                self.fill_edges()?;
                self.make_exec()
            }
            made => made,
        }
    }

    fn has_early_edges(&self) -> bool {
        let is_early = |edge: &Edge| !edge.data.is_full();
        self.edges.iter().any(is_early) || self.bodies.iter().any(Self::has_early_edges)
    }

    /// Puts full edges in the place of all others.
    fn fill_edges(&mut self) -> CUresult {
        let is_early = |edge: &&Edge| !edge.data.is_full();
        let mut early: Vec<Edge> = self.edges.iter().filter(is_early).copied().collect();
        if !early.is_empty() {
            let calls = self.share.device().calls();
            calls.cuGraphRemoveDependencies_v2(&self.list_of(&early))?;
            early.iter_mut().for_each(|edge| edge.data = CUgraphEdgeData::default());
            self.put_edges(&early)?;
            self.edges.iter_mut().for_each(|edge| edge.data = CUgraphEdgeData::default());
        }
        self.bodies.iter_mut().try_for_each(Self::fill_edges)
    }

    fn make_exec(&self) -> Result<GraphExec, CudaError> {
        let (mut raw, graph) = (Owned::default(), self.graph.raw.live());
        let flags = if self.has_priorities() { USE_NODE_PRIORITY } else { 0 };
        self.share.device().calls().cuGraphInstantiateWithFlags(&mut raw, graph, flags)?;
        made(&self.share.counts.graphs);
        let local_bytes = Cell::new(self.local_bytes());
        Ok(GraphExec { share: self.share.clone(), raw, local_bytes })
    }

    /// True if one of its kernels, or of its bodies', has a priority of its own.
    fn has_priorities(&self) -> bool {
        self.kernels.iter().any(|kernel| kernel.shape.priority.is_some())
            || self.bodies.iter().any(Self::has_priorities)
    }

    /// Most local memory that a thread of one of its kernels needs, and of its bodies', bytes.
    fn local_bytes(&self) -> u32 {
        let own = self.kernels.iter().map(|kernel| kernel.function.local_bytes());
        own.chain(self.bodies.iter().map(Self::local_bytes)).max().unwrap_or(0)
    }
}

/// A graph that can be launched. It owns what it needs of the graph that it was made of.
pub struct GraphExec {
    share: Rc<Share>,
    raw: Owned<CUgraphExec>,
    /// Most local memory that a thread of its kernels needs, bytes.
    local_bytes: Cell<u32>,
}

impl GraphExec {
    /// Lets it do what another graph of the same form does; an error if the form is another one.
    pub fn update(&self, graph: &GraphBuilder) -> CUresult {
        let mut info = CUgraphExecUpdateResultInfo::default();
        let (calls, graph_raw) = (self.share.device().calls(), graph.graph.raw.live());
        calls.cuGraphExecUpdate_v2(self.raw.live(), graph_raw, &mut info)?;
        self.local_bytes.set(graph.local_bytes());
        Ok(())
    }

    /// Launches it in a stream.
    pub fn launch(&self, stream: &Stream) -> CUresult {
        stream.count_operation();
        let calls = self.share.device().calls();
        self.share.launching(self.local_bytes.get(), || {
            calls.cuGraphLaunch(self.raw.live(), stream.live())
        })
    }
}

/// What a node of a chain does.
pub enum ChainWork<'a> {
    /// Launches a kernel with these parameters.
    Kernel(&'a Function, LaunchShape, &'a [u8]),
    /// Sets a range to a value, of so many bytes, so often.
    Fill(CheckedRange, (u32, u32), u64),
}

/// Kernels and fills that run one after the other as one graph; kernels get other parameters from launch to launch.
pub struct NodeChain {
    exec: GraphExec,
    /// The nodes' graph, which names them for as long as it is there.
    _graph: Rc<RawGraph>,
    nodes: Vec<CUgraphNode>,
}

impl NodeChain {
    /// A chain of these. A launch that may begin early may do so behind another one; the first waits for what is
    /// before the chain.
    pub fn new<'a>(
        share: &Rc<Share>,
        work: impl Iterator<Item = ChainWork<'a>>,
    ) -> Result<Self, CudaError> {
        let mut builder = GraphBuilder::new(share)?;
        let mut behind_kernel = false;
        for (number, work) in (0u32..).zip(work) {
            let may_begin_early = match work {
                ChainWork::Kernel(function, shape, parameters) => {
                    builder.add_kernel(function, shape, parameters)?;
                    std::mem::replace(&mut behind_kernel, true) && shape.programmatic
                }
                ChainWork::Fill(range, value, count) => {
                    builder.add_fill(range, range.bytes(), value, [count, 1])?;
                    behind_kernel = false;
                    false
                }
            };
            let data = match may_begin_early {
                true => CUgraphEdgeData::PROGRAMMATIC,
                false => CUgraphEdgeData::default(),
            };
            let before = number.checked_sub(1).map(|before| (before, data));
            builder.add_edges(number, before)?;
        }
        let exec = builder.instantiate()?;
        let GraphBuilder { graph, nodes, .. } = builder;
        Ok(Self { exec, _graph: graph, nodes })
    }

    /// Gives one of its launches, which are numbered from 0, other parameters from its next launch on.
    /// Function and shape are those that it was made with.
    pub fn set_parameters(
        &self,
        number: usize,
        function: &Function,
        shape: LaunchShape,
        parameters: &[u8],
    ) -> CUresult {
        let node = *self.nodes.get(number).ok_or(CudaError::INVALID_VALUE)?;
        let share = &self.exec.share;
        let shape = function.with_required_cluster(shape);
        with_kernel_node(function, &shape, parameters, |launch| {
            let (t, exec) = (share.device().table(), self.exec.raw.live().raw());
            // SAFETY: both graphs are alive, the node is the first one's; the description is only read,
            // during the call.
            unsafe { t.cuGraphExecKernelNodeSetParams_v2(exec, node, launch.get()) }
        })
    }

    /// Launches it in a stream.
    pub fn launch(&self, stream: &Stream) -> CUresult {
        self.exec.launch(stream)
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // Launches of it go on.
        let result = self.share.device().calls().cuGraphExecDestroy(self.raw.take());
        gone(&self.share.counts.graphs, result);
    }
}
