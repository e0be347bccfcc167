//! Vectors of lanes that reads of textures are made of, of every width.
//!
//! Every function is inlined into one that is compiled for the processor's features; calling it
//! from elsewhere is undefined, which is why all are unsafe. Masks say which lanes are meant; their
//! bits are those of a warp's mask, the first lane lowest.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;

/// Most lanes of a vector.
pub(super) const LANES_MAX: usize = 16;

/// Numbers of as many lanes as there may be, as vectors are kept in memory.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(super) struct Row<T>(pub(super) [T; LANES_MAX]);

/// Vectors of [`Self::LANES`] lanes of 32 bits.
///
/// # Safety
/// All functions: the processor has the features that the implementation names. Pointers are good
/// for as many lanes as are read or written through them; indices of gathers count from `base`, and
/// what each names can be read.
pub(super) trait Wide: Copy {
    const LANES: usize;
    /// Integers, or any bits.
    type I: Copy;
    type F: Copy;
    type M: Copy;

    unsafe fn int(x: i32) -> Self::I;
    unsafe fn load(from: *const i32) -> Self::I;
    /// The first lane and the last one.
    unsafe fn ends(x: Self::I) -> (i32, i32);
    unsafe fn store(to: *mut i32, x: Self::I);
    /// Stores the lanes of `m` only.
    unsafe fn store_some(to: *mut u32, m: Self::M, x: Self::I);
    unsafe fn add(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn sub(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn mul(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn and(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn or(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn xor(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn shl<const N: u32>(a: Self::I) -> Self::I;
    unsafe fn shr<const N: u32>(a: Self::I) -> Self::I;
    /// With copies of the sign.
    unsafe fn sar<const N: u32>(a: Self::I) -> Self::I;
    /// By a number of bits a lane.
    unsafe fn shr_by(a: Self::I, by: Self::I) -> Self::I;
    unsafe fn min(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn max(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn min_unsigned(a: Self::I, b: Self::I) -> Self::I;
    /// Where a is at most b, both unsigned.
    unsafe fn within(a: Self::I, b: Self::I) -> Self::M;
    /// Where a is more than b, both signed.
    unsafe fn more(a: Self::I, b: Self::I) -> Self::M;
    unsafe fn equal(a: Self::I, b: Self::I) -> Self::M;

    unsafe fn float(x: f32) -> Self::F;
    unsafe fn add_f(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn sub_f(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn mul_f(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn div_f(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn max_f(a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    unsafe fn fused(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    unsafe fn floor(a: Self::F) -> Self::F;
    /// A number from 0 to 1 as the nearest multiple of 1/256; what is halfway goes up.
    unsafe fn weight(a: Self::F) -> Self::F;
    /// Where a < b, neither being NaN.
    unsafe fn less(a: Self::F, b: Self::F) -> Self::M;
    /// Where a >= b, neither being NaN.
    unsafe fn at_least(a: Self::F, b: Self::F) -> Self::M;
    /// Where a is a number.
    unsafe fn is_number(a: Self::F) -> Self::M;
    /// Where a is not 0.
    unsafe fn is_not_zero(a: Self::F) -> Self::M;

    /// The same bits.
    unsafe fn as_float(a: Self::I) -> Self::F;
    unsafe fn as_int(a: Self::F) -> Self::I;
    /// The nearest number.
    unsafe fn to_float(a: Self::I) -> Self::F;
    /// Without what is behind the point.
    unsafe fn to_int(a: Self::F) -> Self::I;
    /// The float of 16 bits in the lower half of each lane; a signalling NaN may become quiet.
    unsafe fn half(a: Self::I) -> Self::F;

    unsafe fn mask(bits: u32) -> Self::M;
    unsafe fn bits(m: Self::M) -> u32;
    unsafe fn both(a: Self::M, b: Self::M) -> Self::M;
    unsafe fn either(a: Self::M, b: Self::M) -> Self::M;
    /// Where a holds and b does not.
    unsafe fn except(a: Self::M, b: Self::M) -> Self::M;
    /// `a` where the mask holds, else `b`.
    unsafe fn pick(m: Self::M, a: Self::I, b: Self::I) -> Self::I;
    /// `a` where the mask holds, else 0.
    unsafe fn keep(m: Self::M, a: Self::I) -> Self::I;

    /// Picks, by numbers below twice [`Self::LANES`], of two vectors.
    unsafe fn choose(words: [Self::I; 2], numbers: Self::I) -> Self::I;
    /// Picks, by numbers below [`Self::LANES`], of one vector.
    unsafe fn choose_of_one(words: Self::I, numbers: Self::I) -> Self::I;
    /// 4 bytes, `SCALE` an index.
    unsafe fn gather<const SCALE: usize>(base: *const u8, index: *const i32) -> Self::I;
    /// Twice 4 bytes, one behind the other.
    unsafe fn gather_two<const SCALE: usize>(base: *const u8, index: *const i32) -> [Self::I; 2];
    /// Four times 4 bytes, 16 an index.
    unsafe fn gather_four(base: *const u8, index: *const i32) -> [Self::I; 4];
}
