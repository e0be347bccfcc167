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
mod nested;
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
        // SAFETY: just allowed.
        unsafe { AtomicU64::from_ptr(at as *mut u64) }.store(value, Ordering::Relaxed);
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
fn bad_device_pointers_are_refused_and_freed_memory_is_bad() {
    let _alive = start();
    // In a tenant of its own, whose addresses no other test is given.
    let mut tenant = 0;
    cu!(openmpsTenantCreate(&mut tenant)).unwrap();
    cu!(openmpsTenantBind(tenant)).unwrap();
    let memory = allocate(1000);
    let mut host = [0u8; 2000];
    let at = host.as_mut_ptr().cast::<c_void>();
    let invalid = Err(Error::INVALID_VALUE);
    assert_eq!(cu!(cuMemcpyHtoD_v2(memory, at, 1001)), invalid);
    assert_eq!(cu!(cuMemcpyDtoH_v2(at, CUdeviceptr(memory.0 + 999), 2)), invalid);
    assert_eq!(cu!(cuMemcpyHtoD_v2(CUdeviceptr(64), at, 1)), invalid);
    assert_eq!(cu!(cuMemcpyHtoD_v2(memory, null(), 1)), invalid);
    assert_eq!(cu!(cuMemcpyDtoD_v2(memory, CUdeviceptr(u64::MAX - 3), 8)), invalid);
    assert_eq!(cu!(cuMemsetD8_v2(CUdeviceptr(memory.0 + 1), 0, 1000)), invalid);
    assert_eq!(cu!(cuMemsetD32_v2(CUdeviceptr(memory.0 + 1), 0, 4)), invalid);
    assert_eq!(cu!(cuMemFree_v2(CUdeviceptr(memory.0 + 512))), invalid);
    cu!(cuMemFree_v2(memory)).unwrap();
    assert_eq!(cu!(cuMemFree_v2(memory)), invalid);
    assert_eq!(cu!(cuMemcpyHtoD_v2(memory, at, 1)), invalid);
    let mut pointer = CUdeviceptr(0);
    assert_eq!(cu!(cuMemAlloc_v2(&mut pointer, 0)), invalid);
    assert_eq!(cu!(cuMemAlloc_v2(&mut pointer, 1 << 60)), Err(Error::OUT_OF_MEMORY));
    assert_eq!(cu!(cuMemAlloc_v2(&mut pointer, usize::MAX)), Err(Error::OUT_OF_MEMORY));
    assert_eq!(cu!(cuMemAlloc_v2(null_mut(), 1)), invalid);
    cu!(cuMemFree_v2(CUdeviceptr(0))).unwrap();
    cu!(openmpsTenantEnd(tenant)).unwrap();
    cu!(openmpsTenantBind(0)).unwrap();
}

