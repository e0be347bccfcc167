//! Accesses whose lanes are a pattern apart that the code shows: native code, which permutes whole
//! registers, against the interpreter. Also where the pattern is not what it looks like, and where
//! its ends are not there.

use super::harness::{Device, Params, Shape};
use super::tiers::{Set, without_address};
use simt::kernel::{Dim3, FaultKind};
use simt_jit::SimdIsa;

/// Bytes of the area that each row of threads has.
const ROW: u32 = 4096;
/// Most rows of threads.
const PACKED_A: u32 = 4;
const AREA: usize = (ROW * PACKED_A) as usize;
/// Bytes of the widest access.
const ACCESS_BYTES_MAX: usize = 16;
/// Bytes of results.
const RESULTS: usize = 256 * 32;

/// A way to place elements of `bytes` bytes: `%o` from `%t`, with `%u` to compute with.
struct Place {
    code: &'static str,
    bytes: &'static [u32],
    /// No two threads of a row have the same.
    apart: bool,
}

const fn place(code: &'static str, bytes: &'static [u32], apart: bool) -> Place {
    Place { code, bytes, apart }
}

const PLACES: &[Place] = &[
    // Butterflies.
    place("shl.b32 %o, %t, 4;", &[4, 8, 16], true),
    place(
        "and.b32 %u, %t, 1; shl.b32 %o, %t, 1; sub.u32 %o, %o, %u; shl.b32 %o, %o, 3;",
        &[8],
        true,
    ),
    place(
        "and.b32 %u, %t, 7; shl.b32 %o, %t, 1; sub.u32 %o, %o, %u; shl.b32 %o, %o, 3;",
        &[4, 8],
        true,
    ),
    place(
        "and.b32 %u, %t, 15; shl.b32 %o, %t, 1; sub.u32 %o, %o, %u; mul.lo.u32 %o, %o, 4;",
        &[4],
        true,
    ),
    // Neighbours turned around.
    place("xor.b32 %o, %t, 1; shl.b32 %o, %o, 2;", &[4], true),
    place("xor.b32 %o, %t, 21; mul.lo.u32 %o, %o, 8;", &[4, 8], true),
    place("xor.b32 %o, %t, 63; shl.b32 %o, %o, 2;", &[4], true),
    place("mov.u32 %u, 255; sub.u32 %o, %u, %t; shl.b32 %o, %o, 2;", &[4], true),
    // Distances.
    place("mul.lo.u32 %o, %t, 12;", &[4], true),
    place("mad.lo.u32 %o, %t, 8, 20;", &[4], true),
    place("mul.lo.u32 %o, %t, 36;", &[4], true),
    place("mov.u32 %u, 127; sub.u32 %o, %u, %t; mul.lo.u32 %o, %o, 28;", &[4], true),
    // Every other element is misaligned.
    place("mul.lo.u32 %o, %t, 6;", &[4], true),
    // Rows and columns.
    place(
        "and.b32 %o, %t, 3; shl.b32 %o, %o, 6; shr.u32 %u, %t, 2; mad.lo.u32 %o, %u, 4, %o;",
        &[4],
        false,
    ),
    place(
        "and.b32 %o, %t, 24; and.b32 %u, %t, 7; mad.lo.u32 %o, %u, 32, %o; shr.u32 %u, %t, 5; mad.lo.u32 %o, %u, 256, %o;",
        &[4, 8],
        false,
    ),
    place("shr.u32 %o, %t, 1; shl.b32 %o, %o, 2;", &[4], false),
    place("and.b32 %o, %t, 7; or.b32 %o, %o, 16; shl.b32 %o, %o, 4;", &[4, 8, 16], false),
];

/// The access of an element of `bytes` bytes, and its registers.
fn access(bytes: u32, wide: bool) -> (&'static str, &'static str, u32) {
    match (bytes, wide) {
        (4, _) => ("b32", "%w0", 1),
        (8, false) => ("v2.b32", "{%w0, %w1}", 2),
        (8, true) => ("b64", "%d0", 1),
        (_, false) => ("v4.b32", "{%w0, %w1, %w2, %w3}", 4),
        (_, true) => ("v2.b64", "{%d0, %d1}", 2),
    }
}

