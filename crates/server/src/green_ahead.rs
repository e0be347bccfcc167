//! Green contexts ahead: for the SMs of which clients they will be needed.
//!
//! Making one waits for all work of the context, and for as long no client launches. So a thread
//! (`after_start.rs`) makes them at the server's start and in quiescent points later: for the shares
//! that clients get and those that the last ones had, where the next clients' SMs will be, and for the floor of
//! latency-critical work. A client that comes before there was such a quiescent point has to wait for one itself.

use crate::device::{Device, KEPT_GREEN_CONTEXTS_MAX, SmPlaces};
use locks::{Condvar, Mutex, MutexGuard};
use std::ops::Range;

/// Shares that are expected at a time.
const SHARES_MAX: usize = 3;
/// Clients of one share that are expected to come next.
const CLIENTS_MAX: usize = 4;
/// Most that are made ahead. Fewer than are kept, so that none of them ends for another one.
const AHEAD_MAX: usize = 12;
const _: () = assert!(AHEAD_MAX < KEPT_GREEN_CONTEXTS_MAX);

#[derive(Debug, Default)]
struct State {
    /// Numbers of SMs that clients to come will have, the last one that was heard of first.
    shares: Vec<u32>,
    /// Grows with what may change the green contexts that are wanted.
    version: u64,
}

/// What is known of clients to come.
#[derive(Debug, Default)]
pub struct GreenAhead {
    state: Mutex<State>,
    changed: Condvar,
}

impl GreenAhead {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Clients to come will have so many SMs.
    pub fn expect(&self, sms: u32) {
        let mut state = self.state();
        state.shares.retain(|of| *of != sms);
        state.shares.insert(0, sms);
        state.shares.truncate(SHARES_MAX);
        drop(state);
        self.look_again();
    }

    /// What is wanted may have changed, or the server ends.
    pub fn look_again(&self) {
        self.state().version += 1;
        self.changed.notify_all();
    }

    /// Waits until what is wanted may be something else than at `seen`. Returns what to say next time.
    pub fn wait(&self, seen: u64) -> u64 {
        let same = |state: &mut State| state.version == seen;
        let waited = self.changed.wait_while(self.state(), same);
        waited.version
    }

    /// SMs of the green contexts that clients to come will need, the next one's first; `floor_sms` are kept
    /// free for latency-critical work.
    pub fn wanted(&self, device: &Device, places: &SmPlaces, floor_sms: u32) -> Vec<Range<u32>> {
        let mut shares = vec![None];
        for sms in self.state().shares.iter().filter(|sms| **sms < device.sms()) {
            shares.extend(places.next(*sms, CLIENTS_MAX).into_iter().map(Some));
        }
        let floors = if floor_sms > 0 { vec![floor_sms, 0] } else { vec![0] };
        let mut wanted: Vec<Range<u32>> = Vec::new();
        for free_sms in floors {
            for sms in shares.iter().filter_map(|of| device.sms_of_streams(of.clone(), free_sms)) {
                if !wanted.contains(&sms) {
                    wanted.push(sms);
                }
            }
        }
        wanted.truncate(AHEAD_MAX);
        wanted
    }
}
