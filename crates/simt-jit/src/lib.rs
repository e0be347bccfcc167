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
//! A function passes through `analysis` (no machine code), `regalloc` (live intervals to machine
//! registers) and `block` (blocks, in two versions), in a `frame` (entries, exits, control flow,
//! out-of-line code). Instructions are made by `scalar` (uniform values), `shared` (both instruction
//! sets), `memory` (bounds checks and accesses), `avx512` and `avx2`; `scalarize` makes irregular
//! loops as scalar code, lane by lane. `asm` turns all that into executable memory, `cache` finds what
//! was made before, `disassembly` shows it, and `ablation` measures what checks cost. `function`
//! drives it.
//!
//! Deliberately absent: optimisations that do not depend on the machine (crate `simt` has them),
//! calls and barriers (the interpreter has them), other processors.

mod ablation;
mod analysis;
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
mod memory;
pub(crate) mod operands;
mod regalloc;
mod scalar;
mod scalarize;
mod shared;
mod stages;

pub use crate::disassembly::{Summary, listing, summary};
pub use crate::stages::{CodeStage, stage};
pub use cache::{Cache, Store, Usage};

#[cfg(feature = "ablation")]
pub use ablation::Ablation;

use crate::asm::assembler::CONSTANTS_ALIGN;
use crate::asm::code_memory::CodeMemory;
use crate::function::{Compiler, Made};
#[cfg(not(feature = "ablation"))]
use ablation::Ablation;
use cache::{Image, Key};
use simt::ir::vector::Tier;
use simt::ir::vector::VectorFunction;
use simt_interpreter::Interpreter;
use simt_interpreter::tier1_abi::{Entry, Generator, Layout, NativeCode};
use std::sync::Arc;

/// Starts of a kernel, counted in warps, before it is worth native code: a few blocks of a grid
/// are over sooner than the code is made.
const THRESHOLD: u32 = 64;
/// Functions with more instructions stay interpreted: they would take too long to make.
const INSTRUCTIONS_MAX: usize = 40_000;
/// So do functions with more blocks: each has entries and out for all that lives there.
const BLOCKS_MAX: usize = 4_000;

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

    /// What runs kernels so, with native code of a instruction set, as far as this processor can; code that
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

/// Which of a processor's instructions native code is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimdIsa {
    /// AVX-512 F, BW, DQ and VL: 32 lanes at a time.
    Avx512,
    /// AVX2, FMA, F16C, BMI1 and BMI2: eight lanes at a time.
    Avx2,
}

impl SimdIsa {
    /// All of them, the best first.
    pub const ALL: [Self; 2] = [Self::Avx512, Self::Avx2];

    /// From the text of a setting: `avx512` or `avx2`.
    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "avx512" => Some(Self::Avx512),
            "avx2" => Some(Self::Avx2),
            _ => None,
        }
    }

    /// What a setting names, else the best that this processor runs; `None` if it runs neither.
    pub fn choose(setting: Option<&str>) -> Option<Self> {
        let best = || Self::ALL.into_iter().find(|isa| isa.is_here());
        setting.and_then(Self::parse).or_else(best)
    }

    /// True if kernels that run as such code take the processor's estimates
    /// ([`simt::ir::vector::VectorKernel::by_estimates`]).
    pub fn estimates(self) -> bool {
        self == Self::Avx512 && simt_interpreter::tier1_abi::estimates_are_here()
    }

    /// True if this processor runs such code.
    pub fn is_here(self) -> bool {
        host::runs(self)
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

fn make(
    function: &VectorFunction,
    layout: &Layout<'_>,
    isa: SimdIsa,
    counts_slow_paths: bool,
) -> Option<Made> {
    let size: usize = function.blocks.iter().map(|b| b.insts.len() + 1).sum();
    if size > INSTRUCTIONS_MAX || function.blocks.len() > BLOCKS_MAX {
        return None;
    }
    let mut compiler = Compiler::new(function, layout, isa);
    compiler.counts_slow_paths = counts_slow_paths;
    compiler.make()
}

/// The table of offsets from its own start, then the code.
fn image(made: &Made) -> Image {
    let start = (4 * made.table.len()).next_multiple_of(CONSTANTS_ALIGN);
    let mut bytes: Vec<u8> =
        made.table.iter().flat_map(|offset| (offset + start as u32).to_le_bytes()).collect();
    bytes.resize(start, 0);
    bytes.extend(&made.code);
    Image { bytes, entry: start as u32 + made.start, abilities: made.abilities }
}

/// What generators look at beside the function: all that this processor says it can do, and what
/// code shall be made without.
fn processor(isa: SimdIsa, counting: bool) -> String {
    let [ecx1, ebx, ecx, edx, eax] = host::abilities();
    let without = Ablation::current();
    format!("{isa:?} {without:?} {counting} {ecx1:x} {ebx:x} {ecx:x} {edx:x} {eax:x}")
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
        // SAFETY: `entry` is where the code of this image starts, and the compiler makes functions
        // of this type.
        let entry =
            unsafe { std::mem::transmute::<*const u8, Entry>(own.add(code.entry as usize)) };
        // SAFETY: the code was made for this function, whose content decides its layout; it finds
        // its table at the start of the image, and both live as long as `code`.
        Some(unsafe { NativeCode::new(entry, code.abilities, own, code) })
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
