//! The CUDA driver API written down once: types, errors, the call table.
