//! The gate: the verdict whether a client may submit now, and what its account is charged.

use crate::account::{Account, Accounts, ClientId, Held};
use crate::arrivals::Expected;
use crate::class::Class;
use crate::client::ClientSettings;
use crate::policy::{self, Admission, Policy};
use crate::predict::Predicted;
use crate::settings::{Pause, PolicyName, Settings};
use crate::space::{Seen, Space};

/// Work that a client may have in flight while the next latency-critical request is known to be far, ns:
/// no more, so that what is predicted wrong stays a small part of a request.
const DEPTH_NS: u64 = 1_000_000;
/// Work longer than this part of the interval between two requests is not put off: it would never fit.
const FITTING_PART: u64 = 2;
/// For how long latency-critical work must have been away, ns, for batch work to have all SMs again.
const REST_NS: u64 = 20_000_000;
/// Fewest SMs of a device that classes share in space.
const SHARED_SMS_MIN: u32 = 2;

/// Why a client's work is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It has as much in flight as it may have.
    InFlight,
    /// The policy has others go first.
    Policy,
}

/// Whether a client may submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Now, leaving so many SMs free.
    Go {
        /// SMs that its blocks must keep off.
        free_sms: u32,
    },
    /// Not now.
    Wait {
        /// Why.
        hold: Hold,
        /// When it may at the latest, ns, if that is known.
        until: Option<u64>,
    },
}

/// The gate's state.
#[derive(Debug)]
pub struct Core {
    settings: Settings,
    policy: Box<dyn Policy>,
    accounts: Accounts,
    last_id: u32,
    /// The latency-critical request that is expected next and whose it is, and until when that is so, ns; 0: to be
    /// found.
    expected: Option<(ClientId, Expected)>,
    expected_until: u64,
    /// SMs of the device; 0: it has no parts.
    sms: u32,
    /// How classes share these.
    space: Space,
    /// Those that should ask again.
    awake: Vec<ClientId>,
}

impl Core {
    /// A gate without clients.
    pub fn new(settings: Settings) -> Self {
        let policy = policy::of_settings(&settings);
        let accounts = Accounts::new(settings.pause_max_ns);
        Self {
            settings,
            policy,
            accounts,
            last_id: 0,
            expected: None,
            expected_until: 0,
            sms: 0,
            space: Space::default(),
            awake: Vec::new(),
        }
    }

    /// The same for a device of so many SMs, of which clients can have some.
    pub fn of_device(self, sms: u32) -> Self {
        Self { sms, ..self }
    }

    /// Sees whether classes share in space, and how.
    fn follow_space(&mut self, now: u64) {
        let Settings { space, pause, bounds, .. } = self.settings;
        let pauses = self.settings.policy.contains(&PolicyName::Classes) && pause != Pause::Off;
        if !space || !pauses || self.sms < SHARED_SMS_MIN {
            self.space.stop();
            self.accounts.shares_space = false;
            return;
        }
        let (latency, batch) = self.accounts.open();
        if self.space.follow(Seen { latency, batch }, bounds, now) {
            self.awake.extend(&self.accounts.barred);
        }
        let has_some = self.space.batch_sms(self.sms, bounds).is_some_and(|sms| sms > 0);
        self.accounts.shares_space = has_some && !self.space.is_probing(now);
    }

    /// SMs that batch work leaves free because classes share in space now; 0: none.
    fn free_in_space(&self, now: u64) -> u32 {
        if !self.accounts.shares_space || !self.accounts.latency_was_there(REST_NS, now) {
            return 0;
        }
        let batch = self.space.batch_sms(self.sms, self.settings.bounds);
        batch.map_or(0, |batch| self.sms - batch)
    }

    /// A graph or kernel of a client that was submitted at that time took so long, and takes so long alone, ns.
    pub fn sampled(&mut self, who: ClientId, times: (u64, u64), submitted_ns: u64) {
        let is_latency = |account: &Account| account.settings.class == Class::Latency;
        if self.accounts.get(who).is_some_and(is_latency) {
            self.space.sampled(who, times, submitted_ns);
        }
    }

