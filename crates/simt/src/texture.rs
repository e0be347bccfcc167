//! What a texture or surface object is: a small table in device memory that its handle points to.
//!
//! The device's API writes it when an object is made; instructions read it through the checks of
//! any other load, and check every texel's address as well. So a forged handle reaches nothing
//! that its maker could not reach anyway. One level, no mipmaps, no cubes.

/// How an element in memory is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are CUDA's")]
pub enum Texel {
    U8,
    U16,
    U32,
    S8,
    S16,
    S32,
    F16,
    F32,
}

impl Texel {
    const ALL: [Self; 8] =
        [Self::U8, Self::U16, Self::U32, Self::S8, Self::S16, Self::S32, Self::F16, Self::F32];

    /// Bytes of one channel.
    pub fn bytes(self) -> u32 {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 | Self::F16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
        }
    }
}

/// What a coordinate outside of the texture means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMode {
    /// The texture repeats; for normalized coordinates only, else as `Clamp`.
    Wrap,
    /// The texel at the edge.
    Clamp,
    /// The texture repeats, every other time backwards; for normalized coordinates only.
    Mirror,
    /// The border's colour.
    Border,
}

impl AddressMode {
    const ALL: [Self; 4] = [Self::Wrap, Self::Clamp, Self::Mirror, Self::Border];
}

/// A texture or surface object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descriptor {
    /// Address of the first texel.
    pub base: u64,
    /// Texels along x.
    pub width: u32,
    /// Rows; 1 for one dimension.
    pub height: u32,
    /// Slices or layers; 1 for two dimensions.
    pub depth: u32,
    /// Bytes from one row to the next.
    pub row_bytes: u64,
    /// Bytes from one slice or layer to the next.
    pub slice_bytes: u64,
    /// Element of a channel.
    pub texel: Texel,
    /// Channels: 1, 2 or 4.
    pub channels: u8,
    /// By axis.
    pub address: [AddressMode; 3],
    /// Neighbours are blended.
    pub linear: bool,
    /// Coordinates run from 0 to 1.
    pub normalized: bool,
    /// Integers are read as numbers from 0 (or -1) to 1.
    pub scaled: bool,
    /// What lies outside, where the mode says border.
    pub border: [f32; 4],
}

impl Descriptor {
    /// Bytes in memory.
    pub const BYTES: usize = 96;
    /// Alignment in memory, and so of handles.
    pub const ALIGN: u64 = 64;
    /// First bytes of every object.
    const MAGIC: u64 = 0x7465_786f_626a_0001;

    /// As it is in memory.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &Self::MAGIC.to_le_bytes());
        put(8, &self.base.to_le_bytes());
        put(16, &self.width.to_le_bytes());
        put(20, &self.height.to_le_bytes());
        put(24, &self.depth.to_le_bytes());
        put(32, &self.row_bytes.to_le_bytes());
        put(40, &self.slice_bytes.to_le_bytes());
        let flags = [self.linear, self.normalized, self.scaled].map(u8::from);
        let address = self.address.map(|a| a as u8);
        put(48, &[self.texel as u8, self.channels]);
        put(50, &address);
        put(53, &flags);
        for (i, channel) in self.border.iter().enumerate() {
            put(64 + 4 * i, &channel.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`Self::to_bytes`] wrote; `None` if it is no object.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        (u64_at(0)? == Self::MAGIC).then_some(())?;
        let mode = |at: usize| AddressMode::ALL.get(usize::from(bytes[at])).copied();
        let channels = bytes[49];
        matches!(channels, 1 | 2 | 4).then_some(())?;
        let mut border = [0.0; 4];
        for (i, channel) in border.iter_mut().enumerate() {
            *channel = f32::from_bits(u32_at(64 + 4 * i)?);
        }
        Some(Self {
            base: u64_at(8)?,
            width: u32_at(16)?.max(1),
            height: u32_at(20)?.max(1),
            depth: u32_at(24)?.max(1),
            row_bytes: u64_at(32)?,
            slice_bytes: u64_at(40)?,
            texel: Texel::ALL.get(usize::from(bytes[48])).copied()?,
            channels,
            address: [mode(50)?, mode(51)?, mode(52)?],
            linear: bytes[53] != 0,
            normalized: bytes[54] != 0,
            scaled: bytes[55] != 0,
            border,
        })
    }

    /// Bytes of a texel.
    pub fn texel_bytes(&self) -> u32 {
        self.texel.bytes() * u32::from(self.channels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_reads_back_as_it_was_written() {
        let object = Descriptor {
            base: 0x1234_5678_9abc,
            width: 640,
            height: 480,
            depth: 3,
            row_bytes: 2560,
            slice_bytes: 1 << 21,
            texel: Texel::S16,
            channels: 2,
            address: [AddressMode::Wrap, AddressMode::Border, AddressMode::Mirror],
            linear: true,
            normalized: false,
            scaled: true,
            border: [0.25, -1.0, 3.0, 1e9],
        };
        assert_eq!(Descriptor::from_bytes(&object.to_bytes()), Some(object));
        let mut other = object.to_bytes();
        other[49] = 3;
        assert_eq!(Descriptor::from_bytes(&other), None);
        assert_eq!(Descriptor::from_bytes(&[0; Descriptor::BYTES]), None);
    }
}
