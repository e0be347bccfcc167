//! Adaptive waiting: spin briefly, then sleep on a futex.
//!
//! All futexes are shared ones (not FUTEX_PRIVATE_FLAG): the other side is another process. Every
//! sleep has a timeout in the end, because the other side may die without a word: waits take a
//! closure that is asked on each timeout whether it still makes sense to wait.

use crate::shared::SharedU32;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use rustix::io::Errno;
use rustix::thread::{Timespec, futex};
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Instant;

/// How often a sleeping waiter wakes up to see whether its peer still lives.
pub const LIVENESS_PERIOD: Duration = Duration::from_millis(10);

/// The longest that such a period becomes where so many wait that looking alone would keep the cores
/// busy ([`Region::liveness_period`](crate::region::Region::liveness_period)).
pub const LIVENESS_PERIOD_MAX: Duration = Duration::from_millis(320);

/// Longest spin that OPENMPS_SPIN_US can ask for, microseconds: beyond a sleep's own granularity
/// spinning only heats.
pub const SPIN_US_MAX: u32 = 10_000;

/// Spin on machines with cores to spare, microseconds: a few times the cost of falling asleep and
/// being woken (5 to 10 us).
pub const SPIN_US_DEFAULT: u32 = 20;

/// Fewest cores at which a waiter may spin by default: client, server and device each need one.
pub const SPIN_CORES_MIN: usize = 4;

/// Turns a waiter that may not spin gives to others before it sleeps.
const YIELDS: u32 = 4;

/// How long such a waiter goes on to offer its core while no thread takes it and programs leave a core free: as long
/// as many a kernel takes. Waking a thread whose core sleeps takes 20 to 50 us on a virtual machine.
const YIELD_TIME: Duration = Duration::from_micros(100);

/// After an offer that another thread took, a thread's waits offer only a few times for so long: where programs want
/// all cores, who sleeps gets one sooner when it is woken than who offered its own.
const WANTED_TIME: Duration = Duration::from_millis(20);

thread_local! {
    /// When an offer of this thread was taken last.
    static WANTED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Looks between two offers: an offer is a system call.
const LOOKS_PER_YIELD: u32 = 8;

/// A turn that took longer than this was used by another thread: the core is wanted, so sleep.
const YIELD_WANTED: Duration = Duration::from_micros(5);

/// A consumer whose producer keeps waking it for next to nothing polls instead: it sleeps this long
/// and looks by itself. It is what an unhurried request can be late by, where poll sleeps do not grow.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// The longest poll sleep where programs leave no core free. Each end of a poll sleep takes the core from a thread that works:
/// 16 programs of PyTorch on 16 cores, of which each launches a kernel in 60 us, lose an eighth of their time by
/// poll sleeps of 50 us. What a thread waits for ends a poll sleep at once.
const POLL_INTERVAL_MAX: Duration = Duration::from_millis(1);

/// Poll sleeps with nothing to do before a consumer asks to be woken again: 1 to 2 ms.
const POLL_SLEEPS: u32 = 20;

/// Wake-ups for next to nothing before a consumer polls: enough not to be a coincidence.
const POLL_AFTER: u32 = 4;

/// How long a waiter for a device backs off, on machines where waiters may spin: it sleeps for a small
/// part of the time that it has waited already and looks by itself. Asking to be woken costs the
/// server a call and the device an interrupt, 40 us together, so it is for longer waits.
const BACK_OFF: Duration = Duration::from_millis(100);

/// A back-off lasts this part of the wait so far, which bounds what it prolongs the wait by.
const BACK_OFF_PART: u32 = 256;

/// Shortest and longest back-off: looking costs 3 us of processor time.
const BACK_OFF_MIN: Duration = Duration::from_micros(5);
const BACK_OFF_MAX: Duration = Duration::from_micros(50);

/// How long the waits of a latency-critical program spin: being woken takes 50 us and more on a
/// virtual machine, which is 5 % of a request of 1 ms. Services that are asked more often than this
/// never sleep; others do between their requests.
const ATTENTION: Duration = Duration::from_millis(20);

/// Where programs leave no core free, waiters spin this much shorter and back off this
/// much longer: 16 programs that wait for a device for 3 ms a step look 100 times else, of which each takes 3 us
/// from one that works.
const OVERSUBSCRIBED_FACTOR: u32 = 4;

/// Among so many a consumer that coalesces records spins this much shorter: it finds several after each poll sleep,
/// so that the next one is not there at once.
const GATHERING_FACTOR: u32 = 20;

/// Nor does it keep a prediction shorter than so many poll sleeps. It would be awake for each launch
/// of a program that makes one each 20 us, by spinning or by a system call of the program's.
const COALESCING_PREDICTED_SLEEPS: u32 = 4;

/// How a waiter passes the time before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinPolicy {
    /// How long it looks again and again.
    pub spin: Duration,
    /// If `spin` is zero: how often it offers its core to others first. An offer that no thread
    /// takes costs well under a microsecond and often saves the peer a system call.
    pub yields: u32,
    /// If `spin` is zero: how long it goes on with that while no thread takes the core.
    pub yield_time: Duration,
    /// How long a poll sleep of a consumer is (see [`Consumer::wait`](crate::ring::Consumer::wait)).
    pub poll_sleep: Duration,
    /// How long a poll sleep becomes while each brings records, but few.
    pub poll_interval_max: Duration,
    /// How many poll sleeps it takes before it sleeps; zero: none.
    pub poll_sleeps: u32,
    /// After how many wake-ups in a row for next to nothing it begins to poll.
    pub poll_after: u32,
    /// How long a waiter for a device backs off (see [`wait_until_reached`]) before it asks to be
    /// woken.
    pub back_off: Duration,
    /// Which part of the wait so far a back-off is: a 256th, say.
    pub back_off_part: u32,
    /// The shortest back-off.
    pub back_off_min: Duration,
    /// The longest one.
    pub back_off_max: Duration,
    /// Whether it spins about when the last wait ended, too.
    pub keeps_time: bool,
    /// Shortest wait whose prediction a consumer keeps.
    pub predicted_min: Duration,
    /// How long a consumer spins since its last record, if that is longer than `spin`.
    pub busy_polling: Duration,
    /// How often it looks whether its peer lives while it sleeps.
    pub liveness: Duration,
}

