//! Conversion between types. Registers may be wider than the types named.

pub(super) const TABLE: &str = "\
cvt{.sat}.dtype.atype               d:~dtype, s:~atype
  .dtype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64
  .atype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64

cvt.rnd{.ftz}{.sat}.dtype.atype     d:~dtype, a:~atype
  .rnd = .rn .rz .rm .rp
  .dtype = .f16 .bf16 .f32 .f64
  .atype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64

cvt.irnd{.ftz}{.sat}.dtype.atype    d:~dtype, a:~atype
  .irnd = .rni .rzi .rmi .rpi
  .dtype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64
  .atype = .f16 .bf16 .f32 .f64

cvt{.irnd}{.ftz}{.sat}.f16.f16      d:~.f16, a:~.f16
cvt{.irnd}{.ftz}{.sat}.bf16.bf16    d:~.bf16, a:~.bf16
cvt{.irnd}{.ftz}{.sat}.f32.f32      d:~.f32, a:~.f32
cvt{.irnd}{.sat}.f64.f64            d:~.f64, a:~.f64
  .irnd = .rni .rzi .rmi .rpi

cvt{.ftz}{.sat}.f32.atype           d:~.f32, a:~atype
cvt{.ftz}{.sat}.f64.wtype           d:~.f64, a:~wtype
cvt{.rnd}.bf16.f16                  d:~.bf16, a:~.f16
cvt{.rnd}.f16.bf16                  d:~.f16, a:~.bf16
  .atype = .f16 .bf16
  .wtype = .f16 .bf16 .f32
  .rnd = .rn .rz .rm .rp

cvt.rnd{.ftz}{.sat}.f32.f64         d:~.f32, a:~.f64
cvt.rnd{.ftz}{.sat}.f16.atype       d:~.f16, a:~atype
cvt.rnd{.relu}{.satfinite}.f16.f32  d:~.f16, a:~.f32
cvt.rnd{.relu}{.satfinite}.bf16.f32 d:~.bf16, a:~.f32
cvt.rnd.bf16.f64                    d:~.bf16, a:~.f64
  .rnd = .rn .rz .rm .rp
  .atype = .f32 .f64

cvt.rnd{.relu}{.satfinite}.dtype.f32   d:dtype, a:.f32, b:.f32
cvt.rs{.relu}{.satfinite}.dtype.f32    d:dtype, a:.f32, b:.f32, c:.b32
  .rnd = .rn .rz
  .dtype = .f16x2 .bf16x2

cvt.rna{.satfinite}.tf32.f32        d:.tf32, a:.f32
cvt.rnd{.satfinite}{.relu}.tf32.f32 d:.tf32, a:.f32
  .rnd = .rn .rz

cvt.rn.satfinite{.relu}.dtype.f32      d:dtype, a:.f32, b:.f32
cvt.rn.satfinite{.relu}.dtype.atype    d:dtype, a:atype
cvt.rn{.relu}{.satfinite}.wtype.dtype  d:wtype, a:dtype
cvt.rn{.satfinite}{.relu}.scaled::n2::ue8m0.wtype.dtype   d:wtype, a:dtype, b:.b16
  .dtype = .e4m3x2 .e5m2x2 .e2m3x2 .e3m2x2 .e2m1x2
  .atype = .f16x2 .bf16x2
  .wtype = .f16x2 .bf16x2

cvt.rs{.relu}.satfinite.dtype.f32   d:dtype, a:4x.f32, b:.b32
  .dtype = .e4m3x4 .e5m2x4 .e2m3x4 .e3m2x4 .e2m1x4

cvt.rnd{.satfinite}.ue8m0x2.f32     d:.ue8m0x2, a:.f32, b:.f32
cvt.rnd{.satfinite}.ue8m0x2.bf16x2  d:.ue8m0x2, a:.bf16x2
cvt.rn.bf16x2.ue8m0x2               d:.bf16x2, a:.ue8m0x2
  .rnd = .rz .rp

cvt.pack.sat.dtype.s32              d:.u32, a:.s32, b:.s32
cvt.pack.sat.ctype.s32.b32          d:.u32, a:.s32, b:.s32, c:.b32
  .dtype = .u16 .s16
  .ctype = .u2 .s2 .u4 .s4 .u8 .s8
";
