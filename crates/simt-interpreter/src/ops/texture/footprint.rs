//! From coordinates to indices of texels and weights, a vector of lanes at a time.
//!
//! Coordinates that are too large for 32-bit arithmetic are *wild*: they are left to `sample`.
//!
//! Invariant: the indices of all lanes, also of those that do not run, name texels.

mod inside;

use super::plan::{Axis, Plan};
use super::texels::{Inner, all, put};
#[cfg(target_arch = "x86_64")]
use super::wide::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::wide::avx512::Avx512;
use super::wide::{LANES_MAX, Row, Wide};
use crate::ops::map::Target;
pub(super) use inside::Inside;
use inside::inside;
use simt::kernel::WARP_LANES;
use simt::runtime::texture::AddressMode;
use std::mem::MaybeUninit;

/// Rows that neighbours of a point lie in, at most.
const ROWS_MAX: usize = 4;

/// Room for a vector, of which is written what is read.
pub(super) type Room<T> = MaybeUninit<Row<T>>;

/// The texels that a vector's lanes read: in each of some rows, one or two along x. What is not read
/// is not written: it is made for each vector.
pub(super) struct Footprint {
    /// Along x; if only one texel is read, all of its index.
    pub(super) x: [Room<i32>; 2],
    /// What rows add to the index.
    pub(super) row: [Room<i32>; ROWS_MAX],
    pub(super) x_weight: [Room<f32>; 2],
    pub(super) row_weight: [Room<f32>; ROWS_MAX],
    /// Lanes for which they are texels, not border; of a texture with borders.
    pub(super) inside_x: [MaybeUninit<u32>; 2],
    pub(super) inside_row: [MaybeUninit<u32>; ROWS_MAX],
    /// The second along x is the first's neighbour in all lanes.
    pub(super) adjacent: MaybeUninit<bool>,
    /// Of neighbours: all are texels, in all lanes.
    pub(super) inside: MaybeUninit<bool>,
}

impl Footprint {
    fn new() -> Self {
        let (int, float) = (Room::uninit(), Room::uninit());
        Self {
            x: [int; 2],
            row: [int; ROWS_MAX],
            x_weight: [float; 2],
            row_weight: [float; ROWS_MAX],
            inside_x: [MaybeUninit::uninit(); 2],
            inside_row: [MaybeUninit::uninit(); ROWS_MAX],
            adjacent: MaybeUninit::uninit(),
            inside: MaybeUninit::uninit(),
        }
    }
}

/// Where a warp's instruction finds its coordinates and puts its results.
#[derive(Clone, Copy)]
pub(super) struct Request {
    /// Coordinates, a lane behind the other.
    pub(super) axes: [*const u32; 3],
    /// Layers, if it has them.
    pub(super) layer: *const u32,
    /// Four channels; null for those that nothing reads.
    pub(super) to: [*mut u32; 4],
    /// Lanes that run, at least one.
    pub(super) mask: u32,
}

/// Where a vector's results go.
#[derive(Clone, Copy)]
pub(super) struct To<'a> {
    /// Of the warp: [`Request::to`].
    rows: &'a [*mut u32; 4],
    /// The vector's first lane.
    lane: usize,
}

impl To<'_> {
    /// Where channel `i` goes, a lane behind the other; `None` if nothing reads it.
    #[inline(always)]
    pub(super) fn channel(&self, i: usize) -> Option<*mut u32> {
        let row = self.rows[i];
        (!row.is_null()).then(|| row.wrapping_add(self.lane))
    }
}

/// Reads a texture for a warp; the lanes whose coordinates are wild, of which nothing is written.
///
/// # Safety
/// The processor has the features it was chosen for; the plan is for the instruction, and its
/// texels can be read; the request's pointers are good for a warp's lanes, and where a result is
/// a coordinate too, it is the same lane's.
pub(super) type Run = unsafe fn(&Plan, &Request) -> u32;

/// One coordinate beyond which numbers of texels have no 32 bits to spare.
const WILD: f32 = (1u32 << 30) as f32;
/// Beyond which a coordinate that repeats is no whole number of periods exactly.
const WILD_PERIODS: i32 = 1 << 22;

/// A coordinate as texels, wild ones as 0.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
unsafe fn scaled<W: Wide>(axis: &Axis, coordinate: W::F, wild: &mut W::M) -> W::F {
    // SAFETY: by contract.
    unsafe {
        let x = W::mul_f(coordinate, W::float(axis.scale));
        let magnitude = W::as_float(W::and(W::as_int(x), W::int(0x7fff_ffff)));
        let tame = W::less(magnitude, W::float(WILD));
        // What is no number is 0.
        *wild = W::either(*wild, W::except(W::is_number(x), tame));
        W::as_float(W::keep(tame, W::as_int(x)))
    }
}

