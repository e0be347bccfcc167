//! `cargo bench -p soft-gpu --bench control_flow`: what calls through a pointer, calls of functions that call
//! themselves, and a warp that diverged once cost, beside the same work without.
//!
//! The tier is the one that the environment chooses (`OPENMPS_SOFT_TIER`, `OPENMPS_SOFT_SIMD`). Both kernels of a row
//! run in turns, and give the same sums.

mod support;

use anyhow::{Result, ensure};
use std::ffi::CStr;
use support::Bench;

/// Rounds in which the two kernels of a row run; the first have them compiled.
const ROUNDS: usize = 9;
const THREADS: u32 = 64;

/// What is measured: name, the kernel and the one beside it, and the loop's count.
const ROWS: [(&str, &CStr, &CStr, u32); 3] = [
    ("call through a pointer", c"by_pointer", c"direct", 200_000),
    ("recursion of depth 3", c"recursive", c"direct", 4_000),
    ("after a divergence", c"diverged", c"together", 4_000_000),
];

const TEXT: &CStr = c"
.version 7.0
.target sm_80
.address_size 64
.func (.param .b32 result) mix(.param .b32 value, .param .b32 round)
{
    .reg .b32 %v, %r;
    ld.param.b32 %v, [value]; ld.param.b32 %r, [round];
    mad.lo.u32 %v, %v, 1664525, %r;
    shr.u32 %r, %v, 7; xor.b32 %v, %v, %r;
    mad.lo.u32 %v, %v, 22695477, 1;
    shr.u32 %r, %v, 9; xor.b32 %v, %v, %r;
    st.param.b32 [result], %v;
    ret;
}
.func (.param .b32 result) other(.param .b32 value, .param .b32 round)
{
    .reg .b32 %v, %r;
    ld.param.b32 %v, [value]; ld.param.b32 %r, [round];
    sub.u32 %v, %v, %r;
    st.param.b32 [result], %v;
    ret;
}
.func (.param .b32 result) deep(.param .b32 value, .param .b32 round, .param .b32 depth)
{
    .reg .b32 %v, %r, %d; .reg .pred %p;
    ld.param.b32 %v, [value]; ld.param.b32 %r, [round]; ld.param.b32 %d, [depth];
    setp.eq.u32 %p, %d, 0;
    @%p bra BOTTOM;
    sub.u32 %d, %d, 1;
    {
        .param .b32 g; .param .b32 a; .param .b32 b; .param .b32 c;
        st.param.b32 [a], %v; st.param.b32 [b], %r; st.param.b32 [c], %d;
        call (g), deep, (a, b, c);
        ld.param.b32 %v, [g];
    }
    st.param.b32 [result], %v;
    ret;
BOTTOM:
    mad.lo.u32 %v, %v, 1664525, %r;
    shr.u32 %r, %v, 7; xor.b32 %v, %v, %r;
    mad.lo.u32 %v, %v, 22695477, 1;
    shr.u32 %r, %v, 9; xor.b32 %v, %v, %r;
    st.param.b32 [result], %v;
    ret;
}
.global .u64 functions[2] = {mix, other};

.visible .entry by_pointer(.param .u64 out, .param .u32 n)
{
    .reg .b64 %o, %a, %f; .reg .b32 %t, %v, %i, %n; .reg .pred %p;
    ld.param.u64 %o, [out]; ld.param.u32 %n, [n];
    mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o;
    mov.u64 %a, functions; ld.global.u64 %f, [%a];
    mov.u32 %v, %t; mov.u32 %i, 0;
NEXT:
    {
        .param .b32 g; .param .b32 a; .param .b32 b;
        st.param.b32 [a], %v; st.param.b32 [b], %i;
        prototype: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);
        call (g), %f, (a, b), prototype;
        ld.param.b32 %v, [g];
    }
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra NEXT;
    st.global.u32 [%o], %v;
    ret;
}
.visible .entry direct(.param .u64 out, .param .u32 n)
{
    .reg .b64 %o; .reg .b32 %t, %v, %i, %n; .reg .pred %p;
    ld.param.u64 %o, [out]; ld.param.u32 %n, [n];
    mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o;
    mov.u32 %v, %t; mov.u32 %i, 0;
NEXT:
    {
        .param .b32 g; .param .b32 a; .param .b32 b;
        st.param.b32 [a], %v; st.param.b32 [b], %i;
        call (g), mix, (a, b);
        ld.param.b32 %v, [g];
    }
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra NEXT;
    st.global.u32 [%o], %v;
    ret;
}
.visible .entry recursive(.param .u64 out, .param .u32 n)
{
    .reg .b64 %o; .reg .b32 %t, %v, %i, %n; .reg .pred %p;
    ld.param.u64 %o, [out]; ld.param.u32 %n, [n];
    mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o;
    mov.u32 %v, %t; mov.u32 %i, 0;
NEXT:
    {
        .param .b32 g; .param .b32 a; .param .b32 b; .param .b32 c;
        st.param.b32 [a], %v; st.param.b32 [b], %i; st.param.b32 [c], 3;
        call (g), deep, (a, b, c);
        ld.param.b32 %v, [g];
    }
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra NEXT;
    st.global.u32 [%o], %v;
    ret;
}

