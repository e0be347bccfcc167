//! Permuted accesses of a full warp at speculated lane offsets: whole registers are loaded or
//! stored, and permutes bring each lane its element.
//!
//! Gathers and scatters take as long as their lanes one by one; what lies in a few lines of memory
//! is there with a few loads. A lane's elements are seen as words of 32 bits, and memory as *chunks*
//! of 16 of them, counted from a multiple of their size as far as the guess knows one.
//!
//! Invariants: every byte from the lowest to the highest that a lane accesses has been checked; no
//! byte outside of these is touched, and none is written that is no lane's. Stores are of lanes
//! whose elements do not overlap.

use crate::asm::assembler::{Label, X, at};
use crate::frame_layout::{C, K1, K2, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::memory::access::MemAccess;
use crate::operands::{Value, move_code};
use crate::regalloc::allocate::parts;
use iced_x86::{Code, Register};
use simt::ir::address::LaneOffsets;
use simt::ir::op::Width;
use simt::ir::vector::VectorInst;
use simt::kernel::WARP_LANES;
use std::collections::{BTreeMap, BTreeSet};

/// Words of a chunk.
const WORDS: usize = 16;
/// Bytes of it.
const CHUNK: i64 = 64;
/// Chunks, or registers, that one permuted register may come from: two permutations and a blend.
const SOURCES_MAX: usize = 4;
/// Chunks of one access: scatters are not slower than more of them.
const CHUNKS_MAX: usize = 8;
/// Bytes from the lowest to the highest.
const REACH_MAX: i64 = 1 << 14;

/// The instruction that picks words of two registers by number.
const PICK_OF_TWO: Code = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
/// The one that picks words of one.
const PICK: Code = Code::EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32;
const LOAD: Code = Code::EVEX_Vmovdqu32_zmm_k1z_zmmm512;

/// By word: the number of the chunk or register that it is in, and which of its words it is.
type Picks = [Option<(usize, usize)>; WORDS];

/// A known arrangement of a warp's elements in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permutation {
    /// By lane: bytes from the lowest lane's.
    lanes: [i64; WARP_LANES],
    /// Bytes from the lowest to behind the highest.
    reach: i64,
    /// Bytes from a chunk's start to the lowest.
    lead: i64,
    width: Width,
    elements: usize,
}

impl Permutation {
    /// The arrangement of an access, if it is worth it.
    pub(crate) fn of(mem: MemAccess, pattern: &LaneOffsets) -> Option<Self> {
        let access = mem.access;
        let whole = u32::from(access.bytes) == access.width.bytes()
            && matches!(access.width, Width::W32 | Width::W64);
        let total = i64::from(mem.total);
        let lowest = *pattern.steps.iter().min()?;
        let lanes = pattern.steps.map(|step| step - lowest);
        let reach = lanes.iter().max()? + total;
        let aligned = lanes.iter().all(|lane| lane % total == 0);
        if !whole || mem.local || !aligned || reach > REACH_MAX {
            return None;
        }
        let lead = if (1i64 << pattern.log.min(62)) % CHUNK == 0 {
            (lowest + i64::from(mem.offset)).rem_euclid(CHUNK)
        } else {
            0
        };
        let elements = usize::from(access.count);
        let made = Self { lanes, reach, lead, width: access.width, elements };
        let picks: Vec<Picks> = if mem.write {
            made.written()?.into_values().collect()
        } else {
            let parts = parts(made.width);
            (0..elements * parts).map(|n| made.loaded(n / parts, n % parts)).collect()
        };
        let worth = made.chunks().len() <= CHUNKS_MAX
            && picks.iter().all(|picks| sources(picks).len() <= SOURCES_MAX);
        worth.then_some(made)
    }

    /// Bytes that lane 0's address is above the lowest lane's.
    pub(crate) fn first(&self) -> i64 {
        self.lanes[0]
    }

    /// Words of an element.
    fn words(&self) -> usize {
        self.width.bytes() as usize / 4
    }

    /// The chunk that a word of a lane is in, and which one it is there.
    fn place(&self, lane: usize, word: usize) -> (usize, usize) {
        let at = (self.lead + self.lanes[lane]) as usize / 4 + word;
        (at / WORDS, at % WORDS)
    }

    fn chunks(&self) -> BTreeSet<usize> {
        let words = 0..self.elements * self.words();
        (0..WARP_LANES).flat_map(|lane| words.clone().map(move |w| self.place(lane, w).0)).collect()
    }

    /// Where the words of a part of an element are in memory.
    fn loaded(&self, element: usize, part: usize) -> Picks {
        let words = self.words();
        std::array::from_fn(|n| {
            let lane = part * (WORDS / words) + n / words;
            Some(self.place(lane, element * words + n % words))
        })
    }