impl SpinPolicy {
    /// Sleeps at once.
    pub const NONE: Self = Self {
        spin: Duration::ZERO,
        yields: 0,
        yield_time: Duration::ZERO,
        poll_sleep: Duration::ZERO,
        poll_interval_max: Duration::ZERO,
        poll_sleeps: 0,
        poll_after: 0,
        back_off: Duration::ZERO,
        back_off_part: BACK_OFF_PART,
        back_off_min: BACK_OFF_MIN,
        back_off_max: BACK_OFF_MAX,
        keeps_time: false,
        predicted_min: RHYTHM_MIN,
        busy_polling: Duration::ZERO,
        liveness: LIVENESS_PERIOD,
    };

    /// The policy for a machine with that many cores and OPENMPS_SPIN_US set to that text.
    pub fn new(cores: usize, spin_us: Option<&str>) -> Self {
        let default = if cores < SPIN_CORES_MIN { 0 } else { SPIN_US_DEFAULT };
        let asked = spin_us.and_then(|text| text.trim().parse().ok());
        let spin_us = asked.unwrap_or(default);
        // With one core whom a waiter waits for cannot run beside it.
        let yields_long = asked.is_none() && cores > 1;
        Self {
            spin: Duration::from_micros(u64::from(u32::min(spin_us, SPIN_US_MAX))),
            yields: YIELDS,
            yield_time: if yields_long { YIELD_TIME } else { Duration::ZERO },
            poll_sleep: POLL_INTERVAL,
            poll_interval_max: POLL_INTERVAL,
            poll_sleeps: POLL_SLEEPS,
            poll_after: POLL_AFTER,
            back_off: if spin_us == 0 { Duration::ZERO } else { BACK_OFF },
            back_off_part: BACK_OFF_PART,
            back_off_min: BACK_OFF_MIN,
            back_off_max: BACK_OFF_MAX,
            keeps_time: spin_us > 0,
            predicted_min: RHYTHM_MIN,
            busy_polling: Duration::ZERO,
            liveness: LIVENESS_PERIOD,
        }
    }

