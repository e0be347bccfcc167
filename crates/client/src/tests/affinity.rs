//! Execution affinity: contexts with SMs of their own, what they report and what the server gets.

use super::{out, session, watched};
use crate::api::*;
use crate::stream::DefaultStream::{Legacy, PerThread};
use channel::request::MemoryInfo;
use cuda_api::attributes::MULTIPROCESSOR_COUNT;
use cuda_api::constants::device_resource::SM;
use cuda_api::constants::stream_flags;
use cuda_api::*;

fn affinity(sms: u32) -> CUexecAffinityParam {
    CUexecAffinityParam { kind: 0, smCount: sms }
}

fn create(mut param: CUexecAffinityParam) -> Result<CUcontext, CudaError> {
    let mut context = CUcontext::NULL;
    cuCtxCreate_v3(out(&mut context), out(&mut param), 1, 0, 0).map(|()| context)
}

/// SMs of the current context by each call that asks.
fn known() -> [u32; 3] {
    let (mut param, mut all, mut resource) = (affinity(0), 0, CUdevResource::NONE);
    cuCtxGetExecAffinity(out(&mut param), 0).unwrap();
    cuDeviceGetAttribute(out(&mut all), MULTIPROCESSOR_COUNT, 0).unwrap();
    cuCtxGetDevResource(CUcontext::NULL, out(&mut resource), SM).unwrap();
    [param.smCount, all as u32, resource.sm.smCount]
}

#[test]
fn a_context_has_the_sms_that_it_asks_for() {
    let session = session();
    watched(|| {
        let mut supported = 0;
        cuDeviceGetExecAffinitySupport(out(&mut supported), 0, 0).unwrap();
        assert_eq!(supported, 1);
        for (param, error) in [
            (affinity(0), CudaError::INVALID_VALUE),
            (affinity(9), CudaError::INVALID_VALUE),
            (CUexecAffinityParam { kind: 1, smCount: 4 }, CudaError::UNSUPPORTED_EXEC_AFFINITY),
        ] {
            assert_eq!(create(param), Err(error));
        }
        session.client.call(&MemoryInfo { device: 0 }).unwrap();
        let _ = (session.server.parted(), session.server.defaults());
        let streams = session.client.state().streams.iter().count();
        assert_eq!(known(), [8; 3]);
        let three = create(affinity(3)).unwrap();
        assert_eq!(known(), [4; 3], "rounded up to whole units");
        let mut params = affinity(4);
        let mut params = CUctxCreateParams {
            execAffinityParams: &mut params,
            numExecAffinityParams: 1,
            cigParams: std::ptr::null_mut(),
        };
        let mut four = CUcontext::NULL;
        cuCtxCreate_v4(out(&mut four), out(&mut params), 0, 0).unwrap();
        let (mut blocking, mut free) = (CUstream::NULL, CUstream::NULL);
        cuStreamCreate(out(&mut blocking), stream_flags::DEFAULT).unwrap();
        cuStreamCreate(out(&mut free), stream_flags::NON_BLOCKING).unwrap();
        cuStreamSynchronize(PerThread, CUstream::NULL).unwrap();
        // It is answered behind what was posted before.
        session.client.call(&MemoryInfo { device: 0 }).unwrap();
        let parted = session.server.parted();
        assert_eq!(parted, [(0, 4), (4, 4), (4, 4), (4, 4), (4, 4)]);
        let defaults = session.server.defaults();
        assert_eq!(
            defaults.iter().map(|row| row.0).collect::<Vec<_>>(),
            [true, true, false, false, false]
        );
        assert!(defaults[2..].iter().all(|row| row.1 == defaults[1].1), "{defaults:?}");
        let mut of = CUcontext::NULL;
        cuStreamGetCtx(Legacy, CUstream::NULL, out(&mut of)).unwrap();
        assert_eq!(of, four, "its default stream is its own");
        cuCtxDestroy_v2(four).unwrap();
        assert_eq!(known(), [4; 3], "the one below is current");
        cuCtxDestroy_v2(three).unwrap();
        assert_eq!(known(), [8; 3]);
        assert_eq!(session.client.state().streams.iter().count(), streams, "theirs are gone");
    });
}

#[test]
fn the_default_stream_waits_for_its_context_s_streams_only() {
    let session = session();
    watched(|| {
        let context = create(affinity(2)).unwrap();
        let mut blocking = CUstream::NULL;
        cuStreamCreate(out(&mut blocking), stream_flags::DEFAULT).unwrap();
        let slot_of = |stream| session.client.stream(stream, Legacy).unwrap().index;
        let (own, blocking_slot) = (slot_of(CUstream::NULL), slot_of(blocking));
        assert_ne!(own, 0);
        {
            let mut state = session.client.state();
            state.streams.issue(blocking_slot);
            let region = session.client.connection().region();
            assert!(state.streams.has_news(own, region));
            assert!(!state.streams.has_news(0, region));
        }
        cuCtxDestroy_v2(context).unwrap();
    });
}
