//! What lanes do together where some of them are elsewhere, and bits moved to known places: native
//! code against the interpreter.

use super::harness::{Device, Params, Shape};
use super::tiers::Set;
use simt_jit::SimdIsa;

/// A kernel that runs `body` with all lanes, then without those whose datum is odd, under a guard
/// and behind a branch. `%a` is the datum, `%r` the result, `%p` a second one.
fn kernel(body: &str, members: &str) -> String {
    let mut text = String::from(
        ".version 8.0\n.target sm_90\n.address_size 64
         .visible .entry k(.param .u64 in, .param .u64 out)
         {
             .reg .b64 %in, %out, %x; .reg .b32 %t, %a, %b, %r, %m, %lane; .reg .pred %p, %q, %even;
             ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
             mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 4;
             add.u64 %in, %in, %x; mul.wide.u32 %x, %t, 24; add.u64 %out, %out, %x;
             ld.global.u32 %a, [%in]; mov.u32 %lane, %laneid;
             and.b32 %b, %a, 1; setp.eq.u32 %even, %b, 0; setp.gt.s32 %q, %a, 1000;
             shr.u32 %b, %a, 3; and.b32 %m, %a, 0;\n",
    );
    let store = |at: usize| {
        format!(
            "st.global.u32 [%out+{at}], %r; selp.u32 %r, 1, 0, %p; st.global.u32 [%out+{}], %r;\n",
            at + 4
        )
    };
    let fresh = "mov.u32 %r, 7; setp.ne.u32 %p, %r, 7;\n";
    let named = |members: &str| body.replace("MEMBERS", members);
    text += &format!("{fresh}{}{}", named("0xffffffff"), store(0));
    // The lanes that take part are known to the program.
    let guard = if body.starts_with('{') { "" } else { "@%even " };
    text += &format!("{fresh}{guard}{}{}", named(members), store(8));
    text += &format!("{fresh}@!%even bra SKIP;\n{}SKIP:\n{}ret;\n}}\n", named(members), store(16));
    text
}

fn run(set: Set, text: &str, threads: usize, data: &[u8]) -> Vec<u8> {
    let mut device = Device::new(set);
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("a kernel");
    let input = device.memory.allocate(data.len() as u64, true);
    device.memory.write(input, data);
    let out = device.memory.allocate(threads as u64 * 24, true);
    let mut params = Params::default();
    params.push(&input.to_le_bytes());
    params.push(&out.to_le_bytes());
    device.run(&kernel, Shape::linear(1, threads as u32), &params.0).expect(text);
    device.memory.read(out, threads * 24)
}

/// Compares both tiers. The even lanes are those of `0x5b6d_2493`, in each warp.
fn compare(body: &str, sizes: &[usize]) {
    const EVEN: u32 = 0x5b6d_2493;
    for &threads in sizes {
        let data: Vec<u8> = (0..threads as u32)
            .flat_map(|t| {
                let any = t.wrapping_mul(0x9e37_79b9) ^ t.wrapping_mul(t) << 7;
                // Few values, so that some are equal.
                let any = if t % 3 == 0 { any & 0x6 } else { any & !1 };
                (any | (!EVEN >> (t % 32) & 1)).to_le_bytes()
            })
            .collect();
        let text = kernel(body, &format!("{EVEN:#x}"));
        let interpreted = run(Set::Interpreted, &text, threads, &data);
        for isa in SimdIsa::ALL {
            let native = run(Set::Native(isa), &text, threads, &data);
            if native != interpreted {
                let at = native.iter().zip(&interpreted).position(|(a, b)| a != b).unwrap();
                panic!("{isa:?}: thread {} byte {}: {text}", at / 24, at % 24);
            }
        }
    }
}

#[test]
fn shuffles() {
    for mode in ["up", "down", "bfly", "idx"] {
        for lanes in ["0", "1", "5", "16", "31", "%b", "%lane"] {
            for regions in [if mode == "up" { "0" } else { "31" }, "0x1807", "0x1003"] {
                let shuffle = format!("shfl.sync.{mode}.b32 %r|%p, %a, {lanes}, {regions}");
                // What threads that there are not would give is not said.
                compare(&(shuffle + ", MEMBERS;\n"), &[64]);
            }
        }
    }
}

#[test]
fn votes() {
    for body in [
        "vote.sync.all.pred %p, %q, MEMBERS;",
        "vote.sync.any.pred %p, %q, MEMBERS;",
        "vote.sync.uni.pred %p, %q, MEMBERS;",
        "vote.sync.any.pred %p, !%q, MEMBERS;",
        "vote.sync.ballot.b32 %r, %q, MEMBERS;",
        "activemask.b32 %r;",
        "redux.sync.add.u32 %r, %a, MEMBERS;",
        "redux.sync.min.s32 %r, %a, MEMBERS;",
        "redux.sync.max.s32 %r, %a, MEMBERS;",
        "redux.sync.min.u32 %r, %a, MEMBERS;",
        "redux.sync.max.u32 %r, %a, MEMBERS;",
        "redux.sync.and.b32 %r, %a, MEMBERS;",
        "redux.sync.or.b32 %r, %a, MEMBERS;",
        "redux.sync.xor.b32 %r, %a, MEMBERS;",
    ] {
        compare(&format!("{body}\n"), &[64, 50]);
    }
}

#[test]
fn bits() {
    for body in [
        "brev.b32 %r, %a;",
        "bfi.b32 %r, %a, %b, 0, 8;",
        "bfi.b32 %r, %a, %b, 16, 16;",
        "bfi.b32 %r, %a, %b, 27, 9;",
        "bfi.b32 %r, %a, %b, 0, 32;",
        "bfi.b32 %r, %a, %b, 5, 0;",
        "bfi.b32 %r, %a, %b, 40, 3;",
        "bfi.b32 %r, %a, %b, 3, 200;",
        "prmt.b32 %r, %a, %b, 0x3210;",
        "prmt.b32 %r, %a, %b, 0x0123;",
        "prmt.b32 %r, %a, %b, 0x7531;",
        "prmt.b32 %r, %a, %b, 0x4b62;",
        "prmt.b32 %r, %a, %a, 0x2222;",
    ] {
        compare(&format!("{body}\n"), &[64, 50]);
    }
}

/// Numbers of 16 bits, alone and in pairs, some of which are infinite, NaN or subnormal.
#[test]
fn halves() {
    const INPUTS: &str = "{ .reg .b32 %c, %d, %n; .reg .b16 %h, %g, %k, %o; .reg .pred %s;
        and.b32 %n, %lane, 7; setp.eq.u32 %s, %n, 1; mov.b32 %c, %a; mul.lo.u32 %d, %a, 40503;
        xor.b32 %d, %d, %b;
        @%s or.b32 %c, %c, 0x7c007f80; setp.eq.u32 %s, %n, 3; @%s or.b32 %d, %d, 0x7f807c00;
        setp.eq.u32 %s, %n, 4; @%s and.b32 %c, %c, 0x83ff807f; setp.eq.u32 %s, %n, 5;
        @%s mov.b32 %d, %c; setp.eq.u32 %s, %n, 6; @%s xor.b32 %d, %c, 0x80008000;
        cvt.u16.u32 %h, %c; shr.u32 %n, %d, 16; cvt.u16.u32 %g, %n; cvt.u16.u32 %k, %d;\n";
    for body in [
        "add.f16 %o, %h, %g;",
        "sub.f16 %o, %h, %k;",
        "mul.f16 %o, %h, %g;",
        "fma.rn.f16 %o, %h, %g, %k;",
        "add.bf16 %o, %h, %g;",
        "mul.bf16 %o, %h, %k;",
        "fma.rn.bf16 %o, %h, %g, %k;",
        "neg.f16 %o, %h;",
        "abs.bf16 %o, %h;",
        "min.f16 %o, %h, %g;",
        "max.NaN.f16 %o, %h, %g;",
        "max.bf16 %o, %h, %k;",
        "min.NaN.bf16 %o, %h, %k;",
        "cvt.s16.s8 %o, %h;",
        "cvt.u16.u8 %o, %h;",
        "cvt.u16.u32 %o, %d;",
        "cvt.s8.s32 %o, %d;",
        "cvt.rn.f16.f32 %o, %c;",
        "cvt.rn.bf16.f32 %o, %c;",
    ] {
        compare(&format!("{INPUTS}{body} cvt.u32.u16 %r, %o; }}\n"), &[64, 50]);
    }
    for body in [
        "add.f16x2 %r, %c, %d;",
        "sub.f16x2 %r, %c, %d;",
        "mul.f16x2 %r, %c, %d;",
        "fma.rn.f16x2 %r, %c, %d, %a;",
        "fma.rn.f16x2 %r, %c, %d, %d;",
        "add.bf16x2 %r, %c, %d;",
        "fma.rn.bf16x2 %r, %c, %d, %a;",
        "neg.f16x2 %r, %c;",
        "abs.bf16x2 %r, %d;",
        "max.f16x2 %r, %c, %d;",
        "min.NaN.f16x2 %r, %c, %d;",
        "min.bf16x2 %r, %c, %d;",
        "max.NaN.bf16x2 %r, %c, %d;",
        "cvt.f32.f16 %r, %h;",
        "cvt.f32.bf16 %r, %h;",
        "cvt.rn.f16x2.f32 %r, %c, %d;",
        "cvt.rn.bf16x2.f32 %r, %d, %c;",
        "cvt.s32.s8 %r, %c;",
        "cvt.s32.s16 %r, %h;",
        "cvt.u32.u8 %r, %h;",
        "cvt.s32.s8 %r, %h;",
    ] {
        compare(&format!("{INPUTS}{body} }}\n"), &[64, 50]);
    }
}

/// Approximate functions of all kinds of numbers.
#[test]
fn series() {
    for op in ["lg2", "sin", "cos", "ex2"] {
        for ftz in ["", ".ftz"] {
            // Exponents near 0, any bits, and what is not a number of the usual kind.
            for argument in [
                "and.b32 %c, %a, 0x83ffffff; add.u32 %c, %c, 0x3e000000;",
                "mul.lo.u32 %c, %a, 0x9e3779b1;",
                "shl.b32 %c, %a, 23;",
                "and.b32 %c, %a, 0x807fffff;",
                "or.b32 %c, %a, 0x7f800000;",
                "and.b32 %c, %a, 0x80000000; and.b32 %n, %lane, 1; mul.lo.u32 %n, %n, 0x7f800000; or.b32 %c, %c, %n;",
            ] {
                let body =
                    format!("{{ .reg .b32 %c, %n; {argument} {op}.approx{ftz}.f32 %r, %c; }}\n");
                compare(&body, &[64, 50]);
            }
        }
    }
}

/// Arithmetic on one value for all lanes: divisions by 0 and of the least number, shifts too far.
#[test]
fn one_value() {
    let numbers = ["0", "1", "7", "-1", "-7", "31", "32", "64", "100", "0x80000000", "0x7fffffff"];
    for a in numbers {
        for b in numbers {
            let mut body = format!(
                "{{ .reg .b32 %c, %d; .reg .b64 %e, %f, %s; mov.u32 %d, %ctaid.x; mov.u32 %r, 0;
                 mov.u64 %s, 0; add.u32 %c, %d, {a}; add.u32 %d, %d, {b};
                 cvt.s64.s32 %e, %c; cvt.s64.s32 %f, %d; shl.b64 %e, %e, %d;\n"
            );
            for op in ["div.s32", "div.u32", "rem.s32", "rem.u32", "shl.b32", "shr.s32", "shr.u32"]
            {
                body +=
                    &format!("{{ .reg .b32 %o; {op} %o, %c, %d; mad.lo.u32 %r, %r, 31, %o; }}\n");
            }
            for op in ["div.s64", "div.u64", "rem.s64", "rem.u64"] {
                body +=
                    &format!("{{ .reg .b64 %o; {op} %o, %e, %f; mad.lo.u64 %s, %s, 31, %o; }}\n");
            }
            for op in ["shl.b64", "shr.s64", "shr.u64"] {
                body +=
                    &format!("{{ .reg .b64 %o; {op} %o, %e, %d; mad.lo.u64 %s, %s, 31, %o; }}\n");
            }
            body += "{ .reg .b32 %x; cvt.u32.u64 %x, %s; xor.b32 %r, %r, %x;
                shr.u64 %s, %s, 32; cvt.u32.u64 %x, %s; xor.b32 %r, %r, %x; } }\n";
            compare(&body, &[64]);
        }
    }
}

