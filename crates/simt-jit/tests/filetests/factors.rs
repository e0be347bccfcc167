//! Products whose factors come from shared memory by `ldmatrix`, as compilers' kernels have them:
//! native code, which keeps such factors in an order of its own, against the interpreter. Factors
//! are whole, in parts, shared by several products, and full of what products in pairs cannot have.

use super::harness::{Device, Params, Shape};
use super::tiers::Set;
use simt_jit::SimdIsa;

/// Bytes of shared memory.
const TILE: usize = 4096;
/// Registers of sums that kernels write.
const SUMS: usize = 8;

/// What is loaded and multiplied: `LOAD` and `TURN` are `ldmatrix` of four matrices, `MUL` is
/// the product of the format.
const BODIES: [&str; 6] = [
    // As libraries do: two slices, of which each factor serves several products.
    "LOAD {%a0, %a1, %a2, %a3}, [%s]; LOAD {%b0, %b1, %b2, %b3}, [%s+32];
     LOAD {%a4, %a5, %a6, %a7}, [%s+1280]; LOAD {%b4, %b5, %b6, %b7}, [%s+1312];
     MUL {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %b2}, {%c0, %c1, %c2, %c3};
     MUL {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b1, %b3}, {%d0, %d1, %d2, %d3};
     MUL {%c0, %c1, %c2, %c3}, {%a4, %a5, %a6, %a7}, {%b4, %b6}, {%c0, %c1, %c2, %c3};
     MUL {%d0, %d1, %d2, %d3}, {%a4, %a5, %a6, %a7}, {%b5, %b7}, {%d0, %d1, %d2, %d3};",
    // B by rows.
    "LOAD {%a0, %a1, %a2, %a3}, [%s]; TURN {%b0, %b1, %b2, %b3}, [%s+640];
     MUL {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};
     MUL {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b2, %b3}, {%d0, %d1, %d2, %d3};",
    // A register in several factors, at several places, and twice in one.
    "LOAD {%a0, %a1, %a2, %a3}, [%s]; LOAD {%b0, %b1, %b2, %b3}, [%s+640];
     MUL {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};
     MUL {%d0, %d1, %d2, %d3}, {%a3, %a0, %a1, %a2}, {%b1, %b0}, {%d0, %d1, %d2, %d3};
     MUL {%c0, %c1, %c2, %c3}, {%a0, %a0, %a1, %a2}, {%b2, %b2}, {%c0, %c1, %c2, %c3};",
    // One that is A and B, and one that another instruction reads.
    "LOAD {%a0, %a1, %a2, %a3}, [%s]; LOAD {%b0, %b1, %b2, %b3}, [%s+640];
     MUL {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};
     MUL {%d0, %d1, %d2, %d3}, {%b2, %a1, %a2, %a3}, {%b2, %b3}, {%d0, %d1, %d2, %d3};
     xor.b32 %d0, %d0, %b0;",
    // Constants beside them, and B before A.
    "LOAD {%b0, %b1, %b2, %b3}, [%s+640]; LOAD {%a0, %a1, %a2, %a3}, [%s];
     mov.b32 %z, 0;
     MUL {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %z}, {%c0, %c1, %c2, %c3};
     MUL {%d0, %d1, %d2, %d3}, {%a0, %z, %a2, %z}, {%b2, %b3}, {%d0, %d1, %d2, %d3};",
    // Loaded again over what has been multiplied.
    "LOAD {%a0, %a1, %a2, %a3}, [%s]; LOAD {%b0, %b1, %b2, %b3}, [%s+640];
     MUL {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};
     LOAD {%b0, %b1, %b2, %b3}, [%s+720];
     MUL {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};
     LOAD {%a0, %a1, %a2, %a3}, [%s+48];
     MUL {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b2, %b3}, {%d0, %d1, %d2, %d3};",
];

