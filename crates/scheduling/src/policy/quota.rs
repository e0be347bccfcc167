//! Quotas: device time that a client may have in each second.

use super::{Admission, Policy};
use crate::account::{Account, Accounts, ClientId};
use crate::settings::Settings;

/// Length of the window in which a quota counts, ns.
const WINDOW_NS: u64 = 1_000_000_000;

/// The policy of that name. What is used beyond the quota, by a kernel that took longer than was
/// predicted, is taken off the next second's.
#[derive(Clone, Copy, Debug)]
pub struct Quota;

/// What a client has used of the window that `now` is in, ns.
fn used_in(account: &Account, now: u64, quota: u64) -> u64 {
    let windows = (now / WINDOW_NS).saturating_sub(account.window);
    account.window_used_ns.saturating_sub(windows.saturating_mul(quota))
}

impl Policy for Quota {
    fn allow(&self, who: ClientId, accounts: &Accounts, _: &Settings, now: u64) -> Admission {
        let Some(account) = accounts.get(who) else { return Admission::Go };
        let Some(quota) = account.settings.quota_ns else { return Admission::Go };
        let used = used_in(account, now, quota);
        if used < quota {
            return Admission::Go;
        }
        // The first window that has something left.
        let window = now / WINDOW_NS + used / quota;
        Admission::HoldUntil(window * WINDOW_NS)
    }

    fn is_bounded(&self, who: ClientId, accounts: &Accounts, _: u64) -> bool {
        accounts.get(who).is_some_and(|account| account.settings.quota_ns.is_some())
    }

    fn charged(&self, account: &mut Account, device_ns: i64, now: u64) {
        let Some(quota) = account.settings.quota_ns else { return };
        account.window_used_ns = used_in(account, now, quota).saturating_add_signed(device_ns);
        account.window = now / WINDOW_NS;
    }

    fn is_free(&self, accounts: &Accounts) -> bool {
        accounts.iter().all(|(_, account)| account.settings.quota_ns.is_none())
    }
}
