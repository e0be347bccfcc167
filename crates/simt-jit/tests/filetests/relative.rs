//! Accesses of a block whose lanes are as far apart as others': rows of matrices, copies of 16
//! bytes a lane, stores of products. Native code against the interpreter, for lanes in lines, in
//! rows, anywhere, misaligned and outside, at distances that are constants or that all lanes have.

use super::harness::{Device, Params, Shape};
use super::tiers::{Set, without_address};
use simt::kernel::FaultKind;
use simt_jit::SimdIsa;

/// Threads: two warps.
const THREADS: usize = 64;
/// Bytes of shared memory, half of them for a warp.
const TILE: usize = 8192;
/// Bytes of the buffers, and where the first address in them is.
const BYTES: usize = 1 << 15;
const START: u64 = 1 << 13;
/// Further than the buffers are from each other, so that nothing is there.
const FAR: u32 = 1 << 30;

/// What threads do, and bytes a lane: `%s` and `%g` are where a thread's bytes are in shared memory
/// and in the buffer, `%u` and `%w` a number that all threads have, with 32 bits and with 64.
const BODIES: [(u32, &str); 12] = [
    (
        16,
        "cp.async.cg.shared.global [%s], [%g], 16; cp.async.cg.shared.global [%s+768], [%g+512], 16;
         add.u32 %s, %s, %u; add.u64 %g, %g, %w; cp.async.ca.shared.global [%s+64], [%g+16], 16;
         sub.u32 %s, %s, 48; cp.async.cg.shared.global [%s], [%g], 16; cp.async.wait_all;",
    ),
    // What is added on the way to the first access counts as well.
    (
        16,
        "add.u64 %g, %w, %g; add.u32 %s, %u, %s; cp.async.cg.shared.global [%s+16], [%g], 16;
         add.u64 %g, %g, 32; sub.u32 %s, %s, %u; cp.async.cg.shared.global [%s], [%g+16], 16;
         mov.u32 %u, 32; add.u32 %s, %s, %u; cp.async.cg.shared.global [%s+64], [%g], 16;
         cp.async.wait_all;",
    ),
    (
        16,
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a, %b, %c, %d}, [%s]; MIX
         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a, %b, %c, %d}, [%s+160]; MIX
         add.u32 %s, %s, %u;
         ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%a, %b, %c, %d}, [%s+16]; MIX
         ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%a, %b}, [%s]; MIX
         add.u32 %s, %s, -64;
         ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%c}, [%s]; MIX",
    ),
    // The second half of a warp counts up from somewhere else.
    (
        16,
        "and.b32 %s, %t, 15; mul.lo.u32 %s, %s, 80; and.b32 %d, %t, 16; add.u32 %s, %s, %d;
         mov.u32 %d, tile; add.u32 %s, %s, %d; add.u32 %s, %s, 512;
         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a, %b, %c, %d}, [%s]; MIX
         add.u32 %s, %s, 1280; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a, %b, %c, %d}, [%s]; MIX
         add.u32 %s, %s, %u; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a, %b, %c, %d}, [%s]; MIX",
    ),
    (
        16,
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%s], {%a, %b, %c, %d};
         add.u32 %s, %s, %u; add.u32 %a, %a, %t;
         stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%s+32], {%d, %a, %c, %b};
         stmatrix.sync.aligned.m8n8.x2.shared.b16 [%s+64], {%c, %a};",
    ),
    (
        8,
        "st.global.v2.b32 [%g], {%a, %b}; st.global.v2.b32 [%g+32], {%c, %d};
         add.u64 %g, %g, %w; st.global.v2.b32 [%g+8], {%d, %a}; add.u64 %g, %g, %w;
         st.global.v2.b32 [%g+-512], {%b, %c}; ld.global.v2.b32 {%a, %b}, [%g+-512];",
    ),
    // Another distance for the second half, from where the first starts for both.
    (
        16,
        "and.b32 %i, %t, 15; mul.lo.u32 %i, %i, 80; and.b32 %d, %t, 16;
         mov.u32 %s, tile; add.u32 %s, %s, 512; add.u32 %s, %s, %i;
         add.u32 %x, %s, %d; mad.lo.u32 %i, %d, 5, %s;
         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a, %b, %c, %d}, [%x]; MIX
         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a, %b, %c, %d}, [%i]; MIX",
    ),
    // What only some lanes add.
    (
        16,
        "setp.lt.u32 %again, %b, 2000; cp.async.cg.shared.global [%s], [%g], 16;
         @%again add.u32 %s, %s, %u; @%again add.u64 %g, %g, %w;
         cp.async.cg.shared.global [%s+64], [%g], 16; cp.async.wait_all;",
    ),
    (
        8,
        "setp.lt.u32 %again, %b, 2000; @%again st.global.v2.b32 [%g], {%a, %b};
         @%again st.global.v2.b32 [%g+64], {%c, %d};",
    ),
    // What only the second warp adds: the first one has found out where memory is. The pattern is
    // the only one, or another one's.
    (
        16,
        "setp.ge.u32 %again, %t, 32; @%again add.u64 %g, %g, %w;
         cp.async.cg.shared.global [%s], [%g], 16; cp.async.wait_all;",
    ),
    (
        8,
        "setp.ge.u32 %again, %t, 32; @%again add.u64 %g, %g, %w;
         st.global.v2.b32 [%g], {%a, %b}; st.global.v2.b32 [%g+32], {%c, %d};",
    ),
    // The same addresses as lines of other lengths.
    (
        16,
        "cp.async.cg.shared.global [%s], [%g], 16; cp.async.wait_all;
         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a, %b, %c, %d}, [%s]; MIX
         ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%a, %b}, [%s]; MIX
         stmatrix.sync.aligned.m8n8.x4.shared.b16 [%s], {%d, %a, %c, %b};
         stmatrix.sync.aligned.m8n8.x1.shared.b16 [%s+256], {%r};
         st.global.v2.b32 [%g], {%a, %r}; st.global.v2.b32 [%g+64], {%r, %b};",
    ),
];

