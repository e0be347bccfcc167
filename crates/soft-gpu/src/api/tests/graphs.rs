//! Graphs and capture on the device. Each test has a context of its own: what another one does
//! in the primary context would spoil its captures.

use super::super::graph::*;
use super::*;
use crate::testing::word64;
use cuda_api::constants::{
    capture, graph_instantiate, graph_memory, graph_node, graph_update, launch_attribute,
};

pub(super) fn scene() -> Watchdog {
    let alive = start();
    let mut context = CUcontext::NULL;
    cu!(cuCtxCreate_v2(&mut context, 0, 0)).unwrap();
    alive
}

/// A tenant of its own, whose addresses no other test is given: memory can be freed twice.
struct OwnTenant(u64);

impl OwnTenant {
    fn bind() -> Self {
        let mut tenant = 0;
        cu!(openmpsTenantCreate(&mut tenant)).unwrap();
        cu!(openmpsTenantBind(tenant)).unwrap();
        Self(tenant)
    }
}

impl Drop for OwnTenant {
    fn drop(&mut self) {
        let _ = cu!(openmpsTenantEnd(self.0));
        let _ = cu!(openmpsTenantBind(0));
    }
}

/// A kernel that writes down that it ran: `log[log[0] += 1] = value`.
pub(super) fn note() -> CUfunction {
    function(2, |_, launch, _| {
        let word = |index: u64| crate::testing::word64(parameter(launch, 0) + 8 * index);
        let at = word(0).fetch_add(1, Ordering::AcqRel) + 1;
        word(at).store(parameter(launch, 1), Ordering::Release);
        Outcome::Finished
    })
}

pub(super) fn log() -> CUdeviceptr {
    let log = allocate(800);
    cu!(cuMemsetD8_v2(log, 0, 800)).unwrap();
    cu!(cuCtxSynchronize()).unwrap();
    log
}

/// What was written down.
pub(super) fn noted(log: CUdeviceptr) -> Vec<u64> {
    let words = read(log, 100);
    words[1..=words[0] as usize].to_vec()
}

fn begin(stream: CUstream) {
    cu!(cuStreamBeginCapture_v2(stream, capture::MODE_THREAD_LOCAL)).unwrap();
}

fn end(stream: CUstream) -> CUgraph {
    let mut graph = CUgraph::NULL;
    cu!(cuStreamEndCapture(stream, &mut graph)).unwrap();
    graph
}

pub(super) fn instantiate(graph: CUgraph) -> CUgraphExec {
    let mut exec = CUgraphExec::NULL;
    cu!(cuGraphInstantiateWithFlags(&mut exec, graph, 0)).unwrap();
    exec
}

pub(super) fn run(exec: CUgraphExec, stream: CUstream) {
    cu!(cuGraphLaunch(exec, stream)).unwrap();
    cu!(cuStreamSynchronize(stream)).unwrap();
}

fn nodes(graph: CUgraph) -> Vec<CUgraphNode> {
    let mut count = 0;
    cu!(cuGraphGetNodes(graph, null_mut(), &mut count)).unwrap();
    let mut nodes = vec![CUgraphNode::NULL; count];
    cu!(cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count)).unwrap();
    nodes
}

fn status(stream: CUstream) -> u32 {
    let mut status = 77;
    cu!(cuStreamIsCapturing(stream, &mut status)).unwrap();
    status
}

fn new_event() -> CUevent {
    let mut event = CUevent::NULL;
    cu!(cuEventCreate(&mut event, event_flags::DISABLE_TIMING)).unwrap();
    event
}

