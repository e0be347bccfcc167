//! Launches made ready: a kernel with its grid, parameters and SMs, checked against what an SM has.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuda_api::constants::{launch_attribute, launch_param, limit};
use cuda_api::limits::Limits;
use cuda_api::pointer::{In, Out};
use cuda_api::*;

use super::children::Nesting;
use super::function::Function;
use super::{Driver, thread};
use crate::device::Device;
use crate::device::execution::grid::{Followers, KernelOp, SmMask};
use crate::device::limits::*;
use crate::device::memory::AllocationKind;
use crate::device::occupancy::BlockNeed;
use crate::device::settings::Settings;
use crate::device::slab::Key;
use crate::device::stream::{Op, Stream};
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};
use graph::KernelNode;
use simt::kernel::{DeviceRuntime, Dim3, Kernel, Launch};

/// The last CU_CLUSTER_SCHEDULING_POLICY.
const CLUSTER_SCHEDULING_LAST: i32 = 2;
/// What parameters of basic types are aligned to at most, bytes.
const PARAM_ALIGNMENT_MAX: usize = 8;
/// Entries of cuLaunchKernel's `extra` list: two pairs and the end.
const EXTRA_ENTRIES_MAX: usize = 16;

/// A cooperative grid's workspace: the size of the whole, then the barrier that cooperative groups
/// count in. Cache lines of its own.
const WORKSPACE_BYTES: u64 = 512;

/// What a launch asks for beside its parameters.
#[derive(Clone)]
struct Request {
    grid: Dim3,
    block: Dim3,
    dynamic_shared: u32,
    cooperative: bool,
    /// Blocks of a cluster, if the launch itself says.
    cluster: Option<Dim3>,
    priority: Option<i32>,
}

impl Request {
    fn new(grid: [u32; 3], block: [u32; 3], dynamic_shared: u32) -> Self {
        let (grid, block) = (dim(grid), dim(block));
        Self { grid, block, dynamic_shared, cooperative: false, cluster: None, priority: None }
    }

    /// Checks the request against the limits of the device and of the function. Gives what a block
    /// needs, and how many are resident at once on each SM.
    fn check(&self, function: &Function, settings: &Settings) -> Result<(BlockNeed, u32)> {
        let within = |dim: Dim3, max: [u32; 3]| {
            [dim.x, dim.y, dim.z].iter().zip(max).all(|(n, max)| (1..=max).contains(n))
        };
        let info = function.info();
        let threads = self.block.count();
        if !within(self.grid, GRID_DIM_MAX)
            || !within(self.block, BLOCK_DIM_MAX)
            || threads > THREADS_PER_BLOCK_MAX.into()
            || self.dynamic_shared > function.chosen().dynamic_shared_max
        {
            return Err(Error::INVALID_VALUE);
        }
        let threads = threads as u32;
        if info.required_block.is_some_and(|required| required != self.block) {
            return Err(Error::INVALID_VALUE);
        }
        // What the program itself said is the most; what registers allow is looked at below.
        if threads > info.max_threads_per_block {
            return Err(Error::INVALID_VALUE);
        }
        let cluster = self.cluster(function)?.map_or(1, Dim3::count) as u32;
        let blocks = self.blocks_per_sm(function, settings);
        let at_once = self.resident(blocks, settings, cluster);
        if at_once == 0 {
            return Err(Error::LAUNCH_OUT_OF_RESOURCES);
        }
        if self.cooperative && self.grid.count() / u64::from(cluster) > u64::from(at_once) {
            return Err(Error::COOPERATIVE_LAUNCH_TOO_LARGE);
        }
        Ok((
            settings.capability.block(&function.need_for(threads), threads, self.dynamic_shared),
            blocks,
        ))
    }

    /// How many clusters are resident at once, or blocks if a cluster is one, of which there are so
    /// many on each SM.
    fn resident(&self, blocks: u32, settings: &Settings, cluster: u32) -> u32 {
        match cluster {
            1 if self.cluster.is_none() => blocks * settings.sms,
            _ => settings.clusters(blocks, cluster),
        }
    }

    /// How many blocks are resident at once on each SM.
    fn blocks_per_sm(&self, function: &Function, settings: &Settings) -> u32 {
        let threads = self.block.count() as u32;
        settings.capability.resident(&function.need_for(threads), threads, self.dynamic_shared).0
    }