fn kernel(body: &str) -> String {
    let mix = "mad.lo.u32 %r, %r, 31, %a; mad.lo.u32 %r, %r, 31, %b; mad.lo.u32 %r, %r, 31, %c;
               mad.lo.u32 %r, %r, 31, %d;";
    format!(
        ".version 7.8\n.target sm_90\n.address_size 64
         .visible .entry k(.param .u64 buffer, .param .u64 places, .param .u64 out, .param .u32 more)
         {{
             .shared .align 16 .b8 tile[{TILE}];
             .reg .b64 %g, %w, %p, %out; .reg .b32 %t, %s, %u, %a, %b, %c, %d, %r, %i, %x;
             .reg .pred %again;
             ld.param.u64 %g, [buffer]; ld.param.u64 %p, [places]; ld.param.u64 %out, [out];
             ld.param.u32 %u, [more]; cvt.s64.s32 %w, %u;
             mov.u32 %t, %tid.x; mov.u32 %r, 1;
             shl.b32 %i, %t, 2; mov.u32 %s, tile;
         FILL:
             add.u32 %x, %s, %i; mul.lo.u32 %a, %i, 2654435761; st.shared.b32 [%x], %a;
             add.u32 %i, %i, {step}; setp.lt.u32 %again, %i, {TILE}; @%again bra FILL;
             mad.wide.u32 %p, %t, 4, %p; ld.global.u32 %x, [%p]; cvt.u64.u32 %p, %x;
             add.u64 %g, %g, %p; and.b32 %i, %t, 32; mad.lo.u32 %x, %i, {half}, %x;
             add.u32 %s, %s, %x;
             mul.lo.u32 %b, %t, 77; mul.lo.u32 %c, %b, 77; mul.lo.u32 %d, %c, 77;
             bar.sync 0;
             {body}
             bar.sync 0;
             shl.b32 %i, %t, 2; mov.u32 %s, tile;
             mad.wide.u32 %p, %t, 4, %out; st.global.b32 [%p+{TILE}], %r;
         EMPTY:
             add.u32 %x, %s, %i; ld.shared.b32 %a, [%x]; cvt.u64.u32 %p, %i; add.u64 %p, %p, %out;
             st.global.b32 [%p], %a;
             add.u32 %i, %i, {step}; setp.lt.u32 %again, %i, {TILE}; @%again bra EMPTY;
             ret;
         }}",
        step = 4 * THREADS,
        half = TILE / 2 / 32,
        body = body.replace("MIX", mix),
    )
}