    /// By chunk, where its words are in registers, which are numbered by elements and parts;
    /// `None` if lanes write the same.
    fn written(&self) -> Option<BTreeMap<usize, Picks>> {
        let mut made: BTreeMap<usize, Picks> = BTreeMap::new();
        for element in 0..self.elements {
            for part in 0..parts(self.width) {
                for (n, to) in self.loaded(element, part).into_iter().enumerate() {
                    let (chunk, word) = to?;
                    let from = (element * parts(self.width) + part, n);
                    if made.entry(chunk).or_insert([None; WORDS])[word].replace(from).is_some() {
                        return None;
                    }
                }
            }
        }
        Some(made)
    }

    /// The words of a chunk that have been checked.
    fn checked(&self, chunk: usize) -> u16 {
        let start = chunk as i64 * CHUNK - self.lead;
        mask(|n| (0..self.reach).contains(&(start + 4 * n as i64)))
    }
}

/// Words as the bits of a mask.
fn mask(is_in: impl Fn(usize) -> bool) -> u16 {
    (0..WORDS).filter(|n| is_in(*n)).fold(0, |mask, n| mask | 1 << n)
}

/// Where words come from.
fn sources(picks: &Picks) -> BTreeSet<usize> {
    picks.iter().flatten().map(|(source, _)| *source).collect()
}

