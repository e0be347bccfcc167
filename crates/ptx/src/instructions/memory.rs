//! Moves, loads and stores, addresses, caches. Of multimem only the names are known.

pub(super) const TABLE: &str = "\
mov.type                d, s
mov.atype               d, address
mov.pred                d, {!}a:.pred
mov.btype               d, pack
mov.btype               dpack:btype, s
mov.pred                d, s
mov.vec.vtype           d:vec vtype, s:vec vtype
  .type = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64 .b128
  .btype = .b16 .b32 .b64 .b128
  .atype = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64
  .vec = .v2 .v4
  .vtype = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64

ld{.weak}{.space}{.cop}{.vec}.type                               d:vec~type, [a]
ld{.weak}{.gspace}{.cop}{.pre}{.hint}{.vec}.type                 d:vec~type, [a], policy
ld{.weak}{.gspace}.l1{.pre}{.hint}{.vec}.type                    d:vec~type, [a], policy
ld{.weak}{.gspace}{.cop}{.pre}{.hint}.v8.type32                  d:8x~type32, [a], policy    @8.8/sm_100
ld{.weak}{.gspace}{.cop}{.pre}{.hint}.v4.type64                  d:4x~type64, [a], policy    @8.8/sm_100
ld{.weak}{.gspace}{.l1}{.l2}{.pre}{.hint}.v8.type32              d:8x~type32, [a], policy    @8.8/sm_100
ld{.weak}{.gspace}{.l1}{.l2}{.pre}{.hint}.v4.type64              d:4x~type64, [a], policy    @8.8/sm_100
ld.volatile{.vspace}{.vec}.type                                  d:vec~type, [a]
ld.volatile.local{.vec}.type                                     d:vec~type, [a]             @9.1
ld.volatile{.gspace}{.pre}{.vec}.type                            d:vec~type, [a]
ld.volatile{.gspace}{.pre}.v8.type32                             d:8x~type32, [a]            @8.8/sm_100
ld.volatile{.gspace}{.pre}.v4.type64                             d:4x~type64, [a]            @8.8/sm_100
ld.order.scope{.vspace}{.vec}.type                               d:vec~type, [a]
ld.order.scope{.gspace}{.l1}{.pre}{.hint}{.vec}.type             d:vec~type, [a], policy
ld.order.scope{.gspace}{.l1}{.l2}{.pre}{.hint}.v8.type32         d:8x~type32, [a], policy    @8.8/sm_100
ld.order.scope{.gspace}{.l1}{.l2}{.pre}{.hint}.v4.type64         d:4x~type64, [a], policy    @8.8/sm_100
ld.mmio.relaxed.sys{.global}.mtype                               d:~mtype, [a]
ld.mmio.relaxed.sys{.global}.b128                                d:.b128, [a]                @8.4
ld.global.nccop.nc{.pre}{.hint}{.vec}.type                       d:vec~type, [a], policy     @3.1/sm_32
ld.global.nc{.pre}{.hint}{.vec}.type                             d:vec~type, [a], policy     @3.1/sm_32
ld.global.nc.l1{.pre}{.hint}{.vec}.type                          d:vec~type, [a], policy     @3.1/sm_32
ld.global.nccop.nc{.pre}{.hint}.v8.type32                        d:8x~type32, [a], policy    @8.8/sm_100
ld.global.nccop.nc{.pre}{.hint}.v4.type64                        d:4x~type64, [a], policy    @8.8/sm_100
ld.global.nc{.l1}{.l2}{.pre}{.hint}.v8.type32                    d:8x~type32, [a], policy    @8.8/sm_100
ld.global.nc{.l1}{.l2}{.pre}{.hint}.v4.type64                    d:4x~type64, [a], policy    @8.8/sm_100
  .space = .const .global .local .param .param::entry .param::func .shared .shared::cta .shared::cluster
  .vspace = .global .shared .shared::cta .shared::cluster
  .gspace = .global
  .order = .relaxed .acquire
  .scope = .cta .cluster .gpu .sys
  .cop = .ca .cg .cs .lu .cv
  .nccop = .ca .cg .cs
  .l1 = .L1::evict_normal .L1::evict_unchanged .L1::evict_first .L1::evict_last .L1::no_allocate
  .l2 = .L2::evict_normal .L2::evict_first .L2::evict_last
  .pre = .L2::64B .L2::128B .L2::256B
  .hint = .L2::cache_hint
  .vec = .v2 .v4 .v8
  .type = .b8 .b16 .b32 .b64 .b128 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f32 .f64
  .mtype = .b8 .b16 .b32 .b64 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f32 .f64
  .type32 = .b32 .u32 .s32 .f32
  .type64 = .b64 .u64 .s64 .f64

ldu{.global}{.vec}.type                                          d:vec~type, [a]
  .vec = .v2 .v4
  .type = .b8 .b16 .b32 .b64 .b128 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f32 .f64

