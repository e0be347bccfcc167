//! Host functions: what a program wants run on the CPU when a stream gets there.
//!
//! The server cannot call into the program. When a stream gets to a host function, the server
//! writes the function's ticket into a slot of the shared region and wakes this process; one
//! thread here runs the function and marks the slot, for which the stream waits. The thread is
//! made on first use, blocks all signals, and ends with the process.

use crate::connection::Connection;
use crate::lock::{Guard, Lock, Rank};
use crate::program::Client;
use crate::program::launch::submission::wire_stream;
use channel::region::{HOST_CALL_DONE, HOST_CALL_SLOTS};
use channel::request::HostFunc;
use channel::signals::Blocked;
use channel::wait::{Woken, sleep};
use core::ffi::{c_uint, c_void};
use cuda_api::handle::Handle;
use cuda_api::{CUhostFn, CUresult, CUstream, CUstreamCallback, CudaError, result_code};
use locks::Condvar;
use recovery::Mark;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Fewest slots in use that are looked through for such as may be used again.
const LOOK_AT_MIN: usize = 64;

/// What this library has a stream run for itself. Others keep it too: it does not end here.
pub(crate) trait OwnFunction: Send + Sync {
    fn run(&self);
}

/// What is run.
pub(crate) enum HostFunction {
    /// One of this library's own, of which the program does not see that it was run.
    Own(Arc<dyn OwnFunction>),
    /// Nothing: what there was has begun already.
    Begun,
    /// cuLaunchHostFunc.
    Plain { function: CUhostFn, user_data: usize },
    /// cuStreamAddCallback.
    Callback { callback: CUstreamCallback, stream: CUstream, user_data: usize },
}

impl HostFunction {
    /// Runs it.
    fn run(self, status: c_uint) {
        // SAFETY: the program gave function and data to be called once, from another thread, when
        // the stream gets there.
        unsafe {
            match self {
                Self::Own(function) => function.run(),
                Self::Plain { function: Some(function), user_data } => {
                    function(user_data as *mut c_void);
                }
                Self::Callback { callback: Some(callback), stream, user_data } => {
                    callback(stream, status, user_data as *mut c_void);
                }
                Self::Plain { function: None, .. }
                | Self::Callback { callback: None, .. }
                | Self::Begun => {}
            }
        }
    }
}

/// One that was posted and not run yet.
struct Pending {
    slot: u32,
    ticket: u32,
    /// Its place in its stream.
    mark: Mark,
    function: HostFunction,
}

#[derive(Default)]
struct Queue {
    /// In the order in which they were posted.
    pending: Vec<Pending>,
    /// Slots that may be used again, and the number of those that ever were.
    free_slots: Vec<u32>,
    slots_used: u32,
    /// Slots whose functions were posted, and what must have passed before they are used again:
    /// the device still compares the slot's word until its stream goes on.
    in_use: Vec<(u32, Mark)>,
    /// So many are in use when they are looked through.
    look_at: usize,
    ticket: u32,
    thread_runs: bool,
    /// The one that is run just now.
    runs: Option<(u32, u32)>,
}

/// The host functions of a process.
pub(crate) struct HostFunctions {
    queue: Lock<Queue>,
    posted: Condvar,
    /// A function was run.
    done: Condvar,
}

impl HostFunctions {
    pub(crate) fn new() -> Self {
        let queue = Lock::new(Rank::Objects, Queue::default());
        Self { queue, posted: Condvar::new(), done: Condvar::new() }
    }
}

impl Queue {
    /// Makes slots free that no device looks at any more, if that may be worth it.
    fn reclaim(&mut self, mut passed: impl FnMut(Mark) -> bool) {
        let is_full = self.free_slots.is_empty() && self.slots_used == HOST_CALL_SLOTS;
        if !is_full && self.in_use.len() < self.look_at {
            return;
        }
        let free = &mut self.free_slots;
        self.in_use.retain(|(slot, mark)| {
            let done = passed(*mark);
            if done {
                free.push(*slot);
            }
            !done
        });
        // In all not more looks than a few for each function.
        self.look_at = 2 * self.in_use.len() + LOOK_AT_MIN;
    }

