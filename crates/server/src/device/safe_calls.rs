//! Safe calls: functions of a provider whose arguments' types say all that their contracts ask.
//!
//! A row names a function and gives its parameters types that can be had in safe code only while what the
//! function asks of them holds. So why a call is safe is said here once, for all calls:
//!
//! * A handle is an [`Owned`] one or a [`Live`] one of it, so its object is alive. What ends an object takes
//!   the [`Owned`] one. A NULL handle is allowed: it is the default stream, or every function refuses it.
//! * A result goes to a `&mut` place of its type, a list to a slice, whose length goes with it.
//! * A text is a [`CStr`]; a description is a reference to a type without pointers, or a [`Description`].
//! * Device memory and registered host memory are a [`CheckedRange`], which belongs to the session for as
//!   long as work uses it. Addresses and numbers that the provider checks by itself are plain.
//!
//! Not here: functions that ask for more, such as a node that must be one of a graph that is instantiated. Their calls are
//! `unsafe`, and say why they may be made. What a provider is trusted with: [`super`].

use super::host_callback::HostCallback;
use super::range::CheckedRange;
use channel::request::TensorDescription;
use cuda_api::constants::{capture, pointer_attribute, vmm};
use cuda_api::extension::{DeviceActivity, Extension, KernelUsage, TenantUsage, TraceRecord};
use cuda_api::resource::SM_GROUPS_MAX;
use cuda_api::{
    CUDA_ARRAY_MEMORY_REQUIREMENTS, CUDA_ARRAY3D_DESCRIPTOR, CUDA_KERNEL_NODE_PARAMS,
    CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC,
    CUDA_TEXTURE_DESC, CUarray, CUcontext, CUdevResource, CUdevResourceDesc, CUdevice, CUdeviceptr,
    CUevent, CUfunction, CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphExecUpdateResultInfo,
    CUgraphNode, CUgreenCtx, CUlaunchConfig, CUlinkState, CUmemAccessDesc, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmipmappedArray, CUmodule, CUresult, CUstream, CUsurfObject,
    CUtensorMap, CUtexObject, CUuuid, CudaError, DriverTable,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

/// The handle of an object that is alive as long as this: its owner ends the object with it. By default
/// NULL, as a place for a handle that a function makes.
#[derive(Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Owned<H>(H);

impl<H: Copy + Default> Owned<H> {
    /// The handle of an object that has no other owner.
    ///
    /// # Safety
    /// The object must be alive, and stay so as long as this is there.
    pub(super) unsafe fn new_unchecked(raw: H) -> Self {
        Self(raw)
    }

    /// The handle, for as long as its owner is there.
    pub(super) fn live(&self) -> Live<'_, H> {
        Live(self.0, PhantomData)
    }

    /// Takes it out, for the call that ends the object.
    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// The handle of an object that is alive for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Live<'a, H>(H, PhantomData<&'a ()>);

impl<H: Copy> Live<'_, H> {
    /// The handle of an object.
    ///
    /// # Safety
    /// The object must be alive for the lifetime.
    pub(super) unsafe fn new_unchecked(raw: H) -> Self {
        Self(raw, PhantomData)
    }

    /// The provider's handle.
    pub(super) fn raw(self) -> H {
        self.0
    }
}

/// Host memory that is registered, by its first address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HostAddress(pub u64);

/// A tensor whose rank its lists have places for.
pub(super) struct Tensor<'a>(&'a TensorDescription);

impl<'a> Tensor<'a> {
    /// CUDA_ERROR_INVALID_VALUE for a rank above the largest one.
    pub(super) fn of(tensor: &'a TensorDescription) -> Result<Self, CudaError> {
        let fits = tensor.rank as usize <= tensor.dimensions.len();
        fits.then_some(Self(tensor)).ok_or(CudaError::INVALID_VALUE)
    }

    fn address(&self) -> *mut c_void {
        self.0.address as *mut c_void
    }

    /// One of the two corners, which have rank - 2 coordinates, at most three.
    fn corner(&self, first: usize) -> [c_int; 3] {
        std::array::from_fn(|at| self.0.shape[first + at] as c_int)
    }
}

/// The provider's default stream, in which no client's work ever is.
pub(super) const DEFAULT_STREAM: Live<'static, CUstream> = Live(CUstream::NULL, PhantomData);

/// What a function reads during a call and is described by a structure, or a list, with pointers or addresses.
///
/// # Safety
/// What the structure leads to must be there, and may be used as the manual says, while the value is there.
pub(super) unsafe trait Description<T> {
    /// The structure, or the list's first entry.
    fn get(&self) -> *const T;
}