#[test]
fn what_is_captured_runs_at_each_launch_and_not_before() {
    let _alive = scene();
    let (stream, log, note) = (new_stream(1), log(), note());
    begin(stream);
    assert_eq!(status(stream), capture::STATUS_ACTIVE);
    for value in [1, 2] {
        // The values are the graph's from now on.
        launch(note, 1, stream, &mut [log.0, value]).unwrap();
    }
    cu!(cuMemsetD32Async(CUdeviceptr(log.0 + 792), 9, 1, stream)).unwrap();
    let graph = end(stream);
    assert_eq!(status(stream), capture::STATUS_NONE);
    assert!(noted(log).is_empty());
    let exec = instantiate(graph);
    cu!(cuGraphDestroy(graph)).unwrap();
    for _ in 0..3 {
        cu!(cuGraphLaunch(exec, stream)).unwrap();
    }
    cu!(cuStreamSynchronize(stream)).unwrap();
    assert_eq!(noted(log), [1, 2, 1, 2, 1, 2]);
    assert_eq!(read(log, 100)[99], 9);
    cu!(cuGraphExecDestroy(exec)).unwrap();
    assert_eq!(cu!(cuGraphLaunch(exec, stream)), Err(Error::INVALID_VALUE));
}

#[test]
fn kernels_have_the_priority_of_the_stream_that_captured_them() {
    let _alive = scene();
    let (log, note) = (log(), note());
    for wanted in [-2, 0] {
        let mut stream = CUstream::NULL;
        cu!(cuStreamCreateWithPriority(&mut stream, 1, wanted)).unwrap();
        begin(stream);
        launch(note, 1, stream, &mut [log.0, 1]).unwrap();
        let graph = end(stream);
        let mut value = CUlaunchAttribute::number(0, 77).value;
        let node = nodes(graph)[0];
        cu!(cuGraphKernelNodeGetAttribute(
            node,
            launch_attribute::PRIORITY,
            value.as_mut_ptr().cast()
        ))
        .unwrap();
        let priority = i32::from_ne_bytes(value[..4].try_into().expect("four bytes"));
        assert_eq!(priority, wanted);
        cu!(cuGraphDestroy(graph)).unwrap();
        cu!(cuStreamDestroy_v2(stream)).unwrap();
    }
}

#[test]
fn streams_that_are_forked_run_side_by_side() {
    let _alive = scene();
    let (main, side) = (new_stream(1), new_stream(0));
    let (fork, join, log, note) = (new_event(), new_event(), log(), note());
    let flag = Arc::new(AtomicU32::new(0));
    let wait = spin(&flag);
    let set = flag.clone();
    let raise = function(0, move |_, _, _| {
        set.store(1, Ordering::Release);
        Outcome::Finished
    });
    begin(main);
    launch(note, 1, main, &mut [log.0, 1]).unwrap();
    cu!(cuEventRecord(fork, main)).unwrap();
    cu!(cuStreamWaitEvent(side, fork, 0)).unwrap();
    assert_eq!(status(side), capture::STATUS_ACTIVE);
    // The first would wait for ever if the second came after it.
    launch(wait, 1, main, &mut []).unwrap();
    launch(raise, 1, side, &mut []).unwrap();
    launch(note, 1, side, &mut [log.0, 2]).unwrap();
    cu!(cuEventRecord(join, side)).unwrap();
    cu!(cuStreamWaitEvent(main, join, 0)).unwrap();
    launch(note, 1, main, &mut [log.0, 3]).unwrap();
    let graph = end(main);
    assert_eq!(status(side), capture::STATUS_NONE);
    let mut edges = 0;
    cu!(cuGraphGetEdges(graph, null_mut(), null_mut(), &mut edges)).unwrap();
    assert_eq!((nodes(graph).len(), edges), (5, 5));
    let exec = instantiate(graph);
    for round in 1..=20 {
        flag.store(0, Ordering::Release);
        run(exec, if round % 2 == 0 { main } else { side });
        assert_eq!(noted(log).len(), 3 * round);
        assert_eq!(noted(log)[3 * round - 3..], [1, 2, 3]);
    }
    cu!(cuGraphExecDestroy(exec)).unwrap();
}

