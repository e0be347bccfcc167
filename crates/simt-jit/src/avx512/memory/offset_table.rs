//! Offset tables: accesses of a full warp whose lanes have the same offsets share one vector of
//! offsets and its checks (common subexpressions of address vectors).
//!
//! Which accesses share them is known (`simt::analysis::address`). How far the lanes are above the lowest of
//! them, the *pattern*, is measured at the first access of a block that has it, and kept on the stack. From
//! then on an access is checked by its lowest address and by how much the pattern spans, which are two
//! numbers, and moves what lies at the kept distances from one pointer.
//!
//! Deliberately absent: warps that are not whole, and patterns that last longer than a block.
//!
//! Invariant: what is kept of a pattern that code cannot use spans [`NONE`] bytes, so that each
//! check fails.

use crate::asm::assembler::{Label, X, at, repeated};
use crate::frame_layout::{
    A, C, D, Field, K1, K2, LANE_ADDRESSES, LANE_OFFSET_BYTES, LANE_OFFSET_SLOTS, LANE_OFFSETS, Z0,
    Z1, Z2, Z3, field,
};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::memory::access::{Address, MemAccess, range_end, range_start};
use crate::operands::{Value, move_code, store_code, xmm, ymm};
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::address::{AddressShape, BlockAddresses, LinearSum, SharedOffsets};
use simt::ir::op::Width;

/// What lies where lanes' addresses say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 16 bytes for each of the first 8, 16 or 32 lanes: distances are numbers of 32 bits.
    Rows(usize),
    /// A number of bytes a lane, four lanes' one behind the other: distances of the eight *lines* are
    /// numbers of 64 bits.
    Lines(i32),
}

/// Bytes of a row.
pub(crate) const ROW_BYTES: i32 = 16;
/// Lines of a warp, and lanes of one.
pub(crate) const LINES: usize = 8;
const LANES_OF_LINE: i32 = 4;

/// In what is kept of a pattern, behind the distances: the lowest address less what the access it
/// was measured at adds to the root, and bytes from the lowest address to the end.
const LOWEST: i32 = 128;
const SPAN: i32 = LOWEST + 8;
/// Bytes that patterns do not reach.
const NONE: u64 = i64::MAX as u64;
/// Bits of the spans that patterns may have: no sum of an address and one of them wraps.
const SPAN_BITS: i32 = 40;

/// What code has made of the shapes of a block's addresses.
#[derive(Default)]
pub(crate) struct OffsetTables {
    block: usize,
    /// What is kept at present.
    measured: [Option<(usize, Kind)>; LANE_OFFSET_SLOTS],
    /// The slot that is next to be used again.
    next: usize,
}

impl<'a> Compiler<'a> {
    /// Begins with the unmasked version of a block, of which nothing is measured yet.
    pub(crate) fn begin_addresses(&mut self, block: usize) {
        self.offset_tables = OffsetTables { block, ..OffsetTables::default() };
    }

