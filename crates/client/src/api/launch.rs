//! Launches (the manual's "Execution Control"): the hot path.

use crate::attach::Attached;
use crate::boundary::{In, Out};
use crate::graphs::ClientGraphs;
use crate::hostfunc::HostFunction;
use crate::mode;
use crate::state::{Function, wire_function};
use crate::threads::DefaultStream;
use channel::request::{
    CountClusters, LAUNCH_COOPERATIVE, LAUNCH_PROGRAMMATIC, LargestCluster, LaunchKernel,
    cluster_flags, cluster_of,
};
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::attributes as attribute;
use cuda_api::constants::{function_attribute, launch_attribute};
use cuda_api::{
    CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUevent, CUfunction, CUhostFn, CUlaunchAttribute,
    CUlaunchConfig, CUresult, CUstream, CudaError,
};
use graph::{HostNode, NodeKind};

/// Largest number of launch attributes read: there are 17 kinds.
const ATTRIBUTES_MAX: usize = 64;

/// What a launch asks for.
struct Geometry {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
}

impl Geometry {
    fn of(config: &CUlaunchConfig) -> Self {
        Self {
            grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
            block: [config.blockDimX, config.blockDimY, config.blockDimZ],
            shared_bytes: config.sharedMemBytes,
        }
    }
}

/// Checks a launch against the device's and the function's limits, as a driver does before it
/// accepts one.
#[inline]
fn check(client: &Attached, function: &Function, geometry: &Geometry) -> CUresult {
    // All devices of one context's process are equal here: the limits are those of the first.
    let device = client.devices().first().ok_or(CudaError::NO_DEVICE)?;
    let limit = |number: u32| device.attributes[number as usize] as c_uint;
    let own = |number: u32| function.attributes[number as usize];
    let limits = [
        (geometry.grid[0], attribute::MAX_GRID_DIM_X),
        (geometry.grid[1], attribute::MAX_GRID_DIM_Y),
        (geometry.grid[2], attribute::MAX_GRID_DIM_Z),
        (geometry.block[0], attribute::MAX_BLOCK_DIM_X),
        (geometry.block[1], attribute::MAX_BLOCK_DIM_Y),
        (geometry.block[2], attribute::MAX_BLOCK_DIM_Z),
    ];
    if limits.into_iter().any(|(value, number)| value == 0 || value > limit(number)) {
        return Err(CudaError::INVALID_VALUE);
    }
    let threads = geometry.block.iter().map(|n| u64::from(*n)).product::<u64>();
    if threads > u64::from(limit(attribute::MAX_THREADS_PER_BLOCK)) {
        return Err(CudaError::INVALID_VALUE);
    }
    if threads > own(function_attribute::MAX_THREADS_PER_BLOCK).max(0) as u64 {
        // Either registers are short or the program itself said that fewer are the most.
        let registers = threads * own(function_attribute::NUM_REGS).max(0) as u64;
        return Err(match registers > u64::from(limit(attribute::MAX_REGISTERS_PER_BLOCK)) {
            true => CudaError::LAUNCH_OUT_OF_RESOURCES,
            false => CudaError::INVALID_VALUE,
        });
    }
    let shared_max = own(function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES).max(0) as c_uint;
    match geometry.shared_bytes <= shared_max {
        true => Ok(()),
        false => Err(CudaError::INVALID_VALUE),
    }
}

