//! Conditional nodes of graphs. The kernels set a condition as `cudaGraphSetConditional` does: they
//! write its word.

use super::super::graph::*;
use super::graphs::{instantiate, log, note, noted, run, scene};
use super::*;
use cuda_api::constants::graph_conditional::{ASSIGN_DEFAULT, IF, SWITCH, WHILE};
use cuda_api::constants::graph_node;

fn new_graph() -> CUgraph {
    let mut graph = CUgraph::NULL;
    cu!(cuGraphCreate(&mut graph, 0)).unwrap();
    graph
}

fn handle(graph: CUgraph, default: Option<u32>) -> u64 {
    let mut handle = 0;
    let flags = if default.is_some() { ASSIGN_DEFAULT } else { 0 };
    let context = CUcontext::NULL;
    cu!(cuGraphConditionalHandleCreate(&mut handle, graph, context, default.unwrap_or(0), flags))
        .unwrap();
    handle
}

fn try_conditional(
    graph: CUgraph,
    after: &[CUgraphNode],
    (handle, kind, size): (u64, u32, u32),
) -> Result<(CUgraphNode, Vec<CUgraph>), Error> {
    let mut body = CUgraphNodeBody { reserved1: [0; 29] };
    let (none, ctx) = (null_mut(), CUcontext::NULL);
    body.conditional = CUDA_CONDITIONAL_NODE_PARAMS { handle, kind, size, phGraph_out: none, ctx };
    let kind = graph_node::CONDITIONAL;
    let mut params = CUgraphNodeParams { kind, reserved0: [0; 3], body, reserved2: 0 };
    let mut node = CUgraphNode::NULL;
    cu!(cuGraphAddNode(&mut node, graph, after.as_ptr(), after.len(), &mut params))?;
    // SAFETY: written by the call: a list of `size` graphs that is the node's.
    let bodies = unsafe {
        std::slice::from_raw_parts(params.body.conditional.phGraph_out, size as usize).to_vec()
    };
    Ok((node, bodies))
}

fn conditional(
    graph: CUgraph,
    after: &[CUgraphNode],
    what: (u64, u32, u32),
) -> (CUgraphNode, Vec<CUgraph>) {
    try_conditional(graph, after, what).unwrap()
}

/// A node that launches a kernel with two parameters.
fn kernel(
    graph: CUgraph,
    after: &[CUgraphNode],
    function: CUfunction,
    mut params: [u64; 2],
) -> CUgraphNode {
    let mut pointers = params.each_mut().map(|p| std::ptr::from_mut(p).cast::<c_void>());
    let params = kernel_params(function, [1, 1], pointers.as_mut_ptr()).v1;
    let mut node = CUgraphNode::NULL;
    cu!(cuGraphAddKernelNode(&mut node, graph, after.as_ptr(), after.len(), &params)).unwrap();
    node
}

/// A kernel that sets the condition of its first parameter to its second one.
fn set() -> CUfunction {
    function(2, |_, launch, _| {
        let word = crate::testing::word32(parameter(launch, 0));
        word.store(parameter(launch, 1) as u32, Ordering::Release);
        Outcome::Finished
    })
}

/// A kernel that subtracts one from the condition of its first parameter.
fn count_down() -> CUfunction {
    function(2, |_, launch, _| {
        let word = crate::testing::word32(parameter(launch, 0));
        word.fetch_sub(1, Ordering::AcqRel);
        Outcome::Finished
    })
}

#[test]
fn a_loop_runs_while_its_word_is_set_and_anew_at_each_launch() {
    let _alive = scene();
    let (stream, log, note) = (new_stream(1), log(), note());
    let graph = new_graph();
    let word = handle(graph, Some(3));
    let first = kernel(graph, &[], note, [log.0, 1]);
    let (node, bodies) = conditional(graph, &[first], (word, WHILE, 1));
    let inside = kernel(bodies[0], &[], note, [log.0, 2]);
    kernel(bodies[0], &[inside], count_down(), [word, 0]);
    kernel(graph, &[node], note, [log.0, 3]);
    let exec = instantiate(graph);
    for _ in 0..2 {
        run(exec, stream);
    }
    assert_eq!(noted(log), [1, 2, 2, 2, 3, 1, 2, 2, 2, 3]);
    // The condition's memory is the launchable graph's too.
    cu!(cuGraphDestroy(graph)).unwrap();
    run(exec, stream);
    assert_eq!(noted(log).len(), 15);
    cu!(cuGraphExecDestroy(exec)).unwrap();
}