    /// The policy where programs leave no core free: a thread that spins takes a
    /// core from one that would work. Where no thread spins anyway it offers its core a few times and sleeps.
    pub fn oversubscribed(self) -> Self {
        if self.spin.is_zero() {
            return Self { yield_time: Duration::ZERO, ..self };
        }
        Self {
            spin: self.spin / OVERSUBSCRIBED_FACTOR,
            back_off_part: self.back_off_part / OVERSUBSCRIBED_FACTOR,
            back_off_min: self.back_off_min * OVERSUBSCRIBED_FACTOR,
            back_off_max: self.back_off_max * OVERSUBSCRIBED_FACTOR,
            ..self
        }
    }

    /// As [`SpinPolicy::oversubscribed`], for a consumer: it sleeps at once, and for longer while launches come, so that it
    /// finds several records each time.
    pub fn oversubscribed_consumer(self) -> Self {
        if self.spin.is_zero() {
            return self.oversubscribed();
        }
        Self { poll_after: 0, poll_interval_max: POLL_INTERVAL_MAX, ..self.oversubscribed() }
    }

    /// As [`SpinPolicy::oversubscribed_consumer`], for one that coalesces records so as to carry them out together: it
    /// saves more than it loses by coming late.
    pub fn coalescing_consumer(self) -> Self {
        if self.spin.is_zero() {
            return self.oversubscribed();
        }
        Self {
            spin: self.spin / GATHERING_FACTOR,
            predicted_min: self.poll_sleep * COALESCING_PREDICTED_SLEEPS,
            ..self.oversubscribed_consumer()
        }
    }

    /// The policy of a consumer whose poll sleeps do not grow: what it finds late costs more than what it is woken for.
    pub fn with_short_poll_interval(self) -> Self {
        Self { poll_interval_max: self.poll_sleep, ..self }
    }

    /// The policy for a program that is latency-critical, while there are cores for all: it spins for
    /// as long as a short request takes, and the server's side from one request to the next. Where
    /// no thread spins it is the same.
    pub fn busy_polling(self) -> Self {
        if self.spin.is_zero() {
            return self;
        }
        Self { spin: ATTENTION, ..self }
    }

    /// As [`SpinPolicy::busy_polling`], for a consumer.
    pub fn busy_polling_consumer(self) -> Self {
        if self.spin.is_zero() {
            return self;
        }
        Self { busy_polling: ATTENTION, ..self }
    }

    /// The policy for a wait that is expected to take so long: where it spins, it spins until then
    /// and its usual time beyond.
    pub fn expecting(self, duration: Duration) -> Self {
        if self.spin.is_zero() {
            return self;
        }
        let most = Duration::from_micros(u64::from(SPIN_US_MAX));
        Self { spin: (self.spin + duration).min(most), ..self }
    }

    /// How long a thread that has waited so long for a device sleeps before it looks again; zero if
    /// it should not sleep. `expected` is how long such a wait took the last time.
    pub fn back_off_after(&self, waited: Duration, expected: Duration) -> Duration {
        if waited < self.spin {
            return Duration::ZERO;
        }
        let long = (waited / self.back_off_part)
            .clamp(self.back_off_min, self.back_off_max.max(self.back_off_min));
        let prediction =
            WaitPrediction::new(if self.keeps_time { expected } else { Duration::ZERO });
        match prediction.phase(waited) {
            Phase::Due => Duration::ZERO,
            Phase::Early(left) => long.min(left),
            Phase::Late => long,
        }
    }

    /// The policy of this process: by its environment and the cores it may use. The environment
    /// is read once.
    pub fn of_process() -> Self {
        static POLICY: OnceLock<SpinPolicy> = OnceLock::new();
        *POLICY.get_or_init(|| {
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
            let text = std::env::var(cuda_api::environment::OPENMPS_SPIN_US).ok();
            Self::new(cores, text.as_deref())
        })
    }

    /// Passes the time until `done` says true; false if it never did.
    #[inline]
    pub fn spin_until(&self, mut done: impl FnMut() -> bool) -> bool {
        if done() {
            return true;
        }
        if self.spin.is_zero() {
            return self.yield_until(done);
        }
        let start = Instant::now();
        loop {
            // Reading the clock costs about as much as these turns.
            for _ in 0..16 {
                core::hint::spin_loop();
                if done() {
                    return true;
                }
            }
            if start.elapsed() >= self.spin {
                return false;
            }
        }
    }

