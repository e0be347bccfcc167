//! Copies of boxes, of memory and of arrays.

use crate::device::safe_calls::Description;
use crate::device::{Array, CheckedRange, GraphBuilder, Stream};
use cuda_api::constants::memory_type;
use cuda_api::{BoxCopy, CUDA_MEMCPY3D, CUdeviceptr, CUresult, CopyEnd};
use std::marker::PhantomData;

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

/// A copy as the provider takes it: ranges that cover the whole box and belong to the session, and arrays
/// that are alive and hold it.
pub(in crate::device) struct CheckedCopy<'a>(CUDA_MEMCPY3D, PhantomData<&'a Array>);

impl<'a> CheckedCopy<'a> {
    fn new(to: BoxSide<'a>, from: BoxSide<'a>, extent: [u64; 3]) -> Self {
        let (destination, source) = (to.describe(), from.describe());
        let extent = extent.map(|n| n as usize);
        Self(CUDA_MEMCPY3D::from(&BoxCopy { destination, source, extent }), PhantomData)
    }
}

// SAFETY: see the type. Arrays are there for as long as it.
unsafe impl Description<CUDA_MEMCPY3D> for CheckedCopy<'_> {
    fn get(&self) -> *const CUDA_MEMCPY3D {
        &self.0
    }
}

impl Stream {
    /// Copies a box: bytes of a row, rows of a slice, slices.
    pub fn copy_box(&self, to: BoxSide<'_>, from: BoxSide<'_>, extent: [u64; 3]) -> CUresult {
        let copy = CheckedCopy::new(to, from, extent);
        let calls = self.share().device().calls();
        self.share().submission_time().of(|| calls.cuMemcpy3DAsync_v2(&copy, self.live()))
    }
}

impl GraphBuilder {
    /// Adds a copy of a box, as [`Stream::copy_box`].
    pub fn add_copy(&mut self, to: BoxSide<'_>, from: BoxSide<'_>, extent: [u64; 3]) -> CUresult {
        // The session checks ranges again should it give memory back, and drops the graph before its arrays.
        let copy = CheckedCopy::new(to, from, extent);
        let device = self.share().device().clone();
        self.add(|calls, graph, node| {
            calls.cuGraphAddMemcpyNode(node, graph, &copy, device.context())
        })
    }
}
