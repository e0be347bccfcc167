//! Footprints inside a texture: no addressing mode is asked for, and all rows are a fixed distance apart.

use super::super::plan::Plan;
use super::super::texels::{Inner, all};
use super::super::wide::Wide;
use super::{Lanes, ROWS_MAX, Request, Room, To, around, coordinates};

/// As [`super::Footprint`], of texels that are all inside: each row is where the plan says, and the second
/// texel along x is the first's neighbour.
pub(in super::super) struct Inside {
    /// Of the first texel.
    pub(in super::super) index: Room<i32>,
    /// Of the second along x.
    pub(in super::super) x_weight: Room<f32>,
    pub(in super::super) row_weight: [Room<f32>; ROWS_MAX],
}

impl Inside {
    fn new() -> Self {
        let row_weight = [Room::uninit(); ROWS_MAX];
        Self { index: Room::uninit(), x_weight: Room::uninit(), row_weight }
    }
}

/// Reads neighbours, blended, for a vector if they all are texels, for every mode of addressing; else, or if
/// a weight of nothing may have made NaN of what lies there, false, and nothing was written.
///
/// # Safety
/// As [`super::Run`]; `texels` is the plan's.
#[inline(always)]
pub(super) unsafe fn inside<W: Wide, const DIMS: usize, const CUBE: bool>(
    plan: &Plan,
    request: &Request,
    lanes: Lanes,
    texels: Inner,
) -> bool {
    let mut footprint = Inside::new();
    // SAFETY: by contract each axis has two texels at least.
    unsafe {
        let (at, mut index) = coordinates::<W, DIMS, CUBE>(plan, request, lanes);
        let mut inside = W::mask(u32::MAX);
        let mut weight = [W::float(0.0); 3];
        let mut axis = 0;
        while axis < DIMS {
            let a = &plan.axes[axis];
            let x = W::mul_f(W::as_float(at[axis]), W::float(a.scale));
            // Wild coordinates, and what is no number, become i32::MIN, which is outside.
            let (i, far) = around::<W>(x);
            inside = W::both(inside, W::within(i, W::int(a.size - 2)));
            let step = if axis == 0 { i } else { W::mul(i, W::int(a.step)) };
            index = W::add(index, step);
            weight[axis] = far;
            axis += 1;
        }
        if !all::<W>(inside) {
            return false;
        }
        W::store(footprint.index.as_mut_ptr().cast(), index);
        W::store(footprint.x_weight.as_mut_ptr().cast(), W::as_int(weight[0]));
        let one = W::float(1.0);
        let mut r = 0;
        while r < 1 << (DIMS - 1) {
            let share = |axis: usize, far: usize| match far {
                0 => W::sub_f(one, weight[axis]),
                _ => weight[axis],
            };
            let mut w = one;
            if DIMS >= 2 {
                w = share(1, r & 1);
            }
            if DIMS == 3 {
                w = W::mul_f(w, share(2, r >> 1));
            }
            W::store(footprint.row_weight[r].as_mut_ptr().cast(), W::as_int(w));
            r += 1;
        }
        texels(plan, &footprint, To { rows: &request.to, lane: lanes.first }, lanes.mask)
    }
}