/// Where the bytes of the threads are, which move `bytes` each. No two lanes of a warp have the
/// same, but where none may have it.
fn places(pattern: usize, bytes: u32) -> Vec<u32> {
    let (quad, middle) = (4 * bytes, 1024);
    (0..THREADS as u32)
        .map(|t| {
            let (lane, line, place) = (t % 32, t % 32 / 4, t % 4);
            middle
                + match pattern {
                    0 => bytes * lane,
                    // Lines, from the first to the last, the other way around, and mixed.
                    1 => (quad + 16) * line + bytes * place,
                    2 => (quad + 16) * (7 - line) + bytes * place,
                    3 => quad * (line * 5 % 8) + bytes * place,
                    // Not in lines: lanes mixed, and one apart.
                    4 => bytes * (lane ^ 5),
                    5 => quad * line + bytes * (place ^ (lane / 8)),
                    6 => bytes * lane + if t == 37 { 48 * bytes } else { 0 },
                    // Misaligned: one, or all.
                    7 => bytes * lane + if t == 43 { bytes / 2 } else { 0 },
                    8 => bytes * lane + bytes / 2,
                    // Outside: one, or a line.
                    9 => bytes * lane + if t == 33 { FAR } else { 0 },
                    10 => bytes * lane + if line == 7 { FAR } else { 0 },
                    // Lanes of which matrices need no rows.
                    _ => bytes * lane + if lane >= 16 { FAR } else { 0 },
                }
        })
        .collect()
}

const LANE_OFFSETS: usize = 12;

/// The buffer, the results and shared memory afterwards, and bytes that were counted.
type Outcome = Result<([Vec<u8>; 2], u64), FaultKind>;

fn run(set: Set, text: &str, places: &[u32], way: (i32, bool)) -> Outcome {
    run_blocks(set, text, places, way, 1).0
}

/// As many blocks of it; also how many slow paths were taken.
fn run_blocks(
    set: Set,
    text: &str,
    places: &[u32],
    (more, writable): (i32, bool),
    blocks: u32,
) -> (Outcome, u64) {
    let mut device = Device::new(set);
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("a kernel");
    let contents: Vec<u8> =
        (0..BYTES as u32).map(|n| (n.wrapping_mul(2_246_822_519) >> 24) as u8).collect();
    let places: Vec<u8> = places.iter().flat_map(|n| n.to_le_bytes()).collect();
    let buffer = device.memory.allocate(BYTES as u64, writable);
    let [at, out] =
        [places.len(), TILE + 4 * THREADS].map(|n| device.memory.allocate(n as u64, true));
    device.memory.write(buffer, &contents);
    device.memory.write(at, &places);
    let mut params = Params::default();
    [buffer + START, at, out].iter().for_each(|a| params.push(&a.to_le_bytes()));
    params.push(&more.to_le_bytes());
    let ran = device.run(&kernel, Shape::linear(blocks, THREADS as u32), &params.0);
    let read = || [device.memory.read(buffer, BYTES), device.memory.read(out, TILE + 4 * THREADS)];
    let outcome = ran.map_err(|fault| without_address(fault.kind));
    let outcome = outcome.map(|()| (read(), device.counters.global_bytes));
    (outcome, device.counters.native.slow_paths)
}

/// Bodies whose lanes are not in lines, or are in several kinds of them.
const NOT_IN_LINES: [usize; 4] = [5, 7, 8, 11];

