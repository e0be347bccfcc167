//! From indices of texels to channels: fetching, unpacking, blending; a vector of lanes at a time.
//!
//! Texels of up to 4 bytes are words of 4 bytes and a shift. Lanes of a vector mostly read texels
//! near each other: then a few words around the first are loaded and picked from. Else each lane
//! loads its own, and both of a row's neighbours at once.
//!
//! Invariant: results are those of `sample` to the bit, whose order of operations is kept.

mod inner;

use super::footprint::{Footprint, Inside, To};
use super::plan::Readable;
use super::sample::NAN;
use super::wide::Wide;
#[cfg(target_arch = "x86_64")]
use super::wide::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::wide::avx512::Avx512;
use crate::ops::map::{Lane, Target};
#[cfg(target_arch = "x86_64")]
use crate::processor::{has_avx2, has_avx512};
use inner::blended_inner;
use simt::runtime::texture::{LINEAR_OF_SRGB, Texel};

/// What makes channels of a footprint, whose indices name texels of the plan, and writes those of the lanes
/// in the mask.
pub(super) struct Compiled<F, R>(unsafe fn(Readable<'_>, &F, To<'_>, u32) -> R);

pub(super) type Texels = Compiled<Footprint, ()>;

/// Of texels that are all inside. False, and nothing was written, if a weight of nothing may have made NaN of
/// what lies there.
pub(super) type Inner = Compiled<Inside, bool>;

impl<F, R> Clone for Compiled<F, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F, R> Copy for Compiled<F, R> {}

impl<F, R> Compiled<F, R> {
    #[inline(always)]
    pub(super) fn make(self, plan: Readable<'_>, footprint: &F, to: To<'_>, m: u32) -> R {
        // SAFETY: the processor has what the function was compiled for, or there were no such value.
        unsafe { (self.0)(plan, footprint, to, m) }
    }
}

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
#[inline(always)]
pub(super) fn half_exactly<W: Wide>(w: W, a: W::I) -> W::F {
    let magnitude = w.and(a, w.int(0x7fff));
    let sign = w.shl::<16>(w.and(a, w.int(0x8000)));
    let moved = w.shl::<13>(magnitude);
    let number = w.mul_f(w.as_float(moved), w.float(f32::from_bits(0x7780_0000)));
    let special = w.more(magnitude, w.int(0x7bff));
    let infinite = w.or(moved, w.int(0x7f80_0000));
    w.as_float(w.or(w.pick(special, infinite, w.as_int(number)), sign))
}

/// `x / most`, of whole numbers up to it: the quotient's constant in two parts makes it exact.
#[inline(always)]
fn divided<W: Wide>(w: W, x: W::F, most: f64) -> W::F {
    let high = (1.0 / most) as f32;
    let low = (1.0 / most - f64::from(high)) as f32;
    w.fused(x, w.float(high), w.mul_f(x, w.float(low)))
}

/// Channel `i` of texels whose words these are. `EXACT` keeps signalling NaNs.
#[inline(always)]
fn channel<W: Wide, const KIND: u8, const EXACT: bool>(w: W, words: &[W::I; 4], i: usize) -> W::I {
    let bytes = bytes_of(KIND);
    let word = words[i * bytes / 4];
    let whole = match (KIND & 7, i * bytes % 4) {
        (kind::U8 | kind::SRGB, 0) => w.and(word, w.int(0xff)),
        (kind::U8 | kind::SRGB, 1) => w.and(w.shr::<8>(word), w.int(0xff)),
        (kind::U8 | kind::SRGB, 2) => w.and(w.shr::<16>(word), w.int(0xff)),
        (kind::U8 | kind::SRGB, _) => w.shr::<24>(word),
        (kind::S8, 0) => w.sar::<24>(w.shl::<24>(word)),
        (kind::S8, 1) => w.sar::<24>(w.shl::<16>(word)),
        (kind::S8, 2) => w.sar::<24>(w.shl::<8>(word)),
        (kind::S8, _) => w.sar::<24>(word),
        (kind::U16 | kind::HALF, 0) => w.and(word, w.int(0xffff)),
        (kind::U16 | kind::HALF, _) => w.shr::<16>(word),
        (kind::S16, 0) => w.sar::<16>(w.shl::<16>(word)),
        (kind::S16, _) => w.sar::<16>(word),
        _ => word,
    };
    if KIND == kind::HALF {
        return w.as_int(if EXACT { half_exactly(w, whole) } else { w.half(whole) });
    }
    if KIND & kind::SCALED == 0 {
        return whole;
    }
    if KIND & 7 == kind::SRGB && i < 3 {
        let colours = Texture { base: LINEAR_OF_SRGB.as_ptr().cast() };
        return colours.words::<W, 4>(w, whole);
    }
    let number = w.to_float(whole);
    w.as_int(match KIND & 7 {
        kind::U8 | kind::SRGB => divided(w, number, 255.0),
        kind::U16 => divided(w, number, 65535.0),
        kind::S8 => w.max_f(divided(w, number, 127.0), w.float(-1.0)),
        _ => w.max_f(divided(w, number, 32767.0), w.float(-1.0)),
    })
}

