//! The processor's floating-point mode while a kernel runs.
//!
//! Kernels run on threads of the program's too, and new threads inherit the mode of their maker:
//! a program built with -ffast-math would otherwise flush its kernels' denormals to zero.

use std::arch::asm;

/// Round to nearest, keep denormals, no exceptions: what the tiers expect.
const DEFAULT: u32 = 0x1f80;

/// The default mode while this lives, then the mode that was.
pub(super) struct DefaultFloats {
    before: u32,
}

impl DefaultFloats {
    pub(super) fn new() -> Self {
        let mut before = 0u32;
        // SAFETY: stores the control register to a word of ours.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut before, options(nostack, preserves_flags)) };
        set(DEFAULT);
        Self { before }
    }
}

impl Drop for DefaultFloats {
    fn drop(&mut self) {
        set(self.before);
    }
}

fn set(mode: u32) {
    // SAFETY: loads the control register from a word that holds a mode the processor has had, or
    // its default; nothing else is touched.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &mode, options(nostack, readonly, preserves_flags)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Flush results that are denormal to zero.
    const FLUSH: u32 = 0x8000;

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
