//! How a parameter of a `post` or `call` row travels: as one 64-bit word.

use crate::types::*;

/// A type that fits a word of the wire.
pub trait Word: Sized + Copy {
    /// The word that stands for it.
    fn to_word(self) -> u64;
    /// What a word stands for; `None` if it is out of the type's range.
    fn from_word(word: u64) -> Option<Self>;
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl Word for $ty {
            #[inline(always)]
            fn to_word(self) -> u64 {
                // Sign extension keeps negative values; from_word checks that it was one.
                self as u64
            }
            #[inline(always)]
            fn from_word(word: u64) -> Option<Self> {
                let value = word as $ty;
                (value as u64 == word).then_some(value)
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, usize, i32, i64);

macro_rules! handles {
    ($($ty:ident),*) => {$(
        impl Word for $ty {
            #[inline(always)]
            fn to_word(self) -> u64 {
                self.0 as u64
            }
            #[inline(always)]
            fn from_word(word: u64) -> Option<Self> {
                Some(Self(word as _))
            }
        }
    )*};
}

handles!(
    CUcontext,
    CUmodule,
    CUfunction,
    CUlibrary,
    CUkernel,
    CUstream,
    CUevent,
    CUmemoryPool,
    CUgraphExec,
    CUarray,
    CUmipmappedArray,
    CUdeviceptr
);

impl Word for f32 {
    #[inline(always)]
    fn to_word(self) -> u64 {
        u64::from(self.to_bits())
    }
    #[inline(always)]
    fn from_word(word: u64) -> Option<Self> {
        u32::try_from(word).ok().map(Self::from_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_values_and_refuse_others() {
        assert_eq!(i32::from_word((-5i32).to_word()), Some(-5));
        assert_eq!(u8::from_word(255u8.to_word()), Some(255));
        assert_eq!(u8::from_word(256), None);
        assert_eq!(i32::from_word(1 << 31), None);
        assert_eq!(f32::from_word(1.5f32.to_word()), Some(1.5));
        assert_eq!(f32::from_word(1 << 32), None);
    }
}