/// Edges of a graph: three lists of one length.
pub(super) struct EdgeList<'a> {
    graph: Live<'a, CUgraph>,
    from: Vec<CUgraphNode>,
    to: Vec<CUgraphNode>,
    data: Vec<CUgraphEdgeData>,
}

impl<'a> EdgeList<'a> {
    /// Edges from nodes to nodes, as their data say.
    ///
    /// # Safety
    /// The nodes must be the graph's, and alive for the lifetime.
    pub(super) unsafe fn new_unchecked(
        graph: Live<'a, CUgraph>,
        edges: impl Iterator<Item = (CUgraphNode, CUgraphNode, CUgraphEdgeData)>,
    ) -> Self {
        let mut list = Self { graph, from: Vec::new(), to: Vec::new(), data: Vec::new() };
        for (from, to, data) in edges {
            list.from.push(from);
            list.to.push(to);
            list.data.push(data);
        }
        list
    }
}

/// An argument as a provider's function takes it.
trait Argument<T> {
    fn give(self) -> T;
}

macro_rules! plain {
    ($($ty:ty),*) => {$(
        impl Argument<$ty> for $ty {
            #[inline(always)]
            fn give(self) -> $ty {
                self
            }
        }

        impl Argument<*mut $ty> for &mut $ty {
            #[inline(always)]
            fn give(self) -> *mut $ty {
                self
            }
        }
    )*};
}

plain!(u8, c_int, c_uint, u64, usize, f32, CUdeviceptr, CUuuid, CUgraphNode, CUgraph);

macro_rules! results {
    ($($ty:ty),*) => {$(
        impl Argument<*mut $ty> for &mut $ty {
            #[inline(always)]
            fn give(self) -> *mut $ty {
                self
            }
        }
    )*};
}

results!(
    CUDA_ARRAY_MEMORY_REQUIREMENTS,
    CUdevResource,
    CUgraphExecUpdateResultInfo,
    DeviceActivity,
    TenantUsage
);

macro_rules! descriptions {
    ($($ty:ty),*) => {$(
        impl Argument<*const $ty> for &$ty {
            #[inline(always)]
            fn give(self) -> *const $ty {
                self
            }
        }
    )*};
}

descriptions!(CUDA_ARRAY3D_DESCRIPTOR, CUmemAccessDesc, CUmemAllocationProp);

impl<H: Copy> Argument<H> for Live<'_, H> {
    #[inline(always)]
    fn give(self) -> H {
        self.0
    }
}

impl<H> Argument<H> for Owned<H> {
    #[inline(always)]
    fn give(self) -> H {
        self.0
    }
}

impl<H> Argument<*mut H> for &mut Owned<H> {
    #[inline(always)]
    fn give(self) -> *mut H {
        &mut self.0
    }
}

impl Argument<*const c_char> for &CStr {
    #[inline(always)]
    fn give(self) -> *const c_char {
        self.as_ptr()
    }
}

impl CheckedRange {
    fn device(self) -> CUdeviceptr {
        CUdeviceptr(self.address())
    }

    fn host(self) -> *mut c_void {
        self.address() as *mut c_void
    }
}

/// As many bytes as two ranges have.
fn bytes_of_both(a: CheckedRange, b: CheckedRange) -> usize {
    a.bytes().min(b.bytes()) as usize
}

/// A number that is no larger than so many.
fn at_most(number: &mut c_uint, most: usize) -> &mut c_uint {
    *number = (*number).min(most as c_uint);
    number
}

macro_rules! rows {
    ($owner:ident: $($name:ident($($param:ident: $ty:ty),*) $(=> ($($argument:expr),*))?;)*) => {
        impl $owner {
            $(rows! { @row $name ($($param: $ty),*) [$($($argument),*)?] [$($param),*] })*
        }
    };
    // Each parameter is an argument.
    (@row $name:ident ($($param:ident: $ty:ty),*) [] [$($each:ident),*]) => {
        rows! { @call $name ($($param: $ty),*) $(Argument::give($each)),* }
    };
    // The row says the arguments.
    (@row $name:ident ($($param:ident: $ty:ty),*) [$($argument:expr),+] $each:tt) => {
        rows! { @call $name ($($param: $ty),*) $($argument),+ }
    };
    (@call $name:ident ($($param:ident: $ty:ty),*) $($argument:expr),*) => {
        #[inline(always)]
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "cuda.h's functions")]
        pub(in crate::device) fn $name(self, $($param: $ty),*) -> CUresult {
            let call = self.0.$name;
            // SAFETY: the arguments' types say what the function asks for: see the module.
            unsafe { call($($argument),*) }
        }
    };
}

