//! Comparison and selection.

pub(super) const TABLE: &str = "\
setp.cmp{.ftz}.f32              _d:.pred{|dq:.pred}, a, b
setp.cmp.bool{.ftz}.f32         _d:.pred{|dq:.pred}, a, b, {!}c:.pred
setp.cmp.f64                    _d:.pred{|dq:.pred}, a, b
setp.cmp.bool.f64               _d:.pred{|dq:.pred}, a, b, {!}c:.pred
setp.cmp{.ftz}.f16              _d:.pred, a, b                           @4.2/sm_53
setp.cmp.bool{.ftz}.f16         _d:.pred, a, b, {!}c:.pred               @4.2/sm_53
setp.cmp{.ftz}.f16x2            _d:.pred{|dq:.pred}, a, b                  @4.2/sm_53
setp.cmp.bool{.ftz}.f16x2       _d:.pred{|dq:.pred}, a, b, {!}c:.pred      @4.2/sm_53
setp.cmp.bf16                   _d:.pred, a, b                           @sm_90
setp.cmp.bool.bf16              _d:.pred, a, b, {!}c:.pred               @sm_90
setp.cmp.bf16x2                 _d:.pred{|dq:.pred}, a, b                  @sm_90
setp.cmp.bool.bf16x2            _d:.pred{|dq:.pred}, a, b, {!}c:.pred      @sm_90
  .cmp = .eq .ne .lt .le .gt .ge .equ .neu .ltu .leu .gtu .geu .num .nan
  .bool = .and .or .xor

setp.cmp.type                   _d:.pred{|dq:.pred}, a, b
setp.cmp.bool.type              _d:.pred{|dq:.pred}, a, b, {!}c:.pred
  .cmp = .eq .ne .lt .le .gt .ge
  .bool = .and .or .xor
  .type = .s16 .s32 .s64

setp.cmp.type                   _d:.pred{|dq:.pred}, a, b
setp.cmp.bool.type              _d:.pred{|dq:.pred}, a, b, {!}c:.pred
  .cmp = .eq .ne .lt .le .gt .ge .lo .ls .hi .hs
  .bool = .and .or .xor
  .type = .u16 .u32 .u64

setp.cmp.type                   _d:.pred{|dq:.pred}, a, b
setp.cmp.bool.type              _d:.pred{|dq:.pred}, a, b, {!}c:.pred
  .cmp = .eq .ne
  .bool = .and .or .xor
  .type = .b16 .b32 .b64

set.cmp{.ftz}.dtype.f32         d:dtype, a, b
set.cmp.bool{.ftz}.dtype.f32    d:dtype, a, b, {!}c:.pred
set.cmp.bf16.f32                d:.bf16, a, b                            @sm_90
set.cmp.bool.bf16.f32           d:.bf16, a, b, {!}c:.pred                @sm_90
set.cmp.bf16.f64                d:.bf16, a, b                            @sm_90
set.cmp.bool.bf16.f64           d:.bf16, a, b, {!}c:.pred                @sm_90
set.cmp.dtype.f64               d:dtype, a, b
set.cmp.bool.dtype.f64          d:dtype, a, b, {!}c:.pred
set.cmp{.ftz}.htype.f16         d:htype, a, b                            @4.2/sm_53
set.cmp.bool{.ftz}.htype.f16    d:htype, a, b, {!}c:.pred                @4.2/sm_53
set.cmp{.ftz}.xtype.f16x2       d:xtype, a, b                            @4.2/sm_53
set.cmp.bool{.ftz}.xtype.f16x2  d:xtype, a, b, {!}c:.pred                @4.2/sm_53
set.cmp.bf16.f16                d:.bf16, a, b                            @sm_90
set.cmp.bool.bf16.f16           d:.bf16, a, b, {!}c:.pred                @sm_90
set.cmp.btype.bf16              d:btype, a, b                            @sm_90
set.cmp.bool.btype.bf16         d:btype, a, b, {!}c:.pred                @sm_90
set.cmp.ytype.bf16x2            d:ytype, a, b                            @sm_90
set.cmp.bool.ytype.bf16x2       d:ytype, a, b, {!}c:.pred                @sm_90
  .cmp = .eq .ne .lt .le .gt .ge .equ .neu .ltu .leu .gtu .geu .num .nan
  .bool = .and .or .xor
  .dtype = .u32 .s32 .f32 .f16@4.2/sm_53
  .htype = .f16 .u16@6.5 .s16@6.5 .u32@6.5 .s32@6.5
  .btype = .bf16 .u16 .s16 .u32 .s32
  .xtype = .f16x2 .u32@6.5 .s32@6.5
  .ytype = .bf16x2 .u32 .s32

set.cmp.dtype.type              d:dtype, a, b
set.cmp.bool.dtype.type         d:dtype, a, b, {!}c:.pred
  .cmp = .eq .ne .lt .le .gt .ge
  .bool = .and .or .xor
  .dtype = .u32 .s32 .f32 .f16@4.2/sm_53 .bf16@sm_90
  .type = .s16 .s32 .s64

set.cmp.dtype.type              d:dtype, a, b
set.cmp.bool.dtype.type         d:dtype, a, b, {!}c:.pred
  .cmp = .eq .ne .lt .le .gt .ge .lo .ls .hi .hs
  .bool = .and .or .xor
  .dtype = .u32 .s32 .f32 .f16@4.2/sm_53 .bf16@sm_90
  .type = .u16 .u32 .u64

set.cmp.dtype.type              d:dtype, a, b
set.cmp.bool.dtype.type         d:dtype, a, b, {!}c:.pred
  .cmp = .eq .ne
  .bool = .and .or .xor
  .dtype = .u32 .s32 .f32 .f16@4.2/sm_53 .bf16@sm_90
  .type = .b16 .b32 .b64

set.cmp.ptype                   d, a, b                                  @9.4/sm_107f
  .cmp = .eq .ne .lt .le .gt .ge
  .ptype = .s8x4 .s16x2

set.cmp.ptype                   d, a, b                                  @9.4/sm_107f
  .cmp = .eq .ne .lt .le .gt .ge .lo .ls .hi .hs
  .ptype = .u8x4 .u16x2

selp.type                       d, a, b, {!}c:.pred
  .type = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64

slct{.ftz}.type.f32             d, a, b, c:.f32
slct.type.s32                   d, a, b, c:.s32
  .type = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64
";
