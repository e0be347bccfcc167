//! Comparisons of lanes with AVX-512, whose outcomes are bits.

use crate::avx512::isa::Zmm;
use crate::function::Compiler;
use crate::lanewise::compare::Form;
use simt::ir::vector::VectorInst;

impl Compiler<'_> {
    /// The outcomes of a comparison of lanes, in EAX.
    pub(crate) fn compare_pieces(&mut self, inst: &VectorInst, form: Form) {
        Zmm::with(self, inst, |i| form.make(i, inst));
    }
}