st{.weak}{.space}{.cop}{.vec}.type                               [a], b:vec~type
st{.weak}{.gspace}{.cop}{.hint}{.vec}.type                       [a], b:vec~type, policy
st{.weak}{.gspace}.l1{.hint}{.vec}.type                          [a], b:vec~type, policy
st{.weak}{.gspace}{.cop}{.hint}.v8.type32                        [a], b:8x~type32, policy    @8.8/sm_100
st{.weak}{.gspace}{.cop}{.hint}.v4.type64                        [a], b:4x~type64, policy    @8.8/sm_100
st{.weak}{.gspace}{.l1}{.l2}{.hint}.v8.type32                    [a], b:8x~type32, policy    @8.8/sm_100
st{.weak}{.gspace}{.l1}{.l2}{.hint}.v4.type64                    [a], b:4x~type64, policy    @8.8/sm_100
st.volatile{.vspace}{.vec}.type                                  [a], b:vec~type
st.volatile.local{.vec}.type                                     [a], b:vec~type             @9.1
st.volatile{.gspace}.v8.type32                                   [a], b:8x~type32            @8.8/sm_100
st.volatile{.gspace}.v4.type64                                   [a], b:4x~type64            @8.8/sm_100
st.order.scope{.vspace}{.vec}.type                               [a], b:vec~type
st.order.scope{.gspace}{.l1}{.hint}{.vec}.type                   [a], b:vec~type, policy
st.order.scope{.gspace}{.l1}{.l2}{.hint}.v8.type32               [a], b:8x~type32, policy    @8.8/sm_100
st.order.scope{.gspace}{.l1}{.l2}{.hint}.v4.type64               [a], b:4x~type64, policy    @8.8/sm_100
st.mmio.relaxed.sys{.global}.mtype                               [a], b:~mtype
st.mmio.relaxed.sys{.global}.b128                                [a], b:.b128                @8.4
st.async{.weak}{.cspace}.complete{.avec}.atype                   [a], b:vec~atype, [m]:.shared  @8.1/sm_90
st.async{.weak}{.cspace}.complete.b128                           [a], b:.b128, [m]:.shared      @9.2/sm_90
st.async.release.far{.global}.ftype                              [a], b:ftype                   @8.7/sm_100
st.async.mmio.release.sys{.global}.ftype                         [a], b:ftype                   @8.7/sm_100
st.bulk{.weak}{.shared::cta}                                     [a], size:.u64=0-9223372036854775800%8, imm=0          @sm_100
st.bulk{.weak}{.shared::cta}                                     [a], size:.u32=0-4294967288%8, imm=0          @9.0/sm_100
  .space = .global .local .param .param::func .shared .shared::cta .shared::cluster
  .vspace = .global .shared .shared::cta .shared::cluster
  .gspace = .global
  .order = .relaxed .release
  .scope = .cta .cluster .gpu .sys
  .cop = .wb .cg .cs .wt
  .l1 = .L1::evict_normal .L1::evict_unchanged .L1::evict_first .L1::evict_last .L1::no_allocate
  .l2 = .L2::evict_normal .L2::evict_first .L2::evict_last
  .hint = .L2::cache_hint
  .vec = .v2 .v4 .v8
  .type = .b8 .b16 .b32 .b64 .b128 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f32 .f64
  .mtype = .b8 .b16 .b32 .b64 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f32 .f64
  .type32 = .b32 .u32 .s32 .f32
  .type64 = .b64 .u64 .s64 .f64
  .cspace = .shared::cluster
  .complete = .mbarrier::complete_tx::bytes
  .avec = .v2 .v4
  .atype = .b32 .b64 .u32 .u64 .s32 .s64 .f32 .f64
  .far = .gpu .sys
  .ftype = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64

prefetch{.space}.level        [a]
prefetch{.global}.evict       [a]                         @7.4/sm_80
prefetch{.tspace}.tensormap   [a]                         @8.0/sm_90
  .space = .global .local
  .tspace = .const .param
  .level = .L1 .L2
  .evict = .L2::evict_last .L2::evict_normal

prefetchu.L1                  [a]

applypriority{.global}.L2::evict_normal   [a], imm=128    @7.4/sm_80

discard{.global}.L2           [a], imm=128                @7.4/sm_80

createpolicy.fractional.primary{.second}.b64   d, a:.f32                      @7.4/sm_80
createpolicy.fractional.primary{.second}.b64   d                              @7.4/sm_80
createpolicy.range{.global}.primary{.second}.b64   d, [a]:.global, b:.u32, c:.u32   @7.4/sm_80
createpolicy.cvt.L2.b64       d:.u64, a:.u64                                      @7.4/sm_80
  .primary = .L2::evict_last .L2::evict_normal .L2::evict_first .L2::evict_unchanged
  .second = .L2::evict_first .L2::evict_unchanged

isspacep.space                d:.pred, a:~.u32
  .space = .const@3.1 .global .local .shared .shared::cta .shared::cluster .param@7.7/sm_70 .param::entry@sm_70

cvta.space.size               d, a
cvta.space.size               d, address
cvta.to.space.size            d, a
  .space = .const@3.1 .global .local .shared .shared::cta .shared::cluster .param@7.7/sm_70 .param::entry@sm_70
  .size = .u32 .u64

mapa{.space}.type             d, a, b:.u32                @sm_90
mapa{.space}.type             d, address, b:.u32          @sm_90
  .space = .shared::cluster
  .type = .u32 .u64

getctarank{.space}.type       d:.u32, a                   @sm_90
getctarank{.space}.type       d:.u32, address             @sm_90
  .space = .shared::cluster
  .type = .u32 .u64

istypep.kind                  d:.pred, a:.u64             @4.0/sm_30
  .kind = .texref .samplerref .surfref

alloca.type                   d, a{, imm}                 @7.3/sm_52
  .type = .u32 .u64

stacksave.type                d                           @7.3/sm_52
  .type = .u32 .u64

stackrestore.type             reg                          @7.3/sm_52
  .type = .u32 .u64

multimem.ld_reduce.*          any                         @8.1/sm_90
multimem.st.*                 any                         @8.1/sm_90
multimem.red.*                any                         @8.1/sm_90
multimem.cp.*                 any                         @9.1/sm_90
";
