//! The request that matters most: a kernel's launch.

use super::{Request, RequestKind};
use crate::payload::{Malformed, Payload, Reader, Sink, words_of};
use crate::region::RECORD_BYTES_MAX;
use cuda_api::{CUfunction, CUstream, number};

/// Largest parameter buffer of a kernel, bytes: CUDA's own limit since 12.1.
pub const PARAMETER_BYTES_MAX: usize = 32764;

/// Flag of [`LaunchKernel`]: all blocks must be resident together.
pub const LAUNCH_COOPERATIVE: u32 = 1;

/// cuLaunchKernel and its kin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchKernel<'a> {
    /// The kernel.
    pub function: CUfunction,
    /// The stream.
    pub stream: CUstream,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// [`LAUNCH_COOPERATIVE`].
    pub flags: u32,
    /// The parameters, each at its offset: at most [`PARAMETER_BYTES_MAX`].
    pub parameters: &'a [u8],
}

/// Words before the parameters.
const FIXED_WORDS: usize = 7;

const _: () =
    assert!(8 * (1 + FIXED_WORDS + words_of(PARAMETER_BYTES_MAX)) as u64 <= RECORD_BYTES_MAX);

impl<'a> Payload<'a> for LaunchKernel<'a> {
    #[inline(always)]
    fn words(&self) -> usize {
        FIXED_WORDS + words_of(self.parameters.len())
    }

    #[inline(always)]
    fn write(&self, sink: &mut impl Sink) {
        sink.word(self.function.0 as u64);
        sink.word(self.stream.0 as u64);
        sink.pair(self.grid[0], self.grid[1]);
        sink.pair(self.grid[2], self.block[0]);
        sink.pair(self.block[1], self.block[2]);
        sink.pair(self.shared_bytes, self.flags);
        sink.word(self.parameters.len() as u64);
        sink.bytes(self.parameters);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let function = reader.value()?;
        let stream = reader.value()?;
        let (grid_x, grid_y) = reader.pair()?;
        let (grid_z, block_x) = reader.pair()?;
        let (block_y, block_z) = reader.pair()?;
        let (shared_bytes, flags) = reader.pair()?;
        let length = reader.length(PARAMETER_BYTES_MAX)?;
        Ok(Self {
            function,
            stream,
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            flags,
            parameters: reader.bytes(length)?,
        })
    }
}

impl<'a> Request<'a> for LaunchKernel<'a> {
    const OPCODE: u16 = number::cuLaunchKernel;
    const KIND: RequestKind = RequestKind::Post;
    type Reply = ();
}
