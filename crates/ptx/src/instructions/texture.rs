//! Textures and surfaces. Their addresses are taken as written; only names and shapes are checked.

pub(super) const TABLE: &str = "\
tex{.level}.geom.v4.dtype.ctype      d:4x~dtype{|p:.pred}, texture{, any}{, any}{, any}
tex{.grad}.geom.v4.dtype.ctype       d:4x~dtype{|p:.pred}, texture{, any}{, any}{, any}{, any}
tex{.level}.geom.v2.f16x2.ctype      d:2x~.f16x2{|p:.pred}, texture{, any}{, any}{, any}
tex{.base}.geom.v4.dtype.ctype       d:4x~dtype{|p:.pred}, texture{, any}{, any}
  .level = .level
  .grad = .grad
  .base = .base
  .geom = .1d .2d .3d .a1d .a2d .cube .acube .2dms .a2dms
  .dtype = .u32 .s32 .f16 .f32
  .ctype = .s32 .f32

tld4.comp.geom.v4.dtype.f32          d:4x~dtype{|p:.pred}, texture{, any}{, any}
  .comp = .r .g .b .a
  .geom = .2d .a2d .cube .acube
  .dtype = .u32 .s32 .f32

txq.what.b32                         d, texture
txq.level.what.b32                   d, texture, a:.u32
  .what = .width .height .depth .channel_data_type .channel_order .normalized_coords .array_size .num_mipmap_levels .num_samples .force_unnormalized_coords .filter_mode .addr_mode_0 .addr_mode_1 .addr_mode_2

suld.b.geom{.vec}.type{.clamp}       d:vec~type, texture
  .geom = .1d .2d .3d .a1d .a2d
  .vec = .v2 .v4
  .type = .b8 .b16 .b32 .b64
  .clamp = .trap .clamp .zero

sust.b.geom{.vec}.type{.clamp}       texture, b:vec~type
sust.p.geom{.vec}.b32{.clamp}        texture, b:vec~.b32
  .geom = .1d .2d .3d .a1d .a2d
  .vec = .v2 .v4
  .type = .b8 .b16 .b32 .b64
  .clamp = .trap .clamp .zero

sured.b.op.geom.type{.clamp}         texture, b
sured.p.op.geom.b32{.clamp}          texture, b
  .op = .add .min .max .and .or
  .geom = .1d .2d .3d .a1d .a2d
  .type = .u32 .s32 .u64 .s64 .b32
  .clamp = .trap .clamp .zero

suq.what.b32                         d, texture
  .what = .width .height .depth .channel_data_type .channel_order .array_size .memory_layout
";
