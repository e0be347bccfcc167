//! What arrays are made of: which descriptors describe one, and how many bytes, rows and slices it
//! has. How it lies in memory is the device's own.

use crate::constants::{array_flags, array_format};
use crate::{CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CudaError};

/// Largest extent of an array along an axis, elements: beyond what any device's attributes allow.
pub const ARRAY_EXTENT_MAX: usize = 1 << 17;

/// Flags of arrays that are made of elements alone.
const FLAGS: u32 = array_flags::LAYERED
    | array_flags::SURFACE_LDST
    | array_flags::CUBEMAP
    | array_flags::TEXTURE_GATHER;
/// Formats between these have planes, blocks or channels of their own.
const OTHER_FORMATS: core::ops::RangeInclusive<u32> = 0x50..=0xcb;
/// Faces of a cube.
const FACES: usize = 6;

impl From<CUDA_ARRAY_DESCRIPTOR> for CUDA_ARRAY3D_DESCRIPTOR {
    fn from(d: CUDA_ARRAY_DESCRIPTOR) -> Self {
        Self {
            Width: d.Width,
            Height: d.Height,
            Depth: 0,
            Format: d.Format,
            NumChannels: d.NumChannels,
            Flags: 0,
        }
    }
}

impl From<CUDA_ARRAY3D_DESCRIPTOR> for CUDA_ARRAY_DESCRIPTOR {
    fn from(d: CUDA_ARRAY3D_DESCRIPTOR) -> Self {
        Self { Width: d.Width, Height: d.Height, Format: d.Format, NumChannels: d.NumChannels }
    }
}