    /// Blocks of a cluster, as the launch or the function says; checked.
    fn cluster(&self, function: &Function) -> Result<Option<Dim3>> {
        let info = function.info();
        let required = function.required_cluster();
        let Some(cluster) = self.cluster.or(required) else {
            return match info.cluster_must_be_set {
                true => Err(Error::INVALID_CLUSTER_SIZE),
                false => Ok(None),
            };
        };
        let divides = |grid: u32, of: u32| of > 0 && grid.is_multiple_of(of);
        let good = divides(self.grid.x, cluster.x)
            && divides(self.grid.y, cluster.y)
            && divides(self.grid.z, cluster.z)
            && cluster.count() <= function.cluster_blocks_max().into()
            && required.is_none_or(|required| required == cluster);
        if good { Ok(Some(cluster)) } else { Err(Error::INVALID_CLUSTER_SIZE) }
    }
}

/// A launch that was found good, for any stream.
#[derive(Clone)]
pub(crate) struct Prepared {
    kernel: Arc<dyn Kernel>,
    request: Request,
    need: BlockNeed,
    blocks_per_sm: u32,
    params: Box<[u8]>,
    /// The context's limit.
    stack_bytes: u32,
    /// If the kernel may ask the device for something.
    nesting: Option<Nesting>,
    /// SMs for its blocks, if they are not the stream's.
    sms: Option<SmMask>,
}

impl Prepared {
    /// On those SMs, regardless of the stream that it is put into.
    ///
    /// # Errors
    /// As of [`Prepared::submit`] in a stream on them.
    pub(super) fn on_sms(self, device: &Device, sms: SmMask) -> Result<Self> {
        self.check_room(sms.as_ref().map_or(device.settings.sms, |sms| sms.len() as u32))?;
        Ok(Self { sms: Some(sms), ..self })
    }

    /// Whether so many SMs have room for what must be there at once.
    fn check_room(&self, sms: u32) -> Result {
        let blocks = u64::from(self.blocks_per_sm) * u64::from(sms);
        if self.request.cluster.is_some_and(|cluster| cluster.count() > blocks) {
            return Err(Error::INVALID_CLUSTER_SIZE);
        }
        match self.request.cooperative && self.request.grid.count() > blocks {
            true => Err(Error::COOPERATIVE_LAUNCH_TOO_LARGE),
            false => Ok(()),
        }
    }

    /// Puts the launch into a stream.
    ///
    /// # Errors
    /// CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE if its blocks wait for each other and the stream's SMs,
    /// a green context's few perhaps, have no room for all; CUDA_ERROR_INVALID_CLUSTER_SIZE if they
    /// have no room for a cluster.
    pub(crate) fn submit(self, driver: &Driver, stream: Key<Stream>) -> Result {
        let tenant = driver.working_tenant()?;
        self.submit_as(driver, &tenant, stream)
    }

    /// As [`Prepared::submit`], in a stream of that tenant.
    pub(super) fn submit_as(
        self,
        driver: &Driver,
        tenant: &Arc<Tenant>,
        stream: Key<Stream>,
    ) -> Result {
        if self.sms.is_none() && (self.request.cluster.is_some() || self.request.cooperative) {
            self.check_room(driver.device.stream_sms(stream)?)?;
        }
        let workspace = match self.request.cooperative {
            true => driver.new_workspace(tenant)?,
            false => 0,
        };
        let op = self.into_op(&driver.device, tenant, workspace);
        let launched = driver.device.enqueue(stream, op).map(|_| ());
        if workspace != 0 {
            driver.free_workspace_in(stream, workspace, launched.is_ok());
        }
        launched
    }

    /// True if its blocks meet in memory that each launch needs anew.
    pub(super) fn is_cooperative(&self) -> bool {
        self.request.cooperative
    }

    /// The launch as an operation of a stream of that tenant, with code for its shape.
    pub(super) fn into_op(self, device: &Device, tenant: &Arc<Tenant>, workspace: u64) -> Op {
        let op = self.into_kernel_op(device, tenant, workspace);
        // Here, and not where blocks run: who compiles there delays others, and does not hear
        // that its kernel is to end.
        op.kernel.prepare(&op.launch);
        Op::Kernel(Box::new(op))
    }

