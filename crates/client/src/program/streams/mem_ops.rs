//! Stream memory operations, checked and posted: words written and waited for in a stream's order.

use crate::program::Client;
use crate::program::attributes::attribute_of;
use crate::program::launch::submission::wire_stream;
use cuda_api::attributes as attribute;
use cuda_api::constants::stream_value;
use cuda_api::handle::Handle;
use cuda_api::{CUresult, CUstreamBatchMemOpParams, CudaError, Word, number};
use driver_common::mem_op::MemOp;

/// One checked operation: its row, address, value and flags.
pub(crate) struct MemOperation {
    row: u16,
    words: [u64; 3],
}

impl MemOperation {
    /// Checks that the device has the operation, and reaches the word.
    fn new(client: &Client, op: MemOp) -> Result<Option<Self>, CudaError> {
        let offers = |number: u32| attribute_of(client.description(), number) != 0;
        let (row, word) = match op {
            // One operation waits for the one before in any case.
            MemOp::Barrier => return Ok(None),
            MemOp::Write(word) if word.wide => (number::cuStreamWriteValue64_v2, word),
            MemOp::Write(word) => (number::cuStreamWriteValue32_v2, word),
            MemOp::Wait { flushes: true, .. } if !offers(attribute::CAN_FLUSH_REMOTE_WRITES) => {
                return Err(CudaError::NOT_SUPPORTED);
            }
            MemOp::Wait { condition: stream_value::WAIT_NOR, .. }
                if !offers(attribute::CAN_USE_STREAM_WAIT_VALUE_NOR) =>
            {
                return Err(CudaError::NOT_SUPPORTED);
            }
            MemOp::Wait { word, .. } if word.wide => (number::cuStreamWaitValue64_v2, word),
            MemOp::Wait { word, .. } => (number::cuStreamWaitValue32_v2, word),
        };
        if word.wide && !offers(attribute::CAN_USE_64_BIT_STREAM_MEM_OPS) {
            return Err(CudaError::NOT_SUPPORTED);
        }
        client.check_device_range(word.address, word.bytes())?;
        Ok(Some(Self { row, words: [word.address, word.value, word.flags.into()] }))
    }
}

/// Checks operations of a batch.
pub(crate) fn check_mem_ops(
    client: &Client,
    params: &[CUstreamBatchMemOpParams],
) -> Result<Vec<MemOperation>, CudaError> {
    let checked = params.iter().map(|params| MemOperation::new(client, MemOp::of(params)?));
    checked.filter_map(Result::transpose).collect()
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
