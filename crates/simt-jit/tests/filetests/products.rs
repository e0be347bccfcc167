//! Products of matrices one behind the other, between loads of their factors and changes of what
//! they multiply and add to: native code against the interpreter, in random order.
//!
//! Each product alone is looked at by `matrix`; here it is what one leaves for the next.

use super::harness::{Device, Params, Shape};
use super::matrix::Random;
use super::tiers::Set;
use simt_jit::SimdIsa;
use std::fmt::Write;

/// Programs, and what happens in each.
const PROGRAMS: u64 = 48;
const STEPS: usize = 28;

/// Registers that memory gives first: two fragments of A, two of B, four of sums.
const PLAIN: usize = 8 + 4 + 16;
/// Those that it gets in the end: also two sums that only constants and products of bf16 write.
const RESULTS: usize = PLAIN + 8;
/// Bytes of shared memory: matrices for three loads.
const TILE: usize = 3 * 512;

/// Forms with four registers of A, two of B and four of sums.
const FORMS: [&str; 5] = [
    "m16n8k16.row.col.f32.bf16.bf16.f32",
    "m16n8k16.row.col.f32.f16.f16.f32",
    "m16n8k8.row.col.f32.tf32.tf32.f32",
    "m16n8k32.row.col.s32.s8.u8.s32",
    "m16n8k64.row.col.s32.s4.s4.s32",
];

/// Some registers' names. Those that start with `l` are written by loads of matrices only, and read
/// by products only.
fn list(name: char, first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count).map(|n| format!("%{name}{n}")).collect();
    format!("{{{}}}", names.join(", "))
}

