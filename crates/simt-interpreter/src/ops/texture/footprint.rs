//! From coordinates to indices of texels and weights, a vector of lanes at a time.
//!
//! Coordinates that are too large for 32-bit arithmetic are *wild*: they are left to `sample`.
//!
//! Invariant: the indices of all lanes, also of those that do not run, name texels.

mod inside;

use super::plan::{Axis, Readable};
use super::texels::{Inner, all};
use super::wide::Wide;
#[cfg(target_arch = "x86_64")]
use super::wide::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::wide::avx512::Avx512;
use crate::ops::map::Target;
#[cfg(target_arch = "x86_64")]
use crate::processor::{has_avx2, has_avx512};
use crate::register_file::{Lane, Operand, Registers};
pub(super) use inside::Inside;
use inside::inside;
use simt::kernel::WARP_LANES;
use simt::runtime::texture::AddressMode;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Rows that neighbours of a point lie in, at most.
const ROWS_MAX: usize = 4;

/// Room for a vector of any width.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Room(MaybeUninit<[u8; 64]>);

/// Room for `N` vectors of one type. They are made for each vector of lanes, so that what is not pushed is not
/// written either.
pub(super) struct Vectors<const N: usize> {
    rows: [Room; N],
    count: usize,
    /// Bytes of each.
    width: usize,
}

impl<const N: usize> Vectors<N> {
    pub(super) fn new() -> Self {
        Self { rows: [Room(MaybeUninit::uninit()); N], count: 0, width: 0 }
    }

    #[inline(always)]
    pub(super) fn push<V: Lane>(&mut self, vector: V) {
        const { assert!(size_of::<V>() <= size_of::<Room>()) };
        assert!(self.count == 0 || self.width == size_of::<V>(), "vectors of one type");
        // SAFETY: a row has room.
        unsafe { (&raw mut self.rows[self.count]).cast::<V>().write_unaligned(vector) };
        self.width = size_of::<V>();
        self.count += 1;
    }

    /// The `i`-th one, which must have been pushed as this type.
    #[inline(always)]
    pub(super) fn get<V: Lane>(&self, i: usize) -> V {
        assert!(i < self.count && size_of::<V>() == self.width);
        // SAFETY: the bytes were written, and any bytes are a vector.
        unsafe { (&raw const self.rows[i]).cast::<V>().read_unaligned() }
    }
}

/// The texels that a vector's lanes read: in each of some rows, one or two along x.
pub(super) struct Footprint {
    /// Along x; if only one texel is read, all of its index.
    pub(super) x: Vectors<2>,
    /// What rows add to the index.
    pub(super) row: Vectors<ROWS_MAX>,
    /// Weights, as bits.
    pub(super) x_weight: Vectors<2>,
    pub(super) row_weight: Vectors<ROWS_MAX>,
    /// Lanes for which they are texels, not border; of a texture with borders.
    pub(super) inside_x: [u32; 2],
    pub(super) inside_row: [u32; ROWS_MAX],
    /// The second along x is the first's neighbour in all lanes.
    pub(super) adjacent: bool,
    /// Of neighbours: all are texels, in all lanes.
    pub(super) inside: bool,
}

impl Footprint {
    fn new() -> Self {
        Self {
            x: Vectors::new(),
            row: Vectors::new(),
            x_weight: Vectors::new(),
            row_weight: Vectors::new(),
            inside_x: [u32::MAX; 2],
            inside_row: [u32::MAX; ROWS_MAX],
            adjacent: false,
            inside: true,
        }
    }
}

/// Room for a channel of all lanes of a warp: a register, or an array.
#[derive(Clone, Copy)]
pub(super) struct Channel<'a>(NonNull<u32>, PhantomData<&'a mut [u32; WARP_LANES]>);

impl<'a> Channel<'a> {
    pub(super) fn of_register(registers: Registers, at: Operand) -> Option<Self> {
        NonNull::new(registers.pointer(at)).map(|lanes| Self(lanes, PhantomData))
    }

