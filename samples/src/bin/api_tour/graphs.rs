//! Graphs built by hand: nodes of each type, edges, copies of graphs, changes to what can be
//! launched.

use std::{ffi::c_void, ptr, sync::atomic::AtomicU32, sync::atomic::Ordering};

use cudarc::driver::sys::{
    self, CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUgraphNodeType as Kind, CUmemorytype,
};

use crate::{
    Check,
    captures::{Exec, Graph},
    support::{
        Env, Event, HostWords, Outcome, Stream, Words, call, equal, holds, place, refused,
        synchronize,
    },
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("graphs.nodes_of_all_types", nodes_of_all_types),
    ("graphs.nodes_and_edges", nodes_and_edges),
    ("graphs.pageable_memory", pageable_memory),
    ("graphs.boxes", boxes),
    ("graphs.kernel_parameters", kernel_parameters),
    ("graphs.launches_do_not_overlap", launches_do_not_overlap),
    ("graphs.clone", clone),
    ("graphs.child_graph", child_graph),
    ("graphs.update", update),
    ("graphs.enabled_nodes", enabled_nodes),
    ("graphs.user_objects", user_objects),
    ("graphs.wrong", wrong),
];

fn new() -> Outcome<Graph> {
    let mut graph = ptr::null_mut();
    call!(cuGraphCreate(&mut graph, 0))?;
    Ok(Graph(graph))
}

type Node = sys::CUgraphNode;

/// Adds nodes that wait for those in `after`.
impl Graph {
    fn empty(&self, after: &[Node]) -> Outcome<Node> {
        let mut node = ptr::null_mut();
        call!(cuGraphAddEmptyNode(&mut node, self.0, after.as_ptr(), after.len()))?;
        Ok(node)
    }

    fn fill(&self, env: &Env, after: &[Node], fill: &CUDA_MEMSET_NODE_PARAMS) -> Outcome<Node> {
        let (mut node, context) = (ptr::null_mut(), env.context);
        let (list, count) = (after.as_ptr(), after.len());
        call!(cuGraphAddMemsetNode(&mut node, self.0, list, count, fill, context))?;
        Ok(node)
    }

    fn copy(&self, env: &Env, after: &[Node], copy: &CUDA_MEMCPY3D) -> Outcome<Node> {
        let (mut node, context) = (ptr::null_mut(), env.context);
        let (list, count) = (after.as_ptr(), after.len());
        call!(cuGraphAddMemcpyNode(&mut node, self.0, list, count, copy, context))?;
        Ok(node)
    }

    /// A write of a word by a kernel.
    fn write(&self, env: &Env, after: &[Node], address: u64, value: u32) -> Outcome<Node> {
        self.slow_write(env, after, address, value, 0)
    }

    fn slow_write(
        &self,
        env: &Env,
        after: &[Node],
        mut address: u64,
        mut value: u32,
        milliseconds: u64,
    ) -> Outcome<Node> {
        let mut nanoseconds = milliseconds * 1_000_000;
        let mut arguments = [place(&mut address), place(&mut value), place(&mut nanoseconds)];
        self.kernel(env, after, c"slow_write", &mut arguments)
    }

    fn copy_word(&self, env: &Env, after: &[Node], mut from: u64, mut to: u64) -> Outcome<Node> {
        self.kernel(env, after, c"copy_word", &mut [place(&mut from), place(&mut to)])
    }

    fn kernel(
        &self,
        env: &Env,
        after: &[Node],
        name: &std::ffi::CStr,
        arguments: &mut [*mut c_void],
    ) -> Outcome<Node> {
        let (mut node, params) = (ptr::null_mut(), launch_of(env.function(name)?, arguments));
        let (list, count) = (after.as_ptr(), after.len());
        call!(cuGraphAddKernelNode_v2(&mut node, self.0, list, count, &params))?;
        Ok(node)
    }

    fn host(&self, after: &[Node], word: *mut u32) -> Outcome<Node> {
        let mut node = ptr::null_mut();
        let params = CUDA_HOST_NODE_PARAMS { fn_: Some(increment), userData: word.cast() };
        let (list, count) = (after.as_ptr(), after.len());
        call!(cuGraphAddHostNode(&mut node, self.0, list, count, &params))?;
        Ok(node)
    }
}

