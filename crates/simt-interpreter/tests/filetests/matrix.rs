//! Products of matrices: every `mma` and `wmma` form against sums made here.
//!
//! Fragments are laid out by the manual's formulas for each shape, not by the project's own table.
//! Most values are small integers and their quarters, so that every sum is exact and any order of
//! adding gives the same bits; what is not exact is compared within the error that f32 can have.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set};
use std::fmt::Write;

/// A sequence of numbers that looks like none.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 20) % n
    }
}

/// Bits of an element: exact small values, or any.
fn element(ty: &str, random: &mut Random) -> u64 {
    let small = random.below(17) as i64 - 8;
    match ty {
        "f16" => u64::from(f16_bits(small as f32 / 4.0)),
        "bf16" => u64::from((small as f32 / 4.0).to_bits() >> 16),
        "tf32" | "f32" => u64::from((small as f32 / 4.0).to_bits()),
        "f64" => (small as f64 / 4.0).to_bits(),
        // Powers of two and a half between: sign, exponent near the middle, one digit.
        "e4m3" => random.below(2) << 7 | (5 + random.below(4)) << 3 | random.below(2) << 2,
        "e5m2" => random.below(2) << 7 | (13 + random.below(4)) << 2 | random.below(2) << 1,
        // Of any value, and with any bits around it.
        "e2m3" | "e3m2" | "e2m1" | "s8" | "u8" => random.below(256),
        "e2m1p" => random.below(16),
        "s4" | "u4" => random.below(16),
        "b1" => random.below(2),
        "s32" => random.below(2000).wrapping_sub(1000) & 0xffff_ffff,
        other => panic!("type {other}"),
    }
}

/// An f16 that needs no rounding.
fn f16_bits(x: f32) -> u16 {
    if x == 0.0 {
        return 0;
    }
    let bits = x.to_bits();
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    assert!((1..31).contains(&exponent) && bits & 0x1fff == 0, "{x} is no f16");
    ((bits >> 31) << 15 | (exponent as u32) << 10 | (bits >> 13 & 0x3ff)) as u16
}

