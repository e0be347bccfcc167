//! Operation table: what every pass and tier asks of an operation, a row each.
//!
//! A new operation is a variant of [`Op`] and a row here; which register classes its sources have,
//! whether it may be dropped, merged or made once for all lanes, and who must be together for it
//! follow. What is not in the table is the business of one pass or one tier: strides of affine
//! values, handlers, machine code.

use crate::ir::matrix::MatrixType;
use crate::ir::op::*;

/// An instruction whose results are unused may not be dropped.
const EFFECT: u8 = 1;
/// Lanes of the member mask must be together to run it.
const SYNC: u8 = 1 << 1;
/// Equal operands in all lanes do not mean equal results.
const VARIES: u8 = 1 << 2;
/// All lanes of the warp must be together to run it: PTX's `.aligned`.
const ALIGNED: u8 = 1 << 3 | EFFECT | SYNC | VARIES;
/// Its first source is the handle of a texture or surface.
const OBJECT: u8 = 1 << 4 | EFFECT;
/// A value a lane, computed from nothing but the lane's sources.
const ARITHMETIC: u8 = 1 << 5;
/// Nothing of this.
const PLAIN: u8 = 0;

const W16: Class = Class::Lane(Width::W16);
const W32: Class = Class::Lane(Width::W32);
const W64: Class = Class::Lane(Width::W64);

fn lane(width: &Width) -> Class {
    Class::Lane(*width)
}

fn when(fact: u8, holds: bool) -> u8 {
    if holds { fact } else { PLAIN }
}

/// The table's rows: an operation, what holds of it, and the class of its source `i`.
macro_rules! ops {
    ($($op:pat => $facts:expr, |$i:pat_param| $class:expr;)*) => {
        impl Op {
            #[allow(unused_variables, reason = "rows name what either column needs")]
            fn facts(&self) -> u8 {
                match self { $($op => $facts,)* }
            }

            /// The class of the `i`-th source.
            #[allow(unused_variables, reason = "rows name what either column needs")]
            pub fn source_class(&self, i: usize) -> Class {
                match self { $($op => { let $i = i; $class })* }
            }
        }
    };
}