#[test]
fn one_of_two_or_many_bodies_runs_or_none() {
    let _alive = scene();
    let (stream, log, note, set) = (new_stream(1), log(), note(), set());
    let graph = new_graph();
    let (choice, case) = (handle(graph, None), handle(graph, Some(9)));
    let chosen = kernel(graph, &[], set, [choice, 0]);
    let (node, bodies) = conditional(graph, &[chosen], (choice, IF, 2));
    kernel(bodies[0], &[], note, [log.0, 10]);
    kernel(bodies[1], &[], note, [log.0, 11]);
    let again = kernel(graph, &[node], set, [choice, 5]);
    let (node, bodies) = conditional(graph, &[again], (choice, IF, 1));
    kernel(bodies[0], &[], note, [log.0, 12]);
    // No body of that number.
    let (node, _) = conditional(graph, &[node], (case, SWITCH, 3));
    let third = kernel(graph, &[node], set, [case, 2]);
    let (_, bodies) = conditional(graph, &[third], (case, SWITCH, 3));
    for (body, value) in bodies.iter().zip(20..) {
        kernel(*body, &[], note, [log.0, value]);
    }
    run(instantiate(graph), stream);
    assert_eq!(noted(log), [11, 12, 22]);
}

#[test]
fn loops_nest_and_end_with_their_stream() {
    let _alive = scene();
    let (stream, log, note) = (new_stream(1), log(), note());
    let graph = new_graph();
    let outer = handle(graph, Some(2));
    let (_, bodies) = conditional(graph, &[], (outer, WHILE, 1));
    let body = bodies[0];
    // One that belongs to the body is set whenever the body begins.
    let inner = handle(body, Some(3));
    let down = kernel(body, &[], count_down(), [outer, 0]);
    let (node, bodies) = conditional(body, &[down], (inner, WHILE, 1));
    kernel(bodies[0], &[], count_down(), [inner, 0]);
    kernel(bodies[0], &[], note, [log.0, 1]);
    kernel(body, &[node], note, [log.0, 2]);
    run(instantiate(graph), stream);
    assert_eq!(noted(log), [1, 1, 1, 2, 1, 1, 1, 2]);
    // A loop around nothing ends when another stream sets its word, and holds up no other work.
    let graph = new_graph();
    let (word, inside) = (handle(graph, Some(1)), handle(graph, Some(0)));
    let (_, bodies) = conditional(graph, &[], (word, WHILE, 1));
    conditional(bodies[0], &[], (inside, IF, 1));
    let exec = instantiate(graph);
    cu!(cuGraphLaunch(exec, stream)).unwrap();
    let other = new_stream(1);
    launch(note, 1, other, &mut [log.0, 3]).unwrap();
    cu!(cuStreamSynchronize(other)).unwrap();
    assert_eq!(noted(log).last(), Some(&3));
    assert_eq!(cu!(cuStreamQuery(stream)), Err(Error::NOT_READY));
    // The launch may set the word to its default after this: it is written until it helps.
    while cu!(cuStreamQuery(stream)).is_err() {
        cu!(cuMemsetD32Async(CUdeviceptr(word), 0, 1, other)).unwrap();
        cu!(cuStreamSynchronize(other)).unwrap();
    }
}

#[test]
fn a_body_runs_one_step_after_another_with_copies_and_fills() {
    let _alive = scene();
    let (stream, from, to) = (new_stream(1), allocate(1 << 20), allocate(1 << 20));
    let graph = new_graph();
    let word = handle(graph, Some(1));
    let (_, bodies) = conditional(graph, &[], (word, IF, 1));
    let words = (1 << 20) / 4;
    let fill = CUDA_MEMSET_NODE_PARAMS {
        dst: from,
        pitch: 0,
        value: 0x0102_0304,
        elementSize: 4,
        width: words,
        height: 1,
    };
    let mut filled = CUgraphNode::NULL;
    cu!(cuGraphAddMemsetNode(&mut filled, bodies[0], null(), 0, &fill, CUcontext::NULL)).unwrap();
    let copy = CUDA_MEMCPY3D {
        srcMemoryType: memory_type::DEVICE,
        srcDevice: from,
        dstMemoryType: memory_type::DEVICE,
        dstDevice: to,
        WidthInBytes: 1 << 20,
        Height: 1,
        Depth: 1,
        ..CUDA_MEMCPY3D::from(&::graph::CopyNode::default())
    };
    let mut node = CUgraphNode::NULL;
    cu!(cuGraphAddMemcpyNode(&mut node, bodies[0], &filled, 1, &copy, CUcontext::NULL)).unwrap();
    run(instantiate(graph), stream);
    assert_eq!(read(to, (1 << 20) / 8)[1000], 0x0102_0304_0102_0304);
}

