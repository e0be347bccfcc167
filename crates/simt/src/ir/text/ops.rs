//! Names of operations: what [`Op`]'s `Display` gives for those that are listed here, and back.

use crate::ir::matrix::{self, MatrixType};
use crate::ir::op::fragment::{Fragment, FragmentOf};
use crate::ir::op::{self, *};
use std::collections::HashMap;
use std::sync::OnceLock;

const WIDTHS: [Width; 4] = [Width::W16, Width::W32, Width::W64, Width::W128];
const SPACES: [Space; 5] =
    [Space::Global, Space::Shared, Space::Local, Space::Param, Space::Generic];
const INTS: [IntType; 6] =
    [IntType::U16, IntType::S16, IntType::U32, IntType::S32, IntType::U64, IntType::S64];
const BOTH: [bool; 2] = [false, true];

#[rustfmt::skip]
const INT_OPS: [IntOp; 49] = {
    use IntOp::*;
    [Add, Sub, AddSat, SubSat, MulLo, MulHi, MulWide, MadLo, MadHi, MadHiSat, MadWide, Mul24Lo, Mul24Hi,
     Mad24Lo, Mad24Hi, Div, Rem, Min, Max, And, Or, Xor, Not, Cnot, Neg, Abs, Shl, Shr, Popc, Clz, Brev,
     Bfind, BfindShift, Fns, Bfe, Bfi, BmskClamp, BmskWrap, SzextClamp, SzextWrap, Sad, ShfLeftWrap,
     ShfLeftClamp, ShfRightWrap, ShfRightClamp, Add16x2, Min16x2,
     Max16x2, AddSat16x2]
};
#[rustfmt::skip]
const FLOAT_OPS: [FloatOp; 25] = {
    use FloatOp::*;
    [Add, Sub, Mul, Fma, FmaRelu, Div, Rcp, Sqrt, Min, Max, MinNan, MaxNan, Neg, Abs, CopySign, RcpApprox,
     RcpApproxCoarse, RsqrtApprox, RsqrtApproxCoarse, RsqrtEstimate, Ex2, Lg2, Sin, Cos, Tanh]
};
#[rustfmt::skip]
const FLOATS: [FloatType; 7] = {
    use FloatType::*;
    [F16, BF16, F16x2, BF16x2, F32, F32x2, F64]
};
const ROUNDS: [Round; 5] = [Round::Near, Round::Zero, Round::Down, Round::Up, Round::NearAway];
#[rustfmt::skip]
const COMPARES: [Compare; 14] = {
    use Compare::*;
    [Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan]
};
#[rustfmt::skip]
const ATOMS: [AtomOp; 10] = {
    use AtomOp::*;
    [Add, Min, Max, Inc, Dec, And, Or, Xor, Exch, Cas]
};
#[rustfmt::skip]
const ATOM_TYPES: [AtomType; 13] = {
    use AtomType::*;
    [B16, U32, S32, U64, S64, B128, F16, BF16, F16x2, BF16x2, F32, F32Ftz, F64]
};
#[rustfmt::skip]
const SPECIALS: [Special; 28] = {
    use Special::*;
    [LaneId, WarpId, NwarpId, SmId, NsmId, GridId, LanemaskEq, LanemaskLe, LanemaskLt, LanemaskGe, LanemaskGt, Clock,
     ClockHi, Clock64, GlobalTimer, GlobalTimerLo, GlobalTimerHi, DynamicSharedBytes, TotalSharedBytes,
     ClusterCtarank, ClusterNctarank, ExplicitCluster, WorkspaceLow, WorkspaceHigh, StackBegin, StackEnd, Ntid(0), Ctaid(0)]
};
#[rustfmt::skip]
const MATRICES: [MatrixType; 12] = {
    use MatrixType::*;
    [F16, BF16, TF32, E4M3, E5M2, F64, S8, U8, S4, U4, Xor, And]
};

