//! Vectors of lanes that reads of textures are made of, of every width.
//!
//! A value of a type here says that the processor has the features that it names, so its functions are
//! safe. They are inlined into functions that are compiled for these features: elsewhere they would be
//! calls. Masks say which lanes are meant; their bits are those of a warp's mask, the first lane lowest.

use crate::register_file::Lane;

/// Defines methods that are made of intrinsics.
#[cfg(target_arch = "x86_64")]
macro_rules! direct {
    ($($name:ident$(<$n:ident>)?($($arg:ident: $ty:ty),*) -> $result:ty = $made:expr;)*) => {$(
        #[inline(always)]
        #[allow(unused_unsafe, reason = "not all are made of intrinsics")]
        fn $name$(<const $n: u32>)?(self, $($arg: $ty),*) -> $result {
            // SAFETY: the processor has the features, as this value says.
            unsafe { $made }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;

/// Most lanes of a vector.
pub(super) const LANES_MAX: usize = 16;

/// Vectors of [`Self::LANES`] lanes of 32 bits.
pub(super) trait Wide: Copy {
    const LANES: usize;
    /// Integers, or any bits.
    type I: Lane;
    type F: Copy;
    /// Four integers.
    type Four: Lane;
    type M: Copy;

    fn int(self, x: i32) -> Self::I;
    /// The first lane and the last one.
    fn ends(self, x: Self::I) -> (i32, i32);
    fn add(self, a: Self::I, b: Self::I) -> Self::I;
    fn sub(self, a: Self::I, b: Self::I) -> Self::I;
    fn mul(self, a: Self::I, b: Self::I) -> Self::I;
    fn and(self, a: Self::I, b: Self::I) -> Self::I;
    fn or(self, a: Self::I, b: Self::I) -> Self::I;
    fn xor(self, a: Self::I, b: Self::I) -> Self::I;
    fn shl<const N: u32>(self, a: Self::I) -> Self::I;
    fn shr<const N: u32>(self, a: Self::I) -> Self::I;
    /// With copies of the sign.
    fn sar<const N: u32>(self, a: Self::I) -> Self::I;
    /// By a number of bits a lane.
    fn shr_by(self, a: Self::I, by: Self::I) -> Self::I;
    fn min(self, a: Self::I, b: Self::I) -> Self::I;
    fn max(self, a: Self::I, b: Self::I) -> Self::I;
    fn min_unsigned(self, a: Self::I, b: Self::I) -> Self::I;
    /// Where a is at most b, both unsigned.
    fn within(self, a: Self::I, b: Self::I) -> Self::M;
    /// Where a is more than b, both signed.
    fn more(self, a: Self::I, b: Self::I) -> Self::M;
    fn equal(self, a: Self::I, b: Self::I) -> Self::M;

    fn float(self, x: f32) -> Self::F;
    fn add_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn div_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn max_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn fused(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn floor(self, a: Self::F) -> Self::F;
    /// A number from 0 to 1 as the nearest multiple of 1/256; what is halfway goes up.
    fn weight(self, a: Self::F) -> Self::F;
    /// Where a < b, neither being NaN.
    fn less(self, a: Self::F, b: Self::F) -> Self::M;
    /// Where a >= b, neither being NaN.
    fn at_least(self, a: Self::F, b: Self::F) -> Self::M;
    /// Where a is a number.
    fn is_number(self, a: Self::F) -> Self::M;
    /// Where a is not 0.
    fn is_not_zero(self, a: Self::F) -> Self::M;

    /// The same bits.
    fn as_float(self, a: Self::I) -> Self::F;
    fn as_int(self, a: Self::F) -> Self::I;
    /// The nearest number.
    fn to_float(self, a: Self::I) -> Self::F;
    /// Without what is behind the point.
    fn to_int(self, a: Self::F) -> Self::I;
    /// The float of 16 bits in the lower half of each lane; a signalling NaN may become quiet.
    fn half(self, a: Self::I) -> Self::F;

    fn mask(self, bits: u32) -> Self::M;
    fn bits(self, m: Self::M) -> u32;
    fn both(self, a: Self::M, b: Self::M) -> Self::M;
    fn either(self, a: Self::M, b: Self::M) -> Self::M;
    /// Where a holds and b does not.
    fn except(self, a: Self::M, b: Self::M) -> Self::M;
    /// `a` where the mask holds, else `b`.
    fn pick(self, m: Self::M, a: Self::I, b: Self::I) -> Self::I;
    /// `a` where the mask holds, else 0.
    fn keep(self, m: Self::M, a: Self::I) -> Self::I;

    /// Picks, by numbers below twice [`Self::LANES`], of two vectors.
    fn choose(self, words: [Self::I; 2], numbers: Self::I) -> Self::I;
    /// Picks, by numbers below [`Self::LANES`], of one vector.
    fn choose_of_one(self, words: Self::I, numbers: Self::I) -> Self::I;
    /// The lanes' numbers, zeros behind them.
    fn lanes(self, x: Self::I) -> [i32; LANES_MAX];
    /// A word a lane.
    fn of_words(self, word: impl Fn(usize) -> i32) -> Self::I;
    /// Two words a lane.
    fn of_pairs(self, pair: impl Fn(usize) -> u64) -> [Self::I; 2];
    /// Four words a lane.
    fn of_fours(self, four: impl Fn(usize) -> Self::Four) -> [Self::I; 4];
}
