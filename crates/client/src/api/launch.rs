//! Launches (the manual's "Execution Control"): the hot path.

use crate::boundary::{In, Out};
use crate::graph::backend::ClientGraphs;
use crate::graph::backend::graphs;
use crate::program::Client;
use crate::program::launch::submission::wire_function;
use crate::program::launch::{
    Geometry, Launch, check_cooperative, check_flags, events_of, launch_flags,
};
use crate::program::mode;
use crate::program::streams::host_functions::HostFunction;
use crate::stream::DefaultStream;
use channel::request::{CountClusters, LAUNCH_COOPERATIVE, LargestCluster};
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::constants::launch_attribute;
use cuda_api::{
    CUfunction, CUhostFn, CUlaunchAttribute, CUlaunchConfig, CUresult, CUstream, CudaError,
};
use graph::{HostNode, NodeKind};

#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
#[inline(always)]
pub(crate) fn cuLaunchKernel(
    default: DefaultStream,
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    kernel_params: Out<*mut c_void>,
    extra: Out<*mut c_void>,
) -> CUresult {
    if graphs().capturing() {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let config = CUlaunchConfig::plain(grid, block, shared_bytes, stream);
        if captured(default, function, &config, kernel_params, extra)? {
            return Ok(());
        }
    }
    let geometry = Geometry {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        shared_bytes,
    };
    let geometry = &geometry;
    let launch = Launch { function, geometry, stream, default, flags: 0, kernel_params, extra };
    mode::client_of(stream.0)?.launch(&launch)
}

#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
pub(crate) fn cuLaunchCooperativeKernel(
    default: DefaultStream,
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    kernel_params: Out<*mut c_void>,
) -> CUresult {
    if graphs().capturing() {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let mut cooperative = CUlaunchAttribute::number(launch_attribute::COOPERATIVE, 1);
        let mut config = CUlaunchConfig::plain(grid, block, shared_bytes, stream);
        (config.attrs, config.numAttrs) = (&mut cooperative, 1);
        if captured(default, function, &config, kernel_params, Out::null())? {
            return Ok(());
        }
    }
    let geometry = Geometry {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        shared_bytes,
    };
    let client = mode::client_of(stream.0)?;
    check_cooperative(client, client.function_here(function)?, &geometry)?;
    let (geometry, flags, extra) = (&geometry, LAUNCH_COOPERATIVE, Out::null());
    client.launch(&Launch { function, geometry, stream, default, flags, kernel_params, extra })
}

/// True if a launch was captured, with the events that it asks for.
#[cold]
fn captured(
    default: DefaultStream,
    function: CUfunction,
    config: &CUlaunchConfig,
    kernel_params: Out<*mut c_void>,
    extra: Out<*mut c_void>,
) -> Result<bool, CudaError> {
    let client = mode::client_of(config.stream.0)?;
    let function = client.function_here(function)?;
    let (graphs, per_thread) = (ClientGraphs(client), default == DefaultStream::PerThread);
    graph::capture_launch(graphs, per_thread, function, config, kernel_params, extra)
}

pub(crate) fn cuLaunchKernelEx(
    default: DefaultStream,
    config: In<CUlaunchConfig>,
    function: CUfunction,
    kernel_params: Out<*mut c_void>,
    extra: Out<*mut c_void>,
) -> CUresult {
    let config = config.get()?;
    let events = events_of(&config)?;
    let client = mode::client_of(config.stream.0)?;
    let function = client.function_here(function)?;
    events.iter().try_for_each(|event| client.state().events.lookup(event.0).map(|_| ()))?;
    if graphs().capturing() && captured(default, function, &config, kernel_params, extra)? {
        return Ok(());
    }
    let (flags, geometry) = (launch_flags(client, &config)?, Geometry::of(&config));
    check_flags(client, function, &geometry, flags)?;
    let (geometry, stream) = (&geometry, config.stream);
    client.launch(&Launch { function, geometry, stream, default, flags, kernel_params, extra })?;
    let mut events = events.into_iter();
    events.try_for_each(|event| super::event::cuEventRecord(default, event, config.stream))
}

/// A question about a launch, which the server answers. The configuration's grid may be anything
/// that has a whole number of clusters.
fn about_clusters(
    client: &Client,
    function: CUfunction,
    config: In<CUlaunchConfig>,
) -> Result<CountClusters, CudaError> {
    let config = config.get()?;
    let flags = launch_flags(client, &config)?;
    // Before the short lock is taken: it may load the library here.
    let here = client.function_here(function)?;
    let handle = client.state().function(here.0)?.0;
    Ok(CountClusters {
        function: wire_function(handle),
        grid_x: config.gridDimX,
        grid_y: config.gridDimY,
        grid_z: config.gridDimZ,
        block_x: config.blockDimX,
        block_y: config.blockDimY,
        block_z: config.blockDimZ,
        shared_bytes: config.sharedMemBytes,
        flags,
    })
}

pub(crate) fn cuOccupancyMaxActiveClusters(
    clusters: Out<c_int>,
    function: CUfunction,
    config: In<CUlaunchConfig>,
) -> CUresult {
    let (client, _) = mode::enter()?;
    clusters.required()?;
    let answer = client.call(&about_clusters(client, function, config)?)?;
    clusters.set(answer.clusters)
}

pub(crate) fn cuOccupancyMaxPotentialClusterSize(
    blocks: Out<c_int>,
    function: CUfunction,
    config: In<CUlaunchConfig>,
) -> CUresult {
    let (client, _) = mode::enter()?;
    blocks.required()?;
    let answer = client.call(&LargestCluster(about_clusters(client, function, config)?))?;
    blocks.set(answer.clusters)
}

pub(crate) fn cuLaunchHostFunc(
    default: DefaultStream,
    stream: CUstream,
    function: CUhostFn,
    user_data: Out<c_void>,
) -> CUresult {
    let client = mode::client_of(stream.0)?;
    if function.is_none() {
        return Err(CudaError::INVALID_VALUE);
    }
    let stream = client.stream(stream, default)?;
    let user_data = user_data.address() as usize;
    if client.captured(stream, || Ok(NodeKind::Host(HostNode { function, user_data })))? {
        return Ok(());
    }
    client.post_host_function(stream, HostFunction::Plain { function, user_data })
}
