//! Oversubscription: how many sessions are at work, and whether they are too many for the cores or the queues.
//!
//! A program at work keeps two threads busy: its own and its session's. While there are cores for
//! all of them and, beside several programs, one to spare, waiters spin; beyond that, a thread that spins takes a core from one that would
//! work. The clients see it in their regions. Hundreds of them also look less often, each whether
//! the other still lives and what became of its work: else they would do nothing but look. What
//! many sessions mean for the device's queues is said in [`fences`](crate::session).

use channel::region::Waiting;
use channel::wait::{LIVENESS_PERIOD, LIVENESS_PERIOD_MAX, SPIN_CORES_MIN};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that a program at work keeps busy.
const THREADS_OF_PROGRAM: usize = 2;

/// So many sessions at work for each core look as often as one does: with their clients' threads that
/// is a look in 200 us on each core.
const LOOKERS_PER_CORE: usize = 16;

/// Most that a session looks less often than one alone.
const FACTOR_MAX: u32 = (LIVENESS_PERIOD_MAX.as_millis() / LIVENESS_PERIOD.as_millis()) as u32;

/// What a server's oversubscription depends on, and whom it notifies.
#[derive(Clone, Copy, Debug)]
pub struct OversubscriptionOptions {
    /// Cores for programs and sessions; `None`: those that this process may use.
    pub cores: Option<usize>,
    /// Is notified whether programs leave no core free, when sessions begin and end to
    /// work: by their threads, so that it must not wait.
    pub notify: fn(bool),
}

impl Default for OversubscriptionOptions {
    fn default() -> Self {
        Self { cores: None, notify: |_| {} }
    }
}

/// How a session and its client should wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// What they do before they sleep.
    pub waiting: Waiting,
    /// How many times longer than alone they sleep before they look by themselves; a power of 2.
    pub factor: u32,
    /// The client is latency-critical: its launches wait for no others.
    pub critical: bool,
}

/// The sessions at work of a server.
#[derive(Debug)]
pub struct Oversubscription {
    at_work: AtomicUsize,
    cores: usize,
    queues: usize,
    notify: fn(bool),
}

impl Oversubscription {
    /// No session is at work yet, on this machine and a device with that many queues.
    pub fn new(
        queues: usize,
        OversubscriptionOptions { cores, notify }: OversubscriptionOptions,
    ) -> Self {
        let all = || std::thread::available_parallelism().map_or(SPIN_CORES_MIN, |n| n.get());
        let cores = cores.unwrap_or_else(all).max(1);
        Self { at_work: AtomicUsize::new(0), cores, queues, notify }
    }

    /// One program may have all cores, several leave one to the device's threads and the rest of the machine.
    fn is_too_large(&self) -> bool {
        let at_work = self.at_work.load(Ordering::Relaxed);
        let spare = usize::from(at_work > 1);
        at_work * THREADS_OF_PROGRAM + spare > self.cores
    }

    /// Notifies of how it is now. Sessions do so at the same time: what is said last is so.
    fn notify(&self) {
        loop {
            let is_too_large = self.is_too_large();
            (self.notify)(is_too_large);
            if self.is_too_large() == is_too_large {
                return;
            }
        }
    }

    fn factor(&self) -> u32 {
        let oversubscription =
            self.at_work.load(Ordering::Relaxed) / (self.cores * LOOKERS_PER_CORE);
        let oversubscription = u32::try_from(oversubscription).unwrap_or(FACTOR_MAX);
        oversubscription.clamp(1, FACTOR_MAX).next_power_of_two()
    }
}

/// One session's place in the oversubscription, which it leaves when dropped.
#[derive(Debug)]
pub struct Participation {
    oversubscription: Arc<Oversubscription>,
    works: bool,
    manner: Manner,
}

impl Participation {
    /// The place of a session that does not work yet.
    pub fn new(oversubscription: &Arc<Oversubscription>) -> Self {
        let manner = Manner { waiting: Waiting::Plain, factor: 1, critical: false };
        Self { oversubscription: oversubscription.clone(), works: false, manner }
    }

    /// How the session and its client wait now.
    pub fn manner(&self) -> Manner {
        self.manner
    }

    /// How many times longer than alone the session sleeps before it looks by itself.
    pub fn factor(&self) -> u32 {
        self.manner.factor
    }

    /// True if programs left no core free when the session looked last.
    pub fn is_oversubscribed(&self) -> bool {
        self.manner.waiting == Waiting::Oversubscribed
    }

