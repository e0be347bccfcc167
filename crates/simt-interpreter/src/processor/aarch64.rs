//! Host processor support on AArch64: as ARMv8.0 has it, with no vectors beyond what the compiler
//! makes of plain Rust.

use super::arithmetic::{ADD, DIV, FMA, MUL, SUB};
use super::direction::{DOWN, UP};
use std::arch::asm;

/// True with AVX-512: never.
pub(crate) fn has_avx512() -> bool {
    false
}

/// True with AVX2: never.
pub(crate) fn has_avx2() -> bool {
    false
}

/// True if multiplications are fused with additions.
pub(crate) fn has_fma() -> bool {
    true
}

/// True with [`exchange_16`].
pub(crate) fn has_exchange_16() -> bool {
    true
}

/// Ticks of the system counter, which is what programs may read: 24 MHz to 1 GHz, not the core's clock.
pub(crate) fn cycles() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets programs read this register.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// The mask whose bit `i` is `bytes[i]`'s top bit.
#[inline(always)]
pub(crate) fn pack_mask(bytes: &[u8; 32]) -> u32 {
    /// Brings the lowest bits of eight bytes together in the highest byte, the first one's lowest.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut mask = 0;
    for (n, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let tops = u64::from_le_bytes(*eight) >> 7 & 0x0101_0101_0101_0101;
        mask |= ((tops.wrapping_mul(GATHER) >> 56) as u32) << (8 * n);
    }
    mask
}

/// Reads 16 bytes: whole on processors with LSE2 (ARMv8.4), else in two halves.
///
/// # Safety
/// They can be read.
#[inline(always)]
pub(crate) unsafe fn load_16(from: *const u128) -> u128 {
    let (low, high): (u64, u64);
    // SAFETY: by contract.
    unsafe {
        asm!("ldp {}, {}, [{}]", out(reg) low, out(reg) high, in(reg) from,
            options(nostack, preserves_flags, readonly));
    }
    u128::from(low) | u128::from(high) << 64
}

/// Writes 16 bytes, as [`load_16`] reads them.
///
/// # Safety
/// They can be written.
#[inline(always)]
pub(crate) unsafe fn store_16(to: *mut u128, value: u128) {
    // SAFETY: by contract.
    unsafe {
        asm!("stp {}, {}, [{}]", in(reg) value as u64, in(reg) (value >> 64) as u64, in(reg) to,
            options(nostack, preserves_flags));
    }
}

/// Stores `new` if `old` is there; returns what was. What was is stored again if it is not `old`: only
/// a store that succeeds shows that both halves were read at once.
///
/// # Safety
/// The place is aligned to 16 bytes and can be written.
pub(crate) unsafe fn exchange_16(at: *mut u128, old: u128, new: u128) -> u128 {
    let (low, high): (u64, u64);
    // SAFETY: by contract.
    unsafe {
        asm!(
            "2:",
            "ldaxp {low}, {high}, [{at}]",
            "cmp {low}, {old_low}",
            "ccmp {high}, {old_high}, #0, eq",
            "csel {next}, {new_low}, {low}, eq",
            "csel {more}, {new_high}, {high}, eq",
            "stlxp {failed:w}, {next}, {more}, [{at}]",
            "cbnz {failed:w}, 2b",
            at = in(reg) at,
            old_low = in(reg) old as u64,
            old_high = in(reg) (old >> 64) as u64,
            new_low = in(reg) new as u64,
            new_high = in(reg) (new >> 64) as u64,
            low = out(reg) low,
            high = out(reg) high,
            next = out(reg) _,
            more = out(reg) _,
            failed = out(reg) _,
            options(nostack)
        );
    }
    u128::from(low) | u128::from(high) << 64
}

/// What x86-64's `vrsqrt14ps` gives: not here.
pub(crate) fn rsqrt_estimates(_: &[f32; 16]) -> Option<[f32; 16]> {
    None
}

/// FPCR: the rounding field's place; 1 is up, 2 down, 3 to zero.
const ROUNDING_SHIFT: u32 = 22;

/// FPCR for a direction: no trap, subnormals kept, payloads of NaN kept.
const fn control(direction: u8) -> u64 {
    let field = match direction {
        UP => 1,
        DOWN => 2,
        _ => 3,
    };
    field << ROUNDING_SHIFT
}

/// Works through `n` lanes: loads `a`, `b` and `c` to registers 0, 1 and 2, one instruction, stores
/// register 0.
macro_rules! lanes {
    ($d:ident, $a:ident, $b:ident, $c:ident, $n:expr, $direction:expr, $size:literal,
     $kind:literal, $work:literal) => {{
        // SAFETY: the arrays have `n` lanes of the element's size, which is the stride; the
        // block writes only `d`, and leaves FPCR as it was.
        unsafe {
            asm!(
                "mrs {saved}, fpcr",
                "msr fpcr, {control}",
                "2:",
                concat!("ldr ", $kind, "0, [{a}], #", $size),
                concat!("ldr ", $kind, "1, [{b}], #", $size),
                concat!("ldr ", $kind, "2, [{c}], #", $size),
                $work,
                concat!("str ", $kind, "0, [{d}], #", $size),
                "subs {n}, {n}, #1",
                "b.ne 2b",
                "msr fpcr, {saved}",
                saved = out(reg) _,
                control = in(reg) control($direction),
                a = inout(reg) $a.as_ptr() => _,
                b = inout(reg) $b.as_ptr() => _,
                c = inout(reg) $c.as_ptr() => _,
                d = inout(reg) $d.as_mut_ptr() => _,
                n = inout(reg) $n => _,
                out("v0") _,
                out("v1") _,
                out("v2") _,
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
        ADD => lanes!(d, a, b, c, N, DIRECTION, "4", "s", "fadd s0, s0, s1"),
        SUB => lanes!(d, a, b, c, N, DIRECTION, "4", "s", "fsub s0, s0, s1"),
        MUL => lanes!(d, a, b, c, N, DIRECTION, "4", "s", "fmul s0, s0, s1"),
        DIV => lanes!(d, a, b, c, N, DIRECTION, "4", "s", "fdiv s0, s0, s1"),
        FMA => lanes!(d, a, b, c, N, DIRECTION, "4", "s", "fmadd s0, s0, s1, s2"),
        _ => lanes!(d, a, b, c, N, DIRECTION, "4", "s", "fsqrt s0, s0"),
    }
}

/// As [`rounded_32`].
#[inline(always)]
#[rustfmt::skip]
pub(crate) fn rounded_64<const OP: u8, const DIRECTION: u8, const N: usize>(
    d: &mut [f64; N], a: &[f64; N], b: &[f64; N], c: &[f64; N],
) {
    match OP {
        ADD => lanes!(d, a, b, c, N, DIRECTION, "8", "d", "fadd d0, d0, d1"),
        SUB => lanes!(d, a, b, c, N, DIRECTION, "8", "d", "fsub d0, d0, d1"),
        MUL => lanes!(d, a, b, c, N, DIRECTION, "8", "d", "fmul d0, d0, d1"),
        DIV => lanes!(d, a, b, c, N, DIRECTION, "8", "d", "fdiv d0, d0, d1"),
        FMA => lanes!(d, a, b, c, N, DIRECTION, "8", "d", "fmadd d0, d0, d1, d2"),
        _ => lanes!(d, a, b, c, N, DIRECTION, "8", "d", "fsqrt d0, d0"),
    }
}
