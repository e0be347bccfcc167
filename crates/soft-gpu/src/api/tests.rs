//! The driver API as a program calls it, with kernels that are closures.
//!
//! All tests share one driver, as the threads of one program do; what would poison it happens in
//! tenants of their own.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use cuda_api::constants::{event_flags, function_attribute, memory_type, pointer_attribute, vmm};
use cuda_api::extension::{DeviceActivity, TenantUsage};
use cuda_api::*;

use super::context::*;
use super::copy::*;
use super::devices::*;
use super::driver;
use super::event::*;
use super::extension::*;
use super::fill::*;
use super::function::*;
use super::host_memory::*;
use super::init::*;
use super::ipc::*;
use super::launch::*;
use super::memory::*;
use super::module::*;
use super::occupancy::*;
use super::pointer_attributes::*;
use super::pool::*;
use super::stream::*;
use super::stream_values::*;
use super::virtual_memory::*;
use crate::error::Error;
use crate::testing::{FnKernel, Watchdog};
use simt::kernel::{Fault, FaultKind, Launch, Outcome, Worker};

/// Calls a driver function. All pointers that tests pass are good for the call or NULL.
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: see above.
        unsafe { $name($($argument),*) }
    };
}

/// Parameters of a node that launches a kernel, of so many blocks and threads in each.
fn kernel_params(
    function: CUfunction,
    [blocks, threads]: [u32; 2],
    values: *mut *mut c_void,
) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        v1: CUDA_KERNEL_NODE_PARAMS_v1 {
            func: function,
            gridDimX: blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: values,
            extra: null_mut(),
        },
        kern: CUkernel::NULL,
        ctx: CUcontext::NULL,
    }
}

mod clusters;
mod conditional;
mod counters;
mod device_runtime;
mod device_side;
mod devices;
mod graphs;
mod green;
mod ipc;
mod jit;
mod launch_events;
mod memory;
mod nested;
mod processes;
mod tensor_maps;
mod textures;

/// CU_FUNC_CACHE_PREFER_SHARED and CU_FUNC_CACHE_PREFER_L1.
const PREFER_SHARED: u32 = 1;
const PREFER_L1: u32 = 2;

/// Initialises, and makes the primary context current.
fn start() -> Watchdog {
    cu!(cuInit(0)).unwrap();
    let mut context = CUcontext::NULL;
    cu!(cuDevicePrimaryCtxRetain(&mut context, 0)).unwrap();
    cu!(cuCtxSetCurrent(context)).unwrap();
    Watchdog::new()
}

fn function(
    params: u32,
    body: impl Fn(&mut Worker<'_>, &Launch, u64) -> Outcome + Send + Sync + 'static,
) -> CUfunction {
    let kernel = FnKernel::new(params, move |worker, launch, index, _| {
        body(worker, launch, u64::from(index.x))
    });
    let (driver, name) = (driver().unwrap(), c"closure".to_owned());
    let settings = &driver.device.settings;
    let make = |handle| Function::new(handle, name, Arc::new(kernel), 0, 0, settings);
    CUfunction(driver.functions.insert_with(make).unwrap().0)
}

fn allocate(bytes: usize) -> CUdeviceptr {
    let mut pointer = CUdeviceptr(0);
    cu!(cuMemAlloc_v2(&mut pointer, bytes)).unwrap();
    pointer
}

fn launch(function: CUfunction, blocks: u32, stream: CUstream, params: &mut [u64]) -> CUresult {
    let mut pointers: Vec<*mut c_void> =
        params.iter_mut().map(|p| std::ptr::from_mut(p).cast()).collect();
    cu!(cuLaunchKernel(
        function,
        blocks,
        1,
        1,
        64,
        1,
        1,
        0,
        stream,
        pointers.as_mut_ptr(),
        null_mut()
    ))
}

fn new_stream(flags: u32) -> CUstream {
    let mut stream = CUstream::NULL;
    cu!(cuStreamCreate(&mut stream, flags)).unwrap();
    stream
}

fn parameter(launch: &Launch, index: usize) -> u64 {
    let bytes = &launch.params[8 * index..8 * index + 8];
    u64::from_ne_bytes(bytes.try_into().unwrap())
}

/// Stores `value + block` at the block's word.
fn store() -> CUfunction {
    function(2, |worker, launch, block| {
        let at = parameter(launch, 0) + 8 * block;
        if !worker.memory.allows(at, 8, true) {
            return Outcome::Fault(Box::new(Fault {
                kind: FaultKind::IllegalAddress { address: at, bytes: 8, write: true },
                kernel: "store".into(),
                block: Default::default(),
                thread: Default::default(),
                line: 3,
            }));
        }
        let value = parameter(launch, 1) + block;
        crate::testing::word64(at).store(value, Ordering::Relaxed);
        Outcome::Finished
    })
}

fn spin(flag: &Arc<AtomicU32>) -> CUfunction {
    let flag = flag.clone();
    function(0, move |worker, _, _| {
        loop {
            if flag.load(Ordering::Acquire) != 0 {
                return Outcome::Finished;
            }
            if worker.control.yield_requested() {
                return Outcome::Yielded;
            }
        }
    })
}

fn read(pointer: CUdeviceptr, words: usize) -> Vec<u64> {
    let mut values = vec![0u64; words];
    cu!(cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), pointer, 8 * words)).unwrap();
    values
}

