//! What programs call, when all is well.

use super::{attach, out, passed, server, session, watched};
use crate::api::*;
use crate::boundary::Out;
use crate::memory::address::copy_here;
use crate::stream::DefaultStream::{Legacy, PerThread};
use crate::stream::table::LEGACY;
use channel::ring::{AWAKE, Flag, POLLING, RingMemory};
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::constants::{event_flags, jit_option, pointer_attribute, stream_flags};
use cuda_api::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn allocate(bytes: usize) -> CUdeviceptr {
    let mut pointer = CUdeviceptr(0);
    cuMemAlloc_v2(out(&mut pointer), bytes).unwrap();
    pointer
}

fn read(pointer: CUdeviceptr, bytes: usize) -> Vec<u8> {
    let mut host = vec![0u8; bytes];
    cuMemcpyDtoH_v2(Legacy, out(&mut host[0]).untyped(), pointer, bytes).unwrap();
    host
}

fn write(pointer: CUdeviceptr, bytes: &[u8]) {
    cuMemcpyHtoD_v2(Legacy, pointer, passed(bytes.as_ptr().cast()), bytes.len()).unwrap();
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn stream() -> CUstream {
    let mut stream = CUstream::NULL;
    cuStreamCreate(out(&mut stream), stream_flags::NON_BLOCKING).unwrap();
    stream
}

fn fill_kernel() -> CUfunction {
    let mut module = CUmodule::NULL;
    cuModuleLoadData(out(&mut module), passed(c"any text".as_ptr().cast())).unwrap();
    let mut function = CUfunction::NULL;
    cuModuleGetFunction(out(&mut function), module, passed(c"fill".as_ptr())).unwrap();
    function
}

fn launch_fill(
    function: CUfunction,
    to: CUdeviceptr,
    count: u32,
    value: u32,
    [grid, block, shared]: [c_uint; 3],
    stream: CUstream,
) -> CUresult {
    let (mut to, mut count, mut value) = (to, count, value);
    let mut params: [*mut c_void; 3] =
        [(&raw mut to).cast(), (&raw mut count).cast(), (&raw mut value).cast()];
    let params = out(&mut params[0]);
    cuLaunchKernel(Legacy, function, grid, 1, 1, block, 1, 1, shared, stream, params, Out::null())
}

#[test]
fn pageable_copies_of_all_sizes_come_back_as_they_went() {
    let _session = session();
    watched(|| {
        for bytes in [1, 63, 64, 4096, 100_001, (8 << 20) + 5, 40 << 20] {
            let pointer = allocate(bytes);
            let bytes = pattern(bytes);
            write(pointer, &bytes);
            assert!(read(pointer, bytes.len()) == bytes, "{} bytes", bytes.len());
            cuMemFree_v2(pointer).unwrap();
        }
    });
}

#[test]
fn threads_share_the_staging_area_without_waiting_for_each_other() {
    let session = session();
    let context = CUcontext(crate::context::current::word() as usize);
    watched(|| {
        std::thread::scope(|scope| {
            for thread in 0..6usize {
                let client = session.client;
                scope.spawn(move || {
                    client.contexts().set_current(context).unwrap();
                    let bytes: Vec<u8> =
                        pattern(9 << 20).iter().map(|b| b ^ thread as u8).collect();
                    let pointer = allocate(bytes.len());
                    for _ in 0..3 {
                        write(pointer, &bytes);
                        assert!(read(pointer, bytes.len()) == bytes);
                    }
                    cuMemFree_v2(pointer).unwrap();
                });
            }
        });
    });
}

#[test]
fn freed_and_foreign_pointers_are_refused() {
    let _session = session();
    let pointer = allocate(1000);
    let invalid = Err(CudaError::INVALID_VALUE);
    let mut byte = 0u8;
    let host = out(&mut byte).untyped();
    assert_eq!(cuMemcpyDtoH_v2(Legacy, host, pointer, 1001), invalid);
    cuMemFree_v2(pointer).unwrap();
    assert_eq!(cuMemFree_v2(pointer), invalid);
    assert_eq!(cuMemFree_v2(CUdeviceptr(0)), Ok(()), "there is nothing to free");
    assert_eq!(cuMemcpyDtoH_v2(Legacy, host, pointer, 1), invalid);
    assert_eq!(cuMemcpyDtoH_v2(Legacy, host, CUdeviceptr(host.address()), 1), invalid);
    assert_eq!(cuMemsetD32_v2(Legacy, CUdeviceptr(0x1234), 0, 1), invalid);
    assert_eq!(cuMemAlloc_v2(out(&mut CUdeviceptr(0)), 0), invalid);
}

#[test]
fn memory_runs_out_and_comes_back() {
    let session = session();
    let mut info = (0usize, 0usize);
    cuMemGetInfo_v2(out(&mut info.0), out(&mut info.1)).unwrap();
    assert_eq!(info.1 as u64, server::MEMORY_BYTES);
    let mut pointer = CUdeviceptr(0);
    let all = server::MEMORY_BYTES as usize;
    assert_eq!(cuMemAlloc_v2(out(&mut pointer), all + 1), Err(CudaError::OUT_OF_MEMORY));
    cuMemAlloc_v2(out(&mut pointer), all).unwrap();
    let _ = session.server.refusals();
    assert_eq!(cuMemAlloc_v2(out(&mut CUdeviceptr(0)), 1), Err(CudaError::OUT_OF_MEMORY));
    use server::Refusal::{Chunk, TriedAgain};
    assert_eq!(session.server.refusals(), [Chunk, TriedAgain, Chunk]);
    cuMemFree_v2(pointer).unwrap();
    // What is freed in a stream's order makes room too.
    let stream = stream();
    for _ in 0..4 {
        cuMemAllocAsync(Legacy, out(&mut pointer), all - (4 << 20), stream).unwrap();
        cuMemFreeAsync(Legacy, pointer, stream).unwrap();
        let other = allocate(all / 2);
        cuMemFree_v2(other).unwrap();
    }
}

#[test]
fn stream_ordered_memory_is_used_again_in_its_stream() {
    let _session = session();
    let stream = stream();
    let (mut a, mut b) = (CUdeviceptr(0), CUdeviceptr(0));
    cuMemAllocAsync(Legacy, out(&mut a), 5000, stream).unwrap();
    cuMemFreeAsync(Legacy, a, stream).unwrap();
    assert_eq!(cuMemFreeAsync(Legacy, a, stream), Err(CudaError::INVALID_VALUE));
    cuMemAllocAsync(Legacy, out(&mut b), 5000, stream).unwrap();
    assert_eq!(a, b);
    cuMemFree_v2(b).unwrap();
    assert_eq!(cuMemFree_v2(b), Err(CudaError::INVALID_VALUE));
}

#[test]
fn pinned_memory_is_one_pointer_for_both_sides() {
    let _session = session();
    let mut host: *mut c_void = core::ptr::null_mut();
    cuMemHostAlloc(out(&mut host), 10_000, 0).unwrap();
    let bytes = pattern(10_000);
    copy_here(host as u64, bytes.as_ptr() as u64, 10_000);
    let mut on_device = CUdeviceptr(0);
    cuMemHostGetDevicePointer_v2(out(&mut on_device), passed(host), 0).unwrap();
    assert_eq!(on_device.0, host as u64);
    let pointer = allocate(10_000);
    let stream = stream();
    cuMemcpyHtoDAsync_v2(Legacy, pointer, passed(host.cast_const()), 10_000, stream).unwrap();
    cuStreamSynchronize(Legacy, stream).unwrap();
    let mut read = vec![0u8; 10_000];
    copy_here(host as u64, read.as_ptr() as u64, 10_000);
    cuMemcpyAsync(Legacy, on_device, pointer, 10_000, stream).unwrap();
    cuStreamSynchronize(Legacy, stream).unwrap();
    copy_here(read.as_mut_ptr() as u64, host as u64, 10_000);
    assert!(read == bytes);
    cuMemFreeHost(passed(host)).unwrap();
    assert_eq!(cuMemFreeHost(passed(host)), Err(CudaError::INVALID_VALUE));
}

#[test]
fn rows_are_copied_with_their_pitches() {
    let _session = session();
    let (width, height, pitch) = (300usize, 5000usize, 512usize);
    let pointer = allocate(pitch * height);
    let source = pattern(width * height);
    let mut copy = CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: 1,
        srcHost: source.as_ptr().cast(),
        srcDevice: CUdeviceptr(0),
        srcArray: CUarray::NULL,
        srcPitch: width,
        dstXInBytes: 8,
        dstY: 0,
        dstMemoryType: 2,
        dstHost: core::ptr::null_mut(),
        dstDevice: pointer,
        dstArray: CUarray::NULL,
        dstPitch: pitch,
        WidthInBytes: width,
        Height: height,
    };
    cuMemcpy2D_v2(Legacy, passed(&raw const copy)).unwrap();
    let device = read(pointer, pitch * height);
    for row in 0..height {
        let (at, from) = (row * pitch + 8, row * width);
        assert!(device[at..at + width] == source[from..from + width], "row {row}");
    }
    // And back, into rows that lie further apart.
    let mut target = vec![0u8; 310 * height];
    copy.srcMemoryType = 2;
    copy.srcDevice = pointer;
    copy.srcXInBytes = 8;
    copy.srcPitch = pitch;
    copy.dstMemoryType = 1;
    copy.dstHost = target.as_mut_ptr().cast();
    copy.dstXInBytes = 0;
    copy.dstPitch = 310;
    cuMemcpy2DUnaligned_v2(Legacy, passed(&raw const copy)).unwrap();
    for row in 0..height {
        let (at, from) = (row * 310, row * width);
        assert!(target[at..at + width] == source[from..from + width], "row {row}");
    }
    copy.Height += 1;
    assert_eq!(cuMemcpy2D_v2(Legacy, passed(&raw const copy)), Err(CudaError::INVALID_VALUE));
}

