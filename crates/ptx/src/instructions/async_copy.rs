//! Asynchronous copies, mbarriers, tensor maps.

pub(super) const TABLE: &str = "\
cp.async.ca.dst.global{.hint}{.pre}        [d]:.shared, [a]:.global, imm=4/8/16, policy                        @sm_80
cp.async.ca.dst.global{.hint}{.pre}        [d]:.shared, [a]:.global, imm=4/8/16, b:.u32=0-16, policy                @sm_80
cp.async.ca.dst.global{.hint}{.pre}        [d]:.shared, [a]:.global, imm=4/8/16, {!}p:.pred, policy            @7.5/sm_80
cp.async.cg.dst.global{.hint}{.pre}        [d]:.shared, [a]:.global, imm=16, policy                            @sm_80
cp.async.cg.dst.global{.hint}{.pre}        [d]:.shared, [a]:.global, imm=16, b:.u32=0-16, policy                    @sm_80
cp.async.cg.dst.global{.hint}{.pre}        [d]:.shared, [a]:.global, imm=16, {!}p:.pred, policy                @7.5/sm_80
cp.async.commit_group                                                                                          @sm_80
cp.async.wait_group                        imm                                                                 @sm_80
cp.async.wait_all                                                                                              @sm_80
cp.async.mbarrier.arrive{.noinc}{.own}.b64 [m]                                                                 @sm_80
cp.async.bulk.commit_group                                                                                     @8.0/sm_90
cp.async.bulk.wait_group{.read}            imm                                                                 @8.0/sm_90
cp.async.bulk{.weak}.shared::cluster.global.complete{.multicast}{.hint}   [d]:.shared, [a]:.global, size:.u32=0-4294967280%16, [m]:.shared, mask:.b16?multicast, policy   @8.0/sm_90
cp.async.bulk{.weak}.shared::cta.global.complete{.hint}                   [d]:.shared, [a]:.global, size:.u32=0-4294967280%16, [m]:.shared, policy                       @8.6/sm_90
cp.async.bulk{.weak}.shared::cta.global.complete.ignore_oob{.hint}        [d]:.shared, [a]:.global, size:.u32=0-4294967280%16, left:.u32=0-15, right:.u32=0-15, [m]:.shared, policy   @9.2/sm_90
cp.async.bulk{.weak}.shared::cluster.shared::cta.complete                 [d]:.shared, [a]:.shared, size:.u32=0-4294967280%16, [m]:.shared                               @8.0/sm_90
cp.async.bulk{.weak}.global.shared::cta.bulk_group{.hint}{.cp_mask}       [d]:.global, [a]:.shared, size:.u32=0-4294967280%16, policy, mask:.b16?cp_mask                 @8.0/sm_90
cp.async.bulk.prefetch.L2.global{.hint}    [a]:.global, size:.u32=0-4294967280%16, policy                                      @8.0/sm_90
  .dst = .shared .shared::cta
  .own = .shared .shared::cta@7.8
  .weak = .weak@9.3
  .complete = .mbarrier::complete_tx::bytes
  .cp_mask = .cp_mask@sm_100
  .hint = .L2::cache_hint
  .pre = .L2::64B .L2::128B .L2::256B
  .multicast = .multicast::cluster

