//! Printing: what the client's kernels print, on its way to the client.
//!
//! A provider with tenants keeps it for each of them. One without has one buffer for all kernels,
//! and [`Printed`](crate::printed::Printed) finds out whose what is.

use super::Session;
use channel::request::{PrintfDrain, PrintfText};
use cuda_api::extension::standard;
use cuda_api::{CUresult, CudaError};

impl Session {
    /// False if what kernels print does not come by here, so that asking for it would be in vain.
    pub(super) fn can_fetch_printed(&self) -> bool {
        self.share.is_tenant() || self.common.printed.is_taken_over()
    }

    pub(super) fn drain_printf(&mut self, request: PrintfDrain) -> Result<PrintfText, CudaError> {
        let mut bytes = vec![0; PrintfText::BYTES_MAX];
        let length = match (self.share.is_tenant(), request.standard) {
            (true, standard) => self.share.take_printf(standard, &mut bytes)?,
            // A driver writes failed assertions to this process' standard error.
            (false, standard::ERROR) => 0,
            (false, _) => {
                self.collect_printed()?;
                self.common.printed.fetch(self.link.identity.id, &mut bytes)
            }
        };
        bytes.truncate(length);
        Ok(PrintfText { bytes })
    }

    /// Has the provider write what kernels have printed so far, and takes it in.
    fn collect_printed(&mut self) -> CUresult {
        if !self.printing {
            return Ok(());
        }
        // What is in flight now may print after the look.
        let work = &mut self.work;
        let done = !self.streams.poll(|slot| work.stream_idle(slot))?;
        self.share.flush_printf()?;
        self.common.printed.collect(self.link.identity.id, done, &self.common.log);
        self.printing = !done;
        Ok(())
    }

    /// The client is gone and does not fetch the text that is left, which must not reach another
    /// client.
    pub(super) fn end_printing(&mut self) {
        if self.printing {
            // After a fault nothing can be flushed any more.
            let _ = self.share.flush_printf();
            self.common.printed.collect(self.link.identity.id, true, &self.common.log);
        }
        self.common.printed.forget(self.link.identity.id);
    }
}
