//! libcuda.so.1: what a CUDA program loads in place of the driver library.
