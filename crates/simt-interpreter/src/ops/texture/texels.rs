//! From indices of texels to channels: fetching, unpacking, blending; a vector of lanes at a time.
//!
//! Texels of up to 4 bytes are words of 4 bytes and a shift. Lanes of a vector mostly read texels
//! near each other: then a few words around the first are loaded and picked from. Else each lane
//! loads its own, and both of a row's neighbours at once.
//!
//! Invariant: results are those of `sample` to the bit, whose order of operations is kept.

mod inner;

use super::footprint::{Footprint, Inside, Room, To};
use super::plan::Plan;
use super::sample::NAN;
use super::wide::Wide;
#[cfg(target_arch = "x86_64")]
use super::wide::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::wide::avx512::Avx512;
use crate::ops::map::Target;
pub(super) use inner::Inner;
use inner::blended_inner;
use simt::runtime::texture::{LINEAR_OF_SRGB, Texel};

/// What makes channels of a footprint and writes those of the lanes in the mask: to each of four
/// places, a lane behind the other.
///
/// # Safety
/// The processor has the features it was chosen for; the plan is for the footprint, whose indices
/// name texels that can be read; the places are good for as many lanes as a vector has, or null where
/// nothing reads the channel.
pub(super) type Texels = unsafe fn(&Plan, &Footprint, To<'_>, u32);

/// A texel's element, and what becomes of it, as a constant of types.
mod kind {
    pub(super) const U8: u8 = 0;
    pub(super) const S8: u8 = 1;
    pub(super) const U16: u8 = 2;
    pub(super) const S16: u8 = 3;
    pub(super) const WORD: u8 = 4;
    pub(super) const HALF: u8 = 5;
    /// Always scaled.
    pub(super) const SRGB: u8 = 6;
    /// Added to others than words and halves: scaled to numbers up to 1.
    pub(super) const SCALED: u8 = 8;
}

/// Bytes of a channel.
const fn bytes_of(kind: u8) -> usize {
    match kind & 7 {
        kind::U8 | kind::S8 | kind::SRGB => 1,
        kind::U16 | kind::S16 | kind::HALF => 2,
        _ => 4,
    }
}

/// The float of 16 bits in the lower half of each lane, as `widen16` makes it.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
pub(super) unsafe fn half_exactly<W: Wide>(a: W::I) -> W::F {
    // SAFETY: by contract.
    unsafe {
        let magnitude = W::and(a, W::int(0x7fff));
        let sign = W::shl::<16>(W::and(a, W::int(0x8000)));
        let moved = W::shl::<13>(magnitude);
        let number = W::mul_f(W::as_float(moved), W::float(f32::from_bits(0x7780_0000)));
        let special = W::more(magnitude, W::int(0x7bff));
        let infinite = W::or(moved, W::int(0x7f80_0000));
        W::as_float(W::or(W::pick(special, infinite, W::as_int(number)), sign))
    }
}

/// `x / most`, of whole numbers up to it: the quotient's constant in two parts makes it exact.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
unsafe fn divided<W: Wide>(x: W::F, most: f64) -> W::F {
    let high = (1.0 / most) as f32;
    let low = (1.0 / most - f64::from(high)) as f32;
    // SAFETY: by contract.
    unsafe { W::fused(x, W::float(high), W::mul_f(x, W::float(low))) }
}

/// Channel `i` of texels whose words these are. `EXACT` keeps signalling NaNs.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
unsafe fn channel<W: Wide, const KIND: u8, const EXACT: bool>(words: &[W::I; 4], i: usize) -> W::I {
    // SAFETY: by contract.
    unsafe {
        let bytes = bytes_of(KIND);
        let word = words[i * bytes / 4];
        let whole = match (KIND & 7, i * bytes % 4) {
            (kind::U8 | kind::SRGB, 0) => W::and(word, W::int(0xff)),
            (kind::U8 | kind::SRGB, 1) => W::and(W::shr::<8>(word), W::int(0xff)),
            (kind::U8 | kind::SRGB, 2) => W::and(W::shr::<16>(word), W::int(0xff)),
            (kind::U8 | kind::SRGB, _) => W::shr::<24>(word),
            (kind::S8, 0) => W::sar::<24>(W::shl::<24>(word)),
            (kind::S8, 1) => W::sar::<24>(W::shl::<16>(word)),
            (kind::S8, 2) => W::sar::<24>(W::shl::<8>(word)),
            (kind::S8, _) => W::sar::<24>(word),
            (kind::U16 | kind::HALF, 0) => W::and(word, W::int(0xffff)),
            (kind::U16 | kind::HALF, _) => W::shr::<16>(word),
            (kind::S16, 0) => W::sar::<16>(W::shl::<16>(word)),
            (kind::S16, _) => W::sar::<16>(word),
            _ => word,
        };
        if KIND == kind::HALF {
            return W::as_int(if EXACT { half_exactly::<W>(whole) } else { W::half(whole) });
        }
        if KIND & kind::SCALED == 0 {
            return whole;
        }
        if KIND & 7 == kind::SRGB && i < 3 {
            let mut row = Room::<i32>::uninit();
            W::store(row.as_mut_ptr().cast(), whole);
            return W::gather::<4>(LINEAR_OF_SRGB.as_ptr().cast(), row.as_ptr().cast());
        }
        let number = W::to_float(whole);
        W::as_int(match KIND & 7 {
            kind::U8 | kind::SRGB => divided::<W>(number, 255.0),
            kind::U16 => divided::<W>(number, 65535.0),
            kind::S8 => W::max_f(divided::<W>(number, 127.0), W::float(-1.0)),
            _ => W::max_f(divided::<W>(number, 32767.0), W::float(-1.0)),
        })
    }
}

/// Where words of 4 bytes are that hold texels of up to 4, and by how much to shift them.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
unsafe fn in_words<W: Wide, const BYTES: usize>(plan: &Plan, index: W::I) -> (W::I, W::I) {
    // SAFETY: by contract.
    unsafe {
        if BYTES == 4 {
            return (index, index);
        }
        let from = if BYTES == 2 { W::shl::<1>(index) } else { index };
        let from = W::add(from, W::int(plan.skipped));
        (W::shr::<2>(from), W::shl::<3>(W::and(from, W::int(3))))
    }
}

/// Words of 4 bytes, shifted.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
unsafe fn shifted<W: Wide, const BYTES: usize>(word: W::I, by: W::I) -> W::I {
    // SAFETY: by contract.
    unsafe { if BYTES == 4 { word } else { W::shr_by(word, by) } }
}

/// As many vectors of words, from a place at which they can be read, around
/// those that lie at both ends of `index`; and the numbers of others behind it. `None` if there are
/// fewer than that.
///
/// # Safety
/// As [`Wide`]'s functions; the indices are of words of the texture.
#[inline(always)]
unsafe fn start<W: Wide>(words: i32, index: W::I, vectors: i32) -> Option<i32> {
    let last = words - vectors * W::LANES as i32;
    // SAFETY: by contract.
    let (a, b) = unsafe { W::ends(index) };
    (last >= 0).then(|| a.min(b).min(last))
}

/// Loads the window that starts at a word.
///
/// # Safety
/// As [`Wide`]'s functions; [`start`] gave the word.
#[inline(always)]
unsafe fn window<W: Wide>(base: *const u8, start: i32) -> [W::I; 2] {
    let from = base.wrapping_add(4 * start as usize).cast::<i32>();
    // SAFETY: by contract there are this many words behind it.
    unsafe { [W::load(from), W::load(from.wrapping_add(W::LANES))] }
}

/// True if all of these are numbers of a window's words.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
unsafe fn in_window<W: Wide>(numbers: W::I, vectors: i32) -> bool {
    // SAFETY: by contract.
    unsafe { all::<W>(W::within(numbers, W::int(vectors * W::LANES as i32 - 1))) }
}

/// True if the mask holds in all lanes.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
pub(super) unsafe fn all<W: Wide>(m: W::M) -> bool {
    // SAFETY: by contract.
    unsafe { W::bits(m) == (1 << W::LANES) - 1 }
}

/// The words of one texel a lane.
///
/// # Safety
/// As [`Texels`].
#[inline(always)]
unsafe fn fetch<W: Wide, const BYTES: usize>(plan: &Plan, index: W::I) -> [W::I; 4] {
    let mut row = Room::<i32>::uninit();
    // SAFETY: by contract.
    unsafe {
        let zero = W::int(0);
        if BYTES > 4 {
            W::store(row.as_mut_ptr().cast(), index);
            if BYTES == 16 {
                return W::gather_four(plan.base, row.as_ptr().cast());
            }
            let [a, b] = W::gather_two::<8>(plan.base, row.as_ptr().cast());
            return [a, b, zero, zero];
        }
        let (words, by) = in_words::<W, BYTES>(plan, index);
        if let Some(start) = start::<W>(plan.words, words, 2) {
            let numbers = W::sub(words, W::int(start));
            if in_window::<W>(numbers, 2) {
                let word = W::choose(window::<W>(plan.base, start), numbers);
                return [shifted::<W, BYTES>(word, by), zero, zero, zero];
            }
        }
        W::store(row.as_mut_ptr().cast(), words);
        let word = W::gather::<4>(plan.base, row.as_ptr().cast());
        [shifted::<W, BYTES>(word, by), zero, zero, zero]
    }
}

/// The words of two texels of one row a lane; `adjacent` says that the second is the first's
/// neighbour in all lanes.
///
/// # Safety
/// As [`Texels`].
#[inline(always)]
unsafe fn fetch_pair<W: Wide, const BYTES: usize>(
    plan: &Plan,
    index: [W::I; 2],
    adjacent: bool,
) -> [[W::I; 4]; 2] {
    // SAFETY: by contract.
    unsafe {
        if BYTES > 4 {
            return [fetch::<W, BYTES>(plan, index[0]), fetch::<W, BYTES>(plan, index[1])];
        }
        let zero = W::int(0);
        let (near, near_by) = in_words::<W, BYTES>(plan, index[0]);
        let (far, far_by) = in_words::<W, BYTES>(plan, index[1]);
        if let Some(start) = start::<W>(plan.words, near, 2) {
            let numbers = [W::sub(near, W::int(start)), W::sub(far, W::int(start))];
            // The window's size is a power of two.
            if in_window::<W>(W::or(numbers[0], numbers[1]), 2) {
                let words = window::<W>(plan.base, start);
                let near = shifted::<W, BYTES>(W::choose(words, numbers[0]), near_by);
                let far = shifted::<W, BYTES>(W::choose(words, numbers[1]), far_by);
                return [[near, zero, zero, zero], [far, zero, zero, zero]];
            }
        }
        if !adjacent {
            return [fetch::<W, BYTES>(plan, index[0]), fetch::<W, BYTES>(plan, index[1])];
        }
        let mut row = Room::<i32>::uninit();
        if BYTES == 4 {
            W::store(row.as_mut_ptr().cast(), index[0]);
            let [near, far] = W::gather_two::<4>(plan.base, row.as_ptr().cast());
            return [[near, zero, zero, zero], [far, zero, zero, zero]];
        }
        // Both are in 4 bytes, of which none lies behind the last texel.
        let from = if BYTES == 2 { W::shl::<1>(index[0]) } else { index[0] };
        let from = W::add(from, W::int(plan.skipped));
        let at = W::min(from, W::int(4 * plan.words - 4));
        W::store(row.as_mut_ptr().cast(), at);
        let word = W::gather::<1>(plan.base, row.as_ptr().cast());
        let near = W::shr_by(word, W::shl::<3>(W::sub(from, at)));
        let far = if BYTES == 2 { W::shr::<16>(near) } else { W::shr::<8>(near) };
        [[near, zero, zero, zero], [far, zero, zero, zero]]
    }
}

/// Stores the lanes of `m`. What is stored under a mask is not there for the next load at once.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
pub(super) unsafe fn put<W: Wide>(to: *mut u32, m: u32, x: W::I) {
    // SAFETY: by contract.
    unsafe {
        match m == (1 << W::LANES) - 1 {
            true => W::store(to.cast(), x),
            false => W::store_some(to, W::mask(m), x),
        }
    }
}

/// One texel a lane, as it is.
///
/// # Safety
/// As [`Texels`].
#[inline(always)]
unsafe fn nearest<W: Wide, const KIND: u8, const CHANNELS: usize, const BYTES: usize>(
    plan: &Plan,
    footprint: &Footprint,
    to: To<'_>,
    m: u32,
) {
    // SAFETY: by contract.
    unsafe {
        let index = W::load(footprint.x[0].as_ptr().cast());
        let words = fetch::<W, BYTES>(plan, index);
        let mut inside = W::mask(u32::MAX);
        if plan.bordered {
            inside = W::mask(footprint.inside_x[0].assume_init());
        }
        let mut i = 0;
        while i < 4 {
            let Some(to) = to.channel(i) else {
                i += 1;
                continue;
            };
            let mut value = match i < CHANNELS {
                true => channel::<W, KIND, true>(&words, i),
                false => W::int(plan.missing[i] as i32),
            };
            if plan.bordered {
                value = W::pick(inside, value, W::int(plan.border[i] as i32));
            }
            put::<W>(to, m, value);
            i += 1;
        }
    }
}

/// Texels blended. Of those outside, with `BORDER`, the border's colour.
///
/// # Safety
/// As [`Texels`].
#[inline(always)]
unsafe fn blended<
    W: Wide,
    const KIND: u8,
    const CHANNELS: usize,
    const BYTES: usize,
    const BORDER: bool,
>(
    plan: &Plan,
    footprint: &Footprint,
    to: To<'_>,
    m: u32,
) {
    // What the border adds to a channel that texels lack is added up too.
    let summed = if BORDER { 4 } else { CHANNELS };
    // Whole numbers, scaled, are numbers.
    let numbers = KIND & kind::SCALED != 0 && !BORDER;
    // SAFETY: by contract.
    unsafe {
        let near = W::load(footprint.x[0].as_ptr().cast());
        let far = W::load(footprint.x[1].as_ptr().cast());
        let mut sum = [W::float(0.0); 4];
        let mut r = 0;
        while r < plan.rows {
            let row_weight = W::as_float(W::load(footprint.row_weight[r].as_ptr().cast()));
            if W::bits(W::is_not_zero(row_weight)) != 0 {
                let row = W::load(footprint.row[r].as_ptr().cast());
                let index = [W::add(near, row), W::add(far, row)];
                let pair = fetch_pair::<W, BYTES>(plan, index, footprint.adjacent.assume_init());
                let mut x = 0;
                while x < 2 {
                    let weight = W::as_float(W::load(footprint.x_weight[x].as_ptr().cast()));
                    let weight = W::mul_f(weight, row_weight);
                    let used = W::is_not_zero(weight);
                    let mut inside = W::mask(u32::MAX);
                    if BORDER {
                        let x = footprint.inside_x[x].assume_init();
                        inside = W::mask(x & footprint.inside_row[r].assume_init());
                    }
                    let mut i = 0;
                    while i < summed {
                        if to.channel(i).is_none() {
                            i += 1;
                            continue;
                        }
                        let mut value = match i < CHANNELS {
                            true => channel::<W, KIND, false>(&pair[x], i),
                            false => W::int(plan.missing[i] as i32),
                        };
                        if BORDER {
                            let border = W::int(plan.border[i] as i32);
                            value = W::pick(inside, value, border);
                        }
                        let mut part = W::mul_f(weight, W::as_float(value));
                        if !numbers {
                            // A weight of nothing must not make NaN of what lies there.
                            part = W::as_float(W::keep(used, W::as_int(part)));
                        }
                        sum[i] = W::add_f(sum[i], part);
                        i += 1;
                    }
                    x += 1;
                }
            }
            r += 1;
        }
        let mut i = 0;
        while i < 4 {
            let Some(to) = to.channel(i) else {
                i += 1;
                continue;
            };
            let value = match i < summed {
                true if numbers => W::as_int(sum[i]),
                true => W::pick(W::is_number(sum[i]), W::as_int(sum[i]), W::int(NAN as i32)),
                false => W::int(plan.missing[i] as i32),
            };
            put::<W>(to, m, value);
            i += 1;
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! compiled {
    ($wide:ty, $features:literal, $module:ident) => {
        /// Compiled for a processor.
        mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            unsafe fn one<const KIND: u8, const CHANNELS: usize, const BYTES: usize>(
                plan: &Plan,
                footprint: &Footprint,
                to: To<'_>,
                m: u32,
            ) {
                // SAFETY: by contract.
                unsafe { nearest::<$wide, KIND, CHANNELS, BYTES>(plan, footprint, to, m) }
            }

            #[target_feature(enable = $features)]
            unsafe fn several<const KIND: u8, const CHANNELS: usize, const BYTES: usize>(
                plan: &Plan,
                footprint: &Footprint,
                to: To<'_>,
                m: u32,
            ) {
                // SAFETY: by contract.
                unsafe {
                    if footprint.inside.assume_init() {
                        blended::<$wide, KIND, CHANNELS, BYTES, false>(plan, footprint, to, m);
                    } else {
                        blended::<$wide, KIND, CHANNELS, BYTES, true>(plan, footprint, to, m);
                    }
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn inner<const KIND: u8, const CHANNELS: usize, const BYTES: usize>(
                plan: &Plan,
                footprint: &Inside,
                to: To<'_>,
                m: u32,
            ) -> bool {
                // SAFETY: by contract.
                unsafe { blended_inner::<$wide, KIND, CHANNELS, BYTES>(plan, footprint, to, m) }
            }

            macro_rules! by_channels {
                ($function:ident, $kind:expr, $channels:expr) => {{
                    const BYTES: usize = bytes_of($kind);
                    match $channels {
                        1 => $function::<{ $kind }, 1, BYTES>,
                        2 => $function::<{ $kind }, 2, { 2 * BYTES }>,
                        _ => $function::<{ $kind }, 4, { 4 * BYTES }>,
                    }
                }};
            }

            const SU8: u8 = kind::U8 | kind::SCALED;
            const SS8: u8 = kind::S8 | kind::SCALED;
            const SU16: u8 = kind::U16 | kind::SCALED;
            const SS16: u8 = kind::S16 | kind::SCALED;
            const SRGB: u8 = kind::SRGB | kind::SCALED;

            pub(super) fn pick_inner(kind: u8, channels: u8) -> Option<Inner> {
                Some(match kind {
                    SRGB => by_channels!(inner, SRGB, channels),
                    SU8 => by_channels!(inner, SU8, channels),
                    SS8 => by_channels!(inner, SS8, channels),
                    SU16 => by_channels!(inner, SU16, channels),
                    SS16 => by_channels!(inner, SS16, channels),
                    kind::WORD => by_channels!(inner, kind::WORD, channels),
                    kind::HALF => by_channels!(inner, kind::HALF, channels),
                    _ => return None,
                })
            }

            pub(super) fn pick(kind: u8, channels: u8, blends: bool) -> Option<Texels> {
                Some(match (blends, kind) {
                    (false, kind::U8) => by_channels!(one, kind::U8, channels),
                    (false, kind::S8) => by_channels!(one, kind::S8, channels),
                    (false, kind::U16) => by_channels!(one, kind::U16, channels),
                    (false, kind::S16) => by_channels!(one, kind::S16, channels),
                    (false, kind::WORD) => by_channels!(one, kind::WORD, channels),
                    (false, kind::HALF) => by_channels!(one, kind::HALF, channels),
                    (false, SU8) => by_channels!(one, SU8, channels),
                    (false, SS8) => by_channels!(one, SS8, channels),
                    (false, SU16) => by_channels!(one, SU16, channels),
                    (false, SS16) => by_channels!(one, SS16, channels),
                    (false, SRGB) => by_channels!(one, SRGB, channels),
                    (true, SRGB) => by_channels!(several, SRGB, channels),
                    (true, SU8) => by_channels!(several, SU8, channels),
                    (true, SS8) => by_channels!(several, SS8, channels),
                    (true, SU16) => by_channels!(several, SU16, channels),
                    (true, SS16) => by_channels!(several, SS16, channels),
                    (true, kind::WORD) => by_channels!(several, kind::WORD, channels),
                    (true, kind::HALF) => by_channels!(several, kind::HALF, channels),
                    _ => return None,
                })
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(Avx2, "avx2,fma,bmi1,bmi2,popcnt,lzcnt", for_avx2);
#[cfg(target_arch = "x86_64")]
compiled!(Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,popcnt,lzcnt", for_avx512);

/// What becomes of a texel's element.
fn kind_of(texel: Texel, scaled: bool) -> u8 {
    let kind = match texel {
        Texel::Srgb8 if scaled => kind::SRGB,
        Texel::U8 | Texel::Srgb8 => kind::U8,
        Texel::S8 => kind::S8,
        Texel::U16 => kind::U16,
        Texel::S16 => kind::S16,
        Texel::U32 | Texel::S32 | Texel::F32 => kind::WORD,
        Texel::F16 => kind::HALF,
    };
    match scaled && !matches!(kind, kind::WORD | kind::HALF) {
        true => kind | kind::SCALED,
        false => kind,
    }
}

/// What reads texels of a format, `None` without vectors: as they are, or scaled to numbers up
/// to 1; one of them, or several blended.
pub(super) fn pick(
    target: Target,
    texel: Texel,
    channels: u8,
    scaled: bool,
    blends: bool,
) -> Option<Texels> {
    let kind = kind_of(texel, scaled);
    match target {
        #[cfg(target_arch = "x86_64")]
        Target::Avx512 => for_avx512::pick(kind, channels, blends),
        #[cfg(target_arch = "x86_64")]
        Target::Avx2 => for_avx2::pick(kind, channels, blends),
        _ => None,
    }
}

/// As [`pick`], of several that are blended and all inside; `None` also for what is not blended.
pub(super) fn pick_inner(
    target: Target,
    texel: Texel,
    channels: u8,
    scaled: bool,
) -> Option<Inner> {
    let kind = kind_of(texel, scaled);
    match target {
        #[cfg(target_arch = "x86_64")]
        Target::Avx512 => for_avx512::pick_inner(kind, channels),
        #[cfg(target_arch = "x86_64")]
        Target::Avx2 => for_avx2::pick_inner(kind, channels),
        _ => None,
    }
}