    /// True if what a latency-critical client submits now has the device to itself, but for what ends.
    pub fn is_alone(&self, now: u64) -> bool {
        self.space.is_alone(now)
    }

    /// True while classes share in space.
    pub fn shares_space(&self) -> bool {
        self.space.is_shared()
    }

    /// How often the SMs that batch work has beside latency-critical work have changed.
    pub fn space_changes(&self) -> u64 {
        self.space.changes()
    }

    /// SMs that batch work has beside latency-critical work, and how much that is slowed, ‰ of what it takes alone, as
    /// far as it is known; `None` while classes share in time.
    pub fn space(&self) -> Option<(u32, Option<u64>)> {
        let sms = self.space.batch_sms(self.sms, self.settings.bounds)?;
        Some((sms, self.space.slowed_permille()))
    }

    /// What is set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The accounts.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Sets other settings. What policies remember of clients stays.
    pub fn set(&mut self, settings: Settings) {
        self.policy = policy::of_settings(&settings);
        self.accounts.patience_ns = settings.pause_max_ns;
        self.settings = settings;
        self.expected_until = 0;
    }

    /// A client comes.
    pub fn join(&mut self, settings: ClientSettings) -> ClientId {
        self.last_id = self.last_id.wrapping_add(1);
        let id = ClientId(self.last_id);
        let account = Account {
            settings,
            due_ns: u64::MAX,
            virtual_time: self.accounts.virtual_now,
            ..Account::default()
        };
        self.accounts.insert(id, account);
        id
    }

    /// A client goes.
    pub fn leave(&mut self, who: ClientId) {
        self.accounts.remove(who);
        self.space.leave(who);
        self.expected_until = 0;
    }

    /// Sets what is set for a client. What it has in flight, and that it is held, stays so.
    pub fn set_client(&mut self, who: ClientId, settings: ClientSettings, now: u64) {
        let policy = &self.policy;
        self.accounts.change(who, |account| {
            account.settings = settings;
            if account.open_since.is_some() {
                policy.arrived(account, now);
            }
        });
        self.expected_until = 0;
    }

    /// True if no client has to ask: the policy would let all of them through.
    pub fn is_free(&self) -> bool {
        self.policy.is_free(&self.accounts)
    }

    /// Work of a client has come.
    pub fn arrived(&mut self, who: ClientId, now: u64) {
        let Some(account) = self.accounts.get(who) else { return };
        if account.open_since.is_some() {
            return;
        }
        let is_latency = account.settings.class == Class::Latency;
        let policy = &self.policy;
        self.accounts.change(who, |account| {
            account.rest_ns = account.seen_ns.map_or(0, |seen| now.saturating_sub(seen));
            account.arrivals.came(now);
            policy.arrived(account, now);
        });
        // Before it is one of those that contend.
        self.policy.enters(who, &mut self.accounts, now);
        self.accounts.change(who, |account| {
            account.open_since = Some(now);
            (account.seen_ns, account.moved_ns) = (Some(now), now);
        });
        self.follow_space(now);
        if is_latency {
            if self.expected.is_some_and(|(whose, _)| whose == who) {
                self.expected_until = 0;
            }
            self.accounts.saw_latency(now);
        }
    }

    /// All work of a client is done, and none has come.
    pub fn idle(&mut self, who: ClientId, now: u64) {
        let is_open = |account: &mut Account| {
            account.held = None;
            account.in_flight = Predicted::default();
            account.seen_ns = Some(now);
            account.go(now);
            let was_open = account.open_since.take().is_some();
            if was_open {
                account.arrivals.rested(now);
            }
            was_open && account.settings.class == Class::Latency
        };
        if self.accounts.change(who, is_open) == Some(true) {
            self.accounts.saw_latency(now);
            self.expect_of(who, now);
        }
        self.follow_space(now);
        self.awaken(who, now);
    }

