//! Graphs: objects of the provider, owned.

use super::share::{gone, made};
use super::{CheckedRange, Function, LaunchShape, Share, Stream};
use cuda_api::constants::graph_instantiate::USE_NODE_PRIORITY;
use cuda_api::constants::graph_node;
use cuda_api::{
    CUDA_CONDITIONAL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1,
    CUDA_MEMSET_NODE_PARAMS, CUcontext, CUdeviceptr, CUgraph, CUgraphEdgeData, CUgraphExec,
    CUgraphExecUpdateResultInfo, CUgraphNode, CUgraphNodeBody, CUgraphNodeParams, CUkernel,
    CUlaunchAttributeValue, CUresult, CudaError, DriverTable,
};
use std::cell::Cell;
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
    /// has some can tell, so one is made, once a provider.
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
    raw: CUgraph,
    /// How many conditions were made for it.
    conditions: Cell<u64>,
    /// The graph that it is a body in, and goes with.
    whole: Option<Rc<RawGraph>>,
}

impl RawGraph {
    fn new(share: &Rc<Share>, raw: CUgraph, whole: Option<Rc<RawGraph>>) -> Rc<Self> {
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
            // SAFETY: the graph is alive and this is its last use; bodies keep the whole.
            let result = unsafe { self.share.device().table().cuGraphDestroy(self.raw) };
            gone(&self.share.counts.graphs, result);
        }
    }
}

/// Calls `f` with a launch as a node of a graph.
fn with_kernel_node(
    function: &Function,
    shape: &LaunchShape,
    parameters: &[u8],
    f: impl FnOnce(&CUDA_KERNEL_NODE_PARAMS) -> CUresult,
) -> CUresult {
    let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
    function.with_parameters(parameters, |extra| {
        f(&CUDA_KERNEL_NODE_PARAMS {
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
                extra,
            },
            kern: CUkernel::NULL,
            ctx: CUcontext::NULL,
        })
    })
}

/// A graph that is being put together. Nodes have the numbers in which they were added.
pub struct GraphBuilder {
    share: Rc<Share>,
    graph: Rc<RawGraph>,
    depth: u32,
    nodes: Vec<CUgraphNode>,
    /// Those of them that launch, in the order of their numbers.
    pub(super) kernels: Vec<Kernel>,
    /// Between which of them there are edges.
    pub(super) edges: Vec<Edge>,
    /// Graphs of its conditional nodes that are whole.
    pub(super) bodies: Vec<GraphBuilder>,
    /// The SMs that its kernels are on, if not on all.
    pub(super) sms: Option<Range<u32>>,
}

/// That a node waits for another one, by their numbers.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) data: CUgraphEdgeData,
}

/// A node that launches, and with what.
pub(super) struct Kernel {
    /// Its number.
    pub(super) node: usize,
    pub(super) function: Function,
    pub(super) shape: LaunchShape,
    pub(super) parameters: Box<[u8]>,
}

