//! Host processor support: what Rust has no portable form for, once for each architecture.
//!
//! Elsewhere an architecture is named only where code for its vectors is chosen (`ops::map`,
//! `ops::mma`, `ops::texture`). To port the interpreter is to write one more file here; its handlers
//! are plain Rust, and native code (crate `simt-jit`) exists for x86-64 alone.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
compile_error!("the interpreter runs on x86-64 and AArch64; others need a file in `processor`");

/// The arithmetic that can be rounded in a direction.
pub(crate) mod arithmetic {
    pub(crate) const ADD: u8 = 0;
    pub(crate) const SUB: u8 = 1;
    pub(crate) const MUL: u8 = 2;
    pub(crate) const FMA: u8 = 3;
    pub(crate) const DIV: u8 = 4;
    pub(crate) const SQRT: u8 = 5;
}

/// The directions.
pub(crate) mod direction {
    pub(crate) const DOWN: u8 = 1;
    pub(crate) const UP: u8 = 2;
    pub(crate) const ZERO: u8 = 3;
}

#[cfg(test)]
mod tests {
    use super::*;
    use arithmetic::*;
    use direction::*;

    #[test]
    fn bytes_become_a_mask() {
        for n in 0..32 {
            let mut bytes = [0x7f; 32];
            bytes[n] = 0x80;
            assert_eq!(pack_mask(&bytes), 1 << n);
        }
        assert_eq!(pack_mask(&[0xff; 32]), !0);
    }

    #[test]
    fn sixteen_bytes_are_exchanged_if_they_are_the_old_ones() {
        if !has_exchange_16() {
            return;
        }
        #[repr(align(16))]
        struct Place(u128);
        let mut place = Place(7 << 64 | 3);
        // SAFETY: the place is aligned and nothing else uses it.
        let mut exchange = |old, new| unsafe { exchange_16(&raw mut place.0, old, new) };
        assert_eq!(exchange(3, 9), 7 << 64 | 3);
        assert_eq!(exchange(7 << 64 | 3, 5 << 64 | 1), 7 << 64 | 3);
        assert_eq!(exchange(0, 0), 5 << 64 | 1);
    }

    #[test]
    fn results_are_rounded_in_their_direction() {
        let (one, tiny) = ([1f32; 2], [f32::MIN_POSITIVE; 2]);
        let mut d = [0f32; 2];
        rounded_32::<ADD, UP, 2>(&mut d, &one, &tiny, &one);
        assert_eq!(d, [1.0f32.next_up(); 2]);
        rounded_32::<SUB, DOWN, 2>(&mut d, &one, &tiny, &one);
        assert_eq!(d, [1.0f32.next_down(); 2]);
        rounded_32::<SUB, ZERO, 2>(&mut d, &tiny.map(|x| x * 4.0), &one, &one);
        assert_eq!(d, [-(1.0f32.next_down()); 2]);
        // 1 - 2^-46, a sum of the product's lower half.
        let a = [1.0 + f32::EPSILON; 2];
        let b = [1.0 - f32::EPSILON; 2];
        rounded_32::<FMA, UP, 2>(&mut d, &a, &b, &[0.0; 2]);
        assert_eq!(d, [1.0; 2]);
        rounded_32::<FMA, DOWN, 2>(&mut d, &a, &b, &[0.0; 2]);
        assert_eq!(d, [1.0f32.next_down(); 2]);
        if has_fma() {
            let mut d = [0f64; 1];
            rounded_64::<FMA, DOWN, 1>(
                &mut d,
                &[1.0 + f64::EPSILON],
                &[1.0 - f64::EPSILON],
                &[0.0],
            );
            assert_eq!(d, [1.0f64.next_down()]);
            rounded_64::<SQRT, DOWN, 1>(&mut d, &[2.0], &[0.0], &[0.0]);
            assert_eq!(d, [2f64.sqrt().next_down()]);
        }
        // The mode is what it was.
        assert_eq!(std::hint::black_box(1f32) + std::hint::black_box(f32::MIN_POSITIVE), 1.0);
    }
}
