//! Atomic operations and fences.

pub(super) const TABLE: &str = "\
atom{.sem}{.scope}{.space}.add{.hint}.addtype        _d, [a], b, policy
atom{.sem}{.scope}{.space}.minmax{.hint}.inttype     _d, [a], b, policy
atom{.sem}{.scope}{.space}.logic{.hint}.bittype      _d, [a], b, policy
atom{.sem}{.scope}{.space}.exch{.hint}.exchtype      _d, [a], b, policy
atom{.sem}{.scope}{.space}.count{.hint}.u32          _d, [a], b, policy
atom{.sem}{.scope}{.space}.cas{.hint}.castype        _d, [a], b, c, policy
atom{.sem}{.scope}{.space}.add.noftz{.hint}.half     _d, [a], b, policy
atom{.sem}{.scope}{.global}.add{.hint}.vec.f32       _d:vec.f32, [a], b:vec.f32, policy
atom{.sem}{.scope}{.global}.vop.noftz{.hint}.vec.half   _d:vec~half, [a], b:vec~half, policy
  .sem = .relaxed .acquire .release .acq_rel
  .scope = .cta .cluster .gpu .sys
  .space = .global .shared .shared::cta .shared::cluster
  .hint = .L2::cache_hint
  .addtype = .u32 .s32 .u64 .f32 .f64
  .minmax = .min .max
  .inttype = .u32 .s32 .u64 .s64
  .logic = .and .or .xor
  .bittype = .b32 .b64
  .exchtype = .b32 .b64 .b128
  .count = .inc .dec
  .castype = .b16 .b32 .b64 .b128
  .half = .f16 .f16x2 .bf16 .bf16x2
  .vop = .add .min .max
  .vec = .v2 .v4 .v8

red{.sem}{.scope}{.space}.add{.hint}.addtype         [a], b, policy
red{.sem}{.scope}{.space}.minmax{.hint}.inttype      [a], b, policy
red{.sem}{.scope}{.space}.logic{.hint}.bittype       [a], b, policy
red{.sem}{.scope}{.space}.count{.hint}.u32           [a], b, policy
red{.sem}{.scope}{.space}.add.noftz{.hint}.half      [a], b, policy
red{.sem}{.scope}{.global}.add{.hint}.vec.f32        [a], b:vec.f32, policy
red{.sem}{.scope}{.global}.vop.noftz{.hint}.vec.half [a], b:vec~half, policy
red.async{.sem}{.scope}{.mmio}{.space}{.complete}.aop.atype   [a], b{, [m]}
  .sem = .relaxed .release
  .scope = .cta .cluster .gpu .sys
  .space = .global .shared .shared::cta .shared::cluster
  .complete = .mbarrier::complete_tx::bytes
  .hint = .L2::cache_hint
  .addtype = .u32 .s32 .u64 .f32 .f64
  .minmax = .min .max
  .inttype = .u32 .s32 .u64 .s64
  .logic = .and .or .xor
  .bittype = .b32 .b64
  .count = .inc .dec
  .half = .f16 .f16x2 .bf16 .bf16x2
  .vop = .add .min .max
  .vec = .v2 .v4 .v8
  .aop = .inc .dec .min .max .add .and .or .xor
  .atype = .u32 .s32 .u64 .s64 .b32 .b64

fence{.sem}.scope
fence.sem.sync_restrict.scope
fence.mbarrier_init.release.cluster
fence.proxy.kind
fence.proxy.async.space
fence.proxy.tensormap::generic.release{.scope}
fence.proxy.tensormap::generic.acquire{.scope}       [a], imm
fence.proxy.tensormap::generic.acquire{.scope}
fence.proxy.async::generic.order.sync_restrict.scope
  .sem = .sc .acq_rel .acquire .release
  .sync_restrict = .sync_restrict::shared::cta .sync_restrict::shared::cluster
  .order = .acquire .release
  .scope = .cta .cluster .gpu .sys
  .kind = .alias .async
  .space = .global .shared::cta .shared::cluster

membar.level
membar.proxy.kind
  .level = .cta .gl .sys
  .kind = .alias .async
";
