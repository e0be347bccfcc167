//! Approximate functions: within the manual's bounds, for arguments at random. What has one right
//! answer is held against it in `random`.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set};
use ptx_reference::Random;
use std::fmt::Write;

/// Runs `d = form a, b, c` on 32 rows of operands of `bits` each.
fn run(form: &str, bits: [u32; 4], rows: &[[u64; 3]; 32], set: Set) -> Vec<u64> {
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
    let mut random = Random::new(3);
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
