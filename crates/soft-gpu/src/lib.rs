//! The software GPU: a provider of the CUDA driver API that runs PTX on the CPU.
//!
//! The way of a kernel: PTX text -> [`ptx`] -> SIMT IR -> passes -> warp-wide vector IR
//! (`compile`) -> a tier that runs it (`tier0`). The device around it: contexts, streams, events,
//! memory, virtual SMs worked by threads (`device`), and the driver API on top (`api`).
//!
//! What stands between the two halves is [`kernel`]: the device knows no instruction, the tiers
//! know no stream.

mod api;
pub mod compile;
pub mod device;
pub mod error;
pub mod kernel;
pub mod tier0;

#[cfg(test)]
mod testing;
