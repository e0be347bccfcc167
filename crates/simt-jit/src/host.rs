//! Host processor detection: the instructions that native code may use, and what kept code depends on.
//!
//! The one place that says native code is for x86-64: other processors have none of its instructions,
//! so no [`SimdIsa`] is here, and the interpreter runs everything.

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

/// Which of a processor's instructions native code is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimdIsa {
    /// AVX-512 F, BW, DQ and VL: 32 lanes at a time.
    Avx512,
    /// AVX2, FMA, F16C, BMI1 and BMI2: eight lanes at a time.
    Avx2,
}

impl SimdIsa {
    /// All of them, the best first.
    pub const ALL: [Self; 2] = [Self::Avx512, Self::Avx2];

    /// From the text of a setting: `avx512` or `avx2`.
    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "avx512" => Some(Self::Avx512),
            "avx2" => Some(Self::Avx2),
            _ => None,
        }
    }

    /// What a setting names, else the best that this processor runs; `None` if it runs neither.
    pub fn choose(setting: Option<&str>) -> Option<Self> {
        let best = || Self::ALL.into_iter().find(|isa| isa.is_here());
        setting.and_then(Self::parse).or_else(best)
    }

    /// True if kernels that run as such code take the processor's estimates
    /// ([`simt::ir::vector::VectorKernel::by_estimates`]).
    pub fn estimates(self) -> bool {
        self == Self::Avx512 && simt_interpreter::tier1_abi::estimates_are_here()
    }

    /// True if this processor runs such code.
    pub fn is_here(self) -> bool {
        runs(self)
    }
}

/// True if this processor runs such code.
fn runs(isa: SimdIsa) -> bool {
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
