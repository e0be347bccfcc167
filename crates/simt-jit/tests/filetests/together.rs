//! What lanes do together where some of them are elsewhere, and bits moved to known places: native
//! code against the interpreter.

use super::harness::{Device, Params, Shape};
use super::tiers::Set;

/// A kernel that runs `body` with all lanes, then without those whose datum is odd, under a guard
/// and behind a branch. `%a` is the datum, `%r` the result, `%p` a second one.
fn kernel(body: &str, members: &str) -> String {
    let mut text = String::from(
        ".version 8.0\n.target sm_80\n.address_size 64
         .visible .entry k(.param .u64 in, .param .u64 out)
         {
             .reg .b64 %in, %out, %x; .reg .b32 %t, %a, %b, %r, %m, %lane; .reg .pred %p, %q, %even;
             ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
             mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 4;
             add.u64 %in, %in, %x; mul.wide.u32 %x, %t, 24; add.u64 %out, %out, %x;
             ld.global.u32 %a, [%in]; mov.u32 %lane, %laneid;
             and.b32 %b, %a, 1; setp.eq.u32 %even, %b, 0; setp.gt.s32 %q, %a, 1000;
             shr.u32 %b, %a, 3;\n",
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
    text += &format!("{fresh}@%even {}{}", named(members), store(8));
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
        let native = run(Set::Native, &text, threads, &data);
        let interpreted = run(Set::Interpreted, &text, threads, &data);
        if native != interpreted {
            let at = native.iter().zip(&interpreted).position(|(a, b)| a != b).unwrap();
            panic!("thread {} byte {}: {text}", at / 24, at % 24);
        }
    }
}

#[test]
fn shuffles() {
    for mode in ["up", "down", "bfly", "idx"] {
        for lanes in ["0", "1", "5", "16", "31", "%b", "%lane"] {
            for segments in [if mode == "up" { "0" } else { "31" }, "0x1807", "0x1003"] {
                let shuffle = format!("shfl.sync.{mode}.b32 %r|%p, %a, {lanes}, {segments}");
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