/// Bytes of an element.
///
/// # Errors
/// CUDA_ERROR_INVALID_VALUE for what is no format, CUDA_ERROR_NOT_SUPPORTED for one whose elements
/// are no channels side by side.
pub fn element_bytes(format: u32, channels: u32) -> Result<u64, CudaError> {
    use array_format::*;
    let channel = match format {
        UNSIGNED_INT8 | SIGNED_INT8 => 1,
        UNSIGNED_INT16 | SIGNED_INT16 | HALF => 2,
        UNSIGNED_INT32 | SIGNED_INT32 | FLOAT => 4,
        other if OTHER_FORMATS.contains(&other) => return Err(CudaError::NOT_SUPPORTED),
        _ => return Err(CudaError::INVALID_VALUE),
    };
    match channels {
        1 | 2 | 4 => Ok(channel * u64::from(channels)),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// True if slices are layers, or faces, and no third dimension.
pub fn is_layered(descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> bool {
    descriptor.Flags & (array_flags::LAYERED | array_flags::CUBEMAP) != 0
}

/// An array's extents: none is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Bytes of a row's elements.
    pub width_bytes: u64,
    /// Rows of a slice.
    pub rows: u64,
    /// Slices, or layers.
    pub slices: u64,
}

impl ArrayShape {
    /// The shape that a descriptor describes.
    ///
    /// # Errors
    /// CUDA_ERROR_INVALID_VALUE for what describes none, CUDA_ERROR_NOT_SUPPORTED for formats
    /// and flags of arrays that are more than elements (planes, blocks, sparse).
    pub fn of(d: &CUDA_ARRAY3D_DESCRIPTOR) -> Result<Self, CudaError> {
        let element_bytes = element_bytes(d.Format, d.NumChannels)?;
        if d.Flags & !array_flags::ALL != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if d.Flags & !FLAGS != 0 {
            return Err(CudaError::NOT_SUPPORTED);
        }
        let layered = d.Flags & array_flags::LAYERED != 0;
        let cube = d.Flags & array_flags::CUBEMAP != 0;
        let whole_cubes = if layered { d.Depth.is_multiple_of(FACES) } else { d.Depth == FACES };
        let wrong = d.Width == 0
            || [d.Width, d.Height, d.Depth].iter().any(|n| *n > ARRAY_EXTENT_MAX)
            || layered && d.Depth == 0
            // Slices of no rows; layers may be of one row that is no dimension.
            || d.Height == 0 && d.Depth != 0 && !layered
            || cube && (d.Width != d.Height || !whole_cubes);
        if wrong {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(Self {
            element_bytes,
            width_bytes: d.Width as u64 * element_bytes,
            rows: d.Height.max(1) as u64,
            slices: d.Depth.max(1) as u64,
        })
    }

    /// True if a box of bytes, rows and slices at an offset lies in the array.
    pub fn holds(&self, offset: [u64; 3], extent: [u64; 3]) -> bool {
        let limits = [self.width_bytes, self.rows, self.slices];
        let within = |axis: usize| {
            offset[axis].checked_add(extent[axis]).is_some_and(|end| end <= limits[axis])
        };
        (0..3).all(within)
    }

    /// Bytes of all elements. Extents have a maximum, so the product fits.
    pub fn bytes(&self) -> u64 {
        self.width_bytes * self.rows * self.slices
    }
}

/// Levels that a mipmapped array of that size can have: down to one element.
pub fn levels_max(d: &CUDA_ARRAY3D_DESCRIPTOR) -> u32 {
    let depth = if is_layered(d) { 1 } else { d.Depth };
    1 + d.Width.max(d.Height).max(depth).max(1).ilog2()
}

/// A level of a mipmapped array as an array: extents are halved, layers are not.
pub fn level_of(d: &CUDA_ARRAY3D_DESCRIPTOR, level: u32) -> CUDA_ARRAY3D_DESCRIPTOR {
    let halved = |n: usize| n.checked_shr(level).unwrap_or(0).max(usize::from(n > 0));
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: halved(d.Width),
        Height: halved(d.Height),
        Depth: if is_layered(d) { d.Depth } else { halved(d.Depth) },
        ..*d
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(extents: [usize; 3], flags: u32) -> CUDA_ARRAY3D_DESCRIPTOR {
        let [Width, Height, Depth] = extents;
        let (Format, NumChannels) = (array_format::HALF, 4);
        CUDA_ARRAY3D_DESCRIPTOR { Width, Height, Depth, Format, NumChannels, Flags: flags }
    }

    #[test]
    fn shapes_are_bytes_rows_and_slices() {
        let shape = |extents, flags| {
            ArrayShape::of(&array(extents, flags)).map(|s| [s.width_bytes, s.rows, s.slices])
        };
        let invalid = Err(CudaError::INVALID_VALUE);
        assert_eq!(shape([5, 0, 0], 0), Ok([40, 1, 1]));
        assert_eq!(shape([5, 4, 3], 0), Ok([40, 4, 3]));
        assert_eq!(shape([5, 0, 3], array_flags::LAYERED), Ok([40, 1, 3]));
        assert_eq!(shape([4, 4, 6], array_flags::CUBEMAP), Ok([32, 4, 6]));
        assert_eq!(shape([5, 0, 3], 0), invalid, "slices without rows");
        assert_eq!(shape([5, 4, 6], array_flags::CUBEMAP), invalid, "no cube");
        assert_eq!(shape([4, 4, 5], array_flags::CUBEMAP), invalid);
        assert_eq!(shape([0, 4, 3], 0), invalid);
        assert_eq!(shape([ARRAY_EXTENT_MAX + 1, 0, 0], 0), invalid);
        assert_eq!(shape([5, 4, 0], 0x40), Err(CudaError::NOT_SUPPORTED), "sparse");
        assert_eq!(shape([5, 4, 0], 0x800), invalid);
        assert_eq!(element_bytes(0x91, 4), Err(CudaError::NOT_SUPPORTED), "blocks");
        assert_eq!(element_bytes(7, 4), Err(CudaError::INVALID_VALUE));
        assert_eq!(element_bytes(array_format::FLOAT, 3), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn a_box_lies_in_an_array_or_does_not() {
        let shape = ArrayShape::of(&array([5, 4, 3], 0)).unwrap();
        assert!(shape.holds([0; 3], [40, 4, 3]));
        assert!(shape.holds([8, 1, 2], [32, 3, 1]));
        assert!(!shape.holds([8, 0, 0], [40, 1, 1]));
        assert!(!shape.holds([0, 2, 0], [1, 3, 1]));
        assert!(!shape.holds([0, 0, u64::MAX], [1, 1, 2]));
    }

    #[test]
    fn levels_are_halved_down_to_one_element() {
        let volume = array([9, 4, 3], 0);
        assert_eq!(levels_max(&volume), 4);
        let extents = |d: CUDA_ARRAY3D_DESCRIPTOR| [d.Width, d.Height, d.Depth];
        assert_eq!(extents(level_of(&volume, 1)), [4, 2, 1]);
        assert_eq!(extents(level_of(&volume, 3)), [1, 1, 1]);
        let layers = array([8, 0, 30], array_flags::LAYERED);
        assert_eq!(levels_max(&layers), 4);
        assert_eq!(extents(level_of(&layers, 2)), [2, 0, 30]);
    }
}
