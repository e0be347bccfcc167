//! Copies of pageable memory by graphs: over a shadow in pinned memory.
//!
//! The device does not reach pageable memory, and CUDA has a graph's copy look at it when it runs,
//! not when it is launched. So such a copy has a shadow in pinned memory: the device copies
//! between itself and the shadow, a host function in the same order between the shadow and the
//! program's memory.
//!
//! A graph may go while launches of it are to come. Its copies leave then, and are ended by a thread of the
//! program when nothing uses them any more: the thread that runs host functions never has the last one, and
//! nothing waits.

use crate::lock::{Lock, Rank};
use crate::memory::HostKind;
use crate::memory::address::{Side, copy_here};
use crate::program::Client;
use crate::program::memory::copy3d::Rows;
use crate::program::streams::host_functions::OwnFunction;
use core::sync::atomic::{AtomicBool, Ordering};
use cuda_api::CudaError;
use recovery::Mark;
use std::sync::Arc;

/// Pinned memory that stands for the program's in the device's copies.
pub(crate) struct Shadow {
    client: &'static Client,
    pub(crate) address: u64,
}

impl Shadow {
    pub(crate) fn new(client: &'static Client, bytes: u64) -> Result<Self, CudaError> {
        let context = client.contexts().current()?;
        let address = client.allocate_pinned(context, bytes, 0, HostKind::Pinned)?;
        Ok(Self { client, address })
    }

    /// The shadow as an end of a copy, without gaps.
    pub(crate) fn rows(&self, extent: [u64; 3]) -> Rows {
        Rows { address: self.address, pitch: extent[0], rows: extent[1], side: Side::Pinned }
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        self.client.free_unused_pinned(self.address);
    }
}

/// A copy within this process' memory that a stream runs.
pub(crate) struct HostCopy {
    pub(crate) destination: Rows,
    pub(crate) source: Rows,
    /// Bytes of a row, rows of a slice, slices.
    pub(crate) extent: [u64; 3],
    /// The shadow that one of the ends is, kept while launches may come to the copy.
    pub(crate) _shadow: Option<Arc<Shadow>>,
}

impl OwnFunction for HostCopy {
    fn run(&self) {
        let [width, height, depth] = self.extent;
        for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
            copy_here(self.destination.at([0, y, z]), self.source.at([0, y, z]), width);
        }
    }
}

impl HostCopy {
    /// Keeps a copy of a graph that is gone until the launch that ends with `end` has passed.
    pub(crate) fn leave(self: Arc<Self>, client: &'static Client, end: Option<Mark>) {
        LEAVING.lock().push(Leaving { client, end, copy: self });
        SOME_LEAVE.store(true, Ordering::Release);
    }
}

/// A copy of a graph that is gone.
struct Leaving {
    client: &'static Client,
    /// The end of the graph's last launch.
    end: Option<Mark>,
    copy: Arc<HostCopy>,
}

static LEAVING: Lock<Vec<Leaving>> = Lock::new(Rank::Leaf, Vec::new());
/// False if there is none.
static SOME_LEAVE: AtomicBool = AtomicBool::new(false);

impl Leaving {
    /// True if no launch comes to the copy or to its shadow any more.
    fn is_unused(&self) -> bool {
        let has_passed = |end| {
            let mut state = self.client.state();
            state.passed(end) || {
                // Without a fence it says so later.
                let _ = state.fence_if_room(end);
                false
            }
        };
        Arc::strong_count(&self.copy) == 1 && self.end.is_none_or(has_passed)
    }
}

/// Ends the copies that have left and are not used any more. Waits for nothing.
#[inline]
pub(crate) fn end_unused() {
    if SOME_LEAVE.load(Ordering::Acquire) {
        look_for_unused();
    }
}

#[cold]
fn look_for_unused() {
    let all = core::mem::take(&mut *LEAVING.lock());
    let (unused, used): (Vec<_>, Vec<_>) = all.into_iter().partition(Leaving::is_unused);
    let mut leaving = LEAVING.lock();
    leaving.extend(used);
    SOME_LEAVE.store(!leaving.is_empty(), Ordering::Release);
    drop(leaving);
    // Without the lock: the memory's is taken for it.
    drop(unused);
}
