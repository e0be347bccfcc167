//! The dotted words after an instruction's base name.
//!
//! A modifier is kept in the order written. Families that can be told by spelling alone (types,
//! state spaces, roundings, scopes, shapes) are typed here; a word that means different things to
//! different instructions (`.and`, `.lo`, `.min`) is one flat variant, and
//! [`Instruction`](super::Instruction) has the queries that read it in its role.

use super::module::Name;
use super::types::{Rounding, ScalarType, Scope, Shape, StateSpace};
use std::collections::HashMap;
use std::sync::LazyLock;

macro_rules! modifiers {
    ($($variant:ident $text:literal,)*) => {
        /// One dotted word of an instruction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Modifier {
            /// A scalar type.
            Type(ScalarType),
            /// A state space.
            Space(StateSpace),
            /// A rounding mode.
            Rounding(Rounding),
            /// A scope.
            Scope(Scope),
            /// Tile of a matrix instruction.
            Shape(Shape),
            $(#[doc = concat!("`.", $text, "`")] $variant,)*
            /// A word this version does not know, kept as written.
            Other(Name),
        }

        impl Modifier {
            /// Every flat modifier (those that are not of a typed family).
            pub const FLAT: &'static [Modifier] = &[$(Modifier::$variant,)*];

            /// The spelling without its dot; `None` for a shape or an unknown word.
            pub const fn text(self) -> Option<&'static str> {
                match self {
                    Modifier::Type(ty) => Some(ty.text()),
                    Modifier::Space(space) => Some(space.text()),
                    Modifier::Rounding(rounding) => Some(rounding.text()),
                    Modifier::Scope(scope) => Some(scope.text()),
                    Modifier::Shape(_) | Modifier::Other(_) => None,
                    $(Modifier::$variant => Some($text),)*
                }
            }
        }
    };
}

