//! Handlers of textures and surfaces: one lane after the other, every texel checked as any access.
//!
//! Coordinates and filtering are those of CUDA's programming guide: texel centres lie at halves,
//! and the weights of neighbours have 8 bits of fraction.

use super::half::widen16;
use super::lanes::{Body, Rare, Target, active, versions};
use super::machine::{Handler, Ins, Machine, Step};
use super::memory::{self, lanes};
use simt::kernel::FaultKind;
use simt::op::{Outside, Space, SurfaceOp, TextureOp, TextureQuery};
use simt::texture::{AddressMode, Descriptor, Texel};

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

/// A texel's channels, as the bits of what the instruction asked for.
type Channels = [u32; 4];

/// Bits of one channel: an f32, or an integer extended.
fn channel(texel: Texel, bytes: &[u8], floats: bool, scaled: bool) -> u32 {
    let mut word = [0; 4];
    word[..bytes.len()].copy_from_slice(bytes);
    let bits = u32::from_le_bytes(word);
    let number = |value: f32| value.to_bits();
    match texel {
        Texel::F32 => bits,
        Texel::F16 => number(widen16(bits as u16)),
        Texel::U8 if floats && scaled => number(bits as f32 / 255.0),
        Texel::U16 if floats && scaled => number(bits as f32 / 65535.0),
        Texel::S8 if floats && scaled => number((f32::from(bits as i8) / 127.0).max(-1.0)),
        Texel::S16 if floats && scaled => number((f32::from(bits as i16) / 32767.0).max(-1.0)),
        Texel::S8 => bits as i8 as i32 as u32,
        Texel::S16 => bits as i16 as i32 as u32,
        Texel::U8 | Texel::U16 | Texel::U32 | Texel::S32 => bits,
    }
}

/// Where a coordinate lands in `n` texels; `None` is the border.
fn wrapped(i: i64, n: u32, mode: AddressMode, normalized: bool) -> Option<u32> {
    let n = i64::from(n);
    let inside = match mode {
        AddressMode::Wrap if normalized => i.rem_euclid(n),
        AddressMode::Mirror if normalized => {
            let there = i.rem_euclid(2 * n);
            there.min(2 * n - 1 - there)
        }
        AddressMode::Border if i < 0 || i >= n => return None,
        _ => i.clamp(0, n - 1),
    };
    u32::try_from(inside).ok()
}

/// One read of a texture.
struct Sample<'a, 'b> {
    machine: &'a mut Machine<'b>,
    lane: u32,
    d: Descriptor,
    op: TextureOp,
    layer: u32,
}

impl Sample<'_, '_> {
    /// The texel at whole coordinates, which may lie outside.
    fn texel(&mut self, at: [i64; 3]) -> Result<Channels, FaultKind> {
        let d = self.d;
        let sizes = [d.width, d.height, d.depth];
        let mut inside = [0u32; 3];
        for axis in 0..usize::from(self.op.dims) {
            match wrapped(at[axis], sizes[axis], d.address[axis], d.normalized) {
                Some(i) => inside[axis] = i,
                None => return Ok(d.border.map(f32::to_bits)),
            }
        }
        if self.op.layered {
            inside[2] = self.layer;
        }
        let size = d.texel_bytes();
        let address = d
            .base
            .wrapping_add(u64::from(inside[0]) * u64::from(size))
            .wrapping_add(u64::from(inside[1]).wrapping_mul(d.row_bytes))
            .wrapping_add(u64::from(inside[2]).wrapping_mul(d.slice_bytes));
        let space = memory::space_code(Space::Global);
        let from = self.machine.resolve(space, self.lane, address, u64::from(size), false)?;
        let mut bytes = [0u8; 16];
        // SAFETY: `resolve` checked `size` bytes, at most 16.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), size as usize) };
        // What a texel lacks is 0, and its fourth channel 1.
        let one = if self.op.floats { 1f32.to_bits() } else { 1 };
        let mut channels = [0, 0, 0, one];
        let step = d.texel.bytes() as usize;
        for (i, channels) in channels.iter_mut().enumerate().take(usize::from(d.channels)) {
            *channels = channel(d.texel, &bytes[step * i..][..step], self.op.floats, d.scaled);
        }
        Ok(channels)
    }