    /// What is known of the addresses of the block under construction, in its unmasked version.
    pub(crate) fn addresses(&self) -> Option<&'a BlockAddresses> {
        let here =
            !self.masked && self.isa == SimdIsa::Avx512 && self.offset_tables.block == self.block;
        here.then(|| &self.f.blocks[self.block].addresses)
    }

    /// The same of one access.
    pub(crate) fn shape(&self, index: usize) -> Option<&'a AddressShape> {
        self.addresses()?.shapes.get(&index)
    }

    /// The offsets that an access shares with others.
    pub(crate) fn shared(&self, index: usize) -> Option<&'a SharedOffsets> {
        self.shape(index)?.shared.as_ref()
    }

    /// Measures the pattern of an access if that is not done; its slot. Code that branches away for
    /// one access must come behind this for all that it makes: others rely on it.
    pub(crate) fn measured(
        &mut self,
        shared: &SharedOffsets,
        mem: MemAccess,
        kind: Kind,
        address: Value,
    ) -> usize {
        let this = Some((shared.root, kind));
        let known = self.offset_tables.measured.iter().position(|kept| *kept == this);
        known.unwrap_or_else(|| {
            let slot = self.pattern_slot();
            self.offset_tables.measured[slot] = this;
            self.measure(mem, kind, address, &shared.more, slot);
            slot
        })
    }

    /// Checks an access by its pattern, and goes elsewhere if it cannot be made so. The lowest
    /// lane's place is in RCX then, as a pointer; gives back where the distances are on the stack.
    pub(crate) fn pattern(
        &mut self,
        shared: &SharedOffsets,
        mem: MemAccess,
        kind: Kind,
        address: Value,
        elsewhere: Label,
    ) -> i32 {
        let slot = self.measured(shared, mem, kind, address);
        self.check_pattern(mem, &shared.more, slot, elsewhere);
        pattern_at(slot, 0)
    }

    /// A slot whose pattern may be forgotten.
    pub(crate) fn pattern_slot(&mut self) -> usize {
        let late = |slot: &usize| self.fragments.is_late(pattern_at(*slot, 0));
        let behind = |n: usize| (self.offset_tables.next + n) % LANE_OFFSET_SLOTS;
        let mut slots = (0..LANE_OFFSET_SLOTS).map(behind).filter(|slot| !late(slot));
        // Fewer loads are late than there are slots.
        let slot = slots.next().unwrap_or(0);
        self.offset_tables.next = (slot + 1) % LANE_OFFSET_SLOTS;
        self.offset_tables.measured[slot] = None;
        slot
    }

    /// Measures a pattern at an access that adds so much to its root.
    fn measure(
        &mut self,
        mem: MemAccess,
        kind: Kind,
        address: Value,
        more: &LinearSum,
        slot: usize,
    ) {
        let width = if mem.wide { Width::W64 } else { Width::W32 };
        // In K1: what of it code cannot use.
        let end = match kind {
            Kind::Rows(lanes) => {
                self.measure_rows(address, lanes, slot);
                ROW_BYTES
            }
            Kind::Lines(bytes) => {
                self.measure_lines(address, width, bytes, slot);
                LANES_OF_LINE * bytes
            }
        };
        let kept = |offset: i32| X::from(at(Register::RSP, pattern_at(slot, offset)));
        let (ecx, edx) = (Register::ECX, Register::EDX);
        for (to, from) in [(C, Z2), (D, Z3)] {
            match kind {
                Kind::Rows(_) => {
                    let low = to.full_register32();
                    self.a.op(Code::EVEX_Vmovd_rm32_xmm, &[low.into(), xmm(from).into()])
                }
                Kind::Lines(_) => {
                    self.a.op(Code::EVEX_Vmovq_rm64_xmm, &[to.into(), xmm(from).into()])
                }
            };
        }
        self.a.op(Code::Sub_r64_rm64, &[D.into(), C.into()]);
        self.a.op(Code::Mov_rm64_r64, &[kept(SPAN), D.into()]);
        self.a.op(Code::Shr_rm64_imm8, &[D.into(), X::I(SPAN_BITS)]);
        self.a.op(Code::VEX_Kmovw_r32_kr, &[Register::EAX.into(), K1.into()]);
        self.a.op(Code::Or_r64_rm64, &[A.into(), D.into()]);
        // What follows leaves the flags alone.
        self.a.op(Code::Mov_r64_rm64, &[D.into(), kept(SPAN)]);
        self.a.op(Code::Lea_r64_m, &[D.into(), at(D, end).into()]);
        self.a.load_constant(A, NONE);
        self.a.op(Code::Cmovne_r64_rm64, &[D.into(), A.into()]);
        self.a.op(Code::Mov_rm64_r64, &[kept(SPAN), D.into()]);
        if more.as_constant() != Some(0) {
            self.sum_in(more, D);
            match mem.wide {
                true => self.a.op(Code::Sub_r64_rm64, &[C.into(), D.into()]),
                false => self.a.op(Code::Sub_r32_rm32, &[ecx.into(), edx.into()]),
            };
        }
        self.a.op(Code::Mov_rm64_r64, &[kept(LOWEST), C.into()]);
    }

    /// Keeps the distances of rows. The lowest and the highest place are in Z2 and Z3 then, and what
    /// cannot be used in K1.
    fn measure_rows(&mut self, address: Value, lanes: usize, slot: usize) {
        let parts = if lanes == 32 { 2 } else { 1 };
        for (to, extreme) in [(Z2, EXTREMES_32[0]), (Z3, EXTREMES_32[1])] {
            let first = self.rows_part(address, 0, lanes, Z0);
            let second = self.rows_part(address, parts - 1, lanes, Z1);
            self.a.op(extreme[0], &[to.into(), first.into(), second.into()]);
            let from = ymm(Z0).into();
            let upper = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
            self.a.op(upper, &[from, to.into(), X::I(1)]);
            self.a.op(extreme[1], &[ymm(to).into(), ymm(to).into(), from]);
            self.extreme_of_eight(to, extreme);
            self.extreme_of_pairs(to, extreme, 0xb1);
        }
        self.a.op(Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, &[Z0.into(), xmm(Z2).into()]);
        let low_bits = repeated(self.a.constant(&(ROW_BYTES - 1).to_le_bytes()));
        for part in 0..parts {
            let from = self.rows_part(address, part, lanes, Z1);
            let subtract = Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32;
            self.a.op(subtract, &[Z1.into(), from.into(), Z0.into()]);
            let to = at(Register::RSP, pattern_at(slot, 64 * part as i32));
            self.a.op(store_code(Width::W32), &[to.into(), Z1.into()]);
            let found = if part == 0 { K1 } else { K2 };
            let test = Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32;
            self.a.op(test, &[found.into(), Z1.into(), low_bits.into()]);
        }
        if parts == 2 {
            self.a.op(Code::VEX_Korw_kr_kr_kr, &[K1.into(), K1.into(), K2.into()]);
        }
    }

    /// 16 lanes' addresses of rows, those of the first eight twice if no others count: in a
    /// register, the one given if they are in none.
    fn rows_part(&mut self, address: Value, part: usize, lanes: usize, to: Register) -> Register {
        let from = self.part_in(address, part, Width::W32, to);
        if lanes >= 16 {
            return from;
        }
        let twice = Code::EVEX_Vshufi64x2_zmm_k1z_zmm_zmmm512b64_imm8;
        self.a.op(twice, &[to.into(), from.into(), from.into(), X::I(0x44)]);
        to
    }

    /// Checks a global access by lines whose pattern nothing else has: there is nothing to measure.
    /// Gives back where the lines' addresses are on the stack.
    pub(crate) fn check_lines(&mut self, mem: MemAccess, address: Value, elsewhere: Label) -> i32 {
        let (lines, bytes) = (Z1, mem.total);
        self.lines(address, Width::W64, bytes);
        self.lay_out(lines, LANE_ADDRESSES);
        if !self.ablation.bounds {
            self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Ranges).into()]);
            let add = Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64;
            let mut first = lines;
            if mem.offset != 0 {
                let offset = repeated(self.a.constant(&i64::from(mem.offset).to_le_bytes()));
                self.a.op(add, &[Z0.into(), lines.into(), offset.into()]);
                first = Z0;
            }
            // As in `check`: ranges have no sign. Neither has what is not below their start, so that
            // its end does not wrap.
            let below = Code::EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8;
            let start = repeated(range_start(mem.site));
            self.a.op(below, &[K2.into(), first.into(), start.into(), X::I(1)]);
            self.a.op(Code::VEX_Korw_kr_kr_kr, &[K1.into(), K1.into(), K2.into()]);
            let span = i64::from(LANES_OF_LINE * bytes);
            let span = repeated(self.a.constant(&span.to_le_bytes()));
            self.a.op(add, &[Z0.into(), first.into(), span.into()]);
            let above = Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8;
            let end = repeated(range_end(mem.site));
            self.a.op(above, &[K2.into(), Z0.into(), end.into(), X::I(6)]);
            self.a.op(Code::VEX_Korw_kr_kr_kr, &[K1.into(), K1.into(), K2.into()]);
            self.or_misaligned(lines, bytes);
        }
        self.a.op(Code::VEX_Kortestw_kr_kr, &[K1.into(), K1.into()]);
        self.a.jump(Code::Jne_rel32_64, elsewhere);
        self.count(mem, 32 * mem.total);
        LANE_ADDRESSES
    }

    /// Adds those of eight numbers to K1 that are not multiples of `bytes` bytes; uses K2.
    fn or_misaligned(&mut self, numbers: Register, bytes: i32) {
        let low_bits = repeated(self.a.constant(&(i64::from(bytes) - 1).to_le_bytes()));
        let test = Code::EVEX_Vptestmq_kr_k1_zmm_zmmm512b64;
        self.a.op(test, &[K2.into(), numbers.into(), low_bits.into()]);
        self.a.op(Code::VEX_Korw_kr_kr_kr, &[K1.into(), K1.into(), K2.into()]);
    }

    /// The eight lines' first addresses in Z1; what is not in lines in K1. Uses Z0, Z2 and
    /// Z3.
    fn lines(&mut self, address: Value, width: Width, bytes: i32) {
        self.differ_in_quads(Address::Lanes(address), width, bytes);
        if width == Width::W64 {
            self.load_picks(width, Z1, [0, 4, 8, 12, 0, 0, 0, 0].into_iter());
            self.a.op(move_code(width), &[Z2.into(), Z1.into()]);
            for (pair, to) in [(0, Z1), (1, Z2)] {
                let first = self.part_in(address, 2 * pair, width, Z0);
                let second = self.part(address, 2 * pair + 1);
                let pick = Code::EVEX_Vpermi2q_zmm_k1z_zmm_zmmm512b64;
                self.a.op(pick, &[to.into(), first.into(), second]);
            }
            let join = Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8;
            self.a.op(join, &[Z1.into(), Z1.into(), ymm(Z2).into(), X::I(1)]);
        } else {
            let first = self.part_in(address, 0, width, Z0);
            self.load_picks(width, Z1, (0..16).map(|n| 4 * (n % LINES)));
            let second = self.part(address, 1);
            let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
            self.a.op(pick, &[Z1.into(), first.into(), second]);
            self.a.op(Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256, &[Z1.into(), ymm(Z1).into()]);
        }
    }

    /// Keeps the distances of lines, as [`Self::measure_rows`] does those of rows.
    fn measure_lines(&mut self, address: Value, width: Width, bytes: i32, slot: usize) {
        self.lines(address, width, bytes);
        for (to, extreme) in [(Z2, EXTREMES_64[0]), (Z3, EXTREMES_64[1])] {
            let from = ymm(Z0).into();
            let upper = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
            self.a.op(upper, &[from, Z1.into(), X::I(1)]);
            self.a.op(extreme[1], &[ymm(to).into(), ymm(Z1).into(), from]);
            self.extreme_of_eight(to, extreme);
        }
        self.a.op(Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, &[Z0.into(), xmm(Z2).into()]);
        let subtract = Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64;
        self.a.op(subtract, &[Z1.into(), Z1.into(), Z0.into()]);
        let to = at(Register::RSP, pattern_at(slot, 0));
        self.a.op(store_code(Width::W64), &[to.into(), Z1.into()]);
        self.or_misaligned(Z1, bytes);
    }

    /// Of the low half of a register, the lowest or the highest of its four pairs of 32 bits, or of
    /// numbers of 64 bits: in the low slice, where it stands twice. Uses Z0.
    fn extreme_of_eight(&mut self, to: Register, extreme: [Code; 3]) {
        let upper = Code::EVEX_Vextracti32x4_xmmm128_k1z_ymm_imm8;
        self.a.op(upper, &[xmm(Z0).into(), ymm(to).into(), X::I(1)]);
        self.a.op(extreme[2], &[xmm(to).into(), xmm(to).into(), xmm(Z0).into()]);
        self.extreme_of_pairs(to, extreme, 0x4e);
    }

    /// The extremes of a register's low slice and of the same shuffled. Uses Z0.
    fn extreme_of_pairs(&mut self, to: Register, extreme: [Code; 3], shuffle: u8) {
        let how = X::I(i32::from(shuffle as i8));
        let code = Code::EVEX_Vpshufd_xmm_k1z_xmmm128b32_imm8;
        self.a.op(code, &[xmm(Z0).into(), xmm(to).into(), how]);
        self.a.op(extreme[2], &[xmm(to).into(), xmm(to).into(), xmm(Z0).into()]);
    }

    /// Checks an access that adds so much to the root of a pattern that is kept; its lowest place
    /// is in RCX then, as a pointer.
    fn check_pattern(&mut self, mem: MemAccess, more: &LinearSum, slot: usize, elsewhere: Label) {
        let kept = |offset: i32| at(Register::RSP, pattern_at(slot, offset));
        if mem.shared {
            self.sum_in(more, C);
            self.a.op(Code::Add_r32_rm32, &[Register::ECX.into(), kept(LOWEST).into()]);
            if mem.offset != 0 {
                self.a.op(Code::Add_rm64_imm32, &[C.into(), X::I(mem.offset)]);
            }
        } else {
            self.sum_in(&more.clone().plus(&LinearSum::of(mem.offset.into())), C);
            self.a.op(Code::Add_r64_rm64, &[C.into(), kept(LOWEST).into()]);
        }
        if self.ablation.bounds {
            // Whether it is a pattern matters all the same.
            let upper = kept(SPAN + 4);
            self.a.op(Code::Cmp_rm32_imm32, &[upper.into(), X::I((NONE >> 32) as i32)]);
            self.a.jump(Code::Je_rel32_64, elsewhere);
            return self.point(mem);
        }
        self.a.op(Code::Test_rm8_imm8, &[Register::CL.into(), X::I(mem.total - 1)]);
        self.a.jump(Code::Jne_rel32_64, elsewhere);
        if mem.shared {
            self.a.op(Code::Mov_r64_rm64, &[A.into(), kept(SPAN).into()]);
            self.a.op(Code::Add_r64_rm64, &[A.into(), C.into()]);
            self.a.op(Code::Cmp_r64_rm64, &[A.into(), field(Field::SharedBytes).into()]);
            self.a.jump(Code::Ja_rel32_64, elsewhere);
            return self.point(mem);
        }
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Ranges).into()]);
        // As in `check`: ranges have no sign.
        self.a.op(Code::Cmp_r64_rm64, &[C.into(), range_start(mem.site).into()]);
        self.a.jump(Code::Jl_rel32_64, elsewhere);
        self.a.op(Code::Mov_r64_rm64, &[A.into(), range_end(mem.site).into()]);
        self.a.op(Code::Sub_r64_rm64, &[A.into(), C.into()]);
        self.a.op(Code::Cmp_r64_rm64, &[A.into(), kept(SPAN).into()]);
        self.a.jump(Code::Jl_rel32_64, elsewhere);
        self.check_writable(mem, elsewhere);
        self.count(mem, 32 * mem.total);
    }
}

