//! Handlers of textures and surfaces: one lane after the other, every texel checked as any access.

mod sample;

use crate::handler_context::{Handler, Ins, Machine, Step};
use crate::ops::half::narrow16;
use crate::ops::map::{Body, Rare, Target, active, versions, write_pred_at};
use crate::ops::memory::{self, lanes};
use crate::ops::texture::sample::Point;
use simt::ir::op::{Outside, Space, SurfaceOp, TextureLevel, TextureOp, TextureQuery};
use simt::kernel::FaultKind;
use simt::runtime::texture::{Descriptor, Texel};

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
pub(crate) fn sample(op: TextureOp) -> (Handler, i64) {
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

/// Most bytes one access of a surface moves: four registers of 32 bits, or two of 64.
const SURFACE_BYTES_MAX: usize = 32;

/// [`Ins::imm`] of an access to a surface.
fn encoded_surface(op: SurfaceOp) -> i64 {
    let outside = match op.outside {
        Outside::Trap => TRAP,
        Outside::Clamp => CLAMP,
        Outside::Zero => ZERO,
    };
    i64::from(op.dims)
        | i64::from(op.layered) << 8
        | outside << 9
        | i64::from(op.bytes) << 16
        | i64::from(op.count) << 24
        | i64::from(op.width.bytes()) << 32
        | op.channel.map_or(0, |channel| i64::from(channel) + 1) << 40
}

const TRAP: i64 = 0;
const CLAMP: i64 = 1;
const ZERO: i64 = 2;

/// An access to a surface, taken apart.
#[derive(Clone, Copy)]
struct SurfaceAccess {
    dims: usize,
    layered: bool,
    outside: i64,
    /// Of an element.
    bytes: usize,
    count: usize,
    /// Bytes of a register.
    width: usize,
    /// Formatted, and of this channel.
    channel: Option<usize>,
}

impl SurfaceAccess {
    fn of(ins: &Ins) -> Self {
        let field = |shift: u32| (ins.imm >> shift & 0xff) as usize;
        Self {
            dims: field(0),
            layered: ins.imm >> 8 & 1 != 0,
            outside: ins.imm >> 9 & 3,
            bytes: field(16),
            count: field(24),
            width: field(32),
            channel: field(40).checked_sub(1),
        }
    }

    /// Sources before the value.
    fn places(self) -> usize {
        1 + usize::from(self.layered) + self.dims
    }

    /// Where `bytes` of a lane's access are, or nothing where there is nothing to do; and the
    /// surface.
    ///
    /// # Safety
    /// The decoder gave a 64-bit handle and coordinates of 32 bits, as many as there are.
    unsafe fn locate(
        self,
        machine: &mut Machine<'_>,
        ins: &Ins,
        lane: u32,
        write: bool,
    ) -> Result<(Option<u64>, Descriptor), FaultKind> {
        // SAFETY: by contract.
        let handle = unsafe { operand::<u64>(machine, ins, 0, lane) };
        let d = descriptor(machine, lane, handle)?;
        let texel = i64::from(d.texel_bytes());
        // The first coordinate counts bytes, or texels.
        let (unit, total) = match self.channel {
            Some(_) => (texel, texel),
            None => (1, (self.bytes * self.count) as i64),
        };
        let row = i64::from(d.width) * texel;
        let ends = [(row - total) / unit, i64::from(d.height) - 1, i64::from(d.depth) - 1];
        let mut at = [0i64; 3];
        let mut inside = row >= total;
        for axis in 0..self.dims {
            // SAFETY: by contract.
            let x = unsafe { operand::<i32>(machine, ins, self.places() - self.dims + axis, lane) };
            inside &= i64::from(x) >= 0 && i64::from(x) <= ends[axis];
            at[axis] = i64::from(x).clamp(0, ends[axis].max(0));
        }
        if self.layered {
            // SAFETY: by contract.
            let layer = i64::from(unsafe { operand::<u32>(machine, ins, 1, lane) });
            inside &= layer <= ends[2];
            at[2] = layer.min(ends[2]);
        }
        let address = d
            .base
            .wrapping_add((at[0] * unit) as u64)
            .wrapping_add((at[1] as u64).wrapping_mul(d.row_bytes))
            .wrapping_add((at[2] as u64).wrapping_mul(d.slice_bytes));
        if !inside && self.outside == TRAP {
            return Err(FaultKind::IllegalAddress { address, bytes: total as u32, write });
        }
        Ok(((inside || self.outside == CLAMP).then_some(address), d))
    }
}

/// A pointer to bytes of a surface.
fn surface_pointer(
    machine: &mut Machine<'_>,
    lane: u32,
    address: u64,
    bytes: usize,
    write: bool,
) -> Result<*mut u8, FaultKind> {
    machine.resolve(memory::space_code(Space::Global), lane, address, bytes as u64, write)
}

struct SurfaceLoad;

impl Body for SurfaceLoad {
    unsafe fn run(machine: &mut Machine<'_>, ins: &Ins) -> Step {
        let access = SurfaceAccess::of(ins);
        let SurfaceAccess { bytes, count, width, .. } = access;
        // SAFETY: the decoder gave a handle, coordinates and registers of `width` bytes as the
        // access says. Memory touched was checked by `resolve`.
        unsafe {
            for lane in lanes(active(machine, ins)) {
                let found = access.locate(machine, ins, lane, false).and_then(|(address, _)| {
                    let point = |at| surface_pointer(machine, lane, at, bytes * count, false);
                    address.map(point).transpose()
                });
                let pointer = match found {
                    Ok(pointer) => pointer,
                    Err(kind) => return machine.fail(lane, kind),
                };
                let mut value = [0u8; SURFACE_BYTES_MAX];
                if let Some(pointer) = pointer {
                    std::ptr::copy_nonoverlapping(pointer, value.as_mut_ptr(), bytes * count);
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

struct SurfaceStore;

impl Body for SurfaceStore {
    unsafe fn run(machine: &mut Machine<'_>, ins: &Ins) -> Step {
        let access = SurfaceAccess::of(ins);
        // SAFETY: the decoder gave a handle, coordinates and a register of `width` bytes as the
        // access says. Memory touched was checked by `resolve`.
        unsafe {
            for lane in lanes(active(machine, ins)) {
                let (address, d) = match access.locate(machine, ins, lane, true) {
                    Ok((Some(address), d)) => (address, d),
                    Ok((None, _)) => continue,
                    Err(kind) => return machine.fail(lane, kind),
                };
                let register = machine.regs.add(ins.a[access.places()] as usize);
                let from = register.add(access.width * lane as usize);
                let mut value = [0u8; 8];
                std::ptr::copy_nonoverlapping(from, value.as_mut_ptr(), access.width);
                let (mut at, mut bytes) = (address, access.bytes);
                if let Some(channel) = access.channel {
                    if channel >= usize::from(d.channels) {
                        continue;
                    }
                    bytes = d.texel.bytes() as usize;
                    at = at.wrapping_add((channel * bytes) as u64);
                    let word = u32::from_le_bytes([value[0], value[1], value[2], value[3]]);
                    value[..4].copy_from_slice(&converted(d.texel, word).to_le_bytes());
                }
                match surface_pointer(machine, lane, at, bytes, true) {
                    Ok(to) => std::ptr::copy_nonoverlapping(value.as_ptr(), to, bytes),
                    Err(kind) => return machine.fail(lane, kind),
                }
            }
        }
        Step::Next
    }
}

/// A value as the format has it: a float, or an integer that is clamped.
fn converted(texel: Texel, value: u32) -> u32 {
    let signed = |least: i32, most: i32| (value as i32).clamp(least, most) as u32;
    match texel {
        Texel::U8 => value.min(u8::MAX.into()),
        Texel::U16 => value.min(u16::MAX.into()),
        Texel::S8 => signed(i8::MIN.into(), i8::MAX.into()),
        Texel::S16 => signed(i16::MIN.into(), i16::MAX.into()),
        Texel::F16 => u32::from(narrow16(f32::from_bits(value))),
        Texel::U32 | Texel::S32 | Texel::F32 => value,
    }
}

struct SurfaceAddress;

impl Body for SurfaceAddress {
    unsafe fn run(machine: &mut Machine<'_>, ins: &Ins) -> Step {
        let access = SurfaceAccess::of(ins);
        let (mut touched, mut signed) = (0, 0);
        // SAFETY: the decoder gave a handle and coordinates as the access says, a 64-bit result
        // and two predicates.
        unsafe {
            for lane in lanes(active(machine, ins)) {
                let (address, d) = match access.locate(machine, ins, lane, true) {
                    Ok(found) => found,
                    Err(kind) => return machine.fail(lane, kind),
                };
                touched |= u32::from(address.is_some()) << lane;
                let is_signed = matches!(d.texel, Texel::S8 | Texel::S16 | Texel::S32);
                signed |= u32::from(is_signed) << lane;
                let to = machine.regs.add(ins.d[0] as usize).cast::<u64>();
                to.add(lane as usize).write(address.unwrap_or(0));
            }
            write_pred_at(machine, ins, ins.d[1], touched);
            write_pred_at(machine, ins, ins.d[2], signed);
        }
        Step::Next
    }
}

/// The handler of an unformatted load, and its constant.
pub(crate) fn surface_load(op: SurfaceOp) -> (Handler, i64) {
    (versions::<SurfaceLoad, SurfaceLoad>(Rare(Target::Baseline)), encoded_surface(op))
}

/// The handler of a store of one value, and its constant.
pub(crate) fn surface_store(op: SurfaceOp) -> (Handler, i64) {
    (versions::<SurfaceStore, SurfaceStore>(Rare(Target::Baseline)), encoded_surface(op))
}

/// The handler that finds where a read-modify-write goes, and its constant.
pub(crate) fn surface_address(op: SurfaceOp) -> (Handler, i64) {
    (versions::<SurfaceAddress, SurfaceAddress>(Rare(Target::Baseline)), encoded_surface(op))
}
