//! What a texture or surface object is: a small table in device memory that its handle points to.
//!
//! The device's API writes it when an object is made; instructions read it through the checks of
//! any other load, and check every texel's address as well. So a forged handle reaches nothing
//! that its maker could not reach anyway.
//!
//! The levels of a mipmapped texture lie one behind the other, each laid out by itself as
//! [`row_bytes`] says, so that the first one and their number say where all are.

/// What rows of arrays start at multiples of, bytes: what devices report for textures.
const ROW_ALIGN: u64 = 32;

/// Bytes from one row of an array to the next.
pub fn row_bytes(width: u64, texel_bytes: u64) -> u64 {
    (width * texel_bytes).next_multiple_of(ROW_ALIGN)
}

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
    /// As U8; scaled, the first three channels are sRGB's and become linear.
    Srgb8,
}

/// What sRGB's 256 values are of the brightest, as linear numbers.
pub static LINEAR_OF_SRGB: [f32; 256] = {
    let mut table = [0.0; 256];
    let mut value = 0;
    while value < 256 {
        let part = value as f64 / 255.0;
        table[value] = match part <= 0.04045 {
            true => part / 12.92,
            false => to_the_2_4((part + 0.055) / 1.055),
        } as f32;
        value += 1;
    }
    table
};

/// A positive number of at most 1 to the power of 2.4: its square times the fifth root of that.
const fn to_the_2_4(number: f64) -> f64 {
    let square = number * number;
    let mut root = 1.0f64;
    let mut step = 0;
    // From above, Newton's steps only come nearer.
    while step < 64 {
        root = (4.0 * root + square / (root * root * root * root)) / 5.0;
        step += 1;
    }
    square * root
}

impl Texel {
    const ALL: [Self; 9] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::S8,
        Self::S16,
        Self::S32,
        Self::F16,
        Self::F32,
        Self::Srgb8,
    ];

    /// Bytes of one channel.
    pub fn bytes(self) -> u32 {
        match self {
            Self::U8 | Self::S8 | Self::Srgb8 => 1,
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
    /// Slices are layers, or faces of cubes, of which every level has all.
    pub layered: bool,
    /// Levels, the first one among them.
    pub levels: u8,
    /// Neighbouring levels are blended.
    pub blends_levels: bool,
    /// Added to the level that is asked for.
    pub level_bias: f32,
    /// Least and greatest level that is read.
    pub level_range: [f32; 2],
}

impl Descriptor {
    /// Bytes in memory.
    pub const BYTES: usize = 96;
    /// Alignment in memory, and so of handles.
    pub const ALIGN: u64 = 64;
    /// Most levels: of more, the last ones would be smaller than one texel.
    pub const LEVELS_MAX: u8 = 32;
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
        put(56, &[u8::from(self.layered), self.levels, u8::from(self.blends_levels)]);
        for (i, channel) in self.border.iter().enumerate() {
            put(64 + 4 * i, &channel.to_le_bytes());
        }
        let [least, greatest] = self.level_range;
        for (i, number) in [self.level_bias, least, greatest].iter().enumerate() {
            put(80 + 4 * i, &number.to_le_bytes());
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
            layered: bytes[56] != 0,
            levels: bytes[57].clamp(1, Self::LEVELS_MAX),
            blends_levels: bytes[58] != 0,
            level_bias: f32::from_bits(u32_at(80)?),
            level_range: [f32::from_bits(u32_at(84)?), f32::from_bits(u32_at(88)?)],
        })
    }

    /// A level as a texture by itself. A forged object has levels anywhere, whose texels are
    /// checked as any other's.
    #[must_use]
    pub fn level(&self, level: u8) -> Self {
        let texel_bytes = u64::from(self.texel_bytes());
        (0..level.min(self.levels - 1)).fold(Self { levels: 1, ..*self }, |above, _| {
            let halved = |extent: u32| (extent / 2).max(1);
            let (width, height) = (halved(above.width), halved(above.height));
            let row_bytes = row_bytes(width.into(), texel_bytes);
            Self {
                base: above
                    .base
                    .wrapping_add(above.slice_bytes.wrapping_mul(u64::from(above.depth))),
                width,
                height,
                depth: if self.layered { self.depth } else { halved(above.depth) },
                row_bytes,
                slice_bytes: row_bytes * u64::from(height),
                ..above
            }
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
            layered: false,
            levels: 3,
            blends_levels: true,
            level_bias: -0.5,
            level_range: [0.25, 7.0],
        };
        assert_eq!(Descriptor::from_bytes(&object.to_bytes()), Some(object));
        let mut other = object.to_bytes();
        other[49] = 3;
        assert_eq!(Descriptor::from_bytes(&other), None);
        assert_eq!(Descriptor::from_bytes(&[0; Descriptor::BYTES]), None);
    }

    #[test]
    fn srgb_becomes_linear() {
        assert_eq!((LINEAR_OF_SRGB[0], LINEAR_OF_SRGB[255]), (0.0, 1.0));
        for (value, linear) in LINEAR_OF_SRGB.iter().enumerate() {
            let part = value as f64 / 255.0;
            let exact = match part <= 0.04045 {
                true => part / 12.92,
                false => ((part + 0.055) / 1.055).powf(2.4),
            };
            assert!((f64::from(*linear) - exact).abs() <= 1e-7 * exact, "{value}: {linear}");
        }
    }

    #[test]
    fn levels_lie_one_behind_the_other() {
        let bytes = row_bytes(40, 4);
        let first = Descriptor {
            base: 4096,
            width: 40,
            height: 6,
            depth: 5,
            row_bytes: bytes,
            slice_bytes: 6 * bytes,
            texel: Texel::F32,
            channels: 1,
            address: [AddressMode::Clamp; 3],
            linear: false,
            normalized: true,
            scaled: false,
            border: [0.0; 4],
            layered: false,
            levels: 4,
            blends_levels: false,
            level_bias: 0.0,
            level_range: [0.0, 3.0],
        };
        let shape = |d: Descriptor| (d.base, [d.width, d.height, d.depth], d.row_bytes);
        assert_eq!(shape(first.level(0)), (4096, [40, 6, 5], 160));
        let second = 4096 + 160 * 6 * 5;
        assert_eq!(shape(first.level(1)), (second, [20, 3, 2], 96));
        let third = second + 96 * 3 * 2;
        assert_eq!(shape(first.level(2)), (third, [10, 1, 1], 64));
        assert_eq!(first.level(9), first.level(3), "there are no more");
        let layers = Descriptor { layered: true, ..first };
        assert_eq!(shape(layers.level(1)), (second, [20, 3, 5], 96));
    }
}