/// Lanes in lines are moved as lines: nothing takes a slow path once the first block has found memory.
#[test]
fn fast_paths_are_taken() {
    if !SimdIsa::Avx512.is_here() {
        return;
    }
    for (number, (bytes, body)) in BODIES.into_iter().enumerate() {
        let text = kernel(body);
        for pattern in (0..4).filter(|_| !NOT_IN_LINES.contains(&number)) {
            let (set, places) = (Set::Native(SimdIsa::Avx512), places(pattern, bytes));
            let of = |blocks| run_blocks(set, &text, &places, (256, true), blocks).1;
            assert_eq!(of(3), of(1), "pattern {pattern}: slow paths of 3 blocks, of 1\n{text}");
        }
    }
}

#[test]
fn lanes_as_far_apart_as_others() {
    for (number, (bytes, body)) in BODIES.into_iter().enumerate() {
        let text = kernel(body);
        let far = FAR as i32;
        let ways = [0, 256, -256, 8, far, -far].map(|more| (more, true));
        for (pattern, way) in (0..LANE_OFFSETS)
            .flat_map(|p| ways.into_iter().chain([(0, false)]).map(move |w| (p, w)))
        {
            let places = places(pattern, bytes);
            let interpreted = run(Set::Interpreted, &text, &places, way);
            // The last but one writes nothing but 8 bytes a lane; the last adds nothing.
            let (more, writable) = way;
            let fine = pattern < 7 && (more.abs() == 256 || more == 0) && writable;
            assert!(!fine || interpreted.is_ok(), "{number}, {pattern}, {more}: {interpreted:?}");
            for isa in SimdIsa::ALL {
                let native = run(Set::Native(isa), &text, &places, way);
                assert!(
                    native == interpreted,
                    "{isa:?}, pattern {pattern}, {way:?}: {:?}, not {:?}\n{text}",
                    native.err(),
                    interpreted.err(),
                );
            }
        }
    }
}

