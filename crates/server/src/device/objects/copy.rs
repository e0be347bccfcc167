//! 3-D copies, of memory and of arrays.

use crate::device::safe_calls::Description;
use crate::device::{Array, CheckedRange, GraphBuilder, Stream};
use cuda_api::constants::memory_type;
use cuda_api::{CUDA_MEMCPY3D, CUdeviceptr, CUresult, CopyEnd, Memcpy3D};
use std::marker::PhantomData;

/// One side of a 3-D copy.
#[derive(Clone, Copy)]
pub enum Copy3DSide<'a> {
    /// Device memory, or host memory that the provider knows (registered).
    Memory {
        /// From the first byte to the last one.
        range: CheckedRange,
        /// Distance of rows, bytes: at least the copy's width.
        pitch: u64,
        /// Distance of slices, rows: at least the copy's height.
        rows: u64,
        /// True for host memory.
        host: bool,
    },
    /// An array. That the copied region lies in it was checked.
    Array {
        /// The array.
        array: &'a Array,
        /// Where the copied region begins: bytes in a row, rows, slices.
        offset: [u64; 3],
    },
}

impl Copy3DSide<'_> {
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

/// A copy as the provider takes it: ranges that cover the whole region and belong to the session, and arrays
/// that are alive and hold the region.
pub(in crate::device) struct CheckedCopy<'a>(CUDA_MEMCPY3D, PhantomData<&'a Array>);

impl<'a> CheckedCopy<'a> {
    fn new(to: Copy3DSide<'a>, from: Copy3DSide<'a>, extent: [u64; 3]) -> Self {
        let (destination, source) = (to.describe(), from.describe());
        let extent = extent.map(|n| n as usize);
        Self(CUDA_MEMCPY3D::from(&Memcpy3D { destination, source, extent }), PhantomData)
    }
}

// SAFETY: see the type. Arrays are there for as long as it.
unsafe impl Description<CUDA_MEMCPY3D> for CheckedCopy<'_> {
    fn get(&self) -> *const CUDA_MEMCPY3D {
        &self.0
    }
}

impl Stream {
    /// Makes a 3-D copy: bytes of a row, rows of a slice, slices.
    pub fn copy_3d(&self, to: Copy3DSide<'_>, from: Copy3DSide<'_>, extent: [u64; 3]) -> CUresult {
        let copy = CheckedCopy::new(to, from, extent);
        let calls = self.share().device().calls();
        self.share().submission_time().of(|| calls.cuMemcpy3DAsync_v2(&copy, self.live()))
    }
}

impl GraphBuilder {
    /// Adds a 3-D copy, as [`Stream::copy_3d`].
    pub fn add_copy(
        &mut self,
        to: Copy3DSide<'_>,
        from: Copy3DSide<'_>,
        extent: [u64; 3],
    ) -> CUresult {
        // The session checks ranges again should it give memory back, and drops the graph before its arrays.
        let copy = CheckedCopy::new(to, from, extent);
        let device = self.share().device().clone();
        self.add(|calls, graph, node| {
            calls.cuGraphAddMemcpyNode(node, graph, &copy, device.context())
        })
    }
}