    /// The same without code for its shape yet.
    pub(super) fn into_kernel_op(
        self,
        device: &Device,
        tenant: &Arc<Tenant>,
        workspace: u64,
    ) -> KernelOp {
        let children = self.nesting.map(|nesting| nesting.begin(tenant));
        let launch = Launch {
            grid_id: device.next_grid_id(),
            workspace,
            grid: self.request.grid,
            block: self.request.block,
            cluster: self.request.cluster,
            dynamic_shared_bytes: self.request.dynamic_shared,
            stack_bytes: self.stack_bytes,
            warps_per_sm: device.settings.capability.warps,
            params: self.params,
            printf: tenant.printf.clone(),
            device: children.clone().map(|children| children as Arc<dyn DeviceRuntime>),
        };
        KernelOp {
            kernel: self.kernel,
            launch: Arc::new(launch),
            need: self.need,
            priority: self.request.priority,
            followers: children.map(|children| children as Arc<dyn Followers>),
            sms: self.sms.map(|sms| device.sms_of(tenant, sms)),
            submitted_ns: 0,
        }
    }
}

impl Driver {
    /// Checks a launch; `params` has the function's parameters put together.
    pub(crate) fn prepare(
        &'static self,
        function: CUfunction,
        config: &CUlaunchConfig,
        params: impl FnOnce(&Function) -> Result<Box<[u8]>>,
    ) -> Result<Prepared> {
        let function = self.function(function)?;
        let nesting = function.calls_device.then(|| Nesting::of(self, function.module)).flatten();
        self.prepare_function(&function, config, params, nesting)
    }

    /// Checks a launch by a kernel of the same module.
    pub(super) fn prepare_child(
        &self,
        function: CUfunction,
        config: &CUlaunchConfig,
        params: Box<[u8]>,
        nesting: &Nesting,
    ) -> Result<Prepared> {
        let function = self.function(function)?;
        self.prepare_function(&function, config, |_| Ok(params), Some(nesting.clone()))
    }

    fn prepare_function(
        &self,
        function: &Function,
        config: &CUlaunchConfig,
        params: impl FnOnce(&Function) -> Result<Box<[u8]>>,
        nesting: Option<Nesting>,
    ) -> Result<Prepared> {
        let mut request = read_config(config)?;
        let (need, blocks_per_sm) = request.check(function, &self.device.settings)?;
        request.cluster = request.cluster(function)?;
        let (params, kernel) = (params(function)?, function.kernel.clone());
        let stack_bytes = match &nesting {
            Some(nesting) => nesting.limit(limit::STACK_SIZE),
            None => match self.tenant().stack_bytes.load(Ordering::Relaxed) {
                // A stream's handle says enough: no context need be current.
                0 => match thread::current() {
                    Ok(context) => context.limits().get(limit::STACK_SIZE)?,
                    Err(_) => Limits::default().get(limit::STACK_SIZE)?,
                },
                own => own as usize,
            },
        };
        let stack_bytes = u32::try_from(stack_bytes).unwrap_or(u32::MAX);
        Ok(Prepared {
            kernel,
            request,
            need,
            blocks_per_sm,
            params,
            stack_bytes,
            nesting,
            sms: None,
        })
    }

    /// Memory in which the blocks of a cooperative grid meet, zeroed.
    fn new_workspace(&self, tenant: &Arc<Tenant>) -> Result<u64> {
        let kind = AllocationKind::Module { writable: true };
        let address = self.device.allocate(tenant, 0, WORKSPACE_BYTES, 1, kind)?;
        tenant.space.clear(address, WORKSPACE_BYTES);
        Ok(address)
    }

    /// Frees a workspace behind the kernel that uses it, or at once if there is none.
    fn free_workspace_in(&self, stream: Key<Stream>, workspace: u64, launched: bool) {
        let device = self.device.clone();
        let free = move || {
            // It was allocated for one launch, and no other code knows its address.
            let _ = device.free(workspace, |_| true);
        };
        match launched {
            true => {
                // A stream that is gone was cancelled with its kernel; the memory is its tenant's
                // to the end.
                let _ = self.device.enqueue(stream, Op::Internal(Box::new(free)));
            }
            false => free(),
        }
    }
}

