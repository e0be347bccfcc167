//! 3-D copies: what a client says of both ends, checked.

use crate::device::{CheckedRange, Copy3DSide};
use crate::session::memory::Memory;
use crate::session::memory::arrays::Arrays;
use crate::session::memory::ranges::extent_of_rows;
use channel::request::{Copy3DEnd, HostReference};
use cuda_api::CudaError;

/// Length of slices of rows, from the first byte to the last one.
fn extent_of_slices(
    pitch: u64,
    rows: u64,
    [width, height, depth]: [u64; 3],
) -> Result<u64, CudaError> {
    let slice = extent_of_rows(pitch, width, height)?;
    if slice == 0 || depth == 0 {
        return Ok(0);
    }
    if depth > 1 && rows < height {
        return Err(CudaError::INVALID_VALUE);
    }
    pitch
        .checked_mul(rows)
        .and_then(|distance| distance.checked_mul(depth - 1))
        .and_then(|slices| slices.checked_add(slice))
        .ok_or(CudaError::INVALID_VALUE)
}

/// The memory that a copy reaches over, from its first byte to its last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Device memory: address, bytes.
    Device(u64, u64),
    /// Host memory, bytes.
    Host(HostReference, u64),
}

impl Reach {
    /// Checks that all of it is the client's.
    pub fn check(&self, memory: &Memory) -> Result<CheckedRange, CudaError> {
        match *self {
            Self::Device(address, bytes) => memory.device_range(address, bytes),
            Self::Host(reference, bytes) => memory.host_range(reference, bytes),
        }
    }
}

/// One end of a copy, checked; and what memory it is in, if it is none of an array.
pub(in crate::session) fn side<'a>(
    memory: &Memory,
    arrays: &'a Arrays,
    end: &Copy3DEnd,
    extent: [u64; 3],
) -> Result<(Copy3DSide<'a>, Option<Reach>), CudaError> {
    let (reach, pitch, rows) = match *end {
        Copy3DEnd::Device { address, pitch, rows } => {
            (Reach::Device(address.0, extent_of_slices(pitch, rows, extent)?), pitch, rows)
        }
        Copy3DEnd::Host { reference, pitch, rows } => {
            (Reach::Host(reference, extent_of_slices(pitch, rows, extent)?), pitch, rows)
        }
        Copy3DEnd::Array { array, offset } => {
            let array = arrays.array(array)?;
            return match array.shape().holds(offset, extent) {
                true => Ok((Copy3DSide::Array { array, offset }, None)),
                false => Err(CudaError::INVALID_VALUE),
            };
        }
    };
    let side = Copy3DSide::Memory {
        range: reach.check(memory)?,
        // A single row has no distance to the next one, nor a single slice; providers want valid
        // ones anyway.
        pitch: pitch.max(extent[0]),
        rows: rows.max(extent[1]),
        host: matches!(reach, Reach::Host(..)),
    };
    Ok((side, Some(reach)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_reach_to_the_last_byte_of_the_last_one() {
        assert_eq!(extent_of_slices(100, 5, [60, 3, 2]), Ok(500 + 260));
        assert_eq!(extent_of_slices(0, 0, [60, 1, 1]), Ok(60));
        assert_eq!(extent_of_slices(100, 5, [60, 0, 2]), Ok(0));
        assert_eq!(extent_of_slices(100, 2, [60, 3, 2]), Err(CudaError::INVALID_VALUE));
        assert_eq!(extent_of_slices(u64::MAX, 9, [1, 1, 2]), Err(CudaError::INVALID_VALUE));
    }
}
