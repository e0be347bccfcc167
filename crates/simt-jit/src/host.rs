//! Host processor detection: the instructions that native code may use, and what kept code depends on.
//!
//! The one place that says native code is for x86-64: other processors have none of its instructions,
//! so no [`SimdIsa`] is here, and the interpreter runs everything.

use crate::SimdIsa;

/// True if this processor has an extension of x86-64.
#[cfg(target_arch = "x86_64")]
macro_rules! host_has {
    ($feature:tt) => {
        std::arch::is_x86_feature_detected!($feature)
    };
}
#[cfg(not(target_arch = "x86_64"))]
macro_rules! host_has {
    ($feature:tt) => {
        false
    };
}
pub(crate) use host_has;

/// True if this processor runs such code.
pub(crate) fn runs(isa: SimdIsa) -> bool {
    let common = host_has!("popcnt") && host_has!("lzcnt") && host_has!("bmi1");
    common
        && match isa {
            SimdIsa::Avx512 => {
                host_has!("avx512f")
                    && host_has!("avx512bw")
                    && host_has!("avx512dq")
                    && host_has!("avx512vl")
            }
            SimdIsa::Avx2 => {
                host_has!("avx2") && host_has!("fma") && host_has!("f16c") && host_has!("bmi2")
            }
        }
}

/// All that this processor says it can do.
#[cfg(target_arch = "x86_64")]
pub(crate) fn abilities() -> [u32; 5] {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let (basic, extended, more) = (__cpuid(1), __cpuid_count(7, 0), __cpuid_count(7, 1));
    [basic.ecx, extended.ebx, extended.ecx, extended.edx, more.eax]
}
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn abilities() -> [u32; 5] {
    [0; 5]
}
