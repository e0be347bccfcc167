//! Surfaces: loads, stores and the addresses of reductions. Where nothing can fault, the places of
//! all lanes are found at once (`Places`); else each lane's access is checked by itself.

use super::{descriptor, descriptor_address, handle, operand};
use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::half::narrow16;
use crate::ops::map::{Body, Lane, Rare, Target, active, each, read, versions, write_pred_at};
use crate::ops::memory::{self, Checked, CheckedLanes, Element, lanes};
use simt::ir::op::{Outside, Space, SurfaceOp};
use simt::kernel::{FaultKind, WARP_LANES};
use simt::runtime::texture::{Descriptor, Texel};

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
    fn locate(
        self,
        machine: &mut HandlerContext<'_>,
        ins: &Ins,
        lane: u32,
        write: bool,
    ) -> Result<(Option<u64>, Descriptor), FaultKind> {
        let handle = handle(machine, ins, lane);
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
            let x = operand::<i32>(machine, ins, self.places() - self.dims + axis, lane);
            inside &= i64::from(x) >= 0 && i64::from(x) <= ends[axis];
            at[axis] = i64::from(x).clamp(0, ends[axis].max(0));
        }
        if self.layered {
            let layer = i64::from(operand::<u32>(machine, ins, 1, lane));
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

/// Where the lanes of an access are, all of which may be made.
struct Places {
    /// Of lanes that have something to access.
    memory: CheckedLanes,
    surface: Descriptor,
}

impl SurfaceAccess {
    /// Finds all lanes of `m` at once; `None` if they must be looked at one by one.
    #[inline(always)]
    fn locate_all(
        self,
        machine: &mut HandlerContext<'_>,
        ins: &Ins,
        m: u32,
        write: bool,
    ) -> Option<Places> {
        // An account is kept lane by lane.
        if machine.check.is_some() || !memory::is_formula(ins) {
            return None;
        }
        let at = descriptor_address(machine, ins, handle(machine, ins, 0))?;
        let d = Descriptor::from_bytes(&at.read())?;
        let texel = u64::from(d.texel_bytes());
        let (unit, total) = match self.channel {
            Some(_) => (texel, texel),
            None => (1, (self.bytes * self.count) as u64),
        };
        let row = u64::from(d.width) * texel;
        let [_, rows, slices] = self.used(&d);
        let last_row = u64::from(rows - 1).checked_mul(d.row_bytes)?;
        let last_slice = u64::from(slices - 1).checked_mul(d.slice_bytes)?;
        let bytes = last_slice.checked_add(last_row)?.checked_add(row)?;
        // Offsets have 32 bits, and an access is as aligned as its first lane's place and steps.
        let step = match rows > 1 {
            true if slices > 1 => d.row_bytes | d.slice_bytes,
            true => d.row_bytes,
            false if slices > 1 => d.slice_bytes,
            false => 0,
        };
        let aligned = total.is_power_of_two() && (d.base | step) & (total - 1) == 0;
        let site = memory::site(ins) + 1;
        let simple = aligned && row >= total && bytes <= i32::MAX as u64;
        (simple && machine.memory.allows_at(site, d.base, bytes, write)).then_some(())?;
        let axis = |axis: usize| -> [u32; WARP_LANES] {
            let used = axis < self.dims || axis == 2 && self.layered;
            let place = if axis < self.dims { self.places() - self.dims + axis } else { 1 };
            if used { read::<u32, WARP_LANES>(machine, ins.a[place]) } else { [0; WARP_LANES] }
        };
        // What is below 0 is far above as an unsigned number.
        let ends = [((row - total) / unit) as u32, rows - 1, slices - 1];
        let steps = [unit as u32, d.row_bytes as u32, d.slice_bytes as u32];
        let mut offsets = [0u32; WARP_LANES];
        let mut outside = [0u32; WARP_LANES];
        let mut crooked = 0;
        for number in 0..3 {
            let x = axis(number);
            let (end, step) = (ends[number], steps[number]);
            // Layers are unsigned; coordinates below 0 are clamped to it.
            let signed = number < self.dims;
            outside = each(|i| outside[i] | u32::from(x[i] > end));
            let clamped: [u32; WARP_LANES] =
                each(|i| if signed && (x[i] as i32) < 0 { 0 } else { x[i].min(end) });
            offsets = each(|i| offsets[i].wrapping_add(clamped[i].wrapping_mul(step)));
        }
        let mut touched = 0;
        for lane in 0..WARP_LANES {
            touched |= (1 - outside[lane]) << lane;
            crooked |= (offsets[lane] & (total as u32 - 1)) & 0u32.wrapping_sub(m >> lane & 1);
        }
        touched &= m;
        if crooked != 0 || self.outside == TRAP && touched != m {
            return None;
        }
        let touched = if self.outside == CLAMP { m } else { touched };
        let at = each(|i| d.base + u64::from(offsets[i]));
        // SAFETY: all of the surface may be accessed, and these lanes' coordinates are inside.
        let memory = unsafe { CheckedLanes::new(at, touched, total, write) };
        Some(Places { memory, surface: d })
    }

    /// Texels, rows and slices that its coordinates can name.
    fn used(self, d: &Descriptor) -> [u32; 3] {
        let rows = if self.dims >= 2 { d.height } else { 1 };
        let slices = if self.dims == 3 || self.layered { d.depth } else { 1 };
        [d.width, rows, slices]
    }
}

/// Loads `COUNT` elements a lane.
#[inline(always)]
fn load_all<R: Lane, M: Element<R>>(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    (places, m): (&Places, u32),
    count: usize,
    zero: M,
) {
    for k in 0..count {
        for lane in lanes(m) {
            let value = match places.memory.mask() >> lane & 1 {
                1 => places.memory.of(lane).fetch(k),
                _ => zero,
            };
            machine.regs.set_lane(ins.d[k], lane, value.widen());
        }
    }
}

/// Bytes of a surface.
fn surface_bytes(
    machine: &mut HandlerContext<'_>,
    lane: u32,
    address: u64,
    bytes: usize,
    write: bool,
) -> Result<Checked, FaultKind> {
    machine.resolve(memory::space_code(Space::Global), lane, address, bytes as u64, write)
}

struct SurfaceLoad;

impl Body for SurfaceLoad {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let access = SurfaceAccess::of(ins);
        let SurfaceAccess { bytes, count, width, .. } = access;
        let m = active(machine, ins);
        if let Some(places) = access.locate_all(machine, ins, m, false) {
            let all = (&places, m);
            match (bytes, width) {
                (1, 2) => load_all::<u16, u8>(machine, ins, all, count, 0),
                (2, 2) => load_all::<u16, u16>(machine, ins, all, count, 0),
                (4, 4) => load_all::<u32, u32>(machine, ins, all, count, 0),
                (8, 8) => load_all::<u64, u64>(machine, ins, all, count, 0),
                _ => return load_each(machine, ins),
            }
            return Step::Next;
        }
        load_each(machine, ins)
    }
}

