//! What an SM and a launch may have: the limits of a device of compute capability 8.0.
//!
//! Declared here once; the device attributes, the occupancy calculator, launch checks and block
//! placement all read them from here.

/// Compute capability, major.
pub const COMPUTE_MAJOR: i32 = 8;
/// Compute capability, minor.
pub const COMPUTE_MINOR: i32 = 0;

/// Warps resident on an SM.
pub const WARPS_PER_SM_MAX: u32 = 64;
/// Blocks resident on an SM.
pub const BLOCKS_PER_SM_MAX: u32 = 32;
/// 32-bit registers of an SM.
pub const REGISTERS_PER_SM: u32 = 65_536;
/// 32-bit registers a block may use.
pub const REGISTERS_PER_BLOCK_MAX: u32 = 65_536;
/// Registers are given to warps in units of this many.
pub const REGISTER_UNIT: u32 = 256;
/// Parts of an SM among which warps and registers are divided.
pub const PARTITIONS_PER_SM: u32 = 4;
/// Shared memory of an SM, bytes.
pub const SHARED_PER_SM: u32 = 164 * 1024;
/// Shared memory that the system keeps of every block's, bytes.
pub const SHARED_RESERVED_PER_BLOCK: u32 = 1024;
/// Shared memory is given to blocks in units of this many bytes.
pub const SHARED_UNIT: u32 = 128;
/// Shared memory a block may have without asking, bytes.
pub const SHARED_PER_BLOCK: u32 = 48 * 1024;
/// Shared memory a block may have after cuFuncSetAttribute, bytes.
pub const SHARED_PER_BLOCK_OPTIN: u32 = 163 * 1024;

/// Blocks of a cluster that every device with clusters allows.
pub const CLUSTER_BLOCKS_PORTABLE: u32 = 8;
/// Blocks of a cluster of a function that asked for more: as on compute capability 9.0.
pub const CLUSTER_BLOCKS_MAX: u32 = 16;

/// Threads in a warp.
pub const WARP_THREADS: u32 = 32;
/// Threads in a block.
pub const THREADS_PER_BLOCK_MAX: u32 = 1024;
/// Extents of a block.
pub const BLOCK_DIM_MAX: [u32; 3] = [1024, 1024, 64];
/// Extents of a grid.
pub const GRID_DIM_MAX: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Bytes of parameters of a kernel (CUDA 12.1 and later).
pub const PARAM_BYTES_MAX: u32 = 32_764;

/// Granularity of physical memory and of its mappings, bytes.
pub const CHUNK_BYTES: u64 = 2 << 20;
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

/// Operations that wait in one stream before its submitter has to wait too, as with CUDA.
pub const STREAM_QUEUE_MAX: usize = 1024;

/// A block that has run this long gives way to others that can run.
pub const QUANTUM_NS: u64 = 1_000_000;
/// A process holds the device this long before it looks whether another one waits.
pub const TURN_NS: u64 = 2_000_000;

const _: () = assert!(SHARED_PER_BLOCK_OPTIN + SHARED_RESERVED_PER_BLOCK <= SHARED_PER_SM);
const _: () = assert!(THREADS_PER_BLOCK_MAX / WARP_THREADS <= WARPS_PER_SM_MAX);
