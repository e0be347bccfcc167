//! Control flow, barriers, and what ends or delays a thread.

pub(super) const TABLE: &str = "\
bra{.uni}                       label

brx.idx{.uni}                   a:.u32, targets              @5.1/sm_30

call{.uni}                      call

ret{.uni}

exit

trap

brkpt

nanosleep.u32                   a                            @6.2/sm_70

pmevent                         imm=0-15
pmevent.mask                    imm=0-65535                  @3.0

bar{.cta}.sync                  a:.u32=0-15{, b:.u32=32-4294967264%32}
bar{.cta}.arrive                a:.u32=0-15, b:.u32=32-4294967264%32
bar{.cta}.red.popc.u32          d, a:.u32=0-15, {!}c:.pred
bar{.cta}.red.popc.u32          d, a:.u32=0-15, b:.u32=32-4294967264%32, {!}c:.pred
bar{.cta}.red.op.pred           d, a:.u32=0-15, {!}c:.pred
bar{.cta}.red.op.pred           d, a:.u32=0-15, b:.u32=32-4294967264%32, {!}c:.pred
bar.warp.sync                   a:.u32                       @5.1/sm_30
  .op = .and .or
  .cta = .cta@7.8

barrier{.cta}.sync{.aligned}            a:.u32=0-15{, b:.u32=32-4294967264%32}               @5.1/sm_30
barrier{.cta}.arrive{.aligned}          a:.u32=0-15, b:.u32=32-4294967264%32                 @5.1/sm_30
barrier{.cta}.red.popc{.aligned}.u32    d, a:.u32=0-15, {!}c:.pred          @5.1/sm_30
barrier{.cta}.red.popc{.aligned}.u32    d, a:.u32=0-15, b:.u32=32-4294967264%32, {!}c:.pred  @5.1/sm_30
barrier{.cta}.red.op{.aligned}.pred     d, a:.u32=0-15, {!}c:.pred          @5.1/sm_30
barrier{.cta}.red.op{.aligned}.pred     d, a:.u32=0-15, b:.u32=32-4294967264%32, {!}c:.pred  @5.1/sm_30
barrier.cluster.arrive{.sem}{.aligned}                                      @sm_90
barrier.cluster.wait{.acquire}{.aligned}                                    @sm_90
  .cta = .cta@7.8
  .op = .and .or
  .sem = .release@8.0 .relaxed@8.0
  .acquire = .acquire@8.0

griddepcontrol.what                                                         @sm_90
  .what = .launch_dependents .wait

setmaxnreg.what.sync.aligned.u32   imm=24-256%8                             @sm_90a|sm_100f|sm_110f|sm_120f
  .what = .inc .dec

clusterlaunchcontrol.try_cancel.async{.space}.complete{.all}.b128   [a]:.shared, [m]:.shared   @sm_100
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128             d:.pred, a:.b128           @sm_100
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128       d:4x.b32, a:.b128          @sm_100
clusterlaunchcontrol.query_cancel.part.b32.b128                     d:.b32, a:.b128            @sm_100
  .space = .shared::cta
  .complete = .mbarrier::complete_tx::bytes
  .all = .multicast::cluster::all@sm_100f|sm_110f|sm_120f
  .part = .get_first_ctaid::x .get_first_ctaid::y .get_first_ctaid::z
";
