//! Footprints inside a texture: no addressing mode is asked for, and all rows are a fixed distance apart.

use super::super::plan::Readable;
use super::super::texels::{Inner, all};
use super::super::wide::Wide;
use super::{Lanes, ROWS_MAX, Request, To, Vectors, around, coordinates};

/// As [`super::Footprint`], of texels that are all inside: each row is where the plan says, and the second
/// texel along x is the first's neighbour.
pub(in super::super) struct Inside {
    /// Of the first texel.
    pub(in super::super) index: Vectors<1>,
    /// Of the second along x.
    pub(in super::super) x_weight: Vectors<1>,
    pub(in super::super) row_weight: Vectors<ROWS_MAX>,
}

impl Inside {
    fn new() -> Self {
        Self { index: Vectors::new(), x_weight: Vectors::new(), row_weight: Vectors::new() }
    }
}

/// Reads neighbours, blended, for a vector if they all are texels, for every mode of addressing; else, or if
/// a weight of nothing may have made NaN of what lies there, false, and nothing was written.
#[inline(always)]
pub(super) fn inside<W: Wide, const DIMS: usize, const CUBE: bool>(
    w: W,
    plan: Readable<'_>,
    request: &Request<'_>,
    lanes: Lanes,
    texels: Inner,
) -> bool {
    let mut footprint = Inside::new();
    let (at, mut index) = coordinates::<W, DIMS, CUBE>(w, plan, request, lanes);
    let mut inside = w.mask(u32::MAX);
    let mut weight = [w.float(0.0); 3];
    let mut axis = 0;
    while axis < DIMS {
        let a = &plan.axes[axis];
        let x = w.mul_f(w.as_float(at[axis]), w.float(a.scale));
        // Wild coordinates, and what is no number, become i32::MIN, which is outside.
        let (i, far) = around(w, x);
        inside = w.both(inside, w.within(i, w.int(a.size - 2)));
        let step = if axis == 0 { i } else { w.mul(i, w.int(a.step)) };
        index = w.add(index, step);
        weight[axis] = far;
        axis += 1;
    }
    if !all(w, inside) {
        return false;
    }
    footprint.index.push(index);
    footprint.x_weight.push(w.as_int(weight[0]));
    let one = w.float(1.0);
    let mut r = 0;
    while r < 1 << (DIMS - 1) {
        let share = |axis: usize, far: usize| match far {
            0 => w.sub_f(one, weight[axis]),
            _ => weight[axis],
        };
        let mut part = one;
        if DIMS >= 2 {
            part = share(1, r & 1);
        }
        if DIMS == 3 {
            part = w.mul_f(part, share(2, r >> 1));
        }
        footprint.row_weight.push(w.as_int(part));
        r += 1;
    }
    let to = To { channels: &request.to, lane: lanes.first };
    texels.make(plan, &footprint, to, lanes.mask)
}
