//! Printing: what the client's kernels print, on its way to the client.
//!
//! A provider with tenants keeps it for each of them. One without has one buffer for all kernels,
//! and [`Printed`](crate::printed::Printed) finds out whose what is.

use super::SessionLink;
use crate::common::Common;
use crate::device::Share;
use channel::request::{PrintfDrain, PrintfText};
use cuda_api::CudaError;
use cuda_api::extension::standard;
use std::rc::Rc;
use std::sync::Arc;

/// What one client's kernels print.
pub struct Printing {
    share: Rc<Share>,
    link: Arc<SessionLink>,
    common: Arc<Common>,
    /// True if kernels were launched that may have printed text that is not fetched yet.
    is_open: bool,
}

impl Printing {
    /// Nothing was printed.
    pub fn new(share: &Rc<Share>, link: &Arc<SessionLink>, common: &Arc<Common>) -> Self {
        Self { share: share.clone(), link: link.clone(), common: common.clone(), is_open: false }
    }

    /// False if what kernels print does not come by here, so that asking for it would be in vain.
    pub fn can_fetch(&self) -> bool {
        self.share.is_tenant() || self.common.printed.is_taken_over()
    }

    /// A kernel that may print is about to be launched.
    #[inline]
    pub fn begin(&mut self) {
        if !self.is_open {
            self.is_open = self.common.printed.begin(self.link.identity.id, || self.link.name());
        }
    }

    /// What was printed and is not fetched yet. `is_busy` says whether kernels are in flight.
    pub fn drain(
        &mut self,
        request: PrintfDrain,
        is_busy: impl FnOnce() -> Result<bool, CudaError>,
    ) -> Result<PrintfText, CudaError> {
        let mut bytes = vec![0; PrintfText::BYTES_MAX];
        let length = match (self.share.is_tenant(), request.standard) {
            (true, standard) => self.share.take_printf(standard, &mut bytes)?,
            // A driver writes failed assertions to this process' standard error.
            (false, standard::ERROR) => 0,
            (false, _) => {
                if self.is_open {
                    // What is in flight now may print after the look.
                    let is_busy = is_busy()?;
                    self.share.flush_printf()?;
                    self.collect(!is_busy);
                    self.is_open = is_busy;
                }
                self.common.printed.fetch(self.link.identity.id, &mut bytes)
            }
        };
        bytes.truncate(length);
        Ok(PrintfText { bytes })
    }

    /// Takes in what the provider has written; `done` if nothing is in flight.
    fn collect(&self, done: bool) {
        self.common.printed.collect(self.link.identity.id, done, &self.common.log);
    }

    /// The client is gone and does not fetch the text that is left, which must not reach another
    /// client.
    pub fn end(&mut self) {
        if self.is_open {
            // After a fault nothing can be flushed any more.
            let _ = self.share.flush_printf();
            self.collect(true);
        }
        self.common.printed.forget(self.link.identity.id);
    }
}