impl GraphBuilder {
    /// A graph without nodes.
    pub fn new(share: &Rc<Share>) -> Result<Self, CudaError> {
        let mut raw = CUgraph::NULL;
        // SAFETY: the local is written.
        unsafe { share.device().table().cuGraphCreate(&mut raw, 0)? };
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
    pub(super) fn parts(&mut self) -> (CUgraph, &mut [CUgraphNode]) {
        (self.graph.raw, &mut self.nodes)
    }

    /// Whose it is.
    pub(super) fn share(&self) -> &Rc<Share> {
        &self.share
    }

    /// Adds the node that `add` makes in the graph, which is alive.
    pub(super) fn add(
        &mut self,
        add: impl FnOnce(&DriverTable, CUgraph, &mut CUgraphNode) -> CUresult,
    ) -> CUresult {
        let mut node = CUgraphNode::NULL;
        add(self.share.device().table(), self.graph.raw, &mut node)?;
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a node that does nothing.
    pub fn add_empty(&mut self) -> CUresult {
        // SAFETY: the local is written; the graph is alive, the list of dependencies is empty.
        self.add(|t, graph, node| unsafe { t.cuGraphAddEmptyNode(node, graph, ptr::null(), 0) })
    }

    /// Adds a launch. `parameters` is the flattened parameter buffer; it is copied. That a launch
    /// may begin early is said by its edges, and not by its shape.
    pub fn add_kernel(
        &mut self,
        function: &Function,
        shape: LaunchShape,
        parameters: &[u8],
    ) -> CUresult {
        let t = self.share.device().table();
        let shape = function.with_required_cluster(shape);
        let (raw, mut node) = (self.graph.raw, CUgraphNode::NULL);
        with_kernel_node(function, &shape, parameters, |params| {
            // SAFETY: graph and function are alive; the parameters and the list that they lead to
            // are only read, during the call; the local is written.
            unsafe { t.cuGraphAddKernelNode_v2(&mut node, raw, ptr::null(), 0, params) }
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
        let fill = CUDA_MEMSET_NODE_PARAMS {
            dst: CUdeviceptr(range.address()),
            pitch: pitch as usize,
            value,
            elementSize: element_bytes,
            width: width as usize,
            height: height as usize,
        };
        let context = self.share.device().context();
        // SAFETY: graph and context are alive, `fill` is read during the call; the range, which
        // covers all rows, is the session's (CheckedRange), which checks it again should it give
        // memory back. The local is written.
        self.add(|t, graph, node| unsafe {
            t.cuGraphAddMemsetNode(node, graph, ptr::null(), 0, &fill, context)
        })
    }

    /// Has the provider make a condition for this graph, which is no body, and its bodies: its
    /// handle. Providers differ in what that is.
    pub fn add_condition(&mut self, default: u32, flags: u32) -> Result<u64, CudaError> {
        let (t, context) = (self.share.device().table(), self.share.device().context());
        let mut handle = 0;
        // SAFETY: graph and context are alive, the local is written.
        unsafe {
            t.cuGraphConditionalHandleCreate(&mut handle, self.graph.raw, context, default, flags)?;
        }
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
            ctx: self.share.device().context(),
        };
        let mut body = CUgraphNodeBody { reserved1: [0; 29] };
        body.conditional = conditional;
        let kind = graph_node::CONDITIONAL;
        let mut params = CUgraphNodeParams { kind, reserved0: [0; 3], body, reserved2: 0 };
        let (mut node, t) = (CUgraphNode::NULL, self.share.device().table());
        let (raw, nodes, edges) = (self.graph.raw, ptr::null(), ptr::null());
        // SAFETY: the graph is alive, the lists are empty; the locals are read and written.
        unsafe { t.cuGraphAddNode_v2(&mut node, raw, nodes, edges, 0, &mut params)? };
        self.nodes.push(node);
        // SAFETY: this member was written above, and its list by the provider: as many handles as
        // were asked for, there as long as the node.
        let bodies = unsafe {
            std::slice::from_raw_parts(params.body.conditional.phGraph_out, count as usize)
        };
        let body = |raw: &CUgraph| {
            let whole = Some(self.graph.clone());
            let graph = RawGraph::new(&self.share, *raw, whole);
            Self::of(&self.share, graph, self.depth + 1)
        };
        Ok(bodies.iter().map(body).collect())
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

    pub(super) fn is_kernel(&self, number: u32) -> bool {
        self.kernels.binary_search_by_key(&(number as usize), |kernel| kernel.node).is_ok()
    }

    /// Has the provider add edges between its nodes as they are now, early ones as full ones if it must.
    pub(super) fn put_edges(&self, edges: &[Edge]) -> CUresult {
        let t = self.share.device().table();
        let (early, mut full): (Vec<Edge>, Vec<Edge>) =
            edges.iter().copied().partition(|edge| !edge.data.is_full());
        if !early.is_empty() {
            let [from, to] = self.ends(&early);
            let data: Vec<CUgraphEdgeData> = early.iter().map(|edge| edge.data).collect();
            let (from, to, data) = (from.as_ptr(), to.as_ptr(), data.as_ptr());
            // SAFETY: the graph and its nodes are alive; the lists have as many as is said.
            let added =
                unsafe { t.cuGraphAddDependencies_v2(self.graph.raw, from, to, data, early.len()) };
            if added.is_err() {
                full.extend(early);
            }
        }
        if full.is_empty() {
            return Ok(());
        }
        let [from, to] = self.ends(&full);
        // SAFETY: as above.
        unsafe { t.cuGraphAddDependencies(self.graph.raw, from.as_ptr(), to.as_ptr(), full.len()) }
    }

    /// The nodes that edges begin and end at.
    fn ends(&self, edges: &[Edge]) -> [Vec<CUgraphNode>; 2] {
        let nodes = |end: fn(&Edge) -> u32| {
            edges.iter().map(|edge| self.nodes[end(edge) as usize]).collect()
        };
        [nodes(|edge| edge.from), nodes(|edge| edge.to)]
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
            let ([from, to], t) = (self.ends(&early), self.share.device().table());
            let data: Vec<CUgraphEdgeData> = early.iter().map(|edge| edge.data).collect();
            let (from, to, data) = (from.as_ptr(), to.as_ptr(), data.as_ptr());
            // SAFETY: the graph and its nodes are alive; the lists have as many as is said.
            unsafe { t.cuGraphRemoveDependencies_v2(self.graph.raw, from, to, data, early.len())? };
            early.iter_mut().for_each(|edge| edge.data = CUgraphEdgeData::default());
            self.put_edges(&early)?;
            self.edges.iter_mut().for_each(|edge| edge.data = CUgraphEdgeData::default());
        }
        self.bodies.iter_mut().try_for_each(Self::fill_edges)
    }

    fn make_exec(&self) -> Result<GraphExec, CudaError> {
        let mut raw = CUgraphExec::NULL;
        let t = self.share.device().table();
        let flags = if self.has_priorities() { USE_NODE_PRIORITY } else { 0 };
        // SAFETY: the local is written; the graph is alive.
        unsafe { t.cuGraphInstantiateWithFlags(&mut raw, self.graph.raw, flags)? };
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
    raw: CUgraphExec,
    /// Most local memory that a thread of its kernels needs, bytes.
    local_bytes: Cell<u32>,
}

impl GraphExec {
    /// Lets it do what another graph of the same form does; an error if the form is another one.
    pub fn update(&self, graph: &GraphBuilder) -> CUresult {
        let mut info = CUgraphExecUpdateResultInfo::default();
        let t = self.share.device().table();
        // SAFETY: both graphs are alive; the local is written.
        unsafe { t.cuGraphExecUpdate_v2(self.raw, graph.graph.raw, &mut info)? };
        self.local_bytes.set(graph.local_bytes());
        Ok(())
    }

    /// Launches it in a stream.
    pub fn launch(&self, stream: &Stream) -> CUresult {
        stream.count_operation();
        self.share.launching(self.local_bytes.get(), || {
            // SAFETY: graph and stream are alive.
            unsafe { self.share.device().table().cuGraphLaunch(self.raw, stream.raw()) }
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
        with_kernel_node(function, &shape, parameters, |params| {
            let t = share.device().table();
            // SAFETY: both graphs and the function are alive, the node is the first one's; the
            // parameters and the list that they lead to are only read, during the call.
            unsafe { t.cuGraphExecKernelNodeSetParams_v2(self.exec.raw, node, params) }
        })
    }

    /// Launches it in a stream.
    pub fn launch(&self, stream: &Stream) -> CUresult {
        self.exec.launch(stream)
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // SAFETY: the graph is alive and this is its last use; launches of it go on.
        let result = unsafe { self.share.device().table().cuGraphExecDestroy(self.raw) };
        gone(&self.share.counts.graphs, result);
    }
}
