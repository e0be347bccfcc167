//! Arithmetic of f32 and f64, pairs of f32 included.

pub(super) const TABLE: &str = "\
add{.rnd}{.ftz}{.sat}.f32   d, a, b
add{.rnd}{.ftz}.f32x2       d, a, b
add{.rnd}.f64               d, a, b
add{.rnd}{.sat}.f32.atype   d:.f32, a:atype, c:.f32   @sm_100
  .rnd = .rn .rz .rm .rp
  .atype = .f16 .bf16

sub{.rnd}{.ftz}{.sat}.f32   d, a, b
sub{.rnd}{.ftz}.f32x2       d, a, b
sub{.rnd}.f64               d, a, b
sub{.rnd}{.sat}.f32.atype   d:.f32, a:atype, c:.f32   @sm_100
  .rnd = .rn .rz .rm .rp
  .atype = .f16 .bf16

mul{.rnd}{.ftz}{.sat}.f32   d, a, b
mul{.rnd}{.ftz}.f32x2       d, a, b
mul{.rnd}.f64               d, a, b
  .rnd = .rn .rz .rm .rp

fma.rnd{.ftz}{.sat}.f32     d, a, b, c
fma.rnd{.ftz}.f32x2         d, a, b, c
fma.rnd.f64                 d, a, b, c
fma.rnd{.sat}.f32.atype     d:.f32, a:atype, b:atype, c:.f32   @sm_100
  .rnd = .rn .rz .rm .rp
  .atype = .f16 .bf16

mad.rnd{.ftz}{.sat}.f32     d, a, b, c   @sm_20
mad{.ftz}{.sat}.f32         d, a, b, c   @<3.2/sm_20
mad.rnd.f64                 d, a, b, c
  .rnd = .rn .rz .rm .rp

div.how{.ftz}.f32           d, a, b
div.rnd.f64                 d, a, b
  .how = .approx .full .rn .rz .rm .rp
  .rnd = .rn .rz .rm .rp

abs{.ftz}.f32               d, a
abs.f64                     d, a

neg{.ftz}.f32               d, a
neg.f64                     d, a

min{.ftz}{.NaN}.f32                d, a, b
min{.ftz}{.NaN}.xorsign.abs.f32    d, a, b       @7.2/sm_86
min{.ftz}{.NaN}{.abs}.f32          d, a, b, c    @8.8/sm_100
min.f64                               d, a, b
  .NaN = .NaN@sm_80

max{.ftz}{.NaN}.f32                d, a, b
max{.ftz}{.NaN}.xorsign.abs.f32    d, a, b       @7.2/sm_86
max{.ftz}{.NaN}{.abs}.f32          d, a, b, c    @8.8/sm_100
max.f64                               d, a, b
  .NaN = .NaN@sm_80

rcp.how{.ftz}.f32           d, a
rcp.rnd.f64                 d, a
rcp.approx.ftz.f64          d, a
  .how = .approx .rn .rz .rm .rp
  .rnd = .rn .rz .rm .rp

sqrt.how{.ftz}.f32          d, a
sqrt.rnd.f64                d, a
  .how = .approx .rn .rz .rm .rp
  .rnd = .rn .rz .rm .rp

rsqrt.approx{.ftz}.type     d, a
  .type = .f32 .f64

sin.approx{.ftz}.f32        d, a

cos.approx{.ftz}.f32        d, a

lg2.approx{.ftz}.f32        d, a

ex2.approx{.ftz}.f32        d, a

tanh.approx.f32             d, a          @7.0/sm_75

copysign.type               d, a, b
  .type = .f32 .f64

testp.what.type             p:.pred, a
  .what = .finite .infinite .number .notanumber .normal .subnormal
  .type = .f32 .f64
";