/// Loads one lane's elements after the other.
fn load_each(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    let access = SurfaceAccess::of(ins);
    let SurfaceAccess { bytes, count, width, .. } = access;
    for lane in lanes(active(machine, ins)) {
        let found = access.locate(machine, ins, lane, false).and_then(|(address, _)| {
            let point = |at| surface_bytes(machine, lane, at, bytes * count, false);
            address.map(point).transpose()
        });
        let found = match found {
            Ok(found) => found,
            Err(kind) => return machine.fail(lane, kind),
        };
        let mut value = [0u8; SURFACE_BYTES_MAX];
        if let Some(found) = found {
            found.copy_to(&mut value);
        }
        for k in 0..count {
            let mut word = [0u8; 8];
            word[..bytes].copy_from_slice(&value[k * bytes..][..bytes]);
            let word = u64::from_le_bytes(word);
            match width {
                2 => machine.regs.set_lane(ins.d[k], lane, word as u16),
                4 => machine.regs.set_lane(ins.d[k], lane, word as u32),
                _ => machine.regs.set_lane(ins.d[k], lane, word),
            }
        }
    }
    Step::Next
}

struct SurfaceStore;

impl Body for SurfaceStore {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let access = SurfaceAccess::of(ins);
        let m = active(machine, ins);
        if let Some(places) = access.locate_all(machine, ins, m, true) {
            access.store_all(machine, ins, &places);
            return Step::Next;
        }
        for lane in lanes(active(machine, ins)) {
            let (address, d) = match access.locate(machine, ins, lane, true) {
                Ok((Some(address), d)) => (address, d),
                Ok((None, _)) => continue,
                Err(kind) => return machine.fail(lane, kind),
            };
            let mut value = access.value(machine, ins, lane).to_le_bytes();
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
            match surface_bytes(machine, lane, at, bytes, true) {
                Ok(to) => to.copy_from(&value),
                Err(kind) => return machine.fail(lane, kind),
            }
        }
        Step::Next
    }
}