    pub(super) fn of(lanes: &'a mut [u32; WARP_LANES]) -> Self {
        Self(NonNull::from(lanes).cast(), PhantomData)
    }

    /// Writes the lanes of `m` of the vector that starts at a lane.
    #[inline(always)]
    fn put<W: Wide>(self, w: W, first: usize, m: u32, x: W::I) {
        debug_assert!(first + W::LANES <= WARP_LANES);
        // SAFETY: there is room for a warp's lanes, and vectors start at multiples of their lanes.
        unsafe {
            let to = self.0.as_ptr().add(first % WARP_LANES).cast::<W::I>();
            let some = m != (1 << W::LANES) - 1;
            let all = if some { w.pick(w.mask(m), x, to.read_unaligned()) } else { x };
            to.write_unaligned(all);
        }
    }
}

/// Where a warp's instruction finds its coordinates and puts its results.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) registers: Registers,
    /// Coordinates.
    pub(super) axes: [Operand; 3],
    /// Layers, if it has them.
    pub(super) layer: Option<Operand>,
    /// Four channels, of those that something reads.
    pub(super) to: [Option<Channel<'a>>; 4],
    /// Lanes that run, at least one.
    pub(super) mask: u32,
}

/// Where a vector's results go.
#[derive(Clone, Copy)]
pub(super) struct To<'a> {
    /// Of the warp: [`Request::to`].
    channels: &'a [Option<Channel<'a>>; 4],
    /// The vector's first lane.
    lane: usize,
}

impl To<'_> {
    /// True if something reads channel `i`.
    #[inline(always)]
    pub(super) fn wants(&self, i: usize) -> bool {
        self.channels[i].is_some()
    }

    /// Writes channel `i` in the lanes of `m`, if something reads it.
    #[inline(always)]
    pub(super) fn put<W: Wide>(&self, w: W, i: usize, m: u32, x: W::I) {
        if let Some(channel) = self.channels[i] {
            channel.put(w, self.lane, m, x);
        }
    }
}

/// Reads a texture for a warp; the lanes whose coordinates are wild, of which nothing is written. Where a
/// result is a coordinate too, it is the same lane's.
///
/// # Safety
/// The processor has the features it was chosen for.
pub(super) type Run = unsafe fn(Readable<'_>, &Request<'_>) -> u32;

/// One coordinate beyond which numbers of texels have no 32 bits to spare.
const WILD: f32 = (1u32 << 30) as f32;
/// Beyond which a coordinate that repeats is no whole number of periods exactly.
const WILD_PERIODS: i32 = 1 << 22;

/// A coordinate as texels, wild ones as 0.
#[inline(always)]
fn scaled<W: Wide>(w: W, axis: &Axis, coordinate: W::F, wild: &mut W::M) -> W::F {
    let x = w.mul_f(coordinate, w.float(axis.scale));
    let magnitude = w.as_float(w.and(w.as_int(x), w.int(0x7fff_ffff)));
    let tame = w.less(magnitude, w.float(WILD));
    // What is no number is 0.
    *wild = w.either(*wild, w.except(w.is_number(x), tame));
    w.as_float(w.keep(tame, w.as_int(x)))
}

/// Where a number of a texel lands, and whether that is inside.
#[inline(always)]
fn wrapped<W: Wide>(w: W, axis: &Axis, i: W::I, wild: &mut W::M) -> (W::I, W::M) {
    let everywhere = w.mask(u32::MAX);
    let last = w.int(axis.size - 1);
    match axis.mode {
        AddressMode::Clamp => (w.max(w.min(i, last), w.int(0)), everywhere),
        AddressMode::Border => {
            let inside = w.within(i, last);
            (w.keep(inside, i), inside)
        }
        _ if all(w, w.within(i, last)) => (i, everywhere),
        AddressMode::Wrap => (repeated(w, axis, i, wild), everywhere),
        AddressMode::Mirror => {
            let there = repeated(w, axis, i, wild);
            let back = w.sub(w.int(2 * axis.size - 1), there);
            (w.min(there, back), everywhere)
        }
    }
}

