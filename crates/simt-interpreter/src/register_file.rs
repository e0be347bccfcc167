//! Register file: the registers of one function in one warp.

use simt::kernel::WARP_LANES;
use simt::launch_shape::HALF_LANES;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m128i, __m256, __m256i, __m512, __m512i};

/// Alignment of vector registers: a cache line, so that no access splits one.
pub(crate) const FILE_ALIGN: usize = 64;
/// Bytes of a scalar's place: the widest scalar.
pub(crate) const SCALAR_BYTES: u32 = 16;

/// Most bytes of a lane.
const LANE_BYTES_MAX: usize = 16;
/// Bytes of the widest register.
const REGISTER_BYTES_MAX: usize = LANE_BYTES_MAX * WARP_LANES;
/// Bytes of a file behind its last register: an access of any width at any operand lies in the file.
pub(crate) const SLACK_BYTES: u32 = REGISTER_BYTES_MAX as u32 + SCALAR_BYTES;

/// Where an operand is in the register file of the function that the decoder works on. What it makes of
/// it has [`SLACK_BYTES`] of the file behind it, of any type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand(u32);

impl Operand {
    /// For an instruction without such an operand: the file's start.
    pub(crate) const NONE: Self = Self(0);

    /// The operand at an offset in a file whose registers take `bytes`, to which the slack comes.
    pub(crate) fn new(offset: u32, bytes: u32) -> Self {
        assert!(offset < bytes, "an operand at {offset} of {bytes} bytes");
        Self(offset)
    }

    /// A number in the place of an operand, for handlers that have no register there.
    pub(crate) const fn of_number(number: u32) -> Self {
        Self(number)
    }

    /// The opposite of [`Self::of_number`].
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Of a scalar for the lower half of the warp: the upper half's.
    pub(crate) fn upper_half(self) -> Self {
        Self(self.0 + SCALAR_BYTES)
    }

    /// The `i`-th entry of the list of operands that this one is.
    ///
    /// # Safety
    /// The decoder made the list, with more than `i` entries, for the function whose registers these are.
    #[inline(always)]
    pub(crate) unsafe fn entry(self, registers: Registers, i: usize) -> Self {
        // SAFETY: by contract.
        Self(unsafe { registers.0.add(self.0 as usize).cast::<u32>().add(i).read_unaligned() })
    }
}

/// Plain data of a lane, or of several.
///
/// # Safety
/// Every bit pattern is a value, and every byte is part of it.
pub(crate) unsafe trait Lane: Copy {
    /// The value whose first bytes these are.
    #[inline(always)]
    fn of_bytes(bytes: &[u8; LANE_BYTES_MAX]) -> Self {
        const { assert!(size_of::<Self>() <= LANE_BYTES_MAX) };
        // SAFETY: it has no more bytes, and any bits are a value.
        unsafe { std::mem::transmute_copy(bytes) }
    }
}
macro_rules! lanes {
    ($($ty:ty)*) => {
        $(
            // SAFETY: numbers have no invalid bit patterns.
            unsafe impl Lane for $ty {}
        )*
    };
}
lanes! { u8 i8 u16 i16 u32 i32 u64 i64 u128 f32 f64 }
// SAFETY: there is nothing between its elements.
unsafe impl<T: Lane, const N: usize> Lane for [T; N] {}
// Several lanes at a time.
#[cfg(target_arch = "x86_64")]
lanes! { __m128i __m256i __m256 __m512i __m512 }

/// The same bits as another type.
#[inline(always)]
pub(crate) fn recast<A: Lane, B: Lane>(bits: A) -> B {
    const { assert!(size_of::<A>() == size_of::<B>()) };
    // SAFETY: both are plain data of one size.
    unsafe { std::mem::transmute_copy(&bits) }
}