/// Copies in blocks of 16 columns: each end by whole warps (`%lin`, the thread's number in the block) or
/// by half warps, whose rows are a pitch apart. Each register has one value: so it is a formula of lanes.
#[test]
fn copies_of_half_warps() {
    const ROWS: u32 = 4;
    let number = |r: &str, pitch: u32| match pitch {
        0 => format!("mul.lo.u32 {r}, %lin, 16;"),
        _ => format!("mul.lo.u32 {r}y, %y, {pitch}; mad.lo.u32 {r}, %x, 16, {r}y;"),
    };
    for (to, from) in [(0, 0), (0, 512), (320, 0), (320, 512), (512, 320)] {
        let text = format!(
            ".version 7.8\n.target sm_80\n.address_size 64
             .visible .entry k(.param .u64 in, .param .u64 out)
             {{
                 .reg .b64 %in, %out, %w, %p, %v, %q; .reg .b32 %x, %y, %wid, %lane, %lin, %f, %fy, %t, %ty, %s, %z;
                 .reg .b32 %a, %b, %c, %d; .shared .align 16 .b8 tile[4096];
                 ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
                 mov.u32 %x, %tid.x; mov.u32 %y, %tid.y;
                 mov.u32 %wid, %warpid; mov.u32 %lane, %laneid; mad.lo.u32 %lin, %wid, 32, %lane;
                 {} cvt.u64.u32 %w, %f; add.u64 %p, %in, %w;
                 {} mov.u32 %z, tile; add.u32 %s, %z, %t;
                 cp.async.cg.shared.global [%s], [%p], 16; cp.async.wait_all;
                 ld.shared.v4.u32 {{%a, %b, %c, %d}}, [%s];
                 mul.wide.u32 %v, %lin, 16; add.u64 %q, %out, %v;
                 st.global.v4.u32 [%q], {{%a, %b, %c, %d}};
                 ret;
             }}",
            number("%f", from),
            number("%t", to)
        );
        let words: Vec<u8> = (0..1024u32).flat_map(u32::to_le_bytes).collect();
        let expected: Vec<u8> = (0..16 * ROWS)
            .flat_map(|thread| {
                let row = if from == 0 { 256 } else { from };
                let at = (thread / 16 * row + thread % 16 * 16) as usize;
                words[at..at + 16].to_vec()
            })
            .collect();
        for set in [Set::Interpreted].into_iter().chain(SimdIsa::ALL.map(Set::Native)) {
            let mut device = Device::new(set);
            let kernel = device.load(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let kernel = kernel.kernel("k").expect("a kernel");
            let source = device.memory.allocate(4096, true);
            device.memory.write(source, &words);
            let out = device.memory.allocate(expected.len() as u64, true);
            let mut params = Params::default();
            [source, out].iter().for_each(|a| params.push(&a.to_le_bytes()));
            // The first block finds the memory for the second one.
            let mut shape = Shape::linear(2, 16);
            shape.block.y = ROWS;
            device.run(&kernel, shape, &params.0).expect("it runs");
            let found = device.memory.read(out, expected.len());
            assert!(found == expected, "{set:?}, pitches {to} and {from}\n{text}");
        }
    }
}

/// Copies of 16 bytes a lane of which some lanes, all or none have fewer: what is not copied is zero. The first
/// block copies all, so that the second one knows where memory is.
#[test]
fn copies_of_fewer_bytes() {
    const THREADS: u32 = 64;
    let text = ".version 7.8\n.target sm_80\n.address_size 64
         .visible .entry k(.param .u64 in, .param .u64 out, .param .u32 size, .param .u32 step)
         {
             .reg .b64 %in, %out, %w, %p, %q; .reg .b32 %t, %n, %odd, %step, %block, %s, %a, %b, %c, %d;
             .reg .pred %first; .shared .align 16 .b8 tile[1024];
             ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
             ld.param.u32 %n, [size]; ld.param.u32 %step, [step];
             mov.u32 %t, %tid.x; and.b32 %odd, %t, 1; mul.lo.u32 %odd, %odd, %step; sub.u32 %n, %n, %odd;
             mov.u32 %block, %ctaid.x; setp.eq.u32 %first, %block, 0; selp.b32 %n, 16, %n, %first;
             mul.wide.u32 %w, %t, 16; add.u64 %p, %in, %w; add.u64 %q, %out, %w;
             mul.wide.u32 %w, %block, 1024; add.u64 %q, %q, %w;
             shl.b32 %t, %t, 4; mov.u32 %s, tile; add.u32 %s, %s, %t;
             mov.u32 %a, -1; st.shared.v4.u32 [%s], {%a, %a, %a, %a};
             cp.async.cg.shared.global [%s], [%p], 16, %n; cp.async.wait_all;
             ld.shared.v4.u32 {%a, %b, %c, %d}, [%s];
             st.global.v4.u32 [%q], {%a, %b, %c, %d};
             ret;
         }";
    let bytes: Vec<u8> = (0..16 * THREADS).map(|byte| (byte % 251 + 1) as u8).collect();
    for (size, step) in [(16, 0), (4, 0), (0, 0), (12, 4), (16, 4), (16, 16)] {
        let second: Vec<u8> = (0..THREADS)
            .flat_map(|thread| {
                let copied = size - thread % 2 * step;
                let at = 16 * thread as usize;
                let source = &bytes[at..at + 16];
                let of = move |(byte, value): (u32, u8)| if byte < copied { value } else { 0 };
                (0..16).zip(source.to_vec()).map(of)
            })
            .collect();
        let expected = [&bytes[..], &second].concat();
        for set in [Set::Interpreted].into_iter().chain(SimdIsa::ALL.map(Set::Native)) {
            let mut device = Device::new(set);
            let kernel = device.load(text).unwrap_or_else(|e| panic!("{e}"));
            let kernel = kernel.kernel("k").expect("a kernel");
            let source = device.memory.allocate(bytes.len() as u64, true);
            device.memory.write(source, &bytes);
            let out = device.memory.allocate(expected.len() as u64, true);
            let mut params = Params::default();
            [source, out].iter().for_each(|a| params.push(&a.to_le_bytes()));
            [size, step].iter().for_each(|n| params.push(&n.to_le_bytes()));
            device.run(&kernel, Shape::linear(2, THREADS), &params.0).expect("it runs");
            let found = device.memory.read(out, expected.len());
            assert!(found == expected, "{set:?}, {size} bytes, {step} fewer for odd lanes");
        }
    }
}
