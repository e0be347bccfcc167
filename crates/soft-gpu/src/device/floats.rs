//! The processor's floating-point mode while a kernel runs.
//!
//! Kernels run on threads of the program's too, and new threads inherit the mode of their maker:
//! a program built with -ffast-math would otherwise flush its kernels' denormals to zero.

/// The processor's control register: MXCSR.
#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    pub(super) type Mode = u32;
    /// Round to nearest, keep denormals, no exceptions: what the tiers expect.
    pub(super) const DEFAULT: Mode = 0x1f80;
    /// Flush results that are denormal to zero.
    #[cfg(test)]
    pub(super) const FLUSH: Mode = 0x8000;

    pub(super) fn get() -> Mode {
        let mut mode = 0u32;
        // SAFETY: stores the control register to a word of ours.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut mode, options(nostack, preserves_flags)) };
        mode
    }

    pub(super) fn set(mode: Mode) {
        // SAFETY: loads the control register from a word that holds a mode the processor has had, or
        // its default; nothing else is touched.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &mode, options(nostack, readonly, preserves_flags)) };
    }
}

/// The processor's control register: FPCR.
#[cfg(target_arch = "aarch64")]
mod control {
    use std::arch::asm;

    pub(super) type Mode = u64;
    /// Round to nearest, keep denormals, no exceptions: what the tiers expect.
    pub(super) const DEFAULT: Mode = 0;
    /// Flush results that are denormal to zero.
    #[cfg(test)]
    pub(super) const FLUSH: Mode = 1 << 24;

    pub(super) fn get() -> Mode {
        let mode;
        // SAFETY: reads the control register.
        unsafe { asm!("mrs {}, fpcr", out(reg) mode, options(nomem, nostack, preserves_flags)) };
        mode
    }

    pub(super) fn set(mode: Mode) {
        // SAFETY: the mode is one that the processor has had, or its default; nothing else is touched.
        unsafe { asm!("msr fpcr, {}", in(reg) mode, options(nostack, preserves_flags)) };
    }
}

use control::{DEFAULT, Mode, get, set};

/// The default mode while this lives, then the mode that was.
pub(super) struct DefaultFloats {
    before: Mode,
}

impl DefaultFloats {
    pub(super) fn new() -> Self {
        let before = get();
        set(DEFAULT);
        Self { before }
    }
}

impl Drop for DefaultFloats {
    fn drop(&mut self) {
        set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::control::FLUSH;
    use super::*;
    use std::hint::black_box;

    #[test]
    fn kernels_do_not_see_the_programs_mode() {
        let denormal = || black_box(f32::MIN_POSITIVE) * black_box(0.5);
        let mine = DefaultFloats::new();
        set(DEFAULT | FLUSH);
        assert_eq!(denormal(), 0.0);
        {
            let _kernel = DefaultFloats::new();
            assert!(denormal() > 0.0);
        }
        assert_eq!(denormal(), 0.0);
        drop(mine);
        assert!(denormal() > 0.0);
    }
}
