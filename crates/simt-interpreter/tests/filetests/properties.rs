//! Random tests: operations against plain Rust, and control flow against itself.
//!
//! The second kind needs no model of PTX: a kernel whose threads do not talk to each other must
//! give the same result whether its threads are the 32 lanes of one warp, which part and meet, or
//! 32 blocks of one thread each, which cannot.

use super::harness::{ALL_SETS, Device, Params, Shape};
use simt::geometry::Geometry;
use simt::inspect::Stage;
use simt_interpreter::InstructionSet;
use std::fmt::Write;

/// A small generator of numbers, the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    /// Numbers by a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ self.0 >> 33;
        x.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ x >> 29
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Numbers near the edges of every type more often than chance would have them.
    fn value(&mut self) -> u64 {
        let x = self.next();
        match self.below(8) {
            0 => x & 0xff,
            1 => 0u64.wrapping_sub(x & 0xff),
            2 => 1 << (x % 64),
            3 => (1u64 << (x % 64)).wrapping_sub(1),
            4 => [0, 1, u64::MAX, 1 << 31, (1 << 31) - 1, 1 << 63, (1 << 63) - 1][x as usize % 7],
            _ => x,
        }
    }

    fn float(&mut self) -> f32 {
        let special = [0.0, -0.0, 1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-45, f32::MAX];
        match self.below(4) {
            0 => *self.pick(&special),
            1 => f32::from_bits(self.next() as u32),
            _ => (self.next() as i32) as f32 / 65536.0,
        }
    }
}

/// Runs `d = form a, b, c` on 32 rows of operands of `bits` each.
fn run(form: &str, bits: [u32; 4], rows: &[[u64; 3]; 32], set: InstructionSet) -> Vec<u64> {
    let mut text = String::from(
        ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u64 q)\n{\n\
         .reg .b64 %p, %q, %x; .reg .b32 %t;\n\
         ld.param.u64 %p, [p]; ld.param.u64 %q, [q]; mov.u32 %t, %tid.x;\n\
         mad.wide.u32 %p, %t, 24, %p; mad.wide.u32 %q, %t, 8, %q;\n",
    );
    let sources = form.matches('$').count() - 1;
    for (i, bits) in bits.iter().enumerate() {
        writeln!(text, ".reg .b{bits} %o{i};").unwrap();
        if (1..=sources).contains(&i) {
            writeln!(text, "ld.global.b{bits} %o{i}, [%p+{}];", 8 * (i - 1)).unwrap();
        }
    }
    let mut instruction = form.to_owned();
    for i in 0..4 {
        instruction = instruction.replace(&format!("${i}"), &format!("%o{i}"));
    }
    writeln!(text, "{instruction};\nst.global.b{} [%q], %o0;\nret;\n}}", bits[0]).unwrap();
    let mut device = Device::new(set);
    let kernel = device.load(&text).unwrap_or_else(|e| panic!("{e}\n{text}")).kernel("k");
    let (p, q) = (device.memory.allocate(24 * 32, true), device.memory.allocate(8 * 32, true));
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|v| v.to_le_bytes()).collect();
    device.memory.write(p, &bytes);
    let mut params = Params::default();
    params.push(&p.to_le_bytes());
    params.push(&q.to_le_bytes());
    device.run(&kernel.expect("k"), Shape::linear(1, 32), &params.0).expect("no fault");
    let out = device.memory.read(q, 8 * 32);
    out.chunks(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect()
}

type Reference = fn(u64, u64, u64) -> u64;

fn float2(a: u64, b: u64, f: fn(f32, f32) -> f32) -> u64 {
    let r = f(f32::from_bits(a as u32), f32::from_bits(b as u32));
    u64::from(if r.is_nan() { 0x7fff_ffff } else { r.to_bits() })
}

