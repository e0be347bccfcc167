//! Copies of boxes, of memory and of arrays.

use super::{Array, CheckedRange, GraphBuilder, Stream};
use cuda_api::constants::memory_type;
use cuda_api::{BoxCopy, CUDA_MEMCPY3D, CUdeviceptr, CUresult, CopyEnd};
use std::ptr;

/// One side of a copy of a box.
#[derive(Clone, Copy)]
pub enum BoxSide<'a> {
    /// Device memory, or host memory that the provider knows (registered).
    Memory {
        /// From the first byte to the last one.
        range: CheckedRange,
        /// Distance of rows, bytes: at least the box's width.
        pitch: u64,
        /// Distance of slices, rows: at least the box's height.
        rows: u64,
        /// True for host memory.
        host: bool,
    },
    /// An array. That the box lies in it was checked.
    Array {
        /// The array.
        array: &'a Array,
        /// Where the box begins: bytes in a row, rows, slices.
        offset: [u64; 3],
    },
}

impl BoxSide<'_> {
    fn describe(&self) -> CopyEnd {
        match *self {
            Self::Memory { range, pitch, rows, host } => CopyEnd {
                memory_type: if host { memory_type::HOST } else { memory_type::DEVICE },
                host: range.address(),
                device: CUdeviceptr(range.address()),
                pitch: pitch as usize,
                height: rows as usize,
                ..CopyEnd::default()
            },
            Self::Array { array, offset } => array.end(offset),
        }
    }
}

/// A copy as the provider is told of it.
fn describe(to: BoxSide<'_>, from: BoxSide<'_>, extent: [u64; 3]) -> CUDA_MEMCPY3D {
    let (destination, source) = (to.describe(), from.describe());
    let extent = extent.map(|n| n as usize);
    CUDA_MEMCPY3D::from(&BoxCopy { destination, source, extent })
}

impl Stream {
    /// Copies a box: bytes of a row, rows of a slice, slices.
    pub fn copy_box(&self, to: BoxSide<'_>, from: BoxSide<'_>, extent: [u64; 3]) -> CUresult {
        let copy = describe(to, from, extent);
        self.share().submission_time().of(|| {
            // SAFETY: the stream is alive, `copy` is read during the call; ranges, which cover the
            // whole box, are the session's (CheckedRange), and arrays are alive and hold the box.
            unsafe { self.share().device().table().cuMemcpy3DAsync_v2(&copy, self.raw()) }
        })
    }
}

impl GraphBuilder {
    /// Adds a copy of a box, as [`Stream::copy_box`].
    pub fn add_copy(&mut self, to: BoxSide<'_>, from: BoxSide<'_>, extent: [u64; 3]) -> CUresult {
        let copy = describe(to, from, extent);
        let context = self.share().device().context();
        // SAFETY: graph and context are alive, `copy` is read during the call; ranges, which cover
        // the whole box, are the session's (CheckedRange), which checks them again should it give
        // memory back; arrays hold the box, and the session drops the graph before they go. The
        // local is written.
        self.add(|t, graph, node| unsafe {
            t.cuGraphAddMemcpyNode(node, graph, ptr::null(), 0, &copy, context)
        })
    }
}
