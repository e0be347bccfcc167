//! Tensor maps (the manual's "Tensor Map Object Management"): encoded by the server, whose
//! provider alone knows how.

use crate::boundary::{In, Out};
use crate::program::mode;
use channel::request::{
    EncodeIm2col, EncodeTiled, ReplaceMapAddress, TENSOR_RANK_MAX, TensorDescription,
};
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::{CUresult, CUtensorMap, CudaError};

/// Fills the places of an array from the program's, as many as there are.
fn fill<T: Copy, U>(to: &mut [U], from: In<T>, count: usize, as_word: fn(T) -> U) -> CUresult {
    for (index, place) in to.iter_mut().enumerate().take(count) {
        *place = as_word(from.array(count).at(index)?);
    }
    Ok(())
}

/// What both kinds of maps have.
#[allow(clippy::too_many_arguments, reason = "cuda.h's parameters")]
fn describe(
    data_type: c_uint,
    rank: c_uint,
    address: Out<c_void>,
    dimensions: In<u64>,
    strides: In<u64>,
    element_strides: In<c_uint>,
    modes: [c_uint; 4],
) -> Result<TensorDescription, CudaError> {
    let dimension_count = rank as usize;
    if dimension_count == 0 || dimension_count > TENSOR_RANK_MAX {
        return Err(CudaError::INVALID_VALUE);
    }
    let address = address.address();
    let mut tensor =
        TensorDescription { data_type, rank, address, modes, ..TensorDescription::default() };
    fill(&mut tensor.dimensions, dimensions, dimension_count, |n| n)?;
    fill(&mut tensor.strides, strides, dimension_count - 1, |n| n)?;
    fill(&mut tensor.element_strides, element_strides, dimension_count, |n| n)?;
    Ok(tensor)
}

#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
pub(crate) fn cuTensorMapEncodeTiled(
    map: Out<CUtensorMap>,
    data_type: c_uint,
    rank: c_uint,
    address: Out<c_void>,
    dimensions: In<u64>,
    strides: In<u64>,
    box_dimensions: In<c_uint>,
    element_strides: In<c_uint>,
    interleave: c_uint,
    swizzle: c_uint,
    l2_promotion: c_uint,
    oob_fill: c_uint,
) -> CUresult {
    let client = mode::client()?;
    map.required()?;
    let modes = [interleave, swizzle, l2_promotion, oob_fill];
    let mut tensor =
        describe(data_type, rank, address, dimensions, strides, element_strides, modes)?;
    fill(&mut tensor.shape, box_dimensions, rank as usize, |n| n)?;
    map.set(CUtensorMap { opaque: client.call(&EncodeTiled(tensor))? })
}

#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
pub(crate) fn cuTensorMapEncodeIm2col(
    map: Out<CUtensorMap>,
    data_type: c_uint,
    rank: c_uint,
    address: Out<c_void>,
    dimensions: In<u64>,
    strides: In<u64>,
    lower_corner: In<c_int>,
    upper_corner: In<c_int>,
    channels: c_uint,
    pixels: c_uint,
    element_strides: In<c_uint>,
    interleave: c_uint,
    swizzle: c_uint,
    l2_promotion: c_uint,
    oob_fill: c_uint,
) -> CUresult {
    let client = mode::client()?;
    map.required()?;
    let modes = [interleave, swizzle, l2_promotion, oob_fill];
    let mut tensor =
        describe(data_type, rank, address, dimensions, strides, element_strides, modes)?;
    // Corners have no coordinates for the channels and for the images of a batch.
    let coordinates = (rank as usize).saturating_sub(2);
    fill(&mut tensor.shape[..3], lower_corner, coordinates, |n| n as u32)?;
    fill(&mut tensor.shape[3..6], upper_corner, coordinates, |n| n as u32)?;
    (tensor.shape[6], tensor.shape[7]) = (channels, pixels);
    map.set(CUtensorMap { opaque: client.call(&EncodeIm2col(tensor))? })
}

pub(crate) fn cuTensorMapReplaceAddress(map: Out<CUtensorMap>, address: Out<c_void>) -> CUresult {
    let client = mode::client()?;
    let request = ReplaceMapAddress { map: map.get()?.opaque, address: address.address() };
    map.set(CUtensorMap { opaque: client.call(&request)? })
}
