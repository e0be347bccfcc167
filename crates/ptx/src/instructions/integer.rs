//! Integer arithmetic: whole-number, 24-bit, extended-precision, dot products.

pub(super) const TABLE: &str = "\
add.type                d, a, b
add{.sat}.s32           d, a, b
add{.cc}.ctype          d, a, b
  .type = .u16 .u32 .u64 .s16 .s32 .s64 .u16x2 .s16x2
  .ctype = .u32 .s32 .u64 .s64

sub.type                d, a, b
sub{.sat}.s32           d, a, b
sub{.cc}.ctype          d, a, b
  .type = .u16 .u32 .u64 .s16 .s32 .s64
  .ctype = .u32 .s32 .u64 .s64

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
mad.mode.cc.ctype       d, a, b, c
  .mode = .hi .lo
  .type = .u16 .u32 .u64 .s16 .s32 .s64
  .wtype = .u16 .u32 .s16 .s32
  .ctype = .u32 .s32 .u64 .s64

madc.mode{.cc}.type     d, a, b, c
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
  .type = .s16 .s32 .s64

min.type                d, a, b
min{.relu}.rtype        d, a, b
  .type = .u16 .u32 .u64 .u16x2 .s16 .s64
  .rtype = .s16x2 .s32

max.type                d, a, b
max{.relu}.rtype        d, a, b
  .type = .u16 .u32 .u64 .u16x2 .s16 .s64
  .rtype = .s16x2 .s32

dp4a.atype.btype        d:.u32, a:.u32, b:.u32, c:.u32
  .atype = .u32 .s32
  .btype = .u32 .s32

dp2a.mode.atype.btype   d:.u32, a:.u32, b:.u32, c:.u32
  .mode = .lo .hi
  .atype = .u32 .s32
  .btype = .u32 .s32
";
