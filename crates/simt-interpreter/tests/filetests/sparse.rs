//! Products whose first factor has half of its elements, `mma.sp`, against sums of whole ones made
//! here. `wgmma` takes its sparse factors from here as well.

use super::matrix::{
    Matrix, Random, a_place, b_place, bits_of, c_place, list, product, registers, run, times, value,
};
use super::tiers::ALL_SETS;

/// A matrix of which each group keeps half the elements.
pub(crate) struct Sparse {
    /// All, zeros included.
    pub(crate) whole: Matrix,
    /// What is kept, side by side.
    pub(crate) kept: Matrix,
    /// By row and group, four bits of metadata.
    places: Vec<Vec<u32>>,
}

impl Sparse {
    pub(crate) fn random(ty: &'static str, rows: usize, k: usize, random: &mut Random) -> Self {
        let kept = Matrix::random(ty, rows, k / 2, random);
        let mut whole = Matrix::zero(ty, rows, k);
        let bits = bits_of(ty);
        // Of four elements two, of two of 32 bits one, of four pairs of 4 bits two.
        let (group, pieces) = match bits {
            32 => (2, 1),
            4 => (8, 2),
            _ => (4, 2),
        };
        let piece = group / 2 / pieces;
        let mut places = vec![vec![0; k / group]; rows];
        for (row, places) in places.iter_mut().enumerate() {
            for (number, metadata) in places.iter_mut().enumerate() {
                let choices: &[(u32, [usize; 2])] = match bits {
                    32 => &[(0b0100, [0, 0]), (0b1110, [1, 0])],
                    _ => &[
                        (0b0100, [0, 1]),
                        (0b1000, [0, 2]),
                        (0b1100, [0, 3]),
                        (0b1001, [1, 2]),
                        (0b1101, [1, 3]),
                        (0b1110, [2, 3]),
                    ],
                };
                let (nibble, chosen) = choices[random.below(choices.len() as u64) as usize];
                *metadata = nibble;
                for (i, place) in chosen.into_iter().enumerate().take(pieces) {
                    for e in 0..piece {
                        let from = number * group / 2 + i * piece + e;
                        let to = number * group + place * piece + e;
                        whole.set(row, to, kept.at(row, from));
                    }
                }
            }
        }
        Self { whole, kept, places }
    }

    /// The metadata of 16 rows from `first` on, as the lanes of a warp have them: of all four lanes
    /// of a row and the eighth behind it, or of the half or the one that a selector names.
    pub(crate) fn metadata(&self, first: usize, selector: usize) -> [u64; 32] {
        let wide = bits_of(self.kept.ty) >= 16;
        let groups = self.places[0].len();
        let mut lanes = [0; 32];
        for (row, group) in (0..16).flat_map(|row| (0..groups).map(move |group| (row, group))) {
            let (lane, bit) = match (wide, groups) {
                // A lane for two rows.
                (true, 4) => (selector, row / 8 * 16 + group * 4),
                // Two lanes, the second one for the latter half of both rows.
                (true, _) => (2 * selector + group / 4, row / 8 * 16 + group % 4 * 4),
                // A lane a row.
                (false, 8) => (2 * selector + row / 8, group * 4),
                (false, _) => (group / 8 * 2 + row / 8, group % 8 * 4),
            };
            lanes[row % 8 * 4 + lane] |= u64::from(self.places[first + row][group]) << bit;
        }
        lanes
    }
}