cp.async.bulk.tensor.dim.shared::cluster.global{.tile}.complete{.multicast}{.group}{.hint}     [d]:.shared, texture, [m]:.shared, mask:.b16?multicast, policy           @8.0/sm_90
cp.async.bulk.tensor.dim.shared::cta.global{.tile}.complete{.group}{.hint}                     [d]:.shared, texture, [m]:.shared, policy                                @8.6/sm_90
cp.async.bulk.tensor.2d.shared::cluster.global.gather.complete{.multicast}{.group}{.hint}      [d]:.shared, texture, [m]:.shared, mask:.b16?multicast, policy           @sm_100f|sm_110f
cp.async.bulk.tensor.2d.shared::cta.global.gather.complete{.group}{.hint}                      [d]:.shared, texture, [m]:.shared, policy                                @sm_100
cp.async.bulk.tensor.deep.shared::cluster.global.im2col.complete{.multicast}{.group}{.hint}    [d]:.shared, texture, [m]:.shared, window, mask:.b16?multicast, policy      @8.0/sm_90
cp.async.bulk.tensor.deep.shared::cta.global.im2col.complete{.group}{.hint}                    [d]:.shared, texture, [m]:.shared, window, policy                           @8.6/sm_90
cp.async.bulk.tensor.deep.shared::cluster.global.wide.complete{.multicast}{.group}{.hint}      [d]:.shared, texture, [m]:.shared, window, mask:.b16?multicast, policy      @sm_100f|sm_110f
cp.async.bulk.tensor.deep.shared::cta.global.im2col::w.complete{.group}{.hint}                 [d]:.shared, texture, [m]:.shared, window, policy                           @sm_100
cp.async.bulk.tensor.deep.shared::cta.global.im2col::w::128.complete{.group}{.hint}            [d]:.shared, texture, [m]:.shared, window, policy                           @sm_100f|sm_110f
cp.async.bulk.tensor.dim.global.shared::cta{.tile}.bulk_group{.hint}              texture, [a]:.shared, policy     @8.0/sm_90
cp.async.bulk.tensor.deep.global.shared::cta.im2col_no_offs.bulk_group{.hint}     texture, [a]:.shared, policy     @8.0/sm_90
cp.async.bulk.tensor.2d.global.shared::cta.scatter.bulk_group{.hint}              texture, [a]:.shared, policy     @sm_100f|sm_110f
cp.async.bulk.prefetch.tensor.dim.L2.global{.tile}{.hint}                         texture, policy                  @8.0/sm_90
cp.async.bulk.prefetch.tensor.2d.L2.global.gather{.hint}                          texture, policy                  @sm_100f|sm_110f
cp.async.bulk.prefetch.tensor.deep.L2.global.im2col{.hint}                        texture, window, policy             @8.0/sm_90
cp.async.bulk.prefetch.tensor.deep.L2.global.wide{.hint}                          texture, window, policy             @sm_100f|sm_110f
cp.reduce.async.bulk.tensor.dim.global.shared::cta.op{.tile}.bulk_group{.hint}            texture, [a]:.shared, policy   @8.0/sm_90
cp.reduce.async.bulk.tensor.deep.global.shared::cta.op.im2col_no_offs.bulk_group{.hint}   texture, [a]:.shared, policy   @8.0/sm_90
cp.reduce.async.bulk.tensor.2d.global.shared::cta.op.scatter.bulk_group{.hint}            texture, [a]:.shared, policy   @sm_100f|sm_110f
  .complete = .mbarrier::complete_tx::bytes
  .hint = .L2::cache_hint
  .multicast = .multicast::cluster
  .group = .cta_group::1@sm_100f|sm_110f .cta_group::2@sm_100f|sm_110f
  .tile = .tile
  .gather = .tile::gather4
  .scatter = .tile::scatter4
  .wide = .im2col::w .im2col::w::128
  .dim = .1d .2d .3d .4d .5d
  .deep = .3d .4d .5d
  .op = .add .min .max .and .or .xor .inc .dec

cp.reduce.async.bulk.shared::cluster.shared::cta.complete.add.addtype        [d]:.shared, [a]:.shared, size:.u32=0-4294967280%16, [m]:.shared   @8.0/sm_90
cp.reduce.async.bulk.shared::cluster.shared::cta.complete.minmax.small       [d]:.shared, [a]:.shared, size:.u32=0-4294967280%16, [m]:.shared   @8.0/sm_90
cp.reduce.async.bulk.shared::cluster.shared::cta.complete.logic.b32          [d]:.shared, [a]:.shared, size:.u32=0-4294967280%16, [m]:.shared   @8.0/sm_90
cp.reduce.async.bulk.shared::cluster.shared::cta.complete.count.u32          [d]:.shared, [a]:.shared, size:.u32=0-4294967280%16, [m]:.shared   @8.0/sm_90
cp.reduce.async.bulk{.relaxed.gpu}.global.shared::cta.bulk_group{.hint}.add.sumtype        [d]:.global, [a]:.shared, size:.u32=0-4294967280%16, policy        @8.0/sm_90
cp.reduce.async.bulk{.relaxed.gpu}.global.shared::cta.bulk_group{.hint}.add.noftz.half     [d]:.global, [a]:.shared, size:.u32=0-4294967280%16, policy        @8.0/sm_90
cp.reduce.async.bulk{.relaxed.gpu}.global.shared::cta.bulk_group{.hint}.minmax.ordered     [d]:.global, [a]:.shared, size:.u32=0-4294967280%16, policy        @8.0/sm_90
cp.reduce.async.bulk{.relaxed.gpu}.global.shared::cta.bulk_group{.hint}.logic.bits         [d]:.global, [a]:.shared, size:.u32=0-4294967280%16, policy        @8.0/sm_90
cp.reduce.async.bulk{.relaxed.gpu}.global.shared::cta.bulk_group{.hint}.count.u32          [d]:.global, [a]:.shared, size:.u32=0-4294967280%16, policy        @8.0/sm_90
  .complete = .mbarrier::complete_tx::bytes
  .hint = .L2::cache_hint
  .addtype = .u32 .s32 .u64
  .sumtype = .u32 .s32 .u64 .f32 .f64
  .half = .f16 .bf16
  .minmax = .min .max
  .small = .u32 .s32
  .ordered = .u32 .s32 .u64 .s64 .f16 .bf16
  .logic = .and .or .xor
  .bits = .b32 .b64
  .count = .inc .dec
  .relaxed = .relaxed@9.3

