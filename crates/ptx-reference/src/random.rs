//! Random numbers, the same on every machine.

/// A small generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed; near seeds give unlike numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number under `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of a list, which is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }

    /// Integers as programs meet them: small, near a power of two, or anything.
    pub fn integer(&mut self) -> u64 {
        let near = self.below(5).wrapping_sub(2);
        match self.below(5) {
            0 => near,
            1 => (1u64 << self.below(64)).wrapping_add(near),
            2 => (u64::MAX << self.below(64)).wrapping_add(near),
            3 => self.below(100),
            _ => self.bits(),
        }
    }

    /// Bits of an f64: ordinary numbers, corners, anything.
    pub fn f64_bits(&mut self) -> u64 {
        const CORNERS: [f64; 12] = [
            0.0,
            -0.0,
            1.0,
            -1.5,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            f64::MIN_POSITIVE,
            f64::MAX,
            5e-324,
            -2.2e-308,
            4_294_967_295.5,
        ];
        match self.below(4) {
            0 => CORNERS[self.below(CORNERS.len() as u64) as usize].to_bits(),
            1 => self.bits(),
            2 => ((self.below(4001) as f64 - 2000.0) / 16.0).to_bits(),
            // Exponents that meet.
            _ => self.bits() & 0x801f_ffff_ffff_ffff | (1020 + self.below(8)) << 52,
        }
    }

    /// Bits of an f32, likewise.
    pub fn f32_bits(&mut self) -> u32 {
        const CORNERS: [u32; 14] = [
            0x0000_0000,
            0x8000_0000,
            0x3f80_0000,
            0xbfc0_0000,
            0x7f80_0000,
            0xff80_0000,
            0x7fff_ffff,
            0x0080_0000,
            0x7f7f_ffff,
            0x0000_0001,
            0x807f_ffff,
            0x4f00_0000,
            0x5f80_0000,
            0x3f7f_ffff,
        ];
        match self.below(4) {
            0 => CORNERS[self.below(CORNERS.len() as u64) as usize],
            1 => self.bits() as u32,
            2 => ((self.below(4001) as f32 - 2000.0) / 16.0).to_bits(),
            _ => self.bits() as u32 & 0x80ff_ffff | (124 + self.below(8) as u32) << 23,
        }
    }
}