/// One form of `mma.sp`.
fn check(form: &str, k: usize, types: [&'static str; 4], selectors: usize) {
    let [d_type, a_type, b_type, c_type] = types;
    let mut random = Random(0x0123_4567_89ab_cdef);
    for selector in 0..selectors {
        let a = Sparse::random(a_type, 16, k, &mut random);
        let b = Matrix::random(b_type, k, 8, &mut random);
        let c = Matrix::random(c_type, 16, 8, &mut random);
        let expected = product(&a.whole, &b, &c, times);
        let per = 32 / bits_of(a_type);
        let count = k / per / 4;
        let narrow = d_type == "f16";
        let sums = if narrow { 2 } else { 4 };
        let sources = [
            ('a', registers(&a.kept, count, |lane, i| a_place(16, per, lane, i)), false),
            ('b', registers(&b, count, |lane, i| b_place(per, lane, i)), false),
            ('c', registers(&c, sums, c_place), false),
            ('e', vec![a.metadata(0, selector)], false),
        ];
        let instruction = format!(
            "{form} {}, {}, {}, {}, %e0, {selector}",
            list('d', sums),
            list('a', count),
            list('b', count),
            list('c', sums)
        );
        for set in ALL_SETS {
            let d = run(set, &instruction, &sources, (sums, false));
            for (lane, i) in (0..32).flat_map(|lane| (0..4).map(move |i| (lane, i))) {
                let (row, column) = c_place(lane, i);
                let got = match narrow {
                    true => value("f16", d[i / 2][lane] >> (16 * (i % 2)) & 0xffff),
                    false => value(d_type, d[i][lane] & 0xffff_ffff),
                };
                let expected = expected[row * 8 + column];
                assert!(
                    got == expected,
                    "{form} ({set:?}, selector {selector}): d[{row}][{column}] is {got}, not \
                     {expected}"
                );
            }
        }
    }
}

#[test]
fn half_of_a_factor_multiplies() {
    for name in ["mma.sp", "mma.sp::ordered_metadata"] {
        for (k, types, selectors) in [
            (16, ["f32", "f16", "f16", "f32"], 4),
            (16, ["f16", "f16", "f16", "f16"], 4),
            (32, ["f32", "f16", "f16", "f32"], 2),
            (32, ["f16", "f16", "f16", "f16"], 2),
            (16, ["f32", "bf16", "bf16", "f32"], 4),
            (32, ["f32", "bf16", "bf16", "f32"], 2),
            (8, ["f32", "tf32", "tf32", "f32"], 4),
            (16, ["f32", "tf32", "tf32", "f32"], 2),
            (32, ["s32", "s8", "u8", "s32"], 2),
            (64, ["s32", "u8", "s8", "s32"], 1),
            (64, ["s32", "s4", "u4", "s32"], 2),
            (128, ["s32", "u4", "s4", "s32"], 1),
            (64, ["f32", "e4m3", "e5m2", "f32"], 1),
        ] {
            let [d, a, b, c] = types;
            let form = format!("{name}.sync.aligned.m16n8k{k}.row.col.{d}.{a}.{b}.{c}");
            check(&form, k, types, selectors);
        }
    }
}

/// Only the whole sum is clamped, not what it is after half of the products.
#[test]
fn sums_of_halves_are_clamped_once() {
    let mut random = Random(99);
    let mut a = Sparse::random("u8", 16, 64, &mut random);
    let mut b = Matrix::zero("s8", 64, 8);
    for (row, k) in (0..16).flat_map(|row| (0..64).map(move |k| (row, k))) {
        a.whole.set(row, k, if a.whole.at(row, k) == 0 { 0 } else { 1 });
    }
    for (row, k) in (0..16).flat_map(|row| (0..32).map(move |k| (row, k))) {
        a.kept.set(row, k, 1);
    }
    for (k, column) in (0..64).flat_map(|k| (0..8).map(move |column| (k, column))) {
        b.set(k, column, if k < 32 { 100 } else { 0x9c });
    }
    let mut c = Matrix::zero("s32", 16, 8);
    for (row, column) in (0..16).flat_map(|row| (0..8).map(move |column| (row, column))) {
        c.set(row, column, 0x7fff_ffff - column as u64);
    }
    let sources = [
        ('a', registers(&a.kept, 4, |lane, i| a_place(16, 4, lane, i)), false),
        ('b', registers(&b, 4, |lane, i| b_place(4, lane, i)), false),
        ('c', registers(&c, 4, c_place), false),
        ('e', vec![a.metadata(0, 0)], false),
    ];
    let instruction = format!(
        "mma.sp.sync.aligned.m16n8k64.row.col.satfinite.s32.u8.s8.s32 {}, {}, {}, {}, %e0, 0",
        list('d', 4),
        list('a', 4),
        list('b', 4),
        list('c', 4)
    );
    for set in ALL_SETS {
        let d = run(set, &instruction, &sources, (4, false));
        for (lane, i) in (0..32).flat_map(|lane| (0..4).map(move |i| (lane, i))) {
            let (row, column) = c_place(lane, i);
            assert_eq!(d[i][lane], c.at(row, column), "{set:?} d[{row}][{column}]");
        }
    }
}
