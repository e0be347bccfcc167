//! Tensor maps: the format of the 128 bytes of a `CUtensorMap` on the software GPU, and which
//! pieces of a tensor a copy touches.
//!
//! The encoding is our own. A field has a place of its own, so that `tensormap.replace` is a store.
//! A map may lie anywhere that a program can write: [`TensorMap::decode`] believes nothing, and
//! nothing that a map says makes [`TensorMap::rows`] panic. Whether the memory may be touched is
//! for the copying code to ask.

pub mod rows;

/// How a tensor map is made use of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorMode {
    /// A box.
    Tile,
    /// Pixels one after the other, moved by offsets.
    Columns,
    /// Four rows of a matrix, each by its number.
    Rows,
}

/// Bytes of a map.
pub const MAP_BYTES: usize = 128;
/// What the address of a map is a multiple of, bytes.
pub const MAP_ALIGN: u64 = 64;
/// Most dimensions of a tensor.
pub const RANK_MAX: usize = 5;
/// Most elements of a box in one dimension.
pub const BOX_MAX: u32 = 256;
/// Most pixels of a column.
pub const PIXELS_MAX: u32 = 1024;
/// Most elements from one that is taken to the next.
pub const STEP_MAX: u32 = 8;

/// Where the fields are, bytes from the start.
pub mod field {
    /// Address of the first element: 8 bytes.
    pub const ADDRESS: u64 = 0;
    /// Bytes from one index to the next of each dimension but the first: 8 bytes each.
    pub const STRIDES: u64 = 8;
    /// Elements of each dimension: 4 bytes each, 0 for 2^32.
    pub const DIMENSIONS: u64 = 40;
    /// Elements of a box in each dimension: 4 bytes each. For columns: channels, pixels, and for
    /// each dimension of a picture the offsets of the lower and of the upper corner, 2 bytes each.
    pub const BOX: u64 = 60;
    /// From one element that is taken to the next in each dimension: 4 bytes each.
    pub const STEPS: u64 = 80;
    /// Dimensions, less one. One byte, as all that follow.
    pub const RANK: u64 = 100;
    /// Number of the type.
    pub const TYPE: u64 = 101;
    /// 0 for none, then 16 and 32 bytes.
    pub const INTERLEAVE: u64 = 102;
    /// 0 for none, then 32, 64 and 128 bytes.
    pub const SWIZZLE: u64 = 103;
    /// What is outside is NaN.
    pub const FILL: u64 = 104;
    /// 1 for columns of pixels.
    pub const COLUMNS: u64 = 105;
    /// What distinguishes a map from other bytes: 8 bytes.
    pub const MAGIC: u64 = 120;
}

const MAGIC: u64 = u64::from_le_bytes(*b"ompsTMAP");

/// Types of elements, by CUDA's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are CUDA's")]
pub enum Element {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    F64,
    BF16,
    F32Ftz,
    TF32,
    TF32Ftz,
}

impl Element {
    const ALL: [Self; 13] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::S32,
        Self::U64,
        Self::S64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::BF16,
        Self::F32Ftz,
        Self::TF32,
        Self::TF32Ftz,
    ];

    /// The type of that number; `None` also for the packed types of 4 and 6 bits.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// The type that `tensormap.replace` has that number for.
    pub fn from_ptx(number: u32) -> Option<Self> {
        match number {
            8 => Some(Self::F32Ftz),
            9 => Some(Self::F64),
            10 => Some(Self::BF16),
            other => Self::from_number(other),
        }
    }

    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::U64 | Self::S64 | Self::F64 => 8,
            _ => 4,
        }
    }

    /// True for types that have a NaN.
    pub fn is_float(self) -> bool {
        self as u32 >= Self::F16 as u32
    }
}

/// What a copy takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Elements in each dimension, steps not counted.
    Box([u32; RANK_MAX]),
    /// Pixels one after the other.
    Columns {
        /// Elements of each.
        channels: u32,
        /// How many.
        pixels: u32,
        /// Where pixels start: offsets of the first from the tensor's first, a dimension each.
        lower: [i16; 3],
        /// Offsets of the last from the tensor's last.
        upper: [i16; 3],
    },
}

