//! Accounts of clients: what the gate keeps of each, and what policies decide over.

use crate::arrivals::{Arrivals, Expected};
use crate::class::Class;
use crate::client::ClientSettings;
use crate::predict::Predicted;
use std::collections::{BTreeMap, BTreeSet};

/// For how long after its last work a client counts as one that may come back at any moment, ns.
pub const PRESENCE_NS: u64 = 1_000_000_000;

/// A client at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// What the gate and its policies know of a client.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// What is set for it.
    pub settings: ClientSettings,
    /// Since when it has work that is not done, ns.
    pub open_since: Option<u64>,
    /// When it was last seen to have work, ns.
    pub seen_ns: Option<u64>,
    /// Since when its next piece of work is held, ns.
    pub held_since: Option<u64>,
    /// What it has in flight.
    pub in_flight: Predicted,
    /// Device time that it was charged, ns.
    pub used_ns: u64,
    /// For how long its work was held in all, ns.
    pub held_ns: u64,
    /// How often it was held.
    pub holds: u64,
    /// Its requests so far.
    pub arrivals: Arrivals,
    /// Policy `weighted`, `fair`: its virtual clock.
    pub virtual_time: u128,
    /// Policy `deadline`: when its open work is due, ns.
    pub due_ns: u64,
    /// Policy `quota`: the second in which `window_used_ns` counts.
    pub window: u64,
    /// Policy `quota`: device time used of it, ns.
    pub window_used_ns: u64,
}

/// All accounts.
#[derive(Debug, Default)]
pub struct Accounts {
    pub(crate) all: BTreeMap<ClientId, Account>,
    pub(crate) open: BTreeSet<ClientId>,
    pub(crate) latency_open: u32,
    /// When latency-critical work was last there, ns.
    pub(crate) latency_seen_ns: Option<u64>,
    /// Policy `weighted`, `fair`: the virtual clock of those that have work.
    pub virtual_now: u128,
}

impl Accounts {
    /// A client's account.
    pub fn get(&self, who: ClientId) -> Option<&Account> {
        self.all.get(&who)
    }

    /// A client's account.
    pub fn get_mut(&mut self, who: ClientId) -> Option<&mut Account> {
        self.all.get_mut(&who)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (ClientId, &Account)> {
        self.all.iter().map(|(id, account)| (*id, account))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Other clients that have work.
    pub fn open_others(&self, who: ClientId) -> impl Iterator<Item = (ClientId, &Account)> {
        let others = self.open.iter().filter(move |id| **id != who);
        others.filter_map(|id| Some((*id, self.all.get(id)?)))
    }

    /// Other clients that have work, or had some lately.
    pub fn present_others(
        &self,
        who: ClientId,
        now: u64,
    ) -> impl Iterator<Item = (ClientId, &Account)> {
        let lately = move |account: &Account| {
            account.seen_ns.is_some_and(|seen| now.saturating_sub(seen) < PRESENCE_NS)
        };
        self.iter().filter(move |(id, account)| {
            *id != who && (account.open_since.is_some() || lately(account))
        })
    }

    /// True if a latency-critical client has work.
    pub fn latency_is_open(&self) -> bool {
        self.latency_open > 0
    }

    /// The latency-critical request that is expected next, of clients that have no work now.
    pub fn expected(&self, now: u64) -> Option<Expected> {
        let critical = self.all.values().filter(|account| {
            account.settings.class == Class::Latency && account.open_since.is_none()
        });
        critical.filter_map(|account| account.arrivals.next(now)).min_by_key(|next| next.due_ns)
    }

    /// What all batch clients have in flight.
    pub fn batch_in_flight(&self) -> Predicted {
        let open = self.open.iter().filter_map(|who| self.all.get(who));
        let batch = open.filter(|account| account.settings.class == Class::Batch);
        batch.map(|account| account.in_flight).sum()
    }

    /// True if a latency-critical client has work, or had some lately.
    pub fn latency_is_present(&self, now: u64) -> bool {
        let lately = |seen: u64| now.saturating_sub(seen) < PRESENCE_NS;
        self.latency_open > 0 || self.latency_seen_ns.is_some_and(lately)
    }
}
