//! Device time of a shape's launches, as it is reported: a sum that never falls.
//!
//! What a launch takes on the average is known better and better, so launches times the present mean
//! would rescale all past time, and readers would see a counter fall or jump. Here launches count once, with
//! the mean of the time when they are reported first.

use locks::Mutex;

/// Launches so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launches {
    /// By themselves.
    pub alone: u64,
    /// By graphs.
    pub in_graphs: u64,
}

/// Which of a shape's launches have time of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Those by themselves; not so a graph's as a whole where its kernels are timed each.
    pub alone: bool,
    /// Those by graphs; not so where the graph as a whole is timed.
    pub in_graphs: bool,
}

/// Time that has been reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// From start to end of each launch, ns.
    pub device_ns: u64,
    /// SM * ns.
    pub sm_active_ns: u64,
    /// Warp * ns.
    pub warp_ns: u64,
}

/// What one launch takes and has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    /// Its time, ns; `None` if it is not known yet.
    pub device_ns: Option<f64>,
    /// SMs on which it has blocks.
    pub sms: f64,
    /// Warps that it has there.
    pub warps: f64,
}

/// Of one shape.
#[derive(Debug, Default)]
pub struct DeviceTime(Mutex<(Launches, Reported)>);

impl DeviceTime {
    /// Adds the time of launches since the last call, and says all. Launches whose time is not known are added
    /// once it is.
    pub fn report(&self, now: Launches, counted: Counted, mean: Mean) -> Reported {
        let mut state = self.0.lock();
        let (before, reported) = &mut *state;
        let mut more = 0;
        let parts = [
            (&mut before.alone, now.alone, counted.alone),
            (&mut before.in_graphs, now.in_graphs, counted.in_graphs),
        ];
        for (before, now, is_counted) in parts {
            if is_counted && mean.device_ns.is_none() {
                continue;
            }
            more += if is_counted { now.saturating_sub(*before) } else { 0 };
            *before = now.max(*before);
        }
        let device_ns = mean.device_ns.unwrap_or(0.0) * more as f64;
        reported.device_ns += device_ns as u64;
        reported.sm_active_ns += (device_ns * mean.sms) as u64;
        reported.warp_ns += (device_ns * mean.warps) as u64;
        *reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Counted = Counted { alone: true, in_graphs: false };

    fn mean(device_ns: impl Into<Option<f64>>) -> Mean {
        Mean { device_ns: device_ns.into(), sms: 2.0, warps: 4.0 }
    }

    #[test]
    fn a_better_mean_counts_for_later_launches_only() {
        let (time, launches) =
            (DeviceTime::default(), |alone| Launches { alone, ..Launches::default() });
        assert_eq!(time.report(launches(10), ALONE, mean(None)), Reported::default());
        let reported = time.report(launches(1000), ALONE, mean(900.0));
        assert_eq!(
            (reported.device_ns, reported.sm_active_ns, reported.warp_ns),
            (900_000, 1_800_000, 3_600_000)
        );
        assert_eq!(time.report(launches(1000), ALONE, mean(500.0)), reported);
        assert_eq!(time.report(launches(1100), ALONE, mean(500.0)).device_ns, 950_000);
        assert_eq!(time.report(launches(1100), ALONE, mean(5000.0)).device_ns, 950_000);
    }

    #[test]
    fn launches_that_count_elsewhere_are_not_added_later() {
        let time = DeviceTime::default();
        let launches = |alone, in_graphs| Launches { alone, in_graphs };
        // Their graph is timed as a whole.
        time.report(launches(0, 50), ALONE, mean(None));
        let each = Counted { alone: true, in_graphs: true };
        assert_eq!(time.report(launches(1, 53), each, mean(10.0)).device_ns, 40);
        // A graph as a whole whose kernels are timed each.
        let none = Counted::default();
        assert_eq!(time.report(launches(9, 53), none, mean(10.0)).device_ns, 40);
        assert_eq!(time.report(launches(10, 53), each, mean(10.0)).device_ns, 50);
    }
}