    fn yield_until(&self, mut done: impl FnMut() -> bool) -> bool {
        let mut before = Instant::now();
        let is_wanted = WANTED.get().is_some_and(|wanted| before - wanted < WANTED_TIME);
        let end = if is_wanted { before } else { before + self.yield_time };
        let mut yields = 0;
        while yields < self.yields || before < end {
            std::thread::yield_now();
            if done() {
                return true;
            }
            let now = Instant::now();
            if now - before >= YIELD_WANTED {
                WANTED.set(Some(now));
                break;
            }
            for _ in 0..LOOKS_PER_YIELD {
                core::hint::spin_loop();
                if done() {
                    return true;
                }
            }
            yields += 1;
            before = now;
        }
        false
    }
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Another thread woke this waiter, a signal arrived, or the word was not as expected to begin
    /// with: look again.
    LookAgain,
    /// The timeout passed.
    TimedOut,
}

/// Sleeps while the word is `expected`, `timeout` at most (`None`: no end).
pub fn sleep(word: SharedU32<'_>, expected: u32, timeout: Option<Duration>) -> Woken {
    let timeout = timeout.map(|t| Timespec {
        tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: t.subsec_nanos().into(),
    });
    match futex::wait(word.atomic(), futex::Flags::empty(), expected, timeout.as_ref()) {
        Err(Errno::TIMEDOUT) => Woken::TimedOut,
        _ => Woken::LookAgain,
    }
}

/// Wakes all threads that sleep on the word.
pub fn wake(word: SharedU32<'_>) {
    wake_at(word.address() as u64);
}

/// Wakes all threads that sleep on the word at an address, of a page that may have gone.
pub fn wake_at(address: u64) {
    // SAFETY: FUTEX_WAKE only takes the address as a key.
    unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAKE, i32::MAX) };
}

/// True if a counter that wraps has come to `value`: they are less than 2^31 apart, as they must
/// be because no stream can have that much work outstanding.
#[inline(always)]
pub const fn reached(counter: u32, value: u32) -> bool {
    counter.wrapping_sub(value) as i32 >= 0
}

/// Waits until the counter in `word` has reached `value`. Returns how long that took; zero if no
/// longer than spinning.
///
/// It spins, then backs off as `policy` says, with `expected` as how long such a wait took the last
/// time. Then it calls `ask` once: a device that writes the word wakes no thread, so the server
/// must be asked to. Then it sleeps, and calls `still_alive` as often as `policy.liveness` says.
///
/// # Errors
/// What `ask` or `still_alive` return, unless the counter has reached the value nevertheless.
pub fn wait_until_reached<E>(
    word: SharedU32<'_>,
    value: u32,
    policy: SpinPolicy,
    expected: Duration,
    ask: impl FnOnce() -> Result<(), E>,
    mut still_alive: impl FnMut() -> Result<(), E>,
) -> Result<Duration, E> {
    let is_reached = || reached(word.load(), value);
    if policy.spin_until(is_reached) {
        return Ok(Duration::ZERO);
    }
    let now = Instant::now();
    let start = now.checked_sub(policy.spin).unwrap_or(now);
    if back_off(word, value, policy, expected, start) {
        return Ok(start.elapsed());
    }
    let or_reached = |result: Result<(), E>| match result {
        Err(_) if is_reached() => Ok(()),
        other => other,
    };
    or_reached(ask())?;
    let mut liveness = Liveness::new(policy.liveness);
    loop {
        let seen = word.load();
        if reached(seen, value) {
            return Ok(start.elapsed());
        }
        if liveness.is_due(sleep(word, seen, Some(policy.liveness))) {
            or_reached(still_alive())?;
        }
    }
}

/// When a waiter looks again whether its peer lives: once a period. A sleep's timeout alone does not
/// show it: where signals come faster than that, none ever passes.
#[derive(Debug)]
pub struct Liveness {
    looked: Instant,
    period: Duration,
}

impl Liveness {
    /// A wait that begins now.
    pub fn new(period: Duration) -> Self {
        Self { looked: Instant::now(), period }
    }

    /// After a sleep that ended like that: true if it is time to look.
    pub fn is_due(&mut self, woken: Woken) -> bool {
        let due = woken == Woken::TimedOut || self.looked.elapsed() >= self.period;
        if due {
            self.looked = Instant::now();
        }
        due
    }
}