#[test]
fn a_kernel_gets_its_parameters_either_way() {
    let _alive = start();
    let memory = allocate(800);
    let store = store();
    launch(store, 100, CUstream::NULL, &mut [memory.0, 5]).unwrap();
    assert_eq!(read(memory, 100), (5..105).collect::<Vec<_>>());

    let by_buffer = |size: usize, params| {
        let (mut buffer, mut size) = ([memory.0, 1000], size);
        let mut extra: [*mut c_void; 5] = [
            std::ptr::without_provenance_mut(1),
            buffer.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(2),
            std::ptr::from_mut(&mut size).cast(),
            null_mut(),
        ];
        let stream = CUstream::NULL;
        cu!(cuLaunchKernel(store, 2, 1, 1, 1, 1, 1, 0, stream, params, extra.as_mut_ptr()))
    };
    by_buffer(16, null_mut()).unwrap();
    let mut pointer = null_mut();
    assert_eq!(by_buffer(16, &mut pointer), Err(Error::INVALID_VALUE));
    assert_eq!(by_buffer(0, null_mut()), Err(Error::INVALID_VALUE));
    assert_eq!(read(memory, 3), [1000, 1001, 7]);
    // What a shorter buffer lacks is 0.
    by_buffer(8, null_mut()).unwrap();
    assert_eq!(read(memory, 3), [0, 1, 7]);
    let stream = CUstream::NULL;
    assert_eq!(launch(CUfunction(77), 1, stream, &mut []), Err(Error::INVALID_HANDLE));
    assert_eq!(launch(store, 1, CUstream(77), &mut [0, 0]), Err(Error::INVALID_HANDLE));
    cu!(cuMemFree_v2(memory)).unwrap();
}

#[test]
fn launches_beyond_the_limits_are_refused() {
    let _alive = start();
    let nothing = function(0, |_, _, _| Outcome::Finished);
    let stream = CUstream::NULL;
    let try_launch = |grid: [u32; 3], block: [u32; 3], shared: u32| {
        cu!(cuLaunchKernel(
            nothing,
            grid[0],
            grid[1],
            grid[2],
            block[0],
            block[1],
            block[2],
            shared,
            stream,
            null_mut(),
            null_mut()
        ))
    };
    let one = [1, 1, 1];
    for (grid, block, shared) in [
        ([0, 1, 1], one, 0),
        ([1, 65_536, 1], one, 0),
        ([0x8000_0000, 1, 1], one, 0),
        (one, [1025, 1, 1], 0),
        (one, [1, 1, 65], 0),
        (one, [32, 33, 1], 0),
        (one, [32, 0, 1], 0),
        (one, one, 48 * 1024 + 1),
    ] {
        let result = try_launch(grid, block, shared);
        assert_eq!(result, Err(Error::INVALID_VALUE), "{grid:?} {block:?} {shared}");
    }
    try_launch([2, 3, 4], [32, 8, 4], 48 * 1024).unwrap();
    let attribute = function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let set = |bytes| cu!(cuFuncSetAttribute(nothing, attribute, bytes));
    assert_eq!(set(163 * 1024 + 1), Err(Error::INVALID_VALUE));
    set(100 * 1024).unwrap();
    try_launch(one, one, 100 * 1024).unwrap();

    let mut blocks = 0;
    cu!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, nothing, 1024, 0)).unwrap();
    assert_eq!(blocks, 2);
    let mut sms = 0;
    cu!(cuDeviceGetAttribute(&mut sms, attributes::MULTIPROCESSOR_COUNT, 0)).unwrap();
    let cooperative = |blocks: i32| {
        cu!(cuLaunchCooperativeKernel(
            nothing,
            blocks as u32,
            1,
            1,
            1024,
            1,
            1,
            0,
            stream,
            null_mut()
        ))
    };
    cooperative(2 * sms).unwrap();
    assert_eq!(cooperative(2 * sms + 1), Err(Error::COOPERATIVE_LAUNCH_TOO_LARGE));
    cu!(cuCtxSynchronize()).unwrap();
}

