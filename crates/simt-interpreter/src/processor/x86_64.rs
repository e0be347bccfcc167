//! Host processor support on x86-64.

use super::arithmetic::{ADD, DIV, FMA, MUL, SUB};
use crate::register_file::recast;
use std::arch::asm;
use std::arch::x86_64::{__m128i, _mm_movemask_epi8, _mm512_rsqrt14_ps, _rdtsc};

/// True with AVX-512 F, BW, DQ and VL, and FMA.
pub(crate) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("fma")
}

/// True with AVX2 and FMA.
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// True if multiplications are fused with additions: [`rounded_64`] needs it for that.
pub(crate) fn has_fma() -> bool {
    is_x86_feature_detected!("fma")
}

/// True with [`exchange_16`].
pub(crate) fn has_exchange_16() -> bool {
    is_x86_feature_detected!("cmpxchg16b")
}

/// Cycles: the processor's own counter.
pub(crate) fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has a time stamp counter.
    unsafe { _rdtsc() }
}

/// The mask whose bit `i` is `bytes[i]`'s top bit.
#[inline(always)]
pub(crate) fn pack_mask(bytes: &[u8; 32]) -> u32 {
    let [low, high] = recast::<[u8; 32], [__m128i; 2]>(*bytes);
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_movemask_epi8(low) as u32 | (_mm_movemask_epi8(high) as u32) << 16 }
}

/// Reads 16 bytes, by an instruction that every processor with AVX makes whole; the compiler might
/// move two halves.
///
/// # Safety
/// They can be read.
#[inline(always)]
pub(crate) unsafe fn load_16(from: *const u128) -> u128 {
    let value: __m128i;
    // SAFETY: by contract; any bits are a value of both types.
    unsafe {
        asm!("movdqu {}, [{}]", out(xmm_reg) value, in(reg) from,
            options(nostack, preserves_flags, readonly));
        recast(value)
    }
}

/// Writes 16 bytes, as [`load_16`] reads them.
///
/// # Safety
/// They can be written.
#[inline(always)]
pub(crate) unsafe fn store_16(to: *mut u128, value: u128) {
    // SAFETY: by contract.
    unsafe {
        asm!("movdqu [{}], {}", in(reg) to, in(xmm_reg) recast::<u128, __m128i>(value),
            options(nostack, preserves_flags));
    }
}

/// Stores `new` if `old` is there; returns what was.
///
/// # Safety
/// The place is aligned to 16 bytes and can be written; [`has_exchange_16`].
pub(crate) unsafe fn exchange_16(at: *mut u128, old: u128, new: u128) -> u128 {
    let (mut low, mut high) = (old as u64, (old >> 64) as u64);
    // SAFETY: by contract. `rbx` belongs to the compiler and gets its value back.
    unsafe {
        asm!(
            "xchg rsi, rbx",
            "lock cmpxchg16b [rdi]",
            "mov rbx, rsi",
            in("rdi") at,
            inout("rsi") new as u64 => _,
            in("rcx") (new >> 64) as u64,
            inout("rax") low,
            inout("rdx") high,
            options(nostack)
        );
    }
    u128::from(low) | u128::from(high) << 64
}

/// What `vrsqrt14ps` gives; `None` without it.
pub(crate) fn rsqrt_estimates(x: &[f32; 16]) -> Option<[f32; 16]> {
    #[target_feature(enable = "avx512f")]
    fn instruction(x: &[f32; 16]) -> [f32; 16] {
        recast(_mm512_rsqrt14_ps(recast(*x)))
    }
    // SAFETY: the processor has AVX-512 F.
    is_x86_feature_detected!("avx512f").then(|| unsafe { instruction(x) })
}

/// MXCSR: all exceptions masked.
const MASKED: u32 = 0x1f80;
/// MXCSR: the rounding field's place, whose values are those of `direction`.
const ROUNDING_SHIFT: u32 = 13;

