//! Texels inside a texture: where they are is worked out for the first row, and the others are the same
//! number of bytes behind it.

use super::super::footprint::{Inside, Room, To};
use super::super::plan::Plan;
use super::super::wide::Wide;
use super::{all, channel, in_window, in_words, kind, put, shifted, start, window};

/// As [`super::Texels`], of texels that are all inside. False, and nothing was written, if a weight of
/// nothing may have made NaN of what lies there.
pub(in super::super) type Inner = unsafe fn(&Plan, &Inside, To<'_>, u32) -> bool;

/// What places of texels are in all rows of a footprint.
enum Places<W: Wide> {
    /// A window that starts at this word, numbers of words in it, and by how much to shift them; of
    /// texels of less than 4 bytes as many words as there are lanes, else twice as many.
    Window(i32, [W::I; 2], [W::I; 2]),
    /// Indices of texels; of those of less than 4 bytes where 4 bytes start that have both, and by
    /// how much to shift them.
    Apart(Room<i32>, W::I),
}

/// Where two neighbours of one row a lane are.
///
/// # Safety
/// As [`Inner`].
#[inline(always)]
unsafe fn places<W: Wide, const BYTES: usize>(plan: &Plan, index: W::I) -> Places<W> {
    // SAFETY: by contract.
    unsafe {
        let mut row = Room::<i32>::uninit();
        if BYTES <= 4 {
            let below = (plan.row_bytes[3] / 4) as i32;
            let (near, near_by) = in_words::<W, BYTES>(plan, index);
            let (far, far_by) = match BYTES {
                4 => (W::add(near, W::int(1)), near_by),
                _ => in_words::<W, BYTES>(plan, W::add(index, W::int(1))),
            };
            let vectors = if BYTES < 4 { 1 } else { 2 };
            if let Some(start) = start::<W>(plan.words - below, near, vectors) {
                let start_at = W::int(start);
                let numbers = [W::sub(near, start_at), W::sub(far, start_at)];
                // The window's size is a power of two.
                if in_window::<W>(W::or(numbers[0], numbers[1]), vectors) {
                    return Places::Window(start, numbers, [near_by, far_by]);
                }
            }
            if BYTES < 4 {
                let from = if BYTES == 2 { W::shl::<1>(index) } else { index };
                let from = W::add(from, W::int(plan.skipped));
                // None of the 4 bytes lies behind the last texel, in the last row either.
                let at = W::min(from, W::int(4 * (plan.words - below) - 4));
                W::store(row.as_mut_ptr().cast(), at);
                return Places::Apart(row, W::shl::<3>(W::sub(from, at)));
            }
        }
        W::store(row.as_mut_ptr().cast(), index);
        Places::Apart(row, W::int(0))
    }
}

/// The words of two neighbours of one row a lane, which starts `bytes` behind the first one.
///
/// # Safety
/// As [`Inner`]; the places are the first row's.
#[inline(always)]
unsafe fn fetch_at<W: Wide, const BYTES: usize>(
    plan: &Plan,
    places: &Places<W>,
    bytes: usize,
) -> [[W::I; 4]; 2] {
    let base = plan.base.wrapping_add(bytes);
    // SAFETY: by contract.
    unsafe {
        let zero = W::int(0);
        let (near, far) = match places {
            Places::Window(start, numbers, by) if BYTES < 4 => {
                let words = W::load(base.wrapping_add(4 * *start as usize).cast());
                let near = shifted::<W, BYTES>(W::choose_of_one(words, numbers[0]), by[0]);
                (near, shifted::<W, BYTES>(W::choose_of_one(words, numbers[1]), by[1]))
            }
            Places::Window(start, numbers, by) => {
                let words = window::<W>(base, *start);
                let near = shifted::<W, BYTES>(W::choose(words, numbers[0]), by[0]);
                (near, shifted::<W, BYTES>(W::choose(words, numbers[1]), by[1]))
            }
            Places::Apart(row, by) => {
                let row = row.as_ptr().cast();
                match BYTES {
                    16 => {
                        let near = W::gather_four(base, row);
                        return [near, W::gather_four(base.wrapping_add(16), row)];
                    }
                    8 => {
                        let near = W::gather_two::<8>(base, row);
                        let far = W::gather_two::<8>(base.wrapping_add(8), row);
                        return [[near[0], near[1], zero, zero], [far[0], far[1], zero, zero]];
                    }
                    4 => {
                        let words = W::gather_two::<4>(base, row);
                        (words[0], words[1])
                    }
                    _ => {
                        let near = W::shr_by(W::gather::<1>(base, row), *by);
                        (near, if BYTES == 2 { W::shr::<16>(near) } else { W::shr::<8>(near) })
                    }
                }
            }
        };
        [[near, zero, zero, zero], [far, zero, zero, zero]]
    }
}

/// Texels blended that are all inside.
///
/// # Safety
/// As [`Inner`].
#[inline(always)]
pub(super) unsafe fn blended_inner<
    W: Wide,
    const KIND: u8,
    const CHANNELS: usize,
    const BYTES: usize,
>(
    plan: &Plan,
    footprint: &Inside,
    to: To<'_>,
    m: u32,
) -> bool {
    // SAFETY: by contract.
    unsafe {
        let places = places::<W, BYTES>(plan, W::load(footprint.index.as_ptr().cast()));
        let far = W::as_float(W::load(footprint.x_weight.as_ptr().cast()));
        let shares = [W::sub_f(W::float(1.0), far), far];
        let mut sum = [W::float(0.0); 4];
        let mut r = 0;
        while r < plan.rows {
            let row_weight = W::as_float(W::load(footprint.row_weight[r].as_ptr().cast()));
            let pair = fetch_at::<W, BYTES>(plan, &places, plan.row_bytes[r]);
            let mut x = 0;
            while x < 2 {
                let weight = W::mul_f(shares[x], row_weight);
                let mut i = 0;
                while i < CHANNELS {
                    if to.channel(i).is_some() {
                        let value = channel::<W, KIND, false>(&pair[x], i);
                        sum[i] = W::add_f(sum[i], W::mul_f(weight, W::as_float(value)));
                    }
                    i += 1;
                }
                x += 1;
            }
            r += 1;
        }
        // Whole numbers, scaled, are numbers.
        if KIND & kind::SCALED == 0 {
            let mut numbers = W::is_number(sum[0]);
            let mut i = 1;
            while i < CHANNELS {
                numbers = W::both(numbers, W::is_number(sum[i]));
                i += 1;
            }
            if !all::<W>(numbers) {
                return false;
            }
        }
        let mut i = 0;
        while i < 4 {
            if let Some(to) = to.channel(i) {
                let value = match i < CHANNELS {
                    true => W::as_int(sum[i]),
                    false => W::int(plan.missing[i] as i32),
                };
                put::<W>(to, m, value);
            }
            i += 1;
        }
        true
    }
}
