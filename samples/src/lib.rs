//! CUDA programs of the project's own.