/// Works through `n` lanes: loads `a` (and `b`, `c`), one instruction, stores.
macro_rules! lanes {
    ($d:ident, $a:ident, $b:ident, $c:ident, $n:expr, $direction:expr, $size:literal,
     $load:literal, [$($work:literal),*]) => {{
        let control: u32 = MASKED | u32::from($direction) << ROUNDING_SHIFT;
        let mut saved: u32 = 0;
        // SAFETY: the arrays have `n` lanes of the element's size, which is the stride; the
        // block writes only `d` and `saved`, and leaves MXCSR's control bits as they were.
        unsafe {
            asm!(
                "stmxcsr dword ptr [{saved}]",
                "ldmxcsr dword ptr [{control}]",
                "2:",
                concat!($load, " xmm0, [{a}]"),
                $($work,)*
                concat!($load, " [{d}], xmm0"),
                concat!("add {a}, ", $size),
                concat!("add {b}, ", $size),
                concat!("add {c}, ", $size),
                concat!("add {d}, ", $size),
                "dec {n}",
                "jnz 2b",
                "ldmxcsr dword ptr [{saved}]",
                saved = in(reg) &raw mut saved,
                control = in(reg) &raw const control,
                a = inout(reg) $a.as_ptr() => _,
                b = inout(reg) $b.as_ptr() => _,
                c = inout(reg) $c.as_ptr() => _,
                d = inout(reg) $d.as_mut_ptr() => _,
                n = inout(reg) $n => _,
                out("xmm0") _,
                out("xmm1") _,
                out("xmm2") _,
                options(nostack)
            );
        }
    }};
}

/// `d = a OP b`, or `a * b + c`, or the root of a, rounded in a direction.
#[inline(always)]
#[rustfmt::skip]
pub(crate) fn rounded_32<const OP: u8, const DIRECTION: u8, const N: usize>(
    d: &mut [f32; N], a: &[f32; N], b: &[f32; N], c: &[f32; N],
) {
    match OP {
        ADD => lanes!(d, a, b, c, N, DIRECTION, "4", "movss", ["addss xmm0, [{b}]"]),
        SUB => lanes!(d, a, b, c, N, DIRECTION, "4", "movss", ["subss xmm0, [{b}]"]),
        MUL => lanes!(d, a, b, c, N, DIRECTION, "4", "movss", ["mulss xmm0, [{b}]"]),
        DIV => lanes!(d, a, b, c, N, DIRECTION, "4", "movss", ["divss xmm0, [{b}]"]),
        // The product of two f32 is exact in f64, and rounding the sum twice in the same
        // direction is rounding it once: no processor with FMA is needed.
        FMA => lanes!(d, a, b, c, N, DIRECTION, "4", "movss", [
            "cvtss2sd xmm0, xmm0",
            "cvtss2sd xmm1, [{b}]",
            "cvtss2sd xmm2, [{c}]",
            "mulsd xmm0, xmm1",
            "addsd xmm0, xmm2",
            "cvtsd2ss xmm0, xmm0"
        ]),
        _ => lanes!(d, a, b, c, N, DIRECTION, "4", "movss", ["sqrtss xmm0, [{a}]"]),
    }
}

/// As [`rounded_32`]; products with sums only on processors that [`has_fma`].
#[inline(always)]
#[rustfmt::skip]
pub(crate) fn rounded_64<const OP: u8, const DIRECTION: u8, const N: usize>(
    d: &mut [f64; N], a: &[f64; N], b: &[f64; N], c: &[f64; N],
) {
    match OP {
        ADD => lanes!(d, a, b, c, N, DIRECTION, "8", "movsd", ["addsd xmm0, [{b}]"]),
        SUB => lanes!(d, a, b, c, N, DIRECTION, "8", "movsd", ["subsd xmm0, [{b}]"]),
        MUL => lanes!(d, a, b, c, N, DIRECTION, "8", "movsd", ["mulsd xmm0, [{b}]"]),
        DIV => lanes!(d, a, b, c, N, DIRECTION, "8", "movsd", ["divsd xmm0, [{b}]"]),
        FMA => lanes!(d, a, b, c, N, DIRECTION, "8", "movsd", [
            "movsd xmm1, [{b}]",
            "vfmadd213sd xmm0, xmm1, [{c}]"
        ]),
        _ => lanes!(d, a, b, c, N, DIRECTION, "8", "movsd", ["sqrtsd xmm0, [{a}]"]),
    }
}
