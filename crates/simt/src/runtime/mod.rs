//! Formats of data in device memory: heap, mbarrier, tensor map, texture, and which bytes are initialised.

pub mod heap;
pub mod init_tracking;
pub mod mbarrier;
pub mod tensor_map;
pub mod texture;
