//! Tensor maps: descriptions that the provider encodes, without touching the device.

use crate::device::Device;
use crate::device::safe_calls::Tensor;
use channel::request::{ReplaceMapAddress, TensorDescription};
use cuda_api::{CUtensorMap, CudaError};

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
        let (calls, tensor) = (self.calls(), Tensor::of(tensor)?);
        match kind {
            TensorMapKind::Tiled => calls.cuTensorMapEncodeTiled(&mut map, &tensor)?,
            TensorMapKind::Im2col => calls.cuTensorMapEncodeIm2col(&mut map, &tensor)?,
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