    /// A slot and a ticket; `None` if as many functions are queued as there are slots.
    fn take(&mut self) -> Option<(u32, u32)> {
        let slot = match self.free_slots.pop() {
            Some(slot) => slot,
            None if self.slots_used < HOST_CALL_SLOTS => {
                self.slots_used += 1;
                self.slots_used - 1
            }
            None => return None,
        };
        self.ticket = match self.ticket + 1 {
            HOST_CALL_DONE => 1,
            ticket => ticket,
        };
        Some((slot, self.ticket))
    }
}

impl Client {
    /// Has a function run when a stream gets there. Waits, without a lock, while as many functions are queued
    /// as there are slots, or the ring is full: the thread that runs them needs the locks.
    pub(crate) fn post_host_function(
        &'static self,
        stream: Handle,
        function: HostFunction,
    ) -> CUresult {
        loop {
            let mut queue = self.host_functions.queue.lock();
            if !queue.thread_runs {
                self.start_host_thread()?;
                queue.thread_runs = true;
            }
            let Some(mut posting) = self.try_posting()? else {
                drop(queue);
                drop(self.posting()?);
                continue;
            };
            queue.reclaim(|mark| posting.passed(mark));
            let Some((slot, ticket)) = queue.take() else {
                posting.check_open()?;
                drop(posting);
                self.wait_for_slot(queue)?;
                continue;
            };
            let request = HostFunc { stream: wire_stream(stream), slot, ticket };
            let word = posting.connection().region().host_call_slot(slot);
            let posted = word.ok_or(CudaError::UNKNOWN).and_then(|word| {
                word.store(0);
                posting.push_in(stream, &request)
            });
            let mark = posted.inspect_err(|_| queue.free_slots.push(slot))?;
            // It is posted. A server that takes no fence is lost: another one gets both.
            let _ = posting.fence(mark);
            drop(posting);
            queue.in_use.push((slot, mark));
            queue.pending.push(Pending { slot, ticket, mark, function });
            self.host_functions.posted.notify_one();
            return Ok(());
        }
    }

    /// Waits until a slot may be free: until a function was run and its stream has gone on.
    #[cold]
    fn wait_for_slot(&self, queue: Guard<'_, Queue>) -> CUresult {
        let region = self.connection().region();
        let was_run = |slot: u32| {
            region.host_call_slot(slot).is_some_and(|word| word.load() & HOST_CALL_DONE != 0)
        };
        let leaves = queue.in_use.iter().find(|(slot, _)| was_run(*slot)).map(|(_, mark)| *mark);
        match leaves {
            Some(mark) => {
                drop(queue);
                self.wait_unseen(mark)
            }
            None => {
                let period = region.liveness_period();
                drop(self.host_functions.done.wait_timeout(queue, period));
                self.connection().health_of_wait()
            }
        }
    }

    fn start_host_thread(&'static self) -> CUresult {
        // The program's signal handlers are for its own threads. A new thread inherits the mask.
        let _blocked = Blocked::all();
        let thread = std::thread::Builder::new()
            .name("cuda-host-func".to_owned())
            .spawn(|| self.run_host_functions());
        thread.map(drop).map_err(|_| CudaError::OPERATING_SYSTEM)
    }

