//! Approximate functions: every tier gives the same bits. Reciprocal roots are made by the
//! processor's estimate, or by a root and a quotient.

use super::harness::{Device, Params, Shape};
use super::tiers::Set;
use ptx_reference::Random;
use simt_jit::SimdIsa;
use std::fmt::Write;

/// Threads: a full warp, and one of which lanes are missing.
const THREADS: u32 = 48;
/// Rounds, with an argument for each thread.
const ROUNDS: u32 = 64;

/// Ways from an argument `%x` to a result `%r`: the root, flushed, in its own place, in some lanes only,
/// and as used by arithmetic that does not mind which NaN it gets; and the root of one argument for all
/// lanes, `%one`.
const ROOTS: [&str; 6] = [
    "rsqrt.approx.f32 %r, %x;",
    "rsqrt.approx.ftz.f32 %r, %x;",
    "mov.f32 %r, %x; rsqrt.approx.f32 %r, %r; fma.rn.f32 %r, %r, %x, %r;",
    "mov.f32 %r, %x; @%odd rsqrt.approx.f32 %r, %x;",
    "rsqrt.approx.f32 %r, %x; @%odd rsqrt.approx.ftz.f32 %r, %r;",
    "rsqrt.approx.f32 %r, %one;",
];

/// Next to where something changes, and at random.
const SPECIAL: [u32; 20] = [
    0,
    1,
    0x007f_ffff,
    0x0080_0000,
    0x0080_0001,
    0x3f7f_ffff,
    0x3f80_0000,
    0x4080_0000,
    0x4000_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0x7f80_0001,
    0x7fc1_2345,
    0x8000_0000,
    0x8000_0001,
    0x8080_0000,
    0xbf80_0000,
    0xff7f_ffff,
    0xff80_0000,
    0xffc0_0001,
];

/// Takes every way from every argument.
fn kernel(exit_stubs: &[&str]) -> String {
    let mut body = String::new();
    for (n, way) in exit_stubs.iter().enumerate() {
        let _ = writeln!(body, "{way} st.global.f32 [%q+{}], %r;", 4 * n);
    }
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64
         .visible .entry k(.param .u64 from, .param .u64 to)
         {{
             .reg .b64 %p, %q, %first, %w; .reg .b32 %t, %i, %round; .reg .pred %odd, %more;
             .reg .f32 %x, %r, %one;
             ld.param.u64 %first, [from]; ld.param.u64 %q, [to]; mov.u32 %t, %tid.x;
             mul.wide.u32 %w, %t, 4; add.u64 %p, %first, %w;
             mul.wide.u32 %w, %t, {bytes}; add.u64 %q, %q, %w;
             and.b32 %i, %t, 1; setp.ne.u32 %odd, %i, 0; mov.u32 %round, {ROUNDS};
         AGAIN:
             ld.global.f32 %x, [%p]; ld.global.f32 %one, [%first];
             {body}
             add.u64 %p, %p, {next}; add.u64 %first, %first, {next}; add.u64 %q, %q, {out};
             sub.u32 %round, %round, 1; setp.ne.u32 %more, %round, 0;
             @%more bra AGAIN;
             ret;
         }}",
        bytes = 4 * exit_stubs.len(),
        next = 4 * THREADS,
        out = 4 * exit_stubs.len() as u32 * THREADS,
    )
}

fn run(set: Set, exit_stubs: &[&str], arguments: &[u32]) -> Vec<u32> {
    let mut device = Device::new(set);
    let kernel = device.load(&kernel(exit_stubs)).expect("PTX").kernel("k").expect("a kernel");
    let bytes = 4 * exit_stubs.len() * (THREADS * ROUNDS) as usize;
    let from = device.memory.allocate(4 * arguments.len() as u64, true);
    let to = device.memory.allocate(bytes as u64, true);
    let words: Vec<u8> = arguments.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    device.memory.write(from, &words);
    let mut params = Params::default();
    params.push(&from.to_le_bytes());
    params.push(&to.to_le_bytes());
    device.run(&kernel, Shape::linear(1, THREADS), &params.0).expect("no fault");
    let words = device.memory.read(to, bytes);
    words.chunks(4).map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes"))).collect()
}