impl SurfaceAccess {
    /// The value that a lane stores.
    #[inline(always)]
    fn value(self, machine: &HandlerContext<'_>, ins: &Ins, lane: u32) -> u64 {
        let register = ins.a[self.places()];
        match self.width {
            2 => machine.regs.lane::<u16>(register, lane).into(),
            4 => machine.regs.lane::<u32>(register, lane).into(),
            _ => machine.regs.lane::<u64>(register, lane),
        }
    }

    /// Stores a value a lane, of places that were found for writing.
    #[inline(always)]
    fn store_all(self, machine: &HandlerContext<'_>, ins: &Ins, places: &Places) {
        let texel = places.surface.texel;
        let (mut bytes, mut element) = (self.bytes, 0);
        if let Some(channel) = self.channel {
            if channel >= usize::from(places.surface.channels) {
                return;
            }
            (bytes, element) = (texel.bytes() as usize, channel);
        }
        for lane in lanes(places.memory.mask()) {
            let value = self.value(machine, ins, lane);
            let value = match self.channel {
                Some(_) => u64::from(converted(texel, value as u32)),
                None => value,
            };
            let to = places.memory.of(lane);
            match bytes {
                1 => to.put::<u64, _>(element, value as u8),
                2 => to.put::<u64, _>(element, value as u16),
                4 => to.put::<u64, _>(element, value as u32),
                _ => to.put(element, value),
            }
        }
    }
}

/// A value as the format has it: a float, or an integer that is clamped.
fn converted(texel: Texel, value: u32) -> u32 {
    let signed = |least: i32, most: i32| (value as i32).clamp(least, most) as u32;
    match texel {
        Texel::U8 | Texel::Srgb8 => value.min(u8::MAX.into()),
        Texel::U16 => value.min(u16::MAX.into()),
        Texel::S8 => signed(i8::MIN.into(), i8::MAX.into()),
        Texel::S16 => signed(i16::MIN.into(), i16::MAX.into()),
        Texel::F16 => u32::from(narrow16(f32::from_bits(value))),
        Texel::U32 | Texel::S32 | Texel::F32 => value,
    }
}

struct SurfaceAddress;

impl Body for SurfaceAddress {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let access = SurfaceAccess::of(ins);
        let (mut touched, mut signed) = (0, 0);
        for lane in lanes(active(machine, ins)) {
            let (address, d) = match access.locate(machine, ins, lane, true) {
                Ok(found) => found,
                Err(kind) => return machine.fail(lane, kind),
            };
            touched |= u32::from(address.is_some()) << lane;
            let is_signed = matches!(d.texel, Texel::S8 | Texel::S16 | Texel::S32);
            signed |= u32::from(is_signed) << lane;
            machine.regs.set_lane::<u64>(ins.d[0], lane, address.unwrap_or(0));
        }
        write_pred_at(machine, ins, ins.d[1], touched);
        write_pred_at(machine, ins, ins.d[2], signed);
        Step::Next
    }
}

/// The handler of an unformatted load, and its constant.
pub(crate) fn surface_load(op: SurfaceOp, target: Target) -> (Handler, i64) {
    (versions::<SurfaceLoad, SurfaceLoad>(target), encoded_surface(op))
}

/// The handler of a store of one value, and its constant.
pub(crate) fn surface_store(op: SurfaceOp, target: Target) -> (Handler, i64) {
    (versions::<SurfaceStore, SurfaceStore>(target), encoded_surface(op))
}

/// The handler that finds where a read-modify-write goes, and its constant.
pub(crate) fn surface_address(op: SurfaceOp) -> (Handler, i64) {
    (versions::<SurfaceAddress, SurfaceAddress>(Rare(Target::Baseline)), encoded_surface(op))
}