pub(crate) fn f16_value(bits: u64) -> f64 {
    let (sign, exponent, digits) =
        (bits >> 15 & 1, (bits >> 10 & 31) as i32, (bits & 0x3ff) as f64);
    let magnitude = match exponent {
        0 => digits * 2f64.powi(-24),
        31 if digits == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + digits) * 2f64.powi(exponent - 25),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

/// A float of few bits without infinities and NaN.
fn small(bits: u64, (exponent_bits, digit_bits): (u32, u32)) -> f64 {
    let exponent = (bits >> digit_bits) as i32 & ((1 << exponent_bits) - 1);
    let digits = (bits & ((1 << digit_bits) - 1)) as f64 / f64::from(1 << digit_bits);
    let bias = (1 << (exponent_bits - 1)) - 1;
    let magnitude = match exponent {
        0 => digits * 2f64.powi(1 - bias),
        _ => (1.0 + digits) * 2f64.powi(exponent - bias),
    };
    if bits >> (exponent_bits + digit_bits) & 1 == 1 { -magnitude } else { magnitude }
}

/// Of `e2m1` in the middle of a byte, of `e2m1p` without gaps.
pub(crate) fn value(ty: &str, bits: u64) -> f64 {
    match ty {
        "e2m3" => small(bits, (2, 3)),
        "e3m2" => small(bits, (3, 2)),
        "e2m1" => small(bits >> 2, (2, 1)),
        "e2m1p" => small(bits, (2, 1)),
        "f16" => f16_value(bits),
        "bf16" => f64::from(f32::from_bits((bits as u32) << 16)),
        "tf32" => f64::from(f32::from_bits(bits as u32 & 0xffff_e000)),
        "f32" => f64::from(f32::from_bits(bits as u32)),
        "f64" => f64::from_bits(bits),
        "e5m2" => f16_value(bits << 8),
        "e4m3" => {
            let (exponent, digits) = ((bits >> 3 & 15) as i32, (bits & 7) as f64);
            let magnitude = match exponent {
                0 => digits / 8.0 * 2f64.powi(-6),
                _ => (1.0 + digits / 8.0) * 2f64.powi(exponent - 7),
            };
            if bits >> 7 == 1 { -magnitude } else { magnitude }
        }
        "s8" => f64::from(bits as u8 as i8),
        "s4" => f64::from(((bits as i8) << 4) >> 4),
        "s32" => f64::from(bits as u32 as i32),
        "u8" | "u4" | "b1" => bits as f64,
        other => panic!("type {other}"),
    }
}

pub(crate) fn bits_of(ty: &str) -> usize {
    match ty {
        "f64" => 64,
        "tf32" | "f32" | "s32" => 32,
        "f16" | "bf16" => 16,
        "s4" | "u4" | "e2m1p" => 4,
        "b1" => 1,
        _ => 8,
    }
}

/// A matrix of bits.
#[derive(Clone)]
pub(crate) struct Matrix {
    pub(crate) ty: &'static str,
    columns: usize,
    bits: Vec<u64>,
}

impl Matrix {
    pub(crate) fn random(
        ty: &'static str,
        rows: usize,
        columns: usize,
        random: &mut Random,
    ) -> Self {
        let bits = (0..rows * columns).map(|_| element(ty, random)).collect();
        Self { ty, columns, bits }
    }

    pub(crate) fn zero(ty: &'static str, rows: usize, columns: usize) -> Self {
        Self { ty, columns, bits: vec![0; rows * columns] }
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> u64 {
        self.bits[row * self.columns + column]
    }

    pub(crate) fn set(&mut self, row: usize, column: usize, bits: u64) {
        self.bits[row * self.columns + column] = bits;
    }

    fn value(&self, row: usize, column: usize) -> f64 {
        value(self.ty, self.at(row, column))
    }
}

/// `A B + C` for numbers, with `combine` in the place of multiplication.
pub(crate) fn product(
    a: &Matrix,
    b: &Matrix,
    c: &Matrix,
    combine: fn(f64, f64) -> f64,
) -> Vec<f64> {
    let (n, k) = (b.columns, a.columns);
    let rows = a.bits.len() / k;
    let mut d = Vec::with_capacity(rows * n);
    for row in 0..rows {
        for column in 0..n {
            let sum: f64 = (0..k).map(|k| combine(a.value(row, k), b.value(k, column))).sum();
            d.push(sum + c.value(row, column));
        }
    }
    d
}

/// The manual's formulas: row and column of element `i` of A, with `per` elements a register.
pub(crate) fn a_place(m: usize, per: usize, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let register = i / per;
    // Registers 0 and 2 of four (0 of one or two, and so on) are the upper rows.
    let row = if m == 16 && register % 2 == 1 { group + 8 } else { group };
    let block = if m == 16 { register / 2 } else { register };
    (row, thread * per + i % per + 4 * per * block)
}

pub(crate) fn b_place(per: usize, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    (thread * per + i % per + 4 * per * (i / per), group)
}

pub(crate) fn c_place(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1))
}

/// Packs a lane's elements into registers of 32 (f64: 64) bits.
pub(crate) fn registers(
    matrix: &Matrix,
    count: usize,
    place: impl Fn(usize, usize) -> (usize, usize),
) -> Vec<[u64; 32]> {
    let bits = bits_of(matrix.ty);
    let per = if bits == 64 { 1 } else { 32 / bits };
    let mut registers = vec![[0; 32]; count];
    for (index, register) in registers.iter_mut().enumerate() {
        for (lane, word) in register.iter_mut().enumerate() {
            for e in 0..per {
                let (row, column) = place(lane, index * per + e);
                *word |= matrix.at(row, column) << (bits * e);
            }
        }
    }
    registers
}

