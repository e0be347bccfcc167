//! Matrix products of 16 rows with AVX2, for common formats: as `avx512`, with vectors of eight
//! lanes.
//!
//! The upper and the lower eight rows are done one after the other, so that the sums, eight
//! vectors, stay in registers. B's columns are made once for both: lane `l` of a vector multiplies
//! with column `2 (l % 4) + odd`, so a transposition of 4 by 4 gives all vectors of a slice.

use crate::handler_context::HandlerContext;
use crate::ops::map::Target;
use crate::ops::mma::format::TF32_BITS;
use crate::ops::mma::vectors::{BF16, F16, TF32, Vectors};
use crate::ops::mma::{Operands, W, write_some};
use crate::register_file::recast;
use simt::ir::matrix::added;
use std::arch::x86_64::*;

/// Most slices: two groups of two elements.
const SLICES_MAX: usize = 4;

/// Element `e` of eight lanes of a register.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn element<const FORMAT: u8>(register: __m256i, e: usize) -> __m256 {
    match (FORMAT, e) {
        (F16, e) => {
            let half = if e == 0 { register } else { _mm256_srli_epi32::<16>(register) };
            // The low halves of each 128 bits side by side, then those of both.
            let low = _mm256_set1_epi32(0xffff);
            let packed = _mm256_packus_epi32(_mm256_and_si256(half, low), _mm256_setzero_si256());
            let packed = _mm256_permute4x64_epi64::<0b1000>(packed);
            _mm256_cvtph_ps(_mm256_castsi256_si128(packed))
        }
        (BF16, 0) => _mm256_castsi256_ps(_mm256_slli_epi32::<16>(register)),
        (BF16, _) => {
            let high = _mm256_set1_epi32(0xffff_0000_u32 as i32);
            _mm256_castsi256_ps(_mm256_and_si256(register, high))
        }
        _ => {
            let kept = _mm256_set1_epi32(TF32_BITS as i32);
            _mm256_castsi256_ps(_mm256_and_si256(register, kept))
        }
    }
}

/// What even and odd columns multiply with, for each of a slice's four values of `k`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn columns(b: [__m256; 4]) -> [[__m256; 2]; 4] {
    let (p, q) = (_mm256_unpacklo_ps(b[0], b[1]), _mm256_unpacklo_ps(b[2], b[3]));
    let (r, s) = (_mm256_unpackhi_ps(b[0], b[1]), _mm256_unpackhi_ps(b[2], b[3]));
    let both = [
        _mm256_shuffle_ps::<0x44>(p, q),
        _mm256_shuffle_ps::<0xee>(p, q),
        _mm256_shuffle_ps::<0x44>(r, s),
        _mm256_shuffle_ps::<0xee>(r, s),
    ];
    let mut columns = [[_mm256_setzero_ps(); 2]; 4];
    for (columns, both) in columns.iter_mut().zip(both) {
        *columns = [
            _mm256_permute2f128_ps::<0x00>(both, both),
            _mm256_permute2f128_ps::<0x11>(both, both),
        ];
    }
    columns
}

/// Adds the products of one value of `k` to the sums of eight rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add<const SPREAD: i32>(a: &[__m256; 4], columns: [__m256; 2], sums: &mut [[__m256; 4]; 2]) {
    for part in 0..4 {
        let row = _mm256_permute_ps::<SPREAD>(a[part]);
        for odd in 0..2 {
            sums[odd][part] = _mm256_fmadd_ps(row, columns[odd], sums[odd][part]);
        }
    }
}

/// Makes D in the lanes of `m`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn product<const FORMAT: u8>(machine: &mut HandlerContext<'_>, o: Operands, m: u32) {
    let packed = if FORMAT == TF32 { 1 } else { 2 };
    let load = |i: usize| machine.regs.read::<__m256i, 4>(o.operand(machine, i));
    let mut b = [[[_mm256_setzero_ps(); 2]; 4]; SLICES_MAX];
    for group in 0..o.groups {
        let register = load(o.b() + group);
        for e in 0..packed {
            let mut slice = [_mm256_setzero_ps(); 4];
            for (slice, register) in slice.iter_mut().zip(register) {
                *slice = element::<FORMAT>(register, e);
            }
            b[group * packed + e] = columns(slice);
        }
    }
    // D may be among the sources: it is written when all of it is known.
    let mut d = [[[_mm256_setzero_ps(); 4]; 2]; 2];
    for (half, d) in d.iter_mut().enumerate() {
        let mut sums = [[_mm256_setzero_ps(); 4]; 2];
        for (odd, sums) in sums.iter_mut().enumerate() {
            for (sum, c) in sums.iter_mut().zip(load(o.c() + 2 * half + odd)) {
                *sum = _mm256_castsi256_ps(c);
            }
        }
        for group in 0..o.groups {
            let register = load(o.a() + 2 * group + half);
            let mut a = [[_mm256_setzero_ps(); 4]; 2];
            for (e, a) in a.iter_mut().enumerate().take(packed) {
                for (a, register) in a.iter_mut().zip(register) {
                    *a = element::<FORMAT>(register, e);
                }
            }
            let b = &b[group * packed..][..packed];
            let slices = (0..packed).map(|i| added(packed, i));
            slices.clone().for_each(|e| add::<0x00>(&a[e], b[e][0], &mut sums));
            slices.clone().for_each(|e| add::<0x55>(&a[e], b[e][1], &mut sums));
            slices.clone().for_each(|e| add::<0xaa>(&a[e], b[e][2], &mut sums));
            slices.for_each(|e| add::<0xff>(&a[e], b[e][3], &mut sums));
        }
        *d = sums;
    }
    let mut nan = 0;
    for sum in d.iter().flatten().flatten() {
        nan |= _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(*sum, *sum));
    }
    if nan != 0 || m != !0 {
        let mut lanes: [[f32; W]; 4] = recast(d);
        write_some(machine, o, m, &mut lanes);
        return;
    }
    for (i, sums) in d.into_iter().flatten().enumerate() {
        machine.regs.write(o.operand(machine, i), sums);
    }
}

/// Vectors of eight lanes.
pub(super) struct Ymm;

impl Vectors for Ymm {
    const TARGET: Target = Target::Avx2;

    fn are_complete() -> bool {
        is_x86_feature_detected!("f16c")
    }

    #[inline(always)]
    fn product<const FORMAT: u8>() -> unsafe fn(&mut HandlerContext<'_>, Operands, u32) {
        product::<FORMAT>
    }
}
