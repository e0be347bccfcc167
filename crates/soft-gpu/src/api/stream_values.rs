//! Stream memory operations: writing words and waiting for them in stream order.

use cuda_api::constants::{mem_op, stream_value};
use cuda_api::*;

use super::{Driver, driver, exports};
use crate::device::stream::Op;
use crate::device::tenant::Tenant;
use crate::device::values::{Condition, ValueWait, ValueWrite};
use crate::error::{Error, Result};
use graph::NodeKind;

/// Operations of one cuStreamBatchMemOp: CUDA's limit.
const BATCH_MAX: u32 = 256;

impl Driver {
    fn write_op(
        &self,
        tenant: &Tenant,
        address: u64,
        value: u64,
        wide: bool,
        flags: u64,
    ) -> Result<Op> {
        if flags & !u64::from(stream_value::WRITE_NO_MEMORY_BARRIER) != 0 {
            return Err(Error::INVALID_VALUE);
        }
        self.check_word(tenant, address, wide)?;
        Ok(Op::WriteValue(ValueWrite { address, value, wide }))
    }

    fn wait_op(
        &self,
        tenant: &Tenant,
        address: u64,
        value: u64,
        wide: bool,
        flags: u64,
    ) -> Result<Op> {
        let flags = u32::try_from(flags).map_err(|_| Error::INVALID_VALUE)?;
        if flags & stream_value::WAIT_FLUSH != 0 {
            return Err(Error::NOT_SUPPORTED);
        }
        let condition = match flags {
            stream_value::WAIT_GEQ => Condition::GreaterOrEqual,
            stream_value::WAIT_EQ => Condition::Equal,
            stream_value::WAIT_AND => Condition::And,
            stream_value::WAIT_NOR => Condition::Nor,
            _ => return Err(Error::INVALID_VALUE),
        };
        self.check_word(tenant, address, wide)?;
        Ok(Op::WaitValue(ValueWait { address, value, wide, condition }))
    }

    pub(super) fn check_word(&self, tenant: &Tenant, address: u64, wide: bool) -> Result {
        let bytes = if wide { 8 } else { 4 };
        let usable = address.is_multiple_of(bytes)
            && self.device.memory.usable(tenant, address, bytes).is_some();
        if usable { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }

    /// One operation of a batch, checked.
    pub(crate) fn mem_op(&self, tenant: &Tenant, p: &CUstreamBatchMemOpParams) -> Result<Op> {
        let (at, value) = (p.address.0, p.value);
        match p.operation as u32 {
            mem_op::WAIT_VALUE_32 => self.wait_op(tenant, at, value, false, p.flags),
            mem_op::WAIT_VALUE_64 => self.wait_op(tenant, at, value, true, p.flags),
            mem_op::WRITE_VALUE_32 => self.write_op(tenant, at, value, false, p.flags),
            mem_op::WRITE_VALUE_64 => self.write_op(tenant, at, value, true, p.flags),
            // Every operation is a barrier already.
            mem_op::BARRIER => Ok(Op::Marker),
            mem_op::FLUSH_REMOTE_WRITES => Err(Error::NOT_SUPPORTED),
            _ => Err(Error::INVALID_VALUE),
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
    let (operation, flags) = (operation.into(), flags.into());
    let op = CUstreamBatchMemOpParams { operation, address, value, flags, alias: 0, pad: 0 };
    driver()?.mem_ops(stream, per_thread, &[op])
}

exports! {
    fn cuStreamWriteValue32_v2(
        stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint,
    ) | cuStreamWriteValue32_v2_ptsz per_thread {
        single(stream, per_thread, mem_op::WRITE_VALUE_32, addr, value.into(), flags)
    }

    fn cuStreamWriteValue64_v2(
        stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint,
    ) | cuStreamWriteValue64_v2_ptsz per_thread {
        single(stream, per_thread, mem_op::WRITE_VALUE_64, addr, value, flags)
    }

    fn cuStreamWaitValue32_v2(
        stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint,
    ) | cuStreamWaitValue32_v2_ptsz per_thread {
        single(stream, per_thread, mem_op::WAIT_VALUE_32, addr, value.into(), flags)
    }

    fn cuStreamWaitValue64_v2(
        stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint,
    ) | cuStreamWaitValue64_v2_ptsz per_thread {
        single(stream, per_thread, mem_op::WAIT_VALUE_64, addr, value, flags)
    }

    fn cuStreamBatchMemOp_v2(
        stream: CUstream, count: c_uint, params: *mut CUstreamBatchMemOpParams, flags: c_uint,
    ) | cuStreamBatchMemOp_v2_ptsz per_thread {
        if count > BATCH_MAX || flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let ops = params.as_in().array(count as usize).iter().collect::<Result<Vec<_>>>()?;
        driver()?.mem_ops(stream, per_thread, &ops)
    }
}
