//! Copies by graphs: what their sides are, and pageable memory.
//!
//! The device does not reach pageable memory, and CUDA has a graph's copy look at it when it runs,
//! not when it is launched. So such a copy has a shadow in pinned memory: the device copies
//! between itself and the shadow, a host function in the same order between the shadow and the
//! program's memory.

use crate::attach::Attached;
use crate::memory::HostKind;
use crate::memory::where_is::Side;
use core::ffi::c_void;
use cuda_api::CudaError;
use cuda_api::constants::memory_type;
use graph::{CopyEnd, CopyNode};
use std::sync::Arc;

/// One side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) address: u64,
    /// Distance of rows, bytes.
    pub(crate) pitch: u64,
    /// Distance of slices, rows.
    pub(crate) rows: u64,
    pub(crate) side: Side,
}

/// A copy whose sides are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) destination: End,
    pub(crate) source: End,
    /// Bytes of a row, rows of a slice, slices: none is 0.
    pub(crate) extent: [u64; 3],
}

impl Resolved {
    /// Finds out what the sides of a copy are; `None` if there is nothing to copy.
    ///
    /// # Errors
    /// CUDA_ERROR_INVALID_VALUE for rows that overlap or reach out of what they begin in,
    /// CUDA_ERROR_NOT_SUPPORTED for arrays.
    pub(crate) fn new(client: &Attached, copy: &CopyNode) -> Result<Option<Self>, CudaError> {
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

fn end(client: &Attached, end: &CopyEnd, extent: [u64; 3]) -> Result<End, CudaError> {
    let invalid = CudaError::INVALID_VALUE;
    let base = match end.memory_type {
        memory_type::HOST => end.host,
        memory_type::DEVICE | memory_type::UNIFIED => end.device.0,
        memory_type::ARRAY => return Err(CudaError::NOT_SUPPORTED),
        _ => return Err(invalid),
    };
    let (offset, pitch, rows, bytes) = reach(end, extent).ok_or(invalid)?;
    let address = base.checked_add(offset).filter(|_| base != 0).ok_or(invalid)?;
    address.checked_add(bytes).ok_or(invalid)?;
    let (side, address) = client.memory().end(address, bytes)?;
    // A device pointer must be one.
    if end.memory_type == memory_type::DEVICE && side == Side::Pageable {
        return Err(invalid);
    }
    Ok(End { address, pitch, rows, side })
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

/// Pinned memory that stands for the program's in the device's copies.
pub(crate) struct Shadow {
    client: &'static Attached,
    pub(crate) address: u64,
}

impl Shadow {
    pub(crate) fn new(client: &'static Attached, bytes: u64) -> Result<Self, CudaError> {
        let context = client.contexts().current()?;
        let address = client.allocate_pinned(context, bytes, 0, HostKind::Pinned)?;
        Ok(Self { client, address })
    }

    /// The shadow as a side of a copy, without gaps.
    pub(crate) fn end(&self, extent: [u64; 3]) -> End {
        End { address: self.address, pitch: extent[0], rows: extent[1], side: Side::Pinned }
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // Nobody can be told of an error.
        let _ = self.client.free_pinned(self.address, HostKind::Pinned);
    }
}

/// A copy within this process' memory that a stream runs.
pub(crate) struct HostCopy {
    pub(crate) copy: Resolved,
    /// The shadow that one of the sides is, kept while launches may come to the copy.
    pub(crate) _shadow: Option<Arc<Shadow>>,
}

impl HostCopy {
    fn run(&self) {
        let Resolved { destination, source, extent: [width, height, depth] } = self.copy;
        for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
            let from = source.address + (z * source.rows + y) * source.pitch;
            let to = destination.address + (z * destination.rows + y) * destination.pitch;
            // SAFETY: the program passed each side for a copy of these rows, in memory that this
            // process can reach and that lives as long as launches of the graph; a shadow is as
            // large as the box.
            unsafe { core::ptr::copy(from as *const u8, to as *mut u8, width as usize) };
        }
    }

    /// The copy as a host function's argument, to be given to [`run`] once.
    pub(crate) fn into_argument(self: Arc<Self>) -> usize {
        Arc::into_raw(self) as usize
    }
}

/// Host function that carries out a [`HostCopy`].
///
/// # Safety
/// `argument` is from [`HostCopy::into_argument`] and given away with this call.
pub(crate) unsafe extern "C" fn run(argument: *mut c_void) {
    // SAFETY: the caller vouches for it.
    let copy = unsafe { Arc::from_raw(argument.cast_const().cast::<HostCopy>()) };
    copy.run();
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
