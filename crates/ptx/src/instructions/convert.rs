//! Conversion between types. Registers may be wider than the types named.

pub(super) const TABLE: &str = "\
cvt.dtype.atype                     d:~dtype, s:~atype
cvt.sat.u8.not_u8                   d:~.u8, s:~not_u8
cvt.sat.u16.not_u16                 d:~.u16, s:~not_u16
cvt.sat.u32.not_u32                 d:~.u32, s:~not_u32
cvt.sat.u64.signed                  d:~.u64, s:~signed
cvt.sat.s8.not_s8                   d:~.s8, s:~not_s8
cvt.sat.s16.not_s16                 d:~.s16, s:~not_s16
cvt.sat.s32.not_s32                 d:~.s32, s:~not_s32
cvt.sat.s64.u64                     d:~.s64, s:~.u64
  .dtype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64
  .atype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64
  .not_u8 = .u16 .u32 .u64 .s8 .s16 .s32 .s64
  .not_u16 = .u32 .u64 .s8 .s16 .s32 .s64
  .not_u32 = .u64 .s8 .s16 .s32 .s64
  .signed = .s8 .s16 .s32 .s64
  .not_s8 = .u8 .u16 .u32 .u64 .s16 .s32 .s64
  .not_s16 = .u16 .u32 .u64 .s32 .s64
  .not_s32 = .u32 .u64 .s64

cvt.rnd{.ftz}{.sat}.f32.atype       d:~.f32, a:~atype
cvt.rnd{.sat}.wtype.atype           d:~wtype, a:~atype
cvt.rnd.bf16.btype                  d:.bf16, a:btype    @sm_90
  .rnd = .rn .rz .rm .rp
  .wtype = .f16 .f64
  .atype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64
  .btype = .u16 .u32 .u64 .s16 .s32 .s64

cvt.irnd{.ftz}{.sat}.dtype.f32      d:~dtype, a:~.f32
cvt.irnd{.sat}.dtype.wtype          d:~dtype, a:~wtype
cvt.irnd.btype.bf16                 d:btype, a:.bf16    @sm_90
  .irnd = .rni .rzi .rmi .rpi
  .wtype = .f16 .f64
  .dtype = .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64
  .btype = .u16 .u32 .u64 .s16 .s32 .s64

cvt{.irnd}{.sat}.f16.f16            d:~.f16, a:~.f16
cvt{.irnd}.bf16.bf16                d:.bf16, a:.bf16    @sm_90
cvt{.irnd}{.ftz}{.sat}.f32.f32      d:~.f32, a:~.f32
cvt{.irnd}{.sat}.f64.f64            d:~.f64, a:~.f64
  .irnd = .rni .rzi .rmi .rpi

cvt{.ftz}{.sat}.f32.f16             d:~.f32, a:~.f16
cvt{.rnd}.f32.bf16                  d:.f32, a:.bf16     @7.1
cvt{.rnd}.ftz.f32.bf16              d:.f32, a:.bf16     @sm_90
cvt{.sat}.f64.f16                   d:~.f64, a:~.f16
cvt{.rnd}.f64.bf16                  d:.f64, a:.bf16     @sm_90
cvt{.ftz}{.sat}.f64.f32             d:~.f64, a:~.f32
cvt{.rnd}.bf16.f16                  d:.bf16, a:.f16     @sm_90
cvt{.rnd}.f16.bf16                  d:.f16, a:.bf16     @sm_90
  .rnd = .rn .rz .rm .rp

cvt.rnd{.ftz}{.sat}.f32.f64         d:~.f32, a:~.f64
cvt.rnd{.sat}.f16.f64               d:~.f16, a:~.f64
cvt.rnd{.ftz}{.sat}.f16.f32         d:~.f16, a:~.f32
cvt.nrnd.relu.f16.f32               d:~.f16, a:~.f32
cvt.nrnd{.relu}.satfinite.f16.f32   d:~.f16, a:~.f32      @8.1/sm_70
cvt.rnd{.ftz}.bf16.f32              d:.bf16, a:.f32
cvt.nrnd.relu.bf16.f32              d:.bf16, a:.f32
cvt.nrnd{.relu}.satfinite.bf16.f32  d:.bf16, a:.f32     @8.1
cvt.rnd.bf16.f64                    d:.bf16, a:.f64     @sm_90
cvt.rnd.pzo.f16.f32                 d:~.f16, a:~.f32    @9.4/sm_107f
cvt.nrnd{.relu}{.satfinite}.pzo.f16.f32    d:~.f16, a:~.f32   @9.4/sm_107f
cvt.rnd{.ftz}.pzo.bf16.f32          d:.bf16, a:.f32     @9.4/sm_107f
cvt.nrnd{.relu}{.satfinite}.pzo.bf16.f32   d:.bf16, a:.f32    @9.4/sm_107f
  .rnd = .rn .rz .rm .rp
  .nrnd = .rn .rz