    /// The texels around a point, and the weights of the farther ones.
    fn around(coordinates: [f32; 3], dims: usize) -> ([i64; 3], [f32; 3]) {
        let (mut first, mut weights) = ([0; 3], [0.0; 3]);
        for axis in 0..dims {
            let x = coordinates[axis] - 0.5;
            first[axis] = x.floor() as i64;
            weights[axis] = ((x - x.floor()) * 256.0).round() / 256.0;
        }
        (first, weights)
    }

    fn blended(&mut self, coordinates: [f32; 3]) -> Result<Channels, FaultKind> {
        let dims = usize::from(self.op.dims);
        let (first, weights) = Self::around(coordinates, dims);
        let mut sum = [0f32; 4];
        for corner in 0..1usize << dims {
            let (mut at, mut weight) = (first, 1.0);
            for axis in 0..dims {
                let far = corner >> axis & 1;
                at[axis] += far as i64;
                weight *= if far == 1 { weights[axis] } else { 1.0 - weights[axis] };
            }
            // A weight of nothing must not make NaN of what lies there.
            if weight != 0.0 {
                let texel = self.texel(at)?;
                for (sum, bits) in sum.iter_mut().zip(texel) {
                    *sum += weight * f32::from_bits(bits);
                }
            }
        }
        Ok(sum.map(f32::to_bits))
    }

    /// One channel of the four texels around a point, counterclockwise from the lower left.
    fn gathered(&mut self, coordinates: [f32; 3], channel: u8) -> Result<Channels, FaultKind> {
        let ([x, y, _], _) = Self::around(coordinates, 2);
        let mut all = [0; 4];
        for (slot, (x, y)) in all.iter_mut().zip([(x, y + 1), (x + 1, y + 1), (x + 1, y), (x, y)]) {
            *slot = self.texel([x, y, 0])?[usize::from(channel & 3)];
        }
        Ok(all)
    }
}

/// [`Ins::imm`] of a sample.
fn encoded(op: TextureOp) -> i64 {
    i64::from(op.dims)
        | i64::from(op.layered) << 8
        | i64::from(op.integer) << 9
        | i64::from(op.floats) << 10
        | op.gather.map_or(0, |channel| 1 << 11 | i64::from(channel) << 12)
}

fn decoded(imm: i64) -> TextureOp {
    TextureOp {
        dims: imm as u8,
        layered: imm >> 8 & 1 != 0,
        integer: imm >> 9 & 1 != 0,
        floats: imm >> 10 & 1 != 0,
        gather: (imm >> 11 & 1 != 0).then_some((imm >> 12 & 3) as u8),
    }
}

struct Tex;

impl Body for Tex {
    unsafe fn run(machine: &mut Machine<'_>, ins: &Ins) -> Step {
        let op = decoded(ins.imm);
        // SAFETY: the decoder gave a 64-bit handle, coordinates of 32 bits, as many as the
        // operation has, and four results of 32 bits.
        unsafe {
            for lane in lanes(active(machine, ins)) {
                let handle = operand::<u64>(machine, ins, 0, lane);
                let d = match descriptor(machine, lane, handle) {
                    Ok(d) => d,
                    Err(kind) => return machine.fail(lane, kind),
                };
                let skip = 1 + usize::from(op.layered);
                let layer = if op.layered { operand::<u32>(machine, ins, 1, lane) } else { 0 };
                let sizes = [d.width, d.height, d.depth];
                let (mut whole, mut real) = ([0i64; 3], [0f32; 3]);
                for axis in 0..usize::from(op.dims) {
                    if op.integer {
                        whole[axis] = i64::from(operand::<i32>(machine, ins, skip + axis, lane));
                    } else {
                        let x = operand::<f32>(machine, ins, skip + axis, lane);
                        let scale = if d.normalized { sizes[axis] as f32 } else { 1.0 };
                        real[axis] = if x.is_nan() { 0.0 } else { x * scale };
                        whole[axis] = real[axis].floor() as i64;
                    }
                }
                let layer = layer.min(d.depth - 1);
                let blends =
                    d.linear && !op.integer && op.floats && (d.scaled || is_float(d.texel));
                let mut sample = Sample { machine: &mut *machine, lane, d, op, layer };
                let found = match op.gather {
                    Some(channel) => sample.gathered(real, channel),
                    None if blends => sample.blended(real),
                    None => sample.texel(whole),
                };
                match found {
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

fn is_float(texel: Texel) -> bool {
    matches!(texel, Texel::F16 | Texel::F32)
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
