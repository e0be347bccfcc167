//! Arithmetic of f16 and bf16, alone and in pairs.

pub(super) const TABLE: &str = "\
add{.rn}{.ftz}{.sat}.type   d, a, b         @4.2/sm_53
add{.rn}.btype              d, a, b         @sm_90
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2

sub{.rn}{.ftz}{.sat}.type   d, a, b         @4.2/sm_53
sub{.rn}.btype              d, a, b         @sm_90
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2

mul{.rn}{.ftz}{.sat}.type   d, a, b         @4.2/sm_53
mul{.rn}.btype              d, a, b         @sm_90
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2

fma.rn{.ftz}{.sat}.type     d, a, b, c      @4.2/sm_53
fma.rn{.ftz}.relu.type      d, a, b, c      @sm_80
fma.rn{.relu}.btype         d, a, b, c      @sm_80
fma.rn.oob{.relu}.otype     d, a, b, c      @8.1/sm_90
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2
  .otype = .f16 .f16x2 .bf16 .bf16x2

abs{.ftz}.type              d, a            @6.5/sm_53
abs.btype                   d, a            @sm_80
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2

neg{.ftz}.type              d, a            @5.1/sm_53
neg.btype                   d, a            @sm_80
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2

min{.ftz}{.NaN}.type                 d, a, b   @sm_80
min{.ftz}{.NaN}.xorsign.abs.type     d, a, b   @7.2/sm_86
min{.NaN}.btype                      d, a, b   @sm_80
min{.NaN}.xorsign.abs.btype          d, a, b   @7.2/sm_86
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2

max{.ftz}{.NaN}.type                 d, a, b   @sm_80
max{.ftz}{.NaN}.xorsign.abs.type     d, a, b   @7.2/sm_86
max{.NaN}.btype                      d, a, b   @sm_80
max{.NaN}.xorsign.abs.btype          d, a, b   @7.2/sm_86
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2

tanh.approx.type            d, a            @7.0/sm_75
tanh.approx.btype           d, a            @sm_90
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2

ex2.approx.type             d, a            @7.0/sm_75
ex2.approx.ftz.btype        d, a            @sm_90
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2
";