/// Where words of 4 bytes are that hold texels of up to 4, and by how much to shift them.
#[inline(always)]
fn in_words<W: Wide, const BYTES: usize>(w: W, plan: Readable<'_>, index: W::I) -> (W::I, W::I) {
    if BYTES == 4 {
        return (index, index);
    }
    let from = if BYTES == 2 { w.shl::<1>(index) } else { index };
    let from = w.add(from, w.int(plan.skipped));
    (w.shr::<2>(from), w.shl::<3>(w.and(from, w.int(3))))
}

/// Words of 4 bytes, shifted.
#[inline(always)]
fn shifted<W: Wide, const BYTES: usize>(w: W, word: W::I, by: W::I) -> W::I {
    if BYTES == 4 { word } else { w.shr_by(word, by) }
}

/// As many vectors of words, from a place at which they can be read, around
/// those that lie at both ends of `index`; and the numbers of others behind it. `None` if there are
/// fewer than that.
#[inline(always)]
fn start<W: Wide>(w: W, words: i32, index: W::I, vectors: i32) -> Option<i32> {
    let last = words - vectors * W::LANES as i32;
    let (a, b) = w.ends(index);
    (last >= 0).then(|| a.min(b).min(last))
}

/// Where texels are, all of which that the functions are asked for can be read: indices are those of a
/// footprint, which name texels, and windows start where [`start`] says.
#[derive(Clone, Copy)]
struct Texture {
    base: *const u8,
}

impl Texture {
    /// The same, a number of bytes behind.
    #[inline(always)]
    fn behind(self, bytes: usize) -> Self {
        Self { base: self.base.wrapping_add(bytes) }
    }

    /// A vector of words from a word on.
    #[inline(always)]
    fn window<W: Wide>(self, start: i32) -> W::I {
        self.element::<W::I, 4>(start)
    }

    /// The window of two vectors that starts at a word.
    #[inline(always)]
    fn windows<W: Wide>(self, start: i32) -> [W::I; 2] {
        [self.window::<W>(start), self.window::<W>(start.wrapping_add(W::LANES as i32))]
    }

    /// What a lane's index names, `SCALE` bytes an index.
    #[inline(always)]
    fn element<T: Lane, const SCALE: usize>(self, index: i32) -> T {
        let from = self.base.wrapping_offset(index as isize * SCALE as isize);
        // SAFETY: the indices name texels, or a window's first word.
        unsafe { from.cast::<T>().read_unaligned() }
    }

    /// 4 bytes a lane, `SCALE` an index.
    #[inline(always)]
    fn words<W: Wide, const SCALE: usize>(self, w: W, index: W::I) -> W::I {
        let index = w.lanes(index);
        w.of_words(|i| self.element::<i32, SCALE>(index[i]))
    }

    /// Twice 4 bytes a lane.
    #[inline(always)]
    fn pairs<W: Wide, const SCALE: usize>(self, w: W, index: W::I) -> [W::I; 2] {
        let index = w.lanes(index);
        w.of_pairs(|i| self.element::<u64, SCALE>(index[i]))
    }