/// Where a number of a texel lands, and whether that is inside.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
unsafe fn wrapped<W: Wide>(axis: &Axis, i: W::I, wild: &mut W::M) -> (W::I, W::M) {
    // SAFETY: by contract.
    unsafe {
        let everywhere = W::mask(u32::MAX);
        let last = W::int(axis.size - 1);
        match axis.mode {
            AddressMode::Clamp => (W::max(W::min(i, last), W::int(0)), everywhere),
            AddressMode::Border => {
                let inside = W::within(i, last);
                (W::keep(inside, i), inside)
            }
            _ if all::<W>(W::within(i, last)) => (i, everywhere),
            AddressMode::Wrap => (repeated::<W>(axis, i, wild), everywhere),
            AddressMode::Mirror => {
                let there = repeated::<W>(axis, i, wild);
                let back = W::sub(W::int(2 * axis.size - 1), there);
                (W::min(there, back), everywhere)
            }
        }
    }
}

/// A number modulo the period.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
unsafe fn repeated<W: Wide>(axis: &Axis, i: W::I, wild: &mut W::M) -> W::I {
    // SAFETY: by contract.
    unsafe {
        if axis.period & (axis.period - 1) == 0 {
            return W::and(i, W::int(axis.period - 1));
        }
        let limit = W::int(WILD_PERIODS);
        let far = W::either(W::more(i, limit), W::more(W::sub(W::int(0), limit), i));
        *wild = W::either(*wild, far);
        let i = W::keep(W::except(W::mask(u32::MAX), far), i);
        // The quotient is off by one at most.
        let quotient = W::floor(W::mul_f(W::to_float(i), W::float(axis.period_inverse)));
        let period = W::int(axis.period);
        let rest = W::sub(i, W::mul(W::to_int(quotient), period));
        let rest = W::add(rest, W::keep(W::more(W::int(0), rest), period));
        let over = W::more(rest, W::int(axis.period - 1));
        W::sub(rest, W::keep(over, period))
    }
}

/// Of a coordinate of texels: the texel before it, and the weight of the next one, in steps of
/// 1/256.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
unsafe fn around<W: Wide>(x: W::F) -> (W::I, W::F) {
    // SAFETY: by contract.
    unsafe {
        let x = W::sub_f(x, W::float(0.5));
        let first = W::floor(x);
        (W::to_int(first), W::weight(W::sub_f(x, first)))
    }
}

