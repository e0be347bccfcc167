//! Strict classes: work of latency-critical clients pauses that of others.

use super::{Admission, Policy};
use crate::account::{Accounts, ClientId};
use crate::class::Class;
use crate::settings::{Pause, Settings};

/// The policy of that name.
#[derive(Clone, Copy, Debug)]
pub struct Classes;

impl Policy for Classes {
    fn allow(
        &self,
        who: ClientId,
        accounts: &Accounts,
        settings: &Settings,
        now: u64,
    ) -> Admission {
        let Some(account) = accounts.get(who) else { return Admission::Go };
        let class = account.settings.class;
        let can_be_paused = match settings.pause {
            Pause::Off => false,
            Pause::Batch => class == Class::Batch,
            Pause::Others => class != Class::Latency,
        };
        let goes_beside = class == Class::Batch && accounts.shares_space;
        match can_be_paused && !goes_beside && accounts.latency_contends() {
            true => account.hold(settings.pause_max_ns, now),
            false => Admission::Go,
        }
    }

    fn is_bounded(&self, who: ClientId, accounts: &Accounts, now: u64) -> bool {
        let class = accounts.get(who).map(|account| account.settings.class);
        class.is_some_and(|class| class == Class::Batch) && accounts.latency_is_present(now)
    }

    fn is_free(&self, accounts: &Accounts) -> bool {
        let has = |of: fn(Class) -> bool| accounts.iter().any(|(_, a)| of(a.settings.class));
        !has(|class| class == Class::Latency) || !has(|class| class != Class::Latency)
    }
}