    /// Four times 4 bytes a lane.
    #[inline(always)]
    fn fours<W: Wide>(self, w: W, index: W::I) -> [W::I; 4] {
        let index = w.lanes(index);
        w.of_fours(|i| self.element::<W::Four, 16>(index[i]))
    }
}

/// True if all of these are numbers of a window's words.
#[inline(always)]
fn in_window<W: Wide>(w: W, numbers: W::I, vectors: i32) -> bool {
    all(w, w.within(numbers, w.int(vectors * W::LANES as i32 - 1)))
}

/// True if the mask holds in all lanes.
#[inline(always)]
pub(super) fn all<W: Wide>(w: W, m: W::M) -> bool {
    w.bits(m) == (1 << W::LANES) - 1
}

/// The words of one texel a lane.
#[inline(always)]
fn fetch<W: Wide, const BYTES: usize>(w: W, plan: Readable<'_>, index: W::I) -> [W::I; 4] {
    let texture = Texture { base: plan.base };
    let zero = w.int(0);
    if BYTES > 4 {
        if BYTES == 16 {
            return texture.fours(w, index);
        }
        let [a, b] = texture.pairs::<W, 8>(w, index);
        return [a, b, zero, zero];
    }
    let (words, by) = in_words::<W, BYTES>(w, plan, index);
    if let Some(start) = start(w, plan.words, words, 2) {
        let numbers = w.sub(words, w.int(start));
        if in_window(w, numbers, 2) {
            let word = w.choose(texture.windows::<W>(start), numbers);
            return [shifted::<W, BYTES>(w, word, by), zero, zero, zero];
        }
    }
    let word = texture.words::<W, 4>(w, words);
    [shifted::<W, BYTES>(w, word, by), zero, zero, zero]
}

/// The words of two texels of one row a lane; `adjacent` says that the second is the first's
/// neighbour in all lanes.
#[inline(always)]
fn fetch_pair<W: Wide, const BYTES: usize>(
    w: W,
    plan: Readable<'_>,
    index: [W::I; 2],
    adjacent: bool,
) -> [[W::I; 4]; 2] {
    let texture = Texture { base: plan.base };
    if BYTES > 4 {
        return [fetch::<W, BYTES>(w, plan, index[0]), fetch::<W, BYTES>(w, plan, index[1])];
    }
    let zero = w.int(0);
    let (near, near_by) = in_words::<W, BYTES>(w, plan, index[0]);
    let (far, far_by) = in_words::<W, BYTES>(w, plan, index[1]);
    if let Some(start) = start(w, plan.words, near, 2) {
        let numbers = [w.sub(near, w.int(start)), w.sub(far, w.int(start))];
        // The window's size is a power of two.
        if in_window(w, w.or(numbers[0], numbers[1]), 2) {
            let words = texture.windows::<W>(start);
            let near = shifted::<W, BYTES>(w, w.choose(words, numbers[0]), near_by);
            let far = shifted::<W, BYTES>(w, w.choose(words, numbers[1]), far_by);
            return [[near, zero, zero, zero], [far, zero, zero, zero]];
        }
    }
    if !adjacent {
        return [fetch::<W, BYTES>(w, plan, index[0]), fetch::<W, BYTES>(w, plan, index[1])];
    }
    if BYTES == 4 {
        let [near, far] = texture.pairs::<W, 4>(w, index[0]);
        return [[near, zero, zero, zero], [far, zero, zero, zero]];
    }
    // Both are in 4 bytes, of which none lies behind the last texel.
    let from = if BYTES == 2 { w.shl::<1>(index[0]) } else { index[0] };
    let from = w.add(from, w.int(plan.skipped));
    let at = w.min(from, w.int(4 * plan.words - 4));
    let word = texture.words::<W, 1>(w, at);
    let near = w.shr_by(word, w.shl::<3>(w.sub(from, at)));
    let far = if BYTES == 2 { w.shr::<16>(near) } else { w.shr::<8>(near) };
    [[near, zero, zero, zero], [far, zero, zero, zero]]
}

