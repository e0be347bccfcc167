//! What the lanes of a warp do together.

pub(super) const TABLE: &str = "\
shfl.sync.mode.b32        d{|p:.pred}, a, b:.b32, c:.b32, mask:.u32   @5.1/sm_30
shfl.mode.b32             d{|p:.pred}, a, b:.b32, c:.b32              @3.0/sm_30<6.4/sm_70
  .mode = .up .down .bfly .idx

vote.sync.mode.pred       d, {!}a:.pred, mask:.u32         @5.1/sm_30
vote.sync.ballot.b32      d, {!}a:.pred, mask:.u32         @5.1/sm_30
vote.mode.pred            d, {!}a:.pred                    @<6.4/sm_70
vote.ballot.b32           d, {!}a:.pred                    @<6.4/sm_70
  .mode = .all .any .uni

match.any.sync.b32        d:.u32, a:.b32, mask:.u32            @sm_70
match.all.sync.b32        _d:.u32{|p:.pred}, a:.b32, mask:.u32  @sm_70
match.any.sync.b64        d:.u32, a:.b64, mask:.u32            @sm_70
match.all.sync.b64        _d:.u32{|p:.pred}, a:.b64, mask:.u32  @sm_70

activemask.b32            d                        @6.2/sm_30

redux.sync.op.type        d, a, mask:.u32                      @sm_80
redux.sync.logic.b32      d:.u32, a:.u32, mask:.u32            @sm_80
redux.sync.minmax{.abs}{.NaN}.f32   d, a, mask:.u32            @sm_100f
  .op = .add .min .max
  .type = .u32 .s32
  .logic = .and .or .xor
  .minmax = .min .max

elect.sync                _d:.b32|p:.pred, mask:.u32           @8.0/sm_90
";