/// Loads from the area into the results, then stores into the area, at `place` and `offset` bytes.
fn kernel(place: &Place, (bytes, wide): (u32, bool), shared: bool, offset: i32) -> String {
    let (ty, registers, _) = access(bytes, wide);
    let space = if shared { "shared" } else { "global" };
    let base = if shared {
        "mov.u32 %s, tile; add.u32 %s, %s, %o;"
    } else {
        "cvt.u64.u32 %s, %o; add.u64 %s, %s, %area;"
    };
    let address = if shared { "b32" } else { "b64" };
    let copy = |to: &str, from: &str| {
        if !shared {
            return String::new();
        }
        let register = |space: &str| if space == "shared" { "%c" } else { "%x" };
        format!(
            "mov.u32 %i, %n;
             L{to}: shl.b32 %u, %i, 2; mov.u32 %c, tile; add.u32 %c, %c, %u;
             cvt.u64.u32 %x, %u; add.u64 %x, %x, %area;
             ld.{from}.b32 %w0, [{}]; st.{to}.b32 [{}], %w0;
             add.u32 %i, %i, %all; setp.lt.u32 %q, %i, {}; @%q bra L{to};
             bar.sync 0;\n",
            register(from),
            register(to),
            AREA / 4
        )
    };
    let values: String = (0..4)
        .map(|n| format!("mad.lo.u32 %w{n}, %n, 97, {n}; cvt.u64.u32 %d{}, %w{n};", n % 2))
        .collect();
    let store = if place.apart {
        format!("{values} st.{space}.{ty} [%s+{offset}], {registers};")
    } else {
        String::new()
    };
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64
         .visible .entry k(.param .u64 a, .param .u64 b)
         {{
             .shared .align 16 .b8 tile[{AREA}];
             .reg .b64 %area, %out, %x, %far, %at, %d0, %d1; .reg .{address} %s; .reg .pred %q;
             .reg .b32 %t, %y, %n, %all, %o, %u, %i, %c, %w0, %w1, %w2, %w3;
             ld.param.u64 %area, [a]; ld.param.u64 %out, [b];
             mov.u32 %t, %tid.x; mov.u32 %y, %tid.y; mov.u32 %u, %ntid.x;
             mad.lo.u32 %n, %y, %u, %t;
             mov.u32 %i, %ntid.y; mul.lo.u32 %all, %u, %i;
             {fill}
             {code}
             mad.lo.u32 %o, %y, {ROW}, %o;
             {base}
             ld.{space}.{ty} {registers}, [%s+{offset}];
             mul.wide.u32 %far, %n, 32; add.u64 %at, %far, %out;
             st.global.{ty} [%at], {registers};
             bar.sync 0;
             {store}
             bar.sync 0;
             {back}
             ret;
         }}",
        fill = copy("shared", "global"),
        code = place.code,
        back = copy("global", "shared"),
    )
}

/// The area, the results and bytes that were counted, or the fault.
type Outcome = Result<([Vec<u8>; 2], u64), FaultKind>;

/// Runs a kernel; `missing` bytes of the area are not there.
fn run(set: Set, text: &str, block: Dim3, missing: usize) -> Outcome {
    run_blocks(set, text, block, missing, 1).0
}

