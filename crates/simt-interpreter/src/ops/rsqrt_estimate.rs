//! `rsqrt.approx.f32` in one step of Newton's method from the estimate that processors with AVX-512 have
//! (`vrsqrt14ps`), and that estimate for processors without it.
//!
//! Native code for AVX-512 takes the estimate from the instruction; what runs a kernel that was made
//! for such code elsewhere gets the same bits from here. An AMD (Zen 4) and an Intel processor (Emerald
//! Rapids) give the same estimates, which 64 lines describe; a processor that gives others is found
//! out by [`is_here`] and keeps the root and the quotient, each rounded, that others have.

use crate::processor::rsqrt_estimates;
use std::sync::OnceLock;

/// The estimates of the arguments from 1/2 to 2, where all others repeat by powers of 4: 32 lines an
/// octave, each for the 2^18 arguments that agree in their exponent and the upper five bits of their
/// fraction. Where the line starts, the fraction in 2^-18, and its fall in 2^-25 for each 2^8 arguments.
#[rustfmt::skip]
const LINES: [(u32, u32); 64] = [
    (108565, 707), (102905, 675), (97500, 647), (92324, 619), (87372, 595), (82615, 571),
    (78049, 549), (73657, 527), (69437, 509), (65371, 491), (61445, 473), (57661, 457),
    (54005, 441), (50474, 427), (47057, 413), (43755, 401), (40551, 389), (37443, 377),
    (34431, 365), (31513, 355), (28675, 345), (25918, 335), (23236, 325), (20632, 317),
    (18098, 309), (15629, 301), (13223, 293), (10878, 285), (8597, 279), (6365, 271),
    (4192, 265), (2070, 259), (262121, 1001), (254113, 955), (246469, 915), (239154, 877),
    (232142, 841), (225415, 807), (218957, 775), (212753, 747), (206778, 719), (201025, 693),
    (195479, 669), (190132, 647), (184962, 625), (179962, 603), (175135, 585), (170459, 567),
    (165927, 549), (161539, 533), (157279, 517), (153144, 501), (149133, 487), (145235, 473),
    (141448, 461), (137763, 449), (134175, 437), (130683, 425), (127286, 415), (123966, 403),
    (120735, 393), (117590, 385), (114511, 375), (111514, 367),
];

/// The fraction of an f32, below its exponent.
const FRACTION_BITS: u32 = 23;

/// The estimate of 1 / sqrt(x) of a normal x > 0, of which 16 bits of the fraction count. It is the
/// instruction's but for powers of 4, whose roots that knows exactly; after the step there is no
/// difference.
#[inline(always)]
fn estimate(x: f32) -> f32 {
    let bits = x.to_bits();
    let (start, fall) = LINES[(bits >> 18 & 63) as usize];
    let fraction = (start << 7) - fall * (bits >> 8 & 1023);
    // The exponent is halved and changes its sign, down: no fraction is left over but of powers of 4.
    let exponent = (380 - (bits >> FRACTION_BITS)) >> 1;
    f32::from_bits(exponent << FRACTION_BITS | fraction >> 9 << 7)
}

/// y + y (1 - x y y) / 2, the product x y rounded. The half is taken off the product's exponent: an
/// integer instruction leaves the units that multiply to others.
#[inline(always)]
fn step(x: f32, y: f32) -> f32 {
    let half = f32::from_bits((x * y).to_bits().wrapping_sub(1 << FRACTION_BITS));
    let error = (-half).mul_add(y, 0.5);
    y.mul_add(error, y)
}

/// 1 / sqrt(x), at most 2^-23.67 off, relatively (the manual allows 2^-22.9): found by trying all
/// arguments of two octaves.
#[inline(always)]
pub(crate) fn rsqrt(x: f32) -> f32 {
    const UP: f32 = (1u64 << 24) as f32;
    const BACK: f32 = (1 << 12) as f32;
    let (scaled, back) = if x < f32::MIN_POSITIVE { (x * UP, BACK) } else { (x, 1.0) };
    let ordinary = x > 0.0 && x < f32::INFINITY;
    // Any argument that has an estimate will do where it does not count.
    let scaled = if ordinary { scaled } else { 1.0 };
    let made = step(scaled, estimate(scaled)) * back;
    // Infinities for zeros, zero for infinity, NaN for the others.
    if ordinary { made } else { 1.0 / x.sqrt() }
}

/// True if this processor has the instruction, and it gives these estimates.
pub fn is_here() -> bool {
    static HERE: OnceLock<bool> = OnceLock::new();
    *HERE.get_or_init(|| {
        // Both ends of each line.
        let ends =
            (0..64u32).flat_map(|line| [0x0000_00ff, 0x0003_ffff].map(|low| line << 18 | low));
        let arguments: Vec<f32> =
            ends.map(|low| f32::from_bits((126 << FRACTION_BITS) + low)).collect();
        let same = |x| rsqrt_estimates(x).is_some_and(|given| given == x.map(estimate));
        arguments.as_chunks().0.iter().all(same)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All arguments of two octaves; further ones differ in the exponent only.
    fn octaves() -> impl Iterator<Item = [f32; 16]> {
        let first = 126u32 << FRACTION_BITS;
        (first..first + (2 << FRACTION_BITS))
            .step_by(16)
            .map(|bits| std::array::from_fn(|i| f32::from_bits(bits + i as u32)))
    }

    #[test]
    fn the_largest_error_is_the_one_that_is_said() {
        let error = |x: f32| (f64::from(rsqrt(x)) * f64::from(x).sqrt() - 1.0).abs();
        let most = octaves().flatten().map(error).fold(0.0, f64::max);
        assert!((-23.68..-23.67).contains(&most.log2()), "2^{}", most.log2());
    }

    #[test]
    fn the_instruction_gives_these_estimates() {
        // Elsewhere kernels are not made for it.
        if !is_here() {
            return;
        }
        for x in octaves() {
            let given = rsqrt_estimates(&x).expect("the instruction is here");
            for (x, given) in x.into_iter().zip(given) {
                let power_of_4 = x == 1.0;
                assert!(
                    power_of_4 || given == estimate(x),
                    "{x:e}: {given:e}, not {:e}",
                    estimate(x)
                );
                assert_eq!(step(x, given), rsqrt(x), "{x:e}");
            }
        }
    }

    #[test]
    fn octaves_repeat_and_the_ends_are_as_the_manual_says() {
        for bits in (0x3f00_0000u32..0x4000_0000).step_by(4099) {
            let (x, right) = (f32::from_bits(bits), rsqrt(f32::from_bits(bits)));
            for (scale, back) in [(-124, 62), (-60, 30), (-2, 1), (6, -3), (126, -63)] {
                assert_eq!(
                    rsqrt(x * f32::exp2(scale as f32)),
                    right * f32::exp2(back as f32),
                    "{x:e}"
                );
            }
        }
        for k in -74..64 {
            assert_eq!(rsqrt(2f64.powi(2 * k) as f32), 2f32.powi(-k), "4^{k}");
        }
        let infinity = f32::INFINITY;
        for (x, right) in [(0.0, infinity), (-0.0, -infinity), (infinity, 0.0)] {
            assert_eq!(rsqrt(x).to_bits(), right.to_bits(), "{x:e}");
        }
        for x in [-infinity, -1.0, -1e-40, f32::NAN] {
            assert!(rsqrt(x).is_nan(), "{x:e}");
        }
    }
}