/// In a context of its own, since all tests share the primary one.
#[test]
fn occupancy_follows_what_a_context_prefers_for_caches() {
    const SHARED: usize = 40 << 10;
    let _alive = start();
    let mut context = CUcontext::NULL;
    cu!(cuCtxCreate_v2(&mut context, 0, 0)).unwrap();
    let kernel = function(0, |_, _, _| Outcome::Finished);
    let blocks = || {
        let mut blocks = 0;
        cu!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, kernel, 64, SHARED)).unwrap();
        blocks
    };
    let all = blocks();
    cu!(cuCtxSetCacheConfig(PREFER_L1)).unwrap();
    let few = blocks();
    assert!(few < all, "{few} of {all}");
    // What is said of the function counts more.
    cu!(cuFuncSetCacheConfig(kernel, PREFER_SHARED)).unwrap();
    assert_eq!(blocks(), all);
    cu!(cuCtxDestroy_v2(context)).unwrap();
}

#[test]
fn events_measure_time_and_say_when_they_cannot() {
    let _alive = start();
    let create = |flags| {
        let mut event = CUevent::NULL;
        cu!(cuEventCreate(&mut event, flags)).map(|()| event)
    };
    let (first, second) = (create(0).unwrap(), create(0).unwrap());
    let untimed = create(event_flags::DISABLE_TIMING).unwrap();
    assert_eq!(create(event_flags::INTERPROCESS), Err(Error::INVALID_VALUE));
    let stream = new_stream(1);
    let mut ms = 0.0;
    assert_eq!(cu!(cuEventElapsedTime(&mut ms, first, second)), Err(Error::INVALID_HANDLE));
    let flag = Arc::new(AtomicU32::new(0));
    cu!(cuEventRecord(first, stream)).unwrap();
    launch(spin(&flag), 1, stream, &mut []).unwrap();
    cu!(cuEventRecord(second, stream)).unwrap();
    cu!(cuEventRecord(untimed, stream)).unwrap();
    assert_eq!(cu!(cuEventQuery(second)), Err(Error::NOT_READY));
    assert_eq!(cu!(cuEventElapsedTime(&mut ms, first, second)), Err(Error::NOT_READY));
    cu!(cuEventSynchronize(first)).unwrap();
    // The least that lies between the two, not a wait for anything.
    std::thread::sleep(std::time::Duration::from_millis(2));
    flag.store(1, Ordering::Release);
    cu!(cuEventSynchronize(second)).unwrap();
    cu!(cuEventElapsedTime(&mut ms, first, second)).unwrap();
    assert!(ms >= 2.0, "{ms}");
    assert_eq!(cu!(cuEventElapsedTime(&mut ms, first, untimed)), Err(Error::INVALID_HANDLE));
    cu!(cuEventDestroy_v2(first)).unwrap();
    assert_eq!(cu!(cuEventQuery(first)), Err(Error::INVALID_HANDLE));
    cu!(cuStreamDestroy_v2(stream)).unwrap();
    assert_eq!(cu!(cuStreamQuery(stream)), Err(Error::INVALID_HANDLE));
}