/// Runs as many blocks; also how many slow paths were taken.
fn run_blocks(set: Set, text: &str, block: Dim3, missing: usize, blocks: u32) -> (Outcome, u64) {
    let mut device = Device::new(set);
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("a kernel");
    let bytes = AREA - missing;
    let area = device.memory.allocate_aligned(bytes as u64, ACCESS_BYTES_MAX, true);
    let out = device.memory.allocate(RESULTS as u64, true);
    let content: Vec<u8> = (0..bytes).map(|n| (n * 7 + n / 251) as u8).collect();
    device.memory.write(area, &content);
    let mut params = Params::default();
    [area, out].iter().for_each(|address| params.push(&address.to_le_bytes()));
    let shape = Shape { block, ..Shape::linear(blocks, 1) };
    let ran = device.run(&kernel, shape, &params.0);
    let read = || [device.memory.read(area, bytes), device.memory.read(out, RESULTS)];
    let outcome = ran.map_err(|fault| without_address(fault.kind));
    let outcome = outcome.map(|()| (read(), device.counters.global_bytes));
    (outcome, device.counters.native.slow_paths)
}

/// Places that AVX-512 has no permutation for: they reach too far, or start anywhere in global memory.
const SCATTERED_IN_SHARED: [usize; 2] = [10, 11];
const SCATTERED_IN_GLOBAL: [usize; 7] = [1, 2, 3, 5, 11, 13, 14];
/// The place where elements are misaligned.
const MISALIGNED: usize = 12;

/// Once the first block has found where memory is, nothing takes a slow path.
#[test]
fn fast_paths_are_taken() {
    for (isa, shared) in SimdIsa::ALL.into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
        let scattered = match (isa, shared) {
            (SimdIsa::Avx2, _) => &[][..],
            (SimdIsa::Avx512, true) => &SCATTERED_IN_SHARED[..],
            (SimdIsa::Avx512, false) => &SCATTERED_IN_GLOBAL[..],
        };
        for (number, place) in PLACES.iter().enumerate() {
            if !isa.is_here() || number == MISALIGNED || scattered.contains(&number) {
                continue;
            }
            for form in place.bytes.iter().flat_map(|bytes| [(*bytes, false), (*bytes, true)]) {
                let text = kernel(place, form, shared, 0);
                let of = |blocks| run_blocks(Set::Native(isa), &text, block(128, 1), 0, blocks).1;
                // Of two more blocks of four warps; what fills the tile has one itself.
                let most = if shared { 2 * 4 } else { 0 };
                let more = of(3) - of(1);
                assert!(more <= most, "{isa:?}, {}: {more} slow paths\n{text}", place.code);
            }
        }
    }
}

fn compare(shared: bool, offset: i32, block: Dim3, missing: usize) {
    for place in PLACES {
        for form in place.bytes.iter().flat_map(|bytes| [(*bytes, false), (*bytes, true)]) {
            let text = kernel(place, form, shared, offset);
            let interpreted = run(Set::Interpreted, &text, block, missing);
            for isa in SimdIsa::ALL {
                let native = run(Set::Native(isa), &text, block, missing);
                assert!(native == interpreted, "{isa:?}, {block:?}: {:?}\n{text}", native.err());
            }
        }
    }
}

fn block(x: u32, y: u32) -> Dim3 {
    Dim3 { x, y, z: 1 }
}

#[test]
fn in_shared_memory() {
    compare(true, 0, block(128, 1), 0);
    compare(true, 16, block(64, 2), 0);
}

#[test]
fn in_global_memory() {
    compare(false, 0, block(128, 1), 0);
    compare(false, 48, block(64, 4), 0);
}

#[test]
fn warps_that_are_not_full_or_start_elsewhere_in_a_row() {
    compare(true, 0, block(70, 1), 0);
    compare(true, 0, block(16, 4), 0);
    compare(false, 0, block(40, 3), 0);
}

#[test]
fn ends_that_are_not_there() {
    // The first two rows' places reach into what is missing, or just do not; elements that are 8
    // bytes apart end where it starts.
    for missing in [3 * ROW, 3 * ROW + 512, 4 * ROW - 1020, 4 * ROW - 2044, 4 * ROW - 1040] {
        compare(false, 0, block(128, 1), missing as usize);
    }
    // Those that count down reach in front of it.
    compare(false, -600, block(128, 1), 0);
    compare(true, (AREA - 2048) as i32, block(128, 1), 0);
    compare(true, -8, block(128, 1), 0);
}
