//! Requests about arrays, and about the texture and surface objects that show them.
//!
//! Arrays have handles that the client chose. An object's handle is the provider's: kernels get it
//! as a parameter, and only the provider knows what stands behind it.

use super::payloads;
use crate::payload::{Malformed, Payload, Reader, Sink};
use cuda_api::{
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC,
    CUarray, CUmipmappedArray, CUsurfObject, CUtexObject,
};

/// Words of a resource's union that its members use: cuda.h has none longer than five.
pub const RESOURCE_WORDS: usize = 5;

payloads! {
    /// cuArray3DCreate: extents in elements, as the descriptor has them.
    CreateArray {
        /// The handle that the client chose.
        array: CUarray,
        /// Elements of a row.
        width: u64,
        /// Rows; 0 for one dimension.
        height: u64,
        /// Slices or layers; 0 for fewer dimensions.
        depth: u64,
        /// CUarray_format.
        format: u32,
        /// Channels of an element.
        channels: u32,
        /// CUDA_ARRAY3D flags.
        flags: u32,
    }

    /// Destroys an array when the client's work is done.
    DestroyArray {
        /// The array.
        array: CUarray,
    }

    /// cuMipmappedArrayCreate, as [`CreateArray`].
    CreateMipmappedArray {
        /// The handle that the client chose.
        mipmapped: CUmipmappedArray,
        /// Elements of a row.
        width: u64,
        /// Rows; 0 for one dimension.
        height: u64,
        /// Slices or layers; 0 for fewer dimensions.
        depth: u64,
        /// CUarray_format.
        format: u32,
        /// Channels of an element.
        channels: u32,
        /// CUDA_ARRAY3D flags.
        flags: u32,
        /// Levels.
        levels: u32,
    }

    /// Gives a level of a mipmapped array a handle of its own, which is gone with the array.
    NameLevel {
        /// The mipmapped array.
        mipmapped: CUmipmappedArray,
        /// Which level.
        level: u32,
        /// The handle that the client chose for it.
        array: CUarray,
    }

    /// Destroys a mipmapped array with its levels when the client's work is done.
    DestroyMipmappedArray {
        /// The mipmapped array.
        mipmapped: CUmipmappedArray,
    }

    /// Asks what memory an array takes.
    ArrayRequirements {
        /// The array.
        array: CUarray,
    }

    /// Asks what memory a mipmapped array takes.
    MipmappedRequirements {
        /// The mipmapped array.
        mipmapped: CUmipmappedArray,
    }

    /// Reply to [`ArrayRequirements`] and [`MipmappedRequirements`].
    MemoryRequirements {
        /// How much memory.
        bytes: u64,
        /// Its alignment, bytes.
        alignment_bytes: u64,
    }

    /// Destroys a texture object when the client's work is done.
    DestroyTexture {
        /// The object.
        texture: CUtexObject,
    }

    /// Destroys a surface object when the client's work is done.
    DestroySurface {
        /// The object.
        surface: CUsurfObject,
    }
}

macro_rules! descriptors {
    ($($name:ident { $handle:ident: $ty:ty $(, $levels:ident)? })*) => {$(
        impl $name {
            #[doc = "The request for what a descriptor describes."]
            pub fn new($handle: $ty, d: &CUDA_ARRAY3D_DESCRIPTOR $(, $levels: u32)?) -> Self {
                Self {
                    $handle,
                    width: d.Width as u64,
                    height: d.Height as u64,
                    depth: d.Depth as u64,
                    format: d.Format,
                    channels: d.NumChannels,
                    flags: d.Flags,
                    $($levels,)?
                }
            }

            #[doc = "The descriptor."]
            pub fn descriptor(&self) -> CUDA_ARRAY3D_DESCRIPTOR {
                CUDA_ARRAY3D_DESCRIPTOR {
                    Width: self.width as usize,
                    Height: self.height as usize,
                    Depth: self.depth as usize,
                    Format: self.format,
                    NumChannels: self.channels,
                    Flags: self.flags,
                }
            }
        }
    )*};
}

descriptors! {
    CreateArray { array: CUarray }
    CreateMipmappedArray { mipmapped: CUmipmappedArray, levels }
}

/// What a texture or surface shows: the words of [`CUDA_RESOURCE_DESC`] that mean something. Of
/// arrays the first one is the client's handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// CUresourcetype.
    pub kind: u32,
    /// Flags: 0.
    pub flags: u32,
    /// The beginning of the union.
    pub words: [u64; RESOURCE_WORDS],
}

