//! Reads of textures by whole warps, where nothing of them can fault: the object and all of its
//! texels may be read. Anything else is for the lanes one by one, in `sample`.

use super::footprint::{Channel, Request};
use super::{Point, Shape, descriptor_address, plan, sample};
use crate::handler_context::{HandlerContext, Ins};
use crate::ops::map::Target;
use crate::ops::memory::{self, lanes};
use simt::ir::op::TextureOp;
use simt::kernel::WARP_LANES;
use simt::runtime::texture::Descriptor;

/// Results of a warp that are not written yet.
type Channels = [[u32; WARP_LANES]; 4];

/// Reads for the lanes in `m`; those that are left to be read one by one.
pub(super) fn read(machine: &mut HandlerContext<'_>, ins: &Ins, target: Target, m: u32) -> u32 {
    // An account is kept lane by lane.
    if machine.check.is_some() || m == 0 {
        return m;
    }
    if memory::is_formula(ins) {
        return {
            let handle = super::handle(machine, ins, 0);
            group(machine, ins, target, handle, m, true).unwrap_or(m)
        };
    }
    several(machine, ins, target, m)
}

/// As [`read`], of an object a lane.
#[inline(never)]
fn several(machine: &mut HandlerContext<'_>, ins: &Ins, target: Target, m: u32) -> u32 {
    let handles = machine.regs.read::<u64, WARP_LANES>(ins.a[0]);
    // Several objects: all can be read so, or none is.
    let mut left = m;
    for run in [false, true] {
        left = 0;
        let mut rest = m;
        while rest != 0 {
            let handle = handles[rest.trailing_zeros() as usize];
            let these = lanes(rest).filter(|lane| handles[*lane as usize] == handle);
            let these = these.fold(0, |these, lane| these | 1 << lane);
            match group(machine, ins, target, handle, these, run) {
                Some(wild) => left |= wild,
                None => return m,
            }
            rest &= !these;
        }
    }
    left
}

/// Reads one object for the lanes in `m`, or only sees whether it can, if not `run`; the lanes
/// that are left. `None`, and nothing has been written, if it must be read lane by lane.
#[inline(always)]
fn group(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    target: Target,
    handle: u64,
    m: u32,
    run: bool,
) -> Option<u32> {
    let object = descriptor_address(machine, ins, handle)?;
    let op = super::decoded(ins.imm);
    let request = request(machine, ins, Shape::of(op), m);
    let of_one = |plan: &plan::Plan| {
        if plan.levels > 1 {
            return Some((true, m));
        }
        let plan = plan.readable(machine, ins)?;
        Some((false, if run { plan.run(&request) } else { 0 }))
    };
    let (levels, left) = plan::with(target, &object, ins.imm, 0, of_one)??;
    if !levels {
        return Some(left);
    }
    with_levels(machine, ins, (target, &object.read()), op, &request, run)
}

/// Where the instruction's operands and results are.
fn request(machine: &HandlerContext<'_>, ins: &Ins, shape: Shape, mask: u32) -> Request<'static> {
    let result = |i: usize| Channel::of_register(machine.regs, ins.d[i]);
    Request {
        registers: machine.regs,
        // Of axes that it does not have, an operand that is not read.
        axes: [0, 1, 2].map(|axis| ins.a[shape.first + axis]),
        layer: (shape.first == 2).then_some(ins.a[1]),
        to: [0, 1, 2, 3].map(|i| result(i).filter(|_| super::is_wanted(ins, i))),
        mask,
    }
}

/// Reads an object of several levels: of each level the lanes that want it, of two if they are
/// blended.
#[inline(never)]
fn with_levels(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    (target, object): (Target, &plan::Bytes),
    op: TextureOp,
    request: &Request<'_>,
    run: bool,
) -> Option<u32> {
    let d = Descriptor::from_bytes(object)?;
    let blends = d.blends_levels && sample::floats(&d, op) && !op.integer;
    let (mut numbers, mut weights) = ([0u8; WARP_LANES], [0f32; WARP_LANES]);
    for lane in lanes(request.mask) {
        let point: Point = super::point(machine, ins, op, lane);
        let i = lane as usize;
        (numbers[i], weights[i]) = sample::levels(&d, point.level, blends);
    }
    let mut results: [Channels; 2] = [[[0; WARP_LANES]; 4]; 2];
    let mut wild = 0;
    for (next, results) in (0u8..).zip(&mut results) {
        let blended =
            lanes(request.mask).filter(|lane| next == 0 || weights[*lane as usize] != 0.0);
        let mut rest = blended.fold(0u32, |these, lane| these | 1 << lane);
        while rest != 0 {
            let number = numbers[rest.trailing_zeros() as usize];
            let these = lanes(rest).filter(|lane| numbers[*lane as usize] == number);
            let mask = these.fold(0, |these, lane| these | 1 << lane);
            let mut to = results.each_mut().map(|lanes| Some(Channel::of(lanes)));
            for (to, wanted) in to.iter_mut().zip(request.to) {
                *to = to.filter(|_| wanted.is_some());
            }
            let part = Request { to, mask, ..*request };
            let of_level = |plan: &plan::Plan| {
                let plan = plan.readable(machine, ins)?;
                Some(if run { plan.run(&part) } else { 0 })
            };
            wild |= plan::with(target, object, ins.imm, number + next, of_level)??;
            rest &= !mask;
        }
    }
    if !run {
        return Some(0);
    }
    for lane in lanes(request.mask & !wild) {
        let i = lane as usize;
        for (channel, to) in request.to.iter().enumerate() {
            if to.is_none() {
                continue;
            }
            let [first, second] = [&results[0], &results[1]].map(|r| r[channel][i]);
            let value = sample::between(weights[i], first, second);
            machine.regs.set_lane(ins.d[channel], lane, value);
        }
    }
    Some(wild)
}