cvt.rnd{.relu}{.satfinite}.dtype.f32   d:dtype, a:.f32, b:.f32          @sm_80
cvt.rnd{.relu}{.anyfinite}.pzo.f16x2.f32  d:~.f16x2, a:~.f32, b:~.f32   @9.4/sm_107f
cvt.rnd{.relu}{.anyfinite}.pzo.bf16x2.f32 d:.bf16x2, a:.f32, b:.f32     @9.4/sm_107f
cvt.rs{.relu}{.satfinite}.dtype.f32    d:dtype, a:.f32, b:.f32, reg:.b32  @8.7/sm_100a|sm_103a|sm_107a
  .rnd = .rn .rz
  .satfinite = .satfinite@8.1
  .anyfinite = .satfinite
  .dtype = .f16x2 .bf16x2

cvt.rna{.satfinite}.tf32.f32        d:.tf32, a:.f32       @sm_80
cvt.rnd{.finite}{.relu}.tf32.f32    d:.tf32, a:.f32       @sm_90
cvt.rnd{.finite}{.relu}.pzo.tf32.f32  d:.tf32, a:.f32     @9.4/sm_107f
  .rnd = .rn .rz
  .satfinite = .satfinite@8.1
  .finite = .satfinite@sm_100

cvt.rn.satfinite{.relu}.dtype.f32      d:dtype, a:.f32, b:.f32          @8.1/sm_89
cvt.rn.satfinite{.relu}.dtype.f16x2    d:dtype, a:.f16x2                @8.1/sm_89
cvt.rn.satfinite{.relu}.dtype.bf16x2   d:dtype, a:.bf16x2               @9.1/sm_100f|sm_110f|sm_120f
cvt.rn{.relu}.f16x2.dtype              d:.f16x2, a:dtype                @8.1/sm_89
cvt.rn.satfinite{.relu}.dtype.f32      d:dtype, a:.f32, b:.f32          @sm_90
cvt.rn.satfinite{.relu}.dtype.f16x2    d:dtype, a:.f16x2                @sm_90
cvt.rn{.relu}.f16x2.dtype              d:.f16x2, a:dtype                @sm_90
cvt.rn{.relu}{.satfinite}.bf16x2.dtype d:.bf16x2, a:dtype               @9.2/sm_100f|sm_110f|sm_120f
cvt.rn{.relu}{.satfinite}.scaled::n2::ue8m0.bf16x2.dtype   d:.bf16x2, a:dtype, reg:.b16   @9.2/sm_100f|sm_110f|sm_120f
  .dtype = .e4m3x2 .e5m2x2

cvt.rn.satfinite{.relu}.dtype.f32      d:dtype, a:.f32, b:.f32
cvt.rn.satfinite{.relu}.dtype.atype    d:dtype, a:atype                 @9.1
cvt.rn{.relu}.f16x2.dtype              d:.f16x2, a:dtype
cvt.rn{.relu}{.satfinite}.bf16x2.dtype d:.bf16x2, a:dtype               @9.2
cvt.rn{.relu}{.satfinite}.scaled::n2::ue8m0.bf16x2.dtype   d:.bf16x2, a:dtype, reg:.b16   @9.2
  .dtype = .e2m3x2@sm_100f|sm_110f|sm_120f .e3m2x2@sm_100f|sm_110f|sm_120f .e2m1x2@sm_100f|sm_110f|sm_120f
  .atype = .f16x2 .bf16x2

