//! Texels inside a texture: where they are is worked out for the first row, and the others are the same
//! number of bytes behind it.

use super::super::footprint::{Inside, To};
use super::super::plan::Readable;
use super::super::wide::Wide;
use super::{Texture, all, channel, in_window, in_words, kind, shifted, start};

/// What places of texels are in all rows of a footprint.
enum Places<W: Wide> {
    /// A window that starts at this word, numbers of words in it, and by how much to shift them; of
    /// texels of less than 4 bytes as many words as there are lanes, else twice as many.
    Window(i32, [W::I; 2], [W::I; 2]),
    /// Indices of texels; of those of less than 4 bytes where 4 bytes start that have both, and by
    /// how much to shift them.
    Apart(W::I, W::I),
}

/// Where two neighbours of one row a lane are.
#[inline(always)]
fn places<W: Wide, const BYTES: usize>(w: W, plan: Readable<'_>, index: W::I) -> Places<W> {
    if BYTES <= 4 {
        let below = (plan.row_bytes[3] / 4) as i32;
        let (near, near_by) = in_words::<W, BYTES>(w, plan, index);
        let (far, far_by) = match BYTES {
            4 => (w.add(near, w.int(1)), near_by),
            _ => in_words::<W, BYTES>(w, plan, w.add(index, w.int(1))),
        };
        let vectors = if BYTES < 4 { 1 } else { 2 };
        if let Some(start) = start(w, plan.words - below, near, vectors) {
            let start_at = w.int(start);
            let numbers = [w.sub(near, start_at), w.sub(far, start_at)];
            // The window's size is a power of two.
            if in_window(w, w.or(numbers[0], numbers[1]), vectors) {
                return Places::Window(start, numbers, [near_by, far_by]);
            }
        }
        if BYTES < 4 {
            let from = if BYTES == 2 { w.shl::<1>(index) } else { index };
            let from = w.add(from, w.int(plan.skipped));
            // None of the 4 bytes lies behind the last texel, in the last row either.
            let at = w.min(from, w.int(4 * (plan.words - below) - 4));
            return Places::Apart(at, w.shl::<3>(w.sub(from, at)));
        }
    }
    Places::Apart(index, w.int(0))
}

/// The words of two neighbours of one row a lane, which starts `bytes` behind the first one.
#[inline(always)]
fn fetch_at<W: Wide, const BYTES: usize>(
    w: W,
    plan: Readable<'_>,
    places: &Places<W>,
    bytes: usize,
) -> [[W::I; 4]; 2] {
    let row = Texture { base: plan.base }.behind(bytes);
    let zero = w.int(0);
    let (near, far) = match places {
        Places::Window(start, numbers, by) if BYTES < 4 => {
            let words = row.window::<W>(*start);
            let near = shifted::<W, BYTES>(w, w.choose_of_one(words, numbers[0]), by[0]);
            (near, shifted::<W, BYTES>(w, w.choose_of_one(words, numbers[1]), by[1]))
        }
        Places::Window(start, numbers, by) => {
            let words = row.windows::<W>(*start);
            let near = shifted::<W, BYTES>(w, w.choose(words, numbers[0]), by[0]);
            (near, shifted::<W, BYTES>(w, w.choose(words, numbers[1]), by[1]))
        }
        Places::Apart(index, by) => match BYTES {
            16 => return [row.fours(w, *index), row.behind(16).fours(w, *index)],
            8 => {
                let near = row.pairs::<W, 8>(w, *index);
                let far = row.behind(8).pairs::<W, 8>(w, *index);
                return [[near[0], near[1], zero, zero], [far[0], far[1], zero, zero]];
            }
            4 => {
                let words = row.pairs::<W, 4>(w, *index);
                (words[0], words[1])
            }
            _ => {
                let near = w.shr_by(row.words::<W, 1>(w, *index), *by);
                (near, if BYTES == 2 { w.shr::<16>(near) } else { w.shr::<8>(near) })
            }
        },
    };
    [[near, zero, zero, zero], [far, zero, zero, zero]]
}

/// Texels blended that are all inside.
#[inline(always)]
pub(super) fn blended_inner<W: Wide, const KIND: u8, const CHANNELS: usize, const BYTES: usize>(
    w: W,
    plan: Readable<'_>,
    footprint: &Inside,
    to: To<'_>,
    m: u32,
) -> bool {
    let places = places::<W, BYTES>(w, plan, footprint.index.get(0));
    let far = w.as_float(footprint.x_weight.get(0));
    let shares = [w.sub_f(w.float(1.0), far), far];
    let mut sum = [w.float(0.0); 4];
    let mut r = 0;
    while r < plan.rows {
        let row_weight = w.as_float(footprint.row_weight.get(r));
        let pair = fetch_at::<W, BYTES>(w, plan, &places, plan.row_bytes[r]);
        let mut x = 0;
        while x < 2 {
            let weight = w.mul_f(shares[x], row_weight);
            let mut i = 0;
            while i < CHANNELS {
                if to.wants(i) {
                    let value = channel::<W, KIND, false>(w, &pair[x], i);
                    sum[i] = w.add_f(sum[i], w.mul_f(weight, w.as_float(value)));
                }
                i += 1;
            }
            x += 1;
        }
        r += 1;
    }
    // Whole numbers, scaled, are numbers.
    if KIND & kind::SCALED == 0 {
        let mut numbers = w.is_number(sum[0]);
        let mut i = 1;
        while i < CHANNELS {
            numbers = w.both(numbers, w.is_number(sum[i]));
            i += 1;
        }
        if !all(w, numbers) {
            return false;
        }
    }
    let mut i = 0;
    while i < 4 {
        if to.wants(i) {
            let value = match i < CHANNELS {
                true => w.as_int(sum[i]),
                false => w.int(plan.missing[i] as i32),
            };
            to.put(w, i, m, value);
        }
        i += 1;
    }
    true
}
