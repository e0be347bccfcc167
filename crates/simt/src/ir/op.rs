//! Operations, which the SIMT IR and the vector IR share: what an instruction computes, without its
//! operands and lanes.
//!
//! It is deliberately not PTX: modifiers without an effect here (cache hints, scopes, `.uni`) are
//! gone, types are reduced to what changes the result, and address modes, guards and labels are
//! the business of the two IRs.

pub mod fragment;
mod memory;
mod special;
mod table;

pub use crate::ir::op::memory::*;
pub use crate::ir::op::special::*;
pub use crate::ir::width::{Class, Width};

use crate::ir::matrix::Multiply;
use crate::ir::op::fragment::Fragment;
use crate::ir::sparse::Sparse;

/// Integer types that arithmetic distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum IntType {
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
}

impl IntType {
    /// The register it lives in.
    pub fn width(self) -> Width {
        match self {
            Self::U16 | Self::S16 => Width::W16,
            Self::U32 | Self::S32 => Width::W32,
            Self::U64 | Self::S64 => Width::W64,
        }
    }

    /// True for `.s*`.
    pub fn signed(self) -> bool {
        matches!(self, Self::S16 | Self::S32 | Self::S64)
    }

    /// The type of that width and signedness; 128-bit arithmetic does not exist.
    pub fn of(width: Width, signed: bool) -> Self {
        match (width, signed) {
            (Width::W16, false) => Self::U16,
            (Width::W16, true) => Self::S16,
            (Width::W32, false) => Self::U32,
            (Width::W32, true) => Self::S32,
            (_, false) => Self::U64,
            (_, true) => Self::S64,
        }
    }
}

/// Floating-point types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum FloatType {
    F16,
    BF16,
    F16x2,
    BF16x2,
    F32,
    F32x2,
    F64,
}

impl FloatType {
    /// The register it lives in.
    pub fn width(self) -> Width {
        match self {
            Self::F16 | Self::BF16 => Width::W16,
            Self::F16x2 | Self::BF16x2 | Self::F32 => Width::W32,
            Self::F32x2 | Self::F64 => Width::W64,
        }
    }
}

/// IEEE rounding of an arithmetic result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Round {
    /// `.rn`: nearest, ties to even.
    #[default]
    Near,
    /// `.rz`: towards zero.
    Zero,
    /// `.rm`: towards minus infinity.
    Down,
    /// `.rp`: towards plus infinity.
    Up,
    /// `.rna`: nearest, ties away from zero (tf32 conversion).
    NearAway,
}

/// How a floating-point result is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FloatMode {
    /// Rounding.
    pub round: Round,
    /// Subnormal f32 operands and results become zero of the same sign.
    pub ftz: bool,
    /// The result is clamped to [0, 1], NaN to 0.
    pub sat: bool,
}

/// Integer operations; the number of sources is PTX's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum IntOp {
    Add,
    Sub,
    AddSat,
    SubSat,
    MulLo,
    MulHi,
    /// Result twice as wide as the sources.
    MulWide,
    MadLo,
    MadHi,
    MadHiSat,
    /// Third source and result twice as wide as the first two.
    MadWide,
    Mul24Lo,
    Mul24Hi,
    Mad24Lo,
    Mad24Hi,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Not,
    Cnot,
    Neg,
    Abs,
    /// Shift amounts are u32 and clamp at the width.
    Shl,
    Shr,
    /// Results of the counting operations are 32 bits wide.
    Popc,
    Clz,
    Brev,
    Bfind,
    BfindShift,
    Fns,
    Bfe,
    Bfi,
    BmskClamp,
    BmskWrap,
    SzextClamp,
    SzextWrap,
    Sad,
    ShfLeftWrap,
    ShfLeftClamp,
    ShfRightWrap,
    ShfRightClamp,
    /// Packed halves, each its own 16-bit number (`add.u16x2` and the like).
    Add16x2,
    Min16x2,
    Max16x2,
    /// Halves that stop at the ends of their range.
    AddSat16x2,
}