#[test]
fn kernels_get_their_parameters_and_their_limits() {
    let _session = session();
    let function = fill_kernel();
    let pointer = allocate(400);
    let null = CUstream::NULL;
    launch_fill(function, pointer, 100, 0xaabb_ccdd, [1, 32, 0], null).unwrap();
    assert_eq!(read(pointer, 400), [0xdd, 0xcc, 0xbb, 0xaa].repeat(100));
    let mut attribute = 0;
    cuFuncGetAttribute(out(&mut attribute), 0, function).unwrap();
    assert_eq!(attribute, 256);
    for (grid, block, shared, error) in [
        (0, 32, 0, CudaError::INVALID_VALUE),
        (1, 0, 0, CudaError::INVALID_VALUE),
        (1, 2000, 0, CudaError::INVALID_VALUE),
        // Registers would suffice: it is the program that said 256.
        (1, 512, 0, CudaError::INVALID_VALUE),
        (1, 32, 49 << 10, CudaError::INVALID_VALUE),
    ] {
        assert_eq!(launch_fill(function, pointer, 1, 0, [grid, block, shared], null), Err(error));
    }
    let wrong = CUfunction(function.0 ^ 1);
    assert_eq!(launch_fill(wrong, pointer, 1, 0, [1, 1, 0], null), Err(CudaError::INVALID_HANDLE));
    let stale = CUstream(0xc806_0000_0100_0fff);
    assert_eq!(
        launch_fill(function, pointer, 1, 0, [1, 1, 0], stale),
        Err(CudaError::INVALID_HANDLE)
    );
}