fn kernel(form: &str, body: &str) -> String {
    let load = |turned| format!("ldmatrix.sync.aligned.m8n8.x4{turned}.shared.b16");
    let body = body
        .replace("LOAD", &load(""))
        .replace("TURN", &load(".trans"))
        .replace("MUL", &format!("mma.sync.aligned.{form}"));
    let stores: String = ["c", "d"]
        .into_iter()
        .flat_map(|name| (0..SUMS / 2).map(move |n| (name, n)))
        .zip((0..).step_by(128))
        .map(|((name, n), at)| format!("st.global.b32 [%out+{at}], %{name}{n};\n"))
        .collect();
    format!(
        ".version 7.8\n.target sm_90\n.address_size 64
         .visible .entry k(.param .u64 in, .param .u64 out)
         {{
             .shared .align 16 .b8 tile[{TILE}];
             .reg .b64 %in, %out, %p; .reg .b32 %t, %s, %i, %x, %v, %z, %a<8>, %b<8>, %c<4>, %d<4>;
             .reg .pred %again;
             ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
             mov.u32 %t, %tid.x; shl.b32 %i, %t, 2; mov.u32 %s, tile;
             mad.wide.u32 %out, %t, 4, %out;
         FILL:
             cvt.u64.u32 %p, %i; add.u64 %p, %p, %in; ld.global.b32 %v, [%p];
             add.u32 %x, %s, %i; st.shared.b32 [%x], %v;
             add.u32 %i, %i, 128; setp.lt.u32 %again, %i, {TILE}; @%again bra FILL;
             and.b32 %i, %t, 15; mad.lo.u32 %s, %i, 80, %s; and.b32 %i, %t, 16; add.u32 %s, %s, %i;
             mov.b32 %c0, 0; mov.b32 %c1, %c0; mov.b32 %c2, %c0; mov.b32 %c3, %c0;
             mov.b32 %d0, %c0; mov.b32 %d1, %c0; mov.b32 %d2, %c0; mov.b32 %d3, %c0;
             bar.sync 0;
             {body}
             {stores}
             ret;
         }}"
    )
}

/// Shared memory's contents: numbers of bf16 about 1 with both signs, and some of them that
/// is given.
fn contents(every: usize, rare: u16) -> Vec<u8> {
    let number = |n: usize| {
        let random = (n as u32).wrapping_mul(2_654_435_769) >> 8;
        let usual = (random as u16 & 0x81ff) + 0x3f00;
        if every > 0 && n % every == every / 2 { rare } else { usual }
    };
    (0..TILE / 2).flat_map(|n| number(n).to_le_bytes()).collect()
}

fn run(set: Set, text: &str, contents: &[u8]) -> Vec<u8> {
    let mut device = Device::new(set);
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("a kernel");
    let bytes = 128 * SUMS;
    let [from, out] = [TILE, bytes].map(|n| device.memory.allocate(n as u64, true));
    device.memory.write(from, contents);
    let mut params = Params::default();
    [from, out].iter().for_each(|a| params.push(&a.to_le_bytes()));
    device.run(&kernel, Shape::linear(1, 32), &params.0).expect("it runs");
    device.memory.read(out, bytes)
}

#[test]
fn factors_from_shared_memory() {
    let forms = [
        "m16n8k16.row.col.f32.bf16.bf16.f32",
        "m16n8k16.row.col.f32.f16.f16.f32",
        "m16n8k8.row.col.f32.tf32.tf32.f32",
        "m16n8k32.row.col.s32.u8.s8.s32",
        "m16n8k32.row.col.s32.s8.s8.s32",
        "m16n8k64.row.col.s32.u4.s4.s32",
        "m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
    ];
    // Nothing rare; zeros; numbers too small for pairs, a subnormal one, an infinity, a NaN.
    let rare = [(0, 0), (3, 0x8000), (511, 0x2000), (97, 0x0011), (1023, 0x7f80), (700, 0x7fc1)];
    for (form, body) in forms.into_iter().flat_map(|form| BODIES.map(|body| (form, body))) {
        let text = kernel(form, body);
        for (every, number) in rare {
            let contents = contents(every, number);
            let interpreted = run(Set::Interpreted, &text, &contents);
            assert!(interpreted.iter().any(|byte| *byte != 0), "nothing was multiplied");
            for isa in SimdIsa::ALL {
                let native = run(Set::Native(isa), &text, &contents);
                assert!(native == interpreted, "{isa:?}, {number:#x} each {every}\n{text}");
            }
        }
    }
}