#[test]
fn integer_operations_agree_with_rust() {
    let forms: &[(&str, [u32; 4], Reference)] = &[
        ("add.u32 $0, $1, $2", [32; 4], |a, b, _| (a as u32).wrapping_add(b as u32).into()),
        ("sub.s64 $0, $1, $2", [64; 4], |a, b, _| a.wrapping_sub(b)),
        ("mul.lo.s32 $0, $1, $2", [32; 4], |a, b, _| (a as u32).wrapping_mul(b as u32).into()),
        ("mul.hi.s32 $0, $1, $2", [32; 4], |a, b, _| {
            u64::from(((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32)
        }),
        ("mul.hi.u64 $0, $1, $2", [64; 4], |a, b, _| {
            ((u128::from(a) * u128::from(b)) >> 64) as u64
        }),
        ("mul.wide.s32 $0, $1, $2", [64, 32, 32, 32], |a, b, _| {
            (i64::from(a as i32) * i64::from(b as i32)) as u64
        }),
        ("mad.wide.u32 $0, $1, $2, $3", [64, 32, 32, 64], |a, b, c| {
            (u64::from(a as u32) * u64::from(b as u32)).wrapping_add(c)
        }),
        ("div.u32 $0, $1, $2", [32; 4], |a, b, _| match b as u32 {
            0 => 0xffff_ffff,
            b => u64::from(a as u32 / b),
        }),
        ("div.s32 $0, $1, $2", [32; 4], |a, b, _| match b as i32 {
            0 => 0xffff_ffff,
            b => u64::from((a as i32).wrapping_div(b) as u32),
        }),
        ("rem.u32 $0, $1, $2", [32; 4], |a, b, _| match b as u32 {
            0 => u64::from(a as u32),
            b => u64::from(a as u32 % b),
        }),
        ("rem.s32 $0, $1, $2", [32; 4], |a, b, _| match b as i32 {
            0 => u64::from(a as u32),
            b => u64::from((a as i32).wrapping_rem(b) as u32),
        }),
        ("div.s64 $0, $1, $2", [64; 4], |a, b, _| match b as i64 {
            0 => u64::MAX,
            b => (a as i64).wrapping_div(b) as u64,
        }),
        ("min.s64 $0, $1, $2", [64; 4], |a, b, _| (a as i64).min(b as i64) as u64),
        ("max.u16 $0, $1, $2", [16; 4], |a, b, _| u64::from((a as u16).max(b as u16))),
        ("shl.b64 $0, $1, $2", [64, 64, 32, 32], |a, b, _| a.checked_shl(b as u32).unwrap_or(0)),
        ("shr.s32 $0, $1, $2", [32; 4], |a, b, _| {
            u64::from((a as i32 >> (b as u32).min(31)) as u32)
        }),
        ("bfe.s64 $0, $1, 13, 21", [64; 4], |a, _, _| ((a << 30) as i64 >> 43) as u64),
        ("shf.l.wrap.b32 $0, $1, $2, $3", [32; 4], |a, b, c| {
            let both = u64::from(b as u32) << 32 | u64::from(a as u32);
            both << (c & 31) >> 32
        }),
        ("sad.s32 $0, $1, $2, $3", [32; 4], |a, b, c| {
            u64::from((c as u32).wrapping_add((a as i32).abs_diff(b as i32)))
        }),
        ("popc.b64 $0, $1", [32, 64, 64, 64], |a, _, _| u64::from(a.count_ones())),
        ("brev.b64 $0, $1", [64; 4], |a, _, _| a.reverse_bits()),
        ("cvt.sat.s8.s32 $0, $1", [32; 4], |a, _, _| u64::from((a as i32).clamp(-128, 127) as u32)),
        ("cvt.rn.f32.s64 $0, $1", [32, 64, 64, 64], |a, _, _| {
            u64::from((a as i64 as f32).to_bits())
        }),
        ("cvt.rn.f64.u64 $0, $1", [64; 4], |a, _, _| (a as f64).to_bits()),
    ];
    let mut random = Random(1);
    for (form, bits, reference) in forms {
        for set in ALL_SETS {
            for _ in 0..4 {
                let rows: [[u64; 3]; 32] =
                    std::array::from_fn(|_| std::array::from_fn(|_| random.value()));
                let got = run(form, *bits, &rows, set);
                for (row, got) in rows.iter().zip(got) {
                    let right = reference(row[0], row[1], row[2]);
                    assert_eq!(got, right, "{form} of {row:#x?} ({set:?})");
                }
            }
        }
    }
}

#[test]
fn float_operations_agree_with_rust() {
    let forms: &[(&str, [u32; 4], Reference)] = &[
        ("add.f32 $0, $1, $2", [32; 4], |a, b, _| float2(a, b, |a, b| a + b)),
        ("sub.f32 $0, $1, $2", [32; 4], |a, b, _| float2(a, b, |a, b| a - b)),
        ("mul.f32 $0, $1, $2", [32; 4], |a, b, _| float2(a, b, |a, b| a * b)),
        ("div.rn.f32 $0, $1, $2", [32; 4], |a, b, _| float2(a, b, |a, b| a / b)),
        ("sqrt.rn.f32 $0, $1", [32; 4], |a, _, _| float2(a, 0, |a, _| a.sqrt())),
        ("fma.rn.f32 $0, $1, $2, $3", [32; 4], |a, b, c| {
            let f = |x: u64| f32::from_bits(x as u32);
            let r = f(a).mul_add(f(b), f(c));
            u64::from(if r.is_nan() { 0x7fff_ffff } else { r.to_bits() })
        }),
        ("cvt.rzi.s32.f32 $0, $1", [32; 4], |a, _, _| {
            u64::from(f32::from_bits(a as u32) as i32 as u32)
        }),
        ("cvt.rni.f32.f32 $0, $1", [32; 4], |a, _, _| float2(a, 0, |a, _| a.round_ties_even())),
        // Towards plus infinity is nearest or the next number above, whichever is not below.
        ("add.rp.f32 $0, $1, $2", [32; 4], |a, b, _| {
            float2(a, b, |a, b| {
                let exact = f64::from(a) + f64::from(b);
                let error = {
                    let v = exact - f64::from(a);
                    (f64::from(a) - (exact - v)) + (f64::from(b) - v)
                };
                let near = exact as f32;
                let below = f64::from(near) < exact || (f64::from(near) == exact && error > 0.0);
                if below && near.is_finite() { near.next_up() } else { near }
            })
        }),
    ];
    let mut random = Random(2);
    for (form, bits, reference) in forms {
        for set in ALL_SETS {
            for _ in 0..6 {
                let rows: [[u64; 3]; 32] = std::array::from_fn(|_| {
                    std::array::from_fn(|_| random.float().to_bits().into())
                });
                let got = run(form, *bits, &rows, set);
                for (row, got) in rows.iter().zip(got) {
                    let right = reference(row[0], row[1], row[2]);
                    assert_eq!(got & 0xffff_ffff, right, "{form} of {row:#x?} ({set:?})");
                }
            }
        }
    }
}

/// The largest error of an approximation over many arguments, in the measure the manual uses.
#[test]
fn approximations_keep_the_manuals_bounds() {
    type Case = (&'static str, fn(f64) -> f64, f32, f32, bool, f64);
    // Form, function, arguments from and to, relative error?, bound.
    let cases: &[Case] = &[
        ("ex2.approx.f32", f64::exp2, -20.0, 20.0, true, 2.0_f64.powi(-22)),
        ("lg2.approx.f32", f64::log2, 0.5, 2.0, false, 2.0_f64.powi(-22)),
        ("lg2.approx.f32", f64::log2, 2.0, 1e30, true, 2.0_f64.powi(-22)),
        ("sin.approx.f32", f64::sin, -3.2, 3.2, false, 2.0_f64.powf(-20.5)),
        ("cos.approx.f32", f64::cos, -3.2, 3.2, false, 2.0_f64.powf(-20.5)),
        ("sin.approx.f32", f64::sin, -5e4, 5e4, false, 2.0_f64.powf(-20.5)),
        ("tanh.approx.f32", f64::tanh, -9.0, 9.0, true, 2.0_f64.powi(-11)),
        ("rcp.approx.f32", |x| 1.0 / x, 1e-3, 1e3, true, 2.0_f64.powi(-23)),
        ("rsqrt.approx.f32", |x| 1.0 / x.sqrt(), 1e-3, 1e3, true, 2.0_f64.powf(-22.9)),
        ("sqrt.approx.f32", f64::sqrt, 1e-3, 1e3, true, 2.0_f64.powi(-23)),
    ];
    let mut random = Random(3);
    for (form, f, from, to, relative, bound) in cases {
        for set in ALL_SETS {
            for _ in 0..40 {
                let rows: [[u64; 3]; 32] = std::array::from_fn(|_| {
                    let u = random.below(1 << 24) as f32 / (1 << 24) as f32;
                    [u64::from((from + (to - from) * u).to_bits()), 0, 0]
                });
                let got = run(&format!("{form} $0, $1"), [32; 4], &rows, set);
                for (row, got) in rows.iter().zip(got) {
                    let x = f64::from(f32::from_bits(row[0] as u32));
                    let (y, right) = (f64::from(f32::from_bits(got as u32)), f(x));
                    let error = (y - right).abs() / if *relative { right.abs() } else { 1.0 };
                    assert!(error <= *bound, "{form}({x}) = {y}, not {right}: {error:e} ({set:?})");
                }
            }
        }
    }
}

const BLOCKS: u64 = 9;
const REGISTERS: u64 = 6;

/// A kernel with random blocks that jump anywhere until their fuel is used up.
fn random_kernel(random: &mut Random) -> String {
    let mut k = String::from(
        ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u32 a, .param .u32 b)\n{\n\
         .reg .b32 %r<8>; .reg .b32 %u<4>; .reg .b32 %id, %n, %fuel; .reg .pred %p<4>; .reg .pred %empty; .reg .b64 %o, %w;\n\
         ld.param.u64 %o, [out];\n\
         mov.u32 %id, %ctaid.x; mov.u32 %n, %ntid.x; mul.lo.u32 %id, %id, %n; mov.u32 %n, %tid.x; add.u32 %id, %id, %n;\n\
         ld.param.u32 %u0, [a]; ld.param.u32 %u1, [b]; mov.u32 %u2, 7; mov.u32 %u3, 1;\n\
         mul.wide.u32 %w, %id, 64; add.u64 %o, %o, %w;\n\
         mov.u32 %fuel, 40;\n",
    );
    for r in 0..REGISTERS {
        match random.below(4) {
            0 => writeln!(k, "mov.u32 %r{r}, {};", random.below(9)).unwrap(),
            1 => writeln!(k, "mov.u32 %r{r}, %u{};", random.below(4)).unwrap(),
            _ => writeln!(k, "add.u32 %r{r}, %id, {};", random.below(5)).unwrap(),
        }
    }
    for p in 0..4 {
        writeln!(k, "setp.lt.u32 %p{p}, %r{}, {};", random.below(REGISTERS), random.below(20))
            .unwrap();
    }
    let wide = random.below(3) == 0;
    for block in 0..BLOCKS {
        writeln!(k, "B{block}:").unwrap();
        writeln!(k, "sub.u32 %fuel, %fuel, 1; setp.eq.u32 %empty, %fuel, 0;\n@%empty bra END;")
            .unwrap();
        for _ in 0..random.below(5) {
            let guard = match random.below(5) {
                0 => format!("@%p{} ", random.below(4)),
                1 => format!("@!%p{} ", random.below(4)),
                _ => String::new(),
            };
            let (d, a, b) =
                (random.below(REGISTERS), random.below(REGISTERS), random.below(REGISTERS));
            match random.below(9) {
                0 => writeln!(k, "{guard}add.u32 %r{d}, %r{a}, %r{b};").unwrap(),
                1 => writeln!(k, "{guard}xor.b32 %r{d}, %r{a}, %u{};", random.below(4)).unwrap(),
                2 => writeln!(k, "{guard}mul.lo.u32 %r{d}, %r{a}, 3;").unwrap(),
                3 => writeln!(k, "{guard}mov.u32 %u{}, %u{};", random.below(4), random.below(4))
                    .unwrap(),
                4 => writeln!(k, "{guard}add.u32 %u{}, %u{}, 1;", random.below(4), random.below(4))
                    .unwrap(),
                5 => writeln!(k, "{guard}selp.b32 %r{d}, %r{a}, %r{b}, %p{};", random.below(4))
                    .unwrap(),
                6 => writeln!(
                    k,
                    "{guard}setp.gt.u32 %p{}, %r{a}, %u{};",
                    random.below(4),
                    random.below(4)
                )
                .unwrap(),
                7 => writeln!(
                    k,
                    "{guard}xor.pred %p{0}, %p{0}, %p{1};",
                    random.below(4),
                    random.below(4)
                )
                .unwrap(),
                _ => writeln!(k, "{guard}st.global.u32 [%o+{}], %r{a};", 40 + 4 * random.below(6))
                    .unwrap(),
            }
        }
        if random.below(3) != 0 {
            // Mostly forward, so that lanes get somewhere; back often enough.
            let to = if wide { random.below(BLOCKS) } else { (block + random.below(4)) % BLOCKS };
            let not = if random.below(2) == 0 { "!" } else { "" };
            writeln!(k, "@{not}%p{} bra B{to};", random.below(4)).unwrap();
        }
        match random.below(6) {
            0 => writeln!(k, "bra B{};", random.below(BLOCKS)).unwrap(),
            1 => writeln!(k, "@%p{} exit;", random.below(4)).unwrap(),
            _ => {}
        }
    }
    k.push_str("END:\n");
    for r in 0..REGISTERS {
        writeln!(k, "st.global.u32 [%o+{}], %r{r};", 4 * r).unwrap();
    }
    for u in 0..4 {
        writeln!(k, "st.global.u32 [%o+{}], %u{u};", 4 * (REGISTERS + u)).unwrap();
    }
    k.push_str("ret;\n}\n");
    k
}

fn results(text: &str, shape: Shape, set: InstructionSet) -> Vec<u8> {
    let mut device = Device::new(set);
    let kernel = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}")).kernel("k");
    let out = device.memory.allocate(64 * 64, true);
    let mut params = Params::default();
    params.push(&out.to_le_bytes());
    params.push(&5u32.to_le_bytes());
    params.push(&11u32.to_le_bytes());
    device.run(&kernel.expect("k"), shape, &params.0).expect("no fault");
    device.memory.read(out, 64 * 64)
}

/// How many random kernels: more when asked.
pub(crate) fn rounds() -> u64 {
    std::env::var("OPENMPS_FUZZ_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(400)
}

#[test]
fn lanes_that_part_compute_what_threads_alone_compute() {
    for seed in 0..rounds() {
        let text = random_kernel(&mut Random(seed));
        let alone = results(&text, Shape::linear(64, 1), InstructionSet::Baseline);
        for (shape, set) in [
            (Shape::linear(2, 32), InstructionSet::Avx512),
            (Shape::linear(1, 64), InstructionSet::Baseline),
            (Shape::linear(4, 16), InstructionSet::Avx2),
        ] {
            let together = results(&text, shape, set);
            let first = alone.iter().zip(&together).position(|(a, b)| a != b);
            if let Some(at) = first {
                let dump = simt::inspect::dump(&text, Some("k"), Stage::Vector(Geometry::Rows))
                    .unwrap()
                    .unwrap();
                panic!(
                    "seed {seed}, {shape:?}: thread {}, word {}\n{text}\n{dump}",
                    at / 64,
                    at % 64 / 4
                );
            }
        }
    }
}
