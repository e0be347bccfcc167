//! `cargo bench -p soft-gpu --bench locks`: how long threads take that all want one spin lock.
//!
//! Each thread takes the lock once, adds to a sum and gives the lock back. The tier is the one that
//! the environment chooses (`OPENMPS_SOFT_TIER`, `OPENMPS_SOFT_SIMD`).

mod support;

use anyhow::{Result, ensure};
use support::Bench;

/// Blocks, and threads of each.
const SHAPES: [(u32, u32); 5] = [(1, 32), (1, 256), (16, 32), (2, 256), (16, 256)];
/// Launches of each shape; the first one has the kernel compiled.
const LAUNCHES: usize = 6;

const TEXT: &std::ffi::CStr = c"
.version 7.0
.target sm_80
.address_size 64
.visible .entry locked(.param .u64 p)
{
    .reg .b64 %o; .reg .b32 %r; .reg .pred %taken;
    ld.param.u64 %o, [p];
TAKE:
    atom.global.cas.b32 %r, [%o], 0, 1;
    setp.ne.u32 %taken, %r, 0;
    @%taken bra TAKE;
    ld.volatile.global.u32 %r, [%o+4];
    add.u32 %r, %r, 1;
    st.volatile.global.u32 [%o+4], %r;
    membar.gl;
    atom.global.exch.b32 %r, [%o], 0;
    ret;
}
";

fn main() -> Result<()> {
    let bench = Bench::new(TEXT, 2)?;
    println!("{:>8} {:>8} {:>12} {:>12}", "blocks", "threads", "first, ms", "best, ms");
    for (blocks, threads) in SHAPES {
        let mut times = Vec::new();
        for _ in 0..LAUNCHES {
            let (took, words) = bench.run(c"locked", blocks, threads, 0)?;
            times.push(took);
            ensure!(words == [0, blocks * threads], "{words:?} of {blocks} x {threads}");
        }
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        println!("{blocks:>8} {threads:>8} {:>12.2} {best:>12.2}", times[0]);
    }
    Ok(())
}