/// The lowest and the highest of numbers: all of a register, its low half, its low slice.
const EXTREMES_32: [[Code; 3]; 2] = [
    [
        Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
        Code::EVEX_Vpminud_ymm_k1z_ymm_ymmm256b32,
        Code::EVEX_Vpminud_xmm_k1z_xmm_xmmm128b32,
    ],
    [
        Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
        Code::EVEX_Vpmaxud_ymm_k1z_ymm_ymmm256b32,
        Code::EVEX_Vpmaxud_xmm_k1z_xmm_xmmm128b32,
    ],
];
const EXTREMES_64: [[Code; 3]; 2] = [
    [
        Code::EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64,
        Code::EVEX_Vpminuq_ymm_k1z_ymm_ymmm256b64,
        Code::EVEX_Vpminuq_xmm_k1z_xmm_xmmm128b64,
    ],
    [
        Code::EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64,
        Code::EVEX_Vpmaxuq_ymm_k1z_ymm_ymmm256b64,
        Code::EVEX_Vpmaxuq_xmm_k1z_xmm_xmmm128b64,
    ],
];

/// Where what is kept of a pattern is on the stack.
pub(crate) fn pattern_at(slot: usize, offset: i32) -> i32 {
    LANE_OFFSETS + LANE_OFFSET_BYTES * slot as i32 + offset
}

/// Where a distance is: of the lane or the line of a number.
pub(crate) fn distance(base: i32, kind: Kind, number: usize) -> MemoryOperand {
    let bytes = match kind {
        Kind::Rows(_) => 4,
        Kind::Lines(_) => 8,
    };
    at(Register::RSP, base + bytes * number as i32)
}
