//! Integer arithmetic: whole-number, 24-bit, extended-precision, dot products.

pub(super) const TABLE: &str = "\
add.type                d, a, b
add.ptype               d, a, b                 @8.0/sm_90
add.sat.ptype           d, a, b                 @9.2/sm_107f|sm_120f
add{.sat}.qtype         d, a, b                 @9.2/sm_107f|sm_120f
add.sat.u32             d, a, b                 @9.2/sm_107f|sm_120f
add{.sat}.s32           d, a, b
add{.cc}.ctype          d, a, b
add{.cc}.wtype          d, a, b                 @4.3
  .type = .u16 .u32 .u64 .s16 .s32 .s64
  .ptype = .u16x2 .s16x2
  .qtype = .u8x4 .s8x4
  .ctype = .u32 .s32
  .wtype = .u64 .s64

sub.type                d, a, b
sub{.sat}.s32           d, a, b
sub{.sat}.qtype         d, a, b                 @9.2/sm_107f|sm_120f
sub{.cc}.ctype          d, a, b
sub{.cc}.wtype          d, a, b                 @4.3
  .type = .u16 .u32 .u64 .s16 .s32 .s64
  .ctype = .u32 .s32
  .wtype = .u64 .s64
  .qtype = .u8x4 .s8x4

addc{.cc}.type          d, a, b
  .type = .u32 .s32 .u64 .s64

subc{.cc}.type          d, a, b
  .type = .u32 .s32 .u64 .s64

mul.mode.type           d, a, b
mul.wide.wtype          d:wtype*2, a, b
  .mode = .hi .lo
  .type = .u16 .u32 .u64 .s16 .s32 .s64
  .wtype = .u16 .u32 .s16 .s32

mad.mode.type           d, a, b, c
mad.wide.wtype          d:wtype*2, a, b, c:wtype*2
mad.hi.sat.s32          d, a, b, c
mad.mode.cc.ctype       d, a, b, c              @3.0
  .mode = .hi .lo
  .type = .u16 .u32 .u64 .s16 .s32 .s64
  .wtype = .u16 .u32 .s16 .s32
  .ctype = .u32 .s32 .u64@4.3 .s64@4.3

madc.mode{.cc}.type     d, a, b, c              @3.0
  .mode = .hi .lo
  .type = .u32 .s32 .u64 .s64

mul24.mode.type         d, a, b
  .mode = .hi .lo
  .type = .u32 .s32

mad24.mode.type         d, a, b, c
mad24.hi.sat.s32        d, a, b, c
  .mode = .hi .lo
  .type = .u32 .s32

sad.type                d, a, b, c
  .type = .u16 .u32 .u64 .s16 .s32 .s64

div.type                d, a, b
  .type = .u16 .u32 .u64 .s16 .s32 .s64

rem.type                d, a, b
  .type = .u16 .u32 .u64 .s16 .s32 .s64

abs.type                d, a
  .type = .s16 .s32 .s64

neg.type                d, a
neg.s8x4                d, a                    @9.2/sm_107f|sm_120f
  .type = .s16 .s32 .s64

min.type                d, a, b
min{.relu}.ptype        d, a, b                 @8.0/sm_90
min.relu.s32            d, a, b                 @8.0/sm_90
min.u16x2               d, a, b                 @8.0/sm_90
min.u8x4                d, a, b                 @9.2/sm_107f|sm_120f
min{.relu}.s8x4         d, a, b                 @9.2/sm_107f|sm_120f
  .type = .u16 .u32 .u64 .s16 .s32 .s64
  .ptype = .s16x2

max.type                d, a, b
max{.relu}.ptype        d, a, b                 @8.0/sm_90
max.relu.s32            d, a, b                 @8.0/sm_90
max.u16x2               d, a, b                 @8.0/sm_90
max.u8x4                d, a, b                 @9.2/sm_107f|sm_120f
max{.relu}.s8x4         d, a, b                 @9.2/sm_107f|sm_120f
  .type = .u16 .u32 .u64 .s16 .s32 .s64
  .ptype = .s16x2

clmad.mode.u64          d, a, b, c              @9.3/sm_80
  .mode = .lo .hi

dp4a.atype.btype        d:.u32, a:.u32, b:.u32, c:.u32   @sm_61
  .atype = .u32 .s32
  .btype = .u32 .s32

dp2a.mode.atype.btype   d:.u32, a:.u32, b:.u32, c:.u32   @sm_61
  .mode = .lo .hi
  .atype = .u32 .s32
  .btype = .u32 .s32
";
