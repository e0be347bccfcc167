//! Pieces: where a graph is cut, so that it can be paused between them.
//!
//! Pieces run one after the other in their stream, so a graph can be cut wherever no node waits for one
//! of a later piece. Nodes that are laid out in an order of their edges can be cut anywhere.

use std::ops::Range;

/// Most nodes of a piece whose nodes' times are not known.
pub const NODES_MAX: usize = 64;

/// Cuts nodes, given by their predicted times, into runs of about `bound_ns` each: a run ends before
/// the node that would make it longer than that. One node may be longer.
pub fn cut(predicted_ns: &[u64], bound_ns: u64) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut first, mut sum) = (0, 0u64);
    for (index, ns) in predicted_ns.iter().enumerate() {
        let too_long = sum.saturating_add(*ns) > bound_ns || index - first >= NODES_MAX;
        if index > first && too_long {
            pieces.push(first..index);
            (first, sum) = (index, 0);
        }
        sum = sum.saturating_add(*ns);
    }
    if first < predicted_ns.len() {
        pieces.push(first..predicted_ns.len());
    }
    pieces
}

/// Whether nodes stand in an order of their edges, each of which is (from, to).
pub fn is_ordered(edges: impl IntoIterator<Item = (u32, u32)>) -> bool {
    edges.into_iter().all(|(from, to)| from < to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_graph_is_cut_by_time() {
        assert_eq!(cut(&[5, 5, 5, 20, 1, 1], 10), vec![0..2, 2..3, 3..4, 4..6]);
        assert_eq!(cut(&[5, 5], 100), vec![0..2]);
        assert_eq!(cut(&[], 10), Vec::<Range<usize>>::new());
        assert_eq!(cut(&[0; 130], 10).len(), 3);
        assert!(is_ordered([(0, 1), (1, 3)]) && !is_ordered([(2, 1)]));
    }

    proptest! {
        #[test]
        fn pieces_are_all_nodes_in_order(times in prop::collection::vec(0u64..50, 0..300), bound in 1u64..200) {
            let pieces = cut(&times, bound);
            let all: Vec<usize> = pieces.iter().cloned().flatten().collect();
            prop_assert_eq!(all, (0..times.len()).collect::<Vec<_>>());
            for piece in pieces {
                let sum: u64 = times[piece.clone()].iter().sum();
                prop_assert!(piece.len() == 1 || sum <= bound);
            }
        }
    }
}