/// A provider's functions that are safe to call.
#[derive(Clone, Copy)]
pub struct SafeCalls(pub(super) &'static DriverTable);

// The provider, its devices and contexts.
rows! { SafeCalls:
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: &mut c_int);
    cuDeviceGetCount(count: &mut c_int);
    cuDeviceGetName(name: &mut [u8], device: CUdevice)
        => (name.as_mut_ptr().cast(), name.len() as c_int, device);
    cuDeviceGetPCIBusId(id: &mut [u8], device: CUdevice)
        => (id.as_mut_ptr().cast(), id.len() as c_int, device);
    cuDeviceGetUuid(uuid: &mut CUuuid, device: CUdevice);
    cuDeviceGetUuid_v2(uuid: &mut CUuuid, device: CUdevice);
    cuDeviceTotalMem_v2(bytes: &mut usize, device: CUdevice);
    cuDeviceGetAttribute(value: &mut c_int, attribute: c_uint, device: CUdevice);
    cuDeviceGetP2PAttribute(value: &mut c_int, attribute: c_uint, from: CUdevice, to: CUdevice);
    cuDevicePrimaryCtxRetain(context: &mut Owned<CUcontext>, device: CUdevice);
    cuCtxSetCurrent(context: Live<'_, CUcontext>);
    cuCtxSetLimit(limit: c_uint, value: usize);
    cuCtxSynchronize();
    cuCtxGetStreamPriorityRange(least: &mut c_int, greatest: &mut c_int);
}

// SMs. A description is one of the provider's, which stays for good.
rows! { SafeCalls:
    cuDeviceGetDevResource(device: CUdevice, resource: &mut CUdevResource, kind: c_uint);
    cuDevSmResourceSplitByCount(
        groups: Option<&mut [CUdevResource; SM_GROUPS_MAX]>, count: &mut c_uint,
        all: &CUdevResource, rest: Option<&mut CUdevResource>, flags: c_uint, sms_min: c_uint
    ) => (
        groups.map_or(ptr::null_mut(), |groups| groups.as_mut_ptr()), at_most(count, SM_GROUPS_MAX),
        all, rest.map_or(ptr::null_mut(), ptr::from_mut), flags, sms_min
    );
    cuDevResourceGenerateDesc(
        description: &mut Owned<CUdevResourceDesc>, resources: &mut [CUdevResource]
    ) => (description.give(), resources.as_mut_ptr(), resources.len() as c_uint);
    cuGreenCtxCreate(
        green: &mut Owned<CUgreenCtx>, description: Live<'_, CUdevResourceDesc>, device: CUdevice,
        flags: c_uint);
    cuGreenCtxDestroy(green: Owned<CUgreenCtx>);
    cuGreenCtxStreamCreate(
        stream: &mut Owned<CUstream>, green: Live<'_, CUgreenCtx>, flags: c_uint, priority: c_int);
}

// Modules and their kernels.
rows! { SafeCalls:
    cuModuleUnload(module: Owned<CUmodule>);
    cuModuleGetFunction(
        function: &mut CUfunction, module: Live<'_, CUmodule>, name: &CStr
    ) => (function, module.0, name.as_ptr());
    cuModuleGetFunctionCount(count: &mut c_uint, module: Live<'_, CUmodule>);
    cuModuleEnumerateFunctions(functions: &mut [CUfunction], module: Live<'_, CUmodule>)
        => (functions.as_mut_ptr(), functions.len() as c_uint, module.0);
    cuModuleGetGlobal_v2(
        address: &mut CUdeviceptr, bytes: &mut usize, module: Live<'_, CUmodule>, name: &CStr);
    // The one attribute that is asked for, which has 4 bytes.
    cuPointerGetAttribute(is_managed: &mut u32, address: CUdeviceptr)
        => (ptr::from_mut(is_managed).cast(), pointer_attribute::IS_MANAGED, address);
    cuFuncGetAttribute(value: &mut c_int, attribute: c_uint, function: Live<'_, CUfunction>);
    cuFuncSetAttribute(function: Live<'_, CUfunction>, attribute: c_uint, value: c_int);
    cuFuncSetCacheConfig(function: Live<'_, CUfunction>, preferred: c_uint);
    cuFuncGetParamInfo(
        function: Live<'_, CUfunction>, index: usize, offset: &mut usize, bytes: &mut usize);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: &mut c_int, function: Live<'_, CUfunction>, threads: c_int, shared_bytes: usize);
    cuOccupancyMaxActiveClusters(
        clusters: &mut c_int, function: Live<'_, CUfunction>, config: &impl Description<CUlaunchConfig>
    ) => (clusters, function.0, config.get());
    cuOccupancyMaxPotentialClusterSize(
        blocks: &mut c_int, function: Live<'_, CUfunction>, config: &impl Description<CUlaunchConfig>
    ) => (blocks, function.0, config.get());
    cuLaunchKernel(
        function: Live<'_, CUfunction>, grid: [c_uint; 3], block: [c_uint; 3], shared_bytes: c_uint,
        stream: Live<'_, CUstream>, parameters: &impl Description<*mut c_void>
    ) => (
        function.0, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes,
        stream.0, ptr::null_mut(), parameters.get().cast_mut()
    );
    cuLaunchKernelEx(
        config: &impl Description<CUlaunchConfig>, function: Live<'_, CUfunction>, parameters: &impl Description<*mut c_void>
    ) => (config.get(), function.0, ptr::null_mut(), parameters.get().cast_mut());
    cuLinkDestroy(state: Owned<CUlinkState>);
}

// Memory. Ranges of device addresses are looked up by the provider.
rows! { SafeCalls:
    cuMemGetInfo_v2(free: &mut usize, total: &mut usize);
    cuMemCreate(
        memory: &mut Owned<CUmemGenericAllocationHandle>, bytes: usize,
        properties: &CUmemAllocationProp
    ) => (memory.give(), bytes, properties, 0);
    cuMemRelease(memory: Owned<CUmemGenericAllocationHandle>);
    cuMemImportFromShareableHandle(
        memory: &mut Owned<CUmemGenericAllocationHandle>, fd: &OwnedFd
    ) => (
        // The descriptor travels as a pointer.
        memory.give(), ptr::without_provenance_mut(fd.as_raw_fd() as usize), vmm::HANDLE_POSIX_FD
    );
    cuMemExportToShareableHandle(
        fd: &mut c_int, memory: Live<'_, CUmemGenericAllocationHandle>
    ) => (ptr::from_mut(fd).cast(), memory.0, vmm::HANDLE_POSIX_FD, 0);
    cuMemAddressReserve(address: &mut CUdeviceptr, bytes: usize, wanted: CUdeviceptr)
        => (address, bytes, 0, wanted, 0);
    cuMemAddressFree(address: CUdeviceptr, bytes: usize);
    cuMemMap(
        address: CUdeviceptr, bytes: usize, offset: usize,
        memory: Live<'_, CUmemGenericAllocationHandle>
    ) => (address, bytes, offset, memory.0, 0);
    cuMemUnmap(address: CUdeviceptr, bytes: usize);
    cuMemSetAccess(address: CUdeviceptr, bytes: usize, access: &CUmemAccessDesc)
        => (address, bytes, access, 1);
    cuMemHostUnregister(memory: Owned<HostAddress>) => (memory.0.0 as *mut c_void);
    cuMemHostGetDevicePointer_v2(device: &mut CUdeviceptr, host: u64)
        => (device, host as *mut c_void, 0);
}

// Arrays and tensor maps. An address in a map is not followed.
rows! { SafeCalls:
    cuArray3DCreate_v2(array: &mut Owned<CUarray>, descriptor: &CUDA_ARRAY3D_DESCRIPTOR);
    cuArrayDestroy(array: Owned<CUarray>);
    cuArrayGetMemoryRequirements(
        answer: &mut CUDA_ARRAY_MEMORY_REQUIREMENTS, array: Live<'_, CUarray>, device: CUdevice);
    cuMipmappedArrayCreate(
        array: &mut Owned<CUmipmappedArray>, descriptor: &CUDA_ARRAY3D_DESCRIPTOR, levels: c_uint);
    cuMipmappedArrayDestroy(array: Owned<CUmipmappedArray>);
    cuMipmappedArrayGetMemoryRequirements(
        answer: &mut CUDA_ARRAY_MEMORY_REQUIREMENTS, array: Live<'_, CUmipmappedArray>,
        device: CUdevice);
    // The copy is done when the call returns.
    cuMemcpy3D_v2(copy: &impl Description<CUDA_MEMCPY3D>) => (copy.get());
    cuTexObjectCreate(
        texture: &mut Owned<CUtexObject>, resource: &impl Description<CUDA_RESOURCE_DESC>, read: &CUDA_TEXTURE_DESC,
        view: Option<&CUDA_RESOURCE_VIEW_DESC>
    ) => (texture.give(), resource.get(), read, view.map_or(ptr::null(), ptr::from_ref));
    cuTexObjectDestroy(texture: Owned<CUtexObject>);
    cuSurfObjectCreate(surface: &mut Owned<CUsurfObject>, resource: &impl Description<CUDA_RESOURCE_DESC>)
        => (surface.give(), resource.get());
    cuSurfObjectDestroy(surface: Owned<CUsurfObject>);
    cuTensorMapEncodeTiled(map: &mut CUtensorMap, tensor: &Tensor<'_>) => (
        map, tensor.0.data_type, tensor.0.rank, tensor.address(), tensor.0.dimensions.as_ptr(),
        tensor.0.strides.as_ptr(), tensor.0.shape.as_ptr(), tensor.0.element_strides.as_ptr(),
        tensor.0.modes[0], tensor.0.modes[1], tensor.0.modes[2], tensor.0.modes[3]
    );
    cuTensorMapEncodeIm2col(map: &mut CUtensorMap, tensor: &Tensor<'_>) => (
        map, tensor.0.data_type, tensor.0.rank, tensor.address(), tensor.0.dimensions.as_ptr(),
        tensor.0.strides.as_ptr(), tensor.corner(0).as_ptr(), tensor.corner(3).as_ptr(),
        tensor.0.shape[6], tensor.0.shape[7], tensor.0.element_strides.as_ptr(), tensor.0.modes[0],
        tensor.0.modes[1], tensor.0.modes[2], tensor.0.modes[3]
    );
    cuTensorMapReplaceAddress(map: &mut CUtensorMap, address: u64)
        => (map, address as *mut c_void);
}

// Streams and events.
rows! { SafeCalls:
    cuStreamCreateWithPriority(stream: &mut Owned<CUstream>, flags: c_uint, priority: c_int);
    cuStreamDestroy_v2(stream: Owned<CUstream>);
    cuStreamGetId(stream: Live<'_, CUstream>, number: &mut u64);
    cuStreamQuery(stream: Live<'_, CUstream>);
    cuStreamSynchronize(stream: Live<'_, CUstream>);
    cuStreamWaitEvent(stream: Live<'_, CUstream>, event: Live<'_, CUevent>)
        => (stream.0, event.0, 0);
    cuStreamWriteValue32_v2(
        stream: Live<'_, CUstream>, word: CheckedRange, value: u32, flags: c_uint
    ) => (stream.0, word.device(), value, flags);
    cuStreamWaitValue32_v2(
        stream: Live<'_, CUstream>, word: CheckedRange, value: u32, flags: c_uint
    ) => (stream.0, word.device(), value, flags);
    // The function is safe to call with its number, whenever.
    cuLaunchHostFunc(stream: Live<'_, CUstream>, callback: HostCallback)
        => (stream.0, Some(callback.function()), callback.data());
    cuEventCreate(event: &mut Owned<CUevent>, flags: c_uint);
    cuEventDestroy_v2(event: Owned<CUevent>);
    cuEventRecord(event: Live<'_, CUevent>, stream: Live<'_, CUstream>);
    cuEventQuery(event: Live<'_, CUevent>);
    cuEventElapsedTime(ms: &mut f32, start: Live<'_, CUevent>, end: Live<'_, CUevent>);
    cuMemcpyHtoDAsync_v2(to: CheckedRange, from: CheckedRange, stream: Live<'_, CUstream>)
        => (to.device(), from.host(), bytes_of_both(to, from), stream.0);
    cuMemcpyDtoHAsync_v2(to: CheckedRange, from: CheckedRange, stream: Live<'_, CUstream>)
        => (to.host(), from.device(), bytes_of_both(to, from), stream.0);
    cuMemcpy3DAsync_v2(copy: &impl Description<CUDA_MEMCPY3D>, stream: Live<'_, CUstream>)
        => (copy.get(), stream.0);
    cuMemsetD8Async(range: CheckedRange, value: u8, stream: Live<'_, CUstream>)
        => (range.device(), value, range.bytes() as usize, stream.0);
}

// Graphs.
rows! { SafeCalls:
    cuGraphCreate(graph: &mut Owned<CUgraph>) => (graph.give(), 0);
    cuGraphDestroy(graph: Owned<CUgraph>);
    cuGraphAddEmptyNode(node: &mut CUgraphNode, graph: Live<'_, CUgraph>)
        => (node, graph.0, ptr::null(), 0);
    cuGraphAddKernelNode_v2(
        node: &mut CUgraphNode, graph: Live<'_, CUgraph>, launch: &impl Description<CUDA_KERNEL_NODE_PARAMS>
    ) => (node, graph.0, ptr::null(), 0, launch.get());
    cuGraphAddMemcpyNode(
        node: &mut CUgraphNode, graph: Live<'_, CUgraph>, copy: &impl Description<CUDA_MEMCPY3D>,
        context: Live<'_, CUcontext>
    ) => (node, graph.0, ptr::null(), 0, copy.get(), context.0);
    cuGraphAddMemsetNode(
        node: &mut CUgraphNode, graph: Live<'_, CUgraph>, fill: &impl Description<CUDA_MEMSET_NODE_PARAMS>,
        context: Live<'_, CUcontext>
    ) => (node, graph.0, ptr::null(), 0, fill.get(), context.0);
    cuGraphAddDependencies(edges: &EdgeList<'_>)
        => (edges.graph.0, edges.from.as_ptr(), edges.to.as_ptr(), edges.from.len());
    cuGraphAddDependencies_v2(edges: &EdgeList<'_>)
        => (
            edges.graph.0, edges.from.as_ptr(), edges.to.as_ptr(), edges.data.as_ptr(),
            edges.from.len()
        );
    cuGraphRemoveDependencies_v2(edges: &EdgeList<'_>)
        => (
            edges.graph.0, edges.from.as_ptr(), edges.to.as_ptr(), edges.data.as_ptr(),
            edges.from.len()
        );
    cuGraphConditionalHandleCreate(
        handle: &mut u64, graph: Live<'_, CUgraph>, context: Live<'_, CUcontext>, default: c_uint,
        flags: c_uint);
    cuGraphInstantiateWithFlags(
        exec: &mut Owned<CUgraphExec>, graph: Live<'_, CUgraph>, flags: u64);
    cuGraphExecUpdate_v2(
        exec: Live<'_, CUgraphExec>, graph: Live<'_, CUgraph>,
        result: &mut CUgraphExecUpdateResultInfo);
    cuGraphLaunch(exec: Live<'_, CUgraphExec>, stream: Live<'_, CUstream>);
    cuGraphExecDestroy(exec: Owned<CUgraphExec>);
    cuStreamBeginCaptureToGraph(stream: Live<'_, CUstream>, graph: Live<'_, CUgraph>)
        => (stream.0, graph.0, ptr::null(), ptr::null(), 0, capture::MODE_RELAXED);
    cuStreamEndCapture(stream: Live<'_, CUstream>, graph: &mut CUgraph);
}

/// The functions of the extension that are safe to call. A tenant is a number that the provider looks up.
#[derive(Clone, Copy)]
pub(super) struct SafeExtension(pub(super) &'static Extension);

rows! { SafeExtension:
    tenant_create(tenant: &mut u64);
    tenant_bind(tenant: u64);
    tenant_name(tenant: u64, name: &CStr);
    tenant_error(tenant: u64);
    tenant_fault(tenant: u64, text: &mut [u8]) => (tenant, text.as_mut_ptr().cast(), text.len());
    tenant_end(tenant: u64);
    tenant_printf(tenant: u64, standard: c_uint, text: &mut [u8], written: &mut usize)
        => (tenant, standard, text.as_mut_ptr().cast(), text.len(), written);
    tenant_work(tenant: u64, worked: &mut c_int);
    tenant_place_variables(
        tenant: u64, address: u64, bytes: u64, how: c_uint, needed: &mut u64);
    tenant_memory(tenant: u64, address: u64, bytes: u64, note: c_uint);
    tenant_limit(tenant: u64, sms: &[u32], less_urgent: c_int)
        => (tenant, sms.as_ptr(), sms.len(), less_urgent);
    tenant_usage(tenant: u64, usage: &mut TenantUsage);
    tenant_kernels(tenant: u64, rows: &mut [KernelUsage], written: &mut usize)
        => (tenant, rows.as_mut_ptr(), rows.len(), written);
    tenant_trace(tenant: u64, on: c_uint);
    tenant_trace_take(
        tenant: u64, records: &mut [TraceRecord], written: &mut usize, lost: &mut u64
    ) => (tenant, records.as_mut_ptr(), records.len(), written, lost);
    device_activity(device: CUdevice, activity: &mut DeviceActivity);
}