    /// Says whether the session works, and whether its client is latency-critical. Returns how both
    /// should wait if that has changed since the last time.
    pub fn update(&mut self, works: bool, critical: bool) -> Option<Manner> {
        self.count(works);
        let waiting = match (self.oversubscription.is_too_large(), critical) {
            (true, _) => Waiting::Oversubscribed,
            (false, true) => Waiting::BusyPoll,
            (false, false) => Waiting::Plain,
        };
        let manner = Manner { waiting, factor: self.oversubscription.factor(), critical };
        (std::mem::replace(&mut self.manner, manner) != manner).then_some(manner)
    }

    /// True if sessions have to share the device's queues.
    pub fn shares_queues(&self) -> bool {
        self.oversubscription.at_work.load(Ordering::Relaxed) > self.oversubscription.queues
    }

    fn count(&mut self, works: bool) {
        match (std::mem::replace(&mut self.works, works), works) {
            (false, true) => self.oversubscription.at_work.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.oversubscription.at_work.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
        self.oversubscription.notify();
    }
}

impl Drop for Participation {
    fn drop(&mut self) {
        self.count(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn oversubscription_is_too_large_while_more_work_than_there_are_cores_for() {
        static NOTIFIED: AtomicBool = AtomicBool::new(false);
        let notify = |is_too_large| NOTIFIED.store(is_too_large, Ordering::Relaxed);
        let notified = || NOTIFIED.load(Ordering::Relaxed);
        let oversubscription =
            Arc::new(Oversubscription::new(3, OversubscriptionOptions { cores: Some(5), notify }));
        let mut places: Vec<Participation> =
            (0..4).map(|_| Participation::new(&oversubscription)).collect();
        let of = |waiting, critical| Some(Manner { waiting, factor: 1, critical });
        let some = |waiting| of(waiting, false);
        assert_eq!(places[0].update(true, false), None);
        assert_eq!(places[1].update(true, false), None);
        assert!(!notified());
        assert_eq!(places[1].update(true, false), None);
        assert_eq!(places[2].update(true, false), some(Waiting::Oversubscribed));
        assert!(notified() && places[2].is_oversubscribed());
        assert!(!places[0].is_oversubscribed(), "it has not looked");
        assert!(!places[0].shares_queues());
        assert_eq!(places[0].update(true, false), some(Waiting::Oversubscribed));
        assert_eq!(places[3].update(true, false), some(Waiting::Oversubscribed));
        assert!(places[0].shares_queues());
        assert_eq!(places[3].update(false, false), None);
        assert_eq!(places[2].update(false, false), some(Waiting::Plain));
        assert!(!notified() && !places[2].is_oversubscribed());
        // A critical client is served at once, unless that is at the cost of all.
        assert_eq!(places[2].update(false, true), of(Waiting::BusyPoll, true));
        assert_eq!(places[2].update(true, true), of(Waiting::Oversubscribed, true));
        assert_eq!(places[2].update(true, false), some(Waiting::Oversubscribed));
        drop(places);
        assert_eq!(oversubscription.at_work.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn several_programs_leave_a_core_to_others() {
        let is_too_large = |cores, at_work| {
            let options = OversubscriptionOptions {
                cores: Some(cores),
                ..OversubscriptionOptions::default()
            };
            let at_work = AtomicUsize::new(at_work);
            Oversubscription { at_work, ..Oversubscription::new(3, options) }.is_too_large()
        };
        assert_eq!([1, 2].map(|programs| is_too_large(2, programs)), [false, true]);
        assert_eq!([7, 8].map(|programs| is_too_large(16, programs)), [false, true]);
        assert_eq!([7, 8].map(|programs| is_too_large(17, programs)), [false, false]);
    }

    #[test]
    fn hundreds_at_work_look_less_often() {
        let options =
            OversubscriptionOptions { cores: Some(2), ..OversubscriptionOptions::default() };
        let at_work = |sessions| Oversubscription {
            at_work: AtomicUsize::new(sessions),
            ..Oversubscription::new(3, options)
        };
        let factor = |sessions| at_work(sessions).factor();
        assert_eq!([0, 1, 32, 63].map(factor), [1; 4]);
        assert_eq!([64, 256, 1024, 100_000].map(factor), [2, 8, 32, 32]);
        let oversubscription = Arc::new(at_work(127));
        let mut place = Participation::new(&oversubscription);
        let change = place.update(true, false).expect("something has changed");
        assert_eq!((change.factor, place.factor()), (4, 4));
    }
}
