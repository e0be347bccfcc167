//! Green contexts: what the server hears of them, and what of them is gone when they are.

use super::{out, passed, session, watched};
use crate::api::*;
use crate::boundary::Out;
use crate::stream::DefaultStream::Legacy;
use channel::request::MemoryInfo;
use cuda_api::constants::device_resource::{GREEN_DEFAULT_STREAM, SM};
use cuda_api::constants::stream_flags;
use cuda_api::*;

/// Four parts of two SMs each.
fn parts() -> [CUdevResource; 4] {
    let (mut all, mut parts, mut count) = (CUdevResource::NONE, [CUdevResource::NONE; 4], 4);
    cuDeviceGetDevResource(0, out(&mut all), SM).unwrap();
    let (groups, whole) = (out(&mut parts[0]), passed(&raw const all));
    cuDevSmResourceSplitByCount(groups, out(&mut count), whole, Out::null(), 0, 2).unwrap();
    assert_eq!((count, parts[3].sm.smCount), (4, 2));
    parts
}

fn describe(parts: &mut [CUdevResource]) -> Result<CUdevResourceDesc, CudaError> {
    let (mut description, count) = (CUdevResourceDesc::NULL, parts.len() as u32);
    cuDevResourceGenerateDesc(out(&mut description), out(&mut parts[0]), count)
        .map(|()| description)
}

fn create(description: CUdevResourceDesc, flags: u32) -> Result<CUgreenCtx, CudaError> {
    let mut green = CUgreenCtx::NULL;
    cuGreenCtxCreate(out(&mut green), description, 0, flags).map(|()| green)
}

fn create_stream(green: CUgreenCtx, flags: u32) -> Result<CUstream, CudaError> {
    let mut stream = CUstream::NULL;
    cuGreenCtxStreamCreate(out(&mut stream), green, flags, 0).map(|()| stream)
}

#[test]
fn streams_of_a_green_context_are_made_with_its_sms() {
    let session = session();
    watched(|| {
        let [first, second, third, _] = parts();
        assert_eq!(describe(&mut [first, third]), Err(CudaError::NOT_SUPPORTED), "they are apart");
        let description = describe(&mut [third, second]).unwrap();
        for flags in [0, GREEN_DEFAULT_STREAM | 2] {
            assert_eq!(create(description, flags), Err(CudaError::INVALID_VALUE));
        }
        let green = create(description, GREEN_DEFAULT_STREAM).unwrap();
        assert_eq!(create_stream(green, stream_flags::DEFAULT), Err(CudaError::INVALID_VALUE));
        let stream = create_stream(green, stream_flags::NON_BLOCKING).unwrap();
        // It is answered behind what was posted before.
        session.client.call(&MemoryInfo { device: 0 }).unwrap();
        assert_eq!(session.server.parted().last(), Some(&(2, 4)), "other tests' come before");
        let mut resource = CUdevResource::NONE;
        cuStreamGetDevResource(Legacy, stream, out(&mut resource), SM).unwrap();
        assert_eq!(resource.sm.smCount, 4);
        let mut of = CUgreenCtx::NULL;
        cuStreamGetGreenCtx(stream, out(&mut of)).unwrap();
        assert_eq!(of, green);
        cuStreamDestroy_v2(stream).unwrap();
        cuGreenCtxDestroy(green).unwrap();
        assert_eq!(cuGreenCtxDestroy(green), Err(CudaError::INVALID_CONTEXT));
    });
}

#[test]
fn the_default_stream_of_a_green_context_goes_with_it() {
    let session = session();
    watched(|| {
        let streams = || session.client.state().streams.iter().count();
        let before = streams();
        let green = create(describe(&mut parts()).unwrap(), GREEN_DEFAULT_STREAM).unwrap();
        let mut context = CUcontext::NULL;
        cuCtxFromGreenCtx(out(&mut context), green).unwrap();
        session.client.contexts().push_current(context).unwrap();
        cuStreamSynchronize(Legacy, CUstream::NULL).unwrap();
        cuStreamSynchronize(Legacy, CUstream::NULL).unwrap();
        assert_eq!(streams(), before + 1, "its own default stream");
        crate::context::current::pop();
        cuGreenCtxDestroy(green).unwrap();
        assert_eq!(streams(), before);
    });
}

#[test]
fn green_contexts_hold_the_primary_one_while_they_are_there() {
    let session = session();
    watched(|| {
        let contexts = session.client.contexts();
        let is_held = || contexts.primary_state(0).unwrap().1;
        let description = describe(&mut parts()).unwrap();
        let mut greens = Vec::new();
        let refused = loop {
            match create(description, GREEN_DEFAULT_STREAM) {
                Ok(green) => greens.push(green),
                Err(error) => break error,
            }
        };
        assert_eq!(refused, CudaError::OUT_OF_MEMORY);
        // What the session holds of it.
        cuDevicePrimaryCtxRelease(0).unwrap();
        for green in greens {
            assert!(is_held());
            cuGreenCtxDestroy(green).unwrap();
        }
        assert!(!is_held(), "nor does the one that could not be made");
        contexts.retain(0).unwrap();
    });
}