/// One thread of a kernel.
fn launch_of(func: sys::CUfunction, arguments: &mut [*mut c_void]) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        kernelParams: arguments.as_mut_ptr(),
        extra: ptr::null_mut(),
        kern: ptr::null_mut(),
        ctx: ptr::null_mut(),
    }
}

unsafe extern "C" fn increment(word: *mut c_void) {
    // SAFETY: the checks pass an aligned word of host memory, and wait for this call.
    unsafe { AtomicU32::from_ptr(word.cast()) }.fetch_add(1, Ordering::SeqCst);
}

fn words_of(address: u64, value: u32, count: usize) -> CUDA_MEMSET_NODE_PARAMS {
    CUDA_MEMSET_NODE_PARAMS {
        dst: address,
        pitch: 0,
        value,
        elementSize: 4,
        width: count,
        height: 1,
    }
}

/// A description of a copy of one row, without its sides.
fn no_copy() -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: ptr::null(),
        srcDevice: 0,
        srcArray: ptr::null_mut(),
        reserved0: ptr::null_mut(),
        srcPitch: 0,
        srcHeight: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: ptr::null_mut(),
        dstDevice: 0,
        dstArray: ptr::null_mut(),
        reserved1: ptr::null_mut(),
        dstPitch: 0,
        dstHeight: 0,
        WidthInBytes: 0,
        Height: 1,
        Depth: 1,
    }
}

fn from_device(copy: &mut CUDA_MEMCPY3D, address: u64) {
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = address;
}

fn to_device(copy: &mut CUDA_MEMCPY3D, address: u64) {
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = address;
}

fn from_host(copy: &mut CUDA_MEMCPY3D, address: *const u32) {
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.srcHost = address.cast();
}

fn to_host(copy: &mut CUDA_MEMCPY3D, address: *mut u32) {
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.dstHost = address.cast();
}

fn run(exec: &Exec, stream: &Stream) -> Outcome {
    exec.launch(stream)?;
    call!(cuStreamSynchronize(stream.0))
}

fn nodes_of_all_types(env: &Env) -> Outcome {
    let (stream, words, host) =
        (Stream::non_blocking()?, Words::filled(8, 0)?, HostWords::zeroed(8)?);
    let (recorded, graph) = (Event::untimed()?, new()?);
    let fill = graph.fill(env, &[], &words_of(words.address, 3, 4))?;
    let kernel = graph.write(env, &[fill], words.at(1), 4)?;
    let mut copy = no_copy();
    copy.WidthInBytes = 16;
    from_device(&mut copy, words.address);
    to_host(&mut copy, host.host);
    let down = graph.copy(env, &[kernel], &copy)?;
    let called = graph.host(&[down], host.host)?;
    let mut copy = no_copy();
    copy.WidthInBytes = 16;
    from_host(&mut copy, host.host);
    to_device(&mut copy, words.at(4));
    let up = graph.copy(env, &[called], &copy)?;
    let (mut event, after) = (ptr::null_mut(), [graph.empty(&[up])?]);
    call!(cuGraphAddEventRecordNode(&mut event, graph.0, after.as_ptr(), 1, recorded.0))?;
    let kinds = [
        (fill, Kind::CU_GRAPH_NODE_TYPE_MEMSET),
        (kernel, Kind::CU_GRAPH_NODE_TYPE_KERNEL),
        (down, Kind::CU_GRAPH_NODE_TYPE_MEMCPY),
        (called, Kind::CU_GRAPH_NODE_TYPE_HOST),
        (after[0], Kind::CU_GRAPH_NODE_TYPE_EMPTY),
        (event, Kind::CU_GRAPH_NODE_TYPE_EVENT_RECORD),
    ];
    for (node, expected) in kinds {
        let mut kind = Kind::CU_GRAPH_NODE_TYPE_GRAPH;
        call!(cuGraphNodeGetType(node, &mut kind))?;
        equal("type of a node", kind, expected)?;
    }
    let exec = graph.instantiate()?;
    for _ in 0..3 {
        exec.launch(&stream)?;
        call!(cuEventSynchronize(recorded.0))?;
        equal("words", words.read()?, vec![3, 4, 3, 3, 4, 4, 3, 3])?;
    }
    Ok(())
}

