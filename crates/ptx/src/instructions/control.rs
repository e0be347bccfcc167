//! Control flow, barriers, and what ends or delays a thread.

pub(super) const TABLE: &str = "\
bra{.uni}                       label

brx.idx{.uni}                   a:.u32, targets

call{.uni}                      call

ret{.uni}

exit

trap

brkpt

nanosleep.u32                   a

pmevent{.mask}                  imm
  .mask = .mask

bar{.cta}.sync                  a:.u32<16{, b:.u32}
bar{.cta}.arrive                a:.u32<16, b:.u32
bar{.cta}.red.popc.u32          d, a:.u32<16, {!}c:.pred
bar{.cta}.red.popc.u32          d, a:.u32<16, b:.u32, {!}c:.pred
bar{.cta}.red.op.pred           d, a:.u32<16, {!}c:.pred
bar{.cta}.red.op.pred           d, a:.u32<16, b:.u32, {!}c:.pred
bar.warp.sync                   a:.u32
  .op = .and .or

barrier{.cta}.sync{.aligned}            a:.u32<16{, b:.u32}
barrier{.cta}.arrive{.aligned}          a:.u32<16, b:.u32
barrier{.cta}.red.popc{.aligned}.u32    d, a:.u32<16, {!}c:.pred
barrier{.cta}.red.popc{.aligned}.u32    d, a:.u32<16, b:.u32, {!}c:.pred
barrier{.cta}.red.op{.aligned}.pred     d, a:.u32<16, {!}c:.pred
barrier{.cta}.red.op{.aligned}.pred     d, a:.u32<16, b:.u32, {!}c:.pred
barrier.cluster.arrive{.sem}{.aligned}
barrier.cluster.wait{.acquire}{.aligned}
  .op = .and .or
  .sem = .release .relaxed

griddepcontrol.what
  .what = .launch_dependents .wait

setmaxnreg.what.sync.aligned.u32   imm
  .what = .inc .dec

clusterlaunchcontrol.*          any
";