/// The registers of the function that runs.
///
/// Accesses are safe: an operand has the slack of its function's file behind it, and what runs an
/// instruction ([`crate::handler_context::Handler`]) gives it the registers of its function.
#[derive(Clone, Copy)]
pub(crate) struct Registers(*mut u8);

impl Registers {
    /// Before a function runs.
    pub(crate) const NONE: Self = Self(std::ptr::null_mut());

    /// The registers in a file that native code was given.
    ///
    /// # Safety
    /// [`Self::base`] of a file that still exists.
    pub(crate) unsafe fn at(base: *mut u8) -> Self {
        Self(base)
    }

    /// The file's first byte.
    pub(crate) fn base(self) -> *mut u8 {
        self.0
    }

    /// Where the lanes are, all of which have room.
    pub(crate) fn pointer<T: Lane>(self, at: Operand) -> *mut T {
        const { assert!(size_of::<T>() <= LANE_BYTES_MAX) };
        self.0.wrapping_add(at.0 as usize).cast()
    }

    /// Where something is that lies a number of bytes behind an operand.
    #[inline(always)]
    fn place<T: Lane>(self, at: Operand, behind: usize) -> *mut T {
        assert!(behind + size_of::<T>() <= REGISTER_BYTES_MAX);
        self.0.wrapping_add(at.0 as usize + behind).cast()
    }

    #[inline(always)]
    fn get<T: Lane>(self, at: Operand, behind: usize) -> T {
        // SAFETY: the file has as many bytes behind each operand; any bits are lanes.
        unsafe { self.place::<T>(at, behind).read_unaligned() }
    }

    #[inline(always)]
    fn set<T: Lane>(self, at: Operand, behind: usize, value: T) {
        // SAFETY: as in `get`.
        unsafe { self.place::<T>(at, behind).write_unaligned(value) }
    }

    /// Reads `N` lanes.
    #[inline(always)]
    pub(crate) fn read<T: Lane, const N: usize>(self, at: Operand) -> [T; N] {
        self.get(at, 0)
    }

    /// Writes `N` lanes.
    #[inline(always)]
    pub(crate) fn write<T: Lane, const N: usize>(self, at: Operand, lanes: [T; N]) {
        self.set(at, 0, lanes);
    }

    /// Reads the lanes of 4 bytes from a number on that make a vector.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "for vectors of x86-64"))]
    #[inline(always)]
    pub(crate) fn vector<V: Lane>(self, at: Operand, first: usize) -> V {
        self.get(at, first % WARP_LANES * 4)
    }

    /// Reads one lane of a register.
    #[inline(always)]
    pub(crate) fn lane<T: Lane>(self, at: Operand, lane: u32) -> T {
        self.get(at, lane as usize % WARP_LANES * size_of::<T>())
    }

    /// Writes one lane of a register.
    #[inline(always)]
    pub(crate) fn set_lane<T: Lane>(self, at: Operand, lane: u32, value: T) {
        self.set(at, lane as usize % WARP_LANES * size_of::<T>(), value);
    }
}

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

/// Aligned memory for a function's registers.
pub(super) struct RegisterFile {
    memory: Box<[u8]>,
    /// Of the first byte that is aligned.
    start: usize,
}

impl RegisterFile {
    /// A file of `bytes`, `constants` in place, everything else zero.
    pub(super) fn new(bytes: usize, constants: &[(u32, Vec<u8>)]) -> Self {
        let memory = vec![0; bytes + FILE_ALIGN].into_boxed_slice();
        let mut file = Self { start: memory.as_ptr().align_offset(FILE_ALIGN), memory };
        for (at, bytes) in constants {
            file.bytes()[*at as usize..*at as usize + bytes.len()].copy_from_slice(bytes);
        }
        file
    }

    /// Its registers; the file stays where it is for its life.
    pub(super) fn registers(&mut self) -> Registers {
        Registers(self.bytes().as_mut_ptr())
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }

    fn view(&self) -> &[u8] {
        &self.memory[self.start..]
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
