//! The device's pulse: once a millisecond while there is something to do.
//!
//! It ends quanta, looks whether another process waits for its turn, and looks at words that
//! streams wait for. After a while without work it sleeps until the next launch.

use std::time::Duration;

use crate::device::clock::now_ns;
use crate::device::{Device, limits};

/// From one tick to the next while blocks run.
const TICK: Duration = Duration::from_millis(1);
/// The same while a stream waits for a word that any process may write.
const TICK_POLLING: Duration = Duration::from_micros(100);
/// Ticks without work before the ticker sleeps: waking it costs a launch a system call.
const IDLE_TICKS_MAX: u32 = 50;

impl Device {
    /// What the ticker thread does until the device is shut down.
    pub(in crate::device) fn tick(&self) {
        let mut idle_ticks = 0;
        let mut core = self.lock();
        while !core.shutdown {
            let now = now_ns();
            core.turn_tick(now);
            if !core.value_waits.is_empty() {
                core.poll_values();
            }
            if !core.pending.is_empty() {
                core.place_pending_in_slices(now);
            }
            let others_wait = core.has_work();
            for slot in &core.slots {
                if let Some(running) = &slot.running
                    && others_wait
                    && now.saturating_sub(running.since_ns) >= limits::QUANTUM_NS
                {
                    slot.control.request_yield();
                }
            }
            core.announce();
            core.wake_workers();
            let busy = !core.grids.is_empty() || !core.value_waits.is_empty();
            idle_ticks = if busy { 0 } else { idle_ticks + 1 };
            if idle_ticks > IDLE_TICKS_MAX {
                core.let_idle_turn_go();
                core.ticker = Some(std::thread::current());
                drop(core);
                std::thread::park();
                idle_ticks = 0;
            } else {
                let polling = !core.value_waits.is_empty();
                drop(core);
                std::thread::sleep(if polling { TICK_POLLING } else { TICK });
            }
            core = self.lock();
            core.ticker = None;
        }
    }

    /// What the turn thread does: waits for the device when other processes have it.
    pub(in crate::device) fn queue_for_turns(
        &self,
        file: crate::device::execution::turn::TurnFile,
    ) {
        let mut core = self.lock();
        while !core.shutdown {
            if !core.turn.queued {
                core.turn.thread = Some(std::thread::current());
                drop(core);
                std::thread::park();
                core = self.lock();
                continue;
            }
            drop(core);
            let taken = file.take();
            core = self.lock();
            // If waiting fails (it does for lack of kernel memory only), go on without a turn
            // rather than never.
            if let Err(error) = taken {
                self.log(&format!("cannot wait for a turn: {error}"));
            }
            core.turn_taken();
            if core.grids.is_empty() {
                core.let_idle_turn_go();
            }
            core.wake_workers();
        }
    }
}
