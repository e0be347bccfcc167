//! What a launch, a stream and memory may have, on devices of every compute capability.
//!
//! Declared here once; what differs from one compute capability to another is in `capability`.

/// 32-bit registers a thread may have.
pub const REGISTERS_PER_THREAD_MAX: u32 = 255;
/// Shared memory a block may have without asking, bytes.
pub const SHARED_PER_BLOCK: u32 = 48 * 1024;
/// SMs that the blocks of a cluster are placed on together, where there are so many: as in a GPC
/// of compute capability 9.0.
pub const SMS_PER_GPC: u32 = 16;

/// Threads in a warp.
pub const WARP_THREADS: u32 = 32;
/// Threads in a block.
pub const THREADS_PER_BLOCK_MAX: u32 = 1024;
/// Extents of a block.
pub const BLOCK_DIM_MAX: [u32; 3] = [1024, 1024, 64];
/// Extents of a grid.
pub const GRID_DIM_MAX: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Bytes of parameters of a kernel (CUDA 12.1 and later).
pub const PARAM_BYTES_MAX: u32 = cuda_api::constants::PARAMETER_BYTES_MAX as u32;

/// Granularity of physical memory and of its mappings, bytes.
pub const CHUNK_BYTES: u64 = channel::limits::CHUNK_GRANULARITY_BYTES;
/// Alignment of what cuMemAlloc returns, bytes.
pub const ALLOCATION_ALIGN: u64 = 512;
/// Alignment of rows made by cuMemAllocPitch, bytes.
pub const PITCH_ALIGN: u64 = 512;
/// Largest pitch, bytes.
pub const PITCH_MAX: u64 = 0x7fff_ffff;

/// Stream priorities: numerically lowest is served first.
pub const PRIORITY_GREATEST: i32 = -5;
/// See [`PRIORITY_GREATEST`].
pub const PRIORITY_LEAST: i32 = 0;

/// Entries that wait in one stream before its submitter has to wait too, as with CUDA: an operation, or a graph's
/// launch with all of its operations.
pub const STREAM_QUEUE_MAX: usize = 1024;

/// Operations that wait in one stream before no other entry is taken.
pub const STREAM_OPERATIONS_MAX: usize = 1 << 18;

/// A block that has run this long gives way to others that can run.
pub const QUANTUM_NS: u64 = 1_000_000;
/// A process holds the device this long before it looks whether another one waits.
pub const TURN_NS: u64 = 2_000_000;
