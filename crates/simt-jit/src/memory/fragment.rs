//! Loads and stores of fragments (`wmma.load`, `wmma.store`) by a full warp whose lanes have one address: the whole matrix is
//! checked by one comparison. What an instruction set has no moves of whole lines for is moved lane by lane.

use crate::asm::assembler::{Label, X, at};
use crate::frame_layout::{A, C, D, FILE, Field, LANE_VALUES, SAVED_PAIR, SAVED_SCRATCH, field};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::memory::access::{MemAccess, range_end, range_start};
use crate::memory::lane_loop::{RESULTS, Slot, Turn};
use crate::operands::Value;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::fragment::{Fragment, Layout, Tile};
use simt::ir::op::{Access, Op, Width};
use simt::ir::vector::{Source, StorageClass, VectorInst};
use simt::kernel::WARP_LANES;

/// Sources of a load or store: address, offset, distance of lines, and values.
const BASE: usize = 0;
const DISTANCE: usize = 2;
pub(crate) const VALUES: usize = 3;

/// Where the matrix's start is kept as a pointer, and the distance of its lines.
const START: i32 = SAVED_PAIR;
const LINES: i32 = SAVED_PAIR + 8;

impl Compiler<'_> {
    /// Makes code for such a load or store; false if there is none.
    pub(crate) fn fragment(&mut self, inst: &VectorInst, fragment: Fragment, write: bool) -> bool {
        let Some(layout) = fragment.layout() else { return false };
        let plain = |s: &Source| matches!(s, Source::Vector(_) | Source::Imm(_));
        let whole = !self.masked && inst.guard.is_none();
        if !whole || !inst.src[VALUES..].iter().all(plain) || !self.has_lane_results(inst) {
            return false;
        }
        let (space, bytes, width) = (fragment.space, layout.piece_bytes(), layout.width);
        let count = layout.bytes() / bytes;
        let access = Access {
            space,
            bytes: bytes as u8,
            signed: false,
            count: count as u8,
            width,
            volatile: false,
        };
        let op = if write { Op::Store(access) } else { Op::Load(access) };
        let Some(mem) = self.mem(&VectorInst { op, ..inst.clone() }) else { return false };
        let mem = MemAccess { wide: true, ..mem };
        let back = self.a.label();
        let slow = self.interpreter_path(back);
        let [start, lines] = [START, LINES].map(|slot| at(Register::RSP, slot));
        self.number_of_all(inst.src[DISTANCE], mem, slow);
        self.a.op(Code::Mov_rm64_r64, &[lines.into(), C.into()]);
        self.number_of_all(inst.src[BASE], mem, slow);
        self.add_to_address(mem, mem.offset.into());
        self.a.op(Code::Mov_r64_rm64, &[D.into(), lines.into()]);
        self.check_rectangle(mem, layout.extent(), slow);
        self.count(mem, (32 * width.bytes()) as i32 * layout.registers() as i32);
        self.a.op(Code::Mov_rm64_r64, &[start.into(), C.into()]);
        for tile in &layout.tiles {
            let done = match self.isa {
                SimdIsa::Avx512 => self.move_tile(inst, &layout, tile, write),
                SimdIsa::Avx2 => !write && self.load_turned_tile(inst, &layout, tile),
            };
            for n in (0..tile.registers).filter(|_| !done) {
                self.move_lanes(inst, &layout, (tile, n), write);
            }
        }
        self.a.bind(back);
        true
    }

    /// What all lanes have of a source, in RCX; goes to `slow` if they differ.
    fn number_of_all(&mut self, source: Source, mem: MemAccess, slow: Label) {
        let Source::Vector(r) = source else { return self.number_in(source, mem, C) };
        if self.f.storage[r.index()] != StorageClass::Vector {
            return self.number_in(Source::Scalar(r), mem, C);
        }
        if self.isa == SimdIsa::Avx512 {
            let value = self.value(source, Width::W64);
            return self.arranged(mem, value, [0; WARP_LANES], slow);
        }
        let Value::Memory(base, lanes) = self.lanes_in_file(r) else { return };
        let [first, all, differ] = [Register::YMM0, Register::YMM1, Register::YMM2];
        let xor = Code::VEX_Vpxor_ymm_ymm_ymmm256;
        self.a.op(Code::Mov_r64_rm64, &[C.into(), at(base, lanes).into()]);
        self.a.op(Code::VEX_Vpbroadcastq_ymm_xmmm64, &[first.into(), at(base, lanes).into()]);
        self.a.op(xor, &[all.into(), all.into(), all.into()]);
        for four in 0..8 {
            self.a.op(xor, &[differ.into(), first.into(), at(base, lanes + 32 * four).into()]);
            let or = Code::VEX_Vpor_ymm_ymm_ymmm256;
            self.a.op(or, &[all.into(), all.into(), differ.into()]);
        }
        self.a.op(Code::VEX_Vptest_ymm_ymmm256, &[all.into(), all.into()]);
        self.a.jump(Code::Jne_rel32_64, slow);
    }

    /// Makes a number in RCX, that of the first of the lines, a pointer, if all of them may be
    /// accessed; their distance in RDX stays.
    fn check_rectangle(&mut self, mem: MemAccess, (lines, line): (u32, u32), slow: Label) {
        let kept = at(Register::RSP, SAVED_SCRATCH);
        self.a.op(Code::Mov_r64_rm64, &[A.into(), C.into()]);
        self.a.op(Code::Or_r64_rm64, &[A.into(), D.into()]);
        self.a.op(Code::Test_rm8_imm8, &[Register::AL.into(), X::I(mem.total - 1)]);
        self.a.jump(Code::Jne_rel32_64, slow);
        // Upwards, and not around the end of the address space.
        self.a.op(Code::Mov_r64_rm64, &[A.into(), D.into()]);
        self.a.op(Code::Shr_rm64_imm8, &[A.into(), X::I(40)]);
        self.a.jump(Code::Jne_rel32_64, slow);
        let (last, line) = (lines as i32 - 1, line as i32);
        self.a.op(Code::Imul_r64_rm64_imm32, &[A.into(), D.into(), X::I(last)]);
        self.a.op(Code::Add_rm64_imm32, &[A.into(), X::I(line)]);
        self.a.op(Code::Add_r64_rm64, &[A.into(), C.into()]);
        self.a.jump(Code::Jb_rel32_64, slow);
        if mem.shared {
            self.a.op(Code::Cmp_r64_rm64, &[A.into(), field(Field::SharedBytes).into()]);
            self.a.jump(Code::Ja_rel32_64, slow);
            self.a.op(Code::Add_r64_rm64, &[C.into(), field(Field::Shared).into()]);
            return;
        }
        self.a.op(Code::Mov_rm64_r64, &[kept.into(), D.into()]);
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Ranges).into()]);
        self.a.op(Code::Cmp_r64_rm64, &[A.into(), range_end(mem.site).into()]);
        self.a.jump(Code::Ja_rel32_64, slow);
        self.a.op(Code::Cmp_r64_rm64, &[C.into(), range_start(mem.site).into()]);
        self.a.jump(Code::Jb_rel32_64, slow);
        self.check_writable(mem, slow);
        self.a.op(Code::Mov_r64_rm64, &[D.into(), kept.into()]);
    }

    /// Puts a pointer to the first place of a tile in RCX, the distance of lines in RDX. Uses RAX.
    pub(crate) fn start_tile(&mut self, tile: &Tile) {
        self.a.op(Code::Mov_r64_rm64, &[C.into(), at(Register::RSP, START).into()]);
        self.a.op(Code::Mov_r64_rm64, &[D.into(), at(Register::RSP, LINES).into()]);
        if tile.line > 0 {
            self.a.op(Code::Imul_r64_rm64_imm32, &[A.into(), D.into(), X::I(tile.line as i32)]);
            self.a.op(Code::Add_r64_rm64, &[C.into(), A.into()]);
        }
        if tile.column > 0 {
            self.a.op(Code::Add_rm64_imm32, &[C.into(), X::I(tile.column as i32)]);
        }
    }

    /// Moves RCX, a pointer, on by a number of lines.
    pub(crate) fn next_line(&mut self, lines: u32) {
        for _ in 0..lines {
            self.a.op(Code::Add_r64_rm64, &[C.into(), D.into()]);
        }
    }

    /// Moves the `n`-th register of a tile, lane by lane, or four lanes at a time that are side by side.
    fn move_lanes(
        &mut self,
        inst: &VectorInst,
        layout: &Layout,
        (tile, n): (&Tile, usize),
        write: bool,
    ) {
        let (width, register) = (layout.width, tile.register + n);
        let (bytes, own) = (width.bytes(), layout.piece_bytes());
        let slots = match (write, self.isa) {
            (true, _) => self.value_slots(inst.src[VALUES + register], width, LANE_VALUES),
            (false, SimdIsa::Avx512) => RESULTS,
            // All lanes run it, and what it reads is not there.
            (false, SimdIsa::Avx2) => {
                let place = self.layout.place(inst.dst[register].reg.index());
                Slot::Lanes(FILE, place.vector.unwrap_or(0) as i32)
            }
        };
        let (lines, places) = layout.lanes();
        let listed = matches!(slots, Slot::Lanes(..));
        let together = layout.four_places && layout.place_bytes == bytes && listed;
        let (moved, places) = if together { (4 * bytes, 1) } else { (own, places) };
        self.start_tile(tile);
        for line in 0..lines {
            for piece in 0..layout.pieces {
                for place in 0..places {
                    let lane = if layout.four_places { 4 * line + place } else { 4 * place + line };
                    let slot = slots.of(Turn::Number(lane as usize), bytes);
                    let slot = MemoryOperand {
                        displacement: slot.displacement + i64::from(piece * own),
                        displ_size: 8,
                        ..slot
                    };
                    let element =
                        at(C, (layout.place_bytes * place) as i32 + n as i32 * bytes as i32);
                    let (from, to) = if write { (slot, element) } else { (element, slot) };
                    self.move_bytes(moved as i32, from, to);
                }
                if piece + 1 < layout.pieces {
                    self.next_line(1);
                }
            }
            if line + 1 < lines {
                self.next_line(layout.line_step + 1 - layout.pieces);
            }
        }
        if !write && self.isa == SimdIsa::Avx512 {
            self.take_results(inst, register, width);
        }
    }
}
