//! AArch64: moves by pairs of vector registers.

use core::arch::asm;

/// There is no instruction for long copies that each processor has.
pub(crate) const STRING_BYTES_MIN: usize = usize::MAX;

/// Moves 64 bytes, stored by the instruction of this name.
macro_rules! move_64 {
    ($store:literal, $source:expr, $destination:expr) => {
        asm!(
            "ldp {a:q}, {b:q}, [{s}]",
            "ldp {c:q}, {d:q}, [{s}, #32]",
            concat!($store, " {a:q}, {b:q}, [{t}]"),
            concat!($store, " {c:q}, {d:q}, [{t}, #32]"),
            a = out(vreg) _, b = out(vreg) _, c = out(vreg) _, d = out(vreg) _,
            s = in(reg) $source,
            t = in(reg) $destination,
            options(nostack, preserves_flags),
        )
    };
}

/// Never called: no copy is as long as [`STRING_BYTES_MIN`].
///
/// # Safety
/// None is wanted.
pub(crate) unsafe fn copy_string(_source: *const u8, _destination: *mut u8, _bytes: usize) {
    unreachable!("no memory is that long");
}

/// Moves 64 bytes; no address need be aligned.
///
/// # Safety
/// `source` is readable and `destination` writable for 64 bytes, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn move_64(source: *const u8, destination: *mut u8) {
    // SAFETY: by the caller; normal memory needs no alignment.
    unsafe { move_64!("stp", source, destination) };
}

/// Moves 64 bytes past the caches, as far as the processor takes that hint.
///
/// # Safety
/// As for [`move_64()`].
#[inline(always)]
pub(crate) unsafe fn move_64_past_caches(source: *const u8, destination: *mut u8) {
    // SAFETY: by the caller.
    unsafe { move_64!("stnp", source, destination) };
}

/// Orders stores of [`move_64_past_caches`] before all later ones.
#[inline(always)]
pub(crate) fn order_past_caches() {
    // SAFETY: the instruction touches no memory of its own and no register.
    unsafe { asm!("dmb ishst", options(nostack, preserves_flags)) };
}

/// Moves 8 bytes; no address need be aligned.
///
/// # Safety
/// As for [`move_64()`], of 8 bytes.
#[inline(always)]
pub(crate) unsafe fn move_8(source: *const u8, destination: *mut u8) {
    // SAFETY: by the caller.
    unsafe {
        asm!(
            "ldr {word}, [{s}]",
            "str {word}, [{t}]",
            word = out(reg) _,
            s = in(reg) source,
            t = in(reg) destination,
            options(nostack, preserves_flags),
        );
    }
}