fn nodes_and_edges(_: &Env) -> Outcome {
    let graph = new()?;
    let first = graph.empty(&[])?;
    let (left, right) = (graph.empty(&[first])?, graph.empty(&[first])?);
    let last = graph.empty(&[left])?;
    call!(cuGraphAddDependencies(graph.0, &right, &last, 1))?;
    let (mut from, mut to, mut count) = ([ptr::null_mut(); 8], [ptr::null_mut(); 8], 8);
    call!(cuGraphGetEdges(graph.0, from.as_mut_ptr(), to.as_mut_ptr(), &mut count))?;
    let mut edges: Vec<(Node, Node)> = from.into_iter().zip(to).take(count).collect();
    edges.sort_unstable();
    let mut expected = vec![(first, left), (first, right), (left, last), (right, last)];
    expected.sort_unstable();
    equal("edges", edges, expected)?;
    let (mut roots, mut count) = ([ptr::null_mut(); 4], 4);
    call!(cuGraphGetRootNodes(graph.0, roots.as_mut_ptr(), &mut count))?;
    equal("roots", &roots[..count], &[first])?;
    let (mut nodes, mut count) = ([ptr::null_mut(); 4], 4);
    call!(cuGraphNodeGetDependencies(last, nodes.as_mut_ptr(), &mut count))?;
    equal("whom the last waits for", count, 2)?;
    count = 4;
    call!(cuGraphNodeGetDependentNodes(first, nodes.as_mut_ptr(), &mut count))?;
    equal("who waits for the first", count, 2)?;
    call!(cuGraphRemoveDependencies(graph.0, &right, &last, 1))?;
    call!(cuGraphDestroyNode(left))?;
    equal("nodes left", graph.nodes()?.len(), 3)?;
    call!(cuGraphGetEdges(graph.0, ptr::null_mut(), ptr::null_mut(), &mut count))?;
    equal("edges left", count, 1)
}

/// A copy looks at the program's memory when it runs.
fn pageable_memory(env: &Env) -> Outcome {
    let (stream, words, graph) = (Stream::non_blocking()?, Words::filled(4, 0)?, new()?);
    let (mut source, target) = (vec![1u32, 2, 3, 4], [const { AtomicU32::new(0) }; 4]);
    let mut copy = no_copy();
    copy.WidthInBytes = 16;
    from_host(&mut copy, source.as_ptr());
    to_device(&mut copy, words.address);
    let up = graph.copy(env, &[], &copy)?;
    let mut copy = no_copy();
    copy.WidthInBytes = 16;
    from_device(&mut copy, words.address);
    to_host(&mut copy, target.as_ptr().cast_mut().cast());
    graph.copy(env, &[up], &copy)?;
    let exec = graph.instantiate()?;
    for round in 0..3 {
        source[3] = round;
        run(&exec, &stream)?;
        let got = target.each_ref().map(|word| word.load(Ordering::SeqCst));
        equal("words", got, [1, 2, 3, round])?;
    }
    Ok(())
}

fn boxes(env: &Env) -> Outcome {
    let (stream, words, graph) = (Stream::non_blocking()?, Words::filled(64, 0)?, new()?);
    // Rows of four words, slices of four rows.
    let fill = CUDA_MEMSET_NODE_PARAMS {
        dst: words.at(1),
        pitch: 16,
        value: 5,
        elementSize: 4,
        width: 2,
        height: 3,
    };
    let filled = graph.fill(env, &[], &fill)?;
    let host = HostWords::zeroed(12)?;
    let mut copy = no_copy();
    (copy.WidthInBytes, copy.Height, copy.Depth) = (8, 3, 2);
    from_device(&mut copy, words.address);
    (copy.srcXInBytes, copy.srcY, copy.srcZ) = (4, 1, 0);
    (copy.srcPitch, copy.srcHeight) = (16, 4);
    to_host(&mut copy, host.host);
    (copy.dstPitch, copy.dstHeight) = (8, 3);
    graph.copy(env, &[filled], &copy)?;
    let exec = graph.instantiate()?;
    call!(cuMemsetD32_v2(words.at(16), 6, 16))?;
    synchronize()?;
    run(&exec, &stream)?;
    let got: Vec<u32> = (0..12).map(|i| host.get(i)).collect();
    equal("the box", got, vec![5, 5, 5, 5, 0, 0, 6, 6, 6, 6, 6, 6])
}

