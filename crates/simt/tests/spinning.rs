//! Spin loops: which instructions make a loop one that waits for other threads.

use simt::inspect::{Stage, dump};
use simt::launch_shape::LaunchShape;

fn spins(watch: &str) -> bool {
    let text = format!(
        ".version 8.0 .target sm_80 .address_size 64
        .visible .entry waits(.param .u64 p) {{
          .reg .u64 %d; .reg .b32 %r; .reg .pred %q;
          ld.param.u64 %d, [p];
        AGAIN:
          {watch}
          setp.eq.u32 %q, %r, 0;
          @%q bra AGAIN;
          st.global.u32 [%d], %r;
          ret;
        }}"
    );
    let dumped = dump(&text, None, Stage::Vector(LaunchShape::Any)).expect("PTX");
    dumped.expect("a kernel").contains(" spins")
}

#[test]
fn a_loop_that_reads_what_others_write_spins() {
    assert!(spins("ld.volatile.global.u32 %r, [%d];"));
    assert!(spins("suld.b.1d.b32.trap %r, [%d, {4}];"));
    assert!(!spins("ld.global.u32 %r, [%d];"));
}