extern "C-unwind" fn count(data: *mut c_void) {
    // A counter that lives as long as the graph's launches.
    crate::testing::word64(data as u64).fetch_add(1, Ordering::AcqRel);
}

/// A graph built by hand: fill, copy, kernel, function, event, in a row; and its nodes.
struct ByHand {
    graph: CUgraph,
    nodes: Vec<CUgraphNode>,
    event: CUevent,
    note: CUfunction,
    log: CUdeviceptr,
    memory: CUdeviceptr,
    called: AtomicU64,
    host: Box<[u64; 4]>,
}

fn copy_params(to: &mut [u64; 4], from: CUdeviceptr) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcMemoryType: memory_type::DEVICE,
        srcDevice: from,
        dstMemoryType: memory_type::HOST,
        dstHost: to.as_mut_ptr().cast(),
        WidthInBytes: 32,
        Height: 1,
        Depth: 1,
        ..Default::default()
    }
}

fn by_hand() -> Box<ByHand> {
    let mut graph = CUgraph::NULL;
    cu!(cuGraphCreate(&mut graph, 0)).unwrap();
    let mut made = Box::new(ByHand {
        graph,
        nodes: vec![CUgraphNode::NULL; 5],
        event: new_event(),
        note: note(),
        log: log(),
        memory: allocate(32),
        called: AtomicU64::new(0),
        host: Box::new([0; 4]),
    });
    let fill = CUDA_MEMSET_NODE_PARAMS {
        dst: made.memory,
        pitch: 0,
        value: 0x0101_0101,
        elementSize: 4,
        width: 8,
        height: 1,
    };
    let mut nodes = [CUgraphNode::NULL; 5];
    let context = CUcontext::NULL;
    cu!(cuGraphAddMemsetNode(&mut nodes[0], graph, null(), 0, &fill, context)).unwrap();
    let copy = copy_params(&mut made.host, made.memory);
    let after = nodes[0];
    cu!(cuGraphAddMemcpyNode(&mut nodes[1], graph, &after, 1, &copy, context)).unwrap();
    let (mut log, mut value) = (made.log, 7u64);
    let mut values = [std::ptr::from_mut(&mut log).cast(), std::ptr::from_mut(&mut value).cast()];
    let kernel = kernel_params(made.note, [1, 32], values.as_mut_ptr());
    let after = nodes[1];
    cu!(cuGraphAddKernelNode_v2(&mut nodes[2], graph, &after, 1, &kernel)).unwrap();
    let host =
        CUDA_HOST_NODE_PARAMS { function: Some(count), userData: made.called.as_ptr().cast() };
    let after = nodes[2];
    cu!(cuGraphAddHostNode(&mut nodes[3], graph, &after, 1, &host)).unwrap();
    let after = nodes[3];
    cu!(cuGraphAddEventRecordNode(&mut nodes[4], graph, &after, 1, made.event)).unwrap();
    made.nodes = nodes.to_vec();
    made
}

