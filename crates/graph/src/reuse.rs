//! Address reuse: a node that allocates gets memory that its graph has freed before it.
//!
//! Only within one graph, and only where the edges say that the memory is free when the node runs:
//! so a graph needs no more memory than it uses at a time, and its order needs no edge more.

use crate::id::NodeId;
use crate::memory::Allocation;
use crate::node::NodeKind;
use cuda_api::{CUmemLocation, CUresult, CudaError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Freed blocks that are looked at for a node: the last ones that are large enough.
const CANDIDATES_MAX: usize = 8;

/// Memory of one graph.
#[derive(Debug)]
struct Block {
    allocation: Arc<Allocation>,
    location: CUmemLocation,
    /// The node that freed it last, if none has allocated it since.
    freed: Option<NodeId>,
}

/// What a graph's nodes allocate, by address.
#[derive(Debug, Default)]
pub(crate) struct Blocks(BTreeMap<u64, Block>);

impl Blocks {
    /// True if no node allocates.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a node. CUDA_ERROR_INVALID_VALUE if it allocates what is not free, or frees what is.
    pub(crate) fn note(&mut self, id: NodeId, kind: &NodeKind) -> CUresult {
        match kind {
            NodeKind::Alloc(node) => {
                let (allocation, location) = (node.allocation.clone(), node.location);
                let address = allocation.address;
                if self.0.get(&address).is_some_and(|block| block.freed.is_none()) {
                    return Err(CudaError::INVALID_VALUE);
                }
                self.0.insert(address, Block { allocation, location, freed: None });
            }
            NodeKind::Free(pointer) => {
                // Another graph's memory is looked at when this one is launched.
                let Some(block) = self.0.get_mut(&pointer.0) else { return Ok(()) };
                if block.freed.is_some() {
                    return Err(CudaError::INVALID_VALUE);
                }
                block.freed = Some(id);
            }
            _ => {}
        }
        Ok(())
    }

    /// Memory of at least `bytes` bytes that is free behind the nodes that `complete_before`
    /// gives, of those from a node on: the smallest there is.
    pub(crate) fn vacant(
        &self,
        bytes: u64,
        location: CUmemLocation,
        complete_before: impl FnOnce(NodeId) -> BTreeSet<NodeId>,
    ) -> Option<Arc<Allocation>> {
        let fits = |block: &&Block| block.allocation.bytes >= bytes && block.location == location;
        let freed = self.0.values().filter(fits);
        let mut candidates: Vec<(NodeId, &Block)> =
            freed.filter_map(|block| Some((block.freed?, block))).collect();
        candidates.sort_by_key(|(freed, _)| std::cmp::Reverse(*freed));
        candidates.truncate(CANDIDATES_MAX);
        let oldest = candidates.last()?.0;
        let before = complete_before(oldest);
        let free = candidates.into_iter().filter(|(freed, _)| before.contains(freed));
        let best = free.map(|(_, block)| block).min_by_key(|block| block.allocation.bytes)?;
        Some(best.allocation.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Edge;
    use crate::memory::Usage;
    use crate::model::Graph;
    use crate::node::AllocNode;
    use cuda_api::{CUdeviceptr, CUgraphEdgeData};

    const HERE: CUmemLocation = CUmemLocation { kind: 1, id: 0 };

    /// A graph in which nodes are made one by one.
    #[derive(Default)]
    struct Made {
        graph: Graph,
        usage: Arc<Usage>,
        nodes: u64,
    }

    impl Made {
        fn add(&mut self, kind: NodeKind, after: &[u64]) -> Result<u64, CudaError> {
            self.nodes += 1;
            let edges = after.iter().map(|id| Edge::plain(NodeId(*id))).collect();
            self.graph.add(NodeId(self.nodes), kind, edges).map(|()| self.nodes)
        }

        fn alloc(&mut self, address: u64, bytes: u64, after: &[u64]) -> u64 {
            let allocation = Allocation::new(address, bytes, &self.usage, |_| {});
            let node = AllocNode { allocation, location: HERE, bytes };
            self.add(NodeKind::Alloc(node), after).unwrap()
        }

        fn free(&mut self, address: u64, after: &[u64]) -> Result<u64, CudaError> {
            self.add(NodeKind::Free(CUdeviceptr(address)), after)
        }

        fn vacant(&self, bytes: u64, after: &[u64]) -> Option<u64> {
            let edges: Vec<Edge> = after.iter().map(|id| Edge::plain(NodeId(*id))).collect();
            self.graph.vacant(bytes, HERE, &edges).map(|found| found.address)
        }
    }

    #[test]
    fn what_was_freed_before_a_node_is_allocated_again() {
        let mut made = Made::default();
        let first = made.alloc(0x1000, 64, &[]);
        let used = made.add(NodeKind::Empty, &[first]).unwrap();
        assert_eq!(made.vacant(64, &[used]), None, "it is still in use");
        let freed = made.free(0x1000, &[used]).unwrap();
        let beside = made.add(NodeKind::Empty, &[used]).unwrap();
        let behind = made.add(NodeKind::Empty, &[freed]).unwrap();
        assert_eq!(made.vacant(64, &[behind]), Some(0x1000));
        assert_eq!(made.vacant(64, &[beside, freed]), Some(0x1000));
        assert_eq!(made.vacant(64, &[beside]), None, "the free node may run later");
        assert_eq!(made.vacant(64, &[]), None);
        assert_eq!(made.vacant(65, &[behind]), None, "it is too small");
        let elsewhere = CUmemLocation { id: 1, ..HERE };
        let edges = [Edge::plain(NodeId(behind))];
        assert!(made.graph.vacant(64, elsewhere, &edges).is_none(), "another device's");
        let early = CUgraphEdgeData { kind: 1, ..Default::default() };
        let edges = [Edge { node: NodeId(freed), data: early }];
        assert!(made.graph.vacant(64, HERE, &edges).is_none(), "the edge is no full dependency");
    }

    #[test]
    fn the_smallest_that_fits_is_taken_and_taken_once() {
        let mut made = Made::default();
        let mut last = Vec::new();
        for (address, bytes) in [(0x1000, 64), (0x2000, 256), (0x3000, 128)] {
            let node = made.alloc(address, bytes, &last);
            last = vec![made.free(address, &[node]).unwrap()];
        }
        assert_eq!(made.vacant(100, &last), Some(0x3000));
        let again = made.alloc(0x3000, 128, &last);
        assert_eq!(made.vacant(100, &[again]), Some(0x2000));
        let twice = AllocNode {
            allocation: Allocation::new(0x3000, 128, &made.usage, |_| {}),
            location: HERE,
            bytes: 128,
        };
        let twice = made.add(NodeKind::Alloc(twice), &[again]);
        assert_eq!(twice, Err(CudaError::INVALID_VALUE), "it has not been freed");
        let freed = made.free(0x3000, &[again]).unwrap();
        assert_eq!(made.free(0x3000, &[freed]), Err(CudaError::INVALID_VALUE), "freed twice");
        assert_eq!(made.vacant(100, &[freed]), Some(0x3000));
    }
}