fn step(text: &mut String, number: usize, random: &mut Random) {
    let mut pick = |n: usize| random.below(n as u64) as usize;
    let (sum, clean) = (4 * pick(4), 4 * pick(2));
    let constant = ["0x00000000", "0x00000003", "0x3f800000", "0x7fc00000"][pick(4)];
    let (plain, offset) = (pick(8), 512 * pick(3));
    match pick(22) {
        0..=5 => {
            let form = FORMS[if pick(3) == 0 { pick(FORMS.len()) } else { 0 }];
            let from = if pick(4) == 0 { 4 * pick(4) } else { sum };
            let a = list(['a', 'l'][pick(2)], 4 * pick(2), 4);
            let b = list(['b', 'm'][pick(2)], 2 * pick(2), 2);
            let (c, d) = (list('c', from, 4), list('c', sum, 4));
            let _ = writeln!(text, "mma.sync.aligned.{form} {d}, {a}, {b}, {c};");
        }
        // Those that add to one sum, one behind the other.
        6 => {
            let (form, c) =
                (FORMS[if pick(2) == 0 { pick(FORMS.len()) } else { 0 }], list('c', sum, 4));
            for _ in 0..4 + pick(8) {
                let a = list(['a', 'l'][pick(2)], 4 * pick(2), 4);
                let b = list(['b', 'm'][pick(2)], 2 * pick(2), 2);
                let _ = writeln!(text, "mma.sync.aligned.{form} {c}, {a}, {b}, {c};");
            }
        }
        // Those that share a factor: two sums can be made at once, unless one takes the other.
        20 | 21 => {
            let form = FORMS[[0, 0, 3, pick(FORMS.len())][pick(4)]];
            let a = list(['a', 'l'][pick(2)], 4 * pick(2), 4);
            for _ in 0..2 + pick(6) {
                let (name, sums) =
                    [('c', 4), ('d', 2)][usize::from(form == FORMS[0] && pick(3) == 0)];
                let to = 4 * pick(sums);
                let from = if pick(4) == 0 { 4 * pick(sums) } else { to };
                let b = list(['b', 'm'][pick(2)], 2 * pick(2), 2);
                let (c, d) = (list(name, from, 4), list(name, to, 4));
                let _ = writeln!(text, "mma.sync.aligned.{form} {d}, {a}, {b}, {c};");
            }
        }
        7 | 8 => {
            let to = list('l', 4 * pick(2), 4);
            let _ = writeln!(text, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {to}, [%s+{offset}];");
        }
        9 => {
            let (to, half) = (list('m', 2 * pick(2), 2), 256 * pick(2));
            let at = offset + half;
            let _ =
                writeln!(text, "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {to}, [%r+{at}];");
        }
        10 => {
            let _ = writeln!(text, "st.shared.b32 [%w+{offset}], %a{plain};");
        }
        11 => {
            let (name, n) = if plain < 4 { ('b', plain) } else { ('a', plain) };
            let _ = writeln!(text, "xor.b32 %{name}{n}, %{name}{n}, 0x00800080;");
        }
        12 => (sum..sum + 4).for_each(|n| {
            let _ = writeln!(text, "mov.b32 %c{n}, {constant};");
        }),
        13 => (sum..sum + 4).for_each(|n| {
            let _ = writeln!(text, "selp.b32 %c{n}, %c{n}, {constant}, %p;");
        }),
        14 => {
            let _ = writeln!(text, "@%p mov.b32 %c{sum}, {constant}; @!%p mov.b32 %a{plain}, %b1;");
        }
        15 | 16 => {
            let (a, b) = (list(['a', 'l'][pick(2)], 4 * pick(2), 4), list('b', 2 * pick(2), 2));
            let (name, from) = [('c', sum), ('d', clean), ('d', clean)][pick(3)];
            let (c, d) = (list(name, from, 4), list('d', clean, 4));
            let _ = writeln!(text, "mma.sync.aligned.{} {d}, {a}, {b}, {c};", FORMS[0]);
        }
        17 => (clean..clean + 4).for_each(|n| {
            let _ = writeln!(text, "selp.b32 %d{n}, %d{n}, {constant}, %p;");
        }),
        18 => (clean..clean + 4).for_each(|n| {
            let _ = writeln!(text, "mov.b32 %d{n}, {constant};");
        }),
        _ => {
            let _ = writeln!(text, "@%p bra L{number};\nxor.b32 %a{plain}, %a{plain}, 0x00010001;");
            let _ = writeln!(text, "add.f32 %c{sum}, %c{sum}, %c{sum};\nL{number}:");
        }
    }
}

fn program(random: &mut Random) -> String {
    let mut text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64
         .visible .entry k(.param .u64 in, .param .u64 out)
         {{
             .shared .align 16 .b8 tile[{TILE}];
             .reg .b64 %in, %out; .reg .b32 %t, %u, %s, %r, %w; .reg .pred %p;
             .reg .b32 %a<8>, %b<4>, %c<16>, %d<8>, %l<8>, %m<4>;
             ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %laneid;
             mad.wide.u32 %in, %t, 4, %in; mad.wide.u32 %out, %t, 4, %out;
             mov.u32 %r, tile; mad.lo.u32 %w, %t, 4, %r; xor.b32 %u, %t, 3;
             mad.lo.u32 %s, %u, 16, %r; and.b32 %u, %u, 15; mad.lo.u32 %r, %u, 16, %r;
             setp.lt.u32 %p, %t, {};\n",
        [0, 5, 20, 32][random.below(4) as usize]
    );
    let named = |name: char, count: usize| (0..count).map(move |n| (name, n));
    let plain = named('a', 8).chain(named('b', 4)).chain(named('c', 16));
    for (at, (name, n)) in plain.clone().enumerate() {
        let _ = writeln!(text, "ld.global.b32 %{name}{n}, [%in+{}];", 128 * at);
    }
    for n in 0..8 {
        let _ = writeln!(text, "mov.b32 %d{n}, 0;");
    }
    for n in 0..TILE / 128 {
        let _ = writeln!(text, "st.shared.b32 [%w+{}], %{}{};", 128 * n, ['a', 'b'][n / 8], n % 8);
    }
    text += "bar.sync 0;\n";
    for n in [0, 4] {
        let (l, m) = (list('l', n, 4), list('m', n / 2, 2));
        let _ = writeln!(text, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {l}, [%s+{}];", 128 * n);
        let _ = writeln!(text, "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {m}, [%r+{}];", 64 * n);
    }
    (0..STEPS).for_each(|number| step(&mut text, number, random));
    for (at, (name, n)) in plain.chain(named('d', 8)).enumerate() {
        let _ = writeln!(text, "st.global.b32 [%out+{}], %{name}{n};", 128 * at);
    }
    text + "ret;\n}\n"
}

/// Exponents of the elements of a lane of a register (A's, B's, those of sums); 0 if they are
/// subnormal or zero.
fn exponents(mode: u64, register: usize, lane: usize) -> std::ops::Range<u64> {
    let (is_a, is_sum) = (register < 8, register >= 12);
    match mode {
        // Products are subnormal, and sums.
        0 => [58..68, 0..3][usize::from(is_sum)].clone(),
        // Just where products of pairs of bf16 may be, with sums that may not.
        1 => [75..80, 0..40][usize::from(is_sum)].clone(),
        // Subnormal elements of B count, in the second half of lanes.
        2 if is_a => 140..160,
        2 if is_sum => 20..30,
        2 if lane >= 16 => 0..1,
        // One fragment of A is zero, so that the sums' first register stays subnormal.
        3 if register / 4 == 1 => 0..0,
        3 if is_sum && register.is_multiple_of(4) => 0..1,
        _ => 100..130,
    }
}

/// Two halves a factor; numbers that may be subnormal for sums.
fn input(random: &mut Random) -> Vec<u8> {
    let mode = random.below(5);
    let mut half = |exponents: std::ops::Range<u64>| {
        if exponents.is_empty() {
            return 0;
        }
        let exponent = exponents.start + random.below(exponents.end - exponents.start);
        (random.below(2) << 15 | exponent << 7 | random.below(128)) as u32
    };
    let words = (0..PLAIN * 32).flat_map(|n| {
        let exponents = exponents(mode, n / 32, n % 32);
        let low = if n / 32 < 12 { half(exponents.clone()) } else { 0 };
        (half(exponents) << 16 | low).to_le_bytes()
    });
    words.collect()
}

fn run(set: Set, text: &str, input: &[u8]) -> Vec<u8> {
    let mut device = Device::new(set);
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("a kernel");
    let from = device.memory.allocate(input.len() as u64, false);
    device.memory.write(from, input);
    let to = device.memory.allocate(128 * RESULTS as u64, true);
    let mut params = Params::default();
    [from, to].iter().for_each(|address| params.push(&address.to_le_bytes()));
    let ran = device.run(&kernel, Shape::linear(1, 32), &params.0);
    ran.unwrap_or_else(|f| panic!("{set:?}: {f:?}\n{text}"));
    device.memory.read(to, 128 * RESULTS)
}

#[test]
fn one_leaves_what_the_next_needs() {
    for seed in 1..=PROGRAMS {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (text, input) = (program(&mut random), input(&mut random));
        let interpreted = run(Set::Interpreted, &text, &input);
        for isa in SimdIsa::ALL {
            let native = run(Set::Native(isa), &text, &input);
            let differs = native.iter().zip(&interpreted).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{isa:?}, program {seed}\n{text}");
        }
    }
}
