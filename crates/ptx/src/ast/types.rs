//! Scalar types, state spaces and the other small vocabularies of PTX.
//!
//! Each is a closed list with its spelling beside it; a spelling that is in none of them is kept
//! as text by [`Modifier::Other`](super::Modifier::Other). Nothing here knows what an instruction
//! does with a type.

use std::fmt;

/// How the bits of a scalar are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeKind {
    /// Untyped bits (`.b32`): compatible with every type of the same size.
    Bits,
    /// Signed integer.
    Signed,
    /// Unsigned integer.
    Unsigned,
    /// Floating point, packed pairs (`.f16x2`, `.f32x2`) included.
    Float,
    /// Predicate: one bit, lives in registers only.
    Predicate,
    /// `.texref`, `.samplerref`, `.surfref`: a handle, opaque to the program.
    Opaque,
}

macro_rules! scalar_types {
    ($($variant:ident $text:literal $bits:literal $kind:ident,)*) => {
        /// A scalar type as an instruction or a declaration names it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ScalarType { $(#[doc = concat!("`.", $text, "`")] $variant,)* }

        impl ScalarType {
            /// Every scalar type, in the order of declaration.
            pub const ALL: &'static [ScalarType] = &[$(ScalarType::$variant,)*];

            /// The spelling without its dot.
            pub const fn text(self) -> &'static str {
                match self { $(ScalarType::$variant => $text,)* }
            }
            /// Width in bits; 1 for `.pred` and `.b1`.
            pub const fn bits(self) -> u32 {
                match self { $(ScalarType::$variant => $bits,)* }
            }
            /// How the bits are meant.
            pub const fn kind(self) -> TypeKind {
                match self { $(ScalarType::$variant => TypeKind::$kind,)* }
            }
        }
    };
}

scalar_types! {
    B8 "b8" 8 Bits, B16 "b16" 16 Bits, B32 "b32" 32 Bits, B64 "b64" 64 Bits, B128 "b128" 128 Bits,
    S8 "s8" 8 Signed, S16 "s16" 16 Signed, S32 "s32" 32 Signed, S64 "s64" 64 Signed,
    U8 "u8" 8 Unsigned, U16 "u16" 16 Unsigned, U32 "u32" 32 Unsigned, U64 "u64" 64 Unsigned,
    F16 "f16" 16 Float, F32 "f32" 32 Float, F64 "f64" 64 Float, Bf16 "bf16" 16 Float,
    F16x2 "f16x2" 32 Float, Bf16x2 "bf16x2" 32 Float, F32x2 "f32x2" 64 Float,
    S16x2 "s16x2" 32 Signed, U16x2 "u16x2" 32 Unsigned,
    S8x4 "s8x4" 32 Signed, U8x4 "u8x4" 32 Unsigned,
    Pred "pred" 1 Predicate,
    Tf32 "tf32" 32 Float, E4m3 "e4m3" 8 Float, E5m2 "e5m2" 8 Float,
    E4m3x2 "e4m3x2" 16 Float, E5m2x2 "e5m2x2" 16 Float,
    E4m3x4 "e4m3x4" 32 Float, E5m2x4 "e5m2x4" 32 Float,
    E2m3 "e2m3" 8 Float, E3m2 "e3m2" 8 Float, E2m1 "e2m1" 8 Float,
    E2m3x2 "e2m3x2" 16 Float, E3m2x2 "e3m2x2" 16 Float, E2m1x2 "e2m1x2" 8 Float,
    E2m3x4 "e2m3x4" 32 Float, E3m2x4 "e3m2x4" 32 Float, E2m1x4 "e2m1x4" 16 Float,
    Ue8m0 "ue8m0" 8 Float, Ue4m3 "ue4m3" 8 Float, Ue8m0x2 "ue8m0x2" 16 Float,
    S2f6x2 "s2f6x2" 16 Float, Ue5m3x2 "ue5m3x2" 16 Float,
    B1 "b1" 1 Bits, S4 "s4" 4 Signed, U4 "u4" 4 Unsigned, S2 "s2" 2 Signed, U2 "u2" 2 Unsigned,
    B1024 "b1024" 1024 Bits,
    Texref "texref" 64 Opaque, Samplerref "samplerref" 64 Opaque, Surfref "surfref" 64 Opaque,
}

impl ScalarType {
    /// Size in memory, in bytes: whole bytes, at least one.
    pub const fn size_bytes(self) -> u64 {
        (self.bits() as u64).div_ceil(8)
    }

    /// Variables and registers may be of this type; others stand in instructions only.
    pub const fn is_declarable(self) -> bool {
        use ScalarType::*;
        match self {
            F16 | F16x2 | F32 | F64 | Pred => true,
            S16x2 | U16x2 | S8x4 | U8x4 => false,
            _ => !self.is_float() && self.bits() >= 8 && self.bits() <= 128,
        }
    }

