//! Policies: rules that say which client may submit, over the same accounts.

mod classes;
mod deadline;
mod quota;
mod shares;
#[cfg(test)]
mod tests;

pub use classes::Classes;
pub use deadline::Deadline;
pub use quota::Quota;
pub use shares::Shares;

use crate::account::{Account, Accounts, ClientId};
use crate::settings::{PolicyName, Settings};
use std::fmt::Debug;

/// Whether a policy lets a client submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It does.
    Go,
    /// It does when what other clients have there has changed.
    Hold,
    /// It does at that time, ns, at the latest.
    HoldUntil(u64),
}

/// A policy. It keeps what it has to remember of a client in the client's [`Account`].
pub trait Policy: Send + Debug {
    /// Whether a client may submit its next piece of work.
    fn admit(&self, who: ClientId, accounts: &Accounts, settings: &Settings, now: u64)
    -> Admission;

    /// Whether what a client has in flight is bounded now, because others may need the device soon.
    fn is_bounded(&self, who: ClientId, accounts: &Accounts, now: u64) -> bool;

    /// Work of a client has come that had none.
    fn arrived(&self, who: ClientId, accounts: &mut Accounts, now: u64) {
        let _ = (who, accounts, now);
    }

    /// A client was charged device time, ns; less than nothing if a prediction was too long.
    fn charged(&self, account: &mut Account, device_ns: i64, now: u64) {
        let _ = (account, device_ns, now);
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

impl Policy for All {
    fn admit(
        &self,
        who: ClientId,
        accounts: &Accounts,
        settings: &Settings,
        now: u64,
    ) -> Admission {
        let mut answer = Admission::Go;
        for policy in &self.0 {
            match policy.admit(who, accounts, settings, now) {
                Admission::Go => {}
                Admission::Hold => return Admission::Hold,
                until => answer = until,
            }
        }
        answer
    }

    fn is_bounded(&self, who: ClientId, accounts: &Accounts, now: u64) -> bool {
        self.0.iter().any(|policy| policy.is_bounded(who, accounts, now))
    }

    fn arrived(&self, who: ClientId, accounts: &mut Accounts, now: u64) {
        self.0.iter().for_each(|policy| policy.arrived(who, accounts, now));
    }

    fn charged(&self, account: &mut Account, device_ns: i64, now: u64) {
        self.0.iter().for_each(|policy| policy.charged(account, device_ns, now));
    }

    fn is_free(&self, accounts: &Accounts) -> bool {
        self.0.iter().all(|policy| policy.is_free(accounts))
    }
}