fn kernel_parameters(env: &Env) -> Outcome {
    let (stream, words, graph) = (Stream::non_blocking()?, Words::filled(2, 0)?, new()?);
    let node = graph.write(env, &[], words.at(0), 7)?;
    let mut shown = launch_of(ptr::null_mut(), &mut []);
    call!(cuGraphKernelNodeGetParams_v2(node, &mut shown))?;
    equal("threads", shown.blockDimX, 1)?;
    holds("the values are shown", !shown.kernelParams.is_null() || !shown.extra.is_null())?;
    let exec = graph.instantiate()?;
    let (mut address, mut value, mut nanoseconds) = (words.at(1), 8u32, 0u64);
    let mut arguments = [place(&mut address), place(&mut value), place(&mut nanoseconds)];
    let params = launch_of(env.function(c"slow_write")?, &mut arguments);
    // In what can be launched, and not in the graph.
    call!(cuGraphExecKernelNodeSetParams_v2(exec.0, node, &params))?;
    run(&exec, &stream)?;
    equal("words", words.read()?, vec![0, 8])?;
    run(&graph.instantiate()?, &stream)?;
    equal("words", words.read()?, vec![7, 8])?;
    value = 9;
    holds("the variable has changed", value == 9)?;
    call!(cuGraphKernelNodeSetParams_v2(node, &params))?;
    run(&graph.instantiate()?, &stream)?;
    equal("words", words.read()?, vec![7, 9])
}

/// Launches of one graph come one after the other, regardless of their streams.
fn launches_do_not_overlap(env: &Env) -> Outcome {
    let (first, second) = (Stream::non_blocking()?, Stream::non_blocking()?);
    let (words, graph) = (Words::filled(3, 0)?, new()?);
    // The second launch would copy the first one's intermediate value.
    let reset = graph.write(env, &[], words.at(0), 1)?;
    let slow = graph.slow_write(env, &[reset], words.at(1), 2, 10)?;
    let set = graph.write(env, &[slow], words.at(0), 3)?;
    graph.copy_word(env, &[set], words.at(0), words.at(2))?;
    let exec = graph.instantiate()?;
    for _ in 0..3 {
        exec.launch(&first)?;
        exec.launch(&second)?;
    }
    equal("words", words.read()?, vec![3, 2, 3])
}

fn clone(env: &Env) -> Outcome {
    let (stream, words, graph) = (Stream::non_blocking()?, Words::filled(1, 0)?, new()?);
    let node = graph.write(env, &[], words.address, 7)?;
    let mut copy = ptr::null_mut();
    call!(cuGraphClone(&mut copy, graph.0))?;
    let copy = Graph(copy);
    let mut found = ptr::null_mut();
    call!(cuGraphNodeFindInClone(&mut found, node, copy.0))?;
    equal("nodes of the copy", copy.nodes()?, vec![found])?;
    holds("the copy's node is another one", found != node)?;
    drop(graph);
    run(&copy.instantiate()?, &stream)?;
    equal("word", words.first()?, 7)
}

fn child_graph(env: &Env) -> Outcome {
    let (stream, words) = (Stream::non_blocking()?, Words::filled(3, 0)?);
    let (child, parent) = (new()?, new()?);
    let begun = child.slow_write(env, &[], words.at(0), 7, 5)?;
    child.copy_word(env, &[begun], words.at(0), words.at(1))?;
    let before = parent.write(env, &[], words.at(0), 1)?;
    let mut node = ptr::null_mut();
    call!(cuGraphAddChildGraphNode(&mut node, parent.0, &before, 1, child.0))?;
    // The node has a copy.
    drop(child);
    parent.copy_word(env, &[node], words.at(1), words.at(2))?;
    let mut embedded = ptr::null_mut();
    call!(cuGraphChildGraphNodeGetGraph(node, &mut embedded))?;
    let mut count = 0;
    call!(cuGraphGetNodes(embedded, ptr::null_mut(), &mut count))?;
    equal("nodes of the child graph", count, 2)?;
    run(&parent.instantiate()?, &stream)?;
    equal("words", words.read()?, vec![7, 7, 7])
}

