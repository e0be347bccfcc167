//! SMs of graphs: a graph's kernels are on the SMs of the stream that it is launched in.
//!
//! A driver does not look at that stream: a kernel node keeps the SMs of the context that it was made
//! in, and a node that names a function has all SMs regardless of the context that is named beside
//! it. But a launch that a stream of a green context captures becomes a node on that context's SMs.
//! So nodes are replaced by captured ones when a graph is launched on other SMs than before, and it
//! is made ready anew.

use crate::device::objects::graph::{Edge, GraphBuilder, GraphExec, Kernel};
use crate::device::safe_calls::Live;
use crate::device::{Share, Stream};
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
    /// submitted meanwhile. If that fails, kernels are where they were.
    fn move_kernels(&mut self, stream: &Stream) -> CUresult {
        let sms = stream.sms().cloned();
        if sms != self.sms {
            let old = self
                .replace_kernels(|graph, kernel, share| captured(share, graph, kernel, stream))?;
            self.destroy(old)?;
            self.sms = sms;
        }
        self.bodies.iter_mut().try_for_each(|body| body.move_kernels(stream))
    }

    /// Puts the nodes that `make` adds, with the edges of the old ones, in the place of its kernels' nodes;
    /// the old ones. If that fails, there are the old nodes alone.
    fn replace_kernels(
        &mut self,
        make: impl Fn(Live<'_, CUgraph>, &Kernel, &Share) -> Result<CUgraphNode, CudaError>,
    ) -> Result<Vec<CUgraphNode>, CudaError> {
        let share = self.share().clone();
        let kernels = std::mem::take(&mut self.kernels);
        let (graph, nodes) = self.parts();
        // What of them has been replaced are the first ones.
        let mut old = Vec::with_capacity(kernels.len());
        let mut made = Ok(());
        for kernel in &kernels {
            let node = nodes.get_mut(kernel.node).ok_or(CudaError::INVALID_VALUE);
            made = node.and_then(|node| {
                let new = make(graph, kernel, &share)?;
                old.push(std::mem::replace(node, new));
                Ok(())
            });
            if made.is_err() {
                break;
            }
        }
        self.kernels = kernels;
        if made.is_ok() {
            let is_moved = |edge: &&Edge| self.is_kernel(edge.from) || self.is_kernel(edge.to);
            let moved: Vec<Edge> = self.edges.iter().filter(is_moved).copied().collect();
            made = self.put_edges(&moved);
        }
        let Err(error) = made else { return Ok(old) };
        let mut new = Vec::with_capacity(old.len());
        let places: Vec<usize> = self.kernels.iter().map(|kernel| kernel.node).collect();
        let (_, nodes) = self.parts();
        for (place, old) in places.into_iter().zip(old) {
            new.push(std::mem::replace(&mut nodes[place], old));
        }
        self.destroy(new)?;
        Err(error)
    }

    /// Takes nodes out of it that are none of its own, or not any more.
    fn destroy(&self, nodes: Vec<CUgraphNode>) -> CUresult {
        let t = self.share().device().table();
        // SAFETY: the graph is alive; a node that is not the builder's is used nowhere else.
        nodes.into_iter().try_for_each(|node| unsafe { t.cuGraphDestroyNode(node) })
    }
}

/// The node that a launch becomes which the stream captures into the graph; it waits for none.
fn captured(
    share: &Share,
    graph: Live<'_, CUgraph>,
    kernel: &Kernel,
    stream: &Stream,
) -> Result<CUgraphNode, CudaError> {
    let (calls, live) = (share.device().calls(), stream.live());
    calls.cuStreamBeginCaptureToGraph(live, graph)?;
    // Nothing runs yet, and what a stream has is not asked for while it captures.
    let launched = kernel.function.launch(calls, kernel.shape, live, &kernel.parameters);
    let node = launched.and_then(|()| last_captured(share.device().table(), stream));
    // The stream captures no more, regardless of the launch's result.
    let mut whole = CUgraph::NULL;
    let ended = calls.cuStreamEndCapture(live, &mut whole);
    let node = node?;
    ended.map(|()| node)
}

/// The node that the stream captured last.
fn last_captured(t: &DriverTable, stream: &Stream) -> Result<CUgraphNode, CudaError> {
    let (mut status, mut number, mut count) = (capture::STATUS_NONE, 0, 0);
    let (mut graph, mut nodes) = (CUgraph::NULL, ptr::null::<CUgraphNode>());
    let mut edges = ptr::null::<CUgraphEdgeData>();
    // SAFETY: the stream is alive; the locals are written. The provider's list has as many nodes as it says, and
    // stays until the stream's next work.
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
        match status == capture::STATUS_ACTIVE && count == 1 && !nodes.is_null() {
            true => Ok(*nodes),
            false => Err(CudaError::STREAM_CAPTURE_INVALIDATED),
        }
    }
}
