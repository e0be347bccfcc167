//! Requests of 3-D copies: slices of rows of bytes, of memory or of an array.

use super::HostReference;
use crate::payload::{Malformed, Payload, Reader, Sink};
use cuda_api::{CUarray, CUdeviceptr, CUgraphExec, CUstream, Word};

/// One end of a 3-D copy. In memory offsets are folded into the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy3DEnd {
    /// Device memory.
    Device {
        /// The first byte.
        address: CUdeviceptr,
        /// Distance of rows, bytes.
        pitch: u64,
        /// Distance of slices, rows.
        rows: u64,
    },
    /// Host memory.
    Host {
        /// The first byte.
        reference: HostReference,
        /// Distance of rows, bytes.
        pitch: u64,
        /// Distance of slices, rows.
        rows: u64,
    },
    /// An array, or a level of one.
    Array {
        /// The array.
        array: CUarray,
        /// Where the copied region begins: bytes in a row, rows, slices or layers.
        offset: [u64; 3],
    },
}

impl Copy3DEnd {
    const DEVICE: u64 = 0;
    const HOST: u64 = 1;
    const ARRAY: u64 = 2;
}

impl Payload<'_> for Copy3DEnd {
    fn words(&self) -> usize {
        match self {
            Self::Device { .. } | Self::Host { .. } => 4,
            Self::Array { .. } => 5,
        }
    }
    fn write(&self, sink: &mut impl Sink) {
        let mut words = |words: &[u64]| words.iter().for_each(|word| sink.word(*word));
        match *self {
            Self::Device { address, pitch, rows } => {
                words(&[Self::DEVICE, address.0, pitch, rows]);
            }
            Self::Host { reference, pitch, rows } => {
                words(&[Self::HOST, reference.to_word(), pitch, rows]);
            }
            Self::Array { array, offset: [x, y, z] } => {
                words(&[Self::ARRAY, array.to_word(), x, y, z]);
            }
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match reader.word()? {
            Self::DEVICE => {
                let (address, pitch) = (reader.value()?, reader.word()?);
                Self::Device { address, pitch, rows: reader.word()? }
            }
            Self::HOST => {
                let (reference, pitch) = (reader.value()?, reader.word()?);
                Self::Host { reference, pitch, rows: reader.word()? }
            }
            Self::ARRAY => {
                let array = reader.value()?;
                let offset = [reader.word()?, reader.word()?, reader.word()?];
                Self::Array { array, offset }
            }
            _ => return Err(Malformed("no end of a copy is of that kind")),
        })
    }
}

/// A 3-D copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy3DParams {
    /// Where to.
    pub destination: Copy3DEnd,
    /// Where from.
    pub source: Copy3DEnd,
    /// Bytes of a row, rows of a slice, slices.
    pub extent: [u64; 3],
}

impl Payload<'_> for Copy3DParams {
    fn words(&self) -> usize {
        self.destination.words() + self.source.words() + self.extent.len()
    }
    fn write(&self, sink: &mut impl Sink) {
        self.destination.write(sink);
        self.source.write(sink);
        self.extent.into_iter().for_each(|word| sink.word(word));
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (destination, source) = (Copy3DEnd::read(reader)?, Copy3DEnd::read(reader)?);
        Ok(Self { destination, source, extent: <[u64; 3]>::read(reader)? })
    }
}

/// Defines requests of a 3-D copy, each with a place for it.
macro_rules! box_copies {
    ($($(#[$doc:meta])* $name:ident { $(#[$place_doc:meta])* $place:ident: $ty:ty };)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $(#[$place_doc])*
            pub $place: $ty,
            /// The copy.
            pub copy: Copy3DParams,
        }

        impl Payload<'_> for $name {
            fn words(&self) -> usize {
                1 + self.copy.words()
            }
            fn write(&self, sink: &mut impl Sink) {
                sink.word(self.$place.to_word());
                self.copy.write(sink);
            }
            fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(Self { $place: reader.value()?, copy: Copy3DParams::read(reader)? })
            }
        }
    )*};
}

box_copies! {
    /// cuMemcpy3DAsync, and all other copies that are not one run of bytes.
    Copy3D {
        /// In which stream.
        stream: CUstream
    };

    /// A graph's node that copies. What is staged is gone before a graph is, so a host end must
    /// be in memory that was mapped with [`HostMap`](super::HostMap).
    GraphCopy {
        /// The graph.
        graph: CUgraphExec
    };
}