    /// Signed or unsigned integer, not plain bits.
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), TypeKind::Signed | TypeKind::Unsigned)
    }

    /// Signed integer.
    pub const fn is_signed(self) -> bool {
        matches!(self.kind(), TypeKind::Signed)
    }

    /// Floating point, packed pairs included.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), TypeKind::Float)
    }

    /// Two elements in one register (`.f16x2`, `.s16x2`, `.f32x2`, ...).
    pub const fn is_packed(self) -> bool {
        use ScalarType::*;
        matches!(self, F16x2 | Bf16x2 | F32x2 | S16x2 | U16x2 | S8x4 | U8x4)
    }
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.text())
    }
}

macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $(#[doc = concat!("`", $text, "`")] $variant,)* }

        impl $name {
            /// Every member, in the order of declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The spelling, without a dot.
            pub const fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, ".{}", self.text())
            }
        }
    };
}
pub(crate) use vocabulary;

vocabulary! {
    /// Where a variable lives or an instruction reaches. No space on a load or store means
    /// generic addressing.
    StateSpace {
        Reg "reg", Sreg "sreg", Const "const", Global "global", Local "local", Param "param",
        ParamEntry "param::entry", ParamFunc "param::func", Shared "shared",
        SharedCta "shared::cta", SharedCluster "shared::cluster", Tex "tex",
    }
}

impl StateSpace {
    /// The space without its sub-qualifier: `.shared::cta` and `.shared::cluster` are
    /// `.shared`, `.param::entry` and `.param::func` are `.param`.
    pub const fn root(self) -> StateSpace {
        use StateSpace::*;
        match self {
            SharedCta | SharedCluster => Shared,
            ParamEntry | ParamFunc => Param,
            other => other,
        }
    }
}

vocabulary! {
    /// Rounding of a floating-point result, or (`rni` ...) to an integral value.
    Rounding {
        Rn "rn", Rz "rz", Rm "rm", Rp "rp", Rna "rna", Rs "rs",
        Rni "rni", Rzi "rzi", Rmi "rmi", Rpi "rpi",
    }
}

vocabulary! {
    /// Who must see the effect of a memory operation.
    Scope { Cta "cta", Cluster "cluster", Gpu "gpu", Sys "sys", }
}

vocabulary! {
    /// Ordering of a memory operation.
    MemoryOrder {
        Weak "weak", Volatile "volatile", Relaxed "relaxed", Acquire "acquire",
        Release "release", AcqRel "acq_rel", Sc "sc", Mmio "mmio",
    }
}

vocabulary! {
    /// Comparison of `setp` and `set`. `lo`, `ls`, `hi`, `hs` are the unsigned spellings;
    /// those ending in `u` are true also when an operand is NaN.
    Comparison {
        Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge",
        Lo "lo", Ls "ls", Hi "hi", Hs "hs",
        Equ "equ", Neu "neu", Ltu "ltu", Leu "leu", Gtu "gtu", Geu "geu",
        Num "num", Nan "nan",
    }
}

vocabulary! {
    /// What `setp` combines a comparison with, what `bar.red` reduces with.
    BoolOp { And "and", Or "or", Xor "xor", Popc "popc", }
}

vocabulary! {
    /// Operation of `atom`, `red`, `redux` and relatives.
    AtomicOp {
        Add "add", Min "min", Max "max", And "and", Or "or", Xor "xor",
        Exch "exch", Cas "cas", Inc "inc", Dec "dec",
    }
}

vocabulary! {
    /// Part of a vector or of a register (`a.x`, the video instructions' `a.b0` and `a.h1`).
    Component {
        X "x", Y "y", Z "z", W "w", R "r", G "g", B "b", A "a",
        B0 "b0", B1 "b1", B2 "b2", B3 "b3", H0 "h0", H1 "h1",
    }
}

impl Component {
    /// Index of a vector's component: `x` and `r` are 0, `w` and `a` are 3. `None` for the byte
    /// and half-word selectors.
    pub const fn index(self) -> Option<usize> {
        use Component::*;
        match self {
            X | R => Some(0),
            Y | G => Some(1),
            Z | B => Some(2),
            W | A => Some(3),
            _ => None,
        }
    }
}

/// Tile of a matrix instruction: `.m16n8k16`, or `.m8n8` with `k` 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows of A and D.
    pub m: u16,
    /// Columns of B and D.
    pub n: u16,
    /// Columns of A, rows of B; 0 when not written.
    pub k: u16,
}

impl Shape {
    /// Reads `m16n8k16` or `m8n8`; `None` for anything else.
    pub fn from_text(text: &str) -> Option<Shape> {
        let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
        let (n, k) = match rest.split_once('k') {
            Some((n, k)) => (n, k.parse().ok()?),
            None => (rest, 0),
        };
        Some(Shape { m: m.parse().ok()?, n: n.parse().ok()?, k })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".m{}n{}", self.m, self.n)?;
        if self.k != 0 {
            write!(f, "k{}", self.k)?;
        }
        Ok(())
    }
}
