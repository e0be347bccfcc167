//! Writing words and waiting for them in a stream's order (the manual's "Stream Memory
//! Operations").

use crate::boundary::Out;
use crate::program::mode;
use crate::program::streams::mem_ops::{check_mem_ops, post_mem_ops};
use crate::stream::DefaultStream;
use core::ffi::c_uint;
use cuda_api::constants::mem_op;
use cuda_api::{CUdeviceptr, CUresult, CUstream, CUstreamBatchMemOpParams};
use driver_common::mem_op::{batch, single};
use graph::NodeKind;

/// All operations are checked before the first one is posted: all or none.
fn operate(
    default: DefaultStream,
    stream: CUstream,
    params: &[CUstreamBatchMemOpParams],
) -> CUresult {
    let client = mode::client_of(stream.0)?;
    let stream = client.stream(stream, default)?;
    let operations = check_mem_ops(client, params)?;
    match client.captured(stream, || Ok(NodeKind::MemOps(params.to_vec())))? {
        true => Ok(()),
        false => post_mem_ops(client, stream, &operations),
    }
}

macro_rules! operations {
    ($($name:ident($ty:ty) = $operation:ident;)*) => {$(
        pub(crate) fn $name(
            default: DefaultStream,
            stream: CUstream,
            address: CUdeviceptr,
            value: $ty,
            flags: c_uint,
        ) -> CUresult {
            operate(default, stream, &[single(mem_op::$operation, address, value.into(), flags)])
        }
    )*};
}

operations! {
    cuStreamWriteValue32_v2(u32) = WRITE_VALUE_32;
    cuStreamWriteValue64_v2(u64) = WRITE_VALUE_64;
    cuStreamWaitValue32_v2(u32) = WAIT_VALUE_32;
    cuStreamWaitValue64_v2(u64) = WAIT_VALUE_64;
}

pub(crate) fn cuStreamBatchMemOp_v2(
    default: DefaultStream,
    stream: CUstream,
    count: c_uint,
    params: Out<CUstreamBatchMemOpParams>,
    flags: c_uint,
) -> CUresult {
    operate(default, stream, &batch(params, count, flags)?)
}
