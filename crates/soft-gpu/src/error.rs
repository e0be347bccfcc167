//! The one error type of the software GPU: a CUresult that is not success.

pub use cuda_api::CudaError as Error;

/// Result of an operation that a driver function performs.
pub type Result<T = ()> = std::result::Result<T, Error>;
