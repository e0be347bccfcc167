//! A client's share of the device's SMs and its priority, put into effect while it runs.
//!
//! Where the provider has tenants, the main thread notifies it at once ([`SessionLink::put_into_effect`]);
//! elsewhere the session goes on with other streams, and its graphs follow these.

use crate::common::Common;
use crate::device::Device;
use crate::session::SessionLink;
use cuda_api::{CUresult, CudaError};

impl SessionLink {
    /// Has the provider keep the client's terms from now on, if it has tenants and the client is one.
    pub fn put_into_effect(&self, device: &Device) -> CUresult {
        let Some(tenant) = self.tenant.get().copied() else { return Ok(()) };
        let terms = self.limits.terms();
        let (least, greatest) = device.stream_priorities();
        let less_urgent = terms.less_urgent(least, greatest);
        device.limit_tenant(tenant, terms.sms, less_urgent)
    }
}

/// What cannot be kept is said in the log, and the client goes on without.
pub(in crate::session) fn report_unkept(
    link: &SessionLink,
    common: &Common,
    unkept: Option<CudaError>,
) {
    if let Some(error) = unkept {
        let name = link.name();
        common.log.line(format!(
            "Client {name}: its share of SMs is not kept, as the provider answers {error}"
        ));
    }
}
