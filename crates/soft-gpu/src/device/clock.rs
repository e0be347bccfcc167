//! The device's clock.

use rustix::time::{ClockId, clock_gettime};

/// Time since boot in nanoseconds, never 0; what event times and activity are measured with.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64).max(1)
}