/// Runs `text`, whose kernel loads registers `%a0...`, and returns its results `%d0...`: memory is
/// `[register][lane]`, 8 bytes each.
pub(crate) fn run(
    set: Set,
    instruction: &str,
    sources: &[(char, Vec<[u64; 32]>, bool)],
    results: (usize, bool),
) -> Vec<[u64; 32]> {
    let target = if instruction.contains(".kind::") { "sm_120a" } else { "sm_90a" };
    let mut text = format!(
        ".version 9.1\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out)\n{{\n\
         .reg .b64 %in, %out;\n.reg .b32 %lane;\nmov.u32 %lane, %laneid;\n\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n\
         mad.wide.u32 %in, %lane, 8, %in;\nmad.wide.u32 %out, %lane, 8, %out;\n",
    );
    let ty = |wide: bool| if wide { "b64" } else { "b32" };
    let mut input = Vec::new();
    for (name, registers, wide) in sources {
        for (i, register) in registers.iter().enumerate() {
            let t = ty(*wide);
            writeln!(text, ".reg .{t} %{name}{i};").unwrap();
            writeln!(text, "ld.global.{t} %{name}{i}, [%in+{}];", input.len()).unwrap();
            input.extend(register.iter().flat_map(|word| word.to_le_bytes()));
        }
    }
    let t = ty(results.1);
    for i in 0..results.0 {
        writeln!(text, ".reg .{t} %d{i};").unwrap();
    }
    writeln!(text, "{instruction};").unwrap();
    for i in 0..results.0 {
        writeln!(text, "st.global.{t} [%out+{}], %d{i};", 256 * i).unwrap();
    }
    text.push_str("ret;\n}\n");
    let mut device = Device::new(set);
    let module = device.load(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let from = device.memory.allocate(input.len() as u64, true);
    device.memory.write(from, &input);
    let bytes = 256 * results.0;
    let to = device.memory.allocate(bytes as u64, true);
    let mut params = Params::default();
    params.push(&from.to_le_bytes());
    params.push(&to.to_le_bytes());
    let kernel = module.kernel("k").expect("the kernel");
    device
        .run(&kernel, Shape::linear(1, 32), &params.0)
        .unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let output = device.memory.read(to, bytes);
    let words: Vec<u64> =
        output.chunks(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
    words.chunks(32).map(|c| c.try_into().unwrap()).collect()
}

pub(crate) fn list(name: char, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|i| format!("%{name}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// One form of `mma` with 8 columns.
fn check_mma(form: &str, combine: fn(f64, f64) -> f64) {
    let words: Vec<&str> = form.split('.').collect();
    let shape = words[3];
    let (m, rest) = shape[1..].split_once('n').unwrap();
    let (n, k) = rest.split_once('k').unwrap();
    let [m, n, k]: [usize; 3] = [m, n, k].map(|x| x.parse().unwrap());
    assert_eq!(n, 8);
    let known =
        ["f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2", "s8", "u8", "s4", "u4", "b1", "s32"];
    let types: Vec<&'static str> =
        words.iter().filter_map(|w| known.iter().find(|k| *k == w).copied()).collect();
    let [d_type, a_type, b_type, c_type] = types[..] else { panic!("{form}: {types:?}") };
    let saturates = form.contains("satfinite");
    let mut random = Random(0x1234_5678_9abc_def1);
    for round in 0..4 {
        let a = Matrix::random(a_type, m, k, &mut random);
        let b = Matrix::random(b_type, k, n, &mut random);
        let mut c = Matrix::random(c_type, m, n, &mut random);
        if c_type == "s32" && round == 3 {
            // Sums beyond both ends.
            for (i, c) in c.bits.iter_mut().enumerate() {
                *c = if i % 2 == 0 { 0x7fff_fff0 } else { 0x8000_000f };
            }
        }
        let expected = product(&a, &b, &c, combine);
        let double = a_type == "f64";
        let per = if double { 1 } else { 32 / bits_of(a_type) };
        let (ra, rb) = (m * k / 32 / per, n * k / 32 / per);
        let rc = m * n / 32 / if c_type == "f16" { 2 } else { 1 };
        let rd = m * n / 32 / if d_type == "f16" { 2 } else { 1 };
        let sources = [
            ('a', registers(&a, ra, |lane, i| a_place(m, per, lane, i)), double),
            ('b', registers(&b, rb, |lane, i| b_place(per, lane, i)), double),
            ('c', registers(&c, rc, c_place), double),
        ];
        let instruction = format!(
            "{form} {}, {}, {}, {}",
            list('d', rd),
            list('a', ra),
            list('b', rb),
            list('c', rc)
        );
        for set in ALL_SETS {
            let d = run(set, &instruction, &sources, (rd, double));
            for (lane, i) in (0..32).flat_map(|lane| (0..m * n / 32).map(move |i| (lane, i))) {
                let (row, column) = c_place(lane, i);
                let expected = expected[row * n + column];
                let (got, expected) = match d_type {
                    "f16" => (f16_value(d[i / 2][lane] >> (16 * (i % 2)) & 0xffff), expected),
                    "f32" => (value("f32", d[i][lane] & 0xffff_ffff), expected),
                    "f64" => (f64::from_bits(d[i][lane]), expected),
                    _ if saturates => (
                        value("s32", d[i][lane] & 0xffff_ffff),
                        expected.clamp(f64::from(i32::MIN), f64::from(i32::MAX)),
                    ),
                    _ => {
                        (value("s32", d[i][lane] & 0xffff_ffff), f64::from(expected as i64 as i32))
                    }
                };
                assert!(
                    got == expected,
                    "{form} ({set:?}): d[{row}][{column}] is {got}, not {expected}"
                );
            }
        }
    }
}

pub(crate) fn times(a: f64, b: f64) -> f64 {
    a * b
}

#[test]
fn floats_multiply() {
    for form in [
        "m16n8k8.row.col.f32.f16.f16.f32",
        "m16n8k8.row.col.f16.f16.f16.f16",
        "m16n8k16.row.col.f32.f16.f16.f32",
        "m16n8k16.row.col.f16.f16.f16.f16",
        "m16n8k8.row.col.f32.bf16.bf16.f32",
        "m16n8k16.row.col.f32.bf16.bf16.f32",
        "m16n8k4.row.col.f32.tf32.tf32.f32",
        "m16n8k8.row.col.f32.tf32.tf32.f32",
        "m8n8k4.row.col.f64.f64.f64.f64",
        "m16n8k4.row.col.f64.f64.f64.f64",
        "m16n8k8.row.col.f64.f64.f64.f64",
        "m16n8k16.row.col.f64.f64.f64.f64",
        "m16n8k16.row.col.f32.e4m3.e4m3.f32",
        "m16n8k32.row.col.f32.e4m3.e4m3.f32",
        "m16n8k32.row.col.f32.e4m3.e5m2.f32",
        "m16n8k32.row.col.f32.e5m2.e4m3.f32",
        "m16n8k32.row.col.f32.e5m2.e5m2.f32",
        "m16n8k32.row.col.f16.e4m3.e4m3.f16",
    ] {
        check_mma(&format!("mma.sync.aligned.{form}"), times);
    }
}

#[test]
fn integers_multiply() {
    for sat in ["", ".satfinite"] {
        for (shape, types) in [
            ("m8n8k16", ["s8", "u8"]),
            ("m16n8k16", ["s8", "u8"]),
            ("m16n8k32", ["s8", "u8"]),
            ("m8n8k32", ["s4", "u4"]),
            ("m16n8k32", ["s4", "u4"]),
            ("m16n8k64", ["s4", "u4"]),
        ] {
            for a in types {
                for b in types {
                    let form = format!("mma.sync.aligned.{shape}.row.col{sat}.s32.{a}.{b}.s32");
                    check_mma(&form, times);
                }
            }
        }
    }
}

#[test]
fn bits_are_counted() {
    for shape in ["m8n8k128", "m16n8k128", "m16n8k256"] {
        let form = format!("mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32");
        check_mma(&format!("{form}.and.popc"), times);
        check_mma(&format!("{form}.xor.popc"), |a, b| f64::from(u8::from(a != b)));
    }
}

/// Magnitudes of elements and of C, exponents as in f32: from the smallest subnormals to infinity
/// and NaN.
const MAGNITUDES: [[std::ops::Range<u64>; 2]; 8] = [
    [100..150, 120..135],
    // Products near the smallest normal number, and C far from it and beside it.
    [60..70, 100..130],
    [60..70, 0..3],
    // Just what products of pairs of bf16 may have, and what they may not.
    [77..80, 0..30],
    [76..79, 1..30],
    [0..3, 0..30],
    [180..200, 230..255],
    [250..256, 250..256],
];

/// An element with a sign, an exponent of a range and any digits; now and then zero.
fn inexact(ty: &str, exponents: &std::ops::Range<u64>, random: &mut Random) -> u64 {
    let exponent = exponents.start + random.below(exponents.end - exponents.start);
    let sign = random.below(2);
    let exponent = if random.below(6) == 0 { 0 } else { exponent };
    let digits = if exponent == 0 && random.below(4) != 0 { 0 } else { random.below(1 << 23) };
    match ty {
        "bf16" => sign << 15 | exponent << 7 | digits >> 16,
        // What f32 does not have there is taken from the middle or the ends.
        "f16" => sign << 15 | exponent.saturating_sub(112).min(31) << 10 | digits >> 13,
        _ => sign << 31 | exponent << 23 | digits,
    }
}

/// Sums that are not exact: each product is added exactly and rounded, in ascending order but that
/// the second of two elements of a register comes first, for all values.
#[test]
fn products_are_fused_onto_the_sum_in_order() {
    let shapes = [("bf16", 2, 16), ("bf16", 2, 8), ("f16", 2, 16), ("f16", 2, 8), ("tf32", 1, 8)];
    for (ty, per, k) in shapes {
        for (mode, [factors, sums]) in MAGNITUDES.iter().enumerate() {
            let mut random = Random(77);
            let mut any = |ty: &'static str, rows: usize, columns: usize, exponents| {
                let bits = (0..rows * columns).map(|_| inexact(ty, exponents, &mut random));
                Matrix { ty, columns, bits: bits.collect() }
            };
            let (mut a, b) = (any(ty, 16, k, factors), any(ty, k, 8, factors));
            let mut c = any("f32", 16, 8, sums);
            // A row without products: C's element comes through as it is.
            a.bits[..k].fill(0);
            c.bits[3] = 1;
            let (ra, rb) = (16 * k / 32 / per, 8 * k / 32 / per);
            let sources = [
                ('a', registers(&a, ra, |lane, i| a_place(16, per, lane, i)), false),
                ('b', registers(&b, rb, |lane, i| b_place(per, lane, i)), false),
                ('c', registers(&c, 4, c_place), false),
            ];
            let instruction = format!(
                "mma.sync.aligned.m16n8k{k}.row.col.f32.{ty}.{ty}.f32 {}, {}, {}, {}",
                list('d', 4),
                list('a', ra),
                list('b', rb),
                list('c', 4)
            );
            for set in ALL_SETS {
                let d = run(set, &instruction, &sources, (4, false));
                for (lane, i) in (0..32).flat_map(|lane| (0..4).map(move |i| (lane, i))) {
                    let (row, column) = c_place(lane, i);
                    let mut sum = c.value(row, column) as f32;
                    for k in (0..k).map(|k| if per == 2 { k ^ 1 } else { k }) {
                        let (a, b) = (a.value(row, k) as f32, b.value(k, column) as f32);
                        sum = a.mul_add(b, sum);
                    }
                    let bits = if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() };
                    let got = d[i][lane] as u32;
                    assert_eq!(
                        got, bits,
                        "{ty} {k} {mode} {set:?} {row} {column}: {got:x} {bits:x}"
                    );
                }
            }
        }
    }
}

#[test]
fn infinities_and_nan() {
    let inf = Matrix { ty: "bf16", columns: 16, bits: vec![0x7f80; 256] };
    let mut b = Matrix { ty: "bf16", columns: 8, bits: vec![0x3f80; 128] };
    // Column 1: infinity times zero; column 2: infinities of both signs.
    b.bits[1] = 0;
    b.bits[2] = 0xbf80;
    let zero = Matrix { ty: "f32", columns: 8, bits: vec![0; 128] };
    let sources = [
        ('a', registers(&inf, 4, |lane, i| a_place(16, 2, lane, i)), false),
        ('b', registers(&b, 2, |lane, i| b_place(2, lane, i)), false),
        ('c', registers(&zero, 4, c_place), false),
    ];
    let instruction = format!(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {}, {}, {}, {}",
        list('d', 4),
        list('a', 4),
        list('b', 2),
        list('c', 4)
    );
    for set in ALL_SETS {
        let d = run(set, &instruction, &sources, (4, false));
        // Lanes 0 and 1 have columns 0 and 1, 2 and 3.
        assert_eq!(
            [d[0][0], d[1][0], d[0][1], d[1][1]],
            [0x7f80_0000, 0x7fff_ffff, 0x7fff_ffff, 0x7f80_0000]
        );
    }
}

/// `wmma`: loads, a product and a store, all layouts, against the product of the matrices.
fn check_wmma(
    shape: &str,
    ty: &'static str,
    c_type: &'static str,
    d_type: &'static str,
    tail: &str,
) {
    let (m, rest) = shape[1..].split_once('n').unwrap();
    let (n, k) = rest.split_once('k').unwrap();
    let [m, n, k]: [usize; 3] = [m, n, k].map(|x| x.parse().unwrap());
    let bits = bits_of(ty);
    let per = if bits == 64 { 1 } else { 32 / bits };
    let double = ty == "f64";
    let registers = |elements: usize, per: usize| elements / 32 / per;
    // f16 names eight registers for every shape.
    let (ra, rb) = match ty {
        "f16" => (8, 8),
        _ => (registers(m * k, per), registers(n * k, per)),
    };
    let count = |t: &str| registers(m * n, if t == "f16" { 2 } else { 1 });
    let layouts: &[(&str, &str)] = if bits < 8 {
        &[("row", "col")]
    } else {
        &[("row", "col"), ("row", "row"), ("col", "col"), ("col", "row")]
    };
    let mut random = Random(99);
    for (index, (a_layout, b_layout)) in layouts.iter().enumerate() {
        let c_layout = ["row", "col"][index % 2];
        let d_layout = ["row", "col"][index / 2];
        let a = Matrix::random(ty, m, k, &mut random);
        let b = Matrix::random(ty, k, n, &mut random);
        let c = Matrix::random(c_type, m, n, &mut random);
        // Lines are longer than they need be, but for the default stride.
        let pad = if index == 1 { 0 } else { 128 / bits.max(1) };
        let memory = |matrix: &Matrix, rows: usize, layout: &str, pad: usize| {
            let bits = bits_of(matrix.ty);
            let (lines, width) =
                if layout == "row" { (rows, matrix.columns) } else { (matrix.columns, rows) };
            let stride = width + pad;
            let mut bytes = vec![0u8; (lines * stride * bits).div_ceil(8)];
            for line in 0..lines {
                for x in 0..width {
                    let v = if layout == "row" { matrix.at(line, x) } else { matrix.at(x, line) };
                    let at = (line * stride + x) * bits;
                    for bit in (0..bits).filter(|bit| v >> bit & 1 != 0) {
                        bytes[(at + bit) / 8] |= 1 << ((at + bit) % 8);
                    }
                }
            }
            (bytes, stride)
        };
        let (a_bytes, a_stride) = memory(&a, m, a_layout, pad);
        let (b_bytes, b_stride) = memory(&b, k, b_layout, pad);
        let (c_bytes, c_stride) = memory(&c, m, c_layout, if pad == 0 { 0 } else { 8 });
        let d_stride = if d_layout == "row" { n } else { m } + 8;
        let reg = if double { "b64" } else { "b32" };
        let stride = |s: usize| if pad == 0 { String::new() } else { format!(", {s}") };
        let op = if ty == "f16" {
            format!("{d_type}.{c_type}")
        } else {
            format!("{d_type}.{ty}.{ty}.{c_type}")
        };
        let (bit, tail) = match tail {
            ".xor.popc" | ".and.popc" => (tail, ""),
            other => ("", other),
        };
        let text = format!(
            ".version 8.7\n.target sm_90a\n.address_size 64\n\
             .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u32 s)\n{{\n\
             .reg .b64 %pa, %pb, %pc, %pd;\n.reg .b32 %s;\n.reg .{reg} %a<8>, %b<8>, %c<8>, %d<8>;\n\
             ld.param.u64 %pa, [a];\nld.param.u64 %pb, [b];\nld.param.u64 %pc, [c];\n\
             ld.param.u64 %pd, [d];\nld.param.u32 %s, [s];\n\
             wmma.load.a.sync.aligned.{a_layout}.{shape}.global.{ty} {}, [%pa]{};\n\
             wmma.load.b.sync.aligned.{b_layout}.{shape}.global.{ty} {}, [%pb]{};\n\
             wmma.load.c.sync.aligned.{c_layout}.{shape}.global.{c_type} {}, [%pc]{};\n\
             wmma.mma{bit}.sync.aligned.{a_layout}.{b_layout}.{shape}.{op}{tail} {}, {}, {}, {};\n\
             wmma.store.d.sync.aligned.{d_layout}.{shape}.global.{d_type} [%pd], {}, %s;\nret;\n}}\n",
            list('a', ra),
            stride(a_stride),
            list('b', rb),
            stride(b_stride),
            list('c', count(c_type)),
            stride(c_stride),
            list('d', count(d_type)),
            list('a', ra),
            list('b', rb),
            list('c', count(c_type)),
            list('d', count(d_type)),
        );
        let combine = match bit {
            ".xor.popc" => |a: f64, b: f64| f64::from(u8::from(a != b)),
            _ => times,
        };
        let expected = product(&a, &b, &c, combine);
        for set in ALL_SETS {
            let mut device = Device::new(set);
            let module = device.load(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let mut params = Params::default();
            for bytes in [&a_bytes, &b_bytes, &c_bytes] {
                let at = device.memory.allocate(bytes.len() as u64, false);
                // Read-only for kernels; the test may write.
                device.memory.write(at, bytes);
                params.push(&at.to_le_bytes());
            }
            let lines = if d_layout == "row" { m } else { n };
            let d_size = bits_of(d_type) / 8;
            let to = device.memory.allocate((lines * d_stride * d_size) as u64, true);
            params.push(&to.to_le_bytes());
            params.push(&(d_stride as u32).to_le_bytes());
            let kernel = module.kernel("k").expect("the kernel");
            device
                .run(&kernel, Shape::linear(2, 32), &params.0)
                .unwrap_or_else(|e| panic!("{e:?}\n{text}"));
            for row in 0..m {
                for column in 0..n {
                    let (line, x) = if d_layout == "row" { (row, column) } else { (column, row) };
                    let at = to + ((line * d_stride + x) * d_size) as u64;
                    let mut word = [0; 8];
                    word[..d_size].copy_from_slice(&device.memory.read(at, d_size));
                    let got = value(d_type, u64::from_le_bytes(word));
                    let expected = expected[row * n + column];
                    assert_eq!(got, expected, "{set:?} d[{row}][{column}]\n{text}");
                }
            }
        }
    }
}

#[test]
fn wmma_tiles() {
    for shape in ["m16n16k16", "m8n32k16", "m32n8k16"] {
        for (c, d) in [("f32", "f32"), ("f16", "f16"), ("f16", "f32"), ("f32", "f16")] {
            check_wmma(shape, "f16", c, d, "");
        }
        check_wmma(shape, "bf16", "f32", "f32", "");
        check_wmma(shape, "s8", "s32", "s32", "");
        check_wmma(shape, "u8", "s32", "s32", ".satfinite");
    }
    check_wmma("m16n16k8", "tf32", "f32", "f32", "");
    check_wmma("m8n8k4", "f64", "f64", "f64", "");
    check_wmma("m8n8k32", "s4", "s32", "s32", "");
    check_wmma("m8n8k32", "u4", "s32", "s32", "");
    check_wmma("m8n8k128", "b1", "s32", "s32", ".xor.popc");
    check_wmma("m8n8k128", "b1", "s32", "s32", ".and.popc");
}

/// `mma.m8n8k4` of f16: the matrices of each quarter of the warp lie in lanes of its own, and A and
/// B may be given either way.
fn check_quarters(d_type: &'static str, a_layout: &str, b_layout: &str) {
    let mut random = Random(0xfedc_ba98_7654_3211);
    let quarters: Vec<[Matrix; 3]> = (0..4)
        .map(|_| {
            let f16 = |rows, columns, random: &mut _| Matrix::random("f16", rows, columns, random);
            let (a, b) = (f16(8, 4, &mut random), f16(4, 8, &mut random));
            [a, b, Matrix::random(d_type, 8, 8, &mut random)]
        })
        .collect();
    let of = |lane: usize| &quarters[lane % 16 / 4];
    let upper = |lane: usize| 4 * (lane / 16);
    let a_place = |lane: usize, i: usize| match a_layout {
        "row" => (lane % 4 + upper(lane), i),
        _ => (i % 4 + upper(lane), lane % 4),
    };
    let b_place = |lane: usize, i: usize| match b_layout {
        "row" => (lane % 4, i + upper(lane)),
        _ => (i, lane % 4 + upper(lane)),
    };
    let c_place = |lane: usize, i: usize| match d_type {
        "f16" => (lane % 4 + upper(lane), i),
        _ => ((lane & 1) + (i & 2) + upper(lane), (i & 4) + (lane & 2) + (i & 1)),
    };
    let pack = |which: usize, count: usize, place: &dyn Fn(usize, usize) -> (usize, usize)| {
        let per = 32 / bits_of(of(0)[which].ty);
        let mut registers = vec![[0u64; 32]; count];
        for (lane, i) in (0..32).flat_map(|lane| (0..count * per).map(move |i| (lane, i))) {
            let (row, column) = place(lane, i);
            let bits = of(lane)[which].at(row, column);
            registers[i / per][lane] |= bits << (i % per * 32 / per);
        }
        registers
    };
    let sums = if d_type == "f16" { 4 } else { 8 };
    let sources = [
        ('a', pack(0, 2, &a_place), false),
        ('b', pack(1, 2, &b_place), false),
        ('c', pack(2, sums, &c_place), false),
    ];
    let form = format!("mma.sync.aligned.m8n8k4.{a_layout}.{b_layout}.{d_type}.f16.f16.{d_type}");
    let instruction = format!(
        "{form} {}, {}, {}, {}",
        list('d', sums),
        list('a', 2),
        list('b', 2),
        list('c', sums)
    );
    let expected: Vec<Vec<f64>> =
        quarters.iter().map(|[a, b, c]| product(a, b, c, times)).collect();
    for set in ALL_SETS {
        let d = run(set, &instruction, &sources, (sums, false));
        for (lane, i) in (0..32).flat_map(|lane| (0..8).map(move |i| (lane, i))) {
            let (row, column) = c_place(lane, i);
            let expected = expected[lane % 16 / 4][8 * row + column];
            let got = match d_type {
                "f16" => f16_value(d[i / 2][lane] >> (16 * (i % 2)) & 0xffff),
                _ => value("f32", d[i][lane] & 0xffff_ffff),
            };
            assert!(
                got == expected,
                "{form} ({set:?}): lane {lane}: d[{row}][{column}] is {got}, not {expected}"
            );
        }
    }
}

#[test]
fn quarters_of_a_warp_multiply() {
    for d_type in ["f16", "f32"] {
        for a_layout in ["row", "col"] {
            for b_layout in ["row", "col"] {
                check_quarters(d_type, a_layout, b_layout);
            }
        }
    }
}
