//! Several devices in one process: this test program once more, with devices of its own.

use super::*;
use std::process::{Command, Output};

const BYTES: usize = 4 << 20;

/// Runs a part of a test in a process with these variables.
fn child(part: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("api::tests::devices::{part}"), "--ignored", "--nocapture"])
        .envs(environment.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{part} {environment:?}: {output:?}");
    output
}

/// A context on each device.
fn contexts() -> Vec<CUcontext> {
    let mut count = 0;
    cu!(cuDeviceGetCount(&mut count)).unwrap();
    (0..count)
        .map(|device| {
            let mut context = CUcontext::NULL;
            cu!(cuDevicePrimaryCtxRetain(&mut context, device)).unwrap();
            context
        })
        .collect()
}

fn on(context: CUcontext) {
    cu!(cuCtxSetCurrent(context)).unwrap();
}

fn free_bytes(context: CUcontext) -> usize {
    on(context);
    let (mut free, mut total) = (0, 0);
    cu!(cuMemGetInfo_v2(&mut free, &mut total)).unwrap();
    free
}

fn word(pointer: CUdeviceptr) -> u64 {
    let mut value = 0u64;
    cu!(cuMemcpyDtoH_v2((&raw mut value).cast(), pointer, 8)).unwrap();
    value
}

fn uuid_of(device: CUdevice) -> CUuuid {
    let mut uuid = CUuuid::default();
    cu!(cuDeviceGetUuid_v2(&mut uuid, device)).unwrap();
    uuid
}

/// Has a device write a value into memory, and waits for it.
fn write_from(context: CUcontext, at: CUdeviceptr, value: u64) -> CUresult {
    on(context);
    launch(store(), 1, CUstream::NULL, &mut [at.0, value])?;
    cu!(cuCtxSynchronize())
}

