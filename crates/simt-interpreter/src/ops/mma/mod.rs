//! Matrix products: mma, and moves of 8 by 8 matrices.
//!
//! A product has more operands than an instruction has room for: their offsets are a list among
//! the constants of the register file, D, A, B, C one behind the other, and the instruction has
//! the list's offset. `format` knows the elements, `product` multiplies in any format,
//! `avx512` and `avx2` do the same for the formats that networks use (`vectors` has what they
//! share), `tile` is `ldmatrix` and its like.
//!
//! All lanes of the warp take part, so nothing here looks at masks except to know whether to run
//! at all and which lanes' results may be written.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod format;
mod product;
mod sparse;
mod tile;
#[cfg(target_arch = "x86_64")]
mod vectors;

pub(crate) use crate::ops::mma::sparse::expand;
pub(crate) use crate::ops::mma::tile::{load, store, transpose};

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::{Lane, Rare, Target, active, read, write};
use crate::ops::mma::format::{
    And, BF16, E4M3, E5M2, F16, F32, F64, Int, S4, S8, TF32, U4, U8, Word, Xor,
};
use crate::ops::mma::product::{Product, versions_of};
use crate::register_file::Operand;
use simt::ir::matrix::{MatrixType, Multiply};
use simt::kernel::WARP_LANES;

const W: usize = WARP_LANES;

/// What [`Ins::tag`] says of a product.
pub(crate) fn tag(product: Multiply) -> u32 {
    u32::from(product.tall) | (product.b_registers() as u32) << 1 | u32::from(product.saturate) << 8
}

/// A product's instruction, taken apart.
#[derive(Clone, Copy)]
struct Operands {
    /// Eights of rows: 1 or 2.
    halves: usize,
    /// Groups of four lanes' worth of `k`.
    groups: usize,
    saturate: bool,
    /// The list.
    list: Operand,
}

impl Operands {
    fn of(ins: &Ins) -> Self {
        Self {
            halves: 1 + (ins.tag & 1) as usize,
            groups: (ins.tag >> 1 & 0x7f) as usize,
            saturate: ins.tag >> 8 & 1 != 0,
            list: ins.a[0],
        }
    }

    /// Registers of C and of D.
    fn sums(self) -> usize {
        2 * self.halves
    }

    /// Where A's, B's and C's offsets start in the list.
    fn a(self) -> usize {
        self.sums()
    }

    fn b(self) -> usize {
        self.a() + self.halves * self.groups
    }

    fn c(self) -> usize {
        self.b() + self.groups
    }

    /// The `i`-th register of the list.
    #[inline(always)]
    fn register<T: Lane>(self, machine: &HandlerContext<'_>, i: usize) -> [T; W] {
        read::<T, W>(machine, self.operand(machine, i))
    }

    /// The `i`-th entry of the list.
    #[inline(always)]
    fn operand(self, machine: &HandlerContext<'_>, i: usize) -> Operand {
        debug_assert!(i < self.c() + self.sums());
        // SAFETY: these are made of an instruction whose list the decoder made, with as many entries as
        // its tag says.
        unsafe { self.list.entry(machine.regs, i) }
    }
}

/// The lanes that run an instruction which needs the whole warp, or what to do instead.
#[inline(always)]
fn together(machine: &HandlerContext<'_>, ins: &Ins) -> Result<u32, Step> {
    let m = active(machine, ins);
    if m == 0 {
        return Err(Step::Next);
    }
    // Lanes that the guard keeps away are here as well.
    if machine.live & !machine.mask != 0 && !machine.force {
        return Err(Step::Park);
    }
    Ok(m)
}

/// Writes a register in the lanes of `m`.
#[inline(always)]
fn write_lanes<T: Lane>(machine: &mut HandlerContext<'_>, at: Operand, m: u32, value: [T; W]) {
    if m == !0 {
        write(machine, at, value);
        return;
    }
    let mut d = read::<T, W>(machine, at);
    for (i, (d, value)) in d.iter_mut().zip(value).enumerate() {
        if m >> i & 1 != 0 {
            *d = value;
        }
    }
    write(machine, at, d);
}

/// Writes D where not all lanes may be written or some are NaN, which is made canonical.
#[cfg(target_arch = "x86_64")]
#[cold]
fn write_some(machine: &mut HandlerContext<'_>, o: Operands, m: u32, d: &mut [[f32; W]; 4]) {
    for (i, d) in d.iter_mut().enumerate() {
        d.iter_mut().for_each(|x| *x = crate::ops::float::output::<false>(*x));
        let at = o.operand(machine, i);
        write_lanes(machine, at, m, *d);
    }
}

/// The handler of a product; `None` for formats that do not go together.
pub(crate) fn multiply(product: Multiply, t: Target) -> Option<Handler> {
    use MatrixType as M;
    #[cfg(target_arch = "x86_64")]
    if product.tall && product.a == product.b {
        let fast = match t {
            Target::Avx512 => vectors::handler::<avx512::Zmm>(product.a),
            Target::Avx2 => vectors::handler::<avx2::Ymm>(product.a),
            Target::Baseline | Target::Scalar => None,
        };
        if fast.is_some() {
            return fast;
        }
    }
    Some(match (product.a, product.b) {
        (M::F16, M::F16) => versions_of::<Product<F16, F16, F32>>(t),
        (M::BF16, M::BF16) => versions_of::<Product<BF16, BF16, F32>>(t),
        (M::TF32, M::TF32) => versions_of::<Product<TF32, TF32, F32>>(t),
        (M::E4M3, M::E4M3) => versions_of::<Product<E4M3, E4M3, F32>>(t),
        (M::E4M3, M::E5M2) => versions_of::<Product<E4M3, E5M2, F32>>(t),
        (M::E5M2, M::E4M3) => versions_of::<Product<E5M2, E4M3, F32>>(t),
        (M::E5M2, M::E5M2) => versions_of::<Product<E5M2, E5M2, F32>>(t),
        (M::F64, M::F64) => versions_of::<Product<F64, F64, F64>>(t),
        (M::S8, M::S8) => versions_of::<Product<S8, S8, Int>>(t),
        (M::S8, M::U8) => versions_of::<Product<S8, U8, Int>>(t),
        (M::U8, M::S8) => versions_of::<Product<U8, S8, Int>>(t),
        (M::U8, M::U8) => versions_of::<Product<U8, U8, Int>>(t),
        (M::S4, M::S4) => versions_of::<Product<S4, S4, Int>>(Rare(t)),
        (M::S4, M::U4) => versions_of::<Product<S4, U4, Int>>(Rare(t)),
        (M::U4, M::S4) => versions_of::<Product<U4, S4, Int>>(Rare(t)),
        (M::U4, M::U4) => versions_of::<Product<U4, U4, Int>>(Rare(t)),
        (M::Xor, M::Xor) => versions_of::<Product<Word, Word, Xor>>(Rare(t)),
        (M::And, M::And) => versions_of::<Product<Word, Word, And>>(Rare(t)),
        _ => return None,
    })
}
