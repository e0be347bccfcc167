//! Matrix products of 16 rows with AVX-512, for common formats: the sums of `product` in the same
//! order.
//!
//! The sums are eight vectors of 16 lanes: two of each of the four registers. A's values of a
//! quarter are spread by a shuffle within 128 bits, which is where the four lanes of a row are;
//! B's are picked from the 32 lanes of a slice by a permutation.

use crate::handler_context::HandlerContext;
use crate::ops::map::Target;
use crate::ops::mma::format::TF32_BITS;
use crate::ops::mma::vectors::{BF16, F16, TF32, Vectors};
use crate::ops::mma::{Operands, W, write_some};
use crate::register_file::recast;
use simt::ir::matrix::added;
use std::arch::x86_64::*;

/// Element `e` of 16 lanes of a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn element<const FORMAT: u8>(register: __m512i, e: usize) -> __m512 {
    match (FORMAT, e) {
        (F16, 0) => _mm512_cvtph_ps(_mm512_cvtepi32_epi16(register)),
        (F16, _) => _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(register))),
        (BF16, 0) => _mm512_castsi512_ps(_mm512_slli_epi32::<16>(register)),
        (BF16, _) => {
            let high = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            _mm512_castsi512_ps(_mm512_and_si512(register, high))
        }
        _ => {
            let kept = _mm512_set1_epi32(TF32_BITS as i32);
            _mm512_castsi512_ps(_mm512_and_si512(register, kept))
        }
    }
}

/// For the `j`-th of the four values of `k` and even or odd columns: which of B's 32 lanes each of
/// the 16 lanes multiplies with. Lane `l` has column `2 (l % 4) + odd`.
const COLUMNS: [[[i32; 16]; 2]; 4] = {
    let mut table = [[[0; 16]; 2]; 4];
    let mut i = 0;
    while i < 4 * 2 * 16 {
        let (j, odd, lane) = (i / 32, i / 16 % 2, i % 16);
        table[j][odd][lane] = (8 * (lane % 4) + 4 * odd + j) as i32;
        i += 1;
    }
    table
};

/// Adds the products of one slice's `J`-th value of `k` to the sums.
#[inline]
#[target_feature(enable = "avx512f")]
fn add<const J: usize, const SPREAD: i32>(
    a: [[__m512; 2]; 2],
    b: [__m512; 2],
    sums: &mut [[__m512; 2]; 4],
) {
    let mut columns = [_mm512_setzero_ps(); 2];
    for (odd, columns) in columns.iter_mut().enumerate() {
        let index = recast(COLUMNS[J][odd]);
        *columns = _mm512_permutex2var_ps(b[0], index, b[1]);
    }
    for half in 0..2 {
        for part in 0..2 {
            let row = _mm512_permute_ps::<SPREAD>(a[half][part]);
            for odd in 0..2 {
                let sum = &mut sums[2 * half + odd][part];
                *sum = _mm512_fmadd_ps(row, columns[odd], *sum);
            }
        }
    }
}

/// Makes D in the lanes of `m`.
#[inline]
#[target_feature(enable = "avx512f")]
fn product<const FORMAT: u8>(machine: &mut HandlerContext<'_>, o: Operands, m: u32) {
    let packed = if FORMAT == TF32 { 1 } else { 2 };
    let load = |i: usize| machine.regs.read::<__m512i, 2>(o.operand(machine, i));
    let mut sums = [[_mm512_setzero_ps(); 2]; 4];
    for (i, sum) in sums.iter_mut().enumerate() {
        let [low, high] = load(o.c() + i);
        *sum = [_mm512_castsi512_ps(low), _mm512_castsi512_ps(high)];
    }
    for group in 0..o.groups {
        let (upper, lower) = (load(o.a() + 2 * group), load(o.a() + 2 * group + 1));
        let columns = load(o.b() + group);
        let mut a = [[[_mm512_setzero_ps(); 2]; 2]; 2];
        let mut b = [[_mm512_setzero_ps(); 2]; 2];
        for e in 0..packed {
            for part in 0..2 {
                a[e][0][part] = element::<FORMAT>(upper[part], e);
                a[e][1][part] = element::<FORMAT>(lower[part], e);
                b[e][part] = element::<FORMAT>(columns[part], e);
            }
        }
        let slices = (0..packed).map(|i| added(packed, i));
        slices.clone().for_each(|e| add::<0, 0x00>(a[e], b[e], &mut sums));
        slices.clone().for_each(|e| add::<1, 0x55>(a[e], b[e], &mut sums));
        slices.clone().for_each(|e| add::<2, 0xaa>(a[e], b[e], &mut sums));
        slices.for_each(|e| add::<3, 0xff>(a[e], b[e], &mut sums));
    }
    let mut nan = 0;
    for sum in sums.iter().flatten() {
        nan |= _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(*sum, *sum);
    }
    if nan != 0 || m != !0 {
        let mut d = sums.map(recast::<_, [f32; W]>);
        write_some(machine, o, m, &mut d);
        return;
    }
    for (i, sum) in sums.into_iter().enumerate() {
        machine.regs.write(o.operand(machine, i), sum);
    }
}

/// Vectors of 16 lanes.
pub(super) struct Zmm;

impl Vectors for Zmm {
    const TARGET: Target = Target::Avx512;

    #[inline(always)]
    fn product<const FORMAT: u8>() -> unsafe fn(&mut HandlerContext<'_>, Operands, u32) {
        product::<FORMAT>
    }
}
