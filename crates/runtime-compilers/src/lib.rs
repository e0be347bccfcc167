//! In front of NVIDIA's run-time compilers, NVRTC and nvJitLink: PTX where a program asks for machine
//! code, which the software GPU does not run.
//!
//! One archive is linked into several shared libraries (`xtask`'s `compilers`), which differ in what
//! they export:
//!
//! * `libopenmps-audit.so`, an auditor of the dynamic loader (rtld-audit(7)): where a program is about
//!   to load one of the compilers, from wherever, the loader takes ours ([`audit`]).
//! * `libnvrtc.so.12` and so on: every function of the compiler. Those that say what is made, and give
//!   it out, are written here ([`nvrtc`], [`jitlink`]); all others lead to the real library
//!   ([`forward`], [`real`]).
//!
//! What a program is given in the place of machine code is PTX text, or inputs packed to be linked by
//! the driver ([`cuda_api::link`]), which openmps' driver loads like machine code.

#[cfg(target_arch = "x86_64")]
pub mod audit;
#[cfg(target_arch = "x86_64")]
mod caller;
#[cfg(target_arch = "x86_64")]
mod forward;
#[cfg(target_arch = "x86_64")]
pub mod jitlink;
mod linking;
#[cfg(target_arch = "x86_64")]
pub mod nvrtc;
mod options;
mod real;

/// Starts the name by which a library of this crate asks the loader for the real one.
const REAL: &str = "openmps-real/";