/// A tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Where the tensor starts.
    pub address: u64,
    /// Bytes from one index to the next of each dimension but the first.
    pub strides: [u64; RANK_MAX - 1],
    /// Elements of each dimension; 1 for those that the tensor does not have.
    pub dimensions: [u64; RANK_MAX],
    /// What is copied.
    pub extent: Extent,
    /// From one element that is taken to the next.
    pub steps: [u32; RANK_MAX],
    /// Dimensions, 1 to 5.
    pub rank: u32,
    /// Type of the elements.
    pub element: Element,
    /// Layout of the channels: 0 for one beside the other, 1 and 2 for groups of 16 and 32 bytes.
    pub interleave: u32,
    /// 0 for none, then 32, 64 and 128 bytes.
    pub swizzle: u32,
    /// Floats outside of the tensor are NaN, not zero.
    pub fill_nan: bool,
}

impl TensorMap {
    /// The bytes.
    pub fn encode(&self) -> [u8; MAP_BYTES] {
        let mut bytes = [0; MAP_BYTES];
        let mut put = |at: u64, value: &[u8]| {
            bytes[at as usize..at as usize + value.len()].copy_from_slice(value);
        };
        put(field::ADDRESS, &self.address.to_le_bytes());
        put(field::MAGIC, &MAGIC.to_le_bytes());
        for (i, stride) in (0..).zip(self.strides) {
            put(field::STRIDES + 8 * i, &stride.to_le_bytes());
        }
        let extent = match self.extent {
            Extent::Box(extent) => extent,
            Extent::Columns { channels, pixels, lower, upper } => {
                put(field::COLUMNS, &[1]);
                let corner =
                    |i: usize| u32::from(lower[i] as u16) | u32::from(upper[i] as u16) << 16;
                [channels, pixels, corner(0), corner(1), corner(2)]
            }
        };
        for (i, at) in (0..RANK_MAX).zip((0..).step_by(4)) {
            put(field::DIMENSIONS + at, &(self.dimensions[i] as u32).to_le_bytes());
            put(field::BOX + at, &extent[i].to_le_bytes());
            put(field::STEPS + at, &self.steps[i].to_le_bytes());
        }
        for (at, value) in [
            (field::RANK, self.rank - 1),
            (field::TYPE, self.element as u32),
            (field::INTERLEAVE, self.interleave),
            (field::SWIZZLE, self.swizzle),
            (field::FILL, u32::from(self.fill_nan)),
        ] {
            put(at, &[value as u8]);
        }
        bytes
    }

