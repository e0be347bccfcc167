//! Attributes of operations on memory, textures and surfaces.

use crate::ir::width::Width;
pub use crate::runtime::tensor_map::TensorMode;

/// State spaces as far as they differ for an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Device memory, constant banks included.
    Global,
    /// The block's shared memory.
    Shared,
    /// The thread's local memory.
    Local,
    /// The launch's parameter buffer.
    Param,
    /// Any of them, distinguished by the address.
    Generic,
}

/// A load or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Where.
    pub space: Space,
    /// Bytes of one element: 1, 2, 4, 8 or 16.
    pub bytes: u8,
    /// Loads of narrow elements sign-extend.
    pub signed: bool,
    /// Registers moved: 1, 2, 4 or 8.
    pub count: u8,
    /// Width of these registers.
    pub width: Width,
    /// Other threads may change the memory meanwhile: `.volatile`, `.relaxed`, `.acquire`.
    pub volatile: bool,
}

/// Read-modify-write operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum AtomOp {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
    Exch,
    Cas,
}

/// What a read-modify-write operates on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum AtomType {
    B16,
    U32,
    S32,
    U64,
    S64,
    B128,
    F16,
    BF16,
    F16x2,
    BF16x2,
    F32,
    /// f32 whose subnormals, also those of the result, are zero: in global memory.
    F32Ftz,
    F64,
}

impl AtomType {
    /// Bytes accessed, and the width of the registers.
    pub fn width(self) -> Width {
        match self {
            Self::B16 | Self::F16 | Self::BF16 => Width::W16,
            Self::U32 | Self::S32 | Self::F16x2 | Self::BF16x2 | Self::F32 | Self::F32Ftz => {
                Width::W32
            }
            Self::U64 | Self::S64 | Self::F64 => Width::W64,
            Self::B128 => Width::W128,
        }
    }
}

/// Operations on the object that `mbarrier` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MbarrierOp {
    /// Source: arrivals that each phase waits for.
    Init,
    /// Ends its life.
    Invalidate,
    /// Source: bytes that the phase waits for besides.
    Expect,
    /// Source: bytes that have been written.
    Complete,
    /// The same, of `st.async` and `red.async`, which exist in a cluster only.
    CompleteInCluster,
    /// Source: number of arrivals. Result: the state before, 64 bits.
    Arrive {
        /// They are not expected in later phases.
        drop: bool,
    },
    /// Source: a state, or a parity of 32 bits. Result: a predicate, true if that phase is over.
    Test {
        /// By parity.
        parity: bool,
    },
}

/// An operation and what it operates on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reduction {
    /// The operation.
    pub op: AtomOp,
    /// The type.
    pub ty: AtomType,
}

/// Which bytes of a bulk copy are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkPart {
    /// All of them.
    Whole,
    /// Of each 16 those whose bits are set in a mask, which is the fifth source.
    Masked,
    /// All but some at either end, which need not be there: their numbers are the fifth source, eight bits each,
    /// the first ones lowest.
    Inner,
}

/// A copy of any number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BulkCopy {
    /// Where to.
    pub to: Space,
    /// Where from.
    pub from: Space,
    /// An mbarrier is notified of the bytes.
    pub barrier: bool,
    /// To the same place in each of several blocks of the cluster, and so with their mbarriers.
    pub multicast: bool,
    /// Elements are not replaced but combined, each atomically.
    pub reduction: Option<Reduction>,
    /// Which bytes.
    pub part: BulkPart,
}

