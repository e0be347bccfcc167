//! Textures and surfaces. Warps read textures together where nothing can fault (`warp`);
//! else one lane reads after the other, every texel checked as any access.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_variables, reason = "for vectors of x86-64")
)]

mod footprint;
mod plan;
mod sample;
mod surface;
mod texels;
mod warp;
mod wide;

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::{Body, Lane, Rare, Target, active, versions};
use crate::ops::memory::{self, Checked, lanes};
use crate::ops::texture::sample::Point;
use simt::ir::op::{Space, TextureLevel, TextureOp, TextureQuery};
use simt::kernel::FaultKind;
use simt::runtime::texture::Descriptor;
pub(crate) use surface::{surface_address, surface_load, surface_store};

/// The object that a handle names.
fn descriptor(
    machine: &mut HandlerContext<'_>,
    lane: u32,
    handle: u64,
) -> Result<Descriptor, FaultKind> {
    let bytes = Descriptor::BYTES as u64;
    let illegal = FaultKind::IllegalAddress { address: handle, bytes: bytes as u32, write: false };
    if !handle.is_multiple_of(Descriptor::ALIGN) {
        return Err(illegal);
    }
    let at = machine.resolve(memory::space_code(Space::Global), lane, handle, bytes, false)?;
    Descriptor::from_bytes(&at.read()).ok_or(illegal)
}

/// A lane's 32-bit operand.
fn operand<T: Lane>(machine: &HandlerContext<'_>, ins: &Ins, i: usize, lane: u32) -> T {
    machine.regs.lane(ins.a[i], lane)
}

/// A lane's handle.
fn handle(machine: &HandlerContext<'_>, ins: &Ins, lane: u32) -> u64 {
    operand(machine, ins, 0, if memory::is_formula(ins) { 0 } else { lane })
}

/// Bits of a tag that say of a read's results, the first lowest, that nothing reads them.
const UNREAD: u32 = 16;

/// What a tag says besides if nothing reads these results.
pub(crate) fn unread_tag(unread: impl Iterator<Item = bool>) -> u32 {
    unread.enumerate().fold(0, |tag, (i, unread)| tag | u32::from(unread) << (UNREAD + i as u32))
}

/// True if something reads result `i`.
fn is_wanted(ins: &Ins, i: usize) -> bool {
    ins.tag >> (UNREAD + i as u32) & 1 == 0
}

/// [`Ins::imm`] of a sample.
fn encoded(op: TextureOp) -> i64 {
    let level = match op.level {
        TextureLevel::First => 0,
        TextureLevel::Given => 1,
    };
    i64::from(op.dims)
        | i64::from(op.layered) << 8
        | i64::from(op.integer) << 9
        | i64::from(op.floats) << 10
        | op.gather.map_or(0, |channel| 1 << 11 | i64::from(channel) << 12)
        | level << 14
        | i64::from(op.cube) << 16
}

fn decoded(imm: i64) -> TextureOp {
    TextureOp {
        dims: imm as u8,
        layered: imm >> 8 & 1 != 0,
        integer: imm >> 9 & 1 != 0,
        floats: imm >> 10 & 1 != 0,
        gather: (imm >> 11 & 1 != 0).then_some((imm >> 12 & 3) as u8),
        level: match imm >> 14 & 1 {
            0 => TextureLevel::First,
            _ => TextureLevel::Given,
        },
        cube: imm >> 16 & 1 != 0,
    }
}

/// Where an object is that can be read as a whole; `None` also for what is no place for one.
fn descriptor_address(machine: &mut HandlerContext<'_>, ins: &Ins, handle: u64) -> Option<Checked> {
    let aligned = handle.is_multiple_of(Descriptor::ALIGN);
    let bytes = Descriptor::BYTES as u64;
    aligned.then(|| machine.device_memory(Some(memory::site(ins)), handle, bytes, false))?
}

/// Which operands an instruction has.
#[derive(Clone, Copy)]
struct Shape {
    dims: usize,
    /// Number of the first coordinate: behind the handle, and the layer if there is one.
    first: usize,
}

impl Shape {
    fn of(op: TextureOp) -> Self {
        Self { dims: usize::from(op.dims), first: 1 + usize::from(op.layered) }
    }
}