#[test]
fn nodes_made_by_hand_do_what_their_parameters_say() {
    let _alive = scene();
    let (made, stream) = (by_hand(), new_stream(1));
    let exec = instantiate(made.graph);
    run(exec, stream);
    assert_eq!(*made.host, [0x0101_0101_0101_0101; 4]);
    assert_eq!(noted(made.log), [7]);
    assert_eq!(made.called.load(Ordering::Acquire), 1);
    cu!(cuEventSynchronize(made.event)).unwrap();

    // What is changed in the launchable graph is not changed in the other one.
    let (mut log, mut value) = (made.log, 8u64);
    let mut values = [std::ptr::from_mut(&mut log).cast(), std::ptr::from_mut(&mut value).cast()];
    let params = kernel_params(made.note, [1, 32], values.as_mut_ptr());
    cu!(cuGraphExecKernelNodeSetParams_v2(exec, made.nodes[2], &params)).unwrap();
    cu!(cuGraphNodeSetEnabled(exec, made.nodes[0], 0)).unwrap();
    let (mut enabled, mut words) = (1, [5u64; 4]);
    cu!(cuGraphNodeGetEnabled(exec, made.nodes[0], &mut enabled)).unwrap();
    assert_eq!(enabled, 0);
    cu!(cuMemcpyHtoD_v2(made.memory, words.as_mut_ptr().cast(), 32)).unwrap();
    run(exec, stream);
    assert_eq!(*made.host, [5; 4]);
    assert_eq!(noted(made.log), [7, 8]);
    let mut shown = params;
    cu!(cuGraphKernelNodeGetParams_v2(made.nodes[2], &mut shown)).unwrap();
    assert_eq!((shown.v1.func, shown.v1.blockDimX), (made.note, 32));
    let second = word64(shown.v1.kernelParams as u64 + 8).load(Ordering::Relaxed);
    assert_eq!(word64(second).load(Ordering::Relaxed), 7);
    assert_eq!(
        cu!(cuGraphExecKernelNodeSetParams_v2(exec, made.nodes[0], &params)),
        Err(Error::INVALID_VALUE)
    );
    let mut kind = 77;
    cu!(cuGraphNodeGetType(made.nodes[3], &mut kind)).unwrap();
    assert_eq!(kind, graph_node::HOST);
    cu!(cuGraphExecDestroy(exec)).unwrap();
    cu!(cuGraphDestroy(made.graph)).unwrap();
}

#[test]
fn a_clone_and_a_child_graph_are_graphs_of_their_own() {
    let _alive = scene();
    let (made, stream) = (by_hand(), new_stream(1));
    let mut clone = CUgraph::NULL;
    cu!(cuGraphClone(&mut clone, made.graph)).unwrap();
    let mut found = CUgraphNode::NULL;
    cu!(cuGraphNodeFindInClone(&mut found, made.nodes[2], clone)).unwrap();
    assert_eq!(found, nodes(clone)[2]);
    let mut parent = CUgraph::NULL;
    cu!(cuGraphCreate(&mut parent, 0)).unwrap();
    let (mut first, mut second) = (CUgraphNode::NULL, CUgraphNode::NULL);
    cu!(cuGraphAddChildGraphNode(&mut first, parent, null(), 0, clone)).unwrap();
    cu!(cuGraphAddChildGraphNode(&mut second, parent, &first, 1, clone)).unwrap();
    cu!(cuGraphDestroy(clone)).unwrap();
    let mut child = CUgraph::NULL;
    cu!(cuGraphChildGraphNodeGetGraph(first, &mut child)).unwrap();
    assert_eq!(nodes(child).len(), 5);
    assert_eq!(cu!(cuGraphDestroy(child)), Err(Error::INVALID_VALUE));
    let exec = instantiate(parent);
    run(exec, stream);
    assert_eq!(noted(made.log), [7, 7]);
    assert_eq!(made.called.load(Ordering::Acquire), 2);

    // What is ready is no node any more: a capture in which it is launched is over.
    begin(stream);
    let captured = cu!(cuGraphLaunch(exec, stream));
    assert_eq!(captured, Err(Error::STREAM_CAPTURE_UNSUPPORTED));
    let mut graph = CUgraph::NULL;
    let ended = cu!(cuStreamEndCapture(stream, &mut graph));
    assert_eq!((ended, graph), (Err(Error::STREAM_CAPTURE_INVALIDATED), CUgraph::NULL));
    run(exec, stream);
    assert_eq!(noted(made.log), [7; 4]);
}

