//! Textures and surfaces: names, shapes, and the number of coordinates.

pub(super) const TABLE: &str = "\
tex.geom.v4.dtype.ctype         d:4x~dtype{|p:.pred@7.1/sm_60}, texture{, offset@4.3/sm_30}
tex.flat.v4.dtype.f32           d:4x~dtype{|p:.pred@7.1/sm_60}, texture, c:.f32                              @4.3/sm_30
tex.flat.v4.dtype.f32           d:4x~dtype{|p:.pred@7.1/sm_60}, texture, offset, c:.f32                      @4.3/sm_30
tex.base.geom.v4.dtype.ctype    d:4x~dtype{|p:.pred@7.1/sm_60}, texture{, offset@4.3/sm_30}                  @3.1
tex.base.flat.v4.dtype.f32      d:4x~dtype{|p:.pred@7.1/sm_60}, texture, c:.f32                              @4.3/sm_30
tex.base.flat.v4.dtype.f32      d:4x~dtype{|p:.pred@7.1/sm_60}, texture, offset, c:.f32                      @4.3/sm_30
tex.level.geom.v4.dtype.ctype   d:4x~dtype{|p:.pred@7.1/sm_60}, texture, lod:ctype{, offset@4.3/sm_30}
tex.level.flat.v4.dtype.f32     d:4x~dtype{|p:.pred@7.1/sm_60}, texture, lod:.f32, c:.f32                    @4.3/sm_30
tex.level.flat.v4.dtype.f32     d:4x~dtype{|p:.pred@7.1/sm_60}, texture, lod:.f32, offset, c:.f32            @4.3/sm_30
tex.grad.geom.v4.dtype.ctype    d:4x~dtype{|p:.pred@7.1/sm_60}, texture, gradient, gradient{, offset@4.3/sm_30}  @3.1
tex.grad.flat.v4.dtype.f32      d:4x~dtype{|p:.pred@7.1/sm_60}, texture, gradient, gradient, c:.f32              @4.3/sm_30
tex.grad.flat.v4.dtype.f32      d:4x~dtype{|p:.pred@7.1/sm_60}, texture, gradient, gradient, offset, c:.f32      @4.3/sm_30
tex{.base}.cgeom.v4.dtype.f32   d:4x~dtype{|p:.pred@7.1/sm_60}, texture{, c:.f32@4.3/sm_30}                  @3.0
tex.level.cgeom.v4.dtype.f32    d:4x~dtype{|p:.pred@7.1/sm_60}, texture, lod:.f32{, c:.f32@4.3/sm_30}        @3.0
tex.grad.cgeom.v4.dtype.f32     d:4x~dtype{|p:.pred@7.1/sm_60}, texture, gradient, gradient                      @4.3
tex{.base}.msgeom.v4.dtype.s32  d:4x~dtype{|p:.pred@7.1/sm_60}, texture                                      @3.2/sm_30
tex.geom.v2.f16x2.ctype         d:2x.f16x2{|p:.pred@7.1/sm_60}, texture{, offset@4.3/sm_30}                 @4.2/sm_53
tex.flat.v2.f16x2.f32           d:2x.f16x2{|p:.pred@7.1/sm_60}, texture, c:.f32                             @4.3/sm_53
tex.flat.v2.f16x2.f32           d:2x.f16x2{|p:.pred@7.1/sm_60}, texture, offset, c:.f32                     @4.3/sm_53
tex.base.geom.v2.f16x2.ctype    d:2x.f16x2{|p:.pred@7.1/sm_60}, texture{, offset@4.3/sm_30}                 @4.2/sm_53
tex.base.flat.v2.f16x2.f32      d:2x.f16x2{|p:.pred@7.1/sm_60}, texture, c:.f32                             @4.3/sm_53
tex.base.flat.v2.f16x2.f32      d:2x.f16x2{|p:.pred@7.1/sm_60}, texture, offset, c:.f32                     @4.3/sm_53
tex.level.geom.v2.f16x2.ctype   d:2x.f16x2{|p:.pred@7.1/sm_60}, texture, lod:ctype{, offset@4.3/sm_30}      @4.2/sm_53
tex.level.flat.v2.f16x2.f32     d:2x.f16x2{|p:.pred@7.1/sm_60}, texture, lod:.f32, c:.f32                   @4.3/sm_53
tex.level.flat.v2.f16x2.f32     d:2x.f16x2{|p:.pred@7.1/sm_60}, texture, lod:.f32, offset, c:.f32           @4.3/sm_53
tex.grad.geom.v2.f16x2.ctype    d:2x.f16x2{|p:.pred@7.1/sm_60}, texture, gradient, gradient{, offset@4.3/sm_30} @4.2/sm_53
tex.grad.flat.v2.f16x2.f32      d:2x.f16x2{|p:.pred@7.1/sm_60}, texture, gradient, gradient, c:.f32             @4.3/sm_53
tex.grad.flat.v2.f16x2.f32      d:2x.f16x2{|p:.pred@7.1/sm_60}, texture, gradient, gradient, offset, c:.f32     @4.3/sm_53
tex{.base}.cgeom.v2.f16x2.f32   d:2x.f16x2{|p:.pred@7.1/sm_60}, texture{, c:.f32@4.3/sm_30}                 @4.2/sm_53
tex.level.cgeom.v2.f16x2.f32    d:2x.f16x2{|p:.pred@7.1/sm_60}, texture, lod:.f32{, c:.f32@4.3/sm_30}       @4.2/sm_53
tex.grad.cgeom.v2.f16x2.f32     d:2x.f16x2{|p:.pred@7.1/sm_60}, texture, gradient, gradient                     @4.3
tex{.base}.msgeom.v2.f16x2.s32  d:2x.f16x2{|p:.pred@7.1/sm_60}, texture                                     @4.2/sm_53
  .geom = .1d .2d .3d .a1d .a2d
  .flat = .1d .2d .a1d .a2d
  .cgeom = .cube .acube
  .msgeom = .2dms .a2dms
  .dtype = .u32 .s32 .f16@4.2/sm_53 .f32
  .ctype = .s32 .f32

