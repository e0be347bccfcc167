//! Ablation: native code without some of its checks, to measure what they cost.
//!
//! Only a bench may have it: without the feature `ablation`, which nothing that is installed turns
//! on, there is nothing to choose, and all code has all checks.

/// What code is made without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ablation {
    /// Whether an access is aligned and inside of what the kernel may access.
    pub bounds: bool,
    /// Fuel and yield polls at back-edges.
    pub back_edges: bool,
    /// No check, but of what is always done: counting instructions and bytes.
    pub counters: bool,
}

impl Ablation {
    /// Nothing is missing.
    #[cfg(not(feature = "ablation"))]
    pub(crate) const fn current() -> Self {
        Self { bounds: false, back_edges: false, counters: false }
    }
}

#[cfg(feature = "ablation")]
mod chosen {
    use super::Ablation;
    use locks::Mutex;

    static CHOSEN: Mutex<Ablation> =
        Mutex::new(Ablation { bounds: false, back_edges: false, counters: false });

    impl Ablation {
        /// What code that is made now is made without.
        pub(crate) fn current() -> Self {
            *CHOSEN.lock()
        }

        /// Makes code without these checks from now on, in all of the process.
        ///
        /// # Safety
        /// All kernels that get native code from now on access only what they may, and end.
        pub unsafe fn choose(self) {
            *CHOSEN.lock() = self;
        }
    }
}
