//! Tensor maps: descriptions that the provider encodes, without touching the device.

use crate::device::Device;
use channel::request::{ReplaceMapAddress, TensorDescription};
use cuda_api::{CUtensorMap, CudaError};
use std::ffi::{c_int, c_void};

/// Which kind of map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorMapKind {
    /// For tiles of the tensor.
    Tiled,
    /// For columns of pixels.
    Im2col,
}

impl Device {
    /// Encodes a map. Its address is not checked: the map is data for a kernel of the client's,
    /// which could make it up as well, and gives it no memory that its kernels do not reach.
    pub fn encode_tensor_map(
        &self,
        kind: TensorMapKind,
        tensor: &TensorDescription,
    ) -> Result<[u64; 16], CudaError> {
        let mut map = CUtensorMap::default();
        let [interleave, swizzle, l2_promotion, oob_fill] = tensor.modes;
        let address = tensor.address as *mut c_void;
        let (dimensions, strides) = (tensor.dimensions.as_ptr(), tensor.strides.as_ptr());
        let steps = tensor.element_strides.as_ptr();
        if tensor.rank as usize > tensor.dimensions.len() {
            return Err(CudaError::INVALID_VALUE);
        }
        let t = self.table();
        match kind {
            // SAFETY: the map is a local that is written; the arrays have places for the largest
            // rank, which the rank does not exceed; the address is not followed.
            TensorMapKind::Tiled => unsafe {
                t.cuTensorMapEncodeTiled(
                    &mut map,
                    tensor.data_type,
                    tensor.rank,
                    address,
                    dimensions,
                    strides,
                    tensor.shape.as_ptr(),
                    steps,
                    interleave,
                    swizzle,
                    l2_promotion,
                    oob_fill,
                )?;
            },
            TensorMapKind::Im2col => {
                let [a, b, c, d, e, f, channels, pixels] = tensor.shape;
                let lower = [a, b, c].map(|n| n as c_int);
                let upper = [d, e, f].map(|n| n as c_int);
                // SAFETY: as above; corners have rank - 2 coordinates, at most three.
                unsafe {
                    t.cuTensorMapEncodeIm2col(
                        &mut map,
                        tensor.data_type,
                        tensor.rank,
                        address,
                        dimensions,
                        strides,
                        lower.as_ptr(),
                        upper.as_ptr(),
                        channels,
                        pixels,
                        steps,
                        interleave,
                        swizzle,
                        l2_promotion,
                        oob_fill,
                    )?;
                }
            }
        }
        Ok(map.opaque)
    }

    /// A map with another address, which is not checked either.
    pub fn replace_map_address(&self, r: &ReplaceMapAddress) -> Result<[u64; 16], CudaError> {
        let mut map = CUtensorMap { opaque: r.map };
        self.calls().cuTensorMapReplaceAddress(&mut map, r.address)?;
        Ok(map.opaque)
    }
}
