//! Tier 0: an interpreter of the vector IR.
//!
//! It starts in microseconds, runs where code must not be generated, and is what other tiers are
//! tested against. One instruction is one indirect call that works on 32 lanes; the handlers are
//! plain Rust that LLVM turns into AVX-512, AVX2 or SSE2 (`ops`, by way of `ops::map`). `decode`
//! makes code of vector IR, `run` runs it (programs, warps, blocks, clusters), `check` is the
//! sanitizer, and `tier1_abi` the way into native code.
//!
//! Deliberately absent: fibers (a warp always stops at the start of a block of code, so its state
//! is data), and any knowledge of PTX.

mod check;
mod decode;
mod handler_context;
mod ops;
mod processor;
mod register_file;
mod run;
mod runtime;
pub mod tier1_abi;
mod time_slice;

use crate::ops::map::Target;
use crate::tier1_abi::Generator;
pub use check::{Checks, Report};
use simt::ir::vector::{Tier, VectorKernel};
use simt::kernel::Kernel;
use std::sync::Arc;

/// Instruction sets that the handlers are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionSet {
    /// What every processor of the architecture has: SSE2 on x86-64.
    Baseline,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

/// The interpreter.
pub struct Interpreter {
    target: Target,
    generator: Option<Arc<dyn Generator>>,
    checks: Option<Checks>,
    estimating: bool,
}

impl Interpreter {
    /// For the widest instruction set that this processor has.
    pub fn new() -> Self {
        Self { target: Target::detect(), generator: None, checks: None, estimating: false }
    }

    /// For the given instruction set, or the widest below it that this processor has.
    pub fn with(wanted: InstructionSet) -> Self {
        let target = match (Target::detect(), wanted) {
            (Target::Avx512, InstructionSet::Avx512) => Target::Avx512,
            (Target::Avx512 | Target::Avx2, InstructionSet::Avx512 | InstructionSet::Avx2) => {
                Target::Avx2
            }
            _ => Target::Baseline,
        };
        Self { target, generator: None, checks: None, estimating: false }
    }

    /// Kernels move up to the native code that `generator` makes once they have run for a while.
    #[must_use]
    pub fn moving_up(self, generator: Arc<dyn Generator>) -> Self {
        Self { generator: Some(generator), ..self }
    }

    /// Kernels are made for processors that estimate ([`VectorKernel::by_estimates`]), as native code for
    /// these is: all that runs a kernel in turn must agree on it.
    #[must_use]
    pub fn estimating(self, estimating: bool) -> Self {
        Self { estimating, ..self }
    }

    /// Looks for races on shared memory and for reads of uninitialised memory, and reports what
    /// it finds; several times slower. Kernels then stay here.
    #[must_use]
    pub fn checking(self, checks: Checks) -> Self {
        Self { generator: None, checks: Some(checks), ..self }
    }
}

impl Default for Interpreter {
    fn default() -> Self {
        Self::new()
    }
}

impl Tier for Interpreter {
    fn compile(&self, kernel: VectorKernel) -> Arc<dyn Kernel> {
        let (generator, checks) = (self.generator.clone(), self.checks.clone());
        let kernel = if self.estimating { kernel.by_estimates() } else { kernel };
        let program = crate::run::program::Program::new(kernel, self.target, generator, checks);
        Arc::new(crate::run::program::InterpretedKernel(Arc::new(program)))
    }

    fn wants_copy_notes(&self) -> bool {
        self.checks.is_some()
    }
}
