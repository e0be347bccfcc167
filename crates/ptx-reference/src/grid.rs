//! A launch, and what its threads share.

use crate::memory::{Buffer, Places};
use ptx::ast::Module;

/// A launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel's name.
    pub kernel: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes a block.
    pub shared_bytes: u32,
    /// Arguments in order.
    pub arguments: Vec<Argument>,
}

/// An argument of a kernel.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A pointer to the buffer of that number.
    Buffer(usize),
    /// These bytes.
    Value(Vec<u8>),
}

/// What all threads of a grid share.
pub(crate) struct Grid<'a> {
    pub(crate) module: &'a Module,
    pub(crate) launch: &'a Launch,
    pub(crate) places: Places,
    /// Parameters of the kernel by their number among its variables: offset in `params`.
    pub(crate) param_offsets: Vec<u64>,
    pub(crate) params: Vec<u8>,
}

/// Memory that the threads of a block share.
pub(crate) struct Memory<'a> {
    pub(crate) buffers: &'a mut Vec<Buffer>,
    pub(crate) shared: Vec<u8>,
}