/// Where a lane reads.
fn point(machine: &HandlerContext<'_>, ins: &Ins, op: TextureOp, lane: u32) -> Point {
    let Shape { dims, first } = Shape::of(op);
    let behind = first + dims;
    let layer = if op.layered { operand::<u32>(machine, ins, 1, lane) } else { 0 };
    let mut bits = [0; 3];
    for (axis, bits) in bits.iter_mut().enumerate().take(dims) {
        *bits = operand::<u32>(machine, ins, first + axis, lane);
    }
    let level = match op.level {
        TextureLevel::First => 0.0,
        TextureLevel::Given if op.integer => operand::<i32>(machine, ins, behind, lane) as f32,
        TextureLevel::Given => operand::<f32>(machine, ins, behind, lane),
    };
    Point { layer, bits, level }
}

/// Reads a texture, in vectors for this of the processors below.
struct Tex<const VECTORS: u8>;

const NO_VECTORS: u8 = 0;
const AVX2: u8 = 1;
const AVX512: u8 = 2;

impl<const VECTORS: u8> Body for Tex<VECTORS> {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let all = active(machine, ins);
        let left = match VECTORS {
            AVX512 => warp::read(machine, ins, Target::Avx512, all),
            AVX2 => warp::read(machine, ins, Target::Avx2, all),
            _ => all,
        };
        if left == 0 {
            return Step::Next;
        }
        each(machine, ins, left)
    }
}

/// Reads for one lane of `m` after the other.
#[cold]
fn each(machine: &mut HandlerContext<'_>, ins: &Ins, m: u32) -> Step {
    let op = decoded(ins.imm);
    for lane in lanes(m) {
        let handle = handle(machine, ins, lane);
        let d = match descriptor(machine, lane, handle) {
            Ok(d) => d,
            Err(kind) => return machine.fail(lane, kind),
        };
        let point = point(machine, ins, op, lane);
        match sample::read(machine, lane, &d, op, point) {
            Ok(channels) => {
                for (offset, value) in ins.d.iter().zip(channels) {
                    machine.regs.set_lane::<u32>(*offset, lane, value);
                }
            }
            Err(kind) => return machine.fail(lane, kind),
        }
    }
    Step::Next
}

/// The handler of a read of a texture, and its constant.
pub(crate) fn sample(op: TextureOp, target: Target) -> (Handler, i64) {
    let t = Rare(Target::Baseline);
    let run = match target {
        Target::Avx512 => versions::<Tex<AVX512>, Tex<AVX512>>(t),
        Target::Avx2 => versions::<Tex<AVX2>, Tex<AVX2>>(t),
        Target::Baseline | Target::Scalar => versions::<Tex<NO_VECTORS>, Tex<NO_VECTORS>>(t),
    };
    (run, encoded(op))
}

struct Query<const WHAT: u8>;

impl<const WHAT: u8> Body for Query<WHAT> {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = active(machine, ins);
        let mut found = None;
        for lane in lanes(m) {
            let value = match found {
                Some(value) => value,
                None => {
                    let handle = handle(machine, ins, lane);
                    let d = match descriptor(machine, lane, handle) {
                        Ok(d) => d,
                        Err(kind) => return machine.fail(lane, kind),
                    };
                    match WHAT {
                        0 => d.width,
                        1 => d.height,
                        2 => d.depth,
                        4 => u32::from(d.levels),
                        _ => u32::from(d.normalized),
                    }
                }
            };
            // One object is asked once, unless an account is kept of each lane's accesses.
            found = (memory::is_formula(ins) && machine.check.is_none()).then_some(value);
            machine.regs.set_lane::<u32>(ins.d[0], lane, value);
        }
        Step::Next
    }
}

/// The handler of a question about an object.
pub(crate) fn query(what: TextureQuery) -> Handler {
    let t = Rare(Target::Baseline);
    match what {
        TextureQuery::Width => versions::<Query<0>, Query<0>>(t),
        TextureQuery::Height => versions::<Query<1>, Query<1>>(t),
        TextureQuery::Depth => versions::<Query<2>, Query<2>>(t),
        TextureQuery::Normalized => versions::<Query<3>, Query<3>>(t),
        TextureQuery::Levels => versions::<Query<4>, Query<4>>(t),
    }
}