#[rustfmt::skip]
ops! {
    Op::Mov(w)                    => ARITHMETIC,       |_| lane(w);
    Op::Pack { part, .. }         => ARITHMETIC,       |_| lane(part);
    Op::Unpack { whole, .. }      => ARITHMETIC,       |_| lane(whole);
    Op::Int(op, ty)               => ARITHMETIC,       |i| integer_source(*op, *ty, i);
    Op::Carry { width, .. }       => PLAIN,            |i| if i == 2 { Class::Pred } else { lane(width) };
    Op::Prmt(_) | Op::Lop3(_)     => ARITHMETIC,       |_| W32;
    Op::Dp4a(..) | Op::Dp2a(..)   => ARITHMETIC,       |_| W32;
    Op::Extend { from, .. }       => ARITHMETIC,       |_| lane(from);
    Op::Float(_, ty, _)           => ARITHMETIC,       |_| lane(&ty.width());
    Op::Convert(convert)          => ARITHMETIC,       |_| converted(convert);
    Op::Test(_, ty)               => PLAIN,            |_| lane(&ty.width());
    Op::Setp(_, CompareType::Int(ty))      => ARITHMETIC, |_| lane(&ty.width());
    Op::Setp(_, CompareType::Float(ty, _)) => ARITHMETIC, |_| lane(&ty.width());
    Op::PredMov | Op::Pred(_) | Op::PredNot | Op::PredSelect => PLAIN, |_| Class::Pred;
    Op::Select(w)                 => ARITHMETIC,       |i| if i == 2 { Class::Pred } else { lane(w) };
    Op::ToGeneric(_) | Op::FromGeneric(_)  => ARITHMETIC, |_| W64;
    Op::IsSpace(_)                => PLAIN,            |_| W64;
    Op::FrameAddress(_)           => PLAIN,            |_| W32;
    Op::ActiveMask                => PLAIN,            |_| W32;
    Op::Special(special)          => when(VARIES, special.varies()), |_| W32;

    // A load may fault: a program that reads through a bad pointer must find out.
    Op::Load(access)              => when(EFFECT, access.space != Space::Param)
                                         | when(VARIES, matches!(access.space, Space::Local | Space::Generic)), |_| W64;
    Op::CopyToShared { .. }       => EFFECT,           |i| if i == 4 { W32 } else { W64 };
    Op::Store(access)             => EFFECT,           |i| if i >= 2 { lane(&access.width) } else { W64 };
    Op::Atom { ty, .. }           => EFFECT | VARIES,  |i| if i >= 2 { lane(&ty.width()) } else { W64 };
    Op::LoadFragment(_)           => EFFECT | VARIES,  |_| W64;
    Op::StoreFragment(fragment)   => EFFECT,           |i| if i >= 3 { lane(&fragment.width()) } else { W64 };
    Op::Mbarrier(MbarrierOp::Test { parity: false }, _) => EFFECT, |_| W64;
    Op::Mbarrier(op, _)           => EFFECT | when(VARIES, matches!(op, MbarrierOp::Arrive { .. })),
                                                       |i| if i == 0 { W64 } else { W32 };
    Op::BulkCopy(_)               => EFFECT,           |i| if i == 2 || i == 4 { W32 } else { W64 };
    // Two addresses, and behind coordinates and offsets an mbarrier.
    Op::TensorCopy(copy)          => EFFECT,           |i| if i < 2 || i == 2 + copy.coordinates() + copy.offsets() { W64 } else { W32 };
    Op::CopyNote(..)              => EFFECT,           |_| W32;
    Op::Texture(_) | Op::TextureQuery(_) | Op::SurfaceLoad(_) | Op::SurfaceAddress(_)
                                  => OBJECT,           |i| if i == 0 { W64 } else { W32 };
    Op::SurfaceStore(op)          => OBJECT,           |i| match i {
        0 => W64,
        _ if i == 1 + usize::from(op.dims) + usize::from(op.layered) => lane(&op.width),
        _ => W32,
    };

    Op::Shfl(..)                  => EFFECT | SYNC | VARIES, |_| W32;
    Op::Vote(_)                   => EFFECT | SYNC,    |i| if i == 0 { Class::Pred } else { W32 };
    Op::Match { all, width, .. }  => EFFECT | SYNC | when(VARIES, !all), |i| if i == 0 { lane(width) } else { W32 };
    Op::Redux(..) | Op::ReduxFloat { .. } => EFFECT | SYNC, |_| W32;
    Op::Elect                     => EFFECT | SYNC | VARIES, |_| W32;
    Op::WarpSync                  => EFFECT | SYNC,    |_| W32;
    Op::Multiply(_) | Op::Expand(_) | Op::TransposeMatrix => ALIGNED, |_| W32;
    Op::LoadMatrix { .. }         => ALIGNED,          |_| W64;
    Op::StoreMatrix { .. }        => ALIGNED,          |i| if i >= 2 { W32 } else { W64 };

    Op::Fence | Op::Trap | Op::Breakpoint | Op::Unsupported(_) => EFFECT, |_| W32;
    Op::Runtime(Runtime::AssertFail) => EFFECT | VARIES, |i| if i == 2 { W32 } else { W64 };
    Op::Runtime(_)                => EFFECT | VARIES,  |_| W64;
}

fn integer_source(op: IntOp, ty: IntType, i: usize) -> Class {
    let own = ty.width();
    match (op, i) {
        (IntOp::MadWide, 2) => Class::Lane(Width::for_bits(own.bits() * 2)),
        (IntOp::Shl | IntOp::Shr, 1) | (IntOp::Bfe, 1 | 2) | (IntOp::Bfi, 2 | 3) => W32,
        _ => Class::Lane(own),
    }
}

fn converted(convert: &Convert) -> Class {
    match convert {
        Convert::Float { from, .. } | Convert::ToInt { from, .. } => Class::Lane(from.width()),
        Convert::Integral { ty, .. } => Class::Lane(ty.width()),
        Convert::FromInt { from, .. } => Class::Lane(from.width()),
        Convert::Tf32(_) | Convert::ToEight { .. } => W32,
        Convert::FromEight(_) => W16,
    }
}

impl Op {
    fn has(&self, fact: u8) -> bool {
        self.facts() & fact == fact
    }

    /// True if its first source is the handle of a texture or surface: the warp's one value, where it
    /// has one.
    pub fn names_object(&self) -> bool {
        self.has(OBJECT)
    }

    /// How many of its first sources are the warp's one value, where it has one.
    pub fn scalar_sources(&self) -> usize {
        match self {
            Self::LoadFragment(_) | Self::StoreFragment(_) => 3,
            _ => usize::from(self.names_object()),
        }
    }

    /// True if an instruction whose results are unused may not be dropped.
    pub fn has_effect(&self) -> bool {
        self.has(EFFECT)
    }

