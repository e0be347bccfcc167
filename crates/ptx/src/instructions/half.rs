//! Arithmetic of f16 and bf16, alone and in pairs.

pub(super) const TABLE: &str = "\
add{.rn}{.ftz}{.sat}.type   d, a, b
add{.rn}.btype              d, a, b
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2

sub{.rn}{.ftz}{.sat}.type   d, a, b
sub{.rn}.btype              d, a, b
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2

mul{.rn}{.ftz}{.sat}.type   d, a, b
mul{.rn}.btype              d, a, b
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2

fma.rn{.ftz}{.sat}.type     d, a, b, c
fma.rn{.ftz}{.relu}.type    d, a, b, c
fma.rn{.relu}.btype         d, a, b, c
fma.rn.oob{.relu}.otype     d, a, b, c
  .type = .f16 .f16x2
  .btype = .bf16 .bf16x2
  .otype = .f16 .f16x2 .bf16 .bf16x2

abs{.ftz}.type              d, a
  .type = .f16 .f16x2 .bf16 .bf16x2

neg{.ftz}.type              d, a
  .type = .f16 .f16x2 .bf16 .bf16x2

min{.ftz}{.NaN}{.xorsign}{.abs}.type   d, a, b
  .type = .f16 .f16x2 .bf16 .bf16x2

max{.ftz}{.NaN}{.xorsign}{.abs}.type   d, a, b
  .type = .f16 .f16x2 .bf16 .bf16x2

tanh.approx.type            d, a
  .type = .f16 .f16x2 .bf16 .bf16x2

ex2.approx{.ftz}.type       d, a
  .type = .f16 .f16x2 .bf16 .bf16x2
";
