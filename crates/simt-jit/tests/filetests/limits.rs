//! Numbers that grow from lane to lane and are widened: up to the last one of 32 bits, where one
//! formula stands for all lanes, and one further, where it does not.

use super::harness::{Device, Params, Shape};
use super::tiers::ALL_SETS;

/// Stores `value + stride * tid`, a number of 32 bits, as one of 64.
fn kernel(stride: i32, signed: bool) -> String {
    let widen = if signed { "cvt.s64.s32" } else { "cvt.u64.u32" };
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64
         .visible .entry k(.param .u64 a, .param .u32 b)
         {{
             .reg .b64 %a, %out, %x, %at; .reg .b32 %t, %b, %n;
             ld.param.u64 %a, [a]; ld.param.u32 %b, [b]; mov.u32 %t, %tid.x;
             mul.wide.u32 %at, %t, 8; add.u64 %out, %a, %at;
             mad.lo.s32 %n, %t, {stride}, %b;
             {widen} %x, %n; st.global.u64 [%out], %x; ret;
         }}"
    )
}

#[test]
fn the_last_number_and_the_next() {
    for (stride, signed) in [1, 4, 1000, -1, -12].into_iter().flat_map(|s| [(s, true), (s, false)])
    {
        let text = kernel(stride, signed);
        // What lane 0 may have for the last lane to have the largest number, or the smallest.
        let reach = 31 * stride;
        let last = match (signed, stride > 0) {
            (true, true) => i32::MAX - reach,
            (true, false) => i32::MIN - reach,
            (false, true) => -1 - reach,
            (false, false) => -reach,
        };
        for (more, threads) in (-1..=1).flat_map(|more| [(more, 32), (more, 20)]) {
            let first = last.wrapping_add(more);
            let lanes = (0..threads).map(|t| first.wrapping_add(stride.wrapping_mul(t)));
            let widened = lanes.map(|n| if signed { i64::from(n) } else { i64::from(n as u32) });
            let expected: Vec<u8> = widened.flat_map(i64::to_le_bytes).collect();
            for set in ALL_SETS {
                let mut device = Device::new(set);
                let module = device.load(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
                let kernel = module.kernel("k").expect("a kernel");
                let out = device.memory.allocate(expected.len() as u64, true);
                let mut params = Params::default();
                params.push(&out.to_le_bytes());
                params.push(&first.to_le_bytes());
                let ran = device.run(&kernel, Shape::linear(1, threads as u32), &params.0);
                ran.unwrap_or_else(|f| panic!("{set:?}: {f:?}\n{text}"));
                let found = device.memory.read(out, expected.len());
                assert!(found == expected, "{set:?}, {threads} threads from {first}:\n{text}");
            }
        }
    }
}
