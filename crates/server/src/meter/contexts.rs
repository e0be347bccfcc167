//! Launch contexts: what a kernel of one shape takes behind which other launches.
//!
//! Kernels of one name and shape may work on more or less data: a batch normalisation has a block for each
//! channel, for images of all sizes. Programs repeat their launches in the same order, so those before it
//! distinguish them.

use super::counter::Counter;
use std::sync::OnceLock;

/// Contexts that are distinguished of a shape: the last one of those that share a place.
const PLACES: usize = 16;
/// Of the last samples so many decide.
const SAMPLES_REMEMBERED: u64 = 4;

/// What went before a launch: the two launches before it in its session. 0: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    last: u32,
    before: u32,
}

impl Context {
    /// The context of the next launch, after one of this function and shape.
    pub fn behind(self, function: u64, shape_hash: usize) -> Self {
        let mixed = (function ^ (shape_hash as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self { last: (mixed >> 32) as u32, before: self.last }
    }

    /// 0 if nothing is known.
    fn key(self) -> u64 {
        u64::from(self.last) << 32 | u64::from(self.before)
    }

    /// Where its times are. Both launches decide, and their order.
    fn place(self) -> usize {
        let mixed = self.last.wrapping_mul(5).wrapping_add(self.before.wrapping_mul(3));
        (mixed ^ mixed >> 16) as usize % PLACES
    }
}

#[derive(Debug, Default)]
struct Place {
    key: Counter,
    samples: Counter,
    mean_ns: Counter,
    longest_ns: Counter,
}

/// A shape's times by context. Written and read by the session's thread.
#[derive(Debug, Default)]
pub struct Contexts(OnceLock<Box<[Place; PLACES]>>);

impl Contexts {
    /// A launch in that context took so long.
    pub fn sampled(&self, context: Context, device_ns: u64) {
        let key = context.key();
        if key == 0 {
            return;
        }
        let place = &self.0.get_or_init(Box::default)[context.place()];
        if place.key.get() != key {
            place.key.set(key);
            place.samples.set(0);
            place.longest_ns.set(0);
        }
        let before = place.samples.get().min(SAMPLES_REMEMBERED - 1);
        place.mean_ns.set((place.mean_ns.get() * before + device_ns) / (before + 1));
        let longest = place.longest_ns.get();
        let forgotten = longest.saturating_sub(device_ns) / SAMPLES_REMEMBERED;
        place.longest_ns.set(device_ns.max(longest - forgotten));
        place.samples.add(1);
    }

    /// What a launch in that context takes, ns: the mean, and the longest lately; `None` before the first sample.
    pub fn times_ns(&self, context: Context) -> Option<(u64, u64)> {
        let key = context.key();
        let place = &self.0.get()?[context.place()];
        (key != 0 && place.key.get() == key).then(|| (place.mean_ns.get(), place.longest_ns.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_distinguished_from_its_like_by_what_went_before() {
        let contexts = Contexts::default();
        let behind = |last: u64, before: u64| Context::default().behind(before, 1).behind(last, 1);
        for _ in 0..8 {
            contexts.sampled(behind(1, 2), 400);
            contexts.sampled(behind(1, 3), 100);
            contexts.sampled(Context::default(), 7);
        }
        assert_eq!(contexts.times_ns(behind(1, 2)), Some((400, 400)));
        assert_eq!(contexts.times_ns(behind(1, 3)), Some((100, 100)));
        assert_eq!(contexts.times_ns(behind(2, 1)), None);
        assert_eq!(contexts.times_ns(Context::default()), None);
        contexts.sampled(behind(1, 3), 900);
        assert_eq!(contexts.times_ns(behind(1, 3)), Some((300, 900)));
        // Neither those behind other launches nor the same ones in another order are in its place.
        contexts.sampled(behind(4, 3), 50);
        contexts.sampled(behind(3, 1), 60);
        assert_eq!(contexts.times_ns(behind(1, 3)), Some((300, 900)));
        assert_eq!(contexts.times_ns(behind(4, 3)), Some((50, 50)));
        assert_eq!(contexts.times_ns(behind(3, 1)), Some((60, 60)));
        (0..12).for_each(|_| contexts.sampled(behind(1, 3), 100));
        let (mean, longest) = contexts.times_ns(behind(1, 3)).unwrap();
        assert!(mean < 110 && longest < 130, "{mean} {longest}");
    }
}
