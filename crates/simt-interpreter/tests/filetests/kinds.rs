//! Products of narrow floats, `mma` with a `.kind`, with scales and without, against sums made here.
//!
//! Elements are laid out and scales found by the manual's formulas. Sums of a block are exact, so
//! that there is nothing to round but where a block is added.

use super::matrix::{
    Matrix, Random, a_place, b_place, bits_of, c_place, f16_value, list, registers, run, value,
};
use super::sparse::Sparse;
use super::tiers::ALL_SETS;

/// Formats of the elements of kinds with gaps.
const NARROW: [&str; 5] = ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"];

/// What scales a form has.
#[derive(Clone, Copy)]
struct Scaling {
    /// Columns of A's scales, rows of B's.
    blocks: usize,
    ty: &'static str,
    /// Byte and thread selectors of A and of B, and whether they are in registers.
    selectors: [[usize; 2]; 2],
    in_registers: bool,
}

/// A scale of a type.
fn scale(ty: &str, code: u64) -> f64 {
    match ty {
        "ue8m0" => 2f64.powi(code as i32 - 127),
        // The highest bit is not looked at.
        _ => value("e4m3", code & 0x7f),
    }
}

/// The nearest f16 of a number in their normal range.
fn to_f16(x: f64) -> f64 {
    let unit = 2f64.powi(x.abs().log2().floor() as i32 - 10);
    if x == 0.0 { x } else { (x / unit).round_ties_even() * unit }
}