/// A number modulo the period.
#[inline(always)]
fn repeated<W: Wide>(w: W, axis: &Axis, i: W::I, wild: &mut W::M) -> W::I {
    if axis.period & (axis.period - 1) == 0 {
        return w.and(i, w.int(axis.period - 1));
    }
    let limit = w.int(WILD_PERIODS);
    let far = w.either(w.more(i, limit), w.more(w.sub(w.int(0), limit), i));
    *wild = w.either(*wild, far);
    let i = w.keep(w.except(w.mask(u32::MAX), far), i);
    // The quotient is off by one at most.
    let quotient = w.floor(w.mul_f(w.to_float(i), w.float(axis.period_inverse)));
    let period = w.int(axis.period);
    let rest = w.sub(i, w.mul(w.to_int(quotient), period));
    let rest = w.add(rest, w.keep(w.more(w.int(0), rest), period));
    let over = w.more(rest, w.int(axis.period - 1));
    w.sub(rest, w.keep(over, period))
}

/// Of a coordinate of texels: the texel before it, and the weight of the next one, in steps of
/// 1/256.
#[inline(always)]
fn around<W: Wide>(w: W, x: W::F) -> (W::I, W::F) {
    let x = w.sub_f(x, w.float(0.5));
    let first = w.floor(x);
    (w.to_int(first), w.weight(w.sub_f(x, first)))
}

/// A direction's face of a cube and the place in it, as `sample` finds them.
#[inline(always)]
fn face<W: Wide>(w: W, v: [W::F; 3]) -> (W::I, [W::F; 2]) {
    let sign = w.int(i32::MIN);
    let [x, y, z] = [w.as_int(v[0]), w.as_int(v[1]), w.as_int(v[2])];
    let positive = w.int(i32::MAX);
    let [ax, ay, az] = [w.and(x, positive), w.and(y, positive), w.and(z, positive)];
    let [fx, fy, fz] = [w.as_float(ax), w.as_float(ay), w.as_float(az)];
    let [minus_x, minus_y, minus_z] = [w.xor(x, sign), w.xor(y, sign), w.xor(z, sign)];
    let zero = w.float(0.0);
    let along_x = w.both(w.at_least(fx, fy), w.at_least(fx, fz));
    let along_y = w.at_least(fy, fz);
    let [px, py, pz] = [w.at_least(v[0], zero), w.at_least(v[1], zero), w.at_least(v[2], zero)];
    let pick = |a: [W::I; 3]| w.pick(along_x, a[0], w.pick(along_y, a[1], a[2]));
    let face = pick([
        w.pick(px, w.int(0), w.int(1)),
        w.pick(py, w.int(2), w.int(3)),
        w.pick(pz, w.int(4), w.int(5)),
    ]);
    let m = w.as_float(pick([ax, ay, az]));
    let s = pick([w.pick(px, minus_z, z), x, w.pick(pz, x, minus_x)]);
    let t = pick([minus_y, w.pick(py, z, minus_z), minus_y]);
    let (one, half) = (w.float(1.0), w.float(0.5));
    let s = w.mul_f(w.add_f(w.div_f(w.as_float(s), m), one), half);
    let t = w.mul_f(w.add_f(w.div_f(w.as_float(t), m), one), half);
    (face, [s, t])
}

/// What of a texture is read.
mod way {
    /// The texel at integer coordinates.
    pub(super) const WHOLE: u8 = 0;
    /// The nearest texel.
    pub(super) const NEAREST: u8 = 1;
    /// Neighbours, blended.
    pub(super) const BLENDED: u8 = 2;
    /// One channel of four neighbours.
    pub(super) const GATHERED: u8 = 3;
}

