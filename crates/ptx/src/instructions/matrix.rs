//! Matrices: ldmatrix, stmatrix, mma (dense and sparse) and wmma of a warp, wgmma of four. Of tcgen05
//! only the names are known.

pub(super) const TABLE: &str = "\
ldmatrix.sync.aligned.m8n8.x1{.trans}{.space}.b16   d:1x.b32, [a]   @6.5/sm_75
ldmatrix.sync.aligned.m8n8.x2{.trans}{.space}.b16   d:2x.b32, [a]   @6.5/sm_75
ldmatrix.sync.aligned.m8n8.x4{.trans}{.space}.b16   d:4x.b32, [a]   @6.5/sm_75
ldmatrix.sync.aligned.m8n16.x1{.space}.b8x16.packed         d:1x.b32, [a]   @sm_100f|sm_110f|sm_120f
ldmatrix.sync.aligned.m8n16.x2{.space}.b8x16.packed         d:2x.b32, [a]   @sm_100f|sm_110f|sm_120f
ldmatrix.sync.aligned.m8n16.x4{.space}.b8x16.packed         d:4x.b32, [a]   @sm_100f|sm_110f|sm_120f
ldmatrix.sync.aligned.m16n16.x1.trans{.space}.b8            d:2x.b32, [a]   @sm_100f|sm_110f|sm_120f
ldmatrix.sync.aligned.m16n16.x2.trans{.space}.b8            d:4x.b32, [a]   @sm_100f|sm_110f|sm_120f
ldmatrix.sync.aligned.m16n16.x1.trans{.space}.b8x16.packed  d:2x.b32, [a]   @sm_100f|sm_110f|sm_120f
ldmatrix.sync.aligned.m16n16.x2.trans{.space}.b8x16.packed  d:4x.b32, [a]   @sm_100f|sm_110f|sm_120f
  .packed = .b6x16_p32 .b4x16_p64
  .space = .shared .shared::cta

stmatrix.sync.aligned.m8n8.x1{.trans}{.space}.b16   [a], b:1x.b32   @sm_90
stmatrix.sync.aligned.m8n8.x2{.trans}{.space}.b16   [a], b:2x.b32   @sm_90
stmatrix.sync.aligned.m8n8.x4{.trans}{.space}.b16   [a], b:4x.b32   @sm_90
stmatrix.sync.aligned.m16n8.x1.trans{.space}.b8     [a], b:1x.b32   @sm_100f|sm_110f|sm_120f
stmatrix.sync.aligned.m16n8.x2.trans{.space}.b8     [a], b:2x.b32   @sm_100f|sm_110f|sm_120f
stmatrix.sync.aligned.m16n8.x4.trans{.space}.b8     [a], b:4x.b32   @sm_100f|sm_110f|sm_120f
  .space = .shared .shared::cta

movmatrix.sync.aligned.m8n8.trans.b16               d:.b32, reg:.b32   @7.8/sm_75

