//! Shares of device time: start-time fair queueing by weight, or equal for all clients.

use super::{Admission, Policy};
use crate::account::{Account, Accounts, ClientId};
use crate::client::WEIGHT_MAX;
use crate::settings::Settings;

/// Device time by which a client may be ahead of another one that has work, ns.
const AHEAD_NS: u64 = 1_000_000;
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
    fn admit(&self, who: ClientId, accounts: &Accounts, _: &Settings, _: u64) -> Admission {
        let Some(account) = accounts.get(who) else { return Admission::Go };
        let behind = accounts.open_others(who).map(|(_, other)| other.virtual_time).min();
        let ahead = self.virtual_of(account, AHEAD_NS);
        match behind {
            Some(least) if account.virtual_time > least + ahead => Admission::Hold,
            _ => Admission::Go,
        }
    }

    fn is_bounded(&self, who: ClientId, accounts: &Accounts, _: u64) -> bool {
        accounts.open_others(who).next().is_some()
    }

    fn arrived(&self, who: ClientId, accounts: &mut Accounts, _: u64) {
        let now = accounts.open_others(who).map(|(_, other)| other.virtual_time).min();
        let now = now.unwrap_or(accounts.virtual_now);
        accounts.virtual_now = accounts.virtual_now.max(now);
        if let Some(account) = accounts.get_mut(who) {
            let credit = self.virtual_of(account, CREDIT_NS);
            account.virtual_time = account.virtual_time.max(now.saturating_sub(credit));
        }
    }

    fn charged(&self, account: &mut Account, device_ns: i64, _: u64) {
        let change = self.virtual_of(account, device_ns.unsigned_abs());
        account.virtual_time = match device_ns < 0 {
            true => account.virtual_time.saturating_sub(change),
            false => account.virtual_time + change,
        };
    }

    fn is_free(&self, accounts: &Accounts) -> bool {
        accounts.len() < 2
    }
}