impl Compiler<'_> {
    /// The arrangement of the access under construction, if there is one that is worth it.
    pub(crate) fn permutation(&self, mem: MemAccess) -> Option<Permutation> {
        let b = self.f.blocks.get(self.block).filter(|_| self.isa == SimdIsa::Avx512)?;
        Permutation::of(mem, b.addresses.shapes.get(&self.index)?.guess.as_ref()?)
    }

    /// Makes an access of a full warp by the pattern that its addresses have, and elsewhere if
    /// they have not; false if there is none.
    pub(crate) fn by_pattern(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Value,
        (apart, back): (Label, Label),
    ) -> bool {
        let Some(permutation) = self.permutation(mem) else { return false };
        let total = i64::from(mem.total);
        if permutation.lanes.iter().zip(0..).all(|(lane, n)| *lane == total * n) {
            // Whole elements one behind the other have better forms.
            return false;
        }
        let slow = self.interpreter_path(back);
        let first = permutation.first();
        self.arranged(mem, address, permutation.lanes.map(|lane| lane - first), apart);
        self.add_to_address(mem, i64::from(mem.offset) - first);
        self.check(mem, permutation.reach as i32, slow);
        self.count(mem, WARP_LANES as i32 * mem.total);
        self.move_permuted(inst, mem, &permutation, (C, first as i32));
        true
    }

    /// Moves what is accessed; lane 0's is at a register and a constant. Leaves RCX alone, and RDX.
    pub(crate) fn move_permuted(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        permutation: &Permutation,
        (base, offset): (Register, i32),
    ) {
        let lowest = offset - permutation.first() as i32 - permutation.lead as i32;
        let memory = |chunk: usize| at(base, lowest + CHUNK as i32 * chunk as i32);
        let count = parts(permutation.width);
        if mem.write {
            for (chunk, picks) in permutation.written().into_iter().flatten() {
                let from = self.pick_words(&picks, Z1, &mut |this, number, scratch| {
                    let value = this.value(inst.src[2 + number / count], permutation.width);
                    this.part_in(value, number % count, permutation.width, scratch)
                });
                let k = self.mask_of_words(mask(|n| picks[n].is_some()), K2);
                let code = Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm;
                let made = self.a.op(code, &[memory(chunk).into(), from.into()]);
                if let Some(k) = k {
                    made.set_op_mask(k);
                }
            }
            return;
        }
        for element in 0..permutation.elements {
            let place = self.dest(inst, &inst.dst[element]);
            for part in 0..count {
                let picks = permutation.loaded(element, part);
                let to = self.target(&place, part).unwrap_or(Z1);
                let made = self.pick_words(&picks, to, &mut |this, chunk, scratch| {
                    let k = this.mask_of_words(permutation.checked(chunk), K2);
                    let made = this.a.op(LOAD, &[scratch.into(), memory(chunk).into()]);
                    if let Some(k) = k {
                        made.set_op_mask(k);
                        made.set_zeroing_masking(true);
                    }
                    scratch
                });
                if self.target(&place, part) != Some(made) {
                    self.put(&place, part, move_code(permutation.width), &[made.into()]);
                }
            }
        }
    }

    /// A mask of words, if it is not all of them. Uses RAX.
    fn mask_of_words(&mut self, words: u16, to: Register) -> Option<Register> {
        if words == u16::MAX {
            return None;
        }
        self.a.op(Code::Mov_r32_imm32, &[Register::EAX.into(), X::I(i32::from(words))]);
        self.a.op(Code::VEX_Kmovw_kr_r32, &[to.into(), Register::EAX.into()]);
        Some(to)
    }

    /// Words picked from sources, which `load` gives by number, in the scratch register it is given
    /// or in their own: in `to`, or in the only source if they are what it has. Uses Z0, Z2, Z3.
    fn pick_words(
        &mut self,
        picks: &Picks,
        to: Register,
        load: &mut dyn FnMut(&mut Self, usize, Register) -> Register,
    ) -> Register {
        let all: Vec<usize> = sources(picks).into_iter().collect();
        if let [only] = all[..]
            && picks.iter().enumerate().all(|(n, pick)| pick.is_none_or(|(_, word)| word == n))
        {
            return load(self, only, to);
        }
        for (two, to) in all.chunks(2).zip([to, Z3]) {
            let number = |source: usize| two.iter().position(|s| *s == source);
            let word = |(source, word): (usize, usize)| Some(WORDS * number(source)? + word);
            let numbers = picks.iter().map(|pick| pick.and_then(word).unwrap_or(0));
            self.load_picks(Width::W32, to, numbers);
            let first = load(self, two[0], Z0);
            match two.get(1) {
                Some(second) => {
                    let second = load(self, *second, Z2);
                    self.a.op(PICK_OF_TWO, &[to.into(), first.into(), second.into()]);
                }
                None => {
                    self.a.op(PICK, &[to.into(), to.into(), first.into()]);
                }
            }
        }
        if let Some(others) = all.get(2..).filter(|others| !others.is_empty()) {
            let theirs = mask(|n| picks[n].is_some_and(|(source, _)| others.contains(&source)));
            if let Some(k) = self.mask_of_words(theirs, K1) {
                self.a.op(LOAD, &[to.into(), Z3.into()]).set_op_mask(k);
            }
        }
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simt::ir::op::{Access, Space};

    fn mem(count: u8, bytes: u8, write: bool) -> MemAccess {
        let width = if bytes == 8 { Width::W64 } else { Width::W32 };
        let access =
            Access { space: Space::Shared, bytes, signed: false, count, width, volatile: false };
        let total = i32::from(bytes) * i32::from(count);
        let (shared, local, offset, before, wide, site) = (true, false, 0, 0, false, 0);
        MemAccess { access, write, shared, local, total, offset, before, wide, site }
    }

    fn pattern(log: u32, of: impl Fn(i64) -> i64) -> LaneOffsets {
        LaneOffsets { log, steps: std::array::from_fn(|n| of(n as i64)) }
    }

    #[test]
    fn every_word_has_its_place() {
        let butterfly = pattern(9, |n| 8 * (2 * n - n % 4));
        let made = Permutation::of(mem(2, 4, true), &butterfly).unwrap();
        let written = made.written().unwrap();
        assert_eq!(written.len(), 8);
        assert_eq!(written[&0][..10].iter().flatten().count(), 8);
        // Lane 4 is behind a gap as long as four lanes.
        assert_eq!((made.place(4, 1), written[&1][1]), ((1, 1), Some((2, 4))));
        assert_eq!(made.loaded(1, 0)[4], Some((1, 1)));
    }

    #[test]
    fn a_store_to_one_place_is_no_permutation() {
        let pairs = pattern(9, |n| 4 * (n / 2));
        assert_eq!(Permutation::of(mem(1, 4, true), &pairs), None);
        assert!(Permutation::of(mem(1, 4, false), &pairs).is_some());
    }

    #[test]
    fn chunks_are_counted_from_their_multiples_and_end_where_lanes_do() {
        let shifted = pattern(6, |n| 8 * n + 40);
        let made = Permutation::of(mem(1, 4, false), &shifted).unwrap();
        assert_eq!((made.lead, made.chunks().len()), (40, 5));
        assert_eq!(made.checked(0), 0xfc00);
        assert_eq!(made.checked(4), 0x01ff);
        let unknown =
            Permutation::of(mem(1, 4, false), &LaneOffsets { log: 2, ..shifted }).unwrap();
        assert_eq!((unknown.lead, unknown.chunks().len()), (0, 4));
    }

    #[test]
    fn far_or_misaligned_lanes_are_not_permuted() {
        assert_eq!(Permutation::of(mem(1, 4, false), &pattern(9, |n| 128 * n)), None);
        assert_eq!(Permutation::of(mem(2, 4, false), &pattern(9, |n| 12 * n)), None);
    }
}
