//! Stream memory operations: writing words and waiting for them in stream order.

use cuda_api::constants::{mem_op as operation, stream_value};
use cuda_api::*;
use driver_common::mem_op::{self, MemOp, MemWord};

use super::{Driver, driver, exports};
use crate::device::stream::Op;
use crate::device::stream::values::{Condition, ValueWait, ValueWrite};
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};
use graph::NodeKind;

impl Driver {
    pub(super) fn check_word(&self, tenant: &Tenant, address: u64, wide: bool) -> Result {
        let bytes = if wide { 8 } else { 4 };
        let usable = address.is_multiple_of(bytes)
            && self.device.memory.usable(tenant, address, bytes).is_some();
        if usable { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }

    /// One operation of a batch, checked.
    pub(crate) fn mem_op(&self, tenant: &Tenant, params: &CUstreamBatchMemOpParams) -> Result<Op> {
        let usable = |word: MemWord| self.check_word(tenant, word.address, word.wide);
        match MemOp::of(params)? {
            // Every operation is a barrier already.
            MemOp::Barrier => Ok(Op::Marker),
            MemOp::Write(word) => {
                usable(word)?;
                let MemWord { address, value, wide, .. } = word;
                Ok(Op::WriteValue(ValueWrite { address, value, wide }))
            }
            MemOp::Wait { flushes: true, .. } => Err(Error::NOT_SUPPORTED),
            MemOp::Wait { word, condition, .. } => {
                let condition = match condition {
                    stream_value::WAIT_GEQ => Condition::GreaterOrEqual,
                    stream_value::WAIT_EQ => Condition::Equal,
                    stream_value::WAIT_AND => Condition::And,
                    _ => Condition::Nor,
                };
                usable(word)?;
                let MemWord { address, value, wide, .. } = word;
                Ok(Op::WaitValue(ValueWait { address, value, wide, condition }))
            }
        }
    }

    /// Puts operations into a stream, all or none.
    fn mem_ops(
        &self,
        stream: CUstream,
        per_thread: bool,
        ops: &[CUstreamBatchMemOpParams],
    ) -> Result {
        let key = self.stream(stream, per_thread)?;
        let (_, _, tenant) = self.device.stream_properties(key)?;
        let checked = ops.iter().map(|op| self.mem_op(&tenant, op)).collect::<Result<Vec<_>>>()?;
        if self.captured(key, || Ok(NodeKind::MemOps(ops.to_vec())))? {
            return Ok(());
        }
        for op in checked {
            self.device.enqueue(key, op)?;
        }
        Ok(())
    }
}

/// One operation by itself.
fn single(
    stream: CUstream,
    per_thread: bool,
    operation: u32,
    address: CUdeviceptr,
    value: u64,
    flags: u32,
) -> Result {
    let op = mem_op::single(operation, address, value, flags);
    driver()?.mem_ops(stream, per_thread, &[op])
}

exports! {
    fn cuStreamWriteValue32_v2(
        stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint,
    ) | cuStreamWriteValue32_v2_ptsz per_thread {
        single(stream, per_thread, operation::WRITE_VALUE_32, addr, value.into(), flags)
    }

    fn cuStreamWriteValue64_v2(
        stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint,
    ) | cuStreamWriteValue64_v2_ptsz per_thread {
        single(stream, per_thread, operation::WRITE_VALUE_64, addr, value, flags)
    }

    fn cuStreamWaitValue32_v2(
        stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint,
    ) | cuStreamWaitValue32_v2_ptsz per_thread {
        single(stream, per_thread, operation::WAIT_VALUE_32, addr, value.into(), flags)
    }

    fn cuStreamWaitValue64_v2(
        stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint,
    ) | cuStreamWaitValue64_v2_ptsz per_thread {
        single(stream, per_thread, operation::WAIT_VALUE_64, addr, value, flags)
    }

    fn cuStreamBatchMemOp_v2(
        stream: CUstream, count: c_uint, params: *mut CUstreamBatchMemOpParams, flags: c_uint,
    ) | cuStreamBatchMemOp_v2_ptsz per_thread {
        driver()?.mem_ops(stream, per_thread, &mem_op::batch(params, count, flags)?)
    }
}