/// An argument for each thread and round: of two octaves, of those that functions are made for, any, or
/// a special one.
fn arguments() -> Vec<u32> {
    let mut random = Random::new(17);
    let mut one = || match random.below(4) {
        0 => *random.pick(&SPECIAL),
        1 => 0x3f00_0000 + random.below(1 << 24) as u32,
        2 => (random.below(2) << 31) as u32 | (0x3900_0000 + random.below(0x0b00_0000) as u32),
        _ => random.below(1 << 32) as u32,
    };
    (0..THREADS * ROUNDS).map(|_| one()).collect()
}

#[test]
fn all_that_runs_a_kernel_takes_the_same_functions() {
    let mut exit_stubs = Vec::new();
    for function in ["ex2.approx", "lg2.approx", "sin.approx", "cos.approx", "tanh.approx"] {
        for way in [
            "F.f32 %r, %x;",
            "F.ftz.f32 %r, %x;",
            "mov.f32 %r, %x; F.f32 %r, %r; fma.rn.f32 %r, %r, %x, %r;",
            "mov.f32 %r, %x; @%odd F.f32 %r, %x;",
            "F.f32 %r, %one;",
        ] {
            if function != "tanh.approx" || !way.contains("ftz") {
                exit_stubs.push(way.replace('F', function));
            }
        }
    }
    let exit_stubs: Vec<&str> = exit_stubs.iter().map(String::as_str).collect();
    let arguments = arguments();
    let interpreted = run(Set::Interpreted, &exit_stubs, &arguments);
    for isa in SimdIsa::ALL {
        let native = run(Set::Native(isa), &exit_stubs, &arguments);
        for (i, (native, interpreted)) in native.iter().zip(&interpreted).enumerate() {
            let (way, argument) = (exit_stubs[i % exit_stubs.len()], i / exit_stubs.len());
            let at = (argument % THREADS as usize, argument / THREADS as usize);
            assert!(
                native == interpreted,
                "{way} {at:?}: {native:08x}, {interpreted:08x} ({isa:?})"
            );
        }
    }
}

#[test]
fn all_that_runs_a_kernel_takes_the_same_roots() {
    let arguments = arguments();
    let exit_stubs =
        [Set::Interpreted, Set::Estimating(None)].map(|set| run(set, &ROOTS, &arguments));
    let [rounded, estimated] = &exit_stubs;
    let differ = rounded.iter().zip(estimated).filter(|(a, b)| a != b).count();
    assert!(differ > rounded.len() / 20, "{differ} of {} results differ", rounded.len());
    for (a, b) in rounded.iter().zip(estimated) {
        // Either is at most a unit in the last place off, and then there is arithmetic on it.
        assert!(a.abs_diff(*b) <= 4, "{a:08x}, {b:08x}");
    }
    for isa in SimdIsa::ALL {
        assert!(run(Set::Estimating(Some(isa)), &ROOTS, &arguments) == *estimated, "{isa:?}");
        let own = if isa.estimates() { estimated } else { rounded };
        assert!(run(Set::Native(isa), &ROOTS, &arguments) == *own, "{isa:?}");
    }
}

#[test]
fn ends_are_as_the_manual_says() {
    const NAN: u32 = 0x7fff_ffff;
    // Argument, root, root with subnormals taken for zeros.
    let ends: [(u32, u32, u32); 8] = [
        (0, 0x7f80_0000, 0x7f80_0000),
        (0x8000_0000, 0xff80_0000, 0xff80_0000),
        (0x7f80_0000, 0, 0),
        (0xff80_0000, NAN, NAN),
        (0xbf80_0000, NAN, NAN),
        (0xffc0_0001, NAN, NAN),
        (0x8000_0001, NAN, 0xff80_0000),
        (0x4080_0000, 0x3f00_0000, 0x3f00_0000),
    ];
    let arguments: Vec<u32> =
        (0..(THREADS * ROUNDS) as usize).map(|i| ends[i % ends.len()].0).collect();
    let sets = SimdIsa::ALL.map(Some).into_iter().chain([None]).map(Set::Estimating);
    for set in sets.chain(SimdIsa::ALL.map(Set::Native)) {
        let made = run(set, &ROOTS, &arguments);
        for (i, results) in made.chunks(ROOTS.len()).enumerate() {
            let (argument, plain, flushed) = ends[i % ends.len()];
            assert_eq!(results[..2], [plain, flushed], "{argument:08x} ({set:?})");
        }
    }
}