    /// Whether what a client has in flight is bounded now.
    pub fn is_bounded(&self, who: ClientId, now: u64) -> bool {
        self.policy.is_bounded(who, &self.accounts, now)
    }

    /// Whether a client makes way for latency-critical work that is there, or may come.
    fn makes_way(&self, account: &Account, now: u64) -> bool {
        account.settings.class == Class::Batch && self.accounts.latency_is_present(now)
    }

    /// Whether a client may submit a piece of work that is predicted to take so long.
    pub fn ask(&mut self, who: ClientId, predicted: impl Into<Predicted>, now: u64) -> Verdict {
        self.ask_beside(who, predicted, false, now)
    }

    /// As [`Core::ask`], of a client whose work in flight stands still if so: that may wait for this piece.
    pub fn ask_beside(
        &mut self,
        who: ClientId,
        predicted: impl Into<Predicted>,
        stands: bool,
        now: u64,
    ) -> Verdict {
        self.arrived(who, now);
        self.follow_space(now);
        let contended = self.accounts.get(who).is_some_and(Account::contends);
        let (held, verdict) = self.judge(who, predicted.into(), stands, now);
        self.accounts.change(who, |account| {
            account.held = held;
            match held {
                None => account.go(now),
                Some(reason) => {
                    if account.paused_since.is_none() {
                        account.paused_since = Some(now);
                        account.pauses += 1;
                    }
                    if matches!(reason, Held::Barred | Held::Behind) {
                        account.moved_ns = now;
                    }
                }
            }
        });
        // A client that is barred leaves its turn to others.
        if contended && !self.accounts.get(who).is_some_and(Account::contends) {
            self.awaken(who, now);
            self.awake.retain(|other| *other != who);
        }
        verdict
    }

    fn judge(
        &mut self,
        who: ClientId,
        predicted: Predicted,
        stands: bool,
        now: u64,
    ) -> (Option<Held>, Verdict) {
        let go = |free_sms| (None, Verdict::Go { free_sms });
        let wait = |held, hold, until| (Some(held), Verdict::Wait { hold, until });
        match self.policy.allow(who, &self.accounts, &self.settings, now) {
            Admission::Go => {}
            Admission::Hold => return wait(Held::Barred, Hold::Policy, None),
            Admission::HoldUntil(at) => return wait(Held::Barred, Hold::Policy, Some(at)),
        }
        self.admit_to_order(who, now);
        match self.policy.admit(who, &self.accounts, &self.settings, now) {
            Admission::Go => {}
            Admission::Hold => return wait(Held::Behind, Hold::Policy, None),
            Admission::HoldUntil(at) => return wait(Held::Behind, Hold::Policy, Some(at)),
        }
        let bounded = self.is_bounded(who, now);
        let Some(account) = self.accounts.get(who) else { return go(0) };
        let makes_way = self.makes_way(account, now);
        if makes_way {
            self.expect(now);
        }
        let Some(account) = self.accounts.get(who) else { return go(0) };
        let in_space = makes_way && self.accounts.shares_space;
        if bounded && let Some(most) = self.in_flight_ns(in_space) {
            let expected = self.expected.filter(|_| makes_way).map(|(_, next)| next);
            let in_flight_ns = account.in_flight.mean_ns;
            let depth = depth_ns(most, expected, now);
            if !stands && in_flight_ns > 0 && in_flight_ns.saturating_add(predicted.mean_ns) > depth
            {
                return wait(Held::Full, Hold::InFlight, None);
            }
            if !in_space
                && let Some(until) =
                    expected.and_then(|next| self.put_off(account, predicted, next, now))
            {
                return wait(Held::PutOff, Hold::InFlight, Some(until));
            }
        }
        let kept = !self.settings.elastic || self.accounts.latency_contends();
        let floor = if bounded && makes_way && kept { self.settings.floor_sms } else { 0 };
        go(if makes_way { floor.max(self.free_in_space(now)) } else { floor })
    }

