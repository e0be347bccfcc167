//! Sharing in space: SMs of its own for batch work beside latency-critical work that is never idle for long.
//!
//! Classes share the device in time, which leaves batch work nothing where a latency-critical client is busy for most
//! of each second. There batch work goes on beside it, on some of the SMs: as many as slow the latency-critical client
//! by no more than its bound, found step by step by what its graphs and kernels take beside batch work and alone. Now and
//! then batch work pauses for a moment, so that it is known what they take alone. It always keeps a least part, if
//! that is set. This module knows no device and no clock.

use crate::account::ClientId;
use std::collections::BTreeMap;

/// Sizes of the part of the SMs that batch work has: so many steps, the first of which is the least part.
const STEPS: u32 = 8;
/// The size to begin with: a quarter of the SMs.
const FIRST: u32 = 2;
/// Of the last second, ‰, for which latency-critical work must have been there for classes to share in space, and
/// below which they do no more.
const ENTER_PERMILLE: u64 = 600;
const LEAVE_PERMILLE: u64 = 400;
/// Parts of the second over which that is seen, and how long each is, ns.
const PARTS: usize = 8;
const PART_NS: u64 = 125_000_000;
/// Shortest time for which a size is tried, ns, and of it the beginning, in which work of the size before ends.
const TRIAL_NS: u64 = 150_000_000;
const SETTLE_NS: u64 = 20_000_000;
/// Fewest samples to judge a size by.
const SAMPLES_MIN: u32 = 6;
/// The newest sample counts for one in so many.
const SAMPLES_REMEMBERED: u64 = 16;
/// For how long a size that was too much is not tried again, ns.
const RETRY_NS: u64 = 10_000_000_000;
/// How often batch work pauses, and for how long, ns, so that it is seen what the work takes alone.
const PROBE_PERIOD_NS: u64 = 5_000_000_000;
const PROBE_NS: u64 = 50_000_000;

/// What is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most time that latency-critical work may take beside batch work, ‰ of what it takes alone.
    pub slowdown_permille: u32,
    /// Part of the SMs that batch work has in any case, %.
    pub least_percent: u32,
}

/// What is seen of the clients at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// A latency-critical client has work.
    pub latency: bool,
    /// A batch client has work.
    pub batch: bool,
}

/// For which part of the last second latency-critical work was there.
#[derive(Clone, Debug, Default)]
struct Busy {
    /// Of the present part and those before it, ns each.
    parts: [u64; PARTS],
    part: u64,
    last_ns: u64,
    was_there: bool,
}

impl Busy {
    fn follow(&mut self, is_there: bool, now: u64) {
        while self.last_ns < now {
            let end = ((self.part + 1) * PART_NS).min(now);
            if self.was_there {
                self.parts[self.part as usize % PARTS] += end.saturating_sub(self.last_ns);
            }
            self.last_ns = end.max(self.last_ns);
            if now.saturating_sub(self.last_ns) > 2 * PARTS as u64 * PART_NS && !self.was_there {
                // Nothing was there for longer than is looked back.
                (self.parts, self.last_ns) = ([0; PARTS], now);
                self.part = now / PART_NS;
            } else if self.last_ns == (self.part + 1) * PART_NS {
                self.part += 1;
                self.parts[self.part as usize % PARTS] = 0;
            }
        }
        self.was_there = is_there;
    }

    fn permille(&self) -> u64 {
        let whole_ns = (PARTS as u64 - 1) * PART_NS + self.last_ns % PART_NS;
        self.parts.iter().sum::<u64>() * 1000 / whole_ns.max(1)
    }
}

/// How much a client is slowed at the present size.
#[derive(Clone, Copy, Debug, Default)]
struct Slowed {
    device_ns: u64,
    alone_ns: u64,
    samples: u32,
}

impl Slowed {
    fn add(&mut self, device_ns: u64, alone_ns: u64) {
        if self.samples >= SAMPLES_REMEMBERED as u32 {
            self.device_ns -= self.device_ns / SAMPLES_REMEMBERED;
            self.alone_ns -= self.alone_ns / SAMPLES_REMEMBERED;
        }
        self.device_ns = self.device_ns.saturating_add(device_ns);
        self.alone_ns = self.alone_ns.saturating_add(alone_ns);
        self.samples = self.samples.saturating_add(1);
    }

    fn permille(&self) -> u64 {
        self.device_ns.saturating_mul(1000) / self.alone_ns.max(1)
    }
}

/// What is decided, and by what.
#[derive(Clone, Debug, Default)]
pub struct Space {
    busy: Busy,
    /// The size that batch work has, by number; `None`: classes share in time.
    size: Option<u32>,
    /// Since when, ns.
    since_ns: u64,
    slowed: BTreeMap<ClientId, Slowed>,
    /// A size that was too much, and until when that is remembered, ns.
    too_much: Option<(u32, u64)>,
    /// When batch work pauses next, and until when it does, ns.
    probe_ns: u64,
    probe_until_ns: u64,
    /// How often the size has changed.
    changes: u64,
}

