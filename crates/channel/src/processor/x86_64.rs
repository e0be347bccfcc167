//! x86-64: moves by SSE2, and the string instruction for long copies.

use core::arch::asm;

/// From here on the processor's own way to copy is the fastest, bytes. It reads no line that it is
/// going to write as a whole.
pub(crate) const STRING_BYTES_MIN: usize = 4096;

/// Moves 64 bytes by 16 at a time, stored by the instruction of this name.
macro_rules! move_64 {
    ($store:literal, $source:expr, $destination:expr) => {
        asm!(
            "movdqu {a}, [{s}]",
            "movdqu {b}, [{s} + 16]",
            "movdqu {c}, [{s} + 32]",
            "movdqu {d}, [{s} + 48]",
            concat!($store, " [{t}], {a}"),
            concat!($store, " [{t} + 16], {b}"),
            concat!($store, " [{t} + 32], {c}"),
            concat!($store, " [{t} + 48], {d}"),
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            s = in(reg) $source,
            t = in(reg) $destination,
            options(nostack, preserves_flags),
        )
    };
}

/// Copies bytes upwards.
///
/// # Safety
/// `source` is readable and `destination` writable for `bytes` bytes, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_string(source: *const u8, destination: *mut u8, bytes: usize) {
    // SAFETY: by the caller. The direction flag is clear by the calling convention, and the registers
    // are declared as overwritten.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rsi") source => _,
            inout("rdi") destination => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Moves 64 bytes; no address need be aligned.
///
/// # Safety
/// As for [`copy_string`], of 64 bytes.
#[inline(always)]
pub(crate) unsafe fn move_64(source: *const u8, destination: *mut u8) {
    // SAFETY: by the caller; movdqu needs no alignment.
    unsafe { move_64!("movdqu", source, destination) };
}

/// Moves 64 bytes past the caches.
///
/// # Safety
/// As for [`move_64()`], and `destination` is a multiple of 64.
#[inline(always)]
pub(crate) unsafe fn move_64_past_caches(source: *const u8, destination: *mut u8) {
    // SAFETY: by the caller; movntdq wants a multiple of 16.
    unsafe { move_64!("movntdq", source, destination) };
}

/// Orders stores of [`move_64_past_caches`] before all later ones.
#[inline(always)]
pub(crate) fn order_past_caches() {
    // SAFETY: the instruction touches no memory of its own and no register.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}

/// Moves 8 bytes; no address need be aligned.
///
/// # Safety
/// As for [`copy_string`], of 8 bytes.
#[inline(always)]
pub(crate) unsafe fn move_8(source: *const u8, destination: *mut u8) {
    // SAFETY: by the caller; a plain move of a register needs no alignment.
    unsafe {
        asm!(
            "mov {word}, qword ptr [{s}]",
            "mov qword ptr [{t}], {word}",
            word = out(reg) _,
            s = in(reg) source,
            t = in(reg) destination,
            options(nostack, preserves_flags),
        );
    }
}