/// Modes of `prmt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum PrmtMode {
    Index,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

/// Floating-point operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum FloatOp {
    Add,
    Sub,
    Mul,
    Fma,
    /// `fma.relu`: negative results become 0.
    FmaRelu,
    Div,
    Rcp,
    Sqrt,
    Min,
    Max,
    /// NaN if either operand is NaN.
    MinNan,
    MaxNan,
    Neg,
    Abs,
    /// Sign of the first source, magnitude of the second.
    CopySign,
    RcpApprox,
    /// f64: the low 32 bits of the result are zero.
    RcpApproxCoarse,
    RsqrtApprox,
    RsqrtApproxCoarse,
    /// f32: in a step from the estimate of processors with AVX-512, where kernels are made for these
    /// ([`crate::ir::vector::VectorKernel::by_estimates`]).
    RsqrtEstimate,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
}

/// Properties that `testp` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum TestProperty {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// Comparisons of `setp`. The unordered ones are true when an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Both are numbers.
    Num,
    /// Either is NaN.
    Nan,
}

/// What a comparison compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareType {
    /// Integers.
    Int(IntType),
    /// Floats; `true` flushes subnormal f32 operands.
    Float(FloatType, bool),
}

/// Operations on two predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum PredOp {
    And,
    Or,
    Xor,
}

/// Floating-point formats of 8 bits or fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fp8 {
    /// 4 bits of exponent, no infinities.
    E4M3,
    /// 5 bits of exponent: the upper half of an f16.
    E5M2,
    /// 6 bits; neither infinities nor NaN, nor have the two below.
    E2M3,
    /// 6 bits.
    E3M2,
    /// 4 bits.
    E2M1,
    /// Without a sign: powers of two from 2^-127 up, and NaN.
    UE8M0,
    /// Without a sign; 5 bits of exponent, no infinities.
    UE5M3,
}

/// `cvt` beyond integer widening and narrowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Convert {
    /// Between formats.
    Float {
        /// Source format.
        from: FloatType,
        /// Result format; a packed one takes two sources, high half first.
        to: FloatType,
        /// Rounding, flushing, saturation.
        mode: FloatMode,
        /// Negative results become 0.
        relu: bool,
    },
    /// f32 to tf32, in a 32-bit register.
    Tf32(Round),
    /// f32 to the low bits of a 16-bit register, the others being 0. Formats without a sign take
    /// magnitudes.
    ToEight {
        /// Result format.
        to: Fp8,
        /// Of formats without a sign nearest, up or towards zero; of others the first or last.
        round: Round,
        /// Too large ones become the largest finite, not NaN; of formats with a sign always.
        finite: bool,
    },
    /// The low bits of a 16-bit register to f32; the others are not looked at.
    FromEight(Fp8),
    /// To an integral value of the same format.
    Integral {
        /// Format.
        ty: FloatType,
        /// Rounding, flushing, saturation.
        mode: FloatMode,
    },
    /// To an integer, out-of-range values clamp.
    ToInt {
        /// Source format.
        from: FloatType,
        /// Bits of the result, 8 to 64.
        bits: u8,
        /// Signed result.
        signed: bool,
        /// Rounding to an integral value.
        round: Round,
        /// Subnormal f32 sources are zero.
        ftz: bool,
    },
    /// From an integer.
    FromInt {
        /// Source, already extended to 32 or 64 bits.
        from: IntType,
        /// Result format.
        to: FloatType,
        /// Rounding and saturation.
        mode: FloatMode,
    },
}

/// `shfl` modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// `vote` modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

