//! How many sessions are at work, and whether that is too many for the cores or the device's queues.
//!
//! A program at work keeps two threads busy: its own and its session's. While there are cores for
//! all of them, waiters spin; beyond that, who spins takes a core from somebody who would work. The
//! clients are told in their regions. What many sessions mean for the device's queues is said in
//! [`fences`](super::fences).

use channel::region::Waiting;
use channel::wait::SPIN_CORES_MIN;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that a program at work keeps busy.
const THREADS_OF_PROGRAM: usize = 2;

/// The sessions at work of a server.
#[derive(Debug)]
pub struct Crowd {
    at_work: AtomicUsize,
    cores: usize,
    queues: usize,
}

impl Crowd {
    /// Nobody works yet, on this machine and a device with that many queues.
    pub fn of_machine(queues: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(SPIN_CORES_MIN, |n| n.get());
        Self { at_work: AtomicUsize::new(0), cores, queues }
    }

    fn is_too_large(&self) -> bool {
        self.at_work.load(Ordering::Relaxed) * THREADS_OF_PROGRAM > self.cores
    }
}

/// One session's place in the crowd, which it leaves when dropped.
#[derive(Debug)]
pub struct Place {
    crowd: Arc<Crowd>,
    works: bool,
    waiting: Waiting,
}

impl Place {
    /// The place of a session that does not work yet.
    pub fn new(crowd: &Arc<Crowd>) -> Self {
        Self { crowd: crowd.clone(), works: false, waiting: Waiting::Plain }
    }

    /// Says whether the session works, and whether its client is latency-critical. Returns how its
    /// client should wait if that has changed since the last time.
    pub fn update(&mut self, works: bool, critical: bool) -> Option<Waiting> {
        self.count(works);
        let waiting = match (self.crowd.is_too_large(), critical) {
            (true, _) => Waiting::Crowded,
            (false, true) => Waiting::Attentive,
            (false, false) => Waiting::Plain,
        };
        (std::mem::replace(&mut self.waiting, waiting) != waiting).then_some(waiting)
    }

    /// True if sessions have to share the device's queues.
    pub fn shares_queues(&self) -> bool {
        self.crowd.at_work.load(Ordering::Relaxed) > self.crowd.queues
    }

    fn count(&mut self, works: bool) {
        match (std::mem::replace(&mut self.works, works), works) {
            (false, true) => drop(self.crowd.at_work.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.crowd.at_work.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.count(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_too_large_while_more_work_than_there_are_cores_for() {
        let crowd = Arc::new(Crowd { at_work: AtomicUsize::new(0), cores: 5, queues: 3 });
        let mut places: Vec<Place> = (0..4).map(|_| Place::new(&crowd)).collect();
        assert_eq!(places[0].update(true, false), None);
        assert_eq!(places[1].update(true, false), None);
        assert_eq!(places[1].update(true, false), None);
        assert_eq!(places[2].update(true, false), Some(Waiting::Crowded));
        assert!(!places[0].shares_queues());
        assert_eq!(places[0].update(true, false), Some(Waiting::Crowded));
        assert_eq!(places[3].update(true, false), Some(Waiting::Crowded));
        assert!(places[0].shares_queues());
        assert_eq!(places[3].update(false, false), None);
        assert_eq!(places[2].update(false, false), Some(Waiting::Plain));
        // Who is critical is served at once, unless that is at the cost of all.
        assert_eq!(places[2].update(false, true), Some(Waiting::Attentive));
        assert_eq!(places[2].update(true, true), Some(Waiting::Crowded));
        drop(places);
        assert_eq!(crowd.at_work.load(Ordering::Relaxed), 0);
    }
}
