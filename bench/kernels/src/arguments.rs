//! Arguments of cases: inputs from a fixed generator, and numbers.

use crate::case::Argument;

/// A fixed generator (xorshift64*): every machine sees the same inputs.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn bits(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// Uniform in `low..high`.
    pub(crate) fn float(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * (self.bits() >> 8) as f32 / (1 << 24) as f32
    }
}

pub(crate) fn floats(count: usize, low: f32, high: f32) -> Argument {
    let mut random = Random::new();
    Argument::Input((0..count).flat_map(|_| random.float(low, high).to_le_bytes()).collect())
}

pub(crate) fn doubles(count: usize, low: f32, high: f32) -> Argument {
    let mut random = Random::new();
    let values = (0..count).flat_map(|_| f64::from(random.float(low, high)).to_le_bytes());
    Argument::Input(values.collect())
}

pub(crate) fn words(values: impl Iterator<Item = u32>) -> Argument {
    Argument::Input(values.flat_map(u32::to_le_bytes).collect())
}

pub(crate) fn random_words(count: usize) -> Argument {
    let mut random = Random::new();
    words((0..count).map(move |_| random.bits()))
}

pub(crate) fn int(value: usize) -> Argument {
    Argument::Value((value as u32).to_le_bytes())
}

pub(crate) fn float(value: f32) -> Argument {
    Argument::Value(value.to_le_bytes())
}
