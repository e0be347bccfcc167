//! Stalled grids: kernels all of whose blocks have done nothing but wait for a while.
//!
//! A kernel may wait for long by right, for the host or for another kernel. So a stall is no
//! error: one line says which block waits where, since a program that hangs says nothing itself.

use crate::device::execution::core::Core;
use crate::device::execution::grid::Grid;
use crate::device::slab::Key;
use simt::kernel::{Dim3, Wait};

/// How long a grid has made no progress.
#[derive(Default)]
pub(in crate::device) enum Stall {
    /// A block got somewhere when it was looked at last.
    #[default]
    Moves,
    /// All blocks that came back since then, ns, did nothing but wait.
    Waits(u64),
    /// The line was written.
    Reported,
}

impl Core {
    /// A block of a grid came back, or several have ended: `wait` says where its threads wait, if they
    /// do nothing else.
    pub(in crate::device) fn note_stall(&mut self, key: Key<Grid>, wait: Option<Wait>, now: u64) {
        let limit_ns = self.stall_ns;
        let Some(grid) = self.grids.get_mut(key).filter(|_| limit_ns > 0) else { return };
        match (&grid.stall, wait) {
            (Stall::Reported, _) => {}
            (_, None) => grid.stall = Stall::Moves,
            (Stall::Moves, Some(_)) => grid.stall = Stall::Waits(now),
            (Stall::Waits(since), Some(wait)) => {
                let waited_ns = now.saturating_sub(*since);
                if waited_ns < limit_ns {
                    return;
                }
                let line = describe(&grid.op.kernel.info().name, wait, waited_ns, grid.placed());
                grid.stall = Stall::Reported;
                self.after.say(line);
            }
        }
    }
}

/// The line for a stalled grid, of which so many blocks or clusters have begun and not ended.
fn describe(kernel: &str, wait: Wait, waited_ns: u64, blocks: u64) -> String {
    let Dim3 { x: bx, y: by, z: bz } = wait.block;
    let Dim3 { x: tx, y: ty, z: tz } = wait.thread;
    let line = if wait.line == 0 { String::new() } else { format!(", PTX line {}", wait.line) };
    format!(
        "kernel {kernel} has made no progress for {} s: block ({bx},{by},{bz}), thread ({tx},{ty},{tz}){line} \
         waits in a loop for memory that does not change; blocks under way: {blocks}",
        waited_ns / 1_000_000_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestDevice, launch_waiting};
    use simt::kernel::Outcome;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    const AT: Wait =
        Wait { block: Dim3 { x: 1, y: 0, z: 0 }, thread: Dim3 { x: 32, y: 0, z: 0 }, line: 17 };

    #[test]
    fn a_line_says_who_waits_where() {
        assert_eq!(
            describe("turns", AT, 12_300_000_000, 5),
            "kernel turns has made no progress for 12 s: block (1,0,0), thread (32,0,0), PTX line 17 \
             waits in a loop for memory that does not change; blocks under way: 5"
        );
    }

    #[test]
    fn a_grid_that_only_waits_is_reported_once() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let said = || SAID.lock().unwrap().clone();
        let device = TestDevice::with(|settings| {
            settings.stall = Duration::from_millis(20);
            settings.say = |line| SAID.lock().unwrap().push(line.to_owned());
        });
        let free = Arc::new(AtomicBool::new(false));
        let freed = free.clone();
        let op = launch_waiting(move |_| match freed.load(Ordering::Acquire) {
            true => (Outcome::Finished, None),
            false => (Outcome::Yielded, Some(AT)),
        });
        let stream = device.stream();
        let seq = device.enqueue(stream, op).unwrap();
        while said().is_empty() {
            sleep(Duration::from_millis(1));
        }
        // It is looked at often from now on.
        sleep(Duration::from_millis(100));
        free.store(true, Ordering::Release);
        device.wait_stream(stream, seq).unwrap();
        assert_eq!(said().len(), 1, "{:?}", said());
        assert!(said()[0].contains("PTX line 17"), "{:?}", said());
    }

    #[test]
    fn a_grid_that_is_asked_to_give_way_in_between_is_reported_too() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let said = || !SAID.lock().unwrap().is_empty();
        let device = TestDevice::with(|settings| {
            settings.stall = Duration::from_millis(50);
            settings.say = |line| SAID.lock().unwrap().push(line.to_owned());
        });
        let free = Arc::new(AtomicBool::new(false));
        let freed = free.clone();
        let turns = AtomicU32::new(0);
        let op = launch_waiting(move |worker| {
            if freed.load(Ordering::Acquire) {
                return (Outcome::Finished, None);
            }
            if turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                return (Outcome::Yielded, Some(AT));
            }
            // As one in the middle of a time slice.
            worker.control.request_yield();
            (Outcome::Yielded, None)
        });
        let stream = device.stream();
        let seq = device.enqueue(stream, op).unwrap();
        while !said() {
            sleep(Duration::from_millis(1));
        }
        free.store(true, Ordering::Release);
        device.wait_stream(stream, seq).unwrap();
    }

    #[test]
    fn a_grid_that_gets_somewhere_is_not_reported() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let device = TestDevice::with(|settings| {
            settings.stall = Duration::from_millis(1);
            settings.say = |line| SAID.lock().unwrap().push(line.to_owned());
        });
        let stream = device.stream();
        let begun = Instant::now();
        let op = launch_waiting(move |_| match begun.elapsed() > Duration::from_millis(50) {
            true => (Outcome::Finished, None),
            false => (Outcome::Yielded, None),
        });
        let seq = device.enqueue(stream, op).unwrap();
        device.wait_stream(stream, seq).unwrap();
        assert_eq!(*SAID.lock().unwrap(), Vec::<String>::new());
    }
}