// The first warp's lane 0 waits for the second warp, which works for 20 time slices first.
.visible .entry diverged(.param .u64 out, .param .u32 n)
{
    .shared .align 4 .b32 flag;
    .reg .b64 %o; .reg .b32 %t, %v, %i, %n, %x; .reg .pred %p;
    ld.param.u64 %o, [out]; ld.param.u32 %n, [n];
    mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o;
    setp.ne.u32 %p, %t, 0; @%p bra MADE;
    st.volatile.shared.u32 [flag], 0;
MADE:
    bar.sync 0;
    mov.u32 %v, %t; mov.u32 %i, 0;
    setp.lt.u32 %p, %t, 32; @%p bra FIRST;
DELAY:
    mad.lo.u32 %v, %v, 1664525, 1; add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 1310720; @%p bra DELAY;
    st.volatile.shared.u32 [flag], 1;
    bra WORK;
FIRST:
    setp.ne.u32 %p, %t, 0; @%p bra WORK;
WAIT:
    ld.volatile.shared.u32 %x, [flag];
    setp.eq.u32 %p, %x, 0; @%p bra WAIT;
WORK:
    bar.warp.sync 0xffffffff;
    mov.u32 %i, 0;
NEXT:
    mad.lo.u32 %v, %v, 1664525, %i; shr.u32 %x, %v, 7; xor.b32 %v, %v, %x;
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra NEXT;
    st.global.u32 [%o], %v;
    ret;
}
// The same, and all lanes of the first warp wait together.
.visible .entry together(.param .u64 out, .param .u32 n)
{
    .shared .align 4 .b32 flag;
    .reg .b64 %o; .reg .b32 %t, %v, %i, %n, %x; .reg .pred %p;
    ld.param.u64 %o, [out]; ld.param.u32 %n, [n];
    mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o;
    setp.ne.u32 %p, %t, 0; @%p bra MADE;
    st.volatile.shared.u32 [flag], 0;
MADE:
    bar.sync 0;
    mov.u32 %v, %t; mov.u32 %i, 0;
    setp.lt.u32 %p, %t, 32; @%p bra WAIT;
DELAY:
    mad.lo.u32 %v, %v, 1664525, 1; add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 1310720; @%p bra DELAY;
    st.volatile.shared.u32 [flag], 1;
    bra WORK;
WAIT:
    ld.volatile.shared.u32 %x, [flag];
    setp.eq.u32 %p, %x, 0; @%p bra WAIT;
WORK:
    bar.warp.sync 0xffffffff;
    mov.u32 %i, 0;
NEXT:
    mad.lo.u32 %v, %v, 1664525, %i; shr.u32 %x, %v, 7; xor.b32 %v, %v, %x;
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra NEXT;
    st.global.u32 [%o], %v;
    ret;
}
";

fn main() -> Result<()> {
    let bench = Bench::new(TEXT, THREADS as usize)?;
    println!("{:<24} {:>10} {:>12} {:>8}", "", "ms", "without, ms", "ratio");
    for (name, kernel, beside, n) in ROWS {
        let mut best = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            let ((here, sums), (there, other)) =
                (bench.run(kernel, 1, THREADS, n)?, bench.run(beside, 1, THREADS, n)?);
            ensure!(sums == other, "{name}: {sums:?} and {other:?}");
            best = [best[0].min(here), best[1].min(there)];
        }
        println!("{name:<24} {:>10.2} {:>12.2} {:>8.2}", best[0], best[1], best[0] / best[1]);
    }
    Ok(())
}
