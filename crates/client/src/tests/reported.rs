//! Asynchronous errors: which calls report them, and that what is reported is not made again.

use super::{out, passed, replaced, session, watched};
use crate::api::*;
use crate::boundary::Out;
use crate::connection::SERVER_GONE;
use crate::entry::dispatch;
use crate::program::mode;
use crate::stream::DefaultStream::Legacy;
use channel::region::ServerState;
use channel::request::MemoryInfo;
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::constants::pointer_attribute;
use cuda_api::*;
use driver_common::jit_options::JitOptions;
use provider::ImageOrigin;
use std::sync::atomic::Ordering;

const EARLIER: CUresult = Err(SERVER_GONE);

#[test]
fn calls_that_wait_for_work_report_an_earlier_error_once() {
    let session = session();
    let (mut event, mut pointer) = (CUevent::NULL, CUdeviceptr(0));
    cuEventCreate(out(&mut event), 0).unwrap();
    cuMemAlloc_v2(out(&mut pointer), 64).unwrap();
    let mut host = [0u8; 64];
    let mut host = || out(&mut host[0]).untyped();
    let waits: [(&str, &mut dyn FnMut() -> CUresult); 4] = [
        ("cuCtxSynchronize", &mut cuCtxSynchronize),
        ("cuStreamSynchronize", &mut || cuStreamSynchronize(Legacy, CUstream::NULL)),
        ("cuEventSynchronize", &mut || cuEventSynchronize(event)),
        ("cuMemcpyDtoH", &mut || cuMemcpyDtoH_v2(Legacy, host(), pointer, 64)),
    ];
    for (name, wait) in waits {
        session.client.connection().region().note_async_error(SERVER_GONE);
        assert_eq!((wait(), wait()), (EARLIER, Ok(())), "{name}");
    }
    cuEventDestroy_v2(event).unwrap();
    cuMemFree_v2(pointer).unwrap();
}

#[test]
fn a_question_whether_work_is_done_leaves_an_earlier_error_to_a_call_that_waits() {
    let session = session();
    let mut event = CUevent::NULL;
    cuEventCreate(out(&mut event), 0).unwrap();
    let questions: [(&str, &dyn Fn() -> CUresult); 2] = [
        ("cuStreamQuery", &|| cuStreamQuery(Legacy, CUstream::NULL)),
        ("cuEventQuery", &|| cuEventQuery(event)),
    ];
    for (name, ask) in questions {
        session.client.connection().region().note_async_error(SERVER_GONE);
        assert_eq!((ask(), ask()), (EARLIER, EARLIER), "{name}: it is not done");
        assert_eq!((cuCtxSynchronize(), ask()), (EARLIER, Ok(())), "{name}");
    }
    cuEventDestroy_v2(event).unwrap();
}

#[test]
fn calls_whose_errors_programs_drop_say_nothing_of_earlier_ones() {
    let session = session();
    session.client.connection().region().note_async_error(SERVER_GONE);
    let (mut event, mut pointer) = (CUevent::NULL, CUdeviceptr(0));
    cuEventCreate(out(&mut event), 0).unwrap();
    cuEventRecord(Legacy, event, CUstream::NULL).unwrap();
    cuStreamWaitEvent(Legacy, CUstream::NULL, event, 0).unwrap();
    cuEventDestroy_v2(event).unwrap();
    cuMemAlloc_v2(out(&mut pointer), 64).unwrap();
    let bytes = [0u8; 64];
    cuMemcpyHtoD_v2(Legacy, pointer, passed(bytes.as_ptr().cast()), 64).unwrap();
    let mut kind: c_uint = 0;
    let place = out(&mut kind).untyped();
    cuPointerGetAttribute(place, pointer_attribute::MEMORY_TYPE, pointer).unwrap();
    cuMemFree_v2(pointer).unwrap();
    let mut context = CUcontext::NULL;
    cuCtxGetCurrent(out(&mut context)).unwrap();
    let (mut device, mut count): (CUdevice, c_int) = (0, 0);
    cuCtxGetDevice(out(&mut device)).unwrap();
    cuDeviceGetCount(out(&mut count)).unwrap();
    assert_eq!(cuCtxSynchronize(), EARLIER, "it is still there");
}

#[test]
fn a_loss_is_reported_though_the_same_call_found_the_server_lost() {
    watched(|| {
        let session = session();
        let (client, server) = replaced::attach();
        mode::attach_for_test(client.program);
        let context = client.contexts().retain(0).unwrap();
        client.contexts().set_current(context).unwrap();
        let options = JitOptions::read(0, Out::null(), Out::null()).unwrap();
        let module = client.load_image(b"any text\0", 0, &options, || ImageOrigin::Memory).unwrap();
        let function = client.find_function(module, c"fill").unwrap();
        let mut pointer = CUdeviceptr(0);
        cuMemAlloc_v2(out(&mut pointer), 64).unwrap();
        // No fence is behind it, so that it is not known to be done, and no PTX says what it does.
        replaced::fill(client, CUfunction(function.to_word() as usize), pointer.0, 1).unwrap();
        // What comes behind it is answered, so it was taken.
        client.call(&MemoryInfo { device: 0 }).unwrap();
        server.killed.store(true, Ordering::Release);
        server.region.set_server_state(ServerState::Ended);
        let code = dispatch::code("cuStreamSynchronize").unwrap();
        // SAFETY: the entry point of that name, with cuda.h's signature; the legacy stream is always there.
        let results = unsafe {
            let synchronize = core::mem::transmute::<
                *const c_void,
                unsafe extern "C" fn(CUstream) -> CUresult,
            >(code);
            [synchronize(CUstream::NULL), synchronize(CUstream::NULL)]
        };
        mode::attach_for_test(session.client.program);
        assert_eq!(results, [EARLIER, Ok(())]);
    });
}
