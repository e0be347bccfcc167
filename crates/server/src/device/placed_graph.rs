//! SMs of graphs: a graph's kernels are on the SMs of the stream that it is launched in.
//!
//! A driver does not look at that stream: a kernel node keeps the SMs of the context that it was made
//! in, and a node that names a function has all SMs regardless of the context that is named beside
//! it. But a launch that a stream of a green context captures becomes a node on that context's SMs.
//! So nodes are replaced by captured ones when a graph is launched on other SMs than before, and it
//! is made ready anew.

use super::graph::{GraphBuilder, GraphExec, Kernel};
use super::{Share, Stream};
use cuda_api::constants::capture;
use cuda_api::{CUgraph, CUgraphEdgeData, CUgraphNode, CUresult, CudaError, DriverTable};
use std::ops::Range;
use std::ptr;

/// Made ready for so many ranges of SMs at a time: those of a client's share, and of what a floor for
/// others leaves of it.
const READY_MAX: usize = 2;

/// A graph that can be launched in streams on any SMs.
pub struct PlacedGraph {
    source: GraphBuilder,
    /// The one that was launched last is the first.
    ready: Vec<(Option<Range<u32>>, GraphExec)>,
    /// Why its kernels are not on the SMs of the stream that it was launched in last.
    unkept: Option<CudaError>,
}

impl PlacedGraph {
    /// Makes a graph ready for launches in streams like this one, or in those on all SMs.
    pub fn new(source: GraphBuilder, like: Option<&Stream>) -> Result<Self, CudaError> {
        let mut graph = Self { source, ready: Vec::new(), unkept: None };
        match like {
            Some(like) => graph.place(like)?,
            None => graph.ready.push((None, graph.source.instantiate()?)),
        }
        Ok(graph)
    }

    /// Makes a graph ready in the place of another one, which it takes over if the provider can. The
    /// other one is as it was if there is an error.
    pub fn replacing(
        old: &mut Self,
        mut source: GraphBuilder,
        like: Option<&Stream>,
    ) -> Result<Self, CudaError> {
        let sms = like.and_then(Stream::sms).cloned();
        let moved = like.is_none_or(|like| source.move_kernels(like).is_ok());
        let known = old.ready.iter().position(|(of, _)| *of == sms);
        match known.filter(|known| moved && old.ready[*known].1.update(&source).is_ok()) {
            Some(known) => {
                let ready = vec![old.ready.swap_remove(known)];
                Ok(Self { source, ready, unkept: None })
            }
            None => Self::new(source, like),
        }
    }

    /// Makes it ready to be launched in a stream, on its SMs.
    pub fn place(&mut self, stream: &Stream) -> CUresult {
        match self.ready.iter().position(|(sms, _)| sms.as_ref() == stream.sms()) {
            Some(0) => Ok(()),
            Some(known) => {
                self.ready.swap(0, known);
                Ok(())
            }
            None => self.make_ready(stream),
        }
    }

    /// Launches it in the stream that it was placed for last.
    pub fn launch(&self, stream: &Stream) -> CUresult {
        let (_, exec) = self.ready.first().ok_or(CudaError::INVALID_HANDLE)?;
        exec.launch(stream)
    }

    /// Why its kernels are on all SMs and not on those of the stream that it was placed for, if so;
    /// said once.
    pub fn take_unkept(&mut self) -> Option<CudaError> {
        self.unkept.take()
    }

    fn make_ready(&mut self, stream: &Stream) -> CUresult {
        let sms = stream.sms().cloned();
        // A graph with conditions can be ready only once.
        match self.source.bodies.is_empty() {
            true => self.ready.truncate(READY_MAX - 1),
            false => self.ready.clear(),
        }
        let made = self.source.move_kernels(stream).and_then(|()| self.source.instantiate());
        let exec = match made {
            Ok(exec) => exec,
            Err(error) if sms.is_some() => {
                // Blocks that wait for each other, or a cluster, may have no room on few SMs.
                let everywhere = Stream::new(self.source.share(), 0)?;
                self.source.move_kernels(&everywhere)?;
                self.unkept = Some(error);
                self.source.instantiate()?
            }
            Err(error) => return Err(error),
        };
        self.ready.insert(0, (sms, exec));
        Ok(())
    }
}