/// The operation of a name.
pub(super) fn read(text: &str) -> Option<Op> {
    static NAMES: OnceLock<HashMap<String, Op>> = OnceLock::new();
    let listed = NAMES.get_or_init(|| all().into_iter().map(|op| (op.to_string(), op)).collect());
    let with_number = |word: &str| text.strip_prefix(word).and_then(|n| n.parse().ok());
    listed
        .get(text)
        .cloned()
        .or_else(|| with_number("lop3.").and_then(|n| u8::try_from(n).ok()).map(Op::Lop3))
        .or_else(|| with_number("frameaddress.").map(Op::FrameAddress))
        .or_else(|| with_number("unsupported.").map(Op::Unsupported))
        .or_else(|| with_number("special.constant.").map(|n| Op::Special(Special::Constant(n))))
}

fn modes() -> Vec<FloatMode> {
    let of =
        |round| BOTH.into_iter().flat_map(move |ftz| BOTH.map(|sat| FloatMode { round, ftz, sat }));
    ROUNDS.into_iter().flat_map(of).collect()
}

fn all() -> Vec<Op> {
    use Op::*;
    let mut ops = vec![
        PredMov,
        PredNot,
        PredSelect,
        ActiveMask,
        Elect,
        TransposeMatrix,
        WarpSync,
        Fence,
        Trap,
        Breakpoint,
    ];
    ops.extend(WIDTHS.into_iter().flat_map(|w| [Mov(w), Select(w)]));
    ops.extend(INTS.into_iter().flat_map(|ty| INT_OPS.map(|op| Int(op, ty))));
    ops.extend(INTS.map(|ty| Int(IntOp::Max16x2, ty)));
    for part in WIDTHS {
        ops.extend(
            WIDTHS.into_iter().flat_map(|whole| [Pack { part, whole }, Unpack { part, whole }]),
        );
    }
    for (carry_in, carry_out) in BOTH.into_iter().flat_map(|i| BOTH.map(|o| (i, o))) {
        for width in [Width::W32, Width::W64] {
            ops.extend(BOTH.map(|subtract| Carry { subtract, width, carry_in, carry_out }));
        }
    }
    use PrmtMode::{B4e, Ecl, Ecr, F4e, Index, Rc8, Rc16};
    ops.extend([Index, F4e, B4e, Rc8, Ecl, Ecr, Rc16].map(Prmt));
    ops.extend(BOTH.into_iter().flat_map(|a| BOTH.map(|b| Dp4a(a, b))));
    for (from, to) in WIDTHS.into_iter().flat_map(|from| WIDTHS.map(|to| (from, to))) {
        for bits in [8, 16, 32, 64] {
            ops.extend(BOTH.map(|signed| Extend { from, bits, signed, to }));
        }
    }
    for (op, ty) in FLOAT_OPS.into_iter().flat_map(|op| FLOATS.map(|ty| (op, ty))) {
        ops.extend(modes().into_iter().map(|mode| Float(op, ty, mode)));
    }
    ops.extend(converts().into_iter().map(Convert));
    for op in COMPARES {
        ops.extend(INTS.map(|ty| Setp(op, CompareType::Int(ty))));
        let floats = FLOATS.into_iter().flat_map(|ty| BOTH.map(|ftz| CompareType::Float(ty, ftz)));
        ops.extend(floats.map(|ty| Setp(op, ty)));
    }
    use TestProperty::{Finite, Infinite, Normal, NotANumber, Number, Subnormal};
    for property in [Finite, Infinite, Number, NotANumber, Normal, Subnormal] {
        ops.extend(FLOATS.map(|ty| Test(property, ty)));
    }
    ops.extend([PredOp::And, PredOp::Or, PredOp::Xor].map(Pred));
    for access in accesses() {
        ops.extend([Load(access), Store(access)]);
    }
    ops.extend([4, 8, 16].map(|bytes| CopyToShared { bytes }));
    ops.extend(fragments().into_iter().flat_map(|f| [LoadFragment(f), StoreFragment(f)]));
    for (space, op) in SPACES.into_iter().flat_map(|space| ATOMS.map(|op| (space, op))) {
        for ty in ATOM_TYPES {
            ops.extend(BOTH.map(|returns| Atom { space, op, ty, returns }));
        }
    }
    for space in SPACES {
        ops.extend([ToGeneric(space), FromGeneric(space), IsSpace(Some(space))]);
        for (count, transpose) in [1, 2, 4].into_iter().flat_map(|n| BOTH.map(|t| (n, t))) {
            ops.push(LoadMatrix { space, count, transpose });
            ops.push(StoreMatrix { space, count, transpose });
        }
    }
    ops.push(IsSpace(None));
    for mode in [ShflMode::Up, ShflMode::Down, ShflMode::Bfly, ShflMode::Idx] {
        ops.extend(BOTH.map(|predicate| Shfl(mode, predicate)));
    }
    ops.extend([VoteMode::All, VoteMode::Any, VoteMode::Uni, VoteMode::Ballot].map(Vote));
    for width in WIDTHS {
        for (all, predicate) in BOTH.into_iter().flat_map(|a| BOTH.map(|p| (a, p))) {
            ops.push(Match { all, width, predicate });
        }
    }
    use ReduxOp::{Add, And, Max, Min, Or, Xor};
    ops.extend(
        [Add, Min, Max, And, Or, Xor].into_iter().flat_map(|op| INTS.map(|ty| Redux(op, ty))),
    );
    for (max, abs) in BOTH.into_iter().flat_map(|m| BOTH.map(|a| (m, a))) {
        ops.extend(BOTH.map(|nan| ReduxFloat { max, abs, nan }));
    }
    ops.extend(SPECIALS.map(Special));
    for axis in 0..3 {
        use crate::ir::op::Special::{
            ClusterCtaid, ClusterNctaid, Clusterid, Ctaid, Nclusterid, Nctaid, Ntid, Tid,
        };
        let of_axis =
            [Tid, Ntid, Ctaid, Nctaid, Clusterid, Nclusterid, ClusterCtaid, ClusterNctaid];
        ops.extend(of_axis.map(|special| Special(special(axis))));
    }
    for (a, b) in MATRICES.into_iter().flat_map(|a| MATRICES.map(|b| (a, b))) {
        for k in [4, 8, 16, 32, 64, 128, 256] {
            for (tall, saturate) in BOTH.into_iter().flat_map(|t| BOTH.map(|s| (t, s))) {
                ops.push(Multiply(matrix::Multiply { tall, k, a, b, saturate }));
            }
        }
    }
    ops.extend(textures().into_iter().map(Texture));
    for surface in surfaces() {
        ops.extend([SurfaceLoad(surface), SurfaceStore(surface), SurfaceAddress(surface)]);
    }
    use op::TextureQuery as Query;
    let queries = [Query::Width, Query::Height, Query::Depth, Query::Normalized, Query::Levels];
    ops.extend(queries.map(TextureQuery));
    use op::Runtime::{AssertFail, DeviceCall, DynamicParallelism, Free, Malloc, Vprintf};
    let runtime = [Vprintf, AssertFail, Malloc, Free, DeviceCall, DynamicParallelism];
    ops.extend(runtime.map(Runtime));
    ops
}