#[test]
fn leaders() {
    compare("elect.sync %r|%p, MEMBERS;\n", &[32, 64, 40]);
}

#[test]
fn equal_values() {
    for body in
        ["match.any.sync.b32 %r, %a, MEMBERS;\n", "match.all.sync.b32 %r|%p, %a, MEMBERS;\n"]
    {
        compare(body, &[32, 64, 40]);
    }
    // With fewer different values, and one.
    for body in
        ["match.any.sync.b32 %r, %b, MEMBERS;\n", "match.all.sync.b32 %r|%p, %m, MEMBERS;\n"]
    {
        compare(body, &[32, 64, 40]);
    }
}

#[test]
fn carries() {
    for op in ["add", "sub"] {
        for body in [
            format!("{{ .reg .b32 %c; {op}.cc.u32 %c, %a, %a; {op}c.u32 %r, %b, %c; }}\n"),
            format!(
                "{{ .reg .b32 %c; {op}.cc.u32 %c, %b, %a; {op}c.cc.u32 %c, %a, %a; {op}c.u32 %r, %c, 0; }}\n"
            ),
            format!(
                "{{ .reg .b64 %c, %d; mov.b64 %c, {{%b, %a}}; mov.b64 %d, {{%a, %a}};
                    {op}.cc.u64 %c, %c, %d; {op}c.cc.u64 %d, %d, %d; {op}c.u64 %c, %c, %d;
                    cvt.u32.u64 %r, %c; }}\n"
            ),
            format!(
                "{{ .reg .b32 %c; mov.u32 %c, %ctaid.x; {op}.cc.u32 %c, %c, 0xffffffff;
                    {op}c.cc.u32 %c, %c, 0xffffffff; {op}c.u32 %r, %c, 5; }}\n"
            ),
        ] {
            compare(&body, &[32, 64, 40]);
        }
    }
}

#[test]
fn long_divisions() {
    for (op, sign) in [("div", "u"), ("rem", "u"), ("div", "s"), ("rem", "s")] {
        // Zeros and numbers that are no doubles are among them.
        for more in ["0", "1", "-77", "12345", "0x0010000000000000", "0x7ff0000000000000"] {
            compare(
                &format!(
                    "{{ .reg .b64 %c, %d; cvt.{sign}64.{sign}32 %c, %a; mul.lo.{sign}64 %c, %c, 2039;
                        cvt.u64.u32 %d, %b; add.{sign}64 %d, %d, {more};
                        {op}.{sign}64 %c, %c, %d; cvt.u32.u64 %r, %c; }}\n"
                ),
                &[32, 40],
            );
        }
    }
}