    /// False if it leaves memory as it is whenever what it waits for has not come: a loop of nothing
    /// else, in which no value changes, only waits.
    pub fn is_progress(&self) -> bool {
        use AtomOp::{And, Cas, Exch, Max, Min, Or};
        let waits = match self {
            Self::Atom { op, .. } => matches!(op, Cas | Exch | And | Or | Min | Max),
            Self::Mbarrier(op, _) => matches!(op, MbarrierOp::Test { .. }),
            Self::StoreMatrix { .. } => false,
            Self::Load(_) | Self::LoadFragment(_) | Self::CopyNote(..) | Self::Fence => true,
            Self::Texture(_) | Self::TextureQuery(_) => true,
            Self::SurfaceLoad(_) | Self::SurfaceAddress(_) => true,
            op => op.is_sync(),
        };
        self.has_effect() && !waits
    }

    /// True if all lanes of the warp must be together to run it: PTX's `.aligned`.
    pub fn is_aligned(&self) -> bool {
        self.has(ALIGNED)
    }

    /// True if lanes of the member mask must be together to run it.
    pub fn is_sync(&self) -> bool {
        self.has(SYNC)
    }

    /// True if equal operands in all lanes do not mean equal results.
    pub fn varies(&self) -> bool {
        self.has(VARIES)
    }

    /// True if it computes a value a lane from nothing but the lane's sources.
    pub fn is_arithmetic(&self) -> bool {
        self.has(ARITHMETIC)
    }

    /// Where it accesses memory, if it does at an address that is its first source.
    pub fn address_space(&self) -> Option<Space> {
        match self {
            Self::CopyToShared { .. } => Some(Space::Shared),
            Self::Load(Access { space, .. })
            | Self::Store(Access { space, .. })
            | Self::Atom { space, .. }
            | Self::LoadMatrix { space, .. }
            | Self::StoreMatrix { space, .. } => Some(*space),
            _ => None,
        }
    }

    /// What it does with NaNs.
    pub fn nan_class(&self) -> NanClass {
        use NanClass::{Blind, Copies, Keeps, Makes, Sees};
        const F32: FloatType = FloatType::F32;
        match self {
            Self::Float(FloatOp::Neg | FloatOp::Abs, F32, mode) if !mode.sat => Keeps,
            Self::Float(FloatOp::Neg | FloatOp::Abs | FloatOp::CopySign, F32, _) => Sees,
            Self::Float(_, F32, _) => Makes(0),
            // Factors have formats of their own.
            Self::Multiply(product) => match product.a {
                MatrixType::F16 | MatrixType::BF16 | MatrixType::TF32 => {
                    Makes(product.a_registers() + product.b_registers())
                }
                _ => Sees,
            },
            Self::Setp(_, CompareType::Float(F32, _)) | Self::Test(_, F32) => Blind,
            Self::Convert(Convert::ToInt { from: F32, .. }) => Blind,
            // Which makes 0 of any.
            Self::Convert(Convert::Float { from: F32, to: F32, mode, .. }) if mode.sat => Blind,
            Self::Mov(Width::W32) | Self::Shfl(..) => Copies(1),
            Self::Select(Width::W32) => Copies(2),
            _ => Sees,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_operations() {
        let load = |space| {
            Op::Load(Access {
                space,
                bytes: 4,
                signed: false,
                count: 1,
                width: Width::W32,
                volatile: false,
            })
        };
        assert!(load(Space::Global).has_effect() && !load(Space::Param).has_effect());
        assert!(load(Space::Local).varies() && !load(Space::Shared).varies());
        // What all lanes do together has an effect; what some do has none of the first kind.
        assert!(Op::TransposeMatrix.is_aligned() && Op::TransposeMatrix.is_sync());
        assert!(Op::WarpSync.is_sync() && !Op::WarpSync.is_aligned() && !Op::WarpSync.varies());
        assert!(!Op::Fence.is_sync() && Op::Fence.has_effect() && !Op::Fence.names_object());
        assert!(!Op::ActiveMask.has_effect() && !Op::ActiveMask.is_arithmetic());
    }

    #[test]
    fn classes_of_sources() {
        let wide = Op::Int(IntOp::MadWide, IntType::S32);
        assert_eq!([0, 1, 2].map(|i| wide.source_class(i)), [W32, W32, W64]);
        assert_eq!(Op::Int(IntOp::Shl, IntType::U64).source_class(1), W32);
        assert_eq!(Op::Select(Width::W16).source_class(2), Class::Pred);
    }

    /// NaNs of a maximum are its own; a copy has those of what it copies.
    #[test]
    fn classes_of_nans() {
        let float = |op, ty| Op::Float(op, ty, FloatMode::default()).nan_class();
        assert_eq!(float(FloatOp::Max, FloatType::F32), NanClass::Makes(0));
        assert_eq!(float(FloatOp::Max, FloatType::F64), NanClass::Sees);
        assert_eq!(float(FloatOp::Neg, FloatType::F32), NanClass::Keeps);
        assert_eq!(Op::Select(Width::W32).nan_class(), NanClass::Copies(2));
    }
}
