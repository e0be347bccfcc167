//! Draws: numbers that follow from the seed.

use std::time::Duration;

/// A sequence of draws (SplitMix64).
pub struct Draw(u64);

impl Draw {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// One of some.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A time below so many milliseconds.
    pub fn below_ms(&mut self, end: u64) -> Duration {
        Duration::from_micros(self.below(1000 * end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_all_draws() {
        let draws = |seed| {
            let mut draw = Draw::new(seed);
            (0..100).map(|_| draw.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draws(5), draws(5));
        assert_ne!(draws(5), draws(6));
        assert!(draws(5).iter().any(|n| *n < 100) && draws(5).iter().any(|n| *n >= 900));
    }
}