/// Gathers a launch's parameters into one buffer.
pub(super) fn read_parameters(
    function: &Function,
    params: Out<*mut std::ffi::c_void>,
    extra: Out<*mut std::ffi::c_void>,
) -> Result<Box<[u8]>> {
    let info = function.info();
    if !extra.is_null() {
        if !params.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        return read_buffer(info.param_bytes as usize, extra);
    }
    let mut buffer = vec![0u8; info.param_bytes as usize].into_boxed_slice();
    for (index, param) in info.params.iter().enumerate() {
        // A pointer for each parameter of the function, to a value of the parameter's size.
        let from = params.as_in().array(info.params.len()).follow(index)?.cast::<u8>().as_in();
        let (start, bytes) = (param.offset as usize, param.size as usize);
        let to = buffer.get_mut(start..start + bytes).ok_or(Error::INVALID_VALUE)?;
        from.with_bytes(bytes, bytes, |value| to.copy_from_slice(value))?;
    }
    Ok(buffer)
}

/// Reads a launch's parameters given as one buffer; what a shorter one lacks is 0.
fn read_buffer(bytes: usize, extra: Out<*mut std::ffi::c_void>) -> Result<Box<[u8]>> {
    // It ends where it says so.
    let extra = extra.as_in().array(EXTRA_ENTRIES_MAX);
    let (mut buffer, mut size) = (In::<u8>::null(), 0usize);
    for pair in 0..EXTRA_ENTRIES_MAX / 2 {
        let value = || extra.follow(2 * pair + 1);
        match extra.at(2 * pair)? as usize {
            launch_param::END => {
                if bytes > 0 && size == 0 {
                    return Err(Error::INVALID_VALUE);
                }
                // A structure may be as much longer as the alignment of its largest member wants.
                if size > bytes.next_multiple_of(PARAM_ALIGNMENT_MAX) {
                    return Err(Error::LAUNCH_OUT_OF_RESOURCES);
                }
                let given = size.min(bytes);
                let mut parameters = vec![0; bytes].into_boxed_slice();
                buffer
                    .with_bytes(given, given, |value| parameters[..given].copy_from_slice(value))?;
                return Ok(parameters);
            }
            launch_param::BUFFER_POINTER => buffer = value()?.cast().as_in(),
            launch_param::BUFFER_SIZE => size = value()?.cast::<usize>().get()?,
            _ => return Err(Error::INVALID_VALUE),
        }
    }
    Err(Error::INVALID_VALUE)
}

fn dim([x, y, z]: [u32; 3]) -> Dim3 {
    Dim3 { x, y, z }
}

/// The largest cluster of a launch that there is room for on its stream's SMs; 0 if there is none for a block.
pub(super) fn largest_cluster(
    driver: &Driver,
    function: &Function,
    config: &CUlaunchConfig,
) -> Result<u32> {
    let settings = &driver.device.settings;
    let request = Request { cluster: None, ..read_config(config)? };
    let blocks = request.blocks_per_sm(function, settings);
    let room = Room::of(driver, config)?;
    let fits = |cluster: &u32| {
        request.resident(blocks, settings, *cluster) > 0 && room.takes(blocks, *cluster)
    };
    Ok((1..=function.cluster_blocks_max()).rev().find(fits).unwrap_or(0))
}

/// How many clusters of a launch may be resident at once on its stream's SMs; 0 if the launch has none, or
/// none fits.
pub(super) fn clusters_resident(
    driver: &Driver,
    function: &Function,
    config: &CUlaunchConfig,
) -> Result<u32> {
    let settings = &driver.device.settings;
    let request = read_config(config)?;
    match (request.check(function, settings), request.cluster(function)?) {
        (Ok((_, blocks)), Some(of)) => {
            let of = of.count() as u32;
            let most = request.resident(blocks, settings, of);
            Ok(Room::of(driver, config)?.clusters(settings, blocks, of).min(most))
        }
        (Ok(_) | Err(Error::LAUNCH_OUT_OF_RESOURCES), _) => Ok(0),
        (Err(error), _) => Err(error),
    }
}

/// SMs that a launch would have: those of its stream, of which those of its tenant's share.
struct Room {
    stream: SmMask,
    share: SmMask,
}

impl Room {
    fn of(driver: &Driver, config: &CUlaunchConfig) -> Result<Self> {
        let stream = driver.stream(config.stream, false)?;
        let [stream, share] = driver.device.sms_of_stream(stream)?;
        Ok(Self { stream, share })
    }

