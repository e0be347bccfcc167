//! What a case is: sources, arguments, launch, and how exact its results must be.

use crate::image::Image;

/// Elements of a buffer, for comparing results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// 32-bit integer.
    U32,
}

impl Element {
    /// Bytes of one.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::U32 => 4,
            Self::F64 => 8,
        }
    }
}

/// One argument, in the order of the kernel's parameters; C and OpenCL take the same ones.
#[derive(Clone, Debug)]
pub(crate) enum Argument {
    /// A buffer that is only read, with its bytes.
    Input(Vec<u8>),
    /// A buffer that every run writes as a whole, of so many elements.
    Output(Element, usize),
    /// A plain 32-bit value.
    Value([u8; 4]),
    /// A texture or a surface.
    Image(Image),
}

/// How close results must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tolerance {
    /// Equal to the bit.
    Exact,
    /// Relative to the larger magnitude, or to 1 if both are smaller.
    Relative(f64),
    /// All but this share of the elements equal: where rounding decides a count.
    Share(f64),
}

/// One kernel in three languages, with its inputs and its launch.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// What it is called.
    pub(crate) name: &'static str,
    /// Name of the kernel and of its files.
    pub(crate) kernel: &'static str,
    /// PTX, made of `NAME.cu`.
    pub(crate) ptx: std::borrow::Cow<'static, str>,
    /// C source: a function `void run(void **args)` that takes pointers as cuLaunchKernel does.
    pub(crate) c: &'static str,
    /// OpenCL source; empty if there is none.
    pub(crate) opencl: &'static str,
    /// What `work` counts, in billions a second; empty if only the results are worth comparing.
    pub(crate) unit: &'static str,
    /// Units of work of one run.
    pub(crate) work: f64,
    /// Blocks.
    pub(crate) grid: [u32; 3],
    /// Threads a block.
    pub(crate) block: [u32; 3],
    /// Arguments.
    pub(crate) arguments: Vec<Argument>,
    /// How close results must be.
    pub(crate) tolerance: Tolerance,
}

/// What a runner found.
pub(crate) struct Run {
    /// Contents of the outputs in the order of the arguments.
    pub(crate) outputs: Vec<Vec<u8>>,
    /// One run, seconds.
    pub(crate) seconds: f64,
    /// From source to the end of the first run, seconds.
    pub(crate) first_seconds: f64,
}
