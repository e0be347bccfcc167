//! `wgmma`: products of four warps with factors in shared memory, in every layout that a
//! descriptor can name, against sums made here.

use super::harness::{Device, Params, Shape};
use super::matrix::{Matrix, Random, bits_of, f16_value, list, product, times, value};
use super::sparse::Sparse;
use super::tiers::{ALL_SETS, Set};
use std::fmt::Write;

/// Threads of four warps.
const THREADS: usize = 128;
/// Where A and B start in shared memory: multiples of every swizzle's pattern.
const B_START: usize = 16 << 10;
const IMAGE_BYTES: usize = 48 << 10;

/// How a factor lies in shared memory.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// As a descriptor has it: 0 for none, then 128, 64 and 32 bytes.
    swizzle: usize,
    /// Lines, not `k`, run along memory.
    across: bool,
}

impl Layout {
    /// Bytes of a row of the pattern.
    fn row(self) -> usize {
        [16, 128, 64, 32][self.swizzle]
    }

    /// Leading and stride distance, bytes: eights side by side without gaps.
    fn distances(self) -> (usize, usize) {
        let atom = 8 * self.row();
        match (self.swizzle, self.across) {
            (0, _) => (128, 512),
            (_, false) => (16, atom),
            (_, true) => (4 * atom, atom),
        }
    }

    /// Where the byte is that is `byte` of row `line`, or with `across` of row `k`.
    fn place(self, line: usize, k: usize, bits: usize) -> usize {
        let (leading, stride) = self.distances();
        let (major, minor) = if self.across { (k, line) } else { (line, k) };
        let byte = minor * bits / 8;
        let at = match (self.swizzle, self.across) {
            // 8 rows of 16 bytes behind each other.
            (0, false) => major / 8 * stride + byte / 16 * leading + major % 8 * 16 + byte % 16,
            (0, true) => major / 8 * leading + byte / 16 * stride + major % 8 * 16 + byte % 16,
            (_, false) => major / 8 * stride + major % 8 * self.row() + byte,
            (_, true) => {
                let row = self.row();
                major / 8 * stride + major % 8 * row + byte / row * leading + byte % row
            }
        };
        // The number of the 16 bytes in a row of the pattern, flipped by that of the 128 bytes.
        let flip = (at / 128) % (self.row() / 16);
        at ^ (flip * 16)
    }

    fn descriptor(self, start: usize) -> u64 {
        let (leading, stride) = self.distances();
        (start / 16) as u64
            | (leading as u64 / 16) << 16
            | (stride as u64 / 16) << 32
            | (self.swizzle as u64) << 62
    }
}

struct Form {
    /// Between shape and operands.
    types: [&'static str; 3],
    n: usize,
    suffix: &'static str,
    /// Signs of A and B, if there are any.
    signs: Option<(i32, i32)>,
    transposable: bool,
    /// A has half its elements, and which of four lanes have the metadata.
    sparse: Option<usize>,
}

impl Form {
    fn k(&self) -> usize {
        self.a_columns() * if self.sparse.is_some() { 2 } else { 1 }
    }

