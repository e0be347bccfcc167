//! Textures and surfaces of a case: what they are, and the objects that kernels read them by.

use crate::memory::Memory;
use anyhow::{Context, Result};
use cuda_api::constants::{array_flags, array_format, resource_type};
use cuda_api::{
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY3D, CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC, CUarray,
    DriverTable, Memcpy3D,
};
use std::ffi::c_void;

/// CU_MEMORYTYPE_HOST.
const HOST: u32 = 1;
/// CU_MEMORYTYPE_ARRAY.
const ARRAY: u32 = 3;
/// CU_TR_FILTER_MODE_LINEAR.
const LINEAR: u32 = 1;
/// CU_TRSF_NORMALIZED_COORDINATES.
const NORMALIZED: u32 = 2;
/// CU_TR_ADDRESS_MODE_CLAMP.
pub(crate) const CLAMP: u32 = 1;
/// CU_TR_ADDRESS_MODE_WRAP.
pub(crate) const WRAP: u32 = 0;

/// Where texels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// An array of one to three dimensions.
    Array,
    /// An array of the six faces of a cube.
    Cube,
    /// Plain memory.
    Linear,
    /// Rows of memory.
    Rows,
    /// An array of two dimensions that the kernel reads as a surface.
    Surface,
    /// The same, which every run writes as a whole.
    Written,
}

/// A texture or a surface. C takes a pointer to its texels in its place.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// Where texels are.
    pub(crate) home: Home,
    /// Texels along each axis; 0 is none.
    pub(crate) extents: [usize; 3],
    /// CUarray_format.
    pub(crate) format: u32,
    /// Numbers of a texel.
    pub(crate) channels: u32,
    /// CUaddress_mode of all axes.
    pub(crate) address: u32,
    /// Neighbours are blended.
    pub(crate) linear: bool,
    /// Coordinates run from 0 to 1.
    pub(crate) normalized: bool,
    /// Texels, x fastest, without gaps.
    pub(crate) texels: Vec<u8>,
}

impl Image {
    fn row_bytes(&self) -> usize {
        let number = match self.format {
            array_format::FLOAT | array_format::UNSIGNED_INT32 => 4,
            _ => 1,
        };
        self.extents[0] * number * self.channels as usize
    }

    fn array(&self) -> CUDA_ARRAY3D_DESCRIPTOR {
        let [width, height, depth] = self.extents;
        let flags = match self.home {
            Home::Cube => array_flags::CUBEMAP,
            Home::Surface | Home::Written => array_flags::SURFACE_LDST,
            _ => 0,
        };
        CUDA_ARRAY3D_DESCRIPTOR {
            Width: width,
            Height: height,
            Depth: depth,
            Format: self.format,
            NumChannels: self.channels,
            Flags: flags,
        }
    }
}

/// A texture or surface object with its texels, given back when dropped.
pub(crate) struct Placed<'a> {
    table: &'a DriverTable,
    /// What the kernel is given.
    pub(crate) handle: u64,
    surface: bool,
    array: CUarray,
    _memory: Option<Memory<'a>>,
    /// The copy of all texels to the array, but for where they come from.
    copy: CUDA_MEMCPY3D,
    bytes: usize,
    /// Every run writes it.
    pub(crate) output: bool,
}

impl<'a> Placed<'a> {
    pub(crate) fn new(table: &'a DriverTable, image: &Image) -> Result<Self> {
        let [_, height, depth] = image.extents.map(|extent| extent.max(1));
        let row = image.row_bytes();
        let copy = Memcpy3D { extent: [row, height, depth], ..Default::default() };
        let mut placed = Self {
            table,
            handle: 0,
            surface: matches!(image.home, Home::Surface | Home::Written),
            array: CUarray::default(),
            _memory: None,
            copy: CUDA_MEMCPY3D::from(&copy),
            bytes: row * height * depth,
            output: image.home == Home::Written,
        };
        let mut resource = CUDA_RESOURCE_DESC::default();
        let form = u64::from(image.format) | u64::from(image.channels) << 32;
        match image.home {
            Home::Linear | Home::Rows => {
                let memory = Memory::new(table, &image.texels)?;
                let at = memory.address.0;
                placed._memory = Some(memory);
                if image.home == Home::Linear {
                    resource.resType = resource_type::LINEAR;
                    resource.resource[..3].copy_from_slice(&[at, form, placed.bytes as u64]);
                } else {
                    resource.resType = resource_type::PITCH2D;
                    let [width, height, _] = image.extents.map(|extent| extent as u64);
                    let words = [at, form, width, height, row as u64];
                    resource.resource[..5].copy_from_slice(&words);
                }
            }
            Home::Array | Home::Cube | Home::Surface | Home::Written => {
                let description = image.array();
                // SAFETY: a provider's functions have cuda.h's signatures; pointers are to live
                // values.
                unsafe { (table.cuArray3DCreate_v2)(&mut placed.array, &description) }
                    .context("an array")?;
                placed.fill_array(&image.texels)?;
                resource.resType = resource_type::ARRAY;
                resource.resource[0] = placed.array.0 as u64;
            }
        }
        let texture = CUDA_TEXTURE_DESC {
            addressMode: [image.address; 3],
            filterMode: if image.linear { LINEAR } else { 0 },
            flags: if image.normalized { NORMALIZED } else { 0 },
            ..Default::default()
        };
        // SAFETY: as above; without a view.
        unsafe {
            if placed.surface {
                (table.cuSurfObjectCreate)(&mut placed.handle, &resource)
            } else {
                (table.cuTexObjectCreate)(&mut placed.handle, &resource, &texture, std::ptr::null())
            }
        }
        .context("an object")?;
        Ok(placed)
    }

    fn fill_array(&self, texels: &[u8]) -> Result<()> {
        let copy = CUDA_MEMCPY3D {
            srcMemoryType: HOST,
            srcHost: texels.as_ptr().cast::<c_void>(),
            srcPitch: self.copy.WidthInBytes,
            srcHeight: self.copy.Height,
            dstMemoryType: ARRAY,
            dstArray: self.array,
            ..self.copy
        };
        // SAFETY: as in `new`; the host has as many rows.
        unsafe { (self.table.cuMemcpy3D_v2)(&copy) }.context("a copy to an array")
    }

    /// The texels as they are now, of an array.
    pub(crate) fn texels(&self) -> Result<Vec<u8>> {
        let mut texels = vec![0u8; self.bytes];
        let copy = CUDA_MEMCPY3D {
            srcMemoryType: ARRAY,
            srcArray: self.array,
            dstMemoryType: HOST,
            dstHost: texels.as_mut_ptr().cast::<c_void>(),
            dstPitch: self.copy.WidthInBytes,
            dstHeight: self.copy.Height,
            ..self.copy
        };
        // SAFETY: as in `new`; the host has as many rows.
        unsafe { (self.table.cuMemcpy3D_v2)(&copy) }.context("a copy from an array")?;
        Ok(texels)
    }
}

impl Drop for Placed<'_> {
    fn drop(&mut self) {
        // SAFETY: the object and the array are this value's own; all work on them was waited for.
        // What was never made is refused.
        unsafe {
            let _ = match self.surface {
                true => (self.table.cuSurfObjectDestroy)(self.handle),
                false => (self.table.cuTexObjectDestroy)(self.handle),
            };
            let _ = (self.table.cuArrayDestroy)(self.array);
        }
    }
}
