//! 3-D copies as data: what cuda.h's structures for them say, either end in the same words.
//!
//! Deliberately absent: whether a copy makes sense, which depends on who owns the memory.

use crate::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUarray, CUdeviceptr};
use core::ffi::c_uint;

/// One end of a copy, as [`CUDA_MEMCPY3D`] describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyEnd {
    /// Offset in bytes, rows and slices.
    pub offset: [usize; 3],
    /// Mipmap level: 0.
    pub level: usize,
    /// CUmemorytype.
    pub memory_type: c_uint,
    /// Address in host memory.
    pub host: u64,
    /// Address in device or unified memory.
    pub device: CUdeviceptr,
    /// The array.
    pub array: CUarray,
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// Rows from one slice to the next.
    pub height: usize,
}

/// A 3-D copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memcpy3D {
    /// Where to.
    pub destination: CopyEnd,
    /// Where from.
    pub source: CopyEnd,
    /// Bytes in a row, rows in a slice, slices.
    pub extent: [usize; 3],
}

impl From<&CUDA_MEMCPY2D> for Memcpy3D {
    fn from(c: &CUDA_MEMCPY2D) -> Self {
        Self {
            destination: CopyEnd {
                offset: [c.dstXInBytes, c.dstY, 0],
                memory_type: c.dstMemoryType,
                host: c.dstHost as u64,
                device: c.dstDevice,
                array: c.dstArray,
                pitch: c.dstPitch,
                ..CopyEnd::default()
            },
            source: CopyEnd {
                offset: [c.srcXInBytes, c.srcY, 0],
                memory_type: c.srcMemoryType,
                host: c.srcHost as u64,
                device: c.srcDevice,
                array: c.srcArray,
                pitch: c.srcPitch,
                ..CopyEnd::default()
            },
            extent: [c.WidthInBytes, c.Height, 1],
        }
    }
}

impl From<&CUDA_MEMCPY3D> for Memcpy3D {
    fn from(c: &CUDA_MEMCPY3D) -> Self {
        Self {
            destination: CopyEnd {
                offset: [c.dstXInBytes, c.dstY, c.dstZ],
                level: c.dstLOD,
                memory_type: c.dstMemoryType,
                host: c.dstHost as u64,
                device: c.dstDevice,
                array: c.dstArray,
                pitch: c.dstPitch,
                height: c.dstHeight,
            },
            source: CopyEnd {
                offset: [c.srcXInBytes, c.srcY, c.srcZ],
                level: c.srcLOD,
                memory_type: c.srcMemoryType,
                host: c.srcHost as u64,
                device: c.srcDevice,
                array: c.srcArray,
                pitch: c.srcPitch,
                height: c.srcHeight,
            },
            extent: [c.WidthInBytes, c.Height, c.Depth],
        }
    }
}

impl From<&Memcpy3D> for CUDA_MEMCPY3D {
    fn from(c: &Memcpy3D) -> Self {
        let (d, s) = (&c.destination, &c.source);
        Self {
            srcXInBytes: s.offset[0],
            srcY: s.offset[1],
            srcZ: s.offset[2],
            srcLOD: s.level,
            srcMemoryType: s.memory_type,
            srcHost: s.host as *const _,
            srcDevice: s.device,
            srcArray: s.array,
            reserved0: core::ptr::null_mut(),
            srcPitch: s.pitch,
            srcHeight: s.height,
            dstXInBytes: d.offset[0],
            dstY: d.offset[1],
            dstZ: d.offset[2],
            dstLOD: d.level,
            dstMemoryType: d.memory_type,
            dstHost: d.host as *mut _,
            dstDevice: d.device,
            dstArray: d.array,
            reserved1: core::ptr::null_mut(),
            dstPitch: d.pitch,
            dstHeight: d.height,
            WidthInBytes: c.extent[0],
            Height: c.extent[1],
            Depth: c.extent[2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_survives_the_way_there_and_back() {
        let end = |n: usize| CopyEnd {
            offset: [n + 1, n + 2, n + 3],
            level: n + 4,
            memory_type: n as u32 + 5,
            host: n as u64 + 6,
            device: CUdeviceptr(n as u64 + 7),
            array: CUarray(n + 8),
            pitch: n + 9,
            height: n + 10,
        };
        let copy = Memcpy3D { destination: end(100), source: end(200), extent: [1, 2, 3] };
        assert_eq!(Memcpy3D::from(&CUDA_MEMCPY3D::from(&copy)), copy);
    }

    #[test]
    fn a_copy_of_rows_is_one_of_a_slice() {
        let rows = CUDA_MEMCPY2D {
            srcXInBytes: 1,
            srcY: 2,
            srcMemoryType: 3,
            srcHost: 4 as *const _,
            srcDevice: CUdeviceptr(5),
            srcArray: CUarray(6),
            srcPitch: 7,
            dstXInBytes: 8,
            dstY: 9,
            dstMemoryType: 10,
            dstHost: 11 as *mut _,
            dstDevice: CUdeviceptr(12),
            dstArray: CUarray(13),
            dstPitch: 14,
            WidthInBytes: 15,
            Height: 16,
        };
        let end = |n: usize| CopyEnd {
            offset: [n, n + 1, 0],
            level: 0,
            memory_type: n as u32 + 2,
            host: n as u64 + 3,
            device: CUdeviceptr(n as u64 + 4),
            array: CUarray(n + 5),
            pitch: n + 6,
            height: 0,
        };
        let copy = Memcpy3D { source: end(1), destination: end(8), extent: [15, 16, 1] };
        assert_eq!(Memcpy3D::from(&rows), copy);
    }
}
