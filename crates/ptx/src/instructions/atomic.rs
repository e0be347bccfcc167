//! Atomic operations and fences.

pub(super) const TABLE: &str = "\
atom{.sem}{.scope}{.space}.add.addtype               _d, [a], b
atom{.sem}{.scope}{.space}.minmax.inttype            _d, [a], b
atom{.sem}{.scope}{.space}.logic.bittype             _d, [a], b
atom{.sem}{.scope}{.space}.exch.exchtype             _d, [a], b
atom{.sem}{.scope}{.space}.count.u32                 _d, [a], b
atom{.sem}{.scope}{.space}.cas.castype               _d, [a], b, c
atom{.sem}{.scope}{.space}.add.noftz.half            _d, [a], b
atom{.sem}{.scope}{.global}.add.hint.addtype         _d, [a], b, policy
atom{.sem}{.scope}{.global}.minmax.hint.inttype      _d, [a], b, policy
atom{.sem}{.scope}{.global}.logic.hint.bittype       _d, [a], b, policy
atom{.sem}{.scope}{.global}.exch.hint.exchtype       _d, [a], b, policy
atom{.sem}{.scope}{.global}.count.hint.u32           _d, [a], b, policy
atom{.sem}{.scope}{.global}.add.noftz.hint.half      _d, [a], b, policy
atom{.sem}{.scope}{.global}.add{.hint}.v2.f32        _d:2x.f32, [a], b:2x.f32, policy         @8.1/sm_90
atom{.sem}{.scope}{.global}.add{.hint}.v4.f32        _d:4x.f32, [a], b:4x.f32, policy         @8.1/sm_90
atom{.sem}{.scope}{.global}.vop.noftz{.hint}.vec.half      _d:vec half, [a], b:vec half, policy     @8.1/sm_90
atom{.sem}{.scope}{.global}.vop.noftz{.hint}.v8.single     _d:8xsingle, [a], b:8xsingle, policy   @8.1/sm_90
  .sem = .relaxed .acquire .release .acq_rel
  .scope = .cta@sm_60 .cluster .gpu@sm_60 .sys@sm_60
  .space = .global .shared .shared::cta .shared::cluster
  .hint = .L2::cache_hint
  .addtype = .u32 .s32 .u64 .f32 .f64@sm_60
  .minmax = .min .max
  .inttype = .u32 .s32 .u64@3.1/sm_32 .s64@3.1/sm_32
  .logic = .and .or .xor
  .bittype = .b32 .b64@3.1/sm_32
  .exchtype = .b32 .b64 .b128@sm_90
  .count = .inc .dec
  .castype = .b16@6.3/sm_70 .b32 .b64 .b128@sm_90
  .half = .f16@6.3/sm_70 .f16x2@6.2/sm_60 .bf16@sm_90 .bf16x2@sm_90
  .vop = .add .min .max
  .vec = .v2 .v4
  .single = .f16 .bf16

red{.sem}{.scope}{.space}.add.addtype                [a], b
red{.sem}{.scope}{.space}.minmax.inttype             [a], b
red{.sem}{.scope}{.space}.logic.bittype              [a], b
red{.sem}{.scope}{.space}.count.u32                  [a], b
red{.sem}{.scope}{.space}.add.noftz.half             [a], b
red{.sem}{.scope}{.global}.add.hint.addtype          [a], b, policy
red{.sem}{.scope}{.global}.minmax.hint.inttype       [a], b, policy
red{.sem}{.scope}{.global}.logic.hint.bittype        [a], b, policy
red{.sem}{.scope}{.global}.count.hint.u32            [a], b, policy
red{.sem}{.scope}{.global}.add.noftz.hint.half       [a], b, policy
red{.sem}{.scope}{.global}.add{.hint}.v2.f32         [a], b:2x.f32, policy                    @8.1/sm_90
red{.sem}{.scope}{.global}.add{.hint}.v4.f32         [a], b:4x.f32, policy                    @8.1/sm_90
red{.sem}{.scope}{.global}.vop.noftz{.hint}.vec.half  [a], b:vec half, policy                 @8.1/sm_90
red{.sem}{.scope}{.global}.vop.noftz{.hint}.v8.single [a], b:8xsingle, policy                @8.1/sm_90
red.async.relaxed.cluster{.cspace}.complete.count.u32          [a], b, [m]:.shared            @8.1/sm_90
red.async.relaxed.cluster{.cspace}.complete.minmax.atype       [a], b, [m]:.shared            @8.1/sm_90
red.async.relaxed.cluster{.cspace}.complete.logic.b32          [a], b, [m]:.shared            @8.1/sm_90
red.async.relaxed.cluster{.cspace}.complete.add.sumtype        [a], b, [m]:.shared            @8.1/sm_90
red.async.release.wide{.global}.count.u32              [a], b                         @8.7/sm_100
red.async.mmio.release.sys{.global}.count.u32              [a], b                         @8.7/sm_100
red.async.release.wide{.global}.minmax.atype           [a], b                         @8.7/sm_100
red.async.mmio.release.sys{.global}.minmax.atype           [a], b                         @8.7/sm_100
red.async.release.wide{.global}.logic.b32              [a], b                         @8.7/sm_100
red.async.mmio.release.sys{.global}.logic.b32              [a], b                         @8.7/sm_100
red.async.release.wide{.global}.add.sumtype            [a], b                         @8.7/sm_100
red.async.mmio.release.sys{.global}.add.sumtype            [a], b                         @8.7/sm_100
  .sem = .relaxed .release
  .scope = .cta@sm_60 .cluster .gpu@sm_60 .sys@sm_60
  .space = .global .shared .shared::cta .shared::cluster
  .cspace = .shared::cluster
  .wide = .gpu .sys
  .complete = .mbarrier::complete_tx::bytes
  .hint = .L2::cache_hint
  .addtype = .u32 .s32 .u64 .f32 .f64@sm_60
  .sumtype = .u32 .s32 .u64 .s64
  .minmax = .min .max
  .inttype = .u32 .s32 .u64@3.1/sm_32 .s64@3.1/sm_32
  .atype = .u32 .s32
  .logic = .and .or .xor
  .bittype = .b32 .b64@3.1/sm_32
  .count = .inc .dec
  .half = .f16@6.3/sm_70 .f16x2@6.2/sm_60 .bf16@sm_90 .bf16x2@sm_90
  .vop = .add .min .max
  .vec = .v2 .v4
  .single = .f16 .bf16

fence.scope                                                              @sm_70
fence.sem.scope                                                          @sm_70
fence.acquire.sync_restrict::shared::cluster.cluster                     @8.6/sm_90
fence.release.sync_restrict::shared::cta.cluster                         @8.6/sm_90
fence.mbarrier_init.release.cluster                                      @8.0/sm_90
fence.proxy.alias                                                        @7.5/sm_70
fence.proxy.async                                                        @8.0/sm_90
fence.proxy.async.space                                                  @8.0/sm_90
fence.proxy.tensormap::generic.release.scope                             @8.3/sm_90
fence.proxy.tensormap::generic.acquire.scope         [a], imm=128        @8.3/sm_90
fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster    @8.6/sm_90
fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster        @8.6/sm_90
  .sem = .sc .acq_rel .acquire@8.6/sm_90 .release@8.6/sm_90
  .scope = .cta .cluster .gpu .sys
  .space = .global .shared::cta .shared::cluster

membar.level
membar.proxy.alias                                                       @7.5/sm_60
membar.proxy.async                                                       @8.0/sm_90
  .level = .cta .gl .sys
";
