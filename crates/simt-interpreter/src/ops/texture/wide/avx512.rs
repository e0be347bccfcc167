//! Vectors of 16 lanes: AVX-512 F, BW, DQ, VL.

use super::Wide;
use crate::register_file::recast;
use std::arch::x86_64::*;

/// Says that the processor has them.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx512(());

const EVEN: [i32; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
const ODD: [i32; 16] = [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31];

impl Wide for Avx512 {
    const LANES: usize = 16;
    type I = __m512i;
    type F = __m512;
    type Four = __m128i;
    type M = __mmask16;

    direct! {
        int(x: i32) -> __m512i = _mm512_set1_epi32(x);
        ends(x: __m512i) -> (i32, i32) = {
            let last = _mm512_extracti32x4_epi32::<3>(x);
            (_mm_cvtsi128_si32(_mm512_castsi512_si128(x)), _mm_extract_epi32::<3>(last))
        };
        add(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        sub(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi32(a, b);
        mul(a: __m512i, b: __m512i) -> __m512i = _mm512_mullo_epi32(a, b);
        and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        xor(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        shr_by(a: __m512i, by: __m512i) -> __m512i = _mm512_srlv_epi32(a, by);
        min(a: __m512i, b: __m512i) -> __m512i = _mm512_min_epi32(a, b);
        max(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi32(a, b);
        min_unsigned(a: __m512i, b: __m512i) -> __m512i = _mm512_min_epu32(a, b);
        within(a: __m512i, b: __m512i) -> u16 = _mm512_cmple_epu32_mask(a, b);
        more(a: __m512i, b: __m512i) -> u16 = _mm512_cmpgt_epi32_mask(a, b);
        equal(a: __m512i, b: __m512i) -> u16 = _mm512_cmpeq_epi32_mask(a, b);
        float(x: f32) -> __m512 = _mm512_set1_ps(x);
        add_f(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        sub_f(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        mul_f(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        div_f(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        max_f(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        fused(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        floor(a: __m512) -> __m512 = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF }>(a);
        // A sum that is cut off has the whole number of steps that the exact one has.
        weight(a: __m512) -> __m512 = {
            const CUT: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
            let half_a_step = _mm512_set1_ps(1.0 / 512.0);
            let sum = _mm512_add_round_ps::<CUT>(a, half_a_step);
            _mm512_roundscale_ps::<{ 8 << 4 | _MM_FROUND_TO_NEG_INF }>(sum)
        };
        less(a: __m512, b: __m512) -> u16 = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
        at_least(a: __m512, b: __m512) -> u16 = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(a, b);
        is_number(a: __m512) -> u16 = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(a, a);
        is_not_zero(a: __m512) -> u16 =
            _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(a, _mm512_setzero_ps());
        as_float(a: __m512i) -> __m512 = _mm512_castsi512_ps(a);
        as_int(a: __m512) -> __m512i = _mm512_castps_si512(a);
        to_float(a: __m512i) -> __m512 = _mm512_cvtepi32_ps(a);
        to_int(a: __m512) -> __m512i = _mm512_cvttps_epi32(a);
        half(a: __m512i) -> __m512 = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a));
        mask(bits: u32) -> u16 = bits as u16;
        bits(m: u16) -> u32 = u32::from(m);
        both(a: u16, b: u16) -> u16 = a & b;
        either(a: u16, b: u16) -> u16 = a | b;
        except(a: u16, b: u16) -> u16 = a & !b;
        pick(m: u16, a: __m512i, b: __m512i) -> __m512i = _mm512_mask_blend_epi32(m, b, a);
        keep(m: u16, a: __m512i) -> __m512i = _mm512_maskz_mov_epi32(m, a);
        choose(words: [__m512i; 2], numbers: __m512i) -> __m512i =
            _mm512_permutex2var_epi32(words[0], numbers, words[1]);
        choose_of_one(words: __m512i, numbers: __m512i) -> __m512i =
            _mm512_permutexvar_epi32(numbers, words);
        shl<N>(a: __m512i) -> __m512i = _mm512_slli_epi32::<N>(a);
        shr<N>(a: __m512i) -> __m512i = _mm512_srli_epi32::<N>(a);
        sar<N>(a: __m512i) -> __m512i = _mm512_srai_epi32::<N>(a);
    }

    #[inline(always)]
    fn lanes(self, x: __m512i) -> [i32; 16] {
        recast(x)
    }

    #[inline(always)]
    fn of_words(self, word: impl Fn(usize) -> i32) -> __m512i {
        let quarter = |i: usize| self.quarter([0, 1, 2, 3].map(|lane| word(i + lane)));
        self.joined([quarter(0), quarter(4), quarter(8), quarter(12)])
    }

    #[inline(always)]
    fn of_pairs(self, pair: impl Fn(usize) -> u64) -> [__m512i; 2] {
        let pair = |i: usize| self.two([pair(2 * i), pair(2 * i + 1)]);
        let low = self.joined([pair(0), pair(1), pair(2), pair(3)]);
        let high = self.joined([pair(4), pair(5), pair(6), pair(7)]);
        [EVEN, ODD].map(|numbers| self.choose([low, high], recast(numbers)))
    }

    #[inline(always)]
    fn of_fours(self, texel: impl Fn(usize) -> __m128i) -> [__m512i; 4] {
        // Quarter q of part j is lane 4 q + j's, so that transposed quarters are in order.
        let part = |j: usize| self.joined([texel(j), texel(4 + j), texel(8 + j), texel(12 + j)]);
        self.transposed([part(0), part(1), part(2), part(3)])
    }
}

impl Avx512 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(in super::super) fn new() -> Self {
        Self(())
    }

    direct! {
        quarter(words: [i32; 4]) -> __m128i = {
            let [a, b, c, d] = words.map(|word| _mm_cvtsi32_si128(word));
            _mm_unpacklo_epi64(_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d))
        };
        two(pairs: [u64; 2]) -> __m128i = _mm_set_epi64x(pairs[1] as i64, pairs[0] as i64);
        // Four quarters, the first lowest.
        joined(q: [__m128i; 4]) -> __m512i = {
            let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(q[0]), q[1]);
            let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(q[2]), q[3]);
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        };
        // Within quarters, four vectors' words in place of a vector's.
        transposed(v: [__m512i; 4]) -> [__m512i; 4] = {
            let [a, b, c, d] = v;
            let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
            let (ef, gh) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
            [
                _mm512_unpacklo_epi64(ab, cd),
                _mm512_unpackhi_epi64(ab, cd),
                _mm512_unpacklo_epi64(ef, gh),
                _mm512_unpackhi_epi64(ef, gh),
            ]
        };
    }
}