modifiers! {
    // Arithmetic.
    Ftz "ftz", Sat "sat", Satfinite "satfinite", Relu "relu", Approx "approx", Full "full",
    Lo "lo", Hi "hi", Wide "wide", Cc "cc", Noftz "noftz", Oob "oob", NaN "NaN",
    Xorsign "xorsign", Abs "abs", Shiftamt "shiftamt", Clamp "clamp", Wrap "wrap",
    L "l", R "r", Scaled "scaled::n2::ue8m0", ScaledAlike "scaled::n1::ue8m0", Pzo "pzo", Pack "pack", Cvt "cvt", Mask "mask", Shr7 "shr7", Shr15 "shr15", Po "po",
    // Byte permute.
    F4e "f4e", B4e "b4e", Rc8 "rc8", Ecl "ecl", Ecr "ecr", Rc16 "rc16",
    // Comparisons.
    Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", Ls "ls", Hs "hs",
    Equ "equ", Neu "neu", Ltu "ltu", Leu "leu", Gtu "gtu", Geu "geu", Num "num", Nan "nan",
    // testp.
    Finite "finite", Infinite "infinite", Number "number", Notanumber "notanumber",
    Normal "normal", Subnormal "subnormal",
    // Boolean, atomic and reduction operations.
    And "and", Or "or", Xor "xor", Popc "popc", Add "add", Min "min", Max "max",
    Exch "exch", Cas "cas", Inc "inc", Dec "dec",
    // Memory.
    Weak "weak", Volatile "volatile", Relaxed "relaxed", Acquire "acquire", Release "release",
    AcqRel "acq_rel", Sc "sc", Mmio "mmio",
    Nc "nc", Ca "ca", Cg "cg", Cs "cs", Lu "lu", Cv "cv", Wb "wb", Wt "wt",
    L1EvictNormal "L1::evict_normal", L1EvictUnchanged "L1::evict_unchanged",
    L1EvictFirst "L1::evict_first", L1EvictLast "L1::evict_last", L1NoAllocate "L1::no_allocate",
    L2EvictNormal "L2::evict_normal", L2EvictUnchanged "L2::evict_unchanged",
    L2EvictFirst "L2::evict_first", L2EvictLast "L2::evict_last",
    L2CacheHint "L2::cache_hint", L2Prefetch64B "L2::64B", L2Prefetch128B "L2::128B",
    L2Prefetch256B "L2::256B", L1 "L1", L2 "L2", Tensormap "tensormap", Unified "unified",
    V2 "v2", V4 "v4", V8 "v8", To "to", Fractional "fractional", Range "range",
    Gl "gl", Proxy "proxy", Async "async", Alias "alias",
    ProxyAlias "proxy::alias", ProxyAsync "proxy::async", ProxyGeneric "proxy::generic",
    TensormapGeneric "tensormap::generic", AsyncGeneric "async::generic",
    RestrictSharedCta "sync_restrict::shared::cta",
    RestrictSharedCluster "sync_restrict::shared::cluster",
    // Control, barriers, warp.
    Uni "uni", Sync "sync", Aligned "aligned", Arrive "arrive", Red "red", Warp "warp",
    Wait "wait", Up "up", Down "down", Bfly "bfly", Idx "idx", All "all", Any "any",
    Ballot "ballot", BarrierCta "barrier::cta", BarrierCluster "barrier::cluster",
    // Asynchronous copies and mbarrier.
    CommitGroup "commit_group", WaitGroup "wait_group", WaitAll "wait_all", Bulk "bulk",
    Tensor "tensor", Reduce "reduce", Prefetch "prefetch", Mbarrier "mbarrier", Read "read",
    BulkGroup "bulk_group", CompleteTxBytes "mbarrier::complete_tx::bytes",
    MulticastCluster "multicast::cluster", IgnoreOob "ignore_oob", CpMask "cp_mask",
    Replace "replace", CpFenceproxy "cp_fenceproxy", GlobalAddress "global_address",
    Rank "rank", BoxDim "box_dim", GlobalDim "global_dim", GlobalStride "global_stride",
    ElementStride "element_stride", Elemtype "elemtype", InterleaveLayout "interleave_layout",
    SwizzleMode "swizzle_mode", SwizzleAtomicity "swizzle_atomicity", FillMode "fill_mode",
    Tile "tile", TileGather4 "tile::gather4", TileScatter4 "tile::scatter4", Im2col "im2col",
    Im2colW "im2col::w", Im2colW128 "im2col::w::128", Im2colNoOffs "im2col_no_offs",
    CtaGroup1 "cta_group::1", CtaGroup2 "cta_group::2",
    Init "init", Inval "inval", ExpectTx "expect_tx", CompleteTx "complete_tx",
    ArriveDrop "arrive_drop", NoComplete "noComplete", TestWait "test_wait",
    TryWait "try_wait", Parity "parity", PendingCount "pending_count", Noinc "noinc",
    MbarrierInit "mbarrier_init",
    // Matrices.
    Load "load", Store "store", Mma "mma", Row "row", Col "col", MatA "a", MatB "b", MatC "c",
    MatD "d", X1 "x1", X2 "x2", X4 "x4", Trans "trans", Sp "sp", SpMetadata "sp::ordered_metadata",
    MmaAsync "mma_async", Fence "fence", BlockScale "block_scale",
    ScaleVec1X "scale_vec::1X", ScaleVec2X "scale_vec::2X", ScaleVec4X "scale_vec::4X",
    KindMxf8f6f4 "kind::mxf8f6f4", KindF8f6f4 "kind::f8f6f4", KindMxf4 "kind::mxf4",
    KindMxf4nvf4 "kind::mxf4nvf4",
    B8x16 "b8x16", B6x16P32 "b6x16_p32", B4x16P64 "b4x16_p64",
    // Textures and surfaces.
    Geom1d "1d", Geom2d "2d", Geom3d "3d", Geom4d "4d", Geom5d "5d", GeomA1d "a1d",
    GeomA2d "a2d", GeomCube "cube", GeomAcube "acube", Geom2dms "2dms", GeomA2dms "a2dms",
    Level "level", Grad "grad", Base "base", Trap "trap", Clampd "clampd", Zero "zero",
    Width "width", Height "height", Depth "depth", ChannelDataType "channel_data_type",
    ChannelOrder "channel_order", NormalizedCoords "normalized_coords", ArraySize "array_size",
    NumMipmapLevels "num_mipmap_levels", NumSamples "num_samples", MemoryLayout "memory_layout",
    ForceUnnormalizedCoords "force_unnormalized_coords", FilterMode "filter_mode",
    AddrMode0 "addr_mode_0", AddrMode1 "addr_mode_1", AddrMode2 "addr_mode_2",
    // Cluster launch and register budget.
    TryCancel "try_cancel", QueryCancel "query_cancel", IsCanceled "is_canceled",
    GetFirstCtaid "get_first_ctaid", GetFirstCtaidX "get_first_ctaid::x",
    GetFirstCtaidY "get_first_ctaid::y", GetFirstCtaidZ "get_first_ctaid::z",
    MulticastClusterAll "multicast::cluster::all",

    LaunchDependents "launch_dependents", LdReduce "ld_reduce",
    St "st", Cp "cp", MatP "p", CompG "g", AccF16 "acc::f16", AccF32 "acc::f32",
}

