//! Accounts of clients: what the gate keeps of each, and what policies decide over.
//!
//! A client that has work contends for the device with the others that have some. One that a policy bars,
//! by a quota or for its class, does not, once what it has in flight is done: no other one waits for it.
//! Those that contend are kept in the orders of the policies, so that the first one is found at once
//! among thousands.

use crate::admission::Admission;
use crate::arrivals::Arrivals;
use crate::class::Class;
use crate::client::ClientSettings;
use crate::predict::Predicted;
use std::collections::{BTreeMap, BTreeSet};

/// For how long after its last work a client counts as one that may come back at any moment, ns.
pub const PRESENCE_NS: u64 = 1_000_000_000;

/// A client at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// Why a client's next piece of work is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A policy bars the client from the device.
    Barred,
    /// It is others' turn.
    Behind,
    /// The client has as much in flight as it may have.
    Full,
    /// It would be in the way of a request that is expected.
    PutOff,
}

/// What the gate and its policies know of a client.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// What is set for it.
    pub settings: ClientSettings,
    /// Since when it has work that is not done, ns.
    pub open_since: Option<u64>,
    /// When it was last seen to have work, ns.
    pub seen_ns: Option<u64>,
    /// Time from its last work to this one, ns; 0 once that has counted.
    pub rest_ns: u64,
    /// When something of its work happened last, ns: it came, was submitted or done, or waited for others.
    pub moved_ns: u64,
    /// Since when its next piece of work is held, ns.
    pub paused_since: Option<u64>,
    /// Why it was held when it asked last; `None` if it went.
    pub held: Option<Held>,
    /// What it has in flight.
    pub in_flight: Predicted,
    /// Device time that it was charged, ns.
    pub used_ns: u64,
    /// For how long its work was held in all, ns.
    pub paused_ns: u64,
    /// How often it was held.
    pub pauses: u64,
    /// Its requests so far.
    pub arrivals: Arrivals,
    /// Policy `weighted`, `fair`: its virtual clock.
    pub virtual_time: u128,
    /// Policy `deadline`: when its open work is due, ns.
    pub due_ns: u64,
    /// Policy `deadline`: device time used since then, ns.
    pub late_used_ns: u64,
    /// Policy `quota`: the second in which `window_used_ns` counts.
    pub window: u64,
    /// Policy `quota`: device time used of it, ns.
    pub window_used_ns: u64,
}

impl Account {
    /// True if it has work, and the device is open to it or has some of that.
    pub fn contends(&self) -> bool {
        let is_out = self.held == Some(Held::Barred) && self.in_flight == Predicted::default();
        self.open_since.is_some() && !is_out
    }

    /// Holds its next piece of work, but for at most so long in all, ns.
    pub(crate) fn hold(&self, most: Option<u64>, now: u64) -> Admission {
        match (most, self.paused_since) {
            (Some(most), Some(since)) if now.saturating_sub(since) >= most => Admission::Go,
            (Some(most), since) => Admission::HoldUntil(since.unwrap_or(now).saturating_add(most)),
            (None, _) => Admission::Hold,
        }
    }

    /// It is held no more.
    pub(crate) fn go(&mut self, now: u64) {
        let since = self.paused_since.take();
        self.paused_ns += since.map_or(0, |since| now.saturating_sub(since));
    }

    fn is_of(&self, class: Class) -> bool {
        self.settings.class == class
    }

    fn standing(&self) -> Standing {
        let contends = self.contends();
        let is_behind = contends && self.held == Some(Held::Behind);
        Standing {
            virtual_time: contends.then_some(self.virtual_time),
            due_ns: contends.then_some(self.due_ns),
            is_latency: self.is_of(Class::Latency),
            latency_open: self.is_of(Class::Latency) && self.open_since.is_some(),
            latency_contends: self.is_of(Class::Latency) && contends,
            batch: if self.is_of(Class::Batch) { self.in_flight } else { Predicted::default() },
            batch_open: self.is_of(Class::Batch) && self.open_since.is_some(),
            deadline_ns: self.settings.deadline_ns,
            behind: is_behind.then_some((self.virtual_time, self.due_ns)),
            is_barred: self.held == Some(Held::Barred),
            is_put_off: self.held == Some(Held::PutOff),
        }
    }
}

/// Where an account is among the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Standing {
    virtual_time: Option<u128>,
    due_ns: Option<u64>,
    is_latency: bool,
    latency_open: bool,
    latency_contends: bool,
    batch: Predicted,
    batch_open: bool,
    deadline_ns: Option<u64>,
    behind: Option<(u128, u64)>,
    is_barred: bool,
    is_put_off: bool,
}

