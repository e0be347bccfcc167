//! Formats of data in device memory: heap, mbarrier, tensor map, texture, and which bytes are initialised.
//! And the device runtime library, PTX that is linked to modules whose kernels launch kernels.

pub mod device_runtime;
pub mod heap;
pub mod init_tracking;
pub mod mbarrier;
pub mod tensor_map;
pub mod texture;