#[test]
fn a_launchable_graph_takes_over_from_one_of_the_same_form() {
    let _alive = scene();
    let (stream, log, note) = (new_stream(1), log(), note());
    let capture = |values: &[u64]| {
        begin(stream);
        for value in values {
            launch(note, 1, stream, &mut [log.0, *value]).unwrap();
        }
        end(stream)
    };
    let exec = instantiate(capture(&[1, 2]));
    let update = |graph| {
        let mut info = CUgraphExecUpdateResultInfo::default();
        (cu!(cuGraphExecUpdate_v2(exec, graph, &mut info)), info)
    };
    assert_eq!(update(capture(&[3, 4])).0, Ok(()));
    run(exec, stream);
    let longer = update(capture(&[5, 6, 7]));
    assert_eq!(longer.0, Err(Error::GRAPH_EXEC_UPDATE_FAILURE));
    assert_eq!(longer.1.result, graph_update::TOPOLOGY_CHANGED);
    begin(stream);
    launch(note, 1, stream, &mut [log.0, 5]).unwrap();
    cu!(cuMemsetD32Async(log, 9, 1, stream)).unwrap();
    let other = end(stream);
    let (result, info) = update(other);
    assert_eq!(result, Err(Error::GRAPH_EXEC_UPDATE_FAILURE));
    assert_eq!((info.result, info.errorNode), (graph_update::NODE_TYPE_CHANGED, nodes(other)[1]));
    run(exec, stream);
    assert_eq!(noted(log), [3, 4, 3, 4]);
}

#[test]
fn memory_that_a_graph_allocates_is_the_programs_after_its_launch() {
    let _alive = scene();
    let _tenant = OwnTenant::bind();
    let (stream, store) = (new_stream(1), store());
    let mut pointer = CUdeviceptr(0);
    begin(stream);
    cu!(cuMemAllocAsync(&mut pointer, 800, stream)).unwrap();
    launch(store, 100, stream, &mut [pointer.0, 5]).unwrap();
    let graph = end(stream);
    let exec = instantiate(graph);
    assert_eq!(cu!(cuMemFreeAsync(CUdeviceptr(0x10), stream)), Err(Error::INVALID_VALUE));
    run(exec, stream);
    assert_eq!(read(pointer, 100), (5..105).collect::<Vec<_>>());
    // It must be freed before it is allocated again.
    assert_eq!(cu!(cuGraphLaunch(exec, stream)), Err(Error::INVALID_VALUE));
    cu!(cuMemFreeAsync(pointer, stream)).unwrap();
    run(exec, stream);
    cu!(cuMemFree_v2(pointer)).unwrap();
    let mut auto = CUgraphExec::NULL;
    let flags = graph_instantiate::AUTO_FREE_ON_LAUNCH;
    cu!(cuGraphInstantiateWithFlags(&mut auto, graph, flags)).unwrap();
    for _ in 0..2 {
        run(auto, stream);
    }
    cu!(cuGraphExecDestroy(auto)).unwrap();
    cu!(cuGraphExecDestroy(exec)).unwrap();
    cu!(cuGraphDestroy(graph)).unwrap();
    // The graphs are gone, but the memory is the program's.
    assert_eq!(read(pointer, 1), [5]);
    cu!(cuMemFree_v2(pointer)).unwrap();
    assert_eq!(cu!(cuMemFree_v2(pointer)), Err(Error::INVALID_VALUE));
}

#[test]
fn memory_freed_in_its_graph_needs_no_freeing() {
    let _alive = scene();
    let _tenant = OwnTenant::bind();
    let stream = new_stream(1);
    let mut pointer = CUdeviceptr(0);
    begin(stream);
    cu!(cuMemAllocAsync(&mut pointer, 64, stream)).unwrap();
    cu!(cuMemsetD8Async(pointer, 1, 64, stream)).unwrap();
    cu!(cuMemFreeAsync(pointer, stream)).unwrap();
    let graph = end(stream);
    let kinds: Vec<u32> = nodes(graph)
        .into_iter()
        .map(|node| {
            let mut kind = 77;
            cu!(cuGraphNodeGetType(node, &mut kind)).unwrap();
            kind
        })
        .collect();
    assert_eq!(kinds, [graph_node::MEM_ALLOC, graph_node::MEMSET, graph_node::MEM_FREE]);
    let exec = instantiate(graph);
    for _ in 0..3 {
        run(exec, stream);
        assert_eq!(cu!(cuMemFree_v2(pointer)), Err(Error::INVALID_VALUE));
    }
    cu!(cuGraphExecDestroy(exec)).unwrap();
    cu!(cuGraphDestroy(graph)).unwrap();
    assert_eq!(cu!(cuMemFree_v2(pointer)), Err(Error::INVALID_VALUE));
}

