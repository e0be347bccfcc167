//! Video instructions: on the bytes and halves of 32-bit registers, alone or all at once.

pub(super) const TABLE: &str = "\
vadd.dtype.atype.btype{.sat}              dvideo, video, video
vadd.dtype.atype.btype{.sat}{.second}     dvideo, video, video, video
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32
  .second = .add .min .max

vsub.dtype.atype.btype{.sat}              dvideo, video, video
vsub.dtype.atype.btype{.sat}{.second}     dvideo, video, video, video
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32
  .second = .add .min .max

vabsdiff.dtype.atype.btype{.sat}              dvideo, video, video
vabsdiff.dtype.atype.btype{.sat}{.second}     dvideo, video, video, video
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32
  .second = .add .min .max

vmin.dtype.atype.btype{.sat}              dvideo, video, video
vmin.dtype.atype.btype{.sat}{.second}     dvideo, video, video, video
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32
  .second = .add .min .max

vmax.dtype.atype.btype{.sat}              dvideo, video, video
vmax.dtype.atype.btype{.sat}{.second}     dvideo, video, video, video
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32
  .second = .add .min .max

vshl.dtype.atype.u32{.sat}.mode           dvideo, video, video
vshl.dtype.atype.u32{.sat}.mode{.second}  dvideo, video, video, video
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .mode = .clamp .wrap
  .second = .add .min .max

vshr.dtype.atype.u32{.sat}.mode           dvideo, video, video
vshr.dtype.atype.u32{.sat}.mode{.second}  dvideo, video, video, video
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .mode = .clamp .wrap
  .second = .add .min .max

vmad.dtype.atype.btype{.sat}{.scale}      dvideo, {-}video, {-}video, {-}video
vmad.dtype.atype.btype.po{.sat}{.scale}   dvideo, video, video, video
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32
  .scale = .shr7 .shr15

vset.atype.btype.cmp                      dvideo, video, video
vset.atype.btype.cmp{.second}             dvideo, video, video, video
  .atype = .u32 .s32
  .btype = .u32 .s32
  .cmp = .eq .ne .lt .le .gt .ge
  .second = .add .min .max

vadd2.dtype.atype.btype{.sat}   dvideo, lanes, lanes, lanes   @sm_30
vadd2.dtype.atype.btype.add      dvideo, lanes, lanes, lanes  @sm_30
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32

vsub2.dtype.atype.btype{.sat}   dvideo, lanes, lanes, lanes   @sm_30
vsub2.dtype.atype.btype.add      dvideo, lanes, lanes, lanes  @sm_30
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32

vavrg2.dtype.atype.btype{.sat}   dvideo, lanes, lanes, lanes  @sm_30
vavrg2.dtype.atype.btype.add      dvideo, lanes, lanes, lanes @sm_30
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32

vabsdiff2.dtype.atype.btype{.sat}   dvideo, lanes, lanes, lanes@sm_30
vabsdiff2.dtype.atype.btype.add      dvideo, lanes, lanes, lanes@sm_30
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32

vmin2.dtype.atype.btype{.sat}   dvideo, lanes, lanes, lanes   @sm_30
vmin2.dtype.atype.btype.add      dvideo, lanes, lanes, lanes  @sm_30
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32

vmax2.dtype.atype.btype{.sat}   dvideo, lanes, lanes, lanes   @sm_30
vmax2.dtype.atype.btype.add      dvideo, lanes, lanes, lanes  @sm_30
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32

vset2.atype.btype.cmp{.add}    dvideo, lanes, lanes, lanes    @sm_30
  .atype = .u32 .s32
  .btype = .u32 .s32
  .cmp = .eq .ne .lt .le .gt .ge

vadd4.dtype.atype.btype{.sat}   dvideo, lanes, lanes, lanes   @sm_30
vadd4.dtype.atype.btype.add      dvideo, lanes, lanes, lanes  @sm_30
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32

vsub4.dtype.atype.btype{.sat}   dvideo, lanes, lanes, lanes   @sm_30
vsub4.dtype.atype.btype.add      dvideo, lanes, lanes, lanes  @sm_30
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32

vavrg4.dtype.atype.btype{.sat}   dvideo, lanes, lanes, lanes  @sm_30
vavrg4.dtype.atype.btype.add      dvideo, lanes, lanes, lanes @sm_30
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32

vabsdiff4.dtype.atype.btype{.sat}   dvideo, lanes, lanes, lanes@sm_30
vabsdiff4.dtype.atype.btype.add      dvideo, lanes, lanes, lanes@sm_30
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32

vmin4.dtype.atype.btype{.sat}   dvideo, lanes, lanes, lanes   @sm_30
vmin4.dtype.atype.btype.add      dvideo, lanes, lanes, lanes  @sm_30
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32

vmax4.dtype.atype.btype{.sat}   dvideo, lanes, lanes, lanes   @sm_30
vmax4.dtype.atype.btype.add      dvideo, lanes, lanes, lanes  @sm_30
  .dtype = .u32 .s32
  .atype = .u32 .s32
  .btype = .u32 .s32

vset4.atype.btype.cmp{.add}    dvideo, lanes, lanes, lanes    @sm_30
  .atype = .u32 .s32
  .btype = .u32 .s32
  .cmp = .eq .ne .lt .le .gt .ge
";
