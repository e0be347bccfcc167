//! A graph as text for Graphviz (cuGraphDebugDotPrint).

use crate::id::{GraphId, NodeId};
use crate::model::Graph;
use crate::node::NodeKind;
use cuda_api::CUgraphEdgeData;
use cuda_api::constants::graph_edge;
use std::collections::BTreeMap;
use std::fmt::Write;

/// CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE: everything that is known of a node.
const VERBOSE: u32 = 1;

/// The graph and its child graphs; `flags` say whether with the nodes' parameters.
pub(crate) fn print(graphs: &BTreeMap<GraphId, Graph>, id: GraphId, flags: u32) -> String {
    let mut text = String::from("digraph cuda_graph {\n");
    body(&mut text, graphs, id, flags & VERBOSE != 0);
    text.push_str("}\n");
    text
}

fn body(text: &mut String, graphs: &BTreeMap<GraphId, Graph>, id: GraphId, verbose: bool) {
    let Some(graph) = graphs.get(&id) else { return };
    for (node, content) in &graph.nodes {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} [label=\"{}\"];", name(*node), label(&content.kind, verbose));
        for embedded in content.kind.embedded() {
            let _ = writeln!(text, "subgraph cluster_{} {{", embedded.0);
            body(text, graphs, *embedded, verbose);
            text.push_str("}\n");
        }
    }
    for (to, edge) in graph.edges() {
        let says = if edge.data.is_full() { String::new() } else { edge_label(&edge.data) };
        let _ = writeln!(text, "{} -> {}{says};", name(edge.node), name(to));
    }
}

fn edge_label(data: &CUgraphEdgeData) -> String {
    let kind = if data.kind == graph_edge::PROGRAMMATIC { "programmatic" } else { "full" };
    let port = match data.from_port {
        graph_edge::PORT_LAUNCH_ORDER => ", blocks have begun",
        _ => "",
    };
    format!(" [label=\"{kind}{port}\"]")
}

fn name(id: NodeId) -> String {
    format!("node_{}", id.0)
}

fn label(kind: &NodeKind, verbose: bool) -> String {
    let word = match kind {
        NodeKind::Kernel(_) => "kernel",
        NodeKind::Copy(_) => "memcpy",
        NodeKind::Fill(_) => "memset",
        NodeKind::Host(_) => "host",
        NodeKind::Child(_) => "graph",
        NodeKind::Empty | NodeKind::Condition(_) => "empty",
        NodeKind::WaitEvent(_) => "event wait",
        NodeKind::RecordEvent(_) => "event record",
        NodeKind::Alloc(_) => "mem alloc",
        NodeKind::Free(_) => "mem free",
        NodeKind::MemOps(_) => "batch mem op",
        NodeKind::Conditional(_) => "conditional",
    };
    let detail = match kind {
        _ if !verbose => return word.to_owned(),
        NodeKind::Kernel(k) => {
            format!(
                "{:#x} grid {:?} block {:?} shared {}",
                k.function.0, k.grid, k.block, k.shared_bytes
            )
        }
        NodeKind::Copy(c) => format!("{:?} bytes", c.extent),
        NodeKind::Fill(f) => {
            format!("{:#x} with {:#x} {} x {}", f.dst.0, f.value, f.width, f.height)
        }
        NodeKind::WaitEvent(event) | NodeKind::RecordEvent(event) => format!("{:#x}", event.0),
        NodeKind::Alloc(node) => format!("{} bytes of {:?}", node.bytes, node.allocation),
        NodeKind::Free(pointer) => format!("{:#x}", pointer.0),
        NodeKind::Conditional(node) => {
            format!("{:?} {:#x} bodies {}", node.rule, node.condition, node.bodies.len())
        }
        _ => return word.to_owned(),
    };
    format!("{word}\\n{detail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_api::CUdeviceptr;

    #[test]
    fn nodes_and_edges_are_printed() {
        let mut graph = Graph::default();
        graph.add(NodeId(1), NodeKind::Empty, Vec::new()).unwrap();
        graph.add(NodeId(2), NodeKind::Free(CUdeviceptr(0x40)), Vec::new()).unwrap();
        graph.add_edge(NodeId(1), NodeId(2), CUgraphEdgeData::default()).unwrap();
        let graphs = BTreeMap::from([(GraphId(9), graph)]);
        assert_eq!(edge_label(&CUgraphEdgeData::PROGRAMMATIC), " [label=\"programmatic\"]");
        assert_eq!(
            print(&graphs, GraphId(9), VERBOSE),
            "digraph cuda_graph {\nnode_1 [label=\"empty\"];\n\
             node_2 [label=\"mem free\\n0x40\"];\nnode_1 -> node_2;\n}\n"
        );
    }
}
