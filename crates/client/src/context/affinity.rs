//! Execution affinity: contexts with SMs of their own.
//!
//! A context gets neighbouring SMs of its program's, where the fewest of its other contexts are. It asks
//! for a number (CUexecAffinityParam), or for a percentage by the variables of NVIDIA's MPS.

use super::table::Contexts;
use core::ffi::c_uint;
use core::sync::atomic::Ordering;
use cuda_api::environment::{
    CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING,
};
use cuda_api::handle::Handle;
use cuda_api::settings::{Percentage, SettingRefused};
use cuda_api::{CUcontext, CUresult, CudaError};
use std::ops::Range;
use std::sync::OnceLock;

/// CU_EXEC_AFFINITY_TYPE_SM_COUNT, the only kind.
pub(crate) const SM_COUNT: c_uint = 0;

/// How many SMs a context is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmsWanted {
    /// That number, rounded up to whole units.
    pub(crate) sms: u32,
    /// SMs that are given out together.
    pub(crate) unit: u32,
    /// SMs of the program.
    pub(crate) all: u32,
}

impl SmsWanted {
    /// Neighbouring SMs that begin at a whole unit: those that the fewest others have.
    fn place(self, taken: &[Range<u32>]) -> Range<u32> {
        let unit = self.unit.clamp(1, self.all.max(1));
        let sms = self.sms.max(1).next_multiple_of(unit).min(self.all);
        let load = |first: u32| {
            let overlap = |other: &Range<u32>| {
                other.end.min(first + sms).saturating_sub(other.start.max(first))
            };
            taken.iter().map(overlap).sum::<u32>()
        };
        let starts = (0..=self.all - sms).step_by(unit as usize);
        let first = starts.min_by_key(|first| load(*first)).unwrap_or(0);
        first..first + sms
    }
}

impl Contexts {
    /// Gives a context SMs of its own.
    pub(crate) fn place(&self, context: CUcontext, wanted: SmsWanted) -> CUresult {
        let device = self.with(context, |context| context.device)?;
        let sms = wanted.place(&self.sms_taken(device));
        self.with(context, |context| context.sms = Some(sms))
    }

    /// Takes them back.
    pub(crate) fn unplace(&self, context: CUcontext) {
        let _ = self.with(context, |context| (context.sms, context.own_default) = (None, None));
    }

    /// The default stream on the context's own SMs.
    pub(crate) fn set_own_default(&self, context: CUcontext, stream: Handle) -> CUresult {
        self.with(context, |context| context.own_default = Some(stream))?;
        self.any_sms.store(true, Ordering::Release);
        Ok(())
    }

    /// The default stream of a context that has SMs of its own.
    #[inline(always)]
    pub(crate) fn own_default(&self, context: u64) -> Option<Handle> {
        if !self.any_sms.load(Ordering::Acquire) {
            return None;
        }
        self.with(CUcontext(context as usize), |context| context.own_default).ok().flatten()
    }

    /// The SMs of a context, green or not, that has not all of its program's.
    pub(crate) fn sms_of(&self, context: u64) -> Option<Range<u32>> {
        let green = self.with_green(context, |green| green.sms.clone());
        let own = || self.with(CUcontext(context as usize), |context| context.sms.clone());
        green.ok().or_else(|| own().ok().flatten())
    }

    /// The SMs of a context's stream, or of a green context's if that is not 0.
    pub(crate) fn sms_of_stream(&self, context: u64, green: u64) -> Option<Range<u32>> {
        self.sms_of(if green == 0 { context } else { green })
    }
}

/// Whether each context has the share that CUDA_MPS_ACTIVE_THREAD_PERCENTAGE says when it is made: looked
/// at once, when the program begins.
pub(crate) fn is_per_context() -> bool {
    static ENABLED: OnceLock<bool> = OnceLock::new();
    *ENABLED.get_or_init(|| {
        let name = CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING;
        std::env::var_os(name).is_some_and(|value| value == "1")
    })
}

/// The share that a context made now is to have; `None`: all that the program has.
pub(crate) fn share_now() -> Result<Option<Percentage>, SettingRefused> {
    if !is_per_context() {
        return Ok(None);
    }
    match std::env::var_os(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE) {
        Some(text) if !text.is_empty() => Percentage::parse(&text.to_string_lossy()).map(Some),
        _ => Ok(None),
    }
}

/// What an affinity asks for: CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY for another kind,
/// CUDA_ERROR_INVALID_VALUE for a number that there is not.
pub(crate) fn check(kind: c_uint, sms: u32, all: u32) -> CUresult {
    match (kind, sms) {
        (SM_COUNT, 1..) if sms <= all => Ok(()),
        (SM_COUNT, _) => Err(CudaError::INVALID_VALUE),
        _ => Err(CudaError::UNSUPPORTED_EXEC_AFFINITY),
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of one range")]
mod tests {
    use super::*;

    #[test]
    fn contexts_get_whole_units_where_the_fewest_others_are() {
        let wanted = |sms| SmsWanted { sms, unit: 2, all: 8 };
        assert_eq!(wanted(3).place(&[]), 0..4);
        assert_eq!(wanted(3).place(&[0..4]), 4..8);
        assert_eq!(wanted(2).place(&[0..4, 4..8, 0..2]), 2..4);
        assert_eq!(wanted(8).place(&[0..4]), 0..8);
        assert_eq!(SmsWanted { sms: 121, unit: 8, all: 132 }.place(&[]), 0..128);
        assert_eq!(SmsWanted { sms: 131, unit: 8, all: 132 }.place(&[]), 0..132);
        assert_eq!(SmsWanted { sms: 1, unit: 2, all: 1 }.place(&[]), 0..1);
    }

    #[test]
    fn numbers_that_there_are_not_are_refused() {
        assert_eq!((check(SM_COUNT, 1, 8), check(SM_COUNT, 8, 8)), (Ok(()), Ok(())));
        for sms in [0, 9] {
            assert_eq!(check(SM_COUNT, sms, 8), Err(CudaError::INVALID_VALUE));
        }
        assert_eq!(check(1, 4, 8), Err(CudaError::UNSUPPORTED_EXEC_AFFINITY));
    }
}
