//! The most of everything that a file may hold. Each bound is well over what compilers emit and
//! small enough that a hostile file costs time and memory in proportion to its length.

/// Bytes of PTX text: positions are 32 bits; the largest generated modules are tens of MB.
pub const SOURCE_BYTES_MAX: usize = 256 << 20;

/// Nested `{ }` in a body. Inline assembly nests once or twice.
pub const SCOPE_DEPTH_MAX: u32 = 256;

/// Nested operators or parentheses of a constant expression: each costs a stack frame.
pub const EXPRESSION_DEPTH_MAX: u32 = 64;

/// Nested braces of an initialiser, and extents of an array: each costs a stack frame.
pub const ARRAY_DIMENSIONS_MAX: usize = 16;

/// Nested operands (`[tensor, {a, b}]` is 2): each costs a stack frame.
pub const OPERAND_DEPTH_MAX: u32 = 4;

/// Operands of one list. `wgmma` and `tcgen05` name up to 256 registers in one vector; a call
/// has as many arguments as its function has parameters.
pub const OPERANDS_MAX: usize = 4096;

/// Dotted words of one instruction. The longest form of ISA 9 has about 15.
pub const MODIFIERS_MAX: usize = 32;

/// Parameters of one function. A kernel's parameters fit 32764 bytes, so no more can be used.
pub const PARAMETERS_MAX: usize = 32764;

/// Bytes of a kernel's parameters: the size of the constant bank that holds them on a device.
pub const PARAMETER_BYTES_MAX: u64 = 32764;

/// The same for what is older: `.version` before 8.1 or `.target` below sm_70.
pub const PARAMETER_BYTES_MAX_OLD: u64 = 4352;

/// Alignment in bytes of a `.param` variable that is not a kernel's.
pub const PARAMETER_ALIGN_BYTES_MAX: u64 = 128;

/// Bytes of one variable. No device has more memory than this, and sums of sizes stay in 64 bits.
pub const VARIABLE_BYTES_MAX: u64 = 1 << 48;

/// Alignment in bytes of a variable: the largest power of two in the 32 bits that hold it.
pub const ALIGN_BYTES_MAX: u64 = 1 << 31;

/// Entries of one fatbin. The largest library has six thousand.
pub const ENTRIES_MAX: usize = 65536;

/// Sections of one cubin: ELF counts them in 16 bits.
pub const SECTIONS_MAX: usize = 65535;

/// Bytes of one image. The largest fatbins of NVIDIA's libraries are hundreds of MB.
pub const IMAGE_BYTES_MAX: u64 = 2 << 30;