cvt.rn.satfinite{.relu}{.scaled}.s2f6x2.f32      d:.s2f6x2, a:.f32, b:.f32, reg:.b16?scaled   @9.1/sm_100a|sm_103a|sm_107a|sm_110a|sm_120a|sm_121a
cvt.rn.satfinite{.relu}{.scaled}.s2f6x2.bf16x2   d:.s2f6x2, a:.bf16x2, reg:.b16?scaled        @9.1/sm_100a|sm_103a|sm_107a|sm_110a|sm_120a|sm_121a
cvt.rn{.relu}{.satfinite}{.scaled}.bf16x2.s2f6x2  d:.bf16x2, a:.s2f6x2, reg:.b16?scaled        @9.1/sm_100a|sm_103a|sm_107a|sm_110a|sm_120a|sm_121a
  .scaled = .scaled::n2::ue8m0

cvt.rz.satfinite{.relu}{.pzo}{.alike}.dtype.f32      d:dtype, a:.f32, b:.f32, reg:.ue8m0?alike   @9.4/sm_107f
cvt.rz.satfinite{.relu}{.pzo}{.alike}.dtype.atype    d:dtype, a:atype, reg:.ue8m0?alike          @9.4/sm_107f
cvt.rn.satfinite{.relu}.pzo.dtype.f32                d:dtype, a:.f32, b:.f32                  @9.4/sm_107f
cvt.rn.satfinite{.relu}.pzo.dtype.atype              d:dtype, a:atype                         @9.4/sm_107f
cvt.rn.satfinite{.relu}{.pzo}.scaled::n1::ue8m0.dtype.f32     d:dtype, a:.f32, b:.f32, reg:.ue8m0   @9.4/sm_107f
cvt.rn.satfinite{.relu}{.pzo}.scaled::n1::ue8m0.dtype.atype   d:dtype, a:atype, reg:.ue8m0   @9.4/sm_107f
  .alike = .scaled::n1::ue8m0
  .dtype = .e4m3x2 .e5m2x2 .e2m3x2 .e3m2x2 .e2m1x2
  .atype = .f16x2 .bf16x2

cvt.rnd{.satfinite}.ue5m3x2.f32        d:.ue5m3x2, a:.f32, b:.f32       @9.4/sm_107f
cvt.rnd{.satfinite}.ue5m3x2.atype      d:.ue5m3x2, a:atype              @9.4/sm_107f
cvt.nrnd{.satfinite}.scaled::n1::ue8m0.ue5m3x2.f32     d:.ue5m3x2, a:.f32, b:.f32, reg:.ue8m0   @9.4/sm_107f
cvt.nrnd{.satfinite}.scaled::n1::ue8m0.ue5m3x2.atype   d:.ue5m3x2, a:atype, reg:.ue8m0   @9.4/sm_107f
cvt.rn.f16x2.ue5m3x2                   d:.f16x2, a:.ue5m3x2             @9.4/sm_107f
cvt.rn{.satfinite}{.scaled}.bf16x2.ue5m3x2   d:.bf16x2, a:.ue5m3x2, reg:.b16?scaled   @9.4/sm_107f
  .rnd = .rn .rz .rp
  .nrnd = .rn .rz
  .atype = .f16x2 .bf16x2
  .scaled = .scaled::n2::ue8m0

cvt.rs{.relu}.satfinite.dtype.f32   d:dtype, a:4x.f32, reg:.b32           @8.7/sm_100a|sm_103a|sm_107a
  .dtype = .e4m3x4 .e5m2x4 .e2m3x4 .e3m2x4 .e2m1x4

cvt.rnd{.satfinite}.ue8m0x2.f32     d:.ue8m0x2, a:.f32, b:.f32          @sm_100f|sm_110f|sm_120f
cvt.rnd{.satfinite}.ue8m0x2.bf16x2  d:.ue8m0x2, a:.bf16x2               @sm_100f|sm_110f|sm_120f
cvt.rn.bf16x2.ue8m0x2               d:.bf16x2, a:.ue8m0x2               @sm_100f|sm_110f|sm_120f
  .rnd = .rz .rp

cvt.pack.sat.dtype.s32              d:.u32, a:.s32, b:.s32              @6.5/sm_72
cvt.pack.sat.btype.s32.b32          d:.u32, a:.s32, b:.s32, c:.b32      @6.5/sm_72
cvt.pack.sat.ctype.s32.b32          d:.u32, a:.s32, b:.s32, c:.b32      @6.5/sm_75
  .dtype = .u16 .s16
  .btype = .u8 .s8
  .ctype = .u2 .s2 .u4 .s4
";
