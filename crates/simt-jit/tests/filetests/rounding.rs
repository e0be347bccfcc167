//! Instructions that round in different ways, mixed: native code makes those that round alike
//! together, and must give the interpreter's bits.

use super::harness::{Device, Params, Shape};
use super::tiers::Set;
use simt_jit::SimdIsa;
use std::fmt::Write;

/// Threads: a warp and a half.
const THREADS: u32 = 48;
/// Chains of instructions that do not depend on each other.
const CHAINS: usize = 6;
/// Instructions of a chain.
const LENGTH: usize = 12;

/// What chains are made of: the value so far is `X`, other numbers are `%a`, `%b` and the chain
/// before.
const STEPS: [&str; 12] = [
    "fma.rm.f32 X, X, %a, %b;",
    "add.rp.f32 X, X, %a;",
    "mul.rz.f32 X, X, %b;",
    "add.f32 X, X, %b;",
    "cvt.sat.f32.f32 X, X;",
    "sub.rm.f32 X, %a, X;",
    "fma.rn.f32 X, X, %b, %a;",
    "mov.b32 %i, X; xor.b32 %i, %i, 77; mov.b32 X, %i;",
    "cvt.f64.f32 %d, X; add.rp.f64 %d, %d, %e; mul.rm.f64 %d, %d, %e; cvt.rn.f32.f64 X, %d;",
    "div.rn.f32 X, X, %b;",
    "@%odd add.rm.f32 X, X, %b;",
    "mov.b32 %i, X; and.b32 %i, %i, 65535; cvt.rm.f32.u32 %c, %i; fma.rp.f32 X, X, %a, %c;",
];

fn kernel(start: usize) -> String {
    let mut body = String::new();
    for step in 0..LENGTH {
        for chain in 0..CHAINS {
            // Nearly every chain is somewhere else, so that ways to round alternate.
            let what = STEPS[(start + step * 5 + chain * 7) % STEPS.len()];
            let _ = writeln!(body, "{}", what.replace('X', &format!("%x{chain}")));
        }
    }
    let chains = |line: &str| -> String {
        (0..CHAINS)
            .map(|n| line.replace("NUMBER", &n.to_string()).replace("PLACE", &(4 * n).to_string()))
            .collect()
    };
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64
         .visible .entry k(.param .u64 a)
         {{
             .reg .b64 %p, %w; .reg .b32 %t, %i; .reg .f32 %a, %b, %c, %x<{CHAINS}>;
             .reg .f64 %d, %e; .reg .pred %odd;
             ld.param.u64 %p, [a]; mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, {bytes};
             add.u64 %p, %p, %w;
             cvt.rn.f32.u32 %a, %t; fma.rn.f32 %a, %a, 0f3DCCCCCD, 0f3F8CCCCD;
             rcp.rn.f32 %b, %a; cvt.f64.f32 %e, %b;
             and.b32 %i, %t, 1; setp.ne.u32 %odd, %i, 0;
             {start}{body}{end}
             ret;
         }}",
        bytes = 4 * CHAINS,
        start = chains("mov.f32 %xNUMBER, %a;\n"),
        end = chains("st.global.f32 [%p+PLACE], %xNUMBER;\n"),
    )
}

fn run(set: Set, text: &str) -> Vec<u8> {
    let mut device = Device::new(set);
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("a kernel");
    let bytes = 4 * CHAINS * THREADS as usize;
    let out = device.memory.allocate(bytes as u64, true);
    let mut params = Params::default();
    params.push(&out.to_le_bytes());
    device.run(&kernel, Shape::linear(1, THREADS), &params.0).expect("no fault");
    device.memory.read(out, bytes)
}

#[test]
fn ways_to_round_alternate() {
    for start in 0..STEPS.len() {
        let text = kernel(start);
        let interpreted = run(Set::Interpreted, &text);
        assert!(interpreted.iter().any(|byte| *byte != 0));
        for isa in SimdIsa::ALL {
            assert!(run(Set::Native(isa), &text) == interpreted, "{isa:?}:\n{text}");
        }
    }
}