/// Lanes that read together.
#[derive(Clone, Copy)]
struct Lanes {
    /// The first of a vector.
    first: usize,
    /// Those that run, the first lowest; at least one.
    mask: u32,
}

/// A vector of an operand. Lanes that do not run have what the first one has that does.
#[inline(always)]
fn operand<W: Wide>(w: W, registers: Registers, from: Operand, lanes: Lanes) -> W::I {
    let all = registers.vector::<W::I>(from, lanes.first);
    if lanes.mask == (1 << W::LANES) - 1 {
        return all;
    }
    let other = lanes.first as u32 + lanes.mask.trailing_zeros();
    w.pick(w.mask(lanes.mask), all, w.int(registers.lane(from, other)))
}

/// A vector's coordinates, and how far its layers are from the first one, in texels.
#[inline(always)]
fn coordinates<W: Wide, const DIMS: usize, const CUBE: bool>(
    w: W,
    plan: Readable<'_>,
    request: &Request<'_>,
    lanes: Lanes,
) -> ([W::I; 3], W::I) {
    let mut at = [w.int(0); 3];
    let sources = if CUBE { 3 } else { DIMS };
    let mut axis = 0;
    while axis < sources {
        at[axis] = operand(w, request.registers, request.axes[axis], lanes);
        axis += 1;
    }
    let mut layer = w.int(0);
    if let Some(layers) = request.layer {
        layer = operand(w, request.registers, layers, lanes);
    } else if !CUBE {
        return (at, layer);
    }
    if CUBE {
        let v = [w.as_float(at[0]), w.as_float(at[1]), w.as_float(at[2])];
        let (number, [s, t]) = face(w, v);
        // More cubes than there are faces make no difference.
        let cube = w.min_unsigned(layer, w.int(plan.last_layer / FACES + 1));
        layer = w.add(w.mul(cube, w.int(FACES)), number);
        at = [w.as_int(s), w.as_int(t), w.int(0)];
    }
    let layer = w.min_unsigned(layer, w.int(plan.last_layer));
    (at, w.mul(layer, w.int(plan.layer)))
}