fn check(kind: &str, k: usize, types: [&'static str; 3], sparse: bool, scaling: Option<Scaling>) {
    let [sum_type, a_type, b_type] = types;
    let mut random = Random(0x2468_ace0_1357_9bdf + k as u64);
    let (whole, kept, metadata) = match sparse {
        true => {
            let a = Sparse::random(a_type, 16, k, &mut random);
            let metadata = a.metadata(0, 0);
            (a.whole, a.kept, Some(metadata))
        }
        false => {
            let a = Matrix::random(a_type, 16, k, &mut random);
            (a.clone(), a, None)
        }
    };
    let b = Matrix::random(b_type, k, 8, &mut random);
    let c = Matrix::random(sum_type, 16, 8, &mut random);
    // Scales of ue8m0 are near one, those of ue4m3 have digits; all bytes of all lanes differ.
    let mut words = || {
        let byte = |random: &mut Random| 0x7d + random.below(5);
        let small = |random: &mut Random| (random.below(2) << 7) | (0x30 + random.below(0x18));
        let power = scaling.is_some_and(|scaling| scaling.ty == "ue8m0");
        let mut word = || {
            let mut bytes = || if power { byte(&mut random) } else { small(&mut random) };
            (0..4).fold(0, |word, _| word << 8 | bytes())
        };
        std::array::from_fn::<u64, 32, _>(|_| word())
    };
    let (of_a, of_b) = (words(), words());
    let expected = |row: usize, column: usize| {
        let blocks = scaling.map_or(1, |scaling| scaling.blocks);
        let mut sum = value(sum_type, c.at(row, column));
        for block in 0..blocks {
            let each = k / blocks;
            let products = (block * each..(block + 1) * each)
                .map(|k| value(a_type, whole.at(row, k)) * value(b_type, b.at(k, column)));
            let mut products: f64 = products.sum();
            if let Some(Scaling { ty, selectors: [a, b], .. }) = scaling {
                let byte = |word: u64, selector: usize| word >> (8 * (selector + block)) & 0xff;
                products *= scale(ty, byte(of_a[row % 8 * 4 + 2 * a[1] + row / 8], a[0]));
                products *= scale(ty, byte(of_b[4 * column + b[1]], b[0]));
            }
            sum = f64::from((sum + products) as f32);
        }
        if sum_type == "f16" { to_f16(sum) } else { sum }
    };
    let per = 32 / bits_of(a_type);
    let (a_count, b_count) = (4, k / per / 4);
    let sums = if sum_type == "f16" { 2 } else { 4 };
    let mut sources = vec![
        ('a', registers(&kept, a_count, |lane, i| a_place(16, per, lane, i)), false),
        ('b', registers(&b, b_count, |lane, i| b_place(per, lane, i)), false),
        ('c', registers(&c, sums, c_place), false),
    ];
    let mut operands =
        vec![list('d', sums), list('a', a_count), list('b', b_count), list('c', sums)];
    if let Some(metadata) = metadata {
        sources.push(('e', vec![metadata], false));
        operands.extend(["%e0".to_owned(), "0".to_owned()]);
    }
    let (mut form, mut before) = (String::new(), String::new());
    let element = |ty: &'static str| ty.trim_end_matches('p');
    let elements = [element(a_type), element(b_type)];
    if let Some(Scaling { ty, selectors, in_registers, blocks }) = scaling {
        sources.push(('s', vec![of_a, of_b], false));
        for (i, [byte, thread]) in selectors.into_iter().enumerate() {
            operands.push(format!("%s{i}"));
            operands.push(match in_registers {
                true => {
                    before += &format!(
                        ".reg .b16 %x{i}, %y{i};\nmov.b16 %x{i}, {byte};\nmov.b16 %y{i}, {thread};\n"
                    );
                    format!("{{%x{i}, %y{i}}}")
                }
                false => format!("{{{byte}, {thread}}}"),
            });
        }
        form = format!(".block_scale.scale_vec::{blocks}X");
        let [a, b] = elements;
        form += &format!(".f32.{a}.{b}.f32.{ty}");
    } else {
        let [a, b] = elements;
        form += &format!(".{sum_type}.{a}.{b}.{sum_type}");
    }
    let name = if sparse { "mma.sp::ordered_metadata" } else { "mma" };
    let form = format!("{name}.sync.aligned.m16n8k{k}.row.col.kind::{kind}{form}");
    let instruction = format!("{before}{form} {}", operands.join(", "));
    for set in ALL_SETS {
        let d = run(set, &instruction, &sources, (sums, false));
        for (lane, i) in (0..32).flat_map(|lane| (0..4).map(move |i| (lane, i))) {
            let (row, column) = c_place(lane, i);
            let got = match sum_type {
                "f16" => f16_value(d[i / 2][lane] >> (16 * (i % 2)) & 0xffff),
                _ => value("f32", d[i][lane] & 0xffff_ffff),
            };
            let expected = expected(row, column);
            assert!(
                got == expected,
                "{instruction} ({set:?}): d[{row}][{column}] is {got}, not {expected}"
            );
        }
    }
}

#[test]
fn narrow_floats_multiply() {
    for a in NARROW {
        for b in NARROW {
            check("f8f6f4", 32, ["f32", a, b], false, None);
        }
        check("f8f6f4", 32, ["f16", a, "e2m1"], false, None);
        check("f8f6f4", 64, ["f32", a, "e2m3"], true, None);
    }
    check("f8f6f4", 64, ["f16", "e2m1", "e3m2"], true, None);
}

#[test]
fn blocks_have_scales() {
    for (sparse, twice) in [(false, 1), (true, 2)] {
        for (i, a) in NARROW.into_iter().enumerate() {
            let selectors = [[i % 4, i % 2], [3 - i % 4, i % 4]];
            let (ty, in_registers) = ("ue8m0", i % 2 == 0);
            let scaling = Scaling { blocks: 1, ty, selectors, in_registers };
            check("mxf8f6f4", 32 * twice, ["f32", a, NARROW[4 - i]], sparse, Some(scaling));
        }
        let packed = ["f32", "e2m1p", "e2m1p"];
        for kind in ["mxf4", "mxf4nvf4"] {
            for (selectors, in_registers) in [([[0, 1], [2, 3]], false), ([[2, 0], [0, 1]], true)] {
                let scaling = Scaling { blocks: 2, ty: "ue8m0", selectors, in_registers };
                check(kind, 64 * twice, packed, sparse, Some(scaling));
            }
        }
        for (ty, in_registers) in [("ue4m3", false), ("ue8m0", true)] {
            let selectors = [[0, 1], [0, 2]];
            let scaling = Scaling { blocks: 4, ty, selectors, in_registers };
            check("mxf4nvf4", 64 * twice, packed, sparse, Some(scaling));
        }
    }
}

/// A scale may be NaN, for every scaled value, and larger or smaller than f32 has room for.
#[test]
fn scales_may_be_at_the_ends() {
    let ones = [[0x2222_2222; 32]; 4];
    let form = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0";
    let instruction = format!(
        "{form} {}, {}, {}, {}, %s0, {{0, 0}}, %s1, {{0, 0}}",
        list('d', 4),
        list('a', 4),
        list('b', 2),
        list('c', 4)
    );
    // 32 ones a block: 2^5 times both scales, twice.
    for (of_a, of_b, expected) in [
        (0xffff, 0x7f7f, 0x7fff_ffff),
        (0x7fff, 0x7f7f, 0x7fff_ffff),
        (0xfefe, 0xfefe, 0x7f80_0000),
        (0x0000, 0xfefe, 64f32.to_bits()),
        (0x0000, 0x7f7f, 6 << 23),
        (0x0000, 0x0000, 0),
    ] {
        let sources = [
            ('a', ones.to_vec(), false),
            ('b', ones[..2].to_vec(), false),
            ('c', vec![[0; 32]; 4], false),
            ('s', vec![[of_a; 32], [of_b; 32]], false),
        ];
        for set in ALL_SETS {
            for register in run(set, &instruction, &sources, (4, false)) {
                let got = register.map(|word| word as u32);
                assert_eq!(got, [expected; 32], "{of_a:#x} {of_b:#x} {set:?}");
            }
        }
    }
}
