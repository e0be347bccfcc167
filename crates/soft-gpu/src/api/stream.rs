//! Streams, and functions of the program in them.

use locks::MutexGuard;
use std::collections::HashMap;
use std::sync::Arc;

use cuda_api::constants::{capture, stream_flags};
use cuda_api::*;
use driver_common::stream_attributes::StreamAttributes;

use super::context_object::Context;
use super::graph::{SoftGraphs, stream_id};
use super::host_op::{UserData, host_op};
use super::{Driver, driver, exports, thread};
use crate::device::limits::{PRIORITY_GREATEST, PRIORITY_LEAST};
use crate::device::slab::Key;
use crate::device::stream::host::HostCall;
use crate::device::stream::ops::StreamSpec;
use crate::device::stream::{Op, Stream};
use crate::error::{Error, Result};
use graph::{HostNode, NodeKind};

/// A stream that the program made.
pub(crate) struct StreamEntry {
    pub(crate) key: Key<Stream>,
    pub(crate) context: u64,
    context_handle: usize,
    flags: u32,
}

exports! {
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) {
        stream.required()?;
        stream.set(create(flags, PRIORITY_LEAST)?)
    }

    fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) {
        stream.required()?;
        stream.set(create(flags, priority)?)
    }

    fn cuStreamDestroy_v2(stream: CUstream) {
        let driver = driver()?;
        let entry = driver.streams.remove(stream.0)?;
        driver.graphs.forget_stream(stream_id(entry.key));
        driver.stream_attributes().remove(&entry.key);
        driver.device.destroy_stream(entry.key)
    }

    fn cuStreamSynchronize(stream: CUstream) | cuStreamSynchronize_ptsz per_thread {
        let driver = driver()?;
        let key = driver.stream(stream, per_thread)?;
        driver.check_not_capturing(key)?;
        driver.graphs.unsafe_call()?;
        let result = driver.device.synchronize_stream(key);
        driver.flush_printf(&driver.tenant());
        result
    }

    fn cuStreamQuery(stream: CUstream) | cuStreamQuery_ptsz per_thread {
        let driver = driver()?;
        let key = driver.stream(stream, per_thread)?;
        driver.check_not_capturing(key)?;
        driver.graphs.unsafe_call()?;
        driver.device.query_stream(key)
    }

    fn cuStreamWaitEvent(
        stream: CUstream, event: CUevent, flags: c_uint,
    ) | cuStreamWaitEvent_ptsz per_thread {
        let driver = driver()?;
        let key = driver.stream(stream, per_thread)?;
        if flags & !capture::EVENT_EXTERNAL != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let found = driver.events.get(event.0)?;
        if driver.graphs.watches_events() {
            let place = driver.stream_key(key)?;
            if driver.graphs.wait_event(place, event, flags, found.has_work())? {
                return Ok(());
            }
        }
        // Only a capture has a node for it.
        if flags & capture::EVENT_EXTERNAL != 0 {
            return Err(Error::ILLEGAL_STATE);
        }
        found.wait_in(&driver.device, key)
    }

    fn cuStreamGetPriority(
        stream: CUstream, priority: *mut c_int,
    ) | cuStreamGetPriority_ptsz per_thread {
        let driver = driver()?;
        let key = driver.stream(stream, per_thread)?;
        priority.set(driver.device.stream_properties(key)?.0)
    }

    fn cuStreamGetFlags(
        stream: CUstream, flags: *mut c_uint,
    ) | cuStreamGetFlags_ptsz per_thread {
        let driver = driver()?;
        let key = driver.stream(stream, per_thread)?;
        driver.check_not_capturing(key)?;
        flags.set(driver.streams.get(stream.0).map_or(stream_flags::DEFAULT, |s| s.flags))
    }

    fn cuStreamGetCtx(
        stream: CUstream, context: *mut CUcontext,
    ) | cuStreamGetCtx_ptsz per_thread {
        context.set(CUcontext(driver()?.context_of_stream(stream, per_thread)?.handle))
    }

    fn cuStreamGetId(stream: CUstream, stream_id: *mut u64) | cuStreamGetId_ptsz per_thread {
        let driver = driver()?;
        let key = driver.stream(stream, per_thread)?;
        stream_id.set(self::stream_id(key))
    }

    fn cuStreamGetDevice(
        stream: CUstream, device: *mut CUdevice,
    ) | cuStreamGetDevice_ptsz per_thread {
        driver()?.stream(stream, per_thread)?;
        device.set(0)
    }

    fn cuStreamAddCallback(
        stream: CUstream, callback: CUstreamCallback, user_data: *mut c_void, flags: c_uint,
    ) | cuStreamAddCallback_ptsz per_thread {
        let driver = driver()?;
        let key = driver.stream(stream, per_thread)?;
        let callback = callback.ok_or(Error::INVALID_VALUE)?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        // Unlike cuLaunchHostFunc's, such a function has no node.
        driver.check_not_capturing(key)?;
        let data = UserData(user_data.pointer());
        let call = move |state: Result| {
            let data = data;
            // SAFETY: the program gave this function to be called with this pointer.
            unsafe { callback(stream, result_code(state), data.0) }
        };
        let call = HostCall { call: Box::new(call), always: true };
        driver.device.enqueue(key, Op::Host(call)).map(|_| ())
    }

    fn cuLaunchHostFunc(
        stream: CUstream, function: CUhostFn, user_data: *mut c_void,
    ) | cuLaunchHostFunc_ptsz per_thread {
        let driver = driver()?;
        let key = driver.stream(stream, per_thread)?;
        let node = HostNode { function, user_data: user_data.address() as usize };
        let op = host_op(node)?;
        if driver.captured(key, || Ok(NodeKind::Host(node)))? {
            return Ok(());
        }
        driver.device.enqueue(key, op).map(|_| ())
    }

    fn cuStreamIsCapturing(
        stream: CUstream, capture_status: *mut c_uint,
    ) | cuStreamIsCapturing_ptsz per_thread {
        let graphs = SoftGraphs(driver()?);
        graph::api::cuStreamIsCapturing(graphs, per_thread, stream, capture_status)
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: CUstream, status: *mut c_uint, id: *mut u64, graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode, count: *mut usize,
    ) | cuStreamGetCaptureInfo_v2_ptsz per_thread {
        graph::api::cuStreamGetCaptureInfo_v2(
            SoftGraphs(driver()?), per_thread, stream, status, id, graph,
            dependencies, count,
        )
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: CUstream, status: *mut c_uint, id: *mut u64, graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode, edges: *mut *const CUgraphEdgeData,
        count: *mut usize,
    ) | cuStreamGetCaptureInfo_v3_ptsz per_thread {
        graph::api::cuStreamGetCaptureInfo_v3(
            SoftGraphs(driver()?), per_thread, stream, status, id, graph,
            dependencies, edges, count,
        )
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        graph::api::cuThreadExchangeStreamCaptureMode(SoftGraphs(driver()?), mode)
    }

    fn cuStreamGetAttribute(
        stream: CUstream, attribute: c_uint, value: *mut CUlaunchAttributeValue,
    ) | cuStreamGetAttribute_ptsz per_thread {
        let driver = driver()?;
        let key = driver.stream(stream, per_thread)?;
        let priority = driver.device.stream_properties(key)?.0;
        let kept = driver.stream_attributes();
        let attributes = kept.get(&key).copied().unwrap_or_default();
        value.set(attributes.get(attribute, priority)?)
    }

    fn cuStreamSetAttribute(
        stream: CUstream, attribute: c_uint, value: *const CUlaunchAttributeValue,
    ) | cuStreamSetAttribute_ptsz per_thread {
        let driver = driver()?;
        let key = driver.stream(stream, per_thread)?;
        let priority = driver.device.stream_properties(key)?.0;
        let value = value.get()?;
        driver.stream_attributes().entry(key).or_default().set(attribute, &value, priority)
    }

    fn cuStreamCopyAttributes(
        dst: CUstream, src: CUstream,
    ) | cuStreamCopyAttributes_ptsz per_thread {
        let driver = driver()?;
        let (to, from) = (driver.stream(dst, per_thread)?, driver.stream(src, per_thread)?);
        let mut kept = driver.stream_attributes();
        let attributes = kept.get(&from).copied().unwrap_or_default();
        kept.insert(to, attributes);
        Ok(())
    }
}

