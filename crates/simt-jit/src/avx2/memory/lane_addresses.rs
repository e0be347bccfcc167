//! Scattered addresses of a region: bounds checks of all lanes, and lists of the active lanes'
//! addresses on the stack.

use crate::asm::assembler::{Label, X, at};
use crate::avx2::layout::{SLICES, table_slot};
use crate::avx2::whole_warp::RUNNING;
use crate::frame_layout::{A, C, D, FILE, Field, SAVED_VECTOR, field};
use crate::function::Compiler;
use crate::memory::access::{Address, MemAccess, range_end, range_start};
use crate::memory::lane_loop::Slot;
use iced_x86::{Code, Register};
use simt::ir::Reg;
use simt::ir::op::Width;
use simt::ir::vector::{StorageClass, VectorInst};

/// Where lanes' addresses are.
#[derive(Clone, Copy)]
struct LaneAddresses {
    /// Lane after lane behind `offset` from here.
    base: Register,
    offset: i32,
    /// Bytes from a lane's first access from there to its last one, if there are several.
    more: i32,
    /// Only lanes that are among the active bits take part.
    some: bool,
    /// Number of the list of pointers to make.
    table: Option<usize>,
}

impl Compiler<'_> {
    /// Checks addresses that are in the register file, and those of lanes' other accesses up to
    /// `more` bytes behind in shared memory; lists those of the lanes that take part if not all do.
    pub(in crate::avx2) fn check_addresses(
        &mut self,
        inst: &VectorInst,
        (mem, more): (MemAccess, i32),
        r: Reg,
        table: Option<usize>,
        slow: Label,
    ) {
        if self.f.storage[r.index()] == StorageClass::ScalarAndVector {
            self.flush_copies(r.index());
        }
        if table.is_none() && self.ablation.bounds {
            return;
        }
        let some = table.is_some();
        if some {
            self.spread_bits(inst);
            let later = if mem.shared { 0 } else { mem.offset };
            let nowhere = at(Register::RSP, SAVED_VECTOR - later);
            self.a.op(Code::Lea_r64_m, &[A.into(), nowhere.into()]);
            self.broadcast(NOWHERE, A);
        }
        let offset = self.layout.place(r.index()).vector.unwrap_or(0) as i32;
        self.check_listed(mem, LaneAddresses { base: FILE, offset, more, some, table }, slow);
    }

    /// Checks the access of every lane that runs an instruction, and counts their bytes: as
    /// [`Self::check_lanes`].
    pub(crate) fn check_lanes_in_memory(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Address,
        slow: Label,
    ) -> (MemAccess, bool) {
        let some = self.masked || inst.guard.is_some();
        // Around at 32 bits.
        let mem = match mem.shared && mem.offset != 0 {
            true => MemAccess { offset: 0, before: mem.offset, ..mem },
            false => mem,
        };
        if !self.ablation.bounds {
            let numbers = match address {
                Address::Local(value) => Address::Lanes(value),
                other => other,
            };
            let Slot::Lanes(base, offset) = self.address_slots(mem, numbers) else {
                return (mem, some);
            };
            if some {
                self.spread_bits(inst);
            }
            let fine = self.a.label();
            self.check_bounded(inst, mem, address, fine);
            self.check_listed(
                mem,
                LaneAddresses { base, offset, more: 0, some, table: None },
                slow,
            );
            self.a.bind(fine);
        }
        if some {
            self.count_some(inst, mem);
        } else {
            self.count(mem, 32 * mem.total);
        }
        if mem.shared {
            self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Shared).into()]);
        }
        (mem, some)
    }

    fn check_listed(&mut self, mem: MemAccess, lanes: LaneAddresses, slow: Label) {
        if mem.shared {
            self.check_shared(mem, lanes, slow);
        } else {
            self.check_wide(mem, lanes, slow);
        }
    }

    fn broadcast(&mut self, to: Register, from: Register) {
        self.a.op(Code::VEX_Vmovq_xmm_rm64, &[low(to).into(), from.into()]);
        self.a.op(Code::VEX_Vpbroadcastq_ymm_xmmm64, &[to.into(), low(to).into()]);
    }

    /// Goes to `slow` if an address in `LOW_BITS` is not aligned.
    fn check_alignment(&mut self, mem: MemAccess, slow: Label) {
        if mem.total > 1 {
            let low_bits = (mem.total as u32 - 1).to_le_bytes();
            let unused = if mem.wide { [0; 4] } else { low_bits };
            let low_bits = self.a.constant(&[low_bits, unused].concat().repeat(4));
            self.a.op(Code::VEX_Vptest_ymm_ymmm256, &[LOW_BITS.into(), low_bits.into()]);
            self.a.jump(Code::Jne_rel32_64, slow);
        }
    }

    /// 64-bit addresses, four at a time.
    fn check_wide(&mut self, mem: MemAccess, lanes: LaneAddresses, slow: Label) {
        let LaneAddresses { base, offset, some, table, .. } = lanes;
        if mem.local {
            let eax = Register::EAX.into();
            self.a.op(Code::Xor_r32_rm32, &[eax, eax]);
            self.a.op(Code::Mov_r64_rm64, &[C.into(), field(Field::LocalBytes).into()]);
        } else {
            self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Ranges).into()]);
            self.a.op(Code::Mov_r64_rm64, &[A.into(), range_start(mem.site).into()]);
            self.a.op(Code::Mov_r64_rm64, &[C.into(), range_end(mem.site).into()]);
            self.a.op(Code::Sub_r64_rm64, &[C.into(), A.into()]);
        }
        self.a.op(Code::Sub_rm64_imm32, &[C.into(), X::I(mem.total)]);
        self.a.jump(Code::Jb_rel32_64, slow);
        if !mem.local {
            self.check_writable(mem, slow);
        }
        if mem.offset != 0 {
            self.a.op(Code::Sub_rm64_imm32, &[A.into(), X::I(mem.offset)]);
        }
        // An address less the start is at most what is in RCX. The processor compares signed
        // numbers, so both are moved by half of the range.
        self.a.load_constant(D, 1 << 63);
        self.a.op(Code::Xor_r64_rm64, &[C.into(), D.into()]);
        self.broadcast(MOST, C);
        self.a.op(Code::Sub_r64_rm64, &[D.into(), A.into()]);
        self.broadcast(LESS, D);
        let or = Code::VEX_Vpor_ymm_ymm_ymmm256;
        for four in 0..8 {
            let memory = at(base, offset + 32 * four as i32);
            let bad = if four == 0 { BAD } else { T0 };
            let add = Code::VEX_Vpaddq_ymm_ymm_ymmm256;
            self.a.op(add, &[bad.into(), LESS.into(), memory.into()]);
            let greater = Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256;
            self.a.op(greater, &[bad.into(), bad.into(), MOST.into()]);
            let mut address: X = memory.into();
            if some {
                self.mask_of_piece(Width::W64, four);
                let and = Code::VEX_Vpand_ymm_ymm_ymmm256;
                self.a.op(and, &[bad.into(), bad.into(), RUNNING.into()]);
                self.a.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[T2.into(), memory.into()]);
                if let Some(table) = table {
                    self.list(table, four);
                }
                self.a.op(and, &[T2.into(), T2.into(), RUNNING.into()]);
                address = T2.into();
            }
            if four == 0 {
                self.a.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[LOW_BITS.into(), address]);
            } else {
                self.a.op(or, &[BAD.into(), BAD.into(), T0.into()]);
                self.a.op(or, &[LOW_BITS.into(), LOW_BITS.into(), address]);
            }
        }
        self.a.op(Code::VEX_Vptest_ymm_ymmm256, &[BAD.into(), BAD.into()]);
        self.a.jump(Code::Jne_rel32_64, slow);
        self.check_alignment(mem, slow);
    }

    /// 32-bit addresses in shared memory, eight at a time: the largest decides.
    fn check_shared(&mut self, mem: MemAccess, lanes: LaneAddresses, slow: Label) {
        let LaneAddresses { base, offset: start, more, some, table } = lanes;
        // What wraps below 0 is too large.
        self.a.op(Code::Mov_r64_rm64, &[C.into(), field(Field::SharedBytes).into()]);
        self.a.op(Code::Sub_rm64_imm32, &[C.into(), X::I(mem.total)]);
        self.a.jump(Code::Jb_rel32_64, slow);
        let offset = self.a.constant(&mem.offset.to_le_bytes().repeat(8));
        let (add, or) = (Code::VEX_Vpaddd_ymm_ymm_ymmm256, Code::VEX_Vpor_ymm_ymm_ymmm256);
        let (max, and) = (Code::VEX_Vpmaxud_ymm_ymm_ymmm256, Code::VEX_Vpand_ymm_ymm_ymmm256);
        if table.is_some() {
            self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Shared).into()]);
            self.broadcast(LESS, D);
        }
        for slice in 0..SLICES {
            let memory = at(base, start + 32 * slice as i32);
            let address = if slice == 0 { LOW_BITS } else { T0 };
            self.a.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[address.into(), memory.into()]);
            if let Some(table) = table {
                for half in 0..2 {
                    let four = 2 * slice + half;
                    let memory = at(base, start + 16 * four as i32);
                    self.mask_of_piece(Width::W64, four);
                    // Offsets of shared memory wrap around at 32 bits.
                    let four_lanes: X = low(T2).into();
                    self.a.op(Code::VEX_Vmovdqu_xmm_xmmm128, &[four_lanes, memory.into()]);
                    let add = Code::VEX_Vpaddd_xmm_xmm_xmmm128;
                    self.a.op(add, &[four_lanes, four_lanes, offset.into()]);
                    self.a.op(Code::VEX_Vpmovzxdq_ymm_xmmm128, &[T2.into(), four_lanes]);
                    let add = Code::VEX_Vpaddq_ymm_ymm_ymmm256;
                    self.a.op(add, &[T2.into(), T2.into(), LESS.into()]);
                    self.list(table, four);
                }
            }
            if some {
                self.mask_of_piece(Width::W32, slice);
            }
            // With the offset, which wraps where the address is not one; lanes that take no part
            // are at 0.
            self.a.op(add, &[T2.into(), address.into(), offset.into()]);
            if more != 0 {
                // Between two places that are inside all are: neither sum has wrapped then.
                let more = self.a.constant(&more.to_le_bytes().repeat(8));
                self.a.op(add, &[T0B.into(), T2.into(), more.into()]);
                self.a.op(max, &[T2.into(), T2.into(), T0B.into()]);
            }
            if some {
                self.a.op(and, &[T2.into(), T2.into(), RUNNING.into()]);
                self.a.op(and, &[address.into(), address.into(), RUNNING.into()]);
            }
            if slice == 0 {
                self.a.op(Code::VEX_Vmovdqa_ymm_ymmm256, &[BAD.into(), T2.into()]);
            } else {
                self.a.op(max, &[BAD.into(), BAD.into(), T2.into()]);
                self.a.op(or, &[LOW_BITS.into(), LOW_BITS.into(), T0.into()]);
            }
        }
        self.a.op(Code::VEX_Vmovd_xmm_rm32, &[low(MOST).into(), Register::ECX.into()]);
        self.a.op(Code::VEX_Vpbroadcastd_ymm_xmmm32, &[MOST.into(), low(MOST).into()]);
        self.a.op(max, &[BAD.into(), BAD.into(), MOST.into()]);
        self.a.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[BAD.into(), BAD.into(), MOST.into()]);
        self.a.op(Code::VEX_Vptest_ymm_ymmm256, &[BAD.into(), BAD.into()]);
        self.a.jump(Code::Jne_rel32_64, slow);
        self.check_alignment(mem, slow);
    }

    /// Lists the pointers in T2 of the lanes of four that take part, which are in `RUNNING`.
    fn list(&mut self, table: usize, four: usize) {
        let blend = Code::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm;
        self.a.op(blend, &[T0B.into(), NOWHERE.into(), T2.into(), RUNNING.into()]);
        let to = at(Register::RSP, table_slot(table) + 32 * four as i32);
        self.a.op(Code::VEX_Vmovdqu_ymmm256_ymm, &[to.into(), T0B.into()]);
    }
}

/// Registers of the checks, which come before the region uses any; beside those of `file`.
const T0: Register = Register::YMM0;
const T0B: Register = Register::YMM1;
const T2: Register = Register::YMM3;
const BAD: Register = Register::YMM4;
const LOW_BITS: Register = Register::YMM5;
const MOST: Register = Register::YMM6;
const LESS: Register = Register::YMM7;
const NOWHERE: Register = Register::YMM9;

fn low(register: Register) -> Register {
    crate::avx2::slice::xmm(register)
}
