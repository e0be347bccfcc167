//! The scheduler's promises, with kernels that are closures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::device::memory::AllocationKind;
use crate::device::stream::Op;
use crate::device::stream::ops::StreamSpec;
use crate::error::Error;
use crate::testing::{TestDevice, launch, thread_id, wait_until_asleep};
use simt::kernel::{Outcome, Worker};

mod blocks;
mod priorities;
mod streams;
mod tenants;
mod transfers;

/// A closure body that counts its blocks.
fn count(
    counter: &Arc<AtomicU32>,
) -> impl Fn(&mut Worker<'_>, simt::kernel::Dim3, u64) -> Outcome + use<> {
    let counter = counter.clone();
    move |_, _, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        Outcome::Finished
    }
}

/// A body that goes on until the word is not 0, giving way when asked.
fn spin_until(
    flag: &Arc<AtomicU32>,
) -> impl Fn(&mut Worker<'_>, simt::kernel::Dim3, u64) -> Outcome + use<> {
    let flag = flag.clone();
    move |worker, _, _| {
        while flag.load(Ordering::Acquire) == 0 {
            if worker.control.yield_requested() {
                return Outcome::Yielded;
            }
            std::hint::spin_loop();
        }
        Outcome::Finished
    }
}
