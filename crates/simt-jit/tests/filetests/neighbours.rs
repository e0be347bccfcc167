//! Loads and stores of lanes that lie one behind the other, several in one block: what one lane
//! stores another may load, or is about to store. Native code against the interpreter.

use super::harness::{Device, Params, Shape};
use super::tiers::Set;
use simt_jit::SimdIsa;

/// Threads: two warps and a half.
const THREADS: u32 = 80;
/// Bytes of the buffer, and where the first address in it is.
const BYTES: usize = 1 << 15;
const START: u64 = 1 << 14;

/// What threads do: `%p` and `%q` are the addresses `STRIDE` times the thread behind the first and
/// the second one, `%m` and `%n`; `%z` is twice as far behind the first.
const BODIES: [(u32, &str); 18] = [
    (4, "ld.global.u32 %a, [%p]; add.u32 %a, %a, 1; st.global.u32 [%q], %a;"),
    (
        4,
        "ld.global.u32 %a, [%p]; ld.global.u32 %b, [%p+4]; ld.global.u32 %c, [%p+128];
         add.u32 %a, %a, %b; mad.lo.u32 %a, %a, 3, %c; st.global.u32 [%p], %a;",
    ),
    (
        4,
        "st.global.u32 [%p], %t; ld.global.u32 %a, [%q]; add.u32 %a, %a, 5;
         st.global.u32 [%q+256], %a; ld.global.u32 %b, [%p+252]; st.global.u32 [%q+-128], %b;",
    ),
    // Each lane its own, in several places.
    (
        4,
        "ld.global.u32 %a, [%p]; ld.global.u32 %b, [%p+4096]; add.u32 %a, %a, %b;
         st.global.u32 [%p], %a; st.global.u32 [%p+4096], %t; ld.global.u32 %c, [%p];
         st.global.u32 [%q+8192], %c;",
    ),
    (8, "ld.global.v2.u32 {%a, %b}, [%p]; st.global.v2.u32 [%q], {%b, %a};"),
    (24, "ld.global.v2.u32 {%a, %b}, [%p+8]; st.global.v2.u32 [%q], {%b, %a};"),
    (16, "ld.global.v4.u32 {%a, %b, %c, %d}, [%p]; st.global.v4.u32 [%q], {%d, %a, %c, %b};"),
    (32, "ld.global.v4.u32 {%a, %b, %c, %d}, [%p+16]; st.global.v4.u32 [%q], {%d, %a, %c, %b};"),
    (16, "ld.global.v2.u64 {%x, %y}, [%p]; st.global.v2.u64 [%q], {%y, %x};"),
    (
        4,
        "ld.global.u32 %a, [%p]; @%odd ld.global.u32 %a, [%p+64]; add.u32 %a, %a, 7;
         @%odd st.global.u32 [%q], %a; @!%odd st.global.u32 [%p], %a;",
    ),
    (
        4,
        "@!%odd bra SKIP; ld.global.u32 %a, [%p]; ld.global.u32 %b, [%p+32];
         add.u32 %a, %a, %b; st.global.u32 [%q], %a; st.global.u32 [%q+32], %b;\nSKIP:",
    ),
    // From the lane before, as it was.
    (4, "ld.global.u32 %a, [%p+-4]; add.u32 %a, %a, 1; st.global.u32 [%p], %a;"),
    // At another distance from the same place.
    (4, "ld.global.u32 %a, [%p]; add.u32 %a, %a, 1; st.global.u32 [%z], %a;"),
    (4, "st.global.u32 [%p], %t; ld.global.u32 %a, [%z]; st.global.u32 [%q+8192], %a;"),
    // One place, where the last lane's value stays.
    (
        4,
        "ld.global.u32 %a, [%p]; @%odd st.global.u32 [%n+8192], %a;
         @!%odd st.global.u32 [%n+8256], %a;",
    ),
    (
        4,
        "shr.u32 %d, %t, 1; and.b32 %d, %d, 7; setp.lt.u32 %odd, %d, 5;
         @%odd st.global.u32 [%n], %t; @%odd bra ON; st.global.u32 [%n+64], %t;\nON:",
    ),
    // Elements that are not where they should be.
    (4, "ld.global.u32 %a, [%p+2]; st.global.u32 [%q], %a;"),
    (
        8,
        "ld.global.u32 %a, [%p]; ld.global.v2.u32 {%b, %c}, [%p+4]; add.u32 %a, %a, %b;
         add.u32 %a, %a, %c; st.global.u32 [%q], %a;",
    ),
];

