//! Asynchronous copies, mbarriers, tensor maps.

pub(super) const TABLE: &str = "\
cp.async.ca.dst.global{.hint}{.pre}        [d]:.shared, [a]:.global, imm, policy
cp.async.ca.dst.global{.hint}{.pre}        [d]:.shared, [a]:.global, imm, b:.u32, policy
cp.async.ca.dst.global{.hint}{.pre}        [d]:.shared, [a]:.global, imm, {!}p:.pred, policy
cp.async.cg.dst.global{.hint}{.pre}        [d]:.shared, [a]:.global, imm, policy
cp.async.cg.dst.global{.hint}{.pre}        [d]:.shared, [a]:.global, imm, b:.u32, policy
cp.async.cg.dst.global{.hint}{.pre}        [d]:.shared, [a]:.global, imm, {!}p:.pred, policy
cp.async.commit_group
cp.async.wait_group                        imm
cp.async.wait_all
cp.async.mbarrier.arrive{.noinc}{.dst}.b64 [m]
cp.async.bulk.commit_group
cp.async.bulk.wait_group{.read}            imm
cp.async.bulk.cdst.global.mbarrier::complete_tx::bytes{.multicast}{.hint}   [d]:.shared, [a]:.global, size:.u32, [m]:.shared{, mask:.b16}{, e:.b64}
cp.async.bulk.cdst.shared::cta.mbarrier::complete_tx::bytes   [d]:.shared, [a]:.shared, size:.u32, [m]:.shared
cp.async.bulk.global.shared::cta.bulk_group{.hint}{.cp_mask}  [d]:.global, [a]:.shared, size:.u32{, e:.b64}{, mask:.b16}
cp.async.bulk.prefetch.L2.global{.hint}    [a]:.global, size:.u32, policy
cp.async.bulk.tensor.dim.cdst.global{.load}.mbarrier::complete_tx::bytes{.multicast}{.group}{.hint}   [d]:.shared, texture, [m]:.shared{, any}{, any}{, any}
cp.async.bulk.tensor.dim.global.shared::cta{.store}.bulk_group{.hint}   texture, [a]:.shared, policy
cp.async.bulk.prefetch.tensor.dim.L2.global{.load}{.hint}   texture{, any}{, any}
cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.op.rtype   [d]:.shared, [a]:.shared, size:.u32, [m]:.shared
cp.reduce.async.bulk.global.shared::cta.bulk_group{.hint}.op{.noftz}.rtype   [d]:.global, [a]:.shared, size:.u32, policy
cp.reduce.async.bulk.tensor.dim.global.shared::cta.op{.store}.bulk_group{.hint}   texture, [a]:.shared, policy
  .dst = .shared .shared::cta
  .cdst = .shared::cta .shared::cluster
  .hint = .L2::cache_hint
  .pre = .L2::64B .L2::128B .L2::256B
  .multicast = .multicast::cluster
  .load = .tile .tile::gather4 .im2col .im2col::w .im2col::w::128
  .store = .tile .tile::scatter4 .im2col_no_offs
  .group = .cta_group::1 .cta_group::2
  .op = .add .min .max .and .or .xor .inc .dec
  .rtype = .u32 .s32 .u64 .s64 .b32 .b64 .f16 .bf16 .f32 .f64
  .dim = .1d .2d .3d .4d .5d

mbarrier.init{.space}.b64                  [a], count:.u32
mbarrier.inval{.space}.b64                 [a]
mbarrier.expect_tx{.relaxed}{.scope}{.space}.b64      [a], count:.u32
mbarrier.complete_tx{.relaxed}{.scope}{.space}.b64    [a], count:.u32
mbarrier.arrive{.sem}{.scope}{.space}.b64             _d, [a]{, count:.u32}
mbarrier.arrive.expect_tx{.sem}{.scope}{.space}.b64   _d, [a], count:.u32
mbarrier.arrive.noComplete{.sem}{.scope}{.space}.b64  d, [a], count:.u32
mbarrier.arrive_drop{.sem}{.scope}{.space}.b64             _d, [a]{, count:.u32}
mbarrier.arrive_drop.expect_tx{.sem}{.scope}{.space}.b64   _d, [a], count:.u32
mbarrier.arrive_drop.noComplete{.sem}{.scope}{.space}.b64  d, [a], count:.u32
mbarrier.test_wait{.wsem}{.scope}{.space}.b64              d:.pred, [a], state:.b64
mbarrier.test_wait.parity{.wsem}{.scope}{.space}.b64       d:.pred, [a], phase:.u32
mbarrier.try_wait{.wsem}{.scope}{.space}.b64               d:.pred, [a], state:.b64{, hint:.u32}
mbarrier.try_wait.parity{.wsem}{.scope}{.space}.b64        d:.pred, [a], phase:.u32{, hint:.u32}
mbarrier.pending_count.b64                 d:.u32, state:.b64
  .space = .shared .shared::cta .shared::cluster
  .sem = .release .relaxed
  .wsem = .acquire .relaxed
  .scope = .cta .cluster

tensormap.replace.tile.global_address{.space}.b1024.b64   [a], b:.u64
tensormap.replace.tile.rank{.space}.b1024.b32             [a], b:.u32
tensormap.replace.tile.dim{.space}.b1024.b32              [a], imm, b:.u32
tensormap.replace.tile.global_stride{.space}.b1024.b64    [a], imm, b:.u64
tensormap.replace.tile.setting{.space}.b1024.b32          [a], imm
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned   [d]:.global, [a]:.shared, imm
  .space = .global .shared::cta
  .dim = .box_dim .global_dim .element_stride
  .setting = .elemtype .interleave_layout .swizzle_mode .swizzle_atomicity .fill_mode
  .scope = .cta .cluster .gpu .sys
";