#[test]
fn a_tenants_fault_is_no_other_ones() {
    let _alive = start();
    let mine = allocate(4096);
    let theirs = std::thread::spawn(move || {
        let _alive = start();
        let mut tenant = 0;
        cu!(openmpsTenantCreate(&mut tenant)).unwrap();
        cu!(openmpsTenantBind(tenant)).unwrap();
        let own = allocate(4096);
        let store = store();
        let stream = new_stream(1);
        launch(store, 8, stream, &mut [own.0, 1]).unwrap();
        cu!(cuStreamSynchronize(stream)).unwrap();
        let mut usage = TenantUsage::default();
        cu!(openmpsTenantUsage(tenant, &mut usage)).unwrap();
        assert_eq!((usage.kernels, usage.blocks, usage.memory_bytes), (1, 8, 2 << 20));
        // Memory of another tenant is no memory: not for copies, not for kernels.
        let mut byte = 0u8;
        let at = std::ptr::from_mut(&mut byte).cast();
        assert_eq!(cu!(cuMemcpyDtoH_v2(at, mine, 1)), Err(Error::INVALID_VALUE));
        assert_eq!(cu!(cuMemFree_v2(mine)), Err(Error::INVALID_VALUE));
        launch(store, 1, stream, &mut [mine.0, 1]).unwrap();
        assert_eq!(cu!(cuStreamSynchronize(stream)), Err(Error::ILLEGAL_ADDRESS));
        assert_eq!(cu!(openmpsTenantError(tenant)), Err(Error::ILLEGAL_ADDRESS));
        assert_eq!(cu!(cuMemAlloc_v2(&mut CUdeviceptr(0), 1)), Err(Error::ILLEGAL_ADDRESS));
        let mut text = [0u8; 200];
        cu!(openmpsTenantFault(tenant, text.as_mut_ptr().cast(), text.len())).unwrap();
        let text = CStr::from_bytes_until_nul(&text).unwrap().to_str().unwrap();
        assert!(text.contains("kernel store") && text.contains("PTX line 3"), "{text}");
        // Its objects go as others do.
        cu!(openmpsTenantEnd(tenant)).unwrap();
        cu!(cuStreamDestroy_v2(stream)).unwrap();
        let _ = cu!(cuMemFree_v2(own));
        cu!(openmpsTenantBind(0)).unwrap();
        cu!(cuCtxSynchronize()).unwrap();
    });
    theirs.join().unwrap();
    assert_eq!(cu!(openmpsTenantError(0)), Ok(()));
    launch(store(), 1, CUstream::NULL, &mut [mine.0, 99]).unwrap();
    assert_eq!(read(mine, 1), [99]);
    let mut activity = DeviceActivity::default();
    cu!(openmpsDeviceActivity(0, &mut activity)).unwrap();
    assert!(activity.kernel_ns > 0 && activity.kernel_ns <= activity.elapsed_ns);
    assert_eq!(cu!(openmpsTenantBind(12_345_678)), Err(Error::INVALID_HANDLE));
    cu!(cuMemFree_v2(mine)).unwrap();
}

#[test]
fn an_endless_tenant_is_ended() {
    let _alive = start();
    let never = Arc::new(AtomicU32::new(0));
    std::thread::spawn(move || {
        let _alive = start();
        let mut tenant = 0;
        cu!(openmpsTenantCreate(&mut tenant)).unwrap();
        cu!(openmpsTenantBind(tenant)).unwrap();
        let stream = new_stream(0);
        launch(spin(&never), 300, stream, &mut []).unwrap();
        launch(spin(&never), 300, CUstream::NULL, &mut []).unwrap();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            let _alive = start();
            cu!(openmpsTenantBind(tenant)).unwrap();
            begun.send(()).unwrap();
            cu!(cuStreamSynchronize(stream))
        });
        // Whether it waits already or is about to: it must not wait on.
        has_begun.recv().unwrap();
        cu!(openmpsTenantEnd(tenant)).unwrap();
        assert_eq!(waiter.join().unwrap(), Err(Error::CONTEXT_IS_DESTROYED));
        assert_eq!(launch(spin(&never), 1, stream, &mut []), Err(Error::CONTEXT_IS_DESTROYED));
        cu!(cuStreamDestroy_v2(stream)).unwrap();
    })
    .join()
    .unwrap();
}

#[test]
fn contexts_take_what_was_made_in_them_along() {
    let _alive = start();
    std::thread::spawn(|| {
        let mut context = CUcontext::NULL;
        cu!(cuCtxCreate_v2(&mut context, 0, 0)).unwrap();
        let memory = allocate(5 << 20);
        let stream = new_stream(0);
        let flag = Arc::new(AtomicU32::new(0));
        launch(spin(&flag), 4, stream, &mut []).unwrap();
        launch(spin(&flag), 4, CUstream::NULL, &mut []).unwrap();
        let later = flag.clone();
        let setter = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            later.store(1, Ordering::Release);
        });
        // Work is waited for, as an H200's driver does.
        cu!(cuCtxDestroy_v2(context)).unwrap();
        assert_eq!(flag.load(Ordering::Acquire), 1);
        setter.join().unwrap();
        let mut current = CUcontext(1);
        cu!(cuCtxGetCurrent(&mut current)).unwrap();
        assert!(current.is_null());
        assert_eq!(cu!(cuStreamSynchronize(stream)), Err(Error::INVALID_HANDLE));
        assert_eq!(cu!(cuCtxSetCurrent(context)), Err(Error::INVALID_CONTEXT));
        assert!(driver().unwrap().device.memory.pointer(memory.0).is_none());
    })
    .join()
    .unwrap();
}

