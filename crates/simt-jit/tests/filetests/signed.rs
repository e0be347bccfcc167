//! Products of negative numbers, several in a block: what is a number's upper half depends on signs.

use super::harness::{Device, Shape};
use super::tiers::{ALL_SETS, Set};

/// Threads: the first warp finds out where memory is, the last one is half.
const THREADS: usize = 144;

fn run(set: Set, numbers: &[[i32; 2]]) -> Vec<i32> {
    let text = ".version 7.8\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 a, .param .u64 b)
        {
            .reg .b64 %m, %n, %p, %q, %w, %v; .reg .b32 %t, %a, %b, %c, %d, %e, %f, %g;
            ld.param.u64 %m, [a]; ld.param.u64 %n, [b];
            mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 8; mul.wide.u32 %v, %t, 16;
            add.u64 %p, %m, %w; add.u64 %q, %n, %v;
            ld.global.v2.u32 {%a, %b}, [%p];
            mul.hi.s32 %c, %a, %b; mad.hi.s32 %d, %a, %b, %t; mul24.hi.s32 %e, %a, %b;
            mul.hi.s32 %f, %b, %c; add.s32 %g, %f, %e;
            st.global.v4.u32 [%q], {%c, %d, %e, %g};
            ret;
        }";
    let mut device = Device::new(set);
    let kernel = device.load(text).unwrap().kernel("k").unwrap();
    let source = device.memory.allocate(8 * THREADS as u64, true);
    let out = device.memory.allocate(16 * THREADS as u64, true);
    let bytes: Vec<u8> = numbers.iter().flatten().flat_map(|n| n.to_le_bytes()).collect();
    device.memory.write(source, &bytes);
    let params = [source, out].map(u64::to_le_bytes).concat();
    device.run(&kernel, Shape::linear(1, THREADS as u32), &params).unwrap();
    let bytes = device.memory.read(out, 16 * THREADS);
    bytes.as_chunks().0.iter().map(|word| i32::from_le_bytes(*word)).collect()
}

#[test]
fn upper_halves_have_their_signs() {
    let any = |n: usize| (n as i32).wrapping_mul(-1_640_531_527);
    let numbers: Vec<[i32; 2]> = (1..=THREADS).map(|n| [any(n), any(7 * n)]).collect();
    let high = |a: i32, b: i32| ((i64::from(a) * i64::from(b)) >> 32) as i32;
    let of_24 = |a: i32, b: i32| {
        let (a, b) = (a << 8 >> 8, b << 8 >> 8);
        ((i64::from(a) * i64::from(b)) >> 16) as i32
    };
    let expected: Vec<i32> = numbers
        .iter()
        .zip(0..)
        .flat_map(|(&[a, b], t)| {
            let (c, e) = (high(a, b), of_24(a, b));
            [c, c.wrapping_add(t), e, high(b, c).wrapping_add(e)]
        })
        .collect();
    for set in ALL_SETS {
        assert_eq!(run(set, &numbers), expected, "{set:?}");
    }
}

/// Products as wide as both factors, with and without a sum.
#[test]
fn wide_products_have_their_signs() {
    let text = ".version 7.8\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 a, .param .u64 b)
        {
            .reg .b64 %m, %n, %p, %q, %w, %v, %x, %y; .reg .b32 %t, %a, %b;
            ld.param.u64 %m, [a]; ld.param.u64 %n, [b];
            mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 8; mul.wide.u32 %v, %t, 16;
            add.u64 %p, %m, %w; add.u64 %q, %n, %v;
            ld.global.v2.u32 {%a, %b}, [%p];
            mul.wide.s32 %x, %a, %b; mad.wide.s32 %y, %b, %a, %x; mul.wide.u32 %w, %a, %b;
            sub.s64 %y, %y, %w;
            st.global.v2.u64 [%q], {%x, %y};
            ret;
        }";
    let any = |n: usize| (n as i32).wrapping_mul(-1_640_531_527);
    let numbers: Vec<[i32; 2]> = (1..=THREADS).map(|n| [any(n), any(7 * n)]).collect();
    let source: Vec<u8> = numbers.iter().flatten().flat_map(|n| n.to_le_bytes()).collect();
    let expected: Vec<u8> = numbers
        .iter()
        .flat_map(|&[a, b]| {
            let product = i64::from(a) * i64::from(b);
            let unsigned = u64::from(a as u32) * u64::from(b as u32);
            [product, product.wrapping_mul(2).wrapping_sub(unsigned as i64)]
        })
        .flat_map(i64::to_le_bytes)
        .collect();
    for set in ALL_SETS {
        let mut device = Device::new(set);
        let kernel = device.load(text).unwrap().kernel("k").unwrap();
        let [from, out] = [8, 16].map(|n| device.memory.allocate(n * THREADS as u64, true));
        device.memory.write(from, &source);
        let params = [from, out].map(u64::to_le_bytes).concat();
        device.run(&kernel, Shape::linear(1, THREADS as u32), &params).unwrap();
        assert!(device.memory.read(out, 16 * THREADS) == expected, "{set:?}");
    }
}