impl Driver {
    /// The context that a stream was made in; the current one for default streams.
    pub(super) fn context_of_stream(
        &self,
        stream: CUstream,
        per_thread: bool,
    ) -> Result<Arc<Context>> {
        self.stream(stream, per_thread)?;
        match self.streams.get(stream.0) {
            Ok(entry) => {
                self.contexts.get(entry.context_handle).map_err(|_| Error::CONTEXT_IS_DESTROYED)
            }
            Err(_) => thread::current(),
        }
    }

    /// What programs set of their streams.
    fn stream_attributes(&self) -> MutexGuard<'_, HashMap<Key<Stream>, StreamAttributes>> {
        self.stream_attributes.lock()
    }
}

fn create(flags: u32, priority: i32) -> Result<CUstream> {
    create_in(&*thread::current()?, flags, priority)
}

/// Makes a stream of a context's.
pub(super) fn create_in(context: &Context, flags: u32, priority: i32) -> Result<CUstream> {
    let driver = driver()?;
    let tenant = driver.working_tenant()?;
    if flags & !stream_flags::NON_BLOCKING != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let group = driver.device.group(context.number(), &tenant)?;
    let spec = StreamSpec {
        non_blocking: flags & stream_flags::NON_BLOCKING != 0,
        priority: priority.clamp(PRIORITY_GREATEST, PRIORITY_LEAST),
        sms: context.sms(),
    };
    let key = driver.device.create_stream(group, &tenant, spec)?;
    let entry =
        StreamEntry { key, context: context.number(), context_handle: context.handle, flags };
    Ok(CUstream(driver.streams.insert(entry)?))
}
