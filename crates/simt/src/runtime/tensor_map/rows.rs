//! Which rows of a tensor a copy touches. A row is what lies one behind the other in both memories:
//! elements of the first dimension. Where channels are interleaved it is a slice of them at one
//! place: the first dimension counts places, the second to last slices, of which a copy takes one.
//!
//! Coordinates are a program's, and so are maps: positions are counted in 64 bits, of which they
//! need 36, and addresses wrap.

use crate::runtime::tensor_map::{Extent, RANK_MAX, TensorMap, TensorMode};

/// What a copy takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Rows.
    pub rows: u32,
    /// Elements of a row.
    pub elements: u32,
    /// Bytes from one row to the next in shared memory.
    pub pitch: u64,
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Elements before the tensor's first one.
    pub outside: u32,
    /// Elements of the tensor behind these; others follow if there are fewer than in the plan.
    pub inside: u32,
    /// Where the first of them is; means nothing if there are none.
    pub address: u64,
}

/// Where a copy starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Coordinates; for [`TensorMode::Rows`] the first and the numbers of four rows.
    pub at: [i32; RANK_MAX],
    /// Offsets of pixels in a picture.
    pub offsets: [i32; 3],
}

impl TensorMap {
    /// Bytes of a slice of channels, if they are interleaved.
    fn slice_bytes(&self) -> Option<u32> {
        (self.interleave != 0).then_some(8 << self.interleave)
    }

    /// The axes that a copy counts through, the fastest first: not that of rows, nor that of slices.
    fn counted(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let rank = self.rank as usize;
        let (first, taken) = if self.interleave == 0 { (1, 0) } else { (0, rank - 2) };
        (first..rank).filter(move |axis| first == 1 || *axis != taken)
    }

    /// The axes of a picture: those that a copy of columns counts through, but the last.
    pub fn spatial(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        self.counted().take((self.rank as usize).saturating_sub(2))
    }

    /// What a copy of `dims` dimensions takes; `None` if the map is not for such copies.
    pub fn plan(&self, mode: TensorMode, dims: u8) -> Option<Plan> {
        (self.rank == u32::from(dims)).then_some(())?;
        let (rows, elements) = match (mode, self.extent) {
            (TensorMode::Tile, Extent::Box(extent)) => {
                let taken = self.counted().map(|i| extent[i].div_ceil(self.steps[i]));
                (taken.fold(1u64, |rows, n| rows * u64::from(n)), extent[0])
            }
            (TensorMode::Rows, Extent::Box(extent)) if dims == 2 => (4, extent[0]),
            (TensorMode::Columns, Extent::Columns { channels, pixels, .. }) => {
                (pixels.into(), channels)
            }
            _ => return None,
        };
        let slice = self.slice_bytes().map(|bytes| bytes / self.element.bytes());
        let elements = slice.unwrap_or(elements);
        let bytes = u64::from(elements * self.element.bytes());
        let packed = self.swizzle == 0 || slice.is_some();
        let pitch = if packed { bytes } else { 16 << self.swizzle };
        // More rows than fit into any memory need not be distinguished.
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        (bytes <= pitch).then_some(Plan { rows, elements, pitch })
    }

    /// Calls `f` with each row, in their order in shared memory, until it fails.
    pub fn rows<E>(
        &self,
        mode: TensorMode,
        start: &Start,
        plan: &Plan,
        mut f: impl FnMut(Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let at = start.at.map(i64::from);
        match self.extent {
            Extent::Columns { lower, upper, .. } => {
                let corners = lower.into_iter().zip(upper);
                let pictures = self.rank as usize - 1;
                let mut pixel = at;
                for _ in 0..plan.rows {
                    let mut position = pixel;
                    for (axis, offset) in self.spatial().zip(start.offsets) {
                        position[axis] += i64::from(offset);
                    }
                    f(self.row(plan, &position))?;
                    // On to the next place in the box; behind the last one, the next picture.
                    let further = self.spatial().zip(corners.clone()).all(|(axis, (low, up))| {
                        pixel[axis] += i64::from(self.steps[axis]);
                        let last = self.dimensions[axis] as i64 - 1 + i64::from(up);
                        let behind = pixel[axis] > last;
                        if behind {
                            pixel[axis] = i64::from(low);
                        }
                        behind
                    });
                    pixel[pictures] += if further { i64::from(self.steps[pictures]) } else { 0 };
                }
                Ok(())
            }
            Extent::Box(_) if mode == TensorMode::Rows => {
                at[1..].iter().try_for_each(|row| f(self.row(plan, &[at[0], *row, 0, 0, 0])))
            }
            Extent::Box(extent) => {
                let mut taken = [0; RANK_MAX];
                for _ in 0..plan.rows {
                    let mut position = at;
                    for axis in self.counted() {
                        position[axis] += i64::from(taken[axis]);
                    }
                    f(self.row(plan, &position))?;
                    for axis in self.counted() {
                        taken[axis] += self.steps[axis];
                        if taken[axis] < extent[axis] {
                            break;
                        }
                        taken[axis] = 0;
                    }
                }
                Ok(())
            }
        }
    }

    /// The row whose first element is at a position.
    fn row(&self, plan: &Plan, position: &[i64; RANK_MAX]) -> Row {
        let inside = |axis: usize| (0..self.dimensions[axis] as i64).contains(&position[axis]);
        let elements = i64::from(plan.elements);
        let (outside, end) = match self.interleave {
            0 => {
                let outside = (-position[0]).clamp(0, elements);
                (outside, (self.dimensions[0] as i64 - position[0]).clamp(outside, elements))
            }
            _ if inside(0) => (0, elements),
            _ => (0, 0),
        };
        if outside == end || !(1..self.rank as usize).all(inside) {
            return Row { outside: plan.elements, inside: 0, address: 0 };
        }
        let first = (position[0] + outside) as u64;
        let unit = self.slice_bytes().unwrap_or(self.element.bytes());
        let mut address = self.address.wrapping_add(first * u64::from(unit));
        for (at, stride) in position[1..self.rank as usize].iter().zip(self.strides) {
            address = address.wrapping_add((*at as u64).wrapping_mul(stride));
        }
        Row { outside: outside as u32, inside: (end - outside) as u32, address }
    }

    /// Where the 16 bytes at an address in shared memory lie when they are swizzled.
    pub fn swizzled(&self, at: u64) -> u64 {
        at ^ (at >> 7 & ((1 << self.swizzle) - 1)) << 4
    }
}
