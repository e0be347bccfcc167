//! Stream memory operations: writing words and waiting for them in stream order.

use cuda_api::constants::{mem_op, stream_value};
use cuda_api::*;

use super::{Driver, driver, exports};
use crate::device::slab::Key;
use crate::device::stream::{Op, Stream};
use crate::device::values::{Condition, ValueWait, ValueWrite};
use crate::error::{Error, Result};

/// Operations of one cuStreamBatchMemOp: CUDA's limit.
const BATCH_MAX: u32 = 256;

impl Driver {
    fn write_op(
        &self,
        stream: Key<Stream>,
        address: u64,
        value: u64,
        wide: bool,
        flags: u64,
    ) -> Result<Op> {
        if flags & !u64::from(stream_value::WRITE_NO_MEMORY_BARRIER) != 0 {
            return Err(Error::INVALID_VALUE);
        }
        self.check_word(stream, address, wide)?;
        Ok(Op::WriteValue(ValueWrite { address, value, wide }))
    }

    fn wait_op(
        &self,
        stream: Key<Stream>,
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
        self.check_word(stream, address, wide)?;
        Ok(Op::WaitValue(ValueWait { address, value, wide, condition }))
    }

    fn check_word(&self, stream: Key<Stream>, address: u64, wide: bool) -> Result {
        let bytes = if wide { 8 } else { 4 };
        let (_, _, tenant) = self.device.stream_properties(stream)?;
        let usable = address.is_multiple_of(bytes)
            && self.device.memory.usable(&tenant, address, bytes).is_some();
        if usable { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }
}

/// One operation in a stream.
fn enqueue(
    stream: CUstream,
    per_thread: bool,
    op: impl FnOnce(&Driver, Key<Stream>) -> Result<Op>,
) -> Result {
    let driver = driver()?;
    let key = driver.stream(stream, per_thread)?;
    driver.device.enqueue(key, op(driver, key)?).map(|_| ())
}

exports! {
    fn cuStreamWriteValue32_v2(
        stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint,
    ) | cuStreamWriteValue32_v2_ptsz per_thread {
        enqueue(stream, per_thread, |driver, key| {
            driver.write_op(key, addr.0, value.into(), false, flags.into())
        })
    }

    fn cuStreamWriteValue64_v2(
        stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint,
    ) | cuStreamWriteValue64_v2_ptsz per_thread {
        enqueue(stream, per_thread, |driver, key| {
            driver.write_op(key, addr.0, value, true, flags.into())
        })
    }

    fn cuStreamWaitValue32_v2(
        stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint,
    ) | cuStreamWaitValue32_v2_ptsz per_thread {
        enqueue(stream, per_thread, |driver, key| {
            driver.wait_op(key, addr.0, value.into(), false, flags.into())
        })
    }

    fn cuStreamWaitValue64_v2(
        stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint,
    ) | cuStreamWaitValue64_v2_ptsz per_thread {
        enqueue(stream, per_thread, |driver, key| {
            driver.wait_op(key, addr.0, value, true, flags.into())
        })
    }

    fn cuStreamBatchMemOp_v2(
        stream: CUstream, count: c_uint, params: *mut CUstreamBatchMemOpParams, flags: c_uint,
    ) | cuStreamBatchMemOp_v2_ptsz per_thread {
        let driver = driver()?;
        let key = driver.stream(stream, per_thread)?;
        if count > BATCH_MAX || flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        // All are checked before the first is enqueued: all or none.
        let mut ops = Vec::with_capacity(count as usize);
        for index in 0..count as usize {
            let p = params.at(index).read()?;
            let (at, value) = (p.address.0, p.value);
            ops.push(match p.operation as u32 {
                mem_op::WAIT_VALUE_32 => driver.wait_op(key, at, value, false, p.flags)?,
                mem_op::WAIT_VALUE_64 => driver.wait_op(key, at, value, true, p.flags)?,
                mem_op::WRITE_VALUE_32 => driver.write_op(key, at, value, false, p.flags)?,
                mem_op::WRITE_VALUE_64 => driver.write_op(key, at, value, true, p.flags)?,
                // Every operation is a barrier already.
                mem_op::BARRIER => Op::Marker,
                mem_op::FLUSH_REMOTE_WRITES => return Err(Error::NOT_SUPPORTED),
                _ => return Err(Error::INVALID_VALUE),
            });
        }
        for op in ops {
            driver.device.enqueue(key, op)?;
        }
        Ok(())
    }
}
