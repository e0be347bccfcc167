//! Green contexts that there are at the provider, by their SMs: a client's, and those kept for later ones.

use crate::device::safe_calls::{Live, Owned, SafeCalls};
use cuda_api::{CUgreenCtx, CudaError};
use locks::{Mutex, MutexGuard};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Most green contexts of one client: a device has no more than this many ranges that make sense,
/// and each takes memory of the provider's.
const GREEN_CONTEXTS_MAX: usize = 64;

/// Most that are kept without a client that uses them.
pub const KEPT_GREEN_CONTEXTS_MAX: usize = 16;

/// A green context, which ends with its last user: no stream is left in it then.
pub(in crate::device) struct GreenContext {
    pub(in crate::device) calls: SafeCalls,
    pub(in crate::device) raw: Owned<CUgreenCtx>,
}

impl GreenContext {
    /// The provider's handle, while this is there.
    pub(in crate::device) fn live(&self) -> Live<'_, CUgreenCtx> {
        self.raw.live()
    }
}

impl Drop for GreenContext {
    fn drop(&mut self) {
        // No caller is left to whom an error could be reported.
        let _ = self.calls.cuGreenCtxDestroy(self.raw.take());
    }
}

/// Those that one client has used, by their SMs.
#[derive(Default)]
pub(in crate::device) struct GreenContexts(RefCell<BTreeMap<(u32, u32), Arc<GreenContext>>>);

impl GreenContexts {
    /// The one of some SMs, found or made when first asked for. CUDA_ERROR_OUT_OF_MEMORY if there are too
    /// many, and the errors of making it.
    pub(in crate::device) fn get(
        &self,
        sms: &Range<u32>,
        find: impl FnOnce() -> Result<Arc<GreenContext>, CudaError>,
    ) -> Result<Arc<GreenContext>, CudaError> {
        let mut used = self.0.borrow_mut();
        let key = (sms.start, sms.end);
        if let Some(green) = used.get(&key) {
            return Ok(green.clone());
        }
        if used.len() >= GREEN_CONTEXTS_MAX {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let green = find()?;
        used.insert(key, green.clone());
        Ok(green)
    }

    /// Gives all up; no stream of the client's is left in any.
    pub(in crate::device) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

/// Those of a device whose clients share a context: any client may use them, and some are kept when none
/// does. The one that was wanted last is the last.
#[derive(Default)]
pub(in crate::device) struct KeptGreenContexts(Mutex<Vec<(Range<u32>, Arc<GreenContext>)>>);

impl KeptGreenContexts {
    fn locked(&self) -> MutexGuard<'_, Vec<(Range<u32>, Arc<GreenContext>)>> {
        self.0.lock()
    }

    /// The one of some SMs, if there is one.
    pub(in crate::device) fn find(&self, sms: &Range<u32>) -> Option<Arc<GreenContext>> {
        let mut kept = self.locked();
        let at = kept.iter().position(|(of, _)| of == sms)?;
        let found = kept.remove(at);
        let green = found.1.clone();
        kept.push(found);
        Some(green)
    }

    /// Keeps one that was just made, unless another thread was faster. Returns the one that is kept.
    pub(in crate::device) fn keep(
        &self,
        sms: Range<u32>,
        green: GreenContext,
    ) -> Arc<GreenContext> {
        let mut kept = self.locked();
        if let Some((_, faster)) = kept.iter().find(|(of, _)| *of == sms) {
            return faster.clone();
        }
        let green = Arc::new(green);
        kept.push((sms, green.clone()));
        green
    }

    /// Ends those that were wanted least recently, of the ones without a user, until there are few.
    pub(in crate::device) fn trim(&self) {
        let mut kept = self.locked();
        let mut unused = kept.iter().filter(|(_, green)| Arc::strong_count(green) == 1).count();
        kept.retain(|(_, green)| {
            let ends = unused > KEPT_GREEN_CONTEXTS_MAX && Arc::strong_count(green) == 1;
            unused -= usize::from(ends);
            !ends
        });
    }

    /// Ends all that no client uses.
    pub(in crate::device) fn clear(&self) {
        self.locked().clear();
    }
}
