//! Tensor maps: descriptions of tensors that only the provider can encode.

use crate::payload::{Malformed, Payload, Reader, Sink};

/// Most dimensions of a tensor.
pub const TENSOR_RANK_MAX: usize = 5;
/// Words that say what a map's box is.
pub const TENSOR_BOX_WORDS: usize = 8;

/// What a tensor map describes. Arrays have places for the largest rank; those beyond the rank
/// are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorDescription {
    /// CUtensorMapDataType.
    pub data_type: u32,
    /// Dimensions.
    pub rank: u32,
    /// Where the tensor begins.
    pub address: u64,
    /// Elements in each dimension, the innermost first.
    pub dimensions: [u64; TENSOR_RANK_MAX],
    /// Bytes from one index to the next of each dimension but the innermost.
    pub strides: [u64; TENSOR_RANK_MAX],
    /// Tiled: elements of a box in each dimension. By pixels: three coordinates of the lower
    /// corner, three of the upper one, channels of a pixel, pixels of a column.
    pub shape: [u32; TENSOR_BOX_WORDS],
    /// Steps between the elements taken in each dimension.
    pub element_strides: [u32; TENSOR_RANK_MAX],
    /// CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill.
    pub modes: [u32; 4],
}

impl Payload<'_> for TensorDescription {
    fn words(&self) -> usize {
        2 + 2 * TENSOR_RANK_MAX + TENSOR_BOX_WORDS + TENSOR_RANK_MAX + self.modes.len()
    }

    fn write(&self, sink: &mut impl Sink) {
        sink.pair(self.data_type, self.rank);
        sink.word(self.address);
        for word in self.dimensions.into_iter().chain(self.strides) {
            sink.word(word);
        }
        for word in self.shape.into_iter().chain(self.element_strides).chain(self.modes) {
            sink.word(u64::from(word));
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut description = Self::default();
        (description.data_type, description.rank) = reader.pair()?;
        description.address = reader.word()?;
        for word in description.dimensions.iter_mut().chain(&mut description.strides) {
            *word = reader.word()?;
        }
        let halves = description.shape.iter_mut().chain(&mut description.element_strides);
        for word in halves.chain(&mut description.modes) {
            *word = reader.value()?;
        }
        Ok(description)
    }
}

macro_rules! encodings {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub TensorDescription);

        impl Payload<'_> for $name {
            fn words(&self) -> usize {
                self.0.words()
            }
            fn write(&self, sink: &mut impl Sink) {
                self.0.write(sink);
            }
            fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                TensorDescription::read(reader).map(Self)
            }
        }
    )*};
}

/// A map with another address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplaceMapAddress {
    /// The encoded map.
    pub map: [u64; 16],
    /// Where the tensor begins.
    pub address: u64,
}

impl Payload<'_> for ReplaceMapAddress {
    fn words(&self) -> usize {
        self.map.len() + 1
    }

    fn write(&self, sink: &mut impl Sink) {
        for word in self.map {
            sink.word(word);
        }
        sink.word(self.address);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { map: <[u64; 16]>::read(reader)?, address: reader.word()? })
    }
}

encodings! {
    /// Encodes a map for tiles.
    EncodeTiled;
    /// Encodes a map for columns of pixels.
    EncodeIm2col;
}