    /// Predicted time of work that a client may have in flight, ns. Beside work that has SMs of its own it keeps no
    /// other one waiting.
    fn in_flight_ns(&self, in_space: bool) -> Option<u64> {
        let most = self.settings.in_flight_ns?;
        Some(if in_space { most.max(DEPTH_NS) } else { most })
    }

    /// A client that was barred is not any more, and contends again.
    fn admit_to_order(&mut self, who: ClientId, now: u64) {
        let is_new = |account: &Account| !account.contends() && account.open_since.is_some();
        if self.accounts.get(who).is_some_and(is_new) {
            self.policy.enters(who, &mut self.accounts, now);
        }
        self.accounts.change(who, |account| {
            if account.held == Some(Held::Barred) {
                account.held = None;
            }
        });
    }

    /// When the next request of a latency-critical client is expected, if policies let it come then.
    fn next_of(&self, who: ClientId, account: &Account, now: u64) -> Option<Expected> {
        let next = account.arrivals.next(now)?;
        let at = next.due_ns;
        let answer = self.policy.allow(who, &self.accounts, &self.settings, at);
        (answer == Admission::Go).then_some(next)
    }

    /// Finds the latency-critical request for which batch work makes room ahead, if what is known is old.
    fn expect(&mut self, now: u64) {
        if now < self.expected_until {
            return;
        }
        let all = self.accounts.latency_at_rest();
        let all = all.filter_map(|(who, account)| Some((who, self.next_of(who, account, now)?)));
        let first = all.min_by_key(|(_, next)| next.due_ns).filter(|_| self.settings.reserve);
        // Without one there is none until a client has worked.
        self.expected_until = first.map_or(u64::MAX, |(_, next)| over_ns(next));
        self.expected = first;
    }

    /// A latency-critical client has no work any more: its next request may be the next of all.
    fn expect_of(&mut self, who: ClientId, now: u64) {
        if now >= self.expected_until || !self.settings.reserve {
            return;
        }
        let Some(account) = self.accounts.get(who) else { return };
        let Some(next) = self.next_of(who, account, now) else { return };
        if self.expected.is_none_or(|(_, first)| next.due_ns < first.due_ns) {
            (self.expected, self.expected_until) = (Some((who, next)), over_ns(next));
        }
    }

    /// Until when a piece of work is put off, ns, because too much of it would be left when the next
    /// request is due. Other clients' work counts: all of it is in the request's way.
    fn put_off(
        &self,
        account: &Account,
        predicted: Predicted,
        next: Expected,
        now: u64,
    ) -> Option<u64> {
        let most = self.settings.in_flight_ns?;
        let room = most.saturating_add(next.due_ns.saturating_sub(now));
        let fits = (self.accounts.batch_in_flight() + predicted).longest_ns <= room;
        let paused_ns = account.paused_since.map_or(0, |since| now.saturating_sub(since));
        let is_paused_long = self.settings.pause_max_ns.is_some_and(|most| paused_ns >= most);
        let never_fits = predicted.longest_ns > next.interval_ns / FITTING_PART;
        (!fits && !never_fits && !is_paused_long).then(|| over_ns(next))
    }

    /// In what steps a client's work in flight should be looked at, as predicted time that it has at the
    /// most, ns; `None` while it is not bounded.
    pub fn bound_ns(&mut self, who: ClientId, now: u64) -> Option<u64> {
        let in_space = self.accounts.shares_space;
        let most = self.in_flight_ns(in_space).filter(|_| self.is_bounded(who, now))?;
        if in_space || !self.accounts.get(who).is_some_and(|account| self.makes_way(account, now)) {
            return Some(most);
        }
        self.expect(now);
        let expected = self.expected.map(|(_, next)| next);
        Some((depth_ns(most, expected, now) / 2).max(most))
    }

