//! The gate: the verdict whether a client may submit now, and what its account is charged.

use crate::account::{Account, Accounts, ClientId};
use crate::arrivals::Expected;
use crate::class::Class;
use crate::client::ClientSettings;
use crate::policy::{self, Admission, Policy};
use crate::predict::Predicted;
use crate::settings::Settings;

/// Work that a client may have in flight while the next latency-critical request is known to be far, ns:
/// no more, so that what is predicted wrong stays a small part of a request.
const AHEAD_NS: u64 = 1_000_000;
/// Work longer than this part of the interval between two requests is not put off: it would never fit.
const INTERVAL_PART: u64 = 2;

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
    /// The latency-critical request that is expected next, and until when that is so, ns; 0: to be found.
    expected: Option<Expected>,
    expected_until: u64,
}

impl Core {
    /// A gate without clients.
    pub fn new(settings: Settings) -> Self {
        let policy = policy::of_settings(&settings);
        let accounts = Accounts::default();
        Self { settings, policy, accounts, last_id: 0, expected: None, expected_until: 0 }
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
        self.accounts.all.insert(id, account);
        id
    }

    /// A client goes.
    pub fn leave(&mut self, who: ClientId) {
        self.close(who, None);
        self.accounts.all.remove(&who);
        self.expected_until = 0;
    }

    /// Sets what is set for a client.
    pub fn set_client(&mut self, who: ClientId, settings: ClientSettings, now: u64) {
        // What is counted by class is counted anew.
        let is_open = self.accounts.open.contains(&who);
        self.close(who, None);
        if let Some(account) = self.accounts.get_mut(who) {
            account.settings = settings;
        }
        self.expected_until = 0;
        if is_open {
            self.arrived(who, now);
        }
    }

    /// True if no client has to ask: the policy would let all of them through.
    pub fn is_free(&self) -> bool {
        self.policy.is_free(&self.accounts)
    }

    /// Work of a client has come.
    pub fn arrived(&mut self, who: ClientId, now: u64) {
        let Some(account) = self.accounts.all.get_mut(&who) else { return };
        account.seen_ns = Some(now);
        if account.open_since.is_some() {
            return;
        }
        account.open_since = Some(now);
        account.arrivals.came(now);
        let latency = account.settings.class == Class::Latency;
        self.accounts.open.insert(who);
        if latency {
            self.expected_until = 0;
            self.accounts.latency_open += 1;
            self.accounts.latency_seen_ns = Some(now);
        }
        self.policy.arrived(who, &mut self.accounts, now);
    }

    /// All work of a client is done, and none has come.
    pub fn idle(&mut self, who: ClientId, now: u64) {
        self.close(who, Some(now));
    }

    fn close(&mut self, who: ClientId, now: Option<u64>) {
        let Some(account) = self.accounts.all.get_mut(&who) else { return };
        account.held_since = None;
        account.in_flight = Predicted::default();
        if now.is_some() {
            account.seen_ns = now;
        }
        if account.open_since.take().is_none() {
            return;
        }
        if let Some(now) = now {
            account.arrivals.rested(now);
        }
        self.accounts.open.remove(&who);
        if account.settings.class == Class::Latency {
            self.expected_until = 0;
            self.accounts.latency_open = self.accounts.latency_open.saturating_sub(1);
            self.accounts.latency_seen_ns = self.accounts.latency_seen_ns.max(now);
        }
    }

    /// Whether what a client has in flight is bounded now.
    pub fn is_bounded(&self, who: ClientId, now: u64) -> bool {
        self.policy.is_bounded(who, &self.accounts, now)
    }

    /// Whether a client may submit a piece of work that is predicted to take so long.
    pub fn ask(&mut self, who: ClientId, predicted: impl Into<Predicted>, now: u64) -> Verdict {
        self.arrived(who, now);
        let bounded = self.is_bounded(who, now);
        if bounded {
            self.expect(now);
        }
        let verdict = self.judge(who, predicted.into(), bounded, now);
        let Some(account) = self.accounts.all.get_mut(&who) else { return verdict };
        match verdict {
            Verdict::Wait { .. } => {
                if account.held_since.is_none() {
                    account.held_since = Some(now);
                    account.holds += 1;
                }
            }
            Verdict::Go { .. } => {
                let since = account.held_since.take();
                account.held_ns += since.map_or(0, |since| now.saturating_sub(since));
            }
        }
        verdict
    }

