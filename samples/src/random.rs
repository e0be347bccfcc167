//! A small deterministic generator (SplitMix64), so that inputs depend on the seed and nothing
//! else.
//!
//! Not for secrets, and not a statistical tool: only a repeatable source of unremarkable numbers.

/// Numbers that follow from a seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next 32 bits.
    pub fn word(&mut self) -> u32 {
        (self.bits() >> 32) as u32
    }

    /// A number in `low..=high`.
    pub fn integer(&mut self, low: i32, high: i32) -> i32 {
        let width = (i64::from(high) - i64::from(low) + 1) as u64;
        (i64::from(low) + (self.bits() >> 16).wrapping_rem(width) as i64) as i32
    }

    /// A number in `low..high`, one of 2^24 equally spaced ones.
    pub fn real(&mut self, low: f32, high: f32) -> f32 {
        let unit = (self.bits() >> 40) as f32 / (1u64 << 24) as f32;
        low + unit * (high - low)
    }

    /// `length` reals in `low..high`.
    pub fn reals(&mut self, length: usize, low: f32, high: f32) -> Vec<f32> {
        (0..length).map(|_| self.real(low, high)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn repeats_and_stays_in_range() {
        let mut a = Random::new(7);
        let mut b = Random::new(7);
        for _ in 0..1000 {
            let value = a.integer(-3, 5);
            assert_eq!(value, b.integer(-3, 5));
            assert!((-3..=5).contains(&value));
            let real = a.real(-1.0, 1.0);
            assert_eq!(real, b.real(-1.0, 1.0));
            assert!((-1.0..1.0).contains(&real));
        }
        assert_ne!(Random::new(1).bits(), Random::new(2).bits());
    }

    #[test]
    fn reaches_both_ends() {
        let mut random = Random::new(1);
        let values: Vec<i32> = (0..200).map(|_| random.integer(0, 3)).collect();
        for wanted in 0..=3 {
            assert!(values.contains(&wanted));
        }
        random.integer(i32::MIN, i32::MAX);
    }
}