/// `redux` operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum ReduxOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// Block barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierOp {
    /// Arrive and wait.
    Sync,
    /// Arrive only.
    Arrive,
    /// Arrive only, at the cluster's barrier, which has no number.
    ClusterArrive,
    /// Wait there, having arrived.
    ClusterWait,
    /// Wait; true if the predicate was true in all threads.
    RedAnd,
    /// Wait; true if it was true in any.
    RedOr,
    /// Wait; the number of threads in which it was true.
    RedPopc,
}

/// What an operation does with NaNs in its f32 sources and result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NanClass {
    /// One NaN is as good as another in sources from this one on; results have the canonical one only.
    Makes(usize),
    /// One NaN is as good as another, and results are no floats, or no NaNs.
    Blind,
    /// A number of sources, the first ones, are passed on as they are, as the first result.
    Copies(usize),
    /// NaNs of all sources remain NaNs, though maybe others, as the first result.
    Keeps,
    /// It distinguishes NaNs.
    Sees,
}

/// What an instruction does. Sources and destinations are listed where it is not obvious.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Copy of a register or an immediate.
    Mov(Width),
    /// Copy of a predicate.
    PredMov,
    /// One wide register from `2^n` narrow ones, lowest first.
    Pack {
        /// Width of each source.
        part: Width,
        /// Width of the result.
        whole: Width,
    },
    /// The reverse.
    Unpack {
        /// Width of each result.
        part: Width,
        /// Width of the source.
        whole: Width,
    },
    /// Integer arithmetic.
    Int(IntOp, IntType),
    /// Sources a, b and, if `carry_in`, a predicate; results d and, if `carry_out`, a predicate.
    Carry {
        /// Subtraction (the carry is then a borrow).
        subtract: bool,
        /// 32 or 64 bits.
        width: Width,
        /// Adds the carry flag.
        carry_in: bool,
        /// Writes the carry flag.
        carry_out: bool,
    },
    /// Byte permute.
    Prmt(PrmtMode),
    /// Bitwise function of three sources by its truth table.
    Lop3(u8),
    /// Dot product of 4 bytes: signedness of a, of b.
    Dp4a(bool, bool),
    /// Dot product of 2 halves with 2 bytes: signedness of a, of b, upper bytes of b.
    Dp2a(bool, bool, bool),
    /// The low `bits` of a register, extended to another width.
    Extend {
        /// Source register.
        from: Width,
        /// Bits taken: 8, 16, 32 or 64.
        bits: u8,
        /// Sign-extends.
        signed: bool,
        /// Result register.
        to: Width,
    },
    /// Floating-point arithmetic.
    Float(FloatOp, FloatType, FloatMode),
    /// Conversions.
    Convert(Convert),
    /// Result: predicate.
    Test(TestProperty, FloatType),
    /// Sources a, b; result: predicate.
    Setp(Compare, CompareType),
    /// Sources two predicates; result: predicate.
    Pred(PredOp),
    /// Negated predicate.
    PredNot,
    /// Sources a, b, predicate; a where it is true.
    Select(Width),
    /// Select between predicates.
    PredSelect,
    /// Sources address, byte offset (immediate); results `count` registers.
    Load(Access),
    /// Sources address and byte offset (immediate) in shared memory, the same in global memory, and
    /// perhaps a number of bytes: from there on they are zero and not read. Done where it is issued.
    CopyToShared {
        /// Bytes a lane: 4, 8 or 16.
        bytes: u8,
    },
    /// Sources address, byte offset (immediate), `count` registers.
    Store(Access),
    /// Sources address, byte offset (immediate) and what the operation says.
    Mbarrier(MbarrierOp, Space),
    /// Sources destination, source, bytes, if `barrier` an mbarrier in shared memory, and if
    /// `multicast` a mask of ranks.
    BulkCopy(BulkCopy),
    /// Sources the generic address of a tensor map, an address in shared memory, coordinates; for
    /// loads offsets if there are any, an mbarrier in shared memory, and if `multicast` a mask of
    /// ranks.
    TensorCopy(TensorCopy),
    /// Sources are addresses of 64 bits, or registers, as the note says, the first in this space. Only made for
    /// tiers that ask for it.
    CopyNote(CopyNote, Space),
    /// Sources address, byte offset, b and for `Cas` c; result (if `returns`): the old value.
    Atom {
        /// Where.
        space: Space,
        /// Operation.
        op: AtomOp,
        /// Type.
        ty: AtomType,
        /// False for `red`.
        returns: bool,
    },
    /// Sources a handle, the layer if there is one, and coordinates; four results of 32 bits.
    Texture(TextureOp),
    /// Sources a handle; result of 32 bits.
    TextureQuery(TextureQuery),
    /// Sources a handle, the layer if there is one, and coordinates; `count` results.
    SurfaceLoad(SurfaceOp),
    /// The same sources, and one value.
    SurfaceStore(SurfaceOp),
    /// The same sources; results the address, whether there is anything to access, and whether the
    /// surface has signed integers.
    SurfaceAddress(SurfaceOp),
    /// Address in the local space of a byte of the function's frame: `.0` bytes from its start.
    FrameAddress(u32),
    /// Generic address from one of the space.
    ToGeneric(Space),
    /// Address in the space from a generic one.
    FromGeneric(Space),
    /// True if a generic address lies in the space; `None` asks for constant banks.
    IsSpace(Option<Space>),
    /// Sources value, lane argument, clamp argument, member mask; results value and, if
    /// `.1`, a predicate.
    Shfl(ShflMode, bool),
    /// Sources predicate, member mask.
    Vote(VoteMode),
    /// Mask of the lanes that run this together.
    ActiveMask,
    /// Sources value, member mask; results mask and, for `all`, optionally a predicate.
    Match {
        /// `match.all`.
        all: bool,
        /// Width of the value.
        width: Width,
        /// A predicate follows the mask.
        predicate: bool,
    },
    /// Sources value, member mask.
    Redux(ReduxOp, IntType),
    /// Sources value, member mask: the least or the largest f32.
    ReduxFloat {
        /// The largest.
        max: bool,
        /// Of the magnitudes.
        abs: bool,
        /// NaN if any is.
        nan: bool,
    },
    /// Results leader lane and predicate; source member mask.
    Elect,
    /// Sources the registers of A, of B and of C; results those of D. For all lanes of the warp.
    Multiply(Multiply),
    /// Sources two registers of what is kept of A, and metadata; results four registers of A. For all
    /// lanes of the warp.
    Expand(Sparse),
    /// Sources address, byte offset (immediate); results `count` registers. Loads as many matrices
    /// of 8 rows of 16 bytes; lane `8 i + r` has the address of row `r` of the `i`-th.
    LoadMatrix {
        /// Where.
        space: Space,
        /// Matrices: 1, 2 or 4.
        count: u8,
        /// Rows become columns of 16-bit elements.
        transpose: bool,
    },
    /// Sources address, byte offset (immediate), `count` registers: the reverse.
    StoreMatrix {
        /// Where.
        space: Space,
        /// Matrices: 1, 2 or 4.
        count: u8,
        /// Columns of 16-bit elements become rows.
        transpose: bool,
    },
    /// Sources address, byte offset (immediate), bytes from one line to the next; results a
    /// fragment's registers.
    LoadFragment(Fragment),
    /// The same sources, and the registers: the reverse.
    StoreFragment(Fragment),
    /// Transposes a matrix of 8 by 8 elements of 16 bits.
    TransposeMatrix,
    /// Reads a special register.
    Special(Special),
    /// Waits for the lanes of the member mask.
    WarpSync,
    /// Orders memory.
    Fence,
    /// Ends the grid with an error.
    Trap,
    /// Does nothing without a debugger.
    Breakpoint,
    /// Sources are the arguments' registers; result as in C.
    Runtime(Runtime),
    /// Faults when reached; `.0` indexes the function's texts.
    Unsupported(u32),
}
