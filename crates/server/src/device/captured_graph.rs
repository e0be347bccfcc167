//! Captured graph: kernels one behind the other, put together by a stream that captures their launches.
//!
//! The same nodes and edges as node by node, but as a program's own capture makes them, and made ready as
//! PyTorch does it: kernels then have the priority that they were captured with, in whatever stream the
//! graph is launched. Off unless OPENMPS_GRAPHS says so.

use super::Stream;
use super::graph::{Edge, GraphBuilder, GraphExec, Kernel};
use super::launch_shape::LaunchShape;
use cuda_api::constants::{capture, graph_instantiate};
use cuda_api::{CUgraph, CUgraphEdgeData, CUresult, CudaError};
use std::sync::atomic::Ordering;

/// PyTorch's.
const FLAGS: u64 = graph_instantiate::AUTO_FREE_ON_LAUNCH | graph_instantiate::USE_NODE_PRIORITY;

impl GraphBuilder {
    /// What can be launched of it, captured; `None` if that is not wanted, if it is something else than a
    /// chain of kernels on all SMs, or if the provider does not capture it.
    pub(super) fn captured(&self) -> Option<GraphExec> {
        let is_wanted = self.share().device().captures_graphs.load(Ordering::Relaxed);
        if !is_wanted || self.sms.is_some() || !self.bodies.is_empty() {
            return None;
        }
        let early = early_of_chain(self.nodes(), &self.edges)?;
        (self.kernels.len() == self.nodes()).then_some(())?;
        self.capture(&early).ok()
    }

    fn capture(&self, early: &[bool]) -> Result<GraphExec, CudaError> {
        let share = self.share();
        let t = share.device().table();
        let stream = Stream::new(share, self.priority)?;
        // SAFETY: the stream is alive, and this thread ends what it begins.
        unsafe { t.cuStreamBeginCapture_v2(stream.raw(), capture::MODE_RELAXED)? };
        let launch = |(kernel, early): (&Kernel, &bool)| {
            let shape = LaunchShape { programmatic: *early, ..kernel.shape };
            stream.launch(&kernel.function, shape, &kernel.parameters)
        };
        let launched: CUresult = self.kernels.iter().zip(early).try_for_each(launch);
        let mut raw = CUgraph::NULL;
        // SAFETY: the stream is alive, the local is written.
        let ended = unsafe { t.cuStreamEndCapture(stream.raw(), &mut raw) };
        let made = launched.and(ended).and_then(|()| GraphExec::of(share, raw, FLAGS));
        if !raw.is_null() {
            // SAFETY: the graph is this function's, and what is made ready needs nothing of it.
            let _ = unsafe { t.cuGraphDestroy(raw) };
        }
        made
    }
}

/// Of nodes in a row, each of which waits for the one before it, which may begin early; `None` for other
/// edges, and for what a launch's attribute does not say.
fn early_of_chain(nodes: usize, edges: &[Edge]) -> Option<Vec<bool>> {
    let mut early: Vec<Option<bool>> = vec![None; nodes];
    for Edge { from, to, data } in edges {
        let place = early.get_mut(*to as usize)?;
        let is_next = u64::from(*from) + 1 == u64::from(*to);
        let is_early = *data == CUgraphEdgeData::PROGRAMMATIC;
        if !is_next || place.is_some() || !is_early && !data.is_full() {
            return None;
        }
        *place = Some(is_early);
    }
    let first = early.first_mut()?;
    (*first).is_none().then(|| *first = Some(false))?;
    early.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_chain_can_be_captured_as_one() {
        let full = CUgraphEdgeData::default();
        let early = CUgraphEdgeData::PROGRAMMATIC;
        let begun = CUgraphEdgeData { from_port: 2, ..early };
        let of = |nodes, edges: &[(u32, u32, CUgraphEdgeData)]| {
            let edge = |(from, to, data): &(u32, u32, CUgraphEdgeData)| Edge {
                from: *from,
                to: *to,
                data: *data,
            };
            early_of_chain(nodes, &edges.iter().map(edge).collect::<Vec<_>>())
        };
        assert_eq!(of(3, &[(1, 2, full), (0, 1, early)]), Some(vec![false, true, false]));
        assert_eq!(of(1, &[]), Some(vec![false]));
        assert_eq!(of(0, &[]), None, "nothing");
        assert_eq!(of(3, &[(0, 1, full)]), None, "the last one waits for none");
        assert_eq!(of(3, &[(0, 1, full), (0, 2, full)]), None, "a fork");
        assert_eq!(of(2, &[(0, 1, full), (0, 1, early)]), None, "two edges");
        assert_eq!(of(2, &[(0, 1, begun)]), None, "no attribute says that");
        assert_eq!(of(2, &[(0, 7, full)]), None);
    }
}