#[inline(always)]
fn launch(
    function: CUfunction,
    geometry: &Geometry,
    stream: CUstream,
    default: DefaultStream,
    flags: u32,
    kernel_params: Out<*mut c_void>,
    extra: Out<*mut c_void>,
) -> CUresult {
    let client = mode::client()?;
    // A thread's own stream is made here if need be, which must not happen under the lock; a
    // stream of the program's is looked up under the lock that the launch takes anyway.
    let literal = match stream {
        CUstream::NULL | CU_STREAM_LEGACY | CU_STREAM_PER_THREAD => {
            Some(client.stream(stream, default)?)
        }
        _ => None,
    };
    client.state().launch(function.0, stream, literal, |function, params| {
        check(client, function, geometry)?;
        let bytes = function.layout.fill(kernel_params, extra, params)?;
        Ok(LaunchKernel {
            // Filled in by whoever has looked them up.
            function: CUfunction::NULL,
            stream: CUstream::NULL,
            grid: geometry.grid,
            block: geometry.block,
            shared_bytes: geometry.shared_bytes,
            flags,
            parameters: &params[..bytes],
        })
    })
}

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
    if mode::attached()?.graphs.capturing() {
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
    launch(function, &geometry, stream, default, 0, kernel_params, extra)
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
    if mode::attached()?.graphs.capturing() {
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
    check_cooperative(function, &geometry)?;
    launch(function, &geometry, stream, default, LAUNCH_COOPERATIVE, kernel_params, Out::null())
}

/// True if a launch was captured.
#[cold]
fn captured(
    default: DefaultStream,
    function: CUfunction,
    config: &CUlaunchConfig,
    kernel_params: Out<*mut c_void>,
    extra: Out<*mut c_void>,
) -> Result<bool, CudaError> {
    let client = mode::client()?;
    let (graphs, per_thread) = (ClientGraphs(client), default == DefaultStream::PerThread);
    graph::capture_launch(graphs, per_thread, function, config, kernel_params, extra)
}

/// All blocks of a cooperative launch must be resident at once. CUDA_ERROR_NOT_SUPPORTED if the
/// device has no such launches, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE if there is no room.
fn check_cooperative(function: CUfunction, geometry: &Geometry) -> CUresult {
    let client = mode::client()?;
    let device = client.devices().first().ok_or(CudaError::NO_DEVICE)?;
    if device.attributes[attribute::COOPERATIVE_LAUNCH as usize] == 0 {
        return Err(CudaError::NOT_SUPPORTED);
    }
    check(client, client.state().function(function.0)?.1, geometry)?;
    let threads = geometry.block.iter().product::<c_uint>() as c_int;
    let shared = geometry.shared_bytes as usize;
    let fitting = super::occupancy::blocks_per_sm(client, function, threads, shared, 0)?;
    let room =
        i64::from(fitting) * i64::from(device.attributes[attribute::MULTIPROCESSOR_COUNT as usize]);
    let blocks = geometry.grid.iter().map(|n| u64::from(*n)).product::<u64>();
    match blocks <= room.max(0) as u64 {
        true => Ok(()),
        false => Err(CudaError::COOPERATIVE_LAUNCH_TOO_LARGE),
    }
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
    let client = mode::attached()?;
    events.iter().try_for_each(|event| client.state().events.lookup(event.0).map(|_| ()))?;
    if !client.graphs.capturing() || !captured(default, function, &config, kernel_params, extra)? {
        let (flags, geometry) = (launch_flags(&config)?, Geometry::of(&config));
        check_flags(function, &geometry, flags)?;
        launch(function, &geometry, config.stream, default, flags, kernel_params, extra)?;
    }
    let mut events = events.into_iter();
    events.try_for_each(|event| super::event::cuEventRecord(default, event, config.stream))
}

/// Attributes of a launch.
fn attributes_of(
    config: &CUlaunchConfig,
) -> Result<impl Iterator<Item = Result<CUlaunchAttribute, CudaError>>, CudaError> {
    let count = config.numAttrs as usize;
    if count > ATTRIBUTES_MAX {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the program's configuration says that there are that many attributes.
    let attributes: Out<CUlaunchAttribute> =
        unsafe { crate::boundary::FromProgram::believe(config.attrs) };
    Ok((0..count).map(move |index| attributes.as_in().at(index)))
}

/// Events that a launch's attributes want recorded.
fn events_of(config: &CUlaunchConfig) -> Result<Vec<CUevent>, CudaError> {
    attributes_of(config)?.filter_map(|a| a.map(|a| a.event()).transpose()).collect()
}

/// Checks what a launch's flags ask for. A cluster's blocks are the device's to count.
fn check_flags(function: CUfunction, geometry: &Geometry, flags: u32) -> CUresult {
    match flags & LAUNCH_COOPERATIVE != 0 && cluster_of(flags).is_none() {
        true => check_cooperative(function, geometry),
        false => Ok(()),
    }
}

/// Checks a launch as a driver does before it accepts one.
pub(crate) fn check_launch(
    client: &Attached,
    function: CUfunction,
    config: &CUlaunchConfig,
) -> CUresult {
    let (flags, geometry) = (launch_flags(config)?, Geometry::of(config));
    check(client, client.state().function(function.0)?.1, &geometry)?;
    check_flags(function, &geometry, flags)
}

/// What a launch's attributes ask for. Hints are ignored, as they may be; CUDA_ERROR_NOT_SUPPORTED
/// for what would change the result.
pub(crate) fn launch_flags(config: &CUlaunchConfig) -> Result<u32, CudaError> {
    use launch_attribute::*;
    let mut flags = 0;
    for attribute in attributes_of(config)? {
        let attribute = attribute?;
        let word = |i: usize| {
            let bytes = &attribute.value[4 * i..4 * i + 4];
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        match attribute.id {
            IGNORE
            | ACCESS_POLICY_WINDOW
            | SYNCHRONIZATION_POLICY
            | CLUSTER_SCHEDULING_POLICY_PREFERENCE
            | PRIORITY
            | MEM_SYNC_DOMAIN_MAP
            | MEM_SYNC_DOMAIN
            | PREFERRED_CLUSTER_DIMENSION
            | PREFERRED_SHARED_MEMORY_CARVEOUT
            // Recorded by the call itself.
            | PROGRAMMATIC_EVENT
            | LAUNCH_COMPLETION_EVENT
            | NVLINK_UTIL_CENTRIC_SCHEDULING => {}
            COOPERATIVE if word(0) == 0 => {}
            COOPERATIVE => flags |= LAUNCH_COOPERATIVE,
            PROGRAMMATIC_STREAM_SERIALIZATION if word(0) == 0 => {}
            PROGRAMMATIC_STREAM_SERIALIZATION => flags |= LAUNCH_PROGRAMMATIC,
            CLUSTER_DIMENSION => {
                let cluster = [word(0), word(1), word(2)];
                flags |= cluster_flags(cluster).ok_or(CudaError::INVALID_CLUSTER_SIZE)?;
            }
            _ => return Err(CudaError::NOT_SUPPORTED),
        }
    }
    Ok(flags)
}

/// A question about a launch, which the server answers. The configuration's grid may be anything
/// that has a whole number of clusters.
fn about_clusters(
    client: &Attached,
    function: CUfunction,
    config: In<CUlaunchConfig>,
) -> Result<CountClusters, CudaError> {
    let config = config.get()?;
    let flags = launch_flags(&config)?;
    let handle = client.state().function(function.0)?.0;
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
    let client = mode::client()?;
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