    /// The thread's whole life.
    fn run_host_functions(&'static self) {
        loop {
            let connection = self.connection();
            let region = connection.region();
            let (signal, period) = (region.host_call_signal(), region.liveness_period());
            let mut queue = self.host_functions.queue.lock();
            while queue.pending.is_empty() {
                queue = self.host_functions.posted.wait(queue);
            }
            let seen = signal.load();
            let requested = queue.pending.iter().position(|pending| {
                region
                    .host_call_slot(pending.slot)
                    .is_some_and(|word| word.load() == pending.ticket)
            });
            let Some(index) = requested else {
                drop(queue);
                if sleep(signal, seen, Some(period)) == Woken::TimedOut {
                    match self.connection().health_of_wait() {
                        Ok(()) => self.forget_refused_host_functions(),
                        Err(_) => {
                            self.program.recover_lost();
                            // Streams do not get anywhere any more: what is queued is never run.
                            if self.health().is_err() {
                                self.abandon_host_functions();
                            }
                        }
                    }
                }
                continue;
            };
            let pending = queue.pending.remove(index);
            queue.runs = Some((pending.slot, pending.ticket));
            // Not under the lock: the function may take as long as it likes, and other threads
            // post meanwhile.
            drop(queue);
            let is_seen = !matches!(pending.function, HostFunction::Own(_));
            self.note_reached(connection, pending.mark.before(), is_seen);
            let status = result_code(self.health());
            // A panic that comes out of a program's function is the end of that function only.
            let _ = catch_unwind(AssertUnwindSafe(|| pending.function.run(status)));
            // Under the lock: another server may take the place of the one that asked for it.
            let mut queue = self.host_functions.queue.lock();
            queue.runs = None;
            self.note_reached(connection, pending.mark, is_seen);
            if let Some(word) = self.connection().region().host_call_slot(pending.slot) {
                word.store(pending.ticket | HOST_CALL_DONE);
                channel::wait::wake(word);
            }
            drop(queue);
            self.host_functions.done.notify_all();
        }
    }

    /// A stream has got past an operation at that connection's server: what is done there says nothing of what
    /// another server is to do again.
    fn note_reached(&self, connection: &'static Connection, mark: Mark, is_seen: bool) {
        let mut state = self.state();
        if core::ptr::eq(state.connection(), connection) && state.check_open().is_ok() {
            state.streams.reached(mark, is_seen);
        }
    }

    /// Prepares that a stream gets to a host function once more, at another server; false if the function has
    /// been run and need not be waited for. One that has begun is waited for, and not run again.
    pub(in crate::program) fn expect_host_function(&self, mark: Mark, request: HostFunc) -> bool {
        let HostFunc { slot, ticket, .. } = request;
        let mut queue = self.host_functions.queue.lock();
        if queue.pending.iter().any(|of| (of.slot, of.ticket) == (slot, ticket)) {
            return true;
        }
        let runs = queue.runs == Some((slot, ticket));
        if runs {
            queue.pending.push(Pending { slot, ticket, mark, function: HostFunction::Begun });
        }
        runs
    }

    /// Forgets functions that the server did not take: their streams went on without them.
    fn forget_refused_host_functions(&self) {
        let mut queue = self.host_functions.queue.lock();
        let mut state = self.state();
        queue.pending.retain(|pending| !state.passed(pending.mark));
    }

    /// Gives the error to callbacks that will never be asked for, as CUDA does; functions of
    /// cuLaunchHostFunc are not run after an error.
    fn abandon_host_functions(&self) {
        let status = result_code(self.health());
        let pending = core::mem::take(&mut self.host_functions.queue.lock().pending);
        for Pending { function, .. } in pending {
            if matches!(function, HostFunction::Callback { .. }) {
                let _ = catch_unwind(AssertUnwindSafe(|| function.run(status)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_once_and_tickets_stay_in_range() {
        let mut queue = Queue::default();
        let mut taken: Vec<u32> = (0..HOST_CALL_SLOTS).map(|_| queue.take().unwrap().0).collect();
        assert_eq!(queue.take(), None);
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), HOST_CALL_SLOTS as usize);
        let mark = Mark { slot: 1, value: 5 };
        queue.in_use.push((7, mark));
        queue.reclaim(|_| false);
        assert_eq!(queue.take(), None);
        queue.reclaim(|m| m == mark);
        queue.ticket = HOST_CALL_DONE - 1;
        assert_eq!(queue.take(), Some((7, 1)));
    }
}