mma.sync.aligned.m8n8k4.alay.blay.f32.f16.f16.f16 d:8x.f32, a:2x.f16x2, b:2x.f16x2, c:4x.f16x2   @6.4/sm_70
mma.sync.aligned.m8n8k4.alay.blay.f32.f16.f16.f32 d:8x.f32, a:2x.f16x2, b:2x.f16x2, c:8x.f32   @6.4/sm_70
mma.sync.aligned.m8n8k4.alay.blay.f16.f16.f16.f16   d:4x.f16x2, a:2x.f16x2, b:2x.f16x2, c:4x.f16x2   @6.4/sm_70
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32    d:4x.f32, a:2x.f16x2, b:1x.f16x2, c:4x.f32   @6.5/sm_75
mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16    d:2x.f16x2, a:2x.f16x2, b:1x.f16x2, c:2x.f16x2   @6.5/sm_75
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32   d:4x.f32, a:4x.f16x2, b:2x.f16x2, c:4x.f32   @sm_80
mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16   d:2x.f16x2, a:4x.f16x2, b:2x.f16x2, c:2x.f16x2   @sm_80
mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32  d:4x.f32, a:2x.bf16x2, b:1x.bf16x2, c:4x.f32   @sm_80
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 d:4x.f32, a:4x.bf16x2, b:2x.bf16x2, c:4x.f32   @sm_80
mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32  d:4x.f32, a:2x.tf32, b:1x.tf32, c:4x.f32   @sm_80
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32  d:4x.f32, a:4x.tf32, b:2x.tf32, c:4x.f32   @sm_80
mma.sync.aligned.m8n8k4.row.col{.rnd}.f64.f64.f64.f64   d:2x.f64, a:1x.f64, b:1x.f64, c:2x.f64   @sm_80
mma.sync.aligned.m16n8k4.row.col{.rnd}.f64.f64.f64.f64  d:4x.f64, a:2x.f64, b:1x.f64, c:4x.f64   @sm_90
mma.sync.aligned.m16n8k8.row.col{.rnd}.f64.f64.f64.f64  d:4x.f64, a:4x.f64, b:2x.f64, c:4x.f64   @sm_90
mma.sync.aligned.m16n8k16.row.col{.rnd}.f64.f64.f64.f64 d:4x.f64, a:8x.f64, b:4x.f64, c:4x.f64   @sm_90
mma.sync.aligned.m8n8k16.row.col{.satfinite}.s32.byte.byte2.s32    d:2x.s32, a:1x.b32, b:1x.b32, c:2x.s32   @6.5/sm_75
mma.sync.aligned.m16n8k16.row.col{.satfinite}.s32.byte.byte2.s32   d:4x.s32, a:2x.b32, b:1x.b32, c:4x.s32   @sm_80
mma.sync.aligned.m16n8k32.row.col{.satfinite}.s32.byte.byte2.s32   d:4x.s32, a:4x.b32, b:2x.b32, c:4x.s32   @sm_80
mma.sync.aligned.m8n8k32.row.col{.satfinite}.s32.four.four2.s32    d:2x.s32, a:1x.b32, b:1x.b32, c:2x.s32   @6.5/sm_75
mma.sync.aligned.m16n8k32.row.col{.satfinite}.s32.four.four2.s32   d:4x.s32, a:2x.b32, b:1x.b32, c:4x.s32   @sm_80
mma.sync.aligned.m16n8k64.row.col{.satfinite}.s32.four.four2.s32   d:4x.s32, a:4x.b32, b:2x.b32, c:4x.s32   @sm_80
mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.bit.popc   d:2x.s32, a:1x.b32, b:1x.b32, c:2x.s32   @7.0/sm_75
mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.bit.popc  d:4x.s32, a:2x.b32, b:1x.b32, c:4x.s32   @sm_80
mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.bit.popc  d:4x.s32, a:4x.b32, b:2x.b32, c:4x.s32   @sm_80
mma.sync.aligned.m16n8k16.row.col.f32.eight.eight2.f32     d:4x.f32, a:2x.b32, b:1x.b32, c:4x.f32   @8.7/sm_89
mma.sync.aligned.m16n8k32.row.col.f32.eight.eight2.f32     d:4x.f32, a:4x.b32, b:2x.b32, c:4x.f32   @8.4/sm_89
mma.sync.aligned.m16n8k16.row.col.f16.eight.eight2.f16     d:2x.f16x2, a:2x.b32, b:1x.b32, c:2x.f16x2   @8.7/sm_89
mma.sync.aligned.m16n8k32.row.col.f16.eight.eight2.f16     d:2x.f16x2, a:4x.b32, b:2x.b32, c:2x.f16x2   @8.7/sm_89
mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32   d:4x.f32, a:2x.f16x2, b:2x.f16x2, c:4x.f32, reg:.b32, imm=0-3   @7.1/sm_80
mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16   d:2x.f16x2, a:2x.f16x2, b:2x.f16x2, c:2x.f16x2, reg:.b32, imm=0-3   @7.1/sm_80
mma.sp.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32   d:4x.f32, a:2x.bf16x2, b:2x.bf16x2, c:4x.f32, reg:.b32, imm=0-3   @7.1/sm_80
mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32   d:4x.f32, a:4x.f16x2, b:4x.f16x2, c:4x.f32, reg:.b32, imm=0-1   @7.1/sm_80
mma.sp.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16   d:2x.f16x2, a:4x.f16x2, b:4x.f16x2, c:2x.f16x2, reg:.b32, imm=0-1   @7.1/sm_80
mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32   d:4x.f32, a:4x.bf16x2, b:4x.bf16x2, c:4x.f32, reg:.b32, imm=0-1   @7.1/sm_80
mma.sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32   d:4x.f32, a:2x.tf32, b:2x.tf32, c:4x.f32, reg:.b32, imm=0-3   @7.1/sm_80
mma.sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32   d:4x.f32, a:4x.tf32, b:4x.tf32, c:4x.f32, reg:.b32, imm=0-1   @7.1/sm_80
mma.sp.sync.aligned.m16n8k32.row.col{.satfinite}.s32.byte.byte2.s32   d:4x.s32, a:2x.b32, b:2x.b32, c:4x.s32, reg:.b32, imm=0-1   @7.1/sm_80
mma.sp.sync.aligned.m16n8k64.row.col{.satfinite}.s32.byte.byte2.s32   d:4x.s32, a:4x.b32, b:4x.b32, c:4x.s32, reg:.b32, imm=0   @7.1/sm_80
mma.sp.sync.aligned.m16n8k64.row.col{.satfinite}.s32.four.four2.s32   d:4x.s32, a:2x.b32, b:2x.b32, c:4x.s32, reg:.b32, imm=0-1   @7.1/sm_80
mma.sp.sync.aligned.m16n8k128.row.col{.satfinite}.s32.four.four2.s32   d:4x.s32, a:4x.b32, b:4x.b32, c:4x.s32, reg:.b32, imm=0   @7.1/sm_80
mma.sp.sync.aligned.m16n8k64.row.col.f32.eight.eight2.f32   d:4x.f32, a:4x.b32, b:4x.b32, c:4x.f32, reg:.b32, imm=0   @8.4/sm_89
mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32   d:4x.f32, a:2x.f16x2, b:2x.f16x2, c:4x.f32, reg:.b32, imm=0-3   @8.5/sm_80
mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16   d:2x.f16x2, a:2x.f16x2, b:2x.f16x2, c:2x.f16x2, reg:.b32, imm=0-3   @8.5/sm_80
mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32   d:4x.f32, a:2x.bf16x2, b:2x.bf16x2, c:4x.f32, reg:.b32, imm=0-3   @8.5/sm_80
mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32   d:4x.f32, a:4x.f16x2, b:4x.f16x2, c:4x.f32, reg:.b32, imm=0-1   @8.5/sm_80
mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16   d:2x.f16x2, a:4x.f16x2, b:4x.f16x2, c:2x.f16x2, reg:.b32, imm=0-1   @8.5/sm_80
mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32   d:4x.f32, a:4x.bf16x2, b:4x.bf16x2, c:4x.f32, reg:.b32, imm=0-1   @8.5/sm_80
mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32   d:4x.f32, a:2x.tf32, b:2x.tf32, c:4x.f32, reg:.b32, imm=0-3   @8.5/sm_80
mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32   d:4x.f32, a:4x.tf32, b:4x.tf32, c:4x.f32, reg:.b32, imm=0-1   @8.5/sm_80
mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col{.satfinite}.s32.byte.byte2.s32   d:4x.s32, a:2x.b32, b:2x.b32, c:4x.s32, reg:.b32, imm=0-1   @8.5/sm_80
mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col{.satfinite}.s32.byte.byte2.s32   d:4x.s32, a:4x.b32, b:4x.b32, c:4x.s32, reg:.b32, imm=0   @8.5/sm_80
mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col{.satfinite}.s32.four.four2.s32   d:4x.s32, a:2x.b32, b:2x.b32, c:4x.s32, reg:.b32, imm=0-1   @8.5/sm_80
mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col{.satfinite}.s32.four.four2.s32   d:4x.s32, a:4x.b32, b:4x.b32, c:4x.s32, reg:.b32, imm=0   @8.5/sm_80
mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.eight.eight2.f32   d:4x.f32, a:4x.b32, b:4x.b32, c:4x.f32, reg:.b32, imm=0   @8.5/sm_89
mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.eight.eight2.f32   d:4x.f32, a:4x.b32, b:2x.b32, c:4x.f32   @sm_100f|sm_110f|sm_120f
mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f16.eight.eight2.f16   d:2x.f16x2, a:4x.b32, b:2x.b32, c:2x.f16x2   @8.7/sm_100f|sm_110f|sm_120f
mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.narrow.narrow2.f32   d:4x.f32, a:4x.b32, b:2x.b32, c:4x.f32   @sm_120f
mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f16.narrow.narrow2.f16   d:2x.f16x2, a:4x.b32, b:2x.b32, c:2x.f16x2   @sm_120f
mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale{.one}.f32.narrow.narrow2.f32.ue8m0   d:4x.f32, a:4x.b32, b:2x.b32, c:4x.f32, reg:.b32, ids:2x.u16=0-3+0-1, reg:.b32, ids:2x.u16=0-3+0-3   @sm_120f
mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale{.two}.f32.e2m1.e2m1.f32.ue8m0   d:4x.f32, a:4x.b32, b:2x.b32, c:4x.f32, reg:.b32, ids:2x.u16=0/2+0-1, reg:.b32, ids:2x.u16=0/2+0-3   @sm_120f
mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.two.f32.e2m1.e2m1.f32.ue8m0   d:4x.f32, a:4x.b32, b:2x.b32, c:4x.f32, reg:.b32, ids:2x.u16=0/2+0-1, reg:.b32, ids:2x.u16=0/2+0-3   @sm_120f
mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.fourfold.f32.e2m1.e2m1.f32.scale   d:4x.f32, a:4x.b32, b:2x.b32, c:4x.f32, reg:.b32, ids:2x.u16=0+0-1, reg:.b32, ids:2x.u16=0+0-3   @sm_120f
mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.eight.eight2.f32   d:4x.f32, a:4x.b32, b:4x.b32, c:4x.f32, reg:.b32, imm=0   @sm_100f|sm_110f|sm_120f
mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.narrow.narrow2.f32   d:4x.f32, a:4x.b32, b:4x.b32, c:4x.f32, reg:.b32, imm=0   @sm_120f
mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f16.narrow.narrow2.f16   d:2x.f16x2, a:4x.b32, b:4x.b32, c:2x.f16x2, reg:.b32, imm=0   @sm_120f
mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::mxf8f6f4.block_scale{.one}.f32.narrow.narrow2.f32.ue8m0   d:4x.f32, a:4x.b32, b:4x.b32, c:4x.f32, reg:.b32, imm=0, reg:.b32, ids:2x.u16=0-3+0-1, reg:.b32, ids:2x.u16=0-3+0-3   @sm_120f
mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale{.two}.f32.e2m1.e2m1.f32.ue8m0   d:4x.f32, a:4x.b32, b:4x.b32, c:4x.f32, reg:.b32, imm=0, reg:.b32, ids:2x.u16=0/2+0-1, reg:.b32, ids:2x.u16=0/2+0-3   @sm_120a|sm_121a
mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4nvf4.block_scale.two.f32.e2m1.e2m1.f32.ue8m0   d:4x.f32, a:4x.b32, b:4x.b32, c:4x.f32, reg:.b32, imm=0, reg:.b32, ids:2x.u16=0/2+0-1, reg:.b32, ids:2x.u16=0/2+0-3   @sm_120a|sm_121a
mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4nvf4.block_scale.fourfold.f32.e2m1.e2m1.f32.scale   d:4x.f32, a:4x.b32, b:4x.b32, c:4x.f32, reg:.b32, imm=0, reg:.b32, ids:2x.u16=0+0-1, reg:.b32, ids:2x.u16=0+0-3   @sm_120a|sm_121a
  .alay = .row .col
  .blay = .row .col
  .ctype = .f16 .f32
  .rnd = .rn .rz .rm .rp
  .byte = .s8 .u8
  .byte2 = .s8 .u8
  .four = .s4 .u4
  .four2 = .s4 .u4
  .bit = .xor .and@7.1/sm_80
  .eight = .e4m3 .e5m2
  .eight2 = .e4m3 .e5m2
  .narrow = .e4m3 .e5m2 .e3m2 .e2m3 .e2m1
  .narrow2 = .e4m3 .e5m2 .e3m2 .e2m3 .e2m1
  .one = .scale_vec::1X
  .two = .scale_vec::2X
  .fourfold = .scale_vec::4X
  .scale = .ue4m3 .ue8m0@9.1