    fn judge(&self, who: ClientId, predicted: Predicted, bounded: bool, now: u64) -> Verdict {
        let Some(account) = self.accounts.get(who) else { return Verdict::Go { free_sms: 0 } };
        match self.policy.admit(who, &self.accounts, &self.settings, now) {
            Admission::Go => {}
            Admission::Hold => return Verdict::Wait { hold: Hold::Policy, until: None },
            Admission::HoldUntil(at) => {
                return Verdict::Wait { hold: Hold::Policy, until: Some(at) };
            }
        }
        if bounded && let Some(most) = self.settings.in_flight_ns {
            let expected = self.expected;
            let in_flight_ns = account.in_flight.mean_ns;
            let depth = depth_ns(most, expected, now);
            if in_flight_ns > 0 && in_flight_ns.saturating_add(predicted.mean_ns) > depth {
                return Verdict::Wait { hold: Hold::InFlight, until: None };
            }
            if let Some(until) =
                expected.and_then(|next| self.put_off(account, predicted, next, now))
            {
                return Verdict::Wait { hold: Hold::InFlight, until: Some(until) };
            }
        }
        let kept = !self.settings.elastic || self.accounts.latency_is_open();
        let free_sms = if bounded && kept { self.settings.floor_sms } else { 0 };
        Verdict::Go { free_sms }
    }

    /// Finds the latency-critical request for which batch work makes room ahead, if what is known is old.
    fn expect(&mut self, now: u64) {
        if now >= self.expected_until {
            self.expected = self.accounts.expected(now).filter(|_| self.settings.reserve);
            // Without one there is none until a client has worked.
            let over = |next: Expected| next.due_ns.saturating_add(next.tolerance_ns);
            self.expected_until = self.expected.map_or(u64::MAX, over);
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
        let held_ns = account.held_since.map_or(0, |since| now.saturating_sub(since));
        let is_held_long = self.settings.pause_max_ns.is_some_and(|most| held_ns >= most);
        let never_fits = predicted.longest_ns > next.interval_ns / INTERVAL_PART;
        (!fits && !never_fits && !is_held_long)
            .then(|| next.due_ns.saturating_add(next.tolerance_ns))
    }

    /// In what steps a client's work in flight should be looked at, as predicted time that it has at the
    /// most, ns; `None` while it is not bounded.
    pub fn bound_ns(&mut self, who: ClientId, now: u64) -> Option<u64> {
        let most = self.settings.in_flight_ns.filter(|_| self.is_bounded(who, now))?;
        self.expect(now);
        Some((depth_ns(most, self.expected, now) / 2).max(most))
    }

    /// A client has submitted a piece of work.
    pub fn submitted(&mut self, who: ClientId, predicted: impl Into<Predicted>, now: u64) {
        let Some(account) = self.accounts.all.get_mut(&who) else { return };
        let predicted = predicted.into();
        account.in_flight = account.in_flight + predicted;
        account.used_ns = account.used_ns.saturating_add(predicted.mean_ns);
        let charged = i64::try_from(predicted.mean_ns).unwrap_or(i64::MAX);
        self.policy.charged(account, charged, now);
    }

    /// A piece of a client's work that was predicted to take so long is done, and took so long.
    pub fn completed(
        &mut self,
        who: ClientId,
        predicted: impl Into<Predicted>,
        device_ns: u64,
        now: u64,
    ) {
        let Some(account) = self.accounts.all.get_mut(&who) else { return };
        let predicted = predicted.into();
        account.in_flight = account.in_flight - predicted;
        let more = i64::try_from(device_ns).unwrap_or(i64::MAX)
            - i64::try_from(predicted.mean_ns).unwrap_or(i64::MAX);
        account.used_ns = account.used_ns.saturating_add_signed(more);
        self.policy.charged(account, more, now);
    }
}

/// Predicted time of work that a client may have in flight, ns: more than `most` while a request is known
/// to be far.
fn depth_ns(most: u64, expected: Option<Expected>, now: u64) -> u64 {
    let left_ns = expected.map_or(0, |next| next.due_ns.saturating_sub(now));
    most.max(AHEAD_NS.min(most.saturating_add(left_ns)))
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
        assert_eq!((account.holds, account.held_ns), (2, 50));
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
}