#[test]
fn a_kernel_of_a_library_is_launched_as_a_function() {
    let _session = session();
    let mut library = CUlibrary::NULL;
    let (mut o, mut v) = (0u32, core::ptr::null_mut::<c_void>());
    let (options, values) = (out(&mut o), out(&mut v));
    let image = passed(c"any text".as_ptr().cast());
    cuLibraryLoadData(out(&mut library), image, options, values, 0, options, values, 0).unwrap();
    let mut kernel = CUkernel::NULL;
    cuLibraryGetKernel(out(&mut kernel), library, passed(c"fill".as_ptr())).unwrap();
    let pointer = allocate(8);
    launch_fill(CUfunction(kernel.0), pointer, 2, 7, [1, 1, 0], CUstream::NULL).unwrap();
    assert_eq!(read(pointer, 8), [7, 0, 0, 0, 7, 0, 0, 0]);
    let mut module = CUmodule::NULL;
    cuLibraryGetModule(out(&mut module), library).unwrap();
    let mut function = CUfunction::NULL;
    cuModuleGetFunction(out(&mut function), module, passed(c"fill".as_ptr())).unwrap();
    launch_fill(function, pointer, 1, 9, [1, 1, 0], CUstream::NULL).unwrap();
    assert_eq!(read(pointer, 4), [9, 0, 0, 0]);
    assert_eq!(cuModuleUnload(module), Err(CudaError::NOT_PERMITTED));
    cuLibraryUnload(library).unwrap();
    let gone = launch_fill(function, pointer, 1, 9, [1, 1, 0], CUstream::NULL);
    assert_eq!(gone, Err(CudaError::INVALID_HANDLE));
}

