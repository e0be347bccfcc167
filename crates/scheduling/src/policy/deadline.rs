//! Earliest deadline first: the client whose open work is due first goes before the others.

use super::{Admission, Policy};
use crate::account::{Accounts, ClientId};
use crate::settings::Settings;

/// The policy of that name. Work of a client without a deadline is never due.
#[derive(Clone, Copy, Debug)]
pub struct Deadline;

impl Policy for Deadline {
    fn admit(&self, who: ClientId, accounts: &Accounts, _: &Settings, _: u64) -> Admission {
        let Some(account) = accounts.get(who) else { return Admission::Go };
        let first = accounts.open_others(who).map(|(_, other)| other.due_ns).min();
        match first {
            Some(first) if first < account.due_ns => Admission::Hold,
            _ => Admission::Go,
        }
    }

    fn is_bounded(&self, who: ClientId, accounts: &Accounts, now: u64) -> bool {
        let own = accounts.get(who).and_then(|account| account.settings.deadline_ns);
        let is_shorter =
            |other: Option<u64>| other.is_some_and(|other| own.is_none_or(|own| other < own));
        accounts.present_others(who, now).any(|(_, other)| is_shorter(other.settings.deadline_ns))
    }

    fn arrived(&self, who: ClientId, accounts: &mut Accounts, now: u64) {
        if let Some(account) = accounts.get_mut(who) {
            let deadline = account.settings.deadline_ns;
            account.due_ns = deadline.map_or(u64::MAX, |ns| now.saturating_add(ns));
        }
    }

    fn is_free(&self, accounts: &Accounts) -> bool {
        accounts.iter().all(|(_, account)| account.settings.deadline_ns.is_none())
    }
}