/// Those of the last kind.
const MISALIGNED: usize = 2;

fn kernel(stride: u32, body: &str) -> String {
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64
         .visible .entry k(.param .u64 a, .param .u64 b)
         {{
             .reg .b64 %m, %n, %p, %q, %z, %w, %w2, %x, %y; .reg .b32 %t, %a, %b, %c, %d;
             .reg .pred %odd;
             ld.param.u64 %m, [a]; ld.param.u64 %n, [b];
             mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, {stride}; mul.wide.u32 %w2, %t, {twice};
             add.u64 %p, %m, %w; add.u64 %q, %n, %w; add.u64 %z, %m, %w2;
             mul.lo.u32 %d, %t, 2654435761; shr.u32 %d, %d, 30; setp.gt.u32 %odd, %d, 0;
             {body}
             ret;
         }}",
        twice = 2 * stride,
    )
}

/// The buffer afterwards, and bytes that were counted; nothing if the kernel faults.
fn run(set: Set, text: &str, distance: i64) -> Option<(Vec<u8>, u64)> {
    let mut device = Device::new(set);
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("a kernel");
    let buffer = device.memory.allocate(BYTES as u64, true);
    let contents: Vec<u8> =
        (0..BYTES as u32).map(|n| (n.wrapping_mul(2_246_822_519) >> 24) as u8).collect();
    device.memory.write(buffer, &contents);
    let mut params = Params::default();
    let first = buffer + START;
    for address in [first, first.wrapping_add_signed(distance)] {
        params.push(&address.to_le_bytes());
    }
    device.run(&kernel, Shape::linear(1, THREADS), &params.0).ok()?;
    Some((device.memory.read(buffer, BYTES), device.counters.global_bytes))
}

#[test]
fn what_other_lanes_store() {
    for (number, (stride, body)) in BODIES.into_iter().enumerate() {
        let text = kernel(stride, body);
        for distance in [0, 16, -16, 32, 64, -128, 112, 1008, 4096, -8192, 4, 1] {
            let interpreted = run(Set::Interpreted, &text, distance);
            // Bodies that use the second address, and whole elements of it.
            let uses_second = body.contains("%q") || body.contains("%n");
            let misaligned = number >= BODIES.len() - MISALIGNED
                || uses_second && (distance == 1 || distance % 16 != 0 && stride > 4);
            assert_eq!(interpreted.is_none(), misaligned, "{body}, {distance}");
            for isa in SimdIsa::ALL {
                let native = run(Set::Native(isa), &text, distance);
                assert!(native == interpreted, "{isa:?}, {distance} apart:\n{text}");
            }
        }
    }
}

/// Blocks whose first addresses are in a list: the first block finds out where memory is, so that it is
/// native code that sees what is wrong with the second one's.
fn of_blocks(stride: u32, body: &str) -> String {
    kernel(stride, body).replace(
        "ld.param.u64 %m, [a];",
        ".reg .b64 %list, %entry, %place; .reg .b32 %block;
         ld.param.u64 %list, [a]; mov.u32 %block, %ctaid.x; mul.wide.u32 %entry, %block, 8;
         add.u64 %place, %list, %entry; ld.global.u64 %m, [%place];",
    )
}

/// Runs two blocks whose first addresses are these.
fn run_two(device: &mut Device, text: &str, firsts: [u64; 2], out: u64) -> bool {
    let kernel = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}")).kernel("k").unwrap();
    let list = device.memory.allocate(16, true);
    device.memory.write(list, &firsts.map(u64::to_le_bytes).concat());
    let params = [list, out].map(u64::to_le_bytes).concat();
    device.run(&kernel, Shape::linear(2, THREADS), &params).is_ok()
}