#[test]
fn a_bad_image_says_why() {
    let _session = session();
    let mut log = [0u8; 64];
    let mut options = [jit_option::ERROR_LOG_BUFFER, jit_option::ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), 64 as *mut c_void];
    let mut module = CUmodule::NULL;
    let image = passed(server::BAD_IMAGE.as_ptr().cast());
    let (o, v) = (out(&mut options[0]), out(&mut values[0]));
    let result = cuModuleLoadDataEx(out(&mut module), image, 2, o, v);
    assert_eq!(result, Err(CudaError::INVALID_PTX));
    assert_eq!(&log[..28], b"line 1: no such instruction\0");
    assert_eq!(values[1] as usize, 27);
    let name = passed(c"fill".as_ptr());
    let mut function = CUfunction::NULL;
    let result = cuModuleGetFunction(out(&mut function), CUmodule::NULL, name);
    assert_eq!(result, Err(CudaError::INVALID_HANDLE));
    let mut module = CUmodule::NULL;
    cuModuleLoadData(out(&mut module), passed(c"any text".as_ptr().cast())).unwrap();
    let missing = passed(c"missing".as_ptr());
    let result = cuModuleGetFunction(out(&mut function), module, missing);
    assert_eq!(result, Err(CudaError::NOT_FOUND));
}

#[test]
fn events_happen_where_they_were_recorded() {
    let session = session();
    let stream = stream();
    let (mut start, mut end, mut untimed) = (CUevent::NULL, CUevent::NULL, CUevent::NULL);
    cuEventCreate(out(&mut start), 0).unwrap();
    cuEventCreate(out(&mut end), 0).unwrap();
    cuEventCreate(out(&mut untimed), event_flags::DISABLE_TIMING).unwrap();
    assert_eq!(cuEventQuery(start), Ok(()), "never recorded");
    let mut ms = 0.0f32;
    let invalid = Err(CudaError::INVALID_HANDLE);
    assert_eq!(cuEventElapsedTime(out(&mut ms), start, end), invalid);
    session.server.held.store(true, Ordering::Release);
    cuEventRecord(Legacy, start, stream).unwrap();
    cuEventRecord(Legacy, end, stream).unwrap();
    assert_eq!(cuEventQuery(start), Err(CudaError::NOT_READY));
    assert_eq!(cuStreamQuery(Legacy, stream), Err(CudaError::NOT_READY));
    assert_eq!(cuEventElapsedTime(out(&mut ms), start, end), Err(CudaError::NOT_READY));
    session.server.held.store(false, Ordering::Release);
    watched(|| cuEventSynchronize(end)).unwrap();
    assert_eq!((cuEventQuery(start), cuStreamQuery(Legacy, stream)), (Ok(()), Ok(())));
    cuEventElapsedTime(out(&mut ms), start, end).unwrap();
    assert_eq!(ms, 1.5);
    cuEventRecord(Legacy, untimed, stream).unwrap();
    assert_eq!(cuEventElapsedTime(out(&mut ms), start, untimed), invalid);
    cuEventDestroy_v2(start).unwrap();
    assert_eq!(cuEventDestroy_v2(start), invalid);
}

