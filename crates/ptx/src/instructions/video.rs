//! Video instructions: scalar and SIMD on bytes and halves of 32-bit registers. Their selectors
//! are taken as written.

pub(super) const TABLE: &str = "\
vadd.*      any

vsub.*      any

vabsdiff.*  any

vmin.*      any

vmax.*      any

vshl.*      any

vshr.*      any

vmad.*      any

vset.*      any

vadd2.*     any

vsub2.*     any

vavrg2.*    any

vabsdiff2.* any

vmin2.*     any

vmax2.*     any

vset2.*     any

vadd4.*     any

vsub4.*     any

vavrg4.*    any

vabsdiff4.* any

vmin4.*     any

vmax4.*     any

vset4.*     any
";