impl From<&CUDA_RESOURCE_DESC> for Resource {
    fn from(d: &CUDA_RESOURCE_DESC) -> Self {
        let mut words = [0; RESOURCE_WORDS];
        words.copy_from_slice(&d.resource[..RESOURCE_WORDS]);
        Self { kind: d.resType, flags: d.flags, words }
    }
}

impl From<&Resource> for CUDA_RESOURCE_DESC {
    fn from(r: &Resource) -> Self {
        let mut d = Self { resType: r.kind, flags: r.flags, ..Self::default() };
        d.resource[..RESOURCE_WORDS].copy_from_slice(&r.words);
        d
    }
}

impl Payload<'_> for Resource {
    fn words(&self) -> usize {
        1 + RESOURCE_WORDS
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.pair(self.kind, self.flags);
        self.words.into_iter().for_each(|word| sink.word(word));
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (kind, flags) = reader.pair()?;
        Ok(Self { kind, flags, words: Payload::read(reader)? })
    }
}

/// cuTexObjectCreate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreateTexture {
    /// What it shows.
    pub resource: Resource,
    /// How it is read.
    pub texture: CUDA_TEXTURE_DESC,
    /// Which part of an array, and as what.
    pub view: Option<CUDA_RESOURCE_VIEW_DESC>,
}

impl Payload<'_> for CreateTexture {
    fn words(&self) -> usize {
        self.resource.words() + 7 + 1 + self.view.map_or(0, |_| 6)
    }
    fn write(&self, sink: &mut impl Sink) {
        self.resource.write(sink);
        let t = &self.texture;
        let [u, v, w] = t.addressMode;
        let [red, green, blue, alpha] = t.borderColor.map(f32::to_bits);
        sink.pair(u, v);
        sink.pair(w, t.filterMode);
        sink.pair(t.flags, t.maxAnisotropy);
        sink.pair(t.mipmapFilterMode, t.mipmapLevelBias.to_bits());
        sink.pair(t.minMipmapLevelClamp.to_bits(), t.maxMipmapLevelClamp.to_bits());
        sink.pair(red, green);
        sink.pair(blue, alpha);
        sink.word(u64::from(self.view.is_some()));
        if let Some(view) = &self.view {
            sink.word(view.format.into());
            sink.word(view.width as u64);
            sink.word(view.height as u64);
            sink.word(view.depth as u64);
            sink.pair(view.firstMipmapLevel, view.lastMipmapLevel);
            sink.pair(view.firstLayer, view.lastLayer);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let resource = Resource::read(reader)?;
        let (u, v) = reader.pair()?;
        let (w, filter_mode) = reader.pair()?;
        let (flags, anisotropy) = reader.pair()?;
        let (mipmap_filter, bias) = reader.pair()?;
        let (first, last) = reader.pair()?;
        let (red, green) = reader.pair()?;
        let (blue, alpha) = reader.pair()?;
        let texture = CUDA_TEXTURE_DESC {
            addressMode: [u, v, w],
            filterMode: filter_mode,
            flags,
            maxAnisotropy: anisotropy,
            mipmapFilterMode: mipmap_filter,
            mipmapLevelBias: f32::from_bits(bias),
            minMipmapLevelClamp: f32::from_bits(first),
            maxMipmapLevelClamp: f32::from_bits(last),
            borderColor: [red, green, blue, alpha].map(f32::from_bits),
            reserved: [0; 12],
        };
        let view = match reader.length(1)? {
            0 => None,
            _ => Some(read_view(reader)?),
        };
        Ok(Self { resource, texture, view })
    }
}

fn read_view(reader: &mut Reader<'_>) -> Result<CUDA_RESOURCE_VIEW_DESC, Malformed> {
    let format = reader.value()?;
    let (width, height, depth) = (reader.value()?, reader.value()?, reader.value()?);
    let (first_level, last_level) = reader.pair()?;
    let (first_layer, last_layer) = reader.pair()?;
    Ok(CUDA_RESOURCE_VIEW_DESC {
        format,
        width,
        height,
        depth,
        firstMipmapLevel: first_level,
        lastMipmapLevel: last_level,
        firstLayer: first_layer,
        lastLayer: last_layer,
        reserved: [0; 16],
    })
}

/// cuSurfObjectCreate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateSurface {
    /// What it shows: an array.
    pub resource: Resource,
}

impl Payload<'_> for CreateSurface {
    fn words(&self) -> usize {
        self.resource.words()
    }
    fn write(&self, sink: &mut impl Sink) {
        self.resource.write(sink);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Resource::read(reader).map(|resource| Self { resource })
    }
}