/// A place that may be read, and another from the same start that may not be written.
#[test]
fn what_may_only_be_read() {
    for (body, faults) in [
        ("ld.global.u32 %a, [%p]; st.global.u32 [%p+8192], %a;", true),
        ("ld.global.u32 %a, [%p]; ld.global.u32 %b, [%p+8192]; st.global.u32 [%q], %a;", false),
        ("@%odd ld.global.u32 %a, [%p]; @%odd st.global.u32 [%p], %t;", true),
    ] {
        let text = of_blocks(4, body);
        for set in SimdIsa::ALL.map(Set::Native).into_iter().chain([Set::Interpreted]) {
            let mut device = Device::new(set);
            let [may, only, out] =
                [true, false, true].map(|w| device.memory.allocate(BYTES as u64, w));
            assert!(run_two(&mut device, &text, [may, may], out), "{set:?}:\n{text}");
            let ran = run_two(&mut device, &text, [may, only], out);
            assert_eq!(!ran, faults, "{set:?}:\n{text}");
        }
    }
}

/// Elements that are misaligned in the second block only, alone and together with smaller ones.
#[test]
fn what_is_misaligned_later() {
    let pair = "ld.global.u32 %a, [%p]; ld.global.v2.u32 {%b, %c}, [%p+4]; add.u32 %a, %a, %b;
                add.u32 %a, %a, %c; st.global.u32 [%q], %a;";
    let both = "ld.global.u32 %a, [%p]; ld.global.v2.u32 {%b, %c}, [%p+8]; add.u32 %a, %a, %b;
                add.u32 %a, %a, %c; st.global.u32 [%q], %a;";
    for (stride, body, right, wrong) in [
        (4, "ld.global.u32 %a, [%p]; st.global.u32 [%q], %a;", 0, 2),
        (4, "st.global.u32 [%p], %t;", 4, 1),
        (4, "ld.global.u32 %a, [%p]; st.global.u32 [%p+512], %a;", 4, 2),
        (8, both, 8, 4),
        (8, pair, 4, 8),
    ] {
        let text = of_blocks(stride, body);
        for set in SimdIsa::ALL.map(Set::Native).into_iter().chain([Set::Interpreted]) {
            let mut device = Device::new(set);
            let [buffer, out] = [(); 2].map(|()| device.memory.allocate(BYTES as u64, true));
            let firsts = |second: u64| [buffer + right, buffer + second];
            assert!(run_two(&mut device, &text, firsts(right), out), "{set:?}:\n{text}");
            assert!(!run_two(&mut device, &text, firsts(wrong), out), "{set:?}:\n{text}");
        }
    }
}

/// Lanes side by side of which some run, at the ends of memory: those of lanes that do not run may be
/// outside, those of lanes that run may not.
#[test]
fn some_lanes_at_the_ends_of_memory() {
    const BUFFER: u64 = 4 * THREADS as u64;
    let run = |set: Set, text: &str, distance: i64| {
        let mut device = Device::new(set);
        let buffer = device.memory.allocate_aligned(BUFFER, 4, true);
        let out = device.memory.allocate(BUFFER, true);
        // Or from the end of all addresses to their start.
        let second = match distance {
            i64::MIN => 0u64.wrapping_sub(64),
            _ => buffer.wrapping_add_signed(distance),
        };
        let ran = run_two(&mut device, text, [buffer, second], out);
        (ran, device.memory.read(buffer, BUFFER as usize), device.counters.global_bytes)
    };
    for (low, high) in [(0, 31), (0, 7), (8, 31), (5, 24), (24, 31), (31, 31), (0, 0)] {
        for access in ["st.global.u32 [%p], %t;", "ld.global.u32 %a, [%p]; st.global.u32 [%q], %a;"]
        {
            let body = format!(
                "mov.u32 %c, %laneid; setp.ge.u32 %odd, %c, {low}; @!%odd bra OUT;
                 setp.le.u32 %odd, %c, {high}; @!%odd bra OUT;
                 mov.u32 %d, 1; {access}
                 OUT:"
            );
            let guarded = format!(
                "mov.u32 %c, %laneid; sub.u32 %c, %c, {low}; setp.le.u32 %odd, %c, {};
                 {}",
                high - low,
                access.replace("ld.", "@%odd ld.").replace("st.", "@%odd st."),
            );
            for text in [of_blocks(4, &body), of_blocks(4, &guarded)] {
                let lowest = -4 * i64::from(low);
                // Lanes up to that one, of the last warp's 16.
                let last = 64 + high.min(15);
                let highest = 4 * (i64::from(THREADS) - 1 - i64::from(last));
                let around = i64::MIN;
                for distance in
                    [lowest, lowest - 4, highest, highest + 4, 1, 2, -(1 << 40), 1 << 40, around]
                {
                    let interpreted = run(Set::Interpreted, &text, distance);
                    for isa in SimdIsa::ALL {
                        let native = run(Set::Native(isa), &text, distance);
                        assert_eq!(native.0, interpreted.0, "{isa:?}, {distance}:\n{text}");
                        // Where lanes fault, who wrote before that is open.
                        let same = !native.0 || native == interpreted;
                        assert!(same, "{isa:?}, {distance}:\n{text}");
                    }
                }
            }
        }
    }
}

