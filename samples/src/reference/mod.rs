//! What the kernels compute, once more and plainly, on the CPU.
//!
//! Written for being obviously right, not for speed, and by another method than the kernel where there
//! is one: in double precision where the kernel rounds, by a formula where it loops.

pub mod n_body;
pub mod network;

/// The product of two row-major `size` x `size` matrices whose entries are small integers, so that
/// no sum is rounded.
pub fn matrix_product(a: &[f32], b: &[f32], size: usize) -> Vec<f32> {
    let mut product = vec![0.0; size * size];
    for row in 0..size {
        for column in 0..size {
            let sum: i64 =
                (0..size).map(|k| a[row * size + k] as i64 * b[k * size + column] as i64).sum();
            product[row * size + column] = sum as f32;
        }
    }
    product
}

/// The totals that the reduction kernel computes; the layout is the kernel's `Totals`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Totals {
    /// Sum of all values.
    pub sum: i64,
    /// The same in single precision, exact if it stays below 2^24.
    pub float_sum: f32,
    /// Smallest value.
    pub minimum: i32,
    /// Largest value.
    pub maximum: i32,
    /// How many are below zero.
    pub negatives: u32,
}

impl Totals {
    /// The totals of no values at all.
    pub const NONE: Self =
        Self { sum: 0, float_sum: 0.0, minimum: i32::MAX, maximum: i32::MIN, negatives: 0 };

    /// The totals of `values`.
    pub fn of(values: &[i32]) -> Self {
        let sum: i64 = values.iter().map(|&value| i64::from(value)).sum();
        Self {
            sum,
            float_sum: sum as f32,
            minimum: values.iter().copied().min().unwrap_or(i32::MAX),
            maximum: values.iter().copied().max().unwrap_or(i32::MIN),
            negatives: values.iter().filter(|&&value| value < 0).count() as u32,
        }
    }
}

/// How often each byte occurs in the little-endian bytes of `words`.
pub fn byte_histogram(words: &[u32]) -> Vec<u32> {
    let mut bins = vec![0; 256];
    for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
        bins[usize::from(byte)] += 1;
    }
    bins
}

/// `state` after `steps` of the generator of the spin kernel, in logarithmic time: squares the map
/// x -> a x + c.
pub fn generator_after(state: u32, steps: u64) -> u32 {
    let (mut multiplier, mut increment) = (1_664_525u32, 1_013_904_223u32);
    let (mut total_multiplier, mut total_increment) = (1u32, 0u32);
    let mut rest = steps;
    while rest > 0 {
        if rest & 1 == 1 {
            total_increment = total_increment.wrapping_mul(multiplier).wrapping_add(increment);
            total_multiplier = total_multiplier.wrapping_mul(multiplier);
        }
        increment = increment.wrapping_mul(multiplier).wrapping_add(increment);
        multiplier = multiplier.wrapping_mul(multiplier);
        rest >>= 1;
    }
    state.wrapping_mul(total_multiplier).wrapping_add(total_increment)
}

/// The part of the plane that the Mandelbrot sample looks at.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Real part of the leftmost column.
    pub left: f32,
    /// Imaginary part of the first row.
    pub top: f32,
    /// Distance between pixels.
    pub step: f32,
}

/// Steps until each pixel's orbit leaves the circle of radius 2, at most `limit`. Rust never fuses
/// a multiplication and an addition, so each operation is rounded by itself as in the kernel.
pub fn mandelbrot(view: View, limit: u32) -> Vec<u32> {
    let mut counts = Vec::with_capacity((view.width * view.height) as usize);
    for row in 0..view.height {
        for column in 0..view.width {
            let cx = view.left + column as f32 * view.step;
            let cy = view.top + row as f32 * view.step;
            let (mut x, mut y, mut count) = (0.0f32, 0.0f32, 0);
            while count < limit && x * x + y * y <= 4.0 {
                (x, y) = ((x * x - y * y) + cx, (x * y + x * y) + cy);
                count += 1;
            }
            counts.push(count);
        }
    }
    counts
}

/// Inclusive prefix sums, wrapping.
pub fn prefix_sums(values: &[u32]) -> Vec<u32> {
    let mut sum = 0u32;
    values
        .iter()
        .map(|&value| {
            sum = sum.wrapping_add(value);
            sum
        })
        .collect()
}

/// The pipeline's mix of one word.
pub fn mixed(mut word: u32, rounds: u32) -> u32 {
    for _ in 0..rounds {
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
        word = word.wrapping_add(0x9e37_79b9);
    }
    word
}

/// The value at `x` of the polynomial with these coefficients, lowest first, each operation rounded
/// by itself.
pub fn polynomial(coefficients: &[f32], x: f32) -> f32 {
    coefficients.iter().rev().fold(0.0, |value, coefficient| value * x + coefficient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_with_the_identity_and_by_hand() {
        let a = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(matrix_product(&a, &[1.0, 0.0, 0.0, 1.0], 2), a);
        assert_eq!(matrix_product(&a, &[5.0, 6.0, 7.0, 8.0], 2), [19.0, 22.0, 43.0, 50.0]);
    }

    #[test]
    fn totals_by_hand() {
        let expected = Totals { sum: 4, float_sum: 4.0, minimum: -5, maximum: 7, negatives: 1 };
        assert_eq!(Totals::of(&[2, -5, 7, 0]), expected);
        assert_eq!(Totals::of(&[]), Totals::NONE);
        // The kernel writes this struct.
        assert_eq!(std::mem::size_of::<Totals>(), 24);
        assert_eq!(std::mem::offset_of!(Totals, negatives), 20);
    }

    #[test]
    fn histogram_counts_every_byte() {
        let bins = byte_histogram(&[0x0101_00ff, 0xff00_0000]);
        assert_eq!((bins[0], bins[1], bins[255]), (4, 2, 2));
        assert_eq!(bins.iter().sum::<u32>(), 8);
    }

    #[test]
    fn generator_jump_is_that_many_steps() {
        let mut state = 12_345u32;
        for steps in 0..1000 {
            assert_eq!(generator_after(12_345, steps), state);
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        }
    }

    #[test]
    fn mandelbrot_inside_outside_and_edge() {
        let view = |left, top| View { width: 1, height: 1, left, top, step: 1.0 };
        assert_eq!(mandelbrot(view(0.0, 0.0), 50), [50]);
        assert_eq!(mandelbrot(view(3.0, 0.0), 50), [1]);
        // 1 -> 2 -> 5: leaves after the third step.
        assert_eq!(mandelbrot(view(1.0, 0.0), 50), [3]);
    }

    #[test]
    fn prefix_sums_mix_and_polynomial_by_hand() {
        assert_eq!(prefix_sums(&[1, 2, u32::MAX]), [1, 3, 2]);
        assert_eq!(mixed(5, 0), 5);
        // 1 -> 0x2001 -> 0x2001 -> 0x42021, plus the constant.
        assert_eq!(mixed(1, 1), 0x0004_2021u32.wrapping_add(0x9e37_79b9));
        assert_eq!(mixed(mixed(1, 1), 2), mixed(1, 3));
        assert_eq!(polynomial(&[1.0, 2.0, 3.0], 2.0), 17.0);
    }
}
