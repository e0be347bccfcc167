//! Occupancy: how many blocks of a function an SM takes, asked of the server once for each launch.

use crate::program::Client;
use crate::program::forwarded::{Travels, Words};
use crate::stream::DefaultStream;
use core::ffi::{c_int, c_uint};
use cuda_api::{CUfunction, CudaError, number};

/// How many blocks of that size an SM takes.
pub(crate) fn blocks_per_sm(
    client: &Client,
    function: CUfunction,
    block_size: c_int,
    shared_bytes: usize,
    flags: c_uint,
) -> Result<c_int, CudaError> {
    let launch = (block_size, shared_bytes, flags);
    let (handle, known) = {
        let state = client.state();
        let (handle, function) = state.function(function.0)?;
        (handle, function.occupancy.get(launch))
    };
    if let Some(blocks) = known {
        return Ok(blocks);
    }
    let mut words = Words::new();
    let default = DefaultStream::Legacy;
    function.encode(client, default, &mut words)?;
    block_size.encode(client, default, &mut words)?;
    shared_bytes.encode(client, default, &mut words)?;
    flags.encode(client, default, &mut words)?;
    let mut blocks = 0;
    let opcode = number::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags;
    client.call_row(
        opcode,
        |state| words.post(state, opcode),
        |reply| {
            blocks = reply.value().map_err(|_| CudaError::UNKNOWN)?;
            Ok(())
        },
    )?;
    if let Some(function) = client.state().functions.get_mut(handle) {
        function.occupancy.put(launch, blocks);
    }
    Ok(blocks)
}