#[test]
fn what_a_word_decides_can_neither_be_copied_nor_be_anything() {
    let _alive = scene();
    let graph = new_graph();
    let word = handle(graph, None);
    let mut nothing = 0;
    let wrong = cu!(cuGraphConditionalHandleCreate(&mut nothing, graph, CUcontext::NULL, 0, 2));
    assert_eq!(wrong, Err(Error::INVALID_VALUE));
    for what in [(word, WHILE, 2), (word, IF, 3), (word, 7, 1), (0x123, IF, 1), (word + 2, IF, 1)] {
        assert_eq!(try_conditional(graph, &[], what).err(), Some(Error::INVALID_VALUE), "{what:?}");
    }
    let (node, bodies) = conditional(graph, &[], (word, IF, 1));
    let mut kind = 0;
    cu!(cuGraphNodeGetType(node, &mut kind)).unwrap();
    assert_eq!(kind, graph_node::CONDITIONAL);
    let mut params = CUgraphNodeParams {
        kind: 0,
        reserved0: [0; 3],
        body: CUgraphNodeBody { reserved1: [0; 29] },
        reserved2: 0,
    };
    cu!(cuGraphNodeGetParams(node, &mut params)).unwrap();
    // SAFETY: the node is a conditional one, so that this member was written.
    let shown = unsafe { params.body.conditional };
    assert_eq!((params.kind, shown.handle, shown.size), (graph_node::CONDITIONAL, word, 1));
    let mut clone = CUgraph::NULL;
    assert_eq!(cu!(cuGraphClone(&mut clone, graph)), Err(Error::NOT_SUPPORTED));
    assert_eq!(cu!(cuGraphDestroy(bodies[0])), Err(Error::INVALID_VALUE));
    // What has to be done elsewhere cannot be in a body.
    let mut event = CUevent::NULL;
    cu!(cuEventCreate(&mut event, event_flags::DISABLE_TIMING)).unwrap();
    let mut record = CUgraphNode::NULL;
    cu!(cuGraphAddEventRecordNode(&mut record, bodies[0], null(), 0, event)).unwrap();
    let mut exec = CUgraphExec::NULL;
    let made = cu!(cuGraphInstantiateWithFlags(&mut exec, graph, 0));
    assert_eq!(made, Err(Error::NOT_SUPPORTED));
}

#[test]
fn kernels_in_bodies_can_be_changed() {
    let _alive = scene();
    let (stream, log, note) = (new_stream(1), log(), note());
    let graph = new_graph();
    let word = handle(graph, Some(1));
    let (_, bodies) = conditional(graph, &[], (word, IF, 1));
    let inside = kernel(bodies[0], &[], note, [log.0, 1]);
    let exec = instantiate(graph);
    run(exec, stream);
    let mut params = kernel_params(CUfunction::NULL, [0, 0], null_mut()).v1;
    cu!(cuGraphKernelNodeGetParams(inside, &mut params)).unwrap();
    let mut values = [log.0, 2];
    let mut pointers = values.each_mut().map(|p| std::ptr::from_mut(p).cast::<c_void>());
    params.kernelParams = pointers.as_mut_ptr();
    cu!(cuGraphExecKernelNodeSetParams(exec, inside, &params)).unwrap();
    run(exec, stream);
    assert_eq!(noted(log), [1, 2]);
    // The graph still has the kernel as it was.
    let mut info = CUgraphExecUpdateResultInfo::default();
    cu!(cuGraphExecUpdate_v2(exec, graph, &mut info)).unwrap();
    run(exec, stream);
    assert_eq!(noted(log), [1, 2, 1]);
}
