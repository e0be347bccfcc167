//! Checks of fills: rows of elements within one allocation.

use crate::program::Client;
use cuda_api::{CUresult, CudaError};
use graph::FillNode;

/// Checks a fill: rows of elements at multiples of an element, within one allocation.
pub(crate) fn check_fill(client: &Client, fill: &FillNode) -> CUresult {
    let element = u64::from(fill.elementSize);
    let aligned = fill.dst.0.is_multiple_of(element)
        && (fill.height <= 1 || (fill.pitch as u64).is_multiple_of(element));
    let bytes = rows_bytes(fill.pitch, element, fill.width, fill.height);
    match bytes.filter(|_| aligned).ok_or(CudaError::INVALID_VALUE)? {
        0 => Ok(()),
        bytes => client.check_device_range(fill.dst.0, bytes),
    }
}

/// Bytes of `height` rows of `width` elements.
fn rows_bytes(pitch: usize, element: u64, width: usize, height: usize) -> Option<u64> {
    let row = element.checked_mul(width as u64)?;
    if row == 0 || height == 0 {
        return Some(0);
    }
    if height > 1 && (pitch as u64) < row {
        return None;
    }
    (height as u64 - 1).checked_mul(pitch as u64)?.checked_add(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_reach_from_the_first_to_the_end_of_the_last() {
        assert_eq!(rows_bytes(512, 4, 10, 3), Some(2 * 512 + 40));
        assert_eq!(rows_bytes(0, 4, 10, 1), Some(40));
        assert_eq!(rows_bytes(8, 4, 10, 2), None, "rows overlap");
        assert_eq!(rows_bytes(usize::MAX, 1, 1, usize::MAX), None);
        assert_eq!(rows_bytes(0, 4, 0, 7), Some(0));
    }
}