#[test]
fn who_waits_for_what_was_not_urgent_ends_the_servers_poll_sleep() {
    let session = session();
    let (stream, region) = (stream(), &session.server.region);
    let mut event = CUevent::NULL;
    cuEventCreate(out(&mut event), event_flags::DISABLE_TIMING).unwrap();
    session.server.held.store(true, Ordering::Release);
    // The test's server does not touch the flag.
    let ends_poll_sleep = |wait: &dyn Fn()| {
        region.swap_flag(Flag::ConsumerAsleep, POLLING);
        wait();
        region.swap_flag(Flag::ConsumerAsleep, AWAKE) == AWAKE
    };
    assert!(
        !ends_poll_sleep(&|| cuEventRecord(Legacy, event, stream).unwrap()),
        "it waits for nothing"
    );
    let not_ready = Err(CudaError::NOT_READY);
    assert!(ends_poll_sleep(&|| assert_eq!(cuEventQuery(event), not_ready)));
    assert!(ends_poll_sleep(&|| assert_eq!(cuStreamQuery(Legacy, stream), not_ready)));
    let mut timed = CUevent::NULL;
    cuEventCreate(out(&mut timed), 0).unwrap();
    cuEventRecord(Legacy, timed, stream).unwrap();
    assert!(ends_poll_sleep(&|| {
        assert_eq!(cuEventElapsedTime(out(&mut 0.0), timed, timed), not_ready);
    }));
    // A stream of another device waits for it too.
    let (other_device, _server) = attach();
    let recorded = cuda_api::handle::Handle::from_word(timed.0 as u64).unwrap();
    assert!(ends_poll_sleep(&|| other_device
        .wait_event_of(session.client, recorded, LEGACY)
        .unwrap()));
    region.swap_flag(Flag::ConsumerAsleep, POLLING);
    std::thread::scope(|scope| {
        scope.spawn(|| watched(|| cuEventSynchronize(event)).unwrap());
        while region.flag(Flag::ConsumerAsleep) == POLLING {
            std::thread::yield_now();
        }
        session.server.held.store(false, Ordering::Release);
    });
    cuEventDestroy_v2(event).unwrap();
    cuEventDestroy_v2(timed).unwrap();
}

/// As with NVIDIA's driver: a program's own streams, events and functions say whose they are.
#[test]
fn a_thread_without_a_context_can_use_what_has_a_handle() {
    let _session = session();
    let (stream, function, memory) = (stream(), fill_kernel(), allocate(64));
    let mut event = CUevent::NULL;
    cuEventCreate(out(&mut event), event_flags::DISABLE_TIMING).unwrap();
    let there = std::thread::spawn(move || {
        let none = Err(CudaError::INVALID_CONTEXT);
        launch_fill(function, memory, 16, 7, [1, 16, 0], stream).unwrap();
        cuEventRecord(Legacy, event, stream).unwrap();
        cuStreamWaitEvent(Legacy, stream, event, 0).unwrap();
        watched(|| cuEventSynchronize(event)).unwrap();
        watched(|| cuStreamSynchronize(Legacy, stream)).unwrap();
        assert_eq!((cuEventQuery(event), cuStreamQuery(Legacy, stream)), (Ok(()), Ok(())));
        let mut pooled = CUdeviceptr(0);
        cuMemAllocAsync(Legacy, out(&mut pooled), 64, stream).unwrap();
        cuMemFreeAsync(Legacy, pooled, stream).unwrap();
        // Default streams and what is to be made are the current context's.
        for default in [CUstream::NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD] {
            assert_eq!(cuStreamQuery(Legacy, default), none);
            assert_eq!(cuEventRecord(Legacy, event, default), none);
            assert_eq!(launch_fill(function, memory, 16, 7, [1, 16, 0], default), none);
        }
        assert_eq!(cuStreamCreate(Out::null(), 0), none);
        assert_eq!(cuEventCreate(Out::null(), 0), none);
        cuMemFree_v2(memory).unwrap();
        cuEventDestroy_v2(event).unwrap();
        cuStreamDestroy_v2(stream).unwrap();
    });
    there.join().unwrap();
}

