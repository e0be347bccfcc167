//! Register classes: how wide a lane is, and what is a predicate.

/// Bytes a lane of a register has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Width {
    /// 16 bits; also holds `.b8` registers, zero-extended.
    W16,
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
    /// 128 bits.
    W128,
}

impl Width {
    /// Bytes a lane.
    pub fn bytes(self) -> u32 {
        match self {
            Self::W16 => 2,
            Self::W32 => 4,
            Self::W64 => 8,
            Self::W128 => 16,
        }
    }

    /// Bits a lane.
    pub fn bits(self) -> u32 {
        self.bytes() * 8
    }

    /// The narrowest register that holds `bits`.
    pub fn for_bits(bits: u32) -> Self {
        match bits {
            0..=16 => Self::W16,
            17..=32 => Self::W32,
            33..=64 => Self::W64,
            _ => Self::W128,
        }
    }
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A predicate: one bit a lane, kept as a 32-bit mask.
    Pred,
    /// A value a lane.
    Lane(Width),
}

impl Class {
    /// The lane width; `None` for predicates.
    pub fn width(self) -> Option<Width> {
        match self {
            Self::Pred => None,
            Self::Lane(w) => Some(w),
        }
    }
}