#[test]
fn words_order_streams_and_batches_are_all_or_none() {
    let _alive = start();
    let words = allocate(64);
    cu!(cuMemsetD8_v2(words, 0, 64)).unwrap();
    cu!(cuCtxSynchronize()).unwrap();
    let (first, second) = (new_stream(1), new_stream(1));
    cu!(cuStreamWaitValue32_v2(first, words, 5, 1)).unwrap();
    let next = CUdeviceptr(words.0 + 8);
    cu!(cuStreamWriteValue64_v2(first, next, 1 << 40, 0)).unwrap();
    let op = |operation, address: CUdeviceptr, value| CUstreamBatchMemOpParams {
        operation,
        address,
        value,
        flags: 0,
        alias: 0,
        pad: 0,
    };
    let mut bad = [op(2, words, 5), op(99, words, 5)];
    let batch = |ops: &mut [CUstreamBatchMemOpParams]| {
        cu!(cuStreamBatchMemOp_v2(second, ops.len() as u32, ops.as_mut_ptr(), 0))
    };
    assert_eq!(batch(&mut bad), Err(Error::INVALID_VALUE));
    assert_eq!(cu!(cuStreamQuery(first)), Err(Error::NOT_READY));
    batch(&mut [op(2, words, 5), op(4, next, 1 << 40), op(5, next, 2)]).unwrap();
    cu!(cuStreamSynchronize(second)).unwrap();
    assert_eq!(read(words, 2), [5, 2]);
    let odd = CUdeviceptr(words.0 + 2);
    assert_eq!(cu!(cuStreamWriteValue32_v2(first, odd, 0, 0)), Err(Error::INVALID_VALUE));
    cu!(cuMemFree_v2(words)).unwrap();
}

#[test]
fn entry_points_are_found_by_name_and_version() {
    let find = |name: &CStr, version, flags| {
        let (mut address, mut status) = (null_mut(), 9);
        cu!(cuGetProcAddress_v2(name.as_ptr(), &mut address, version, flags, &mut status))
            .map(|()| (address as usize, status))
    };
    assert_eq!(find(c"cuMemAlloc", 13_000, 0), Ok((cuMemAlloc_v2 as *const c_void as usize, 0)));
    let per_thread = cuLaunchKernel_ptsz as *const c_void as usize;
    assert_eq!(find(c"cuLaunchKernel", 12_000, 2), Ok((per_thread, 0)));
    assert_eq!(find(c"cuMemAlloc_v2", 13_000, 0), Ok((0, 1)));
    assert_eq!(find(c"cuLaunchKernelEx", 4000, 0), Ok((0, 2)));
    assert_eq!(find(c"cuInit", 99_999, 0), Err(Error::INVALID_VALUE));
    let mut address = std::ptr::without_provenance_mut::<c_void>(1);
    let name = c"cuNoSuchThing".as_ptr();
    assert_eq!(cu!(cuGetProcAddress(name, &mut address, 12_000, 0)), Err(Error::NOT_FOUND));
    assert_eq!(address as usize, 1);
    // What the table has and is exported is what the tables of the files say.
    for file in super::EXPORTS {
        for export in *file {
            assert!(row_of_symbol(export.name).is_some(), "{}", export.name);
        }
    }
}

#[test]
fn images_without_ptx_are_refused_by_name() {
    let _alive = start();
    let mut module = CUmodule::NULL;
    let load =
        |module: &mut CUmodule, image: &[u8]| cu!(cuModuleLoadData(module, image.as_ptr().cast()));
    assert_eq!(load(&mut module, b"\x01\x02\x03\x04\0"), Err(Error::INVALID_IMAGE));
    assert_eq!(cu!(cuModuleLoadData(&mut module, null())), Err(Error::INVALID_VALUE));
    let missing = c"/nonexistent/kernel.ptx".as_ptr();
    assert_eq!(cu!(cuModuleLoad(&mut module, missing)), Err(Error::FILE_NOT_FOUND));
    assert_eq!(cu!(cuModuleUnload(CUmodule(5))), Err(Error::INVALID_HANDLE));
    // An ELF header and nothing after it, with its section table inside.
    let mut elf = [0u8; 64];
    elf[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\x33\x07\0\0\0\0\0\0\0");
    elf[18] = 190;
    assert_eq!(load(&mut module, &elf), Err(Error::NO_BINARY_FOR_GPU));
}
