//! Storage classes: whether a register is a vector, a scalar, a mask or several of these, and which
//! instructions are uniform.

use crate::analysis::affine::{Rules, Shape};
use crate::ir::op::{Class, Op, Space, Width};
use crate::ir::vector::{Mode, StorageClass};
use crate::ir::{Inst, Operand, Reg};
use crate::vectorize::Vectorizer;

impl Vectorizer<'_> {
    pub(super) fn assign_homes(&mut self) {
        for (index, class) in self.f.regs.iter().enumerate() {
            let shape = match self.mode {
                Mode::Lockstep => self.shapes.of[index],
                Mode::Independent => Shape::Varying,
            };
            self.storage[index] = match (class, shape) {
                (Class::Pred, _) => StorageClass::Mask,
                // Too rare to be worth scalar handlers.
                (Class::Lane(Width::W128), _) => StorageClass::Vector,
                (Class::Lane(_), Shape::Affine(0)) => StorageClass::Scalar,
                (Class::Lane(_), Shape::Affine(stride)) => StorageClass::Affine { stride },
                // The upper half gets its register below.
                (Class::Lane(_), Shape::HalfAffine(stride)) => {
                    StorageClass::HalfAffine { high: Reg(index as u32), stride }
                }
                (Class::Lane(_), _) => StorageClass::Vector,
            };
        }
        // What defines a register must be able to define it as a scalar.
        loop {
            let mut changed = false;
            for (inst, late) in
                self.f.blocks.iter().zip(&self.late).flat_map(|(b, late)| b.insts.iter().zip(late))
            {
                let scalar = |r: &Reg| {
                    matches!(
                        self.storage[r.index()],
                        StorageClass::Scalar | StorageClass::Affine { .. }
                    )
                };
                let any = inst.dst.iter().any(scalar);
                if any && (*late || !self.scalar_form(inst)) {
                    for d in inst.dst.iter().filter(|d| self.classes[d.index()] != Class::Pred) {
                        self.storage[d.index()] = StorageClass::Vector;
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        for index in 0..self.storage.len() {
            if let StorageClass::HalfAffine { stride, .. } = self.storage[index] {
                let high = self.new_register(self.classes[index], StorageClass::Scalar);
                self.storage[index] = StorageClass::HalfAffine { high, stride };
            }
        }
    }

    pub(super) fn new_register(&mut self, class: Class, storage: StorageClass) -> Reg {
        self.classes.push(class);
        self.storage.push(storage);
        Reg(self.classes.len() as u32 - 1)
    }

    /// True if the instruction can be computed once for all lanes.
    pub(super) fn scalar_form(&self, inst: &Inst) -> bool {
        let all_scalar = inst.dst.iter().all(|d| match self.storage[d.index()] {
            StorageClass::Vector => false,
            // Done once for each half.
            StorageClass::HalfAffine { .. } => Rules::is_formula(&inst.op) && inst.dst.len() == 1,
            _ => true,
        });
        // What is done once to lane 0's values is done to all where the results are affine values too.
        let formula = Rules::is_formula(&inst.op)
            || (matches!(inst.op, Op::Setp(..)) && !self.shapes.results(inst).varies());
        let sources_scalar = || {
            inst.src.iter().all(|s| match s {
                Operand::Reg(r) => match self.storage[r.index()] {
                    StorageClass::Vector => false,
                    StorageClass::Affine { .. } | StorageClass::HalfAffine { .. } => formula,
                    _ => true,
                },
                _ => true,
            })
        };
        // A predicate is a mask wherever it comes from; read as one value it must be uniform.
        let masks_uniform = || {
            inst.src.iter().all(|s| match s {
                Operand::Reg(r) => self.f.regs[r.index()] != Class::Pred || !self.shapes.varies(*r),
                _ => true,
            })
        };
        all_scalar
            && match &inst.op {
                // Computed from masks or under the mask anyway; the result is one number.
                Op::Vote(_) | Op::Redux(..) | Op::Match { all: true, .. } | Op::ActiveMask => true,
                Op::Load(access) => {
                    sources_scalar()
                        && access.space != Space::Local
                        && access.space != Space::Generic
                        && access.bytes <= 8
                }
                Op::Store(access) => {
                    sources_scalar()
                        && matches!(access.space, Space::Global | Space::Shared)
                        && access.bytes <= 8
                }
                op if op.has_effect() => false,
                Op::IsSpace(_) | Op::PredMov | Op::PredNot | Op::Pred(_) | Op::PredSelect => false,
                _ => sources_scalar() && masks_uniform(),
            }
    }

    pub(super) fn uniform(&self, inst: &Inst) -> bool {
        let varies = inst.op.varies() && !Rules::is_formula(&inst.op);
        if self.mode == Mode::Independent || varies || !self.scalar_form(inst) {
            return false;
        }
        match &inst.op {
            // Without a register result it is the operands that decide.
            Op::Store(_) => true,
            _ => {
                !inst.dst.is_empty()
                    && inst.dst.iter().all(|d| match self.storage[d.index()] {
                        StorageClass::Scalar
                        | StorageClass::ScalarAndVector
                        | StorageClass::Affine { .. }
                        | StorageClass::HalfAffine { .. } => true,
                        StorageClass::Mask => !self.shapes.results(inst).varies(),
                        StorageClass::Vector | StorageClass::None => false,
                    })
            }
        }
    }

    /// The stride of what lives as a scalar.
    pub(super) fn stride(&self, reg: Reg) -> Option<i64> {
        match self.storage[reg.index()] {
            StorageClass::Scalar | StorageClass::ScalarAndVector => Some(0),
            StorageClass::Affine { stride } | StorageClass::HalfAffine { stride, .. } => {
                Some(stride)
            }
            StorageClass::Vector | StorageClass::Mask | StorageClass::None => None,
        }
    }

    pub(super) fn is_formula(&self, reg: Reg) -> bool {
        matches!(
            self.storage[reg.index()],
            StorageClass::Affine { .. } | StorageClass::HalfAffine { .. }
        )
    }

    pub(super) fn is_halves(&self, operand: &Operand) -> bool {
        matches!(operand, Operand::Reg(r) if matches!(self.storage[r.index()], StorageClass::HalfAffine { .. }))
    }
}