/// All accounts. They are changed by [`Accounts::change`] alone, which keeps their orders.
#[derive(Debug, Default)]
pub struct Accounts {
    all: BTreeMap<ClientId, Account>,
    /// Those that contend, by their virtual clocks and by when their work is due.
    by_virtual_time: BTreeSet<(u128, ClientId)>,
    by_due_time: BTreeSet<(u64, ClientId)>,
    /// Those of them that are held because it is others' turn.
    behind_by_virtual_time: BTreeSet<(u128, ClientId)>,
    behind_by_due_time: BTreeSet<(u64, ClientId)>,
    /// All of class latency, and how many of them have work, and contend.
    latency: BTreeSet<ClientId>,
    latency_open: usize,
    latency_contending: usize,
    /// When latency-critical work was last there, ns.
    latency_seen_ns: Option<u64>,
    batch_in_flight: Predicted,
    batch_open: usize,
    /// All with a deadline.
    by_deadline: BTreeSet<(u64, ClientId)>,
    /// Those whose next piece of work is held because they are barred, or put off.
    pub(crate) barred: BTreeSet<ClientId>,
    pub(crate) put_off: BTreeSet<ClientId>,
    /// Policy `weighted`, `fair`: the latest virtual time of a client that contended.
    pub(crate) virtual_now: u128,
    /// Batch work has SMs of its own beside latency-critical work, which does not pause it.
    pub(crate) shares_space: bool,
    /// After which time without any movement, ns, a client's work holds no other up. `None`: never.
    pub(crate) patience_ns: Option<u64>,
}

/// Puts a key into a set or takes it out, if it has changed.
fn follow<K: Ord + Copy>(
    set: &mut BTreeSet<(K, ClientId)>,
    who: ClientId,
    before: Option<K>,
    after: Option<K>,
) {
    if before != after {
        before.map(|key| set.remove(&(key, who)));
        after.map(|key| set.insert((key, who)));
    }
}

fn follow_one(set: &mut BTreeSet<ClientId>, who: ClientId, before: bool, after: bool) {
    match (before, after) {
        (true, false) => set.remove(&who),
        (false, true) => set.insert(who),
        _ => false,
    };
}

impl Accounts {
    pub(crate) fn new(patience_ns: Option<u64>) -> Self {
        Self { patience_ns, ..Self::default() }
    }

