//! Policies: rules that say which client may submit, over the same accounts.

mod classes;
mod deadline;
mod quota;
mod shares;
#[cfg(test)]
mod tests;

pub use crate::admission::Admission;
pub use classes::Classes;
pub use deadline::Deadline;
pub use quota::Quota;
pub use shares::Shares;

use crate::account::{Account, Accounts, ClientId};
use crate::settings::{PolicyName, Settings};
use std::fmt::Debug;

/// A policy. It keeps what it has to remember of a client in the client's [`Account`].
pub trait Policy: Send + Debug {
    /// Whether a client may have the device now, before the order of those that contend for it counts. One that
    /// may not is barred, and contends with none.
    fn allow(
        &self,
        who: ClientId,
        accounts: &Accounts,
        settings: &Settings,
        now: u64,
    ) -> Admission {
        let _ = (who, accounts, settings, now);
        Admission::Go
    }

    /// Whether it is the turn of a client that contends.
    fn admit(
        &self,
        who: ClientId,
        accounts: &Accounts,
        settings: &Settings,
        now: u64,
    ) -> Admission {
        let _ = (who, accounts, settings, now);
        Admission::Go
    }

    /// Whether what a client has in flight is bounded now, because others may need the device soon.
    fn is_bounded(&self, who: ClientId, accounts: &Accounts, now: u64) -> bool;

    /// Work of a client has come that had none.
    fn arrived(&self, account: &mut Account, now: u64) {
        let _ = (account, now);
    }

    /// A client is about to contend, because its work has come or is barred no more, or contends again after
    /// nothing of it had happened for long.
    fn enters(&self, who: ClientId, accounts: &mut Accounts, now: u64) {
        let _ = (who, accounts, now);
    }

    /// A client was charged device time, ns; less than nothing if a prediction was too long.
    fn charged(&self, account: &mut Account, device_ns: i64, now: u64) {
        let _ = (account, device_ns, now);
    }

    /// Adds those that were held because it was others' turn, and are not any more.
    fn turn(&self, accounts: &Accounts, now: u64, found: &mut Vec<ClientId>) {
        let _ = (accounts, now, found);
    }

    /// True if it would let every one of these clients through, regardless of what they do.
    fn is_free(&self, accounts: &Accounts) -> bool;
}

/// The policy of a name.
fn of_name(name: PolicyName) -> Box<dyn Policy> {
    match name {
        PolicyName::Classes => Box::new(Classes),
        PolicyName::Weighted => Box::new(Shares::Weighted),
        PolicyName::Fair => Box::new(Shares::Fair),
        PolicyName::Deadline => Box::new(Deadline),
        PolicyName::Quota => Box::new(Quota),
    }
}

/// The policy that settings name: of several, one that lets through what all of them let through.
pub fn of_settings(settings: &Settings) -> Box<dyn Policy> {
    match settings.policy[..] {
        [name] => of_name(name),
        _ => Box::new(All(settings.policy.iter().copied().map(of_name).collect())),
    }
}

/// Several policies, all of which must let a client through.
#[derive(Debug)]
struct All(Vec<Box<dyn Policy>>);

impl All {
    fn all_of(&self, ask: impl Fn(&dyn Policy) -> Admission) -> Admission {
        self.0.iter().fold(Admission::Go, |answer, policy| answer.and(ask(&**policy)))
    }
}

impl Policy for All {
    fn allow(
        &self,
        who: ClientId,
        accounts: &Accounts,
        settings: &Settings,
        now: u64,
    ) -> Admission {
        self.all_of(|policy| policy.allow(who, accounts, settings, now))
    }

    fn admit(
        &self,
        who: ClientId,
        accounts: &Accounts,
        settings: &Settings,
        now: u64,
    ) -> Admission {
        self.all_of(|policy| policy.admit(who, accounts, settings, now))
    }

    fn is_bounded(&self, who: ClientId, accounts: &Accounts, now: u64) -> bool {
        self.0.iter().any(|policy| policy.is_bounded(who, accounts, now))
    }

    fn arrived(&self, account: &mut Account, now: u64) {
        self.0.iter().for_each(|policy| policy.arrived(account, now));
    }

    fn enters(&self, who: ClientId, accounts: &mut Accounts, now: u64) {
        self.0.iter().for_each(|policy| policy.enters(who, accounts, now));
    }

    fn charged(&self, account: &mut Account, device_ns: i64, now: u64) {
        self.0.iter().for_each(|policy| policy.charged(account, device_ns, now));
    }

    fn turn(&self, accounts: &Accounts, now: u64, found: &mut Vec<ClientId>) {
        self.0.iter().for_each(|policy| policy.turn(accounts, now, found));
    }

    fn is_free(&self, accounts: &Accounts) -> bool {
        self.0.iter().all(|policy| policy.is_free(accounts))
    }
}