#[test]
fn pinned_and_registered_memory_is_the_devices_too() {
    let _alive = start();
    let mut pinned = null_mut();
    cu!(cuMemHostAlloc(&mut pinned, 4096, 0)).unwrap();
    let store = store();
    launch(store, 10, CUstream::NULL, &mut [pinned as u64, 3]).unwrap();
    cu!(cuCtxSynchronize()).unwrap();
    // SAFETY: the kernel has ended and the memory lives.
    assert_eq!(unsafe { *pinned.cast::<u64>().add(9) }, 12);

    let mut own = vec![0u64; 1024];
    let at = own.as_mut_ptr().cast::<c_void>();
    cu!(cuMemHostRegister_v2(at, 8192, 0)).unwrap();
    assert_eq!(cu!(cuMemHostRegister_v2(at, 8, 0)), Err(Error::HOST_MEMORY_ALREADY_REGISTERED));
    launch(store, 1024, CUstream::NULL, &mut [at as u64, 0]).unwrap();
    cu!(cuCtxSynchronize()).unwrap();
    cu!(cuMemHostUnregister(at)).unwrap();
    assert_eq!(cu!(cuMemHostUnregister(at)), Err(Error::HOST_MEMORY_NOT_REGISTERED));
    assert_eq!(own[1023], 1023);
    let bad = cu!(cuMemHostRegister_v2(8 as *mut c_void, 4096, 0));
    assert_eq!(bad, Err(Error::INVALID_VALUE));

    let mut kind = 0u32;
    let mut kind_of = |pointer| {
        let data = std::ptr::from_mut(&mut kind).cast();
        let attribute = pointer_attribute::MEMORY_TYPE;
        cu!(cuPointerGetAttribute(data, attribute, CUdeviceptr(pointer))).map(|()| kind)
    };
    assert_eq!(kind_of(pinned as u64 + 5), Ok(memory_type::HOST));
    assert_eq!(kind_of(at as u64), Err(Error::INVALID_VALUE));
    cu!(cuMemFreeHost(pinned)).unwrap();
    assert_eq!(cu!(cuMemFreeHost(pinned)), Err(Error::INVALID_VALUE));
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
fn physical_memory_goes_from_hand_to_hand_as_a_descriptor() {
    let _alive = start();
    let chunk = 2 << 20;
    let location = CUmemLocation { kind: vmm::LOCATION_DEVICE, id: 0 };
    let prop = CUmemAllocationProp {
        kind: vmm::ALLOCATION_PINNED,
        requestedHandleTypes: vmm::HANDLE_POSIX_FD,
        location,
        win32HandleMetaData: null_mut(),
        compressionType: 0,
        gpuDirectRDMACapable: 0,
        usage: 0,
        reserved: [0; 4],
    };
    let mut handle = 0;
    assert_eq!(cu!(cuMemCreate(&mut handle, chunk + 1, &prop, 0)), Err(Error::INVALID_VALUE));
    cu!(cuMemCreate(&mut handle, chunk, &prop, 0)).unwrap();
    let mut fd = -1i32;
    let place = std::ptr::from_mut(&mut fd).cast();
    cu!(cuMemExportToShareableHandle(place, handle, vmm::HANDLE_POSIX_FD, 0)).unwrap();
    let mut imported = 0;
    let import = |imported: &mut u64, fd: i32| {
        cu!(cuMemImportFromShareableHandle(imported, fd as usize as *mut c_void, 1))
    };
    import(&mut imported, fd).unwrap();
    // Anything else that is a descriptor is refused: a mapping of it could vanish under us.
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let other = std::os::fd::AsRawFd::as_raw_fd(&file);
    assert_eq!(import(&mut 0, other), Err(Error::INVALID_VALUE));
    assert_eq!(import(&mut 0, 9999), Err(Error::INVALID_VALUE));

    let mut base = CUdeviceptr(0);
    let wanted = CUdeviceptr(0x1234_0000_0000);
    cu!(cuMemAddressReserve(&mut base, 4 * chunk, 0, wanted, 0)).unwrap();
    assert_eq!(base, wanted);
    let second = CUdeviceptr(base.0 + chunk as u64);
    cu!(cuMemMap(base, chunk, 0, handle, 0)).unwrap();
    cu!(cuMemMap(second, chunk, 0, imported, 0)).unwrap();
    assert_eq!(cu!(cuMemMap(second, chunk, 0, handle, 0)), Err(Error::INVALID_VALUE));
    let mut host = [7u64];
    let at = host.as_mut_ptr().cast::<c_void>();
    assert_eq!(cu!(cuMemcpyHtoD_v2(base, at, 8)), Err(Error::INVALID_VALUE), "no access yet");
    let desc = CUmemAccessDesc { location, flags: vmm::ACCESS_READ_WRITE };
    cu!(cuMemSetAccess(base, 2 * chunk, &desc, 1)).unwrap();
    cu!(cuMemcpyHtoD_v2(base, at, 8)).unwrap();
    assert_eq!(read(second, 1), [7], "the same memory twice");
    // One copy over the boundary of two mappings, and a kernel beside it.
    let boundary = CUdeviceptr(second.0 - 8);
    let store = store();
    launch(store, 2, CUstream::NULL, &mut [boundary.0, 40]).unwrap();
    assert_eq!(read(boundary, 2), [40, 41]);

    cu!(cuMemRelease(handle)).unwrap();
    let mut retained = 0;
    cu!(cuMemRetainAllocationHandle(&mut retained, base.0 as *mut c_void)).unwrap();
    assert_eq!(retained, handle);
    cu!(cuMemRelease(retained)).unwrap();
    cu!(cuMemRelease(imported)).unwrap();
    assert_eq!(cu!(cuMemAddressFree(base, 4 * chunk)), Err(Error::INVALID_VALUE));
    assert_eq!(cu!(cuMemUnmap(base, chunk / 2)), Err(Error::INVALID_VALUE));
    cu!(cuMemUnmap(base, 2 * chunk)).unwrap();
    assert_eq!(cu!(cuMemcpyHtoD_v2(base, at, 8)), Err(Error::INVALID_VALUE));
    cu!(cuMemAddressFree(base, 4 * chunk)).unwrap();
    assert_eq!(cu!(cuMemRelease(handle)), Err(Error::INVALID_VALUE));

    // What was exported lives on in its descriptor.
    import(&mut imported, fd).unwrap();
    cu!(cuMemAddressReserve(&mut base, chunk, 0, CUdeviceptr(0), 0)).unwrap();
    cu!(cuMemMap(base, chunk, 0, imported, 0)).unwrap();
    cu!(cuMemRelease(imported)).unwrap();
    cu!(cuMemSetAccess(base, chunk, &desc, 1)).unwrap();
    assert_eq!(read(base, 1), [41]);
    cu!(cuMemUnmap(base, chunk)).unwrap();
    cu!(cuMemAddressFree(base, chunk)).unwrap();
    // SAFETY: the descriptor is ours since the export.
    unsafe { libc::close(fd) };
}

#[test]
fn a_tenants_fault_is_nobody_elses() {
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

/// Runs a test of this program alone in a process of its own, and gives how it ended.
fn alone(test: &str) -> std::process::Output {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .unwrap()
}

#[test]
fn a_program_may_end_in_the_middle_of_its_work() {
    for test in ["api::tests::child_exits", "api::tests::child_returns"] {
        let output = alone(test);
        assert!(output.status.success(), "{test}: {output:?}");
    }
}

#[test]
#[ignore = "run by a_program_may_end_in_the_middle_of_its_work"]
fn child_exits() {
    let _alive = start();
    let never = Arc::new(AtomicU32::new(0));
    for _ in 0..4 {
        launch(spin(&never), 100, new_stream(0), &mut []).unwrap();
    }
    std::process::exit(0);
}

#[test]
#[ignore = "run by a_program_may_end_in_the_middle_of_its_work"]
fn child_returns() {
    let _alive = start();
    launch(spin(&Arc::default()), 100, CU_STREAM_PER_THREAD, &mut []).unwrap();
}

#[test]
fn a_killed_process_loses_its_turn() {
    use std::io::{BufRead, BufReader};
    let dir = std::env::temp_dir().join(format!("soft-gpu-killed-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "api::tests::child_holds_the_device", "--ignored", "--nocapture"])
        .env("OPENMPS_SOFT_DIR", &dir)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("the device is ours")));
    let device = crate::testing::TestDevice::with(|s| s.turn_dirs = vec![dir.clone()]);
    let stream = device.stream();
    let run = || {
        let op = crate::testing::launch(1, 32, |_, _, _| Outcome::Finished);
        device.enqueue(stream, op).unwrap();
        device.synchronize_stream(stream).unwrap();
    };
    // In turns with its endless kernel, then without it.
    for _ in 0..5 {
        run();
    }
    child.kill().unwrap();
    for _ in 0..5 {
        run();
    }
    child.wait().unwrap();
    run();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
#[ignore = "run by a_killed_process_loses_its_turn"]
fn child_holds_the_device() {
    let _alive = start();
    let running = Arc::new(AtomicU32::new(0));
    let seen = running.clone();
    let endless = function(0, move |worker, _, _| {
        seen.store(1, Ordering::Release);
        while !worker.control.yield_requested() {
            std::hint::spin_loop();
        }
        Outcome::Yielded
    });
    launch(endless, 4, new_stream(0), &mut []).unwrap();
    while running.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    println!("the device is ours");
    std::thread::sleep(std::time::Duration::from_secs(50));
}

#[test]
fn a_child_of_fork_has_no_driver() {
    let output = alone("api::tests::child_forks");
    assert!(output.status.success(), "{output:?}");
}

#[test]
#[ignore = "run by a_child_of_fork_has_no_driver"]
fn child_forks() {
    let _alive = start();
    launch(spin(&Arc::default()), 4, CUstream::NULL, &mut []).unwrap();
    // SAFETY: the child only calls the driver, which answers without touching a lock, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = Err(Error::NOT_INITIALIZED);
        let mut count = 0;
        let right = cu!(cuInit(0)) == refused
            && cu!(cuDeviceGetCount(&mut count)) == refused
            && cu!(cuCtxSynchronize()) == refused
            && cu!(cuDriverGetVersion(&mut count)) == Ok(());
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(if right { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; `status` lives across the call.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((waited, status), (child, 0));
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
fn pools_keep_what_was_set() {
    let _alive = start();
    let mut pool = CUmemoryPool::NULL;
    cu!(cuDeviceGetDefaultMemPool(&mut pool, 0)).unwrap();
    let mut threshold = 123u64 << 20;
    let place = std::ptr::from_mut(&mut threshold).cast();
    cu!(cuMemPoolSetAttribute(pool, 4, place)).unwrap();
    threshold = 0;
    let place = std::ptr::from_mut(&mut threshold).cast();
    cu!(cuMemPoolGetAttribute(pool, 4, place)).unwrap();
    assert_eq!(threshold, 123 << 20);
    // In a tenant of its own, whose addresses no other test is given.
    let mut tenant = 0;
    cu!(openmpsTenantCreate(&mut tenant)).unwrap();
    cu!(openmpsTenantBind(tenant)).unwrap();
    let (stream, mut memory) = (new_stream(1), CUdeviceptr(0));
    cu!(cuMemAllocAsync(&mut memory, 1000, stream)).unwrap();
    launch(store(), 10, stream, &mut [memory.0, 0]).unwrap();
    cu!(cuMemFreeAsync(memory, stream)).unwrap();
    cu!(cuStreamSynchronize(stream)).unwrap();
    assert_eq!(cu!(cuMemFreeAsync(memory, stream)), Err(Error::INVALID_VALUE));
    cu!(openmpsTenantEnd(tenant)).unwrap();
    cu!(openmpsTenantBind(0)).unwrap();
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
