//! Conditional nodes on another device: a graph of the first device's with a choice, a switch and a loop whose
//! conditions and bodies are the last one's, launched in a stream of the first one's.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::ptr::{from_mut, null, null_mut};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, DriverError, sys,
};
use cudarc::nvrtc::Ptx;
use samples::driver::{self, Graph};
use samples::gpu::{blank, failed, function, require_driver};
use sys::CUgraphConditionalNodeType::{
    CU_GRAPH_COND_TYPE_IF, CU_GRAPH_COND_TYPE_SWITCH, CU_GRAPH_COND_TYPE_WHILE,
};

/// What is done anew at each launch, and how often the loop goes round.
const LAUNCHES: u32 = 3;
const ROUNDS: u32 = 5;

/// Adds to a word.
const ADD: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 word, .param .u64 value)
{
    .reg .b64 %w, %v; .reg .b32 %r;
    ld.param.u64 %w, [word]; ld.param.u64 %v, [value];
    cvta.to.global.u64 %w, %w; cvt.u32.u64 %r, %v;
    red.global.add.u32 [%w], %r;
    ret;
}
";

/// Takes 1 from a word, which becomes the condition.
const COUNT_DOWN: &str = "
.version 7.0
.target sm_80
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry count_down(.param .u64 condition, .param .u64 word)
{
    .reg .b64 %c, %w; .reg .b32 %r;
    ld.param.u64 %c, [condition]; ld.param.u64 %w, [word];
    cvta.to.global.u64 %w, %w;
    ld.global.u32 %r, [%w]; sub.u32 %r, %r, 1; st.global.u32 [%w], %r;
    {
        .param .b64 p0; .param .b32 p1;
        st.param.b64 [p0], %c; st.param.b32 [p1], %r;
        call.uni cudaGraphSetConditional, (p0, p1);
    }
    ret;
}
";

#[derive(Parser)]
#[command(about = "Conditional nodes of graphs on another device")]
struct Words {
    /// Also a loop, whose kernel sets its condition: the driver must bring CUDA's device runtime, as the
    /// software GPU does, for code that was not linked with it
    #[arg(long = "loop")]
    with_loop: bool,
}

fn done(result: sys::CUresult) -> Result<()> {
    result.result().map_err(|error: DriverError| failed(error))
}

/// One device and its words.
struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    add: CudaFunction,
    words: CudaSlice<u32>,
}

impl Device {
    fn new(ordinal: usize) -> Result<Self> {
        let context = CudaContext::new(ordinal).map_err(failed)?;
        let stream = context.new_stream().map_err(failed)?;
        let module = context.load_module(Ptx::from_src(ADD)).map_err(failed)?;
        let words = stream.alloc_zeros(4).map_err(failed)?;
        stream.synchronize().map_err(failed)?;
        Ok(Self { add: function(&module, "add")?, context, stream, words })
    }

    fn word(&self, index: u64) -> u64 {
        self.words.device_ptr(&self.stream).0 + 4 * index
    }

    fn read(&self) -> Result<Vec<u32>> {
        self.context.bind_to_thread().map_err(failed)?;
        let found = self.stream.clone_dtoh(&self.words).map_err(failed)?;
        self.stream.synchronize().map_err(failed)?;
        Ok(found)
    }
}

fn node(
    graph: &Graph,
    after: &[sys::CUgraphNode],
    mut params: sys::CUgraphNodeParams,
) -> Result<(sys::CUgraphNode, sys::CUgraphNodeParams)> {
    let mut node = null_mut();
    // SAFETY: the lists hold what is said; the driver copies the parameters and fills in what it makes.
    done(unsafe {
        let (from, count) = (after.as_ptr(), after.len());
        sys::cuGraphAddNode_v2(&mut node, graph.raw(), from, null(), count, &mut params)
    })?;
    Ok((node, params))
}

/// One thread of a kernel with two parameters of 64 bits.
fn kernel(
    graph: &Graph,
    after: &[sys::CUgraphNode],
    device: &Device,
    function: &CudaFunction,
    mut parameters: [u64; 2],
) -> Result<sys::CUgraphNode> {
    device.context.bind_to_thread().map_err(failed)?;
    let mut pointers = parameters.each_mut().map(|p| from_mut(p).cast::<c_void>());
    let mut params: sys::CUgraphNodeParams = blank();
    params.type_ = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL;
    let mut kernel: sys::CUDA_KERNEL_NODE_PARAMS_v3 = blank();
    kernel.func = function.cu_function();
    (kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ) = (1, 1, 1);
    (kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ) = (1, 1, 1);
    kernel.kernelParams = pointers.as_mut_ptr();
    kernel.ctx = device.context.cu_ctx();
    params.__bindgen_anon_1.kernel = kernel;
    node(graph, after, params).map(|(node, _)| node)
}

/// A condition of a device's.
fn condition(graph: &Graph, device: &Device, default: u32) -> Result<u64> {
    let (mut handle, assign) = (0, 1);
    driver::cuGraphConditionalHandleCreate(&mut handle, graph, &device.context, default, assign)?;
    Ok(handle)
}