/// What a thread does about its asynchronous copies and products. They are done where they are
/// issued, so this changes nothing; who keeps account of accesses learns when a program may rely on
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyNote {
    /// What it has just written counts once it is waited for. Sources: where, and if `barrier` the
    /// mbarrier in shared memory that hears of it; otherwise it is a part of the thread's next group.
    Written {
        /// How much.
        bytes: u8,
        /// An mbarrier hears of it.
        barrier: bool,
    },
    /// What belongs to no group yet is one.
    Commit {
        /// Of bulk copies.
        bulk: bool,
    },
    /// It waits for its groups.
    Wait {
        /// Of bulk copies.
        bulk: bool,
        /// Except for this number of the latest ones; `None`: also for what is in no group.
        left: Option<u32>,
    },
    /// An mbarrier hears of all of its copies that are no bulk copies. Source: where it is.
    Arrive,
    /// What it has just read a product of its four warps reads until it is waited for. Source:
    /// where.
    ReadByProduct {
        /// How much.
        bytes: u8,
    },
    /// A product of its four warps writes these sums until it is waited for. Sources: the registers.
    /// Gone after the first pass, which puts the next kind in its place.
    Product,
    /// What happens to a register that may hold such a sum, by its number in the program.
    Sum {
        /// Which.
        register: u32,
        /// What.
        touch: Touch,
    },
    /// Such a register has just been copied to another one.
    SumCopied {
        /// Which.
        from: u32,
        /// Where to.
        to: u32,
    },
    /// Its warp's products so far are a group.
    CommitProducts,
    /// Its warp waits for its groups of products, except this number of the latest ones.
    WaitProducts {
        /// How many.
        left: u32,
    },
}

/// What happens to a register that may hold sums of a product that is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touch {
    /// A product writes it, from now on until it is waited for.
    Product,
    /// Its value is used: next.
    Read,
    /// Its value is copied to a place where registers are kept: next.
    Kept,
    /// It gets a value: next.
    Written,
}

/// Which way a tensor is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorDirection {
    /// From device memory to shared memory; an mbarrier is notified of the bytes.
    Load {
        /// To the same place in each of several blocks of the cluster, and so with their mbarriers.
        multicast: bool,
    },
    /// Back.
    Store,
    /// Back, elements combined, each atomically.
    Reduce(AtomOp),
}

/// A copy of a part of a tensor, which a tensor map describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorCopy {
    /// Dimensions: 1 to 5.
    pub dims: u8,
    /// What is copied.
    pub mode: TensorMode,
    /// Which way.
    pub direction: TensorDirection,
}

impl TensorCopy {
    /// Coordinates.
    pub fn coordinates(self) -> usize {
        match self.mode {
            TensorMode::Rows => 5,
            _ => usize::from(self.dims),
        }
    }

    /// Offsets.
    pub fn offsets(self) -> usize {
        match (self.mode, self.direction) {
            (TensorMode::Columns, TensorDirection::Load { .. }) => usize::from(self.dims) - 2,
            _ => 0,
        }
    }
}

/// Which level of a texture is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextureLevel {
    /// The first one.
    First,
    /// An operand behind the coordinates says which, also between two.
    Given,
}

/// A read of a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextureOp {
    /// Coordinates: 1 to 3.
    pub dims: u8,
    /// A layer stands before them.
    pub layered: bool,
    /// Coordinates are integers, of texels.
    pub integer: bool,
    /// Results are f32, else integers.
    pub floats: bool,
    /// `tld4`: this channel of the four texels around.
    pub gather: Option<u8>,
    /// Which level.
    pub level: TextureLevel,
    /// Coordinates are a direction, which meets a face of a cube; layers are faces.
    pub cube: bool,
}

/// What happens to accesses outside of a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outside {
    /// A fault.
    Trap,
    /// The nearest texel.
    Clamp,
    /// Loads give zero, stores do nothing.
    Zero,
}

/// An access to a surface. Unformatted, the first coordinate counts bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SurfaceOp {
    /// Coordinates: 1 to 3.
    pub dims: u8,
    /// A layer stands before them.
    pub layered: bool,
    /// Bytes of an element.
    pub bytes: u8,
    /// Elements.
    pub count: u8,
    /// Width of their registers.
    pub width: Width,
    /// What if it is not all inside.
    pub outside: Outside,
    /// Formatted: the first coordinate counts texels, of which this channel is meant, and what is
    /// stored is converted to the surface's format.
    pub channel: Option<u8>,
}

/// What can be asked of a texture or surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextureQuery {
    /// Texels along x.
    Width,
    /// Rows.
    Height,
    /// Slices or layers.
    Depth,
    /// 1 if coordinates are normalized.
    Normalized,
    /// Levels.
    Levels,
}