#[test]
fn no_bytes_of_a_pool_are_at_no_address() {
    let _session = session();
    let stream = stream();
    let mut pointer = CUdeviceptr(1);
    cuMemAllocAsync(Legacy, out(&mut pointer), 0, stream).unwrap();
    assert_eq!(pointer, CUdeviceptr(0));
    cuMemFreeAsync(Legacy, pointer, stream).unwrap();
}

#[test]
fn host_functions_run_in_their_streams_order() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C-unwind" fn function(expected: *mut c_void) {
        let runs = RUNS.load(Ordering::Acquire);
        if runs as usize == expected as usize {
            RUNS.store(runs + 1, Ordering::Release);
        }
    }
    let _session = session();
    let stream = stream();
    watched(|| {
        for i in 0..3000usize {
            cuLaunchHostFunc(Legacy, stream, Some(function), passed(i as *mut c_void)).unwrap();
            if i % 500 == 0 {
                cuStreamSynchronize(Legacy, stream).unwrap();
            }
            // More than there are slots are never queued: the server takes them one by one.
            while i >= RUNS.load(Ordering::Acquire) as usize + 900 {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        cuStreamSynchronize(Legacy, stream).unwrap();
    });
    assert_eq!(RUNS.load(Ordering::Acquire), 3000);
    let null = passed(core::ptr::null_mut());
    assert_eq!(cuLaunchHostFunc(Legacy, stream, None, null), Err(CudaError::INVALID_VALUE));
}

#[test]
fn a_host_function_that_panics_costs_itself_only() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C-unwind" fn panics(_: *mut c_void) {
        std::panic::resume_unwind(Box::new("on purpose"));
    }
    unsafe extern "C-unwind" fn counts(_: *mut c_void) {
        RUNS.fetch_add(1, Ordering::Release);
    }
    let _session = session();
    let stream = stream();
    let null = || passed(core::ptr::null_mut());
    watched(|| {
        for _ in 0..3 {
            cuLaunchHostFunc(Legacy, stream, Some(panics), null()).unwrap();
            cuLaunchHostFunc(Legacy, stream, Some(counts), null()).unwrap();
        }
        assert_eq!(cuStreamSynchronize(Legacy, stream), Ok(()));
    });
    assert_eq!(RUNS.load(Ordering::Acquire), 3);
}

#[test]
fn an_event_that_the_server_has_no_room_for_is_refused_when_it_is_made() {
    let _session = session();
    let mut events = Vec::new();
    let mut make = || {
        let mut event = CUevent::NULL;
        cuEventCreate(out(&mut event), 0).map(|()| events.push(event))
    };
    let refused = loop {
        if let Err(error) = make() {
            break error;
        }
    };
    assert_eq!(refused, CudaError::OUT_OF_MEMORY);
    assert_eq!(events.len(), channel::limits::EVENTS_MAX as usize);
    events.into_iter().for_each(|event| cuEventDestroy_v2(event).unwrap());
}

#[test]
fn each_thread_has_a_default_stream_of_its_own() {
    let session = session();
    let context = CUcontext(crate::context::current::word() as usize);
    let id = |default| {
        let mut id = 0;
        cuStreamGetId(default, CUstream::NULL, out(&mut id)).unwrap();
        id
    };
    let here = id(PerThread);
    assert_eq!((id(PerThread), id(Legacy)), (here, 1));
    let client = session.client;
    let there = std::thread::spawn(move || {
        client.contexts().set_current(context).unwrap();
        let mut id = 0;
        cuStreamGetId(PerThread, CUstream::NULL, out(&mut id)).unwrap();
        id
    });
    let there = there.join().unwrap();
    assert_ne!(here, there);
    // The other thread's stream ended with it.
    let lookup = session.client.state().streams.lookup(CUstream(there as usize));
    assert_eq!(lookup, Err(CudaError::INVALID_HANDLE));
}

