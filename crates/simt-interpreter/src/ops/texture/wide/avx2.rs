//! Vectors of 8 lanes: AVX2 and FMA.

use super::Wide;
use crate::register_file::recast;
use std::arch::x86_64::*;

/// Says that the processor has them.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx2(());

/// Bits of the lanes' numbers.
const BITS: [i32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

impl Wide for Avx2 {
    const LANES: usize = 8;
    type I = __m256i;
    type F = __m256;
    type Four = __m128i;
    type M = __m256i;

    direct! {
        int(x: i32) -> __m256i = _mm256_set1_epi32(x);
        ends(x: __m256i) -> (i32, i32) = {
            let last = _mm256_extracti128_si256::<1>(x);
            (_mm_cvtsi128_si32(_mm256_castsi256_si128(x)), _mm_extract_epi32::<3>(last))
        };
        add(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
        sub(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi32(a, b);
        mul(a: __m256i, b: __m256i) -> __m256i = _mm256_mullo_epi32(a, b);
        and(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        or(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        xor(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        shr_by(a: __m256i, by: __m256i) -> __m256i = _mm256_srlv_epi32(a, by);
        min(a: __m256i, b: __m256i) -> __m256i = _mm256_min_epi32(a, b);
        max(a: __m256i, b: __m256i) -> __m256i = _mm256_max_epi32(a, b);
        min_unsigned(a: __m256i, b: __m256i) -> __m256i = _mm256_min_epu32(a, b);
        within(a: __m256i, b: __m256i) -> __m256i =
            _mm256_cmpeq_epi32(_mm256_min_epu32(a, b), a);
        more(a: __m256i, b: __m256i) -> __m256i = _mm256_cmpgt_epi32(a, b);
        equal(a: __m256i, b: __m256i) -> __m256i = _mm256_cmpeq_epi32(a, b);
        float(x: f32) -> __m256 = _mm256_set1_ps(x);
        add_f(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        sub_f(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        mul_f(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        div_f(a: __m256, b: __m256) -> __m256 = _mm256_div_ps(a, b);
        max_f(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        fused(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        floor(a: __m256) -> __m256 =
            _mm256_round_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(a);
        // Twice as many steps, cut off, and one more.
        weight(a: __m256) -> __m256 = {
            let halves = _mm256_cvttps_epi32(_mm256_mul_ps(a, _mm256_set1_ps(512.0)));
            let steps = _mm256_srli_epi32::<1>(_mm256_add_epi32(halves, _mm256_set1_epi32(1)));
            _mm256_mul_ps(_mm256_cvtepi32_ps(steps), _mm256_set1_ps(1.0 / 256.0))
        };
        less(a: __m256, b: __m256) -> __m256i =
            _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b));
        at_least(a: __m256, b: __m256) -> __m256i =
            _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GE_OQ>(a, b));
        is_number(a: __m256) -> __m256i =
            _mm256_castps_si256(_mm256_cmp_ps::<_CMP_ORD_Q>(a, a));
        is_not_zero(a: __m256) -> __m256i =
            _mm256_castps_si256(_mm256_cmp_ps::<_CMP_NEQ_UQ>(a, _mm256_setzero_ps()));
        as_float(a: __m256i) -> __m256 = _mm256_castsi256_ps(a);
        as_int(a: __m256) -> __m256i = _mm256_castps_si256(a);
        to_float(a: __m256i) -> __m256 = _mm256_cvtepi32_ps(a);
        to_int(a: __m256) -> __m256i = _mm256_cvttps_epi32(a);
        mask(bits: u32) -> __m256i = {
            let lanes = _mm256_loadu_si256(BITS.as_ptr().cast());
            _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits as i32), lanes), lanes)
        };
        bits(m: __m256i) -> u32 = _mm256_movemask_ps(_mm256_castsi256_ps(m)) as u32;
        both(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        either(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        except(a: __m256i, b: __m256i) -> __m256i = _mm256_andnot_si256(b, a);
        pick(m: __m256i, a: __m256i, b: __m256i) -> __m256i = _mm256_blendv_epi8(b, a, m);
        keep(m: __m256i, a: __m256i) -> __m256i = _mm256_and_si256(m, a);
        choose_of_one(words: __m256i, numbers: __m256i) -> __m256i =
            _mm256_permutevar8x32_epi32(words, numbers);
        choose(words: [__m256i; 2], numbers: __m256i) -> __m256i = {
            let [low, high] = words.map(|words| _mm256_permutevar8x32_epi32(words, numbers));
            // The bit that is worth 8 decides.
            let upper = _mm256_slli_epi32::<28>(numbers);
            let picked = _mm256_blendv_ps(
                _mm256_castsi256_ps(low),
                _mm256_castsi256_ps(high),
                _mm256_castsi256_ps(upper),
            );
            _mm256_castps_si256(picked)
        };
        shl<N>(a: __m256i) -> __m256i = _mm256_sll_epi32(a, _mm_cvtsi32_si128(N as i32));
        shr<N>(a: __m256i) -> __m256i = _mm256_srl_epi32(a, _mm_cvtsi32_si128(N as i32));
        sar<N>(a: __m256i) -> __m256i = _mm256_sra_epi32(a, _mm_cvtsi32_si128(N as i32));
    }

    #[inline(always)]
    fn half(self, a: __m256i) -> __m256 {
        super::super::texels::half_exactly(self, a)
    }

    #[inline(always)]
    fn lanes(self, x: __m256i) -> [i32; 16] {
        recast([recast::<_, [i32; 8]>(x), [0; 8]])
    }

    #[inline(always)]
    fn of_words(self, word: impl Fn(usize) -> i32) -> __m256i {
        let half = |i: usize| self.quarter([0, 1, 2, 3].map(|lane| word(i + lane)));
        self.joined(half(0), half(4))
    }

    #[inline(always)]
    fn of_pairs(self, pair: impl Fn(usize) -> u64) -> [__m256i; 2] {
        let two = |i: usize| self.two([pair(i), pair(i + 1)]);
        // Lanes 0, 1, 4, 5 and 2, 3, 6, 7, so that picked words are in order.
        self.separated(self.joined(two(0), two(4)), self.joined(two(2), two(6)))
    }

    #[inline(always)]
    fn of_fours(self, texel: impl Fn(usize) -> __m128i) -> [__m256i; 4] {
        // Half h of part j is lane 4 h + j's, so that transposed halves are in order.
        let part = |j: usize| self.joined(texel(j), texel(4 + j));
        self.transposed([part(0), part(1), part(2), part(3)])
    }
}

impl Avx2 {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(in super::super) fn new() -> Self {
        Self(())
    }

    direct! {
        quarter(words: [i32; 4]) -> __m128i = {
            let [a, b, c, d] = words.map(|word| _mm_cvtsi32_si128(word));
            _mm_unpacklo_epi64(_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d))
        };
        two(pairs: [u64; 2]) -> __m128i = _mm_set_epi64x(pairs[1] as i64, pairs[0] as i64);
        joined(low: __m128i, high: __m128i) -> __m256i =
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
        // The even words of both, and the odd ones.
        separated(a: __m256i, b: __m256i) -> [__m256i; 2] = {
            let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            let even = _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(a, b));
            [even, _mm256_castps_si256(_mm256_shuffle_ps::<0xdd>(a, b))]
        };
        // Within halves, four vectors' words in place of a vector's.
        transposed(v: [__m256i; 4]) -> [__m256i; 4] = {
            let [a, b, c, d] = v;
            let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
            let (ef, gh) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(ab, cd),
                _mm256_unpackhi_epi64(ab, cd),
                _mm256_unpacklo_epi64(ef, gh),
                _mm256_unpackhi_epi64(ef, gh),
            ]
        };
    }
}
