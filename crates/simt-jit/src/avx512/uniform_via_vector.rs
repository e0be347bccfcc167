//! Uniform instructions without a general-register form: made as on lanes, with the value in all of
//! 64 bytes; the first lane's result counts.
//!
//! Invariant: lane-wise code asks [`Compiler::parts`] how many parts a value has, and looks at no
//! lane beyond the first part's.

use crate::asm::assembler::at;
use crate::frame_layout::{A, C, LANE_ADDRESSES, LANE_RESULTS, LANE_VALUES, Z0};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::operands::Value;
use crate::regalloc::allocate::parts;
use iced_x86::{Code, Register};
use simt::ir::Reg;
use simt::ir::op::Width;
use simt::ir::vector::{Dest, StorageClass, VectorInst};

/// Sources for which there is room.
const SOURCES_MAX: usize = ((LANE_VALUES - LANE_ADDRESSES) / 64) as usize;
/// Results for which there is room.
const RESULTS_MAX: usize = 4;

/// Where the values of sources are: in the order of the places for them.
#[derive(Default)]
pub(crate) struct UniformAsVector {
    placed: Vec<Reg>,
}

impl Compiler<'_> {
    /// Machine registers that hold the lanes under construction.
    pub(crate) fn parts(&self, width: Width) -> usize {
        if self.uniform_as_vector.is_some() { 1 } else { parts(width) }
    }

    /// Makes an instruction on one value as on lanes; false if there is no such form.
    pub(crate) fn one_as_lanes(&mut self, inst: &VectorInst) -> bool {
        if self.isa == SimdIsa::Avx2 {
            return self.one_in_quarter(inst);
        }
        if !inst.op.is_arithmetic() || !self.can_be_one(inst) || inst.dst.is_empty() {
            return false;
        }
        let skip = self.skip_if_no_lane_runs(inst);
        self.uniform_as_vector = Some(UniformAsVector::default());
        let made = self.lanes(inst);
        self.uniform_as_vector = None;
        for n in 0..if made { inst.dst.len() } else { 0 } {
            let from = at(Register::RSP, LANE_RESULTS + 64 * n as i32);
            let load = match self.width_of(inst.dst[n].reg) {
                Width::W64 => (Code::Mov_r64_rm64, A),
                _ => (Code::Mov_r32_rm32, Register::EAX),
            };
            self.a.op(load.0, &[load.1.into(), from.into()]);
            self.scalar_result(inst, n, A);
        }
        self.no_lane_ran(skip);
        made
    }

    /// Compares two values as lanes are compared: the outcome in all bits of EAX. False if there
    /// is no such form.
    pub(crate) fn compare_one_as_lanes(&mut self, inst: &VectorInst) -> bool {
        if !self.can_be_one(inst) {
            return false;
        }
        self.uniform_as_vector = Some(UniformAsVector::default());
        self.compare_each(inst);
        self.uniform_as_vector = None;
        let eax = Register::EAX.into();
        self.a.op(Code::And_rm32_imm8, &[eax, crate::asm::assembler::X::I(1)]);
        self.a.op(Code::Neg_rm32, &[eax]);
        true
    }

    fn can_be_one(&self, inst: &VectorInst) -> bool {
        let narrow = |r: Reg| !matches!(self.f.classes[r.index()].width(), Some(Width::W128));
        let read = inst.src.iter().flat_map(|s| s.registers());
        let scalar = |r: Reg| self.layout.place(r.index()).scalar.is_some();
        let one = |d: &Dest| {
            !matches!(self.f.storage[d.reg.index()], StorageClass::Vector | StorageClass::None)
        };
        self.isa == SimdIsa::Avx512
            && inst.src.len() <= SOURCES_MAX
            && inst.dst.len() <= RESULTS_MAX
            && read.into_iter().all(|r| narrow(r) && scalar(r))
            && inst.dst.iter().all(|d| narrow(d.reg) && one(d))
    }

    /// Where the value of a register is that one instruction reads.
    pub(crate) fn value_of_one(&mut self, r: Reg, width: Width) -> Value {
        let placed =
            self.uniform_as_vector.as_ref().and_then(|one| one.placed.iter().position(|p| *p == r));
        if let Some(place) = placed {
            return Value::Memory(Register::RSP, LANE_ADDRESSES + 64 * place as i32);
        }
        let one = self.uniform_as_vector.get_or_insert_default();
        let offset = LANE_ADDRESSES + 64 * (one.placed.len() % SOURCES_MAX) as i32;
        one.placed.push(r);
        let from = self.scalar_in(simt::ir::vector::Source::Scalar(r), width == Width::W64, C);
        let spread = match width {
            Width::W16 => Code::EVEX_Vpbroadcastw_zmm_k1z_r32,
            Width::W64 => Code::EVEX_Vpbroadcastq_zmm_k1z_r64,
            _ => Code::EVEX_Vpbroadcastd_zmm_k1z_r32,
        };
        self.a.op(spread, &[Z0.into(), from.into()]);
        let to = at(Register::RSP, offset);
        self.a.op(Code::EVEX_Vmovdqa32_zmmm512_k1z_zmm, &[to.into(), Z0.into()]);
        Value::Memory(Register::RSP, offset)
    }

    /// Where such an instruction's result goes.
    pub(crate) fn place_of_one(&self, inst: &VectorInst, dest: &Dest) -> Value {
        let n = inst.dst.iter().position(|d| d.reg == dest.reg).unwrap_or(0);
        Value::Memory(Register::RSP, LANE_RESULTS + 64 * n as i32)
    }
}
