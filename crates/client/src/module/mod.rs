//! Modules: their images, options and functions' parameters, without a server.

pub(crate) mod jit_options;
pub(crate) mod kernel_params;
