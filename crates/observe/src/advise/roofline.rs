//! Roofline: which of a device's ceilings keeps a kernel from doing more.
//!
//! Ceilings are measured by kernels that do little but one thing. A kernel is held against them by what the device
//! counted of it, so there is a roofline only where the device counts instructions and bytes.

use control::counts::Kernel;
use serde::Serialize;

/// A kernel that has less than this part of every ceiling is bound by none of them.
const NEAR: f64 = 0.3;
/// A kernel that moves more than this multiple of the memory's bandwidth has it from caches.
const BEYOND: f64 = 1.1;

/// What a device does at the most in a second in which a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ceilings {
    /// Instructions of threads.
    pub instructions_per_s: f64,
    /// Bytes that kernels read and write, where they find them in caches.
    pub cache_bytes_per_s: f64,
    /// The same, where they do not.
    pub memory_bytes_per_s: f64,
}

/// Rates of a kernel while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct KernelRates {
    /// Instructions of threads a second.
    pub instructions_per_s: f64,
    /// Bytes read and written a second.
    pub bytes_per_s: f64,
}

impl KernelRates {
    /// Of a kernel from one count of it to a later one; `None` if it did not run meanwhile, or is not counted.
    pub fn between(before: &Kernel, now: &Kernel) -> Option<Self> {
        let grown = |of: fn(&Kernel) -> u64| of(now).saturating_sub(of(before)) as f64;
        let seconds = grown(|kernel| kernel.device_ns) / 1e9;
        let instructions = grown(|kernel| kernel.thread_instructions);
        (seconds > 0.0 && instructions > 0.0).then(|| Self {
            instructions_per_s: instructions / seconds,
            bytes_per_s: grown(|kernel| kernel.global_bytes) / seconds,
        })
    }
}

/// What bounds a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The SMs' instructions.
    Instructions,
    /// The bandwidth of caches.
    Cache,
    /// The bandwidth of memory.
    Memory,
    /// None of them: it waits, or is too small for the device.
    None,
}

/// A kernel under the ceilings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Roof {
    /// What it did.
    pub work: KernelRates,
    /// What it is bound by.
    pub bound: Bound,
    /// Its part of the ceiling of instructions.
    pub of_instructions: f64,
    /// Its part of the ceiling of bytes: of caches where it moves more than memory gives.
    pub of_bandwidth: f64,
}

impl Ceilings {
    /// What bounds a kernel that did so much.
    pub fn over(&self, work: KernelRates) -> Roof {
        // What is measured scatters: a little beyond a ceiling is at it.
        let of = |rate: f64, most: f64| if most > 0.0 { (rate / most).min(1.0) } else { 0.0 };
        let of_instructions = of(work.instructions_per_s, self.instructions_per_s);
        let (by_bytes, most) = match work.bytes_per_s > BEYOND * self.memory_bytes_per_s {
            true => (Bound::Cache, self.cache_bytes_per_s),
            false => (Bound::Memory, self.memory_bytes_per_s),
        };
        let of_bandwidth = of(work.bytes_per_s, most);
        let bound = match () {
            () if of_instructions.max(of_bandwidth) < NEAR => Bound::None,
            () if of_bandwidth > of_instructions => by_bytes,
            () => Bound::Instructions,
        };
        Roof { work, bound, of_instructions, of_bandwidth }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_ceiling_bounds_and_more_than_memory_gives_is_from_caches() {
        let ceilings = Ceilings {
            instructions_per_s: 100e9,
            cache_bytes_per_s: 80e9,
            memory_bytes_per_s: 10e9,
        };
        let bound = |instructions: f64, bytes: f64| {
            let work =
                KernelRates { instructions_per_s: instructions * 1e9, bytes_per_s: bytes * 1e9 };
            let roof = ceilings.over(work);
            (roof.bound, roof.of_bandwidth)
        };
        assert_eq!(bound(5.0, 9.0), (Bound::Memory, 0.9));
        assert_eq!(bound(5.0, 60.0), (Bound::Cache, 0.75));
        assert_eq!(bound(90.0, 5.0), (Bound::Instructions, 0.5));
        assert_eq!(bound(20.0, 2.0), (Bound::None, 0.2));
        assert_eq!(bound(5.0, 10.5), (Bound::Memory, 1.0));
    }

    #[test]
    fn work_is_what_was_counted_since() {
        let kernel = |device_ns, thread_instructions, global_bytes| Kernel {
            device_ns,
            thread_instructions,
            global_bytes,
            ..Kernel::default()
        };
        let (before, now) = (kernel(1_000, 50, 7), kernel(1_001_000, 2_050, 4_007));
        let work = KernelRates::between(&before, &now).expect("it ran");
        assert_eq!((work.instructions_per_s, work.bytes_per_s), (2e6, 4e6));
        assert_eq!(KernelRates::between(&now, &now), None);
        assert_eq!(KernelRates::between(&Kernel::default(), &kernel(5, 0, 0)), None, "by events");
    }
}