tld4.comp.geom.v4.dtype.f32          d:4x~dtype{|p:.pred@7.1/sm_60}, texture{, offset@4.3/sm_30}{, c:.f32@4.3/sm_30}
tld4.comp.cgeom.v4.dtype.f32         d:4x~dtype{|p:.pred@7.1/sm_60}, texture{, c:.f32@4.3/sm_30}   @3.0
  .comp = .r .g .b .a
  .geom = .2d .a2d@4.3/sm_30
  .cgeom = .cube@4.3/sm_30 .acube@4.3/sm_30
  .dtype = .u32 .s32 .f32

txq.what.b32                         d, handle
txq.handle_only.b32                  d, [a]               @3.1
txq.level.size.b32                   d, handle, a:.u32    @4.3/sm_30
  .what = .width .height .depth .channel_data_type .channel_order .normalized_coords .array_size@4.1 .num_mipmap_levels@4.1 .num_samples@4.1/sm_30 .memory_layout@4.2 .filter_mode .addr_mode_0 .addr_mode_1 .addr_mode_2
  .handle_only = .force_unnormalized_coords
  .size = .width .height .depth

suld.b.geom{.vec}.type.clamp         d:vec~type, texture
  .geom = .1d .2d .3d@3.0 .a1d@3.0 .a2d@3.0
  .vec = .v2 .v4
  .type = .b8 .b16 .b32 .b64
  .clamp = .trap .clamp .zero

sust.b.geom{.vec}.type.clamp         texture, b:vec~type
sust.p.pgeom{.vec}.b32.clamp         texture, b:vec~.b32
  .geom = .1d .2d .3d@3.0 .a1d@3.0 .a2d@3.0
  .pgeom = .1d .2d .3d@3.0 .a1d@4.1/sm_30 .a2d@4.1/sm_30
  .vec = .v2 .v4
  .type = .b8 .b16 .b32 .b64
  .clamp = .trap .clamp .zero

sured.b.add.geom.atype.clamp         texture, b
sured.b.minmax.geom.type.clamp       texture, b
sured.b.logic.geom.b32.clamp         texture, b
sured.p.op.geom.b32.clamp            texture, b
  .minmax = .min .max
  .atype = .u32 .s32 .u64
  .logic = .and .or
  .op = .add .min .max .and .or
  .geom = .1d .2d .3d@3.0
  .type = .u32 .s32 .u64@8.1/sm_50 .s64@8.1/sm_50
  .clamp = .trap .clamp .zero

suq.what.b32                         d, handle
  .what = .width .height .depth .channel_data_type .channel_order .array_size@4.1 .memory_layout@4.2
";
