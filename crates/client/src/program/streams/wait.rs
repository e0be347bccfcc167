//! Synchronisation: waits for work, and what is reported when it is done.

use crate::connection::{SERVER_GONE, answered};
use crate::program::Client;
use crate::program::launch::submission::wire_stream;
use crate::program::recovery::reported::Reports;
use crate::stream::table::LEGACY;
use channel::request::{Notify, PrintfDrain};
use channel::signals::Uncancellable;
use channel::wait::{SpinPolicy, wait_until_reached};
use core::sync::atomic::Ordering;
use cuda_api::extension::standard;
use cuda_api::handle::Handle;
use cuda_api::{CUresult, CudaError};
use recovery::Mark;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Pieces of device printf fetched at one synchronisation: 64 MiB, more than any printf buffer
/// holds; what comes beyond is a server that does not end.
const PRINTF_PIECES_MAX: usize = 1024;

/// For how long a stream that has as many launches in flight as may be is taken to make progress although it does not.
const AHEAD_PATIENCE: Duration = Duration::from_millis(2);

/// How fast a copy between device and host is taken to be, to wait for it as drivers do: awake.
/// PCI Express of generation 4 has 25 GB/s, of generation 5 twice that.
const COPY_BYTES_PER_US: u64 = 25_000;

impl Client {
    /// Waits until an operation has passed.
    ///
    /// # Errors
    /// The sticky error, or that the server is gone: only if the operation will not pass.
    pub(crate) fn wait_for(&self, mark: Mark) -> CUresult {
        self.wait_with(mark, self.connection().policy())?;
        self.state().streams.waited_for(mark);
        Ok(())
    }

    /// As [`Self::wait_for`], for something that the program does not know of: it has not seen that
    /// the operation is done.
    pub(crate) fn wait_unseen(&self, mark: Mark) -> CUresult {
        self.wait_with(mark, self.connection().policy())
    }

    /// Waits for a stream of which as many launches are in flight as may be, until another one may be posted. One
    /// that makes no progress is let have more.
    pub(crate) fn wait_to_launch(&self, mark: Mark) -> CUresult {
        let policy = self.connection().policy();
        match self.wait_at_most(mark, policy, Some(AHEAD_PATIENCE)) {
            Err(CudaError::NOT_READY) => {}
            waited => return waited,
        }
        let goes_further = self.state().streams.let_further(mark);
        if goes_further { Ok(()) } else { self.wait_unseen(mark) }
    }

    fn wait_with(&self, mark: Mark, policy: SpinPolicy) -> CUresult {
        self.wait_at_most(mark, policy, None)
    }

    /// Waits until an operation has passed, for at most about so long if that is said: CUDA_ERROR_NOT_READY.
    fn wait_at_most(&self, mark: Mark, policy: SpinPolicy, most: Option<Duration>) -> CUresult {
        let _whole = Uncancellable::begin();
        // Another thread may put another connection in the place of this one at any time. The work
        // that is waited for, the server that is asked and the server whose end ends the wait are
        // of the same one.
        let (connection, expected) = {
            if self.state().passed(mark) {
                return Ok(());
            }
            let mut state = self.posting()?;
            state.fence(mark)?;
            (state.connection(), state.streams.last_wait(mark.slot))
        };
        let word = connection.region().completion_word(mark.slot).ok_or(CudaError::UNKNOWN)?;
        let value = mark.value as u32;
        let policy = connection.region().client_policy(policy);
        let liveness = most.map_or(policy.liveness, |most| most.min(policy.liveness));
        let policy = SpinPolicy { liveness, ..policy };
        // A wait without a bound reads no clock.
        let end = most.map(|most| Instant::now() + most);
        let wait = || {
            wait_until_reached(
                word,
                value,
                policy,
                expected,
                || {
                    if connection.is_woken_by_device() {
                        return Ok(());
                    }
                    let mut state = self.posting_of(connection)?;
                    let stream = state.streams.handle_in(mark.slot);
                    // A stream that is destroyed was asked to notify when that happened.
                    if stream != LEGACY && state.streams.get(stream).is_none() {
                        return Ok(());
                    }
                    state.push(&Notify { stream: wire_stream(stream), value })
                },
                || {
                    connection.health_of_wait()?;
                    if end.is_some_and(|end| Instant::now() >= end) {
                        return Err(CudaError::NOT_READY);
                    }
                    // This device's work may wait for that of another one, whose server no other thread asks.
                    match self.program.has_several()
                        && self.others().any(|o| o.connection().is_lost())
                    {
                        true => Err(SERVER_GONE),
                        false => Ok(()),
                    }
                },
            )
        };
        let waited = answered::counted_work(wait)?;
        if !waited.is_zero() {
            self.state().streams.waited(mark.slot, waited);
        }
        Ok(())
    }

    /// What a synchronising call does when the work it waited for is done: memory that was freed in
    /// streams' order goes back, what was printed goes to standard output, then an error is reported
    /// that was not reported yet.
    pub(crate) fn report(&self) -> CUresult {
        self.give_back_freed();
        self.drain_printf();
        self.report_error(Reports::Once)
    }