#[test]
fn the_best_block_size_is_the_one_that_fills_an_sm_best() {
    let _session = session();
    let function = fill_kernel();
    let (mut grid, mut block): (c_int, c_int) = (0, 0);
    let (g, b) = (out(&mut grid), out(&mut block));
    cuOccupancyMaxPotentialBlockSize(g, b, function, None, 0, 0).unwrap();
    // Of 256 threads two blocks fit, of 128 sixteen, which is all that an SM takes.
    assert_eq!((grid, block), (16 * 8, 128));
}

#[test]
fn an_error_of_something_posted_is_reported_once() {
    let session = session();
    session.client.connection().region().note_async_error(CudaError::INVALID_VALUE);
    assert_eq!(cuCtxSynchronize(), Err(CudaError::INVALID_VALUE));
    assert_eq!(cuCtxSynchronize(), Ok(()));
}

#[test]
fn pointers_are_distinguished() {
    let _session = session();
    let pointer = allocate(100);
    let mut kind = 0u32;
    let kind_of = |kind: &mut u32, pointer| {
        cuPointerGetAttribute(out(kind).untyped(), pointer_attribute::MEMORY_TYPE, pointer)
    };
    kind_of(&mut kind, CUdeviceptr(pointer.0 + 99)).unwrap();
    assert_eq!(kind, 2);
    let local = CUdeviceptr((&raw const kind) as u64);
    assert_eq!(kind_of(&mut 0, local), Err(CudaError::INVALID_VALUE));
    let mut ordinal = 7;
    let mut attribute = pointer_attribute::DEVICE_ORDINAL;
    let mut data: *mut c_void = (&raw mut ordinal).cast();
    cuPointerGetAttributes(1, out(&mut attribute), out(&mut data), local).unwrap();
    assert_eq!(ordinal, -2);
    let (mut base, mut size) = (CUdeviceptr(0), 0usize);
    cuMemGetAddressRange_v2(out(&mut base), out(&mut size), CUdeviceptr(pointer.0 + 5)).unwrap();
    assert_eq!((base, size), (pointer, 100));
}

#[test]
fn what_is_not_offered_is_said_so_by_the_attribute() {
    let _session = session();
    let mut value = 7;
    cuDeviceGetAttribute(out(&mut value), attributes::GPU_DIRECT_RDMA_SUPPORTED, 0).unwrap();
    assert_eq!(value, 0, "the device could, but it is not offered");
    cuDeviceGetAttribute(out(&mut value), attributes::WARP_SIZE, 0).unwrap();
    assert_eq!(value, 32);
    let wrong = cuDeviceGetAttribute(out(&mut value), 100_000, 0);
    assert_eq!(wrong, Err(CudaError::INVALID_VALUE));
    assert_eq!(cuDeviceGet(out(&mut value), 1), Err(CudaError::INVALID_DEVICE));
}

#[test]
fn a_context_takes_its_objects_with_it() {
    let session = session();
    let mut context = CUcontext::NULL;
    cuCtxCreate_v2(out(&mut context), 0, 0).unwrap();
    let stream = stream();
    let pointer = allocate(1000);
    let function = fill_kernel();
    cuCtxDestroy_v2(context).unwrap();
    assert_eq!(cuStreamSynchronize(Legacy, stream), Err(CudaError::INVALID_HANDLE));
    assert_eq!(cuMemFree_v2(pointer), Err(CudaError::INVALID_VALUE));
    let gone = launch_fill(function, pointer, 1, 0, [1, 1, 0], CUstream::NULL);
    assert_eq!(gone, Err(CudaError::INVALID_HANDLE));
    assert_eq!(cuCtxDestroy_v2(context), Err(CudaError::INVALID_CONTEXT));
    drop(session);
}