/// One texel a lane, as it is.
#[inline(always)]
fn nearest<W: Wide, const KIND: u8, const CHANNELS: usize, const BYTES: usize>(
    w: W,
    plan: Readable<'_>,
    footprint: &Footprint,
    to: To<'_>,
    m: u32,
) {
    let index = footprint.x.get(0);
    let words = fetch::<W, BYTES>(w, plan, index);
    let mut inside = w.mask(u32::MAX);
    if plan.bordered {
        inside = w.mask(footprint.inside_x[0]);
    }
    let mut i = 0;
    while i < 4 {
        if !to.wants(i) {
            i += 1;
            continue;
        }
        let mut value = match i < CHANNELS {
            true => channel::<W, KIND, true>(w, &words, i),
            false => w.int(plan.missing[i] as i32),
        };
        if plan.bordered {
            value = w.pick(inside, value, w.int(plan.border[i] as i32));
        }
        to.put(w, i, m, value);
        i += 1;
    }
}

/// Texels blended. Of those outside, with `BORDER`, the border's colour.
#[inline(always)]
fn blended<
    W: Wide,
    const KIND: u8,
    const CHANNELS: usize,
    const BYTES: usize,
    const BORDER: bool,
>(
    w: W,
    plan: Readable<'_>,
    footprint: &Footprint,
    to: To<'_>,
    m: u32,
) {
    // What the border adds to a channel that texels lack is added up too.
    let summed = if BORDER { 4 } else { CHANNELS };
    // Whole numbers, scaled, are numbers.
    let numbers = KIND & kind::SCALED != 0 && !BORDER;
    let near = footprint.x.get(0);
    let far = footprint.x.get(1);
    let mut sum = [w.float(0.0); 4];
    let mut r = 0;
    while r < plan.rows {
        let row_weight = w.as_float(footprint.row_weight.get(r));
        if w.bits(w.is_not_zero(row_weight)) != 0 {
            let row = footprint.row.get(r);
            let index = [w.add(near, row), w.add(far, row)];
            let pair = fetch_pair::<W, BYTES>(w, plan, index, footprint.adjacent);
            let mut x = 0;
            while x < 2 {
                let weight = w.as_float(footprint.x_weight.get(x));
                let weight = w.mul_f(weight, row_weight);
                let used = w.is_not_zero(weight);
                let mut inside = w.mask(u32::MAX);
                if BORDER {
                    inside = w.mask(footprint.inside_x[x] & footprint.inside_row[r]);
                }
                let mut i = 0;
                while i < summed {
                    if !to.wants(i) {
                        i += 1;
                        continue;
                    }
                    let mut value = match i < CHANNELS {
                        true => channel::<W, KIND, false>(w, &pair[x], i),
                        false => w.int(plan.missing[i] as i32),
                    };
                    if BORDER {
                        let border = w.int(plan.border[i] as i32);
                        value = w.pick(inside, value, border);
                    }
                    let mut part = w.mul_f(weight, w.as_float(value));
                    if !numbers {
                        // A weight of nothing must not make NaN of what lies there.
                        part = w.as_float(w.keep(used, w.as_int(part)));
                    }
                    sum[i] = w.add_f(sum[i], part);
                    i += 1;
                }
                x += 1;
            }
        }
        r += 1;
    }
    let mut i = 0;
    while i < 4 {
        if !to.wants(i) {
            i += 1;
            continue;
        }
        let value = match i < summed {
            true if numbers => w.as_int(sum[i]),
            true => w.pick(w.is_number(sum[i]), w.as_int(sum[i]), w.int(NAN as i32)),
            false => w.int(plan.missing[i] as i32),
        };
        to.put(w, i, m, value);
        i += 1;
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! compiled {
    ($wide:ty, $features:literal, $module:ident) => {
        /// Compiled for a processor.
        mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            fn one<const KIND: u8, const CHANNELS: usize, const BYTES: usize>(
                plan: Readable<'_>,
                footprint: &Footprint,
                to: To<'_>,
                m: u32,
            ) {
                nearest::<$wide, KIND, CHANNELS, BYTES>(<$wide>::new(), plan, footprint, to, m)
            }

            #[target_feature(enable = $features)]
            fn several<const KIND: u8, const CHANNELS: usize, const BYTES: usize>(
                plan: Readable<'_>,
                footprint: &Footprint,
                to: To<'_>,
                m: u32,
            ) {
                if footprint.inside {
                    blended::<$wide, KIND, CHANNELS, BYTES, false>(
                        <$wide>::new(),
                        plan,
                        footprint,
                        to,
                        m,
                    );
                } else {
                    blended::<$wide, KIND, CHANNELS, BYTES, true>(
                        <$wide>::new(),
                        plan,
                        footprint,
                        to,
                        m,
                    );
                }
            }

            #[target_feature(enable = $features)]
            fn inner<const KIND: u8, const CHANNELS: usize, const BYTES: usize>(
                plan: Readable<'_>,
                footprint: &Inside,
                to: To<'_>,
                m: u32,
            ) -> bool {
                blended_inner::<$wide, KIND, CHANNELS, BYTES>(
                    <$wide>::new(),
                    plan,
                    footprint,
                    to,
                    m,
                )
            }

            macro_rules! by_channels {
                ($function:ident, $kind:expr, $channels:expr) => {{
                    const BYTES: usize = bytes_of($kind);
                    Compiled(match $channels {
                        1 => $function::<{ $kind }, 1, BYTES>,
                        2 => $function::<{ $kind }, 2, { 2 * BYTES }>,
                        _ => $function::<{ $kind }, 4, { 4 * BYTES }>,
                    })
                }};
            }

            const SU8: u8 = kind::U8 | kind::SCALED;
            const SS8: u8 = kind::S8 | kind::SCALED;
            const SU16: u8 = kind::U16 | kind::SCALED;
            const SS16: u8 = kind::S16 | kind::SCALED;
            const SRGB: u8 = kind::SRGB | kind::SCALED;

            pub(super) fn pick(
                kind: u8,
                channels: u8,
                blends: bool,
            ) -> Option<(Texels, Option<Inner>)> {
                macro_rules! made {
                    (one $kind:expr) => {
                        (by_channels!(one, $kind, channels), None)
                    };
                    (several $kind:expr) => {
                        (
                            by_channels!(several, $kind, channels),
                            Some(by_channels!(inner, $kind, channels)),
                        )
                    };
                }
                Some(match (blends, kind) {
                    (false, kind::U8) => made!(one kind::U8),
                    (false, kind::S8) => made!(one kind::S8),
                    (false, kind::U16) => made!(one kind::U16),
                    (false, kind::S16) => made!(one kind::S16),
                    (false, kind::WORD) => made!(one kind::WORD),
                    (false, kind::HALF) => made!(one kind::HALF),
                    (false, SU8) => made!(one SU8),
                    (false, SS8) => made!(one SS8),
                    (false, SU16) => made!(one SU16),
                    (false, SS16) => made!(one SS16),
                    (false, SRGB) => made!(one SRGB),
                    (true, SRGB) => made!(several SRGB),
                    (true, SU8) => made!(several SU8),
                    (true, SS8) => made!(several SS8),
                    (true, SU16) => made!(several SU16),
                    (true, SS16) => made!(several SS16),
                    (true, kind::WORD) => made!(several kind::WORD),
                    (true, kind::HALF) => made!(several kind::HALF),
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
/// to 1; one of them, or several blended. Of several that are all inside, what reads these.
pub(super) fn pick(
    target: Target,
    texel: Texel,
    channels: u8,
    scaled: bool,
    blends: bool,
) -> Option<(Texels, Option<Inner>)> {
    let kind = kind_of(texel, scaled);
    match target {
        #[cfg(target_arch = "x86_64")]
        Target::Avx512 if has_avx512() => for_avx512::pick(kind, channels, blends),
        #[cfg(target_arch = "x86_64")]
        Target::Avx2 if has_avx2() => for_avx2::pick(kind, channels, blends),
        _ => None,
    }
}
