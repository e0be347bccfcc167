//! Green contexts that a client has at the provider, by their SMs.

use super::Device;
use cuda_api::{CUgreenCtx, CudaError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most green contexts of one client: a device has no more than this many ranges that make sense,
/// and each takes memory of the provider's.
const GREEN_CONTEXTS_MAX: usize = 64;

/// Those of one client, by their SMs.
#[derive(Default)]
pub(super) struct GreenContexts(RefCell<BTreeMap<(u32, u32), CUgreenCtx>>);

impl GreenContexts {
    /// The one of some SMs, made when first asked for. CUDA_ERROR_OUT_OF_MEMORY if there are too
    /// many, and the errors of making it.
    pub(super) fn get(
        &self,
        sms: &Range<u32>,
        create: impl FnOnce() -> Result<CUgreenCtx, CudaError>,
    ) -> Result<CUgreenCtx, CudaError> {
        let mut made = self.0.borrow_mut();
        let key = (sms.start, sms.end);
        if let Some(green) = made.get(&key) {
            return Ok(*green);
        }
        if made.len() >= GREEN_CONTEXTS_MAX {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let green = create()?;
        made.insert(key, green);
        Ok(green)
    }

    /// Destroys all; no stream is left in any.
    pub(super) fn clear(&self, device: &Device) {
        for green in std::mem::take(&mut *self.0.borrow_mut()).into_values() {
            // SAFETY: this was its only place. A failure has no one to be told to.
            let _ = unsafe { device.table().cuGreenCtxDestroy(green) };
        }
    }
}