/// Reads for a vector; the lanes whose coordinates are wild, of which nothing is written.
#[inline(always)]
fn anywhere<W: Wide, const DIMS: usize, const WAY: u8, const CUBE: bool>(
    w: W,
    plan: Readable<'_>,
    request: &Request<'_>,
    lanes: Lanes,
) -> u32 {
    let mut footprint = Footprint::new();
    let m = lanes.mask;
    let mut wild = w.mask(0);
    let (at, layer) = coordinates::<W, DIMS, CUBE>(w, plan, request, lanes);
    let to = To { channels: &request.to, lane: lanes.first };
    if WAY == way::WHOLE || WAY == way::NEAREST {
        let (mut index, mut inside) = (layer, w.mask(u32::MAX));
        let mut axis = 0;
        while axis < DIMS {
            let a = &plan.axes[axis];
            let number = match WAY {
                way::WHOLE => at[axis],
                _ => {
                    let x = scaled(w, a, w.as_float(at[axis]), &mut wild);
                    w.to_int(w.floor(x))
                }
            };
            let (i, here) = wrapped(w, a, number, &mut wild);
            inside = w.both(inside, here);
            let step = match axis {
                0 => i,
                _ => w.mul(i, w.int(a.step)),
            };
            index = w.add(index, step);
            axis += 1;
        }
        footprint.x.push(index);
        if plan.bordered {
            footprint.inside_x[0] = w.bits(inside);
        }
        let wild = w.bits(wild) & m;
        plan.texels.make(plan, &footprint, to, m & !wild);
        wild
    } else {
        let mut near = [(w.int(0), w.mask(u32::MAX)); 3];
        let mut far = near;
        let mut weight = [w.float(0.0); 3];
        let mut axis = 0;
        while axis < DIMS {
            let a = &plan.axes[axis];
            let x = scaled(w, a, w.as_float(at[axis]), &mut wild);
            let (i, next) = around(w, x);
            near[axis] = wrapped(w, a, i, &mut wild);
            far[axis] = wrapped(w, a, w.add(i, w.int(1)), &mut wild);
            if axis > 0 {
                near[axis].0 = w.mul(near[axis].0, w.int(a.step));
                far[axis].0 = w.mul(far[axis].0, w.int(a.step));
            }
            weight[axis] = next;
            axis += 1;
        }
        let wild = w.bits(wild) & m;
        let m = m & !wild;
        let next = w.equal(w.sub(far[0].0, near[0].0), w.int(1));
        footprint.adjacent = all(w, next);
        let ends = [near, far];
        let one = w.float(1.0);
        let share = |axis: usize, far: usize| match far {
            0 => w.sub_f(one, weight[axis]),
            _ => weight[axis],
        };
        if plan.bordered {
            let mut inside = w.mask(u32::MAX);
            let mut axis = 0;
            while axis < DIMS {
                inside = w.both(inside, w.both(near[axis].1, far[axis].1));
                axis += 1;
            }
            footprint.inside = all(w, inside);
        }
        let mut x = 0;
        while x < 2 {
            footprint.x.push(ends[x][0].0);
            if plan.bordered {
                footprint.inside_x[x] = w.bits(ends[x][0].1);
            }
            footprint.x_weight.push(w.as_int(share(0, x)));
            x += 1;
        }
        let mut r = 0;
        while r < 1 << (DIMS - 1) {
            let (mut row, mut inside, mut part) = (layer, w.mask(u32::MAX), one);
            if DIMS >= 2 {
                let end = &ends[r & 1][1];
                row = w.add(row, end.0);
                inside = end.1;
                part = share(1, r & 1);
            }
            if DIMS == 3 {
                let end = &ends[r >> 1][2];
                row = w.add(row, end.0);
                inside = w.both(inside, end.1);
                part = w.mul_f(part, share(2, r >> 1));
            }
            footprint.row.push(row);
            if plan.bordered {
                footprint.inside_row[r] = w.bits(inside);
            }
            footprint.row_weight.push(w.as_int(part));
            r += 1;
        }
        match WAY {
            way::GATHERED => gathered(w, plan, &footprint, to, m),
            _ => plan.texels.make(plan, &footprint, to, m),
        }
        wild
    }
}

/// Faces of a cube.
const FACES: i32 = 6;

