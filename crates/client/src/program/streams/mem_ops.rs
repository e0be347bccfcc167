//! Stream memory operations, checked and posted: words written and waited for in a stream's order.

use super::Client;
use super::attributes::attribute_of;
use super::submission::wire_stream;
use cuda_api::attributes as attribute;
use cuda_api::constants::{mem_op, stream_value};
use cuda_api::handle::Handle;
use cuda_api::{CUdeviceptr, CUresult, CUstreamBatchMemOpParams, CudaError, Word, number};

/// One checked operation: its row, address, value and flags.
pub(crate) struct MemOperation {
    row: u16,
    words: [u64; 3],
}

impl MemOperation {
    /// Checks what CUDA says that it checks: flags that the device knows, an aligned word that it
    /// reaches.
    fn new(
        client: &Client,
        row: u16,
        address: CUdeviceptr,
        value: u64,
        flags: u64,
    ) -> Result<Self, CudaError> {
        let flags = u32::try_from(flags).map_err(|_| CudaError::INVALID_VALUE)?;
        let bytes = match row {
            number::cuStreamWriteValue32_v2 | number::cuStreamWaitValue32_v2 => 4,
            _ => 8,
        };
        let writes =
            matches!(row, number::cuStreamWriteValue32_v2 | number::cuStreamWriteValue64_v2);
        let known = match writes {
            true => flags & !stream_value::WRITE_NO_MEMORY_BARRIER == 0,
            false => flags & !stream_value::WAIT_FLUSH <= stream_value::WAIT_NOR,
        };
        if !known || !address.0.is_multiple_of(bytes) {
            return Err(CudaError::INVALID_VALUE);
        }
        let offers = |number: u32| attribute_of(client.description(), number) != 0;
        let flushes = !writes && flags & stream_value::WAIT_FLUSH != 0;
        let nor = !writes && flags & !stream_value::WAIT_FLUSH == stream_value::WAIT_NOR;
        if flushes && !offers(attribute::CAN_FLUSH_REMOTE_WRITES)
            || nor && !offers(attribute::CAN_USE_STREAM_WAIT_VALUE_NOR)
            || bytes == 8 && !offers(attribute::CAN_USE_64_BIT_STREAM_MEM_OPS)
        {
            return Err(CudaError::NOT_SUPPORTED);
        }
        client.check_device_range(address.0, bytes)?;
        let value = if bytes == 4 { value & u64::from(u32::MAX) } else { value };
        Ok(Self { row, words: [address.0, value, flags.into()] })
    }
}

/// Checks operations of a batch.
pub(crate) fn check_mem_ops(
    client: &Client,
    params: &[CUstreamBatchMemOpParams],
) -> Result<Vec<MemOperation>, CudaError> {
    let mut operations = Vec::with_capacity(params.len());
    for p in params {
        let row = match p.operation as u32 {
            mem_op::WAIT_VALUE_32 => number::cuStreamWaitValue32_v2,
            mem_op::WAIT_VALUE_64 => number::cuStreamWaitValue64_v2,
            mem_op::WRITE_VALUE_32 => number::cuStreamWriteValue32_v2,
            mem_op::WRITE_VALUE_64 => number::cuStreamWriteValue64_v2,
            // One operation waits for the one before in any case.
            mem_op::BARRIER => continue,
            mem_op::FLUSH_REMOTE_WRITES => return Err(CudaError::NOT_SUPPORTED),
            _ => return Err(CudaError::INVALID_VALUE),
        };
        operations.push(MemOperation::new(client, row, p.address, p.value, p.flags)?);
    }
    Ok(operations)
}

/// Posts operations that were checked, one right behind the other.
pub(crate) fn post_mem_ops(
    client: &Client,
    stream: Handle,
    operations: &[MemOperation],
) -> CUresult {
    let mut state = client.posting()?;
    for MemOperation { row, words: [address, value, flags] } in operations {
        let words = [wire_stream(stream).to_word(), *address, *value, *flags];
        state.make_room()?;
        state.push_words_in(stream, *row, &words)?;
    }
    Ok(())
}