    /// A client's account.
    pub fn get(&self, who: ClientId) -> Option<&Account> {
        self.all.get(&who)
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

    pub(crate) fn insert(&mut self, who: ClientId, account: Account) {
        let after = account.standing();
        self.all.insert(who, account);
        self.take_place(who, Standing::default(), after);
    }

    pub(crate) fn remove(&mut self, who: ClientId) {
        if let Some(account) = self.all.remove(&who) {
            self.take_place(who, account.standing(), Standing::default());
        }
    }

    /// Changes a client's account. `None` if there is none.
    pub fn change<R>(
        &mut self,
        who: ClientId,
        change: impl FnOnce(&mut Account) -> R,
    ) -> Option<R> {
        let account = self.all.get_mut(&who)?;
        let before = account.standing();
        let result = change(account);
        let after = account.standing();
        if before != after {
            self.take_place(who, before, after);
        }
        Some(result)
    }

    fn take_place(&mut self, who: ClientId, before: Standing, after: Standing) {
        follow(&mut self.by_virtual_time, who, before.virtual_time, after.virtual_time);
        follow(&mut self.by_due_time, who, before.due_ns, after.due_ns);
        let [was, is] = [before.behind, after.behind];
        let virtual_time = |behind: Option<(u128, u64)>| Some(behind?.0);
        let due_ns = |behind: Option<(u128, u64)>| Some(behind?.1);
        follow(&mut self.behind_by_virtual_time, who, virtual_time(was), virtual_time(is));
        follow(&mut self.behind_by_due_time, who, due_ns(was), due_ns(is));
        follow(&mut self.by_deadline, who, before.deadline_ns, after.deadline_ns);
        follow_one(&mut self.latency, who, before.is_latency, after.is_latency);
        follow_one(&mut self.barred, who, before.is_barred, after.is_barred);
        follow_one(&mut self.put_off, who, before.is_put_off, after.is_put_off);
        let count = |count: usize, before: bool, after: bool| {
            count.saturating_sub(before.into()) + usize::from(after)
        };
        self.latency_open = count(self.latency_open, before.latency_open, after.latency_open);
        self.batch_open = count(self.batch_open, before.batch_open, after.batch_open);
        self.latency_contending =
            count(self.latency_contending, before.latency_contends, after.latency_contends);
        self.batch_in_flight = self.batch_in_flight - before.batch + after.batch;
        if let (Some(last), None) = (before.virtual_time, after.virtual_time) {
            self.virtual_now = self.virtual_now.max(last);
        }
    }

    /// A latency-critical client's work was there.
    pub(crate) fn saw_latency(&mut self, now: u64) {
        self.latency_seen_ns = self.latency_seen_ns.max(Some(now));
    }

    /// Those that contend and whose work makes progress, the ones that have had the least first, with their virtual
    /// clocks.
    pub fn by_virtual_time(&self, now: u64) -> impl Iterator<Item = (u128, ClientId)> {
        let gets_on = move |(_, who): &&(u128, ClientId)| !self.is_stuck(*who, now);
        self.by_virtual_time.iter().filter(gets_on).copied()
    }

    /// True if a client has work of which nothing has happened for so long that no other waits for it.
    pub(crate) fn is_stuck(&self, who: ClientId, now: u64) -> bool {
        self.stuck_at(who).is_some_and(|at| now >= at)
    }

    /// When that is so of a client with work, ns, unless something happens before.
    pub fn stuck_at(&self, who: ClientId) -> Option<u64> {
        let account = self.all.get(&who).filter(|account| account.open_since.is_some())?;
        let since = account.moved_ns.saturating_add(account.in_flight.longest_ns);
        Some(since.saturating_add(self.patience_ns?))
    }

    /// Those that contend, whose work is due first the first, with the times.
    pub fn by_due_time(&self) -> impl Iterator<Item = (u64, ClientId)> {
        self.by_due_time.iter().copied()
    }

    /// Those that are held because it is others' turn, in the order of [`Accounts::by_virtual_time`].
    pub fn behind_by_virtual_time(&self) -> impl Iterator<Item = (u128, ClientId)> {
        self.behind_by_virtual_time.iter().copied()
    }

    /// Those that are held because it is others' turn, in the order of [`Accounts::by_due_time`].
    pub fn behind_by_due_time(&self) -> impl Iterator<Item = (u64, ClientId)> {
        self.behind_by_due_time.iter().copied()
    }

    /// How many contend.
    pub fn contending(&self) -> usize {
        self.by_due_time.len()
    }

    /// True if a client other than this one has a deadline of less than `than` ns, and work, or had some lately.
    pub fn has_shorter_deadline(&self, who: ClientId, than: Option<u64>, now: u64) -> bool {
        let shorter = self.by_deadline.iter();
        let mut shorter = shorter.take_while(|(ns, _)| than.is_none_or(|than| *ns < than));
        shorter.any(|(_, id)| *id != who && self.all.get(id).is_some_and(|of| is_present(of, now)))
    }

    /// True if a latency-critical client has work that others make way for.
    pub fn latency_contends(&self) -> bool {
        self.latency_contending > 0
    }

    /// Whether a latency-critical client has work, and a batch client.
    pub(crate) fn open(&self) -> (bool, bool) {
        (self.latency_open > 0, self.batch_open > 0)
    }

    /// True if a latency-critical client has work, or had some within that time, ns.
    pub(crate) fn latency_was_there(&self, within_ns: u64, now: u64) -> bool {
        let lately = |seen: u64| now.saturating_sub(seen) < within_ns;
        self.latency_open > 0 || self.latency_seen_ns.is_some_and(lately)
    }

    /// True if a latency-critical client has work, or had some lately.
    pub fn latency_is_present(&self, now: u64) -> bool {
        let lately = |seen: u64| now.saturating_sub(seen) < PRESENCE_NS;
        self.latency_open > 0 || self.latency_seen_ns.is_some_and(lately)
    }

    /// Latency-critical clients that have no work now.
    pub fn latency_at_rest(&self) -> impl Iterator<Item = (ClientId, &Account)> {
        let all = self.latency.iter().filter_map(|who| Some((*who, self.all.get(who)?)));
        all.filter(|(_, account)| account.open_since.is_none())
    }

    /// What all batch clients have in flight.
    pub fn batch_in_flight(&self) -> Predicted {
        self.batch_in_flight
    }
}

/// True of a client that has work, or had some lately.
fn is_present(account: &Account, now: u64) -> bool {
    let lately = |seen: u64| now.saturating_sub(seen) < PRESENCE_NS;
    account.open_since.is_some() || account.seen_ns.is_some_and(lately)
}
