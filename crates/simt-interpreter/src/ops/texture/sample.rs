//! Texture sampling at a point: mipmap levels, cube faces, filtering.
//!
//! Coordinates and filtering are those of CUDA's programming guide: texel centres lie at halves,
//! and the weights of neighbours, in a level and between levels, have 8 bits of fraction.

use crate::handler_context::HandlerContext;
use crate::ops::half::widen16;
use crate::ops::memory;
use simt::ir::op::{Space, TextureOp};
use simt::kernel::FaultKind;
use simt::runtime::texture::{AddressMode, Descriptor, LINEAR_OF_SRGB, Texel};

/// A texel's channels, as the bits of what the instruction asked for.
pub(super) type Channels = [u32; 4];

/// Bits of channel `number`: an f32, or an integer extended.
fn channel(texel: Texel, number: usize, bytes: &[u8], floats: bool, scaled: bool) -> u32 {
    // Of colours only: how much they cover is linear.
    let texel = match texel {
        Texel::Srgb8 if floats && scaled && number < 3 => {
            return LINEAR_OF_SRGB[usize::from(bytes[0])].to_bits();
        }
        Texel::Srgb8 => Texel::U8,
        texel => texel,
    };
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
        Texel::U8 | Texel::U16 | Texel::U32 | Texel::S32 | Texel::Srgb8 => bits,
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

/// Where an instruction reads.
pub(super) struct Point {
    /// Which layer, or which cube of several.
    pub(super) layer: u32,
    /// Coordinates as they are: f32, or s32 of texels.
    pub(super) bits: [u32; 3],
    /// The level; 0 is the first one.
    pub(super) level: f32,
}

/// Reads a texture.
pub(super) fn read(
    machine: &mut HandlerContext<'_>,
    lane: u32,
    d: &Descriptor,
    mut op: TextureOp,
    mut point: Point,
) -> Result<Channels, FaultKind> {
    if op.cube {
        let (face, s, t) = face(point.bits.map(f32::from_bits));
        point.layer = point.layer.saturating_mul(FACES).saturating_add(face);
        point.bits = [s.to_bits(), t.to_bits(), 0];
        (op.dims, op.layered) = (2, true);
    }
    let floats = floats(d, op);
    let (level, weight) = levels(d, point.level, d.blends_levels && floats && !op.integer);
    let mut at_level = |level| one_level(machine, lane, d.level(level), op, &point, floats);
    let first = at_level(level)?;
    // A weight of nothing must not make NaN of what lies there.
    if weight == 0.0 {
        return Ok(first);
    }
    let second = at_level(level + 1)?;
    Ok([0, 1, 2, 3].map(|i| between(weight, first[i], second[i])))
}

/// True if results are numbers that can be blended.
pub(super) fn floats(d: &Descriptor, op: TextureOp) -> bool {
    op.floats && (d.scaled || matches!(d.texel, Texel::F16 | Texel::F32))
}

/// A channel between two levels, the second of a weight.
pub(super) fn between(weight: f32, first: u32, second: u32) -> u32 {
    // A weight of nothing must not make NaN of what lies there.
    if weight == 0.0 {
        return first;
    }
    blend((1.0 - weight) * f32::from_bits(first) + weight * f32::from_bits(second))
}

/// Bits of a sum of weighted texels: every NaN is the same, as those of other instructions are.
fn blend(sum: f32) -> u32 {
    if sum.is_nan() { NAN } else { sum.to_bits() }
}

/// The NaN that arithmetic gives.
pub(super) const NAN: u32 = 0x7fff_ffff;

/// The level to read, and the weight of the next one.
pub(super) fn levels(d: &Descriptor, asked: f32, blends: bool) -> (u8, f32) {
    let last = f32::from(d.levels - 1);
    let [least, greatest] = d.level_range;
    // What is no number is the first level.
    let level = (asked + d.level_bias).max(least).min(greatest).min(last).max(0.0);
    if !blends {
        return (((level + 0.5).floor() as u8).min(d.levels - 1), 0.0);
    }
    let whole = level.floor();
    (whole as u8, ((level - whole) * 256.0).round() / 256.0)
}

/// Faces of a cube.
const FACES: u32 = 6;

/// The face of a cube that a direction meets, and where, as normalized coordinates.
fn face([x, y, z]: [f32; 3]) -> (u32, f32, f32) {
    let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
    let (face, m, s, t) = if ax >= ay && ax >= az {
        if x >= 0.0 { (0, ax, -z, -y) } else { (1, ax, z, -y) }
    } else if ay >= az {
        if y >= 0.0 { (2, ay, x, z) } else { (3, ay, x, -z) }
    } else if z >= 0.0 {
        (4, az, x, -y)
    } else {
        (5, az, -x, -y)
    };
    (face, (s / m + 1.0) / 2.0, (t / m + 1.0) / 2.0)
}

fn one_level(
    machine: &mut HandlerContext<'_>,
    lane: u32,
    d: Descriptor,
    op: TextureOp,
    point: &Point,
    floats: bool,
) -> Result<Channels, FaultKind> {
    let sizes = [d.width, d.height, d.depth];
    let (mut whole, mut real) = ([0i64; 3], [0f32; 3]);
    for axis in 0..usize::from(op.dims) {
        let bits = point.bits[axis];
        if op.integer {
            whole[axis] = i64::from(bits as i32);
            continue;
        }
        let scale = if d.normalized { sizes[axis] as f32 } else { 1.0 };
        let x = f32::from_bits(bits) * scale;
        real[axis] = if x.is_nan() { 0.0 } else { x };
        whole[axis] = real[axis].floor() as i64;
    }
    let layer = point.layer.min(d.depth - 1);
    let mut sample = Sample { machine, lane, d, op, layer };
    match op.gather {
        Some(channel) => sample.gathered(real, channel),
        None if d.linear && floats && !op.integer => sample.blended(real),
        None => sample.texel(whole),
    }
}

/// One read of one level of a texture.
struct Sample<'a, 'b> {
    machine: &'a mut HandlerContext<'b>,
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
        from.copy_to(&mut bytes);
        // What a texel lacks is 0, and its fourth channel 1.
        let one = if self.op.floats { 1f32.to_bits() } else { 1 };
        let mut channels = [0, 0, 0, one];
        let step = d.texel.bytes() as usize;
        for (i, channels) in channels.iter_mut().enumerate().take(usize::from(d.channels)) {
            *channels = channel(d.texel, i, &bytes[step * i..][..step], self.op.floats, d.scaled);
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
                at[axis] = at[axis].saturating_add(far as i64);
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
        Ok(sum.map(blend))
    }

    /// One channel of the four texels around a point, counterclockwise from the lower left.
    fn gathered(&mut self, coordinates: [f32; 3], channel: u8) -> Result<Channels, FaultKind> {
        let ([x, y, _], _) = Self::around(coordinates, 2);
        let mut all = [0; 4];
        let (right, above) = (x.saturating_add(1), y.saturating_add(1));
        for (slot, (x, y)) in all.iter_mut().zip([(x, above), (right, above), (right, y), (x, y)]) {
            *slot = self.texel([x, y, 0])?[usize::from(channel & 3)];
        }
        Ok(all)
    }
}