#[test]
fn memory_that_a_graph_has_freed_is_allocated_again_by_it() {
    let _alive = scene();
    const BYTES: usize = 800;
    let (stream, store, kept) = (new_stream(1), store(), allocate(8 * BYTES));
    let reserved = || {
        let mut bytes = 0u64;
        let value = (&raw mut bytes).cast();
        cu!(cuDeviceGetGraphMemAttribute(0, graph_memory::RESERVED_CURRENT, value)).unwrap();
        bytes
    };
    let mut addresses = Vec::new();
    begin(stream);
    for round in 0..8u64 {
        let mut temporary = CUdeviceptr(0);
        cu!(cuMemAllocAsync(&mut temporary, BYTES, stream)).unwrap();
        launch(store, 100, stream, &mut [temporary.0, 1000 * round]).unwrap();
        let copy = CUdeviceptr(kept.0 + BYTES as u64 * round);
        cu!(cuMemcpyDtoDAsync_v2(copy, temporary, BYTES, stream)).unwrap();
        cu!(cuMemFreeAsync(temporary, stream)).unwrap();
        addresses.push(temporary.0);
    }
    let graph = end(stream);
    addresses.dedup();
    assert_eq!(addresses.len(), 1, "{addresses:x?}");
    // Other tests' graphs have some too.
    assert!(reserved() >= BYTES as u64);
    assert_eq!(cu!(cuDeviceGraphMemTrim(0)), Ok(()));
    let exec = instantiate(graph);
    for _ in 0..2 {
        run(exec, stream);
        let expected: Vec<u64> =
            (0..8).flat_map(|round| 1000 * round..1000 * round + 100).collect();
        assert_eq!(read(kept, 800), expected);
        cu!(cuMemsetD8Async(kept, 0, 8 * BYTES, stream)).unwrap();
    }
    // What says when memory is free stays.
    let first = nodes(graph)[0];
    assert_eq!(cu!(cuGraphDestroyNode(first)), Err(Error::NOT_SUPPORTED));
    cu!(cuGraphExecDestroy(exec)).unwrap();
    cu!(cuGraphDestroy(graph)).unwrap();
}