impl Space {
    /// Takes note of what is there at a time, and changes the size if that is due. True if something changed for
    /// clients that wait.
    pub fn follow(&mut self, seen: Seen, bounds: Bounds, now: u64) -> bool {
        self.busy.follow(seen.latency, now);
        let busy = self.busy.permille();
        let before = (self.size, self.is_probing(now));
        match self.size {
            None if seen.batch && busy >= ENTER_PERMILLE => {
                self.probe_ns = now + PROBE_PERIOD_NS;
                self.set(Some(FIRST), now);
            }
            Some(_) if busy < LEAVE_PERMILLE => {
                self.too_much = None;
                self.set(None, now);
            }
            Some(size) => {
                if now >= self.probe_ns {
                    self.probe_until_ns = now + PROBE_NS;
                    self.probe_ns = now + PROBE_PERIOD_NS;
                }
                if !self.is_probing(now) && now.saturating_sub(self.since_ns) >= TRIAL_NS {
                    self.judge(size, bounds, now);
                }
            }
            None => {}
        }
        before != (self.size, self.is_probing(now))
    }

    /// Changes the size by what is known of the present one.
    fn judge(&mut self, size: u32, bounds: Bounds, now: u64) {
        let judged = self.slowed.values().filter(|slowed| slowed.samples >= SAMPLES_MIN);
        let Some(slowed) = judged.map(Slowed::permille).max() else { return };
        let most = u64::from(bounds.slowdown_permille);
        if slowed > most && size > 0 {
            self.too_much = Some((size, now + RETRY_NS));
            return self.set(Some(size - 1), now);
        }
        let is_known = self.too_much.is_some_and(|(of, until)| of == size + 1 && now < until);
        // What it would be if each SM of batch work's slowed the other alike.
        let next = 1000 + slowed.saturating_sub(1000) * u64::from(size + 2) / u64::from(size + 1);
        if size + 1 < STEPS && !is_known && next <= most {
            self.set(Some(size + 1), now);
        }
    }

    fn set(&mut self, size: Option<u32>, now: u64) {
        (self.size, self.since_ns) = (size, now);
        self.changes += 1;
        self.slowed.clear();
    }

    /// A graph or kernel of a latency-critical client, submitted at that time, took so long, and takes so long alone.
    pub fn sampled(&mut self, who: ClientId, times: (u64, u64), submitted_ns: u64) {
        let (device_ns, alone_ns) = times;
        let counts = submitted_ns >= self.since_ns.saturating_add(SETTLE_NS)
            && submitted_ns >= self.probe_until_ns.saturating_add(SETTLE_NS);
        if self.size.is_some() && counts && alone_ns > 0 {
            self.slowed.entry(who).or_default().add(device_ns, alone_ns);
        }
    }

    /// A client goes.
    pub fn leave(&mut self, who: ClientId) {
        self.slowed.remove(&who);
    }

    /// Classes do not share in space any more. What was seen is forgotten.
    pub fn stop(&mut self) {
        let changes = self.changes + u64::from(self.size.is_some());
        *self = Self { changes, ..Self::default() };
    }

    /// How often the SMs that batch work has beside latency-critical work have changed, its beginnings and ends too.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// True while batch work pauses so that it is seen what other work takes alone.
    pub fn is_probing(&self, now: u64) -> bool {
        self.size.is_some() && now < self.probe_until_ns
    }

    /// True if what is submitted now runs without batch work beside it, but for what ends.
    pub fn is_alone(&self, now: u64) -> bool {
        self.size.is_none()
            || self.is_probing(now) && now + PROBE_NS >= self.probe_until_ns + SETTLE_NS
    }

    /// True while classes share in space.
    pub fn is_shared(&self) -> bool {
        self.size.is_some()
    }

    /// SMs that batch work has of so many beside latency-critical work; `None` while classes share in time. 0: it
    /// pauses.
    pub fn batch_sms(&self, sms: u32, bounds: Bounds) -> Option<u32> {
        let size = self.size?;
        let least = (sms * bounds.least_percent).div_ceil(100);
        Some((sms * size / STEPS).max(least).min(sms.saturating_sub(1)))
    }