wmma.load.op.sync.aligned.lay.shape{.space}.f16          d:8x.f16x2, [a]{, stride:.u32}   @6.3/sm_70
wmma.load.c.sync.aligned.lay.shape{.space}.f16           d:4x.f16x2, [a]{, stride:.u32}   @6.3/sm_70
wmma.load.c.sync.aligned.lay.shape{.space}.f32           d:8x.f32, [a]{, stride:.u32}   @6.3/sm_70
wmma.load.c.sync.aligned.lay.shape{.space}.s32           d:8x.s32, [a]{, stride:.u32}   @6.3/sm_72
wmma.load.op.sync.aligned.lay.m16n16k16{.space}.byte     d:2x.b32, [a]{, stride:.u32}   @6.3/sm_72
wmma.load.a.sync.aligned.lay.m8n32k16{.space}.byte       d:1x.b32, [a]{, stride:.u32}   @6.3/sm_72
wmma.load.b.sync.aligned.lay.m8n32k16{.space}.byte       d:4x.b32, [a]{, stride:.u32}   @6.3/sm_72
wmma.load.a.sync.aligned.lay.m32n8k16{.space}.byte       d:4x.b32, [a]{, stride:.u32}   @6.3/sm_72
wmma.load.b.sync.aligned.lay.m32n8k16{.space}.byte       d:1x.b32, [a]{, stride:.u32}   @6.3/sm_72
wmma.load.op.sync.aligned.lay.m16n16k16{.space}.bf16     d:4x.bf16x2, [a]{, stride:.u32}   @sm_80
wmma.load.a.sync.aligned.lay.m8n32k16{.space}.bf16       d:2x.bf16x2, [a]{, stride:.u32}   @sm_80
wmma.load.b.sync.aligned.lay.m8n32k16{.space}.bf16       d:8x.bf16x2, [a]{, stride:.u32}   @sm_80
wmma.load.a.sync.aligned.lay.m32n8k16{.space}.bf16       d:8x.bf16x2, [a]{, stride:.u32}   @sm_80
wmma.load.b.sync.aligned.lay.m32n8k16{.space}.bf16       d:2x.bf16x2, [a]{, stride:.u32}   @sm_80
wmma.load.op.sync.aligned.lay.m16n16k8{.space}.tf32      d:4x.b32, [a]{, stride:.u32}   @sm_80
wmma.load.c.sync.aligned.lay.m16n16k8{.space}.f32        d:8x.f32, [a]{, stride:.u32}   @sm_80
wmma.load.op.sync.aligned.lay.m8n8k4{.space}.f64         d:1x.f64, [a]{, stride:.u32}   @sm_80
wmma.load.c.sync.aligned.lay.m8n8k4{.space}.f64          d:2x.f64, [a]{, stride:.u32}   @sm_80
wmma.load.a.sync.aligned.row.m8n8k32{.space}.four          d:1x.b32, [a]{, stride:.u32}   @sm_75
wmma.load.a.sync.aligned.row.m8n8k128{.space}.b1          d:1x.b32, [a]{, stride:.u32}   @sm_75
wmma.load.b.sync.aligned.col.m8n8k32{.space}.four          d:1x.b32, [a]{, stride:.u32}   @sm_75
wmma.load.b.sync.aligned.col.m8n8k128{.space}.b1          d:1x.b32, [a]{, stride:.u32}   @sm_75
wmma.load.c.sync.aligned.lay.small{.space}.s32           d:2x.s32, [a]{, stride:.u32}   @sm_75
wmma.store.d.sync.aligned.lay.shape{.space}.f16          [a], b:4x.f16x2{, stride:.u32}   @6.3/sm_70
wmma.store.d.sync.aligned.lay.shape{.space}.f32          [a], b:8x.f32{, stride:.u32}   @6.3/sm_70
wmma.store.d.sync.aligned.lay.shape{.space}.s32          [a], b:8x.s32{, stride:.u32}   @6.3/sm_72
wmma.store.d.sync.aligned.lay.m16n16k8{.space}.f32       [a], b:8x.f32{, stride:.u32}   @sm_80
wmma.store.d.sync.aligned.lay.m8n8k4{.space}.f64         [a], b:2x.f64{, stride:.u32}   @sm_80
wmma.store.d.sync.aligned.lay.small{.space}.s32          [a], b:2x.s32{, stride:.u32}   @sm_75
wmma.mma.sync.aligned.lay.lay2.shape.f32.f32   d:8x.f32, a:8x.f16x2, b:8x.f16x2, c:8x.f32   @6.3/sm_70
wmma.mma.sync.aligned.lay.lay2.shape.f32.f32.satfinite   d:8x.f32, a:8x.f16x2, b:8x.f16x2, c:8x.f32   @6.3/sm_70<6.5
wmma.mma.sync.aligned.lay.lay2.shape.f32.f16   d:8x.f32, a:8x.f16x2, b:8x.f16x2, c:4x.f16x2   @6.3/sm_70
wmma.mma.sync.aligned.lay.lay2.shape.f32.f16.satfinite   d:8x.f32, a:8x.f16x2, b:8x.f16x2, c:4x.f16x2   @6.3/sm_70<6.5
wmma.mma.sync.aligned.lay.lay2.shape.f16.f32   d:4x.f16x2, a:8x.f16x2, b:8x.f16x2, c:8x.f32   @6.3/sm_70
wmma.mma.sync.aligned.lay.lay2.shape.f16.f32.satfinite   d:4x.f16x2, a:8x.f16x2, b:8x.f16x2, c:8x.f32   @6.3/sm_70<6.5
wmma.mma.sync.aligned.lay.lay2.shape.f16.f16   d:4x.f16x2, a:8x.f16x2, b:8x.f16x2, c:4x.f16x2   @6.3/sm_70
wmma.mma.sync.aligned.lay.lay2.shape.f16.f16.satfinite   d:4x.f16x2, a:8x.f16x2, b:8x.f16x2, c:4x.f16x2   @6.3/sm_70<6.5
wmma.mma.sync.aligned.lay.lay2.m16n16k16.s32.s8.s8.s32{.satfinite}   d:8x.s32, a:2x.b32, b:2x.b32, c:8x.s32   @6.3/sm_72
wmma.mma.sync.aligned.lay.lay2.m16n16k16.s32.u8.u8.s32{.satfinite}   d:8x.s32, a:2x.b32, b:2x.b32, c:8x.s32   @6.3/sm_72
wmma.mma.sync.aligned.lay.lay2.m8n32k16.s32.s8.s8.s32{.satfinite}    d:8x.s32, a:1x.b32, b:4x.b32, c:8x.s32   @6.3/sm_72
wmma.mma.sync.aligned.lay.lay2.m8n32k16.s32.u8.u8.s32{.satfinite}    d:8x.s32, a:1x.b32, b:4x.b32, c:8x.s32   @6.3/sm_72
wmma.mma.sync.aligned.lay.lay2.m32n8k16.s32.s8.s8.s32{.satfinite}    d:8x.s32, a:4x.b32, b:1x.b32, c:8x.s32   @6.3/sm_72
wmma.mma.sync.aligned.lay.lay2.m32n8k16.s32.u8.u8.s32{.satfinite}    d:8x.s32, a:4x.b32, b:1x.b32, c:8x.s32   @6.3/sm_72
wmma.mma.sync.aligned.lay.lay2.m16n16k16.f32.bf16.bf16.f32   d:8x.f32, a:4x.bf16x2, b:4x.bf16x2, c:8x.f32   @sm_80
wmma.mma.sync.aligned.lay.lay2.m8n32k16.f32.bf16.bf16.f32    d:8x.f32, a:2x.bf16x2, b:8x.bf16x2, c:8x.f32   @sm_80
wmma.mma.sync.aligned.lay.lay2.m32n8k16.f32.bf16.bf16.f32    d:8x.f32, a:8x.bf16x2, b:2x.bf16x2, c:8x.f32   @sm_80
wmma.mma.sync.aligned.lay.lay2.m16n16k8.f32.tf32.tf32.f32    d:8x.f32, a:4x.tf32, b:4x.tf32, c:8x.f32   @sm_80
wmma.mma.sync.aligned.lay.lay2.m8n8k4{.rnd}.f64.f64.f64.f64  d:2x.f64, a:1x.f64, b:1x.f64, c:2x.f64   @sm_80
wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32{.satfinite}   d:2x.s32, a:1x.b32, b:1x.b32, c:2x.s32   @sm_75
wmma.mma.sync.aligned.row.col.m8n8k32.s32.u4.u4.s32{.satfinite}   d:2x.s32, a:1x.b32, b:1x.b32, c:2x.s32   @sm_75
wmma.mma.bit.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32          d:2x.s32, a:1x.b32, b:1x.b32, c:2x.s32   @sm_75
  .op = .a .b
  .lay = .row .col
  .lay2 = .row .col
  .shape = .m16n16k16 .m8n32k16 .m32n8k16
  .small = .m8n8k32 .m8n8k128
  .space = .global .shared .shared::cta
  .byte = .s8 .u8
  .four = .s4 .u4
  .bit = .xor .and@7.1/sm_80
  .rnd = .rn .rz .rm .rp

