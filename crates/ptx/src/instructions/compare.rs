//! Comparison and selection.

pub(super) const TABLE: &str = "\
setp.cmp{.ftz}.type             _d:.pred{|dq:.pred}, a, b
setp.cmp.bool{.ftz}.type        _d:.pred{|dq:.pred}, a, b, {!}c:.pred
  .cmp = .eq .ne .lt .le .gt .ge .equ .neu .ltu .leu .gtu .geu .num .nan
  .bool = .and .or .xor
  .type = .f16 .f16x2 .bf16 .bf16x2 .f32

setp.cmp.f64                    _d:.pred{|dq:.pred}, a, b
setp.cmp.bool.f64               _d:.pred{|dq:.pred}, a, b, {!}c:.pred
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

set.cmp{.ftz}.dtype.type        d:dtype, a, b
set.cmp.bool{.ftz}.dtype.type   d:dtype, a, b, {!}c:.pred
  .cmp = .eq .ne .lt .le .gt .ge .equ .neu .ltu .leu .gtu .geu .num .nan
  .bool = .and .or .xor
  .dtype = .u16 .s16 .u32 .s32 .f16 .f16x2 .bf16 .bf16x2 .f32
  .type = .f16 .f16x2 .bf16 .bf16x2 .f32 .f64

set.cmp.dtype.type              d:dtype, a, b
set.cmp.bool.dtype.type         d:dtype, a, b, {!}c:.pred
  .cmp = .eq .ne .lt .le .gt .ge .lo .ls .hi .hs
  .bool = .and .or .xor
  .dtype = .u32 .s32 .f16 .bf16 .f32
  .type = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64

selp.type                       d, a, b, {!}c:.pred
  .type = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64

slct{.ftz}.type.f32             d, a, b, c:.f32
slct.type.s32                   d, a, b, c:.s32
  .type = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64
";
