//! Gathers and scatters with a bounds check of each lane.

use crate::asm::assembler::{Label, X, repeated};
use crate::avx512::memory::gather_pairs::come_in_pairs;
use crate::frame_layout::{A, C, D, Field, K1, K2, Z0, Z1, Z2, Z3, field};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::memory::access::{Address, MemAccess, range_end, range_start};
use crate::memory::per_lane_access::is_narrow;
use crate::operands::{Value, move_code, ymm};
use crate::regalloc::allocate::parts;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::Width;
use simt::ir::vector::VectorInst;

impl Compiler<'_> {
    /// An access of which every lane is checked on its own.
    pub(crate) fn lane_by_lane(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Address,
        back: Label,
    ) {
        let some = self.masked || inst.guard.is_some();
        let narrow = is_narrow(mem.access);
        match address {
            Address::Local(_) => {}
            // Gathers take as long for a few lanes as for all, and are worth less of a look.
            Address::Lanes(lanes @ (Value::Parts(_) | Value::Memory(..)))
                if !mem.write && (!some || narrow) =>
            {
                self.same_for_all(inst, mem, lanes, back);
            }
            _ if some && !narrow => self.one_lane(inst, mem, address, back),
            _ => {}
        }
        if let (Address::Lanes(lanes @ (Value::Parts(_) | Value::Memory(..))), true) =
            (address, some)
        {
            self.neighbours(inst, mem, lanes, back);
        }
        if narrow {
            return self.narrow_lanes(inst, mem, address, back);
        }
        let slow = self.interpreter_path(back);
        let (mem, some) = self.check_lanes(inst, mem, address, slow);
        let pairs = come_in_pairs(mem);
        for element in (0..usize::from(mem.access.count)).step_by(if pairs { 2 } else { 1 }) {
            match (mem.write, pairs) {
                (false, false) => self.gather(inst, mem, address, element, some),
                (false, true) => self.gather_pair(inst, mem, address, element, some),
                (true, false) => self.scatter(inst, mem, address, element, some),
                (true, true) => self.scatter_pair(inst, mem, address, element, some),
            }
        }
    }

    /// Checks the access of every lane that runs, and counts their bytes. Gives back the plan by
    /// which their addresses are good, and whether only some lanes run; the base of shared memory
    /// is in RDX then.
    pub(crate) fn check_lanes(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Address,
        slow: Label,
    ) -> (MemAccess, bool) {
        if self.isa == SimdIsa::Avx2 {
            return self.check_lanes_in_memory(inst, mem, address, slow);
        }
        let mem = if mem.shared && mem.offset < 0 {
            MemAccess { offset: 0, before: mem.offset, ..mem }
        } else {
            mem
        };
        let some = self.masked || inst.guard.is_some();
        if some {
            self.activate(inst.guard);
        }
        if !self.ablation.bounds {
            let fine = self.a.label();
            self.check_bounded(inst, mem, address, fine);
            self.check_each(mem, address, some, slow);
            self.a.bind(fine);
        }
        if !some {
            self.count(mem, 32 * mem.total);
        } else {
            self.count_some(inst, mem);
        }
        if mem.shared {
            self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Shared).into()]);
        }
        (mem, some)
    }

    /// Goes to `slow` if a lane's access may not be made: of all lanes, or of the active ones.
    fn check_each(&mut self, mem: MemAccess, address: Address, some: bool, slow: Label) {
        let width = if mem.wide { Width::W64 } else { Width::W32 };
        let pick = |narrow: Code, wide: Code| if mem.wide { wide } else { narrow };
        // Z1: what addresses start at; Z2: the most that they may be above it.
        if mem.local {
            let less = X::I(mem.total + mem.offset);
            self.a.op(Code::Mov_r64_rm64, &[C.into(), field(Field::LocalBytes).into()]);
            self.a.op(Code::Sub_rm64_imm32, &[C.into(), less]);
            self.a.jump(Code::Jb_rel32_64, slow);
            self.zero(Z1);
            self.a.op(Code::EVEX_Vpbroadcastq_zmm_k1z_r64, &[Z2.into(), C.into()]);
        } else if mem.shared {
            let less = X::I(mem.total + mem.offset);
            self.a.op(Code::Mov_r64_rm64, &[C.into(), field(Field::SharedBytes).into()]);
            self.a.op(Code::Sub_rm64_imm32, &[C.into(), less]);
            self.a.jump(Code::Jb_rel32_64, slow);
            self.a.op(Code::EVEX_Vpbroadcastd_zmm_k1z_r32, &[Z2.into(), Register::ECX.into()]);
        } else {
            self.global_bounds(mem, mem.total, slow);
        }
        let low_bits = if mem.wide {
            self.a.constant(&(mem.total as u64 - 1).to_le_bytes())
        } else {
            self.a.constant(&(mem.total as u32 - 1).to_le_bytes())
        };
        let offsets = match address {
            Address::Local(value) => Address::Lanes(value),
            other => other,
        };
        for part in 0..parts(width) {
            let register = self.address_part(mem.before, offsets, part, width, Z3);
            let above = if mem.wide {
                let sub = Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64;
                self.a.op(sub, &[Z0.into(), register.into(), Z1.into()]);
                Z0
            } else {
                register
            };
            let mask = if some { Some(self.active(part, width)) } else { None };
            let compare = pick(
                Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
                Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8,
            );
            let found = if part == 0 { K2 } else { K1 };
            let made = self.a.op(compare, &[found.into(), above.into(), Z2.into(), X::I(6)]);
            if let Some(k) = mask {
                made.set_op_mask(k);
            }
            let or = [K2.into(), K2.into(), K1.into()];
            if part > 0 {
                self.a.op(Code::VEX_Korw_kr_kr_kr, &or);
            }
            let test = pick(
                Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32,
                Code::EVEX_Vptestmq_kr_k1_zmm_zmmm512b64,
            );
            let made = self.a.op(test, &[K1.into(), register.into(), repeated(low_bits).into()]);
            if let Some(k) = mask {
                made.set_op_mask(k);
            }
            self.a.op(Code::VEX_Korw_kr_kr_kr, &or);
        }
        self.a.op(Code::VEX_Kortestw_kr_kr, &[K2.into(), K2.into()]);
        self.a.jump(Code::Jne_rel32_64, slow);
    }

    /// What global addresses start at, in Z1, and the most that they may be above it if `bytes` bytes
    /// are accessed at each, in Z2; goes to `slow` if there are fewer.
    pub(crate) fn global_bounds(&mut self, mem: MemAccess, bytes: i32, slow: Label) {
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Ranges).into()]);
        self.a.op(Code::Mov_r64_rm64, &[A.into(), range_start(mem.site).into()]);
        self.a.op(Code::Mov_r64_rm64, &[C.into(), range_end(mem.site).into()]);
        self.a.op(Code::Sub_r64_rm64, &[C.into(), A.into()]);
        self.a.op(Code::Sub_rm64_imm32, &[C.into(), X::I(bytes)]);
        self.a.jump(Code::Jb_rel32_64, slow);
        self.check_writable(mem, slow);
        if mem.offset != 0 {
            self.a.op(Code::Sub_rm64_imm32, &[A.into(), X::I(mem.offset)]);
        }
        self.a.op(Code::EVEX_Vpbroadcastq_zmm_k1z_r64, &[Z1.into(), A.into()]);
        self.a.op(Code::EVEX_Vpbroadcastq_zmm_k1z_r64, &[Z2.into(), C.into()]);
    }

    /// Sets K1 to the lanes of a part that take part; goes to `none` if none does.
    pub(crate) fn lanes_of_part(&mut self, part: usize, width: Width, some: bool, none: Label) {
        if some {
            let k = self.active(part, width);
            self.a.op(Code::VEX_Kmovw_kr_km16, &[K1.into(), k.into()]);
            // Of 64-bit lanes eight count.
            let test = match width {
                Width::W64 => Code::VEX_Kortestb_kr_kr,
                _ => Code::VEX_Kortestw_kr_kr,
            };
            self.a.op(test, &[K1.into(), K1.into()]);
            self.a.jump(Code::Je_rel32_64, none);
        } else {
            self.a.op(Code::VEX_Kxnorw_kr_kr_kr, &[K1.into(), K1.into(), K1.into()]);
        }
    }

    /// The memory of an element of the lanes whose addresses are in `index`.
    pub(crate) fn spread(&self, mem: MemAccess, index: Register, element: usize) -> MemoryOperand {
        let base = if mem.shared { D } else { Register::None };
        let offset = mem.offset + element as i32 * i32::from(mem.access.bytes);
        MemoryOperand::with_base_index_scale_displ_size(base, index, 1, i64::from(offset), 8)
    }

    fn gather(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Address,
        element: usize,
        some: bool,
    ) {
        let place = self.dest(inst, &inst.dst[element]);
        match (mem.wide, mem.access.width) {
            (true, Width::W32) => {
                for part in 0..2 {
                    for (half, to) in [(0, Z0), (1, Z1)] {
                        let index =
                            self.address_part(mem.before, address, 2 * part + half, Width::W64, Z3);
                        let none = self.a.label();
                        self.lanes_of_part(2 * part + half, Width::W64, some, none);
                        let from = self.spread(mem, index, element);
                        let code = Code::EVEX_Vpgatherqd_ymm_k1_vm64z;
                        self.a.op(code, &[ymm(to).into(), from.into()]).set_op_mask(K1);
                        self.a.bind(none);
                    }
                    let join = [Z0.into(), Z0.into(), ymm(Z1).into(), X::I(1)];
                    self.a.op(Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8, &join);
                    self.put(&place, part, move_code(Width::W32), &[Z0.into()]);
                }
            }
            (true, _) => {
                for part in 0..4 {
                    let index = self.address_part(mem.before, address, part, Width::W64, Z3);
                    let none = self.a.label();
                    self.lanes_of_part(part, Width::W64, some, none);
                    let from = self.spread(mem, index, element);
                    let code = Code::EVEX_Vpgatherqq_zmm_k1_vm64z;
                    self.a.op(code, &[Z0.into(), from.into()]).set_op_mask(K1);
                    self.put(&place, part, move_code(Width::W64), &[Z0.into()]);
                    self.a.bind(none);
                }
            }
            (false, Width::W32) => {
                for part in 0..2 {
                    let index = self.address_part(mem.before, address, part, Width::W32, Z3);
                    let none = self.a.label();
                    self.lanes_of_part(part, Width::W32, some, none);
                    let from = self.spread(mem, index, element);
                    let code = Code::EVEX_Vpgatherdd_zmm_k1_vm32z;
                    self.a.op(code, &[Z0.into(), from.into()]).set_op_mask(K1);
                    self.put(&place, part, move_code(Width::W32), &[Z0.into()]);
                    self.a.bind(none);
                }
            }
            (false, _) => {
                for part in 0..4 {
                    let index = self.address_half(address, part, Z3);
                    let none = self.a.label();
                    self.lanes_of_part(part, Width::W64, some, none);
                    let from = self.spread(mem, index, element);
                    let code = Code::EVEX_Vpgatherdq_zmm_k1_vm32y;
                    self.a.op(code, &[Z0.into(), from.into()]).set_op_mask(K1);
                    self.put(&place, part, move_code(Width::W64), &[Z0.into()]);
                    self.a.bind(none);
                }
            }
        }
    }

    /// 32 bytes in a register: the low half of `scratch`, if they are in memory.
    fn in_half(&mut self, half: X, scratch: Register) -> Register {
        match half {
            X::R(register) => register,
            memory => {
                let code = Code::EVEX_Vmovdqu32_ymm_k1z_ymmm256;
                self.a.op(code, &[ymm(scratch).into(), memory]);
                ymm(scratch)
            }
        }
    }

    fn scatter(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Address,
        element: usize,
        some: bool,
    ) {
        let width = mem.access.width;
        let value = self.value(inst.src[2 + element], width);
        // By parts of the addresses or of the values, whichever are more.
        let (count, lane_width) =
            if mem.wide || width == Width::W64 { (4, Width::W64) } else { (2, Width::W32) };
        for part in 0..count {
            let index = if mem.wide {
                self.address_part(mem.before, address, part, Width::W64, Z3)
            } else if width == Width::W64 {
                self.address_half(address, part, Z3)
            } else {
                self.address_part(mem.before, address, part, Width::W32, Z3)
            };
            let from = if mem.wide && width == Width::W32 {
                let half = self.half(value, part, Z0);
                self.in_half(half, Z0)
            } else {
                self.part_in(value, part, width, Z0)
            };
            let none = self.a.label();
            self.lanes_of_part(part, lane_width, some, none);
            let to = self.spread(mem, index, element);
            let code = match (mem.wide, width) {
                (true, Width::W32) => Code::EVEX_Vpscatterqd_vm64z_k1_ymm,
                (true, _) => Code::EVEX_Vpscatterqq_vm64z_k1_zmm,
                (false, Width::W32) => Code::EVEX_Vpscatterdd_vm32z_k1_zmm,
                (false, _) => Code::EVEX_Vpscatterdq_vm32y_k1_zmm,
            };
            self.a.op(code, &[to.into(), from.into()]).set_op_mask(K1);
            self.a.bind(none);
        }
    }

    /// A part of the addresses in a register: `scratch`, if it is not in one.
    pub(crate) fn address_part(
        &mut self,
        before: i32,
        address: Address,
        part: usize,
        width: Width,
        scratch: Register,
    ) -> Register {
        let register = match address {
            Address::Lanes(value) => self.part_in(value, part, width, scratch),
            Address::Formula(source) => self.formula(source, part, width, scratch),
            Address::Local(value) => self.own_address(value, part, scratch),
        };
        if before == 0 {
            return register;
        }
        let before = repeated(self.a.constant(&before.to_le_bytes()));
        let add = Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
        self.a.op(add, &[scratch.into(), register.into(), before.into()]);
        scratch
    }

    /// Eight 32-bit addresses in the low half of a register.
    pub(crate) fn address_half(
        &mut self,
        address: Address,
        part: usize,
        scratch: Register,
    ) -> Register {
        match address {
            Address::Lanes(value) | Address::Local(value) => {
                let half = self.half(value, part, scratch);
                self.in_half(half, scratch)
            }
            Address::Formula(source) => {
                self.formula(source, part / 2, Width::W32, scratch);
                if part % 2 == 1 {
                    let code = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
                    self.a.op(code, &[ymm(scratch).into(), scratch.into(), X::I(1)]);
                }
                ymm(scratch)
            }
        }
    }
}