#[test]
fn trimming_takes_the_memory_of_graphs_that_no_launch_and_no_program_uses() {
    let _alive = scene();
    const BYTES: usize = 3 << 20;
    const WHOLE: u64 = 4 << 20;
    let (stream, store) = (new_stream(1), store());
    let is_there = |pointer: CUdeviceptr| {
        let mut word = 0u64;
        let to = (&raw mut word).cast();
        cu!(cuMemcpyDtoH_v2(to, pointer, 8)) != Err(Error::INVALID_VALUE)
    };
    let attribute = |which| {
        let mut bytes = 0u64;
        let value = (&raw mut bytes).cast();
        cu!(cuDeviceGetGraphMemAttribute(0, which, value)).unwrap();
        bytes
    };
    // Other tests' graphs have some too, but no such large piece.
    let reserved = || attribute(graph_memory::RESERVED_CURRENT) / WHOLE;
    // One graph frees what it allocates, another one leaves that to the program.
    let graph = |keeps: bool| {
        let mut pointer = CUdeviceptr(0);
        begin(stream);
        cu!(cuMemAllocAsync(&mut pointer, BYTES, stream)).unwrap();
        cu!(cuMemsetD8Async(pointer, 7, BYTES, stream)).unwrap();
        launch(store, 100, stream, &mut [pointer.0, 1000]).unwrap();
        if !keeps {
            cu!(cuMemFreeAsync(pointer, stream)).unwrap();
        }
        (end(stream), pointer)
    };
    let had = reserved();
    let (temporary, at) = graph(false);
    let (lasting, kept) = graph(true);
    let execs = [temporary, lasting].map(instantiate);
    for exec in execs {
        run(exec, stream);
    }
    assert_eq!((reserved() - had, is_there(at)), (2, true));
    assert!(attribute(graph_memory::RESERVED_HIGH) >= 2 * WHOLE);
    // What the program has stays.
    cu!(cuDeviceGraphMemTrim(0)).unwrap();
    assert_eq!((reserved() - had, is_there(at)), (1, false));
    assert_eq!(read(kept, 2), [1000, 1001]);
    cu!(cuMemFreeAsync(kept, stream)).unwrap();
    assert_eq!(reserved() - had, 1, "a graph keeps what is freed");
    cu!(cuDeviceGraphMemTrim(0)).unwrap();
    assert_eq!((reserved() - had, is_there(kept)), (0, false));
    // The next launch has it again, at the same address; so has a node that is made.
    for _ in 0..2 {
        execs.iter().for_each(|exec| run(*exec, stream));
        assert_eq!((reserved() - had, is_there(at)), (2, true));
        assert_eq!(read(kept, 2), [1000, 1001]);
        assert_eq!(read(CUdeviceptr(kept.0 + 800), 1), [0x0707_0707_0707_0707]);
        cu!(cuMemFree_v2(kept)).unwrap();
        cu!(cuDeviceGraphMemTrim(0)).unwrap();
        assert_eq!(reserved() - had, 0);
    }
    let fill = CUDA_MEMSET_NODE_PARAMS {
        dst: at,
        pitch: 0,
        value: 1,
        elementSize: 1,
        width: 16,
        height: 1,
    };
    let (mut node, mut context) = (CUgraphNode::NULL, CUcontext::NULL);
    cu!(cuCtxGetCurrent(&mut context)).unwrap();
    cu!(cuGraphAddMemsetNode(&mut node, temporary, core::ptr::null(), 0, &fill, context)).unwrap();
    for (exec, graph) in execs.into_iter().zip([temporary, lasting]) {
        cu!(cuGraphExecDestroy(exec)).unwrap();
        cu!(cuGraphDestroy(graph)).unwrap();
    }
    assert_eq!(reserved(), had);
}

#[test]
fn what_makes_no_sense_while_capturing_ends_the_capture() {
    let _alive = scene();
    let (stream, blocking, memory) = (new_stream(1), new_stream(0), allocate(64));
    let mut graph = CUgraph::NULL;
    let unsupported = Err(Error::STREAM_CAPTURE_UNSUPPORTED);
    let invalidated = Err(Error::STREAM_CAPTURE_INVALIDATED);
    let mut host = [0u8; 64];
    type Attempt<'a> = (&'a str, Box<dyn FnMut() -> CUresult + 'a>);
    let attempts: Vec<Attempt<'_>> = vec![
        ("synchronize", Box::new(|| cu!(cuStreamSynchronize(stream)))),
        ("query", Box::new(|| cu!(cuStreamQuery(stream)))),
        ("context", Box::new(|| cu!(cuCtxSynchronize()))),
        ("allocate", Box::new(|| cu!(cuMemAlloc_v2(&mut CUdeviceptr(0), 64)))),
        ("free", Box::new(|| cu!(cuMemFree_v2(memory)))),
    ];
    for (name, mut attempt) in attempts {
        begin(stream);
        assert_eq!(attempt(), unsupported, "{name}");
        assert_eq!(cu!(cuMemsetD8Async(memory, 0, 8, stream)), invalidated, "{name}");
        assert_eq!(cu!(cuStreamEndCapture(stream, &mut graph)), invalidated, "{name}");
        assert_eq!(graph, CUgraph::NULL);
    }
    begin(blocking);
    let copy = cu!(cuMemcpyDtoH_v2(host.as_mut_ptr().cast(), memory, 64));
    assert_eq!(copy, Err(Error::STREAM_CAPTURE_IMPLICIT));
    assert_eq!(cu!(cuStreamEndCapture(blocking, &mut graph)), invalidated);
    assert_eq!(cu!(cuStreamBeginCapture_v2(CUstream::NULL, 0)), unsupported);
    assert_eq!(cu!(cuStreamEndCapture(stream, &mut graph)), Err(Error::ILLEGAL_STATE));
    // In relaxed mode memory may be allocated.
    cu!(cuStreamBeginCapture_v2(stream, capture::MODE_RELAXED)).unwrap();
    cu!(cuMemFree_v2(allocate(64))).unwrap();
    end(stream);
    // So it may by a thread that takes it upon itself.
    begin(stream);
    let mut mode = capture::MODE_RELAXED;
    cu!(cuThreadExchangeStreamCaptureMode(&mut mode)).unwrap();
    cu!(cuMemFree_v2(allocate(64))).unwrap();
    cu!(cuThreadExchangeStreamCaptureMode(&mut mode)).unwrap();
    assert_eq!(mode, capture::MODE_RELAXED);
    end(stream);
}

