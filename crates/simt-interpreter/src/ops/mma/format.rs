//! Element formats of matrices, and multiply-accumulate of two elements.

use crate::ops::fp8::widen;
use crate::ops::half::{widen_b16, widen16};
use crate::ops::map::Lane;
use simt::ir::op::Fp8;

/// How elements lie in a register.
pub(super) trait Format {
    /// The register.
    type Register: Lane;
    /// An element's value.
    type Number: Lane;
    /// Elements a register.
    const PACKED: usize;
    /// Element `e` of a register, from the low end.
    fn element(register: Self::Register, e: usize) -> Self::Number;
}

/// Sums of products.
pub(super) trait Sum {
    /// What is multiplied.
    type Number: Lane + Default;
    /// What C and D have.
    type Accumulator: Lane + Default;
    /// Where a sum starts that C's element belongs to.
    fn start(c: Self::Accumulator) -> Self::Accumulator;
    /// One product more.
    fn add(a: Self::Number, b: Self::Number, sum: Self::Accumulator) -> Self::Accumulator;
    /// D's element.
    fn finish(sum: Self::Accumulator, c: Self::Accumulator, saturate: bool) -> Self::Accumulator;
}

macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident: $register:ty, $number:ty, $packed:literal,
       |$r:ident, $e:ident| $value:expr;)*) => {
        $($(#[$doc])* pub(super) struct $name;
        impl Format for $name {
            type Register = $register;
            type Number = $number;
            const PACKED: usize = $packed;
            #[inline(always)]
            fn element($r: $register, $e: usize) -> $number {
                $value
            }
        })*
    };
}

formats! {
    F16: u32, f32, 2, |r, e| widen16((r >> (16 * e)) as u16);
    BF16: u32, f32, 2, |r, e| widen_b16((r >> (16 * e)) as u16);
    TF32: u32, f32, 1, |r, _e| f32::from_bits(r & TF32_BITS);
    E4M3: u32, f32, 4, |r, e| widen(Fp8::E4M3, (r >> (8 * e)) as u8);
    E5M2: u32, f32, 4, |r, e| widen(Fp8::E5M2, (r >> (8 * e)) as u8);
    S8: u32, i32, 4, |r, e| i32::from((r >> (8 * e)) as i8);
    U8: u32, i32, 4, |r, e| i32::from((r >> (8 * e)) as u8);
    S4: u32, i32, 8, |r, e| ((r >> (4 * e)) << 28) as i32 >> 28;
    U4: u32, i32, 8, |r, e| (r >> (4 * e) & 15) as i32;
    /// 32 bits, multiplied and counted together.
    Word: u32, u32, 1, |r, _e| r;
}

impl Format for F64 {
    type Register = f64;
    type Number = f64;
    const PACKED: usize = 1;
    #[inline(always)]
    fn element(register: f64, _: usize) -> f64 {
        register
    }
}

/// What of an f32 a product of tf32 looks at.
pub(super) const TF32_BITS: u32 = 0xffff_e000;

/// Sums in f32.
pub(super) struct F32;
/// f64, as a format and as a sum.
pub(super) struct F64;
/// Sums of integers in 32 bits.
pub(super) struct Int;
/// Counts of differing bits.
pub(super) struct Xor;
/// Counts of bits set in both.
pub(super) struct And;

impl Sum for F32 {
    type Number = f32;
    type Accumulator = f32;
    #[inline(always)]
    fn start(c: f32) -> f32 {
        c
    }
    #[inline(always)]
    fn add(a: f32, b: f32, sum: f32) -> f32 {
        a.mul_add(b, sum)
    }
    #[inline(always)]
    fn finish(sum: f32, _: f32, _: bool) -> f32 {
        crate::ops::float::output::<false>(sum)
    }
}

impl Sum for F64 {
    type Number = f64;
    type Accumulator = f64;
    #[inline(always)]
    fn start(c: f64) -> f64 {
        c
    }
    #[inline(always)]
    fn add(a: f64, b: f64, sum: f64) -> f64 {
        a.mul_add(b, sum)
    }
    #[inline(always)]
    fn finish(sum: f64, _: f64, _: bool) -> f64 {
        sum
    }
}

impl Sum for Int {
    type Number = i32;
    type Accumulator = i32;
    #[inline(always)]
    fn start(_: i32) -> i32 {
        0
    }
    // At most 128 products of 16 bits: never near the ends.
    #[inline(always)]
    fn add(a: i32, b: i32, sum: i32) -> i32 {
        sum.wrapping_add(a.wrapping_mul(b))
    }
    #[inline(always)]
    fn finish(sum: i32, c: i32, saturate: bool) -> i32 {
        if saturate { sum.saturating_add(c) } else { sum.wrapping_add(c) }
    }
}

macro_rules! counts {
    ($($name:ident, $op:tt;)*) => {
        $(impl Sum for $name {
            type Number = u32;
            type Accumulator = i32;
            #[inline(always)]
            fn start(c: i32) -> i32 {
                c
            }
            #[inline(always)]
            fn add(a: u32, b: u32, sum: i32) -> i32 {
                sum.wrapping_add((a $op b).count_ones() as i32)
            }
            #[inline(always)]
            fn finish(sum: i32, _: i32, _: bool) -> i32 {
                sum
            }
        })*
    };
}
counts! {
    Xor, ^;
    And, &;
}