/// Some lanes of a warp, and several places, in shared memory: its end, and where elements are not.
#[test]
fn the_end_of_shared_memory() {
    const BYTES: u32 = 256;
    let run = |set: Set, text: &str, from: u32| {
        let mut device = Device::new(set);
        let kernel =
            device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}")).kernel("k").unwrap();
        let out = device.memory.allocate(4 * u64::from(THREADS), true);
        let mut params = Params::default();
        params.push(&out.to_le_bytes());
        params.push(&from.to_le_bytes());
        let ran = device.run(&kernel, Shape::linear(1, 32), &params.0);
        (ran.is_ok(), device.memory.read(out, 4 * THREADS as usize))
    };
    for body in [
        "@%odd ld.shared.u32 %a, [%p];",
        "@%odd st.shared.u32 [%p], %t; ld.shared.u32 %a, [tile];",
        "@!%odd bra OUT; mov.u32 %b, 1; ld.shared.u32 %a, [%p];\nOUT:",
        "ld.shared.u32 %a, [%p]; ld.shared.u32 %b, [%p+64]; add.u32 %a, %a, %b;",
        "ld.shared.u32 %a, [%s]; ld.shared.u32 %b, [%s+64]; add.u32 %a, %a, %b;",
    ] {
        let text = format!(
            ".version 7.8\n.target sm_80\n.address_size 64
             .visible .entry k(.param .u64 a, .param .u32 b)
             {{
                 .shared .align 16 .b8 tile[{BYTES}];
                 .reg .b64 %m, %q, %w; .reg .b32 %t, %f, %s, %p, %i, %a, %b; .reg .pred %odd;
                 ld.param.u64 %m, [a]; ld.param.u32 %f, [b]; mov.u32 %i, tile;
                 mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4; add.u64 %q, %m, %w;
                 add.u32 %s, %i, %f; mad.lo.u32 %p, %t, 4, %s; setp.lt.u32 %odd, %t, 8;
                 mov.u32 %a, 0;
                 {body}
                 st.global.u32 [%q], %a;
                 ret;
             }}"
        );
        for from in
            [0, 2, 1, 4, 64, 128, 188, 192, 224, 228, 252, 256, 1 << 20, 0u32.wrapping_sub(4)]
        {
            let interpreted = run(Set::Interpreted, &text, from);
            for isa in SimdIsa::ALL {
                let native = run(Set::Native(isa), &text, from);
                assert_eq!(native, interpreted, "{isa:?}, from {from}:\n{text}");
            }
        }
    }
}

