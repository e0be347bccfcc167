//! Earliest deadline first: the client whose open work is due first goes before the others.

use super::{Admission, Policy};
use crate::account::{Account, Accounts, ClientId};
use crate::settings::Settings;

/// Work that is late goes on before the others until it has used so large a part of its deadline.
const LATE_PART: u64 = 4;

/// The policy of that name. Work of a client without a deadline is never due. Late work that goes on is taken
/// for a new request then, so that what cannot be met, or is always there, leaves others their turn.
#[derive(Clone, Copy, Debug)]
pub struct Deadline;

impl Policy for Deadline {
    fn admit(
        &self,
        who: ClientId,
        accounts: &Accounts,
        settings: &Settings,
        now: u64,
    ) -> Admission {
        let Some(account) = accounts.get(who) else { return Admission::Go };
        match accounts.by_due_time().find(|(_, other)| *other != who) {
            Some((first, _)) if first < account.due_ns => account.hold(settings.pause_max_ns, now),
            _ => Admission::Go,
        }
    }

    fn is_bounded(&self, who: ClientId, accounts: &Accounts, now: u64) -> bool {
        let own = accounts.get(who).and_then(|account| account.settings.deadline_ns);
        accounts.has_shorter_deadline(who, own, now)
    }

    fn arrived(&self, account: &mut Account, now: u64) {
        let deadline = account.settings.deadline_ns;
        account.due_ns = deadline.map_or(u64::MAX, |ns| now.saturating_add(ns));
        account.late_used_ns = 0;
    }

    fn charged(&self, account: &mut Account, device_ns: i64, now: u64) {
        let Some(deadline) = account.settings.deadline_ns.filter(|_| account.due_ns <= now) else {
            return;
        };
        account.late_used_ns = account.late_used_ns.saturating_add_signed(device_ns);
        if account.late_used_ns >= deadline / LATE_PART {
            self.arrived(account, now);
        }
    }

    fn turn(&self, accounts: &Accounts, _: u64, found: &mut Vec<ClientId>) {
        let Some((first, _)) = accounts.by_due_time().next() else { return };
        let behind = accounts.behind_by_due_time().take_while(|(due, _)| *due <= first);
        found.extend(behind.map(|(_, who)| who));
    }

    fn is_free(&self, accounts: &Accounts) -> bool {
        accounts.iter().all(|(_, account)| account.settings.deadline_ns.is_none())
    }
}