/// A direction's face of a cube and the place in it, as `sample` finds them.
///
/// # Safety
/// As [`Wide`]'s functions.
#[inline(always)]
unsafe fn face<W: Wide>(v: [W::F; 3]) -> (W::I, [W::F; 2]) {
    // SAFETY: by contract.
    unsafe {
        let sign = W::int(i32::MIN);
        let [x, y, z] = [W::as_int(v[0]), W::as_int(v[1]), W::as_int(v[2])];
        let positive = W::int(i32::MAX);
        let [ax, ay, az] = [W::and(x, positive), W::and(y, positive), W::and(z, positive)];
        let [fx, fy, fz] = [W::as_float(ax), W::as_float(ay), W::as_float(az)];
        let [minus_x, minus_y, minus_z] = [W::xor(x, sign), W::xor(y, sign), W::xor(z, sign)];
        let zero = W::float(0.0);
        let along_x = W::both(W::at_least(fx, fy), W::at_least(fx, fz));
        let along_y = W::at_least(fy, fz);
        let [px, py, pz] =
            [W::at_least(v[0], zero), W::at_least(v[1], zero), W::at_least(v[2], zero)];
        let pick = |a: [W::I; 3]| W::pick(along_x, a[0], W::pick(along_y, a[1], a[2]));
        let face = pick([
            W::pick(px, W::int(0), W::int(1)),
            W::pick(py, W::int(2), W::int(3)),
            W::pick(pz, W::int(4), W::int(5)),
        ]);
        let m = W::as_float(pick([ax, ay, az]));
        let s = pick([W::pick(px, minus_z, z), x, W::pick(pz, x, minus_x)]);
        let t = pick([minus_y, W::pick(py, z, minus_z), minus_y]);
        let (one, half) = (W::float(1.0), W::float(0.5));
        let s = W::mul_f(W::add_f(W::div_f(W::as_float(s), m), one), half);
        let t = W::mul_f(W::add_f(W::div_f(W::as_float(t), m), one), half);
        (face, [s, t])
    }
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
///
/// # Safety
/// As [`Run`].
#[inline(always)]
unsafe fn operand<W: Wide>(from: *const u32, lanes: Lanes) -> W::I {
    // SAFETY: by contract.
    unsafe {
        let from = from.add(lanes.first);
        let all = W::load(from.cast());
        if lanes.mask == (1 << W::LANES) - 1 {
            return all;
        }
        let other = W::int(from.add(lanes.mask.trailing_zeros() as usize).read() as i32);
        W::pick(W::mask(lanes.mask), all, other)
    }
}

/// A vector's coordinates, and how far its layers are from the first one, in texels.
///
/// # Safety
/// As [`Run`].
#[inline(always)]
unsafe fn coordinates<W: Wide, const DIMS: usize, const CUBE: bool>(
    plan: &Plan,
    request: &Request,
    lanes: Lanes,
) -> ([W::I; 3], W::I) {
    // SAFETY: by contract.
    unsafe {
        let mut at = [W::int(0); 3];
        let sources = if CUBE { 3 } else { DIMS };
        let mut axis = 0;
        while axis < sources {
            at[axis] = operand::<W>(request.axes[axis], lanes);
            axis += 1;
        }
        let mut layer = W::int(0);
        if !request.layer.is_null() {
            layer = operand::<W>(request.layer, lanes);
        } else if !CUBE {
            return (at, layer);
        }
        if CUBE {
            let v = [W::as_float(at[0]), W::as_float(at[1]), W::as_float(at[2])];
            let (number, [s, t]) = face::<W>(v);
            // More cubes than there are faces make no difference.
            let cube = W::min_unsigned(layer, W::int(plan.last_layer / FACES + 1));
            layer = W::add(W::mul(cube, W::int(FACES)), number);
            at = [W::as_int(s), W::as_int(t), W::int(0)];
        }
        let layer = W::min_unsigned(layer, W::int(plan.last_layer));
        (at, W::mul(layer, W::int(plan.layer)))
    }
}

/// Reads for a vector; the lanes whose coordinates are wild, of which nothing is written.
///
/// # Safety
/// As [`Run`].
#[inline(always)]
unsafe fn anywhere<W: Wide, const DIMS: usize, const WAY: u8, const CUBE: bool>(
    plan: &Plan,
    request: &Request,
    lanes: Lanes,
) -> u32 {
    let mut footprint = Footprint::new();
    let m = lanes.mask;
    // SAFETY: by contract.
    unsafe {
        let mut wild = W::mask(0);
        let (at, layer) = coordinates::<W, DIMS, CUBE>(plan, request, lanes);
        let to = To { rows: &request.to, lane: lanes.first };
        if WAY == way::WHOLE || WAY == way::NEAREST {
            let (mut index, mut inside) = (layer, W::mask(u32::MAX));
            let mut axis = 0;
            while axis < DIMS {
                let a = &plan.axes[axis];
                let number = match WAY {
                    way::WHOLE => at[axis],
                    _ => {
                        let x = scaled::<W>(a, W::as_float(at[axis]), &mut wild);
                        W::to_int(W::floor(x))
                    }
                };
                let (i, here) = wrapped::<W>(a, number, &mut wild);
                inside = W::both(inside, here);
                let step = match axis {
                    0 => i,
                    _ => W::mul(i, W::int(a.step)),
                };
                index = W::add(index, step);
                axis += 1;
            }
            W::store(footprint.x[0].as_mut_ptr().cast(), index);
            if plan.bordered {
                footprint.inside_x[0].write(W::bits(inside));
            }
            let wild = W::bits(wild) & m;
            (plan.texels)(plan, &footprint, to, m & !wild);
            wild
        } else {
            let mut near = [(W::int(0), W::mask(u32::MAX)); 3];
            let mut far = near;
            let mut weight = [W::float(0.0); 3];
            let mut axis = 0;
            while axis < DIMS {
                let a = &plan.axes[axis];
                let x = scaled::<W>(a, W::as_float(at[axis]), &mut wild);
                let (i, w) = around::<W>(x);
                near[axis] = wrapped::<W>(a, i, &mut wild);
                far[axis] = wrapped::<W>(a, W::add(i, W::int(1)), &mut wild);
                if axis > 0 {
                    near[axis].0 = W::mul(near[axis].0, W::int(a.step));
                    far[axis].0 = W::mul(far[axis].0, W::int(a.step));
                }
                weight[axis] = w;
                axis += 1;
            }
            let wild = W::bits(wild) & m;
            let m = m & !wild;
            let next = W::equal(W::sub(far[0].0, near[0].0), W::int(1));
            footprint.adjacent.write(all::<W>(next));
            footprint.inside.write(true);
            let ends = [near, far];
            let one = W::float(1.0);
            let share = |axis: usize, far: usize| match far {
                0 => W::sub_f(one, weight[axis]),
                _ => weight[axis],
            };
            if plan.bordered {
                let mut inside = W::mask(u32::MAX);
                let mut axis = 0;
                while axis < DIMS {
                    inside = W::both(inside, W::both(near[axis].1, far[axis].1));
                    axis += 1;
                }
                footprint.inside.write(all::<W>(inside));
            }
            let mut x = 0;
            while x < 2 {
                W::store(footprint.x[x].as_mut_ptr().cast(), ends[x][0].0);
                if plan.bordered {
                    footprint.inside_x[x].write(W::bits(ends[x][0].1));
                }
                let bits = W::as_int(share(0, x));
                W::store(footprint.x_weight[x].as_mut_ptr().cast(), bits);
                x += 1;
            }
            let mut r = 0;
            while r < 1 << (DIMS - 1) {
                let (mut row, mut inside, mut w) = (layer, W::mask(u32::MAX), one);
                if DIMS >= 2 {
                    let end = &ends[r & 1][1];
                    row = W::add(row, end.0);
                    inside = end.1;
                    w = share(1, r & 1);
                }
                if DIMS == 3 {
                    let end = &ends[r >> 1][2];
                    row = W::add(row, end.0);
                    inside = W::both(inside, end.1);
                    w = W::mul_f(w, share(2, r >> 1));
                }
                W::store(footprint.row[r].as_mut_ptr().cast(), row);
                if plan.bordered {
                    footprint.inside_row[r].write(W::bits(inside));
                }
                let bits = W::as_int(w);
                W::store(footprint.row_weight[r].as_mut_ptr().cast(), bits);
                r += 1;
            }
            match WAY {
                way::GATHERED => gathered::<W>(plan, &footprint, to, m),
                _ => (plan.texels)(plan, &footprint, to, m),
            }
            wild
        }
    }
}

/// Faces of a cube.
const FACES: i32 = 6;

/// One channel of the four texels of a footprint, counterclockwise from the lower left.
///
/// # Safety
/// As [`Run`]; two dimensions.
#[inline(always)]
unsafe fn gathered<W: Wide>(plan: &Plan, footprint: &Footprint, to: To<'_>, m: u32) {
    let mut one = Footprint::new();
    for (i, (x, r)) in [(0, 1), (1, 1), (1, 0), (0, 0)].into_iter().enumerate() {
        let mut channels = [Row([0u32; LANES_MAX]); 4];
        // SAFETY: by contract; there is room for all lanes of a vector.
        unsafe {
            let index = W::add(
                W::load(footprint.x[x].as_ptr().cast()),
                W::load(footprint.row[r].as_ptr().cast()),
            );
            W::store(one.x[0].as_mut_ptr().cast(), index);
            if plan.bordered {
                let inside = footprint.inside_x[x].assume_init();
                one.inside_x[0].write(inside & footprint.inside_row[r].assume_init());
            }
            let places = channels.each_mut().map(|row| row.0.as_mut_ptr());
            (plan.texels)(plan, &one, To { rows: &places, lane: 0 }, m);
            let picked = W::load(channels[plan.gathered].0.as_ptr().cast());
            if let Some(to) = to.channel(i) {
                put::<W>(to, m, picked);
            }
        }
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
            unsafe fn of_inside<const DIMS: usize, const CUBE: bool>(
                plan: &Plan,
                request: &Request,
                lanes: Lanes,
                texels: Inner,
            ) -> bool {
                // SAFETY: by contract.
                unsafe { inside::<$wide, DIMS, CUBE>(plan, request, lanes, texels) }
            }

            #[inline(never)]
            #[target_feature(enable = $features)]
            unsafe fn of_any<const DIMS: usize, const WAY: u8, const CUBE: bool>(
                plan: &Plan,
                request: &Request,
                lanes: Lanes,
            ) -> u32 {
                // SAFETY: by contract.
                unsafe { anywhere::<$wide, DIMS, WAY, CUBE>(plan, request, lanes) }
            }

            #[target_feature(enable = $features)]
            unsafe fn compiled<const DIMS: usize, const WAY: u8, const CUBE: bool>(
                plan: &Plan,
                request: &Request,
            ) -> u32 {
                const LANES: usize = <$wide>::LANES;
                let mut wild = 0;
                for first in (0..WARP_LANES).step_by(LANES) {
                    let mask = request.mask >> first & ((1 << LANES) - 1);
                    let lanes = Lanes { first, mask };
                    // SAFETY: by contract.
                    wild |= unsafe {
                        match plan.inner {
                            _ if mask == 0 => 0,
                            Some(texels)
                                if WAY == way::BLENDED
                                    && of_inside::<DIMS, CUBE>(plan, request, lanes, texels) =>
                            {
                                0
                            }
                            _ => of_any::<DIMS, WAY, CUBE>(plan, request, lanes) << first,
                        }
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
        Target::Avx512 => for_avx512::pick(dims, way, cube),
        #[cfg(target_arch = "x86_64")]
        Target::Avx2 => for_avx2::pick(dims, way, cube),
        _ => None,
    }
}