    /// Whether a client's graphs go in pieces now.
    pub fn cuts_graphs(&self, who: ClientId, now: u64) -> bool {
        self.settings.pieces && self.is_bounded(who, now) && !self.accounts.shares_space
    }

    /// A client has submitted a piece of work.
    pub fn submitted(&mut self, who: ClientId, predicted: impl Into<Predicted>, now: u64) {
        let predicted = predicted.into();
        self.moved(who, now);
        self.follow_space(now);
        let policy = &self.policy;
        self.accounts.change(who, |account| {
            account.in_flight = account.in_flight + predicted;
            account.used_ns = account.used_ns.saturating_add(predicted.mean_ns);
            let charged = i64::try_from(predicted.mean_ns).unwrap_or(i64::MAX);
            policy.charged(account, charged, now);
        });
    }

    /// A piece of a client's work that was predicted to take so long is done, and took so long.
    pub fn completed(
        &mut self,
        who: ClientId,
        predicted: impl Into<Predicted>,
        device_ns: u64,
        now: u64,
    ) {
        let predicted = predicted.into();
        self.moved(who, now);
        let policy = &self.policy;
        self.accounts.change(who, |account| {
            account.in_flight = account.in_flight - predicted;
            let more = i64::try_from(device_ns).unwrap_or(i64::MAX)
                - i64::try_from(predicted.mean_ns).unwrap_or(i64::MAX);
            account.used_ns = account.used_ns.saturating_add_signed(more);
            policy.charged(account, more, now);
        });
        self.awaken(who, now);
    }

    /// Something of a client's work happens. If nothing had for long, others have gone on without it.
    fn moved(&mut self, who: ClientId, now: u64) {
        if self.accounts.is_stuck(who, now) {
            self.policy.enters(who, &mut self.accounts, now);
        }
        self.accounts.change(who, |account| account.moved_ns = now);
    }

    /// Clients that are held and should ask again, after what happened since this was asked for last. Others that
    /// are held wait on, or until the time that they were told.
    pub fn awake(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.awake)
    }

    /// Work of a client was done, or all of it is, or it contends no more.
    fn awaken(&mut self, who: ClientId, now: u64) {
        let (accounts, awake) = (&self.accounts, &mut self.awake);
        let account = accounts.get(who);
        if account.is_some_and(|account| account.held.is_some()) {
            awake.push(who);
        }
        awake.extend(&accounts.put_off);
        // Others that are barred wait for a time, or for latency work, which only its client ends.
        let is_latency = account.is_some_and(|account| account.settings.class == Class::Latency);
        if is_latency && !accounts.latency_contends() {
            awake.extend(&accounts.barred);
        }
        self.policy.turn(accounts, now, awake);
    }
}

/// When a request that is expected is so no more, ns.
fn over_ns(next: Expected) -> u64 {
    next.due_ns.saturating_add(next.tolerance_ns)
}

