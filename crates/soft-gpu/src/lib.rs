//! The software GPU: a provider of the CUDA driver API that runs PTX on the CPU.
