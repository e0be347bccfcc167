//! Tensor maps (the manual's "Tensor Map Object Management"): descriptions of tensors that kernels
//! copy parts of, checked as NVIDIA's driver checks them and encoded for the software GPU (see
//! `simt::runtime::tensor_map`). They live in the program's memory; the device keeps nothing of them.

use cuda_api::CUtensorMap;
use cuda_api::pointer::{In, Out};
use simt::runtime::tensor_map::{
    BOX_MAX, Element, Extent, PIXELS_MAX, RANK_MAX, STEP_MAX, TensorMap,
};

use super::{driver, exports};
use crate::error::{Error, Result};

/// Most elements of a dimension.
const DIMENSION_MAX: u64 = 1 << 32;
/// Strides are less than this, bytes.
const STRIDE_LIMIT: u64 = 1 << 40;
/// Largest CUtensorMapInterleave, CUtensorMapSwizzle that compute capability 9.0 has,
/// CUtensorMapL2promotion and CUtensorMapFloatOOBfill.
const MODES_MAX: [u32; 4] = [2, 3, 3, 1];
/// CU_TENSOR_MAP_INTERLEAVE_32B.
const INTERLEAVE_32B: u32 = 2;

/// Most bytes of a column: the shared memory of a block of compute capability 9.0.
const COLUMN_BYTES_MAX: u32 = 227 << 10;

/// CUDA_ERROR_INVALID_VALUE unless the condition holds.
fn demand(condition: bool) -> Result {
    if condition { Ok(()) } else { Err(Error::INVALID_VALUE) }
}

/// What both kinds of maps have; the extent is still to be filled in.
#[allow(clippy::too_many_arguments, reason = "cuda.h's parameters")]
fn describe(
    data_type: u32,
    rank: u32,
    address: u64,
    dimensions: In<u64>,
    strides: In<u64>,
    steps: In<u32>,
    modes: [u32; 4],
) -> Result<TensorMap> {
    let element = Element::from_number(data_type).ok_or(Error::INVALID_VALUE)?;
    let count = rank as usize;
    demand((1..=RANK_MAX).contains(&count))?;
    for (mode, most) in modes.into_iter().zip(MODES_MAX) {
        demand(mode <= most)?;
    }
    let [interleave, swizzle, _, fill] = modes;
    demand(fill == 0 || element.is_float())?;
    demand(interleave == 0 || rank >= 3)?;
    let align = if interleave == INTERLEAVE_32B { 32 } else { 16 };
    demand(address.is_multiple_of(align))?;
    let mut map = TensorMap {
        address,
        strides: [0; RANK_MAX - 1],
        dimensions: [1; RANK_MAX],
        extent: Extent::Box([1; RANK_MAX]),
        steps: [1; RANK_MAX],
        rank,
        element,
        interleave,
        swizzle,
        fill_nan: fill != 0,
    };
    for (i, dimension) in map.dimensions.iter_mut().enumerate().take(count) {
        *dimension = dimensions.array(count).at(i)?;
        demand((1..=DIMENSION_MAX).contains(dimension))?;
    }
    for (i, stride) in map.strides.iter_mut().enumerate().take(count - 1) {
        *stride = strides.array(count - 1).at(i)?;
        demand(stride.is_multiple_of(align) && *stride < STRIDE_LIMIT)?;
    }
    for (i, step) in map.steps.iter_mut().enumerate().take(count) {
        *step = steps.array(count).at(i)?;
        demand((1..=STEP_MAX).contains(step))?;
    }
    Ok(map)
}

/// Checks the length of a row against how it is swizzled.
fn check_row(map: &TensorMap, elements: u32) -> Result {
    let bytes = elements * map.element.bytes();
    demand(bytes.is_multiple_of(16))?;
    demand(map.interleave != 0 || map.swizzle == 0 || bytes <= 16 << map.swizzle)
}

/// Gives a map to the program.
fn give(to: Out<CUtensorMap>, map: &TensorMap) -> Result {
    let bytes = map.encode();
    let mut opaque = [0; 16];
    for (word, bytes) in opaque.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
        ]);
    }
    to.set(CUtensorMap { opaque })
}

exports! {
    fn cuTensorMapEncodeTiled(
        tensor_map: *mut CUtensorMap, data_type: c_uint, rank: c_uint,
        global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64,
        box_dim: *const c_uint, element_strides: *const c_uint, interleave: c_uint,
        swizzle: c_uint, l2_promotion: c_uint, oob_fill: c_uint,
    ) {
        driver()?;
        tensor_map.required()?;
        let modes = [interleave, swizzle, l2_promotion, oob_fill];
        let address = global_address.address();
        let mut map = describe(
            data_type, rank, address, global_dim, global_strides, element_strides, modes,
        )?;
        let mut extent = [1; RANK_MAX];
        for (i, elements) in extent.iter_mut().enumerate().take(rank as usize) {
            *elements = box_dim.array(rank as usize).at(i)?;
            demand((1..=BOX_MAX).contains(elements))?;
        }
        check_row(&map, extent[0])?;
        map.extent = Extent::Box(extent);
        give(tensor_map, &map)
    }

    fn cuTensorMapEncodeIm2col(
        tensor_map: *mut CUtensorMap, data_type: c_uint, rank: c_uint,
        global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64,
        pixel_box_lower_corner: *const c_int, pixel_box_upper_corner: *const c_int,
        channels_per_pixel: c_uint, pixels_per_column: c_uint,
        element_strides: *const c_uint, interleave: c_uint, swizzle: c_uint,
        l2_promotion: c_uint, oob_fill: c_uint,
    ) {
        driver()?;
        tensor_map.required()?;
        let modes = [interleave, swizzle, l2_promotion, oob_fill];
        let address = global_address.address();
        let mut map = describe(
            data_type, rank, address, global_dim, global_strides, element_strides, modes,
        )?;
        demand(rank >= 3)?;
        let bound = [1 << 15, 1 << 7, 1 << 4][rank as usize - 3];
        let (mut lower, mut upper) = ([0; 3], [0; 3]);
        let spatial = rank as usize - 2;
        let lowest = pixel_box_lower_corner.array(spatial);
        let highest = pixel_box_upper_corner.array(spatial);
        for i in 0..spatial {
            let (low, high) = (lowest.at(i)?, highest.at(i)?);
            demand((-bound..bound).contains(&low) && (-bound..bound).contains(&high))?;
            // There is at least one place for a pixel.
            demand(map.dimensions[i + 1] as i64 + i64::from(high) > i64::from(low))?;
            (lower[i], upper[i]) = (low as i16, high as i16);
        }
        let (channels, pixels) = (channels_per_pixel, pixels_per_column);
        demand((1..=BOX_MAX).contains(&channels) && (1..=PIXELS_MAX).contains(&pixels))?;
        check_row(&map, channels)?;
        demand(channels * pixels * map.element.bytes() <= COLUMN_BYTES_MAX)?;
        map.extent = Extent::Columns { channels, pixels, lower, upper };
        give(tensor_map, &map)
    }

    fn cuTensorMapReplaceAddress(tensor_map: *mut CUtensorMap, global_address: *mut c_void) {
        driver()?;
        let mut bytes = [0; simt::runtime::tensor_map::MAP_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(tensor_map.get()?.opaque) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let mut map = TensorMap::decode(&bytes).ok_or(Error::INVALID_VALUE)?;
        map.address = global_address.address();
        let align = if map.interleave == INTERLEAVE_32B { 32 } else { 16 };
        demand(map.address.is_multiple_of(align))?;
        give(tensor_map, &map)
    }
}