    /// Waits until everything posted to a stream so far is done, and reports.
    pub(crate) fn synchronize(&self, stream: Handle) -> CUresult {
        self.synchronize_with(stream, self.connection().policy())
    }

    /// As [`Self::synchronize`], behind a copy between device and host of that many bytes.
    pub(crate) fn synchronize_copy(&self, stream: Handle, bytes: u64) -> CUresult {
        let expected = Duration::from_micros(bytes / COPY_BYTES_PER_US);
        self.synchronize_with(stream, self.connection().policy().expecting(expected))
    }

    fn synchronize_with(&self, stream: Handle, policy: SpinPolicy) -> CUresult {
        let (last, before) = {
            let mut state = self.posting()?;
            let last = state.fence_all_of(stream)?;
            (last, state.streams.ends_before(last.slot))
        };
        let waited = self.wait_with(last, policy);
        if waited.is_ok() {
            let mut state = self.state();
            state.streams.waited_for(last);
            before.into_iter().for_each(|mark| state.streams.waited_for(mark));
        }
        self.report()?;
        waited
    }

    /// Waits until everything posted so far is done, and reports.
    pub(crate) fn synchronize_all(&self) -> CUresult {
        let waited = self.wait_for_everything();
        self.report()?;
        waited
    }

    /// Waits until everything posted so far is done, and leaves what went wrong to other calls.
    pub(crate) fn finish_everything(&self) {
        let _ = self.wait_for_everything();
        self.drain_printf();
    }

    /// Waits until everything posted so far is done.
    pub(crate) fn wait_for_everything(&self) -> CUresult {
        let all = self.wait_for_everything_unseen()?;
        self.state().streams.waited_for_all(&all);
        Ok(())
    }

    /// As [`Self::wait_for_everything`], where the program has not seen that it is done. Gives the end of each
    /// stream up to which that is.
    pub(crate) fn wait_for_everything_unseen(&self) -> Result<Vec<Mark>, CudaError> {
        let (busy, all) = {
            let mut state = self.posting()?;
            let marks: Vec<Mark> = state
                .streams
                .busy(self.connection().region())
                .into_iter()
                .map(|slot| state.streams.last(slot))
                .collect();
            // All fences first, so that the waits overlap.
            for mark in &marks {
                state.make_room()?;
                state.fence(*mark)?;
            }
            (marks, state.streams.ends())
        };
        busy.into_iter().try_for_each(|mark| self.wait_with(mark, self.connection().policy()))?;
        Ok(all)
    }

    /// True if everything posted to a stream so far is done; reports if so.
    pub(crate) fn is_idle(&self, stream: Handle) -> Result<bool, CudaError> {
        // Nothing here waits, for room in the ring neither: without a fence the answer is that it is not idle.
        let mut state = self.state();
        let last = state.end_of(stream);
        let idle = state.passed(last);
        if !idle {
            state.fence_if_room(last)?;
            if state.looks_at_server() {
                state.connection().health_of_wait()?;
            }
        }
        if idle {
            state.streams.waited_for(last);
            let before = state.streams.ends_before(last.slot);
            before.into_iter().for_each(|mark| state.streams.waited_for(mark));
        }
        drop(state);
        match idle {
            // What was printed waits for a call that waits for work, as with a driver.
            true => self.report_error(Reports::AndLeaves).map(|()| true),
            false => self.health().map(|()| false),
        }
    }

    /// A call failed: writes what failed assertions say to standard error, if it is that.
    #[cold]
    pub(crate) fn show_assertions(&self, error: CudaError) {
        if error != CudaError::ASSERT || self.asserted.swap(true, Ordering::AcqRel) {
            return;
        }
        for _ in 0..PRINTF_PIECES_MAX {
            match self.call_after_fault(&PrintfDrain { standard: standard::ERROR }) {
                Ok(text) if !text.bytes.is_empty() => {
                    write_to(rustix::stdio::stderr(), &text.bytes);
                }
                _ => break,
            }
        }
    }

    /// Writes what kernels printed since the last time to standard output.
    fn drain_printf(&self) {
        if !self.prints.load(Ordering::Acquire) {
            return;
        }
        {
            let mut state = self.state();
            if !state.launched {
                return;
            }
            // What still runs may print later.
            state.launched = !state.streams.busy(self.connection().region()).is_empty();
        }
        for _ in 0..PRINTF_PIECES_MAX {
            // An error is found again by the caller that asked for the synchronisation.
            match self.call(&PrintfDrain { standard: standard::OUTPUT }) {
                Ok(text) if !text.bytes.is_empty() => {
                    write_to(rustix::stdio::stdout(), &text.bytes)
                }
                _ => break,
            }
        }
    }
}

/// Writes bytes to the program's standard output or error, as a driver does.
fn write_to(file: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(n) => bytes = &bytes[n.min(bytes.len())..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => std::thread::sleep(std::time::Duration::from_millis(1)),
            // Standard output cannot be written: what the kernels print is lost, as it would be with
            // printf.
            Err(_) => return,
        }
    }
}