    /// Columns of A in memory.
    fn a_columns(&self) -> usize {
        256 / bits_of(self.types[1])
    }
}

/// Puts elements where the layout says. `at` gives line and `k`.
fn put(
    image: &mut [u8],
    layout: Layout,
    lines: usize,
    ks: usize,
    bits: usize,
    at: impl Fn(usize, usize) -> u64,
) {
    for (line, k) in (0..lines).flat_map(|line| (0..ks).map(move |k| (line, k))) {
        let place = layout.place(line, k, bits);
        let value = at(line, k);
        match bits {
            1 => image[place] |= (value as u8) << (k % 8),
            _ => image[place..place + bits / 8].copy_from_slice(&value.to_le_bytes()[..bits / 8]),
        }
    }
}

fn kernel(form: &Form, a_in_registers: bool, a: Layout, b: Layout) -> String {
    let sums = form.n / if form.types[0] == "f16" { 4 } else { 2 };
    let mut text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n\
         .shared .align 1024 .b8 image[{IMAGE_BYTES}];\n\
         .visible .entry k(.param .u64 in, .param .u64 regs, .param .u64 out, .param .u64 a, \
         .param .u64 b, .param .u32 keep)\n{{\n\
         .reg .b64 %in, %regs, %out, %a, %b, %p, %x;\n.reg .b32 %t, %i, %s, %w<4>, %keep;\n\
         .reg .pred %more, %k;\n\
         ld.param.u64 %in, [in];\nld.param.u64 %regs, [regs];\nld.param.u64 %out, [out];\n\
         ld.param.u64 %a, [a];\nld.param.u64 %b, [b];\nld.param.u32 %keep, [keep];\n\
         setp.ne.u32 %k, %keep, 0;\nmov.u32 %t, %tid.x;\nshl.b32 %i, %t, 4;\n\
         COPY:\nmov.u32 %s, image;\nadd.u32 %s, %s, %i;\ncvt.u64.u32 %p, %i;\n\
         add.u64 %p, %p, %in;\nld.global.v4.u32 {{%w0, %w1, %w2, %w3}}, [%p];\n\
         st.shared.v4.u32 [%s], {{%w0, %w1, %w2, %w3}};\nadd.u32 %i, %i, 2048;\n\
         setp.lt.u32 %more, %i, {IMAGE_BYTES};\n@%more bra COPY;\nbar.sync 0;\n\
         mov.u32 %s, image;\nshr.u32 %s, %s, 4;\ncvt.u64.u32 %x, %s;\n\
         add.u64 %a, %a, %x;\nadd.u64 %b, %b, %x;\n\
         mad.wide.u32 %regs, %t, 4, %regs;\nmad.wide.u32 %out, %t, 4, %out;\n"
    );
    let mut load = |name: char, count: usize, first: usize| {
        for i in 0..count {
            writeln!(text, ".reg .b32 %{name}{i};").unwrap();
            writeln!(text, "ld.global.b32 %{name}{i}, [%regs+{}];", 4 * THREADS * (first + i))
                .unwrap();
        }
    };
    load('d', sums, 0);
    load('f', 4, sums);
    load('e', 1, sums + 4);
    let [d_type, a_type, b_type] = form.types;
    let (n, k) = (form.n, form.k());
    let from_a = if a_in_registers { list('f', 4) } else { "%a".to_owned() };
    let sparse = form.sparse.map(|selector| format!(", %e0, {selector}")).unwrap_or_default();
    let name = if form.sparse.is_some() { "mma_async.sp" } else { "mma_async" };
    let mut numbers = String::new();
    if let Some((a_sign, b_sign)) = form.signs {
        write!(numbers, ", {a_sign}, {b_sign}").unwrap();
        if form.transposable && !a_in_registers {
            write!(numbers, ", {}", u8::from(a.across)).unwrap();
        }
        if form.transposable {
            write!(numbers, ", {}", u8::from(b.across)).unwrap();
        }
    }
    writeln!(
        text,
        "wgmma.fence.sync.aligned;\n\
         wgmma.{name}.sync.aligned.m64n{n}k{k}.{d_type}.{a_type}.{b_type}{} {}, {from_a}, %b{sparse}, %k{numbers};\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
        form.suffix,
        list('d', sums)
    )
    .unwrap();
    for i in 0..sums {
        writeln!(text, "st.global.b32 [%out+{}], %d{i};", 4 * THREADS * i).unwrap();
    }
    text.push_str("ret;\n}\n");
    text
}

fn check(set: Set, form: &Form, a_in_registers: bool, a_layout: Layout, b_layout: Layout) {
    let mut random = Random(0x0bad_5eed_1234_5678);
    let [d_type, a_type, b_type] = form.types;
    let (n, k) = (form.n, form.k());
    let sparse = Sparse::random(a_type, 64, 2 * form.a_columns(), &mut random);
    let a = sparse.kept.clone();
    let b = Matrix::random(b_type, k, n, &mut random);
    let c = Matrix::random(d_type, 64, n, &mut random);
    let keep = random.below(2) == 1;
    let mut image = vec![0u8; IMAGE_BYTES];
    let (a_bits, b_bits) = (bits_of(a_type), bits_of(b_type));
    put(&mut image, a_layout, 64, form.a_columns(), a_bits, |line, k| a.at(line, k));
    put(&mut image[B_START..], b_layout, n, k, b_bits, |line, k| b.at(k, line));
    // Registers of threads: sums of rows of four warps, and A as `mma` has it.
    let row = |t: usize, high: bool| t / 32 * 16 + t % 32 / 4 + if high { 8 } else { 0 };
    let per = if d_type == "f16" { 2 } else { 1 };
    let sums = n / (2 * per);
    let c_place = |t: usize, i: usize| (row(t, i & 2 != 0), i / 4 * 8 + t % 4 * 2 + i % 2);
    let mut regs = vec![0u32; (sums + 5) * THREADS];
    for (t, i) in (0..THREADS).flat_map(|t| (0..n / 2).map(move |i| (t, i))) {
        let (row, column) = c_place(t, i);
        regs[i / per * THREADS + t] |= (c.at(row, column) as u32) << (i % per * 16);
    }
    let packed = 32 / a_bits;
    for (t, i) in (0..THREADS).flat_map(|t| (0..4).map(move |i| (t, i))) {
        for e in 0..packed {
            let column = i / 2 * 4 * packed + t % 4 * packed + e;
            let bits = a.at(row(t, i % 2 == 1), column) as u32;
            regs[(sums + i) * THREADS + t] |= bits << (e * a_bits);
        }
    }
    for warp in 0..4 {
        let metadata = sparse.metadata(16 * warp, form.sparse.unwrap_or(0));
        for (lane, word) in metadata.into_iter().enumerate() {
            regs[(sums + 4) * THREADS + 32 * warp + lane] = word as u32;
        }
    }
    let text = kernel(form, a_in_registers, a_layout, b_layout);
    let mut device = Device::new(set);
    let module = device.load(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let buffer = |bytes: &[u8]| {
        let at = device.memory.allocate(bytes.len() as u64, true);
        device.memory.write(at, bytes);
        at
    };
    let words: Vec<u8> = regs.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (image, regs) = (buffer(&image), buffer(&words));
    let out = buffer(&vec![0; 4 * sums * THREADS]);
    let mut params = Params::default();
    for pointer in [image, regs, out, a_layout.descriptor(0), b_layout.descriptor(B_START)] {
        params.push(&pointer.to_le_bytes());
    }
    params.push(&u32::from(keep).to_le_bytes());
    let kernel = module.kernel("k").expect("the kernel");
    device
        .run(&kernel, Shape::linear(1, THREADS as u32), &params.0)
        .unwrap_or_else(|fault| panic!("{fault:?}\n{text}"));
    let got = device.memory.read(out, 4 * sums * THREADS);
    let got: Vec<u32> =
        got.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let zero = Matrix::zero(d_type, 64, n);
    let (sign_a, sign_b) = form.signs.unwrap_or((1, 1));
    let combine: fn(f64, f64) -> f64 =
        if sign_a * sign_b < 0 { |a, b| -times(a, b) } else { times };
    let a = if form.sparse.is_some() { sparse.whole } else { a };
    let expected = product(&a, &b, if keep { &c } else { &zero }, combine);
    for (t, i) in (0..THREADS).flat_map(|t| (0..n / 2).map(move |i| (t, i))) {
        let (row, column) = c_place(t, i);
        let bits = u64::from(got[i / per * THREADS + t]);
        let got = match d_type {
            "f16" => f16_value(bits >> (i % 2 * 16) & 0xffff),
            ty => value(ty, bits),
        };
        let expected = expected[row * n + column];
        assert!(
            got == expected,
            "{set:?} {:?}.n{n} A {a_layout:?} (registers: {a_in_registers}) B {b_layout:?}: \
             d[{row}][{column}] is {got}, not {expected}",
            form.types
        );
    }
}

const fn float(types: [&'static str; 3], n: usize, signs: (i32, i32), transposable: bool) -> Form {
    Form { types, n, suffix: "", signs: Some(signs), transposable, sparse: None }
}

const fn sparse(form: Form, selector: usize) -> Form {
    Form { sparse: Some(selector), ..form }
}

const fn integer(types: [&'static str; 3], n: usize, suffix: &'static str) -> Form {
    Form { types, n, suffix, signs: None, transposable: false, sparse: None }
}

#[test]
fn warpgroups_multiply() {
    let forms = [
        float(["f32", "f16", "f16"], 8, (1, 1), true),
        float(["f32", "f16", "f16"], 72, (1, -1), true),
        float(["f16", "f16", "f16"], 16, (-1, -1), true),
        float(["f32", "bf16", "bf16"], 64, (-1, 1), true),
        float(["f32", "tf32", "tf32"], 24, (1, -1), false),
        float(["f32", "e4m3", "e5m2"], 16, (-1, 1), false),
        integer(["s32", "s8", "u8"], 32, ""),
        integer(["s32", "u8", "s8"], 8, ".satfinite"),
        sparse(float(["f32", "f16", "f16"], 16, (1, -1), true), 1),
        sparse(float(["f16", "f16", "f16"], 8, (1, 1), true), 0),
        sparse(float(["f32", "bf16", "bf16"], 40, (-1, 1), true), 0),
        sparse(float(["f32", "tf32", "tf32"], 24, (1, 1), false), 1),
        sparse(float(["f32", "e4m3", "e5m2"], 16, (-1, -1), false), 0),
        sparse(integer(["s32", "s8", "u8"], 32, ""), 0),
        sparse(integer(["s32", "u8", "s8"], 8, ".satfinite"), 0),
    ];
    let mut turn = 0;
    for form in &forms {
        for (a_swizzle, b_swizzle) in [(0, 0), (1, 1), (2, 3), (3, 2), (0, 1)] {
            for (a_across, b_across) in [(false, false), (true, false), (false, true), (true, true)]
            {
                if (a_across || b_across) && !form.transposable {
                    continue;
                }
                // A sparse product's B has more than a row of the narrowest pattern along k.
                if form.sparse.is_some() && b_swizzle == 3 && !b_across {
                    continue;
                }
                let a = Layout { swizzle: a_swizzle, across: a_across };
                let b = Layout { swizzle: b_swizzle, across: b_across };
                turn += 1;
                let set = ALL_SETS[turn % ALL_SETS.len()];
                check(set, form, false, a, b);
                if !a_across {
                    check(set, form, true, a, b);
                }
            }
        }
    }
}

/// The widest form, with a sum in every register it can have.
#[test]
fn warpgroups_multiply_256_columns() {
    let form = float(["f32", "bf16", "bf16"], 256, (1, 1), true);
    let layout = Layout { swizzle: 1, across: false };
    for set in ALL_SETS {
        check(set, &form, false, layout, layout);
    }
}