/// Sleeps for short times and looks; true if the counter has reached the value. When the end is
/// expected it spins. A thread that does wake sleepers on the word ends a back-off early.
fn back_off(
    word: SharedU32<'_>,
    value: u32,
    policy: SpinPolicy,
    expected: Duration,
    start: Instant,
) -> bool {
    if policy.back_off.is_zero() {
        return false;
    }
    let _slack = FineTimer::new();
    let end = policy.spin + policy.back_off;
    loop {
        let seen = word.load();
        if reached(seen, value) {
            return true;
        }
        let waited = start.elapsed();
        if waited >= end {
            return false;
        }
        match policy.back_off_after(waited, expected) {
            Duration::ZERO => core::hint::spin_loop(),
            pause => drop(sleep(word, seen, Some(pause))),
        }
    }
}

/// Shorter waits are no prediction.
pub(crate) const RHYTHM_MIN: Duration = Duration::from_micros(SPIN_US_DEFAULT as u64);

/// So much earlier and later a wait may end than expected, beside a part of its length: what it
/// takes to fall asleep and to be there again.
const RHYTHM_MARGIN: Duration = Duration::from_micros(10);
const RHYTHM_PART: u32 = 16;
const RHYTHM_PART_MAX: Duration = Duration::from_micros(25);
/// Of longer waits it is this part: timers are late by more, and 2 % of the time are cheap.
const RHYTHM_LONG_PART: u32 = 128;

/// When a wait is expected to end: programs repeat themselves, so about when the last one did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitPrediction {
    opens: Duration,
    closes: Duration,
}

/// Where in its prediction a wait is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its end is not expected for that long.
    Early(Duration),
    /// It should end now.
    Due,
    /// It has outlasted what was expected, if anything was.
    Late,
}

impl WaitPrediction {
    /// Expects a wait of about that length; nothing if it is shorter than [`RHYTHM_MIN`].
    pub(crate) fn new(expected: Duration) -> Self {
        if expected < RHYTHM_MIN {
            return Self { opens: Duration::ZERO, closes: Duration::ZERO };
        }
        let most = RHYTHM_PART_MAX.max(expected / RHYTHM_LONG_PART);
        let margin = (expected / RHYTHM_PART).min(most) + RHYTHM_MARGIN;
        Self { opens: expected.saturating_sub(margin), closes: expected + margin }
    }

    /// Where a wait is that has lasted so long.
    pub(crate) fn phase(self, waited: Duration) -> Phase {
        if waited >= self.closes {
            Phase::Late
        } else if waited >= self.opens {
            Phase::Due
        } else {
            Phase::Early(self.opens - waited)
        }
    }
}

/// From now on this thread's sleeps end when they should: Linux lets them take 50 us more. For
/// threads of our own.
pub fn sleep_precisely() {
    set_timer_slack(1);
}

/// While it lives, this thread's sleeps end when they should: Linux lets them take 50 us more.
struct FineTimer {
    slack_ns: u64,
}

impl FineTimer {
    fn new() -> Self {
        let slack_ns = rustix::thread::current_timer_slack().unwrap_or(0);
        set_timer_slack(1);
        Self { slack_ns }
    }
}

impl Drop for FineTimer {
    fn drop(&mut self) {
        // A thread without slack, or of which it is not known, keeps what it has.
        if self.slack_ns > 0 {
            set_timer_slack(self.slack_ns);
        }
    }
}

fn set_timer_slack(ns: u64) {
    // It cannot fail.
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZero::new(ns));
}

/// A doorbell's sleeping half: sleeps on `word` while `flag` is up, so that the other side makes a
/// system call only for a thread that sleeps. `ready` is looked at after the flag is up.
///
/// The other half is [`ring_doorbell`]. With both fences, either the sleeper sees what the other
/// side wrote before it rang, or that side sees the flag.
pub(crate) fn sleep_unless(
    flag: SharedU32<'_>,
    word: SharedU32<'_>,
    expected: u32,
    timeout: Duration,
    ready: impl Fn() -> bool,
) -> Woken {
    flag.swap(1);
    fence(Ordering::SeqCst);
    let woken = if ready() { Woken::LookAgain } else { sleep(word, expected, Some(timeout)) };
    flag.swap(0);
    woken
}

