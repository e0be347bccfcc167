//! Handlers of textures and surfaces: one lane after the other, every texel checked as any access.

mod sample;

use super::lanes::{Body, Rare, Target, active, versions};
use super::machine::{Handler, Ins, Machine, Step};
use super::memory::{self, lanes};
use sample::Point;
use simt::kernel::FaultKind;
use simt::op::{Outside, Space, SurfaceOp, TextureLevel, TextureOp, TextureQuery};
use simt::texture::Descriptor;

/// The object that a handle names.
fn descriptor(machine: &mut Machine<'_>, lane: u32, handle: u64) -> Result<Descriptor, FaultKind> {
    let bytes = Descriptor::BYTES as u64;
    let illegal = FaultKind::IllegalAddress { address: handle, bytes: bytes as u32, write: false };
    if !handle.is_multiple_of(Descriptor::ALIGN) {
        return Err(illegal);
    }
    let at = machine.resolve(memory::space_code(Space::Global), lane, handle, bytes, false)?;
    // SAFETY: `resolve` checked as many bytes.
    let object = unsafe { at.cast::<[u8; Descriptor::BYTES]>().read_unaligned() };
    Descriptor::from_bytes(&object).ok_or(illegal)
}

/// A lane's 32-bit operand.
///
/// # Safety
/// The instruction has so many sources, this one a register of `T`.
unsafe fn operand<T: Copy>(machine: &Machine<'_>, ins: &Ins, i: usize, lane: u32) -> T {
    // SAFETY: by contract.
    unsafe { machine.regs.add(ins.a[i] as usize).cast::<T>().add(lane as usize).read() }
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

struct Tex;

impl Body for Tex {
    unsafe fn run(machine: &mut Machine<'_>, ins: &Ins) -> Step {
        let op = decoded(ins.imm);
        let (dims, first) = (usize::from(op.dims), 1 + usize::from(op.layered));
        // SAFETY: the decoder gave a 64-bit handle, coordinates of 32 bits, as many as the
        // operation has, behind them the level, and four results of 32 bits.
        unsafe {
            for lane in lanes(active(machine, ins)) {
                let handle = operand::<u64>(machine, ins, 0, lane);
                let d = match descriptor(machine, lane, handle) {
                    Ok(d) => d,
                    Err(kind) => return machine.fail(lane, kind),
                };
                let layer = if op.layered { operand::<u32>(machine, ins, 1, lane) } else { 0 };
                let mut bits = [0; 3];
                for (axis, bits) in bits.iter_mut().enumerate().take(dims) {
                    *bits = operand::<u32>(machine, ins, first + axis, lane);
                }
                let behind = first + dims;
                let level = match op.level {
                    TextureLevel::First => 0.0,
                    TextureLevel::Given if op.integer => {
                        operand::<i32>(machine, ins, behind, lane) as f32
                    }
                    TextureLevel::Given => operand::<f32>(machine, ins, behind, lane),
                };
                let point = Point { layer, bits, level };
                match sample::read(machine, lane, &d, op, point) {
                    Ok(channels) => {
                        for (offset, value) in ins.d.iter().zip(channels) {
                            let d = machine.regs.add(*offset as usize).cast::<u32>();
                            d.add(lane as usize).write(value);
                        }
                    }
                    Err(kind) => return machine.fail(lane, kind),
                }
            }
        }
        Step::Next
    }
}

/// The handler of a read of a texture, and its constant.
pub(super) fn sample(op: TextureOp) -> (Handler, i64) {
    (versions::<Tex, Tex>(Rare(Target::Baseline)), encoded(op))
}

struct Query<const WHAT: u8>;

impl<const WHAT: u8> Body for Query<WHAT> {
    unsafe fn run(machine: &mut Machine<'_>, ins: &Ins) -> Step {
        // SAFETY: the decoder gave a 64-bit handle and a 32-bit result.
        unsafe {
            for lane in lanes(active(machine, ins)) {
                let handle = operand::<u64>(machine, ins, 0, lane);
                let d = match descriptor(machine, lane, handle) {
                    Ok(d) => d,
                    Err(kind) => return machine.fail(lane, kind),
                };
                let value = match WHAT {
                    0 => d.width,
                    1 => d.height,
                    2 => d.depth,
                    4 => u32::from(d.levels),
                    _ => u32::from(d.normalized),
                };
                let d = machine.regs.add(ins.d[0] as usize).cast::<u32>();
                d.add(lane as usize).write(value);
            }
        }
        Step::Next
    }
}

/// The handler of a question about an object.
pub(super) fn query(what: TextureQuery) -> Handler {
    let t = Rare(Target::Baseline);
    match what {
        TextureQuery::Width => versions::<Query<0>, Query<0>>(t),
        TextureQuery::Height => versions::<Query<1>, Query<1>>(t),
        TextureQuery::Depth => versions::<Query<2>, Query<2>>(t),
        TextureQuery::Normalized => versions::<Query<3>, Query<3>>(t),
        TextureQuery::Levels => versions::<Query<4>, Query<4>>(t),
    }
}

/// Most bytes one access of a surface moves: four registers of 32 bits, or two of 64.
const SURFACE_BYTES_MAX: usize = 32;

/// [`Ins::imm`] of an access to a surface.
fn encoded_surface(op: SurfaceOp) -> i64 {
    let outside = match op.outside {
        Outside::Trap => 0,
        Outside::Clamp => 1,
        Outside::Zero => 2,
    };
    i64::from(op.dims)
        | i64::from(op.layered) << 8
        | outside << 9
        | i64::from(op.bytes) << 16
        | i64::from(op.count) << 24
        | i64::from(op.width.bytes()) << 32
}

struct Surface<const STORE: bool>;

impl<const STORE: bool> Body for Surface<STORE> {
    unsafe fn run(machine: &mut Machine<'_>, ins: &Ins) -> Step {
        let field = |shift: u32| (ins.imm >> shift & 0xff) as usize;
        let (dims, layered) = (field(0), ins.imm >> 8 & 1 != 0);
        let outside = ins.imm >> 9 & 3;
        let (bytes, count, width) = (field(16), field(24), field(32));
        let total = (bytes * count) as i64;
        // SAFETY: the decoder gave a 64-bit handle, coordinates of 32 bits, as many as the
        // operation has, and registers of `width` bytes. Memory touched was checked by `resolve`.
        unsafe {
            for lane in lanes(active(machine, ins)) {
                let handle = operand::<u64>(machine, ins, 0, lane);
                let d = match descriptor(machine, lane, handle) {
                    Ok(d) => d,
                    Err(kind) => return machine.fail(lane, kind),
                };
                let first = 1 + usize::from(layered);
                let row = i64::from(d.width) * i64::from(d.texel_bytes());
                // The first coordinate counts bytes.
                let ends = [row - total, i64::from(d.height) - 1, i64::from(d.depth) - 1];
                let mut at = [0i64; 3];
                let mut inside = true;
                for axis in 0..dims {
                    let x = i64::from(operand::<i32>(machine, ins, first + axis, lane));
                    inside &= x >= 0 && x <= ends[axis];
                    at[axis] = x.clamp(0, ends[axis].max(0));
                }
                if layered {
                    let layer = i64::from(operand::<u32>(machine, ins, 1, lane));
                    inside &= layer <= ends[2];
                    at[2] = layer.min(ends[2]);
                }
                let address = d
                    .base
                    .wrapping_add(at[0] as u64)
                    .wrapping_add((at[1] as u64).wrapping_mul(d.row_bytes))
                    .wrapping_add((at[2] as u64).wrapping_mul(d.slice_bytes));
                if !inside && outside == 0 {
                    let bytes = total as u32;
                    let kind = FaultKind::IllegalAddress { address, bytes, write: STORE };
                    return machine.fail(lane, kind);
                }
                let mut value = [0u8; SURFACE_BYTES_MAX];
                let touched = inside || outside == 1;
                let mut pointer = std::ptr::null_mut();
                if touched {
                    let space = memory::space_code(Space::Global);
                    match machine.resolve(space, lane, address, total as u64, STORE) {
                        Ok(p) => pointer = p,
                        Err(kind) => return machine.fail(lane, kind),
                    }
                }
                if STORE {
                    let register = machine.regs.add(ins.a[first + dims] as usize);
                    let from = register.add(width * lane as usize);
                    if touched {
                        std::ptr::copy_nonoverlapping(from, pointer, bytes);
                    }
                    continue;
                }
                if touched {
                    std::ptr::copy_nonoverlapping(pointer, value.as_mut_ptr(), total as usize);
                }
                for k in 0..count {
                    let mut word = [0u8; 8];
                    word[..bytes].copy_from_slice(&value[k * bytes..][..bytes]);
                    let to = machine.regs.add(ins.d[k] as usize).add(width * lane as usize);
                    std::ptr::copy_nonoverlapping(word.as_ptr(), to, width);
                }
            }
        }
        Step::Next
    }
}

/// The handler of an unformatted access to a surface, and its constant.
pub(super) fn surface(op: SurfaceOp, store: bool) -> (Handler, i64) {
    let t = Rare(Target::Baseline);
    let run = match store {
        true => versions::<Surface<true>, Surface<true>>(t),
        false => versions::<Surface<false>, Surface<false>>(t),
    };
    (run, encoded_surface(op))
}
