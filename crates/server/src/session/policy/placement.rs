//! A client's share of the device's SMs and its priority, put into effect while it runs.
//!
//! Where the provider has tenants, the main thread notifies it at once ([`Link::put_into_effect`]);
//! elsewhere the session goes on with other streams, and its graphs follow these.

use crate::device::Device;
use crate::session::{Link, Session};
use cuda_api::CUresult;

impl Link {
    /// Has the provider keep the client's terms from now on, if it has tenants and the client is one.
    pub fn put_into_effect(&self, device: &Device) -> CUresult {
        let Some(tenant) = self.tenant.get().copied() else { return Ok(()) };
        let terms = self.limits.terms();
        let (least, greatest) = device.stream_priorities();
        let less_urgent = terms.less_urgent(least, greatest);
        device.limit_tenant(tenant, terms.sms, less_urgent)
    }
}

impl Session {
    /// Goes on with the terms that were set since it last looked.
    pub(in crate::session) fn heed_limits(&mut self) {
        let version = self.link.limits.version();
        if version == self.limits_version {
            return;
        }
        self.limits_version = version;
        self.batcher.forget();
        if self.share.is_tenant() {
            return;
        }
        let set = self.streams.set_terms(self.link.limits.terms());
        self.say_unkept(set);
    }

    /// What cannot be kept is said in the log, and the client goes on without.
    pub(in crate::session) fn say_unkept(&self, set: CUresult) {
        if let Some(error) = set.err().or(self.streams.unkept()) {
            let name = self.link.name();
            self.common.log.line(format!(
                "Client {name}: its share of SMs is not kept, as the provider answers {error}"
            ));
        }
    }
}