/// A conditional node on a device, and its bodies.
fn conditional(
    graph: &Graph,
    after: &[sys::CUgraphNode],
    device: &Device,
    kind: sys::CUgraphConditionalNodeType,
    (handle, size): (u64, u32),
) -> Result<(sys::CUgraphNode, Vec<ManuallyDrop<Graph>>)> {
    let mut params: sys::CUgraphNodeParams = blank();
    params.type_ = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
    let (none, ctx) = (null_mut(), device.context.cu_ctx());
    params.__bindgen_anon_1.conditional =
        sys::CUDA_CONDITIONAL_NODE_PARAMS { handle, type_: kind, size, phGraph_out: none, ctx };
    let (node, params) = node(graph, after, params)?;
    // SAFETY: the driver has filled in a list of so many graphs, which lives as long as the node.
    let bodies = unsafe {
        let list = params.__bindgen_anon_1.conditional.phGraph_out;
        let list = std::slice::from_raw_parts(list, size as usize);
        list.iter().map(|body| Graph::borrowed(*body)).collect()
    };
    Ok((node, bodies))
}

/// Kernels of the first device around conditional nodes of the other one.
fn across(first: &Device, other: &Device, with_loop: bool) -> Result<()> {
    let graph = Graph::new()?;
    let before = kernel(&graph, &[], first, &first.add, [first.word(0), 1])?;
    let choice = condition(&graph, other, 0)?;
    let kind = CU_GRAPH_COND_TYPE_IF;
    let (chosen, bodies) = conditional(&graph, &[before], other, kind, (choice, 2))?;
    kernel(&bodies[0], &[], other, &other.add, [other.word(0), 1])?;
    kernel(&bodies[1], &[], other, &other.add, [other.word(0), 100])?;
    let case = condition(&graph, other, 2)?;
    let kind = CU_GRAPH_COND_TYPE_SWITCH;
    let (switched, bodies) = conditional(&graph, &[chosen], other, kind, (case, 3))?;
    for (body, value) in bodies.iter().zip([1, 2, 4]) {
        // A choice within a choice.
        let inner = condition(&graph, other, 1)?;
        let after = kernel(body, &[], other, &other.add, [other.word(1), value])?;
        let kind = CU_GRAPH_COND_TYPE_IF;
        let (_, inner) = conditional(body, &[after], other, kind, (inner, 1))?;
        kernel(&inner[0], &[], other, &other.add, [other.word(1), 10 * value])?;
    }
    let mut last = switched;
    let module;
    if with_loop {
        other.context.bind_to_thread().map_err(failed)?;
        module = other.context.load_module(Ptx::from_src(COUNT_DOWN)).map_err(failed)?;
        let count_down = function(&module, "count_down")?;
        let again = condition(&graph, other, 1)?;
        let fill = kernel(&graph, &[last], other, &other.add, [other.word(2), u64::from(ROUNDS)])?;
        let kind = CU_GRAPH_COND_TYPE_WHILE;
        let (node, bodies) = conditional(&graph, &[fill], other, kind, (again, 1))?;
        let round = kernel(&bodies[0], &[], other, &other.add, [other.word(3), 1])?;
        kernel(&bodies[0], &[round], other, &count_down, [again, other.word(2)])?;
        last = node;
    }
    kernel(&graph, &[last], first, &first.add, [first.word(1), 1])?;
    first.context.bind_to_thread().map_err(failed)?;
    let exec = graph.instantiate();
    let exec = exec.context("a graph with conditional nodes of another device")?;
    for _ in 0..LAUNCHES {
        exec.launch(&first.stream)?;
    }
    first.stream.synchronize().map_err(failed)?;
    let (home, there) = (first.read()?, other.read()?);
    ensure!(home[..2] == [LAUNCHES, LAUNCHES], "the first device has {home:?}");
    let rounds = if with_loop { ROUNDS * LAUNCHES } else { 0 };
    let expected = [100 * LAUNCHES, 44 * LAUNCHES, 0, rounds];
    ensure!(there == expected, "the other device has {there:?}, not {expected:?}");
    Ok(())
}

/// All kernels of a body are on the condition's device.
fn mixed(first: &Device, other: &Device) -> Result<()> {
    let graph = Graph::new()?;
    let choice = condition(&graph, other, 1)?;
    let kind = CU_GRAPH_COND_TYPE_IF;
    let (_, bodies) = conditional(&graph, &[], other, kind, (choice, 1))?;
    let added = kernel(&bodies[0], &[], first, &first.add, [first.word(0), 1]);
    let refused = match added {
        // A driver may look at it as soon as it is there.
        Err(_) => true,
        Ok(_) => graph
            .instantiate()
            .is_err_and(|error| error.code == sys::CUresult::CUDA_ERROR_INVALID_VALUE),
    };
    ensure!(refused, "a body with a kernel of another device than its condition's");
    Ok(())
}

fn run(words: &Words) -> Result<()> {
    require_driver();
    let count = CudaContext::device_count().map_err(failed)? as usize;
    ensure!(count > 1, "this needs two devices");
    let (first, other) = (Device::new(0)?, Device::new(count - 1)?);
    across(&first, &other, words.with_loop)?;
    mixed(&first, &other)?;
    println!("conditional nodes of device {} ok", count - 1);
    Ok(())
}

fn main() -> ExitCode {
    match run(&Words::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("device_graphs: {error:#}");
            ExitCode::FAILURE
        }
    }
}