    /// What the bytes say; `None` if they are not those of a map, or say what no map can.
    pub fn decode(bytes: &[u8; MAP_BYTES]) -> Option<Self> {
        let byte = |at: u64| u32::from(bytes[at as usize]);
        let word = |at: u64, i: usize| {
            let at = at as usize + 4 * i;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long =
            |at: u64, i: usize| u64::from(word(at, 2 * i)) | u64::from(word(at, 2 * i + 1)) << 32;
        let words = |at: u64| [0, 1, 2, 3, 4].map(|i| word(at, i));
        let extent = words(field::BOX);
        let extent = if byte(field::COLUMNS) == 0 {
            Extent::Box(extent)
        } else {
            let corners = [extent[2], extent[3], extent[4]];
            Extent::Columns {
                channels: extent[0],
                pixels: extent[1],
                lower: corners.map(|corner| corner as i16),
                upper: corners.map(|corner| (corner >> 16) as i16),
            }
        };
        let map = Self {
            address: long(field::ADDRESS, 0),
            strides: [0, 1, 2, 3].map(|i| long(field::STRIDES, i)),
            dimensions: words(field::DIMENSIONS).map(|n| match n {
                0 => 1 << 32,
                n => u64::from(n),
            }),
            extent,
            steps: words(field::STEPS),
            rank: byte(field::RANK) + 1,
            element: Element::from_number(byte(field::TYPE))?,
            interleave: byte(field::INTERLEAVE),
            swizzle: byte(field::SWIZZLE),
            fill_nan: byte(field::FILL) != 0,
        };
        let rank = map.rank as usize;
        let extents_good = match map.extent {
            Extent::Box(extent) => {
                rank <= RANK_MAX && extent[..rank].iter().all(|n| (1..=BOX_MAX).contains(n))
            }
            Extent::Columns { channels, pixels, .. } => {
                (3..=RANK_MAX).contains(&rank)
                    && (1..=BOX_MAX).contains(&channels)
                    && (1..=PIXELS_MAX).contains(&pixels)
            }
        };
        let good = long(field::MAGIC, 0) == MAGIC
            && extents_good
            && map.steps[..rank].iter().all(|n| (1..=STEP_MAX).contains(n))
            && map.interleave <= 2
            && map.swizzle <= 3
            && (map.interleave == 0 || rank >= 3);
        good.then_some(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tensor_map::rows::Start;

    fn matrix() -> TensorMap {
        TensorMap {
            address: 0x1234_5670,
            strides: [128, 4096, 0, 0],
            dimensions: [1 << 32, 32, 8, 1, 1],
            extent: Extent::Box([16, 8, 2, 1, 1]),
            steps: [1, 2, 1, 1, 1],
            rank: 3,
            element: Element::BF16,
            interleave: 0,
            swizzle: 3,
            fill_nan: true,
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let (lower, upper) = ([-3, 4, 0], [-1, 7, 0]);
        let extent = Extent::Columns { channels: 8, pixels: 1024, lower, upper };
        for map in [matrix(), TensorMap { extent, rank: 4, fill_nan: false, ..matrix() }] {
            assert_eq!(TensorMap::decode(&map.encode()), Some(map));
        }
    }

    #[test]
    fn a_field_that_no_map_has_makes_none() {
        let good = matrix().encode();
        for (at, value) in [
            (field::MAGIC, 0),
            (field::RANK, 5),
            (field::RANK, 200),
            (field::TYPE, 13),
            (field::INTERLEAVE, 3),
            (field::SWIZZLE, 4),
            (field::BOX, 0),
            (field::BOX + 1, 2),
            (field::STEPS + 4, 9),
            (field::STEPS, 0),
        ] {
            let mut bytes = good;
            bytes[at as usize] = value;
            assert_eq!(TensorMap::decode(&bytes), None, "{at}: {value}");
        }
    }

    /// Regardless of what a map says and where a copy starts: rows are as long as the plan says,
    /// and nothing overflows.
    #[test]
    fn no_map_and_no_start_is_too_much() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut plans = 0;
        for _ in 0..20_000 {
            let mut bytes = matrix().encode();
            for _ in 0..next() % 12 {
                bytes[next() as usize % field::MAGIC as usize] = (next() >> 8) as u8;
            }
            for at in (field::BOX + 1..field::RANK).filter(|at| at % 4 != 0) {
                bytes[at as usize] &= (next() >> 13) as u8 & 1;
            }
            let Some(map) = TensorMap::decode(&bytes) else { continue };
            let mode =
                [TensorMode::Tile, TensorMode::Columns, TensorMode::Rows][next() as usize % 3];
            let Some(plan) = map.plan(mode, map.rank as u8) else { continue };
            let mut start = Start::default();
            start.at.iter_mut().for_each(|at| *at = (next() >> (next() % 60)) as i32);
            start.offsets.iter_mut().for_each(|offset| *offset = (next() % 0x10000) as i32);
            let mut left = 100;
            let _ = map.rows(mode, &start, &plan, |row| {
                assert!(row.outside + row.inside <= plan.elements);
                left -= 1;
                if left == 0 { Err(()) } else { Ok(()) }
            });
            plans += 1;
        }
        assert!(plans > 500, "{plans}");
    }
}