fn converts() -> Vec<Convert> {
    let mut converts: Vec<Convert> = ROUNDS.map(Convert::Tf32).into();
    for (ty, mode) in FLOATS.into_iter().flat_map(|ty| modes().into_iter().map(move |m| (ty, m))) {
        converts.push(Convert::Integral { ty, mode });
        converts.extend(INTS.map(|from| Convert::FromInt { from, to: ty, mode }));
        for to in FLOATS {
            converts.extend(BOTH.map(|relu| Convert::Float { from: ty, to, mode, relu }));
        }
    }
    for (from, bits) in FLOATS.into_iter().flat_map(|ty| [8, 16, 32, 64].map(|bits| (ty, bits))) {
        for (signed, ftz) in BOTH.into_iter().flat_map(|s| BOTH.map(|f| (s, f))) {
            let to_int = |round| Convert::ToInt { from, bits, signed, round, ftz };
            converts.extend(ROUNDS.map(to_int));
        }
    }
    use Fp8::{E2M1, E2M3, E3M2, E4M3, E5M2, UE5M3, UE8M0};
    for to in [E4M3, E5M2, E2M3, E3M2, E2M1, UE8M0, UE5M3] {
        converts.push(Convert::FromEight(to));
        for round in ROUNDS {
            converts.extend(BOTH.map(|finite| Convert::ToEight { to, round, finite }));
        }
    }
    converts
}