/// Accesses that are near each other and not in one allocation.
#[test]
fn several_allocations() {
    for set in SimdIsa::ALL.map(Set::Native).into_iter().chain([Set::Interpreted]) {
        let mut device = Device::new(set);
        let [a, b] = [(); 2].map(|()| device.memory.allocate(4096, true));
        let distance = b.wrapping_sub(a) as i64;
        let body = format!(
            "ld.global.u32 %a, [%p]; ld.global.u32 %b, [%p+{distance}]; add.u32 %a, %a, %b;
             st.global.u32 [%q], %a; ld.global.u32 %c, [%p+{behind}]; add.u32 %c, %c, %a;
             st.global.u32 [%q+{distance}], %c;",
            behind = distance + 512,
        );
        let text = kernel(4, &body);
        let words = |first: u32| -> Vec<u8> {
            (0..1024).flat_map(|n: u32| (first + n * n).to_le_bytes()).collect()
        };
        device.memory.write(a, &words(1));
        device.memory.write(b, &words(7));
        let module = device.load(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let kernel = module.kernel("k").expect("a kernel");
        let mut params = Params::default();
        [a, a + 1024].iter().for_each(|address| params.push(&address.to_le_bytes()));
        device.run(&kernel, Shape::linear(1, THREADS), &params.0).expect("no fault");
        let word =
            |address: u64| u32::from_le_bytes(device.memory.read(address, 4).try_into().unwrap());
        for t in 0..THREADS {
            let (at, n) = (4 * u64::from(t), t);
            let sum = 1 + n * n + 7 + n * n;
            let behind = 7 + (n + 128) * (n + 128);
            assert_eq!(word(a + 1024 + at), sum, "{set:?}");
            assert_eq!(word(b + 1024 + at), behind + sum, "{set:?}");
        }
    }
}

/// Constant places in shared memory, which are checked together: where one is not there, what stands
/// in front of it has happened, and nothing behind it.
#[test]
fn constant_places() {
    const THREADS: u32 = 32;
    let text = |last: i32| {
        format!(
            ".version 7.8\n.target sm_80\n.address_size 64
             .visible .entry k(.param .u64 a)
             {{
                 .shared .align 16 .b8 tile[128];
                 .reg .b64 %m, %p, %w; .reg .b32 %t, %s, %a, %b, %c, %d, %e, %f, %g, %h, %i;
                 ld.param.u64 %m, [a];
                 mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4; add.u64 %p, %m, %w;
                 mov.u32 %i, tile; mad.lo.u32 %s, %t, 4, %i; st.shared.u32 [%s], %t;
                 bar.sync 0;
                 ld.shared.v4.u32 {{%a, %b, %c, %d}}, [tile+16]; ld.shared.u32 %e, [tile+124];
                 add.u32 %h, %a, %d; mad.lo.u32 %h, %h, 100, %e; st.global.u32 [%p], %h;
                 ld.shared.u32 %f, [tile+{last}]; ld.shared.u32 %g, [tile];
                 add.u32 %f, %f, %g; st.global.u32 [%p+128], %f;
                 ret;
             }}"
        )
    };
    let run = |set: Set, last: i32| {
        let mut device = Device::new(set);
        let kernel = device.load(&text(last)).unwrap().kernel("k").unwrap();
        let out = device.memory.allocate(8 * u64::from(THREADS), true);
        device.memory.write(out, &[7; 8 * THREADS as usize]);
        let mut params = Params::default();
        params.push(&out.to_le_bytes());
        let outcome = device.run(&kernel, Shape::linear(1, THREADS), &params.0);
        (outcome.map_err(|f| f.kind), device.memory.read(out, 8 * THREADS as usize))
    };
    for last in [0, 64, 120, 128, 126, 4096, -4, 1 << 25] {
        let interpreted = run(Set::Interpreted, last);
        assert_eq!(interpreted.0.is_err(), !matches!(last, 0..=124) || last % 4 != 0, "{last}");
        assert!(interpreted.1[..4] != [7; 4], "{last}: what stands in front has not happened");
        for isa in SimdIsa::ALL {
            assert_eq!(run(Set::Native(isa), last), interpreted, "{isa:?}, {last}");
        }
    }
}

/// All lanes follow one list, by loads that overwrite the address they are made at; where an element
/// is misaligned, though the address is not, that is a fault.
#[test]
fn a_list_that_all_lanes_follow() {
    const LINKS: usize = 6;
    let text = |offset: u32| {
        format!(
            ".version 7.8\n.target sm_80\n.address_size 64
             .visible .entry k(.param .u64 a, .param .u64 b)
             {{
                 .reg .b64 %p, %out, %w, %x, %y; .reg .b32 %t, %n; .reg .pred %more;
                 ld.param.u64 %p, [a]; ld.param.u64 %out, [b];
                 mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 8; add.u64 %out, %out, %w;
                 mov.u64 %y, 0; mov.u32 %n, 0;
             L:
                 ld.global.v2.u64 {{%p, %x}}, [%p+{offset}]; mad.lo.u64 %y, %y, 10, %x;
                 add.u32 %n, %n, 1; setp.lt.u32 %more, %n, {LINKS}; @%more bra L;
                 st.global.u64 [%out], %y;
                 ret;
             }}"
        )
    };
    for set in SimdIsa::ALL.map(Set::Native).into_iter().chain([Set::Interpreted]) {
        for (offset, aligned) in [(0, true), (16, true), (8, false)] {
            let mut device = Device::new(set);
            let kernel = device.load(&text(offset)).unwrap().kernel("k").unwrap();
            let first = device.memory.allocate(48 * LINKS as u64, true);
            for n in 0..LINKS as u64 {
                let link = [first + 48 * (n + 1), n + 1].map(u64::to_le_bytes).concat();
                device.memory.write(first + 48 * n + u64::from(offset), &link);
            }
            let out = device.memory.allocate(8 * u64::from(THREADS), true);
            let mut params = Params::default();
            [first, out].iter().for_each(|address| params.push(&address.to_le_bytes()));
            let ran = device.run(&kernel, Shape::linear(1, THREADS), &params.0);
            assert_eq!(ran.is_ok(), aligned, "{set:?}, {offset}: {ran:?}");
            let sums = device.memory.read(out, 8 * THREADS as usize);
            let expected = if aligned { 123_456u64 } else { 0 };
            assert!(sums.chunks(8).all(|sum| sum == expected.to_le_bytes()), "{set:?}: {sums:?}");
        }
    }
}

/// Addresses that count down to the start of memory, and beyond it in the last warp.
#[test]
fn places_that_count_down() {
    const THREADS: u32 = 64;
    let run = |set: Set, stride: u64, distance: i64| {
        let text = format!(
            ".version 7.8\n.target sm_80\n.address_size 64
             .visible .entry k(.param .u64 a)
             {{
                 .reg .b64 %m, %p, %v, %w; .reg .b32 %t, %a;
                 ld.param.u64 %m, [a];
                 mov.u32 %t, %tid.x; cvt.u64.u32 %v, %t; mul.lo.u64 %w, %v, {stride};
                 sub.u64 %p, %m, %w;
                 ld.global.u32 %a, [%p]; add.u32 %a, %a, %t; st.global.u32 [%p], %a;
                 ret;
             }}"
        );
        let mut device = Device::new(set);
        let kernel = device.load(&text).unwrap().kernel("k").unwrap();
        let bytes = stride * u64::from(THREADS);
        let buffer = device.memory.allocate(bytes, true);
        let mut params = Params::default();
        let first = (buffer + bytes - stride).wrapping_add_signed(distance);
        params.push(&first.to_le_bytes());
        let ran = device.run(&kernel, Shape::linear(1, THREADS), &params.0);
        (ran.is_ok(), device.memory.read(buffer, bytes as usize))
    };
    for (stride, distance) in [(4, 0), (4, -4), (12, 0), (12, -4), (100, 0), (100, -100)] {
        let interpreted = run(Set::Interpreted, stride, distance);
        assert_eq!(interpreted.0, distance == 0, "{stride}, {distance}");
        for isa in SimdIsa::ALL {
            let native = run(Set::Native(isa), stride, distance);
            assert_eq!(native.0, interpreted.0, "{isa:?}: {stride}, {distance}");
            // Where lanes fault, who wrote before that is open.
            assert!(!native.0 || native == interpreted, "{isa:?}: {stride}");
        }
    }
}
