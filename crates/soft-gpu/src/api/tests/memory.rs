//! Memory: pointers, pinned memory, physical memory as a descriptor, pools.

use super::super::managed::*;
use super::*;
use crate::device::settings::physical_memory_bytes;
use crate::testing::word64;
use cuda_api::constants::limit;

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
fn a_launch_has_the_stack_that_the_context_allows() {
    let _alive = start();
    let seen = Arc::new(AtomicU32::new(0));
    let see = seen.clone();
    let kernel = function(0, move |_, launch, _| {
        see.store(launch.stack_bytes, Ordering::Relaxed);
        Outcome::Finished
    });
    for bytes in [1024, 128 << 10, 1024] {
        cu!(cuCtxSetLimit(limit::STACK_SIZE, bytes)).unwrap();
        launch(kernel, 1, CUstream::NULL, &mut []).unwrap();
        cu!(cuCtxSynchronize()).unwrap();
        assert_eq!(seen.load(Ordering::Relaxed) as usize, bytes);
    }
}

#[test]
fn managed_and_pinned_memory_are_the_machines() {
    let _alive = start();
    let (mut free, mut total) = (0, 0);
    cu!(cuMemGetInfo_v2(&mut free, &mut total)).unwrap();
    // More than the device has, and none of it is gone for others.
    let mut managed = CUdeviceptr(0);
    cu!(cuMemAllocManaged(&mut managed, total + (2 << 20), 1)).unwrap();
    cu!(cuMemFree_v2(allocate(64 << 20))).unwrap();
    cu!(cuMemFree_v2(managed)).unwrap();
    // No more than the machine has, though no page of it is touched.
    let twice = 2 * physical_memory_bytes() as usize;
    let (mut pinned, none) = (null_mut(), Err(Error::OUT_OF_MEMORY));
    assert_eq!(cu!(cuMemHostAlloc(&mut pinned, twice, 0)), none);
    assert_eq!(cu!(cuMemAllocHost_v2(&mut pinned, twice)), none);
    assert_eq!(cu!(cuMemAllocManaged(&mut managed, twice, 1)), none);
}

#[test]
fn pinned_and_registered_memory_is_the_devices_too() {
    let _alive = start();
    let mut pinned = null_mut();
    cu!(cuMemHostAlloc(&mut pinned, 4096, 0)).unwrap();
    let store = store();
    launch(store, 10, CUstream::NULL, &mut [pinned as u64, 3]).unwrap();
    cu!(cuCtxSynchronize()).unwrap();
    assert_eq!(word64(pinned as u64 + 8 * 9).load(Ordering::Relaxed), 12);

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