#[test]
fn each_device_has_its_own_identity_and_memory() {
    // Other tests' processes have memory of the same devices: here there are none.
    let directory = std::env::temp_dir().join(format!("openmps-devices-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let name = directory.to_str().unwrap();
    let settings = [("OPENMPS_SOFT_DEVICES", "4"), ("OPENMPS_SOFT_DIR", name)];
    child("child_looks_at_devices", &settings);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
#[ignore = "run by each_device_has_its_own_identity_and_memory"]
fn child_looks_at_devices() {
    let _alive = start();
    let contexts = contexts();
    assert_eq!(contexts.len(), 4);
    for (ordinal, context) in (0..).zip(&contexts) {
        assert_eq!((0..4).filter(|other| uuid_of(*other) == uuid_of(ordinal)).count(), 1);
        let mut pci = [0u8; 16];
        cu!(cuDeviceGetPCIBusId(pci.as_mut_ptr().cast(), 16, ordinal)).unwrap();
        let mut found = -1;
        cu!(cuDeviceGetByPCIBusId(&mut found, pci.as_ptr().cast())).unwrap();
        assert_eq!(found, ordinal);
        let mut bus = 0;
        cu!(cuDeviceGetAttribute(&mut bus, attributes::PCI_BUS_ID, ordinal)).unwrap();
        assert!(pci.starts_with(format!("0000:{bus:02x}:00.0").as_bytes()) && bus > 0);
        on(*context);
        let mut device = -1;
        cu!(cuCtxGetDevice(&mut device)).unwrap();
        assert_eq!(device, ordinal);
    }
    let mut device = 0;
    assert_eq!(cu!(cuDeviceGet(&mut device, 4)), Err(Error::INVALID_DEVICE));
    let before: Vec<usize> = contexts.iter().map(|context| free_bytes(*context)).collect();
    on(contexts[2]);
    let memory = allocate(BYTES);
    let taken = |place: usize| before[place] - free_bytes(contexts[place]);
    assert_eq!([0, 1, 3].map(taken), [0; 3]);
    assert!(taken(2) >= BYTES);
    let mut ordinal = -1i32;
    let number = pointer_attribute::DEVICE_ORDINAL;
    cu!(cuPointerGetAttribute((&raw mut ordinal).cast(), number, memory)).unwrap();
    assert_eq!(ordinal, 2);
    // From any context, as CUDA has it.
    on(contexts[0]);
    cu!(cuMemFree_v2(memory)).unwrap();
    assert_eq!(free_bytes(contexts[2]), before[2]);
    // Each device counts its SMs from 0.
    let (highest, count) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (sms, seen) = (highest.clone(), count.clone());
    let look = function(0, move |worker, _, _| {
        sms.fetch_max(worker.sm, Ordering::Relaxed);
        seen.fetch_add(1, Ordering::Relaxed);
        assert!(worker.sm < worker.sm_count);
        Outcome::Finished
    });
    for context in &contexts {
        on(*context);
        launch(look, 64, CUstream::NULL, &mut []).unwrap();
        cu!(cuCtxSynchronize()).unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), 4 * 64);
    assert!(highest.load(Ordering::Relaxed) > 0);
}

#[test]
fn kernels_reach_a_peers_memory_once_access_is_enabled() {
    child("child_enables_peers", &[("OPENMPS_SOFT_DEVICES", "2")]);
}

#[test]
#[ignore = "run by kernels_reach_a_peers_memory_once_access_is_enabled"]
fn child_enables_peers() {
    let _alive = start();
    let [first, second] = contexts()[..] else { panic!("two devices") };
    let mut can = 0;
    cu!(cuDeviceCanAccessPeer(&mut can, 0, 1)).unwrap();
    assert_eq!(can, 1);
    cu!(cuDeviceCanAccessPeer(&mut can, 0, 0)).unwrap();
    assert_eq!(can, 0, "a device is no peer of itself");
    on(first);
    let before = allocate(64);
    on(second);
    assert_eq!(cu!(cuCtxEnablePeerAccess(second, 0)), Err(Error::PEER_ACCESS_UNSUPPORTED));
    assert_eq!(cu!(cuCtxEnablePeerAccess(first, 1)), Err(Error::INVALID_VALUE));
    assert_eq!(cu!(cuCtxDisablePeerAccess(first)), Err(Error::PEER_ACCESS_NOT_ENABLED));
    cu!(cuCtxEnablePeerAccess(first, 0)).unwrap();
    assert_eq!(cu!(cuCtxEnablePeerAccess(first, 0)), Err(Error::PEER_ACCESS_ALREADY_ENABLED));
    write_from(second, before, 41).unwrap();
    // What comes later is reached as well, large or small.
    on(first);
    let (after, large) = (allocate(64), allocate(3 * BYTES));
    write_from(second, after, 42).unwrap();
    write_from(second, CUdeviceptr(large.0 + 8), 43).unwrap();
    on(first);
    assert_eq!((word(before), word(after), word(CUdeviceptr(large.0 + 8))), (41, 42, 43));
    // Memory goes while a peer has access to it.
    cu!(cuMemFree_v2(large)).unwrap();
    on(second);
    cu!(cuCtxDisablePeerAccess(first)).unwrap();
    assert_eq!(cu!(cuCtxDisablePeerAccess(first)), Err(Error::PEER_ACCESS_NOT_ENABLED));
    // Now it is a fault, and that ends the process's contexts on both devices.
    assert_eq!(write_from(second, before, 44), Err(Error::ILLEGAL_ADDRESS));
    on(first);
    assert_eq!(cu!(cuCtxSynchronize()), Err(Error::ILLEGAL_ADDRESS));
}

#[test]
fn a_peer_that_was_never_enabled_is_a_fault() {
    child("child_goes_without_peers", &[("OPENMPS_SOFT_DEVICES", "2")]);
}

#[test]
#[ignore = "run by a_peer_that_was_never_enabled_is_a_fault"]
fn child_goes_without_peers() {
    let _alive = start();
    let [first, second] = contexts()[..] else { panic!("two devices") };
    on(first);
    let memory = allocate(64);
    // Pinned memory is reached by all devices.
    let mut pinned = null_mut();
    cu!(cuMemAllocHost_v2(&mut pinned, 64)).unwrap();
    write_from(second, CUdeviceptr(pinned as u64), 7).unwrap();
    let fault = write_from(second, memory, 1);
    assert_eq!(fault, Err(Error::ILLEGAL_ADDRESS));
}

#[test]
fn copies_and_events_go_between_devices_with_peer_access_or_without() {
    for peer in ["1", "0"] {
        let environment = [("OPENMPS_SOFT_DEVICES", "3"), ("OPENMPS_SOFT_PEER", peer)];
        child("child_copies_between_devices", &environment);
    }
}

#[test]
#[ignore = "run by copies_and_events_go_between_devices_with_peer_access_or_without"]
fn child_copies_between_devices() {
    let _alive = start();
    let [first, second, third] = contexts()[..] else { panic!("three devices") };
    on(first);
    let (a, gate, event) = (allocate(BYTES), Arc::new(AtomicU32::new(0)), new_event());
    let stream = new_stream(1);
    launch(spin(&gate), 1, stream, &mut []).unwrap();
    launch(store(), 1, stream, &mut [a.0, 5]).unwrap();
    cu!(cuEventRecord(event, stream)).unwrap();
    on(second);
    let b = allocate(BYTES);
    let other = new_stream(1);
    cu!(cuStreamWaitEvent(other, event, 0)).unwrap();
    cu!(cuMemcpyPeerAsync(b, second, a, first, BYTES, other)).unwrap();
    assert_eq!(cu!(cuStreamQuery(other)), Err(Error::NOT_READY), "it waits for the other device");
    gate.store(1, Ordering::Relaxed);
    cu!(cuStreamSynchronize(other)).unwrap();
    assert_eq!(word(b), 5);
    on(third);
    let c = allocate(BYTES);
    cu!(cuMemcpyDtoD_v2(c, b, BYTES)).unwrap();
    cu!(cuCtxSynchronize()).unwrap();
    assert_eq!(word(c), 5);
    let copy = CUDA_MEMCPY3D_PEER {
        srcMemoryType: memory_type::DEVICE,
        srcDevice: b,
        srcContext: second,
        srcPitch: 64,
        srcHeight: 2,
        dstMemoryType: memory_type::DEVICE,
        dstDevice: CUdeviceptr(c.0 + 4096),
        dstContext: third,
        dstPitch: 64,
        dstHeight: 2,
        WidthInBytes: 8,
        Height: 2,
        Depth: 2,
        ..Default::default()
    };
    cu!(cuMemcpy3DPeer(&copy)).unwrap();
    assert_eq!(word(CUdeviceptr(c.0 + 4096)), 5);
}

fn new_event() -> CUevent {
    let mut event = CUevent::NULL;
    cu!(cuEventCreate(&mut event, event_flags::DISABLE_TIMING)).unwrap();
    event
}

#[test]
fn devices_without_a_link_refuse_what_needs_one() {
    let environment = [("OPENMPS_SOFT_DEVICES", "2"), ("OPENMPS_SOFT_PEER", "0")];
    child("child_is_refused", &environment);
}

/// Memory of a device, mapped and not accessible yet.
fn mapping(device: CUdevice) -> CUdeviceptr {
    let mut handle = 0;
    let location = CUmemLocation { kind: vmm::LOCATION_DEVICE, id: device };
    let prop: CUmemAllocationProp = Default::default();
    let prop = CUmemAllocationProp { kind: vmm::ALLOCATION_PINNED, location, ..prop };
    cu!(cuMemCreate(&mut handle, BYTES, &prop, 0)).unwrap();
    let mut address = CUdeviceptr(0);
    cu!(cuMemAddressReserve(&mut address, BYTES, 0, CUdeviceptr(0), 0)).unwrap();
    cu!(cuMemMap(address, BYTES, 0, handle, 0)).unwrap();
    cu!(cuMemRelease(handle)).unwrap();
    address
}

fn access_of(device: CUdevice) -> CUmemAccessDesc {
    let location = CUmemLocation { kind: vmm::LOCATION_DEVICE, id: device };
    CUmemAccessDesc { location, flags: vmm::ACCESS_READ_WRITE }
}

#[test]
#[ignore = "run by devices_without_a_link_refuse_what_needs_one"]
fn child_is_refused() {
    let _alive = start();
    let [first, second] = contexts()[..] else { panic!("two devices") };
    let (mut can, mut value) = (1, 1);
    cu!(cuDeviceCanAccessPeer(&mut can, 0, 1)).unwrap();
    cu!(cuDeviceGetP2PAttribute(&mut value, 2, 0, 1)).unwrap();
    assert_eq!((can, value), (0, 0));
    on(first);
    assert_eq!(cu!(cuCtxEnablePeerAccess(second, 0)), Err(Error::PEER_ACCESS_UNSUPPORTED));
    let address = mapping(0);
    let other = access_of(1);
    assert_eq!(cu!(cuMemSetAccess(address, BYTES, &other, 1)), Err(Error::INVALID_DEVICE));
    let mut pool = CUmemoryPool::NULL;
    cu!(cuDeviceGetDefaultMemPool(&mut pool, 0)).unwrap();
    assert_eq!(cu!(cuMemPoolSetAccess(pool, &other, 1)), Err(Error::INVALID_DEVICE));
}

#[test]
fn mappings_and_pools_are_for_the_devices_that_they_are_given_to() {
    child("child_gives_access", &[("OPENMPS_SOFT_DEVICES", "2")]);
}

#[test]
#[ignore = "run by mappings_and_pools_are_for_the_devices_that_they_are_given_to"]
fn child_gives_access() {
    let _alive = start();
    let [first, second] = contexts()[..] else { panic!("two devices") };
    on(first);
    let address = mapping(0);
    let both = [access_of(0), access_of(1)];
    cu!(cuMemSetAccess(address, BYTES, both.as_ptr(), 2)).unwrap();
    write_from(second, address, 8).unwrap();
    on(first);
    assert_eq!(word(address), 8);
    cu!(cuMemUnmap(address, BYTES)).unwrap();
    // Memory of the second device, which the first one alone may touch.
    let address = mapping(1);
    cu!(cuMemSetAccess(address, BYTES, &both[0], 1)).unwrap();
    write_from(first, address, 9).unwrap();
    assert_eq!(word(address), 9);
    let mut flags = 0;
    let location = both[1].location;
    cu!(cuMemGetAccess(&mut flags, &location, address)).unwrap();
    assert_eq!(flags, u64::from(vmm::ACCESS_NONE));
    // A pool.
    let mut pool = CUmemoryPool::NULL;
    cu!(cuDeviceGetDefaultMemPool(&mut pool, 0)).unwrap();
    let stream = new_stream(1);
    let mut block = CUdeviceptr(0);
    cu!(cuMemAllocFromPoolAsync(&mut block, 64, pool, stream)).unwrap();
    cu!(cuMemPoolSetAccess(pool, &both[1], 1)).unwrap();
    write_from(second, block, 10).unwrap();
    on(first);
    assert_eq!(word(block), 10);
    let mut access = 0;
    let mut location = location;
    cu!(cuMemPoolGetAccess(&mut access, pool, &mut location)).unwrap();
    assert_eq!(access, vmm::ACCESS_READ_WRITE);
    // Each device's own pool is the one that its streams take memory from.
    on(second);
    let mut own = CUdeviceptr(0);
    cu!(cuMemAllocAsync(&mut own, 64, new_stream(1))).unwrap();
    let mut ordinal = -1i32;
    let number = pointer_attribute::DEVICE_ORDINAL;
    cu!(cuPointerGetAttribute((&raw mut ordinal).cast(), number, own)).unwrap();
    assert_eq!(ordinal, 1);
}

#[test]
fn work_on_one_device_leaves_the_other_one_its_share() {
    child("child_shares_the_processor", &[("OPENMPS_SOFT_DEVICES", "2")]);
}

/// The first device's blocks, which take all threads, end only after the second one has worked.
#[test]
#[ignore = "run by work_on_one_device_leaves_the_other_one_its_share"]
fn child_shares_the_processor() {
    let _alive = start();
    let [first, second] = contexts()[..] else { panic!("two devices") };
    let gate = Arc::new(AtomicU32::new(0));
    on(first);
    launch(spin(&gate), 256, CUstream::NULL, &mut []).unwrap();
    on(second);
    let memory = allocate(64);
    write_from(second, memory, 3).unwrap();
    assert_eq!(word(memory), 3);
    gate.store(1, Ordering::Relaxed);
    on(first);
    cu!(cuCtxSynchronize()).unwrap();
}

#[test]
fn the_list_of_visible_devices_chooses_and_orders() {
    let all = child("child_lists_devices", &[("OPENMPS_SOFT_DEVICES", "4")]);
    let listed = |output: Output| -> Vec<String> {
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().filter(|w| w.starts_with("GPU-")).map(str::to_owned).collect()
    };
    let all = listed(all);
    assert_eq!(all.len(), 4);
    let third = &all[3][..12];
    for (list, expected) in [
        ("2,0", vec![&all[2], &all[0]]),
        ("1,7,2", vec![&all[1]]),
        (third, vec![&all[3]]),
        ("-1", vec![]),
        ("1,1", vec![]),
    ] {
        let environment = [("OPENMPS_SOFT_DEVICES", "4"), ("CUDA_VISIBLE_DEVICES", list)];
        let seen = listed(child("child_lists_devices", &environment));
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected, "{list}");
    }
}

#[test]
#[ignore = "run by the_list_of_visible_devices_chooses_and_orders"]
fn child_lists_devices() {
    let _watchdog = Watchdog::new();
    if cu!(cuInit(0)) == Err(Error::NO_DEVICE) {
        return;
    }
    let mut count = 0;
    cu!(cuDeviceGetCount(&mut count)).unwrap();
    (0..count).for_each(|device| println!(" {} ", uuid_of(device)));
}