/// Predicted time of work that a client may have in flight, ns: more than `most` while a request is known
/// to be far.
fn depth_ns(most: u64, expected: Option<Expected>, now: u64) -> u64 {
    let left_ns = expected.map_or(0, |next| next.due_ns.saturating_sub(now));
    most.max(DEPTH_NS.min(most.saturating_add(left_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::PRESENCE_NS;

    const GO: Verdict = Verdict::Go { free_sms: 0 };

    fn core(settings: &str, clients: &[&str]) -> (Core, Vec<ClientId>) {
        let mut core = Core::new(Settings::parse(settings).unwrap());
        let join = |text: &&str| core.join(ClientSettings::parse(text).unwrap());
        let ids = clients.iter().map(join).collect();
        (core, ids)
    }

    #[test]
    fn batch_is_paused_while_latency_work_is_there_and_bounded_while_it_may_come() {
        let (mut core, ids) = core("in-flight=100us pause-max=5ms", &["latency", "batch"]);
        let (latency, batch) = (ids[0], ids[1]);
        assert!(!core.is_free());
        // No critical client was seen yet: batch is free.
        for _ in 0..10 {
            assert_eq!(core.ask(batch, 90_000, 0), GO);
            core.submitted(batch, 90_000, 0);
        }
        core.arrived(latency, 10);
        let held = |until| Verdict::Wait { hold: Hold::Policy, until: Some(until) };
        assert_eq!(core.ask(batch, 1, 20), held(5_000_020));
        assert_eq!(core.ask(batch, 1, 30), held(5_000_020));
        assert_eq!(core.ask(latency, 1_000_000, 30), GO);
        core.idle(latency, 40);
        let full = Verdict::Wait { hold: Hold::InFlight, until: None };
        assert_eq!(core.ask(batch, 1, 50), full);
        for _ in 0..10 {
            core.completed(batch, 90_000, 90_000, 60);
        }
        assert_eq!(core.ask(batch, 500_000, 70), GO, "one kernel may always be in flight");
        core.submitted(batch, 500_000, 70);
        assert_eq!(core.ask(batch, 1, 80), full);
        let account = core.accounts().get(batch).unwrap();
        assert_eq!((account.pauses, account.paused_ns), (2, 50));
        // A second later no critical client is near.
        assert_eq!(core.ask(batch, 1, 40 + PRESENCE_NS), GO);
    }

    #[test]
    fn a_pause_has_an_end() {
        let (mut core, ids) = core("pause-max=5ms", &["latency", "batch"]);
        core.arrived(ids[0], 0);
        assert!(matches!(core.ask(ids[1], 1, 0), Verdict::Wait { .. }));
        assert_eq!(core.ask(ids[1], 1, 5_000_000), GO);
    }

    #[test]
    fn mechanisms_are_off_one_by_one() {
        let (mut core, ids) =
            core("pause=off in-flight=none floor=16 elastic=on", &["latency", "batch"]);
        core.arrived(ids[0], 0);
        assert_eq!(core.ask(ids[1], 1, 0), Verdict::Go { free_sms: 16 });
        core.idle(ids[0], 1);
        assert_eq!(core.ask(ids[1], 1, 2), GO, "an elastic floor goes with the work");
        core.set(Settings::parse("pause=off in-flight=none floor=16").unwrap());
        assert_eq!(core.ask(ids[1], 1, 3), Verdict::Go { free_sms: 16 });
        core.set(Settings::parse("preset=off").unwrap());
        core.arrived(ids[0], 4);
        assert_eq!(core.ask(ids[1], 1, 5), GO);
    }

    #[test]
    fn batch_work_that_would_be_in_a_requests_way_is_put_off() {
        const MS: u64 = 1_000_000;
        let (mut core, ids) = core("in-flight=200us", &["latency", "batch", "batch"]);
        for n in 1..=6 {
            core.arrived(ids[0], n * 10 * MS);
            core.idle(ids[0], n * 10 * MS + MS);
        }
        let put_off = Verdict::Wait { hold: Hold::InFlight, until: Some(70 * MS + 500_000) };
        let full = Verdict::Wait { hold: Hold::InFlight, until: None };
        // Far from the next request there may be more than 200 us, of each client.
        assert_eq!(core.ask(ids[1], MS, 65 * MS), GO);
        core.submitted(ids[1], MS, 65 * MS);
        assert_eq!(core.ask(ids[1], 1, 65 * MS), full);
        assert_eq!(core.ask(ids[2], 3 * MS, 65 * MS), GO);
        // At its due time 0.2 ms of all of them may be left, not of each.
        assert_eq!(core.ask(ids[2], 2 * MS, 68 * MS), put_off);
        core.completed(ids[1], MS, MS, 68 * MS);
        assert_eq!(core.ask(ids[2], 2 * MS, 68 * MS), GO);
        let varied = Predicted { mean_ns: 100_000, longest_ns: 2 * MS };
        assert_eq!(core.ask(ids[2], varied, 69 * MS), put_off, "its like may be longer");
        assert_eq!(core.ask(ids[2], 200_000, 70 * MS + 100_000), GO);
        assert_eq!(core.ask(ids[2], 201_000, 70 * MS + 100_000), put_off);
        // It does not come.
        assert_eq!(core.ask(ids[2], 2 * MS, 70 * MS + 600_000), GO);
        // What is longer than there is ever time for goes, as it would never fit.
        assert_eq!(core.ask(ids[2], 6 * MS, 79 * MS), GO);
        core.set(Settings::parse("in-flight=200us reserve=off").unwrap());
        assert_eq!(core.ask(ids[2], 4 * MS, 79 * MS), GO);
    }

    #[test]
    fn what_was_put_off_for_long_goes() {
        const MS: u64 = 1_000_000;
        let (mut core, ids) = core("pause-max=20ms", &["latency", "batch"]);
        for n in 1..=6 {
            core.arrived(ids[0], n * 10 * MS);
            core.idle(ids[0], n * 10 * MS + 6 * MS);
        }
        assert!(matches!(core.ask(ids[1], 5 * MS, 67 * MS), Verdict::Wait { .. }));
        assert!(matches!(core.ask(ids[1], 5 * MS, 77 * MS), Verdict::Wait { .. }));
        assert_eq!(core.ask(ids[1], 5 * MS, 87 * MS), GO);
    }

    #[test]
    fn a_class_changes_while_work_is_there() {
        let (mut core, ids) = core("", &["latency", "batch", "normal"]);
        core.arrived(ids[0], 0);
        assert!(matches!(core.ask(ids[1], 1, 0), Verdict::Wait { .. }));
        core.set_client(ids[0], ClientSettings::default(), 1);
        assert!(core.is_free());
        assert_eq!(core.ask(ids[1], 1, 2), GO);
        core.set_client(ids[2], ClientSettings::parse("latency").unwrap(), 3);
        core.arrived(ids[2], 3);
        assert!(matches!(core.ask(ids[1], 1, 4), Verdict::Wait { .. }));
        core.leave(ids[2]);
        assert_eq!(core.ask(ids[1], 1, 5), GO, "a client that goes leaves no work behind");
    }

    #[test]
    fn a_client_whose_work_does_not_get_on_holds_no_other_up_for_long() {
        const MS: u64 = 1_000_000;
        let (mut core, ids) = core("policy=fair pause-max=5ms in-flight=none", &["", ""]);
        let (stuck, other) = (ids[0], ids[1]);
        core.ask(stuck, 1000, 0);
        core.submitted(stuck, 1000, 0);
        assert_eq!(core.ask(other, 2 * MS, 0), GO);
        core.submitted(other, 2 * MS, 0);
        assert!(matches!(core.ask(other, MS, MS), Verdict::Wait { hold: Hold::Policy, .. }));
        let mut now = 6 * MS;
        for _ in 0..1000 {
            assert_eq!(core.ask(other, MS, now), GO);
            core.submitted(other, MS, now);
            now += MS;
            core.completed(other, MS, MS, now);
        }
        // It makes progress, and catches up on 20 ms and no more.
        core.completed(stuck, 1000, 1000, now);
        let mut caught_up = 0;
        while matches!(core.ask(other, MS, now), Verdict::Wait { .. }) {
            assert_eq!(core.ask(stuck, MS, now), GO);
            core.submitted(stuck, MS, now);
            now += MS;
            core.completed(stuck, MS, MS, now);
            caught_up += 1;
        }
        assert!((10..=25).contains(&caught_up), "{caught_up} ms");
    }

    #[test]
    fn a_debt_is_forgotten_while_a_client_rests() {
        const MS: u64 = 1_000_000;
        let (mut core, ids) = core("policy=fair in-flight=none pause-max=none", &["", ""]);
        core.arrived(ids[1], 0);
        core.ask(ids[0], 1, 0);
        core.submitted(ids[0], 1, 0);
        core.completed(ids[0], 1, 10_000 * MS, 10_000 * MS);
        core.idle(ids[0], 10_000 * MS);
        let is_held =
            |core: &mut Core, now| matches!(core.ask(ids[0], 1, now), Verdict::Wait { .. });
        assert!(is_held(&mut core, 10_010 * MS), "right behind its kernel it waits for its turn");
        core.idle(ids[0], 10_011 * MS);
        assert!(!is_held(&mut core, 25_000 * MS));
    }

    #[test]
    fn latency_work_makes_no_way_for_itself() {
        const MS: u64 = 1_000_000;
        let (mut core, ids) =
            core("policy=classes+fair floor=16", &["latency", "batch", "latency"]);
        core.arrived(ids[0], 0);
        core.arrived(ids[1], 0);
        assert_eq!(core.ask(ids[0], 1000, 0), GO);
        core.idle(ids[0], 1);
        assert_eq!(core.ask(ids[1], 1000, 1), Verdict::Go { free_sms: 16 });
        // One that is expected puts off batch work and no other latency work.
        for n in 1..=6 {
            core.arrived(ids[0], n * 10 * MS);
            core.idle(ids[0], n * 10 * MS + MS);
        }
        assert_eq!(core.ask(ids[2], 4 * MS, 69 * MS), GO);
    }

    #[test]
    fn a_setting_does_not_make_work_in_flight_undone() {
        let (mut core, ids) = core("in-flight=200us reserve=off", &["latency", "batch"]);
        core.arrived(ids[0], 0);
        core.idle(ids[0], 1);
        assert_eq!(core.ask(ids[1], 200_000, 10), GO);
        core.submitted(ids[1], 200_000, 10);
        let full = Verdict::Wait { hold: Hold::InFlight, until: None };
        assert_eq!(core.ask(ids[1], 1, 20), full);
        core.set_client(ids[1], ClientSettings::parse("batch weight=2").unwrap(), 30);
        assert_eq!(core.ask(ids[1], 1, 40), full);
        let account = core.accounts().get(ids[1]).unwrap();
        assert_eq!((account.pauses, account.paused_since), (1, Some(20)));
    }

    #[test]
    fn of_a_thousand_that_are_held_only_those_ask_again_whose_turn_it_is() {
        const MS: u64 = 1_000_000;
        let settings = "policy=fair in-flight=none pause-max=none";
        let (mut core, ids) = core(settings, &[""; 1000]);
        for (who, n) in ids.iter().zip(0..) {
            assert_eq!(core.ask(*who, 1, 0), GO);
            core.submitted(*who, n * 2 * MS, 0);
        }
        for who in &ids[2..] {
            assert!(matches!(core.ask(*who, 1, 0), Verdict::Wait { .. }));
        }
        core.awake();
        core.completed(ids[0], 0u64, 5 * MS, MS);
        assert_eq!(core.awake(), []);
        core.completed(ids[1], 2 * MS, 7 * MS, 2 * MS);
        assert_eq!(core.awake(), ids[2..=2], "4 ms are not ahead of 4 ms");
        assert_eq!(core.ask(ids[2], 1, 3 * MS), GO);
        core.submitted(ids[2], 1500 * 1000u64, 3 * MS);
        core.idle(ids[0], 3 * MS);
        assert_eq!(core.awake(), ids[3..=3], "6 ms are within 1 ms of 5.5");
    }

    #[test]
    fn what_latency_work_pauses_asks_again_when_all_of_that_is_done() {
        let (mut core, ids) = core("", &["latency", "latency", "batch", "batch quota=1ms"]);
        core.arrived(ids[0], 0);
        core.arrived(ids[1], 0);
        assert!(matches!(core.ask(ids[2], 1, 0), Verdict::Wait { .. }));
        assert!(matches!(core.ask(ids[3], 1, 0), Verdict::Wait { .. }));
        core.awake();
        core.idle(ids[0], 1);
        assert_eq!(core.awake(), []);
        core.idle(ids[1], 2);
        assert_eq!(core.awake(), ids[2..]);
    }
}
