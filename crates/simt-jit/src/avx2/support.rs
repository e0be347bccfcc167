//! Legality: which instructions AVX2 code has, and of which kind.

use crate::avx2::compare;
use crate::avx2::memory::address_mode::AddressMode;
use crate::avx2::slice::Slice;
use crate::function::Compiler;
use crate::lanewise;
use crate::memory::access::MemAccess;
use crate::scalar::integer::window;
use simt::ir::op::{Op, Special, Width};
use simt::ir::vector::{Dest, Source, StorageClass, VectorInst};

/// How an instruction is made.
pub(crate) enum Kind {
    /// By its interpreter handlers, alone.
    Whole,
    /// Once, in general registers.
    Single,
    /// A slice at a time; a load or store with what it moves.
    Lanes(Option<(MemAccess, AddressMode)>),
}

/// Lanes that do not run the instruction keep this result's old value.
pub(crate) fn keeps(inst: &VectorInst, dest: &Dest, masked: bool) -> bool {
    inst.guard.is_some() || masked && dest.keep
}

/// One value, computed from nothing but its sources.
fn is_pure(op: &Op) -> bool {
    match op {
        Op::Special(special) => matches!(
            special,
            Special::Tid(0..=2)
                | Special::LaneId
                | Special::WarpId
                | Special::Ntid(_)
                | Special::Ctaid(_)
                | Special::Nctaid(_)
        ),
        op => op.is_arithmetic(),
    }
}

impl Compiler<'_> {
    /// How the instruction under construction is made.
    pub(crate) fn kind(&self, inst: &VectorInst) -> Kind {
        let storage = |storage: StorageClass| {
            inst.dst.iter().all(|d| self.f.storage[d.reg.index()] == storage)
        };
        match inst.op {
            Op::PredMov | Op::PredNot | Op::Pred(_) | Op::PredSelect => Kind::Single,
            Op::Load(_) | Op::Store(_) => {
                let Some(mem) = self.mem(inst) else { return Kind::Whole };
                let for_all = inst.uniform && !mem.write && storage(StorageClass::Vector);
                if inst.uniform && !for_all {
                    return if storage(StorageClass::Vector) && !mem.write {
                        Kind::Whole
                    } else {
                        Kind::Single
                    };
                }
                if self.one_place(inst).is_some() {
                    return Kind::Whole;
                }
                match self.address_mode(inst, mem) {
                    Some(address_mode) if mem.write || storage(StorageClass::Vector) => {
                        Kind::Lanes(Some((mem, address_mode)))
                    }
                    _ => Kind::Whole,
                }
            }
            Op::Shfl(..) if self.exchanges(inst) => Kind::Lanes(None),
            Op::Carry { .. } if self.carries_lanes(inst) => Kind::Lanes(None),
            _ if inst.uniform => {
                let single = |d: &Dest| {
                    !matches!(
                        self.f.storage[d.reg.index()],
                        StorageClass::Vector | StorageClass::None
                    )
                };
                let apart = is_pure(&inst.op) && !inst.dst.is_empty();
                if apart && inst.dst.iter().all(single) { Kind::Single } else { Kind::Whole }
            }
            Op::Setp(compare, ty)
                if storage(StorageClass::Mask) && compare::is_of_formulas(inst, compare, ty) =>
            {
                Kind::Single
            }
            Op::Setp(compare, ty)
                if storage(StorageClass::Mask)
                    && lanewise::compare::form(compare, ty).is_some() =>
            {
                Kind::Lanes(None)
            }
            _ if inst.dst.is_empty() || !storage(StorageClass::Vector) => Kind::Whole,
            _ if self.has_lane_form(inst) => Kind::Lanes(None),
            _ => Kind::Whole,
        }
    }

    pub(super) fn has_lane_form(&self, inst: &VectorInst) -> bool {
        let narrow = |w: Width| matches!(w, Width::W32 | Width::W64);
        let formula = |s: &Source| matches!(s, Source::Affine(..) | Source::HalfAffine(..));
        match inst.op {
            Op::Mov(w) => narrow(w) || w == Width::W16 && !inst.src.iter().any(formula),
            _ if inst.src.iter().any(formula) => false,
            Op::Select(w) => narrow(w) || w == Width::W16,
            Op::ToGeneric(space) | Op::FromGeneric(space) => window(space).is_some(),
            _ => lanewise::form::<Slice<'_, '_>>(inst).is_some(),
        }
    }
}