#[test]
fn dependencies_of_a_capture_can_be_looked_at_and_changed() {
    let _alive = scene();
    let (stream, log, note) = (new_stream(1), log(), note());
    begin(stream);
    launch(note, 1, stream, &mut [log.0, 1]).unwrap();
    let (mut status, mut id, mut graph, mut list, mut count) =
        (0, 0, CUgraph::NULL, null::<CUgraphNode>(), 0);
    cu!(cuStreamGetCaptureInfo_v2(stream, &mut status, &mut id, &mut graph, &mut list, &mut count))
        .unwrap();
    assert_eq!((status, count), (capture::STATUS_ACTIVE, 1));
    assert!(id != 0);
    let first = word64(list as u64).load(Ordering::Relaxed);
    assert_eq!(first, nodes(graph)[0].0 as u64);
    // A node of the program's own goes between.
    let mut empty = CUgraphNode::NULL;
    cu!(cuGraphAddEmptyNode(&mut empty, graph, list, 1)).unwrap();
    let set = capture::SET_DEPENDENCIES;
    cu!(cuStreamUpdateCaptureDependencies(stream, &mut empty, 1, set)).unwrap();
    launch(note, 1, stream, &mut [log.0, 2]).unwrap();
    assert_eq!(end(stream), graph);
    let (mut before, mut length) = (CUgraphNode::NULL, 1);
    cu!(cuGraphNodeGetDependencies(nodes(graph)[2], &mut before, &mut length)).unwrap();
    assert_eq!((before, length), (empty, 1));
    run(instantiate(graph), stream);
    assert_eq!(noted(log), [1, 2]);
}

#[test]
fn an_object_goes_with_the_last_graph_that_keeps_it() {
    let _alive = scene();
    let destroyed = AtomicU64::new(0);
    let (mut object, mut graph) = (CUuserObject::NULL, CUgraph::NULL);
    let pointer = destroyed.as_ptr().cast();
    cu!(cuUserObjectCreate(&mut object, pointer, Some(count), 1, 1)).unwrap();
    cu!(cuGraphCreate(&mut graph, 0)).unwrap();
    cu!(cuGraphRetainUserObject(graph, object, 1, 1)).unwrap();
    let exec = instantiate(graph);
    run(exec, new_stream(1));
    cu!(cuGraphDestroy(graph)).unwrap();
    assert_eq!(destroyed.load(Ordering::Acquire), 0);
    cu!(cuGraphExecDestroy(exec)).unwrap();
    assert_eq!(destroyed.load(Ordering::Acquire), 1);
    assert_eq!(cu!(cuUserObjectRelease(object, 1)), Err(Error::INVALID_VALUE));
}
