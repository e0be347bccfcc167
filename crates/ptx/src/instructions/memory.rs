//! Moves, loads and stores, addresses, caches.

pub(super) const TABLE: &str = "\
mov.type                d, s
mov.type                d, address
mov.pred                d, {!}a:.pred
mov.btype               d, pack
mov.btype               dpack:btype, a
mov.pred                d, s
mov.vec.vtype           d:vec vtype, s:vec vtype
  .type = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64 .b128
  .btype = .b16 .b32 .b64 .b128
  .vec = .v2 .v4
  .vtype = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64

ld{.weak}{.space}{.cop}{.l1}{.l2}{.pre}{.hint}{.vec}.type                    d:vec~type, [a], policy
ld.volatile{.space}{.pre}{.vec}.type                                       d:vec~type, [a]
ld.relaxed.scope{.space}{.l1}{.l2}{.pre}{.hint}{.vec}.type                 d:vec~type, [a], policy
ld.acquire.scope{.space}{.l1}{.l2}{.pre}{.hint}{.vec}.type                 d:vec~type, [a], policy
ld.mmio.relaxed.sys{.global}.type                                         d:vec~type, [a]
ld.global.nc{.cop}{.l1}{.l2}{.pre}{.hint}{.vec}.type                     d:vec~type, [a], policy
ld.param{.unified}{.vec}.type                                             d:vec~type, [a]
  .space = .const .global .local .param .param::entry .param::func .shared .shared::cta .shared::cluster
  .scope = .cta .cluster .gpu .sys
  .cop = .ca .cg .cs .lu .cv
  .l1 = .L1::evict_normal .L1::evict_unchanged .L1::evict_first .L1::evict_last .L1::no_allocate
  .l2 = .L2::evict_normal .L2::evict_first .L2::evict_last
  .pre = .L2::64B .L2::128B .L2::256B
  .hint = .L2::cache_hint
  .vec = .v2 .v4 .v8
  .type = .b8 .b16 .b32 .b64 .b128 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f32 .f64

ldu{.global}{.vec}.type                                                   d:vec~type, [a]
  .vec = .v2 .v4
  .type = .b8 .b16 .b32 .b64 .b128 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f32 .f64

st{.weak}{.space}{.cop}{.l1}{.l2}{.hint}{.vec}.type                        [a], b:vec~type, policy
st.volatile{.space}{.vec}.type                                            [a], b:vec~type
st.relaxed.scope{.space}{.l1}{.l2}{.hint}{.vec}.type                       [a], b:vec~type, policy
st.release.scope{.space}{.l1}{.l2}{.hint}{.vec}.type                       [a], b:vec~type, policy
st.mmio.relaxed.sys{.global}.type                                         [a], b:vec~type
st.async{.weak}{.relaxed}{.release}{.mmio}{.scope}{.aspace}{.complete}{.vec}.type   [a], b:vec~type{, [m]}
st.bulk{.weak}{.aspace}                                                   [a], size:.u64, imm
  .space = .global .local .param .param::func .shared .shared::cta .shared::cluster
  .aspace = .global .shared .shared::cta .shared::cluster
  .complete = .mbarrier::complete_tx::bytes
  .scope = .cta .cluster .gpu .sys
  .cop = .wb .cg .cs .wt
  .l1 = .L1::evict_normal .L1::evict_unchanged .L1::evict_first .L1::evict_last .L1::no_allocate
  .l2 = .L2::evict_normal .L2::evict_first .L2::evict_last
  .hint = .L2::cache_hint
  .vec = .v2 .v4 .v8
  .type = .b8 .b16 .b32 .b64 .b128 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f32 .f64

prefetch{.space}.level        [a]
prefetch.global.evict         [a]
prefetch{.tspace}.tensormap   [a]
  .space = .global .local
  .tspace = .const .param
  .level = .L1 .L2
  .evict = .L2::evict_last .L2::evict_normal

prefetchu.L1                  [a]

applypriority{.global}.L2::evict_normal   [a], imm

discard{.global}.L2           [a], imm

createpolicy.fractional.primary{.second}.b64   d, a:.f32
createpolicy.fractional.primary{.second}.b64   d
createpolicy.range{.global}.primary{.second}.b64   d, a:.b64, b:.u32, c:.u32
createpolicy.cvt.L2.b64       d, a:.b64
  .primary = .L2::evict_last .L2::evict_normal .L2::evict_first .L2::evict_unchanged
  .second = .L2::evict_first .L2::evict_unchanged

isspacep.space                d:.pred, a:~.u32
  .space = .const .global .local .shared .shared::cta .shared::cluster .param .param::entry

cvta.space.size               d, a
cvta.space.size               d, address
cvta.to.space.size            d, a
  .space = .const .global .local .shared .shared::cta .shared::cluster .param .param::entry
  .size = .u32 .u64

mapa{.space}.type             d, a, b:.u32
mapa{.space}.type             d, address, b:.u32
  .space = .shared::cluster
  .type = .u32 .u64

getctarank{.space}.type       d:.u32, a
getctarank{.space}.type       d:.u32, address
  .space = .shared::cluster
  .type = .u32 .u64

istypep.kind                  d:.pred, a:.b64
  .kind = .texref .samplerref .surfref

alloca.type                   d, a:.u64{, imm}
  .type = .u32 .u64

stacksave.type                d
  .type = .u32 .u64

stackrestore.type             a
  .type = .u32 .u64

multimem.ld_reduce{.order}{.scope}{.global}.op{.acc}{.vec}.type   d:vec~type, [a]
multimem.st{.order}{.scope}{.global}{.vec}.type                   [a], b:vec~type
multimem.red{.order}{.scope}{.global}.op{.vec}.type               [a], b:vec~type
multimem.cp.*                 any
  .order = .weak .relaxed .acquire .release
  .scope = .cta .cluster .gpu .sys
  .op = .min .max .add .and .or .xor
  .acc = .acc::f32 .acc::f16
  .vec = .v2 .v4 .v8
  .type = .b32 .b64 .u32 .u64 .s32 .s64 .f32 .f64 .f16 .f16x2 .bf16 .bf16x2 .e5m2 .e5m2x2 .e5m2x4 .e4m3 .e4m3x2 .e4m3x4
";