mbarrier.init{.space}.b64                             [a], count:.u32=1-1048575              @sm_80
mbarrier.inval{.space}.b64                            [a]                          @sm_80
mbarrier.expect_tx{.relaxed.scope}{.tspace}.b64       [a], count:.u32              @8.0/sm_90
mbarrier.complete_tx{.relaxed.scope}{.tspace}.b64     [a], count:.u32              @8.0/sm_90
mbarrier.arrive{.sem.scope}{.space}.b64               d:.u64, [a]                       @sm_80
mbarrier.arrive{.sem.scope}{.space}.b64               _, [a]                       @7.1/sm_80
mbarrier.arrive{.sem.scope}{.space}.b64               _d:.u64, [a], count:.u32=1-4294967295          @sm_90
mbarrier.arrive{.sem.scope}.shared::cluster.b64       _, [a]{, count:.u32=1-4294967295}         @8.0/sm_90
mbarrier.arrive.expect_tx{.sem.scope}{.space}.b64     _d:.u64, [a], count:.u32          @8.0/sm_90
mbarrier.arrive.expect_tx{.sem.scope}.shared::cluster.b64   _, [a], count:.u32     @8.0/sm_90
mbarrier.arrive.noComplete{.release.cta}{.space}.b64  d:.u64, [a], count:.u32=1-4294967295           @sm_80
mbarrier.arrive.noComplete{.release.cta}{.space}.b64  _, [a], count:.u32=1-4294967295           @7.1/sm_80
mbarrier.arrive_drop{.sem.scope}{.space}.b64               _d:.u64, [a]                 @sm_80
mbarrier.arrive_drop{.sem.scope}{.space}.b64               _d:.u64, [a], count:.u32=1-4294967295     @sm_90
mbarrier.arrive_drop{.sem.scope}.shared::cluster.b64       _, [a]{, count:.u32=1-4294967295}    @8.0/sm_90
mbarrier.arrive_drop.expect_tx{.sem.scope}{.space}.b64     _d:.u64, [a], count:.u32     @8.0/sm_90
mbarrier.arrive_drop.expect_tx{.sem.scope}.shared::cluster.b64   _, [a], count:.u32    @8.0/sm_90
mbarrier.arrive_drop.noComplete{.release.cta}{.space}.b64  _d:.u64, [a], count:.u32=1-4294967295     @sm_80
mbarrier.test_wait{.wsem.scope}{.space}.b64                d:.pred, [a], state:.u64                 @sm_80
mbarrier.test_wait.parity{.wsem.scope}{.space}.b64         d:.pred, [a], phase:.u32=0/1                 @7.1/sm_80
mbarrier.try_wait{.wsem.scope}{.space}.b64                 d:.pred, [a], state:.u64{, hint:.u32}    @sm_90
mbarrier.try_wait.parity{.wsem.scope}{.space}.b64          d:.pred, [a], phase:.u32=0/1{, hint:.u32}    @sm_90
mbarrier.pending_count.b64                                 d:.u32, state:.u64                       @sm_80
  .space = .shared .shared::cta
  .tspace = .shared .shared::cta .shared::cluster
  .sem = .release@8.0 .relaxed@8.6/sm_90
  .wsem = .acquire@8.0 .relaxed@8.6/sm_90
  .release = .release@8.0
  .scope = .cta .cluster

tensormap.replace.tile.global_address{.space}.b1024.b64   [a], b:.u64          @8.3/sm_90a|sm_100f|sm_110f|sm_120f
tensormap.replace.tile.rank{.space}.b1024.b32             [a], b:.u32          @8.3/sm_90a|sm_100f|sm_110f|sm_120f
tensormap.replace.tile.dim{.space}.b1024.b32              [a], imm=0-4, b:.u32   @8.3/sm_90a|sm_100f|sm_110f|sm_120f
tensormap.replace.tile.global_stride{.space}.b1024.b64    [a], imm=0-4, b:.u64   @8.3/sm_90a|sm_100f|sm_110f|sm_120f
tensormap.replace.tile.elemtype{.space}.b1024.b32         [a], imm=0-12        @8.3/sm_90a|sm_100f|sm_110f|sm_120f
tensormap.replace.tile.elemtype{.space}.b1024.b32         [a], imm=13-15       @8.7/sm_100f|sm_110f|sm_120f
tensormap.replace.tile.interleave_layout{.space}.b1024.b32   [a], imm=0-2      @8.3/sm_90a|sm_100f|sm_110f|sm_120f
tensormap.replace.tile.swizzle_mode{.space}.b1024.b32     [a], imm=0-3         @8.3/sm_90a|sm_100f|sm_110f|sm_120f
tensormap.replace.tile.swizzle_mode{.space}.b1024.b32     [a], imm=4           @8.8/sm_103a|sm_107a
tensormap.replace.tile.swizzle_atomicity{.space}.b1024.b32   [a], imm=0-3      @sm_100f|sm_110f|sm_120f
tensormap.replace.tile.fill_mode{.space}.b1024.b32        [a], imm=0-1         @8.3/sm_90a|sm_100f|sm_110f|sm_120f
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned   [d]:.global, [a]:.shared, imm=128   @8.3/sm_90
  .space = .global .shared::cta
  .dim = .box_dim .global_dim .element_stride
  .scope = .cta .cluster .gpu .sys
";