impl Modifier {
    /// Coordinates of a texture, surface or tensor of this shape: the least for the first two,
    /// which may have more up to four; exactly this number for a tensor.
    pub(crate) fn coordinates(self, opcode: super::Opcode) -> Option<usize> {
        use Modifier::*;
        let tensor = opcode == super::Opcode::Cp;
        Some(match self {
            Geom1d => 1,
            Geom2d | GeomA1d => 2,
            Geom3d if tensor => 3,
            Geom5d => 5,
            Geom3d | Geom4d | GeomA2d | GeomCube | GeomAcube | Geom2dms | GeomA2dms => 4,
            _ => return None,
        })
    }

    /// The word is a part of the instruction's name: `cta` of `bar.cta`, `to` of `cvta.to`.
    pub(crate) fn is_of_name(self, opcode: super::Opcode) -> bool {
        use super::Opcode;
        match opcode {
            Opcode::Bar | Opcode::Barrier => matches!(
                self,
                Modifier::Scope(Scope::Cta | Scope::Cluster)
                    | Modifier::Warp
                    | Modifier::Arrive
                    | Modifier::Wait
            ),
            Opcode::Cp => matches!(
                self,
                Modifier::Async
                    | Modifier::Bulk
                    | Modifier::Reduce
                    | Modifier::Prefetch
                    | Modifier::Tensor
                    | Modifier::CommitGroup
                    | Modifier::WaitGroup
                    | Modifier::WaitAll
                    | Modifier::Mbarrier
                    | Modifier::Arrive
            ),
            Opcode::Cvta => self == Modifier::To,
            Opcode::Mbarrier => {
                matches!(self, Modifier::Arrive | Modifier::ArriveDrop | Modifier::ExpectTx)
            }
            Opcode::Tex => matches!(self, Modifier::Base | Modifier::Level | Modifier::Grad),
            _ => false,
        }
    }

    /// Elements of an offset or gradient in a texture of this shape.
    pub(crate) fn offsets(self) -> Option<usize> {
        use Modifier::*;
        Some(match self {
            Geom1d | GeomA1d => 1,
            Geom2d | GeomA2d => 2,
            Geom3d | GeomCube | GeomAcube => 4,
            _ => return None,
        })
    }

    /// The modifier spelled `text` (without the dot), if this version knows it.
    pub fn from_text(text: &str) -> Option<Modifier> {
        static BY_TEXT: LazyLock<HashMap<&'static str, Modifier>> = LazyLock::new(|| {
            let types = ScalarType::ALL.iter().map(|&ty| Modifier::Type(ty));
            let spaces = StateSpace::ALL.iter().map(|&space| Modifier::Space(space));
            let roundings = Rounding::ALL.iter().map(|&rounding| Modifier::Rounding(rounding));
            let scopes = Scope::ALL.iter().map(|&scope| Modifier::Scope(scope));
            let flat = Modifier::FLAT.iter().copied();
            types
                .chain(spaces)
                .chain(roundings)
                .chain(scopes)
                .chain(flat)
                .filter_map(|modifier| Some((modifier.text()?, modifier)))
                .collect()
        });
        match BY_TEXT.get(text) {
            Some(&modifier) => Some(modifier),
            None => Shape::from_text(text).map(Modifier::Shape),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_reads_back_as_itself() {
        let mut all: Vec<Modifier> = Modifier::FLAT.to_vec();
        all.extend(ScalarType::ALL.iter().map(|&ty| Modifier::Type(ty)));
        all.extend(StateSpace::ALL.iter().map(|&space| Modifier::Space(space)));
        all.extend(Rounding::ALL.iter().map(|&rounding| Modifier::Rounding(rounding)));
        all.extend(Scope::ALL.iter().map(|&scope| Modifier::Scope(scope)));
        for modifier in all {
            assert_eq!(Modifier::from_text(modifier.text().unwrap()), Some(modifier));
        }
        assert_eq!(
            Modifier::from_text("m16n8k16"),
            Some(Modifier::Shape(Shape { m: 16, n: 8, k: 16 }))
        );
        assert_eq!(Modifier::from_text("nonsense"), None);
    }
}