wgmma.fence.sync{.aligned}   @sm_90a
wgmma.commit_group.sync{.aligned}   @sm_90a
wgmma.wait_group.sync{.aligned}                              imm=0-9223372036854775807   @sm_90a
wgmma.mma_async.sync{.aligned}.k16.f32.f16.f16   d:n/2x.f32, a:.u64, b:.u64, {!}p:.pred=0/1, imm=1/-1, imm=1/-1, imm=0/1, imm=0/1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.t16.f32.f16.f16   d:n/2x.f32, a:.u64, b:.u64, reg:.u32, imm=0-1, {!}p:.pred=0/1, imm=1/-1, imm=1/-1, imm=0/1, imm=0/1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.k16.f32.f16.f16   d:n/2x.f32, a:4x.b32, b:.u64, {!}p:.pred=0/1, imm=1/-1, imm=1/-1, imm=0/1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.t16.f32.f16.f16   d:n/2x.f32, a:4x.b32, b:.u64, reg:.u32, imm=0-1, {!}p:.pred=0/1, imm=1/-1, imm=1/-1, imm=0/1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.k16.f16.f16.f16   d:n/4x.f16x2, a:.u64, b:.u64, {!}p:.pred=0/1, imm=1/-1, imm=1/-1, imm=0/1, imm=0/1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.t16.f16.f16.f16   d:n/4x.f16x2, a:.u64, b:.u64, reg:.u32, imm=0-1, {!}p:.pred=0/1, imm=1/-1, imm=1/-1, imm=0/1, imm=0/1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.k16.f16.f16.f16   d:n/4x.f16x2, a:4x.b32, b:.u64, {!}p:.pred=0/1, imm=1/-1, imm=1/-1, imm=0/1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.t16.f16.f16.f16   d:n/4x.f16x2, a:4x.b32, b:.u64, reg:.u32, imm=0-1, {!}p:.pred=0/1, imm=1/-1, imm=1/-1, imm=0/1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.k16.f32.bf16.bf16   d:n/2x.f32, a:.u64, b:.u64, {!}p:.pred=0/1, imm=1/-1, imm=1/-1, imm=0/1, imm=0/1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.t16.f32.bf16.bf16   d:n/2x.f32, a:.u64, b:.u64, reg:.u32, imm=0-1, {!}p:.pred=0/1, imm=1/-1, imm=1/-1, imm=0/1, imm=0/1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.k16.f32.bf16.bf16   d:n/2x.f32, a:4x.b32, b:.u64, {!}p:.pred=0/1, imm=1/-1, imm=1/-1, imm=0/1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.t16.f32.bf16.bf16   d:n/2x.f32, a:4x.b32, b:.u64, reg:.u32, imm=0-1, {!}p:.pred=0/1, imm=1/-1, imm=1/-1, imm=0/1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.k8.f32.tf32.tf32   d:n/2x.f32, a:.u64, b:.u64, {!}p:.pred=0/1, imm=1/-1, imm=1/-1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.t8.f32.tf32.tf32   d:n/2x.f32, a:.u64, b:.u64, reg:.u32, imm=0-3, {!}p:.pred=0/1, imm=1/-1, imm=1/-1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.k8.f32.tf32.tf32   d:n/2x.f32, a:4x.b32, b:.u64, {!}p:.pred=0/1, imm=1/-1, imm=1/-1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.t8.f32.tf32.tf32   d:n/2x.f32, a:4x.b32, b:.u64, reg:.u32, imm=0-3, {!}p:.pred=0/1, imm=1/-1, imm=1/-1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.k32.f32.eight.eight2   d:n/2x.f32, a:.u64, b:.u64, {!}p:.pred=0/1, imm=1/-1, imm=1/-1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.t32.f32.eight.eight2   d:n/2x.f32, a:.u64, b:.u64, reg:.u32, imm=0, {!}p:.pred=0/1, imm=1/-1, imm=1/-1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.k32.f32.eight.eight2   d:n/2x.f32, a:4x.b32, b:.u64, {!}p:.pred=0/1, imm=1/-1, imm=1/-1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.t32.f32.eight.eight2   d:n/2x.f32, a:4x.b32, b:.u64, reg:.u32, imm=0, {!}p:.pred=0/1, imm=1/-1, imm=1/-1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.k32.f16.eight.eight2   d:n/4x.f16x2, a:.u64, b:.u64, {!}p:.pred=0/1, imm=1/-1, imm=1/-1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.t32.f16.eight.eight2   d:n/4x.f16x2, a:.u64, b:.u64, reg:.u32, imm=0, {!}p:.pred=0/1, imm=1/-1, imm=1/-1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.k32.f16.eight.eight2   d:n/4x.f16x2, a:4x.b32, b:.u64, {!}p:.pred=0/1, imm=1/-1, imm=1/-1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.t32.f16.eight.eight2   d:n/4x.f16x2, a:4x.b32, b:.u64, reg:.u32, imm=0, {!}p:.pred=0/1, imm=1/-1, imm=1/-1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.i32.s32.byte.byte2{.satfinite}   d:n/2x.s32, a:.u64, b:.u64, {!}p:.pred=0/1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.j32.s32.byte.byte2{.satfinite}   d:n/2x.s32, a:.u64, b:.u64, reg:.u32, imm=0, {!}p:.pred=0/1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.i32.s32.byte.byte2{.satfinite}   d:n/2x.s32, a:4x.b32, b:.u64, {!}p:.pred=0/1   @sm_90a
wgmma.mma_async.sp.sync{.aligned}.j32.s32.byte.byte2{.satfinite}   d:n/2x.s32, a:4x.b32, b:.u64, reg:.u32, imm=0, {!}p:.pred=0/1   @8.2/sm_90a
wgmma.mma_async.sync{.aligned}.k256.s32.b1.b1.and.popc   d:n/2x.s32, a:.u64, b:.u64, {!}p:.pred=0/1   @sm_90a
wgmma.mma_async.sync{.aligned}.k256.s32.b1.b1.and.popc   d:n/2x.s32, a:4x.b32, b:.u64, {!}p:.pred=0/1   @sm_90a
  .k8 = .m64n*k8
  .k16 = .m64n*k16
  .k32 = .m64n*k32
  .i32 = .m64n8k32 .m64n16k32 .m64n24k32 .m64n32k32 .m64n48k32 .m64n64k32 .m64n80k32 .m64n96k32 .m64n112k32 .m64n128k32 .m64n144k32 .m64n160k32 .m64n176k32 .m64n192k32 .m64n208k32 .m64n224k32 .m64n240k32 .m64n256k32
  .k256 = .m64n8k256 .m64n16k256 .m64n24k256 .m64n32k256 .m64n48k256 .m64n64k256 .m64n80k256 .m64n96k256 .m64n112k256 .m64n128k256 .m64n144k256 .m64n160k256 .m64n176k256 .m64n192k256 .m64n208k256 .m64n224k256 .m64n240k256 .m64n256k256
  .t8 = .m64n*k16
  .t16 = .m64n*k32
  .t32 = .m64n*k64
  .j32 = .m64n8k64 .m64n16k64 .m64n24k64 .m64n32k64 .m64n48k64 .m64n64k64 .m64n80k64 .m64n96k64 .m64n112k64 .m64n128k64 .m64n144k64 .m64n160k64 .m64n176k64 .m64n192k64 .m64n208k64 .m64n224k64 .m64n240k64 .m64n256k64
  .byte = .s8 .u8@8.4
  .byte2 = .s8 .u8@8.4
  .eight = .e4m3 .e5m2
  .eight2 = .e4m3 .e5m2

tcgen05.*                       any   @sm_100f|sm_110f
";