fn update(env: &Env) -> Outcome {
    let (stream, words) = (Stream::non_blocking()?, Words::filled(2, 0)?);
    let capture = |values: &[u32]| {
        Graph::captured(&stream, || {
            let mut values = values.iter().enumerate();
            values.try_for_each(|(i, value)| env.slow_write(words.at(i), *value, 0, stream.0))
        })
    };
    let exec = capture(&[1, 2])?.instantiate()?;
    let info = || sys::CUgraphExecUpdateResultInfo {
        result: sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS,
        errorNode: ptr::null_mut(),
        errorFromNode: ptr::null_mut(),
    };
    let (same, mut told) = (capture(&[3, 4])?, info());
    call!(cuGraphExecUpdate_v2(exec.0, same.0, &mut told))?;
    run(&exec, &stream)?;
    equal("words", words.read()?, vec![3, 4])?;
    let (other, mut told) = (capture(&[5])?, info());
    refused!(
        cuGraphExecUpdate_v2(exec.0, other.0, &mut told),
        CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
    )?;
    equal(
        "why not",
        told.result,
        sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
    )
}

fn enabled_nodes(env: &Env) -> Outcome {
    let (stream, words, graph) = (Stream::non_blocking()?, Words::filled(2, 0)?, new()?);
    let first = graph.write(env, &[], words.at(0), 1)?;
    graph.write(env, &[first], words.at(1), 2)?;
    let exec = graph.instantiate()?;
    call!(cuGraphNodeSetEnabled(exec.0, first, 0))?;
    let mut enabled = 1;
    call!(cuGraphNodeGetEnabled(exec.0, first, &mut enabled))?;
    equal("enabled", enabled, 0)?;
    run(&exec, &stream)?;
    equal("words", words.read()?, vec![0, 2])?;
    call!(cuGraphNodeSetEnabled(exec.0, first, 1))?;
    run(&exec, &stream)?;
    equal("words", words.read()?, vec![1, 2])
}

fn user_objects(_: &Env) -> Outcome {
    let (mut object, destroyed, graph) = (ptr::null_mut(), AtomicU32::new(0), new()?);
    let flags = sys::CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC as u32;
    let word = destroyed.as_ptr().cast();
    call!(cuUserObjectCreate(&mut object, word, Some(increment), 1, flags))?;
    let moved = sys::CUuserObjectRetain_flags::CU_GRAPH_USER_OBJECT_MOVE as u32;
    call!(cuGraphRetainUserObject(graph.0, object, 1, moved))?;
    equal("destroyed while the graph is there", destroyed.load(Ordering::SeqCst), 0)?;
    drop(graph);
    // By which thread and when is the driver's business; a machine that is shared may take its time.
    for _ in 0..60_000 {
        if destroyed.load(Ordering::SeqCst) != 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    equal("destroyed when it is gone", destroyed.load(Ordering::SeqCst), 1)
}

fn wrong(env: &Env) -> Outcome {
    let graph = new()?;
    let (first, second) = (graph.empty(&[])?, graph.empty(&[])?);
    let mut graph_out = ptr::null_mut();
    refused!(cuGraphCreate(ptr::null_mut(), 0), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuGraphCreate(&mut graph_out, 1), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuGraphChildGraphNodeGetGraph(first, &mut graph_out), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuGraphRemoveDependencies(graph.0, &first, &second, 1), CUDA_ERROR_INVALID_VALUE)?;
    let mut node = ptr::null_mut();
    let params = launch_of(env.function(c"nothing")?, &mut []);
    let too_many = CUDA_KERNEL_NODE_PARAMS { blockDimX: 1 << 20, ..params };
    refused!(
        cuGraphAddKernelNode_v2(&mut node, graph.0, ptr::null(), 0, &too_many),
        CUDA_ERROR_INVALID_VALUE
    )
}
