//! Shares of device time: start-time fair queueing by weight, or equal for all clients.

use super::{Admission, Policy};
use crate::account::{Account, Accounts, ClientId};
use crate::client::WEIGHT_MAX;
use crate::settings::Settings;

/// Device time by which a client may be ahead of another one that has work, ns.
const LEAD_NS: u64 = 1_000_000;
/// Device time that a client that was idle may have to its credit, ns: between two requests it does not
/// lose its share, and after a long pause it does not keep the others out.
const CREDIT_NS: u64 = 20_000_000;

/// The policies `weighted` and `fair`.
#[derive(Clone, Copy, Debug)]
pub enum Shares {
    /// By the clients' weights.
    Weighted,
    /// The same for all.
    Fair,
}

impl Shares {
    /// Device time as a client's virtual clock counts it.
    fn virtual_of(self, account: &Account, ns: u64) -> u128 {
        let weight = match self {
            Self::Weighted => account.settings.weight.max(1),
            Self::Fair => 1,
        };
        u128::from(ns) * u128::from(WEIGHT_MAX) / u128::from(weight)
    }
}

impl Policy for Shares {
    fn admit(&self, who: ClientId, accounts: &Accounts, _: &Settings, now: u64) -> Admission {
        let Some(account) = accounts.get(who) else { return Admission::Go };
        let behind = accounts.by_virtual_time(now).find(|(_, other)| *other != who);
        let lead = self.virtual_of(account, LEAD_NS);
        match behind {
            Some((least, first)) if account.virtual_time > least + lead => {
                accounts.stuck_at(first).map_or(Admission::Hold, Admission::HoldUntil)
            }
            _ => Admission::Go,
        }
    }

    fn is_bounded(&self, who: ClientId, accounts: &Accounts, _: u64) -> bool {
        let own = accounts.get(who).is_some_and(Account::contends);
        accounts.contending() > usize::from(own)
    }

    fn enters(&self, who: ClientId, accounts: &mut Accounts, now: u64) {
        let least = accounts.by_virtual_time(now).find(|(_, other)| *other != who);
        let least = least.map_or(accounts.virtual_now, |(least, _)| least);
        accounts.change(who, |account| {
            let credit = self.virtual_of(account, CREDIT_NS);
            // What it was ahead is forgotten as time goes by without work of it.
            let ahead = account.virtual_time.saturating_sub(least);
            let rest_ns = std::mem::take(&mut account.rest_ns);
            let forgotten = self.virtual_of(account, rest_ns);
            account.virtual_time -= ahead.min(forgotten);
            account.virtual_time = account.virtual_time.max(least.saturating_sub(credit));
        });
    }

    fn charged(&self, account: &mut Account, device_ns: i64, _: u64) {
        let change = self.virtual_of(account, device_ns.unsigned_abs());
        account.virtual_time = match device_ns < 0 {
            true => account.virtual_time.saturating_sub(change),
            false => account.virtual_time + change,
        };
    }

    fn turn(&self, accounts: &Accounts, now: u64, found: &mut Vec<ClientId>) {
        let Some((least, _)) = accounts.by_virtual_time(now).next() else { return };
        // No client may be further ahead.
        let most = least + u128::from(LEAD_NS) * u128::from(WEIGHT_MAX);
        let near = accounts.behind_by_virtual_time().take_while(|(at, _)| *at <= most);
        let may_go = |(at, who): &(u128, ClientId)| {
            accounts.get(*who).is_some_and(|of| *at <= least + self.virtual_of(of, LEAD_NS))
        };
        found.extend(near.filter(may_go).map(|(_, who)| who));
    }

    fn is_free(&self, accounts: &Accounts) -> bool {
        accounts.len() < 2
    }
}
