//! Stream memory operations: words that are written, or waited for, in a stream's order.

use core::ffi::c_uint;
use cuda_api::constants::{mem_op, stream_value};
use cuda_api::pointer::Out;
use cuda_api::{CUdeviceptr, CUstreamBatchMemOpParams, CudaError};

/// Operations of one batch: CUDA's limit.
const BATCH_MAX: c_uint = 256;

/// An operation whose number and flags CUDA knows, at an aligned address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemOp {
    /// It writes a word.
    Write(MemWord),
    /// It waits for one of `CU_STREAM_WAIT_VALUE_*`, in `flags` without the flush.
    Wait {
        /// The word, and what it is compared with.
        word: MemWord,
        /// How they are compared.
        condition: c_uint,
        /// True if writes of other devices shall be seen behind it.
        flushes: bool,
    },
    /// It waits for the operations before it, as each does.
    Barrier,
}

/// A word of four or eight bytes and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemWord {
    /// Where it is: a multiple of its size.
    pub address: u64,
    /// The value; of a word of four bytes, below 2^32.
    pub value: u64,
    /// True for eight bytes.
    pub wide: bool,
    /// The flags as the program gave them.
    pub flags: c_uint,
}

impl MemWord {
    /// Its size.
    pub fn bytes(self) -> u64 {
        if self.wide { 8 } else { 4 }
    }
}

impl MemOp {
    /// Checks an operation of a batch. CUDA_ERROR_INVALID_VALUE for numbers and flags that CUDA does not
    /// have and for an address that is not aligned; CUDA_ERROR_NOT_SUPPORTED for a flush by itself.
    pub fn of(params: &CUstreamBatchMemOpParams) -> Result<Self, CudaError> {
        let operation = params.operation as u32;
        let wide = match operation {
            mem_op::WAIT_VALUE_32 | mem_op::WRITE_VALUE_32 => false,
            mem_op::WAIT_VALUE_64 | mem_op::WRITE_VALUE_64 => true,
            mem_op::BARRIER => return Ok(Self::Barrier),
            mem_op::FLUSH_REMOTE_WRITES => return Err(CudaError::NOT_SUPPORTED),
            _ => return Err(CudaError::INVALID_VALUE),
        };
        let flags = u32::try_from(params.flags).map_err(|_| CudaError::INVALID_VALUE)?;
        let value = if wide { params.value } else { params.value & u64::from(u32::MAX) };
        let word = MemWord { address: params.address.0, value, wide, flags };
        let condition = flags & !stream_value::WAIT_FLUSH;
        let writes = matches!(operation, mem_op::WRITE_VALUE_32 | mem_op::WRITE_VALUE_64);
        let known = match writes {
            true => flags & !stream_value::WRITE_NO_MEMORY_BARRIER == 0,
            false => condition <= stream_value::WAIT_NOR,
        };
        if !known || !word.address.is_multiple_of(word.bytes()) {
            return Err(CudaError::INVALID_VALUE);
        }
        let flushes = condition != flags;
        Ok(if writes { Self::Write(word) } else { Self::Wait { word, condition, flushes } })
    }
}

/// The parameters of one operation by itself, as cuStreamWriteValue32 and its kin have them.
pub fn single(
    operation: u32,
    address: CUdeviceptr,
    value: u64,
    flags: c_uint,
) -> CUstreamBatchMemOpParams {
    let (operation, flags) = (operation.into(), flags.into());
    CUstreamBatchMemOpParams { operation, address, value, flags, alias: 0, pad: 0 }
}

/// The operations of cuStreamBatchMemOp. CUDA_ERROR_INVALID_VALUE for too many, for flags, and for NULL.
pub fn batch(
    params: Out<CUstreamBatchMemOpParams>,
    count: c_uint,
    flags: c_uint,
) -> Result<Vec<CUstreamBatchMemOpParams>, CudaError> {
    if count > BATCH_MAX || flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    params.as_in().array(count as usize).iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_flags_and_alignment_are_checked() {
        let of = |operation, address, flags| {
            MemOp::of(&single(operation, CUdeviceptr(address), 1 << 32 | 5, flags))
        };
        let word = MemWord { address: 4, value: 5, wide: false, flags: 0 };
        assert_eq!(of(mem_op::WRITE_VALUE_32, 4, 0), Ok(MemOp::Write(word)));
        assert_eq!(of(mem_op::WRITE_VALUE_64, 4, 0), Err(CudaError::INVALID_VALUE));
        assert_eq!(of(mem_op::WRITE_VALUE_32, 4, 2), Err(CudaError::INVALID_VALUE));
        let flags = stream_value::WAIT_FLUSH | stream_value::WAIT_AND;
        let word = MemWord { address: 8, value: 1 << 32 | 5, wide: true, flags };
        let wait = MemOp::Wait { word, condition: stream_value::WAIT_AND, flushes: true };
        assert_eq!(of(mem_op::WAIT_VALUE_64, 8, flags), Ok(wait));
        assert_eq!(of(mem_op::WAIT_VALUE_64, 8, 4), Err(CudaError::INVALID_VALUE));
        assert_eq!(of(mem_op::BARRIER, 0, 0), Ok(MemOp::Barrier));
        assert_eq!(of(mem_op::FLUSH_REMOTE_WRITES, 0, 0), Err(CudaError::NOT_SUPPORTED));
        assert_eq!(of(77, 0, 0), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn a_batch_has_a_limit_and_no_flags() {
        assert!(batch(Out::null(), 0, 0).is_ok_and(|all| all.is_empty()));
        assert!(batch(Out::null(), 1, 0).is_err());
        assert!(batch(Out::null(), 0, 1).is_err());
        assert!(batch(Out::null(), BATCH_MAX + 1, 0).is_err());
    }
}