fn accesses() -> Vec<Access> {
    let mut accesses = Vec::new();
    for (space, bytes) in SPACES.into_iter().flat_map(|s| [1, 2, 4, 8, 16].map(|bytes| (s, bytes)))
    {
        for (width, count) in WIDTHS.into_iter().flat_map(|w| [1, 2, 4, 8].map(|count| (w, count)))
        {
            if u32::from(bytes) > width.bytes() {
                continue;
            }
            for (signed, volatile) in BOTH.into_iter().flat_map(|s| BOTH.map(|v| (s, v))) {
                accesses.push(Access { space, bytes, signed, count, width, volatile });
            }
        }
    }
    accesses
}

fn fragments() -> Vec<Fragment> {
    let shapes =
        [(16, 16, 16), (8, 32, 16), (32, 8, 16), (16, 16, 8), (8, 8, 4), (8, 8, 32), (8, 8, 128)];
    let operands = [FragmentOf::A, FragmentOf::B, FragmentOf::Sum];
    let mut fragments = Vec::new();
    for (space, of) in SPACES.into_iter().flat_map(|space| operands.map(|of| (space, of))) {
        for ((m, n, k), row) in shapes.into_iter().flat_map(|shape| BOTH.map(|row| (shape, row))) {
            let bits = [1, 4, 8, 16, 32, 64];
            fragments.extend(bits.map(|bits| Fragment { space, of, m, n, k, bits, row }));
        }
    }
    fragments
}

fn textures() -> Vec<TextureOp> {
    let mut textures = Vec::new();
    for (dims, gather) in
        (1..4).flat_map(|dims| [None, Some(0), Some(1), Some(2), Some(3)].map(|g| (dims, g)))
    {
        for (layered, integer) in BOTH.into_iter().flat_map(|l| BOTH.map(|i| (l, i))) {
            for (floats, cube) in BOTH.into_iter().flat_map(|f| BOTH.map(|c| (f, c))) {
                textures.extend([TextureLevel::First, TextureLevel::Given].map(|level| {
                    TextureOp { dims, layered, integer, floats, gather, level, cube }
                }));
            }
        }
    }
    textures
}

fn surfaces() -> Vec<SurfaceOp> {
    let mut surfaces = Vec::new();
    for (dims, outside) in
        (1..4).flat_map(|dims| [Outside::Trap, Outside::Clamp, Outside::Zero].map(|o| (dims, o)))
    {
        for (bytes, count) in [1, 2, 4, 8, 16].into_iter().flat_map(|b| [1, 2, 4].map(|c| (b, c))) {
            for (width, layered) in WIDTHS.into_iter().flat_map(|w| BOTH.map(|l| (w, l))) {
                surfaces.extend([None, Some(0), Some(1), Some(2), Some(3)].map(|channel| {
                    SurfaceOp { dims, layered, bytes, count, width, outside, channel }
                }));
            }
        }
    }
    surfaces
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else the text of one would be read as another.
    #[test]
    fn no_two_operations_have_one_name() {
        let mut names: HashMap<String, Op> = HashMap::new();
        for op in all() {
            // Listed twice is not two operations.
            if let Some(other) = names.insert(op.to_string(), op.clone()) {
                assert_eq!(other, op, "both are `{op}`");
            }
        }
        assert!(names.len() > 10_000, "{}", names.len());
    }
}