impl GraphBuilder {
    /// Puts all its kernels, and those of its bodies, on the SMs of a stream, in which nothing is
    /// submitted meanwhile.
    fn move_kernels(&mut self, stream: &Stream) -> CUresult {
        let sms = stream.sms().cloned();
        if sms != self.sms || self.is_torn {
            self.is_torn = true;
            let kernels = std::mem::take(&mut self.kernels);
            let moved = kernels.iter().try_for_each(|kernel| self.move_kernel(kernel, stream));
            self.kernels = kernels;
            moved?;
            (self.sms, self.is_torn) = (sms, false);
        }
        self.bodies.iter_mut().try_for_each(|body| body.move_kernels(stream))
    }

    /// Puts a captured node, which waits for the same nodes and is waited for by the same, in the place
    /// of a kernel's.
    fn move_kernel(&mut self, kernel: &Kernel, stream: &Stream) -> CUresult {
        let share = self.share().clone();
        let t = share.device().table();
        let (graph, nodes) = self.parts();
        let old = nodes.get_mut(kernel.node).ok_or(CudaError::INVALID_VALUE)?;
        // SAFETY: the node is alive; of a list as many places are written as it has.
        let behind =
            neighbours(|list, count| unsafe { t.cuGraphNodeGetDependencies(*old, list, count) })?;
        // SAFETY: as above.
        let before =
            neighbours(|list, count| unsafe { t.cuGraphNodeGetDependentNodes(*old, list, count) })?;
        let new = captured(&share, graph, kernel, stream, &behind)?;
        let from = vec![new; before.len()];
        // SAFETY: the graph and its nodes are alive, the lists have as many as is said. The old node is
        // used nowhere else, and not again.
        unsafe {
            t.cuGraphAddDependencies(graph, from.as_ptr(), before.as_ptr(), from.len())?;
            t.cuGraphDestroyNode(*old)?;
        }
        *old = new;
        Ok(())
    }
}

/// A list of nodes that is asked for twice: how many there are, then which.
fn neighbours(
    ask: impl Fn(*mut CUgraphNode, &mut usize) -> CUresult,
) -> Result<Vec<CUgraphNode>, CudaError> {
    let mut count = 0;
    ask(ptr::null_mut(), &mut count)?;
    let mut nodes = vec![CUgraphNode::NULL; count];
    if count > 0 {
        ask(nodes.as_mut_ptr(), &mut count)?;
        nodes.truncate(count);
    }
    Ok(nodes)
}

/// The node that a launch becomes which the stream captures into the graph.
fn captured(
    share: &Share,
    graph: CUgraph,
    kernel: &Kernel,
    stream: &Stream,
    behind: &[CUgraphNode],
) -> Result<CUgraphNode, CudaError> {
    let t = share.device().table();
    // SAFETY: stream, graph and nodes are alive; the list is as long as is said, without data of edges.
    unsafe {
        t.cuStreamBeginCaptureToGraph(
            stream.raw(),
            graph,
            behind.as_ptr(),
            ptr::null(),
            behind.len(),
            capture::MODE_RELAXED,
        )?;
    }
    let launched = stream.launch(&kernel.function, kernel.shape, &kernel.parameters);
    let node = launched.and_then(|()| last_captured(t, stream));
    // The stream captures no more, regardless of the launch's result.
    let mut whole = CUgraph::NULL;
    // SAFETY: the stream is alive, the local is written.
    let ended = unsafe { t.cuStreamEndCapture(stream.raw(), &mut whole) };
    let node = node?;
    ended.map(|()| node)
}

/// The node that the stream captured last.
fn last_captured(t: &DriverTable, stream: &Stream) -> Result<CUgraphNode, CudaError> {
    let (mut status, mut number, mut count) = (capture::STATUS_NONE, 0, 0);
    let (mut graph, mut nodes) = (CUgraph::NULL, ptr::null::<CUgraphNode>());
    let mut edges = ptr::null::<CUgraphEdgeData>();
    // SAFETY: the stream is alive; the locals are written.
    unsafe {
        t.cuStreamGetCaptureInfo_v3(
            stream.raw(),
            &mut status,
            &mut number,
            &mut graph,
            &mut nodes,
            &mut edges,
            &mut count,
        )?;
    }
    if status != capture::STATUS_ACTIVE || count != 1 || nodes.is_null() {
        return Err(CudaError::STREAM_CAPTURE_INVALIDATED);
    }
    // SAFETY: the provider's list has one node, and stays until the stream's next work.
    Ok(unsafe { *nodes })
}