    /// Whether a launch with such clusters is accepted, each SM having room for so many of their blocks. A share
    /// refuses none: clusters that it is too small for have it alone.
    fn takes(&self, blocks: u32, cluster: u32) -> bool {
        self.stream.as_ref().is_none_or(|sms| cluster <= blocks.saturating_mul(sms.len() as u32))
    }

    /// How many clusters are there at once; one at least of a launch that is accepted.
    fn clusters(&self, settings: &Settings, blocks: u32, cluster: u32) -> u32 {
        if !self.takes(blocks, cluster) {
            return 0;
        }
        let sms = match (&self.stream, &self.share) {
            (None, None) => return u32::MAX,
            (Some(sms), None) | (None, Some(sms)) => sms.to_vec(),
            (Some(stream), Some(share)) => {
                let both = stream.iter().filter(|sm| share.contains(sm)).copied();
                Some(both.collect::<Vec<u32>>())
                    .filter(|both| !both.is_empty())
                    .unwrap_or(share.to_vec())
            }
        };
        settings.clusters_on(&sms, blocks, cluster).max(1)
    }
}

fn read_config(config: &CUlaunchConfig) -> Result<Request> {
    let grid = [config.gridDimX, config.gridDimY, config.gridDimZ];
    let block = [config.blockDimX, config.blockDimY, config.blockDimZ];
    let mut request = Request::new(grid, block, config.sharedMemBytes);
    for attribute in config.attributes()? {
        let attribute = attribute?;
        let word = |n: usize| {
            let bytes = &attribute.value[4 * n..4 * n + 4];
            i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        match attribute.id {
            launch_attribute::COOPERATIVE => request.cooperative = word(0) != 0,
            launch_attribute::CLUSTER_DIMENSION => {
                let extents = [0, 1, 2].map(|n| u32::try_from(word(n)).unwrap_or(0));
                request.cluster = Some(dim(extents));
            }
            launch_attribute::PRIORITY => {
                request.priority = Some(word(0).clamp(PRIORITY_GREATEST, PRIORITY_LEAST));
            }
            // Hints, permission to start early, which is never made use of, and events, which the
            // call itself records.
            launch_attribute::IGNORE
            | launch_attribute::PROGRAMMATIC_EVENT
            | launch_attribute::LAUNCH_COMPLETION_EVENT
            | launch_attribute::ACCESS_POLICY_WINDOW
            | launch_attribute::PREFERRED_CLUSTER_DIMENSION
            | launch_attribute::PREFERRED_SHARED_MEMORY_CARVEOUT
            | launch_attribute::NVLINK_UTIL_CENTRIC_SCHEDULING
            | launch_attribute::PROGRAMMATIC_STREAM_SERIALIZATION
            | launch_attribute::MEM_SYNC_DOMAIN_MAP => {}
            launch_attribute::CLUSTER_SCHEDULING_POLICY_PREFERENCE
                if (0..=CLUSTER_SCHEDULING_LAST).contains(&word(0)) => {}
            launch_attribute::MEM_SYNC_DOMAIN if matches!(word(0), 0 | 1) => {}
            launch_attribute::DEVICE_UPDATABLE_KERNEL_NODE => return Err(Error::NOT_SUPPORTED),
            // What no launch has, such as a stream's synchronization policy, and values that are none.
            _ => return Err(Error::INVALID_VALUE),
        }
    }
    Ok(request)
}

/// Another device, and the number of the context there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) device: u32,
    pub(super) context: u64,
}

/// The place that a kernel's code was loaded for. A library's is loaded where it is launched.
pub(super) fn place_of_kernel(driver: &'static Driver, node: &KernelNode) -> Result<Option<Place>> {
    if !has_choice(driver) {
        return Ok(None);
    }
    let module = driver.modules.get(driver.function(node.function)?.module)?;
    let place = Place { device: module.tenant.device, context: module.context };
    Ok(Some(place).filter(|place| place.context != 0))
}

/// True for a program of its own on several devices. What a server does for a client is on one.
pub(super) fn has_choice(driver: &'static Driver) -> bool {
    driver.device.count() > 1 && driver.device.is_default(&driver.tenant())
}

/// The kernel of a node.
pub(super) fn prepared(driver: &'static Driver, node: &KernelNode) -> Result<Prepared> {
    let read = |_: &_| Ok(node.parameters.bytes.clone());
    let prepared = driver.prepare(node.function, &node.config(), read)?;
    prepared.on_sms(&driver.device, node.sms.clone())
}
