//! The software GPU: a provider of the CUDA driver API that runs PTX on the CPU.
//!
//! The path of a kernel: PTX text -> [`ptx`] -> vector IR ([`simt`]) -> the tiers that run it
//! ([`simt_jit`] and the interpreter below it). Here is the device around it: contexts, streams,
//! events, memory, virtual SMs worked by threads (`device`), and the driver API on top (`api`).
//!
//! What stands between them is [`simt::kernel`]: the device knows no instruction, the tiers know
//! no stream.

mod api;
pub mod device;
pub mod error;

#[cfg(test)]
mod testing;
