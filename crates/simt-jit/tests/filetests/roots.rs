//! Reciprocal roots, by the processor's estimate and by a root and a quotient: whatever runs a kernel
//! gives the same bits.

use super::harness::{Device, Params, Shape};
use super::tiers::Set;
use ptx_reference::Random;
use simt_jit::Flavour;

/// Threads: a full warp, and one of which lanes are missing.
const THREADS: u32 = 48;
/// Rounds, with an argument for each thread.
const ROUNDS: u32 = 64;
/// Results of a thread in a round.
const RESULTS: u32 = 6;

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

/// Of an argument: its root, flushed, in its own place, in some lanes only, and as used by arithmetic
/// that does not mind which NaN it gets; and the root of one argument for all lanes.
fn kernel() -> String {
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64
         .visible .entry k(.param .u64 from, .param .u64 to)
         {{
             .reg .b64 %p, %q, %one, %w; .reg .b32 %t, %i, %round; .reg .pred %odd, %more;
             .reg .f32 %x, %a, %b, %c, %d, %e, %f;
             ld.param.u64 %one, [from]; ld.param.u64 %q, [to]; mov.u32 %t, %tid.x;
             mul.wide.u32 %w, %t, 4; add.u64 %p, %one, %w;
             mul.wide.u32 %w, %t, {bytes}; add.u64 %q, %q, %w;
             and.b32 %i, %t, 1; setp.ne.u32 %odd, %i, 0; mov.u32 %round, {ROUNDS};
         AGAIN:
             ld.global.f32 %x, [%p]; ld.global.f32 %e, [%one];
             rsqrt.approx.f32 %a, %x;
             rsqrt.approx.ftz.f32 %b, %x;
             mov.f32 %c, %x; rsqrt.approx.f32 %c, %c; fma.rn.f32 %c, %c, %x, %c;
             mov.f32 %d, %x; @%odd rsqrt.approx.f32 %d, %x;
             rsqrt.approx.f32 %e, %e;
             mov.f32 %f, %a; @%odd rsqrt.approx.ftz.f32 %f, %f;
             st.global.f32 [%q], %a; st.global.f32 [%q+4], %b; st.global.f32 [%q+8], %c;
             st.global.f32 [%q+12], %d; st.global.f32 [%q+16], %e; st.global.f32 [%q+20], %f;
             add.u64 %p, %p, {next}; add.u64 %one, %one, {next}; add.u64 %q, %q, {out};
             sub.u32 %round, %round, 1; setp.ne.u32 %more, %round, 0;
             @%more bra AGAIN;
             ret;
         }}",
        bytes = 4 * RESULTS,
        next = 4 * THREADS,
        out = 4 * RESULTS * THREADS,
    )
}

fn run(set: Set, text: &str, arguments: &[u32]) -> Vec<u32> {
    let mut device = Device::new(set);
    let kernel = device.load(text).expect("PTX").kernel("k").expect("a kernel");
    let bytes = 4 * (RESULTS * THREADS * ROUNDS) as usize;
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

#[test]
fn all_that_runs_a_kernel_takes_the_same_roots() {
    let mut random = Random::new(17);
    let arguments: Vec<u32> = (0..THREADS * ROUNDS)
        .map(|_| match random.below(3) {
            0 => *random.pick(&SPECIAL),
            1 => 0x3f00_0000 + random.below(1 << 24) as u32,
            _ => random.below(1 << 32) as u32,
        })
        .collect();
    let text = kernel();
    let ways = [Set::Interpreted, Set::Estimating(None)].map(|set| run(set, &text, &arguments));
    let [rounded, estimated] = &ways;
    let differ = rounded.iter().zip(estimated).filter(|(a, b)| a != b).count();
    assert!(differ > rounded.len() / 20, "{differ} of {} results differ", rounded.len());
    for (a, b) in rounded.iter().zip(estimated) {
        // Either is at most a unit in the last place off, and then there is arithmetic on it.
        assert!(a.abs_diff(*b) <= 4, "{a:08x}, {b:08x}");
    }
    for flavour in Flavour::ALL {
        assert!(
            run(Set::Estimating(Some(flavour)), &text, &arguments) == *estimated,
            "{flavour:?}"
        );
        let own = if flavour.estimates() { estimated } else { rounded };
        assert!(run(Set::Native(flavour), &text, &arguments) == *own, "{flavour:?}");
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
    let sets = Flavour::ALL.map(Some).into_iter().chain([None]).map(Set::Estimating);
    for set in sets.chain(Flavour::ALL.map(Set::Native)) {
        let made = run(set, &kernel(), &arguments);
        for (i, results) in made.chunks(RESULTS as usize).enumerate() {
            let (argument, plain, flushed) = ends[i % ends.len()];
            assert_eq!(results[..2], [plain, flushed], "{argument:08x} ({set:?})");
        }
    }
}
