//! Conditional nodes and the words that they look at.

use crate::backend::Backend;
use crate::conditional::{Condition, ConditionalNode, Rule, WORD_BYTES};
use crate::memory::Allocation;
use crate::node::NodeKind;
use core::ffi::c_uint;
use cuda_api::constants::graph_conditional::ASSIGN_DEFAULT;
use cuda_api::pointer::Out;
use cuda_api::{
    CUDA_CONDITIONAL_NODE_PARAMS, CUcontext, CUdeviceptr, CUgraph, CUgraphConditionalHandle,
    CUresult, CudaError,
};
use std::sync::Arc;

pub fn cuGraphConditionalHandleCreate<B: Backend>(
    b: B,
    handle: Out<CUgraphConditionalHandle>,
    graph: CUgraph,
    _context: CUcontext,
    default: c_uint,
    flags: c_uint,
) -> CUresult {
    handle.required()?;
    b.check_context()?;
    b.graphs().lock().graph_id(graph)?;
    let default = match flags {
        0 => None,
        ASSIGN_DEFAULT => Some(default),
        _ => return Err(CudaError::INVALID_VALUE),
    };
    b.check_conditional()?;
    let (address, number) = b.allocate(WORD_BYTES)?;
    let free = move |address| b.free(address, number);
    // It is none of the memory that programs ask about.
    let word = Allocation::new(address, WORD_BYTES, &Arc::default(), free);
    let mut tables = b.graphs().lock();
    let id = tables.graph_id(graph)?;
    tables.graph_mut(id)?.conditions.push(Condition { word, default });
    handle.set(address)
}

/// A node with new graphs as its bodies, which are shown in the parameters.
pub(super) fn describe_conditional<B: Backend>(
    b: B,
    params: &mut CUDA_CONDITIONAL_NODE_PARAMS,
) -> Result<NodeKind, CudaError> {
    let rule = Rule::new(params.kind, params.size)?;
    let known = b.graphs().lock().condition(params.handle).map(|found| found.word.clone());
    let word = CUdeviceptr(params.handle);
    if known.is_none() {
        b.check_foreign_condition(word)?;
    }
    let mut tables = b.graphs().lock();
    let mut body = |_| {
        let id = tables.create_graph();
        tables.graph_mut(id).map(|graph| graph.embedded = true).map(|()| id)
    };
    let bodies = (0..params.size).map(&mut body).collect::<Result<Vec<_>, _>>()?;
    let node = ConditionalNode::new(rule, word, bodies, known);
    params.phGraph_out = node.shown.as_ptr().cast_mut();
    Ok(NodeKind::Conditional(node))
}

/// The parameters as the program gave them, with the bodies.
pub(super) fn show_conditional(node: &ConditionalNode) -> CUDA_CONDITIONAL_NODE_PARAMS {
    CUDA_CONDITIONAL_NODE_PARAMS {
        handle: node.word.0,
        kind: node.rule.number(),
        size: node.bodies.len() as c_uint,
        phGraph_out: node.shown.as_ptr().cast_mut(),
        ctx: CUcontext::NULL,
    }
}