    /// How much latency-critical work is slowed by batch work beside it, ‰ of what it takes alone, as far as that is
    /// known.
    pub fn slowed_permille(&self) -> Option<u64> {
        self.slowed.values().filter(|of| of.samples >= SAMPLES_MIN).map(Slowed::permille).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { slowdown_permille: 1250, least_percent: 10 };
    const MS: u64 = 1_000_000;
    const SMS: u32 = 132;
    const SERVER: ClientId = ClientId(1);

    /// A latency-critical client that has work for `busy` of each 10 ms, and is slowed as `slowed` says, ‰, beside
    /// batch work of so many SMs, until then. The sizes, ms by ms.
    struct Run {
        space: Space,
        now: u64,
        sizes: Vec<Option<u32>>,
        paused_ms: u64,
    }

    impl Run {
        fn new() -> Self {
            Self { space: Space::default(), now: 0, sizes: Vec::new(), paused_ms: 0 }
        }

        fn go(&mut self, ms: u64, busy: u64, bounds: Bounds, slowed: impl Fn(u32) -> u64) {
            for _ in 0..ms {
                let tenth = self.now / MS % 10;
                self.space.follow(Seen { latency: tenth < busy, batch: true }, bounds, self.now);
                let size = self.space.batch_sms(SMS, bounds);
                self.sizes.push(size);
                self.paused_ms += u64::from(self.space.is_probing(self.now));
                if let Some(size) = size
                    && tenth == 0
                {
                    let is_alone = self.space.is_alone(self.now);
                    let took = if is_alone { 1000 } else { slowed(size) };
                    self.space.sampled(SERVER, (3000 * took, 3_000_000), self.now);
                }
                self.now += MS;
            }
        }

        fn last(&self) -> Option<u32> {
            *self.sizes.last().expect("some time has passed")
        }
    }

    #[test]
    fn classes_share_in_time_where_requests_leave_time() {
        for busy in 0..=5 {
            let mut run = Run::new();
            run.go(20_000, busy, BOUNDS, |_| 1000);
            assert!(run.sizes.iter().all(Option::is_none), "busy for {busy} tenths");
        }
    }

    #[test]
    fn the_size_is_the_largest_that_keeps_to_the_bound() {
        // How much work is slowed, ‰, by each SM of batch work's, and the size that is found.
        for (each, expected) in [(0, 115), (1, 115), (2, 115), (3, 82), (4, 49), (8, 16), (30, 14)]
        {
            let mut run = Run::new();
            run.go(30_000, 10, BOUNDS, |sms| 1000 + each * u64::from(sms));
            let expected_at_least = if expected == 16 { 14 } else { expected };
            let last = run.last().expect("it is shared");
            assert!((expected_at_least..=expected.max(14)).contains(&last), "{each}: {last}");
            // Within two seconds, and but for short trials it stays.
            let found = run.sizes[4000..].iter().filter(|size| **size == Some(last)).count();
            assert!(found * 100 >= run.sizes[4000..].len() * 85, "{each}: {found}");
            // The pauses are a hundredth of the time.
            assert!(run.paused_ms * 100 <= 2 * 30_000, "{}", run.paused_ms);
        }
    }

    #[test]
    fn batch_work_keeps_its_least_part_or_none() {
        for (least_percent, expected) in [(10, 14), (0, 0), (50, 66)] {
            let bounds = Bounds { least_percent, ..BOUNDS };
            let mut run = Run::new();
            run.go(10_000, 10, bounds, |sms| if sms > 0 { 3000 } else { 1000 });
            assert!(run.sizes.iter().flatten().all(|sms| *sms >= expected));
            // With nothing to measure it by, none is given back before that is tried again.
            let few = run.sizes.iter().flatten().filter(|sms| **sms == expected).count();
            assert!(few > 7000, "{least_percent} {few}");
        }
    }

    #[test]
    fn another_bound_and_another_load_are_followed_and_rest_gives_all_back() {
        let each = |each: u64| move |sms: u32| 1000 + each * u64::from(sms);
        let mut run = Run::new();
        run.go(5000, 9, BOUNDS, each(4));
        assert_eq!(run.last(), Some(49));
        run.go(15_000, 9, Bounds { slowdown_permille: 1500, ..BOUNDS }, each(4));
        assert_eq!(run.last(), Some(115));
        run.go(5000, 9, BOUNDS, each(4));
        assert_eq!(run.last(), Some(49));
        run.go(2000, 1, BOUNDS, each(4));
        assert_eq!(run.last(), None);
        assert_eq!(run.space.slowed_permille(), None);
        // Each size is a change to the one before, and a switch that turns it off is one only where it was on.
        let changed = run.sizes.windows(2).filter(|sizes| sizes[0] != sizes[1]).count() as u64;
        assert_eq!(run.space.changes(), changed);
        run.space.stop();
        assert_eq!(run.space.changes(), changed);
        run.go(2000, 10, BOUNDS, each(4));
        let begun = run.space.changes();
        assert!(begun > changed && run.last().is_some());
        run.space.stop();
        assert_eq!((run.space.changes(), run.space.is_shared()), (begun + 1, false));
    }

    #[test]
    fn the_part_of_the_last_second_is_seen() {
        let mut busy = Busy::default();
        busy.follow(true, 7_000_000_000);
        busy.follow(false, 7_500_000_000);
        busy.follow(false, 8_000_000_000);
        assert!((420..580).contains(&busy.permille()), "{}", busy.permille());
        busy.follow(false, 60_000_000_000);
        assert_eq!(busy.permille(), 0);
        busy.follow(true, 60_000_000_000);
        busy.follow(true, 90_000_000_000);
        assert!(busy.permille() > 990);
    }
}
