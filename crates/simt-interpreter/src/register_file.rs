//! Register file: the registers of one function in one warp.

use simt::kernel::WARP_LANES;
use simt::launch_shape::HALF_LANES;

/// Alignment of vector registers: a cache line, so that no access splits one.
pub(crate) const FILE_ALIGN: usize = 64;
/// Bytes of a scalar's place: the widest scalar.
pub(crate) const SCALAR_BYTES: u32 = 16;

/// A register's places in the file, bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// All lanes.
    pub vector: Option<u32>,
    /// One value.
    pub scalar: Option<u32>,
    /// A predicate.
    pub mask: Option<u32>,
    /// Bytes a lane; 0 for predicates.
    pub bytes: u32,
    /// What a lane's value is more than that of the lane before, where there is one value.
    pub stride: i64,
    /// There are two values, one for each half of the warp: the upper one's place is
    /// [`SCALAR_BYTES`] behind the lower one's.
    pub halves: bool,
}

/// A value plus a number of strides, modulo the register's width.
fn stepped(value: i128, place: Place, steps: i64) -> i128 {
    let value = value.wrapping_add(i128::from(place.stride.wrapping_mul(steps)));
    match place.bytes {
        SCALAR_BYTES.. => value,
        bytes => value & ((1 << (8 * bytes)) - 1),
    }
}

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; FILE_ALIGN]);

/// Aligned memory for a function's registers.
pub(super) struct RegisterFile(Vec<Line>);

impl RegisterFile {
    /// A file of `bytes`, `constants` in place, everything else zero.
    pub(super) fn new(bytes: usize, constants: &[(u32, Vec<u8>)]) -> Self {
        let mut file = Self(vec![Line([0; FILE_ALIGN]); bytes.div_ceil(FILE_ALIGN)]);
        for (at, bytes) in constants {
            file.bytes()[*at as usize..*at as usize + bytes.len()].copy_from_slice(bytes);
        }
        file
    }

