//! 3-D copies as the program describes them, with what their ends are.

use crate::memory::address::Side;
use crate::program::Client;
use channel::request::{Copy3DEnd, HostReference};
use cuda_api::constants::memory_type;
use cuda_api::{CUarray, CUdeviceptr, CudaError};
use graph::{CopyEnd, CopyNode};

/// Rows of bytes at regular distances in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) address: u64,
    /// Distance of rows, bytes.
    pub(crate) pitch: u64,
    /// Distance of slices, rows.
    pub(crate) rows: u64,
    pub(crate) side: Side,
}

impl Rows {
    /// The address of a byte of a row of a slice.
    pub(crate) fn at(&self, [x, y, z]: [u64; 3]) -> u64 {
        self.address + (z * self.rows + y) * self.pitch + x
    }
}

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Memory(Rows),
    Array {
        array: CUarray,
        /// Bytes of a row, rows, slices.
        offset: [u64; 3],
    },
}

/// Who reaches an end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The device alone.
    ByDevice,
    /// Both, in memory.
    ByBoth(Rows),
    /// This process alone, in memory.
    Here(Rows),
}

impl End {
    pub(crate) fn reached(&self) -> Reached {
        match *self {
            Self::Array { .. } | Self::Memory(Rows { side: Side::Device, .. }) => Reached::ByDevice,
            Self::Memory(rows @ Rows { side: Side::Pinned, .. }) => Reached::ByBoth(rows),
            Self::Memory(rows @ Rows { side: Side::Pageable, .. }) => Reached::Here(rows),
        }
    }

    /// The end as a request has it, from so many bytes, rows and slices on. It must not be memory
    /// that this process alone reaches.
    pub(crate) fn wire(&self, from @ [x, y, z]: [u64; 3]) -> Copy3DEnd {
        match *self {
            Self::Memory(at @ Rows { pitch, rows, side, .. }) => match side {
                Side::Device => {
                    Copy3DEnd::Device { address: CUdeviceptr(at.at(from)), pitch, rows }
                }
                Side::Pinned | Side::Pageable => {
                    Copy3DEnd::Host { reference: HostReference::Mapped(at.at(from)), pitch, rows }
                }
            },
            Self::Array { array, offset: [u, v, w] } => {
                Copy3DEnd::Array { array, offset: [u + x, v + y, w + z] }
            }
        }
    }
}

/// A copy whose ends are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) destination: End,
    pub(crate) source: End,
    /// Bytes of a row, rows of a slice, slices: none is 0.
    pub(crate) extent: [u64; 3],
}

impl Resolved {
    /// Finds out what the ends of a copy are; `None` if there is nothing to copy.
    ///
    /// # Errors
    /// CUDA_ERROR_INVALID_VALUE for rows that overlap and for what reaches out of what it begins
    /// in, CUDA_ERROR_INVALID_HANDLE for what is no array.
    pub(crate) fn new(client: &Client, copy: &CopyNode) -> Result<Option<Self>, CudaError> {
        let extent = copy.extent.map(|n| n as u64);
        if extent.contains(&0) {
            return Ok(None);
        }
        let destination = end(client, &copy.destination, extent)?;
        let source = end(client, &copy.source, extent)?;
        Ok(Some(Self { destination, source, extent }))
    }

    /// All bytes without gaps.
    pub(crate) fn bytes(&self) -> u64 {
        self.extent.iter().product()
    }
}

fn end(client: &Client, end: &CopyEnd, extent: [u64; 3]) -> Result<End, CudaError> {
    let invalid = CudaError::INVALID_VALUE;
    let base = match end.memory_type {
        memory_type::HOST => end.host,
        memory_type::DEVICE | memory_type::UNIFIED => end.device.0,
        memory_type::ARRAY => {
            let offset = end.offset.map(|n| n as u64);
            let holds = client.arrays().shape(end.array)?.holds(offset, extent);
            return match holds && end.level == 0 {
                true => Ok(End::Array { array: end.array, offset }),
                false => Err(invalid),
            };
        }
        _ => return Err(invalid),
    };
    let (offset, pitch, rows, bytes) = reach(end, extent).ok_or(invalid)?;
    let address = base.checked_add(offset).filter(|_| base != 0).ok_or(invalid)?;
    address.checked_add(bytes).ok_or(invalid)?;
    let (side, address) = client.end(address, bytes)?;
    // A device pointer must be one.
    if end.memory_type == memory_type::DEVICE && side == Side::Pageable {
        return Err(invalid);
    }
    Ok(End::Memory(Rows { address, pitch, rows, side }))
}

/// Where an end's first byte is, its distances of rows and slices, and how far it reaches; `None`
/// for what overlaps or has no end.
fn reach(end: &CopyEnd, [width, height, depth]: [u64; 3]) -> Option<(u64, u64, u64, u64)> {
    let [x, y, z] = end.offset.map(|n| n as u64);
    // Rows and slices that lie against each other are what 0 means.
    let pitch = if end.pitch == 0 { x.checked_add(width)? } else { end.pitch as u64 };
    let rows = if end.height == 0 { y.checked_add(height)? } else { end.height as u64 };
    let overlaps = pitch < x.checked_add(width)? && (height > 1 || depth > 1)
        || rows < y.checked_add(height)? && depth > 1
        || end.level != 0;
    if overlaps {
        return None;
    }
    let at = |x: u64, y: u64, z: u64| {
        let rows = z.checked_mul(rows)?.checked_add(y)?;
        rows.checked_mul(pitch)?.checked_add(x)
    };
    let first = at(x, y, z)?;
    let last = at(x, y.checked_add(height - 1)?, z.checked_add(depth - 1)?)?;
    Some((first, pitch, rows, (last - first).checked_add(width)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_reaches_from_its_first_byte_to_its_last() {
        let end = CopyEnd { offset: [3, 2, 1], pitch: 100, height: 10, ..CopyEnd::default() };
        // Slice 1, row 2, byte 3; up to slice 2, row 4, byte 3 + 40.
        assert_eq!(reach(&end, [40, 3, 2]), Some((1203, 100, 10, 1000 + 200 + 40)));
        assert_eq!(reach(&CopyEnd::default(), [8, 4, 2]), Some((0, 8, 4, 64)));
        assert_eq!(reach(&end, [98, 3, 2]), None, "rows overlap");
        assert_eq!(reach(&end, [40, 9, 2]), None, "slices overlap");
        let far = CopyEnd { offset: [0, usize::MAX, 0], pitch: 2, ..CopyEnd::default() };
        assert_eq!(reach(&far, [1, 1, 1]), None);
    }
}
