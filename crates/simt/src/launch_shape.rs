//! Launch shapes: what compiled code may assume of a launch's grid and blocks.
//!
//! Which lane of a warp is which thread depends on the extents of the block, and whether 32-bit
//! indices can wrap depends on the extents of the grid. A kernel is compiled once for each
//! geometry that it is launched with: there are few, and nearly every kernel meets only one.

use crate::kernel::{Dim3, WARP_LANES};

/// Most threads of a block: compute capability 8.0.
pub const THREADS_PER_BLOCK_MAX: u32 = 1024;

/// A class of launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaunchShape {
    /// Nothing is known.
    Any,
    /// Blocks of one dimension: `%tid.x` counts up by one from lane to lane, from a multiple of
    /// 32; `%tid.y` and `%tid.z` are 0.
    Line,
    /// The x extent of blocks is a multiple of 32: `%tid.x` counts up as in [`Self::Line`];
    /// `%tid.y` and `%tid.z` are the same in all lanes of a warp; every warp is full.
    Rows,
    /// The x extent of blocks is 16, and no warp has lanes of two z: `%tid.x` counts up from 0 in
    /// each half of a warp, the upper half's `%tid.y` is one more than the lower's, `%tid.z` is the
    /// same in all lanes.
    HalfRows,
}

/// Lanes of half a warp.
pub const HALF_LANES: usize = WARP_LANES / 2;

impl LaunchShape {
    /// All of them; [`Self::index`] is the place in it.
    pub const ALL: [Self; 4] = [Self::Any, Self::Line, Self::Rows, Self::HalfRows];

    /// The narrowest class that a launch belongs to.
    pub fn of(grid: Dim3, block: Dim3) -> Self {
        // Global thread indices of an axis are below 2^31, with room for the lanes that the last
        // warp of a block lacks.
        let small = |grid: u32, block: u32| {
            u64::from(grid) * u64::from(block) + WARP_LANES as u64 <= 1 << 31
        };
        let fits = small(grid.x, block.x) && small(grid.y, block.y) && small(grid.z, block.z);
        if !fits {
            Self::Any
        } else if block.x.is_multiple_of(WARP_LANES as u32) {
            Self::Rows
        } else if block.y == 1 && block.z == 1 {
            Self::Line
        } else if block.x == HALF_LANES as u32 && (block.z == 1 || block.y.is_multiple_of(2)) {
            Self::HalfRows
        } else {
            Self::Any
        }
    }

    /// Place in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_find_their_class() {
        let dim = |x, y, z| Dim3 { x, y, z };
        let of = |block| LaunchShape::of(dim(4, 4, 4), block);
        assert_eq!(of(dim(64, 2, 1)), LaunchShape::Rows);
        assert_eq!(of(dim(33, 1, 1)), LaunchShape::Line);
        assert_eq!(of(dim(33, 2, 1)), LaunchShape::Any);
        assert_eq!(of(dim(16, 1, 1)), LaunchShape::Line);
        assert_eq!(of(dim(16, 3, 1)), LaunchShape::HalfRows);
        assert_eq!(of(dim(16, 2, 3)), LaunchShape::HalfRows);
        assert_eq!(of(dim(16, 3, 2)), LaunchShape::Any, "the second warp has lanes of two z");
        assert_eq!(LaunchShape::of(dim(1 << 26, 1, 1), dim(32, 1, 1)), LaunchShape::Any);
        assert!(LaunchShape::ALL.iter().enumerate().all(|(i, g)| g.index() == i));
    }
}