    /// The first byte; the file stays where it is for its life.
    pub(super) fn base(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    fn bytes(&mut self) -> &mut [u8] {
        let len = self.0.len() * FILE_ALIGN;
        // SAFETY: lines are plain bytes without padding, `len` of them in all.
        unsafe { std::slice::from_raw_parts_mut(self.base(), len) }
    }

    fn view(&self) -> &[u8] {
        let len = self.0.len() * FILE_ALIGN;
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), len) }
    }

    fn mask(&self, at: u32) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.view()[at as usize..at as usize + 4]);
        u32::from_le_bytes(bytes)
    }

    /// Takes over one register's values of the lanes in `mask` from another function's file.
    pub(super) fn adopt(&mut self, old: &Self, from: Place, to: Place, mask: u32) {
        if let (Some(from), Some(to)) = (from.mask, to.mask) {
            let value = (self.mask(to) & !mask) | (old.mask(from) & mask);
            self.bytes()[to as usize..to as usize + 4].copy_from_slice(&value.to_le_bytes());
        }
        let size = to.bytes as usize;
        let Some(at) = to.vector else { return };
        for lane in (0..WARP_LANES).filter(|l| mask >> l & 1 != 0) {
            // The scalar is the truth where there is one; its copies may be older.
            let upper = from.halves && lane >= HALF_LANES;
            let source = match (from.scalar, from.vector) {
                (Some(scalar), _) if upper => (scalar + SCALAR_BYTES) as usize,
                (Some(scalar), _) => scalar as usize,
                (None, Some(vector)) => vector as usize + lane * size,
                (None, None) => return,
            };
            let target = at as usize + lane * size;
            let mut value = [0; 16];
            value[..size].copy_from_slice(&old.view()[source..source + size]);
            if from.scalar.is_some() && from.stride != 0 {
                let steps = if upper { lane - HALF_LANES } else { lane };
                let more = from.stride.wrapping_mul(steps as i64) as i128;
                value = i128::from_le_bytes(value).wrapping_add(more).to_le_bytes();
            }
            self.bytes()[target..target + size].copy_from_slice(&value[..size]);
        }
    }

    /// The opposite: takes over one register's values of the lanes in `mask` from a file in which each
    /// lane has its own. False if they are not what the place here can hold: one value for all
    /// lanes, or one and its strides.
    pub(super) fn unite(&mut self, old: &Self, from: Place, to: Place, mask: u32) -> bool {
        if from.mask.is_some() || to.scalar.is_none() {
            self.adopt(old, from, to, mask);
            return true;
        }
        let (Some(own), Some(scalar)) = (from.vector, to.scalar) else { return true };
        let part_lanes = if to.halves { HALF_LANES } else { WARP_LANES };
        for part in 0..WARP_LANES / part_lanes {
            let lanes = part * part_lanes..(part + 1) * part_lanes;
            let first = |lane: usize| {
                let value = old.value(own as usize + lane * to.bytes as usize, to.bytes);
                stepped(value, to, -((lane % part_lanes) as i64))
            };
            let mut firsts = lanes.filter(|lane| mask >> lane & 1 != 0).map(first);
            // A part without lanes has no value that could be read.
            let Some(value) = firsts.next() else { continue };
            if firsts.any(|other| other != value) {
                return false;
            }
            self.put_scalar(scalar + part as u32 * SCALAR_BYTES, value);
        }
        let all_lanes = Place { scalar: None, ..to };
        self.adopt(old, from, all_lanes, mask);
        true
    }

    /// Fills a register that holds something of another one, which is `of` here: the first value of
    /// the warp's upper half, or all lanes' values, which are at `from` in the other file.
    pub(super) fn complete(&mut self, old: &Self, from: Place, of: Place, to: Place, mask: u32) {
        match (of.scalar, to.scalar) {
            // Halves have both values already.
            (Some(lower), Some(upper)) if !(of.halves && upper == lower + SCALAR_BYTES) => {
                let value = stepped(self.value(lower as usize, of.bytes), of, HALF_LANES as i64);
                self.put_scalar(upper, value);
            }
            (_, Some(_)) => {}
            (_, None) => self.adopt(old, from, to, mask),
        }
    }

    fn value(&self, at: usize, bytes: u32) -> i128 {
        let mut value = [0; SCALAR_BYTES as usize];
        let bytes = bytes as usize;
        value[..bytes].copy_from_slice(&self.view()[at..at + bytes]);
        i128::from_le_bytes(value)
    }

    fn put_scalar(&mut self, at: u32, value: i128) {
        let at = at as usize;
        self.bytes()[at..at + SCALAR_BYTES as usize].copy_from_slice(&value.to_le_bytes());
    }

    /// A number that nearly always changes when a register's values in the lanes of `mask` do.
    pub(super) fn fingerprint(&self, place: Place, mask: u32, seed: u64) -> u64 {
        let mix = |hash: u64, bytes: &[u8]| {
            bytes.chunks(8).fold(hash, |hash, chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                (hash ^ u64::from_le_bytes(word))
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(29)
            })
        };
        if let Some(at) = place.mask {
            return mix(seed, &(self.mask(at) & mask).to_le_bytes());
        }
        if let Some(at) = place.scalar {
            let values = if place.halves { 2 } else { 1 };
            let bytes = values * SCALAR_BYTES as usize;
            return mix(seed, &self.view()[at as usize..at as usize + bytes]);
        }
        let Some(at) = place.vector else { return seed };
        let (at, bytes) = (at as usize, place.bytes as usize);
        if mask == u32::MAX {
            return mix(seed, &self.view()[at..at + WARP_LANES * bytes]);
        }
        let lanes = (0..WARP_LANES).filter(|lane| mask >> lane & 1 != 0);
        lanes.fold(seed, |hash, lane| {
            let at = at + lane * bytes;
            mix(hash, &self.view()[at..at + bytes])
        })
    }

    /// Writes a 32-bit number or, to a predicate, whether it is not 0.
    pub(super) fn put(&mut self, place: Place, mask: u32, value: u32) {
        if let Some(at) = place.mask {
            let new = if value != 0 { mask } else { 0 };
            let all = (self.mask(at) & !mask) | new;
            self.bytes()[at as usize..at as usize + 4].copy_from_slice(&all.to_le_bytes());
        }
        if let Some(at) = place.scalar {
            self.bytes()[at as usize..at as usize + 4].copy_from_slice(&value.to_le_bytes());
        }
        if let Some(at) = place.vector {
            for lane in (0..WARP_LANES).filter(|l| mask >> l & 1 != 0) {
                let at = at as usize + lane * 4;
                self.bytes()[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}