/// Wakes the threads that sleep on `word`, if `flag` says that a thread does.
pub(crate) fn ring_doorbell(flag: SharedU32<'_>, word: SharedU32<'_>) {
    fence(Ordering::SeqCst);
    if flag.atomic().load(Ordering::Relaxed) != 0 && flag.swap(0) != 0 {
        wake(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;
    use std::cell::Cell;

    #[test]
    fn few_cores_do_not_spin() {
        let us = Duration::from_micros;
        assert_eq!(SpinPolicy::new(3, None).spin, Duration::ZERO);
        assert_eq!(SpinPolicy::new(4, None).spin, us(20));
        assert_eq!(SpinPolicy::new(2, Some(" 7 ")).spin, us(7));
        assert_eq!(SpinPolicy::new(8, Some("0")).spin, Duration::ZERO);
        assert_eq!(SpinPolicy::new(8, Some("4000000000")).spin, us(u64::from(SPIN_US_MAX)));
        assert_eq!(SpinPolicy::new(8, Some("soon")).spin, us(20));
        assert_eq!(SpinPolicy::new(8, None).expecting(us(100)).spin, us(120));
        assert_eq!(SpinPolicy::new(2, None).expecting(us(100)).spin, Duration::ZERO);
        assert_eq!(SpinPolicy::new(2, None).back_off, Duration::ZERO);
        let oversubscribed = SpinPolicy::new(8, Some("80")).oversubscribed();
        let backs_off = [us(100), us(6400), us(64_000)]
            .map(|waited| oversubscribed.back_off_after(waited, us(0)));
        assert_eq!(backs_off, [us(20), us(100), us(200)]);
        assert_eq!((oversubscribed.spin, oversubscribed.poll_after), (us(20), POLL_AFTER));
        let consumer = SpinPolicy::new(8, Some("80")).oversubscribed_consumer();
        assert_eq!(
            (consumer.spin, consumer.poll_after, consumer.predicted_min),
            (us(20), 0, RHYTHM_MIN)
        );
        assert_eq!(
            (consumer.poll_sleep, consumer.poll_interval_max),
            (POLL_INTERVAL, POLL_INTERVAL_MAX)
        );
        assert_eq!(consumer.with_short_poll_interval().poll_interval_max, POLL_INTERVAL);
        let consumer = SpinPolicy::new(8, Some("80")).coalescing_consumer();
        assert_eq!(
            (consumer.spin, consumer.poll_after, consumer.predicted_min),
            (us(4), 0, us(200))
        );
        assert_eq!(SpinPolicy::new(8, None).busy_polling().spin, ATTENTION);
        assert_eq!(SpinPolicy::new(8, None).busy_polling_consumer().busy_polling, ATTENTION);
        let (few, off) = (SpinPolicy::new(2, None), SpinPolicy::new(8, Some("0")));
        for still in [few, off] {
            let short = SpinPolicy { yield_time: Duration::ZERO, ..still };
            assert_eq!((still.oversubscribed(), still.oversubscribed_consumer()), (short, short));
            assert_eq!(still.coalescing_consumer(), short);
            assert_eq!((still.busy_polling(), still.busy_polling_consumer()), (still, still));
        }
    }

    #[test]
    fn a_policy_looks_once_at_least_and_stops_when_it_is_done() {
        let looks = Cell::new(0);
        let look = |enough| {
            looks.set(looks.get() + 1);
            looks.get() == enough
        };
        assert!(!SpinPolicy::NONE.spin_until(|| look(0)));
        assert_eq!(looks.take(), 1);
        assert!(SpinPolicy::new(8, None).spin_until(|| look(3)));
        assert_eq!(looks.take(), 3);
        assert!(!SpinPolicy::new(1, None).spin_until(|| look(0)));
        assert!((2..=1 + YIELDS * (1 + LOOKS_PER_YIELD)).contains(&looks.take()));
    }

    #[test]
    fn signals_do_not_keep_a_waiter_from_looking_whether_its_peer_lives() {
        let mut liveness = Liveness::new(LIVENESS_PERIOD);
        assert!(liveness.is_due(Woken::TimedOut));
        std::thread::sleep(LIVENESS_PERIOD);
        assert!(liveness.is_due(Woken::LookAgain), "as after a sleep that a signal ended");
    }

    #[test]
    fn counters_wrap() {
        assert!(reached(5, 5) && reached(6, 5) && !reached(4, 5));
        assert!(reached(2, u32::MAX) && !reached(u32::MAX, 2));
    }

    #[test]
    fn a_back_off_sees_what_no_wake_up_reports_and_ends() {
        let place = AtomicU32::new(0);
        let word = SharedU32::of(&place);
        let policy = SpinPolicy { back_off: Duration::from_millis(1), ..SpinPolicy::NONE };
        let policy = SpinPolicy { keeps_time: true, ..policy };
        let expectations = [0, 2, 1000].map(Duration::from_millis);
        for expected in expectations {
            assert!(!back_off(word, 1, policy, expected, Instant::now()));
        }
        let policy = SpinPolicy { back_off: Duration::from_secs(600), ..policy };
        for (value, expected) in (1..).zip(expectations) {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(3));
                    word.store(value);
                });
                assert!(back_off(word, value, policy, expected, Instant::now()));
            });
        }
    }

    #[test]
    fn waiters_on_two_cores_offer_theirs_for_as_long_as_a_kernel_takes() {
        let policy = SpinPolicy::new(2, None);
        assert_eq!((policy.spin, policy.yield_time), (Duration::ZERO, YIELD_TIME));
        let short = [
            SpinPolicy::new(1, None),
            SpinPolicy::new(2, Some("0")),
            policy.oversubscribed(),
            policy.oversubscribed_consumer(),
            policy.coalescing_consumer(),
        ];
        for policy in short {
            assert_eq!((policy.yields, policy.yield_time), (YIELDS, Duration::ZERO));
        }
        // A look follows each offer, and some more while it is short.
        let mut looks = 0;
        let waited = short[0].spin_until(|| {
            looks += 1;
            false
        });
        assert!(!waited && (2..=1 + YIELDS * (1 + LOOKS_PER_YIELD)).contains(&looks), "{looks}");
    }

    #[test]
    fn a_wait_is_due_about_when_the_last_one_ended() {
        let us = Duration::from_micros;
        let prediction = WaitPrediction::new(us(160));
        assert_eq!(prediction.phase(us(0)), Phase::Early(us(140)));
        assert_eq!(prediction.phase(us(140)), Phase::Due);
        assert_eq!(prediction.phase(us(179)), Phase::Due);
        assert_eq!(prediction.phase(us(180)), Phase::Late);
        assert_eq!(WaitPrediction::new(us(0)).phase(us(0)), Phase::Late);
        let prediction = WaitPrediction::new(us(12_800));
        assert_eq!(prediction.phase(us(12_689)), Phase::Early(us(1)));
        assert_eq!(prediction.phase(us(12_909)), Phase::Due);
        let policy = SpinPolicy::new(8, None);
        let pause = |waited, expected| policy.back_off_after(us(waited), us(expected));
        assert_eq!([pause(10, 160), pause(150, 160)], [us(0); 2], "it spins");
        assert_eq!([pause(30, 160), pause(137, 160)], [us(5), us(3)]);
        assert_eq!([pause(200, 160), pause(9000, 160)], [us(5), us(9000) / BACK_OFF_PART]);
    }

    #[test]
    fn a_wait_asks_once_and_reports_errors_unless_it_is_done() {
        let place = AtomicU32::new(1);
        let word = SharedU32::of(&place);
        let none = SpinPolicy::NONE;
        let zero = Duration::ZERO;
        let never = || panic!("nothing to ask for");
        assert_eq!(
            wait_until_reached::<()>(word, 1, none, zero, never, || Ok(())).map(drop),
            Ok(())
        );
        assert_eq!(wait_until_reached(word, 2, none, zero, || Err(1), || Ok(())), Err(1));
        assert_eq!(wait_until_reached(word, 2, none, zero, || Ok(()), || Err(2)), Err(2));
        // The peer died, but had finished.
        let dies = || {
            word.store(2);
            Err(3)
        };
        assert_eq!(wait_until_reached(word, 2, none, zero, || Ok(()), dies).map(drop), Ok(()));
        assert_eq!(
            wait_until_reached(
                word,
                3,
                none,
                zero,
                || {
                    word.store(3);
                    Err(4)
                },
                || Ok(())
            )
            .map(drop),
            Ok(())
        );
    }
}
