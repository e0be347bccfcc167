//! Tier 1 of the software GPU: native x86-64 code from the vector IR.
//!
//! A kernel starts in the interpreter and moves up when it has run for a while. The two tiers share
//! the state of a warp (`simt_interpreter::tier1_abi`), so a kernel moves at the start of any block,
//! and an instruction without native code runs in the interpreter: the tier is complete from the
//! first instruction on, and gives the interpreter's bits.
//!
//! There are two instruction sets ([`SimdIsa`]). With AVX-512 (`avx512`) all 32 lanes of a value are
//! in machine registers through a whole function; with AVX2 (`avx2`) eight lanes through a region of
//! a block. Control flow and uniform instructions are the same code for both.
//!
//! A function passes through `regalloc` (live intervals to machine registers) and `block` (blocks, in two versions), in a `frame` (entries, exits, control flow,
//! out-of-line code). Instructions are made by `scalar` (uniform values), `shared` (both instruction
//! sets), `memory` (bounds checks and accesses), `lanewise` (arithmetic on lanes, over a trait of the
//! instruction set), `avx512` and `avx2`; `scalarize` makes irregular
//! loops as scalar code, lane by lane. `asm` turns all that into executable memory, `cache` finds what
//! was made before, `disassembly` shows it, and `ablation` measures what checks cost. `function`
//! drives it.
//!
//! Deliberately absent: optimisations that do not depend on the machine (crate `simt` has them),
//! calls and barriers (the interpreter has them), other processors.

mod ablation;
mod asm;
mod avx2;
mod avx512;
pub(crate) mod block;
mod cache;
mod disassembly;
mod frame;
pub(crate) mod frame_layout;
mod function;
mod host;
mod image;
mod lanewise;
mod memory;
pub(crate) mod operands;
mod regalloc;
mod scalar;
mod scalarize;
mod shared;
mod stages;

pub use crate::disassembly::{Summary, listing, summary};
pub use crate::host::SimdIsa;
pub use crate::stages::{CodeStage, stage};
pub use cache::{Cache, Store, Usage};

#[cfg(feature = "ablation")]
pub use ablation::Ablation;

use crate::asm::code_memory::CodeMemory;
use crate::image::{image, make, processor};
use cache::Key;
use simt::ir::vector::Tier;
use simt::ir::vector::VectorFunction;
use simt_interpreter::Interpreter;
use simt_interpreter::tier1_abi::{Entry, Generator, Layout, NativeCode};
use std::sync::Arc;

/// Starts of a kernel, counted in warps, before it is worth native code: a few blocks of a grid
/// are over sooner than the code is made.
const THRESHOLD: u32 = 64;
/// Which tiers run kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tiers {
    /// The interpreter.
    Interpreted,
    /// Native code from the first block on.
    Native,
    /// The interpreter first, native code for what runs for a while.
    #[default]
    Both,
}

impl Tiers {
    /// From the text of a setting: `0`, `1` or `auto`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "0" => Some(Self::Interpreted),
            "1" => Some(Self::Native),
            "auto" => Some(Self::Both),
            _ => None,
        }
    }

    /// What runs kernels so, with native code of an instruction set, as far as this processor can; code that
    /// `cache` has is not made again.
    pub fn tier(self, isa: Option<SimdIsa>, cache: &Arc<Cache>) -> Arc<dyn Tier> {
        let interpreter = Interpreter::new().estimating(isa.is_some_and(SimdIsa::estimates));
        let jit = isa.and_then(Jit::new).map(|jit| jit.sharing(cache.clone()));
        Arc::new(match (self, jit) {
            (Self::Native, Some(jit)) => interpreter.moving_up(Arc::new(jit.after(0))),
            (Self::Both, Some(jit)) => interpreter.moving_up(Arc::new(jit)),
            _ => interpreter,
        })
    }
}

/// Why native code does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The processor runs none.
    Processor,
    /// The processor does not run the instruction set that was asked for.
    SimdIsa,
    /// The system grants no memory for code that a program makes.
    Memory,
}

impl Obstacle {
    /// What keeps code of the instruction set that [`SimdIsa::choose`] gave from running here.
    pub fn to(isa: Option<SimdIsa>) -> Option<Self> {
        match isa {
            None => Some(Self::Processor),
            Some(isa) if !isa.is_here() => Some(Self::SimdIsa),
            Some(_) => (!CodeMemory::is_granted()).then_some(Self::Memory),
        }
    }
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Processor => "the processor has neither AVX-512 nor AVX2",
            Self::SimdIsa => "the processor does not run the native code that was asked for",
            Self::Memory => "the system forbids programs to run code that they made",
        })
    }
}

/// The generator of native code.
pub struct Jit {
    threshold: u32,
    isa: SimdIsa,
    cache: Arc<Cache>,
    counts_slow_paths: bool,
}

impl Jit {
    /// A generator for kernels that have run for a while; `None` if there is an [`Obstacle`].
    pub fn new(isa: SimdIsa) -> Option<Self> {
        let runs = Obstacle::to(Some(isa)).is_none();
        runs.then(|| Self {
            threshold: THRESHOLD,
            isa,
            cache: Arc::default(),
            counts_slow_paths: false,
        })
    }

    /// For kernels that have been started by `starts` warps; 0 for native code from the first on.
    #[must_use]
    pub fn after(self, starts: u32) -> Self {
        Self { threshold: starts, ..self }
    }

    /// For code that others may have made before.
    #[must_use]
    pub fn sharing(self, cache: Arc<Cache>) -> Self {
        Self { cache, ..self }
    }

    /// Makes code that counts the slow paths that it takes
    /// ([`simt::kernel::NativeCounters::slow_paths`]): for tests, which see so that a fast path runs.
    #[must_use]
    pub fn counting_slow_paths(self) -> Self {
        Self { counts_slow_paths: true, ..self }
    }
}

impl Generator for Jit {
    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn generate(&self, function: &VectorFunction, layout: &Layout<'_>) -> Option<NativeCode> {
        let key = Key::of(function, &processor(self.isa, self.counts_slow_paths));
        let code = self.cache.code(key, || {
            Some(image(&make(function, layout, self.isa, self.counts_slow_paths)?))
        })?;
        let own = code.memory.start();
        // SAFETY: the code, a function of this type at `entry` of the image, was made for this function, whose
        // content decides its layout; it finds its table at the start of the image, and both live as long
        // as `code`.
        unsafe {
            let entry = std::mem::transmute::<*const u8, Entry>(own.add(code.entry as usize));
            Some(NativeCode::new(entry, code.abilities, own, code))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_chooses_the_flavour() {
        assert_eq!(SimdIsa::choose(Some("avx2")), Some(SimdIsa::Avx2));
        assert_eq!(SimdIsa::choose(Some(" avx512 ")), Some(SimdIsa::Avx512));
        // What names none is as if it were not there.
        assert_eq!(SimdIsa::choose(Some("sse2")), SimdIsa::choose(None));
        assert!(SimdIsa::choose(None).is_none_or(SimdIsa::is_here));
    }
}