/// One channel of the four texels of a footprint, counterclockwise from the lower left; of two dimensions.
#[inline(always)]
fn gathered<W: Wide>(w: W, plan: Readable<'_>, footprint: &Footprint, to: To<'_>, m: u32) {
    for (i, (x, r)) in [(0, 1), (1, 1), (1, 0), (0, 0)].into_iter().enumerate() {
        let mut one = Footprint::new();
        one.x.push(w.add(footprint.x.get(x), footprint.row.get(r)));
        one.inside_x[0] = footprint.inside_x[x] & footprint.inside_row[r];
        let mut picked = [0; WARP_LANES];
        let mut channels = [None; 4];
        channels[plan.gathered] = Some(Channel::of(&mut picked));
        plan.texels.make(plan, &one, To { channels: &channels, lane: 0 }, m);
        to.put(w, i, m, w.of_words(|lane| picked[lane] as i32));
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! compiled {
    ($wide:ty, $features:literal, $module:ident) => {
        /// Compiled for a processor.
        mod $module {
            use super::*;

            // In functions of their own: what two vectors have in common is not worth keeping.
            #[inline(never)]
            #[target_feature(enable = $features)]
            fn of_inside<const DIMS: usize, const CUBE: bool>(
                plan: Readable<'_>,
                request: &Request<'_>,
                lanes: Lanes,
                texels: Inner,
            ) -> bool {
                inside::<$wide, DIMS, CUBE>(<$wide>::new(), plan, request, lanes, texels)
            }

            #[inline(never)]
            #[target_feature(enable = $features)]
            fn of_any<const DIMS: usize, const WAY: u8, const CUBE: bool>(
                plan: Readable<'_>,
                request: &Request<'_>,
                lanes: Lanes,
            ) -> u32 {
                anywhere::<$wide, DIMS, WAY, CUBE>(<$wide>::new(), plan, request, lanes)
            }

            #[target_feature(enable = $features)]
            fn compiled<const DIMS: usize, const WAY: u8, const CUBE: bool>(
                plan: Readable<'_>,
                request: &Request<'_>,
            ) -> u32 {
                const LANES: usize = <$wide>::LANES;
                let mut wild = 0;
                for first in (0..WARP_LANES).step_by(LANES) {
                    let mask = request.mask >> first & ((1 << LANES) - 1);
                    let lanes = Lanes { first, mask };
                    wild |= match plan.inner {
                        _ if mask == 0 => 0,
                        Some(texels)
                            if WAY == way::BLENDED
                                && of_inside::<DIMS, CUBE>(plan, request, lanes, texels) =>
                        {
                            0
                        }
                        _ => of_any::<DIMS, WAY, CUBE>(plan, request, lanes) << first,
                    };
                }
                wild
            }

            pub(super) fn pick(dims: u8, way: u8, cube: bool) -> Option<Run> {
                Some(match (dims, way, cube) {
                    (1, way::WHOLE, false) => compiled::<1, { way::WHOLE }, false>,
                    (2, way::WHOLE, false) => compiled::<2, { way::WHOLE }, false>,
                    (3, way::WHOLE, false) => compiled::<3, { way::WHOLE }, false>,
                    (1, way::NEAREST, false) => compiled::<1, { way::NEAREST }, false>,
                    (2, way::NEAREST, false) => compiled::<2, { way::NEAREST }, false>,
                    (3, way::NEAREST, false) => compiled::<3, { way::NEAREST }, false>,
                    (1, way::BLENDED, false) => compiled::<1, { way::BLENDED }, false>,
                    (2, way::BLENDED, false) => compiled::<2, { way::BLENDED }, false>,
                    (3, way::BLENDED, false) => compiled::<3, { way::BLENDED }, false>,
                    (2, way::GATHERED, false) => compiled::<2, { way::GATHERED }, false>,
                    (2, way::NEAREST, true) => compiled::<2, { way::NEAREST }, true>,
                    (2, way::BLENDED, true) => compiled::<2, { way::BLENDED }, true>,
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

/// What of a texture is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The texel at integer coordinates.
    Whole,
    /// The nearest texel.
    Nearest,
    /// Neighbours, blended.
    Blended,
    /// One channel of four neighbours.
    Gathered,
}

/// What reads a texture of `dimensions` dimensions, `None` without vectors.
pub(super) fn pick(target: Target, dims: u8, way: Way, cube: bool) -> Option<Run> {
    let way = match way {
        Way::Whole => way::WHOLE,
        Way::Nearest => way::NEAREST,
        Way::Blended => way::BLENDED,
        Way::Gathered => way::GATHERED,
    };
    match target {
        #[cfg(target_arch = "x86_64")]
        Target::Avx512 if has_avx512() => for_avx512::pick(dims, way, cube),
        #[cfg(target_arch = "x86_64")]
        Target::Avx2 if has_avx2() => for_avx2::pick(dims, way, cube),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic = "assertion failed"]
    fn no_vector_reaches_beyond_what_was_pushed() {
        let mut vectors = Vectors::<1>::new();
        vectors.push([1i32; 8]);
        vectors.get::<[i32; 16]>(0);
    }
}
