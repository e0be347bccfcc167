//! What driver libraries answer alike: rules of the CUDA driver API that need neither device nor server.
//!
//! The client library and the software GPU both have the driver API's shape. What a function checks,
//! rounds or answers in both by the same rule is here once; each library keeps its own objects and passes
//! what the rule needs. Names and numbers of the API itself are in [`cuda_api`].

#[cfg(test)]
use cuda_api::pointer::FromProgram;

/// A pointer that a test passes.
#[cfg(test)]
fn passed<P: FromProgram>(pointer: P) -> P::Argument {
    // SAFETY: tests pass pointers to what lives until they have been used, as long as they say, and
    // descriptors in place of pointers, which are not followed.
    unsafe { pointer.believe() }
}

pub mod batch;
pub mod context;
pub mod device;
pub mod entry_point;
pub mod image;
pub mod jit_options;
pub mod managed;
pub mod mem_op;
pub mod old_launch;
pub mod pci;
pub mod pointer;
pub mod pool;
pub mod pool_share;
pub mod stream_attributes;
pub mod virtual_memory;
